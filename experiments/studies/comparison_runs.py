"""The runs behind the comparison with related systems, all on the certified study's grid.

Panel A has the constants that each was published with, in the fluid limit (`exploration.batches`): nobody can sample that
much. Panel B has sampled runs with one certified radius for all, so that what is left to compare is their structure.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from experiments import related
from experiments.fluid_limit import BatchedRun, run_in_batches
from experiments.related.barrier_evidence import expected_gradients
from experiments.store import Plain
from experiments.studies.declared_systems import instance
from safe2real import methods
from safe2real.evidence.evidence import Evidence
from safe2real.exploration.learner import Learner
from safe2real.exploration.plan import plan
from safe2real.exploration.simulate import simulate
from safe2real.methods.base import Method
from safe2real.model.policy import Policy
from safe2real.model.validation import Floats
from safe2real.planning.evaluate import constraint_values, evaluate
from safe2real.planning.solve import solve
from safe2real.problem.problem import Problem
from safe2real.problem.settings import Settings

EPSILON, DELTA, REWARDS = 0.3, 0.05, 20
EPISODES = {"A": 10**11, "B": 10**6}  # K of methods that do not stop
MOST = {"A": 1e14, "B": 1e8}  # episodes
TRANSFER_EPISODES, BARRIER_BATCH, BARRIER_STEPS, BARRIER_ETA = 4_000, 10**6, 3_000, 0.01
GROWTH, SHOWN, REAL_ERROR = 0.02, 5, 1e-9  # of plans; rewards on a curve; of an exact evaluation
CHECKPOINTS = [float(f"{lead}e{power}") for power in range(2, 15) for lead in (1, 3)]  # samples

OURS: dict[str, Method] = {
    "Algorithm 1": methods.SimToReal(),
    "Algorithm 2": methods.RewardFree(),
    "Algorithm 3": methods.Unconstrained(),
}
DECLARED = "Declared rewards"  # this library's method for rewards that are known before it explores


@cache
def rewards() -> Floats:
    """[20, S, A]"""
    return np.random.default_rng([0, 20_261_115]).random((REWARDS, 25, 4))


@cache
def reachability() -> float:
    """sigma of HySRL: the least over states of the largest probability of being there at some step."""
    model = instance("grid").reality.with_constraints(0)
    horizon, states, actions = model.shape
    least = 1.0
    for state in range(states):
        there = np.zeros((horizon, horizon, states, actions))
        there[np.arange(horizon), np.arange(horizon), state] = 1.0
        least = min(least, max(solve(model, reward).value for reward in there))
    return least


@cache
def problem_of(panel: str, seed: int) -> Problem:
    """The grid with the paper's literal constants (A), or with the tightest certified sets (B)."""
    found = instance("grid")
    gaps = found.real.distances_to(found.model.kernel)
    stated: dict[str, Any] = {
        "margin": found.margin,
        "calibrated_gap": 0.0,
        "mismatch_gap": float(gaps[gaps > 0.0].min()),
        "tolerance": found.margin / 4.0,
        "delta": DELTA,
        "seed": seed,
        "replan_growth": GROWTH,
    }
    return Problem(found.model, found.baseline, Settings.paper(**stated) if panel == "A" else Settings(**stated))


def method_of(name: str, panel: str, asked: list[Floats]) -> Method:
    """One of ours, or a related system with its own constants (A) or with our radius (B), for the first reward asked."""
    if name in OURS:
        return OURS[name]
    if name == DECLARED:
        return methods.ForRewards({f"{i:02}": reward for i, reward in enumerate(asked)}, EPSILON, relative=False)
    ours, episodes, given = panel == "B", EPISODES[panel], asked[0]
    made: dict[str, Callable[[], related.Related]] = {
        "RFExpress": lambda: related.RFExpress(EPSILON, ours=ours),
        "VIZero": lambda: related.VIZero(episodes, EPSILON, ours=ours),
        "Sweet": lambda: related.Sweet(EPSILON, ours=ours),
        "OptPess": lambda: related.OptPess(given, episodes, ours=ours),
        "Dope": lambda: related.Dope(given, episodes, 0 if ours else None, ours=ours),
        "HySRL": lambda: related.HySRL(given, reachability(), EPSILON, ours=ours),
    }
    return made[name]()


def worth(policy: Policy, reward: Floats) -> tuple[float, float]:
    """(how far below the best safe value, by how much it misses the threshold; at most 0 where it is safe), exactly."""
    real = instance("grid").reality
    gap = solve(real, reward).bound - evaluate(real, policy, reward)
    return round(gap, 6), round(float((real.thresholds - constraint_values(real, policy)).max()), 9)


