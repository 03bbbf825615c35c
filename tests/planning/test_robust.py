"""Worst and best values over TV balls: against a linear program per row, and against real kernels inside the balls."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.sparse import block_diag, csr_array

import safe2real as s2r
from safe2real._compiled.rows import Sets
from safe2real.planning.certified_mixture import greedy_column
from safe2real.planning.robust import (
    RowSets,
    ceiling,
    optimistic_policy,
    reach_of,
    worst_values,
)
from tests.cases import sampled
from tests.compiled.calling import worst_expectation
from tests.planning.balls import balls_around, best_value, worst_constraint_values, worst_value

Array = np.ndarray[Any, Any]
INSTANCES = 320
EXACT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


@dataclasses.dataclass(frozen=True, eq=False)
class Instance:
    """A model with balls; `allowed` is where mass can go, every row's own support included."""

    model: s2r.CMDP
    rows: Array  # [H, S, A, S] written out
    gaps: Array  # [S, A] or [H, S, A]
    ball: Array  # [H, S, A] the same, written out
    allowed: Array  # [H, S, A, S] of booleans
    support: s2r.Kernel | None
    policy: s2r.MarkovPolicy
    utility: Array  # [S, A] or [H, S, A], of any sign


def instance(seed: int) -> Instance:
    """Every combination of the kinds of rows, gaps, supports and policies comes up within a few dozen seeds."""
    rng = np.random.default_rng(seed)
    H, S, A, K = int(rng.integers(1, 5)), int(rng.integers(2, 7)), int(rng.integers(1, 4)), int(rng.integers(1, 3))
    lead = (H,) if seed % 2 else ()
    shape = (*lead, S, A)
    rows, allowed = np.zeros((*shape, S)), np.zeros((*shape, S), dtype=bool)
    with_support = seed % 3 == 0
    for index in np.ndindex(*shape):
        kind = rng.integers(3)
        members = rng.permutation(S)[: rng.integers(1, S + 1)] if kind == 0 else np.arange(S)
        rows[index][members] = 1.0 / S if kind == 2 else rng.dirichlet(np.full(len(members), 0.7))
        allowed[index] = (rows[index] > 0.0) | (rng.random(S) < 0.3) if with_support else True
    gaps = rng.choice([0.0, 1e-9, 1e-4, 0.3, 1.0, 2.0, rng.random()], size=shape)
    policy = (
        s2r.MarkovPolicy.deterministic(rng.integers(A, size=(H, S)), num_actions=A)
        if seed % 5 < 2
        else s2r.MarkovPolicy.stochastic(rng.dirichlet(np.full(A, 0.5), size=(H, S)))
    )
    constraints = [
        s2r.AtLeast(rng.random((H, S, A) if rng.random() < 0.5 else (S, A)), float(rng.random() * H)) for _ in range(K)
    ]
    start = rng.dirichlet(np.ones(S))
    support = s2r.Kernel.from_dense(allowed / allowed.sum(axis=-1, keepdims=True)) if with_support else None
    full = (H, S, A)
    return Instance(
        model=s2r.CMDP.of(s2r.Kernel.from_dense(rows), H, start, constraints),
        rows=np.broadcast_to(rows, (*full, S)),
        gaps=gaps,
        ball=np.broadcast_to(gaps, full),
        allowed=np.broadcast_to(allowed, (*full, S)),
        support=support,
        policy=policy,
        utility=rng.normal(size=full if rng.random() < 0.5 else (S, A)),
    )


