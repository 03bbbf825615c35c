"""Compiled passes of the planner over bare arrays; nothing here checks its input.

Letters used throughout:
  H, S, A, K           horizon, states, actions, constraints
  begin, length        [R] stored transitions of each row; R = S*A or H*S*A; length 0 = uniform over all states
  successor, probability  [N] stored transitions
  start                [S] distribution of the first state
  reward               [1 or H, S, A]
  utilities            [K, 1 or H, S, A], thresholds [K]
  actions              [C, H, S] deterministic policies in C slots
  lines                [C, 1 + K] value of the reward and of every constraint for the policy of each slot

A deterministic policy is a line (one constraint) or a plane (several) under the dual function
    D(l) = max over policies of  V_reward + l . (V_constraints - thresholds),      l >= 0,
which is convex and piecewise linear, and D(l) is an upper bound on the constrained optimum for every l >= 0 (weak duality).
A solution is accepted only because a feasible mixture's value meets such a bound, never because a search has stalled.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

Array = Any  # numba infers dtypes and dimensions


class Instance(NamedTuple):
    """A CMDP and a reward as bare arrays; the letters are explained above."""

    begin: Array
    length: Array
    successor: Array
    probability: Array
    start: Array
    reward: Array
    utilities: Array
    thresholds: Array
    H: int
    uniform: bool  # whether any row is uniform; if not, means need not be computed


class Work(NamedTuple):
    """Working space of a sweep, made once per solve."""

    weighted: Array  # [1 or H, S, A]
    values: Array  # [2, S]
    parts: Array  # [2, 1 + K, S]


OPTIMAL = 0
INFEASIBLE = 1
INACCURATE = 2

MAX_SWEEPS = 400

# A constraint is met when it is missed by no more than this times max(1, H): the rounding of one evaluation.
FEASIBILITY_TOLERANCE = 1e-12
# The search goes on until bound and value agree to this times max(1, |value|), or until rounding forbids more.
TARGET_GAP = 1e-12
# What still counts as optimal, times max(1, |value|).
ACCEPTED_GAP = 1e-9
# Allowance for rounding in a dual bound, times (|bound| + H * sum of multipliers); a bound must not be below the optimum.
ROUNDING = 2e-15
# Two policies whose constraint values differ by less than this do not define a multiplier.
NARROWEST_BRACKET = 1e-9
# How far from the multiplier of a warm start the first one to try lies, relatively, if its policies are all on one side.
FIRST_REACH = 0.02
# Slack of the master program's ratio test: a constraint may be missed by this much for a better conditioned basis.
PIVOT_TOLERANCE = 1e-11


@njit(cache=True)
def dot(x, y):
    total = 0.0
    for i in range(x.size):
        total += x[i] * y[i]
    return total


@njit(cache=True)
def expectation(begin, length, successor, probability, row, values, mean):
    """Sum of P(s' | row) values[s']. Unsigned indices and a single exit keep this loop inlined: 13 times faster."""
    n = length[row]
    k = np.uint64(begin[row])
    end = k + n
    total = mean if n == 0 else 0.0
    while k < end:
        total += probability[k] * values[successor[k]]
        k += np.uint64(1)
    return total


@njit(cache=True)
def spread(begin, length, successor, probability, row, mass, arrived):
    """Add mass * P(. | row) to `arrived`; returns the mass of a uniform row, which the caller spreads at the end."""
    n = length[row]
    k = np.uint64(begin[row])
    end = k + n
    while k < end:
        arrived[successor[k]] += mass * probability[k]
        k += np.uint64(1)
    return mass if n == 0 else 0.0


@njit(cache=True)
def backward_step(begin, length, successor, probability, uniform, first_row, utility, later, now, choices):
    """One step of backward induction: now[s] = max_a utility[s, a] + E[later]; `first_row` is the first row of the step."""
    S, A = utility.shape
    mean = later.sum() / S if uniform else 0.0
    row = first_row
    for s in range(S):
        best = -np.inf
        choice = np.uint32(0)
        for a in range(A):
            q = utility[s, a] + expectation(begin, length, successor, probability, row, later, mean)
            row += np.uint64(1)
            # Written as selections, not a branch: which action wins cannot be predicted.
            better = q > best
            best = q if better else best
            choice = np.uint32(a) if better else choice
        now[s] = best
        choices[s] = choice


@njit(cache=True)
def has_uniform_row(length):
    for row in range(length.size):
        if length[row] == 0:
            return True
    return False


@njit(cache=True)
def is_packed(begin, length, rows_per_step):
    """Whether within every step each row is stored right after the one before it."""
    packed = True
    step_end = rows_per_step
    for row in range(1, length.size):
        if row == step_end:
            step_end += rows_per_step
        else:
            packed &= begin[row] == begin[row - 1] + length[row - 1]
    return packed


@njit(cache=True)
def make_work(instance):
    _, S, A = instance.reward.shape
    K, utility_steps = instance.utilities.shape[0], instance.utilities.shape[1]
    weighted = np.empty((max(instance.reward.shape[0], utility_steps), S, A))
    return Work(weighted, np.empty((2, S)), np.empty((2, 1 + K, S)))


@njit(cache=True)
def sweep(instance, weighted, actions, line, work):
    """Backward induction on `weighted` [1 or H, S, A]: the greedy policy into `actions` [H, S], its values of the reward and
    of every constraint into `line` [1 + K]; returns its weighted value.
    """
    begin, length, successor, probability, start, _, utilities, _, H, uniform = instance
    values = work.values
    S, A = weighted.shape[1], weighted.shape[2]
    rows_per_step = 0 if begin.size == S * A else S * A
    values[H % 2] = 0.0
    for h in range(H - 1, -1, -1):
        u = weighted[h if weighted.shape[0] > 1 else 0]
        first_row = np.uint64(h * rows_per_step)
        backward_step(
            begin, length, successor, probability, uniform, first_row, u, values[(h + 1) % 2], values[h % 2], actions[h]
        )
    best = dot(start, values[0])
    line[0] = best  # without constraints the weighted value is the reward's
    if utilities.shape[0] > 0:
        evaluate_into(instance, actions, line, work.parts)
    return best


@njit(cache=True)
def sweep_pair(instance, any_rows, multiplier, actions, line, parts, q):
    """Backward induction on reward + multiplier * utility for K = 1: the greedy policy into `actions` [H, S], its two values
    into `line` [2]. An infinite multiplier means the utility alone.

    It carries the two values of the greedy policy (`parts` [2, 2, S]) instead of their weighted sum, so that nothing is left
    to evaluate. `any_rows` is None, which is known when this is compiled, if every row is stored right after the one before
    and none is uniform: `begin` need not be read then. The values of all actions go to `q` [2, A] and the best is fetched
    from there, because selecting three numbers at once is compiled to a branch, and which action wins cannot be predicted.
    Indices instead of slices, because making a slice costs as much as several rows; unsigned, because a signed index is
    tested for being negative at every use.
    """
    begin, length, successor, probability, start, reward, utilities, _, H, uniform = instance
    S, A = reward.shape[1], reward.shape[2]
    rows_per_step = 0 if begin.size == S * A else S * A
    reward_weight, utility_weight = (0.0, 1.0) if multiplier == np.inf else (1.0, multiplier)
    parts[H % 2] = 0.0
    for h in range(H - 1, -1, -1):
        later, now = np.uint64((h + 1) % 2), np.uint64(h % 2)
        reward_step = np.uint64(h if reward.shape[0] > 1 else 0)
        utility_step = np.uint64(h if utilities.shape[1] > 1 else 0)
        mean = parts[later, 0].sum() / S if uniform else 0.0
        other_mean = parts[later, 1].sum() / S if uniform else 0.0
        row = np.uint64(h * rows_per_step)
        i = np.uint64(begin[row])
        for s in range(S):
            best = -np.inf
            choice = np.uint32(0)
            for a in range(A):
                total = reward[reward_step, s, a]
                other = utilities[0, utility_step, s, a]
                n = length[row]
                if any_rows is not None:
                    i = np.uint64(begin[row])
                    total += mean if n == 0 else 0.0
                    other += other_mean if n == 0 else 0.0
                end = i + n
                while i < end:
                    p = probability[i]
                    t = successor[i]
                    total += p * parts[later, 0, t]
                    other += p * parts[later, 1, t]
                    i += np.uint64(1)
                row += np.uint64(1)
                q[0, a] = total
                q[1, a] = other
                weighted = reward_weight * total + utility_weight * other
                better = weighted > best
                best = weighted if better else best
                choice = np.uint32(a) if better else choice
            parts[now, 0, s] = q[0, choice]
            parts[now, 1, s] = q[1, choice]
            actions[h, s] = choice
    line[0] = dot(start, parts[0, 0])
    line[1] = dot(start, parts[0, 1])


@njit(cache=True)
def evaluate_actions(instance, actions, line, work):
    """Values of the reward and of K >= 1 constraints under the policy `actions` [H, S], into `line` [1 + K]."""
    evaluate_into(instance, actions, line, work.parts)


@njit(cache=True)
def evaluate_into(instance, actions, line, parts):
    """`evaluate_actions` with `parts` [2, 1 + K, S] as its only working space; written like `sweep_pair`."""
    begin, length, successor, probability, start, reward, utilities, _, H, uniform = instance
    S, A, K = reward.shape[1], reward.shape[2], utilities.shape[0]
    rows_per_step = 0 if begin.size == S * A else S * A
    parts[H % 2] = 0.0
    for h in range(H - 1, -1, -1):
        later, now = np.uint64((h + 1) % 2), np.uint64(h % 2)
        reward_step = np.uint64(h if reward.shape[0] > 1 else 0)
        utility_step = np.uint64(h if utilities.shape[1] > 1 else 0)
        for k in range(K):
            part = np.uint64(1 + k)
            mean = parts[later, 0].sum() / S if uniform else 0.0
            other_mean = parts[later, part].sum() / S if uniform else 0.0
            first = np.uint64(h * rows_per_step)
            for s in range(S):
                a = np.uint64(actions[h, s])
                row = first + a
                first += np.uint64(A)
                n = length[row]
                i = np.uint64(begin[row])
                end = i + n
                total = reward[reward_step, s, a] + (mean if n == 0 else 0.0)
                other = utilities[k, utility_step, s, a] + (other_mean if n == 0 else 0.0)
                while i < end:
                    p = probability[i]
                    t = successor[i]
                    total += p * parts[later, 0, t]
                    other += p * parts[later, part, t]
                    i += np.uint64(1)
                parts[now, 0, s] = total
                parts[now, part, s] = other
    for j in range(1 + K):
        line[j] = dot(start, parts[0, j])


@njit(cache=True)
def backward_lexicographic(instance, first, second, tie, actions):
    """Backward induction on `first`; among actions within `tie` of the best, the one with the largest `second`."""
    begin, length, successor, probability, H = (
        instance.begin,
        instance.length,
        instance.successor,
        instance.probability,
        instance.H,
    )
    S, A = first.shape[1], first.shape[2]
    rows_per_step = 0 if begin.size == S * A else S * A
    v = np.zeros((2, S))
    w = np.zeros((2, S))
    q = np.empty((2, A))
    for h in range(H - 1, -1, -1):
        v_mean, w_mean = v[1].sum() / S, w[1].sum() / S
        f = first[h if first.shape[0] > 1 else 0]
        g = second[h if second.shape[0] > 1 else 0]
        row = np.uint64(h * rows_per_step)
        for s in range(S):
            best = -np.inf
            for a in range(A):
                q[0, a] = f[s, a] + expectation(begin, length, successor, probability, row, v[1], v_mean)
                q[1, a] = g[s, a] + expectation(begin, length, successor, probability, row, w[1], w_mean)
                row += np.uint64(1)
                best = max(best, q[0, a])
            choice = -1
            for a in range(A):
                if q[0, a] >= best - tie and (choice < 0 or q[1, a] > q[1, choice]):
                    choice = a
            v[0, s], w[0, s] = q[0, choice], q[1, choice]
            actions[h, s] = choice
        v[1] = v[0]
        w[1] = w[0]


@njit(cache=True)
def occupancy(begin, length, successor, probability, start, policy):
    """State-action visitation probabilities [H, S, A] of a stochastic policy [H, S, A]."""
    H, S, A = policy.shape
    rows_per_step = 0 if begin.size == S * A else S * A
    visits = np.zeros((H, S, A))
    here = start.copy()
    there = np.empty(S)
    for h in range(H):
        there[:] = 0.0
        everywhere = 0.0
        for s in range(S):
            for a in range(A):
                m = here[s] * policy[h, s, a]
                if m > 0.0:
                    visits[h, s, a] = m
                    everywhere += spread(
                        begin, length, successor, probability, np.uint64(h * rows_per_step + s * A + a), m, there
                    )
        there += everywhere / S
        here, there = there, here
    return visits


@njit(cache=True)
def value_functions(begin, length, successor, probability, utility, policy):
    """V_h(s) [H + 1, S] of one utility [1 or H, S, A] under a stochastic policy [H, S, A]; the last row is 0."""
    H, S, A = policy.shape
    rows_per_step = 0 if begin.size == S * A else S * A
    values = np.zeros((H + 1, S))
    for h in range(H - 1, -1, -1):
        mean = values[h + 1].sum() / S
        u = utility[h if utility.shape[0] > 1 else 0]
        for s in range(S):
            total = 0.0
            for a in range(A):
                if policy[h, s, a] > 0.0:
                    row = np.uint64(h * rows_per_step + s * A + a)
                    later = expectation(begin, length, successor, probability, row, values[h + 1], mean)
                    total += policy[h, s, a] * (u[s, a] + later)
            values[h, s] = total
    return values


@njit(cache=True)
def weigh(reward, utilities, multipliers, weighted):
    """weighted = reward + multipliers . utilities, on [1 or H, S, A]."""
    K = utilities.shape[0]
    for h in range(weighted.shape[0]):
        r = reward[h if reward.shape[0] > 1 else 0]
        for s in range(weighted.shape[1]):
            for a in range(weighted.shape[2]):
                total = r[s, a]
                for k in range(K):
                    total += multipliers[k] * utilities[k, h if utilities.shape[1] > 1 else 0, s, a]
                weighted[h, s, a] = total


@njit(cache=True)
def price(instance, objective, multipliers, actions, line, work):
    """One sweep: the policy that maximises objective + multipliers . utilities, its line, and (returned) that maximum."""
    weigh(objective, instance.utilities, multipliers, work.weighted)
    return sweep(instance, work.weighted, actions, line, work)


@njit(cache=True)
def solve_unconstrained(instance, actions, lines, weights, multipliers):
    """K = 0: one sweep."""
    bound = price(instance, instance.reward, multipliers, actions[0], lines[0], make_work(instance))
    weights[:] = 0.0
    weights[0] = 1.0
    return OPTIMAL, bound, 0.0, 1


@njit(cache=True)
def solve_one_constraint(instance, any_rows, warm, actions, lines, weights, multipliers):
    """K = 1: walk along the dual function, which is convex and piecewise linear in one multiplier.

    Keep one policy that meets the threshold (its line rises) and one that misses it (its line falls). Their lines cross at
    a multiplier; a sweep there either shows that the crossing lies on the dual function, and then the mixture of the two
    that meets the threshold exactly is optimal, or finds a policy above the crossing, which replaces one of the two.

    While only one of the two is known, multipliers further and further from a guess are tried, and at last 0 or infinity.

    `actions` [3, H, S]: the first `warm` slots hold policies to start from, and `multipliers` the multiplier that went with
    them. Returns (status, bound, shortfall, sweeps).
    """
    threshold, safety, reward, H = instance.thresholds[0], instance.utilities[0], instance.reward, instance.H
    S, A = reward.shape[1], reward.shape[2]
    slack = FEASIBILITY_TOLERANCE * max(1.0, H)
    parts, q = np.empty((2, 2, S)), np.empty((2, A))
    safe, unsafe, spare = -1, -1, 0
    for slot in range(warm):
        evaluate_into(instance, actions[slot], lines[slot], parts)
        if lines[slot, 1] >= threshold - slack:
            safe = slot
        else:
            unsafe = slot
    if safe >= 0 and unsafe >= 0 and lines[safe, 1] - lines[unsafe, 1] < NARROWEST_BRACKET:
        safe, unsafe = -1, -1
    started_warm = safe >= 0 or unsafe >= 0
    guess, reach = multipliers[0], FIRST_REACH
    if not started_warm or not 0.0 < guess < np.inf:
        guess, reach = first_guess(reward, safety)
    bound = np.inf
    best_multiplier = 0.0
    sweeps = 0
    status = INACCURATE
    while sweeps < MAX_SWEEPS:
        spare = 0
        while spare in (safe, unsafe):
            spare += 1
        crossing = np.inf
        multiplier = 0.0
        if safe >= 0 and unsafe >= 0:
            rise = lines[safe, 1] - lines[unsafe, 1]
            multiplier = max(0.0, (lines[unsafe, 0] - lines[safe, 0]) / rise)
            crossing = max(
                lines[safe, 0] + multiplier * (lines[safe, 1] - threshold),
                lines[unsafe, 0] + multiplier * (lines[unsafe, 1] - threshold),
            )
        elif unsafe >= 0:
            multiplier = guess * (1.0 + reach) if reach <= 1.0 else np.inf
            reach *= 4.0
        elif safe >= 0:
            multiplier = guess * (1.0 - min(1.0, reach))
            reach *= 4.0
        if multiplier == np.inf:
            sweep_pair(instance, any_rows, np.inf, actions[spare], lines[spare], parts, q)
            sweeps += 1
            safest = lines[spare, 1]
            if safest < threshold - slack:
                weights[:] = 0.0
                weights[spare] = 1.0
                multipliers[0] = np.inf
                return INFEASIBLE, -np.inf, threshold - safest, sweeps
            if safest < threshold + NARROWEST_BRACKET:
                # Only the safest policies will do, and no finite multiplier may tell them apart by reward: of the
                # actions that are equally safe up to rounding, take the most rewarding.
                backward_lexicographic(instance, safety, reward, 1e-15 * H, actions[spare])
                evaluate_into(instance, actions[spare], lines[spare], parts)
                sweeps += 1
                if lines[spare, 1] < threshold - slack:
                    sweep_pair(instance, any_rows, np.inf, actions[spare], lines[spare], parts, q)
                    sweeps += 1
            safe = spare
            continue
        sweep_pair(instance, any_rows, multiplier, actions[spare], lines[spare], parts, q)
        peak = lines[spare, 0] + multiplier * (lines[spare, 1] - threshold)
        sweeps += 1
        ceiling = peak + ROUNDING * (max(1.0, abs(peak)) + H * multiplier)
        if ceiling < bound:
            bound = ceiling
            best_multiplier = multiplier
        meets = lines[spare, 1] >= threshold - slack
        if multiplier == 0.0 and meets:
            # The best policy without the constraint meets it.
            weights[:] = 0.0
            weights[spare] = 1.0
            multipliers[0] = 0.0
            return OPTIMAL, bound, 0.0, sweeps
        if safe >= 0 and unsafe >= 0:
            value = mix(lines, safe, unsafe, threshold, weights)
            scale = max(1.0, abs(value))
            rounding = ROUNDING * (scale + H * multiplier)
            if bound - value <= TARGET_GAP * scale or peak <= crossing + rounding:
                if bound - value <= ACCEPTED_GAP * scale:
                    status = OPTIMAL
                    break
                if started_warm:
                    # A poor start; forget it and begin again.
                    safe, unsafe, started_warm = -1, -1, False
                    guess, reach = first_guess(reward, safety)
                    bound = np.inf
                    continue
                break
        if meets:
            safe = spare
        else:
            unsafe = spare
    mix(lines, safe, unsafe, threshold, weights)
    multipliers[0] = best_multiplier
    return status, bound, 0.0, sweeps


@njit(cache=True)
def first_guess(reward, safety):
    """(guess, reach) without a warm start: the first multiplier after 0, guess * (1 + reach), makes the whole range of the
    utility worth that of the reward, which is nearer to most solutions than infinity; the next one is infinity.
    """
    rate = extent(reward) / max(extent(safety), 1e-300)
    return 0.5 * rate, 1.0 if 0.0 < rate < 1e100 else np.inf


@njit(cache=True)
def extent(x):
    """Largest minus smallest entry of x [1 or H, S, A]."""
    low, high = x[0, 0, 0], x[0, 0, 0]
    for h in range(x.shape[0]):
        for s in range(x.shape[1]):
            for a in range(x.shape[2]):
                low = min(low, x[h, s, a])
                high = max(high, x[h, s, a])
    return high - low


@njit(cache=True)
def mix(lines, safe, unsafe, threshold, weights):
    """Weights of the best mixture of a safe and an unsafe policy that meets the threshold; returns its value."""
    weights[:] = 0.0
    if safe < 0 or unsafe < 0:
        weights[max(safe, unsafe)] = 1.0
        return lines[max(safe, unsafe), 0]
    share = (threshold - lines[unsafe, 1]) / (lines[safe, 1] - lines[unsafe, 1])
    # A safe policy that is also the more rewarding one needs no mixing.
    share = 1.0 if lines[safe, 0] >= lines[unsafe, 0] else min(1.0, share)
    weights[safe] = share
    weights[unsafe] = 1.0 - share
    return share * lines[safe, 0] + (1.0 - share) * lines[unsafe, 0]


@njit(cache=True)
def solve_square(matrix, right):
    """x with matrix x = right, by Gaussian elimination with partial pivoting; both arguments are overwritten."""
    n = right.size
    for i in range(n):
        pivot = i
        for j in range(i + 1, n):
            if abs(matrix[j, i]) > abs(matrix[pivot, i]):
                pivot = j
        if pivot != i:
            for k in range(n):
                matrix[i, k], matrix[pivot, k] = matrix[pivot, k], matrix[i, k]
            right[i], right[pivot] = right[pivot], right[i]
        for j in range(i + 1, n):
            factor = matrix[j, i] / matrix[i, i]
            for k in range(i, n):
                matrix[j, k] -= factor * matrix[i, k]
            right[j] -= factor * right[i]
    for i in range(n - 1, -1, -1):
        for k in range(i + 1, n):
            right[i] -= matrix[i, k] * right[k]
        right[i] /= matrix[i, i]
    return right


@njit(cache=True)
def column(lines, thresholds, j, out):
    """Column j of the master program: a policy (j < C), the slack of a constraint, or the shared shortfall (last)."""
    C, K = lines.shape[0], thresholds.size
    out[:] = 0.0
    if j < C:
        for k in range(K):
            out[k] = lines[j, 1 + k] - thresholds[k]
        out[K] = 1.0
    elif j < C + K:
        out[j - C] = -1.0
    else:
        out[:K] = 1.0


@njit(cache=True)
def is_basic(basis, j):
    for i in range(basis.size):
        if basis[i] == j:
            return True
    return False


@njit(cache=True)
def basis_matrix(lines, thresholds, basis):
    n = basis.size
    matrix = np.empty((n, n))
    entry = np.empty(n)
    for i in range(n):
        column(lines, thresholds, basis[i], entry)
        matrix[:, i] = entry
    return matrix


@njit(cache=True)
def master_simplex(lines, used, thresholds, basis, minimise_shortfall, dual):
    """Primal simplex on the master program over the policies found so far, from the feasible `basis` [K + 1].

    maximise   sum_j w_j reward_j      (or minus the shortfall z)
    subject to sum_j w_j (value_jk - threshold_k) - slack_k + z = 0 for every k,   sum_j w_j = 1,   all variables >= 0,
    with z held out unless `minimise_shortfall`. Leaves the prices in `dual` [K + 1] and returns the basic solution [K + 1].
    """
    C, K = lines.shape[0], thresholds.size
    n = K + 1
    entry, costs = np.empty(n), np.empty(n)
    last = C + K + 1 if minimise_shortfall else C + K
    solution = np.empty(n)
    for iteration in range(200):
        solution[:] = 0.0
        solution[K] = 1.0
        solution = solve_square(basis_matrix(lines, thresholds, basis), solution)
        for i in range(n):
            j = basis[i]
            costs[i] = (0.0 if minimise_shortfall else lines[j, 0]) if j < C else (-1.0 if j == C + K else 0.0)
        dual[:] = solve_square(basis_matrix(lines, thresholds, basis).T.copy(), costs.copy())
        entering, gain = -1, 1e-13 * max(1.0, np.abs(dual).max())
        for j in range(last):
            if j < C and not used[j]:
                continue
            column(lines, thresholds, j, entry)
            cost = (0.0 if minimise_shortfall else lines[j, 0]) if j < C else (-1.0 if j == C + K else 0.0)
            reduced = cost - dot(dual, entry)
            if reduced > gain and not is_basic(basis, j):
                entering = j
                if iteration >= 100:
                    break  # Bland's rule: the first improving column cannot cycle
                gain = reduced
        if entering < 0:
            break
        column(lines, thresholds, entering, entry)
        direction = solve_square(basis_matrix(lines, thresholds, basis), entry.copy())
        # Harris' ratio test: of the rows that leave within rounding of the first, the one with the largest pivot.
        step = np.inf
        for i in range(n):
            if direction[i] > PIVOT_TOLERANCE:
                step = min(step, (max(solution[i], 0.0) + PIVOT_TOLERANCE) / direction[i])
        leaving, pivot = -1, 0.0
        for i in range(n):
            if direction[i] > max(PIVOT_TOLERANCE, pivot) and max(solution[i], 0.0) <= step * direction[i]:
                leaving, pivot = i, direction[i]
        if leaving < 0:
            break
        basis[leaving] = entering
    return solution


@njit(cache=True)
def free_slot(lines, used, thresholds, basis, weights, dual):
    """A slot for a new policy: an unused one, or that of the idle policy the current prices like least."""
    entry = np.empty(thresholds.size + 1)
    slot, worst = -1, np.inf
    for j in range(used.size):
        if not used[j]:
            return j
        column(lines, thresholds, j, entry)
        reduced = lines[j, 0] - dot(dual, entry)
        if weights[j] == 0.0 and reduced < worst and not is_basic(basis, j):
            slot, worst = j, reduced
    return slot


@njit(cache=True)
def expel_shortfall(lines, used, thresholds, basis):
    """Exchange the shortfall, basic at zero, for the column that leaves the basis best conditioned."""
    C, K = lines.shape[0], thresholds.size
    at = -1
    for i in range(K + 1):
        if basis[i] == C + K:
            at = i
    if at < 0:
        return
    entry = np.empty(K + 1)
    chosen, largest = -1, 0.0
    for j in range(C + K):
        if (j < C and not used[j]) or is_basic(basis, j):
            continue
        column(lines, thresholds, j, entry)
        size = abs(solve_square(basis_matrix(lines, thresholds, basis), entry.copy())[at])
        if size > largest:
            chosen, largest = j, size
    basis[at] = chosen


@njit(cache=True)
def solve_columns(instance, warm, actions, lines, weights, multipliers):
    """K >= 2: column generation. A small master program mixes the policies found so far; a sweep at its prices either
    proves the mixture optimal or finds a policy that improves it. First the largest shortfall is driven to zero, then
    the reward is maximised. `actions` [C, H, S]: the first `warm` slots hold policies to start from.
    """
    reward, thresholds, H = instance.reward, instance.thresholds, instance.H
    K, C = thresholds.size, actions.shape[0]
    slack = FEASIBILITY_TOLERANCE * max(1.0, H)
    nothing = np.zeros((1, reward.shape[1], reward.shape[2]))
    work = make_work(instance)
    used = np.zeros(C, dtype=np.bool_)
    limits = thresholds.copy()
    dual = np.zeros(K + 1)
    basis = np.empty(K + 1, dtype=np.int64)
    sweeps = 0
    for slot in range(warm):
        evaluate_actions(instance, actions[slot], lines[slot], work)
        used[slot] = True
    if warm == 0:
        multipliers[:] = 0.0
        bound = price(instance, reward, multipliers, actions[0], lines[0], work)
        sweeps += 1
        used[0] = True
        if (lines[0, 1:] >= limits - slack).all():
            weights[:] = 0.0
            weights[0] = 1.0
            return OPTIMAL, bound, 0.0, sweeps
    # A feasible first basis: the policy of slot 0, the slacks it leaves, and the shortfall in the row it misses most.
    worst = 0
    for k in range(K):
        basis[k] = C + k
        if lines[0, 1 + k] - limits[k] < lines[0, 1 + worst] - limits[worst]:
            worst = k
    basis[K] = 0
    shortfall = max(0.0, limits[worst] - lines[0, 1 + worst])
    if shortfall > 0.0:
        basis[worst] = C + K

    while shortfall > 0.0 and sweeps < MAX_SWEEPS:
        solution = master_simplex(lines, used, limits, basis, True, dual)
        shortfall = 0.0
        for i in range(K + 1):
            if basis[i] == C + K:
                shortfall = max(solution[i], 0.0)
        if shortfall <= slack:
            break
        for k in range(K):
            multipliers[k] = max(0.0, -dual[k])
        slot = free_slot(lines, used, limits, basis, weights, dual)
        best = price(instance, nothing, multipliers, actions[slot], lines[slot], work) - dot(multipliers, limits)
        sweeps += 1
        used[slot] = True
        if best <= dual[K] + slack:
            master_weights(basis, solution, C, weights)
            multipliers[:] = np.inf
            return INFEASIBLE, -np.inf, shortfall, sweeps
    if shortfall > slack:
        master_weights(basis, solution, C, weights)
        return INACCURATE, np.inf, shortfall, sweeps
    # Missing every threshold by rounding counts as meeting it; from here on the shortfall is exactly zero.
    limits -= shortfall
    solution = np.zeros(K + 1)
    solution[K] = 1.0
    master_weights(basis, solve_square(basis_matrix(lines, limits, basis), solution), C, weights)
    expel_shortfall(lines, used, limits, basis)

    bound, value = np.inf, dot(weights, lines[:, 0])
    prices, previous = np.zeros(K), np.full(K + 1, np.nan)
    candidate = np.zeros(C)
    while True:
        solution = master_simplex(lines, used, limits, basis, False, dual)
        master_weights(basis, solution, C, candidate)
        # A nearly singular basis can spoil the weights: keep the best mixture that met its thresholds when evaluated.
        if largest_miss(candidate, lines, limits) <= slack and dot(candidate, lines[:, 0]) > value:
            weights[:] = candidate
            value = dot(candidate, lines[:, 0])
        scale = max(1.0, abs(value))
        if bound - value <= TARGET_GAP * scale or sweeps >= MAX_SWEEPS or (dual == previous).all():
            break
        previous[:] = dual
        for k in range(K):
            prices[k] = max(0.0, -dual[k])
        slot = free_slot(lines, used, limits, basis, weights, dual)
        peak = price(instance, reward, prices, actions[slot], lines[slot], work) - dot(prices, limits)
        sweeps += 1
        used[slot] = True
        ceiling = peak + ROUNDING * (max(1.0, abs(peak)) + H * prices.sum())
        if ceiling < bound:
            bound = ceiling
            multipliers[:] = prices
        if peak - value <= ROUNDING * (scale + H * prices.sum()):
            break
    accepted = bound - value <= ACCEPTED_GAP * max(1.0, abs(value))
    return OPTIMAL if accepted else INACCURATE, bound, 0.0, sweeps


@njit(cache=True)
def largest_miss(weights, lines, limits):
    """By how much a mixture falls short of the limits at the worst; negative when it meets them all."""
    missed = -np.inf
    for k in range(limits.size):
        missed = max(missed, limits[k] - dot(weights, lines[:, 1 + k]))
    return missed


@njit(cache=True)
def master_weights(basis, solution, C, weights):
    """The policies' share of a basic solution, made to sum to 1."""
    weights[:] = 0.0
    total = 0.0
    for i in range(basis.size):
        if basis[i] < C:
            weights[basis[i]] = max(solution[i], 0.0)
            total += weights[basis[i]]
    weights /= total


@njit(cache=True)
def solve(
    begin, length, successor, probability, start, reward, utilities, thresholds, H,
    warm, actions, lines, weights, multipliers,
):  # fmt: skip
    """The exact constrained optimum for any number of constraints. Returns (status, bound, shortfall, sweeps).

    Bare arrays, because numba recognises them several times faster than a tuple when it is called from Python.
    """
    uniform = has_uniform_row(length)
    instance = Instance(begin, length, successor, probability, start, reward, utilities, thresholds, H, uniform)
    if thresholds.size == 0:
        return solve_unconstrained(instance, actions, lines, weights, multipliers)
    if thresholds.size == 1:
        if uniform or not is_packed(begin, length, reward.shape[1] * reward.shape[2]):
            return solve_one_constraint(instance, True, warm, actions, lines, weights, multipliers)
        return solve_one_constraint(instance, None, warm, actions, lines, weights, multipliers)
    return solve_columns(instance, warm, actions, lines, weights, multipliers)
