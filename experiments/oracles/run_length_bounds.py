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
from numbers import Integral

from safe2real.errors import InvalidInput
from safe2real.model.validation import finite_number, positive_integer, unit_number
from safe2real.problem.theorem import margin_within, positive_number
from safe2real.radii import Literal, Scaled, System, literal_constants

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


def beta_after(visits: float, system: System, delta: float) -> float:
    """Return beta(n) of a row seen n = `visits` times."""
    constant, weight = literal_constants(system, delta)
    return constant + weight * math.log(8.0 * math.e * (visits + 1.0))


def radius_after(radius: Literal | Scaled, visits: float, system: System, delta: float) -> float:
    """Return the literal or scaled radius of a row seen `visits` times, which need not be a whole number."""
    return min(1.0, radius.scale * math.sqrt(beta_after(visits, system, delta) / max(2.0 * visits, 1.0)))


def literal_beta(n: float, *, num_states: int, num_actions: int, horizon: int, delta: float) -> float:
    """beta(n, delta) = log(2 S A H / delta) + S log(8 e (n + 1)) (Lemma proba-master-event).

    The paper keeps H inside the logarithm also for stationary dynamics, where counts are pooled over steps. So does this.
    """
    return beta_after(_count("n", n), _system(num_states, num_actions, horizon), _probability(delta))


def phi(z: float, *, num_states: int, num_actions: int, horizon: int, delta: float) -> float:
    """Phi(z) = beta(z) (1 + log_+(z / (4 beta(z)))): 8 Phi bounds a sum of squared radii (Lemma radius-counting)."""
    return _phi(_count("z", z), _system(num_states, num_actions, horizon), _probability(delta))


def visits_to_clear(
    *, num_states: int, num_actions: int, horizon: int, delta: float, mismatch_gap: float, calibrated_gap: float
) -> float:
    """n of Lemma completeness (eq. n-dagger): a calibrated row with as many visits is no longer suspect.

    Infinite when the two gaps are equal, which the separation assumption admits: then no data tell such rows apart.
    """
    system, gap = _system(num_states, num_actions, horizon), gap_between(calibrated_gap, mismatch_gap)
    return _visits_to_clear(gap, system, _probability(delta))


def visits_to_clear_exact(
    *, num_states: int, num_actions: int, horizon: int, delta: float, mismatch_gap: float, calibrated_gap: float
) -> int:
    """The fewest visits n with rho(n) <= (sigma_s - eps_s) / 4, all that the proof of Lemma completeness asks of n.

    Never more than `visits_to_clear`, which resolves the logarithm in closed form at the price of a factor of about 2.
    """
    system, delta = _system(num_states, num_actions, horizon), _probability(delta)
    gap = gap_between(calibrated_gap, mismatch_gap)
    most = _visits_to_clear(gap, system, delta)
    if math.isinf(most):
        raise InvalidInput(
            f"mismatch_gap - calibrated_gap is {gap:g}; no number of visits clears a row at that gap: make it larger"
        )
    # rho falls as n grows (Lemma beta-monotone); rho(0) = 1 > 1 / 4, and Lemma completeness vouches for the other end
    return _first(lambda n: radius_after(Literal(), n, system, delta) <= gap / 4, 0, math.ceil(most))


def stopping_bound(
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
) -> RunLength:
    """The largest T that eq. finite-stopping-bound admits, with eta = xi eps / (5 H), N = H S A - |B| and n of eq. n-dagger:

    T <= 32 e^2 H^3 |B| beta(T) / eta^2 + 8 sqrt(2) e H N sqrt(5 beta(5 n) n) / eta
       + 32 e H^3 (|B| Phi(T) + N Phi(5 n)) / eta.

    `mismatch_size` is |B| in triples (h, s, a): a pair of a stationary system counts H times. The bound is Theorem 1's where
    `check_conditions` holds; elsewhere it is only a number. Infinite when the gaps are equal and N > 0.
    """
    system, delta = _system(num_states, num_actions, horizon), _probability(delta)
    size = triples_within(system.num_triples, mismatch_size)
    visits = _visits_to_clear(gap_between(calibrated_gap, mismatch_gap), system, delta)
    return _longest_run(_progress(epsilon, margin, system), size, visits, system, delta)


