"""Beyond the paper: how many real samples the same guarantee costs with each tightening, alone and together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from experiments.artefact import BLUE, GREEN, GREY, ORANGE, PURPLE, Artefact, Comparison, Outcome, Table, save_figure
from experiments.store import Plain, Row, Task, results_where
from experiments.studies import episodes_to_accuracy as affordable
from experiments.studies import sepsis_to_accuracy as affordable_sepsis
from experiments.studies.certified_runs import anytime_run, certified_run
from safe2real.refinements import DEFAULT
from safe2real.standing import Standing

SEEDS, REWARDS = 10, 20
CHECKPOINTS = [30, 100, 300, 1_000, 2_000, 4_000, 7_000, 10_000, 20_000, 40_000, 100_000, 200_000]

_UPPER = "two thirds of it are the upper end, of rows that the exploration has not visited yet; 2,000 rounds give 0.04"

EVERYTHING = [one.name for one in DEFAULT]
CLEARING, NEAR, OPEN, BALLS, CHAIN = EVERYTHING


@dataclass(frozen=True, slots=True)
class Variant:
    """What a certified run uses beside the paper's rules."""

    radius: str
    span: bool = False
    robust: bool = False
    support: bool = False
    refinements: tuple[str, ...] = ()

    @property
    def settings(self) -> Plain:
        return {
            "radius": self.radius,
            "span": self.span,
            "robust": self.robust,
            "support": self.support,
            "refinements": list(self.refinements),
        }

    @property
    def colour(self) -> str:
        if self == Variant("literal"):
            return GREY
        if self.support:
            return GREEN
        if self.refinements:
            return PURPLE
        return BLUE if self.span and self.robust else ORANGE


_TIGHT = Variant("adaptive", span=True, robust=True)
VARIANTS: dict[str, Variant] = {
    "literal constants": Variant("literal"),
    "literal + robust safety": Variant("literal", robust=True),
    "literal + span bonus": Variant("literal", span=True),
    "KL radius": Variant("kl"),
    "union radius": Variant("union"),
    "stitched radius": Variant("stitched"),
    "adaptive radius": Variant("adaptive"),
    "KL + span + robust": Variant("kl", span=True, robust=True),
    "union + span + robust": Variant("union", span=True, robust=True),
    "stitched + span + robust": Variant("stitched", span=True, robust=True),
    "adaptive + span + robust": _TIGHT,
    "... + clearing below the gap": replace(_TIGHT, refinements=("below-gap",)),
    "... + sequential clearing": replace(_TIGHT, refinements=(CLEARING,)),
    "... + near sets": replace(_TIGHT, refinements=(NEAR,)),
    "... + open rows": replace(_TIGHT, refinements=(OPEN,)),
    "... + KL balls": replace(_TIGHT, refinements=(BALLS,)),
    "... + KL balls, chain": replace(_TIGHT, refinements=(BALLS, CHAIN)),
    "all refinements": replace(_TIGHT, refinements=tuple(EVERYTHING)),
    "all refinements, protection 2": replace(_TIGHT, refinements=(f"{CLEARING} x2", *EVERYTHING[1:])),
    "stitched + span + robust, support": Variant("stitched", span=True, robust=True, support=True),
    "adaptive + span + robust, support": replace(_TIGHT, support=True),
    "all refinements, support": replace(_TIGHT, support=True, refinements=tuple(EVERYTHING)),
}
TIGHT, TIGHT_DECLARED = "adaptive + span + robust", "adaptive + span + robust, support"
ALL, ALL_DECLARED = "all refinements", "all refinements, support"


def _settings(variant: str, seed: int) -> Plain:
    return VARIANTS[variant].settings | {"seed": seed, "rewards": REWARDS}


