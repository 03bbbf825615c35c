"""Plans that stand for many rounds, the span bonus, safety by the worst case, and a declared support."""

import numpy as np
import pytest

import safe2real as s2r
from safe2real import methods, radii
from safe2real.exploration import Learner, roll_out, simulate
from safe2real.methods.base import Reason
from safe2real.problem.problem import Problem
from safe2real.problem.settings import Settings
from safe2real.systems import WindyGrid
from tests.exploration.random_problems import hub, quick, random_problem
from tests.exploration.tiny import PLAIN, ROWS, SAFE, stay, tiny
from tests.planning.balls import worst_constraint_values


def test_making_room_tells_the_model_nothing_new():
    """Between plans the model is that of the last plan, wherever its rows are stored.

    With one step the new state is never acted in, so a segment moves while the plan stands.
    """
    model, real, baseline, settings = hub(horizon=1)
    learner = Learner(Problem(model, baseline, settings))
    truth = model.with_kernel(real)
    moved = 0
    for _ in range(300):
        before = learner.evidence.to_kernel().to_dense()
        capacity = learner.evidence.counts.tally.capacity
        learner.observe(roll_out(truth, learner.propose().draw(), seed=settings.coin_seed, round_number=learner.round))
        if learner.hand_over()[0] is not None:  # the plan stands
            np.testing.assert_array_equal(learner.evidence.to_kernel().to_dense(), before)
            moved += (learner.evidence.counts.tally.capacity != capacity).any()
    assert moved >= 1


def test_looking_at_distances_leaves_the_model_of_the_last_plan_alone():
    model, real, baseline, settings = hub()
    learner = Learner(Problem(model, baseline, settings))
    simulate(learner, real, max_rounds=150)
    assert learner.hand_over()[0] is not None  # in the middle of a plan
    before = learner.evidence.to_kernel().to_dense()
    learner.evidence.distances  # noqa: B018
    np.testing.assert_array_equal(learner.evidence.to_kernel().to_dense(), before)


