"""Algorithm 1 by hand on a tiny system, line by line, and the bookkeeping of rounds."""

import copy
import math
import pickle

import numpy as np
import pytest

import safe2real as s2r
from experiments.oracles.run_length_bounds import radius_after
from safe2real import methods, radii
from safe2real.evidence.counts import Counts
from safe2real.evidence.mean_bounds import mean_bounds
from safe2real.evidence.row_rule import Separation
from safe2real.exploration import Learner, TrialTerms, roll_out, simulate
from safe2real.methods.base import Reason
from safe2real.problem.problem import Problem
from safe2real.problem.settings import Settings
from safe2real.radii import System
from safe2real.systems.measure import estimate_margin, estimate_mismatch_gap
from tests.evidence.small_learners import hybrid_model
from tests.exploration.tiny import PLAIN, ROWS, SAFE, settings, stay, tiny

KERNEL = s2r.Kernel.from_dense(ROWS)
ALL_KNOWN = np.ones((2, 2), dtype=bool)


def test_first_round_worked_on_paper():
    """No data: every row is uniform and has radius 1, so b = H * 1 = 2 everywhere and V_b = 4 for every policy.

    On the uniform model V_c of every policy is 1 (in state 0 at step 1) + 0.5 (half the mass at step 2) = 1.5. With
    threshold 0.5 and margin 1, Line 5 asks for 1.5 >= 0.5 + 0.5: it passes. Delta = min(H, 4) = 2, the candidate's V_c is
    1.5, and alpha = 1 / (1 + (0.5 + 2 - 1.5)) = 0.5. The certificate is 0.5 (1.5 - 2) + 0.5 (0.5 + 1) = 0.5, the
    threshold itself.
    """
    proposal = Learner(Problem(tiny(), stay(), settings())).propose()
    assert proposal.reason is Reason.MIXTURE
    assert proposal.uncertainty == 2.0
    assert proposal.exploration_weight == pytest.approx(0.5)
    assert proposal.certificate.lower_bounds == pytest.approx([0.5])
    assert proposal.certificate.certified
    assert proposal.certificate.holds


BOTH = s2r.CMDP.of(KERNEL, 2, 0, [s2r.AtLeast(SAFE, 0.5), s2r.AtLeast(SAFE, 1.25)])
HALF = s2r.CMDP.of(KERNEL, 2, [0.5, 0.5], s2r.AtLeast(SAFE, 0.6))


@pytest.mark.parametrize(
    ("model", "margin", "reason"),
    [
        (tiny(1.25), 0.75, Reason.BASELINE),  # asks for 1.25 + 0.75 / 2 = 1.625
        (tiny(1.0), 1.0, Reason.MIXTURE),  # for 1.0 + 1.0 / 2: exactly enough
        (tiny(1.01), 0.99, Reason.BASELINE),
        (BOTH, (1.0, 0.75), Reason.BASELINE),  # only the second constraint asks for more
        (HALF, 0.9, Reason.BASELINE),  # half the episodes start in the unsafe state: (1.5 + 0.5) / 2 = 1 < 0.6 + 0.9 / 2
    ],
    ids=["more", "exactly", "less", "both", "start"],
)
def test_line_5_compares_the_baseline_on_the_model_with_half_the_margin(model, margin, reason):
    """Without data the model is uniform, and V_c of the baseline is 1.5 from the safe state."""
    learner = Learner(Problem(model, stay(), settings(margin=margin, tolerance=0.1)), trust_margin=True)
    assert learner.propose().reason is reason


def test_line_6_deploys_the_baseline_alone():
    learner = Learner(Problem(tiny(1.25), stay(), settings(margin=0.75, tolerance=0.18)))
    proposal = learner.propose()
    assert proposal.mixture.policies == (learner.baseline,)
    assert proposal.certificate.lower_bounds == pytest.approx([2.0])
    assert proposal.uncertainty == math.inf


