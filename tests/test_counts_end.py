"""A system that pays for the state its last action leads to: no fall is free, and no transition is invented for it."""

from __future__ import annotations

import itertools
from dataclasses import replace

import gymnasium
import numpy as np
import pytest

import safe2real as s2r
from safe2real.campaign import Campaign, carry_over
from safe2real.errors import InvalidInput, OutOfOrder
from safe2real.exploration import roll_out
from safe2real.methods.base import Reason
from safe2real.methods.sim_to_real import spans_of
from safe2real.model.policy import MarkovPolicy, carried_out, fitted
from safe2real.model.trajectory import Trajectory, utilities_along
from safe2real.planning.evaluate import constraint_values
from safe2real.problem.document import from_document, to_document
from safe2real.problem.problem import Problem
from safe2real.systems import from_gymnasium
from safe2real.systems.finite import SystemDescription

STEPS, STATES, ACTIONS = 3, 3, 2
BAD = 2  # entering it costs 1; nothing is paid for leaving


def cliff(counts_end: bool = True, limit: float = 0.4) -> s2r.CMDP:
    """Action 1 earns and may enter BAD, action 0 does neither; from BAD every action leads back."""
    rows = np.zeros((STATES, ACTIONS, STATES))
    rows[0, 0], rows[1, 0] = [0.7, 0.3, 0.0], [0.4, 0.6, 0.0]
    rows[0, 1], rows[1, 1] = [0.2, 0.3, 0.5], [0.1, 0.1, 0.8]
    rows[BAD, :, 0] = 1.0
    cost = (np.arange(STATES) == BAD).astype(float)
    return s2r.CMDP.of(s2r.Kernel.from_dense(rows), STEPS, 0, s2r.AtMost(cost, limit, "falls"), counts_end=counts_end)


REWARD = np.array([[0.0, 1.0], [0.0, 0.9], [0.0, 0.0]])


