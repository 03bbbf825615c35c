"""Whole runs inside compiled code when the "real" system is itself a known kernel: for experiments and rehearsals.

The rounds are those of `Learner.propose` and `Learner.observe`, by the very same compiled functions on the learner's own
state; after `simulate` the learner is where ask and tell would have left it. All randomness is a function of (seed,
round).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safe2real import parallel
from safe2real._compiled import rollout
from safe2real._compiled import rounds as compiled_rounds
from safe2real.errors import InvalidInput
from safe2real.evidence.counts import Counts
from safe2real.evidence.moments import Moment
from safe2real.exploration.explore import Unfinished, drive
from safe2real.exploration.learner import Learner
from safe2real.exploration.proposal import Proposal
from safe2real.methods.base import Decision, Method, Reason
from safe2real.methods.sim_to_real import SimToReal, copy_of, decision_of, empty_memory, terms_of
from safe2real.model.cmdp import CMDP
from safe2real.model.kernel import Kernel
from safe2real.model.policy import MarkovPolicy, fitted
from safe2real.model.trajectory import Trajectory
from safe2real.model.validation import ROUNDING, Floats, bare, frozen, positive_integer, seed_number
from safe2real.planning.evaluate import constraint_values, evaluate
from safe2real.planning.solve import solve
from safe2real.problem.problem import Problem
from safe2real.problem.settings import Settings
from safe2real.progress import Report, progress_bar

Progress = Callable[[int, float], None]
_NO_PLAN = (-1, 0.0, 0.0)  # (reason, Delta, alpha) before a plan
_CHUNK = 4096  # plans between two looks at the clock
_MOMENTS = 256  # of a chunk that are kept to be drawn
_MOST_AT_ONCE = 1_000_000  # rounds, where plans stand for long


@dataclass(frozen=True, eq=False, slots=True)
class Run:
    """The record of a simulated run: arrays have an entry for each of the T plans deployed, and one more for the end.

    Without lazy replanning every round has a plan of its own, and T is the number of rounds.
    """

    stopped: bool
    halted: bool  # the data refuted the baseline's margin
    rounds: int
    samples: int  # rounds * steps of an episode
    deployed: NDArray[np.int64]  # [T] how many rounds each plan was deployed
    reason: NDArray[np.int8]  # [T (+ 1)] values of `Reason`
    uncertainty: Floats  # [T (+ 1)] Delta; inf in rounds that deploy the baseline alone
    exploration_weight: Floats  # [T (+ 1)] alpha
    real_values: Floats  # [T, K] exact V_c of every deployed mixture on the real system
    suspects: NDArray[np.int64]  # [T (+ 1)] rows not cleared
    state_visits: NDArray[np.int64]  # [S]

    def unsafe_share(self, thresholds: Floats) -> float:
        """Return the share of rounds whose deployed mixture violates a constraint, by exact evaluation.

        Args:
            thresholds: [K] lower limits of V_c.

        Returns:
            A number in [0, 1].
        """
        if self.rounds == 0:
            return 0.0
        unsafe = (self.real_values < thresholds - ROUNDING).any(axis=1)
        return float(self.deployed[unsafe].sum() / self.rounds)


def simulate(
    learner: Learner,
    real: Kernel,
    *,
    max_rounds: int = 1_000_000,
    progress: Progress | None = None,
) -> Run:
    """Run `learner` on the known system `real` until it stops, or for `max_rounds` rounds.

    The same problem, method and seed give the same run, bit for bit. A method that brings compiled rounds is run in compiled
    code, another by asking and telling; afterwards the learner is where ask and tell would have left it.

    Args:
        learner: it is changed, by every episode.
        real: the rows of the "real" system; it counts per step if and only if the simulator does.
        max_rounds: at most.
        progress: is told (rounds, uncertainty) every few thousand rounds.

    Returns:
        The deployed mixtures with their exact V_c on `real`.

    Raises:
        InvalidInput: `real` does not fit the simulator, or leaves the declared support.

    Example:
        >>> run = s2r.simulate(s2r.Learner(problem), real, max_rounds=10_000)
        >>> run.unsafe_share(problem.simulator.thresholds)
        0.0
    """
    if not isinstance(real, Kernel):
        raise InvalidInput(f"real is a {type(real).__name__}; give the Kernel of the real system")
    max_rounds = positive_integer("max_rounds", max_rounds)
    model = learner.simulator.with_kernel(real)
    if not learner.simulator.kernel.is_stationary and real.is_stationary:
        raise InvalidInput(
            "the learner counts per step but the real kernel is stationary; give real.repeated(horizon), "
            "or build the learner on a stationary simulator to pool its counts"
        )
    if learner.simulator.kernel.is_stationary and not real.is_stationary:
        raise InvalidInput(
            "the real kernel changes with the step but the learner pools its counts over steps, which would void the "
            "guarantee; build the learner on simulator.repeated(horizon)"
        )
    _check_reality(learner, real)
    # Compiled rounds are those of SimToReal: a class that proposes otherwise is driven as it proposes.
    compiled = learner.method.has_compiled_rounds and type(learner.method).propose is SimToReal.propose
    compiled = compiled and learner.evidence.runs_compiled
    rounds_on = _compiled_rounds if compiled else _plain_rounds
    return rounds_on(learner, model, max_rounds, progress)


def _compiled_rounds(learner: Learner, model: CMDP, max_rounds: int, progress: Progress | None) -> Run:
    """Whole rounds in compiled code, on the learner's own evidence."""
    evidence, settings = learner.evidence, learner.settings
    reality = compiled_rounds.Reality(
        rows=model.kernel.compiled_rows,
        uniform=bool((model.kernel.compiled_rows.length == 0).any()),
        utilities=model.compiled_arrays.utilities,
        baseline_values=constraint_values(model, learner.baseline),
    )
    terms = terms_of(learner.problem, evidence.kept)
    visits = np.zeros(model.num_states, dtype=np.int64)
    logs: list[compiled_rounds.Log] = []
    decision, memory, planned = learner.hand_over()
    memory = empty_memory(learner.problem, evidence.kept) if memory is None else copy_of(memory)
    pending = _NO_PLAN if decision is None else (decision.reason.value, decision.uncertainty, decision.exploration_weight)
    evidence.make_room()  # compiled rounds count without asking
    done, ended = 0, False
    while done < max_rounds and not ended:
        log, before = _empty_log(min(_CHUNK, max_rounds - done), model.num_constraints), evidence.samples
        entries, rounds, ended, warm, pending = compiled_rounds.run(
            compiled_rounds.Learnt(
                evidence.counts.tally, evidence.belief, evidence.rule, evidence.reach, evidence.trust.compiled
            ),
            terms,
            memory.candidate,
            reality,
            compiled_rounds.Course(
                seed=np.uint64(settings.coin_seed),
                first_round=learner.round,
                most=min(max_rounds - done, _MOST_AT_ONCE),
                growth=float(settings.replan_growth),
                planned=planned,
                stay_warm=learner.warm_start,
                state_visits=visits,
            ),
            memory.warm,
            pending,
            log,
        )
        memory = memory._replace(warm=warm)
        _note(learner, log, entries, before)
        logs.append(compiled_rounds.Log(*(part[:entries] for part in log)))
        done += rounds
        evidence.take_over(rounds, behind=settings.replan_growth > 0.0)
        reason, delta, alpha = pending
        decision = None if reason < 0 else decision_of(reason, delta, alpha, copy_of(memory), model.num_actions)
        learner.take_back(rounds, decision, memory)
        if progress is not None and entries:
            progress(done, float(log.uncertainty[entries - 1]))
    return _run_of(
        compiled_rounds.Log(*(np.concatenate(parts) for parts in zip(*logs, strict=True))), done, ended, model, visits
    )


