"""The cases of the trial meet every assumption, and none by more than they must."""

import numpy as np
import pytest

import safe2real as s2r
from tests.cases import each
from trial.adversary import Shift, moved_row, shifted
from trial.exact import Truth, dense_rows, greedy, policy_value
from trial.parts import ROUTES, Part
from trial.systems import DELTAS, RADII, Family, draw_case

CASES = [draw_case(0, number, 5000) for number in range(240)]
SHORT = [draw_case(0, number, 5000, part) for part in ROUTES for number in range(45)]


def test_mass_moves_from_the_best_successors_to_the_worst():
    row, worth = np.array([0.5, 0.3, 0.2]), np.array([3.0, 2.0, 1.0])
    assert moved_row(row, worth, 0.6) == pytest.approx([0.0, 0.2, 0.8])
    assert moved_row(row, worth, 0.0) == pytest.approx(row)
    # The worst successor has 0.9 already, so only 0.1 could be moved there: the next one is taken.
    assert moved_row(np.array([0.1, 0.9]), np.array([1.0, 0.0]), 0.5) == pytest.approx([0.6, 0.4])
    assert moved_row(np.array([0.5, 0.5]), np.array([1.0, 0.0]), 0.6) is None


def test_rows_are_moved_by_their_gap_and_known_ones_not_at_all():
    rows = np.array([[[0.5, 0.5], [0.2, 0.8]], [[1.0, 0.0], [0.5, 0.5]]])  # [S, A, S]
    known = np.array([[True, False], [False, False]])
    wrong = np.array([[True, True], [False, True]])
    real, moved = shifted(rows, np.array([0.0, 1.0]), Shift(0.1, 0.6, known, wrong))
    assert real[0, 0].tolist() == [0.5, 0.5]
    assert real[0, 1] == pytest.approx([0.8, 0.2])
    assert real[1, 0] == pytest.approx([0.9, 0.1])  # right, and all of it is at the worst successor: the other one gains
    assert real[1, 1] == pytest.approx([0.6, 0.4])  # has no mass of 0.6 to move, so it stays right
    assert moved.tolist() == [[False, True], [False, False]]


def test_textbook_values_are_the_librarys():
    for case in CASES[:40]:
        truth, model = Truth(case.task, case.real), case.task.with_kernel(case.real)
        assert truth.constraint_values(case.baseline) == pytest.approx(
            s2r.planning.constraint_values(model, case.baseline), abs=1e-12
        )
        reward = np.random.default_rng(case.number).random((model.num_states, model.num_actions))
        best = s2r.solve(model.with_constraints(0), reward)
        assert truth.earned(best.policy, reward) == pytest.approx(best.value, abs=1e-12)
        steps = np.broadcast_to(reward, (model.horizon, *reward.shape)).copy()
        steps[model.steps :] = 0.0  # a reward pays nothing at the end
        rows = dense_rows(case.real, model.horizon)
        assert policy_value(rows, model.start, steps, greedy(rows, steps)) == pytest.approx(best.value, abs=1e-9)


def laws_differ(case):
    """Whether two real rows of one class have other laws over the labels."""
    real, ties = case.real.to_dense(), case.ties
    for number in range(ties.num_classes):
        places = [tuple(place) for place in np.argwhere(np.asarray(ties.classes) == number)]
        laws = np.array([real[place][np.asarray(ties.successors)[place]] for place in places])
        if np.abs(laws - laws[0]).max() > 1e-12:
            return True
    return False


