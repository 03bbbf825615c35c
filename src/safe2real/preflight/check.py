"""The pre-flight check: are the assumptions plausible, which conditions fail, how long will a run take.

Nothing here is a guarantee about the real system. The margin and the gaps are assumptions; a check can only say whether they
agree with each other, with the simulator, with rollouts of the baseline, and with a guess of the real system.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count as counted
from typing import Any

from safe2real.errors import InvalidInput
from safe2real.exploration.learner import Learner
from safe2real.exploration.simulate import compile_everything
from safe2real.methods.base import Method
from safe2real.methods.sim_to_real import SimToReal
from safe2real.model.constraint_text import count
from safe2real.model.kernel import Kernel
from safe2real.model.trajectory import Trajectory
from safe2real.preflight import conditions, gaps
from safe2real.preflight.baseline import Range, baseline_findings, check_rollouts, ranges_of, threshold_findings
from safe2real.preflight.findings import WORTH, Code, Finding, Level, against
from safe2real.preflight.hypothetical_reality import Guess, guess_reality
from safe2real.preflight.rehearsal import (
    Effort,
    Rehearsal,
    alternative_findings,
    alternatives,
    rehearsal_findings,
    rehearse,
    rehearse_each,
    shown_standing,
)
from safe2real.problem.problem import Problem
from safe2real.problem.theorem import Condition, Guarantee
from safe2real.progress import Report, progress_bar
from safe2real.standing import Standing
from safe2real.tables import Row, Tabular

_WHY_NOT = {Code.LIBRARY: "the statements contradict each other", Code.STOP_FLOOR: "no run reaches its stop"}


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Preflight(Tabular):
    """The findings of a check, in the order in which to fix them."""

    findings: tuple[Finding, ...]
    guarantees: dict[Guarantee, str]  # reason why a claim does not hold; empty if it does
    ranges: tuple[Range, ...]  # one for each constraint
    rehearsals: tuple[Rehearsal, ...]  # one for each seed
    standing: Standing  # of the rehearsals
    guessed: bool  # whether the reality that was rehearsed is a guess
    certified: bool  # whether the constants are
    tolerance: float  # where a run stops
    horizon: int
    assumed: str = "the margin and the gaps"  # assumptions that no check can prove, in words
    goal: str = "tolerance"  # name of `tolerance`: "accuracy" where declared rewards decide the stop

    def __repr__(self) -> str:
        return f"Preflight({count(len(self.findings), 'finding')}, {count(len(self.failures), 'failure')}: see describe())"

    def at(self, level: Level) -> tuple[Finding, ...]:
        """Return the findings of one level.

        Args:
            level: for example `Level.WARNING`.

        Returns:
            The findings, in the order in which to fix them.
        """
        return tuple(finding for finding in self.findings if finding.level is level)

    @property
    def failures(self) -> tuple[Finding, ...]:
        """Findings that must be fixed."""
        return self.at(Level.FAILURE)

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """Findings that may be accepted."""
        return self.at(Level.WARNING)

    @property
    def worst_first(self) -> list[Finding]:
        """All findings, failures first."""
        return sorted(self.findings, key=lambda finding: list(Level).index(finding.level), reverse=True)

    @property
    def ready(self) -> bool:
        """Whether there is no failure. No guarantee: the assumptions remain the user's."""
        return not self.failures

    def verdict(self) -> str:
        """Return whether the problem is ready, in one sentence.

        Returns:
            "READY ..." or "NOT READY ...".
        """
        warned = f", {count(len(self.warnings), 'warning')}" if self.warnings else ""
        worth = " (INCOMPLETE, nothing is guaranteed)" if self.standing is Standing.INCOMPLETE else ""
        worth = worth if self.certified else " (HEURISTIC, nothing is guaranteed)"
        if self.failures:
            first = self.failures[0]
            return f"NOT READY{worth}: {count(len(self.failures), 'failure')}{warned}. First mend: {first.name}"
        assumed = self.assumed[:1].upper() + self.assumed[1:]
        return f"READY{worth}: nothing fails{warned}. {assumed} remain assumptions about the real system"

    @property
    def claims(self) -> list[str]:
        """One line for each claim of Theorem 1: whether it stands, and why not."""
        return [
            f"{claim}: {f'NOT guaranteed ({why})' if why else 'stands, if the assumptions are true'}"
            for claim, why in self.guarantees.items()
        ]

    def describe(self) -> str:
        """Return the verdict, the three claims, and one line for every finding.

        Returns:
            Lines of text.
        """
        return "\n".join([self.verdict(), *(f"  {line}" for line in [*self.claims, *map(str, self.findings)])])

    def to_table(self) -> list[Row]:
        """Return the findings as a table.

        Returns:
            One row for each finding.
        """
        keys = ("level", "name", "what", "cure", "code", "subject", "about")
        return [{key: document[key] for key in keys} for document in map(Finding.to_document, self.findings)]

    def to_document(self) -> dict[str, Any]:
        """Return the whole check as plain JSON values.

        Returns:
            A dict; `safe2real check --json` prints it.
        """
        return {
            "ready": self.ready,
            "verdict": self.verdict(),
            "guarantees": {
                claim.value: {
                    "stands": not why,
                    "why_not": why,
                    "because": [{"code": one.code.value, "subject": one.subject} for one in against(self.findings, claim)],
                }
                for claim, why in self.guarantees.items()
            },
            "findings": [finding.to_document() for finding in self.findings],
            "reality": "guessed" if self.guessed else "stated",
            "standing": self.standing.value,
            "rehearsals": WORTH[self.standing],
        }


