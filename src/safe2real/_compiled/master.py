"""The master program of column generation: the best mixture of the policies found so far, by a small primal simplex.

Its columns are the policies of C slots, the slack of each of K constraints, and one shortfall that all constraints share.
"""

from __future__ import annotations

import numpy as np

from safe2real._compiled.cache import inner
from safe2real._compiled.transitions import dot

# Slack of the ratio test: a constraint may be missed by this much for a better conditioned basis.
PIVOT_TOLERANCE = 1e-11


@inner
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
        if matrix[i, i] == 0.0:
            raise ZeroDivisionError("the basis of the master program is singular")  # rather than weights that are no numbers
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


@inner
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


@inner
def is_basic(basis, j):
    for i in range(basis.size):
        if basis[i] == j:
            return True
    return False


@inner
def basis_matrix(lines, thresholds, basis):
    n = basis.size
    matrix = np.empty((n, n))
    entry = np.empty(n)
    for i in range(n):
        column(lines, thresholds, basis[i], entry)
        matrix[:, i] = entry
    return matrix


@inner
def simplex(lines, used, thresholds, basis, minimise_shortfall, dual):
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


@inner
def free_slot(lines, used, taken, thresholds, basis, weights, dual):
    """A slot for a new policy that is not `taken`: an unused one, or that of the idle policy the prices like least."""
    entry = np.empty(thresholds.size + 1)
    slot, worst = -1, np.inf
    for j in range(used.size):
        if taken[j]:
            continue
        if not used[j]:
            return j
        column(lines, thresholds, j, entry)
        reduced = lines[j, 0] - dot(dual, entry)
        if weights[j] == 0.0 and reduced < worst and not is_basic(basis, j):
            slot, worst = j, reduced
    return slot


@inner
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


@inner
def largest_miss(weights, lines, limits):
    """By how much a mixture falls short of the limits at the worst; negative when it meets them all."""
    missed = -np.inf
    for k in range(limits.size):
        missed = max(missed, limits[k] - dot(weights, lines[:, 1 + k]))
    return missed


@inner
def weights_of(basis, solution, C, weights):
    """The policies' share of a basic solution, made to sum to 1."""
    weights[:] = 0.0
    total = 0.0
    for i in range(basis.size):
        if basis[i] < C:
            weights[basis[i]] = max(solution[i], 0.0)
            total += weights[basis[i]]
    weights /= total
