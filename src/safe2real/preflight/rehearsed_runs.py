"""Rehearsals in compiled code on a reality that is known: how many samples to the stop, what is found, is it safe.

A plan for some reward is of use long before the stop, so every rehearsal also plans for a few random rewards on its way.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from safe2real.evidence.hybrid import HybridModel
from safe2real.evidence.mismatch_map import Verdict, map_mismatch
from safe2real.exploration.forecast import forecast as rehearsed
from safe2real.exploration.learner import Learner
from safe2real.methods.base import Method
from safe2real.model.cmdp import CMDP
from safe2real.model.constraint_text import count, roughly
from safe2real.model.kernel import Kernel
from safe2real.model.validation import ROUNDING, Floats
from safe2real.preflight.batched_rounds import LARGE, REPLAN_GROWTH, Stretch, in_batches, lazily
from safe2real.preflight.findings import WORTH, Code, Finding, Level
from safe2real.preflight.theorem_findings import goal_of, smallest_margin
from safe2real.problem.problem import Problem
from safe2real.standing import Standing

_FEW = 2  # rewards planned for in large systems
_FIRST, _BETWEEN = 100, 10**0.5  # rounds until the first look, and the factor to the next
_MOST_POINTS = 400  # of a curve
_WHY_UNSAFE = {
    Standing.CERTIFIED: "this should not happen where all assumptions hold: look at delta",
    Standing.HEURISTIC: "use certified constants, and mend the failures above if there are any",
    Standing.REFUTED: "mend the failures above: an assumption is not true of this reality",
    Standing.INCOMPLETE: "mend what the first finding says is missing",
}
_WHY_LOST = {
    Standing.CERTIFIED: "this should not happen where all assumptions hold: look at delta",
    Standing.HEURISTIC: "use certified constants, and a mismatch_gap that no wrong row is below",
    Standing.REFUTED: "lower mismatch_gap: rows that are wrong must be at least so far away",
    Standing.INCOMPLETE: "mend what the first finding says is missing",
}


@dataclass(frozen=True, slots=True)
class Look:
    """Where a rehearsal stands, and how good plans are by then."""

    samples: int
    uncertainty: float  # Delta; inf while the baseline alone is deployed
    plan_bound: float  # on the suboptimality, the mean over rewards
    found: int  # wrong rows that are proved wrong


@dataclass(frozen=True, eq=False, slots=True)
class Trial:
    """One rehearsal."""

    seed: int
    stopped: bool
    rounds: int
    samples: int
    uncertainty: float  # Delta at the end
    unsafe_rounds: int  # by exact evaluation
    lowest_slack: float  # the smallest exact V_c - threshold of a deployed mixture
    wrong: int  # rows of this reality that are wrong
    found: int  # of those, proved wrong
    lost: int  # of those, cleared: the simulator would be used there
    looks: tuple[Look, ...]
    samples_at: NDArray[np.int64]  # [n] of the curve of Delta
    uncertainty_at: Floats  # [n]
    forecast: int | None  # further rounds to the stop, guessed; None where that did not end, or was not asked for
    refuted: bool  # the data contradicted an assumption: from then on the baseline alone is deployed, or nothing
    halted: bool  # it was the margin of the baseline itself: nothing is deployed any more


def run_trial(
    problem: Problem,
    method: Method,
    real: Kernel,
    wrong: NDArray[np.bool_],
    *,
    seed: int,
    max_rounds: int,
    rewards: Sequence[Floats],
    seconds: float | None,
    progress: Callable[[int], None] | None = None,
    looks_ahead: bool = True,
) -> Trial:
    """To the stop, or for `max_rounds` rounds, or about `seconds` long. `wrong` [R] are the wrong rows to be found.

    With `looks_ahead` a run that did not stop is forecast.
    """
    settings, model = problem.settings, problem.simulator
    large = model.horizon * model.num_states * model.num_actions > LARGE
    growth = 0.0 if large else max(settings.replan_growth, REPLAN_GROWTH)
    again = replace(problem, settings=replace(settings, seed=seed, replan_growth=growth))
    learner = Learner(again, method, warm_start=False, trust_margin=True)
    began = time.monotonic()
    deadline = np.inf if seconds is None else began + seconds
    looks: list[Look] = []
    stretches: list[Stretch] = []
    done, target, stopped, halted = 0, float(_FIRST), False, False
    while done < max_rounds and not stopped and not halted:
        until = min(round(target), max_rounds)
        stretch = in_batches(learner, real, done, until, deadline) if large else lazily(learner, real, done, until)
        stretches.append(stretch)
        done, stopped, halted = done + int(stretch.deployed.sum()), stretch.stopped, stretch.halted
        bounds = [learner.plan(reward).suboptimality for reward in rewards[: _FEW if large else None]]
        found = _proved(learner.evidence, wrong)
        looks.append(Look(done * model.steps, stretch.uncertainty, float(np.mean(bounds)) if bounds else np.nan, found))
        target *= _BETWEEN
        if progress is not None:
            progress(max_rounds if stopped or halted else done)
        if time.monotonic() > deadline:
            break
    # A forecast makes up to 2,000 plans, which is quick for small systems only.
    over = stopped or halted or large or time.monotonic() > deadline
    ahead = rehearsed(learner).rounds if looks_ahead and not over else None
    deployed = np.concatenate([stretch.deployed for stretch in stretches])
    values = np.concatenate([stretch.real_values for stretch in stretches])
    at, uncertainties = np.cumsum(deployed), np.concatenate([stretch.uncertainties for stretch in stretches])
    kept = np.unique(np.linspace(0, at.size - 1, min(at.size, _MOST_POINTS)).astype(np.int64))
    return Trial(
        seed=seed,
        stopped=stopped,
        rounds=done,
        samples=done * model.steps,
        uncertainty=looks[-1].uncertainty,
        unsafe_rounds=int(deployed[(values < model.thresholds - ROUNDING).any(axis=1)].sum()),
        lowest_slack=float((values - model.thresholds).min(initial=np.inf)),
        wrong=int(wrong.sum()),
        found=looks[-1].found,
        lost=int((~learner.evidence.belief.suspect & wrong).sum()),
        looks=tuple(looks),
        samples_at=at[kept] * model.steps,
        uncertainty_at=uncertainties[kept],
        forecast=ahead,
        refuted=learner.standing is Standing.REFUTED,
        halted=halted,
    )


def random_rewards(model: CMDP, number: int) -> list[Floats]:
    """[S, A] each, the same whenever they are asked for."""
    return [np.random.default_rng([7, i]).random((model.num_states, model.num_actions)) for i in range(number)]


def trial_findings(problem: Problem, method: Method, trials: Sequence[Trial], assumed: Standing) -> list[Finding]:
    """What the rehearsals say, all seeds together; `assumed` is what they are worth by the assumptions."""
    runs = len(trials)
    standing = shown_standing(trials, assumed)
    findings = [_safety_finding(trials, assumed)] if problem.simulator.num_constraints else []
    findings.append(_stop_finding(problem, method, trials, standing))
    wrong, lost = trials[0].wrong, max(trial.lost for trial in trials)
    if wrong:
        share = sum(trial.found for trial in trials) / (wrong * runs)
        said = f"of {count(wrong, 'wrong row')}: {share:.0%} proved wrong"
        said += f", up to {lost} in a run taken for right" if lost else ", none taken for right"
        cure = _WHY_LOST[assumed] if lost else ""
        level = Level.FAILURE if lost else Level.OK
        findings.append(Finding(Code.WRONG_ROWS_FOUND, level, said, cure, {"share": share, "lost": lost}))
    looks = [look for trial in trials for look in trial.looks]
    stages = sorted({look.samples for look in looks if sum(one.samples == look.samples for one in looks) == runs})
    shown = stages[-4:] or sorted({trial.looks[-1].samples for trial in trials})
    course = {n: float(np.mean([look.plan_bound for look in looks if look.samples == n])) for n in shown}
    if not any(np.isnan(bound) for bound in course.values()):
        listed = ", ".join(f"{bound:.3g} after {count(samples, 'sample')}" for samples, bound in course.items())
        said = f"plans for random rewards are within {listed}, of a possible {problem.simulator.steps} ({WORTH[standing]})"
        findings.append(
            Finding(Code.PLANS, Level.OK, said, numbers={"bounds": {str(n): bound for n, bound in course.items()}})
        )
    return findings


def shown_standing(trials: Sequence[Trial], assumed: Standing) -> Standing:
    """What the rehearsals are worth after all: they may have shown that something is false."""
    false = any(trial.refuted or trial.lost or trial.unsafe_rounds for trial in trials)
    return Standing.REFUTED if false and assumed is Standing.CERTIFIED else assumed


def _safety_finding(trials: Sequence[Trial], assumed: Standing) -> Finding:
    rounds, unsafe = (sum(getattr(trial, name) for trial in trials) for name in ("rounds", "unsafe_rounds"))
    lowest = min(trial.lowest_slack for trial in trials)
    numbers = {
        "runs": len(trials),
        "rounds": rounds,
        "unsafe_rounds": unsafe,
        "lowest_slack": lowest if np.isfinite(lowest) else None,
    }
    made = f"{count(rounds, 'rehearsed deployment')} ({count(len(trials), 'run')})"
    said = f"{unsafe:,} of {made} were unsafe by exact evaluation"
    cure = _WHY_UNSAFE[assumed] if unsafe else ""
    return Finding(Code.REHEARSED_SAFETY, Level.FAILURE if unsafe else Level.OK, said, cure, numbers)


def _stop_finding(problem: Problem, method: Method, trials: Sequence[Trial], standing: Standing) -> Finding:
    steps, goal = problem.simulator.steps, goal_of(method)
    stopped = [trial for trial in trials if trial.stopped]
    numbers: dict[str, object] = {"stopped": len(stopped), "runs": len(trials)}
    if len(stopped) == len(trials):
        rounds = [trial.rounds for trial in trials]
        numbers |= {"rounds": float(np.mean(rounds)), "samples": float(np.mean(rounds)) * steps}
        said = (
            f"the stop ({WORTH[standing]}) came after {count(float(np.mean(rounds)), 'round')}, "
            f"{count(float(np.mean(rounds)) * steps, 'sample')} ({min(rounds):,} to {count(max(rounds), 'round')})"
        )
        return Finding(Code.REHEARSED_STOP, Level.OK, said, numbers=numbers)
    left = [trial for trial in trials if not trial.stopped]
    deltas = [trial.uncertainty for trial in left]
    foreseen = [trial for trial in left if trial.forecast is not None]
    further = [trial.forecast or 0 for trial in foreseen]
    whole = float(np.mean([trial.rounds + (trial.forecast or 0) for trial in foreseen])) if foreseen else None
    numbers |= {
        "rounds_done": [trial.rounds for trial in trials],
        "uncertainty": [delta if np.isfinite(delta) else None for delta in deltas],
        "forecast_rounds": whole,
        "forecast_samples": None if whole is None else whole * steps,
    }
    done = max(trial.rounds for trial in left)
    said = f"{len(left)} of {count(len(trials), 'run')} had not stopped after {count(done, 'round')}: "
    if any(trial.refuted for trial in left) and not np.isfinite(deltas).all():
        said += "the data contradicted an assumption, and from then on "
        said += "nothing" if any(trial.halted for trial in left) else "the baseline alone"
        said += " is deployed: no stop is to come"
        return Finding(Code.REHEARSED_STOP, Level.WARNING, said, "mend what fails: an assumption is not true", numbers)
    said += (
        f"the uncertainty was {np.mean(deltas):.3g} on average"
        if np.isfinite(deltas).all()
        else "the baseline alone was deployed"
    )
    said += f", the {goal} is {method.stops_at(problem):.3g}"
    if whole is not None:
        # A plan is made anew when some row has this much more data: nearer than that, a forecast says nothing.
        soon = max(further) <= max(1.0, REPLAN_GROWTH * done)
        said += "; it is about to stop" if soon else f"; the stop is to be expected after {roughly(whole, 'round')}, "
        said += "" if soon else roughly(whole * steps, "sample")
        said += "" if len(foreseen) == len(left) else f" (in {len(foreseen)} of these runs)"
    return Finding(Code.REHEARSED_STOP, Level.WARNING, said, _sooner(problem, method), numbers)


def _sooner(problem: Problem, method: Method) -> str:
    """What would bring the stop nearer in this case."""
    claims = ["margin"] if method.covers_any_reward and problem.simulator.num_constraints else []
    claims += ["mismatch_gap"] if method.reuses_simulator else []
    ways = ["use plans before the stop", "raise --max-rounds"]
    if goal_of(method) == "accuracy":
        ways.append("ask for a larger accuracy")
    elif method.covers_any_reward and problem.settings.tolerance < smallest_margin(problem) / 4.0:
        ways.append("choose a larger tolerance")
    if claims:
        ways.append(f"state a larger {' or '.join(claims)} if that is true")
    return ", or ".join(ways)


def _proved(hybrid: HybridModel, wrong: NDArray[np.bool_]) -> int:
    verdict = map_mismatch(hybrid).verdict.reshape(-1)
    return int(((verdict == Verdict.WRONG) & wrong).sum())