def check_problem(
    problem: Problem,
    *,
    method: Method | None = None,
    rollouts: Sequence[Trajectory] = (),
    reality: Kernel | Guess | None = None,
    effort: Effort | None = None,
    progress: Report | bool | None = None,
) -> Preflight:
    """Check a problem before the first deployment, without the real system.

    Rehearsals run one by one in this process, or side by side as `joblib.parallel_config` says (see `safe2real.parallel`).

    Args:
        problem: simulator, baseline, settings and assumptions.
        method: chooses the deployments of a run; `methods.SimToReal()` by default.
        rollouts: episodes of the baseline on the real system; their bounds hold with the probability 1 - delta of the
            settings.
        reality: a kernel to rehearse on, or a guess of which rows are wrong; 5 % of them, by the mismatch gap, if None.
        effort: how many rehearsals, and how long; `Effort()` if None.
        progress: shows a bar with the time left in the rehearsals: True always, False never, None on a terminal; or a
            function that is told (done, total) rounds.

    Returns:
        The findings, each with its cure, and which claims of Theorem 1 hold; `describe()` prints them.

    Raises:
        InvalidInput: an argument is invalid, or a rollout is no episode of the baseline.
    """
    if not isinstance(problem, Problem):
        raise InvalidInput(
            f"problem is a {type(problem).__name__}; give Problem(model, baseline, settings), of a finite "
            "system Problem(system.model, baseline, settings, known=system.known)"
        )
    method, effort = SimToReal() if method is None else method, Effort() if effort is None else effort
    reality = Guess() if reality is None else reality
    if not isinstance(reality, (Kernel, Guess)):
        raise InvalidInput(f"reality is a {type(reality).__name__}; give the Kernel to rehearse on, or a Guess")
    learner, begun = conditions.first_learner(problem, method)
    conditional, stated = conditions.theorem(problem, method)
    findings = [*conditions.constrained(problem), begun, *stated]
    findings += [*conditions.stop_floor(problem, method), *conditions.estimated_rows(problem, method)]
    guessed = isinstance(reality, Guess)
    if isinstance(reality, Guess):
        guess = guess_reality(problem, reality)
        real = guess.kernel
        findings += gaps.margin_under_guesses(guess)
    else:
        real = reality
        problem.simulator.with_kernel(real)  # refuse another shape before anything is computed
    findings += gaps.reality_findings(problem, method, real, guessed)
    findings += gaps.clearing_findings(problem, learner, guessed)
    check_rollouts(problem, rollouts, "rollouts")
    findings += gaps.rollout_findings(problem, rollouts)
    ranges = ranges_of(problem, real, rollouts)
    findings += threshold_findings(problem, ranges)
    findings += baseline_findings(problem, ranges, real, guessed=guessed, rollouts=len(rollouts))
    assumed = _standing(learner, findings, ranges)
    rehearsals: list[Rehearsal] = []
    # A reality outside the declared support or the exact ties contradicts the problem: no rehearsal would be meaningful.
    if not any(_contradicts_declarations(finding) for finding in findings):
        with progress_bar("rehearsed rounds", progress) as report:
            parts = effort.runs + (alternatives(problem, method) if effort.compare else 0)
            if effort.seconds is not None:
                compile_everything()  # once per installation; not part of the time limit
            rehearsals = rehearse_each(problem, method, real, effort, parts=parts, progress=report)
            findings += rehearsal_findings(problem, method, rehearsals, assumed)
            first, done = rehearsals[0], counted(effort.runs)

            def again(problem: Problem, method: Method, real: Kernel) -> Rehearsal:
                if report is not None:
                    report(next(done) * effort.max_rounds, parts * effort.max_rounds)
                alike = partial(rehearse, seed=first.seed, max_rounds=first.rounds, looks_ahead=False)
                return alike(problem, method, real, seconds=effort.share_of(parts))

            if effort.compare and first.rounds:
                findings += alternative_findings(problem, method, reality, first, again, real=real, rollouts=rollouts)
            if report is not None and effort.compare:
                report(parts * effort.max_rounds, parts * effort.max_rounds)
    return Preflight(
        findings=tuple(findings),
        guarantees=_guarantees(problem, method, conditional, findings),
        ranges=ranges,
        rehearsals=tuple(rehearsals),
        standing=shown_standing(rehearsals, assumed),
        guessed=guessed,
        certified=problem.settings.certified,
        tolerance=method.stops_at(problem),
        goal=conditions.goal_of(method),
        horizon=problem.simulator.steps,
        assumed=conditions.remaining(problem),
    )


