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
from trial.examine import Deployed, examine, learner_of
from trial.flaws import Flaw
from trial.judge import Judge
from trial.statements import Kind, about_floors, about_learner, about_plan, rewards
from trial.systems import RADII, Family, draw_case

CASES = [draw_case(3, number, 1500) for number in range(90)]


def constrained(**wanted):
    """A case with one constraint, and whatever else is wanted of its settings."""
    for case in CASES:
        if (
            case.within is not None
            or case.task.counts_end
            or not isinstance(case.method, s2r.methods.SimToReal)
            or not case.method.reuses_simulator
        ):
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
    assert set(about_plan(plan, truth, reward)) == set()
    earned, best = truth.earned(plan.policy, reward), s2r.solve(truth.model, reward).value
    assert set(about_plan(replace(plan, value=earned + 0.01), truth, reward)) == {Kind.VALUE}
    assert set(about_plan(replace(plan, bound=best - 0.01), truth, reward)) == {Kind.VALUE}
    assert set(about_plan(replace(plan, suboptimality=best - earned - 0.01), truth, reward)) == {Kind.SUBOPTIMAL}
    above = replace(plan.certificate, lower_bounds=truth.constraint_values(plan.policy) + 0.01)
    assert set(about_plan(replace(plan, certificate=above), truth, reward)) == {Kind.CERTIFICATE}
    dangerous = s2r.solve(truth.model.with_constraints(0), reward).policy
    assert Kind.INFEASIBLE in set(about_plan(replace(plan, policy=dangerous), truth, reward))
    doubt = s2r.standing.Doubt(s2r.standing.DoubtCode.ROWS_CONTRADICTED, "a row")
    nothing_said = replace(plan, value=99.0, certificate=replace(plan.certificate, doubts=(doubt,)))
    assert set(about_plan(nothing_said, truth, reward)) == set()


def test_what_is_true_of_a_learner_and_what_is_not(started):
    case, learner, truth = started
    assert set(about_learner(case, learner, truth)) == set()
    assert Kind.MARGIN in set(about_learner(replace(case, margins=case.margins - 10.0), learner, truth))
    elsewhere = Truth(case.task, s2r.Kernel.from_dense(np.roll(case.real.to_dense(), 1, axis=-1)))
    assert Kind.RADIUS in set(about_learner(case, learner, elsewhere))
    refuted = learner_of(case)
    refuted.leave_model([], [])
    assert set(about_learner(case, refuted, truth)) == {Kind.REFUTED}
    claims_too_much = learner_of(case, Flaw.TESTED_MARGIN)
    claims_too_much.evidence.trust.compiled.flags[_margin.HALTED] = claims_too_much.evidence.trust.compiled.refuted[0] = True
    assert set(about_learner(case, claims_too_much, truth)) == {Kind.HALTED}


def test_a_mixture_that_is_certified_for_more_than_it_has_is_found(started):
    case, learner, _ = started
    worse = Truth(case.task, case.real)
    halved = worse.model.compiled_arrays._replace(utilities=0.5 * worse.model.utilities)
    worse.model = replace(worse.model, compiled_arrays=halved)
    assert set(about_learner(case, learner, worse)) == {Kind.CERTIFICATE}


def test_a_cleared_row_that_is_wrong_is_found():
    case = next(case for case in CASES if case.known.any() and not case.wrong[case.known].any())
    learner, truth = learner_of(case), Truth(case.task, case.real)
    assert Kind.CLEARED in set(about_learner(replace(case, wrong=case.known), learner, truth))


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


def test_an_understated_distance_does_harm():
    cases = [case for case in CASES[:30] if case.task.num_constraints <= 1]
    broken = [examine(case, Flaw.UNDERSTATED) for case in cases]
    kinds = Counter(kind for outcome in broken for kind in outcome.failures)
    assert kinds[Kind.VALUE] + kinds[Kind.INFEASIBLE] + kinds[Kind.UNSAFE] > 0.2 * len(cases)
    assert not kinds.keys() & {Kind.REFUTED, Kind.HALTED}  # which is how it may be noticed


def test_the_adversary_rewards_what_the_data_overstate(started):
    case, learner, truth = started
    evidence = learner.evidence
    drawn = [list(rewards(case, evidence, truth, np.random.default_rng(n)))[-2:] for n in range(8)]
    assert all((overstated + understated == 1.0).all() for overstated, understated in drawn)
    rows = evidence.counts.simulator.num_rows
    seen = np.stack([evidence.counts.empirical_row(row) for row in range(rows)]).reshape((*evidence.radii.shape, -1))
    weighted = evidence.counts.visits[..., None] * truth.differences(seen)
    learnt = truth.differences(evidence.settled().to_kernel().to_dense())
    expected = {tuple(one.reshape(-1, case.task.num_states).sum(axis=0) > 0.0) for one in (weighted, learnt)}
    assert {tuple(overstated[:, 0] == 1.0) for overstated, _ in drawn} == expected


def test_floors_are_compared_by_name():
    assert set(about_floors({"a": 1.0, "b": 2.0}, {"a": 1.0, "b": 2.0})) == set()
    assert set(about_floors({"a": 1.0, "b": 2.1}, {"a": 1.0, "b": 2.0})) == {Kind.FLOOR}


def test_a_judge_counts_deployments_and_what_is_false_of_them(started):
    case, _, truth = started
    judge = Judge(case, np.random.default_rng(0))
    reward = 1.0 - case.task.utilities[0]
    dangerous = s2r.solve(truth.model.with_constraints(0), reward[0] if len(reward) == 1 else reward).policy
    safe = s2r.model.policy.Mixture.of([1.0], [case.baseline])
    judge.deployed(safe, None, 0.0)
    assert judge.found == set()
    judge.deployed(dangerous, None, 1.0)
    judge.deployed(dangerous, None, 1.0)
    assert judge.found == {Kind.UNSAFE}
    assert (judge.deployments, judge.unsafe, judge.exploring, judge.mixtures) == (3, 2, 2, 1)
