"""What Theorem 1 of the paper promises, when it applies, and how long a run can last; nothing here touches data.

With S states, A actions, horizon H, margin xi, gaps eps_s (calibrated) <= sigma_s (mismatch) and probability of failure
delta, a run that stops at the tolerance tau = xi eps / (4 H) + H^3 eps_s is safe throughout, ends within the bounds below,
and leaves a model that plans to within eps + 4 eps_s H^4 / xi for any reward, with probability 1 - delta.

The two finite bounds are implicit, T <= right(T), with T also on the right. Both right-hand sides are sums of constants,
beta(T) and Phi(T). Divided by T each part decreases: beta(T) / T by Lemma beta-monotone, and Phi(T) / T because it is
(1 + log_+ x) / (4 x) with x = T / (4 beta(T)), which grows with T. So right(T) / T crosses 1 once, the T that satisfy the
inequality are 0, 1, ..., T*, and doubling followed by bisection over integers finds T*.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from enum import StrEnum
from numbers import Integral

from safe2real.errors import InvalidInput
from safe2real.model.checks import finite_number, positive_integer

_ROUNDING = 1e-12  # relative room for float rounding where a condition compares computed numbers
_FOREVER = 2**1000  # a bound beyond this is reported as infinite


class Guarantee(StrEnum):
    """The three claims of Theorem 1, which do not all rest on the same conditions."""

    SAFETY = "safe exploration"
    ACCURACY = "planning accuracy"
    TERMINATION = "termination bound"


_EVERY = (Guarantee.SAFETY, Guarantee.ACCURACY, Guarantee.TERMINATION)
_AFTERWARDS = (Guarantee.ACCURACY, Guarantee.TERMINATION)


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition of Theorem 1: whether it holds, the numbers behind that, and what to change if it does not."""

    name: str
    holds: bool
    explanation: str
    cure: str  # empty when the condition holds
    needed_for: tuple[Guarantee, ...]

    def __str__(self) -> str:
        if self.holds:
            return f"holds  {self.name}: {self.explanation}"
        needed = ", ".join(self.needed_for)
        return f"FAILS  {self.name} (needed for {needed}): {self.explanation}. Cure: {self.cure}"


@dataclass(frozen=True, slots=True)
class Conditions:
    """Every condition of Theorem 1, in the order in which to mend them."""

    items: tuple[Condition, ...]

    @property
    def hold(self) -> bool:
        """Whether the whole of Theorem 1 applies."""
        return all(condition.holds for condition in self.items)

    @property
    def failing(self) -> tuple[Condition, ...]:
        return tuple(condition for condition in self.items if not condition.holds)

    def hold_for(self, guarantee: Guarantee) -> bool:
        """Whether every condition that `guarantee` rests on holds."""
        return not any(guarantee in condition.needed_for for condition in self.failing)

    def describe(self) -> str:
        """One line per claim of the theorem, then one per condition."""
        claims = [f"{guarantee}: {'applies' if self.hold_for(guarantee) else 'NOT guaranteed'}" for guarantee in Guarantee]
        return "\n".join(["Theorem 1", *(f"  {line}" for line in (*claims, *map(str, self.items)))])

    def __str__(self) -> str:
        return self.describe()


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


@dataclass(frozen=True, slots=True)
class Bound:
    """One row of the paper's comparison table: what an algorithm does, and the order of the samples it needs."""

    key: str  # the paper's citation key
    citation: str
    sim_to_real: bool  # uses a simulator that is wrong somewhere
    any_reward: bool  # the result serves every reward, not the one learnt with
    constraints: bool
    safe_exploration: bool
    formula: str  # in the paper's letters
    value: float  # the formula's value: an order of magnitude, not a number of samples
    note: str = ""


# ---------------------------------------------------------------------------------------------------- Theorem 1's numbers


def tolerance_for(epsilon: float, *, horizon: int, margin: float, calibrated_gap: float) -> float:
    """tau = xi eps / (4 H) + H^3 eps_s: where a run stops so that planning is accurate (Theorem 1)."""
    horizon = positive_integer("horizon", horizon)
    epsilon, margin = _positive("epsilon", epsilon), _margin(margin, horizon)
    return _tolerance(epsilon, horizon, margin, _share("calibrated_gap", calibrated_gap))


