"""The search for the one multiplier of one constraint: along the dual function to where two of its lines cross.

A deterministic policy is a line (one constraint) or a plane (several) under the dual function
    D(l) = max over policies of  V_reward + l . (V_constraints - thresholds),      l >= 0,
which is convex and piecewise linear, and D(l) is an upper bound on the constrained optimum for every l >= 0 (weak duality).
A solution is accepted only because a feasible mixture's value meets such a bound, never because a search has stalled.

Once the two policies that are held differ in few states, a search over the actions of these two alone costs a fraction of
the rows and ends where the whole search would, or nearly: a pass over all actions then proves it, or goes on from there.

The search says which multipliers it wants to know about (`ask`), a sweeper finds the lines there, and it draws its
conclusions (`tell`): so the same source serves Python, compiled rounds, threads, and devices that Python drives.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from safe2real._compiled import codes
from safe2real._compiled.cache import compiled, shared, shared_borrowing
from safe2real._compiled.lanes import LANES
from safe2real._compiled.rows import Array
from safe2real._compiled.sweeps import break_ties, evaluate, narrow_to, sweep

TIE = 1e-15  # actions whose safety differs by less than this times H are equally safe
SLOTS = LANES + 4  # policies held at once: those of a pass, the two that are mixed, and two whose actions are compared
# Results of `ask` and `tell` besides a number of multipliers and a status.
BREAK_TIES = -1  # of the actions that are equally safe up to rounding take the most rewarding, into slots[0]
GO_ON = -1

# Two policies whose constraint values differ by less than this do not define a multiplier.
NARROWEST_BRACKET = 1e-9
# How far from the multiplier of a warm start the first ones to try lie, relatively.
WARM_REACH = 0.02
# How far around an estimate of the multiplier the next ones to try lie, as a share of what is between the two policies:
# at first, at most, and by how much it changes when the multiplier did or did not lie there. Tuned by counting passes.
FIRST_SHARE, LARGEST_SHARE, HIT, MISS = 1.0 / 32.0, 0.25, 0.5, 8.0
# Searches of the actions of two policies only: the most of them, the most passes of each, and the range around the result in
# which all actions are searched again, as a share of the range between the two.
MOST_BETWEEN, MOST_PASSES_BETWEEN, CLOSELY = 3.0, 40, 1.0 / 256.0


class Search(NamedTuple):
    """The state of one search; C = SLOTS policies, each a line of the dual function."""

    lines: Array  # [C, 2] value of the reward and of the constraint
    at: Array  # [C] multiplier at which the policy of a slot is optimal; NaN if unknown
    held: (
        Array  # [4] slots of the policy that meets the threshold, of the one that misses it, and of two to keep; -1 for none
    )
    asked: Array  # [LANES] multipliers
    slots: Array  # [LANES] where their policies go
    weights: Array  # [C] the best mixture so far
    multipliers: Array  # [1] where the bound is smallest
    threshold: float
    H: int
    numbers: Array  # [NUMBERS], one for each name below
    aside: Array  # [7] values saved while only few actions are searched


NUMBERS = 14
BOUND, SHORTFALL, PASSES, GUESS, REACH, SHARE, LOW, HIGH, CROSSING, WARM, RATE, TIED, BETWEEN, TO_PROVE = range(NUMBERS)


@shared
def begin(lines, weights, multipliers, thresholds, H, warm, rate):
    """Create a search. The first `warm` slots hold policies with known lines, found at `multipliers`.

    Without such policies the search begins near the multiplier `rate`, at which the whole ranges of utility and reward are
    worth the same: most solutions are nearer to it than to infinity.
    """
    at, held, numbers = np.empty(SLOTS), np.empty(4, dtype=np.int64), np.zeros(NUMBERS)
    asked, slots = np.zeros(LANES), np.zeros(LANES, dtype=np.int64)
    search = Search(lines, at, held, asked, slots, weights, multipliers, thresholds[0], H, numbers, np.empty(7))
    start(search, warm, rate)
    return search


@shared_borrowing
def start(search, warm, rate):
    """Initialise a search whose arrays are allocated; arguments as of `begin`."""
    lines, held, numbers, multipliers = search.lines, search.held, search.numbers, search.multipliers
    search.at[:] = np.nan
    held[:] = -1
    for slot in range(warm):
        held[0 if meets(search, slot) else 1] = slot
    if held[0] >= 0 and held[1] >= 0 and lines[held[0], 1] - lines[held[1], 1] < NARROWEST_BRACKET:
        held[:] = -1
    numbers[GUESS], numbers[REACH] = multipliers[0], WARM_REACH
    numbers[RATE] = rate if 0.0 < rate < 1e100 else 1.0
    numbers[WARM] = 1.0 if held[0] >= 0 or held[1] >= 0 else 0.0
    if numbers[WARM] == 0.0 or not 0.0 < multipliers[0] < np.inf:
        guess_from_rate(search)
    numbers[BOUND], numbers[SHARE] = np.inf, FIRST_SHARE


@shared_borrowing
def guess_from_rate(search):
    """Without a warm start, begin with multipliers from a quarter of the rate to the rate."""
    search.numbers[GUESS], search.numbers[REACH] = 0.625 * search.numbers[RATE], 0.6


@shared_borrowing
def meets(search, slot):
    slack = codes.FEASIBILITY_TOLERANCE * max(1.0, search.H)
    return search.lines[slot, 1] >= search.threshold - slack


@shared_borrowing
def is_held(search, slot):
    for i in range(4):
        if search.held[i] == slot:
            return True
    return False


@shared_borrowing
def choose_slots(search, count):
    """Choose slots for `count` new policies; those of held policies stay."""
    slot = 0
    for lane in range(count):
        while is_held(search, slot):
            slot += 1
        search.slots[lane] = slot
        slot += 1


@shared_borrowing
def ask(search):
    """Choose the multipliers `asked` of the next sweep and the `slots` for its policies; return how many, or BREAK_TIES."""
    numbers, asked, at = search.numbers, search.asked, search.at
    safe, unsafe = search.held[0], search.held[1]
    numbers[CROSSING], numbers[LOW] = np.inf, np.nan
    edge = safe >= 0 and at[safe] == np.inf and search.lines[safe, 1] < search.threshold + NARROWEST_BRACKET
    if edge and numbers[TIED] == 0.0:
        # Only the safest policies will do, and no finite multiplier may tell them apart by reward.
        choose_slots(search, 1)
        return BREAK_TIES
    if safe < 0 or unsafe < 0:
        # 0 and infinity between them leave nothing open: the constraint does not bind, or two lines are known afterwards.
        asked[0], asked[3] = 0.0, np.inf
        asked[1], asked[2] = numbers[GUESS] * (1.0 - numbers[REACH]), numbers[GUESS] * (1.0 + numbers[REACH])
        count = 4
    else:
        count = ask_between(search, safe, unsafe)
    choose_slots(search, count)
    return count


@shared_borrowing
def ask_between(search, safe, unsafe):
    """Ask at the crossing of the two held lines, and around the estimated minimiser of the dual function."""
    lines, numbers, asked = search.lines, search.numbers, search.asked
    rise = lines[safe, 1] - lines[unsafe, 1]
    crossing = max(0.0, (lines[unsafe, 0] - lines[safe, 0]) / rise)
    numbers[CROSSING] = max(height(search, safe, crossing), height(search, unsafe, crossing))
    asked[0] = crossing
    if numbers[TO_PROVE] > 0.0:
        asked[1] = crossing + CLOSELY * (search.aside[0] - crossing)
        asked[2] = crossing + CLOSELY * (search.aside[1] - crossing)
        return 3
    low, high = search.at[unsafe], search.at[safe]
    if np.isnan(low) or np.isnan(high):
        asked[1], asked[2], asked[3] = (1.0 - WARM_REACH) * crossing, (1.0 + WARM_REACH) * crossing, numbers[GUESS]
        return 4
    if not low < high or not low < crossing:
        return 1
    if high == np.inf or (low > 0.0 and high > 8.0 * low):
        # Orders of magnitude apart: by equal factors.
        first, last = max(low, 1e-3 * crossing), min(high, crossing) if high == np.inf else high
        half = np.sqrt(last / first)
        quarter = np.sqrt(half)
        asked[1], asked[2], asked[3] = first * quarter, first * half, first * half * quarter
        return 4
    numbers[LOW], estimate, numbers[HIGH] = around_least(search, safe, unsafe, low, high)
    asked[1], asked[2], asked[3] = numbers[LOW], estimate, numbers[HIGH]
    return 4


@shared_borrowing
def height(search, slot, multiplier):
    """Return the height of a policy's line at a multiplier."""
    return search.lines[slot, 0] + multiplier * (search.lines[slot, 1] - search.threshold)