def test_second_round_worked_on_paper():
    """After one episode that stays in state 0, row (0, 0) has n = 2 pooled visits, all to 0; the others are uniform."""
    system = System(2, 2, 2)
    learner = Learner(Problem(tiny(), stay(), settings(radius=radii.Scaled(0.1), mismatch_gap=0.3)))
    learner.observe(s2r.Trajectory.of(tiny(), [0, 0, 0], [0, 0]))
    rho = 0.1 * math.sqrt((math.log(2 * 2 * 2 * 2 / 0.1) + 2 * math.log(8 * math.e * 3)) / 4)
    assert radius_after(radii.Scaled(0.1), 2, system, 0.1) == pytest.approx(rho)
    assert learner.evidence.bonus[0, 0] == pytest.approx(2 * rho)
    # An unseen row has radius 0.1 sqrt(beta(0)), as 2 n v 1 = 1.
    unseen = 0.1 * math.sqrt(math.log(160) + 2 * math.log(8 * math.e))
    assert learner.evidence.bonus[0, 1] == pytest.approx(2 * unseen)
    # Leaving at once: b = 2 unseen now, then half the mass in each state, both with bonus 2 unseen for action 1: Delta is
    # 4 unseen = 1.34, and its V_c is 1 + 0.5, so alpha = 1 / (1 + (0.5 + 1.34 - 1.5)).
    proposal = learner.propose()
    assert proposal.uncertainty == pytest.approx(4 * unseen)
    assert proposal.exploration_weight == pytest.approx(1 / (1 + max(0.0, 0.5 + 4 * unseen - 1.5)))


def test_a_row_is_cleared_at_exactly_the_predicted_count():
    """A row that always does what the simulator says has distance 0: it is cleared when radius(n) <= (eps + sigma) / 2."""
    system, delta = System(2, 2, 1), 0.1
    threshold = 0.5 * (0.02 + 0.9)
    needed = next(n for n in range(1, 10_000) if radius_after(radii.Literal(), n, system, delta) <= threshold)
    model = s2r.CMDP.of(s2r.Kernel.from_dense(ROWS), 1, 0)
    hybrid = hybrid_model(model.kernel, 1, separation=Separation(0.02, 0.9), radius=radii.Literal(), delta=delta)
    for n in range(1, needed + 1):
        assert hybrid.suspects[0, 0], n
        hybrid.observe(s2r.Trajectory.of(model, [0, 0], [0]))
    assert not hybrid.suspects[0, 0]
    assert hybrid.suspects.sum() == 3
    # Outside the suspects the bonus is H eps_s and the row is the simulator's.
    assert hybrid.bonus[0, 0] == pytest.approx(1 * 0.02)
    np.testing.assert_array_equal(hybrid.to_kernel().to_dense()[0, 0], [1.0, 0.0])


def test_deletion_is_permanent_and_counts_go_on():
    model = s2r.CMDP.of(s2r.Kernel.from_dense(ROWS), 1, 0)
    hybrid = hybrid_model(model.kernel, 1, separation=Separation(0.0, 1.0), radius=radii.Scaled(0.1), delta=0.1)
    for _ in range(30):
        hybrid.observe(s2r.Trajectory.of(model, [0, 0], [0]))
    assert not hybrid.suspects[0, 0]
    for _ in range(300):
        hybrid.observe(s2r.Trajectory.of(model, [0, 1], [0]))
    assert not hybrid.suspects[0, 0]
    assert hybrid.counts.visits[0, 0] == 330
    assert hybrid.distances[0, 0] == pytest.approx(300 / 330)
    np.testing.assert_allclose(hybrid.counts.empirical_row(0), [30 / 330, 300 / 330])


def test_a_wrong_row_stays_suspect():
    model = s2r.CMDP.of(s2r.Kernel.from_dense(ROWS), 1, 0)
    hybrid = hybrid_model(model.kernel, 1, separation=Separation(0.0, 0.4), radius=radii.Literal(), delta=0.1)
    rng = np.random.default_rng(0)
    for _ in range(20_000):
        hybrid.observe(s2r.Trajectory.of(model, [0, int(rng.random() < 0.4)], [0]))
    assert hybrid.suspects[0, 0]
    assert hybrid.bonus[0, 0] == pytest.approx(hybrid.radii[0, 0])


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
        hybrid = hybrid_model(KERNEL, 2, separation=Separation(gap, gap), radius=radii.Scaled(0.1), delta=0.1)
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