def enumerated(model: s2r.CMDP, policy: MarkovPolicy) -> tuple[float, float]:
    """(expected arrivals in BAD, expected reward) over STEPS actions, by every path there is."""
    dense = np.zeros((STATES, ACTIONS, STATES))
    for row in range(STATES * ACTIONS):
        successors, probabilities = model.kernel.row(row)
        dense[row // ACTIONS, row % ACTIONS, successors] = probabilities
    falls = worth = 0.0
    for path in itertools.product(range(STATES), range(ACTIONS), repeat=STEPS):
        states, actions = (0, *path[0::2]), path[1::2]
        chance = 1.0
        for h in range(STEPS):
            chance *= policy.probabilities[h, states[h], actions[h]] * dense[states[h], actions[h], states[h + 1]]
        falls += chance * sum(state == BAD for state in states)
        worth += chance * sum(REWARD[states[h], actions[h]] for h in range(STEPS))
    return falls, worth


def test_plans_are_the_best_among_those_that_pay_for_every_arrival() -> None:
    model = cliff()
    solution = s2r.solve(model, REWARD)
    weights, parts = solution.policy.weights, solution.policy.policies
    falls, worth = np.einsum("i,ij->j", weights, [enumerated(model, carried_out(part, model)) for part in parts])
    assert falls == pytest.approx(0.4)
    assert worth == pytest.approx(solution.value)
    assert model.wordings[0].number(solution.constraint_values[0]) == pytest.approx(falls)
    # The best feasible mixture of two policies, by trying them all.
    tables = itertools.product(range(ACTIONS), repeat=STEPS * STATES)
    points = {enumerated(model, MarkovPolicy.deterministic(np.reshape(one, (STEPS, STATES)), num_actions=ACTIONS))
              for one in tables}  # fmt: skip
    inside = [point for point in points if point[0] <= 0.4]
    outside = [point for point in points if point[0] > 0.4]
    best = max(point[1] for point in inside)
    for (less, low), (more, high) in itertools.product(inside, outside):
        best = max(best, low + (high - low) * (0.4 - less) / (more - less))
    assert worth == pytest.approx(best)
    # Without the end the last fall is free, and the plan takes it.
    free = s2r.solve(cliff(counts_end=False), REWARD)
    assert sum(w * enumerated(model, one)[0] for w, one in zip(free.policy.weights, free.policy.policies, strict=True)) > 0.8


def test_a_policy_has_an_action_for_every_step_and_none_for_the_end() -> None:
    model = cliff()
    short = MarkovPolicy.uniform(horizon=STEPS, num_states=STATES, num_actions=ACTIONS)
    whole = fitted(short, model)
    assert whole.shape == model.shape == (STEPS + 1, STATES, ACTIONS)
    assert fitted(whole, model) is whole
    assert carried_out(whole, model).shape == (STEPS, STATES, ACTIONS)
    falls, _ = enumerated(model, short)
    assert model.wordings[0].number(constraint_values(model, short)[0]) == pytest.approx(falls)
    with pytest.raises(InvalidInput, match="shape"):
        constraint_values(model, MarkovPolicy.uniform(horizon=STEPS - 1, num_states=STATES, num_actions=ACTIONS))
    plain = cliff(counts_end=False)
    assert fitted(short, plain) is short is carried_out(short, plain)


def test_the_end_pays_the_constraints_and_no_reward() -> None:
    model, always = cliff(), MarkovPolicy.deterministic([1, 1, 1], num_actions=ACTIONS, horizon=STEPS)
    assert s2r.evaluate(model, always, np.ones((STATES, ACTIONS))) == pytest.approx(STEPS)
    assert s2r.evaluate(model, always, np.ones((STEPS, STATES, ACTIONS))) == pytest.approx(STEPS)
    assert s2r.evaluate(model, always, np.ones(model.shape)) == pytest.approx(STEPS + 1)
    episode = Trajectory.of(model, [0, 0, 1, BAD], [1, 1, 1])
    assert utilities_along(model, episode.states, episode.actions).tolist() == [[1.0, 1.0, 1.0, 0.0]]
    assert utilities_along(model, [0, 0, BAD], [1, 1]).tolist() == [[1.0, 1.0]]  # cut short: the end was not seen


def test_what_cannot_be_is_refused() -> None:
    model = cliff()
    with pytest.raises(InvalidInput, match="3 actions"):
        Trajectory.of(model, [0, 0, 0, 0, 0], [0, 0, 0, 0])
    with pytest.raises(InvalidInput, match="change with the step"):
        s2r.CMDP.of(model.kernel.repeated(STEPS), STEPS, counts_end=True)
    with pytest.raises(InvalidInput, match="differs between action 0 and action 1 in state 0"):
        s2r.CMDP.of(model.kernel, STEPS, 0, s2r.AtMost(REWARD, 1.0), counts_end=True)
    reward = np.zeros(model.shape)
    reward[-1, 0, 1] = 1.0
    with pytest.raises(InvalidInput, match="nothing is done"):
        s2r.methods.ForRewards({"it": reward}).check(problem_of(model))


def problem_of(model: s2r.CMDP, **changes: object) -> Problem:
    still = MarkovPolicy.deterministic([0, 0, 0], num_actions=ACTIONS, horizon=STEPS)
    settings = s2r.Settings(margin=0.2, calibrated_gap=0.0, mismatch_gap=0.2, tolerance=0.05, seed=3)
    return Problem(model, still, replace(settings, **changes))  # type: ignore[arg-type]


def real_of(model: s2r.CMDP) -> s2r.Kernel:
    rows = np.zeros((STATES, ACTIONS, STATES))
    rows[0, 0], rows[1, 0] = [0.7, 0.3, 0.0], [0.4, 0.6, 0.0]
    rows[0, 1], rows[1, 1] = [0.1, 0.1, 0.8], [0.1, 0.1, 0.8]
    rows[BAD, :, 0] = 1.0
    return s2r.Kernel.from_dense(rows)


@pytest.mark.parametrize("replan_growth", [0.0, 0.1])
def test_compiled_rounds_are_those_of_ask_and_tell(replan_growth: float) -> None:
    problem = problem_of(cliff(), replan_growth=replan_growth)
    truth = problem.simulator.with_kernel(real_of(problem.simulator))
    simulated, asked = s2r.Learner(problem), s2r.Learner(problem)
    run = s2r.simulate(simulated, truth.kernel, max_rounds=60)
    for _ in range(60):
        proposal = asked.propose()
        asked.observe(roll_out(truth, proposal.draw(), seed=3, round_number=asked.round))
    assert run.samples == 60 * STEPS == simulated.evidence.samples == asked.evidence.samples
    assert (simulated.evidence.counts.visits == asked.evidence.counts.visits).all()
    assert (simulated.evidence.trust.compiled.wealth == asked.evidence.trust.compiled.wealth).all()
    assert simulated.evidence.counts.visits.sum() == 60 * STEPS  # no transition for the end
    assert run.unsafe_share(problem.simulator.thresholds) == 0.0


def test_falls_in_the_last_step_refute_a_margin() -> None:
    """A baseline whose every fall comes last: seen by its returns alone, which are exact about it."""
    model = cliff()
    problem = problem_of(model, margin=0.35)
    learner = s2r.Learner(problem, trust_margin=True)
    for _ in range(60):
        learner.evidence.trust.take(
            np.array([0, 0, 1, BAD], dtype=np.uint32), np.zeros(STEPS, dtype=np.uint32), np.array([0, STEPS]),
            np.array([True]),
        )  # fmt: skip
    assert learner.evidence.trust.halted
    plain = s2r.Learner(problem_of(cliff(counts_end=False), margin=0.35), trust_margin=True)
    for _ in range(60):
        plain.evidence.trust.take(
            np.array([0, 0, 1, BAD], dtype=np.uint32), np.zeros(STEPS, dtype=np.uint32), np.array([0, STEPS]),
            np.array([True]),
        )  # fmt: skip
    assert not plain.evidence.trust.halted


def test_a_trial_pays_for_the_last_fall() -> None:
    model = cliff(limit=0.9)
    problem = problem_of(model)
    policy = MarkovPolicy.deterministic([1, 1, 1], num_actions=ACTIONS, horizon=STEPS)
    returns = s2r.methods.Trial(policy, rewards={"it": REWARD}).returns(problem, 0.05)
    assert returns._returns(np.array([0, 0, 1, BAD]), np.array([1, 1, 1])) == [3.0, pytest.approx(2.9)]
    assert returns._returns(np.array([0, 0, 1]), np.array([1, 1])) == [2.0, 2.0]  # what nobody saw pays nothing


def test_a_campaign_hands_out_actions_for_every_step_and_verifies(tmp_path) -> None:  # type: ignore[no-untyped-def]
    problem = problem_of(cliff())
    again = from_document(to_document(problem))
    assert again.simulator.counts_end
    assert again.simulator.shape == problem.simulator.shape
    assert to_document(problem)["horizon"] == STEPS
    assert "counts_end" not in to_document(problem_of(cliff(False)))
    truth = problem.simulator.with_kernel(real_of(problem.simulator))
    with Campaign.create(tmp_path / "end.db", problem) as campaign:
        for number in range(25):
            held = campaign.ask(worker="arm")
            assert held.policy.shape == held.mixture.shape == (STEPS, STATES, ACTIONS)
            episode = roll_out(truth, held.policy, seed=5, round_number=number)
            assert episode.length == STEPS
            assert campaign.tell(held.id, episode).samples == STEPS
        assert campaign.status().cut_short == 0
        log = [roll_out(truth, problem.baseline, seed=6, round_number=i) for i in range(3)]
        short = MarkovPolicy.deterministic([0, 0, 0], num_actions=ACTIONS, horizon=STEPS)
        campaign.import_log("before", short, log, overlap="count")
        learner = s2r.Learner(problem)
        learner.import_episodes(short, log)
        assert learner.evidence.trust.episodes == 3  # a policy for the steps alone is the baseline all the same
        plan = campaign.plan(REWARD)
        assert plan.policy.shape == (STEPS, STATES, ACTIONS)
        assert any("the state after the last step is counted" in one.text for one in plan.certificate.assumptions)
        agent = plan.policy.agent()
        agent.reset()
        for _ in range(STEPS):
            agent(0)
        with pytest.raises(OutOfOrder):
            agent(0)
    with Campaign.open(tmp_path / "end.db") as campaign:
        assert campaign.verify().holds


def test_the_lake_counts_every_fall() -> None:
    fell = lambda s, a, t, reward, over: over and not reward  # noqa: E731
    system = from_gymnasium(
        gymnasium.make("FrozenLake-v1"), 6, SystemDescription(cost=fell, limit=0.2, ended=0, name="falls")
    )
    model = system.model
    assert model.counts_end
    assert model.steps == 6
    solution = s2r.solve(model, system.where([15, 10, 6]))
    lake = gymnasium.make("FrozenLake-v1", max_episode_steps=6)
    found = system.rollout(solution.policy, lake, 3_000, seed=1)
    holes = np.isin(system.origin, (5, 7, 11, 12))
    seen = np.mean([holes[np.asarray(one.states)].any() for one in found.trajectories])
    counted = model.wordings[0].number(solution.constraint_values[0])
    assert found.constraints[0].mean == pytest.approx(seen)
    assert seen == pytest.approx(counted, abs=0.03)
    assert counted <= 0.2 + 1e-6
    assert (found.uncounted == 0.0).all()
    costed = from_gymnasium(gymnasium.make("FrozenLake-v1"), 6, SystemDescription(cost=np.eye(16)[5], limit=1.0, ended=0))
    assert costed.model.counts_end  # to be in a hole at the end costs as much as before
    acting = from_gymnasium(gymnasium.make("FrozenLake-v1"), 6, SystemDescription(cost=np.ones((16, 4)), limit=1.0, ended=0))
    assert not acting.model.counts_end  # and nothing is done at the end


def beside_a_cliff(known: np.ndarray, **changes: object) -> Problem:
    """0 leads to 1, where action 1 earns and may fall, or to 2, from where only the last action leads to 1."""
    rows = np.zeros((4, ACTIONS, 4))
    rows[0, 0], rows[1, 1] = [0.1, 0.9, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5]
    rows[0, 1, 2] = rows[1, 0, 1] = rows[2, :, 1] = rows[3, :, 3] = 1.0
    cost = (np.arange(4) == 3).astype(float)
    model = s2r.CMDP.of(s2r.Kernel.from_dense(rows), 2, 0, s2r.AtMost(cost, 0.1, "falls"), counts_end=True)
    aside = MarkovPolicy.deterministic([1, 0, 0, 0], num_actions=ACTIONS, horizon=2)
    settings = s2r.Settings(margin=0.1, calibrated_gap=0.0, mismatch_gap=0.3, tolerance=0.025, seed=1)
    return Problem(model, aside, replace(settings, **changes), known=np.repeat(known[:, None], ACTIONS, axis=1))  # type: ignore[arg-type]


def test_a_run_does_not_wait_for_what_only_the_end_would_show() -> None:
    problem = beside_a_cliff(np.arange(4) != 1)
    reward = np.zeros((4, ACTIONS))
    reward[1, 1] = 1.0
    learner = s2r.Learner(problem, s2r.methods.ForRewards({"risk": reward}, accuracy=0.2))
    s2r.simulate(learner, problem.simulator.kernel, max_rounds=1_000)
    assert learner.stopped  # not by going to 1 with the last action, which is safe and shows nothing
    literal = beside_a_cliff(np.arange(4) != 3, span_bonus=False)
    assert spans_of(literal).tolist() == [3.0, 3.0, 0.0]
    assert s2r.Learner(literal).decide().reason is Reason.STOP  # what is not known is where nobody acts


def test_the_baseline_is_no_part_of_a_trial(tmp_path) -> None:  # type: ignore[no-untyped-def]
    problem = problem_of(cliff(limit=0.9))
    short = MarkovPolicy.deterministic([0, 0, 0], num_actions=ACTIONS, horizon=STEPS)
    tried = MarkovPolicy.deterministic([1, 1, 1], num_actions=ACTIONS, horizon=STEPS)
    with pytest.raises(InvalidInput, match="is the baseline"):
        s2r.Learner(problem, s2r.methods.Trial(short))
    truth = problem.simulator
    log = [roll_out(truth, tried, seed=8, round_number=i) for i in range(40)]
    with Campaign.create(
        tmp_path / "trial.db", problem, method=s2r.methods.Trial(tried, rewards={"it": REWARD})
    ) as campaign:
        campaign.import_log("before", tried, log)
        alone = s2r.Learner(problem, s2r.methods.Trial(tried, rewards={"it": REWARD}))
        alone.import_episodes(tried, log)
        assert alone.floors()["it"] > 0.0
        assert campaign.floors() == alone.floors()


@pytest.mark.parametrize("counts_end", [False, True])
def test_physics_pay_for_the_end_where_it_is_asked_for(counts_end: bool) -> None:
    pond = s2r.from_dynamics(
        range(5),
        (0, 1, 2),
        lambda level, out, rain: min(4, max(0, level - out) + rain),
        s2r.Noise((0, 1, 2), [0.5, 0.3, 0.2]),
        4,
        s2r.SystemDescription(start=2, cost=lambda level, out: level == 4, limit=0.5, name="floods", counts_end=counts_end),
    )
    level = np.repeat(np.arange(5)[:, None] / 4.0, 3, axis=1)
    plan = s2r.solve(pond.model, level).policy
    floods = sum(weight * _floods(part) for weight, part in zip(plan.weights, plan.policies, strict=True))
    assert pond.model.steps == 4
    assert floods == pytest.approx(0.5 if counts_end else 0.9016666667)  # what the last step leads to was free


def _floods(policy: MarkovPolicy) -> float:
    """Expected number of the five moments of an episode at which the pond is full."""
    water, total = np.eye(5)[2], 0.0
    for h in range(4):
        after = np.zeros(5)
        for level, rain in itertools.product(range(5), range(3)):
            out = int(policy.actions[h, level])  # type: ignore[index]
            after[min(4, max(0, level - out) + rain)] += water[level] * (0.5, 0.3, 0.2)[rain]
        water = after
        total += water[4]
    return total


@pytest.mark.parametrize("there", [False, True])
def test_episodes_are_taken_over_whichever_counts_its_end(tmp_path, there) -> None:  # type: ignore[no-untyped-def]
    problems = {counts: problem_of(cliff(counts_end=counts)) for counts in (False, True)}
    with (
        Campaign.create(tmp_path / "old.db", problems[there]) as old,
        Campaign.create(tmp_path / "new.db", problems[not there]) as new,
    ):
        truth = problems[there].simulator
        for number in range(5):
            held = old.ask(worker="arm")
            old.tell(held.id, roll_out(truth, held.policy, seed=5, round_number=number))
        assert carry_over(new, old).samples == 5 * STEPS
        assert new.verify().holds
