"""The examination finds what is false, kind by kind, and nothing where all is true."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

import safe2real as s2r
from safe2real._compiled import margin as _margin
from safe2real.exploration import simulate
from tests.cases import each, sampled
from trial.exact import Truth
from trial.examine import Deployed, Flaw, Kind, _about_now, _about_plan, examine, learner_of
from trial.systems import RADII, Family, draw_case

CASES = [draw_case(3, number, 1500) for number in range(90)]


def constrained(**wanted):
    """A case with one constraint, and whatever else is wanted of its settings."""
    for case in CASES:
        if not isinstance(case.method, s2r.methods.SimToReal) or not case.method.reuses_simulator:
            continue
        fits = all(getattr(case.settings, name) == value for name, value in wanted.items())
        if fits and case.task.num_constraints == 1 and case.wrong.any() and not case.known.all():
            return case
    raise LookupError


@pytest.fixture(scope="module")
def started():
    """A case that has run for a while, with its truth."""
    case = constrained(robust_safety=True)
    learner = learner_of(case)
    simulate(learner, case.real, max_rounds=50)
    return case, learner, Truth(case.task, case.real)


def test_unsafe_deployments_and_different_mixtures_are_counted():
    deployed = Deployed(
        times=np.array([3, 5, 7, 2, 4]),
        shares=np.array([0.0, 0.5, 0.5, 0.5, 0.0]),
        values=np.array([[1.0, 1.0], [0.9, 2.0], [0.9, 2.0], [0.9, 0.4], [1.0, 1.0]]),
    )
    assert deployed.unsafe(np.array([0.5, 0.5])) == 2
    assert deployed.unsafe(np.array([0.95, 0.5])) == 5 + 7 + 2
    assert deployed.exploring == 14
    assert deployed.mixtures == 2  # the second of 0.5 is the first one again


def test_what_is_true_of_a_plan_and_what_is_not(started):
    case, learner, truth = started
    reward = 1.0 - case.task.utilities[0]
    reward = reward[0] if len(reward) == 1 else reward
    plan = learner.plan(reward)
    assert set(_about_plan(plan, truth, reward)) == set()
    earned, best = truth.value(plan.policy, reward), s2r.solve(truth.model, reward).value
    assert set(_about_plan(replace(plan, value=earned + 0.01), truth, reward)) == {Kind.VALUE}
    assert set(_about_plan(replace(plan, bound=best - 0.01), truth, reward)) == {Kind.VALUE}
    assert set(_about_plan(replace(plan, suboptimality=best - earned - 0.01), truth, reward)) == {Kind.SUBOPTIMAL}
    above = replace(plan.certificate, lower_bounds=truth.constraint_values(plan.policy) + 0.01)
    assert set(_about_plan(replace(plan, certificate=above), truth, reward)) == {Kind.CERTIFICATE}
    dangerous = s2r.solve(truth.model.with_constraints(0), reward).policy
    assert Kind.INFEASIBLE in set(_about_plan(replace(plan, policy=dangerous), truth, reward))
    doubt = s2r.standing.Doubt(s2r.standing.DoubtCode.ROWS_CONTRADICTED, "a row")
    nothing_said = replace(plan, value=99.0, certificate=replace(plan.certificate, doubts=(doubt,)))
    assert set(_about_plan(nothing_said, truth, reward)) == set()


def test_what_is_true_of_a_learner_and_what_is_not(started):
    case, learner, truth = started
    assert set(_about_now(case, learner, truth)) == set()
    assert Kind.MARGIN in set(_about_now(replace(case, margins=case.margins - 10.0), learner, truth))
    elsewhere = Truth(case.task, s2r.Kernel.from_dense(np.roll(case.real.to_dense(), 1, axis=-1)))
    assert Kind.RADIUS in set(_about_now(case, learner, elsewhere))
    refuted = learner_of(case)
    refuted.leave_model([], [])
    assert set(_about_now(case, refuted, truth)) == {Kind.REFUTED}
    claims_too_much = learner_of(case, Flaw.TESTED_MARGIN)
    claims_too_much.evidence.trust.state.flags[_margin.HALTED] = claims_too_much.evidence.trust.state.refuted[0] = True
    assert set(_about_now(case, claims_too_much, truth)) == {Kind.HALTED}


def test_a_mixture_that_is_certified_for_more_than_it_has_is_found(started):
    case, learner, _ = started
    worse = Truth(case.task, case.real)
    halved = worse.model._arrays._replace(utilities=0.5 * worse.model.utilities)
    worse.model = replace(worse.model, _arrays=halved)
    assert set(_about_now(case, learner, worse)) == {Kind.CERTIFICATE}


def test_a_cleared_row_that_is_wrong_is_found():
    case = next(case for case in CASES if case.known.any() and not case.wrong[case.known].any())
    learner, truth = learner_of(case), Truth(case.task, case.real)
    assert Kind.CLEARED in set(_about_now(replace(case, wrong=case.known), learner, truth))


@each("radius", RADII)
def test_every_radius_can_be_halved_and_still_calls_itself_certified(radius):
    case = CASES[0]
    case = replace(case, settings=replace(case.settings, radius=radius), method=s2r.methods.RewardFree())
    sound, halved = learner_of(case), learner_of(case, Flaw.HALF_RADIUS)
    simulate(sound, case.real, max_rounds=400)
    halved.evidence.counts = sound.evidence.counts
    several = (sound.evidence.radii < 1.0) & (sound.evidence.radii > 0.0)
    assert several.any()
    assert halved.evidence.radii[several] == pytest.approx(0.5 * sound.evidence.radii[several])
    assert not halved.doubts()


def test_sound_runs_pass_and_halved_radii_do_not():
    coins = [case for case in CASES if case.family is Family.COINS and case.settings.delta < 0.9]
    sound = [examine(case) for case in coins]
    assert sum(bool(outcome.failures) for outcome in sound) <= 1
    assert sum(outcome.unsafe for outcome in sound) == 0
    assert all(outcome.deployments > 0 and outcome.plans > 0 for outcome in sound)
    broken = [examine(case, Flaw.HALF_RADIUS) for case in coins]
    assert sum(bool(outcome.failures) for outcome in broken) > 0.2 * len(coins)


@sampled(("first", "constraints"), [(20, 2), (60, 3)], keep=[0])  # each number of constraints is compiled for itself
def test_an_overstated_margin_is_noticed_or_does_harm(first, constraints):
    cases = [case for case in CASES[:first] if 1 <= case.task.num_constraints <= constraints]
    tested = [examine(case, Flaw.TESTED_MARGIN) for case in cases]
    assert sum(outcome.halted for outcome in tested) > 0.5 * len(cases)
    untested = [examine(case, Flaw.MARGIN) for case in cases]
    assert not any(outcome.halted for outcome in untested)
    kinds = Counter(kind for outcome in untested for kind in outcome.failures)
    assert kinds[Kind.INFEASIBLE] + kinds[Kind.UNSAFE] > 0.1 * len(cases)
    assert not kinds.keys() & {Kind.CERTIFICATE, Kind.MARGIN}  # it says what it was told