def test_known_rows_are_never_suspect_and_cost_nothing():
    known = np.array([[False, False], [True, True]])
    learner = Learner(Problem(tiny(), stay(), settings(calibrated_gap=0.01), known=known))
    assert not learner.evidence.suspects[1].any()
    np.testing.assert_array_equal(learner.evidence.bonus[1], 0.0)
    assert "known rows is exact" in learner.propose().certificate.describe()
    kernel = learner.evidence.to_kernel().to_dense()
    np.testing.assert_array_equal(kernel[1], ROWS[1])
    np.testing.assert_array_equal(kernel[0], 0.5)


def test_counts_pool_or_separate_steps_as_the_paper_says():
    pooled = Learner(Problem(tiny(), stay(), settings()))
    pooled.evidence.take(s2r.Trajectory.of(tiny(), [0, 0, 1], [0, 1]), of_baseline=False)
    assert pooled.evidence.counts.visits.tolist() == [[1, 1], [0, 0]]
    assert pooled.samples == 2
    model = s2r.CMDP.of(s2r.Kernel.from_dense(ROWS).repeated(2), 2, 0, s2r.AtLeast(SAFE, 0.5))
    separate = Learner(Problem(model, stay(), settings()))
    separate.evidence.take(s2r.Trajectory.of(model, [0, 0, 1], [0, 1]), of_baseline=False)
    assert separate.evidence.counts.visits.tolist() == [[[1, 0], [0, 0]], [[0, 1], [0, 0]]]


def test_algorithm_2_never_clears_and_algorithm_3_never_mixes():
    changes = {"radius": radii.Scaled(0.2), "bonus_scale": 0.1, "tolerance": 0.15}
    runs = {}
    for kind in methods.ANY_REWARD:
        learner = Learner(Problem(tiny(), stay(), settings(**changes)), kind())
        runs[kind] = (learner, simulate(learner, s2r.Kernel.from_dense(ROWS), max_rounds=20_000))
    assert runs[methods.RewardFree][1].suspects.min() == 4
    assert runs[methods.SimToReal][1].suspects[-1] < 4
    assert (runs[methods.Unconstrained][1].exploration_weight[:-1] == 1.0).all()
    for learner, run in runs.values():
        assert run.stopped
        assert learner.propose().certificate is None
    unconstrained = Learner(Problem(tiny(), stay(), settings()), methods.Unconstrained()).propose().certificate
    assert not unconstrained.certified
    assert "nothing is promised" in unconstrained.describe()


@pytest.mark.parametrize("chosen", [Settings, Settings.paper])
@pytest.mark.parametrize(
    ("threshold", "changes", "most"), [(0.5, {}, 1.0), (1.25, {"margin": 0.75, "tolerance": 0.18}, 0.75)]
)
def test_plan_before_any_data_worked_on_paper(chosen, threshold, changes, most):
    """Every kernel is possible. The first step is in state 0, so V_c >= 1 whatever is done; state 1 may never be reached.

    With threshold 0.5 any policy will do, and none is sure to earn anything in state 1; in the second step 1 can be earned
    at most. With threshold 1.25 and margin 0.75 a policy that is sure of 1 only is mixed with the baseline, which has 2 in
    reality: 0.75 of it and 0.25 of the baseline have 1.25. What is not earned in state 0 can be earned in state 1, so
    2 - 1.25 is the most.
    """
    learner = Learner(Problem(tiny(threshold), stay(), chosen(**(PLAIN | changes))))
    plan = learner.plan(1.0 - SAFE)
    assert learner.round == 1
    assert plan.certificate.holds
    assert plan.certificate.lower_bounds == pytest.approx([max(1.0, threshold)])
    assert plan.value == 0.0
    assert plan.bound == plan.suboptimality == pytest.approx(most, abs=1e-4)
    truth = s2r.planning.constraint_values(learner.simulator, plan.policy)
    assert (truth >= learner.simulator.thresholds).all()


