"""Whatever breaks an episode off, what was seen of it is counted, and whose fault it was is decided once."""

import dataclasses

import gymnasium
import numpy as np
import pytest

import safe2real as s2r
from safe2real.errors import InvalidInput
from safe2real.exploration import explore
from safe2real.exploration.explore import MISWIRED, Environment, Unfinished
from safe2real.model.environment_seeds import EnvironmentSeeds
from safe2real.standing import AssumptionCode, DoubtCode, Standing
from tests.evidence.small_learners import stay


class Broken(gymnasium.Env):
    """Ten steps to the right on a line; raises what it is told to, at the step it is told to."""

    def __init__(self, model: s2r.CMDP, error: BaseException, at: int) -> None:
        self.observation_space = gymnasium.spaces.Discrete(model.num_states)
        self.action_space = gymnasium.spaces.Discrete(model.num_actions)
        self.error, self.at, self.steps = error, at, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        if self.at < 0:
            raise self.error
        return 0, {}

    def step(self, action):
        if self.steps == self.at:
            raise self.error
        self.steps += 1
        return min(self.steps, 3), 0.0, False, False, {}


def line_learner() -> s2r.Learner:
    table = np.zeros((4, 1, 4))
    for s in range(4):
        table[s, 0, min(s + 1, 3)] = 1.0
    model = s2r.CMDP.of(s2r.Kernel.from_dense(table), 5, 0, s2r.AtLeast(np.ones((4, 1)), 4.0))
    settings = s2r.Settings(margin=1.0, calibrated_gap=0.0, mismatch_gap=0.5, tolerance=0.25)
    return s2r.Learner(s2r.Problem(model, stay(5, 4, 1), settings))


def test_kept_episodes_can_be_counted_by_another_learner_also_what_was_seen_of_a_broken_one():
    learner, kept = line_learner(), []
    explore(learner, Broken(learner.simulator, RuntimeError(), 9), max_rounds=3, keep=kept)
    with pytest.raises(RuntimeError):
        explore(learner, Broken(learner.simulator, RuntimeError(), 2), max_rounds=3, keep=kept)
    assert [episode.length for _, episode in kept] == [5, 5, 5, 2]
    other = line_learner()
    for policy, episode in kept:
        other.import_episodes(policy, [episode], partial=True, overlap="count")
    assert other.evidence.counts.visits.tolist() == learner.evidence.counts.visits.tolist()
    assert (other.standing, learner.standing) == (Standing.CERTIFIED, Standing.REFUTED)


@pytest.mark.parametrize("error", [RuntimeError("the gripper fell off"), ZeroDivisionError(), SystemExit(1)])
def test_whatever_step_raises_what_was_seen_is_counted(error):
    learner = line_learner()
    with pytest.raises(type(error)) as caught:
        explore(learner, Broken(learner.simulator, error, 3), max_rounds=5)
    assert "this learner certifies nothing any more" in caught.value.__notes__[0]
    assert f"{type(error).__name__}: {error}" in learner.doubts()[0].text
    assert learner.evidence.counts.visits[:, 0].tolist() == [1, 1, 1, 0]
    assert learner.standing is Standing.REFUTED
    assert learner.doubts()[0].code is DoubtCode.LEFT_MODEL
    assert learner.propose().reason is s2r.methods.Reason.BASELINE
    assert learner.round == 2
    begun = line_learner()
    with pytest.raises(type(error)):
        explore(begun, Broken(begun.simulator, error, -1), max_rounds=5)
    assert begun.samples == 0
    assert begun.standing is Standing.REFUTED


@pytest.mark.parametrize(("error", "faults"), [(ConnectionError(), (OSError,)), (KeyboardInterrupt(), ())])
def test_a_fault_of_the_environment_cuts_an_episode_short_and_is_named_as_an_assumption(error, faults):
    learner = line_learner()
    with pytest.raises(type(error)):
        explore(learner, Broken(learner.simulator, error, 2), max_rounds=5, faults=faults)
    assert learner.evidence.counts.visits[:, 0].tolist() == [1, 1, 0, 0]
    assert learner.standing is Standing.CERTIFIED
    assumed = [one for one in learner.propose().certificate.assumptions if one.code is AssumptionCode.FAULTS]
    assert [one.subject for one in assumed] == [type(error).__name__]
    assert learner.round == 2


@pytest.mark.parametrize("faults", [(), (ValueError,)])  # InvalidInput is a ValueError
def test_an_environment_that_shows_a_state_the_model_has_not_is_outside_of_it(faults):
    learner = line_learner()
    env = Broken(learner.simulator, RuntimeError(), 99)
    env.step = lambda action: (17, 0.0, False, False, {})
    with pytest.raises(s2r.errors.OutsideModel, match="showed state 17; the model has 4 states"):
        explore(learner, env, max_rounds=1, faults=faults)
    assert learner.standing is Standing.REFUTED