def linear_minima(rows: Array, gaps: Array, allowed: Array, values: Array) -> Array:
    """min of P . values over the distributions P on `allowed` within TV distance `gaps` of each row, as one linear program.

    P = row + more - less with more, less >= 0; the rows [R, S] do not share a variable, so their minima are found together.
    """
    count, S = rows.shape
    balance = block_diag([np.concatenate([np.ones((1, S)), -np.ones((1, S))], axis=1)] * count)
    moved = block_diag([np.concatenate([np.ones((1, S)), np.zeros((1, S))], axis=1)] * count)
    most = np.concatenate([np.where(allowed, 1.0, 0.0), rows], axis=1).reshape(-1)
    answer = linprog(
        np.tile(np.concatenate([values, -values]), count),
        A_ub=csr_array(moved),
        b_ub=np.minimum(gaps, 1.0),
        A_eq=csr_array(balance),
        b_eq=np.zeros(count),
        bounds=np.stack([np.zeros(most.size), most], axis=1),
        method="highs",
        options=EXACT,
    )
    assert answer.status == 0
    change = answer.x.reshape(count, 2, S)
    return np.asarray((rows + change[:, 0] - change[:, 1]) @ values)


def by_induction(case: Instance, utility: Array, policy: s2r.MarkovPolicy | None) -> float:
    """The worst value of a policy, or with None the best value of all policies, step by step with a linear program each."""
    H, S, A = case.ball.shape
    sign = 1.0 if policy is not None else -1.0
    steps = np.broadcast_to(utility, (H, S, A))
    after = np.zeros(S)
    for h in range(H - 1, -1, -1):
        flat = (case.rows[h].reshape(-1, S), case.ball[h].reshape(-1), case.allowed[h].reshape(-1, S))
        expected = sign * linear_minima(*flat, sign * after).reshape(S, A)
        action_values = steps[h] + expected
        after = action_values.max(axis=1) if policy is None else (policy.probabilities[h] * action_values).sum(axis=1)
    return float(case.model.start @ after)


def inside(case: Instance, rng: np.random.Generator) -> s2r.Kernel:
    """A real kernel within the balls, per step: as far as each allows towards a random row, or half of the way."""
    H, S, A = case.ball.shape
    real = np.empty((H, S, A, S))
    for index in np.ndindex(H, S, A):
        members = np.flatnonzero(case.allowed[index])
        target = np.zeros(S)
        target[members] = rng.dirichlet(np.full(len(members), 0.2))
        far = 0.5 * np.abs(target - case.rows[index]).sum()
        share = min(1.0, case.ball[index] / far) if far > 0.0 else 0.0
        real[index] = case.rows[index] + (share if rng.random() < 0.7 else 0.5 * share) * (target - case.rows[index])
    return s2r.Kernel.from_dense(np.clip(real, 0.0, 1.0))


@sampled("part", range(8), keep=[0])
def test_minima_and_maxima_are_those_of_the_linear_programs(part: int) -> None:
    for seed in range(part, INSTANCES, 8):
        case = instance(seed)
        extra = {"support": case.support}
        worst = by_induction(case, case.utility, case.policy)
        assert worst_value(case.model, case.policy, case.utility, case.gaps, **extra) == pytest.approx(worst, abs=1e-9), seed
        constraints = [by_induction(case, u, case.policy) for u in case.model.utilities]
        computed = worst_constraint_values(case.model, case.policy, case.gaps, **extra)
        np.testing.assert_allclose(computed, constraints, rtol=0.0, atol=1e-9, err_msg=str(seed))
        best = by_induction(case, case.utility, None)
        assert best_value(case.model, case.utility, case.gaps, **extra) == pytest.approx(best, abs=1e-9), seed


def test_the_instances_are_as_varied_as_they_should_be() -> None:
    cases = [instance(seed) for seed in range(INSTANCES)]
    assert len(cases) >= 300
    assert {case.model.num_constraints for case in cases} == {1, 2}
    for told in (
        [case.support is None for case in cases],
        [case.model.kernel.is_stationary for case in cases],
        [case.policy.actions is None for case in cases],
    ):
        assert 0.2 < np.mean(told) < 0.8
    lengths = np.concatenate([case.model.kernel.length for case in cases])
    gaps = np.concatenate([case.gaps.reshape(-1) for case in cases])
    assert (lengths == 0).sum() > 500  # uniform rows, which store nothing
    assert (lengths == 1).sum() > 100
    for gap in (0.0, 1e-9, 0.3, 1.0):
        assert (gaps == gap).sum() > 500