def accuracy_of(tolerance: float, horizon: int, margin: float) -> float:
    """2 H tau / xi + 2 tau: how far from the optimum planning can be after stopping at tau.

    Lemma "Connection between estimation error and CMDPs", which is stated for tau in (0, xi / 4].
    """
    horizon = positive_integer("horizon", horizon)
    tolerance, margin = _positive("tolerance", tolerance), _margin(margin, horizon)
    if not _at_most(tolerance, margin / 4):
        raise InvalidInput(
            f"tolerance is {tolerance:.10g}; the lemma says nothing above margin / 4 = {_down(margin / 4)}: lower it to that"
        )
    return 2 * horizon * tolerance / margin + 2 * tolerance


def promised_accuracy(epsilon: float, *, horizon: int, margin: float, calibrated_gap: float) -> float:
    """eps + 4 eps_s H^4 / xi: the planning accuracy that Theorem 1 states; the second part is the simulator's residual."""
    horizon = positive_integer("horizon", horizon)
    epsilon, margin = _positive("epsilon", epsilon), _margin(margin, horizon)
    return epsilon + 4 * _share("calibrated_gap", calibrated_gap) * horizon**4 / margin


def check_conditions(
    *,
    epsilon: float,
    horizon: int,
    margin: float,
    calibrated_gap: float,
    mismatch_gap: float,
    delta: float,
    tolerance: float | None = None,
) -> Conditions:
    """Every condition of Theorem 1 as an outcome with its numbers and its cure; only unreadable numbers are refused.

    Without a `tolerance` it is the theorem's own, `tolerance_for(epsilon, ...)`. The conditions are not independent: for
    that tolerance, epsilon <= H - 4 H^4 eps_s / xi and tau <= xi / 4 say the same, and both fail with eps_s > xi / (4 H^3).
    At eps_s = xi / (4 H^3) itself, which the theorem admits, no epsilon is left. Safety rests on the first three alone.

    Whether the margin and the gaps are true of the real system cannot be checked here. A cure that changes one of them
    means: find a system, or a claim about it, for which the new value is true.
    """
    horizon = positive_integer("horizon", horizon)
    epsilon, delta, margin = (
        finite_number("epsilon", epsilon),
        finite_number("delta", delta),
        finite_number("margin", margin),
    )
    small, large = finite_number("calibrated_gap", calibrated_gap), finite_number("mismatch_gap", mismatch_gap)
    theorems = _tolerance(epsilon, horizon, margin, small)
    chosen = None if tolerance is None else finite_number("tolerance", tolerance)
    used = theorems if chosen is None else chosen
    return Conditions(
        (
            _separation(small, large),
            _slater(margin, horizon),
            _confidence(delta),
            _calibration(small, margin, horizon),
            _accuracy(epsilon, small, margin, horizon),
            _tolerance_at_most_margin(used, margin, chosen is not None),
            _tolerance_above_residual(used, small, horizon, chosen is not None),
            _tolerance_of_theorem(used, theorems, small, margin, horizon),
        )
    )


# -------------------------------------------------------------------------------------------------- each condition by itself


def _separation(small: float, large: float) -> Condition:
    if small < 0.0:
        cure = "raise calibrated_gap to 0 or more: a distance is not negative"
    elif large > 1.0:
        cure = "lower mismatch_gap to 1 or less: a total variation distance does not exceed 1"
    else:
        cure = (
            f"lower calibrated_gap to at most {large!r}, or raise mismatch_gap to at least {small!r}, "
            "but only to values that are true of the real system: too large a mismatch_gap is unsafe"
        )
    return _condition(
        "separation",
        0.0 <= small <= large <= 1.0,
        f"calibrated_gap is {small:.10g}, mismatch_gap is {large:.10g}; needed is 0 <= calibrated_gap <= mismatch_gap <= 1",
        cure,
        _EVERY,
    )


