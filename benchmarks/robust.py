"""Robust passes: what worst, best and greedy values over confidence sets cost, how that grows, and what plans cost by them.

The peer is the definition in numpy: all rows of a step at once, each sorted by the values of its successors. Times are of
one core's own clock (what the process was given, not what it waited for), with one thread; the last table has two.
Run `python -m benchmarks.robust [file.json]`; with a file the figures go there too, with the facts of the machine.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.facts import machine
from benchmarks.instances import Size, random_kernel
from benchmarks.report import interleaved, milliseconds, print_table
from experiments.studies.declared_systems import instance as study
from experiments.studies.sepsis_patients import learner_of, patients_under
from experiments.studies.sepsis_system import build, load_records
from safe2real import CMDP, AtLeast, Learner, MarkovPolicy, Problem, Settings, simulate
from safe2real.errors import MissingExtra
from safe2real.model.validation import Floats
from safe2real.planning.certified_mixture import greedy_column
from safe2real.planning.robust import RowSets, reach_of

ACTIONS, SUCCESSORS, HORIZON = 4, 5, 50
STATES = (1_000, 10_000, 100_000)
REPEATS = 3
PATIENTS, EPISODES, ERRANDS = 20_000, 3_000, 5


def random_sets(size: Size, *, likelihood: bool, threads: int | None = 1) -> tuple[RowSets, Floats]:
    """Rows that were seen some hundred times: TV balls alone, or KL balls as well."""
    rng = np.random.default_rng(1)
    kernel = random_kernel(rng, size)
    utility = rng.random((size.states, size.actions))
    model = CMDP.of(kernel, size.horizon, 0, [AtLeast(utility, 0.0)])
    gaps = rng.uniform(0.0, 0.3, kernel.num_rows)
    divergences = 3.0 * gaps**2 if likelihood else None
    sets = RowSets(model, gaps, reach_of(None, kernel), divergences, threads=threads)
    return sets, rng.random((1, size.states, size.actions))


def plain_worst(sets: RowSets, policy: MarkovPolicy, utility: Floats) -> float:
    """The worst value over stationary TV balls by its definition, where no row is uniform and no support is declared."""
    model, rows = sets.model, sets.model.kernel.compiled_rows
    within = np.arange(int(rows.length.max()))
    there = within < rows.length[:, None]  # [R, n]
    at = np.where(there, rows.begin[:, None].astype(np.int64) + within, 0)
    probability, successor = np.where(there, rows.probability[at], 0.0), rows.successor[at]
    after = np.zeros(model.num_states)
    for h in range(model.horizon - 1, -1, -1):
        values, bottom = after[successor], after.min()
        order = np.argsort(-values, axis=1)
        high, mass = np.take_along_axis(values, order, axis=1), np.take_along_axis(probability, order, axis=1)
        moved = np.diff(np.minimum(np.cumsum(mass, axis=1), sets.gaps[:, None]), axis=1, prepend=0.0)
        least = (probability * values).sum(axis=1) - (moved * (high - bottom)).sum(axis=1)
        q = utility[h if len(utility) > 1 else 0] + least.reshape(model.num_states, model.num_actions)
        after = (policy.probabilities[h] * q).sum(axis=1)
    return float(model.start @ after)


def own_seconds(call: Callable[[], object]) -> float:
    """The median of a call on the clock of this thread, after one call that is not counted."""
    call()
    taken = []
    for _ in range(REPEATS):
        begin = time.thread_time()
        call()
        taken.append(time.thread_time() - begin)
    return statistics.median(taken)


def passes(size: Size, *, likelihood: bool) -> dict[str, float]:
    """Seconds of one pass each."""
    sets, reward = random_sets(size, likelihood=likelihood)
    uniform = MarkovPolicy.uniform(horizon=size.horizon, num_states=size.states, num_actions=size.actions)
    return {
        "worst": own_seconds(lambda: sets.worst(uniform, reward)),
        "best": own_seconds(lambda: sets.best(reward)),
        "greedy": own_seconds(lambda: greedy_column(sets, reward, np.array([0.5]))),
    }


def growth(sizes: Sequence[Size], of: Callable[[Size], int]) -> dict[str, Any]:
    """How `worst` and `best` grow, as an exponent: 1 is in proportion."""
    found = [passes(size, likelihood=False) for size in sizes]
    steps = np.log([of(size) for size in sizes])
    exponents = {
        name: float(np.polyfit(steps, np.log([one[name] for one in found]), 1)[0]) for name in ("worst", "best", "greedy")
    }
    return {"at": [of(size) for size in sizes], "seconds": found, "exponents": exponents}


def against_plain(sets: RowSets, policy: MarkovPolicy, reward: Floats) -> dict[str, float]:
    """Ours on TV balls alone against numpy, taking turns."""
    balls = RowSets(sets.model, sets.gaps, sets.reach, threads=1)
    ours, plain = interleaved([lambda: balls.worst(policy, reward), lambda: plain_worst(balls, policy, reward)], REPEATS)
    difference = abs(balls.worst(policy, reward) - plain_worst(balls, policy, reward))
    return {"ours": ours, "numpy": plain, "ratio": plain / ours, "difference": difference}


def plans_of(learner: Learner, rewards: Sequence[Floats]) -> dict[str, Any]:
    """Seconds of a plan on the way, and of the passes that it is made of."""
    evidence = learner.evidence.settled()
    taken = []
    for reward in (rewards[0], *rewards):  # the first compiles, and is left out
        begin = time.perf_counter(), time.thread_time()
        learner.plan(reward)
        taken.append(time.thread_time() - begin[1])
    sets = RowSets(evidence.model, evidence.belief.gap, evidence.reach, evidence.belief.divergence, threads=1)
    reward = np.ascontiguousarray(evidence.problem.simulator.utilities[0])
    return {
        "states": evidence.problem.simulator.num_states,
        "rows": evidence.counts.simulator.num_rows,
        "suspects": int(evidence.suspects.sum()),
        "plan": statistics.median(taken[1:]),
        "worst": own_seconds(lambda: sets.worst(learner.baseline, reward)),
        "best": own_seconds(lambda: sets.best(reward)),
    }


def warehouse() -> dict[str, Any]:
    """Errands on the warehouse's floor, after some thousand episodes."""
    found = study("warehouse")
    settings = Settings(margin=found.margin, calibrated_gap=0.0, mismatch_gap=0.7, tolerance=found.margin / 4.0, seed=0)
    problem = Problem(found.model, found.baseline, settings, known=found.known, support=found.support)
    learner = Learner(problem)
    simulate(learner, found.real, max_rounds=EPISODES)
    cells = np.random.default_rng(0).choice(found.model.num_states, size=ERRANDS, replace=False)
    shape = found.model.num_states, found.model.num_actions
    return plans_of(learner, [np.where(np.arange(shape[0])[:, None] == cell, np.ones(shape), 0.0) for cell in cells])


