"""Declared rewards: what is refused, what is certain of them on systems whose reality is known, and when to plan again."""

import dataclasses

import numpy as np
import pytest

import safe2real as s2r
from safe2real import Learner, methods, simulate
from safe2real.campaign import Campaign
from safe2real.campaign.journal import MemoryJournal
from safe2real.errors import InvalidInput
from safe2real.exploration import roll_out
from safe2real.exploration.forecast import forecast
from safe2real.methods.base import Reason
from safe2real.methods.document import document_of, method_in
from safe2real.methods.for_rewards import SearchMemory, guess_of, proved_wrong, rates
from safe2real.model.serialization import from_text, to_text
from safe2real.planning import constraint_values
from safe2real.testing.systems import random_case

ROUNDING = 1e-9


def goal(states=4, actions=2, at=2):
    reward = np.zeros((states, actions))
    reward[at] = 1.0
    return reward


# What is refused


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rewards": {}}, "by name"),
        ({"rewards": goal()}, "by name"),
        ({"rewards": {"": goal()}}, "printable"),
        ({"rewards": {"a\n": goal()}}, "printable"),
        ({"rewards": {3: goal()}}, "printable"),
        ({"rewards": {"goal": 2.0 * goal()}}, r"rewards.goal .* \[0, 2\]"),
        ({"rewards": {"goal": goal() - 1.0}}, r"\[-1, 0\]"),
        ({"rewards": {"goal": np.where(goal() > 0, np.nan, 0.0)}}, "finite"),
        ({"rewards": {"goal": np.ones((1, 1, 1, 1))}}, r"shape \(1, 1, 1, 1\)"),
        ({"rewards": {"goal": "much"}}, "not an array"),
        ({"accuracy": 0.0}, "accuracy is 0"),
        ({"accuracy": -0.1}, "accuracy is -0.1"),
        ({"accuracy": float("nan")}, "accuracy"),
        ({"relative": 1}, "True or False"),
        ({"accuracy": 1.5}, r"accuracy is 1\.5 of the best value, so every policy would do"),
    ],
)
def test_what_cannot_be_declared_is_refused(change, words):
    with pytest.raises(InvalidInput, match=words):
        methods.ForRewards(**{"rewards": {"goal": goal()}, **change})


def test_a_reward_of_another_system_is_refused_when_the_learner_is_made():
    problem = random_case(0).problem
    with pytest.raises(InvalidInput, match=r"rewards.goal has shape \(5, 2\)"):
        Learner(problem, methods.ForRewards({"goal": goal(states=5)}))
    plain = dataclasses.replace(problem.settings, robust_safety=False)
    with pytest.raises(InvalidInput, match="robust_safety"):
        Learner(s2r.Problem(problem.simulator, problem.baseline, plain), methods.ForRewards({"goal": goal()}))


def test_a_reward_that_was_declared_cannot_be_changed_afterwards():
    given = goal()
    method = methods.ForRewards({"goal": given})
    given[:] = 0.5
    assert method.rewards["goal"].tolist() == goal().tolist()
    assert dataclasses.replace(method, accuracy=1.0).accuracy == 1.0
    assert dataclasses.replace(method, accuracy=1.5, relative=False).accuracy == 1.5
    with pytest.raises(ValueError, match="read-only"):
        method.rewards["goal"][0, 0] = 1.0


# Documents


@pytest.mark.parametrize("shape", [(4, 2), (3, 4, 2), (40, 30, 5)])
def test_rewards_come_back_from_a_document_bit_for_bit(shape):
    rng = np.random.default_rng(1)
    method = methods.ForRewards({"b": rng.random(shape), "a": rng.random(shape)}, accuracy=0.1, relative=False)
    again = method_in(from_text(to_text(document_of(random_case(0).problem, method)), "the document"))
    assert list(again.rewards) == ["a", "b"]
    assert (again.accuracy, again.relative) == (0.1, False)
    for name in "ab":
        assert again.rewards[name].dtype == np.float64
        assert again.rewards[name].tobytes() == method.rewards[name].tobytes()


# Runs