def _slater(margin: float, horizon: int) -> Condition:
    if margin <= 0.0:
        cure = "choose a baseline whose constraint value lies above the threshold, or lower the threshold"
    else:
        cure = f"state a margin of at most {horizon}: a sum of {horizon} utilities in [0, 1] exceeds no threshold by more"
    return _condition(
        "margin",
        0.0 < margin <= horizon,
        f"margin is {margin:.10g}; above 0 and at most the horizon {horizon} is needed",
        cure,
        _EVERY,
    )


def _confidence(delta: float) -> Condition:
    return _condition(
        "delta",
        0.0 < delta < 1.0,
        f"delta is {delta:.10g}; strictly between 0 and 1 is needed",
        "choose the probability of failure you accept, e.g. 0.05",
        _EVERY,
    )


def _calibration(small: float, margin: float, horizon: int) -> Condition:
    limit = margin / (4 * horizon**3)
    return _condition(
        "calibrated_gap",
        _at_most(small, limit),
        f"calibrated_gap is {small:.10g}; Theorem 1 needs at most margin / (4 H^3) = {_down(limit)}",
        f"lower calibrated_gap to {_down(limit)}, or {_ask_margin(4 * horizon**3 * small, horizon)}"
        if margin > 0.0
        else "give a positive margin first",
        (Guarantee.TERMINATION,),
    )


def _accuracy(epsilon: float, small: float, margin: float, horizon: int) -> Condition:
    stated = f"epsilon is {epsilon:.10g}; above 0 and at most min(1, H - 4 H^4 calibrated_gap / margin)"
    if margin <= 0.0:
        stated = f"{stated} is needed, which has no meaning at a margin of {margin:.10g}"
        return _condition("epsilon", False, stated, "give a positive margin first", _AFTERWARDS)
    residual = 4 * horizon**4 * small / margin
    limit = min(1.0, horizon - residual)
    target = epsilon if 0.0 < epsilon <= 1.0 else 1.0
    room = horizon - target
    changes = f"lower calibrated_gap to {_down(margin * room / (4 * horizon**4))}"
    if room > 0.0:
        changes += f", or {_ask_margin(4 * horizon**4 * small / room, horizon)}"
    if limit <= 0.0:
        cure = f"no epsilon is small enough: for an epsilon of {target:.10g}, {changes}"
    elif target == epsilon:
        cure = f"lower epsilon to {_down(limit)}, or {changes}"
    else:
        cure = f"choose an epsilon above 0 and at most {_down(limit)}"
    holds = 0.0 < epsilon <= 1.0 and _at_most(epsilon + residual, float(horizon))
    return _condition("epsilon", holds, f"{stated} = {_down(limit)} is needed", cure, _AFTERWARDS)


def _tolerance_at_most_margin(tolerance: float, margin: float, chosen: bool) -> Condition:
    if margin <= 0.0:
        cure = "give a positive margin first"
    elif not chosen:
        cure = "it follows from epsilon: mend that condition"
    else:
        cure = f"choose a tolerance above 0 and at most {_down(margin / 4)}"
    return _condition(
        "tolerance against margin",
        tolerance > 0.0 and _at_most(tolerance, margin / 4),
        f"tolerance is {tolerance:.10g}; above 0 and at most margin / 4 = {_down(margin / 4)} is needed",
        cure,
        _AFTERWARDS,
    )


def _tolerance_above_residual(tolerance: float, small: float, horizon: int, chosen: bool) -> Condition:
    # the proof takes the simulator's residual, H^3 eps_s, off the certificate: what is left is the progress of an episode
    residual = horizon**3 * small
    if not chosen:
        cure = "it follows from margin and epsilon: mend those conditions"
    elif tolerance > 0.0:
        cure = f"raise tolerance above {_up(residual)}, or lower calibrated_gap below {_down(tolerance / horizon**3)}"
    else:
        cure = f"raise tolerance above {_up(residual)}"
    return _condition(
        "tolerance against calibrated_gap",
        tolerance > residual,
        f"tolerance is {tolerance:.10g}; more than H^3 calibrated_gap = {_up(residual)} is needed",
        cure,
        (Guarantee.TERMINATION,),
    )