def sepsis() -> dict[str, Any]:
    """Plans for ICU-Sepsis, after some thousand patients of the clinicians."""
    case = build(load_records())
    learner = learner_of(case, case.doubtful, seed=0)
    states, actions, ends = patients_under(case, learner.propose().mixture, 0, 0, PATIENTS)  # type: ignore[arg-type]
    learner.evidence.count(states, actions, ends)
    return plans_of(learner, list(case.rewards.values()))


def main(path: str | None = None) -> dict[str, Any]:
    """Measure, print, and keep."""
    size = Size(STATES[1], ACTIONS, HORIZON)
    result: dict[str, Any] = {"machine": machine(), "horizon": HORIZON}
    result["states"] = growth([Size(s, ACTIONS, HORIZON) for s in STATES], lambda one: one.states)
    result["steps"] = growth([Size(5_000, ACTIONS, h) for h in (10, 100, 1000)], lambda one: one.horizon)
    result["successors"] = growth([Size(5_000, ACTIONS, 10, successors=n) for n in (5, 50, 500)], lambda one: one.successors)
    result["likelihood"] = passes(size, likelihood=True)
    sets, reward = random_sets(Size(STATES[1], ACTIONS, 10), likelihood=False)
    uniform = MarkovPolicy.uniform(horizon=10, num_states=STATES[1], num_actions=ACTIONS)
    result["plain"] = against_plain(sets, uniform, reward)
    result["plans"] = {"warehouse": warehouse()}
    try:
        result["plans"]["ICU-Sepsis"] = sepsis()
    except MissingExtra as error:
        print(f"left out: {error}")
    alone, two = (random_sets(size, likelihood=True, threads=threads)[0] for threads in (1, 2))
    one_thread, two_threads = interleaved([lambda: alone.best(reward), lambda: two.best(reward)], REPEATS)
    result["threads"] = {"one": one_thread, "two": two_threads, "ratio": one_thread / two_threads}
    show(result)
    if path is not None:
        Path(path).write_text(json.dumps(result, indent=1) + "\n")
    return result


def show(result: dict[str, Any]) -> None:
    """The tables."""
    for name in ("states", "steps", "successors"):
        part = result[name]
        rows = [[f"{at:,}", *(milliseconds(one[kind]) for kind in one)] for at, one in zip(part["at"], part["seconds"])]  # noqa: B905
        rows.append(["exponent", *(f"{part['exponents'][kind]:.2f}" for kind in part["exponents"])])
        print_table(f"Passes over TV balls against {name}", [name, "worst", "best", "greedy"], rows)
    kl, plain, threads = result["likelihood"], result["plain"], result["threads"]
    print(f"\nwith KL balls, {STATES[1]:,} states: " + ", ".join(f"{name} {milliseconds(one)}" for name, one in kl.items()))
    print(f"numpy / ours: {plain['ratio']:.0f}x, difference {plain['difference']:.1e}")
    print(f"one thread / two threads: {threads['ratio']:.2f}")
    for name, one in result["plans"].items():
        print(f"{name}: " + ", ".join(f"{key} {value:,.4g}" for key, value in one.items()))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
