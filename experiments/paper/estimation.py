"""Algorithm 4: the estimate of sigma_s against samples, with the literal radius and no inferred constant."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from experiments.artefact import BLUE, Artefact, Comparison, Outcome, Table, draw_band, save_figure
from experiments.paper import printed
from experiments.paper.runs import estimation_run
from experiments.store import Row, Task, results_where
from safe2real.standing import Standing

SEEDS, DELTA = 20, 0.05
SAMPLES = {"I": 1_000_000, "II": 3_000_000, "III": 3_000_000}
EPISODES_PER_POINT = 1_000


def tasks(seeds: int | None) -> list[Task]:
    per_point = {"episodes_per_point": EPISODES_PER_POINT}
    return [
        Task(estimation_run, {"instance": name, "seed": seed, "delta": DELTA, "samples": SAMPLES[name], **per_point})
        for name in printed.INSTANCES
        for seed in range(seeds or SEEDS)
    ]


def draw(rows: list[Row], folder: Path) -> Outcome:
    outcome, lines = Outcome(), []
    figure = Figure(figsize=(11.0, 3.4), layout="constrained")
    panels = figure.subplots(1, 3)
    for axes, instance in zip(panels, printed.INSTANCES, strict=True):
        group = results_where(rows, instance=instance)
        truth, samples = printed.MISMATCH_GAPS[instance], np.array(group[0]["samples"])
        curves = np.array([result["estimates"] for result in group])
        firsts = np.array([result["first_complete"] or np.nan for result in group])
        draw_band(axes, samples, list(curves.T), BLUE, r"$\hat\sigma_s$: mean, min to max")
        axes.axhline(truth, color="black", linestyle="--", linewidth=1.0, label=rf"$\sigma_s$ = {truth:g}")
        first = float(np.mean(firsts))
        found = rf"$\mathcal{{C}} = \mathcal{{B}}$ at {first:.2g}"
        axes.axvline(first, color="grey", linestyle=":", linewidth=1.2, label=found)
        axes.set_title(f"Instance {instance}", fontsize=10)
        # There is room for the legend above the true value.
        axes.set(xscale="log", xlabel="samples from the real system", ylim=(0, 1.5 * truth))
        axes.legend(frameon=False, fontsize=8, loc="upper left")
        above = sum(result["ever_above"] for result in group)
        reported = printed.ESTIMATION[instance]
        ratio, near = f"{first / reported:.3f}", abs(first / reported - 1) <= 0.25
        lines.append(
            [instance, f"{truth:g}", f"{first:.3g}", f"{reported:.2g}", ratio,
             f"{np.nanmin(firsts):.3g}", f"{np.nanmax(firsts):.3g}", str(above)]
        )  # fmt: skip
        outcome.comparisons += [
            Comparison(f"instance {instance}: samples until C = B", f"{reported:.2g}", f"{first:.3g}", near, ratio),
            Comparison.count(f"instance {instance}: runs above sigma_s once C = B", 0, above),
        ]
    panels[0].set_ylabel(r"estimate $\hat\sigma_s$")
    save_figure(figure, folder, "estimation", outcome)
    header = ["instance", "sigma_s", "C = B at (mean)", "paper", "ratio", "earliest", "latest", "runs above sigma_s"]
    outcome.table = Table(header, lines)
    return outcome


ARTEFACT = Artefact(
    "estimation", "Estimating the separation (Algorithm 4)", "literal radius, certified", Standing.CERTIFIED, draw, tasks
)