def test_an_episode_that_begins_where_none_does_refutes():
    learner = line_learner()
    env = Broken(learner.simulator, RuntimeError(), 99)
    explore(learner, env, max_rounds=1)
    env.reset = lambda **_: (2, {})
    for _ in range(3):
        with pytest.raises(s2r.errors.OutsideModel, match=r"showed state 2; episodes of the model start in \[0\]"):
            explore(learner, env, max_rounds=1)
    assert learner.round == 5
    assert learner.standing is Standing.REFUTED
    assert "3 episodes broke off" in learner.doubts()[0].text
    assert "env.reset showed state 2" in learner.doubts()[0].text


# Wiring


class Reporting(Broken):
    """Never raises; says or shows what it is told to."""

    def __init__(self, model: s2r.CMDP, *, shows=int, info=None, from_step: int = 0) -> None:
        super().__init__(model, RuntimeError(), 99)
        self.shows, self.info, self.from_step = shows, {} if info is None else info, from_step

    def reset(self, *, seed=None, options=None):
        return self.shows(super().reset(seed=seed)[0]), {}

    def step(self, action):
        state, *others, _ = super().step(action)
        return state, *others, {"noise": 0} if self.steps <= self.from_step else self.info


def reporting_learner(labels: int = 1) -> s2r.Learner:
    problem = line_learner().problem
    leads = [[[to, 0][:labels]] for to in (1, 2, 3, 3)]
    ties = s2r.problem.Ties(np.zeros((4, 1), int), leads, exact=True, reported=True)
    return s2r.Learner(dataclasses.replace(problem, ties=ties))


@pytest.mark.parametrize(
    "shows", [lambda state: ("wet", state), str, lambda state: None, lambda state: np.array([state, state])]
)
def test_what_does_not_fit_at_the_first_reset_is_said_before_anything_is_counted(shows):
    learner = line_learner()
    if shows is str:
        shows = "state {}".format
    with pytest.raises(InvalidInput, match=r"env\.reset showed .*; a state is a whole number: .* system\.as_env"):
        explore(learner, Reporting(learner.simulator, shows=shows), max_rounds=5)
    assert (learner.round, learner.samples, learner.doubts()) == (1, 0, ())
    assert not learner.evidence.faults
    explore(learner, Reporting(learner.simulator), max_rounds=2)  # wired rightly, it goes on
    assert learner.standing is Standing.CERTIFIED


def lake():
    """Gymnasium's lake over 9 steps, and what explores it."""
    made = gymnasium.make("FrozenLake-v1", is_slippery=False)
    system = s2r.systems.from_gymnasium(made, 9, s2r.systems.SystemDescription(cost=np.zeros(16), limit=1.0, ended=0.0))
    baseline = s2r.MarkovPolicy.deterministic(
        np.zeros(system.model.num_states, int), num_actions=4, horizon=system.model.steps
    )
    settings = s2r.Settings(margin=0.5, calibrated_gap=0.0, mismatch_gap=0.5, tolerance=0.125)
    return s2r.Learner(s2r.Problem(system.model, baseline, settings)), system


def test_the_first_episode_tries_the_wiring_and_a_slip_can_be_mended():
    """A limit of steps, a start elsewhere, a state that is no whole number: before anything is counted nothing is lost."""
    learner, system = lake()
    short = gymnasium.make("FrozenLake-v1", is_slippery=False, max_episode_steps=1)
    for _ in range(3):
        with pytest.raises(
            InvalidInput, match=r"after 1 steps.*max_episode_steps=9 or more\. It was the first episode, so no"
        ):
            explore(learner, system.as_env(short), max_rounds=5)
    assert learner.round == 4  # each had a coin of its own: what is deployed is the mixture that was certified
    line = line_learner()
    elsewhere, half = Reporting(line.simulator, shows=lambda state: 2), Reporting(line.simulator)
    with pytest.raises(InvalidInput, match=r"state 2; episodes of the model start in \[0\]\. .* nothing is counted"):
        explore(line, elsewhere, max_rounds=5)
    half.step = lambda action: (1.7, 0.0, False, False, {})
    with pytest.raises(InvalidInput, match=r"env\.step showed 1\.7; a state is a whole number: .* system\.as_env"):
        explore(line, half, max_rounds=5)
    right = system.as_env(gymnasium.make("FrozenLake-v1", is_slippery=False, max_episode_steps=9))
    for one, env in ((learner, right), (line, Reporting(line.simulator))):
        assert (one.samples, one.doubts(), one.evidence.faults) == (0, (), {})
        explore(one, env, max_rounds=2)
        assert one.standing is Standing.CERTIFIED
        assert one.evidence.counts.episodes == 2
    with pytest.raises(InvalidInput, match="after 1 steps"):  # later it is a fault of the environment, and is named
        explore(learner, system.as_env(short), max_rounds=5)
    assert learner.standing is Standing.CERTIFIED
    assert learner.evidence.faults == {"StepLimit": 1}


def test_an_environment_that_takes_no_seed_is_refused_before_it_is_reset():
    line = line_learner()
    seedless = Reporting(line.simulator)
    seedless.reset = lambda: (0, {})
    for _ in range(2):  # before the first episode, and later
        with pytest.raises(InvalidInput, match=r"env\.reset cannot be called as reset\(seed=\.\.\.\)"):
            explore(line, seedless, max_rounds=5)
        explore(line, Reporting(line.simulator), max_rounds=2)
    assert (line.standing, line.evidence.counts.episodes) == (Standing.CERTIFIED, 4)


