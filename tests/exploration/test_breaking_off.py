"""Whatever breaks an episode off, what was seen of it is counted, and whose fault it was is decided once."""

import dataclasses

import gymnasium
import numpy as np
import pytest

import safe2real as s2r
from safe2real.errors import InvalidInput, OutsideModel
from safe2real.exploration import explore
from safe2real.exploration.explore import MISWIRED, Environment, Unfinished
from safe2real.model.environment_seeds import EnvironmentSeeds
from safe2real.standing import AssumptionCode, DoubtCode, Standing
from tests.evidence.small_learners import stay


class Line(gymnasium.Env):
    """Steps to the right on a line of four states. At step `at` (-1: at the reset) it raises or answers `does` instead."""

    observation_space, action_space = gymnasium.spaces.Discrete(4), gymnasium.spaces.Discrete(1)

    def __init__(self, at=99, does=None, info=lambda step: {}):
        self.at, self.does, self.info, self.steps = at, does, info, 0

    def answered(self, usual):
        if isinstance(self.does, BaseException):
            raise self.does
        return usual if self.does is None else self.does

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self.answered((0, {})) if self.at < 0 else (0, {})

    def step(self, action):
        self.steps += 1
        usual = min(self.steps, 3), 0.0, False, False, self.info(self.steps)
        return self.answered(usual) if self.steps == self.at + 1 else usual


def line_learner() -> s2r.Learner:
    table = np.zeros((4, 1, 4))
    for s in range(4):
        table[s, 0, min(s + 1, 3)] = 1.0
    model = s2r.CMDP.of(s2r.Kernel.from_dense(table), 5, 0, s2r.AtLeast(np.ones((4, 1)), 4.0))
    settings = s2r.Settings(margin=1.0, calibrated_gap=0.0, mismatch_gap=0.5, tolerance=0.25)
    return s2r.Learner(s2r.Problem(model, stay(5, 4, 1), settings))


def shown(state):
    return state, 0.0, False, False, {}


@pytest.mark.parametrize(
    ("at", "does", "faults", "raised", "visits", "recorded"),
    [
        (3, RuntimeError("the gripper fell off"), (), RuntimeError, [1, 1, 1, 0], None),
        (3, ZeroDivisionError(), (), ZeroDivisionError, [1, 1, 1, 0], None),
        (3, SystemExit(1), (), SystemExit, [1, 1, 1, 0], None),
        (-1, RuntimeError(), (), RuntimeError, [0, 0, 0, 0], None),
        (0, shown(17), (), OutsideModel, [0, 0, 0, 0], None),
        (0, shown(17), (ValueError,), OutsideModel, [0, 0, 0, 0], None),  # leaving the model is never a fault
        (2, ConnectionError(), (OSError,), ConnectionError, [1, 1, 0, 0], "ConnectionError"),
        (2, KeyboardInterrupt(), (), KeyboardInterrupt, [1, 1, 0, 0], "KeyboardInterrupt"),
    ],
)
def test_what_was_seen_is_counted_and_refutes_unless_it_was_a_fault(at, does, faults, raised, visits, recorded):
    learner = line_learner()
    with pytest.raises(raised) as caught:
        explore(learner, Line(at, does), max_rounds=5, faults=faults)
    assert learner.evidence.counts.visits[:, 0].tolist() == visits
    assert learner.round == 2
    if recorded is None:
        assert learner.standing is Standing.REFUTED
        assert learner.doubts()[0].code is DoubtCode.LEFT_MODEL
        assert learner.propose().reason is s2r.methods.Reason.BASELINE
        if raised is not OutsideModel:
            assert f"{raised.__name__}: {does}" in learner.doubts()[0].text
            assert "this learner certifies nothing any more" in caught.value.__notes__[0]
    else:
        assert learner.standing is Standing.CERTIFIED
        assumed = [one for one in learner.propose().certificate.assumptions if one.code is AssumptionCode.FAULTS]
        assert [one.subject for one in assumed] == [recorded]


def test_kept_episodes_can_be_counted_by_another_learner_also_what_was_seen_of_a_broken_one():
    learner, kept = line_learner(), []
    explore(learner, Line(), max_rounds=3, keep=kept)
    with pytest.raises(RuntimeError):
        explore(learner, Line(2, RuntimeError()), max_rounds=3, keep=kept)
    assert [episode.length for _, episode in kept] == [5, 5, 5, 2]
    other = line_learner()
    for policy, episode in kept:
        other.import_episodes(policy, [episode], partial=True, overlap="count")
    assert other.evidence.counts.visits.tolist() == learner.evidence.counts.visits.tolist()
    assert (other.standing, learner.standing) == (Standing.CERTIFIED, Standing.REFUTED)


