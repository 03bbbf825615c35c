"""Plans at any round: feasible on the real system, as good as they say whatever the data allow so far, never worse later."""

import dataclasses

import numpy as np
import pytest

import safe2real as s2r
from safe2real import methods, radii
from safe2real.exploration import Learner, roll_out, simulate
from safe2real.exploration.plan import best_certified, tightened
from safe2real.planning.robust import RowSets, reach_of
from safe2real.problem.problem import Problem
from safe2real.problem.settings import Settings
from safe2real.systems import WindyGrid
from safe2real.testing.systems import random_case
from tests.exploration.random_problems import random_problem

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


@pytest.mark.parametrize("changes", [{"radius": radii.Scaled(0.4)}, {"bonus_scale": 0.5}])
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


@pytest.mark.parametrize("systems", [60, pytest.param(240, marks=pytest.mark.slow)])
def test_best_certified_on_random_systems_with_no_constraint_one_and_two(systems):
    """Both searches together: true bounds, and never below what tightening alone gives."""
    rng = np.random.default_rng(0)
    improved = above = 0
    for seed in range(systems):
        balls, truth, baseline, margins = random_balls(seed)
        reward = rng.random((truth.horizon if seed % 2 else 1, truth.num_states, truth.num_actions))
        terms = {"baseline": baseline, "margins": margins, "tolerance": float(margins.min(initial=1.0)) / 4}
        best, upper = best_certified(balls, reward, **terms)
        objective = reward if seed % 2 else reward[0]
        values = s2r.planning.constraint_values(truth, best.policy)
        assert (values >= best.lower_bounds - ROUNDING).all(), seed
        assert (best.lower_bounds >= truth.thresholds - ROUNDING).all(), seed
        assert best.value <= s2r.evaluate(truth, best.policy, objective) + ROUNDING, seed
        assert best.value >= balls.worst(baseline, reward) - ROUNDING, seed  # the baseline is always allowed
        optimum = s2r.solve(truth, objective)
        assert upper >= optimum.value - ROUNDING, seed
        improved += best.value > balls.worst(baseline, reward) + 0.01
        alone, _, _ = tightened(balls, reward, **terms)
        assert alone.value <= best.value <= upper + ROUNDING, seed
        above += best.value > alone.value + 1e-3
        check_mixture(best, balls, baseline, margins, reward)
        # where nothing is open, the plan is the optimum
        point = RowSets(truth, np.zeros_like(balls.gaps), balls.reach)
        exact, bound = best_certified(point, reward, **terms)
        assert exact.value == pytest.approx(optimum.value, abs=1e-6), seed
        assert bound == pytest.approx(optimum.value, abs=1e-4), seed
    assert improved > systems // 2.4
    assert above > systems // 10


def check_mixture(best, balls, baseline, margins, reward):
    """Its value and its bounds are those of its parts, the baseline's own where it is trusted with more."""
    parts = list(zip(best.policy.weights, best.policy.policies, strict=True))
    assert all(weight > 0.0 and part.shape == balls.model.shape for weight, part in parts)
    others = [(weight, part) for weight, part in parts if part is not baseline]
    share = 1.0 - sum(weight for weight, _ in others)
    trusted = np.maximum(balls.model.thresholds + margins, balls.worst_constraints(baseline))
    provable = share * trusted + sum(weight * balls.worst_constraints(part) for weight, part in others)
    assert (best.lower_bounds <= provable + ROUNDING).all()
    assert best.value == pytest.approx(balls.worst(best.policy, reward))


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


@pytest.mark.parametrize("per_step", [False, True])
@pytest.mark.parametrize("constraints", [0, 2])
@pytest.mark.parametrize("seed", range(4))
def test_plans_of_learners_with_no_constraint_and_with_two(seed, constraints, per_step):
    """The real kernel is checked to be within the balls; then every promise has to hold."""
    model, real, baseline = random_problem(seed, per_step=per_step, constraints=constraints)
    truth = model.with_kernel(real)
    far = real.distances_to(model.kernel)
    gap = float(far[far > 0.0].min(initial=1.0))
    chosen = Settings(margin=0.3, calibrated_gap=0.0, mismatch_gap=gap, tolerance=0.075, seed=seed, replan_growth=0.1)
    method = methods.SimToReal() if seed % 2 else methods.RewardFree()
    learner = Learner(Problem(model, baseline, chosen), method, trust_margin=True)
    rewards = np.random.default_rng(seed).random((5, model.num_states, model.num_actions))
    bounds = []
    for rounds in (0, 10, 200, 3000):
        if rounds and not learner.stopped:
            simulate(learner, real, max_rounds=rounds)
        plans = [learner.plan(reward) for reward in rewards]
        assert is_inside(learner, real)
        for plan, reward in zip(plans, rewards, strict=True):
            check_plan(plan, truth, reward, s2r.solve(truth, reward).value)
        bounds.append(np.mean([plan.suboptimality for plan in plans]))
    assert bounds[-1] < 0.3 * bounds[0]


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


# Plans that are kept


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
    before = asked.propose()
    for seed in range(70):  # more than are kept
        asked.plan(np.random.default_rng(seed).random((asked.simulator.num_states, asked.simulator.num_actions)))
    one, other = asked.propose(), silent.propose()
    assert one is before
    assert one.round == 61
    assert one.exploration_weight == other.exploration_weight
    assert one.uncertainty == other.uncertainty
    assert len(asked.state().document["kept"]) == 64