def test_no_real_kernel_within_the_balls_is_worse_or_better() -> None:
    rng = np.random.default_rng(1)
    touched = 0
    for seed in range(INSTANCES):
        case = instance(seed)
        extra = {"support": case.support}
        lower = worst_constraint_values(case.model, case.policy, case.gaps, **extra)
        upper = best_value(case.model, case.utility, case.gaps, **extra)
        free = s2r.CMDP.of(case.model.kernel, case.model.horizon, case.model.start)
        for _ in range(3):
            real = inside(case, rng)
            values = s2r.planning.constraint_values(case.model.with_kernel(real), case.policy)
            assert (lower <= values + 1e-9).all(), seed
            best = s2r.solve(free.with_kernel(real), case.utility).value
            assert best <= upper + 1e-9, seed
            touched += int((values - lower < 0.05).any())
    assert touched > 50  # the bounds are met now and then, so they are not just low


def test_wider_balls_are_never_safer_and_balls_of_no_size_are_the_model() -> None:
    for seed in range(0, INSTANCES, 2):
        case = instance(seed)
        free = s2r.CMDP.of(case.model.kernel, case.model.horizon, case.model.start)
        nothing = np.zeros_like(case.gaps)
        plain = s2r.planning.constraint_values(case.model, case.policy)
        np.testing.assert_allclose(
            worst_constraint_values(case.model, case.policy, nothing, support=case.support), plain, rtol=0.0, atol=1e-12
        )
        optimum = s2r.solve(free, case.utility).value
        assert best_value(case.model, case.utility, nothing, support=case.support) == pytest.approx(optimum, abs=1e-9)
        before, top = plain, optimum
        for scale in (1e-6, 0.1, 0.5, 1.0, 3.0):
            wider = scale * case.gaps
            lower = worst_constraint_values(case.model, case.policy, wider, support=case.support)
            upper = best_value(case.model, case.utility, wider, support=case.support)
            assert (lower <= before + 1e-12).all()
            assert upper >= top - 1e-9
            before, top = lower, upper
            if case.support is not None:  # and knowing where mass can go never hurts
                assert (worst_constraint_values(case.model, case.policy, wider) <= lower + 1e-12).all()
                assert best_value(case.model, case.utility, wider) >= upper - 1e-12


@sampled("cases", [60, 300], keep=[0])
def test_a_row_with_mass_outside_its_support_may_keep_it_but_not_gain_there(cases: int) -> None:
    """A cleared row is the simulator's, which need not know the support: the bound stays below every row on the support."""
    rng = np.random.default_rng(2)
    checked = 0
    for _ in range(cases):
        S = int(rng.integers(2, 7))
        # a row nobody visited is uniform over all states, and stores nothing
        row = np.full(S, 1.0 / S) if rng.random() < 0.3 else rng.dirichlet(np.full(S, 0.7))
        values = rng.normal(size=S)
        allowed = rng.random(S) < 0.6
        allowed[rng.integers(S)] = True
        gap = float(rng.choice([0.05, 0.3, 0.7]))
        kernel = s2r.Kernel.from_dense(np.tile(row, (S, 1, 1)))
        support = s2r.Kernel.from_dense(np.tile(allowed / allowed.sum(), (S, 1, 1)))
        reach, rows = reach_of(support, kernel), kernel.compiled_rows
        nothing = np.full(S, np.inf)
        low = worst_expectation(Sets(rows, reach, np.full(S, gap), nothing), 0, values)
        # keeping what is outside is allowed in this linear program, and going there is not
        stated = linear_minima(row[None], np.array([gap]), allowed[None], values)[0]
        assert low == pytest.approx(stated, abs=1e-9)
        if row[~allowed].sum() <= gap:
            exact = exact_minimum(row, gap, allowed, values)
            assert low <= exact + 1e-9
            checked += 1
        everywhere = Sets(rows, reach, np.ones(S), nothing)
        assert worst_expectation(everywhere, 0, values) == values[allowed].min()
    assert checked > cases // 3


