"""Rehearse a method on a reality that is known: episodes to the stop, safety, wrong rows, and how good plans are on the way.

One proposal is deployed for a batch of episodes that grows with the run, as a campaign does with `ask_batch`: a plan for
every episode would take nearly all the time in a large system, where some row is always visited for the first time.
A plan is of use long before the stop, so a rehearsal also plans for a few rewards on its way: those that the method
declares, or random ones.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from safe2real import parallel
from safe2real.errors import InvalidInput
from safe2real.evidence.mismatch_map import Verdict, map_mismatch
from safe2real.exploration.explore import drive_batch
from safe2real.exploration.forecast import forecast
from safe2real.exploration.learner import Learner
from safe2real.exploration.simulate import KnownSystem
from safe2real.methods.base import Method, Reason
from safe2real.methods.for_rewards import ForRewards
from safe2real.methods.sim_to_real import RewardFree, SimToReal
from safe2real.model.cmdp import CMDP
from safe2real.model.constraint_text import count, roughly
from safe2real.model.kernel import Kernel
from safe2real.model.trajectory import Trajectory
from safe2real.model.validation import ROUNDING, Floats, positive_integer
from safe2real.planning.evaluate import constraint_values
from safe2real.preflight.conditions import goal_of, smallest_margin
from safe2real.preflight.findings import WORTH, Code, Finding, Level
from safe2real.preflight.gaps import rows_left, rows_outside, wrong_rows
from safe2real.preflight.hypothetical_reality import Guess, guess_reality
from safe2real.problem.problem import Problem
from safe2real.progress import Report
from safe2real.standing import Standing

GROWTH, GROWTH_LARGE = 0.02, 0.1  # of the episodes so far, in one batch of one proposal
LARGE = 50_000  # H S A above which plans take so long that fewer are made, and no forecast
REWARDS, _FEW = 5, 2  # random rewards to plan for, and in a large system
_FIRST, _BETWEEN = 100, 10**0.5  # episodes until the first plans, and the factor to the next
_MOST_POINTS = 400  # of a curve
_CLEAR = 1.1  # times fewer episodes; below, a choice makes no difference that matters
_WHY_UNSAFE = {
    Standing.CERTIFIED: "this should not happen where all assumptions hold: look at delta",
    Standing.HEURISTIC: "use certified constants, and mend the failures above if there are any",
    Standing.REFUTED: "mend the failures above: an assumption is not true of this reality",
    Standing.INCOMPLETE: "add the part that the first finding names as missing",
}
_WHY_LOST = _WHY_UNSAFE | {
    Standing.HEURISTIC: "use certified constants, and a mismatch_gap that no wrong row is below",
    Standing.REFUTED: "lower mismatch_gap: every wrong row must be at least that far away",
}


@dataclass(frozen=True, slots=True)
class Effort:
    """Number and length of the rehearsals."""

    runs: int = 3  # with seeds coin_seed, coin_seed + 1, ...
    max_rounds: int = 20_000  # episodes of each at most
    seconds: float | None = None  # after which the rehearsals end, in all
    compare: bool = True  # also rehearse the alternatives: with or without the simulator's rows, its support declared

    def __post_init__(self) -> None:
        positive_integer("runs", self.runs)
        positive_integer("max_rounds", self.max_rounds)

    def share_of(self, parts: int) -> float | None:
        """Return the seconds for each of several rehearsals.

        Args:
            parts: number of rehearsals.

        Returns:
            Seconds; None without a time limit.
        """
        return None if self.seconds is None else self.seconds / parts


@dataclass(frozen=True, eq=False, slots=True)
class Rehearsal:
    """One rehearsed run: n looks at plans on its way, m points of the curve of its uncertainty."""

    seed: int
    steps: int  # of an episode
    rounds: int  # episodes that were run
    stopped: bool
    refuted: bool  # the data contradicted an assumption: from then on the baseline alone is deployed, or nothing
    halted: bool  # it was the margin of the baseline itself: nothing is deployed any more
    uncertainty: float  # Delta at the end; inf while the baseline alone is deployed
    further: int | None  # rounds from here to the stop, forecast; None where that did not end, or was not asked for
    unsafe_rounds: int  # by exact evaluation
    lowest_slack: float  # the smallest exact V_c - threshold of a deployed mixture
    wrong: int  # rows of this reality that are wrong
    found: int  # of those, proved wrong
    lost: int  # of those, cleared: the simulator would be used there
    looked_at: NDArray[np.int64]  # [n] rounds before each look
    plan_values: Floats  # [n] certified value of plans, the mean over rewards
    plan_bounds: Floats  # [n] bound on their suboptimality, likewise
    curve_at: NDArray[np.int64]  # [m] rounds
    curve: Floats  # [m] Delta

    @property
    def samples(self) -> int:
        """Steps of the system in all."""
        return self.rounds * self.steps

    @property
    def rounds_to_stop(self) -> int | None:
        """Episodes to the stop, forecast where it was not reached; None where no forecast was possible."""
        if self.stopped:
            return self.rounds
        return None if self.further is None else self.rounds + self.further

    def rounds_to(self, bound: float) -> float:
        """Return the episodes until plans are within `bound`, interpolated in logarithms.

        Args:
            bound: on the suboptimality, the mean over rewards.

        Returns:
            A number of episodes; all of them if plans never are that accurate.
        """
        reached = np.flatnonzero(self.plan_bounds <= bound * (1.0 + ROUNDING))
        if not reached.size:
            return float(self.rounds)
        i = int(reached[0])
        before, after = (0.0, self.plan_bounds[0]) if i == 0 else self.plan_bounds[i - 1 : i + 1]
        if i == 0 or after <= 0.0 or before <= after:
            return float(self.looked_at[i])
        share = np.log(before / bound) / np.log(before / after)
        return float(self.looked_at[i - 1] * (self.looked_at[i] / self.looked_at[i - 1]) ** share)


def rehearse(
    problem: Problem,
    method: Method,
    real: Kernel,
    seed: int,
    *,
    max_rounds: int = 20_000,
    seconds: float | None = None,
    looks_ahead: bool = True,
    progress: Callable[[int], None] | None = None,
) -> Rehearsal:
    """Run `method` on `real` to its stop, for `max_rounds` episodes, or for about `seconds`.

    Args:
        problem: its simulator may be wrong about `real`.
        method: chooses the deployments.
        real: the rows of the real system, of the shape of the simulator's.
        seed: of the episodes; the same seed gives the same rehearsal unless the time runs out.
        max_rounds: episodes at most.
        seconds: no batch begins later, except the first.
        looks_ahead: whether a run that did not stop is forecast; not done in large systems.
        progress: is told the number of episodes done.

    Returns:
        Counts, and curves over the samples.
    """
    model = problem.simulator
    large = model.horizon * model.num_states * model.num_actions > LARGE
    growth = GROWTH_LARGE if large else GROWTH
    settings = replace(problem.settings, seed=seed, replan_growth=0.0)
    learner = Learner(replace(problem, settings=settings), method, warm_start=False, trust_margin=True)
    world = KnownSystem(model.with_kernel(real), learner.settings.coin_seed)
    rewards = planned_rewards(method, model)[: _FEW if large else None]
    wrong = wrong_rows(problem, real) & ~problem.known_rows()  # a row that is declared known is never tested
    deadline = np.inf if seconds is None else time.monotonic() + seconds
    batches: list[tuple[int, float, Floats]] = []  # (episodes, Delta, exact V_c [K]) of each proposal
    looks: list[tuple[int, float, float]] = []
    done, target, ended = 0, _FIRST, False
    while not ended:
        proposal = learner.propose()
        late = bool(batches) and time.monotonic() > deadline
        ended = proposal.mixture is None or done >= max_rounds or late
        if ended or done == target:
            plans = [learner.plan(reward) for reward in rewards]
            looks.append((done, _mean([one.value for one in plans]), _mean([one.suboptimality for one in plans])))
            target = round(_FIRST * _BETWEEN ** len(looks))
            if progress is not None:
                progress(max_rounds if proposal.mixture is None else done)
        if not ended and proposal.mixture is not None:
            batch = min(max(1, int(growth * done)), target - done, max_rounds - done)
            batches.append((batch, proposal.uncertainty, constraint_values(world.model, proposal.mixture)))
            drive_batch(learner, world, proposal, first_round=done + 1, episodes=batch)
            done += batch
    over = proposal.mixture is None or large or late
    sizes, deltas, values = (np.array(column) for column in zip(*batches, strict=True)) if batches else np.empty((3, 0))
    slack = values.reshape(len(batches), model.num_constraints) - model.thresholds
    kept = np.unique(np.linspace(0, len(batches) - 1, min(len(batches), _MOST_POINTS)).astype(np.int64))
    verdict = map_mismatch(learner.evidence).verdict.reshape(-1)
    at, plan_values, plan_bounds = zip(*looks, strict=True)
    return Rehearsal(
        seed=seed,
        steps=model.steps,
        rounds=done,
        stopped=proposal.reason is Reason.STOP,
        refuted=learner.standing is Standing.REFUTED,
        halted=proposal.reason is Reason.HALT,
        uncertainty=proposal.uncertainty,
        further=forecast(learner).rounds if looks_ahead and not over else None,
        unsafe_rounds=int(sizes[(slack < -ROUNDING).any(axis=1)].sum()),
        lowest_slack=float(slack.min(initial=np.inf)),
        wrong=int(wrong.sum()),
        found=int(((verdict == Verdict.WRONG) & wrong).sum()),
        lost=int((~learner.evidence.belief.suspect & wrong).sum()),
        looked_at=np.array(at),
        plan_values=np.array(plan_values),
        plan_bounds=np.array(plan_bounds),
        curve_at=np.cumsum(sizes).astype(np.int64)[kept],
        curve=deltas[kept],
    )


def rehearse_each(
    problem: Problem, method: Method, real: Kernel, effort: Effort, *, parts: int, progress: Report | None = None
) -> list[Rehearsal]:
    """Rehearse with each seed of `effort`, one by one or in parallel, as `joblib.parallel_config` says.

    `parts` is how many rehearsals share the time and the bar, these included.
    """
    seeds = range(problem.settings.coin_seed, problem.settings.coin_seed + effort.runs)
    share, length, workers = effort.share_of(parts), effort.max_rounds, parallel.at_once()
    one = partial(rehearse, problem, method, real, max_rounds=length)
    if workers == 1:
        return [
            one(seed, seconds=share, progress=_part(progress, i * length, parts * length)) for i, seed in enumerate(seeds)
        ]
    together = None if share is None else share * min(effort.runs, workers)  # workers share the time of one
    results: dict[int, Rehearsal] = {}
    for number, result in parallel.run(partial(one, seconds=together), seeds):
        results[number] = result
        if progress is not None:
            progress(len(results) * length, parts * length)
    return [results[number] for number in sorted(results)]


def _part(progress: Report | None, before: int, total: int) -> Callable[[int], None] | None:
    """`progress` for one rehearsal, after `before` of `total` rounds of all."""
    return None if progress is None else lambda done: progress(before + done, total)


def planned_rewards(method: Method, model: CMDP) -> list[Floats]:
    """Return the rewards that rehearsals plan for: those that the method declares, else random ones [S, A]."""
    declared = method.rewards.values() if isinstance(method, ForRewards) else ()
    return [np.asarray(reward, dtype=np.float64) for reward in declared] or random_rewards(model, REWARDS)


def random_rewards(model: CMDP, number: int) -> list[Floats]:
    """Return `number` random rewards [S, A] in [0, 1], the same at every call."""
    return [np.random.default_rng([7, i]).random((model.num_states, model.num_actions)) for i in range(number)]


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else np.nan


# Findings of the rehearsals


def rehearsal_findings(
    problem: Problem, method: Method, rehearsals: Sequence[Rehearsal], assumed: Standing
) -> list[Finding]:
    """Return the findings of all rehearsals together; `assumed` is their standing by the assumptions."""
    standing = shown_standing(rehearsals, assumed)
    return [
        *([_safety(rehearsals, assumed)] if problem.simulator.num_constraints else ()),
        _stop(problem, method, rehearsals, standing),
        *_wrong_rows(rehearsals, assumed),
        *_plans(problem, method, rehearsals, standing),
    ]


def shown_standing(rehearsals: Sequence[Rehearsal], assumed: Standing) -> Standing:
    """Return the standing of the rehearsals: REFUTED if they show that an assumption is false, else `assumed`."""
    false = any(one.refuted or one.lost or one.unsafe_rounds for one in rehearsals)
    return Standing.REFUTED if false and assumed is Standing.CERTIFIED else assumed


def _safety(rehearsals: Sequence[Rehearsal], assumed: Standing) -> Finding:
    rounds, unsafe = (sum(getattr(one, name) for one in rehearsals) for name in ("rounds", "unsafe_rounds"))
    lowest = min(one.lowest_slack for one in rehearsals)
    numbers = {
        "runs": len(rehearsals),
        "rounds": rounds,
        "unsafe_rounds": unsafe,
        "lowest_slack": lowest if np.isfinite(lowest) else None,
    }
    made = f"{count(rounds, 'rehearsed deployment')} ({count(len(rehearsals), 'run')})"
    said = f"{unsafe:,} of {made} were unsafe by exact evaluation"
    cure = _WHY_UNSAFE[assumed] if unsafe else ""
    return Finding(Code.REHEARSED_SAFETY, Level.FAILURE if unsafe else Level.OK, said, cure, numbers)


def _wrong_rows(rehearsals: Sequence[Rehearsal], assumed: Standing) -> list[Finding]:
    wrong, lost = rehearsals[0].wrong, max(one.lost for one in rehearsals)
    if not wrong:
        return []
    share = sum(one.found for one in rehearsals) / (wrong * len(rehearsals))
    said = f"of {count(wrong, 'wrong row')}: {share:.0%} proved wrong"
    said += f", up to {lost} in a run taken for right" if lost else ", none taken for right"
    level, cure = (Level.FAILURE, _WHY_LOST[assumed]) if lost else (Level.OK, "")
    return [Finding(Code.WRONG_ROWS_FOUND, level, said, cure, {"share": share, "lost": lost})]


def _plans(problem: Problem, method: Method, rehearsals: Sequence[Rehearsal], standing: Standing) -> list[Finding]:
    """Return the suboptimality of plans at the last looks that all rehearsals have in common, or at their ends."""
    seen = [dict(zip(one.looked_at.tolist(), one.plan_bounds.tolist(), strict=True)) for one in rehearsals]
    common = sorted(set.intersection(*map(set, seen)))[-4:] or sorted({one.rounds for one in rehearsals})
    steps = problem.simulator.steps
    bounds = {rounds * steps: _mean([one[rounds] for one in seen if rounds in one]) for rounds in common}
    if any(np.isnan(bound) for bound in bounds.values()):
        return []
    listed = ", ".join(f"{bound:.3g} after {count(samples, 'sample')}" for samples, bound in bounds.items())
    said = f"plans for {_which(method)} are within {listed}, of a possible {steps} ({WORTH[standing]})"
    numbers = {
        "bounds": {str(samples): bound for samples, bound in bounds.items()},
        "value": _mean([float(one.plan_values[-1]) for one in rehearsals]),
    }
    return [Finding(Code.PLANS, Level.OK, said, numbers=numbers)]


def _which(method: Method) -> str:
    return f"{'declared' if isinstance(method, ForRewards) else 'random'} rewards"


def _stop(problem: Problem, method: Method, rehearsals: Sequence[Rehearsal], standing: Standing) -> Finding:
    steps, runs = problem.simulator.steps, len(rehearsals)
    left = [one for one in rehearsals if not one.stopped]
    numbers: dict[str, object] = {"stopped": runs - len(left), "runs": runs}
    if not left:
        rounds = [one.rounds for one in rehearsals]
        mean = _mean(rounds)
        numbers |= {"rounds": mean, "samples": mean * steps}
        said = (
            f"the stop ({WORTH[standing]}) came after {count(mean, 'round')}, {count(mean * steps, 'sample')} "
            f"({min(rounds):,} to {count(max(rounds), 'round')})"
        )
        return Finding(Code.REHEARSED_STOP, Level.OK, said, numbers=numbers)
    foreseen = [one.rounds_to_stop for one in left if one.rounds_to_stop is not None]
    whole, done, deltas = _mean(foreseen), max(one.rounds for one in left), [one.uncertainty for one in left]
    numbers |= {
        "rounds_done": [one.rounds for one in rehearsals],
        "uncertainty": [delta if np.isfinite(delta) else None for delta in deltas],
        "forecast_rounds": whole if foreseen else None,
        "forecast_samples": whole * steps if foreseen else None,
    }
    said = f"{len(left)} of {count(runs, 'run')} had not stopped after {count(done, 'round')}: "
    if any(one.refuted for one in left) and not np.isfinite(deltas).all():
        deployed = "nothing" if any(one.halted for one in left) else "the baseline alone"
        said += f"the data contradicted an assumption, and from then on {deployed} is deployed: no stop is to come"
        return Finding(Code.REHEARSED_STOP, Level.WARNING, said, "fix the failures: an assumption is not true", numbers)
    finite = np.isfinite(deltas).all()
    said += f"the uncertainty was {_mean(deltas):.3g} on average" if finite else "the baseline alone was deployed"
    said += f", the {goal_of(method)} is {method.stops_at(problem):.3g}"
    if foreseen:
        # No forecast is finer than one batch.
        soon = max(one.further or 0 for one in left) <= max(1.0, GROWTH * done)
        expected = f"expected after {roughly(whole, 'round')}, {roughly(whole * steps, 'sample')}"
        said += "; it is about to stop" if soon else f"; the stop is {expected}"
        said += "" if len(foreseen) == len(left) else f" (in {len(foreseen)} of these runs)"
    return Finding(Code.REHEARSED_STOP, Level.WARNING, said, _sooner(problem, method), numbers)


def _sooner(problem: Problem, method: Method) -> str:
    """Return the ways to an earlier stop."""
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


# Alternatives: rehearsed with the same seed for as many episodes


def alternatives(problem: Problem, method: Method) -> int:
    """Return how many rehearsals `alternative_findings` makes at most."""
    return (_other_than(method) is not None) + 2 * _can_declare(problem)


def alternative_findings(
    problem: Problem,
    method: Method,
    reality: Kernel | Guess,
    stated: Rehearsal,
    run: Callable[[Problem, Method, Kernel], Rehearsal],
    *,
    real: Kernel,
    rollouts: Sequence[Trajectory] = (),
) -> list[Finding]:
    """Compare with two other choices by the episodes they need: the other method, and the simulator's support declared.

    Args:
        problem: as it is stated.
        method: the one of `stated`.
        reality: the kernel to rehearse on, or a guess, which is made again so that it keeps to the simulator's support.
        stated: the rehearsal that the others are compared with.
        run: makes one rehearsal of (problem, method, reality), as long as `stated`.
        real: the rows that `stated` was rehearsed on.
        rollouts: of the baseline on the real system; a support that they leave is not proposed.
    """
    found, other = [], _other_than(method)
    if other is not None:
        rehearsed = run(problem, other, real)
        said, numbers = compared(stated, rehearsed, method)
        reusing, without = (stated, rehearsed) if method.reuses_simulator else (rehearsed, stated)
        numbers["taken_for_right"] = reusing.lost + (0 if without.unsafe_rounds else reusing.unsafe_rounds)
        better = numbers.get("factor", 0.0) >= _CLEAR
        if numbers["taken_for_right"]:
            said += "; but with them a wrong row was taken for right, or something unsafe was deployed"
            better = method.reuses_simulator
        ways = ("with the simulator's rows", "without them")
        said = said.format(*(ways if method.reuses_simulator else ways[::-1]))
        cure = f"use methods.{type(other).__name__}(){' if both gaps are true' if other.reuses_simulator else ''}"
        found += _alternative(Code.OTHER_METHOD, said, cure if better else "", numbers)
    kernel = problem.simulator.kernel
    if not _can_declare(problem) or rows_left(kernel, rollouts).any():
        return found
    declared = replace(problem, support=kernel)
    try:
        within = reality if isinstance(reality, Kernel) else guess_reality(declared, reality).kernel
    except InvalidInput:  # the support does not allow that many rows to be that wrong
        return found
    if rows_outside(kernel, within).any():
        return found
    first = stated if within is real else run(problem, method, within)
    said, numbers = compared(first, run(declared, method, within), method)
    said = said.format("as stated", "with the simulator's successors declared as all that can follow")
    cure = "Problem(..., support=simulator.kernel) if no real step ever leads where the simulator rules it out"
    return found + _alternative(Code.DECLARED_SUPPORT, said, cure if numbers.get("factor", 0.0) >= _CLEAR else "", numbers)


def compared(stated: Rehearsal, other: Rehearsal, method: Method) -> tuple[str, dict[str, float]]:
    """Compare the episodes until plans are within the bound that both reach; no numbers if that bound is trivial."""
    bound = float(np.maximum(stated.plan_bounds[-1], other.plan_bounds[-1]))  # nan if either is
    if not bound < stated.steps:
        return "", {}
    one, two = stated.rounds_to(bound), other.rounds_to(bound)
    said = (
        f"in one rehearsal plans for {_which(method)} are within {bound:.3g} after {roughly(one, 'episode')} {{}} and after "
        f"{roughly(two)} {{}}"
    )
    return said, {"bound": bound, "episodes": one, "episodes_otherwise": two, "factor": one / max(two, 1.0)}


def _alternative(code: Code, said: str, cure: str, numbers: dict[str, float]) -> list[Finding]:
    return [Finding(code, Level.ADVICE if cure else Level.OK, said, cure, numbers)] if "bound" in numbers else []


def _other_than(method: Method) -> Method | None:
    """Return the method to compare with, if there is one."""
    if type(method) is SimToReal:
        return RewardFree()
    return SimToReal() if type(method) is RewardFree else None


def _can_declare(problem: Problem) -> bool:
    """Return whether the simulator rules out successors that no declaration rules out yet."""
    if problem.support is not None or problem.rows_alike:
        return False
    length = problem.simulator.kernel.length
    return bool(((length > 0) & (length < problem.simulator.num_states)).any())
