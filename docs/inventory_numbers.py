"""Numbers of docs/case-inventory.md that examples/inventory.py alone does not print: other seeds, bounds, other assumptions.

python docs/inventory_numbers.py
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))

import inventory

import safe2real as s2r

EPISODES = (100, 1_000)


def certified(method: s2r.methods.Method, mismatch_gap: float) -> list[float]:
    """Return what is certified after 100 and 1,000 episodes with the structure called exact, seed 0."""
    known, real = inventory.shop(inventory.BELIEVED), inventory.shop(inventory.REAL).model
    up_to_ten = [min(5, max(0, 10 - stock)) for stock, _ in known.states]
    baseline = s2r.MarkovPolicy.deterministic(up_to_ten, num_actions=6, horizon=inventory.HORIZON)
    margin = inventory.MARGIN
    settings = s2r.Settings(margin=margin, calibrated_gap=0.0, mismatch_gap=mismatch_gap, tolerance=margin / 4, seed=0)
    learner = s2r.Learner(s2r.Problem(known.model, baseline, settings, ties=known.ties), method)
    found = []
    for episodes in EPISODES:
        run = s2r.simulate(learner, real.kernel, max_rounds=episodes - (learner.round - 1))
        assert run.unsafe_share(real.thresholds) == 0.0
        found.append(learner.plan(known.system.reward).value)
    return found


def main() -> None:
    for seed in range(10):
        rows, course = inventory.study(seed=seed)
        plans = [row for row in rows if row.name.startswith("certified, declared exact")]
        unsafe = max(share for looks in course.values() for *_, share in looks)
        earned = ", ".join(f"{row.earned:.2f}" for row in plans)
        print(f"seed {seed}: certified plans earn {earned} after 100 and 1,000 episodes; unsafe deployments {unsafe:.0%}")
        if seed == 0:
            best = next(row for row in rows if row.name == "optimum")
            print(f"not declared: no policy earns more than {course['not declared'][-1][2]:.1f} (1,000 episodes)")
            print(f"below the best after 100 episodes: {1.0 - plans[0].earned / best.earned:.1%}")
            print(f"after 1,000: {best.earned - plans[1].earned:.2f} of reward, {best.cost - plans[1].cost:.2f} quarters")
    for name, method, gap in (
        ("mismatch_gap 0.2", s2r.methods.SimToReal(), 0.2),
        ("RewardFree", s2r.methods.RewardFree(), 0.4),
    ):
        print(f"{name}: certified {', '.join(f'{value:.2f}' for value in certified(method, gap))}")


if __name__ == "__main__":
    main()