def likelihood_minimum(row: Array, divergence: float, values: Array) -> float:
    """min of P . values over the distributions with KL(row, P) <= divergence, on a fine grid of its Lagrange multiplier."""
    seen, bottom = row > 0.0, values.min()
    answers = []
    for nu in bottom - np.concatenate([[0.0], np.geomspace(1e-9, 1e5, 1500)]):
        with np.errstate(divide="ignore"):
            shape = row[seen] / (values[seen] - nu)
        if not np.isfinite(shape).all():
            continue
        # p proportional to row / (values - nu) on the seen ones, the rest of the mass at the bottom where nu is the bottom
        p = shape / shape.sum()
        if nu == bottom:
            spent = float(row[seen] @ np.log(row[seen] / p))
            if spent <= divergence:
                kept = np.exp(spent - divergence)
                answers.append(kept * (p @ values[seen]) + (1.0 - kept) * bottom)
        elif float(row[seen] @ np.log(row[seen] / p)) <= divergence:
            answers.append(float(p @ values[seen]))
    return float(min(answers))


def test_the_worst_expectation_over_a_kl_ball_is_its_minimum() -> None:
    rng = np.random.default_rng(5)
    for case in range(150):
        S = int(rng.integers(2, 8))
        row = rng.dirichlet(np.full(S, 0.6))
        row[rng.random(S) < 0.3] = 0.0
        if row.sum() == 0.0:
            row[0] = 1.0
        row /= row.sum()
        values = rng.choice([0.0, 0.5, 1.0, 3.0], size=S) if case % 3 == 0 else rng.random(S) * 10.0
        divergence = float(10.0 ** rng.uniform(-5.0, 1.0))
        kernel = s2r.Kernel.from_dense(np.tile(row, (S, 1, 1)))
        sets = Sets(kernel.compiled_rows, reach_of(None, kernel), np.ones(S), np.full(S, divergence))
        low = worst_expectation(sets, 0, values)
        exact = likelihood_minimum(row, divergence, values)
        assert low <= exact + 1e-9, case
        assert low >= exact - 3e-2 * (exact - values.min()) - 1e-9, case  # the grid is that coarse
        # and the ball that says less never wins
        both = worst_expectation(sets._replace(gap=np.full(S, 0.1)), 0, values)
        alone = worst_expectation(sets._replace(gap=np.full(S, 0.1), divergence=np.full(S, np.inf)), 0, values)
        assert both == max(low, alone), case


def exact_minimum(row: Array, gap: float, allowed: Array, values: Array) -> float:
    """min of P . values over the distributions P on `allowed`, with nothing outside, within `gap` of `row`."""
    S = row.size
    answer = linprog(
        np.concatenate([values, np.zeros(S)]),
        A_ub=np.block([[np.eye(S), -np.eye(S)], [-np.eye(S), -np.eye(S)], [np.zeros((1, S)), np.ones((1, S))]]),
        b_ub=np.concatenate([row, -row, [2.0 * gap]]),
        A_eq=np.concatenate([np.ones(S), np.zeros(S)])[None],
        b_eq=[1.0],
        bounds=[(0.0, 1.0 if ok else 0.0) for ok in allowed] + [(0.0, None)] * S,
        method="highs",
        options=EXACT,
    )
    assert answer.status == 0
    return float(answer.fun)


def test_by_hand() -> None:
    """From state 0, 0.6 stays and 0.4 goes to 1, worth nothing; after one step V = (1, 0). A gap of 0.25 moves 0.25 to 1."""
    rows = np.array([[[0.6, 0.4, 0.0]], [[0.0, 1.0, 0.0]], [[0.0, 0.0, 1.0]]])
    worth = np.array([[1.0], [0.0], [-1.0]])
    model = s2r.CMDP.of(s2r.Kernel.from_dense(rows), 2, 0)
    policy = s2r.MarkovPolicy.deterministic([0, 0, 0], num_actions=1, horizon=2)
    gaps = np.array([[0.25], [0.0], [0.0]])
    pair = s2r.Kernel.from_dense(np.array([[[0.5, 0.5, 0.0]], [[0.0, 1.0, 0.0]], [[0.0, 0.0, 1.0]]]))
    assert worst_value(model, policy, worth, gaps, support=pair) == pytest.approx(1.0 + 0.35)
    assert best_value(model, worth, gaps, support=pair) == pytest.approx(1.0 + 0.85)
    # without a declared support the mass goes to state 2, worth -1
    assert worst_value(model, policy, worth, gaps) == pytest.approx(1.0 + 0.35 - 0.25)
    mixture = s2r.Mixture.of([0.5, 0.5], [policy, policy])
    assert worst_value(model, mixture, worth, gaps) == pytest.approx(1.0 + 0.35 - 0.25)


