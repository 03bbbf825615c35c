"""README's first example, and its picture: a lake whose simulator does not know that one cell is slippery.

Two things differ from most grids: the limit binds, and the simulator's own plan breaks it. `python examples/first_plan.py`
prints what each of four policies is worth on the real lake, exactly, and draws docs/img/first-plan.png.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import gymnasium
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Polygon

import safe2real as s2r
from safe2real.evidence.mismatch_map import Verdict, map_mismatch
from safe2real.planning.evaluate import constraint_values

LAKE = ["SFFF", "FHFH", "FFFG"]
SLIPPERY, GOAL, HORIZON, LIMIT = 6, 11, 14, 0.7
CAREFUL = [1, 3, 1, 3, 0, 0, 1, 0, 2, 2, 2, 0]  # keeps away from the holes, and often comes too late
HOLES = np.array([kind == "H" for kind in "".join(LAKE)])
SHOWN = (0, 100, 600, 900)  # episodes
MOST = 1_500
_CORNERS = {0: ((0, 0), (0, 1)), 1: ((0, 1), (1, 1)), 2: ((1, 0), (1, 1)), 3: ((0, 0), (1, 0))}  # left, down, right, up
_COLOURS = {Verdict.OPEN: "#d1d5db", Verdict.CLEARED: "#8fc7a3", Verdict.WRONG: "#d95f02", Verdict.KNOWN: "#8fc7a3"}


def lake(*slippery: int) -> gymnasium.Env:
    """Moves go as meant with probability 0.9, in slippery cells with 0.3."""
    env, slick = (gymnasium.make("FrozenLake-v1", desc=LAKE, success_rate=p) for p in (0.9, 0.3))
    env.unwrapped.P.update({cell: slick.unwrapped.P[cell] for cell in slippery})
    return env


@dataclass(frozen=True, slots=True)
class Exact:
    """What a policy is worth on the real lake."""

    goal: float  # probability to reach the goal within 13 of 14 moves: rewards are paid for where a step begins
    wet: float  # expected steps that end under water, of 14


class Study:
    """The system, the problem, and exact values on the real lake."""

    def __init__(self) -> None:
        self.system = s2r.from_gymnasium(lake(), HORIZON, cost=HOLES, limit=LIMIT, ended=HOLES, name="steps under water")
        self.real = self.system.model.with_kernel(self.system.kernel_of(lake(SLIPPERY)))
        self.reward = self.system.where([GOAL])
        self.baseline = s2r.MarkovPolicy.deterministic(self.system.per_state(CAREFUL), num_actions=4, horizon=HORIZON)
        settings = s2r.Settings(margin=0.4, calibrated_gap=0.0, mismatch_gap=0.5, tolerance=0.1, seed=0)
        self.problem = s2r.Problem(self.system.model, self.baseline, settings, known=self.system.known)

    def exact(self, policy: s2r.MarkovPolicy | s2r.Mixture) -> Exact:
        value = s2r.evaluate(self.real, policy, self.reward)
        return Exact(float(value), self.real.wordings[0].number(constraint_values(self.real, policy)[0]))


@dataclass(frozen=True, eq=False, slots=True)
class Course:
    """What happened on the way."""

    deployed: list[float]  # exact steps under water of every deployed mixture
    maps: dict[int, np.ndarray]  # [S, A] verdicts after so many episodes
    intervals: dict[int, tuple[float, float]]  # certified (at least, at most) of the best safe plan


def explored(study: Study, episodes: int = MOST) -> tuple[s2r.Learner, Course]:
    """Explore the real lake for the goal until a plan is accurate enough, looking now and then."""
    learner = s2r.Learner(study.problem, s2r.methods.ForRewards({"goal": study.reward}, accuracy=0.05))
    env = study.system.as_env(lake(SLIPPERY))
    course = Course([], {}, {})
    looks, last, wet = {*SHOWN, *range(0, episodes + 1, 25)}, None, 0.0
    for number in range(episodes + 1):
        if number:
            mixture = learner.propose().mixture
            if mixture is None:
                break  # accurate enough
            if mixture is not last:  # one stands for many rounds
                last, wet = mixture, study.exact(mixture).wet
            course.deployed.append(wet)
            s2r.explore(learner, env, max_rounds=1)
        if number in SHOWN:
            course.maps[number] = map_mismatch(learner.evidence).verdict.copy()
        if number in looks:
            plan = learner.plan(study.reward)
            course.intervals[number] = (plan.value, min(1.0, plan.bound))
    plan = learner.plan(study.reward)
    course.intervals[len(course.deployed)] = (plan.value, min(1.0, plan.bound))
    return learner, course


def draw_map(axes: Axes, verdict: np.ndarray, study: Study, title: str) -> None:
    """Every cell of the lake with its four moves: known to be as the simulator says, wrong, or not known yet."""
    for cell, kind in enumerate("".join(LAKE)):
        row, column = divmod(cell, len(LAKE[0]))
        if kind in "HG":
            colour, text = ("#1e3a5f", "hole") if kind == "H" else ("#f4d35e", "goal")
            axes.add_patch(
                Polygon([(column, row), (column + 1, row), (column + 1, row + 1), (column, row + 1)], color=colour)
            )
            axes.text(
                column + 0.5,
                row + 0.5,
                text,
                ha="center",
                va="center",
                color="white" if kind == "H" else "black",
                fontsize=8,
            )
            continue
        state = study.system.state_of(cell)
        for action, corners in _CORNERS.items():
            points = [(column + x, row + y) for x, y in (*corners, (0.5, 0.5))]
            axes.add_patch(
                Polygon(points, facecolor=_COLOURS[Verdict(verdict[state, action])], edgecolor="white", linewidth=0.8)
            )
    axes.text(0.5, 0.5, "start", ha="center", va="center", fontsize=8)
    axes.set(xlim=(0, len(LAKE[0])), ylim=(len(LAKE), 0), aspect="equal", xticks=[], yticks=[])
    axes.set_title(title, fontsize=10)
    for side in axes.spines.values():
        side.set_visible(False)


def draw(study: Study, course: Course) -> Figure:
    """The map as it fills in, above what was deployed meanwhile and what was certain of the best safe plan."""
    figure = Figure(figsize=(11, 6.2), layout="constrained")
    above, below = figure.subfigures(2, 1, height_ratios=(1, 1.35))
    for axes, (episodes, verdict) in zip(above.subplots(1, len(course.maps)), course.maps.items(), strict=True):
        draw_map(axes, verdict, study, f"after {episodes:,} episodes" if episodes else "before the first episode")
    marks = {
        "move not known yet": Verdict.OPEN,
        "as the simulator says": Verdict.CLEARED,
        "the simulator is wrong": Verdict.WRONG,
    }
    above.legend(handles=[Patch(color=_COLOURS[one], label=text) for text, one in marks.items()], loc="outside lower center",
                 ncols=3, frameon=False, fontsize=9)  # fmt: skip
    left, right = below.subplots(1, 2)
    blind = study.exact(s2r.solve(study.system.model, study.reward).policy)
    left.plot(
        np.arange(1, len(course.deployed) + 1), course.deployed, ".", color="#2563a8", markersize=3, label="deployed policy"
    )
    left.axhline(LIMIT, color="black", linewidth=1.2, label="limit")
    left.axhline(blind.wet, color="#d95f02", linestyle="--", label="the simulator's own plan")
    left.set(
        xlabel="episodes on the real lake",
        ylabel="expected steps under water",
        ylim=(0, 1.4),
        title="Every deployment stays within the limit",
    )
    number, low, high = zip(*((n, *ends) for n, ends in course.intervals.items()), strict=True)
    right.fill_between(number, low, high, color="#2563a8", alpha=0.2, label="the best safe plan lies in here")
    right.plot(number, low, color="#2563a8", label="certified plan reaches at least")
    right.axhline(
        s2r.solve(study.real, study.reward).value, color="black", linestyle=":", label="best safe plan, unknown in practice"
    )
    right.set(
        xlabel="episodes on the real lake",
        ylabel="probability to reach the goal",
        ylim=(0, 1.02),
        title="What is certain of the plan",
    )
    for axes in (left, right):
        axes.title.set_fontsize(10)
        axes.legend(fontsize=8, loc="upper right" if axes is left else "lower right")
    return figure


def main(path: Path) -> None:
    study = Study()
    learner, course = explored(study)
    plan = learner.plan(study.reward)
    found = {
        "the policy we trust": study.baseline,
        "the simulator's plan": s2r.solve(study.system.model, study.reward).policy,
        "certified plan": plan.policy,
        "best safe plan": s2r.solve(study.real, study.reward).policy,
    }
    print(f"{'on the real lake':24} reaches the goal   steps under water (limit {LIMIT})")
    for name, policy in found.items():
        exact = study.exact(policy)
        breaks = "  BREAKS THE LIMIT" if exact.wet > LIMIT + 1e-9 else ""
        print(f"{name:24} {exact.goal:16.3f}   {exact.wet:.3f}{breaks}")
    print(f"certified: at least {plan.value:.3f}, and no safe plan has more than {plan.bound:.3f}")
    print(f"most expected steps under water of {len(course.deployed):,} deployed policies: {max(course.deployed):.4f}")
    draw(study, course).savefig(path, dpi=150)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent.parent / "docs" / "img" / "first-plan.png")