def test_no_episode_of_a_policy_on_trial_is_dropped():
    """Its returns are bounded by its own episodes: leaving one out for what happened in it would bias their mean."""
    problem = line_learner().problem
    other = s2r.MarkovPolicy.deterministic(np.zeros(4, int), num_actions=1, horizon=5)
    learner, env = s2r.Learner(problem, s2r.methods.Trial(other)), Reporting(problem.simulator)
    env.step = lambda action: (1.7, 0.0, False, False, {})
    with pytest.raises(InvalidInput, match=r"showed 1\.7"):
        explore(learner, env, max_rounds=1)
    assert learner.evidence.faults == {MISWIRED: 1}


def test_the_shape_of_what_reset_and_step_give_is_looked_at():
    learner = line_learner()
    env = Reporting(learner.simulator)
    env.reset = lambda **_: 0
    with pytest.raises(InvalidInput, match=r"env\.reset gave 0; an environment of Gymnasium gives 2 things"):
        explore(learner, env, max_rounds=1)
    assert learner.round == 1
    env = Reporting(learner.simulator)
    env.step = lambda action: (1, 0.0, False, {})
    explore(learner, Reporting(learner.simulator), max_rounds=1)
    with pytest.raises(InvalidInput, match=r"env\.step gave .* gives 5 things"):
        explore(learner, env, max_rounds=1)
    assert learner.evidence.faults == {MISWIRED: 1}


@pytest.mark.parametrize("info", [{}, {"nois": 0}, {"noise": "much"}, {"noise": None}, 3])
def test_a_report_that_is_missing_at_the_first_step_cuts_the_episode_short(info):
    learner = reporting_learner(labels=2)
    learner.cut_short([0, 1], [0], "rain")  # so it is not the first episode
    with pytest.raises(InvalidInput, match=r"info\['noise'\] is .*, and the ties say that every step reports"):
        explore(learner, Reporting(learner.simulator, info=info), max_rounds=5)
    assert learner.evidence.counts.visits[:, 0].tolist() == [2, 0, 0, 0]  # it ran, so it is counted
    assert learner.standing is Standing.CERTIFIED
    certificate = learner.plan(np.ones((4, 1))).certificate
    said = [one.subject for one in certificate.assumptions if one.code is AssumptionCode.FAULTS]
    assert said == ["rain", MISWIRED]
    assert learner.round == 3


def test_later_the_doubt_names_the_cause_and_the_message_what_follows():
    learner = reporting_learner(labels=2)
    learner.cut_short([0, 1], [0], "rain")  # so it is not the first episode
    with pytest.raises(InvalidInput, match=r"info\['noise'\] is None.*this learner certifies nothing any more"):
        explore(learner, Reporting(learner.simulator, from_step=2), max_rounds=5)
    assert learner.evidence.counts.visits[:, 0].tolist() == [2, 1, 0, 0]
    assert learner.standing is Standing.REFUTED
    (doubt,) = [one for one in learner.doubts() if one.code is DoubtCode.LEFT_MODEL]
    assert doubt.text.startswith(
        "1 episode broke off, and what came next is not known to be in the model: InvalidInput: info"
    )
    learner.leave_model([0], [0])
    texts = [one.text for one in learner.doubts() if one.code is DoubtCode.LEFT_MODEL]
    assert texts[0] == "1 episode went where the model has no state"
    assert len(texts) == 2


def test_an_episode_whose_report_is_false_has_run_and_is_not_forgotten():
    learner = reporting_learner()
    with pytest.raises(InvalidInput, match=r"labels run from 0 to 0.*this learner certifies nothing any more"):
        explore(learner, Reporting(learner.simulator, info={"noise": 7}), max_rounds=5)
    assert learner.samples == 4  # all but the last one, which is refuted
    assert learner.standing is Standing.REFUTED
    assert learner.round == 2


@pytest.mark.parametrize("ends", [True, False])
def test_labels_must_reach_to_the_horizon(ends):
    """A first episode that ends early has no labels for the rest of its steps, which is a mistake in the wiring."""

    class Ends:
        def reset(self, *, seed):
            return 0, {}

        def step(self, action):
            return 0, 0.0, ends, False, {"noise": 1}

    stays = s2r.Kernel.from_dense(np.eye(2)[:, None, :].repeat(2, axis=1))
    model = s2r.CMDP.of(stays, 3, 0, [])
    policy = s2r.MarkovPolicy.uniform(horizon=3, num_states=2, num_actions=2)
    world = Environment(model, Ends(), EnvironmentSeeds(1), reported=True)
    if ends:
        with pytest.raises(InvalidInput, match="ended the episode after 1 steps, and the ties say that all 3"):
            world.run(policy, 1, Unfinished())
    else:
        assert world.run(policy, 1, Unfinished()).labels.tolist() == [1, 1, 1]