@shared_borrowing
def rounding(search, scale):
    """Return how far rounding can raise the computed dual function above the crossing."""
    return codes.ROUNDING * (scale + search.H * search.asked[0])


@shared_borrowing
def around_least(search, safe, unsafe, low, high):
    """Return the minimiser of the cubic with the dual function's values and slopes at both ends, and points beside it."""
    width = high - low
    left, right = search.lines[unsafe, 1] - search.threshold, search.lines[safe, 1] - search.threshold
    fall = 3.0 * (height(search, safe, high) - height(search, unsafe, low)) / width
    middle = left + right - fall
    root = np.sqrt(max(0.0, middle * middle - left * right))
    estimate = high - width * (right + root - middle) / (right - left + 2.0 * root)
    if not low < estimate < high:
        estimate = low - width * left / (right - left)
    reach = search.numbers[SHARE] * width
    return (
        max(estimate - reach, low + 0.25 * (estimate - low)),
        estimate,
        min(estimate + reach, high - 0.25 * (high - estimate)),
    )


@shared_borrowing
def tell(search, count):
    """Update the search from the lines of the `count` multipliers asked for; return a status, or GO_ON."""
    lines, held, numbers = search.lines, search.held, search.numbers
    numbers[PASSES] += 1.0
    if count == BREAK_TIES:
        numbers[TIED] = 1.0
        if meets(search, search.slots[0]):
            held[0] = search.slots[0]
            search.at[held[0]] = np.inf
        return GO_ON
    for lane in range(count):
        slot, multiplier = search.slots[lane], search.asked[lane]
        search.at[slot] = multiplier
        if multiplier < np.inf:
            peak = height(search, slot, multiplier)
            ceiling = peak + codes.ROUNDING * (max(1.0, abs(peak)) + search.H * multiplier)
            if ceiling < numbers[BOUND]:
                numbers[BOUND], search.multipliers[0] = ceiling, multiplier
            if multiplier == 0.0 and meets(search, slot):
                return only(search, slot, codes.OPTIMAL, 0.0)  # the best policy without the constraint meets it
        elif not meets(search, slot):
            numbers[BOUND], numbers[SHORTFALL] = -np.inf, search.threshold - lines[slot, 1]
            return only(search, slot, codes.INFEASIBLE, np.inf)
    first_safe, first_unsafe = held[0], held[1]
    if numbers[TO_PROVE] > 0.0:
        if proved(search):
            return codes.OPTIMAL
        first_safe, first_unsafe = -1, -1  # the crossing was not theirs
    value = hold_best(search, count)
    scale = max(1.0, abs(value))
    on_dual = False
    if first_safe >= 0 and first_unsafe >= 0:
        on_dual = height(search, search.slots[0], search.asked[0]) <= numbers[CROSSING] + rounding(search, scale)
        if not on_dual and first_safe == held[0] and first_unsafe == held[1]:
            # One lies above the crossing; but a safe policy that just meets the threshold is worth the same with any other.
            held[0 if meets(search, search.slots[0]) else 1] = search.slots[0]
            value = mix(search, held[0], held[1])
    if numbers[BOUND] - value <= codes.TARGET_EXCESS * scale or on_dual:
        if numbers[BOUND] - value <= codes.ACCEPTED_EXCESS * scale:
            return codes.OPTIMAL
        if numbers[WARM] == 0.0:
            return codes.INACCURATE
        # A poor start; forget it and begin again.
        held[:] = -1
        numbers[WARM], numbers[BOUND] = 0.0, np.inf
        guess_from_rate(search)
        return GO_ON
    if numbers[PASSES] >= codes.MAX_SWEEPS:
        return codes.INACCURATE
    if numbers[LOW] == numbers[LOW]:
        hit = numbers[LOW] <= search.at[held[1]] and search.at[held[0]] <= numbers[HIGH]
        numbers[SHARE] = numbers[SHARE] * HIT if hit else min(LARGEST_SHARE, numbers[SHARE] * MISS)
    return GO_ON


