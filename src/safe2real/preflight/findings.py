"""Findings of the pre-flight check: one statement each, with its numbers and, where needed, its cure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self

from safe2real.problem.theorem import Change, Guarantee
from safe2real.standing import Doubt, DoubtCode, Standing

EVERY_CLAIM = tuple(Guarantee)
WORTH = {  # in words, for people
    Standing.CERTIFIED: "certified",
    Standing.HEURISTIC: "HEURISTIC, not guaranteed",
    Standing.REFUTED: "not guaranteed, an assumption fails",
    Standing.INCOMPLETE: "not guaranteed, incomplete",
}


class Level(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    ADVICE = "advice"
    """No fix is needed; another choice is expected to need fewer episodes."""
    WARNING = "warning"
    """No constraint is at risk, but it costs episodes, or is undecided."""
    FAILURE = "failure"
    """A guarantee does not hold, or a run cannot improve anything: fix it first."""


class About(StrEnum):
    """The subject of a finding."""

    SETTINGS = "settings"
    """The statements alone: their consistency and their consequences."""
    SIMULATOR = "simulator"
    REALITY = "reality"
    """The system on which is rehearsed, whether it is stated or guessed."""
    REAL_SYSTEM = "real-system"
    """The machine itself, by rollouts."""
    REHEARSAL = "rehearsal"


class Code(StrEnum):
    """The subject of a check, with its `about` and a heading for people."""

    about: About
    heading: str

    def __new__(cls, code: str, about: About, heading: str) -> Self:
        member = str.__new__(cls, code)
        member._value_, member.about, member.heading = code, about, heading
        return member

    CONSTRAINTS = ("constraints", About.SETTINGS, "constraints")
    LIBRARY = ("library", About.SETTINGS, "library")
    CONDITION = ("condition", About.SETTINGS, "condition: {}")
    PLANNING_ACCURACY = ("planning-accuracy", About.SETTINGS, "planning accuracy")
    STOP_FLOOR = ("stop-floor", About.SETTINGS, "stop")
    ESTIMATED_ROWS = ("estimated-rows", About.SIMULATOR, "accuracy of the estimated simulator")
    MARGIN_UNDER_GUESSES = ("margin-under-guesses", About.REALITY, "margin under a guess")
    SUPPORT = ("support", About.REALITY, "declared support")
    SUPPORT_BY_ROLLOUTS = ("support-by-rollouts", About.REAL_SYSTEM, "declared support by rollouts")
    KNOWN_ROWS_BY_ROLLOUTS = ("known-rows-by-rollouts", About.REAL_SYSTEM, "known rows by rollouts")
    KNOWN_ROWS = ("known-rows", About.REALITY, "known rows")
    WITHIN = ("within", About.REALITY, "distances that were stated")
    TIES = ("ties", About.REALITY, "ties")
    SEPARATION = ("separation", About.REALITY, "separation")
    POSSIBLE_DISTANCES = ("possible-distances", About.SETTINGS, "possible distances")
    CLEARING = ("clearing", About.SETTINGS, "clearing rows")
    PROTECTION = ("protection", About.SETTINGS, "if the gap is overstated")
    COVERAGE = ("coverage", About.REALITY, "coverage")
    THRESHOLD = ("threshold", About.SIMULATOR, "threshold of {}")
    THRESHOLDS_TOGETHER = ("thresholds-together", About.SIMULATOR, "constraints together")
    BASELINE_BY_ROLLOUTS = ("baseline-by-rollouts", About.REAL_SYSTEM, "baseline by rollouts, {}")
    BASELINE_ON_STATED_REALITY = ("baseline-on-stated-reality", About.REALITY, "baseline on the stated reality, {}")
    BASELINE_ON_GUESSED_REALITY = ("baseline-on-guessed-reality", About.REALITY, "baseline on the guessed reality, {}")
    BASELINE_ON_SIMULATOR = ("baseline-on-simulator", About.SIMULATOR, "baseline on the simulator, {}")
    ROLLOUTS_NEEDED = ("rollouts-needed", About.REALITY, "rollouts to confirm the margin, {}")
    REHEARSED_SAFETY = ("rehearsed-safety", About.REHEARSAL, "safety in rehearsal")
    REHEARSED_STOP = ("rehearsed-stop", About.REHEARSAL, "samples to the stop")
    WRONG_ROWS_FOUND = ("wrong-rows-found", About.REHEARSAL, "wrong rows found")
    PLANS = ("plans", About.REHEARSAL, "plans on the way")
    OTHER_METHOD = ("other-method", About.REHEARSAL, "with or without the simulator's rows")
    DECLARED_SUPPORT = ("declared-support", About.REHEARSAL, "the simulator's successors as declared support")


@dataclass(frozen=True, slots=True)
class Finding:
    """One result of a check. Programs read `code`, `subject`, `level` and `affects`; people read the rest."""

    code: Code
    level: Level
    what: str
    cure: str = ""  # empty where no fix is needed
    numbers: Mapping[str, Any] = field(default_factory=dict)
    subject: str = ""  # the name of the constraint or of the condition, where there are several
    affects: tuple[Guarantee, ...] = ()  # claims that do not hold where this fails
    changes: tuple[Change, ...] = ()  # the cures that are numbers; each is one that its setting can have
    title: str = ""  # for people, where that of the code does not fit: a limit is no threshold

    @property
    def name(self) -> str:
        """A title for people."""
        return self.title or self.code.heading.format(self.subject)

    @property
    def about(self) -> About:
        """The subject of the finding: settings, simulator, reality or rehearsal."""
        return self.code.about

    @property
    def cure_word(self) -> str:
        """The word before `cure`: "Do" for advice, else "Cure"."""
        return "Do" if self.level is Level.ADVICE else "Cure"

    def __str__(self) -> str:
        mended = f" {self.cure_word}: {self.cure}." if self.cure else ""
        return f"{self.level.upper():8} {self.name}: {self.what}.{mended}"

    def to_document(self) -> dict[str, Any]:
        """Return the finding as plain JSON values.

        Returns:
            A dict with code, subject, level, texts, changes and numbers.
        """
        return {
            "code": self.code.value,
            "subject": self.subject,
            "about": self.about.value,
            "affects": [claim.value for claim in self.affects],
            "level": self.level.value,
            "name": self.name,
            "what": self.what,
            "cure": self.cure,
            "changes": [one.to_document() for one in self.changes],
            "numbers": dict(self.numbers),
        }

    def as_doubt(self) -> Doubt:
        """Return the doubt about every result on a system for which this assumption is false.

        Returns:
            A doubt with the code FALSE_OF_REALITY.
        """
        return Doubt(DoubtCode.FALSE_OF_REALITY, f"{self.name}: {self.what}", self.subject)


def against(findings: Iterable[Finding], claim: Guarantee) -> tuple[Finding, ...]:
    """Return the failures that invalidate a claim."""
    return tuple(one for one in findings if one.level is Level.FAILURE and claim in one.affects)