def tasks(seeds: int | None) -> list[Task]:
    chosen = range(seeds or SEEDS)
    runs = [Task(certified_run, _settings(variant, seed), compiled=True) for variant in VARIANTS for seed in chosen]
    anytime = [(variant, seed) for variant in (ALL, TIGHT) for seed in chosen]
    runs += [Task(anytime_run, _settings(name, seed) | {"checkpoints": CHECKPOINTS}) for name, seed in anytime]
    return runs + affordable.tasks(seeds or SEEDS) + affordable_sepsis.tasks(seeds or SEEDS)


def draw(rows: list[Row], folder: Path) -> Outcome:
    outcome = Outcome()
    groups = {variant: _rows_of(rows, variant) for variant in VARIANTS}
    means = {variant: float(np.mean([r["samples"] for r in group])) for variant, group in groups.items()}
    literal = means["literal constants"]
    lines = []
    for variant, group in groups.items():
        samples = np.array([r["samples"] for r in group])
        share = _share(float(samples.mean()), literal) if variant != "literal constants" else "1"
        unsafe, lost, true = (sum(r[key] for r in group) for key in ("unsafe_rounds", "lost", "true"))
        means_of = [f"{np.mean([r[key] for r in group]):.4f}" for key in ("suboptimalities", "bounds")]
        counted = [str(unsafe), f"{min(r['lowest_slack'] for r in group):.3f}", str(lost)]
        planned = [f"{true} of {REWARDS * len(group)}", *means_of]
        lines.append([variant, f"{samples.mean():.3g} ± {samples.std():.1g}", share, *counted, *planned])
    header = ["certified run to its stop", "samples", "of literal", "unsafe rounds", "lowest V_c - l", "rows of B lost"]
    header += ["plans as promised", "mean suboptimality", "mean printed bound"]
    outcome.table = Table(header, lines)
    for variant, wanted in ((TIGHT, 170), (TIGHT_DECLARED, 300), (ALL, 700), (ALL_DECLARED, 700)):
        ratio = literal / means[variant]
        outcome.comparisons.append(
            Comparison(f"{variant}: fewer samples than literal", f">= {wanted}x", f"{ratio:.0f}x", ratio >= wanted)
        )
    ratio = means[TIGHT] / means[ALL]
    outcome.comparisons.append(
        Comparison("all refinements: fewer samples than without", ">= 2.6x", f"{ratio:.2f}x", ratio >= 2.6)
    )
    every = [result for group in groups.values() for result in group]
    anytime = [row for row in rows if row["kind"] == "anytime"]
    curves = {
        name: [result["points"] for result in results_where(anytime, **VARIANTS[name].settings)] for name in (ALL, TIGHT)
    }
    points = [point for runs in curves.values() for run in runs for point in run]
    outcome.comparisons += [
        Comparison.count("unsafe rounds in all runs", 0, sum(r["unsafe_rounds"] for r in every)),
        Comparison.count("runs that stopped", len(every), sum(r["stopped"] for r in every)),
        Comparison.count("plans feasible and within their bound", REWARDS * len(every), sum(r["true"] for r in every)),
        Comparison.count(
            "anytime plans feasible and within their bound", REWARDS * len(points), sum(point["true"] for point in points)
        ),
    ]
    _draw_samples(means, literal, folder, outcome)
    early = [run[CHECKPOINTS.index(1_000)]["bounds"] for run in curves[ALL]]
    outcome.comparisons.append(
        Comparison(
            "mean bound of plans after 1,000 rounds",
            "< 0.1",
            f"{np.mean(early):.4f}",
            float(np.mean(early)) < 0.1,
            why=_UPPER,
        )
    )
    _draw_anytime(curves[ALL], curves[TIGHT], means[ALL], folder, outcome)
    affordable.draw(rows, folder, outcome)
    affordable_sepsis.draw(rows, folder, outcome)
    outcome.remarks.append(
        "Every run is certified: no constant is scaled. All replan when a suspect row has 2 % more visits. The declared "
        "support is a cell and its neighbours. Values of deployed and planned policies are exact, on the real kernel."
    )
    return outcome


