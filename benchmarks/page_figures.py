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
    """Time of one pass against states, horizon, successors, constraints and threads."""
    figure, axes = plt.subplots(1, 5, figsize=(15, 3.2), constrained_layout=True)
    for name, panel in zip(("states", "horizon", "successors"), axes, strict=False):
        points = result["growth"][name]
        sizes, times = [row[name] for row in points], [1e3 * row["seconds"] for row in points]
        panel.loglog(sizes, [times[0] * size / sizes[0] for size in sizes], color=PALE, label="linear")
        panel.loglog(sizes, times, "o-", color=ACCENT, label="successors spread" if name == "states" else "measured")
        if name == "states":
            near = [1e3 * row["seconds"] for row in result["growth"]["states_near"]]
            panel.loglog(sizes, near, "s--", color=INK, markersize=4, label="neighbouring")
        panel.legend(frameon=False)
        _label(panel, name, "one pass, ms of one core" if name == "states" else "")
    rows = result["growth"]["constraints"]
    axes[3].bar([str(row["constraints"]) for row in rows], [1e3 * row["seconds"] for row in rows], color=ACCENT)
    _label(axes[3], "constraints K", "one pass, ms")
    for size in dict.fromkeys(row["size"] for row in result["threads"]):
        rows = [row for row in result["threads"] if row["size"] == size]
        axes[4].plot(
            [row["threads"] for row in rows], [rows[0]["seconds"] / row["seconds"] for row in rows], "o-", label=size
        )
    axes[4].set_xticks(sorted({row["threads"] for row in result["threads"]}))
    axes[4].set_ylim(bottom=0.0)
    axes[4].legend(frameon=False, fontsize=7)
    _label(axes[4], "threads", "times as fast as one thread")
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
