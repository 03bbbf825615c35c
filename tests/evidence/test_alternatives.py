"""Several simulators: likelihoods by hand, the right one is hardly ever dropped, and none of these is found out."""

import math

import numpy as np
import pytest

import safe2real as s2r
from safe2real.evidence.alternatives import ALTERNATIVES_SHARE, Surviving
from safe2real.evidence.counts import Counts
from safe2real.evidence.evidence import Evidence
from safe2real.problem import Alternatives, Problem
from safe2real.standing import AssumptionCode, DoubtCode, Standing


def coin(good):
    """From either state, action 0 leads to state 0 with this probability; action 1 stays."""
    rows = np.zeros((2, 2, 2))
    rows[:, 0] = [good, 1.0 - good]
    rows[:, 1] = np.eye(2)
    return s2r.Kernel.from_dense(rows)


def problem(*goods, exact=False, seed=0, simulator=0.75):
    model = s2r.CMDP.of(coin(simulator), 4, 0, s2r.AtLeast([[1.0, 1.0], [0.0, 0.0]], 2.0, "up"))
    settings = s2r.Settings(margin=1.0, calibrated_gap=0.0, mismatch_gap=0.2, tolerance=0.2, seed=seed)
    stay = s2r.MarkovPolicy.deterministic([1, 0], num_actions=2, horizon=4)
    return Problem(model, stay, settings, alternatives=Alternatives(tuple(map(coin, goods)), exact=exact))


def seen(ups, downs):
    """Counts of action 0 in state 0."""
    counts = Counts(coin(0.5), 4)
    rows = np.array([0, 0])
    counts.add(rows, np.array([0, 1]), np.array([ups, downs]))
    return counts


def surviving(*goods, delta=0.01):
    given = problem(*goods)
    return Surviving(given.simulator, given.alternatives, delta)


def test_likelihoods_are_products_and_the_free_component_is_a_mixture():
    logs, free = surviving(0.9, 0.6).likelihoods(seen(2, 1))
    np.testing.assert_allclose(logs, [math.log(0.9**2 * 0.1), math.log(0.6**2 * 0.4)])
    assert free == pytest.approx(math.log(1 / 2 * 3 / 4 * 1 / 6))  # up, up, down, by (count + 1/2) / (n + 1)
    logs, _ = surviving(1.0, 0.6).likelihoods(seen(2, 1))
    assert logs[0] == -np.inf
    assert surviving(0.9, 0.6).likelihoods(seen(0, 0)) == (pytest.approx([0.0, 0.0]), 0.0)