def _tolerance_of_theorem(tolerance: float, theorems: float, small: float, margin: float, horizon: int) -> Condition:
    cure = f"use a tolerance of {theorems!r}"
    meant = 4 * horizon * (tolerance - horizon**3 * small) / margin if margin > 0.0 else 0.0
    if 0.0 < meant <= 1.0 and _at_most(tolerance, margin / 4):
        cure += f", or state the epsilon that this one stands for, {meant!r}"
    holds = math.isclose(tolerance, theorems, rel_tol=1e-9)
    # a larger tolerance stops sooner and plans worse, a smaller one the other way round
    needed_for = _AFTERWARDS if holds else (Guarantee.ACCURACY if tolerance > theorems else Guarantee.TERMINATION,)
    return _condition(
        "tolerance against epsilon",
        holds,
        f"tolerance is {tolerance:.10g}; Theorem 1 sets margin epsilon / (4 H) + H^3 calibrated_gap = {theorems:.10g}",
        cure,
        needed_for,
    )


# ------------------------------------------------------------------------------------------ confidence, and clearing a row


def literal_beta(n: float, *, num_states: int, num_actions: int, horizon: int, delta: float) -> float:
    """beta(n, delta) = log(2 S A H / delta) + S log(8 e (n + 1)) (Lemma proba-master-event).

    The paper keeps H inside the logarithm also for stationary dynamics, where counts are pooled over steps. So does this.
    """
    return _Beta.of(num_states, num_actions, horizon, delta)(_not_negative("n", n))


def phi(z: float, *, num_states: int, num_actions: int, horizon: int, delta: float) -> float:
    """Phi(z) = beta(z) (1 + log_+(z / (4 beta(z)))): 8 Phi bounds a sum of squared radii (Lemma radius-counting)."""
    return _Beta.of(num_states, num_actions, horizon, delta).phi(_not_negative("z", z))


def visits_to_clear(
    *, num_states: int, num_actions: int, horizon: int, delta: float, mismatch_gap: float, calibrated_gap: float
) -> float:
    """n of Lemma completeness (eq. n-dagger): a calibrated row with as many visits is no longer suspect.

    Infinite when the two gaps are equal, which the separation assumption admits: then no data tell such rows apart.
    """
    beta = _Beta.of(num_states, num_actions, horizon, delta)
    return _visits_to_clear(beta, _gap(mismatch_gap, calibrated_gap))


def visits_to_clear_exact(
    *, num_states: int, num_actions: int, horizon: int, delta: float, mismatch_gap: float, calibrated_gap: float
) -> int:
    """The fewest visits n with rho(n) <= (sigma_s - eps_s) / 4, all that the proof of Lemma completeness asks of n.

    Never more than `visits_to_clear`, which resolves the logarithm in closed form at the price of a factor of about 2.
    """
    beta, gap = _Beta.of(num_states, num_actions, horizon, delta), _gap(mismatch_gap, calibrated_gap)
    most = _visits_to_clear(beta, gap)
    if math.isinf(most):
        raise InvalidInput(
            f"mismatch_gap - calibrated_gap is {gap:g}; no number of visits clears a row at that gap: make it larger"
        )
    fails, suffices = 0, math.ceil(most)  # rho(0) = 1 > 1/4, and the lemma vouches for the other end
    while suffices - fails > 1:
        middle = (fails + suffices) // 2
        fails, suffices = (fails, middle) if beta.radius(middle) <= gap / 4 else (middle, suffices)
    return suffices


# --------------------------------------------------------------------------------------------------- how long a run can last


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
    beta = _Beta.of(num_states, num_actions, horizon, delta)
    inside, visits = _mismatch_size(mismatch_size, beta.triples), _visits_to_clear(beta, _gap(mismatch_gap, calibrated_gap))
    return _stopping_bound(beta, _progress(epsilon, margin, beta.horizon), inside, beta.triples - inside, visits)


