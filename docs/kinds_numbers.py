"""Numbers of docs/which-are-you.md: its scripts as they stand, and the variants that its text quotes.

python docs/kinds_numbers.py [FOLDER]    # pictures of the plans go to FOLDER

Each kind prints what its script prints, what policies are worth on the real system, and the variants. A section can be run
alone: `--only pond`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import safe2real as s2r
from docs.page_code import blocks, replaced, run
from safe2real.planning.evaluate import constraint_values

PAGE = "which-are-you.md"
HEADINGS = {
    "machine": "An exact table",
    "calls": "A sampled simulator",
    "oven": "Logs of the real system",
    "pond": "Physics with unknown noise",
    "tank": "A continuous system",
}


def script(kind: str, changes: Mapping[str, str] | None = None) -> str:
    """Return the script of a kind, with replacements; a variant does not measure or draw its plan."""
    code = blocks(PAGE, HEADINGS[kind])[0]
    if changes is None:
        return code
    ending = [line for line in code.splitlines() if line.startswith(("print(", "plan.plot("))]
    return replaced(code, dict.fromkeys(ending, "") | dict(changes))


def certified(names: Mapping[str, Any], reward: Any) -> str:
    """Return what the script's learner certifies, in words."""
    learner, plan = names["learner"], names["learner"].plan(reward)
    return f"{learner.round - 1:,} episodes, {learner.standing.value}: at least {plan.value:.4f}, at most {plan.bound:.4f}"


def cost_of(model: s2r.CMDP, policy: Any) -> float:
    """Return the expected cost of a policy on a model with one constraint."""
    return abs(model.wordings[0].number(constraint_values(model, policy)[0]))


def print_worth(real: s2r.CMDP, policies: Mapping[str, Any], reward: Any) -> None:
    """Print what policies are worth on the real system, exactly, with the best safe one."""
    for name, policy in (policies | {"best safe plan": s2r.solve(real, reward).policy}).items():
        print(f"  {name:20} reward {s2r.evaluate(real, policy, reward):.4f}  cost {cost_of(real, policy):.4f}")


def print_variants(kind: str, variants: Mapping[str, Mapping[str, str]], reward: str) -> None:
    """Run variants of a script and print what each certifies for the reward of that expression."""
    for name, changes in variants.items():
        names, _ = run(script(kind, changes))
        print(f"  {name}: {certified(names, eval(reward, names))}", flush=True)


def machine(folder: Path) -> None:
    names, said = run(script("machine"), pictures={"plan.png": folder / "kinds-machine.png"})
    print(said, end="")
    system, reward = names["system"], names["system"].unit_reward
    real = s2r.from_gymnasium(names["Machine"](0.5), 15, names["broken"]).model
    blind = s2r.solve(system.model, reward)
    print(f"  the table's own plan promises {blind.value:.4f}")
    policies = {"trusted": names["trusted"], "table's plan": blind.policy, "certified plan": names["plan"].policy}
    print_worth(real, policies, reward)
    declared, unit = ", support=system.model.kernel", "system.unit_reward"
    variants = {
        "no support": {declared: ""},
        "mismatch_gap=0.1": {"mismatch_gap=0.2": "mismatch_gap=0.1"},
        "no gaps": {"mismatch_gap=0.2": "mismatch_gap=0.0"},
    }
    print_variants("machine", variants, unit)
    for episodes in (50, 500):
        found = []
        for seed in range(16):
            changes = {"mismatch_gap=0.2": "mismatch_gap=0.4", "seed=0)": f"seed={seed})", "=500": f"={episodes}"}
            names, _ = run(script("machine", changes))
            if names["learner"].standing is not s2r.Standing.REFUTED:
                found.append((names["plan"].value, s2r.evaluate(real, names["plan"].policy, reward)))
        false = [pair for pair in found if pair[0] > pair[1]]
        print(f"  mismatch_gap=0.4, {episodes} episodes: refuted with {16 - len(found)} of 16 seeds;", end=" ")
        print(
            f"{len(false)} certificates are false:", *(f"{value:.4f} for {worth:.4f}" for value, worth in false), flush=True
        )


def refutation(folder: Path) -> None:
    """The machine with a gap that is too large, as the page's last section runs it."""
    names, _ = run(script("machine"))
    (code,) = blocks(PAGE, "After a refutation")
    before, after = code.split("again = learner_with(0.1)")
    names, said = run(before, names)
    print(said, end="")
    _, said = run("again = learner_with(0.1)" + after, names)
    print(said, end="")


def calls(folder: Path) -> None:
    names, said = run(script("calls"), pictures={"plan.png": folder / "kinds-calls.png"})
    print(said, end="")
    system, reward = names["system"], names["free"]
    print(f"  the simulator's rows are accurate to {system.worst:.4f}")
    real = system.model.with_kernel(s2r.Kernel.from_dense(_line(0.05)))
    blind = s2r.solve(system.model, reward).policy
    policies = {"trusted": names["trusted"], "simulator's plan": blind, "certified plan": names["plan"].policy}
    print_worth(real, policies, reward)
    estimated, gaps = ", estimated=system.row_accuracy", "calibrated_gap=0.034, mismatch_gap=0.2"
    within = ", within=np.where(np.arange(4) < 3, 0.034, np.ones((8, 4)))"
    variants = {
        "1,000 samples in a row": {
            "samples_per_row=10_000": "samples_per_row=1_000",
            "calibrated_gap=0.034": "calibrated_gap=0.105",
            "margin=0.35": "margin=0.33",
        },
        "no gaps": {estimated: "", gaps: "calibrated_gap=0.0, mismatch_gap=0.0"},
        "no support": {"support=possible, ": ""},
        "within": {estimated: within, gaps: "calibrated_gap=0.0, mismatch_gap=0.0"},
    }
    print_variants("calls", variants, "free")


