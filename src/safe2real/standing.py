"""What a statement is worth, and why, as data: pages and programs read codes, people read the texts beside them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Standing(StrEnum):
    """What a number or a policy is worth; only the first is a guarantee."""

    CERTIFIED = "certified"
    """Proved, if the assumptions are true that are listed with it."""
    HEURISTIC = "heuristic"
    """Computed with constants that prove nothing."""
    REFUTED = "refuted"
    """What happened contradicts an assumption: nothing that rests on it is a guarantee, from then on and for good."""
    INCOMPLETE = "incomplete"
    """Nothing is contradicted, but something that the claim needs is not there."""

    @property
    def is_guarantee(self) -> bool:
        """Whether it is certified; nothing else is a guarantee."""
        return self is Standing.CERTIFIED


class DoubtCode(StrEnum):
    """Why something is not certified."""

    RADIUS_SCALED = "radius-scaled"
    BONUS_SCALED = "bonus-scaled"
    LEFT_SUPPORT = "left-support"
    LEFT_MODEL = "left-model"
    ROWS_CONTRADICTED = "rows-contradicted"
    MARGIN_REFUTED = "margin-refuted"
    FALSE_OF_REALITY = "false-of-reality"
    """An assumption is false of the system on which a rehearsal runs, which is known there."""
    SIMULATOR_ESTIMATED = "simulator-estimated"
    """The simulator's rows were estimated with constants that prove nothing."""
    GAP_NOT_COVERED = "gap-not-covered"
    """The simulator's rows were estimated, and the calibrated gap is smaller than their accuracy."""
    CONSTRAINTS_IGNORED = "constraints-ignored"
    NO_FEASIBLE_PLAN = "no-feasible-plan"
    STRUCTURE_UNTESTED = "structure-untested"
    """It rests on ties that were not called exact, and no trial has shown it to hold."""
    STRUCTURE_REFUTED = "structure-refuted"
    """The data contradict the ties that were stated."""

    @property
    def standing(self) -> Standing:
        """What is left of a statement that is doubted for this reason."""
        return _STANDINGS[self]


_STANDINGS = {
    DoubtCode.RADIUS_SCALED: Standing.HEURISTIC,
    DoubtCode.BONUS_SCALED: Standing.HEURISTIC,
    DoubtCode.LEFT_SUPPORT: Standing.REFUTED,
    DoubtCode.LEFT_MODEL: Standing.REFUTED,
    DoubtCode.ROWS_CONTRADICTED: Standing.REFUTED,
    DoubtCode.MARGIN_REFUTED: Standing.REFUTED,
    DoubtCode.FALSE_OF_REALITY: Standing.REFUTED,
    DoubtCode.SIMULATOR_ESTIMATED: Standing.HEURISTIC,
    DoubtCode.GAP_NOT_COVERED: Standing.INCOMPLETE,
    DoubtCode.CONSTRAINTS_IGNORED: Standing.INCOMPLETE,
    DoubtCode.NO_FEASIBLE_PLAN: Standing.INCOMPLETE,
    DoubtCode.STRUCTURE_UNTESTED: Standing.INCOMPLETE,
    DoubtCode.STRUCTURE_REFUTED: Standing.REFUTED,
}


class AssumptionCode(StrEnum):
    """What a guarantee can rest on."""

    TIES = "ties"
    """Rows that were declared to behave alike do."""
    WITHIN = "within"
    """Rows of the simulator are within stated distances of the real ones."""
    MARGIN = "margin"
    SEPARATION = "separation"
    MARKOV = "markov"
    STATIONARY = "stationary"
    COMPLETE = "complete"
    """The model has every state, end and cost that the real system has."""
    START_AND_HORIZON = "start-and-horizon"
    SUPPORT = "support"
    KNOWN_ROWS = "known-rows"
    COUNTED = "counted"
    FIXED = "fixed-before-data"
    """Nothing that the confidence sets are built from was chosen by the episodes that are counted."""
    INDEPENDENT = "independent-episodes"
    """Episodes of one policy are independent of each other, and alike."""
    FAULTS = "faults"
    """Episodes were cut short by faults that the user calls the environment's own."""
    ESTIMATED = "estimated"
    """The simulator was itself estimated, within an accuracy that has a probability of its own."""
    RANGE = "range"
    """No episode's sum is outside a stated range."""
    EVENT = "event"
    FLEET = "fleet"
    SELECTION = "selection"
    COIN = "coin"
    LOGS = "logs"
    EMERGENCY_STOP = "emergency-stop"
    EXTENSION = "extension"
    """A radius or a method from outside the package proves what it states."""


@dataclass(frozen=True, slots=True)
class Assumption:
    """One thing that a guarantee rests on."""

    code: AssumptionCode
    text: str
    subject: str = ""  # what it is about, where there are several: the name of a constraint

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Doubt:
    """One reason why something is not certified."""

    code: DoubtCode
    text: str
    subject: str = ""

    @property
    def standing(self) -> Standing:
        """What is left of a statement that this speaks against."""
        return self.code.standing

    def __str__(self) -> str:
        return self.text


def standing_of(doubts: Iterable[Doubt]) -> Standing:
    """Return the standing of a statement with these doubts: the worst of them decides.

    Args:
        doubts: reasons why the statement is not certified.

    Returns:
        REFUTED before HEURISTIC before INCOMPLETE; CERTIFIED without a doubt.
    """
    found = {doubt.standing for doubt in doubts}
    order = (Standing.REFUTED, Standing.HEURISTIC, Standing.INCOMPLETE)
    return next((standing for standing in order if standing in found), Standing.CERTIFIED)
