"""The two figures of docs/performance.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

INK, ACCENT, PALE = "#333333", "#1f6f8b", "#c8d6dc"


def draw_growth(result: dict[str, Any], path: Path) -> None:
    """Draw the time of one pass against states, horizon, successors and constraints, and the gain by threads.

    Args:
        result: what `benchmarks.measure` wrote.
        path: where the PNG goes.
    """
    figure, axes = plt.subplots(2, 3, figsize=(9.0, 5.6), constrained_layout=True)
    for name, panel in zip(("states", "horizon", "successors"), axes[0], strict=True):
        points = result["growth"][name]
        sizes, times = [row[name] for row in points], [1e3 * row["seconds"] for row in points]
        panel.loglog(sizes, [times[0] * size / sizes[0] for size in sizes], color=PALE, label="linear growth")
        panel.loglog(sizes, times, "o-", color=ACCENT, label="any successors" if name == "states" else "measured")
        if name == "states":
            near = [1e3 * row["seconds"] for row in result["growth"]["states_near"]]
            panel.loglog(sizes, near, "s--", color=INK, markersize=4, label="neighbours alone")
        panel.legend(frameon=False, fontsize=9, loc="lower right")
        panel.set_title({"successors": "successors of a row"}.get(name, name), fontsize=11)
        _label(panel, "number of " + name if name != "horizon" else "steps of an episode", "ms for one pass")
    few, threads, rest = axes[1]
    rows = result["growth"]["constraints"]
    few.bar([str(row["constraints"]) for row in rows], [1e3 * row["seconds"] for row in rows], color=ACCENT)
    few.set_title("constraints", fontsize=11)
    _label(few, "number of constraints", "ms for one pass")
    sizes = sorted({row["size"] for row in result["threads"]}, key=lambda size: int(size.strip("(").split(",")[0]))
    for number, size in enumerate(sizes):
        rows = [row for row in result["threads"] if row["size"] == size]
        gains = [rows[0]["seconds"] / row["seconds"] for row in rows]
        threads.plot([row["threads"] for row in rows], gains, "osD^vP"[number % 6] + "-", label=size)
    threads.axhline(1.0, color=PALE, zorder=0)
    threads.set_xticks(sorted({row["threads"] for row in result["threads"]}))
    threads.set_ylim(bottom=0.0)
    threads.set_title("threads", fontsize=11)
    _label(threads, "threads", "times as fast as with one")
    rest.axis("off")
    rest.legend(*threads.get_legend_handles_labels(), frameon=False, fontsize=9, loc="center left")
    rest.set_title("(states, actions, steps)", fontsize=11, loc="left")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def draw_ratios(result: dict[str, Any], path: Path) -> None:
    """How many times longer each peer takes on the same problem."""
    bars: list[tuple[str, float]] = []
    for row in result["linear_programs"]:
        bars.append((f"HiGHS, cold: {row['size']}", row["cold"]))
        bars.append((f"HiGHS, warm: {row['size']}", row["warm"]))
        if "kept_model" in row:
            bars.append((f"HiGHS kept, warm: {row['size']}", row["kept_model"]))
    for row in result["storm"]:
        bars += [(f"Storm, {way}: {row['size']}", x) for way, x in row["ratio"].items()]
    figure, panel = plt.subplots(figsize=(9, 0.28 * len(bars) + 1), constrained_layout=True)
    names, ratios = [name for name, _ in bars][::-1], [ratio for _, ratio in bars][::-1]
    panel.barh(names, ratios, color=ACCENT)
    for place, ratio in enumerate(ratios):
        panel.text(
            ratio * 1.05, place, f"{ratio:,.0f}x" if ratio >= 10 else f"{ratio:.1f}x", va="center", fontsize=8, color=INK
        )
    panel.set_xscale("log")
    panel.set_xlim(1.0, 3.0 * max(ratios))
    panel.tick_params(axis="y", labelsize=8)
    _label(panel, "time of the peer / time of solve", "")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _label(panel: Axes, x: str, y: str) -> None:
    panel.set_xlabel(x, color=INK)
    panel.set_ylabel(y, color=INK)
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)