def _line(chance: float) -> Any:
    """[S, A, S] of the call line, of which the environment has no table."""
    rows, came = np.zeros((8, 4, 8)), (0.36, 0.48, 0.16)
    for waiting in range(8):
        for people in range(4):
            ends = np.ones(1)
            for _ in range(min(waiting, people)):
                p = chance if people == 3 else 0.5
                ends = np.convolve(ends, [1.0 - p, p])
            for ended, p in enumerate(ends):
                for new, q in enumerate(came):
                    rows[waiting, people, min(7, waiting - ended + new)] += p * q
    return rows


def oven(folder: Path) -> None:
    names, said = run(script("oven"), pictures={"plan.png": folder / "kinds-oven.png"})
    print(said, end="")
    system, reward, law = names["system"], names["warm"], {-1: 0.15, 0: 0.75, 1: 0.1}
    rows = np.zeros((8, 3, 8))
    for warmth in range(8):
        for heat in range(3):
            for drift, p in law.items():
                rows[warmth, heat, int(np.clip(warmth + heat - 1 + drift, 0, 7))] += p
    real = system.model.with_kernel(s2r.Kernel.from_dense(rows))
    blind = s2r.solve(system.model, reward)
    print(f"  the operator's margin is {names['margin']:.4f}; the simulator's plan promises {blind.value:.4f}")
    policies = {"operator": names["operator"], "simulator's plan": blind.policy, "certified plan": names["plan"].policy}
    print_worth(real, policies, reward)
    values = []
    for seed in range(6):
        names, _ = run(script("oven", {"seed=3)": f"seed={seed})"}))
        values.append(names["learner"].plan(reward).value)
        print(f"  seed {seed}: {certified(names, reward)}", flush=True)
    print(f"  seeds 0 to 5: between {min(values):.4f} and {max(values):.4f}, median {median(values):.4f}")
    names, _ = run(script("oven", {"s2r.explore(learner, system.as_env(oven), max_rounds=500)\n": ""}))
    print(f"  the log alone: {certified(names, reward)}")
    values = []
    for seed in range(6):
        names, _ = run(script("oven", {"seed=3)": f"seed={seed})", ", support=near": ""}))
        values.append(names["learner"].plan(reward).value)
    print(f"  no support, seeds 0 to 5: between {min(values):.4f} and {max(values):.4f}", flush=True)


def pond(folder: Path) -> None:
    names, said = run(script("pond"), pictures={"plan.png": folder / "kinds-pond.png"})
    print(said, end="")
    system, reward = names["system"], np.tile(np.arange(9)[:, None] / 8, (1, 3))
    rows = np.zeros((9, 3, 9))
    for level in range(9):
        for out in range(3):
            for rain, p in enumerate((0.3, 0.3, 0.2, 0.2)):
                rows[level, out, names["after"](level, out, rain)] += p
    real = system.model.with_kernel(s2r.Kernel.from_dense(rows))
    blind = s2r.solve(system.model, reward)
    print(f"  the simulator's plan promises {blind.value:.4f}")
    policies = {"trusted": names["trusted"], "simulator's plan": blind.policy, "certified plan": names["plan"].policy}
    print_worth(real, policies, reward)
    last = s2r.planning.occupancy(real, names["plan"].policy)[-1]
    print(f"  the certified plan after its last step: {np.einsum('sa,sa->', last, rows[:, :, 8]):.4f} more")
    gaps = {"mismatch_gap=0.1": "mismatch_gap=0.0"}
    print_variants("pond", {"no ties": {", ties=system.ties": ""}, "both gaps 0": gaps}, "water")
    names, _ = run(script("pond", {", exact=True": ""}))
    found = names["learner"].plan_with_structure(names["water"])
    print(
        f"  not exact, plan_with_structure: {found.value:.4f}, worth {s2r.evaluate(real, found.policy, reward):.4f}",
        flush=True,
    )


def tank(folder: Path) -> None:
    names, said = run(script("tank"), pictures={"plan.png": folder / "kinds-tank.png"})
    print(said, end="")
    system, reward = names["system"], names["full"]
    cells = s2r.estimate_by_sampling(names["real"], 12, names["spilling"], samples_per_row=100_000)
    apart = 0.5 * np.abs(system.model.kernel.to_dense() - cells.model.kernel.to_dense()).sum(axis=-1)
    wrong = apart > 0.1
    print(f"  {wrong.sum()} of {wrong.size} rows are wrong, by {apart[wrong].min():.3f} to {apart[wrong].max():.3f}")
    blind = s2r.solve(system.model, reward)
    print(f"  the simulator's plan promises {blind.value:.4f}")
    policies = {
        "trusted": names["trusted"],
        "simulator's plan": blind.policy,
        "certified plan": names["plan"].policy,
        "best safe plan of the cells": s2r.solve(cells.model, reward).policy,
    }
    for name, policy in policies.items():
        seen = system.rollout(policy, names["real"], 4_000, seed=1, reward=reward)
        print(f"  {name:28} level {seen.value.mean:.4f}, spilling {seen.constraints[0].mean:.4f}", flush=True)
    print_variants("tank", {"no support": {", support=near": ""}}, "full")


KINDS = {"machine": machine, "refutation": refutation, "calls": calls, "oven": oven, "pond": pond, "tank": tank}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("out/kinds"))
    parser.add_argument("--only", choices=KINDS)
    arguments = parser.parse_args()
    for name, measure in KINDS.items():
        if arguments.only in (None, name):
            print(f"{name}:", flush=True)
            measure(arguments.folder.resolve())


if __name__ == "__main__":
    main()