def _note(learner: Learner, log: compiled_rounds.Log, entries: int, before: int) -> None:
    """Note the uncertainty and the suspects at these plans, for the learner's pictures."""
    done = np.cumsum(log.rounds[:entries]) - log.rounds[:entries]  # rounds before each
    every = max(1, entries // _MOMENTS)
    for i in range(0, entries, every):
        learner.moments.note(
            Moment(before + learner.simulator.steps * int(done[i]), float(log.uncertainty[i]), int(log.suspects[i]))
        )


def _plain_rounds(learner: Learner, model: CMDP, max_rounds: int, progress: Progress | None) -> Run:
    """Run rounds by asking and telling, for methods without compiled rounds."""
    visits = np.zeros(model.num_states, dtype=np.int64)
    entries: list[tuple[int, int, float, float, Floats, int]] = []
    last: list[Decision] = []

    def note(proposal: Proposal) -> None:
        decision, suspects = learner.decide(), int(learner.evidence.suspects.sum())
        if not last or last[-1] is not decision:
            values = np.full(model.num_constraints, np.nan)
            if proposal.mixture is not None:
                values = constraint_values(model, proposal.mixture)
            entries.append((0, decision.reason.value, decision.uncertainty, decision.exploration_weight, values, suspects))
            last[:] = [decision]
        entries[-1] = (entries[-1][0] + (not proposal.is_last), *entries[-1][1:])
        if progress is not None and proposal.round % _CHUNK == 0:
            progress(proposal.round, proposal.uncertainty)

    before = learner.round
    final = drive(learner, KnownSystem(model, learner.settings.coin_seed, visits), max_rounds=max_rounds, progress=note)
    done = learner.round - before
    columns = [np.array(column) for column in zip(*entries, strict=True)]
    return _run_of(compiled_rounds.Log(*columns), done, final.is_last and done < max_rounds, model, visits)


def _run_of(log: compiled_rounds.Log, rounds: int, ended: bool, model: CMDP, visits: NDArray[np.int64]) -> Run:
    plans = len(log.rounds) - ended
    return Run(
        stopped=ended and int(log.reason[-1]) == Reason.STOP.value,
        halted=ended and int(log.reason[-1]) == Reason.HALT.value,
        rounds=rounds,
        samples=rounds * model.steps,
        deployed=log.rounds[:plans],
        reason=log.reason.astype(np.int8),
        uncertainty=log.uncertainty,
        exploration_weight=log.weight,
        real_values=log.real_values[:plans],
        suspects=log.suspects,
        state_visits=visits,
    )


def simulate_many(
    problem: Problem,
    seeds: Iterable[int],
    real: Kernel,
    *,
    method: Method | None = None,
    max_rounds: int = 1_000_000,
    keep: Callable[[Learner, Run], Any] | None = None,
    jobs: int = -1,
    progress: Report | bool | None = None,
) -> list[Any]:
    """Simulate a run for every seed, several at a time, each equal to that of `simulate`, bit for bit.

    Threads of one process run side by side, since a run is compiled code from its first round to its last. Every random
    number in it is a function of (seed, round, index), and runs share nothing that changes.

    Args:
        problem: its seed is replaced by each of `seeds`.
        seeds: one run for each.
        real: the rows of the "real" system.
        method: chooses the deployments; `methods.SimToReal()` by default.
        max_rounds: of each run at most.
        keep: (learner, run) -> result of a run, computed in its worker; so plans can be made and evaluated there, and no
            more learners are in memory than jobs. The run itself if None.
        jobs: runs at a time, by threads of this process; -1 for one per core. A method without compiled rounds gains little
            by threads. Within `joblib.parallel_config(backend=...)` or `parallel.workers(...)` the runs go to that backend's
            workers instead; `keep` must be a function of a module then.
        progress: shows a bar with the time left: True always, False never, None on a terminal; or a function that is told
            (runs done, in all).

    Returns:
        The runs, or the results of `keep`, in the order of `seeds`.

    Raises:
        InvalidInput: as of `simulate`; runs that have not begun are given up.

    Example:
        >>> runs = simulate_many(problem, range(1_000), real, max_rounds=10_000)
        >>> sum(run.unsafe_share(problem.simulator.thresholds) > 0.0 for run in runs)
        0
    """
    listed = [seed_number(f"seeds[{i}]", seed) for i, seed in enumerate(seeds)]
    study = _Study(problem, real, method, positive_integer("max_rounds", max_rounds), keep)
    if jobs != -1:
        positive_integer("jobs", jobs)
    kept: list[Any] = [None] * len(listed)
    ended = parallel.run(study, listed, jobs=jobs, compiled=True)
    with progress_bar("runs", progress) as report:
        for done, (number, result) in enumerate(ended, start=1):
            kept[number] = result
            if report is not None:
                report(done, len(listed))
    return kept


@dataclass(frozen=True, eq=False, slots=True)
class _Study:
    """A function from a seed to its run, or to the result of `keep`."""

    problem: Problem
    real: Kernel
    method: Method | None
    max_rounds: int
    keep: Callable[[Learner, Run], Any] | None

    def __call__(self, seed: int) -> Any:
        problem = replace(self.problem, settings=replace(self.problem.settings, seed=seed))
        learner = Learner(problem, self.method, trust_margin=True)  # `real` is known: the run itself shows the margin
        run = simulate(learner, self.real, max_rounds=self.max_rounds)
        return run if self.keep is None else self.keep(learner, run)


@cache
def compile_everything() -> None:
    """Compile or load the code of a round, a proposal and a plan with all refinements; once in a process.

    It covers problems with one constraint. A pre-flight check calls it before its time limit starts.
    """
    from safe2real.systems.windy_grid import WindyGrid  # which imports Gymnasium, a tenth of a second that others do without

    grid = WindyGrid.paper()
    model, shape = grid.cmdp(grid.simulator(), 0.0), (grid.num_states, grid.num_actions)
    baseline = MarkovPolicy.stochastic(np.full(shape, 1.0 / grid.num_actions), horizon=grid.horizon)
    settings = Settings(margin=0.5, calibrated_gap=0.0, mismatch_gap=grid.mismatch_gap(), tolerance=0.1, delta=0.05)
    learner = Learner(Problem(model, baseline, settings))
    simulate(learner, grid.real(), max_rounds=1)
    learner.propose()
    evaluate(model, learner.plan(np.ones(shape)).policy, np.ones(shape))
    solve(model, np.ones(shape))


def _check_reality(learner: Learner, real: Kernel) -> None:
    """Refuse a real system outside its declared support: in a rehearsal that is the user's mistake, not a finding."""
    reach = learner.evidence.reach
    for row in range(real.num_rows if reach.length.size else 0):
        first, count = int(reach.begin[row]), int(reach.length[row])
        if count and not np.isin(real.row(row)[0], reach.successor[first : first + count]).all():
            raise InvalidInput(f"row {row} of the real kernel has successors that its declared support does not name")


class KnownSystem:
    """A system whose kernel is known, as a world to run episodes in; a function of (seed, round)."""

    faults: tuple[type[BaseException], ...] = ()

    def __init__(self, model: CMDP, seed: int, state_visits: NDArray[np.int64] | None = None) -> None:
        """`state_visits` [S] is incremented, if given."""
        self.model, self.seed, self.state_visits = model, seed, state_visits

    def run(self, policy: MarkovPolicy, round_number: int, seen: Unfinished) -> Trajectory:
        episode = roll_out(self.model, policy, seed=self.seed, round_number=round_number)
        if self.state_visits is not None:
            np.add.at(self.state_visits, episode.states[:-1], 1)
        return episode


def roll_out(model: CMDP, policy: MarkovPolicy, *, seed: int, round_number: int) -> Trajectory:
    """Roll a policy out once on a known system, as `simulate` does.

    Args:
        model: whose kernel is the real one.
        policy: a Markov policy, e.g. `proposal.draw()`.
        seed: of the random numbers.
        round_number: which round it is; the episode is a function of (seed, round).

    Returns:
        An episode of `model.steps` actions.

    Raises:
        InvalidInput: the policy is a mixture, or not of this system.
    """
    policy = _fitted_markov(policy, model)
    states, actions = np.empty(model.steps + 1, dtype=np.uint32), np.empty(model.steps, dtype=np.uint32)
    rollout.roll_out_round(
        model.kernel.compiled_rows,
        model.compiled_arrays.start,
        bare(policy.probabilities),
        np.uint64(seed_number("seed", seed)),
        round_number,
        states,
        actions,
    )
    return Trajectory(frozen(states), frozen(actions))


def collect(model: CMDP, policy: MarkovPolicy, counts: Counts, *, episodes: int, seed: int) -> None:
    """Roll a Markov policy out on a known system and add the transitions to counts (for Algorithm 4).

    Args:
        model: whose kernel is the real one.
        policy: a Markov policy.
        counts: of a simulator of the same size; they are changed.
        episodes: how many.
        seed: of the random numbers; they go on with the number of episodes in `counts`.

    Raises:
        InvalidInput: the policy or the counts are not of this system.
    """
    policy = _fitted_markov(policy, model)
    kernel, own = model.kernel, (counts.horizon, counts.simulator.num_states, counts.simulator.num_actions)
    if own != policy.shape:
        raise InvalidInput(
            f"the counts are for (H, S, A) = {own}; this system has {policy.shape}: make them from its simulator"
        )
    if counts.simulator.is_stationary and not kernel.is_stationary:
        raise InvalidInput(
            "the system changes with the step but the counts pool over steps; make Counts from simulator.repeated(horizon)"
        )
    remaining = positive_integer("episodes", episodes)
    source = np.uint64(seed_number("seed", seed))
    counts.make_room()
    while remaining > 0:
        done = rollout.collect(
            counts.tally,
            kernel.compiled_rows,
            model.compiled_arrays.start,
            bare(policy.probabilities),
            model.steps,
            source,
            counts.episodes + 1,
            remaining,
            counts.rows_per_step,
        )
        counts.episodes += done
        remaining -= done
        counts.make_room()


def _fitted_markov(policy: MarkovPolicy, model: CMDP) -> MarkovPolicy:
    if not isinstance(policy, MarkovPolicy):
        raise InvalidInput(f"policy is a {type(policy).__name__}; give one Markov policy, e.g. drawn from a mixture")
    return fitted(policy, model)


def _empty_log(rounds: int, constraints: int) -> compiled_rounds.Log:
    return compiled_rounds.Log(
        rounds=np.zeros(rounds, dtype=np.int64),
        reason=np.empty(rounds, dtype=np.int8),
        uncertainty=np.empty(rounds),
        weight=np.empty(rounds),
        real_values=np.empty((rounds, constraints)),
        suspects=np.empty(rounds, dtype=np.int64),
    )