def test_the_baseline_alone_is_the_plan_where_any_other_may_lose():
    """Its first reward is sure, nothing else is."""
    alone = Learner(Problem(tiny(1.99), stay(), settings(margin=0.01, tolerance=0.0025))).plan(SAFE)
    assert alone.value == pytest.approx(1.0)
    assert alone.certificate.lower_bounds == pytest.approx([1.99], abs=0.011)
    assert alone.certificate.holds


def test_plan_after_the_stop_is_the_papers():
    # Everything declared known: there is nothing to learn, and the first round stops.
    quick = Learner(Problem(tiny(), stay(), settings(radius=radii.Scaled(0.5)), known=np.ones((2, 2), dtype=bool)))
    plan = quick.plan(np.array([[0.0, 0.0], [1.0, 1.0]]))
    # Go to state 1 as often as V_c >= 0.5 + 0.25 allows: V_c is at least 1 (the first step), so always, and stay there.
    assert plan.solution.value == pytest.approx(1.0, abs=1e-6)
    assert plan.suboptimality == pytest.approx(2 * 2 * 0.25 / 1.0 + 2 * 0.25)
    assert "HEURISTIC" in plan.certificate.describe()
    assert quick.propose().mixture is None
    with pytest.raises(s2r.errors.OutOfOrder, match="nothing left to deploy"):
        quick.propose().draw()
    with pytest.raises(s2r.errors.OutOfOrder, match="has stopped"):
        quick.observe(s2r.Trajectory.of(tiny(), [0, 0, 0], [0, 0]))
    with pytest.raises(s2r.errors.InvalidInput, match=r"reward\[0, 1\] is 2"):
        quick.plan(np.full((2, 2), 2.0) * [[0, 1], [1, 1]])


def test_asking_again_changes_nothing_and_the_coin_is_fixed():
    learner = Learner(Problem(tiny(), stay(), settings(seed=5)))
    assert learner.propose() is learner.propose()
    assert learner.propose().draw() is learner.propose().draw()
    again = Learner(Problem(tiny(), stay(), settings(seed=5)))
    assert again.propose().coin == learner.propose().coin
    assert Learner(Problem(tiny(), stay(), settings(seed=6))).propose().coin != learner.propose().coin


def test_a_heuristic_run_may_use_a_larger_tolerance_and_says_so():
    for change in ({"radius": radii.Scaled(0.5)}, {"bonus_scale": 0.5}):
        certificate = Learner(Problem(tiny(), stay(), settings(tolerance=0.3, **change))).propose().certificate
        assert certificate.standing is s2r.Standing.HEURISTIC
        assert certificate.describe().startswith("HEURISTIC, not a guarantee. Estimated: expected constraint >= 0.5 ")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"baseline": stay(3)}, r"baseline has shape .*\(3, 2, 2\)"),
        ({"baseline": s2r.Mixture.of([1.0], [stay()])}, "baseline is a Mixture"),
        ({"known": np.zeros((2, 3), dtype=bool)}, "known has shape"),
    ],
)
def test_a_problem_that_does_not_fit_is_refused(change, message):
    with pytest.raises(s2r.errors.InvalidInput, match=message):
        Learner(Problem(**({"simulator": tiny(), "baseline": stay(), "settings": settings()} | change)))


def path(states, actions):
    return s2r.Trajectory(np.array(states, dtype=np.uint32), np.array(actions, dtype=np.uint32))


@pytest.mark.parametrize(
    "episode",
    [path([0, 0, 0, 0], [0, 0, 0]), path([0, 7, 0], [0, 0]), path([1, 1, 1], [0, 0]), path([0, 0, 0], [0, 9]),
     [[0, 0, 0], [0, 0]], None],
    ids=["longer", "state", "start", "action", "lists", "none"],
)  # fmt: skip
def test_an_episode_of_another_system_is_refused_and_changes_nothing(episode):
    learner = Learner(Problem(tiny(), stay(), settings()))
    before = learner.propose()
    with pytest.raises(s2r.errors.InvalidInput):
        learner.observe(episode)
    assert learner.propose() is before
    assert (learner.samples, learner.round) == (0, 1)


