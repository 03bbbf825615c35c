"""The search for the optimum under several constraints: column generation, priced by backward induction.

A small master program, solved by a primal simplex, mixes the policies found so far. Its prices say what a policy would have
to be good at to improve the mixture, and a pass over all rows at these prices finds such policies or proves that there are
none. First the largest shortfall is driven to zero, then the reward is maximised; the bound is a dual one, as in
`dual_search`.

A pass prices at four places: where the master program says, and on the way there from the prices of the best bound so far.
The master's own prices leap about while it knows few policies; those between are what it will say later on.

As `dual_search`, the search says which weights it wants to know about (`ask`), a sweeper finds the lines there, and it draws
its conclusions (`tell`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from safe2real._compiled import codes
from safe2real._compiled.cache import compiled, shared
from safe2real._compiled.dual_search import GO_ON
from safe2real._compiled.lanes import LANES
from safe2real._compiled.rows import Array
from safe2real._compiled.sweeps import evaluate, sweep
from safe2real._compiled.transitions import alike, dot, mean_of, total_of


class Search(NamedTuple):
    """The state of one search; C policies, K >= 2 constraints."""

    lines: Array  # [C, 1 + K] value of the reward and of every utility
    used: Array  # [C] slots that hold a policy
    limits: Array  # [K] the thresholds; a shortfall that is only rounding is taken off
    basis: Array  # [K + 1] of the master program
    solution: Array  # [K + 1] of the master program while it has a shortfall
    dual: Array  # [K + 1] of the master program, now
    previous: Array  # [K + 1] and when it was last asked about; NaN at first
    asked: Array  # [LANES, 1 + K] weight of the reward and of every utility
    slots: Array  # [LANES] where the policies go
    weights: Array  # [C] the best mixture so far
    multipliers: Array  # [K] where the bound is smallest
    H: int
    numbers: Array  # [NUMBERS], one for each name below


NUMBERS = 5
BOUND, SHORTFALL, PASSES, VALUE, PHASE = range(NUMBERS)
CORNERS, FEASIBILITY, OPTIMALITY = range(3)  # phases: what is asked about
PIVOT_TOLERANCE = 1e-11  # of the ratio test: a constraint may be missed by this much for a better conditioned basis


@shared
def begin(lines, weights, multipliers, thresholds, H, warm):
    """Create a search. The first `warm` slots hold policies with known lines."""
    C, K = lines.shape[0], thresholds.size
    search = Search(
        lines, np.zeros(C, dtype=np.bool_), thresholds.copy(), np.empty(K + 1, dtype=np.int64), np.zeros(K + 1),
        np.zeros(K + 1), np.empty(K + 1), np.zeros((LANES, 1 + K)), np.zeros(LANES, dtype=np.int64), weights, multipliers,
        H, np.zeros(NUMBERS),
    )  # fmt: skip
    start(search, warm)
    return search


@shared
def start(search, warm):
    """Initialise a search whose arrays are allocated: zeros except the limits and the lines of the `warm` slots."""
    search.previous[:] = np.nan
    search.numbers[BOUND], search.numbers[PHASE] = np.inf, CORNERS
    if warm == 0:
        search.multipliers[:] = 0.0
    else:
        search.used[:warm] = True
        find_basis(search)  # which ends no search: without a pass nothing is bounded


@shared
def ask(search):
    """Choose the weights `asked` of the next sweep and the `slots` for its policies; return how many."""
    K, asked = search.limits.size, search.asked
    if search.numbers[PHASE] == CORNERS:
        # The reward alone, and the first utilities alone: corners between which the optimum lies.
        asked[:] = 0.0
        for lane in range(LANES):
            asked[lane, min(lane, K)] = 1.0
            search.slots[lane] = lane
        if K < LANES - 1:
            asked[LANES - 1, 1:] = 1.0
    else:
        choose_slots(search)
        prices = prices_of(search)
        if search.numbers[PHASE] == FEASIBILITY:
            ask_between(search, 0.0, prices, alike(K, mean_of(prices)))
        else:
            ask_between(search, 1.0, prices, search.multipliers if search.numbers[BOUND] < np.inf else alike(K, 0.0))
    for lane in range(LANES):
        search.used[search.slots[lane]] = True
    return LANES


@shared
def choose_slots(search):
    """A slot for every lane."""
    taken = np.zeros(search.used.size, dtype=np.bool_)
    for lane in range(LANES):
        slot = free_slot(search.lines, search.used, taken, search.limits, search.basis, search.weights, search.dual)
        search.slots[lane] = slot
        taken[slot] = True


@shared
def prices_of(search):
    """Return the prices [K] of the utilities in the master program."""
    prices = np.empty(search.limits.size)
    for k in range(prices.size):
        prices[k] = max(0.0, -search.dual[k])
    return prices


@shared
def ask_between(search, reward_weight, prices, best):
    """At `prices` [K] in the first lane, and in the others on the way to them from other ones, the `best` so far."""
    share = 1.0
    for lane in range(LANES):
        search.asked[lane, 0] = reward_weight
        for k in range(prices.size):
            search.asked[lane, 1 + k] = best[k] + share * (prices[k] - best[k])
        share *= 0.4


@shared
def tell(search):
    """Update the search from the lines of the policies asked for; return a status, or GO_ON."""
    lines, limits, numbers, slack = search.lines, search.limits, search.numbers, slack_of(search)
    numbers[PASSES] += 1.0
    if numbers[PHASE] == CORNERS:
        if largest_miss(lines[0], limits) <= slack:
            search.weights[:] = 0.0
            search.weights[0] = 1.0
            numbers[BOUND] = lines[0, 0]
            return codes.OPTIMAL  # the best policy without the constraints meets them
        return find_basis(search)
    if numbers[PHASE] == FEASIBILITY:
        prices = prices_of(search)
        best = dot(prices, lines[search.slots[0], 1:]) - dot(prices, limits)
        if best <= search.dual[limits.size] + slack:
            weights_of(search.basis, search.solution, lines.shape[0], search.weights)
            search.multipliers[:] = np.inf
            numbers[BOUND] = -np.inf
            return codes.INFEASIBLE
        return reduce_shortfall(search)
    return tell_bound(search)


@shared
def slack_of(search):
    """Return the shortfall up to which a constraint counts as satisfied."""
    return codes.FEASIBILITY_TOLERANCE * max(1.0, search.H)


@shared
def find_basis(search):
    """A feasible first basis: the policy of slot 0, the slacks it leaves, and the shortfall in the row it misses most."""
    lines, limits, basis = search.lines, search.limits, search.basis
    C, K = lines.shape[0], limits.size
    worst = 0
    for k in range(K):
        basis[k] = C + k
        if lines[0, 1 + k] - limits[k] < lines[0, 1 + worst] - limits[worst]:
            worst = k
    basis[K] = 0
    search.numbers[SHORTFALL] = max(0.0, limits[worst] - lines[0, 1 + worst])
    if search.numbers[SHORTFALL] > 0.0:
        basis[worst] = C + K
    return reduce_shortfall(search)


@shared
def reduce_shortfall(search):
    """The smallest shortfall of all mixtures of the policies that are known; on to the reward where there is none."""
    lines, limits, basis, numbers = search.lines, search.limits, search.basis, search.numbers
    C, K, slack = lines.shape[0], limits.size, slack_of(search)
    if numbers[SHORTFALL] > 0.0 and numbers[PASSES] < codes.MAX_SWEEPS:
        search.solution[:] = simplex(lines, search.used, limits, basis, True, search.dual)
        numbers[SHORTFALL] = 0.0
        for i in range(K + 1):
            if basis[i] == C + K:
                numbers[SHORTFALL] = max(search.solution[i], 0.0)
        if numbers[SHORTFALL] > slack:
            numbers[PHASE] = FEASIBILITY
            return GO_ON
    if numbers[SHORTFALL] > slack:
        weights_of(basis, search.solution, C, search.weights)
        return codes.INACCURATE
    # Missing every threshold by rounding counts as meeting it; from here on the shortfall is exactly zero.
    limits -= numbers[SHORTFALL]
    right = np.zeros(K + 1)
    right[K] = 1.0
    mixed = solve_square(basis_matrix(lines, limits, basis), right)
    weights_of(basis, mixed, C, search.weights)
    expel_shortfall(lines, search.used, limits, basis)
    numbers[PHASE], numbers[SHORTFALL] = OPTIMALITY, 0.0
    numbers[VALUE] = dot(search.weights, lines[:, 0])
    return raise_value(search)


@shared
def raise_value(search):
    """The best mixture of the policies that are known; ends where it meets the bound, or has nothing new to ask."""
    lines, numbers = search.lines, search.numbers
    candidate = np.zeros(lines.shape[0])
    solution = simplex(lines, search.used, search.limits, search.basis, False, search.dual)
    weights_of(search.basis, solution, lines.shape[0], candidate)
    # A nearly singular basis can spoil the weights: keep the best mixture that met its thresholds when evaluated.
    worth = dot(candidate, lines[:, 0])
    reached = np.empty(1 + search.limits.size)
    for k in range(search.limits.size):
        reached[1 + k] = dot(candidate, lines[:, 1 + k])
    if largest_miss(reached, search.limits) <= slack_of(search) and worth > numbers[VALUE]:
        search.weights[:] = candidate
        numbers[VALUE] = worth
    close = numbers[BOUND] - numbers[VALUE] <= codes.TARGET_EXCESS * max(1.0, abs(numbers[VALUE]))
    if close or numbers[PASSES] >= codes.MAX_SWEEPS or is_same(search.dual, search.previous):
        return ended(search)
    search.previous[:] = search.dual
    return GO_ON


@shared
def is_same(one, other):
    for i in range(one.size):
        if one[i] != other[i]:
            return False
    return True


@shared
def tell_bound(search):
    """The dual bound after a pass for the reward."""
    lines, limits, numbers, H = search.lines, search.limits, search.numbers, search.H
    peak = -np.inf
    for lane in range(LANES - 1, -1, -1):
        at, line = search.asked[lane, 1:], lines[search.slots[lane]]
        peak = line[0] + dot(at, line[1:]) - dot(at, limits)
        ceiling = peak + codes.ROUNDING * (max(1.0, abs(peak)) + H * total_of(at))
        if ceiling < numbers[BOUND]:
            numbers[BOUND] = ceiling
            search.multipliers[:] = at
    # The last peak is that at the master's own prices: if it is not above the value, no policy improves the mixture.
    scale = max(1.0, abs(numbers[VALUE]))
    if peak - numbers[VALUE] <= codes.ROUNDING * (scale + H * total_of(prices_of(search))):
        return ended(search)
    return raise_value(search)


@shared
def ended(search):
    excess = search.numbers[BOUND] - search.numbers[VALUE]
    accepted = excess <= codes.ACCEPTED_EXCESS * max(1.0, abs(search.numbers[VALUE]))
    return codes.OPTIMAL if accepted else codes.INACCURATE


@shared
def find(sweeper, lines, weights, multipliers, thresholds, H, warm):
    """The best mixture under several constraints: (status, bound, shortfall, passes), its policies in the sweeper's slots.

    The first `warm` slots hold policies to start from. `lines` [C, 1 + K] and `weights` [C] are written.
    """
    for slot in range(warm):
        evaluate(sweeper, slot, lines)
    search = begin(lines, weights, multipliers, thresholds, H, warm)
    status = GO_ON
    while status == GO_ON:
        ask(search)
        sweep(sweeper, search.asked, search.slots, lines, None)
        status = tell(search)
    return status, search.numbers[BOUND], search.numbers[SHORTFALL], int(search.numbers[PASSES])


# The master program. Its columns are the policies of C slots, the slack of each of K constraints, and one shortfall that all
# constraints share.


@shared
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


@shared
def column_of(lines, thresholds, j, out):
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


@shared
def is_basic(basis, j):
    for i in range(basis.size):
        if basis[i] == j:
            return True
    return False


@shared
def basis_matrix(lines, thresholds, basis):
    n = basis.size
    matrix = np.empty((n, n))
    entry = np.empty(n)
    for i in range(n):
        column_of(lines, thresholds, basis[i], entry)
        matrix[:, i] = entry
    return matrix


@shared
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
        largest = 1.0
        for i in range(n):
            largest = max(largest, abs(dual[i]))
        entering, gain = -1, 1e-13 * largest
        for j in range(last):
            if j < C and not used[j]:
                continue
            column_of(lines, thresholds, j, entry)
            cost = (0.0 if minimise_shortfall else lines[j, 0]) if j < C else (-1.0 if j == C + K else 0.0)
            reduced = cost - dot(dual, entry)
            if reduced > gain and not is_basic(basis, j):
                entering = j
                if iteration >= 100:
                    break  # Bland's rule: the first improving column cannot cycle
                gain = reduced
        if entering < 0:
            break
        column_of(lines, thresholds, entering, entry)
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


@shared
def free_slot(lines, used, taken, thresholds, basis, weights, dual):
    """A slot for a new policy that is not `taken`: an unused one, or that of the idle policy the prices like least."""
    entry = np.empty(thresholds.size + 1)
    slot, worst = -1, np.inf
    for j in range(used.size):
        if taken[j]:
            continue
        if not used[j]:
            return j
        column_of(lines, thresholds, j, entry)
        reduced = lines[j, 0] - dot(dual, entry)
        if weights[j] == 0.0 and reduced < worst and not is_basic(basis, j):
            slot, worst = j, reduced
    return slot


@shared
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
        column_of(lines, thresholds, j, entry)
        size = abs(solve_square(basis_matrix(lines, thresholds, basis), entry.copy())[at])
        if size > largest:
            chosen, largest = j, size
    basis[at] = chosen


@shared
def largest_miss(line, limits):
    """Return the largest shortfall of the values line[1:] below the limits; negative if all are satisfied."""
    missed = -np.inf
    for k in range(limits.size):
        missed = max(missed, limits[k] - line[1 + k])
    return missed


@shared
def weights_of(basis, solution, C, weights):
    """The policies' share of a basic solution, made to sum to 1."""
    weights[:] = 0.0
    total = 0.0
    for i in range(basis.size):
        if basis[i] < C:
            weights[basis[i]] = max(solution[i], 0.0)
            total += weights[basis[i]]
    weights /= total


