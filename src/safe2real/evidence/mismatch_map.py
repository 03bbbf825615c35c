"""The mismatch map: for each row of the simulator whether it is wrong, right or still open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from safe2real._compiled import clearing, codes, row_update
from safe2real.evidence.evidence import Evidence
from safe2real.evidence.hybrid import HybridModel
from safe2real.model.names import Legend
from safe2real.model.validation import ROUNDING, Floats
from safe2real.tables import Row, Tabular

_NEVER = 2**62  # visits; more than any row will have


class Verdict(IntEnum):
    """The verdict of the data on one row of the simulator."""

    OPEN = 0
    """Suspect: it may be right or wrong; it is learnt from real data until it is cleared."""
    WRONG = 1
    """Suspect, and its interval lies above the calibrated gap: by the separation assumption it is a mismatch."""
    CLEARED = 2
    """So close to the simulator's row that it cannot be a mismatch; the simulator is used."""
    KNOWN = 3
    """Declared exact."""
    CONTRADICTED = 4
    """The data have contradicted an assumption: a known or cleared row is farther away than it may be, a row lies strictly
    between the two gaps, or a successor outside the declared support was seen. It stays so: radii hold at all times at
    once, so one contradiction is final. The guarantee does not hold for this system."""


@dataclass(frozen=True, eq=False, slots=True)
class MismatchMap(Tabular):
    """The distance of every row to the simulator's, with its verdict; arrays are [S, A], or [H, S, A] with rows per step."""

    visits: NDArray[np.int64]
    distance: Floats  # TV estimate to the simulator's row; nan without a visit
    lower: Floats  # the interval: with probability 1 - delta, all rows lie in theirs, at all times
    upper: Floats
    verdict: NDArray[np.uint8]  # values of `Verdict`
    visits_needed: Floats  # until the row is cleared, if its estimate stays; 0 when settled, inf when it would never be
    certified: bool  # whether the intervals are those of a certified radius
    legend: Legend = field(default_factory=Legend)  # names of states and actions

    def row_name(self, index: Sequence[int]) -> str:
        """Return the name of a row.

        Args:
            index: (s, a), or (h, s, a) for dynamics that change with the step.

        Returns:
            Its state and action by name, after the step if there is one.
        """
        step = f"step {index[0]}, " if len(index) == 3 else ""
        return f"{step}{self.legend.state(index[-2])}, {self.legend.action(index[-1])}"

    def count(self, verdict: Verdict) -> int:
        """Count the rows of one verdict.

        Args:
            verdict: open, wrong, cleared, known or contradicted.

        Returns:
            The number of rows.
        """
        return int((self.verdict == verdict).sum())

    def to_table(self) -> list[Row]:
        """List the rows with their names, numbers and verdicts.

        Returns:
            One dict for each row; it has a `step` if rows change with the step.
        """
        table = []
        for place in np.ndindex(self.visits.shape):
            state, action = place[-2:]
            table.append(
                ({"step": place[0]} if len(place) == 3 else {})
                | {
                    "state": self.legend.state(state),
                    "action": self.legend.action(action),
                    "state_number": state,
                    "action_number": action,
                    "visits": int(self.visits[place]),
                    "distance": float(self.distance[place]),
                    "lower": float(self.lower[place]),
                    "upper": float(self.upper[place]),
                    "verdict": Verdict(int(self.verdict[place])).name.lower(),
                    "visits_needed": float(self.visits_needed[place]),
                    "certified": self.certified,
                }
            )
        return table


def map_mismatch(hybrid: HybridModel) -> MismatchMap:
    """Map the state of every row of a hybrid model.

    Args:
        hybrid: a hybrid model; evidence is one, with names of its states and actions.

    Returns:
        The map, with arrays [S, A] or [H, S, A].
    """
    visits = hybrid.visits
    suspects, known = hybrid.suspects, hybrid.known
    seen = visits > 0
    distance = np.where(seen, hybrid.distances, np.nan)
    radii = hybrid.radii
    lower = np.where(seen, np.maximum(0.0, distance - radii), 0.0)
    upper = np.where(seen, np.minimum(1.0, distance + radii), 1.0)
    near = hybrid.separation.calibrated_gap
    verdict = np.full(visits.shape, Verdict.CLEARED, dtype=np.uint8)
    verdict[suspects] = Verdict.OPEN
    verdict[suspects & (lower > near)] = Verdict.WRONG
    verdict[known] = Verdict.KNOWN
    verdict[hybrid.refuted] = Verdict.CONTRADICTED
    needed = np.zeros(visits.shape)
    until = visits_to_clear(hybrid, np.where(seen, distance, 0.0).reshape(-1)).reshape(visits.shape)
    needed[suspects] = np.maximum(1.0, until[suspects] - visits[suspects])
    return MismatchMap(
        visits=visits,
        distance=distance,
        lower=lower,
        upper=upper,
        verdict=verdict,
        visits_needed=needed,
        certified=hybrid.certified,
        legend=hybrid.problem.simulator.legend if isinstance(hybrid, Evidence) else Legend(),
    )


def visits_to_clear(hybrid: HybridModel, distance: Floats, *, as_seen: bool = True) -> Floats:
    """About how many visits in all clear each row at this `distance` [R] from the simulator's; inf where none do.

    `as_seen` takes rows to stay as they were seen, otherwise to be right. An expectation: nothing rests on it.
    """
    model, unit = hybrid.units
    rule, tally, farthest = model.rule, model.counts.tally, np.zeros(model.counts.simulator.num_rows)
    np.maximum.at(farthest, np.arange(farthest.size)[unit], distance)
    limit = rule.threshold if rule.clearing == codes.HALFWAY else rule.clearing_gap - ROUNDING
    if rule.threshold < 0.0:
        return np.full(distance.shape, np.inf)
    until = _visits_until(rule, limit - farthest, tally.length.astype(np.int64), model.all_near)
    if rule.clearing == codes.SEQUENTIAL:
        tested, states = np.empty(farthest.shape), model.counts.simulator.num_states
        eps, eta, gap = rule.cleared_gap, rule.clearing_eta, rule.clearing_gap
        clearing.visits_to_clear(tally, states, eps, eta, gap, rule.clearing_level, as_seen, tested)
        until = np.minimum(until, np.ceil(tested))
    if rule.within.size:
        until[rule.within < 1.0] = np.inf
    return until[unit]


def _visits_until(rule: row_update.Rule, limits: Floats, seen: NDArray[np.int64], near: NDArray[np.bool_]) -> Floats:
    """The fewest visits after which each row's radius is at most `limits` [R], by bisection; inf where none is enough."""
    never = limits < 0.0
    low = np.where(never, _NEVER - 1, 0)  # the radius is above the limit here
    high = np.where(never, _NEVER, 1)
    radius, growing = np.empty(limits.shape), ~never
    while growing.any():  # doubled until they are enough: most rows need some thousand visits
        row_update.radii(rule, high.astype(np.float64), seen, near, radius)
        growing &= (radius > limits) & (high < _NEVER)
        low = np.where(growing, high, low)
        high = np.where(growing, 2 * high, high)
    while (high - low > 1).any():
        middle = np.maximum(1, low + (high - low) // 2)
        row_update.radii(rule, middle.astype(np.float64), seen, near, radius)
        enough = radius <= limits
        high = np.where(enough, middle, high)
        low = np.where(enough, low, middle)
    return np.where(high == _NEVER, np.inf, high.astype(np.float64))