# Wiring

NUMBERS = r"showed .*; a state is a whole number: .* system\.as_env"


@pytest.mark.parametrize(
    ("at", "does", "said"),
    [
        (-1, (("wet", 0), {}), rf"env\.reset {NUMBERS}"),
        (-1, ("state 0", {}), rf"env\.reset {NUMBERS}"),
        (-1, (None, {}), rf"env\.reset {NUMBERS}"),
        (-1, (np.array([0, 0]), {}), rf"env\.reset {NUMBERS}"),
        (-1, (2, {}), r"state 2; episodes of the model start in \[0\]\. .* nothing is counted"),
        (-1, 0, r"env\.reset gave 0; an environment of Gymnasium gives 2 things"),
        (0, shown(1.7), rf"env\.step {NUMBERS}"),
        (0, (1, 0.0, False, {}), r"env\.step gave .* gives 5 things"),
        (2, (1, 0.0, False, True, {}), r"cut the episode off after 3 steps, before the horizon of 5; .* nothing is counted"),
    ],
)
def test_the_first_episode_tries_the_wiring_and_a_slip_can_be_mended(at, does, said):
    learner = line_learner()
    with pytest.raises(InvalidInput, match=said):
        explore(learner, Line(at, does), max_rounds=5)
    assert (learner.samples, learner.doubts(), learner.evidence.faults) == (0, (), {})
    assert learner.round == (1 if at < 0 else 2)  # once begun, an episode used up its coin
    explore(learner, Line(), max_rounds=2)
    assert (learner.standing, learner.evidence.counts.episodes) == (Standing.CERTIFIED, 2)


@pytest.mark.parametrize(
    ("at", "does", "faults"), [(0, shown(1.7), {MISWIRED: 1}), (0, (1, 0.0, False, {}), {MISWIRED: 1}), (-1, (2, {}), None)]
)
def test_later_a_slip_in_the_first_step_is_a_fault_and_a_start_elsewhere_refutes(at, does, faults):
    learner = line_learner()
    explore(learner, Line(), max_rounds=1)
    for number in range(1, 4):
        with pytest.raises(InvalidInput if faults else OutsideModel):
            explore(learner, Line(at, does), max_rounds=1)
        if faults:
            assert learner.evidence.faults == {MISWIRED: number}
    assert learner.round == 5
    assert learner.standing is (Standing.CERTIFIED if faults else Standing.REFUTED)
    if not faults:
        assert "3 episodes broke off" in learner.doubts()[0].text
        assert "env.reset showed state 2" in learner.doubts()[0].text


def test_a_step_limit_below_the_horizon_can_be_mended_before_the_first_episode_and_is_a_fault_later():
    def made(limit):
        return system.as_env(gymnasium.make("FrozenLake-v1", is_slippery=False, max_episode_steps=limit))

    lake = gymnasium.make("FrozenLake-v1", is_slippery=False)
    system = s2r.from_gymnasium(lake, 9, s2r.SystemDescription(cost=np.zeros(16), limit=1.0, ended=0.0))
    model = system.model
    baseline = s2r.MarkovPolicy.deterministic(np.zeros(model.num_states, int), num_actions=4, horizon=model.steps)
    settings = s2r.Settings(margin=0.5, calibrated_gap=0.0, mismatch_gap=0.5, tolerance=0.125)
    learner = s2r.Learner(s2r.Problem(model, baseline, settings))
    for _ in range(3):
        with pytest.raises(InvalidInput, match=r"after 1 steps.*max_episode_steps=9 or more\. It was the first episode, so"):
            explore(learner, made(1), max_rounds=5)
    assert learner.round == 4  # each had a coin of its own: what is deployed is the mixture that was certified
    explore(learner, made(9), max_rounds=2)
    assert (learner.standing, learner.evidence.counts.episodes) == (Standing.CERTIFIED, 2)
    with pytest.raises(InvalidInput, match="after 1 steps"):
        explore(learner, made(1), max_rounds=5)
    assert (learner.standing, learner.evidence.faults) == (Standing.CERTIFIED, {"StepLimit": 1})


def test_an_environment_that_takes_no_seed_is_refused_before_it_is_reset():
    line, seedless = line_learner(), Line()
    seedless.reset = lambda: (0, {})
    for _ in range(2):  # before the first episode, and later
        with pytest.raises(InvalidInput, match=r"env\.reset cannot be called as reset\(seed=\.\.\.\)"):
            explore(line, seedless, max_rounds=5)
        explore(line, Line(), max_rounds=2)
    assert (line.standing, line.evidence.counts.episodes) == (Standing.CERTIFIED, 4)