def small(seed):
    """A case with its reward; accuracy is reached within some thousand episodes."""
    case = random_case(seed, constraints=1 + seed % 2)
    return case, np.random.default_rng([seed, 1]).random((4, 2))


@pytest.mark.parametrize("seed", range(20))
def test_nothing_unsafe_is_deployed_and_both_ends_of_every_interval_are_true(seed):
    case, reward = small(seed)
    best = s2r.solve(case.reality, reward).value
    learner = Learner(case.problem, methods.ForRewards({"mine": reward}, accuracy=0.01), trust_margin=True)
    for rounds in (0, 20, 80, 400):
        if rounds:
            run = simulate(learner, case.real, max_rounds=rounds)
            assert run.unsafe_share(case.problem.simulator.thresholds) == 0.0
        (interval,) = learner.intervals()
        assert interval.lower <= s2r.evaluate(case.reality, interval.policy, reward) + ROUNDING
        assert interval.upper >= best - ROUNDING
        real = constraint_values(case.reality, interval.policy)
        assert (real >= interval.lower_bounds - ROUNDING).all()
        assert (interval.lower_bounds >= case.problem.simulator.thresholds - ROUNDING).all()
        if learner.stopped:
            break


def test_it_stops_with_plans_that_are_as_near_as_was_asked_and_sooner_than_for_every_reward():
    case, reward = small(1)
    learner = Learner(case.problem, methods.ForRewards({"mine": reward}, accuracy=0.1))
    run = simulate(learner, case.real, max_rounds=5_000)
    assert run.stopped
    assert run.uncertainty[-1] <= 0.1
    plan = learner.plan(reward)
    assert plan.suboptimality <= 0.1 * plan.bound
    assert plan.certificate.holds
    again = learner.method.propose(case.problem, learner.evidence, seed=9, round_number=77)
    assert again.reason is Reason.STOP  # from the data alone
    assert not learner.plan(np.broadcast_to(reward, (3, 4, 2))).suboptimality > 1.0  # the same, said for every step
    other = learner.plan(1.0 - reward)  # plans for any reward are possible, with a bound of their own
    assert s2r.solve(case.reality, 1.0 - reward).value <= other.bound + ROUNDING
    everything = simulate(Learner(case.problem), case.real, max_rounds=run.rounds)
    assert not everything.stopped


def test_an_absolute_accuracy_is_a_difference():
    case, reward = small(1)
    learner = Learner(case.problem, methods.ForRewards({"mine": reward}, accuracy=0.4, relative=False))
    assert simulate(learner, case.real, max_rounds=5_000).stopped
    (interval,) = learner.intervals()
    assert interval.allowed == 0.4
    assert interval.upper - interval.lower <= 0.4


def test_rewards_are_added_and_dropped_on_the_way():
    case, reward = small(1)
    learner = Learner(case.problem, methods.ForRewards({"mine": reward}, accuracy=0.1))
    simulate(learner, case.real, max_rounds=5_000)
    assert learner.stopped
    samples = learner.samples
    learner.declare({"other": goal()})
    assert not learner.stopped
    assert learner.samples == samples
    assert [one.name for one in learner.intervals()] == ["mine", "other"]
    with pytest.raises(InvalidInput, match="already"):
        learner.declare({"other": goal()})
    with pytest.raises(InvalidInput, match="no reward is called 'nobody'"):
        learner.declare(drop=["nobody"])
    with pytest.raises(InvalidInput, match="shape"):
        learner.declare({"wide": np.ones((4, 3))})
    with pytest.raises(InvalidInput, match="no reward would be left"):
        learner.declare(drop=["mine", "other"])
    assert list(learner.method.rewards) == ["mine", "other"]
    learner.declare(drop="other")
    assert learner.stopped
    with pytest.raises(InvalidInput, match="explores for every reward"):
        Learner(case.problem).declare({"goal": goal()})
    with pytest.raises(InvalidInput, match="another way"):
        Learner(case.problem, methods.RewardFree()).direct(methods.SimToReal())