@shared_borrowing
def narrow(search, sweeper):
    """Return whether to search only the actions of the two current policies, which is likely to suffice.

    It is if they differ in few states.
    """
    safe, unsafe, numbers = search.held[0], search.held[1], search.numbers
    if safe < 0 or unsafe < 0 or numbers[BETWEEN] >= MOST_BETWEEN:
        return False
    return 0.0 <= search.at[unsafe] < search.at[safe] < np.inf and narrow_to(sweeper, safe, unsafe)


@shared_borrowing
def begin_between(search):
    """Begin to search only the actions of the two held policies. Bounds from these passes hold for those actions only."""
    numbers, held, aside = search.numbers, search.held, search.aside
    held[2], held[3] = held[0], held[1]
    aside[0], aside[1] = search.at[held[0]], search.at[held[1]]
    aside[2], aside[3], aside[4] = numbers[BOUND], numbers[PASSES], numbers[SHARE]
    aside[5], aside[6] = numbers[WARM], search.multipliers[0]
    numbers[BOUND], numbers[WARM] = np.inf, 0.0
    numbers[BETWEEN] += 1.0


@shared_borrowing
def end_between(search):
    """Return to all actions: the next pass proves the mixture found optimal, or restarts the search around it."""
    numbers, aside = search.numbers, search.aside
    numbers[BOUND], numbers[PASSES], numbers[SHARE] = aside[2], aside[3], aside[4]
    numbers[WARM], search.multipliers[0] = aside[5], aside[6]
    numbers[TO_PROVE] = 1.0


