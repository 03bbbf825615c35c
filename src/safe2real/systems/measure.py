"""Estimates of the assumptions: the mismatch gap (Algorithm 4), the baseline's margin, and a cloned baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from safe2real import radii
from safe2real._compiled import row_update as _kernels
from safe2real.errors import InvalidInput
from safe2real.evidence.counts import Counts
from safe2real.evidence.mean_bounds import mean_bounds
from safe2real.evidence.row_rule import RowFacts, rule_of
from safe2real.model.cmdp import CMDP
from safe2real.model.constraint_text import count, rounded_down, rounded_up
from safe2real.model.environment_seeds import refuse_repeated
from safe2real.model.kernel import Kernel
from safe2real.model.policy import MarkovPolicy
from safe2real.model.trajectory import Trajectory, check_trajectory, utilities_along
from safe2real.model.validation import ROUNDING, Floats, finite_number, positive_integer, probability_of_failure, unit_number
from safe2real.radii import Radius, System


@dataclass(frozen=True, eq=False, slots=True)
class SeparationEstimate:
    """sigma-hat_s of Algorithm 4, with what it does and does not cover.

    `gap` is at most the true sigma_s if every mismatch row was detected (Proposition calibration, iii); if some mismatch
    row was not, it can be ABOVE sigma_s, which is the unsafe direction. The data cannot tell the two apart: `undecided`
    rows may still hide a mismatch of up to `largest_hidden`.
    """

    gap: float  # sigma-hat_s; 0 when nothing was detected
    detected: NDArray[np.bool_]  # C: [S, A] or [H, S, A], rows whose mismatch is proved
    undecided: NDArray[np.bool_]  # rows visited too rarely, or neither proved wrong nor shown to be close
    lower_bounds: Floats  # L: on the TV distance of every row
    upper_bounds: Floats  # on the TV distance of every row
    visited_share: float  # rows with at least `min_visits` visits
    certified: bool

    @property
    def largest_hidden(self) -> float:
        """The largest mismatch that an undecided row could still have."""
        return float(self.upper_bounds[self.undecided].max(initial=0.0))

    def describe(self) -> str:
        label = "" if self.certified else "HEURISTIC radius. "
        return (
            f"{label}Estimated mismatch gap {rounded_down(self.gap)} from {count(int(self.detected.sum()), 'row')} proved "
            f"wrong; {self.visited_share:.1%} of the rows were visited often enough. {int(self.undecided.sum())} are "
            f"undecided and may hide a mismatch of up to {rounded_up(self.largest_hidden)}: the estimate is conservative "
            "only if none does."
        )


def estimate_mismatch_gap(
    counts: Counts, *, delta: float, min_visits: int = 1, radius: Radius | None = None, resolution: float = 0.0
) -> SeparationEstimate:
    """Estimate the mismatch gap: Algorithm 4 on the counts of a safe policy's episodes (paper, appendix on sigma_s).

    Lines 1 to 3, the episodes, come first: on the real system, or by `collect` on a known one.

    Args:
        counts: of the episodes.
        delta: probability that a bound on some row's distance is wrong.
        min_visits: a row with fewer is undecided.
        radius: the paper's literal one if None.
        resolution: a row with an upper bound of at most this counts as shown to be close; with 0 (the paper's eps_s = 0) no
            finite sample can show that, and every undetected row is undecided.

    Returns:
        The estimate, and what it does not cover: read `SeparationEstimate` before it is used.
    """
    probability_of_failure("delta", delta)
    resolution = unit_number("resolution", resolution)
    rule = radius or radii.Literal()
    simulator = counts.simulator
    system = System(simulator.num_states, simulator.num_actions, counts.horizon)
    visits = counts.visits
    widths = radii_after(rule, counts.tally.visits, counts.tally.length, system, delta).reshape(visits.shape)  # rho
    distances = counts.distances().reshape(visits.shape)  # of P-hat from the simulator
    lower = np.maximum(distances - widths, 0.0)  # Line 4: L
    upper = np.minimum(distances + widths, 1.0)
    often = visits >= positive_integer("min_visits", min_visits)
    detected = often & (lower > 0.0)  # Line 4: C
    gap = min(1.0, float(lower[detected].min())) if detected.any() else 0.0  # Lines 5 to 8
    return SeparationEstimate(
        gap=gap,
        detected=detected,
        undecided=~detected & (upper > resolution),
        lower_bounds=lower,
        upper_bounds=upper,
        visited_share=float(often.mean()),
        certified=rule.certified,
    )


def radii_after(radius: Radius, visits: NDArray[Any], seen: NDArray[Any], system: System, delta: float) -> Floats:
    """Return the radius of every row after `visits` with `seen` different successors, if every state is possible."""
    possible = np.full(visits.size, system.num_states, dtype=np.int64)
    visited, different = visits.reshape(-1).astype(np.float64), seen.reshape(-1).astype(np.int64)
    result = np.empty(visits.size)
    _kernels.radii(
        rule_of(radius, system, RowFacts(possible), delta), visited, different, np.ones(visits.size, dtype=np.bool_), result
    )
    return result.reshape(visits.shape)


@dataclass(frozen=True, eq=False, slots=True)
class MarginEstimate:
    """How safe a policy is, from rollouts; `margins` may be negative, and is then no margin."""

    margins: Floats  # [K] lower_bounds - thresholds: usable as xi
    lower_bounds: Floats  # [K] on V_c, together with probability at least 1 - delta, at every number of episodes
    upper_bounds: Floats  # [K] on V_c, in the same way: together with the lower ones 1 - 2 delta
    means: Floats  # [K]
    spreads: Floats  # [K] standard deviations of the sums over an episode
    episodes: int


def estimate_margin(
    model: CMDP,
    episodes: Sequence[Trajectory],
    *,
    delta: float,
    known: ArrayLike | None = None,
    support: Kernel | None = None,
) -> MarginEstimate:
    """Bound the Slater margin of a policy from independent episodes on the real system (paper, assumption verification).

    The bounds on V_c are those of `evidence.mean_bounds`, at delta / K for each constraint, so that all lower ones hold
    together with probability at least 1 - delta, FOR ALL NUMBERS OF EPISODES AT ONCE: look as often as you like, roll out
    more until the margin is confirmed, and stop when it is. Give all episodes: a selection by their
    outcome makes the bounds false.

    Args:
        model: with the constraints; of its kernel only the known rows matter.
        episodes: all of them, whatever happened in them, H steps each.
        delta: probability that a lower bound is wrong.
        known: [S, A] or [H, S, A], rows that are exact, as in `Problem`; `system.known` has those after the end of an
            episode. With these, an event that ends the episode costs at most once, so far fewer episodes confirm a margin
            (`spans`). The bounds hold only if `known` is true.
        support: what can follow in the other rows, as in `Problem`; likewise.

    Returns:
        Bounds for each constraint; `margins` can be stated as xi where they are positive.

    Raises:
        InvalidInput: without an episode or a constraint, or where an episode is not one of `model`, or its sum is
            outside the range that `known` and `support` allow.
        Conflict: two episodes had the same environment seed.
    """
    probability_of_failure("delta", delta)
    if len(episodes) == 0:
        raise InvalidInput("no episode was given; a confidence bound on the margin needs at least 1")
    if model.num_constraints == 0:
        raise InvalidInput("this system has no constraint, so there is no margin to estimate; add AtLeast or AtMost")
    checked = [check_trajectory(model, episode) for episode in episodes]
    refuse_repeated(one.seed for one in checked)
    returns = np.array([utilities_along(model, one.states, one.actions).sum(axis=1) for one in checked])
    alpha = delta / model.num_constraints
    ranges = spans(model, known=known, support=support)
    _check_sums(returns, ranges)
    bounds = np.array([mean_bounds(returns[:, k], alpha, low=low, high=high) for k, (low, high) in enumerate(ranges)])
    lower, upper = bounds.T
    return MarginEstimate(
        margins=lower - model.thresholds,
        lower_bounds=lower,
        upper_bounds=upper,
        means=returns.mean(axis=0),
        spreads=returns.std(axis=0),
        episodes=len(episodes),
    )


def _check_sums(returns: Floats, ranges: Sequence[tuple[float, float]]) -> None:
    """[n, K] against what any episode can have."""
    low, high = np.array(ranges).T
    outside = np.argwhere((returns < low - ROUNDING) | (returns > high + ROUNDING))
    if outside.size:
        i, k = outside[0].tolist()
        raise InvalidInput(
            f"episodes[{i}] has a sum of {returns[i, k]:g} of constraint {k}, and none lies outside [{low[k]:g}, "
            f"{high[k]:g}] if known and support are true: they are not; leave them out"
        )


def clone_baseline(model: CMDP, demonstrations: Sequence[Trajectory], *, smoothing: float = 1.0) -> MarkovPolicy:
    """Make a policy from demonstrations by counting: pi(a | s) = (n(s, a) + smoothing) / (n(s) + A smoothing).

    Args:
        model: whose states and actions the demonstrations are in.
        demonstrations: episodes of H steps.
        smoothing: at least 0; with 0 the demonstrated frequencies are copied.

    Returns:
        The policy, the same at every step, uniform in states without a visit. Nothing says that it is safe: measure it with
        `estimate_margin`.

    Raises:
        InvalidInput: no demonstration, one of another system, or a negative smoothing.
    """
    if finite_number("smoothing", smoothing) < 0.0:
        raise InvalidInput(f"smoothing is {smoothing:g}; it must not be negative (0 copies the demonstrated frequencies)")
    if len(demonstrations) == 0:
        raise InvalidInput("no demonstration was given; a policy cannot be cloned from nothing")
    counts = np.zeros((model.num_states, model.num_actions))
    for episode in demonstrations:
        checked = check_trajectory(model, episode)
        np.add.at(counts, (checked.states[:-1], checked.actions), 1.0)
    return MarkovPolicy.proportional(np.broadcast_to(counts + smoothing, model.shape))


def spans(
    model: CMDP,
    *,
    known: ArrayLike | None = None,
    support: Kernel | None = None,
    sums: Sequence[Floats] | None = None,
) -> list[tuple[float, float]]:
    """Return for each constraint the smallest and the largest sum that an episode can have.

    Bounds on a mean need a range that no value leaves. Over H steps of utilities in [0, 1] that is [0, H], whatever the
    system. Where it is declared what can follow a state, it can be far less: after the end of an episode the rows are known,
    so a fall that ends the episode costs at most once, and the range is [H - 1, H]. The narrower it is, the fewer rollouts
    confirm a mean.

    Backward induction over what is POSSIBLE, not over probabilities: the largest sum from a state on is the largest over
    actions of what is paid there plus the largest sum from any state that can follow. These are the successors of a known
    row, those of the declared support, or else all states. Every episode of a real system for which the declarations are
    true is one of these paths, so its sum is in the range.

    Args:
        model: with the constraints; of its rows only those count that are `known`.
        known: [S, A] or [H, S, A], rows that are exactly the model's on the real system.
        support: what can follow in the other rows; all states can if None.
        sums: each [1 or H, S, A], tables to sum instead of the constraints' utilities.

    Returns:
        [K] pairs, or one for each of `sums`. They hold on every real system for which `known` and `support` are true,
        wherever its episodes begin.

    Raises:
        InvalidInput: `known` or `support` does not have the rows of the model.
    """
    tables = list(model.utilities) if sums is None else list(sums)
    if known is None and support is None:
        times = [1 if len(table) > 1 else model.horizon for table in tables]
        ends = [(table.min(axis=(1, 2)).sum(), table.max(axis=(1, 2)).sum()) for table in tables]
        return [(n * float(low), n * float(high)) for n, (low, high) in zip(times, ends, strict=True)]
    rows, successors = _declared(model, known, support)
    return [(-_largest(model, -table, rows, successors), _largest(model, table, rows, successors)) for table in tables]


def _declared(
    model: CMDP, known: ArrayLike | None, support: Kernel | None
) -> tuple[NDArray[np.int64], list[NDArray[np.int64]]]:
    """(rows [n] in their order, what can follow each) of rows that not every state can follow."""
    kernel = model.kernel
    exact = np.zeros(kernel.num_rows, dtype=np.bool_) if known is None else np.asarray(known)
    if exact.size != kernel.num_rows or exact.dtype != np.bool_:
        raise InvalidInput(f"known has shape {exact.shape} and type {exact.dtype}; give booleans of shape {kernel.shape}")
    if support is not None and support.shape != kernel.shape:
        raise InvalidInput(f"support has rows of shape {support.shape}; give one with those of the system, {kernel.shape}")
    exact = exact.reshape(-1)
    chosen = np.flatnonzero(exact if support is None else np.ones(exact.size, dtype=np.bool_))
    found = [(kernel if exact[row] or support is None else support).row(int(row))[0] for row in chosen]
    return chosen, [np.asarray(one, dtype=np.int64) for one in found]


def _largest(model: CMDP, utility: Floats, rows: NDArray[np.int64], successors: list[NDArray[np.int64]]) -> float:
    """The largest sum of `utility` [1 or H, S, A] on a path that is possible."""
    horizon, states, actions = model.shape
    begins, following = np.cumsum([0, *map(len, successors)]), np.concatenate([*successors, np.empty(0, dtype=np.int64)])
    value = np.zeros(states)
    for step in reversed(range(horizon)):
        first = step * model.kernel.rows_per_step
        low, high = np.searchsorted(rows, (first, first + states * actions))
        after = np.full(states * actions, value.max())
        if low < high:
            cuts = begins[low : high + 1]
            after[rows[low:high] - first] = np.maximum.reduceat(value[following[cuts[0] : cuts[-1]]], cuts[:-1] - cuts[0])
        value = (utility[step if len(utility) > 1 else 0] + after.reshape(states, actions)).max(axis=1)
    return float(value.max())
