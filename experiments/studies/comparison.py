"""Beyond the paper: its related systems and plain reinforcement learning beside it, on one harness."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from experiments import related
from experiments.artefact import Artefact, Comparison, Outcome, Table
from experiments.related.facts import Facts, Fidelity
from experiments.store import Plain, Row, Task
from experiments.studies import comparison_page
from experiments.studies.comparison_figure import draw_samples
from experiments.studies.comparison_runs import DECLARED, OURS, REWARDS, barrier_run, compared_run, transferred_run
from experiments.studies.plain_runs import LEARNERS, TASKS, bar_run, passed, plain_run
from experiments.studies.public_code_check import OURS as BESIDE
from experiments.studies.public_code_check import beside_run, beside_tables, both_sides
from safe2real.standing import Standing

SEEDS = 3
AT_ONCE = {"A": [*OURS, "RFExpress", "VIZero", "Sweet"], "B": [*OURS, DECLARED, "RFExpress", "Sweet"]}
"""One run serves all rewards."""
ONE_BY_ONE = {"A": ["OptPess", "Dope", "HySRL"], "B": [DECLARED, "OptPess", "Dope", "HySRL"]}
PENALTIES = (0.0, 0.1, 1.0)
OTHERS = {"LogBarrier": barrier_run, "ExplorationTransfer": transferred_run}  # in panel A, with runs of their own
_ERROR = 1e-9
_ADAPTED = {kind.facts.system for kind in related.ALL if kind.facts.fidelity is not Fidelity.EXACT}
_PAPER = "the paper that this library implements"
_OURS = {
    name: Facts(name, _PAPER, "ours" * (name == "Algorithm 1"), Fidelity.EXACT, safe, True, simulator, True, told)
    for name, safe, simulator, told in (
        ("Algorithm 1", True, True, ("xi", "sigma_s", "eps_s", "tau")),
        ("Algorithm 2", True, False, ("xi", "tau")),
        ("Algorithm 3", False, True, ("sigma_s", "eps_s", "tau")),
    )
}
_OURS[DECLARED] = Facts(
    DECLARED, "this library", "", Fidelity.EXACT, True, False, True, True, ("xi", "sigma_s", "eps_s", "epsilon", "rewards")
)


@dataclass(frozen=True, slots=True)
class Line:
    """One method on one panel: what all of its runs gave."""

    name: str
    label: str
    facts: Facts
    results: Sequence[Plain]  # one for each reward, or one for each seed where one run serves all rewards

    @property
    def runs(self) -> int:
        """That 20 rewards need: one where a run has an output for each of them."""
        return 1 if len(self.results[0]["gaps"]) == REWARDS else REWARDS

    @property
    def samples(self) -> float:
        """Real samples for 20 rewards; runs of other seeds are averaged."""
        return float(np.mean([one["samples"] for one in self.results])) * self.runs

    @property
    def on_baseline(self) -> float:
        return float(np.mean([one["on_baseline"] for one in self.results]))

    @property
    def unsafe_share(self) -> float:
        weights = [one["samples"] for one in self.results]
        return float(np.average([one["unsafe_share"] for one in self.results], weights=weights))

    @property
    def gap(self) -> float:
        return float(np.mean([gap for one in self.results for gap in one["gaps"]]))

    @property
    def ends_itself(self) -> bool:
        return self.facts.stops and all(one["stopped"] for one in self.results)

    @property
    def reached(self) -> list[float]:
        """Samples of the runs that stopped by themselves, or whose mean regret has become as small as was asked."""
        return [one["reached"] for one in self.results if one["reached"] is not None]

    @property
    def feasible(self) -> float:
        return float(np.mean([miss <= _ERROR for one in self.results for miss in one["misses"]]))

    @property
    def cells(self) -> list[str]:
        yes, facts, fluid = {True: "yes", False: "no"}, self.facts, self.results[0]["expected"]
        ended = "its own" if self.ends_itself else "given"
        return [
            self.label,
            yes[facts.safe],
            "any" if facts.any_reward else "declared" if self.runs == 1 else "one",
            yes[facts.uses_simulator],
            ", ".join(facts.told),
            f"{self.samples:.2g}" + (" (fluid)" if fluid else ""),
            ended,
            f"{self.on_baseline:.2g}" if facts.safe else "-",
            f"{self.unsafe_share:.1%}",
            f"{round(self.gap, 3) + 0.0:.3f}",  # never -0.000
            f"{self.feasible:.0%}",
        ]


HEADER = [
    "method",
    "safe by its proof",
    "reward",
    "simulator",
    "told",
    f"real samples for {REWARDS} rewards",
    "end",
    "of one run on the baseline alone",
    "unsafe share of episodes",
    "mean gap of the output",
    "outputs that are safe",
]


def tasks(seeds: int | None) -> list[Task]:
    chosen = range(seeds or SEEDS)
    found = []
    for panel, names in AT_ONCE.items():
        repeated = chosen if panel == "B" else range(1)  # nothing is random in the fluid limit
        found += [Task(compared_run, _settings(panel, name, None, seed)) for name in names for seed in repeated]
        found += [Task(compared_run, _settings(panel, name, i, 0)) for name in ONE_BY_ONE[panel] for i in range(REWARDS)]
    found += [Task(run, {"reward": i, "seed": 0}) for run in OTHERS.values() for i in range(REWARDS)]
    found += [Task(beside_run, {"quantity": quantity, "seed": 0}) for quantity in BESIDE]
    found += [Task(bar_run, {"system": system, "seed": seed}) for system in TASKS for seed in chosen]
    for system in TASKS:
        for learner in LEARNERS:
            for penalty in PENALTIES if learner != "plan on the simulator" else (0.0,):
                given = {"system": system, "learner": learner, "penalty": penalty}
                found += [Task(plain_run, given | {"seed": seed}) for seed in chosen]
    return found


def _settings(panel: str, name: str, reward: int | None, seed: int) -> Plain:
    return {"panel": panel, "method": name, "reward": reward, "seed": seed}


def lines_of(rows: Sequence[Row], panel: str) -> list[Line]:
    """Every method of a panel, ours first."""
    listed = [(name, True) for name in AT_ONCE[panel]] + [(name, False) for name in ONE_BY_ONE[panel]]
    own = [row for row in rows if row["kind"] == "compared" and row["settings"]["panel"] == panel]
    found = []
    for name, at_once in listed:
        mine = [row for row in own if row["settings"]["method"] == name and at_once == (row["settings"]["reward"] is None)]
        found.append(_line(name, panel, at_once, [row["result"] for row in mine]))
    for name, run in OTHERS.items() if panel == "A" else ():
        results = [row["result"] for row in rows if row["kind"] == run.__name__.removesuffix("_run")]
        found.append(_line(name, panel, False, results))
    return found


def _line(name: str, panel: str, at_once: bool, results: list[Plain]) -> Line:
    facts = _OURS[name] if name in _OURS else getattr(related, name).facts
    label = facts.label
    if name == DECLARED:
        label = f"{name}, all {REWARDS} at once" if at_once else f"{name}, one at a time"
    elif name in OURS:
        label = f"{name}, literal constants" if panel == "A" else f"{name}, all refinements"
    elif panel == "B":
        label = facts.structure
    elif facts.fidelity is Fidelity.EXACT:
        label = f"{facts.system}, visits pooled"  # over steps: exact otherwise, and still not the bare name
    return Line(name, label, facts, results)


def plain_table(rows: Sequence[Row]) -> Table:
    """Episodes and unsafe episodes until each learner is as good as the certified plan, medians over seeds."""
    lines = []
    for system, reward in TASKS.items():
        own = [row for row in rows if row["settings"].get("system") == system]
        bars = {row["settings"]["seed"]: row["result"] for row in own if row["kind"] == "bar"}
        episodes, unsafe = (float(np.median([one[key] for one in bars.values()])) for key in ("episodes", "unsafe"))
        lines.append(
            [f"{system}, {reward}", "certified plan, declared reward", "-", f"{episodes:,.0f}", f"{unsafe:,.0f}", "100%"]
        )
        groups: dict[tuple[str, float], list[Plain]] = {}
        for row in own:
            if row["kind"] == "plain":
                key = row["settings"]["learner"], row["settings"]["penalty"]
                groups.setdefault(key, []).append(passed(row["result"], bars[row["settings"]["seed"]]["value"]))
        for (learner, penalty), group in groups.items():
            reached = [one["episodes"] for one in group if one["episodes"] is not None]
            ran = max(one.get("ran", 0) for one in group)
            missing = f"not in {ran:,} ({len(reached)} of {len(group)} seeds)"
            shown = f"{np.median(reached):,.0f}" if len(reached) == len(group) else missing
            many, share = (float(np.median(values)) for values in _spoilt(group))
            charge = "-" if learner == "plan on the simulator" else f"{penalty:g}"
            lines.append([f"{system}, {reward}", learner, charge, shown, f"{many:,.0f}", f"{share:.0%}"])
    header = ["system, reward", "learner", "penalty", "episodes until as good as the certified plan"]
    return Table([*header, "unsafe among them", "worth then, of the plan"], lines)


def _spoilt(group: Sequence[Plain]) -> tuple[list[float], list[float]]:
    """(unsafe episodes, value at the end as a share of the certified plan's) of every seed."""
    return [one["unsafe"] for one in group], [one["value"] / one["bar"] for one in group]


def draw(rows: list[Row], folder: Path) -> Outcome:
    outcome = Outcome()
    panels = {panel: lines_of(rows, panel) for panel in ("A", "B")}
    outcome.table = Table(HEADER, [line.cells for line in panels["A"]])
    outcome.more["comparison-radius"] = Table(HEADER, [line.cells for line in panels["B"]])
    outcome.more["comparison-plain"] = plain_table(rows)
    numbers = {row["settings"]["quantity"]: row["result"] for row in rows if row["kind"] == "beside"}
    outcome.more["comparison-beside"], outcome.more["comparison-searched"] = beside_tables(numbers)
    other = sum(not one.agree for one in both_sides(numbers) if not one.public["explained"])
    outcome.more["comparison-bounds"] = comparison_page.bounds_table(panels["A"])
    outcome.more["comparison-systems"] = comparison_page.systems_table(panels["A"])
    safe = [line for lines in panels.values() for line in lines if line.facts.safe]
    own, second = panels["B"][0].samples, panels["B"][1].samples
    rivals = max(line.unsafe_share for line in panels["B"] if not line.facts.safe)
    unsafe = sum(line.unsafe_share > 0.0 for line in safe)
    bare = [line.label for lines in panels.values() for line in lines if line.label in _ADAPTED]
    outcome.comparisons = [
        Comparison.count("methods with a proof of safety that deployed anything unsafe", 0, unsafe),
        Comparison("panel B: samples of Algorithm 2 / of Algorithm 1", "> 1", f"{second / own:.1f}x", second > own),
        Comparison("panel B: largest unsafe share without constraints", "> 0", f"{rivals:.0%}", rivals > 0.0),
        Comparison.count("numbers of public code that differ from ours without a reason", 0, other),
        Comparison.count("adapted methods that a table calls by their bare names", 0, len(bare)),
    ]
    draw_samples(panels, folder, outcome)
    outcome.remarks = [
        "Panel A: the constants that each was published with, in the fluid limit (expected visits, nothing sampled). "
        "Panel B: sampled runs with one certified radius for all: the structure of each, never the method itself.",
    ]
    named = ("radius", "plain", "bounds", "systems", "beside", "searched")
    tables = {"A": outcome.table, **{name: outcome.more[f"comparison-{name}"] for name in named}}
    (folder / "page.md").write_text(comparison_page.page(panels, tables, rows))
    return outcome


TITLE, CONSTANTS = "Related systems on one harness", "A: each its own; B: one certified radius"
ARTEFACT = Artefact("comparison", TITLE, CONSTANTS, Standing.INCOMPLETE, draw, tasks, beyond_the_paper=True)
