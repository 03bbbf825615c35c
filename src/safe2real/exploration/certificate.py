"""The certificate of a deployment: proved bounds in the words of the constraints, with their assumptions and doubts."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from safe2real.evidence.evidence import Evidence
from safe2real.methods.base import Method
from safe2real.model.constraint_text import Wording, count
from safe2real.model.validation import ROUNDING, Floats, own
from safe2real.standing import Assumption, Doubt, Standing, standing_of

_PREFIXES = {
    Standing.HEURISTIC: "HEURISTIC, not a guarantee",
    Standing.REFUTED: "REFUTED, not a guarantee",
    Standing.INCOMPLETE: "INCOMPLETE, not a guarantee",
}
_WIDTH = 100  # columns of a terminal


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Certificate:
    """A statement about the exact value V_c of one deployed mixture on the real system.

    With probability at least 1 - delta over the whole run, every deployed mixture has V_c >= `lower_bounds` >=
    `thresholds`. The guarantee is in expectation, over the coin of the mixture too: once the coin shows the candidate,
    that policy alone is only guaranteed threshold - Delta. Where there are `doubts` nothing here is a guarantee.
    """

    lower_bounds: Floats  # [K] on V_c of the mixture
    thresholds: Floats  # [K]
    assumptions: tuple[Assumption, ...]
    doubts: tuple[Doubt, ...]  # empty when certified
    wordings: tuple[Wording, ...] = ()  # [K] or more: how the constraints were written

    def __post_init__(self) -> None:
        object.__setattr__(self, "lower_bounds", own(self.lower_bounds))
        object.__setattr__(self, "thresholds", own(self.thresholds))

    @property
    def standing(self) -> Standing:
        """The standing of the bounds: certified, heuristic, refuted or incomplete."""
        return standing_of(self.doubts)

    @property
    def certified(self) -> bool:
        """Whether there is no doubt."""
        return not self.doubts

    @property
    def reaches(self) -> bool:
        """Whether the bounds reach every threshold (to rounding), regardless of their standing."""
        same = np.shape(self.lower_bounds) == np.shape(self.thresholds)  # else a missing bound would count as met
        return same and bool(np.all(self.lower_bounds >= self.thresholds - ROUNDING))

    @property
    def holds(self) -> bool:
        """Whether certified bounds reach every threshold: the condition for a deployment."""
        return self.certified and self.reaches

    def assuming(self, more: Sequence[Assumption]) -> Certificate:
        """Return the certificate with further assumptions.

        Args:
            more: assumptions to append.

        Returns:
            The same bounds, resting on `more` as well.
        """
        return replace(self, assumptions=(*self.assumptions, *more)) if more else self

    def words(self, k: int) -> Wording:
        """Return how constraint `k` was written; as utility >= threshold if unknown.

        Args:
            k: index of the constraint.

        Returns:
            Its wording.
        """
        return self.wordings[k] if k < len(self.wordings) else Wording("constraint", 0, is_cost=False)

    def statement(self) -> str:
        """Return the bounds and thresholds in words, regardless of their standing.

        Returns:
            For example "cost <= 0.18 (limit 0.25)", one part for each constraint.
        """
        pairs = zip(self.lower_bounds, self.thresholds, strict=True)
        said = ((self.words(k), float(low), float(limit)) for k, (low, limit) in enumerate(pairs))
        return ", ".join(f"{words.proved(low)} ({words.bound(limit)})" for words, low, limit in said)

    def describe(self, width: int | None = _WIDTH) -> str:
        """Return the statement in words: one sentence, then its assumptions, or the doubts that make it no guarantee.

        Args:
            width: columns at which lines are broken; None writes all of it as one line.

        Returns:
            A sentence, and a line for each assumption or doubt.
        """
        if len(self.thresholds) == 0 and self.standing is not Standing.REFUTED:
            return "No safety constraint is enforced, so nothing is promised about safety."
        bounds = self.statement()
        if not self.reaches:
            sentence = f"NOT SAFE: a constraint is not shown to be kept, only: {bounds}"
        elif not self.certified:
            sentence = _PREFIXES[self.standing] + (f". Estimated: {bounds}" if bounds else "")
        else:
            return _listed(f"Certified: {bounds}, provided that", self.assumptions, width)
        return _listed(f"{sentence}. The reasons:", self.doubts, width) if self.doubts else f"{sentence}."

    def __repr__(self) -> str:
        rests = count(len(self.assumptions), "assumption") if self.certified else count(len(self.doubts), "doubt")
        return f"{type(self).__name__}({self.standing}, {self.statement() or 'no constraint'}, {rests}: see describe())"


def _listed(sentence: str, items: Sequence[Assumption | Doubt], width: int | None) -> str:
    """Return a sentence with a list below it, in lines of at most `width` columns, or all of it as one line."""
    if width is None:
        return f"{sentence} {'; '.join(map(str, items))}."
    lines = textwrap.wrap(sentence, width, break_on_hyphens=False)
    for item in items:
        lines += textwrap.wrap(
            str(item), width, initial_indent="  - ", subsequent_indent="    ", break_on_hyphens=False, break_long_words=False
        )
    return "\n".join(lines)


def certify(
    evidence: Evidence,
    bounds: Floats,
    doubts: Sequence[Doubt] = (),
    *,
    thresholds: Floats | None = None,
    assumed: Sequence[Assumption] = (),
    method: Method | None = None,
) -> Certificate:
    """Return lower bounds on V_c with all that they assume, and with the reasons why they are no guarantee, if any.

    Args:
        evidence: the data that the bounds follow from.
        bounds: [K] on V_c.
        doubts: reasons besides those of the evidence or the method.
        thresholds: [K]; the problem's if None. None are enforced where a method ignores the constraints.
        assumed: assumptions besides those of the evidence.
        method: computed the bounds, and lists their assumptions. Without one the bounds are of the model, whose rows are
            assumed to be as the problem says.

    Returns:
        A certificate of any standing.
    """
    limits = evidence.problem.simulator.thresholds if thresholds is None else thresholds
    rests_on = evidence.assumptions() if method is None else method.assumptions(evidence)
    doubted = evidence.doubts() if method is None else method.doubts(evidence)
    return Certificate(
        lower_bounds=np.array(bounds),
        thresholds=np.array(limits),
        assumptions=(*rests_on, *assumed),
        doubts=(*doubts, *doubted),
        wordings=evidence.problem.simulator.wordings,
    )