def test_no_episode_of_a_policy_on_trial_is_dropped():
    """Its returns are bounded by its own episodes: leaving one out for what happened in it would bias their mean."""
    other = s2r.MarkovPolicy.deterministic(np.zeros(4, int), num_actions=1, horizon=5)
    learner = s2r.Learner(line_learner().problem, s2r.methods.Trial(other))
    with pytest.raises(InvalidInput, match=r"showed 1\.7"):
        explore(learner, Line(0, shown(1.7)), max_rounds=1)
    assert learner.evidence.faults == {MISWIRED: 1}


# Reported labels


def reporting_learner(labels=2):
    problem = line_learner().problem
    leads = [[[to, 0][:labels]] for to in (1, 2, 3, 3)]
    ties = s2r.problem.Ties(np.zeros((4, 1), int), leads, exact=True, reported=True)
    return s2r.Learner(dataclasses.replace(problem, ties=ties))


@pytest.mark.parametrize("info", [{}, {"nois": 0}, {"noise": "much"}, {"noise": None}, 3])
def test_a_report_that_is_missing_at_the_first_step_cuts_the_episode_short(info):
    learner = reporting_learner()
    learner.cut_short([0, 1], [0], "rain")  # so it is not the first episode
    with pytest.raises(InvalidInput, match=r"info\['noise'\] is .*, and the ties say that every step reports"):
        explore(learner, Line(info=lambda step: info), max_rounds=5)
    assert learner.evidence.counts.visits[:, 0].tolist() == [2, 0, 0, 0]  # it ran, so it is counted
    assert learner.standing is Standing.CERTIFIED
    certificate = learner.plan(np.ones((4, 1))).certificate
    assert [one.subject for one in certificate.assumptions if one.code is AssumptionCode.FAULTS] == ["rain", MISWIRED]
    assert learner.round == 3


def test_later_the_doubt_names_the_cause_and_the_message_what_follows():
    learner = reporting_learner()
    learner.cut_short([0, 1], [0], "rain")  # so it is not the first episode
    with pytest.raises(InvalidInput, match=r"info\['noise'\] is None.*this learner certifies nothing any more"):
        explore(learner, Line(info=lambda step: {"noise": 0} if step <= 2 else {}), max_rounds=5)
    assert learner.evidence.counts.visits[:, 0].tolist() == [2, 1, 0, 0]
    assert learner.standing is Standing.REFUTED
    (doubt,) = [one for one in learner.doubts() if one.code is DoubtCode.LEFT_MODEL]
    assert "1 episode broke off" in doubt.text
    assert "InvalidInput: info" in doubt.text
    learner.leave_model([0], [0])
    texts = [one.text for one in learner.doubts() if one.code is DoubtCode.LEFT_MODEL]
    assert texts[0] == "1 episode went where the model has no state"
    assert len(texts) == 2


def test_an_episode_whose_report_is_false_has_run_and_is_not_forgotten():
    learner = reporting_learner(labels=1)
    with pytest.raises(InvalidInput, match=r"labels run from 0 to 0.*this learner certifies nothing any more"):
        explore(learner, Line(info=lambda step: {"noise": 7}), max_rounds=5)
    assert learner.samples == 4  # all but the last one, which is refuted
    assert (learner.standing, learner.round) == (Standing.REFUTED, 2)


@pytest.mark.parametrize("ends", [True, False])
def test_labels_must_reach_to_the_horizon(ends):
    """A first episode that ends early has no labels for the rest of its steps, which is a mistake in the wiring."""

    class Ends:
        def reset(self, *, seed):
            return 0, {}

        def step(self, action):
            return 0, 0.0, ends, False, {"noise": 1}

    model = s2r.CMDP.of(s2r.Kernel.from_dense(np.eye(2)[:, None, :].repeat(2, axis=1)), 3, 0, [])
    policy = s2r.MarkovPolicy.uniform(horizon=3, num_states=2, num_actions=2)
    world = Environment(model, Ends(), EnvironmentSeeds(1), reported=True)
    if ends:
        with pytest.raises(InvalidInput, match="ended the episode after 1 steps, and the ties say that all 3"):
            world.run(policy, 1, Unfinished())
    else:
        assert world.run(policy, 1, Unfinished()).labels.tolist() == [1, 1, 1]
