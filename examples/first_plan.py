"""README's example and its picture: a lake whose simulator does not know that one cell is slippery.

`python examples/first_plan.py` explores the packaged problem `safe2real.examples.lake`, prints what each of five policies is
worth on the real lake, exactly, and draws docs/img/first-plan.png.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import safe2real as s2r
from safe2real.planning.evaluate import constraint_values

LIMIT, MOST, REPETITIONS = 0.7, 600, 20


class Study:
    """The packaged lake, and exact values on the real one."""

    def __init__(self) -> None:
        self.problem, self.env, self.reward = example = s2r.examples.lake(seed=0)
        self.real = s2r.examples.real_model(example)

    def exact(self, policy: s2r.MarkovPolicy | s2r.Mixture) -> tuple[float, float]:
        """(probability to reach the goal, expected steps under water) on the real lake."""
        wet = self.real.wordings[0].number(constraint_values(self.real, policy)[0])
        return float(s2r.evaluate(self.real, policy, self.reward)), float(wet)

    def fitted_by_hand(self, episodes: int) -> list[tuple[float, float]]:
        """What plans are worth whose table was counted in `episodes` of the trusted policy, one plan for each repetition.

        A row that was never seen keeps the simulator's probabilities.
        """
        found = []
        for repetition in range(REPETITIONS):
            seen = self.env.system.rollout(self.problem.baseline, self.env.env, episodes, seed=repetition)
            counts = np.zeros((*self.real.kernel.shape, self.real.num_states))
            for one in seen.trajectories:
                states = np.asarray(one.states)
                np.add.at(counts, (states[:-1], np.asarray(one.actions)[: len(states) - 1], states[1:]), 1.0)
            visits = counts.sum(axis=-1, keepdims=True)
            rows = np.where(visits > 0.0, counts / np.maximum(visits, 1.0), self.problem.simulator.kernel.to_dense())
            model = self.problem.simulator.with_kernel(s2r.Kernel.from_dense(rows))
            found.append(self.exact(s2r.solve(model, self.reward).policy))
        return found


@dataclass(frozen=True, eq=False, slots=True)
class Course:
    """What happened on the way."""

    deployed: list[float] = field(default_factory=list)  # exact steps under water of every deployed mixture
    intervals: dict[int, tuple[float, float]] = field(default_factory=dict)  # certified (at least, at most) after n episodes


def explored(study: Study, episodes: int = MOST) -> tuple[s2r.Learner, Course]:
    """Explore the real lake for the goal until the plan is accurate enough; note every deployment on the way."""
    learner = s2r.Learner(study.problem, s2r.methods.ForRewards({"goal": study.reward}, accuracy=0.05))
    course, last, wet = Course(), None, 0.0
    for number in range(episodes + 1):
        if number % 10 == 0:
            plan = learner.plan(study.reward)
            course.intervals[number] = (plan.value, min(1.0, plan.bound))
        mixture = learner.propose().mixture
        if mixture is None or number == episodes:
            break
        if mixture is not last:  # one stands for many rounds
            last, wet = mixture, study.exact(mixture)[1]
        course.deployed.append(wet)
        s2r.explore(learner, study.env, max_rounds=1)
    plan = learner.plan(study.reward)
    course.intervals[len(course.deployed)] = (plan.value, min(1.0, plan.bound))
    return learner, course


def draw(study: Study, course: Course) -> Figure:
    """Left: the exact cost of what was deployed. Right: what was certified of the best safe plan."""
    figure = Figure(figsize=(8.0, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    blind = study.exact(s2r.solve(study.problem.simulator, study.reward).policy)[1]
    left.axhline(blind, color="#d95f02", linestyle="--", label="the simulator's plan")
    left.axhline(LIMIT, color="black", linewidth=1.2, label="limit")
    left.plot(np.arange(1, len(course.deployed) + 1), course.deployed, ".", color="#2563a8", markersize=3, label="deployed")
    left.set(xlabel="episodes on the real lake", ylabel="expected steps under water", ylim=(0.0, 1.4), title="Cost")
    number, low, high = zip(*((n, *ends) for n, ends in course.intervals.items()), strict=True)
    right.fill_between(number, low, high, color="#2563a8", alpha=0.2, label="certified interval of it")
    right.plot(number, low, color="#2563a8", label="certified plan, at least")
    best = s2r.solve(study.real, study.reward).value
    right.axhline(best, color="black", linestyle=":", label="best safe plan")
    right.set(xlabel="episodes on the real lake", ylabel="probability to reach the goal", ylim=(0.0, 1.02), title="Reward")
    for axes in (left, right):
        axes.legend(fontsize=8, frameon=False, loc="upper right" if axes is left else "lower right")
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def main(path: Path) -> None:
    study = Study()
    learner, course = explored(study)
    plan, episodes = learner.plan(study.reward), len(course.deployed)
    by_hand = study.fitted_by_hand(episodes)
    broken = sum(wet > LIMIT + 1e-9 for _, wet in by_hand)
    found = {
        "trusted policy": study.exact(study.problem.baseline),
        "simulator's plan": study.exact(s2r.solve(study.problem.simulator, study.reward).policy),
        "table fitted by hand": max(by_hand, key=lambda one: one[1]),
        "certified plan": study.exact(plan.policy),
        "best safe plan": study.exact(s2r.solve(study.real, study.reward).policy),
    }
    print(f"{'on the real lake':24} reaches the goal   steps under water (limit {LIMIT})")
    for name, (goal, wet) in found.items():
        print(f"{name:24} {goal:16.3f}   {wet:.3f}{'  VIOLATES THE LIMIT' if wet > LIMIT + 1e-9 else ''}")
    print(f"a table fitted by hand to {episodes} episodes violates the limit in {broken} of {REPETITIONS} repetitions")
    print(f"certified after {episodes} episodes: at least {plan.value:.3f}, and no safe plan has more than {plan.bound:.3f}")
    print(f"most expected steps under water of {episodes:,} deployed policies: {max(course.deployed):.4f}")
    draw(study, course).savefig(path, dpi=150)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent.parent / "docs" / "img" / "first-plan.png")
