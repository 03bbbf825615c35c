"""Plans at any round: feasible on the real system, and as good as they say, whatever the data allow so far."""

import numpy as np
import pytest

import safe2real as s2r
from safe2real import methods, radii
from safe2real.exploration import Learner, roll_out, simulate
from safe2real.exploration.plan import best_certified
from safe2real.planning.robust import RowSets, reach_of
from safe2real.problem.problem import Problem
from safe2real.problem.settings import Settings
from safe2real.systems import WindyGrid
from tests.cases import each, sampled

ROUNDING = 1e-9


def corner_walker(grid: WindyGrid) -> s2r.MarkovPolicy:
    """Nine times in ten the step that ends nearest the bottom left corner, otherwise any."""
    likely = grid.simulator().to_dense().argmax(axis=-1)  # [S, A]
    steps_left = (4 - likely // 5) + likely % 5
    table = np.full((25, 4), 0.025)
    table[np.arange(25), steps_left.argmin(axis=1)] += 0.9
    return s2r.MarkovPolicy.stochastic(table, horizon=12)


def check_plan(plan: s2r.exploration.Plan, truth: s2r.CMDP, reward: np.ndarray, optimum: float) -> None:
    """What a certified plan promises, on the real system."""
    values = s2r.planning.constraint_values(truth, plan.policy)
    earned = s2r.evaluate(truth, plan.policy, reward)
    assert plan.certificate.certified
    assert plan.certificate.holds
    assert (values >= truth.thresholds - ROUNDING).all()
    assert (values >= plan.certificate.lower_bounds - ROUNDING).all()
    assert plan.value <= earned + ROUNDING
    assert plan.bound >= optimum - ROUNDING
    assert optimum - earned <= plan.suboptimality + ROUNDING
    assert plan.suboptimality == pytest.approx(plan.bound - plan.value)


def is_inside(learner: Learner, real: s2r.Kernel) -> bool:
    """Whether every real row is within its ball around the hybrid model's: the one event that everything rests on."""
    distance = 0.5 * np.abs(learner.evidence.to_kernel().to_dense() - real.to_dense()).sum(axis=-1)
    return bool((distance.reshape(-1) <= learner.evidence.belief.gap + ROUNDING).all())


def test_every_plan_on_the_paper_grid_keeps_its_promises_and_the_bounds_close_in():
    grid = WindyGrid.paper()
    model = grid.cmdp(grid.simulator(), threshold=10.8)
    truth = model.with_kernel(grid.real())
    baseline = corner_walker(grid)
    margin = float(s2r.planning.constraint_values(truth, baseline)[0]) - 10.8
    chosen = Settings(margin=margin, calibrated_gap=0.0, mismatch_gap=0.68, tolerance=margin / 4, replan_growth=0.02)
    learner = Learner(Problem(model, baseline, chosen))
    rng = np.random.default_rng(0)
    rewards = [rng.random((25, 4)) for _ in range(9)] + [rng.random((12, 25, 4))]  # one of them changes with the step
    optima = [s2r.solve(truth, reward).value for reward in rewards]
    mean_bounds = {}
    for episodes in (0, 50, 300, 1000, 4000, 20_000):
        if episodes:
            run = simulate(learner, grid.real(), max_rounds=episodes + 1 - learner.round)
            assert run.unsafe_share(model.thresholds) == 0.0
        plans = [learner.plan(reward) for reward in rewards]
        assert is_inside(learner, grid.real())
        for plan, reward, optimum in zip(plans, rewards, optima, strict=True):
            check_plan(plan, truth, reward, optimum)
        mean_bounds[episodes] = np.mean([plan.suboptimality for plan in plans])
    assert learner.round == 20_001
    assert (np.diff(list(mean_bounds.values())) < 0.0).all()
    assert mean_bounds[1000] >= 10.0 * mean_bounds[20_000]
    assert mean_bounds[20_000] < 0.1


@each("changes", [{"radius": radii.Scaled(0.4)}, {"bonus_scale": 0.5}])
def test_plans_with_heuristic_settings_are_labelled(changes):
    grid = WindyGrid.paper()
    model = grid.cmdp(grid.simulator(), threshold=10.8)
    chosen = Settings(margin=1.0, calibrated_gap=0.0, mismatch_gap=0.68, tolerance=0.2, **changes)
    learner = Learner(Problem(model, corner_walker(grid), chosen))
    simulate(learner, grid.real(), max_rounds=20)
    certificate = learner.plan(np.ones((25, 4))).certificate
    assert not certificate.certified
    assert certificate.describe().startswith("HEURISTIC")
    assert ("the radius is 0.4 x" if "radius" in changes else "the bonus is 0.5 times") in certificate.describe(width=None)


# ----------------------------------------------------------------- random systems whose real kernel is within the balls


def random_balls(seed: int):
    """(model with balls, real system, baseline, margins): the balls are as wide as the real rows are far, or wider."""
    rng = np.random.default_rng(seed)
    H, S, A, K = int(rng.integers(1, 5)), int(rng.integers(2, 6)), int(rng.integers(2, 4)), seed % 3
    lead = (H,) if rng.random() < 0.5 else ()
    rows = rng.dirichlet(np.full(S, 0.5), size=(*lead, S, A))
    width = rng.choice([0.0, 0.01, 0.2, 1.0], size=(*lead, S, A, 1))
    real = (1.0 - width) * rows + width * rng.dirichlet(np.full(S, 0.5), size=(*lead, S, A))
    gaps = 0.5 * np.abs(rows - real).sum(axis=-1) * rng.choice([1.0, 1.5], size=(*lead, S, A))
    utilities = rng.random((K, S, A))
    baseline = s2r.MarkovPolicy.stochastic(rng.dirichlet(np.ones(A), size=(H, S)))
    start = rng.dirichlet(np.ones(S))
    free = s2r.CMDP.of(s2r.Kernel.from_dense(real), H, start, [s2r.AtLeast(u, 0.0) for u in utilities])
    values = s2r.planning.constraint_values(free, baseline)
    margins = rng.uniform(0.05, 0.9, size=K) * values
    truth = free.with_thresholds(values - margins)
    model = truth.with_kernel(s2r.Kernel.from_dense(rows))
    support = None
    if rng.random() < 0.5:  # no more than what the model or reality has
        allowed = (rows > 0.0) | (real > 0.0)
        support = s2r.Kernel.from_dense(allowed / allowed.sum(axis=-1, keepdims=True))
    return RowSets(model, gaps.reshape(-1), reach_of(support, model.kernel)), truth, baseline, margins


@sampled("systems", [60, 240], keep=[0])
def test_best_certified_on_random_systems_with_no_constraint_one_and_two(systems):
    rng = np.random.default_rng(0)
    improved = 0
    for seed in range(systems):
        balls, truth, baseline, margins = random_balls(seed)
        reward = rng.random((1, truth.num_states, truth.num_actions))
        if seed % 2:
            reward = rng.random((truth.horizon, truth.num_states, truth.num_actions))
        tolerance = float(margins.min(initial=1.0)) / 4
        best, upper = best_certified(balls, reward, baseline=baseline, margins=margins, tolerance=tolerance)
        objective = reward if seed % 2 else reward[0]
        values = s2r.planning.constraint_values(truth, best.policy)
        assert (values >= best.lower_bounds - ROUNDING).all(), seed
        assert (best.lower_bounds >= truth.thresholds - ROUNDING).all(), seed
        assert best.value <= s2r.evaluate(truth, best.policy, objective) + ROUNDING, seed
        assert best.value >= balls.worst(baseline, reward) - ROUNDING, seed  # the baseline is always allowed
        optimum = s2r.solve(truth, objective)
        assert upper >= optimum.value - ROUNDING, seed
        improved += best.value > balls.worst(baseline, reward) + 0.01
        # where nothing is open, the plan is the optimum
        point = RowSets(truth, np.zeros_like(balls.gaps), balls.reach)
        exact, bound = best_certified(point, reward, baseline=baseline, margins=margins, tolerance=tolerance)
        assert exact.value == pytest.approx(optimum.value, abs=1e-6), seed
        assert bound == pytest.approx(optimum.value, abs=1e-4), seed
    assert improved > systems // 2.4


def test_where_the_worst_case_of_the_optimum_is_below_the_baseline_the_baseline_is_the_plan():
    """Action 0 leads to 0.5 for certain; action 1 to 1, says the model, and possibly to 0."""
    rows = np.zeros((4, 2, 4))
    rows[0, 0, 1] = rows[0, 1, 2] = rows[1, :, 1] = rows[2, :, 2] = rows[3, :, 3] = 1.0
    model = s2r.CMDP.of(s2r.Kernel.from_dense(rows), 2, 0)
    gaps = np.zeros(8)
    gaps[1] = 1.0
    baseline = s2r.MarkovPolicy.deterministic([0, 0, 0, 0], num_actions=2, horizon=2)
    reward = np.repeat(np.array([[0.0], [0.5], [1.0], [0.0]]), 2, axis=1)[None]
    balls = RowSets(model, gaps, reach_of(None, model.kernel))
    best, upper = best_certified(balls, reward, baseline=baseline, margins=np.empty(0), tolerance=0.1)
    assert (best.solution, best.policy.policies) == (None, (baseline,))
    assert (best.value, upper) == (pytest.approx(0.5), pytest.approx(1.0))


@each("per_step", [False, True])
@each("constraints", [0, 2])
def test_plans_of_learners_with_no_constraint_and_with_two(constraints, per_step):
    """The real kernel is checked to be within the balls; then every promise has to hold."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        H, S, A = 3, 4, 2
        lead = (H,) if per_step else ()
        simulator = rng.dirichlet(np.full(S, 0.3), size=(*lead, S, A))
        real = simulator.copy()
        wrong = rng.random((*lead, S, A)) < 0.3
        real[wrong] = np.roll(simulator[wrong], 1, axis=-1)
        utilities = rng.random((constraints, S, A))
        baseline = s2r.MarkovPolicy.uniform(horizon=H, num_states=S, num_actions=A)
        free = s2r.CMDP.of(s2r.Kernel.from_dense(real), H, 0, [s2r.AtLeast(u, 0.0) for u in utilities])
        truth = free.with_thresholds(s2r.planning.constraint_values(free, baseline) - 0.3)
        model = truth.with_kernel(s2r.Kernel.from_dense(simulator))
        far = 0.5 * np.abs(simulator - real).sum(axis=-1)
        chosen = Settings(
            margin=0.3,
            calibrated_gap=0.0,
            mismatch_gap=float(far[wrong].min(initial=1.0)),
            tolerance=0.075,
            seed=seed,
            replan_growth=0.1,
        )
        learner = Learner(
            Problem(model, baseline, chosen), methods.SimToReal() if seed % 2 else methods.RewardFree(), trust_margin=True
        )
        rewards = rng.random((5, S, A))
        bounds = []
        for rounds in (0, 10, 200, 3000):
            if rounds and not learner.stopped:
                simulate(learner, truth.kernel, max_rounds=rounds)
            plans = [learner.plan(reward) for reward in rewards]
            assert is_inside(learner, truth.kernel)
            for plan, reward in zip(plans, rewards, strict=True):
                check_plan(plan, truth, reward, s2r.solve(truth, reward).value)
            bounds.append(np.mean([plan.suboptimality for plan in plans]))
        assert bounds[-1] < 0.3 * bounds[0]


def test_a_plan_changes_neither_the_round_nor_what_is_proposed():
    for growth in (0.0, 0.5):
        balls, truth, baseline, margins = random_balls(1)
        chosen = Settings(
            margin=tuple(margins),
            calibrated_gap=0.0,
            mismatch_gap=0.5,
            tolerance=float(margins.min()) / 4,
            replan_growth=growth,
        )
        learner = Learner(Problem(balls.model, baseline, chosen), trust_margin=True)
        before = learner.propose()
        first, second = (learner.plan(np.ones((truth.num_states, truth.num_actions))) for _ in range(2))
        assert learner.propose() is before
        assert (first.value, first.bound) == (second.value, second.bound)
        assert learner.round == 1


def test_a_plan_uses_every_episode_counted_so_far():
    """In the middle of a lazy plan the model is behind the counts; a plan is made with all of them."""
    balls, truth, baseline, margins = random_balls(4)
    chosen = {
        "margin": tuple(margins),
        "calibrated_gap": 0.0,
        "mismatch_gap": 0.5,
        "tolerance": float(margins.min()) / 50,
    }
    method = methods.RewardFree()  # no row is cleared, so when that is looked at makes no difference
    lazy = Learner(Problem(balls.model, baseline, Settings(**chosen, replan_growth=1.0)), method, trust_margin=True)
    eager = Learner(Problem(balls.model, baseline, Settings(**chosen)), method, trust_margin=True)
    reward = np.random.default_rng(0).random((truth.num_states, truth.num_actions))
    behind = 0
    for _ in range(100):
        episode = roll_out(truth, lazy.propose().draw(), seed=1, round_number=lazy.round)
        lazy.observe(episode)
        eager.evidence.take(episode, of_baseline=False)
        behind += (lazy.evidence.belief.gap != eager.evidence.belief.gap).any()
    assert behind > 50
    assert (lazy.evidence.belief.gap != eager.evidence.belief.gap).any()
    first, second = lazy.plan(reward), eager.plan(reward)
    assert (first.value, first.bound) == (second.value, second.bound)
    np.testing.assert_array_equal(first.certificate.lower_bounds, second.certificate.lower_bounds)