def unreachable(seed=0):
    """A case whose rows are all cleared soon, and stay `calibrated_gap` wide; and a method that asks for more than that."""
    problem, reward = random_case(seed).problem, np.random.default_rng([seed, 1]).random((4, 2))
    settings = dataclasses.replace(problem.settings, calibrated_gap=0.05, mismatch_gap=0.9)
    method = methods.ForRewards({"mine": reward}, accuracy=0.001)
    return s2r.Problem(problem.simulator, problem.baseline, settings), method


def test_an_accuracy_out_of_reach_is_said_and_the_best_certified_plan_is_deployed(tmp_path, caplog):
    problem, method = unreachable()
    learner = Learner(problem, method)
    real = problem.simulator.kernel
    run = simulate(learner, real, max_rounds=60)
    assert not learner.evidence.suspects.any()
    assert (run.rounds, run.stopped) == (60, False)
    assert run.unsafe_share(problem.simulator.thresholds) == 0.0
    proposal, (interval,) = learner.propose(), learner.intervals()
    assert (proposal.reason, proposal.certificate.holds) == (Reason.MIXTURE, True)
    worth = s2r.evaluate(problem.simulator, proposal.mixture, method.rewards["mine"])
    assert worth >= interval.lower - ROUNDING
    notice = learner.decide().notice
    assert "the accuracy is out of reach" in notice
    assert "'mine' is within" in notice
    assert "calibrated_gap below 0.05" in notice
    assert caplog.text.count("the accuracy is out of reach") == 1  # said once, not every round
    assert forecast(learner).rounds is None
    assert s2r.load_learner(learner.save(tmp_path / "learner")).decide().notice == notice


def test_a_campaign_says_that_the_accuracy_is_out_of_reach():
    problem, method = unreachable()
    campaign = Campaign.create(MemoryJournal(), problem, method=method, trust_margin=True)
    for _ in range(40):
        one = campaign.ask(worker="arm")
        campaign.tell(one.id, roll_out(problem.simulator, one.policy, seed=9, round_number=one.number))
    status = campaign.status()
    assert (status.suspects, status.stopped, status.next_reason) == (0, False, "MIXTURE")
    assert "the accuracy is out of reach" in status.notices[0]
    assert not campaign.verify().problems


# When to plan


def test_a_plan_stands_until_a_row_that_matters_has_some_more_visits_or_is_cleared():
    case, reward = small(0)
    learner = Learner(case.problem, methods.ForRewards({"mine": reward}, accuracy=0.01))
    run = simulate(learner, case.real, max_rounds=400)
    assert 5 < len(run.deployed) < 200
    evidence, visits = learner.evidence, learner.evidence.counts.tally.visits
    rows = visits.size
    suspect = evidence.belief.suspect
    row, cleared = int(np.flatnonzero(suspect)[0]), int(np.flatnonzero(~suspect)[0])

    def due(matters, planned, suspects=None):
        some = np.zeros(rows, dtype=bool)
        some[matters] = True
        memory = SearchMemory({}, None, some, suspect.copy() if suspects is None else suspects)
        return learner.method.is_due(evidence, planned, memory)

    before = visits.copy()
    assert not due([row], before)
    before[row] = int((visits[row] - 3) / 1.1) - 1
    assert due([row], before)
    assert not due([], before)
    before[row] += 3
    assert not due([row], before)
    assert due([cleared], visits, np.ones(rows, dtype=bool))
    assert learner.method.is_due(evidence, visits, None)
    # A candidate that never shows the rows it was made for does not stand for ever.
    fewer = np.zeros_like(visits)
    fewer[cleared] = int((visits.sum() - 3 * rows) / 1.5) - 1
    assert due([], fewer)
    fewer[cleared] += 2
    assert not due([], fewer)


def test_what_is_refuted_is_noticed_though_the_plan_would_stand():
    case, reward = small(0)
    learner = Learner(case.problem, methods.ForRewards({"mine": reward}))
    simulate(learner, case.real, max_rounds=50)
    learner.leave_model([0], [0])
    assert learner.propose().reason is Reason.BASELINE
    assert learner.intervals() == ()


