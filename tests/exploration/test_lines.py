"""Lines of the algorithm that no other test would miss if they were broken; every expectation is worked by hand."""

import numpy as np
import pytest

import safe2real as s2r
from safe2real import methods, radii
from safe2real.evidence.counts import Counts
from safe2real.evidence.hybrid import HybridModel
from safe2real.evidence.mean_bounds import mean_bounds
from safe2real.evidence.row_rule import Separation
from safe2real.exploration import Learner
from safe2real.methods.base import Reason
from safe2real.problem.problem import Problem
from safe2real.systems.measure import estimate_margin, estimate_mismatch_gap
from tests.exploration.tiny import ROWS, SAFE, settings, stay, tiny

KERNEL = s2r.Kernel.from_dense(ROWS)
ALL_KNOWN = np.ones((2, 2), dtype=bool)


def test_line_5_looks_at_every_constraint():
    """On the uniform model V_c of the baseline is 1.5 for both; only the second asks for more, 1.25 + 0.75 / 2."""
    both = s2r.CMDP.of(KERNEL, 2, 0, [s2r.AtLeast(SAFE, 0.5), s2r.AtLeast(SAFE, 1.25)])
    assert Learner(Problem(both, stay(), settings(margin=(1.0, 0.75), tolerance=0.1))).propose().reason is Reason.BASELINE


def test_line_5_weighs_the_start_distribution():
    """Half the episodes start in the unsafe state: V_c of the baseline is (1.5 + 0.5) / 2 = 1 < 0.6 + 0.9 / 2."""
    model = s2r.CMDP.of(KERNEL, 2, [0.5, 0.5], s2r.AtLeast(SAFE, 0.6))
    learner = Learner(Problem(model, stay(), settings(margin=0.9, tolerance=0.1)), trust_margin=True)
    assert learner.propose().reason is Reason.BASELINE


def test_stops_when_delta_equals_the_tolerance():
    """One state, one action, one step, cleared at once: Delta = H eps_s = 0.25 exactly."""
    model = s2r.CMDP.of(s2r.Kernel.from_dense(np.ones((1, 1, 1))), 1)
    policy = s2r.MarkovPolicy.uniform(horizon=1, num_states=1, num_actions=1)
    chosen = settings(calibrated_gap=0.25, mismatch_gap=1.0, tolerance=0.25, radius=radii.Scaled(0.1))
    assert Learner(Problem(model, policy, chosen)).propose().reason is Reason.STOP


def test_delta_is_the_dual_bound_not_the_value():
    learner = Learner(Problem(tiny(), stay(), settings(radius=radii.Scaled(0.05))))
    model = learner.simulator.with_kernel(learner.evidence.to_kernel())
    solution = s2r.solve(model, learner.evidence.bonus)
    assert solution.value < solution.bound == learner.propose().uncertainty < 2.0


def test_plan_meets_the_thresholds_raised_by_tau_and_promises_the_thresholds():
    """Leaving with probability p has V_c = 2 - p: the plan for state 1 has p = 2 - (1.25 + 0.175)."""
    learner = Learner(Problem(tiny(1.25), stay(), settings(margin=0.7, tolerance=0.175), known=ALL_KNOWN))
    plan = learner.plan(1.0 - SAFE)
    assert plan.solution.constraint_values == pytest.approx([1.425])
    assert plan.solution.value == pytest.approx(0.575)
    assert plan.certificate.lower_bounds == pytest.approx([1.25])
    assert plan.certificate.certified


def test_accuracy_of_a_plan_rests_on_the_smallest_margin():
    both = s2r.CMDP.of(KERNEL, 2, 0, [s2r.AtLeast(SAFE, 0.5), s2r.AtLeast(SAFE, 0.6)])
    learner = Learner(Problem(both, stay(), settings(margin=(1.0, 0.4), tolerance=0.1), known=ALL_KNOWN))
    assert learner.plan(SAFE).suboptimality == pytest.approx(2 * 2 * 0.1 / 0.4 + 2 * 0.1)


def test_an_infeasible_plan_and_algorithm_3_are_never_certified_even_with_literal_constants():
    leaves = s2r.Kernel.from_dense(np.array([[[0.0, 1.0]] * 2, [[0.0, 1.0]] * 2]))
    model = s2r.CMDP.of(leaves, 2, 0, s2r.AtLeast(SAFE, 1.5))
    chosen = settings(margin=0.4, tolerance=0.1)
    method = methods.Unconstrained()
    learner = Learner(Problem(model, stay(), chosen, known=ALL_KNOWN), method)
    assert not learner.plan(SAFE).certificate.certified
    assert not Learner(Problem(model, stay(), chosen), method).propose().certificate.certified


def test_a_row_is_cleared_at_a_tie_and_then_costs_h_eps():
    def after(gap):
        hybrid = HybridModel(KERNEL, 2, separation=Separation(gap, gap), radius=radii.Scaled(0.1), delta=0.1)
        hybrid.observe(s2r.Trajectory.of(tiny(), [0, 0, 0], [0, 0]))
        return hybrid

    tie = float(after(0.0).radii[0, 0])
    assert after(np.nextafter(tie, 0.0)).suspects[0, 0]
    assert not after(tie).suspects[0, 0]
    assert after(tie).bonus[0, 0] == 2 * tie


def test_distances_of_unvisited_rows_and_to_uniform_simulator_rows():
    point = np.eye(4)[[0, 0, 0, 0]][:, None]
    assert Counts(s2r.Kernel.from_dense(point), 1).distances() == pytest.approx([0.75] * 4)
    uniform = s2r.Kernel.from_dense(np.full((4, 1, 4), 0.25))
    counts = Counts(uniform, 1)
    assert counts.distances() == pytest.approx([0.0] * 4)
    counts.record(s2r.Trajectory.of(s2r.CMDP.of(uniform, 1, 0), [0, 2], [0]))
    assert counts.distances() == pytest.approx([0.75, 0.0, 0.0, 0.0])


def test_a_row_below_the_resolution_is_decided():
    counts = Counts(KERNEL, 1)
    for _ in range(4000):
        counts.record(s2r.Trajectory.of(s2r.CMDP.of(KERNEL, 1, 0), [0, 0], [0]))
    upper = float(estimate_mismatch_gap(counts, delta=0.1).upper_bounds[0, 0])
    assert upper < 0.1
    assert estimate_mismatch_gap(counts, delta=0.1, resolution=upper).undecided.tolist() == [[False, True], [True, True]]
    assert estimate_mismatch_gap(counts, delta=0.1).undecided.all()


def test_margin_bounds_for_two_constraints_one_of_which_changes_with_the_step():
    """K = 2, delta = 0.1: each bound holds at level 0.05; the sums are in [0, 2] and [0, 1]."""
    late = np.stack([np.zeros((2, 2)), SAFE])  # pays in the second step only
    model = s2r.CMDP.of(KERNEL, 2, 0, [s2r.AtLeast(SAFE, 0.5), s2r.AtLeast(late, 0.25)])
    episodes = [s2r.Trajectory.of(model, [0, s, s], [0, 0]) for s in (0, 0, 0, 1)]
    estimate = estimate_margin(model, episodes, delta=0.1)
    assert estimate.means == pytest.approx([1.75, 0.75])
    first, second = mean_bounds([2, 2, 2, 1], 0.05, low=0.0, high=2.0), mean_bounds([1, 1, 1, 0], 0.05)
    assert estimate.lower_bounds.tolist() == [first[0], second[0]]
    assert estimate.upper_bounds.tolist() == [first[1], second[1]]
    assert estimate.margins.tolist() == [first[0] - 0.5, second[0] - 0.25]