@shared_borrowing
def proved(search):
    """Return whether the best mixture of few actions is optimal; if not, hold the two policies with those actions again."""
    numbers, held = search.numbers, search.held
    numbers[TO_PROVE] = 0.0
    value = mix(search, held[0], held[1])
    scale = max(1.0, abs(value))
    on_dual = height(search, search.slots[0], search.asked[0]) <= numbers[CROSSING] + rounding(search, scale)
    if numbers[BOUND] - value <= (codes.ACCEPTED_EXCESS if on_dual else codes.TARGET_EXCESS) * scale:
        return True
    held[0], held[1] = held[2], held[3]
    held[2], held[3] = -1, -1
    return False


@shared_borrowing
def only(search, slot, status, multiplier):
    search.weights[:] = 0.0
    search.weights[slot] = 1.0
    search.multipliers[0] = multiplier
    return status


@shared_borrowing
def hold_best(search, count):
    """Of the held and the `count` new policies, hold the two with the best mixture; return its value."""
    slots, safe, unsafe = search.slots, search.held[0], search.held[1]
    value = mix(search, safe, unsafe) if safe >= 0 and unsafe >= 0 else -np.inf
    for i in range(-1, count):
        one = search.held[0] if i < 0 else slots[i]
        if one < 0 or not meets(search, one):
            continue
        for j in range(-1, count):
            other = search.held[1] if j < 0 else slots[j]
            if other < 0 or meets(search, other):
                continue
            worth = mix(search, one, other)
            if worth > value:
                value, safe, unsafe = worth, one, other
    search.held[0], search.held[1] = safe, unsafe
    return mix(search, safe, unsafe)


