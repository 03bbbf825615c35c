"""False structure that nobody called exact: nothing unsafe is deployed, no plan of it is certified, and it is found out."""

import numpy as np
import pytest

import safe2real as s2r
from safe2real.problem import Ties
from safe2real.standing import AssumptionCode, DoubtCode, Standing
from tests.evidence.tied_systems import ledge, ledge_problem

ALIKE = {"classes": lambda cell, action: "anywhere", "law": {"anywhere": [0.95, 0.05]}}
REAL = ledge((0.05, 0.45))  # at the edge the ground gives way
RUNS = [pytest.param(20, id="some"), pytest.param(100, id="many", marks=pytest.mark.slow)]


def all_alike(seed=0, **given):
    """ "All cells alike", which is false."""
    simulated = ledge((0.05, 0.05), **ALIKE, **given)
    return simulated, ledge_problem(simulated, simulated.ties, seed)


@pytest.mark.parametrize("runs", RUNS)
def test_false_ties_deploy_nothing_unsafe(runs):
    reward, claimed, refuted = REAL.system.reward, 0, 0
    best = s2r.solve(REAL.model, reward).value
    for seed in range(runs):
        _, problem = all_alike(seed)
        learner = s2r.Learner(problem)
        for rounds in (3, 37, 60):
            run = s2r.simulate(learner, REAL.model.kernel, max_rounds=rounds)
            assert run.unsafe_share(problem.simulator.thresholds) == 0.0
            made = learner.plan_with_structure(reward)
            assert not made.certificate.certified
            claimed += made.value > best + 1e-9  # what would have been believed
            structured = learner.evidence.structured
            if structured.is_refuted:
                assert made.policy.policies == (problem.baseline,)
                assert made.certificate.standing is Standing.REFUTED
            else:
                assert made.certificate.doubts[0].code is DoubtCode.STRUCTURE_UNTESTED
                assert made.certificate.assumptions[0].code is AssumptionCode.TIES
            plain = learner.plan(reward)
            assert plain.value <= s2r.evaluate(REAL.model, plain.policy, reward) + 1e-9
            assert AssumptionCode.TIES not in {one.code for one in plain.certificate.assumptions}
        refuted += learner.evidence.structured.is_refuted
    assert claimed > 0.2 * runs  # the danger is there
    assert refuted > 0.5 * runs  # and it is found out


def real_value(real, policy):
    return s2r.evaluate(real.model, policy, real.system.reward)


def test_true_structure_finds_at_once_what_takes_long_without():
    """Everything is as the simulator says, and the ties are true: few episodes, a better plan, and a doubt on it."""
    simulated, real = ledge((0.05, 0.1)), ledge((0.05, 0.1))
    learner = s2r.Learner(ledge_problem(simulated, simulated.ties))
    s2r.simulate(learner, real.model.kernel, max_rounds=40)
    reward = real.system.reward
    candidate, plain = learner.plan_with_structure(reward), learner.plan(reward)
    assert plain.value < candidate.value <= real_value(real, candidate.policy) + 1e-9
    assert candidate.certificate.doubts[0].code is DoubtCode.STRUCTURE_UNTESTED
    assert candidate.certificate.reaches
    exact = s2r.Learner(ledge_problem(simulated, Ties(simulated.ties.classes, simulated.ties.successors, exact=True)))
    s2r.simulate(exact, real.model.kernel, max_rounds=40)
    made = exact.plan_with_structure(reward)
    assert made.certificate.certified
    assert made.value == exact.plan(reward).value


def test_without_structure_it_is_the_plan():
    simulated = ledge((0.05, 0.1))
    learner = s2r.Learner(ledge_problem(simulated, None))
    made, plain = learner.plan_with_structure(simulated.system.reward), learner.plan(simulated.system.reward)
    assert (made.value, made.bound, made.certificate.describe()) == (plain.value, plain.bound, plain.certificate.describe())


def test_once_an_assumption_is_refuted_structure_finds_nothing():
    _, problem = all_alike()
    learner = s2r.Learner(problem)
    learner.leave_model([], [])
    made = learner.plan_with_structure(np.zeros((9, 4)))
    assert made.policy.policies == (problem.baseline,)
    assert made.certificate.standing is Standing.REFUTED


def test_declared_rewards_are_explored_by_class():
    """What one visit to a class settles, it settles for all of its rows; the stop is certified, and right."""
    simulated, real = ledge((0.05, 0.3), exact=True), ledge((0.05, 0.3))
    reward = real.system.reward
    best, episodes = s2r.solve(real.model, reward).value, {}
    for name, ties in (("tied", simulated.ties), ("plain", None)):
        method = s2r.methods.ForRewards({"corner": reward}, accuracy=0.1)
        learner = s2r.Learner(ledge_problem(simulated, ties), method)
        run = s2r.simulate(learner, real.model.kernel, max_rounds=150)
        assert run.unsafe_share(learner.simulator.thresholds) == 0.0
        made = learner.plan(reward)
        assert made.value - 1e-9 <= real_value(real, made.policy) <= best + 1e-9 <= made.bound + 2e-9
        episodes[name] = run.rounds if run.stopped else np.inf
    assert episodes["tied"] < 0.5 * episodes["plain"]