# Where to look


def test_the_guess_is_the_simulator_until_a_row_is_proved_wrong():
    for seed in range(6):
        case, reward = small(seed)
        learner = Learner(case.problem, methods.ForRewards({"mine": reward}, accuracy=0.01))
        simulate(learner, case.real, max_rounds=1_500)
        wrong = (case.real.distances_to(case.problem.simulator.kernel) > 0.0).reshape(-1)
        found = proved_wrong(learner.evidence)
        assert not (found & ~wrong).any()
        guess, simulator = guess_of(learner.evidence).kernel.to_dense(), case.problem.simulator.kernel.to_dense()
        same = np.abs(guess - simulator).sum(axis=-1).reshape(-1) < 1e-12
        assert (same == ~found).all()
        if found.any():
            return
    raise AssertionError("no row was ever proved wrong")


def test_visits_settle_less_the_more_there_were_and_nothing_where_nothing_is_open():
    case, reward = small(0)
    learner = Learner(case.problem, methods.ForRewards({"mine": reward}, accuracy=0.01))
    first = rates(learner.evidence)
    assert (first > 0.0).all()
    simulate(learner, case.real, max_rounds=1_500)
    later, suspect = rates(learner.evidence), learner.evidence.belief.suspect
    assert (later[~suspect] == 0.0).all()
    wrong = proved_wrong(learner.evidence)
    assert (later[wrong] < first[wrong]).all()
    assert (later[suspect] > 0.0).all()


def test_exploring_for_a_reward_goes_where_it_hangs():
    """Two branches behind a safe start, both in doubt; the reward is in one of them."""
    rows = np.zeros((3, 2, 3))
    rows[0, 0], rows[0, 1] = [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]
    rows[1], rows[2] = [[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]], [[0.5, 0.0, 0.5], [0.0, 0.5, 0.5]]
    kernel = s2r.Kernel.from_dense(rows)
    model = s2r.CMDP.of(kernel, 6, 0, s2r.AtLeast(np.ones((3, 2)), 1.0))
    baseline = s2r.MarkovPolicy.uniform(horizon=6, num_states=3, num_actions=2)
    settings = s2r.Settings(margin=1.0, calibrated_gap=0.0, mismatch_gap=0.9, tolerance=0.25)
    reward = np.zeros((3, 2))
    reward[1, 0] = 1.0
    learner = Learner(s2r.Problem(model, baseline, settings), methods.ForRewards({"left": reward}, accuracy=0.01))
    run = simulate(learner, kernel, max_rounds=60)
    assert run.state_visits[1] > 1.5 * run.state_visits[2]


def test_a_forecast_is_of_the_right_size_and_changes_nothing():
    case, reward = small(5)
    learner = Learner(case.problem, methods.ForRewards({"mine": reward}, accuracy=0.03))
    simulate(learner, case.real, max_rounds=150)
    before = [array.copy() for array in (*learner.evidence.counts.tally, *learner.evidence.belief)]
    expected = forecast(learner)
    after = [*learner.evidence.counts.tally, *learner.evidence.belief]
    assert all(np.array_equal(one, other) for one, other in zip(before, after, strict=True))
    run = simulate(learner, case.real, max_rounds=5_000)
    assert run.stopped
    assert expected.rounds is not None
    assert run.rounds / 4 < expected.rounds < run.rounds * 4


def test_a_declaration_of_nothing_and_names_that_are_none_are_refused():
    learner = s2r.Learner(random_case(1).problem, methods.ForRewards({"mine": np.ones((4, 2))}, accuracy=0.5))
    for given in ({}, {"rewards": {}}, {"rewards": None, "drop": ()}):
        with pytest.raises(InvalidInput, match="nothing is declared: there is no reward to add and none to drop"):
            learner.declare(**given)
    with pytest.raises(InvalidInput, match="drop is 3; give the names"):
        learner.declare(drop=3)
    learner.declare({"mine": np.zeros((4, 2))}, drop=["mine"])  # another reward of the same name is something
    assert not learner.method.rewards["mine"].any()