def online_bound(
    *, epsilon: float, horizon: int, num_states: int, num_actions: int, margin: float, delta: float
) -> RunLength:
    """The largest T that eq. finite-online-bound admits, which owes nothing to the simulator; M = H S A:

    T <= 32 e^2 H^3 M beta(T) / eta^2 + 32 e H^3 M Phi(T) / eta.
    """
    beta = _Beta.of(num_states, num_actions, horizon, delta)
    return _stopping_bound(beta, _progress(epsilon, margin, beta.horizon), beta.triples, 0, 0.0)


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
    beta = _Beta.of(num_states, num_actions, horizon, delta)
    eta = _progress(epsilon, margin, beta.horizon)
    inside, visits = _mismatch_size(mismatch_size, beta.triples), _visits_to_clear(beta, _gap(mismatch_gap, calibrated_gap))
    return RunLengths(
        stopping=_stopping_bound(beta, eta, inside, beta.triples - inside, visits),
        online=_stopping_bound(beta, eta, beta.triples, 0, 0.0),
    )


def comparison(
    *,
    num_states: int,
    num_actions: int,
    horizon: int,
    margin: float,
    epsilon: float,
    mismatch_size: int,
    mismatch_gap: float,
    calibrated_gap: float,
    reachability: float,
    return_dimension: int,
) -> tuple[Bound, ...]:
    """Every row of the paper's comparison table (appendix A, tab:comparison), in samples of non-stationary systems.

    CONSTANTS AND LOGARITHMS ARE DROPPED, from every row: values show how the bounds scale and may be compared as orders of
    magnitude only. For numbers that bound a run see `run_length_bounds`, which is many orders larger. S, A, H, xi, eps, |B|,
    sigma_s and eps_s are as everywhere; sigma_r is `reachability`, the probability with which every triple can be reached
    (Qu et al. only), and d is `return_dimension`, the length of the vector of returns (Miryoosefi and Jin only; reward and
    one constraint make 2). A bound is infinite where it divides by a gap of 0.
    """
    S, A = float(positive_integer("num_states", num_states)), float(positive_integer("num_actions", num_actions))
    H, d = float(positive_integer("horizon", horizon)), float(positive_integer("return_dimension", return_dimension))
    B = float(_mismatch_size(mismatch_size, int(horizon) * int(num_states) * int(num_actions)))
    xi, eps, gap = _margin(margin, int(horizon)), _positive("epsilon", epsilon), _gap(mismatch_gap, calibrated_gap)
    sigma_s, sigma_r = float(mismatch_gap), _positive("reachability", _share("reachability", reachability))
    N = H * S * A - B
    clearing = _over(H**5 * S * N, xi * eps) * (1 + _over(1.0, gap * H**2)) if N > 0.0 else 0.0
    yes, no = True, False  # sim-to-real, any reward, constraints, safe exploration
    return (
        Bound(
            *("menard2021fast", "Menard et al. (2021)", no, yes, no, no),
            formula="H^4 S^2 A / eps^2",
            value=_over(H**4 * S**2 * A, eps**2),
        ),
        Bound(
            *("miryoosefi2022simple", "Miryoosefi and Jin (2022)", no, yes, yes, no),
            formula="min{d, S} H^5 S A / eps^2 + H^4 S^2 A / eps",
            value=_over(min(d, S) * H**5 * S * A, eps**2) + _over(H**4 * S**2 * A, eps),
            note="the returned policy may miss the constraint by eps",
        ),
        Bound(
            *("huang2023safe", "Huang et al. (2023)", no, yes, yes, yes),
            formula="A S^2 H^8 / (eps^2 xi^4)",
            value=_over(A * S**2 * H**8, eps**2 * xi**4),
        ),
        Bound(
            *("yu2025improved", "Yu et al. (2025)", no, no, yes, yes),
            formula="A S^2 H^6 / (eps^2 xi^2)",
            value=_over(A * S**2 * H**6, eps**2 * xi**2),
        ),
        Bound(
            *("ni2025learning", "Ni et al. (2025)", no, no, yes, yes),
            formula="1 / min{eps^6, xi^6}",
            value=_over(1.0, min(eps**6, xi**6)),
            note="the table leaves out the dependence on S, A and H",
        ),
        Bound(
            *("wagenmaker2024overcoming", "Wagenmaker et al. (2024)", yes, no, no, no),
            formula="H^16 / eps^8",
            value=_over(H**16, eps**8),
            note="the table leaves out the dependence on S and A",
        ),
        Bound(
            *("qu2025hybrid", "Qu et al. (2025)", yes, no, no, no),
            formula="min{H^4 A S / eps^2, H^3 |B| / eps^2 + H^3 S^2 A / (sigma_s^2 sigma_r^2)}",
            value=min(
                _over(H**4 * A * S, eps**2), _over(H**3 * B, eps**2) + _over(H**3 * S**2 * A, sigma_s**2 * sigma_r**2)
            ),
            note="assumes an exact simulator outside the mismatch region, and sigma_r-reachability",
        ),
        Bound(
            *("wu2026unified", "Wu et al. (2026)", yes, no, no, no),
            formula="H^4 A S / eps^2",
            value=_over(H**4 * A * S, eps**2),
        ),
        Bound(
            *("ours", "our algorithm (Theorem 1)", yes, yes, yes, yes),
            formula="min{H^7 S^2 A / (xi^2 eps^2), H^6 S |B| / (xi^2 eps^2)"
            " + H^5 S (H S A - |B|) (1 + 1 / ((sigma_s - eps_s) H^2)) / (xi eps)}",
            value=min(_over(H**7 * S**2 * A, xi**2 * eps**2), _over(H**6 * S * B, xi**2 * eps**2) + clearing),
        ),
    )


