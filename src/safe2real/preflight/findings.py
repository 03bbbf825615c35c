"""What a check before the first deployment finds: one statement each, with its numbers and, where needed, its cure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from safe2real.model.constraint_text import count
from safe2real.model.kernel import Kernel
from safe2real.model.trajectory import Trajectory
from safe2real.problem.conditions import Change, Guarantee
from safe2real.problem.problem import Problem
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
    WARNING = "warning"
    """Nothing is unsafe, but it costs something, or it is open."""
    FAILURE = "failure"
    """A guarantee does not stand, or there is nothing to gain: mend it first."""


class About(StrEnum):
    """What a finding is a statement about."""

    SETTINGS = "settings"
    """What is stated, by itself: whether it fits together, and what follows from it."""
    SIMULATOR = "simulator"
    REALITY = "reality"
    """The system on which is rehearsed, whether it is stated or guessed."""
    REAL_SYSTEM = "real-system"
    """The machine itself, by rollouts."""
    REHEARSAL = "rehearsal"


class Code(StrEnum):
    """What was looked at; with it what that is a statement about, and a heading for people."""

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


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. Programs read code, subject, level and what it affects; people read the rest."""

    code: Code
    level: Level
    what: str
    cure: str = ""  # empty where nothing is to be mended
    numbers: Mapping[str, Any] = field(default_factory=dict)
    subject: str = ""  # the name of the constraint or of the condition, where there are several
    affects: tuple[Guarantee, ...] = ()  # claims that do not stand where this fails
    changes: tuple[Change, ...] = ()  # the cures that are numbers; each is one that its setting can have
    title: str = ""  # for people, where that of the code does not fit: a limit is no threshold

    @property
    def name(self) -> str:
        """A title for people."""
        return self.title or self.code.heading.format(self.subject)

    @property
    def about(self) -> About:
        return self.code.about

    def __str__(self) -> str:
        mended = f" Cure: {self.cure}." if self.cure else ""
        return f"{self.level.upper():8} {self.name}: {self.what}.{mended}"

    def to_document(self) -> dict[str, Any]:
        """All of it as JSON can hold it."""
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
        """Why nothing is a guarantee on a system of which this assumption is false."""
        return Doubt(DoubtCode.FALSE_OF_REALITY, f"{self.name}: {self.what}", self.subject)


def against(findings: Iterable[Finding], claim: Guarantee) -> tuple[Finding, ...]:
    """The failures because of which a claim does not stand."""
    return tuple(one for one in findings if one.level is Level.FAILURE and claim in one.affects)


# What a check recommends: how to say more of what is known, and which method is expected to be cheaper.
#
# A finding says whether something holds; a recommendation says what to do for fewer episodes, or where there is no
# separation. Each names what following it would assume of the real system: nothing here can know whether that is true.


class Advice(StrEnum):
    """What a recommendation is about, with a heading for people."""

    heading: str

    def __new__(cls, code: str, heading: str) -> Self:
        member = str.__new__(cls, code)
        member._value_, member.heading = code, heading
        return member

    NO_SEPARATION = ("no-separation", "no gaps can be stated")
    METHOD = ("method", "with or without the simulator")
    SUPPORT = ("support", "declare what can follow")
    GAPS = ("gaps", "gaps from the accuracy")


@dataclass(frozen=True, slots=True)
class Recommendation:
    """One thing to do. Programs read code, numbers and changes; people read the rest."""

    code: Advice
    what: str  # what was computed, and what follows
    cure: str  # what to do; empty where all is well as it is
    assumes: str = ""  # of the real system, by doing so; empty where nothing new is assumed
    numbers: Mapping[str, Any] = field(default_factory=dict)
    changes: tuple[Change, ...] = ()  # settings to choose, each with a value that it can have

    @property
    def name(self) -> str:
        """A title for people."""
        return self.code.heading

    @property
    def text(self) -> str:
        """All of it in sentences."""
        parts = [self.what]
        parts += [f"Do: {self.cure}"] if self.cure else []
        parts += [f"That assumes: {self.assumes}"] if self.assumes else []
        return ". ".join(parts) + "."

    def __str__(self) -> str:
        return f"ADVICE   {self.name}: {self.text}"

    def to_document(self) -> dict[str, Any]:
        """All of it as JSON can hold it."""
        return {
            "code": self.code.value,
            "name": self.name,
            "what": self.what,
            "cure": self.cure,
            "assumes": self.assumes,
            "numbers": dict(self.numbers),
            "changes": [one.to_document() for one in self.changes],
        }


# Rollouts held against what is declared: one step to where a declaration says that none leads refutes it.
#
# A declared support names every successor of a row, and a row that is declared known has the simulator's successors and no
# others. No statistics are needed: what has probability 0 does not happen. That rollouts keep to a declaration proves
# nothing.


def rollout_findings(problem: Problem, rollouts: Sequence[Trajectory]) -> list[Finding]:
    """Whether steps of the real system contradict the declared support, or rows that are declared known.

    Args:
        problem: what is declared.
        rollouts: episodes of the real system, checked (`baseline.check_rollouts`).

    Returns:
        A failure for each declaration that is false; nothing where none is contradicted.
    """
    findings = []
    if problem.support is not None:
        outside = rows_left(problem.support, rollouts)
        if outside.any():
            said = f"{_named(problem, outside)}: the rollouts lead to states that the declared support does not name"
            cure, rows = "name every possible successor, or declare no support", {"rows": int(outside.sum())}
            findings.append(Finding(Code.SUPPORT_BY_ROLLOUTS, Level.FAILURE, said, cure, rows, affects=EVERY_CLAIM))
    wrong = problem.known_rows() & rows_left(problem.simulator.kernel, rollouts)
    if wrong.any():
        said = f"{_named(problem, wrong)}: declared known, but the rollouts lead to states of probability 0 there"
        cure, rows = "declare only rows known that are exact", {"rows": int(wrong.sum())}
        findings.append(Finding(Code.KNOWN_ROWS_BY_ROLLOUTS, Level.FAILURE, said, cure, rows, affects=EVERY_CLAIM))
    return findings


def rows_left(kernel: Kernel, rollouts: Sequence[Trajectory]) -> NDArray[np.bool_]:
    """[R] rows from which a rollout went to a state that `kernel` rules out there."""
    left, pairs = np.zeros(kernel.num_rows, dtype=np.bool_), kernel.num_states * kernel.num_actions
    possible: dict[int, set[int]] = {}  # successors of the rows that were come by
    for episode in rollouts:
        rows = episode.states[:-1].astype(np.int64) * kernel.num_actions + episode.actions
        if not kernel.is_stationary:
            rows += np.arange(rows.size) * pairs
        for row, successor in zip(rows.tolist(), episode.states[1:].tolist(), strict=True):
            if row not in possible:
                possible[row] = set(kernel.row(row)[0].tolist())  # a kernel stores no successor of probability 0
            left[row] |= successor not in possible[row]
    return left


def _named(problem: Problem, rows: NDArray[np.bool_]) -> str:
    """How many rows, and the first of them."""
    model = problem.simulator
    state, action = divmod(int(np.argmax(rows)) % (model.num_states * model.num_actions), model.num_actions)
    return f"{count(int(rows.sum()), 'row')}, the first is {model.legend.row(state, action)}"
