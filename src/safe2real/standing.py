"""Standing of a statement, with its assumptions and doubts as data: programs read codes, people read the texts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Standing(StrEnum):
    """Standing of a bound or a policy; only CERTIFIED is a guarantee."""

    CERTIFIED = "certified"
    """Proved, if the assumptions are true that are listed with it."""
    HEURISTIC = "heuristic"
    """Computed with constants that prove nothing."""
    REFUTED = "refuted"
    """The data contradict an assumption: no statement that rests on it is a guarantee any more."""
    INCOMPLETE = "incomplete"
    """No assumption is contradicted, but a condition of the claim is missing."""

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
        """Standing of a statement with this doubt."""
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
    """Kinds of assumptions of a guarantee."""

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
    """The parts of the confidence sets were fixed before the counted episodes, and not chosen by them."""
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
    """One assumption of a guarantee."""

    code: AssumptionCode
    text: str
    subject: str = ""  # name of its constraint, where there are several

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Doubt:
    """One reason why a statement is not certified."""

    code: DoubtCode
    text: str
    subject: str = ""

    @property
    def standing(self) -> Standing:
        """Standing of a statement with this doubt."""
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
