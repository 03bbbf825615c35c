"""An inventory with seasonal demand: what structure is worth that everybody in the shop knows.

    python examples/inventory.py [--out FOLDER] [--seed N]

Stock 0..15, four seasons in turn, orders 0..5. A quarter that begins with an empty shelf has sent customers away. The
simulator knows three seasons; in the fourth, 0.4 of the demand's probability is really at 6 and 7, where it says nobody
asks for more than 3. The reward is the money that is not tied up in stock, so a plan wants to hold as little as it may.
"""

from __future__ import annotations

import argparse
from collections import namedtuple
from pathlib import Path

import numpy as np
from inventory_figure import draw

import safe2real as s2r

HORIZON, FULL, LIMIT, MARGIN = 16, 15, 2.0, 1.5  # at most 2 of 16 quarters begin with an empty shelf, in expectation
BELIEVED = {  # probability of a demand of 0, 1, .. 7 in each season
    "spring": (0.1, 0.3, 0.3, 0.2, 0.1, 0.0, 0.0, 0.0),
    "summer": (0.0, 0.1, 0.2, 0.3, 0.2, 0.2, 0.0, 0.0),
    "autumn": (0.2, 0.3, 0.3, 0.2, 0.0, 0.0, 0.0, 0.0),
    "winter": (0.3, 0.4, 0.2, 0.1, 0.0, 0.0, 0.0, 0.0),
}
REAL = BELIEVED | {"winter": (0.1, 0.2, 0.2, 0.1, 0.0, 0.0, 0.2, 0.2)}
SEASONS, REPETITIONS = list(BELIEVED), 20


def shop(laws, exact=True):
    """The shop with these laws of demand; what it knows for sure is how stock and season follow from order and demand."""
    empty = s2r.SystemDescription(start=(6, "spring"), cost=lambda at, order: at[0] == 0, limit=LIMIT, name="empty shelf")
    return s2r.from_dynamics(
        [(stock, season) for stock in range(FULL + 1) for season in SEASONS], range(6),
        lambda at, order, demand: (max(0, min(FULL, at[0] + order) - demand), SEASONS[(SEASONS.index(at[1]) + 1) % 4]),
        s2r.Noise(range(8), laws, classes=lambda at, order: at[1], exact=exact), HORIZON, empty,
        reward=lambda at, order: 1.0 - min(FULL, at[0] + order) / FULL,
    )  # fmt: skip


Row = namedtuple("Row", "name promised earned cost")  # the last two exactly, in the real shop; nan: nothing is promised


def study(looks=(30, 100, 300, 1_000), seed=0):
    """(rows of the table, {what is declared: [(episodes, certified, upper bound, share unsafe)]})."""
    believed, real = shop(BELIEVED), shop(REAL).model
    reward, rng = believed.system.reward, np.random.default_rng(seed)

    def row(name, policy, promised=np.nan):
        cost = HORIZON - s2r.planning.constraint_values(real, policy)[0]
        return Row(name, promised, s2r.evaluate(real, policy, reward), max(0.0, cost))

    up_to_ten = [min(5, max(0, 10 - stock)) for stock, _ in believed.states]
    baseline = s2r.MarkovPolicy.deterministic(up_to_ten, num_actions=6, horizon=HORIZON)
    blind, best = s2r.solve(believed.model, reward), s2r.solve(real, reward)
    rows = [row("baseline: order up to 10", baseline), row("the simulator's plan", blind.policy, blind.value)]
    for episodes in looks[1::2]:
        fits = []
        for _ in range(REPETITIONS):  # the baseline sees every demand, four of each season in an episode
            seen = {season: rng.multinomial(4 * episodes, law) / (4 * episodes) for season, law in REAL.items()}
            fitted = s2r.solve(shop(seen).model, reward)
            fits.append(row("", fitted.policy, fitted.value))
        broken = f"breaks the limit in {sum(one.cost > LIMIT + 1e-9 for one in fits)} of {REPETITIONS}; the worst"
        rows.append(max(fits, key=lambda one: one.cost)._replace(name=f"fitted by hand, {episodes:,} episodes ({broken})"))
    course = {}
    for declared in ("declared exact", "declared, not exact", "not declared"):
        known, course[declared] = shop(BELIEVED, exact=declared == "declared exact"), []
        settings = s2r.Settings(margin=MARGIN, calibrated_gap=0.0, mismatch_gap=0.4, tolerance=MARGIN / 4, seed=seed)
        ties = None if declared == "not declared" else known.ties
        learner = s2r.Learner(s2r.Problem(known.model, baseline, settings, ties=ties))
        for before, episodes in zip((0, *looks), looks, strict=False):
            run = s2r.simulate(learner, real.kernel, max_rounds=episodes - before)
            plan = learner.plan(reward)
            course[declared].append((episodes, plan.value, plan.bound, run.unsafe_share(real.thresholds)))
            if episodes in looks[1::2]:
                rows.append(row(f"certified, {declared}, {episodes:,} episodes", plan.policy, plan.value))
        if declared == "declared, not exact":
            candidate = learner.plan_with_structure(reward)
            rows.append(row(f"candidate by structure, {looks[-1]:,} episodes", candidate.policy, candidate.value))
    return [*rows, row("optimum", best.policy, best.value)], course


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out/inventory"))
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    rows, course = study(seed=arguments.seed)
    for one in rows:
        print(f"{one.name:74} promised {one.promised:5.2f}  earned {one.earned:5.2f}  cost {one.cost:.2f} <= {LIMIT:g}?")
    arguments.out.mkdir(parents=True, exist_ok=True)
    draw(rows, course, LIMIT).savefig(arguments.out / "inventory.png", dpi=120)


if __name__ == "__main__":
    main()
