"""The fixed inputs and assumptions: simulator, constraints, trusted policy, margins, gaps, probability of failure.

A problem is frozen, and one JSON document: all processes that decode the same text compute with the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safe2real.errors import InvalidInput
from safe2real.model.cmdp import CMDP
from safe2real.model.constraint_text import rounded_down
from safe2real.model.kernel import Kernel
from safe2real.model.policy import MarkovPolicy, fitted
from safe2real.model.serialization import Extensions, from_text, numbers_from_json, to_text
from safe2real.model.validation import (
    ROUNDING,
    Floats,
    boolean,
    finite_floats,
    frozen,
    probability_of_failure,
    whole_numbers,
)
from safe2real.planning.evaluate import constraint_values
from safe2real.planning.robust import reach_of
from safe2real.problem.settings import Settings, margins_for
from safe2real.problem.ties import Ties, check_copies, laws_of


@dataclass(frozen=True, eq=False, slots=True)
class RowAccuracy:
    """How far the rows of an estimated simulator can be from the rows that they estimate."""

    accuracy: Floats  # [S, A] TV distance, all rows at once with probability 1 - delta; 1 unvisited, 0 known
    visits: NDArray[np.int64]  # [S, A] samples behind each row
    delta: float
    certified: bool  # whether the accuracy carries that guarantee

    def __post_init__(self) -> None:
        accuracy = frozen(finite_floats("estimated.accuracy", self.accuracy))
        visits = whole_numbers("estimated.visits", self.visits, below=2**63 - 1, what="visits")
        if accuracy.shape != visits.shape or (accuracy < 0.0).any() or (accuracy > 1.0).any():
            raise InvalidInput(
                f"estimated has an accuracy of shape {accuracy.shape} and visits of shape {visits.shape}, or an accuracy "
                "outside [0, 1]; give one TV distance and one number of visits for each row"
            )
        object.__setattr__(self, "accuracy", accuracy)
        object.__setattr__(self, "visits", frozen(visits))
        probability_of_failure("estimated.delta", self.delta)
        boolean("estimated.certified", self.certified)

    @property
    def worst(self) -> float:
        """The worst accuracy of a visited row; to reuse them all, `calibrated_gap` must be at least this."""
        return float(self.accuracy[self.visits > 0].max(initial=0.0))

    @property
    def unvisited(self) -> NDArray[np.bool_]:
        """[S, A] the rows without a visit."""
        return np.asarray((self.visits == 0) & (self.accuracy > 0.0), dtype=np.bool_)


def check_estimated(rows: RowAccuracy, kernel: Kernel) -> None:
    """Refuse the row accuracy of another simulator."""
    if not isinstance(rows, RowAccuracy):
        raise InvalidInput(f"estimated is a {type(rows).__name__}; give the row_accuracy of an estimated model")
    shape = (kernel.num_states, kernel.num_actions)
    if rows.accuracy.shape != shape:
        raise InvalidInput(f"estimated.accuracy has shape {rows.accuracy.shape}; give one number for each row, {shape}")


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Problem:
    """The knowledge and the assumptions before the first real episode.

    `simulator` carries the constraints, `baseline` is the trusted policy, `known` marks rows that are exact. `support` is a
    kernel of the simulator's shape whose successors are the ones that the real system can have (its probabilities do not
    matter): declare it where you know it, e.g. the neighbours of a cell, and radii shrink. `estimated` is how far the rows
    of a simulator that was estimated can be off (`EstimatedModel.row_accuracy`): its probability of failure adds to delta.
    `within` [S, A] (or [H, S, A]) bounds the TV distance of rows to the real ones, 1 where it is unknown: such rows need no
    separation, their sets are the smaller of that ball and the one around the observations. `ties` says which rows behave
    alike, as the user knows (docs/structure.md). `copies` [S] names for every state the state whose rows it has by
    construction, as `FiniteSystem.copies` does: an observation of one counts for all.

    All of it is checked here and nowhere else, and arrays are copied. Whether the baseline has its margin on the simulator
    itself is another question: `refuse_lost_margin`.

    Example:
        >>> Problem(simulator, baseline, Settings(margin=1.5, calibrated_gap=0.0, mismatch_gap=0.5, tolerance=0.375))

    Raises:
        InvalidInput: with the place, the value and the fix.
    """

    simulator: CMDP
    baseline: MarkovPolicy
    settings: Settings
    known: NDArray[np.bool_] | None = None
    support: Kernel | None = None
    estimated: RowAccuracy | None = None
    within: Floats | None = None
    ties: Ties | None = None
    copies: NDArray[np.int64] | None = None
    margins: Floats = field(init=False)
    """[K] Slater margins of the baseline, as stated."""
    laws: Floats | None = field(init=False)
    """[C, L] the simulator's law of every class of the ties, NaN where no row shows it; None without ties."""

    def __post_init__(self) -> None:
        kinds = (("simulator", CMDP, _model_of(self.simulator)), ("settings", Settings, "give Settings(...)"),
                 ("baseline", MarkovPolicy, "give one MarkovPolicy whose margin you know"))  # fmt: skip
        for name, kind, fix in kinds:
            if not isinstance(getattr(self, name), kind):
                raise InvalidInput(f"{name} is a {type(getattr(self, name)).__name__}; {fix}")
        kernel = self.simulator.kernel
        checked: dict[str, Any] = {
            "baseline": fitted(self.baseline, self.simulator, "baseline"),
            "margins": frozen(margins_for(self.settings, self.simulator)),
            "known": None if self.known is None else _known(self.known, kernel.shape),
            "within": None if self.within is None else _within(self.within, kernel.shape),
            "laws": None,
        }
        reach_of(self.support, kernel)  # refuses another shape
        if self.estimated is not None:
            check_estimated(self.estimated, kernel)
        if self.ties is not None:
            if not isinstance(self.ties, Ties):
                raise InvalidInput(f"ties is a {type(self.ties).__name__}; give Ties(classes, successors)")
            checked["laws"] = laws_of(self.ties, kernel)
        if self.copies is not None:
            checked["copies"] = frozen(check_copies(self.copies, kernel))
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        optional = ("known", "support", "estimated", "within", "ties", "copies")
        given = "".join(f", {name}" for name in optional if getattr(self, name) is not None)
        return f"Problem(simulator, baseline, settings{given})\n  {self.simulator}\n  {self.settings}"

    def known_rows(self) -> NDArray[np.bool_]:
        """Mark the rows that were declared exact.

        Returns:
            [R] booleans, a copy.
        """
        rows = self.simulator.kernel.num_rows
        return np.zeros(rows, dtype=np.bool_) if self.known is None else self.known.reshape(-1).copy()

    def within_rows(self) -> Floats:
        """Return the declared bounds on the TV distance of the simulator's rows to the real ones.

        Returns:
            [R] distances, a copy; 1 where none was declared.
        """
        return np.ones(self.simulator.kernel.num_rows) if self.within is None else self.within.reshape(-1).copy()

    @property
    def exact_ties(self) -> Ties | None:
        """The ties that results may rest on: those that are `exact`."""
        return self.ties if self.ties is not None and self.ties.exact else None

    @property
    def rows_alike(self) -> bool:
        """Whether rows are declared alike, by `copies` or by exact ties: data of such rows are pooled."""
        return self.copies is not None or self.exact_ties is not None

    @property
    def reports_labels(self) -> bool:
        """Whether every episode says which labels of the ties were drawn."""
        return self.ties is not None and self.ties.reported

    def unproved(self) -> list[str]:
        """Name the assumptions about the real system that no check can prove.

        Returns:
            The margin, the gaps, and what was declared besides them.
        """
        declared = {
            "the known rows": self.known is not None and self.known.any(),
            "the declared support": self.support is not None,
            "the accuracy of the estimated rows": self.estimated is not None,
            "the exact ties": self.exact_ties is not None,
            "the distances that `within` states": self.within is not None and (self.within < 1.0).any(),
        }
        return ["the margin", "the gaps", *(name for name, used in declared.items() if used)]

    def fitted_episodes(self) -> frozenset[int]:
        """Return the fingerprints of the real episodes that the simulator or the support was estimated from.

        The model of a plan does not know its episodes; `ANY_EPISODE` is its one fingerprint.

        Returns:
            The fingerprints; empty if nothing was estimated from logs.
        """
        kernels = (self.simulator.kernel, self.support)
        marks = [kernel.fitted_to for kernel in kernels if kernel is not None and kernel.fitted_to is not None]
        return frozenset(number for one in marks for number in one.tolist())

    def refuse_lost_margin(self) -> None:
        """Refuse a baseline that lacks its stated margin on the simulator; the margin is a claim about the real system.

        Raises:
            InvalidInput: a constraint has a smaller margin on the simulator; with both numbers and the fixes.
        """
        model = self.simulator
        for words, value, threshold, xi in zip(
            model.wordings, constraint_values(model, self.baseline), model.thresholds, self.margins, strict=True
        ):
            slack = float(value - threshold)
            if slack < xi - ROUNDING:
                shown = rounded_down(slack)
                beside = f"{words.quantity} {words.number(value):.6g}, {words.bound(threshold)}"
                fixes = f"State at most {shown}, {words.loosen}" if slack > 0.0 else words.loosen.capitalize()
                raise InvalidInput(
                    f"on the simulator the baseline's margin is {shown}, less than the stated {xi:.6g} ({beside}). {fixes}, "
                    f"or choose a safer baseline. If rollouts on the real system prove {xi:.6g}, set trust_margin=True"
                )

    def to_text(self) -> str:
        """Write the problem as one JSON document; `from_text` restores the same numbers, bit for bit.

        Returns:
            The JSON text.
        """
        from safe2real.problem.document import to_document  # which reads problems, too

        return to_text(to_document(self))

    @classmethod
    def from_text(cls, text: str | bytes, *, extensions: Extensions = ()) -> Problem:
        """Read a document written by `to_text`, by hand, or in another language.

        Args:
            text: one JSON document.
            extensions: the user's own classes of radii that it may name.

        Returns:
            The problem, checked.

        Raises:
            InvalidInput: the text is not JSON, or not a valid problem; with the place, the value and the fix.
        """
        return cls.from_document(from_text(text, "the specification"), extensions=extensions)

    @classmethod
    def from_document(cls, document: Any, *, extensions: Extensions = ()) -> Problem:
        """Read a document that is parsed already; arrays and kernels may stand in it as objects.

        Args:
            document: a dict with the keys of the JSON document.
            extensions: the user's own classes of radii that it may name.

        Returns:
            The problem, checked.

        Raises:
            InvalidInput: it is not a valid problem; with the place, the value and the fix.
        """
        from safe2real.problem.document import from_document

        return from_document(document, extensions)


def _model_of(given: Any) -> str:
    """Return how to get a CMDP from what was given as the simulator."""
    if isinstance(getattr(given, "model", None), CMDP):
        return "give its model, system.model"
    if hasattr(given, "reset") and hasattr(given, "step"):
        return "make a system of the environment first (docs/bring-your-own-system.md), and give system.model"
    return "give a CMDP, with its constraints"


def _known(given: Any, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    found = np.asarray(numbers_from_json(given, "known"))
    if found.shape != shape or found.dtype != np.bool_:
        raise InvalidInput(f"known has shape {found.shape} and type {found.dtype}; give booleans of shape {shape}")
    return frozen(found.copy())


def _within(given: Any, shape: tuple[int, ...]) -> Floats:
    found = finite_floats("within", numbers_from_json(given, "within"))
    if found.shape != shape or (found < 0.0).any() or (found > 1.0).any():
        extent = f"values from {found.min():g} to {found.max():g}" if found.size else "no values"
        raise InvalidInput(
            f"within has shape {found.shape} and {extent}; give TV distances from 0 to 1 (1: nothing is known) of shape "
            f"{shape}"
        )
    return frozen(found)
