"""The runs of the study on declared rewards: real episodes until a reward's certified interval is as narrow as asked.

Nothing is scaled: every run carries the full guarantee. Everything that was deployed and printed is held against the real
system, which is known here.
"""

from __future__ import annotations

from dataclasses import replace

from experiments.store import Plain
from experiments.studies.declared_systems import instance
from experiments.studies.instance import Instance
from safe2real.exploration.learner import Learner
from safe2real.exploration.simulate import simulate
from safe2real.methods.for_rewards import ForRewards
from safe2real.model.validation import Floats
from safe2real.planning.evaluate import constraint_values, evaluate
from safe2real.planning.solve import solve
from safe2real.problem.ties import Ties

REAL_ERROR = 1e-8  # of an exact evaluation
LOOK = 500  # episodes between two looks at what is printed


def declared_run(settings: Plain) -> Plain:
    """One reward on one system.

    Args:
        settings: `system` and `reward` by their names in `declared_systems`, `seed`, whether the `support` is declared,
            or the system's `ties` (as exact), `accuracies` from coarse to fine, shares of the best value, and
            `most` episodes.

    Returns:
        `episodes` at which each accuracy was reached, null where it was not; unsafe deployments; how many printed
        intervals were looked at, and how many were true.
    """
    found = instance(settings["system"])
    return run_to_accuracies(
        found,
        found.rewards[settings["reward"]],
        seed=settings["seed"],
        support=settings["support"],
        accuracies=settings["accuracies"],
        most=settings["most"],
        ties=found.ties if settings.get("ties") else None,
    )


def run_to_accuracies(
    found: Instance,
    reward: Floats,
    *,
    seed: int,
    support: bool,
    accuracies: list[float],
    most: int,
    ties: Ties | None = None,
) -> Plain:
    """`declared_run` for a system of any kind."""
    method = ForRewards({"declared": reward}, accuracy=accuracies[0])
    learner = Learner(found.problem(seed=seed, support=support, ties=ties), method)
    best, thresholds = solve(found.reality, reward), found.model.thresholds
    episodes: list[int | None] = []
    plans, unsafe, slack, looked, true = 0, 0, float("inf"), 0, 0
    for accuracy in accuracies:
        learner.direct(replace(method, accuracy=accuracy))
        while not learner.stopped and learner.round <= most:
            run = simulate(learner, found.real, max_rounds=min(LOOK, most + 1 - learner.round))
            plans += len(run.deployed)
            unsafe += round(run.unsafe_share(thresholds) * run.rounds)
            slack = min(slack, float((run.real_values - thresholds).min(initial=float("inf"))))
            looked, true = looked + 1, true + _is_true(found, learner, reward, best.bound)
            if run.halted or learner.evidence.is_refuted:
                break
        episodes.append(learner.round - 1 if learner.stopped else None)
        if not learner.stopped:
            break
    (interval,) = learner.intervals() or (None,)
    return {
        "episodes": episodes + [None] * (len(accuracies) - len(episodes)),
        "rounds": learner.round - 1,
        "plans": plans,
        "unsafe_rounds": unsafe,
        "lowest_slack": slack,
        "looked": looked,
        "true": true,
        "lower": None if interval is None else interval.lower,
        "upper": None if interval is None else interval.upper,
        "best": best.value,
        "certified": learner.settings.certified and not learner.evidence.is_refuted,
        "lost": int((~learner.evidence.suspects & (found.real.distances_to(found.model.kernel) > 0.0)).sum()),
    }


def _is_true(found: Instance, learner: Learner, reward: Floats, best: float) -> bool:
    """Whether all that is printed of the reward now is true of the real system."""
    for one in learner.intervals():
        values = constraint_values(found.reality, one.policy)
        if not (
            evaluate(found.reality, one.policy, reward) >= one.lower - REAL_ERROR
            and one.upper >= best - REAL_ERROR
            and (values >= one.lower_bounds - REAL_ERROR).all()
            and (values >= found.model.thresholds - REAL_ERROR).all()
        ):
            return False
    return True