@shared
def best_mixture(lines, thresholds, weights, dual):
    """The weights [C] of the best mixture of the columns `lines` [C, 1 + K] that meets every threshold.

    Column 0 must meet all of them: the search starts there. `dual` [K + 1] gets the prices, those of the constraints at
    most 0, and the value last.
    """
    C, K = lines.shape[0], thresholds.size
    basis = np.empty(K + 1, dtype=np.int64)
    for k in range(K):
        basis[k] = C + k  # its slack
    basis[K] = 0
    used = np.ones(C, dtype=np.bool_)
    solution = simplex(lines, used, thresholds, basis, False, dual)
    weights_of(basis, solution, C, weights)


class Searches(NamedTuple):
    """The arrays of N `Search`es, each with an axis for the systems before its own."""

    lines: Array  # [N, C, 1 + K]
    used: Array  # [N, C]
    limits: Array  # [N, K]
    basis: Array  # [N, K + 1]
    solution: Array  # [N, K + 1]
    dual: Array  # [N, K + 1]
    previous: Array  # [N, K + 1]
    asked: Array  # [N, LANES, 1 + K]
    slots: Array  # [N, LANES]
    weights: Array  # [N, C]
    multipliers: Array  # [N, K]
    H: int
    numbers: Array  # [N, NUMBERS]


@shared
def search_of(searches, i):
    return Search(
        searches.lines[i], searches.used[i], searches.limits[i], searches.basis[i], searches.solution[i], searches.dual[i],
        searches.previous[i], searches.asked[i], searches.slots[i], searches.weights[i], searches.multipliers[i],
        searches.H, searches.numbers[i],
    )  # fmt: skip


@compiled
def begin_all(searches, warm):
    """Initialise every search."""
    for i in range(len(searches.lines)):
        start(search_of(searches, i), warm)


@compiled
def ask_all(searches, status, counts):
    """Write the number of weights that each running search asks for into `counts` [N]; 0 for an ended search."""
    for i in range(len(searches.lines)):
        counts[i] = ask(search_of(searches, i)) if status[i] == GO_ON else 0


@compiled
def tell_all(searches, status, counts):
    """Let each search that asked draw its conclusions from `lines`, into `status` [N]."""
    for i in range(len(searches.lines)):
        if counts[i] != 0:
            status[i] = tell(search_of(searches, i))