def test_roll_out_follows_the_kernel():
    real = tiny().with_kernel(s2r.Kernel.from_dense([[[0.7, 0.3], [0.2, 0.8]], [[0.0, 1.0], [0.4, 0.6]]]))
    policy = s2r.MarkovPolicy.stochastic([[0.25, 0.75], [0.5, 0.5]], horizon=2)
    visits = np.zeros((2, 2, 2))
    for t in range(6000):
        episode = roll_out(real, policy, seed=3, round_number=t)
        visits[np.arange(2), episode.states[:-1], episode.actions] += 1 / 6000
    np.testing.assert_allclose(visits, s2r.planning.occupancy(real, policy), atol=0.02)


def test_what_was_given_cannot_be_changed_behind_a_learner():
    learner = Learner(s2r.Problem(tiny(), stay(), settings()))
    model = learner.problem.simulator
    shown = [array for one in (model, model.kernel) for array in _arrays_of(one)]
    assert len(shown) >= 7
    for array in shown:
        assert not array.flags.writeable
    with pytest.raises(AttributeError):
        learner.problem = s2r.Problem(tiny(threshold=0.0), stay(), settings())
    assert learner.problem.simulator is model


def _arrays_of(one):
    """Every array that a public attribute shows, also within tuples; `compiled_...` is for compiled code alone."""
    for name in (name for name in dir(one) if not name.startswith(("_", "compiled_"))):
        value = getattr(one, name)
        yield from (part for part in (value if isinstance(value, tuple) else [value]) if isinstance(part, np.ndarray))


@pytest.mark.parametrize(
    "declared",
    [
        s2r.methods.ForRewards({"a": SAFE}).rewards,
        s2r.methods.Trial(stay(), {"a": SAFE}, target={"a": 1.0}).rewards,
        s2r.methods.Trial(stay(), {"a": SAFE}, target={"a": 1.0}).target,
        TrialTerms(limit=0.4, margin=0.3, high=1.0, rewards={"a": (0.0, 1.0)}, target={"a": 0.5}).rewards,
        TrialTerms(limit=0.4, margin=0.3, high=1.0, rewards={"a": (0.0, 1.0)}, target={"a": 0.5}).target,
    ],
)
def test_values_that_were_declared_by_name_are_read_only_and_can_be_sent(declared):
    for change in (
        lambda: declared.__setitem__("a", 7),
        lambda: declared.update(a=7),
        lambda: declared.pop("a"),
        lambda: declared.__ior__({"b": 7}),
    ):
        with pytest.raises(TypeError, match="read-only"):
            change()
    for copied in (
        pickle.loads(pickle.dumps(declared)),  # noqa: S301 (our own)
        copy.deepcopy(declared),
    ):
        assert list(copied) == ["a"]
        assert type(copied) is type(declared)


def test_what_was_declared_and_what_was_certified_cannot_be_changed_behind_a_learner():
    known, within, margin = np.zeros((2, 2), dtype=bool), np.ones((2, 2)), np.array([1.0])
    problem = s2r.Problem(tiny(), stay(), settings(margin=margin), known=known, within=within)
    certificate = Learner(problem).propose().certificate
    bounds = certificate.lower_bounds.tolist()
    known[:], within[:], margin[:] = True, 0.0, 0.01
    assert not problem.known_rows().any()
    assert problem.within_rows().tolist() == [1.0] * 4
    assert problem.margins.tolist() == [1.0]
    for array in (problem.known, problem.within, certificate.lower_bounds, certificate.thresholds):
        with pytest.raises(ValueError, match="read-only"):
            array[:] = 7
    assert certificate.lower_bounds.tolist() == bounds