@pytest.mark.parametrize("per_step", [False, True])
def test_growth_zero_plans_every_round_and_so_does_the_smallest_growth_where_no_row_is_cleared(per_step):
    model, real, baseline = random_problem(2, per_step=per_step)
    problems = (Problem(model, baseline, quick(replan_growth=growth)) for growth in (0.0, 1e-12))
    one, other = (simulate(Learner(problem, methods.RewardFree()), real, max_rounds=300) for problem in problems)
    assert one.deployed.tolist() == other.deployed.tolist() == [1] * 300
    for name in ("uncertainty", "exploration_weight", "real_values", "state_visits"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_a_plan_is_due_exactly_when_a_suspect_row_has_grown():
    """Worked round by round from the visits alone, for several fractions."""
    model, real, baseline = random_problem(4, per_step=False)
    truth = model.with_kernel(real)
    for growth in (0.1, 0.5, 1.0):
        learner = Learner(Problem(model, baseline, quick(replan_growth=growth)), trust_margin=True)
        learner.propose()
        planned = learner.evidence.counts.visits
        for _ in range(300):
            proposal = learner.propose()
            if proposal.reason is Reason.STOP:
                break
            suspects = learner.evidence.suspects
            learner.observe(roll_out(truth, proposal.draw(), seed=0, round_number=learner.round))
            visits = learner.evidence.counts.visits
            due = bool((visits > (1.0 + growth) * planned)[suspects].any())
            assert (learner.hand_over()[0] is None) == due
            if due:
                planned = visits


def test_every_mixture_of_a_lazy_run_with_the_literal_radius_is_safe_and_plans_are_few():
    model = tiny(1.2)
    real = s2r.Kernel.from_dense([[[0.95, 0.05], [0.3, 0.7]], [[0.0, 1.0], [0.4, 0.6]]])
    truth = model.with_kernel(real)
    terms = {
        "margin": float(s2r.planning.constraint_values(truth, stay())[0]) - 1.2,
        "calibrated_gap": 0.05,
        "mismatch_gap": 0.3,
        "tolerance": 0.01,  # below H eps_s, so that the run goes on
        "delta": 0.1,
        "radius": radii.Literal(),
    }
    plans = {}
    for growth in (0.02, 0.2):
        for make in (Settings, Settings.paper):
            run = simulate(Learner(Problem(model, stay(), make(**terms, replan_growth=growth))), real, max_rounds=20_000)
            assert run.rounds == run.deployed.sum() == 20_000
            assert (run.real_values >= model.thresholds - 1e-9).all()
            assert len(run.deployed) < run.rounds / 15
            plans[growth, make] = len(run.deployed)
    assert plans[0.2, Settings] < 0.3 * plans[0.02, Settings]


# ----------------------------------------------------------------------------------------- the span bonus and the worst case


def rounds_of(seed, *, per_step, constraints, rounds=60, **changes):
    """(learner, proposal) at every round of a run by ask and tell; some rows are declared known."""
    model, real, baseline = random_problem(seed, per_step=per_step, constraints=constraints)
    known = np.random.default_rng(seed).random(model.kernel.to_dense().shape[:-1]) < 0.1
    learner = Learner(
        Problem(model, baseline, quick(replan_growth=0.0, refinements=(), **changes), known=known), trust_margin=True
    )
    truth = model.with_kernel(real)
    for _ in range(rounds):
        proposal = learner.propose()
        yield learner, proposal
        if proposal.reason is Reason.STOP:
            return
        learner.observe(roll_out(truth, proposal.draw(), seed=seed, round_number=learner.round))


def gaps_of(learner):
    """TV distance within which each real row lies, from what the hybrid model says of its rows."""
    gaps = np.where(learner.evidence.suspects, learner.evidence.radii, learner.settings.calibrated_gap)
    return np.where(learner.evidence.known, 0.0, gaps)


@pytest.mark.parametrize("per_step", [False, True])
@pytest.mark.parametrize("span", [False, True])
def test_delta_is_the_largest_sum_of_spans_times_radii(per_step, span):
    """b_h = (H - 1 - h) x radius, or H x radius, times the scale of the bonus where the row is suspect."""
    checked, cleared = 0, 0
    for seed, scale in ((0, 0.1), (1, 0.3), (2, 1.0)):
        for learner, proposal in rounds_of(seed, per_step=per_step, constraints=1, bonus_scale=scale, span_bonus=span):
            if proposal.reason is Reason.BASELINE:
                continue
            model = learner.simulator.with_kernel(learner.evidence.to_kernel())
            H = model.horizon
            scales = np.where(learner.evidence.suspects, scale, 1.0)
            rows = np.broadcast_to(scales * gaps_of(learner), (H, model.num_states, model.num_actions))
            spans = H - 1.0 - np.arange(H) if span else np.full(H, float(H))
            best = s2r.solve(model, spans[:, None, None] * rows)
            expected = min(float(H), max(best.bound, best.value))
            assert proposal.uncertainty == pytest.approx(expected, abs=1e-8)
            checked += best.bound < H
            cleared += not learner.evidence.suspects.all()
    assert checked > 30
    assert cleared > 10


def test_with_one_step_left_nothing_is_uncertain():
    """H = 1: the successor is worth nothing any more, so Delta is 0 with the span bonus, and H x radius = 1 without."""
    model = s2r.CMDP.of(s2r.Kernel.from_dense(ROWS), 1, 0, s2r.AtLeast(SAFE, 0.2))
    changes = PLAIN | {"margin": 0.5, "tolerance": 0.1}
    assert Learner(Problem(model, stay(1), Settings(**changes))).propose().reason is Reason.STOP
    assert Learner(Problem(model, stay(1), Settings(**changes))).propose().uncertainty == pytest.approx(0.0, abs=1e-12)
    assert Learner(Problem(model, stay(1), Settings(**changes, span_bonus=False))).propose().uncertainty == 1.0


def bounds_of(learner, proposal, support=None):
    """(V_c - Delta, worst case) [K] of the candidate, after a check of the certificate and of alpha against them.

    alpha max(V_c - Delta, worst case) + (1 - alpha)(l + xi) with alpha = min_k xi / (xi + (l - bound)_+).
    """
    model = learner.simulator.with_kernel(learner.evidence.to_kernel())
    alpha, parts = proposal.exploration_weight, zip(proposal.mixture.weights, proposal.mixture.policies, strict=True)
    explored = [(weight / alpha, policy) for weight, policy in parts if policy is not learner.baseline]
    candidate = s2r.Mixture.of(*zip(*explored, strict=True))
    by_delta = s2r.planning.constraint_values(model, candidate) - proposal.uncertainty
    worst = worst_constraint_values(model, candidate, gaps_of(learner), support=support)
    bound = np.maximum(by_delta, worst) if learner.settings.robust_safety else by_delta
    margins, thresholds = learner.evidence.stated, model.thresholds
    share = min(1.0, float((margins / (margins + np.maximum(0.0, thresholds - bound))).min()))
    assert alpha == pytest.approx(share, abs=1e-9)
    stated = alpha * bound + (1.0 - alpha) * (thresholds + margins)
    np.testing.assert_allclose(proposal.certificate.lower_bounds, stated, rtol=0.0, atol=1e-9)
    assert (stated >= thresholds - 1e-9).all()
    return by_delta, worst


@pytest.mark.parametrize(
    ("robust", "constraints", "per_step"),
    [(False, 1, False), (True, 2, True), pytest.param(False, 2, True, marks=pytest.mark.slow),
     pytest.param(True, 1, False, marks=pytest.mark.slow)],
)  # fmt: skip
def test_the_certificate_of_a_mixture_is_the_better_of_two_bounds(robust, constraints, per_step):
    delta_better, worst_better, worst_better_with_cleared_rows = 0, 0, 0
    for seed in range(6):
        changes = {"robust_safety": robust, "bonus_scale": (0.1, 1.0)[seed % 2], "radius": radii.Scaled(0.5)}
        if seed >= 4:  # rows are cleared within a few visits
            changes |= {"radius": radii.Scaled(0.1), "bonus_scale": 1.0, "calibrated_gap": 0.1, "mismatch_gap": 0.7}
        for learner, proposal in rounds_of(seed, per_step=per_step, constraints=constraints, **changes):
            if proposal.reason is not Reason.MIXTURE:
                continue
            by_delta, worst = bounds_of(learner, proposal)
            better = bool((worst > by_delta + 1e-6).any())
            delta_better += bool((by_delta > worst + 1e-6).any())
            worst_better += better
            worst_better_with_cleared_rows += better and not (learner.evidence.suspects | learner.evidence.known).all()
    assert delta_better > 10
    assert worst_better > 10
    assert worst_better_with_cleared_rows > 10


# -------------------------------------------------------------------------------------------------------- declared supports


def neighbours(*rows):
    """A support for the tiny system: the successors of rows (0, 0), (0, 1), (1, 0), (1, 1)."""
    dense = np.array([[float(s in row) / len(row) for s in (0, 1)] for row in rows])
    return s2r.Kernel.from_dense(dense.reshape(2, 2, 2))


EITHER, ONLY_1 = (0, 1), (1,)


@pytest.mark.parametrize("growth", [0.0, 0.5])
def test_a_transition_outside_the_declared_support_ends_certification(growth):
    learner = Learner(
        Problem(tiny(), stay(), Settings(**PLAIN, replan_growth=growth), support=neighbours(EITHER, EITHER, ONLY_1, ONLY_1))
    )
    reward = np.ones((2, 2))
    said = "every successor of a row is one that its declared support names"
    assert said in map(str, learner.propose().certificate.assumptions)
    assert learner.propose().certificate.certified
    for states in ([0, 0, 0], [0, 1, 1], [0, 0, 1]):
        learner.observe(s2r.Trajectory.of(tiny(), states, [0, 0]))
        assert learner.propose().certificate.certified
        assert learner.plan(reward).certificate.certified
    learner.observe(s2r.Trajectory.of(tiny(), [0, 1, 0], [0, 0]))  # from 1 back to 0
    for _ in range(3):
        assert learner.propose().reason is Reason.BASELINE  # at once, also where the plan before would have stood for long
        for certificate in (learner.propose().certificate, learner.plan(reward).certificate):
            assert not certificate.certified
            assert str(certificate.doubts[0]).startswith("the data hold 1 transition that the declared support")
            assert certificate.standing is s2r.Standing.REFUTED
            assert not certificate.holds
            assert certificate.describe().startswith("REFUTED, not a guarantee")
        learner.observe(s2r.Trajectory.of(tiny(), [0, 0, 0], [0, 0]))
    # episodes that were counted elsewhere are looked at, too; the sample itself is kept
    other = Learner(Problem(tiny(), stay(), Settings(**PLAIN), support=neighbours(EITHER, EITHER, ONLY_1, ONLY_1)))
    states, actions = np.array([0, 1, 0, 0, 1, 0], dtype=np.uint32), np.zeros(4, dtype=np.uint32)
    other.count(states, actions, np.array([0, 2, 4]))
    assert "the data hold 2 transitions" in other.propose().certificate.describe(width=None)
    assert other.evidence.counts.visits.tolist() == [[2, 0], [2, 0]]


def test_per_step_supports_are_looked_up_at_their_step():
    """Going back from 1 to 0 is possible in the first step only, where no episode is in 1."""
    free, strict = (neighbours(EITHER, EITHER, *rows).to_dense() for rows in ((EITHER, EITHER), (ONLY_1, ONLY_1)))
    model = tiny().with_kernel(tiny().kernel.repeated(2))
    for steps, found in (((free, strict), 1), ((strict, free), 0)):
        learner = Learner(Problem(model, stay(), Settings(**PLAIN), support=s2r.Kernel.from_dense(np.stack(steps))))
        learner.evidence.take(s2r.Trajectory.of(model, [0, 1, 0], [1, 0]), of_baseline=False)
        assert learner.evidence.outside_support == found
        assert learner.propose().certificate.certified == (found == 0)


def test_simulated_runs_refuse_a_reality_outside_the_declared_support():
    support = neighbours(EITHER, EITHER, ONLY_1, ONLY_1)
    learner = Learner(Problem(tiny(), stay(), Settings(**PLAIN), support=support))
    back = s2r.Kernel.from_dense([[[0.7, 0.3], [0.2, 0.8]], [[0.0, 1.0], [0.4, 0.6]]])
    with pytest.raises(s2r.errors.InvalidInput, match=r"row 3 of the real kernel has successors that its declared support"):
        simulate(learner, back, max_rounds=5)
    assert learner.round == 1
    simulate(learner, s2r.Kernel.from_dense(ROWS), max_rounds=5)
    uniform = s2r.Kernel.from_dense(np.full((2, 2, 2), 0.5))
    with pytest.raises(s2r.errors.InvalidInput, match="row 2 of the real kernel"):
        simulate(learner, uniform, max_rounds=5)
    # a support of every state allows everything
    simulate(Learner(Problem(tiny(), stay(), Settings(**PLAIN), support=uniform)), back, max_rounds=5)


def test_one_possible_successor_is_learnt_from_one_visit_and_not_before():
    """An unseen row of the model is uniform: a radius of 0 there would certify what is not so."""
    support = neighbours((0,), ONLY_1, ONLY_1, ONLY_1)
    learner = Learner(Problem(tiny(), stay(), Settings(**PLAIN), support=support))
    assert learner.evidence.radii.tolist() == [[1.0, 1.0], [1.0, 1.0]]
    assert learner.propose().reason is Reason.MIXTURE
    reward = 1.0 - SAFE
    plan = learner.plan(reward)
    assert plan.value <= s2r.evaluate(tiny(), plan.policy, reward) + 1e-12
    assert plan.bound >= s2r.solve(tiny(), reward).value - 1e-9
    learner.evidence.take(s2r.Trajectory.of(tiny(), [0, 0, 1], [0, 1]), of_baseline=False)
    assert learner.evidence.radii.tolist() == [[0.0, 0.0], [1.0, 1.0]]
    assert learner.plan(reward).value == pytest.approx(1.0)


def supported_problem():
    """Each row has two or three possible successors of six."""
    rng = np.random.default_rng(0)
    H, S, A = 3, 6, 2
    allowed = np.zeros((S, A, S), dtype=bool)
    for s, a in np.ndindex(S, A):
        allowed[s, a, rng.choice(S, size=rng.integers(2, 4), replace=False)] = True
    simulator, real = np.where(allowed, rng.exponential(size=(2, S, A, S)), 0.0)
    simulator, real = (s2r.Kernel.from_dense(rows / rows.sum(axis=-1, keepdims=True)) for rows in (simulator, real))
    free = s2r.CMDP.of(real, H, 0, s2r.AtLeast(rng.random((S, A)), 0.0))
    baseline = s2r.MarkovPolicy.uniform(horizon=H, num_states=S, num_actions=A)
    truth = free.with_thresholds(s2r.planning.constraint_values(free, baseline) - 0.4)
    support = s2r.Kernel.from_dense(allowed / allowed.sum(axis=-1, keepdims=True))
    return truth.with_kernel(simulator), truth, baseline, support


def test_the_worst_case_of_a_proposal_keeps_to_the_declared_support():
    model, truth, baseline, support = supported_problem()
    settings = Settings(margin=0.4, calibrated_gap=0.0, mismatch_gap=0.05, tolerance=0.05, refinements=())
    learner = Learner(Problem(model, baseline, settings, support=support), trust_margin=True)
    helped = 0
    for _ in range(150):
        proposal = learner.propose()
        if proposal.reason is Reason.MIXTURE:
            by_delta, worst = bounds_of(learner, proposal, support)
            model_now = model.with_kernel(learner.evidence.to_kernel())
            anywhere = worst_constraint_values(model_now, proposal.mixture, gaps_of(learner))
            within = worst_constraint_values(model_now, proposal.mixture, gaps_of(learner), support=support)
            helped += bool((worst > by_delta).any() and (within > anywhere + 1e-3).any())
        learner.observe(roll_out(truth, proposal.draw(), seed=0, round_number=learner.round))
    assert helped > 50


def test_a_declared_support_leads_to_safe_and_shorter_runs():
    model, truth, baseline, support = supported_problem()
    rng = np.random.default_rng(1)
    S, A = model.num_states, model.num_actions
    rounds = []
    for declared in (None, support):
        settings = Settings(
            margin=0.4,
            calibrated_gap=0.0,
            mismatch_gap=0.05,
            tolerance=0.1,
            replan_growth=0.05,
        )
        learner = Learner(Problem(model, baseline, settings, support=declared), methods.RewardFree(), trust_margin=True)
        run = simulate(learner, truth.kernel, max_rounds=200_000)
        assert run.stopped
        assert run.unsafe_share(truth.thresholds) == 0.0
        rounds.append(run.rounds)
        for reward in rng.random((3, S, A)):
            plan = learner.plan(reward)
            optimum = s2r.solve(truth, reward).value
            assert plan.certificate.certified
            assert (s2r.planning.constraint_values(truth, plan.policy) >= truth.thresholds - 1e-9).all()
            assert optimum - s2r.evaluate(truth, plan.policy, reward) <= plan.suboptimality + 1e-9
    assert rounds[1] < rounds[0]


@pytest.mark.parametrize(
    "refute", [lambda learner: learner.evidence.refute(0, 20, 0), lambda learner: learner.leave_model([], [])]
)
def test_no_plan_made_before_a_refutation_is_handed_out_after_it(refute):
    """Wherever it was noticed: by a plan on the way, or when an episode left the model."""
    grid = WindyGrid.paper()
    chosen = {"margin": 1.17, "calibrated_gap": 0.0, "mismatch_gap": 0.68, "tolerance": 0.29, "replan_growth": 1.0}
    calm = s2r.MarkovPolicy.deterministic(np.full(25, 3), num_actions=4, horizon=12)  # to the left, along the lower edge
    problem = Problem(grid.cmdp(grid.simulator(), threshold=10.8), calm, Settings(**chosen, refinements=()))
    learner = Learner(problem)
    # Data of the simulator itself, until a mixture is planned that then stands for long.
    simulate(learner, grid.simulator(), max_rounds=3_000)
    before = learner.propose()
    assert before.reason is Reason.MIXTURE
    assert before.certificate.certified
    assert learner.propose() is before
    refute(learner)
    after = learner.propose()
    assert after.reason is Reason.BASELINE
    assert not after.certificate.certified
    assert learner.propose() is after
    assert learner.hand_over()[0].reason is Reason.BASELINE
