"""Episodes until a plan is certified, with and without structure that somebody knows, on the certified study's grid.

Each run explores for one declared reward and stops when a plan is certified within an accuracy of the best value. Everything
that was deployed and every printed bound is held against the real system, which is known here.

Run with `python -m benchmarks.structure [--seeds 3] [--most 6000] [--only terrain,cell,support,nothing]`.
"""

from __future__ import annotations

import argparse
import statistics
from typing import Any

import safe2real as s2r
from experiments.studies.declared_systems import instance
from experiments.studies.instance import Instance
from experiments.studies.windy_grid_ties import terrain_ties
from safe2real.model.validation import ROUNDING
from safe2real.systems.windy_grid import WindyGrid


def declared(name: str, system: Instance) -> dict[str, Any]:
    """What is stated of the real system, all of it true."""
    paper = WindyGrid.paper()
    known: dict[str, dict[str, Any]] = {
        "nothing": {},
        "support": {"support": system.support},
        "cell": {"ties": terrain_ties(paper, exact=True, by_cell=True)},
        "terrain": {"ties": terrain_ties(paper, exact=True)},
    }
    return known[name]


def episodes_for(system: Instance, stated: dict[str, Any], reward: str, accuracy: float, seed: int, most: int) -> float:
    """Episodes until the certified stop; inf if that is not reached. Refuses to go on if anything promised is false."""
    plain = system.problem(seed=seed, support=False)
    problem = s2r.Problem(plain.simulator, plain.baseline, plain.settings, known=plain.known, **stated)
    learner = s2r.Learner(problem, s2r.methods.ForRewards({reward: system.rewards[reward]}, accuracy=accuracy))
    run = s2r.simulate(learner, system.real, max_rounds=most)
    made, real = learner.plan(system.rewards[reward]), system.reality
    earned = s2r.evaluate(real, made.policy, system.rewards[reward])
    best = s2r.solve(real, system.rewards[reward]).value
    if run.unsafe_share(real.thresholds) > 0.0 or earned < made.value - ROUNDING or best > made.bound + ROUNDING:
        raise SystemExit(f"a promise was broken: {stated}, {reward}, seed {seed}")
    return float(run.rounds) if run.stopped else float("inf")


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--most", type=int, default=6_000)
    options.add_argument("--only", default="nothing,support,cell,terrain")
    given = options.parse_args()
    system = instance("grid")
    for name in given.only.split(","):
        for reward in system.rewards:
            for accuracy in (0.05, 0.01):
                runs = [
                    episodes_for(system, declared(name, system), reward, accuracy, seed, given.most)
                    for seed in range(given.seeds)
                ]
                print(f"{name:8} {reward:10} {accuracy:5.0%} median {statistics.median(runs):8g}  {runs}", flush=True)


if __name__ == "__main__":
    main()
