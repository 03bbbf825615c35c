"""`python docs/draw_architecture.py`: the figure of docs/architecture.md, the path of one episode."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

INK, PALE = "#1f2937", "#6b7280"
COLOURS = {
    "given": "#e5e7eb", "outside": "#fde7c8", "systems": "#dbeafe", "exploration": "#c7d2fe", "evidence": "#d1fae5",
    "methods": "#fbcfe8", "planning": "#fef3c7", "campaign": "#e9d5ff",
}  # fmt: skip
# name: (x, y, width, height, colour, title, lines)
BOXES = {
    "machine": (0.2, 2.7, 2.0, 1.5, "outside", "real system", ["an environment,", "a robot, a log"]),
    "systems": (2.9, 2.7, 2.0, 1.5, "systems", "systems", ["observations", "to numbers"]),
    "drive": (5.6, 2.7, 2.3, 1.5, "exploration", "drive", ["exploration:", "draws one policy,", "runs the episode"]),
    "evidence": (8.9, 2.7, 2.5, 1.5, "evidence", "count", ["evidence:", "rows, radii, suspects,", "trust in the baseline"]),
    "method": (8.9, 0.3, 2.5, 1.5, "methods", "propose", ["methods:", "the next deployment,", "from arguments alone"]),
    "planning": (12.2, 1.5, 2.1, 1.5, "planning", "planning", ["solve, evaluate,", "worst and best case"]),
    "certificate": (5.6, 0.3, 2.3, 1.5, "exploration", "certify", ["exploration:", "bounds with their", "assumptions"]),
    "problem": (12.2, 3.9, 2.1, 1.0, "given", "problem", ["given and assumed"]),
    "journal": (2.9, 0.3, 2.0, 1.5, "campaign", "journal", ["campaign:", "an ask is recorded", "before it is answered"]),
    "ledger": (0.2, 0.3, 2.0, 1.5, "campaign", "verify", ["campaign:", "recomputes every", "certificate"]),
}
# from, to, where they leave and arrive (fractions of the boxes), curve, text, place of the text
ARROWS = [
    ("machine", "systems", (1, 0.5), (0, 0.5), 0.0, "episode", (2.55, 3.62)),
    ("systems", "drive", (1, 0.5), (0, 0.5), 0.0, "states,\nactions", (5.25, 3.75)),
    ("drive", "evidence", (1, 0.5), (0, 0.5), 0.0, "count", (8.4, 3.6)),
    ("evidence", "method", (0.5, 0), (0.5, 1), 0.0, "counts, sets", (10.75, 2.25)),
    ("method", "planning", (1, 0.6), (0, 0.25), -0.15, "", (0, 0)),
    ("planning", "method", (0, 0.05), (1, 0.25), -0.15, "", (0, 0)),
    ("method", "certificate", (0, 0.5), (1, 0.5), 0.0, "decision", (8.4, 1.2)),
    ("certificate", "journal", (0, 0.5), (1, 0.5), 0.0, "proposal", (5.25, 1.2)),
    ("journal", "machine", (0.3, 1), (0.8, 0), 0.0, "the policy\nto run", (1.75, 2.2)),
    ("drive", "journal", (0.2, 0), (0.8, 1), 0.0, "tell", (4.95, 2.42)),
    ("certificate", "drive", (0.6, 1), (0.6, 0), 0.0, "without a campaign", (7.85, 2.25)),
    ("journal", "ledger", (0, 0.5), (1, 0.5), 0.0, "events", (2.55, 1.2)),
    ("problem", "evidence", (0, 0.5), (1, 0.8), 0.0, "", (0, 0)),
]


def draw(path: Path) -> None:
    figure, axes = plt.subplots(figsize=(12.2, 5.0))
    for x, y, width, height, colour, title, lines in BOXES.values():
        axes.add_patch(
            FancyBboxPatch(
                (x, y), width, height, boxstyle="round,pad=0.02,rounding_size=0.12", facecolor=COLOURS[colour], edgecolor=INK
            )
        )
        axes.text(x + width / 2, y + height - 0.32, title, ha="center", va="center", fontsize=12, weight="bold", color=INK)
        axes.text(
            x + width / 2, y + (height - 0.5) / 2, "\n".join(lines), ha="center", va="center", fontsize=10.5, color=INK
        )
    for start, end, leaves, arrives, curve, text, place in ARROWS:
        (ax, ay, aw, ah, *_), (bx, by, bw, bh, *_) = BOXES[start], BOXES[end]
        axes.add_patch(
            FancyArrowPatch(
                (ax + leaves[0] * aw, ay + leaves[1] * ah),
                (bx + arrives[0] * bw, by + arrives[1] * bh),
                arrowstyle="-|>",
                mutation_scale=16,
                color=INK,
                connectionstyle=f"arc3,rad={curve}",
                linewidth=1.4,
            )
        )
        axes.text(*place, text, ha="center", va="center", fontsize=9.5, color=PALE, style="italic")
    axes.set(xlim=(0, 14.5), ylim=(0, 5.1))
    axes.axis("off")
    figure.tight_layout(pad=0.2)
    figure.savefig(path, dpi=130)


if __name__ == "__main__":
    draw(Path(__file__).parent / "img" / "episode.png")