def test_a_simulator_is_dropped_where_the_mixture_is_so_much_likelier_and_for_good():
    left = surviving(0.9, 0.6)
    n = 1
    while left.alive[1]:
        left = surviving(0.9, 0.6)
        left.look(seen(n, 0))
        n += 1
    n -= 1
    for ups, dropped in ((n, True), (n - 1, False)):
        logs, free = left.likelihoods(seen(ups, 0))
        mixture = np.logaddexp(math.log(0.5) + free, math.log(0.25) + np.logaddexp(*logs))
        assert (mixture - logs[1] >= math.log(100.0)) == dropped
    assert left.alive.tolist() == [True, False]
    left.look(seen(n, n // 2))  # now it would not be
    fresh = surviving(0.9, 0.6)
    fresh.look(seen(n, n // 2))
    assert (fresh.alive[1], left.alive[1]) == (True, False)
    assert left.names == (("simulator 0",) if left.alive[0] else ())


def test_what_no_simulator_has_and_what_none_explains_refutes_all_of_them():
    left = surviving(1.0, 1.0)
    left.look(seen(0, 1))
    assert left.is_refuted
    left = surviving(0.9, 0.6)
    left.look(seen(100, 200))  # 1/3
    assert left.is_refuted


@pytest.mark.parametrize("runs", [100, pytest.param(5_000, marks=pytest.mark.slow)])
def test_the_right_one_is_dropped_as_rarely_as_is_stated(runs):
    rng, delta, dropped = np.random.default_rng(2), 0.1, 0
    for _ in range(runs):
        left = surviving(0.9, 0.6, 0.55, delta=delta)
        ups = rng.random(200) < 0.6
        for n in range(1, 201, 20):
            left.look(seen(int(ups[:n].sum()), n - int(ups[:n].sum())))
        dropped += not left.alive[1]
    assert dropped <= delta * runs + 2.0 * np.sqrt(delta * runs)


def test_evidence_looks_at_every_episode_where_it_was_said_to_be_exact():
    exact, loose = Evidence(problem(0.9, 0.6, exact=True)), Evidence(problem(0.9, 0.6))
    assert exact.rule.constant[0] > loose.rule.constant[0]  # the sets have the rest of delta
    assert exact.rule.constant[0] - loose.rule.constant[0] == pytest.approx(-math.log(1.0 - ALTERNATIVES_SHARE))
    for evidence in (exact, loose):
        for _ in range(100):  # 1/3 of them up
            episode = s2r.Trajectory.of(evidence.problem.simulator, [0, 1, 1, 0, 1], [0, 0, 0, 0])
            evidence.take(episode, of_baseline=False)
    assert exact.is_refuted
    assert exact.doubts()[0].code is DoubtCode.STRUCTURE_REFUTED
    assert "all 2 simulators" in exact.doubts()[0].text
    assert DoubtCode.STRUCTURE_REFUTED not in {doubt.code for doubt in loose.doubts()}
    assert loose.surviving.is_refuted


def test_plans_for_all_that_is_left_are_certified_only_where_it_was_said_to_be_exact():
    reward = np.array([[1.0, 0.0], [0.0, 0.0]])  # to toss
    for exact in (True, False):
        learner = s2r.Learner(problem(0.9, 0.6, exact=exact))
        made = learner.plan_with_structure(reward)
        real = [s2r.evaluate(learner.simulator.with_kernel(coin(good)), made.policy, reward) for good in (0.9, 0.6)]
        assert made.value == pytest.approx(min(real))
        assert made.certificate.assumptions[0].code is AssumptionCode.ALTERNATIVES
        assert "left are simulator 0, simulator 1" in made.certificate.assumptions[0].text
        assert made.certificate.reaches
        assert made.certificate.holds == exact
        if not exact:
            assert made.certificate.standing is Standing.INCOMPLETE
            assert made.certificate.doubts[0].code is DoubtCode.STRUCTURE_UNTESTED
        best = max(s2r.solve(learner.simulator.with_kernel(coin(good)), reward).value for good in (0.9, 0.6))
        assert made.bound == pytest.approx(best)
        assert made.suboptimality == pytest.approx(best - made.value)
        plain = learner.plan(reward)
        assert plain.certificate.certified
        assert (plain.value == made.value) == exact  # before any data nothing else knows as much


def test_a_mixture_is_feasible_on_every_simulator_that_is_left():
    learner = s2r.Learner(problem(0.9, 0.35))  # to toss meets the threshold on the first alone
    reward = np.array([[1.0, 0.0], [0.0, 0.0]])
    made = learner.plan_with_structure(reward)
    for good in (0.9, 0.35):
        value = s2r.evaluate(learner.simulator.with_kernel(coin(good)), made.policy, [[1.0, 1.0], [0.0, 0.0]])
        assert value >= 2.0 - 1e-9
    assert made.value > 1.2


def test_when_none_is_left_the_plan_is_the_baseline():
    learner = s2r.Learner(problem(0.9, 0.6))
    learner.evidence.counts.add(np.array([0, 0]), np.array([0, 1]), np.array([100, 200]))
    made = learner.plan_with_structure(np.zeros((2, 2)))
    assert made.policy.policies == (learner.baseline,)
    assert made.certificate.standing is Standing.REFUTED
    assert made.certificate.doubts[0].code is DoubtCode.STRUCTURE_REFUTED
