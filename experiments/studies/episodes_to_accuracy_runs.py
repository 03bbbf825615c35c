"""The runs on what one can afford: other systems to their stop, and structure that a trial has to confirm."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from experiments.store import Plain
from experiments.studies.declared_systems import instance
from safe2real.errors import InvalidInput
from safe2real.exploration.learner import Learner
from safe2real.exploration.simulate import simulate
from safe2real.methods.for_rewards import ForRewards
from safe2real.methods.trial import Trial
from safe2real.model.policy import MarkovPolicy, Mixture
from safe2real.planning.evaluate import constraint_values, evaluate
from safe2real.planning.solve import solve

REPLAN_GROWTH = 0.05
MOST_ROUNDS = 20_000_000
REAL_ERROR = 1e-9
SHARE = 0.9


def stop_run(settings: Plain) -> Plain:
    """One of `declared_systems` to its certified stop, `refined` or not; plans for its rewards at `checkpoints`."""
    found = instance(settings["system"])
    problem = found.problem(seed=settings["seed"], support=False, refined=settings["refined"], growth=REPLAN_GROWTH)
    learner = Learner(problem)
    unsafe, bounds = 0, []
    for checkpoint in [*settings["checkpoints"], MOST_ROUNDS]:
        run = simulate(learner, found.real, max_rounds=max(1, checkpoint - learner.round + 1))
        unsafe += round(run.unsafe_share(found.model.thresholds) * run.rounds)
        plans = [(learner.plan(reward), solve(found.reality, reward)) for reward in found.rewards.values()]
        bounds.append(float(np.mean([plan.suboptimality / best.value for plan, best in plans])))
        if learner.stopped:
            break
    true = all(
        best.bound <= plan.bound + REAL_ERROR
        and (constraint_values(found.reality, plan.policy) >= found.model.thresholds - REAL_ERROR).all()
        for plan, best in plans
    )
    wrong = found.real.distances_to(found.model.kernel) > 0.0
    return {
        "stopped": learner.stopped,
        "episodes": learner.round - 1,
        "bounds": bounds,
        "unsafe_rounds": unsafe,
        "lost": int((~learner.evidence.suspects & wrong).sum()),
        "true": bool(true),
    }


def tried_run(settings: Plain) -> Plain:
    """Ties of a system that nobody called exact: they find a policy after a few episodes, and a trial of it certifies it.

    Returns the episodes before the trial, and those of the trial until the policy has nine tenths of the deployments, and
    until the floor of its reward is at 80 % and at 90 % of what it is really worth; None where that takes more than `most`.
    """
    found, name = instance(settings["system"]), settings["reward"]
    reward = found.rewards[name]
    if found.ties is None:
        raise InvalidInput(f"system is {settings['system']!r}, of which no ties are known; choose grid or pond")
    problem = found.problem(seed=settings["seed"], support=False, ties=replace(found.ties, exact=False))
    learner = Learner(problem, ForRewards({name: reward}))
    before = simulate(learner, found.real, max_rounds=settings["before"])
    plan = learner.plan_with_structure(reward)
    worth = evaluate(found.reality, plan.policy, reward)
    trial = Learner(problem, Trial(_without(plan.policy, problem.baseline), {name: reward}))
    unsafe = round(before.unsafe_share(found.model.thresholds) * before.rounds)
    reached: dict[str, int | None] = {"share": None, "80 %": None, "90 %": None}
    done = 0
    while done < settings["most"] and None in reached.values():
        run = simulate(trial, found.real, max_rounds=100)
        done += run.rounds
        unsafe += round(run.unsafe_share(found.model.thresholds) * run.rounds)
        tests = {"share": trial.decide().exploration_weight >= SHARE}
        tests |= {share: trial.floors()[name] >= float(share[:2]) / 100.0 * worth for share in ("80 %", "90 %")}
        reached |= {key: done for key, is_there in tests.items() if is_there and reached[key] is None}
    return {
        "before": learner.round - 1,
        "trial": reached,
        "claimed": plan.value,
        "worth": worth,
        "best": solve(found.reality, reward).value,
        "unsafe_rounds": unsafe,
        "certified_untested": plan.certificate.certified,
    }


def _without(policy: Mixture, baseline: MarkovPolicy) -> Mixture:
    """The candidate of a plan: without its share of the baseline, which the trial adds as far as it has to."""
    kept = [(weight, one) for weight, one in zip(policy.weights, policy.policies, strict=True) if one is not baseline]
    total = sum(weight for weight, _ in kept)
    return Mixture.of([weight / total for weight, _ in kept], [one for _, one in kept]) if kept else policy
