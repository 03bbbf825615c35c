"""Before anything real is touched: are the assumptions plausible, what fails and how to mend it, how long will it take.

Nothing here is a guarantee about the real system. The margin and the gaps are assumptions; a check can only say whether they
agree with each other, with the simulator, with rollouts of the baseline, and with a guess of the real system.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from safe2real.errors import InvalidInput
from safe2real.exploration.learner import Learner
from safe2real.exploration.warm_up import compile_everything
from safe2real.methods.base import Method
from safe2real.methods.sim_to_real import SimToReal
from safe2real.model.constraint_text import count
from safe2real.model.kernel import Kernel
from safe2real.model.trajectory import Trajectory
from safe2real.model.validation import positive_integer, probability_of_failure, unit_number
from safe2real.preflight.baseline import Range, baseline_findings, check_rollouts, ranges_of, threshold_findings
from safe2real.preflight.comparison import Comparison, advise_method, compared, other_than
from safe2real.preflight.findings import (
    WORTH,
    Code,
    Finding,
    Level,
    Recommendation,
    against,
    rollout_findings,
)
from safe2real.preflight.gaps import advise_gaps, advise_without_separation, gap_findings, redrawn
from safe2real.preflight.hypothetical_reality import Guess, guess_reality
from safe2real.preflight.rehearsal import Rehearsals
from safe2real.preflight.rehearsed_runs import Trial, random_rewards, shown_standing, trial_findings
from safe2real.preflight.support_advice import advise_support
from safe2real.preflight.theorem_findings import (
    NO_CONSTRAINT,
    accepted,
    constrained,
    estimated_rows,
    goal_of,
    remaining,
    stop_floor,
    theorem,
)
from safe2real.problem.conditions import Conditions, Guarantee
from safe2real.problem.problem import Problem
from safe2real.progress import Report, progress_bar
from safe2real.standing import Standing
from safe2real.tables import Row, Tabular

_WHY_NOT = {Code.LIBRARY: "no run can begin", Code.STOP_FLOOR: "no run reaches its stop"}
_REWARDS = 5  # random ones, the same in every rehearsal


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Preflight(Tabular):
    """What was found, in the order in which to mend it."""

    findings: tuple[Finding, ...]
    guarantees: dict[Guarantee, str]  # why a claim does not stand; empty text where it does
    ranges: tuple[Range, ...]  # one for each constraint
    trials: tuple[Trial, ...]
    standing: Standing  # what the rehearsals are worth
    guessed: bool  # whether the reality that was rehearsed is a guess
    certified: bool  # whether the constants are
    tolerance: float  # where a run stops
    horizon: int
    assumed: str = "the margin and the gaps"  # what nothing here can prove, in words
    recommendations: tuple[Recommendation, ...] = ()
    comparison: Comparison | None = None  # of rehearsals with and without the simulator's rows
    goal: str = "tolerance"  # what `tolerance` is called: the accuracy of declared rewards, where these decide

    def __repr__(self) -> str:
        return f"Preflight({count(len(self.findings), 'finding')}, {count(len(self.failures), 'failure')}: see describe())"

    @property
    def failures(self) -> tuple[Finding, ...]:
        """What has to be mended."""
        return tuple(finding for finding in self.findings if finding.level is Level.FAILURE)

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """What may be accepted, and should be known."""
        return tuple(finding for finding in self.findings if finding.level is Level.WARNING)

    @property
    def ready(self) -> bool:
        """Whether nothing fails. No promise: the assumptions are still yours."""
        return not self.failures

    def verdict(self) -> str:
        """Ready or not, in one sentence."""
        warned = f", {count(len(self.warnings), 'warning')}" if self.warnings else ""
        worth = " (INCOMPLETE, nothing is guaranteed)" if self.standing is Standing.INCOMPLETE else ""
        worth = worth if self.certified else " (HEURISTIC, nothing is guaranteed)"
        if self.failures:
            first = self.failures[0]
            return f"NOT READY{worth}: {count(len(self.failures), 'failure')}{warned}. First mend: {first.name}"
        assumed = self.assumed[:1].upper() + self.assumed[1:]
        return f"READY{worth}: nothing fails{warned}. {assumed} remain assumptions about the real system"

    def describe(self) -> str:
        """The verdict, the three claims, and one line for every finding and every recommendation."""
        claims = [
            f"{claim}: {f'NOT guaranteed ({why})' if why else 'stands, if the assumptions are true'}"
            for claim, why in self.guarantees.items()
        ]
        lines = [*claims, *map(str, self.findings), *map(str, self.recommendations)]
        return "\n".join([self.verdict(), *(f"  {line}" for line in lines)])

    def to_table(self) -> list[Row]:
        """One line for each finding."""
        keys = ("level", "name", "what", "cure", "code", "subject", "about")
        return [{key: document[key] for key in keys} for document in map(Finding.to_document, self.findings)]

    def to_document(self) -> dict[str, Any]:
        """All of it for other programs, as JSON can hold it."""
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
            "recommendations": [one.to_document() for one in self.recommendations],
            "reality": "guessed" if self.guessed else "stated",
            "standing": self.standing.value,
            "rehearsals": WORTH[self.standing],
        }


def check_problem(
    problem: Problem,
    *,
    method: Method | None = None,
    rollouts: Sequence[Trajectory] | None = None,
    reality: Kernel | Guess | None = None,
    runs: int = 3,
    max_rounds: int = 20_000,
    delta: float | None = None,
    seconds: float | None = None,
    accuracy: float | None = None,
    compare: bool = True,
    progress: Report | bool | None = None,
) -> Preflight:
    """Look at everything that can be looked at before the first deployment; the real system is not touched.

    Rehearsals run one by one in this process, or side by side as `joblib.parallel_config` says (see `safe2real.parallel`).

    Args:
        problem: what is given and assumed.
        method: what a run would deploy by; `methods.SimToReal()` unless another is given.
        rollouts: episodes of the baseline on the real system.
        reality: a kernel to rehearse on, or a guess of which rows are wrong; 5 % of them, by the mismatch gap, if None.
        runs: rehearsals.
        max_rounds: of each rehearsal at most.
        delta: probability of failure of what rollouts confirm; the settings' own if None.
        seconds: end the rehearsals after about so long in all.
        accuracy: how far the simulator's rows are off at most where they are right, in TV distance: gaps are proposed from
            it. Of an estimated simulator it is that of its rows, or calibrated_gap where that is larger, if None.
        compare: rehearse with and without the simulator's rows, and say which is expected to be cheaper.
        progress: shows a bar with the time left in the rehearsals: True always, False never, None on a terminal; or a
            function that is told (done, total) rounds.

    Returns:
        The findings, each with its cure, and which claims of Theorem 1 stand; `describe()` says it all.

    Raises:
        InvalidInput: an argument is invalid, or a rollout is no episode of the baseline.
    """
    if not isinstance(problem, Problem):
        raise InvalidInput(
            f"problem is a {type(problem).__name__}; give Problem(model, baseline, settings), of a finite "
            "system Problem(system.model, baseline, settings, known=system.known)"
        )
    method = SimToReal() if method is None else method
    runs, max_rounds = positive_integer("runs", runs), positive_integer("max_rounds", max_rounds)
    delta = probability_of_failure("delta", problem.settings.delta if delta is None else delta)
    accuracy = None if accuracy is None else unit_number("accuracy", accuracy)
    if reality is not None and not isinstance(reality, (Kernel, Guess)):
        raise InvalidInput(f"reality is a {type(reality).__name__}; give the Kernel to rehearse on, or a Guess")
    learner, begun = accepted(problem, method)
    conditions, stated = theorem(problem, method)
    findings = [*constrained(problem), begun, *stated, *stop_floor(problem, method), *estimated_rows(problem, method)]
    guessed = not isinstance(reality, Kernel)
    asked = None if isinstance(reality, Kernel) else reality
    if isinstance(reality, Kernel):
        real = reality
        problem.simulator.with_kernel(real)  # refuse another shape before anything is computed
    else:
        guess = guess_reality(problem, asked or Guess())
        real = guess.kernel
        findings += redrawn(guess)
    findings += gap_findings(problem, method, learner, real, guessed)
    check_rollouts(problem, rollouts or (), "rollouts")
    findings += rollout_findings(problem, rollouts or ())
    ranges = ranges_of(problem, real, rollouts, delta)
    findings += threshold_findings(problem, ranges)
    findings += baseline_findings(problem, ranges, real, guessed=guessed, rollouts=len(rollouts or ()), delta=delta)
    assumed = _standing(learner, findings, ranges)
    trials: list[Trial] = []
    recommended: list[Recommendation] = []
    comparison = None
    # Outside the declared support, or of its exact ties, no row is as it was said to be: there is nothing to rehearse.
    if learner is not None and not any(_is_elsewhere(finding) for finding in findings):
        with progress_bar("rehearsed rounds", progress) as report:
            other = other_than(method) if compare else None
            parts = runs + (0 if other is None else runs) + (2 if compare else 0)
            rewards = random_rewards(problem.simulator, _REWARDS)
            if seconds is not None:
                compile_everything()  # once per installation, and no part of the time that was given
            rehearsals = Rehearsals(rewards, max_rounds, parts, seconds, report)
            first, rehearse = problem.settings.coin_seed, None
            trials = rehearsals.run_each(problem, method, real, seeds=range(first, first + runs), looks_ahead=True)
            findings += trial_findings(problem, method, trials, assumed)
            recommended += advise_without_separation(problem, method, findings, accuracy)
            if other is not None:
                seeds, lengths = [one.seed for one in trials], [one.rounds for one in trials]
                others = rehearsals.run_each(problem, other, real, seeds=seeds, rounds=lengths)
                comparison = compared(method, trials, others, problem.simulator.steps)
                if comparison is not None:
                    recommended.append(advise_method(method, comparison, guessed=guessed, separated=not recommended))
            if compare:
                rehearse = partial(rehearsals.run, seed=first, rounds=trials[0].rounds or None)
            recommended += advise_support(
                problem, method, real if not guessed else asked or Guess(), rollouts or (), rehearse
            )
            recommended += advise_gaps(problem, accuracy, max_rounds)
            rehearsals.finish()
    return Preflight(
        findings=tuple(findings),
        guarantees=_guarantees(problem, method, conditions, findings),
        ranges=ranges,
        trials=tuple(trials),
        standing=shown_standing(trials, assumed),
        guessed=guessed,
        certified=problem.settings.certified,
        tolerance=method.stops_at(problem),
        goal=goal_of(method),
        horizon=problem.simulator.steps,
        assumed=remaining(problem),
        recommendations=tuple(recommended),
        comparison=comparison,
    )


def _is_elsewhere(finding: Finding) -> bool:
    return finding.code is Code.SUPPORT or (finding.code is Code.TIES and finding.level is Level.FAILURE)


def _standing(learner: Learner | None, findings: Sequence[Finding], ranges: Sequence[Range]) -> Standing:
    """What a rehearsal is worth: the margin must be there on THIS reality, whatever rollouts say of the real one."""
    if learner is not None and learner.standing is not Standing.CERTIFIED:
        return learner.standing
    holds = not against(findings, Guarantee.SAFETY) and all(one.kept for one in ranges)
    return Standing.CERTIFIED if holds else Standing.REFUTED


def _guarantees(
    problem: Problem, method: Method, conditions: Conditions, findings: Sequence[Finding]
) -> dict[Guarantee, str]:
    """Each claim of Theorem 1 with the reason why it does not stand, if there is one."""
    reasons = {}
    for claim in Guarantee:
        failing = against(findings, claim)
        why = _WHY_NOT.get(failing[0].code, f"{failing[0].name} fails") if failing else ""
        outside = [one.name for one in conditions.failing if claim in one.needed_for]
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
        reasons[Guarantee.SAFETY] = NO_CONSTRAINT
    return reasons