def compared_run(settings: Plain) -> Plain:
    """One method on one panel, for the reward of that number, or for all where its result serves all (`reward` is None)."""
    panel, number = settings["panel"], settings["reward"]
    problem = problem_of(panel, settings["seed"])
    asked = list(rewards()) if number is None else [rewards()[number]]
    method = method_of(settings["method"], panel, asked)
    points: list[tuple[int, float, float]] = []  # (samples, mean gap, share that is feasible) of what it would give out
    horizon, due = problem.simulator.horizon, [0]

    def output(evidence: Evidence, reward: Floats, stopped: bool) -> Policy:
        if isinstance(method, related.Related):
            return method.output(problem, evidence, reward)
        return plan(evidence, reward, stopped=stopped).policy

    def note(done: int, decision: Any, evidence: Evidence) -> None:
        if due[0] < len(CHECKPOINTS) and done * horizon >= CHECKPOINTS[due[0]]:
            due[0] += 1
            found = [worth(output(evidence, reward, False), reward) for reward in asked[:SHOWN]]
            points.append((done * horizon, *_means(found)))

    with_regret = isinstance(method, related.OptPess | related.Dope)
    run, evidence = run_in_batches(
        problem,
        method,
        instance("grid").real,
        most=EPISODES[panel] if with_regret else MOST[panel],
        expected=panel == "A",
        growth=GROWTH,
        rewards=asked[:1],
        progress=None if with_regret else note,
    )
    reached = run.samples if run.stopped else None
    if with_regret:
        curve, outputs, reached = _regret_curve(run, asked[0])
    else:
        outputs = [worth(output(evidence, reward, run.stopped), reward) for reward in asked]
        curve = [[samples, _unsafe_until(run, samples), gap, safe] for samples, gap, safe in points]
        curve.append([run.samples, run.unsafe_share, *_means(outputs[:SHOWN])])
    return {
        "expected": run.expected,
        "stopped": run.stopped,
        "samples": run.samples,
        "reached": reached,  # samples until its own stop, or until the mean regret is at most epsilon
        "on_baseline": run.samples_on_baseline,
        "unsafe_share": run.unsafe_share,
        "gaps": [gap for gap, _ in outputs],
        "misses": [miss for _, miss in outputs],
        "curve": curve,
    }


def _means(found: list[tuple[float, float]]) -> tuple[float, float]:
    """(mean gap, share of feasible ones)."""
    return float(np.mean([gap for gap, _ in found])), float(np.mean([miss <= REAL_ERROR for _, miss in found]))


def _unsafe_until(run: BatchedRun, samples: float) -> float:
    ends = np.cumsum(run.episodes) * run.horizon
    seen = run.episodes * (ends <= samples)
    unsafe = (run.real_values < run.thresholds - REAL_ERROR).any(axis=1)
    return float(seen[unsafe].sum() / max(1, seen.sum()))


def _regret_curve(run: BatchedRun, reward: Floats) -> tuple[list[list[float]], list[tuple[float, float]], int | None]:
    """What the uniform mixture of all rounds so far is worth at the checkpoints, at the end, and when it is accurate."""
    best = solve(instance("grid").reality, reward).bound
    ends, threshold = np.cumsum(run.episodes), float(run.thresholds[0])
    value, safety = (np.cumsum(run.episodes * column) / ends for column in (run.rewards[:, 0], run.real_values[:, 0]))
    samples, gaps = ends * run.horizon, best - value
    at = sorted({min(int(np.searchsorted(samples, point)), ends.size - 1) for point in CHECKPOINTS})
    curve = [[float(samples[i]), _unsafe_until(run, samples[i]), float(gaps[i]), float(safety[i] >= threshold)] for i in at]
    near = np.flatnonzero(gaps <= EPSILON)
    reached = int(samples[near[0]]) if near.size else None
    return curve, [(round(float(gaps[-1]), 6), round(threshold - float(safety[-1]), 9))], reached


def transferred_run(settings: Plain) -> Plain:
    """Exploration-policy transfer for one reward, sampled: its number of episodes is given, so panel A has it as it is."""
    reward = rewards()[settings["reward"]]
    learner = Learner(problem_of("A", settings["seed"]), related.ExplorationTransfer(reward, TRANSFER_EPISODES))
    run = simulate(learner, instance("grid").real, max_rounds=TRANSFER_EPISODES + 1)
    gap, miss = worth(learner.method.output(learner.problem, learner.evidence, reward), reward)  # type: ignore[attr-defined]
    unsafe = run.unsafe_share(learner.simulator.thresholds)
    ended: Plain = {
        "expected": False,
        "stopped": run.stopped,
        "samples": run.samples,
        "on_baseline": 0,
        "unsafe_share": unsafe,
    }
    ended["reached"] = run.samples if gap <= EPSILON else None
    return ended | {"gaps": [gap], "misses": [miss], "curve": [[run.samples, unsafe, gap, float(miss <= REAL_ERROR)]]}


def barrier_run(settings: Plain) -> Plain:
    """LB-SGD for one reward in the fluid limit: every batch has the returns and the gradients that are expected of it."""
    reward, problem, real = rewards()[settings["reward"]], problem_of("A", settings["seed"]), instance("grid").reality
    evidence = related.LogBarrier(reward, BARRIER_BATCH, BARRIER_ETA).evidence(problem)
    curve, unsafe, due, threshold = [], 0, 0, float(real.thresholds[0])
    for step in range(BARRIER_STEPS):
        policy = evidence.policy
        values, gradients = expected_gradients(real, policy, evidence.tables)
        unsafe += values[1] < threshold - REAL_ERROR
        samples = (step + 1) * BARRIER_BATCH * real.horizon
        if samples >= CHECKPOINTS[due] or step + 1 == BARRIER_STEPS:
            due = int(np.searchsorted(CHECKPOINTS, samples, side="right"))
            gap, miss = worth(policy, reward)
            curve.append([samples, unsafe / (step + 1), gap, float(miss <= REAL_ERROR)])
        evidence.expect(values, gradients)
        if evidence.norm <= BARRIER_ETA / 2.0:
            break
    gap, miss = worth(evidence.policy, reward)
    curve.append([samples, unsafe / (step + 1), gap, float(miss <= REAL_ERROR)])
    stopped = evidence.norm <= BARRIER_ETA / 2.0
    return {
        "expected": True,
        "stopped": stopped,
        "samples": samples,
        "reached": samples if stopped else None,
        "on_baseline": BARRIER_BATCH * real.horizon,
        "unsafe_share": unsafe / (step + 1),
        "gaps": [gap],
        "misses": [miss],
        "curve": curve,
    }