# ------------------------------------------------------------------------------------------------------------- the machinery


@dataclass(frozen=True, slots=True)
class _Beta:
    """n -> beta(n, delta), with its arguments checked once."""

    num_states: int
    horizon: int
    triples: int  # H S A
    constant: float  # log(2 S A H / delta)

    @classmethod
    def of(cls, num_states: int, num_actions: int, horizon: int, delta: float) -> _Beta:
        num_states, horizon = positive_integer("num_states", num_states), positive_integer("horizon", horizon)
        triples = horizon * num_states * positive_integer("num_actions", num_actions)
        delta = finite_number("delta", delta)
        if not 0.0 < delta < 1.0:
            raise InvalidInput(f"delta is {delta:g}; it is a probability of failure strictly between 0 and 1, e.g. 0.05")
        return cls(num_states, horizon, triples, math.log(2 * triples) - math.log(delta))

    def __call__(self, n: float) -> float:
        return self.constant + self.num_states * (math.log(8.0) + 1.0 + math.log1p(n))

    def radius(self, n: float) -> float:
        """rho(n) = min(1, sqrt(beta(n) / (2 n))), which falls as n grows (Lemma beta-monotone)."""
        return min(1.0, math.sqrt(self(n) / max(2 * n, 1)))

    def phi(self, z: float) -> float:
        beta = self(z)
        return beta * (1.0 + math.log(max(1.0, z / (4 * beta))))


def _visits_to_clear(beta: _Beta, gap: float) -> float:
    if gap == 0.0:
        return math.inf
    scale = (4 / gap) * (4 / gap)
    states = beta.num_states
    return 1.0 + scale * beta(0.0) + scale * states * math.log(max(scale * states, math.e))


def _stopping_bound(beta: _Beta, eta: float, inside: int, outside: int, visits: float) -> RunLength:
    """eq. finite-stopping-bound with |B| = inside, N = outside and n = visits; with N = 0 it is eq. finite-online-bound."""
    if eta == 0.0 or (outside and math.isinf(visits)):
        return RunLength(math.inf, math.inf)
    horizon, identifying, squares = beta.horizon, 0.0, 0.0
    if outside:
        identifying = 8 * math.sqrt(2) * math.e * horizon * outside * math.sqrt(5 * beta(5 * visits) * visits) / eta
        squares = outside * beta.phi(5 * visits)

    def right(iterations: int) -> float:
        learning = 32 * math.e**2 * horizon**3 * inside * beta(iterations) / eta / eta
        return learning + identifying + 32 * math.e * horizon**3 * (inside * beta.phi(iterations) + squares) / eta

    most = _largest(right)
    return RunLength(most, horizon * most)