@shared_borrowing
def mix(search, safe, unsafe):
    """Weights of the best mixture of a safe and an unsafe policy that meets the threshold; returns its value."""
    lines = search.lines
    share = (search.threshold - lines[unsafe, 1]) / (lines[safe, 1] - lines[unsafe, 1])
    # A safe policy that is also the more rewarding one needs no mixing.
    share = 1.0 if lines[safe, 0] >= lines[unsafe, 0] else min(1.0, share)
    search.weights[:] = 0.0
    search.weights[safe] = share
    search.weights[unsafe] = 1.0 - share
    return share * lines[safe, 0] + (1.0 - share) * lines[unsafe, 0]


@shared
def find(sweeper, lines, weights, multipliers, thresholds, H, warm, rate):
    """The best mixture under one constraint: (status, bound, shortfall, passes), its policies in the sweeper's slots.

    The first `warm` slots hold policies to start from, and `multipliers` what went with them. `lines` [SLOTS, 2] and
    `weights` [SLOTS] are written.
    """
    for slot in range(warm):
        evaluate(sweeper, slot, lines)
    search = begin(lines, weights, multipliers, thresholds, H, warm, rate)
    status, factors = GO_ON, np.empty((LANES, 2))
    while status == GO_ON:
        status = advance(sweeper, search, factors, False)
        if status == GO_ON and narrow(search, sweeper):
            # Most of the way with the actions of these two alone, for a fraction of the rows.
            begin_between(search)
            left = MOST_PASSES_BETWEEN
            while status == GO_ON and left > 0:
                status = advance(sweeper, search, factors, True)
                left -= 1
            end_between(search)
            status = GO_ON
    return status, search.numbers[BOUND], search.numbers[SHORTFALL], int(search.numbers[PASSES])


@shared_borrowing
def advance(sweeper, search, factors, between):
    """Ask, sweep and tell once; if `between`, over the actions of two policies only."""
    count = ask(search)
    if count == BREAK_TIES:
        break_ties(sweeper, search.slots[0], TIE * search.H, search.lines)
    else:
        for j in range(LANES):
            if j >= count:  # unused lanes repeat lane 0
                search.asked[j], search.slots[j] = search.asked[0], search.slots[0]
            last = search.asked[j] == np.inf  # the utility alone
            factors[j, 0], factors[j, 1] = 0.0 if last else 1.0, 1.0 if last else search.asked[j]
        if between:
            sweep(sweeper, factors, search.slots, search.lines, (search.held[2], search.held[3]))
        else:
            sweep(sweeper, factors, search.slots, search.lines, None)
    return tell(search, count)


class Searches(NamedTuple):
    """The arrays of N `Search`es, each with an axis for the systems before its own."""

    lines: Array  # [N, C, 2]
    at: Array  # [N, C]
    held: Array  # [N, 4]
    asked: Array  # [N, LANES]
    slots: Array  # [N, LANES]
    weights: Array  # [N, C]
    multipliers: Array  # [N, 1]
    thresholds: Array  # [N, 1]
    H: int
    numbers: Array  # [N, NUMBERS]
    aside: Array  # [N, 7]


@shared
def search_of(searches, i):
    return Search(
        searches.lines[i], searches.at[i], searches.held[i], searches.asked[i], searches.slots[i], searches.weights[i],
        searches.multipliers[i], searches.thresholds[i, 0], searches.H, searches.numbers[i], searches.aside[i],
    )  # fmt: skip


@compiled
def begin_all(searches, warm, rates):
    """Initialise every search; `rates` [N]."""
    for i in range(len(searches.lines)):
        start(search_of(searches, i), warm, rates[i])


@compiled
def ask_all(searches, status, counts):
    """Write the number of multipliers that each running search asks for into `counts` [N]; 0 for an ended search."""
    for i in range(len(searches.lines)):
        counts[i] = ask(search_of(searches, i)) if status[i] == GO_ON else 0


@compiled
def tell_all(searches, status, counts):
    """Let each search that asked draw its conclusions from `lines`, into `status` [N]."""
    for i in range(len(searches.lines)):
        if counts[i] != 0:
            status[i] = tell(search_of(searches, i), counts[i])