def _contradicts_declarations(finding: Finding) -> bool:
    return finding.code is Code.SUPPORT or (finding.code is Code.TIES and finding.level is Level.FAILURE)


def _standing(learner: Learner, findings: Sequence[Finding], ranges: Sequence[Range]) -> Standing:
    """Return the standing of a rehearsal: the margin must hold on THIS reality, whatever the rollouts show."""
    if learner.standing is not Standing.CERTIFIED:
        return learner.standing
    holds = not against(findings, Guarantee.SAFETY) and all(one.kept for one in ranges)
    return Standing.CERTIFIED if holds else Standing.REFUTED


def _guarantees(
    problem: Problem, method: Method, conditional: Sequence[Condition], findings: Sequence[Finding]
) -> dict[Guarantee, str]:
    """Each claim of Theorem 1 with the reason why it does not stand, if there is one."""
    reasons = {}
    for claim in Guarantee:
        failing = against(findings, claim)
        why = _WHY_NOT.get(failing[0].code, f"{failing[0].name} fails") if failing else ""
        outside = [one.name for one in conditional if not one.holds and claim in one.needed_for]
        if claim is Guarantee.ACCURACY and not any(one.code is Code.PLANNING_ACCURACY for one in findings):
            why = why or "the method promises none here"
        if claim is Guarantee.TERMINATION and not why and not method.covers_any_reward:
            why = "Theorem 1 has no bound for this method"
        elif claim is Guarantee.TERMINATION and not why and outside:
            why = f"Theorem 1 has no bound here, its condition on {outside[0]} fails"
        reasons[claim] = why if problem.settings.certified else "the constants are HEURISTIC"
    if not method.keeps_safe:
        reasons[Guarantee.SAFETY] = "the method ignores the constraints"
    if not problem.simulator.num_constraints:
        reasons[Guarantee.SAFETY] = conditions.NO_CONSTRAINT
    return reasons