def _largest(right: Callable[[int], float]) -> float:
    """The largest integer T with T <= right(T), for a positive right with right(T) / T decreasing."""
    fails = 1
    while fails <= right(fails):
        if fails > _FOREVER:
            return math.inf
        fails *= 2
    holds = fails // 2
    while fails - holds > 1:
        middle = (holds + fails) // 2
        holds, fails = (middle, fails) if middle <= right(middle) else (holds, middle)
    return float(holds)


def _tolerance(epsilon: float, horizon: int, margin: float, small: float) -> float:
    return margin * epsilon / (4 * horizon) + horizon**3 * small


def _progress(epsilon: float, margin: float, horizon: int) -> float:
    """eta = xi eps / (5 H): by how much every episode that is executed lowers what is left to learn."""
    return _margin(margin, horizon) * _positive("epsilon", epsilon) / (5 * horizon)


def _condition(name: str, holds: bool, explanation: str, cure: str, needed_for: tuple[Guarantee, ...]) -> Condition:
    return Condition(name, holds, explanation, "" if holds else cure, needed_for)


def _at_most(value: float, limit: float) -> bool:
    return value <= limit + _ROUNDING * abs(limit)


def _down(limit: float) -> str:
    """An upper limit in six digits, rounded so that whoever types it in meets it."""
    return f"{float(Context(prec=6, rounding=ROUND_FLOOR).create_decimal(limit + _ROUNDING / 10 * abs(limit))):.6g}"


def _up(limit: float) -> str:
    """A lower limit in six digits, rounded so that whoever types it in meets it."""
    return f"{float(Context(prec=6, rounding=ROUND_CEILING).create_decimal(limit - _ROUNDING / 10 * abs(limit))):.6g}"


def _ask_margin(needed: float, horizon: int) -> str:
    impossible = f", which is impossible because no margin exceeds the horizon {horizon}" if needed > horizon else ""
    return f"ask for a margin of at least {_up(needed)}{impossible}"


def _over(numerator: float, denominator: float) -> float:
    return numerator / denominator if denominator > 0.0 else math.inf


def _not_negative(name: str, value: float) -> float:
    number = finite_number(name, value)
    if number < 0.0:
        raise InvalidInput(f"{name} is {number:g}; it is a count and not negative: give 0 or more")
    return number


def _positive(name: str, value: float) -> float:
    number = finite_number(name, value)
    if number <= 0.0:
        raise InvalidInput(f"{name} is {number:g}; give a number above 0")
    return number


def _share(name: str, value: float) -> float:
    number = finite_number(name, value)
    if not 0.0 <= number <= 1.0:
        raise InvalidInput(f"{name} is {number:g}; give a number between 0 and 1")
    return number


def _margin(margin: float, horizon: int) -> float:
    number = finite_number("margin", margin)
    if not 0.0 < number <= horizon:
        raise InvalidInput(f"margin is {number:g}; give a number above 0 and at most the horizon {horizon}")
    return number


def _gap(mismatch_gap: float, calibrated_gap: float) -> float:
    """sigma_s - eps_s of the separation assumption."""
    large, small = _share("mismatch_gap", mismatch_gap), _share("calibrated_gap", calibrated_gap)
    if small > large:
        raise InvalidInput(f"calibrated_gap is {small:g}, above mismatch_gap = {large:g}; make it the smaller of the two")
    return large - small


def _mismatch_size(mismatch_size: int, triples: int) -> int:
    whole = isinstance(mismatch_size, Integral) and not isinstance(mismatch_size, bool)
    if not whole or not 0 <= mismatch_size <= triples:
        raise InvalidInput(
            f"mismatch_size is {mismatch_size!r}; it counts triples: give a whole number between 0 and H S A = {triples}"
        )
    return int(mismatch_size)
