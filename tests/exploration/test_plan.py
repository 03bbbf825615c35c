"""Plans by both searches, and plans that are kept: never below what tightening alone gives, never worse than before."""

import dataclasses

import numpy as np
import pytest

import safe2real as s2r
from safe2real import radii
from safe2real.exploration import Learner, simulate
from safe2real.exploration.plan import best_certified, tightened
from safe2real.planning.robust import RowSets, reach_of
from safe2real.problem.problem import Problem
from safe2real.testing.systems import random_case

ROUNDING = 1e-9


def random_sets(rng):
    H, S, A, K = int(rng.integers(2, 6)), int(rng.integers(2, 6)), int(rng.integers(2, 4)), int(rng.integers(3))
    rows = rng.dirichlet(np.full(S, 0.5), size=(S, A))
    free = s2r.CMDP.of(s2r.Kernel.from_dense(rows), H, 0, [s2r.AtLeast(rng.random((S, A)), 0.0) for _ in range(K)])
    baseline = s2r.MarkovPolicy.stochastic(rng.dirichlet(np.ones(A), size=S), horizon=H)
    margins = 0.05 + 0.2 * rng.random(K)
    model = free.with_thresholds(np.maximum(s2r.planning.constraint_values(free, baseline) - margins, 0.0))
    gaps = rng.choice([0.0, 0.02, 0.1, 0.4, 1.0], size=S * A)
    return RowSets(model, gaps, reach_of(None, model.kernel)), baseline, margins


def test_both_searches_together_are_never_below_tightening_alone_and_often_above():
    rng, above = np.random.default_rng(7), 0
    for _ in range(200):
        balls, baseline, margins = random_sets(rng)
        model = balls.model
        reward = rng.random((1, model.num_states, model.num_actions))
        terms = {"baseline": baseline, "margins": margins, "tolerance": float(margins.min(initial=0.4)) / 4}
        old, _, _ = tightened(balls, reward, **terms)
        new, upper = best_certified(balls, reward, **terms)
        assert new.value >= old.value
        assert new.value <= upper + ROUNDING
        assert (new.lower_bounds >= model.thresholds - ROUNDING).all()
        above += new.value > old.value + 1e-3
        for weight, part in zip(new.policy.weights, new.policy.policies, strict=True):
            assert weight > 0.0
            assert part.shape == model.shape
        others = [(w, p) for w, p in zip(new.policy.weights, new.policy.policies, strict=True) if p is not baseline]
        share = 1.0 - sum(w for w, _ in others)
        trusted = np.maximum(model.thresholds + margins, balls.worst_constraints(baseline))
        provable = share * trusted + sum(w * balls.worst_constraints(p) for w, p in others)
        assert (new.lower_bounds <= provable + ROUNDING).all()
        assert new.value == pytest.approx(balls.worst(new.policy, reward))
    assert above > 60


def learner_after(rounds, **settings):
    case = random_case(3, **settings)
    learner = Learner(case.problem, trust_margin=True)
    simulate(learner, case.real, max_rounds=rounds)
    return case, learner


def test_a_plan_that_was_certified_is_given_again_while_it_is_better():
    case, learner = learner_after(40)
    shape = (learner.simulator.num_states, learner.simulator.num_actions)
    reward, before = np.random.default_rng(0).random(shape), None
    for rounds in range(12):
        plan = learner.plan(reward)
        fresh = s2r.exploration.plan.plan(learner.evidence, reward, stopped=False)
        assert plan.value >= fresh.value
        assert plan.bound <= max(fresh.bound, plan.value)
        assert plan.suboptimality == pytest.approx(plan.bound - plan.value)
        if before is not None:
            assert plan.value >= before.value
            assert plan.bound <= before.bound
        assert s2r.evaluate(case.reality, plan.policy, reward) >= plan.value - ROUNDING
        before = plan
        simulate(learner, case.real, max_rounds=1 + 5 * rounds)
    learner.evidence.cut_short([0], [], "a fuse")  # a new assumption: whatever is given again rests on it, too
    again = learner.plan(reward)
    assert again.value >= before.value
    assert any("fuse" in str(assumption) for assumption in again.certificate.assumptions)


def test_nothing_is_kept_after_a_refutation_and_nothing_of_heuristic_runs():
    _, learner = learner_after(40)
    reward = np.ones((learner.simulator.num_states, learner.simulator.num_actions))
    assert learner.plan(reward).value > 0.0
    learner.leave_model([0], [0])
    refuted = learner.plan(reward)
    assert (refuted.value, refuted.policy.policies) == (0.0, (learner.baseline,))
    case, _ = learner_after(1)
    scaled = dataclasses.replace(case.problem.settings, radius=radii.Scaled(0.3))
    problem = Problem(case.problem.simulator, case.problem.baseline, scaled)
    guessing = Learner(problem, trust_margin=True)
    for _ in range(6):
        simulate(guessing, case.real, max_rounds=7)
        fresh = s2r.exploration.plan.plan(guessing.evidence, reward, stopped=guessing.stopped)
        assert guessing.plan(reward).value == fresh.value


def test_asking_for_plans_does_not_change_what_is_proposed():
    _, asked = learner_after(60)
    _, silent = learner_after(60)
    for seed in range(70):  # more than are kept
        asked.plan(np.random.default_rng(seed).random((asked.simulator.num_states, asked.simulator.num_actions)))
    one, other = asked.propose(), silent.propose()
    assert one.exploration_weight == other.exploration_weight
    assert one.uncertainty == other.uncertainty
    assert len(asked.state().document["kept"]) == 64