def _rows_of(rows: list[Row], variant: str) -> list[Plain]:
    stopped = [row for row in rows if row["kind"] == "certified"]
    return results_where(stopped, **VARIANTS[variant].settings)


def _share(samples: float, literal: float) -> str:
    ratio = literal / samples
    return f"1/{ratio:.0f}" if ratio >= 10 else f"1/{ratio:.1f}"


def _draw_samples(means: dict[str, float], literal: float, folder: Path, outcome: Outcome) -> None:
    names = list(means)[::-1]
    figure = Figure(figsize=(8.5, 6.4))
    axes = figure.add_subplot()
    labels = {GREY: "the paper's constants", ORANGE: "one change", BLUE: "bounds together", PURPLE: "and refined sets"}
    labels[GREEN] = "with a declared support"
    axes.barh(names, [means[name] for name in names], color=[VARIANTS[name].colour for name in names])
    for i, name in enumerate(names):
        text = f"{means[name]:.2g}" + ("" if name == "literal constants" else f"  ({_share(means[name], literal)})")
        axes.text(means[name] * 1.12, i, text, va="center", fontsize=8)
    handles = [Patch(color=colour, label=label) for colour, label in labels.items()]
    axes.legend(handles=handles, fontsize=8, loc="lower right")
    axes.set(xscale="log", xlim=(1e5, literal * 12), xlabel="real samples to the certified stop (mean over seeds)")
    axes.set_title("The same guarantee, from fewer samples", fontsize=11)
    axes.tick_params(axis="y", labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    save_figure(figure, folder, "certified", outcome)


def _draw_anytime(runs: list[list[Plain]], without: list[list[Plain]], stop: float, folder: Path, outcome: Outcome) -> None:
    shared = min(len(points) for points in runs)
    samples = np.array([point["samples"] for point in runs[0][:shared]])
    bounds = np.array([[point["bounds"] for point in points[:shared]] for points in runs])  # [seeds, points, rewards]
    suboptimalities = np.array([[point["suboptimalities"] for point in points[:shared]] for points in runs])
    figure = Figure(figsize=(8.5, 4.2))
    axes = figure.add_subplot()
    for values, colour, label in ((bounds, BLUE, "printed bound"), (suboptimalities, ORANGE, "real (exact)")):
        flat = values.transpose(1, 0, 2).reshape(shared, -1)
        axes.plot(samples, flat.mean(axis=1), "o-", color=colour, ms=4, label=f"{label}, mean")
        low, high = np.maximum(flat.min(axis=1), 1e-4), np.maximum(flat.max(axis=1), 1e-4)
        axes.fill_between(samples, low, high, color=colour, alpha=0.15, lw=0, label=f"{label}, range over rewards and seeds")
    before = [np.mean([point["bounds"] for points in without for point in points[i : i + 1]]) for i in range(shared)]
    axes.plot(samples, before, ":", color=GREY, label="printed bound without the refinements, mean")
    axes.axvline(stop, color=GREY, ls="--", lw=1)
    axes.text(stop, 3.0, " stop for ANY reward", fontsize=8, color=GREY, ha="right", rotation=90, va="center")
    axes.set(xscale="log", yscale="log", ylim=(1e-3, 20), xlabel="real samples", ylabel="suboptimality of the plan")
    axes.set_title(f"Anytime plans for {bounds.shape[2]} random rewards: what is promised, and what is true", fontsize=11)
    axes.legend(fontsize=8, loc="lower left")
    axes.spines[["top", "right"]].set_visible(False)
    save_figure(figure, folder, "anytime", outcome)


TITLE, CONSTANTS = "Certified, from fewer samples", "certified: nothing is scaled"
ARTEFACT = Artefact("certified", TITLE, CONSTANTS, Standing.CERTIFIED, draw, tasks, beyond_the_paper=True)