def online_bound(
    *, epsilon: float, horizon: int, num_states: int, num_actions: int, margin: float, delta: float
) -> RunLength:
    """The largest T that eq. finite-online-bound admits, which owes nothing to the simulator; M = H S A:

    T <= 32 e^2 H^3 M beta(T) / eta^2 + 32 e H^3 M Phi(T) / eta.
    """
    system, delta = _system(num_states, num_actions, horizon), _probability(delta)
    return _longest_run(_progress(epsilon, margin, system), system.num_triples, math.inf, system, delta)


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
    """`stopping_bound` and `online_bound` side by side; `.shortest` is the one that counts."""
    system, delta = _system(num_states, num_actions, horizon), _probability(delta)
    eta, size = _progress(epsilon, margin, system), triples_within(system.num_triples, mismatch_size)
    visits = _visits_to_clear(gap_between(calibrated_gap, mismatch_gap), system, delta)
    return RunLengths(
        stopping=_longest_run(eta, size, visits, system, delta),
        online=_longest_run(eta, system.num_triples, math.inf, system, delta),
    )


# --------------------------------------------------------------------------------------------- the same, on checked input


def _phi(z: float, system: System, delta: float) -> float:
    beta = beta_after(z, system, delta)
    return beta * (1.0 + math.log(max(1.0, z / (4 * beta))))


def _visits_to_clear(gap: float, system: System, delta: float) -> float:
    if gap == 0.0:
        return math.inf
    scale, states = (4 / gap) * (4 / gap), system.num_states
    return 1.0 + scale * beta_after(0.0, system, delta) + scale * states * math.log(max(scale * states, math.e))


def _longest_run(eta: float, mismatched: int, visits: float, system: System, delta: float) -> RunLength:
    """eq. finite-stopping-bound with |B| = mismatched and n = visits; with N = 0 it is eq. finite-online-bound."""
    H, B, N = system.horizon, mismatched, system.num_triples - mismatched
    if eta == 0.0 or (N and math.isinf(visits)):
        return RunLength(math.inf, math.inf)
    identifying, squares = 0.0, 0.0
    if N:
        beta = beta_after(5 * visits, system, delta)
        identifying = 8 * math.sqrt(2) * math.e * H * N * math.sqrt(5 * beta * visits) / eta
        squares = N * _phi(5 * visits, system, delta)

    def right(T: int) -> float:
        learning = 32 * math.e**2 * H**3 * B * beta_after(T, system, delta) / eta / eta
        return learning + identifying + 32 * math.e * H**3 * (B * _phi(T, system, delta) + squares) / eta

    most = _largest(right)
    return RunLength(most, H * most)


def _largest(right: Callable[[int], float]) -> float:
    """The largest integer T with T <= right(T), for a positive right with right(T) / T decreasing."""
    beyond = 1
    while beyond <= right(beyond):
        if beyond > _FOREVER:
            return math.inf
        beyond *= 2
    return float(_first(lambda T: right(T) < T, beyond // 2, beyond) - 1)


def _first(holds: Callable[[int], bool], before: int, after: int) -> int:
    """The first integer at which `holds` turns true, if it is false at `before` and true at `after`."""
    while after - before > 1:
        middle = (before + after) // 2
        before, after = (before, middle) if holds(middle) else (middle, after)
    return after


def _progress(epsilon: float, margin: float, system: System) -> float:
    """eta = xi eps / (5 H): by how much every episode that is executed lowers what is left to learn."""
    return margin_within(system.horizon, margin) * positive_number("epsilon", epsilon) / (5 * system.horizon)


# ------------------------------------------------------------------------------------------------------------------- checks


def _system(num_states: int, num_actions: int, horizon: int) -> System:
    return System(
        positive_integer("num_states", num_states),
        positive_integer("num_actions", num_actions),
        positive_integer("horizon", horizon),
    )


def _probability(delta: float) -> float:
    number = finite_number("delta", delta)
    if not 0.0 < number < 1.0:
        raise InvalidInput(f"delta is {number:g}; it is a probability of failure strictly between 0 and 1, e.g. 0.05")
    return number


def _count(name: str, value: float) -> float:
    number = finite_number(name, value)
    if number < 0.0:
        raise InvalidInput(f"{name} is {number:g}; it is a count and not negative: give 0 or more")
    return number


def gap_between(calibrated_gap: float, mismatch_gap: float) -> float:
    """sigma_s - eps_s of the separation assumption."""
    large, small = unit_number("mismatch_gap", mismatch_gap), unit_number("calibrated_gap", calibrated_gap)
    if small > large:
        raise InvalidInput(f"calibrated_gap is {small:g}, above mismatch_gap = {large:g}; make it the smaller of the two")
    return large - small


def triples_within(num_triples: int, mismatch_size: int) -> int:
    """|B|, which counts triples (h, s, a)."""
    whole = isinstance(mismatch_size, Integral) and not isinstance(mismatch_size, bool)
    if not whole or not 0 <= mismatch_size <= num_triples:
        raise InvalidInput(
            f"mismatch_size is {mismatch_size!r}; it counts triples: give a whole number between 0 and H S A = {num_triples}"
        )
    return int(mismatch_size)