@each("case", [*CASES, *SHORT])
def test_every_assumption_is_true(case):
    assert case.problem.simulator is case.task
    if case.ties is not None:
        assert not laws_differ(case)
    if case.within is not None:
        assert (case.task.kernel.distances_to(case.real) <= case.within).all()
    settings, distances = case.settings, case.task.kernel.distances_to(case.real)
    assert (distances[case.known] == 0.0).all()
    assert not (case.wrong & case.known).any()
    assert distances[case.wrong] == pytest.approx(settings.mismatch_gap, abs=1e-12)
    assert (distances[~case.wrong] <= settings.calibrated_gap + 1e-12).all()
    real = s2r.planning.constraint_values(case.task.with_kernel(case.real), case.baseline)
    assert real - case.task.thresholds == pytest.approx(case.margins, abs=1e-12)
    assert (np.asarray(settings.margin) <= case.margins).all()
    assert settings.certified
    if case.support is not None:
        for row in range(case.real.num_rows):
            assert np.isin(case.real.row(row)[0], case.support.row(row)[0]).all()


def test_the_assumptions_are_used_up():
    with_constraints = [case for case in CASES if case.task.num_constraints]
    exact = [case for case in with_constraints if case.settings.margin == tuple(case.margins)]
    assert len(exact) > 0.5 * len(with_constraints)
    assert len(exact) < 0.8 * len(with_constraints)  # in the others the data can prove more than is stated
    shifted_by_all = [
        case
        for case in CASES
        if case.settings.calibrated_gap > 0.0
        and np.isclose(case.task.kernel.distances_to(case.real), case.settings.calibrated_gap).any()
    ]
    assert len(shifted_by_all) > 0.5 * len(CASES)
    assert sum(case.wrong.any() for case in CASES) > 0.3 * len(CASES)


def test_the_whole_range_is_drawn():
    spread = [case.task for case in CASES if case.family is Family.SPREAD]
    assert {task.num_states for task in spread} >= set(range(3, 13))
    assert {task.num_states for task in (case.task for case in CASES)} >= set(range(2, 13))
    assert {task.num_actions for task in spread} == {2, 3}
    assert {task.horizon for task in spread} == set(range(3, 9))
    assert {task.num_constraints for task in spread} == {0, 1, 2, 3}
    features = (
        lambda case: case.settings.replan_growth > 0.0,
        lambda case: case.settings.robust_safety,
        lambda case: isinstance(case.method, s2r.methods.RewardFree),
        lambda case: case.settings.calibrated_gap > 0.0,
        lambda case: case.support is not None,
        lambda case: case.within is not None,
        lambda case: case.task.counts_end,
        lambda case: case.settings.refinements == s2r.refinements.DEFAULT,
        lambda case: case.settings.refinements == (),
        lambda case: bool(case.wrong.any()),
        lambda case: bool(case.known.any()) or case.family is not Family.GATE,
    )
    for family in (Family.COINS, Family.GATE, Family.SPREAD):
        drawn = [case for case in CASES if case.family is family]
        assert {case.settings.delta for case in drawn} == set(DELTAS)
        assert {case.settings.radius.name for case in drawn} == {radius.name for radius in RADII}
        for feature in features[:-1]:
            assert {feature(case) for case in drawn} == {True, False}
        assert all(map(features[-1], drawn))  # behind a gate most rows are known
    assert {bool(case.known.any()) for case in CASES} == {True, False}
    assert {case.task.kernel.is_stationary for case in CASES} == {True, False}


def test_routes_have_every_method_and_ties():
    named = {case.method.name for case in SHORT}
    assert named == {kind.name for kind in s2r.methods.ALL if kind is not s2r.methods.Unconstrained}
    assert {case.family for case in SHORT} == set(Family)
    assert {kind.name for kind in s2r.refinements.ALL} == {one.name for case in SHORT for one in case.settings.refinements}
    assert any(one.protection > 1.0 for case in CASES for one in case.settings.refinements if hasattr(one, "protection"))


def test_ties_are_false_where_they_are_to_be():
    false = [draw_case(0, number, 100, Part.ASKED, family=Family.TIED, false_ties=True) for number in range(20)]
    assert sum(map(laws_differ, false)) > 10


def test_a_case_is_a_function_of_seed_and_number():
    again = draw_case(0, 7, 5000)
    assert again.describe() == CASES[7].describe()
    assert again.real.probability.tolist() == CASES[7].real.probability.tolist()
    assert draw_case(1, 7, 5000).describe() != CASES[7].describe()