def test_a_mixture_is_the_sum_of_its_parts() -> None:
    for seed in range(0, 60, 3):
        case = instance(seed)
        other = s2r.MarkovPolicy.uniform(
            horizon=case.model.horizon, num_states=case.model.num_states, num_actions=case.model.num_actions
        )
        extra = {"support": case.support}
        parts = [worst_constraint_values(case.model, policy, case.gaps, **extra) for policy in (case.policy, other)]
        mixture = s2r.Mixture.of([0.3, 0.7], [case.policy, other])
        computed = worst_constraint_values(case.model, mixture, case.gaps, **extra)
        np.testing.assert_allclose(computed, 0.3 * parts[0] + 0.7 * parts[1], atol=1e-12)


def test_the_dual_bound_is_above_every_feasible_policy_on_kernels_within_the_balls() -> None:
    """For any multipliers the search starts from; and with balls of no size it is the optimum itself."""
    rng = np.random.default_rng(3)
    met = 0
    for seed in range(0, INSTANCES, 3):
        case = instance(seed)
        reward = rng.random((1, case.model.num_states, case.model.num_actions))
        K = case.model.num_constraints
        real = [inside(case, rng) for _ in range(3)]
        # thresholds that some policy meets on each of the real kernels
        reach = np.min(
            [s2r.planning.constraint_values(case.model.with_kernel(kernel), case.policy) for kernel in real], axis=0
        )  # [K]
        model = case.model.with_thresholds(np.maximum(0.0, reach - 0.05))
        upper = ceiling(balls_around(model, case.gaps, case.support), reward, rng.exponential(size=K)).value
        for kernel in real:
            best = s2r.solve(model.with_kernel(kernel), reward[0])
            assert best.is_feasible
            assert best.value <= upper + 1e-9, seed
        exact = s2r.solve(model, reward[0])
        if exact.is_feasible:
            point = balls_around(model, np.zeros_like(case.gaps), case.support)
            bound = ceiling(point, reward, exact.multipliers).value
            assert exact.value - 1e-9 <= bound <= exact.value + 1e-6
            met += 1
    assert met > 30


def test_a_support_of_another_shape_is_refused() -> None:
    case = instance(0)
    S, A = case.model.num_states, case.model.num_actions
    wrong = s2r.Kernel.from_dense(np.eye(S)[:, None])
    for support in (
        wrong if A > 1 else s2r.Kernel.from_dense(np.eye(S + 1)[:, None]),
        case.model.kernel.repeated(3),
        case.model,
    ):
        with pytest.raises(s2r.errors.InvalidInput, match="give a kernel of the simulator's shape"):
            reach_of(support, case.model.kernel)


def test_any_number_of_threads_gives_the_same_bits() -> None:
    for seed in range(12):
        case = instance(seed)
        model, reward, found = case.model, np.ascontiguousarray(case.model.utilities[0]), []
        for threads in (1, 2, 3):
            sets = RowSets(model, case.gaps.reshape(-1), reach_of(case.support, model.kernel), threads=threads)
            column = greedy_column(sets, reward, np.full(model.num_constraints, 0.7))
            policy, values = optimistic_policy(sets, reward)
            numbers = [sets.worst(case.policy, reward), sets.best(reward), *column.line, *values.reshape(-1)]
            numbers += worst_values(sets, policy, reward).reshape(-1).tolist()
            found.append((numbers, policy.probabilities.tolist(), column.policy.probabilities.tolist()))
        assert found[0] == found[1] == found[2]
