"""How many visits clear a row and how many episodes a run can last, by Theorem 1 of the paper; nothing here touches data.

S states, A actions, horizon H, margin xi, gaps eps_s (calibrated) <= sigma_s (mismatch), probability of failure delta.

The two finite bounds are implicit, T <= right(T), with T also on the right. Both right-hand sides are sums of constants,
beta(T) and Phi(T). Divided by T each part decreases: beta(T) / T by Lemma beta-monotone, and Phi(T) / T because it is
(1 + log_+ x) / (4 x) with x = T / (4 beta(T)), which grows with T. So right(T) / T crosses 1 once, the T that satisfy the
inequality are 0, 1, ..., T*, and doubling followed by bisection over integers finds T*.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from safe2real.errors import InvalidInput
from safe2real.model.checks import is_whole, positive_integer, probability_of_failure, unit_number
from safe2real.radii.base import System
from safe2real.radii.literal import beta_after
from safe2real.theory.conditions import margin_within, positive_number

_FOREVER = 2**1000  # a bound beyond this is reported as infinite


@dataclass(frozen=True, slots=True)
class RunLength:
    """At most this many episodes, and H times as many samples; infinite where the inequality bounds nothing."""

    iterations: float  # T, a whole number or infinity
    samples: float  # H T


@dataclass(frozen=True, slots=True)
class RunLengths:
    """The two bounds of Theorem 1; both hold for the same run, so the shorter one does."""

    stopping: RunLength  # eq. finite-stopping-bound, which counts on clearing calibrated rows
    online: RunLength  # eq. finite-online-bound, which does not

    @property
    def shortest(self) -> RunLength:
        return min(self.stopping, self.online, key=lambda length: length.iterations)


def phi(z: float, system: System, delta: float) -> float:
    """Phi(z) = beta(z) (1 + log_+(z / (4 beta(z)))): 8 Phi bounds a sum of squared radii (Lemma radius-counting)."""
    beta = beta_after(z, system, delta)
    return beta * (1.0 + math.log(max(1.0, z / (4 * beta))))


def visits_to_clear(gap: float, system: System, delta: float) -> float:
    """n of Lemma completeness (eq. n-dagger): a calibrated row with as many visits is no longer suspect.

    `gap` is sigma_s - eps_s. Infinite when it is 0, which the separation assumption admits: no data tell such rows apart.
    """
    if gap == 0.0:
        return math.inf
    scale, states = (4 / gap) * (4 / gap), system.num_states
    return 1.0 + scale * beta_after(0.0, system, delta) + scale * states * math.log(max(scale * states, math.e))


def run_length_bounds(
    *,
    epsilon: float,
    horizon: int,
    num_states: int,
    num_actions: int,
    margin: float,
    mismatch_size: int,
    mismatch_gap: float,
    calibrated_gap: float,
    delta: float,
) -> RunLengths:
    """The largest T that each of the two inequalities admits; `.shortest` is the one that counts.

    With eta = xi eps / (5 H), M = H S A, N = M - |B| and n of eq. n-dagger they are eq. finite-stopping-bound,

    T <= 32 e^2 H^3 |B| beta(T) / eta^2 + 8 sqrt(2) e H N sqrt(5 beta(5 n) n) / eta
       + 32 e H^3 (|B| Phi(T) + N Phi(5 n)) / eta,

    and eq. finite-online-bound, which owes nothing to the simulator,

    T <= 32 e^2 H^3 M beta(T) / eta^2 + 32 e H^3 M Phi(T) / eta.

    `mismatch_size` is |B| in triples (h, s, a): a pair of a stationary system counts H times. The bounds are Theorem 1's
    where `check_conditions` holds; elsewhere they are only numbers. The first is infinite when the gaps are equal and N > 0.
    """
    system = System(
        positive_integer("num_states", num_states),
        positive_integer("num_actions", num_actions),
        positive_integer("horizon", horizon),
    )
    delta, size = probability_of_failure("delta", delta), triples_within(system.num_triples, mismatch_size)
    # By how much every episode that is executed lowers what is left to learn.
    eta = margin_within(system.horizon, margin) * positive_number("epsilon", epsilon) / (5 * system.horizon)
    visits = visits_to_clear(gap_between(calibrated_gap, mismatch_gap), system, delta)
    return RunLengths(
        stopping=_longest_run(eta, size, visits, system, delta),
        online=_longest_run(eta, system.num_triples, math.inf, system, delta),
    )


def _longest_run(eta: float, mismatched: int, visits: float, system: System, delta: float) -> RunLength:
    """eq. finite-stopping-bound with |B| = mismatched and n = visits; with N = 0 it is eq. finite-online-bound."""
    H, B, N = system.horizon, mismatched, system.num_triples - mismatched
    if eta == 0.0 or (N and math.isinf(visits)):
        return RunLength(math.inf, math.inf)
    identifying, squares = 0.0, 0.0
    if N:
        beta = beta_after(5 * visits, system, delta)
        identifying = 8 * math.sqrt(2) * math.e * H * N * math.sqrt(5 * beta * visits) / eta
        squares = N * phi(5 * visits, system, delta)

    def right(T: int) -> float:
        learning = 32 * math.e**2 * H**3 * B * beta_after(T, system, delta) / eta / eta
        return learning + identifying + 32 * math.e * H**3 * (B * phi(T, system, delta) + squares) / eta

    most = _largest(right)
    return RunLength(most, H * most)


def _largest(right: Callable[[int], float]) -> float:
    """The largest integer T with T <= right(T), for a positive right with right(T) / T decreasing."""
    beyond = 1
    while beyond <= right(beyond):
        if beyond > _FOREVER:
            return math.inf
        beyond *= 2
    within = beyond // 2
    while beyond - within > 1:
        middle = (within + beyond) // 2
        within, beyond = (within, middle) if right(middle) < middle else (middle, beyond)
    return float(within)


def gap_between(calibrated_gap: float, mismatch_gap: float) -> float:
    """sigma_s - eps_s of the separation assumption."""
    large, small = unit_number("mismatch_gap", mismatch_gap), unit_number("calibrated_gap", calibrated_gap)
    if small > large:
        raise InvalidInput(f"calibrated_gap is {small:g}, above mismatch_gap = {large:g}; make it the smaller of the two")
    return large - small


def triples_within(num_triples: int, mismatch_size: int) -> int:
    """|B|, which counts triples (h, s, a)."""
    if not is_whole(mismatch_size) or not 0 <= mismatch_size <= num_triples:
        raise InvalidInput(
            f"mismatch_size is {mismatch_size!r}; it counts triples: give a whole number between 0 and H S A = {num_triples}"
        )
    return int(mismatch_size)
