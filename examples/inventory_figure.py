"""The figure of examples/inventory.py: every plan in the real shop, and what is certified on the way."""

from __future__ import annotations

from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, RED, GREY = "#2a6fbb", "#d9822b", "#3a8f5c", "#c0392b", "0.45"


def draw(rows, course, limit):
    """Left: reward and cost of every plan. Right: the certified interval, with and without the declared structure."""
    figure = Figure(figsize=(12.0, 4.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    best, blind = (next(one for one in rows if one.name.startswith(name)) for name in ("optimum", "the simulator's"))
    left.axvspan(limit, 1.15 * blind.cost, color=RED, alpha=0.08, linewidth=0.0)
    left.axvline(limit, color=RED, linewidth=1.5, label=f"limit: {limit:g} quarters with an empty shelf")
    kinds = (
        ("baseline", "trusted: order up to 10", "s", GREY),
        ("the simulator's plan", "the simulator's plan", "X", ORANGE),
        ("fitted by hand", "fitted by hand (worst of 20)", "^", ORANGE),
        ("certified, declared exact", "certified, structure declared exact", "o", BLUE),
        ("candidate", "candidate, structure not called exact: a trial has to certify it", "D", GREEN),
        ("certified, not declared", "certified, nothing declared", "v", GREEN),
        ("optimum", "optimum", "*", "black"),
    )
    for begins, label, marker, colour in kinds:
        found = [one for one in rows if one.name.startswith(begins)]
        left.plot([one.cost for one in found], [one.earned for one in found], marker, color=colour, markersize=9,
                  markerfacecolor="none" if marker in "D^*" else colour, markeredgewidth=1.8, label=label)  # fmt: skip
    left.set(xlabel="expected quarters with an empty shelf, of 16", ylabel="reward: money not tied up, of 16",
             title="Every plan in the real shop, exactly", xlim=(-0.15, 1.15 * blind.cost))  # fmt: skip
    left.legend(fontsize=8, loc="lower right")
    for name, colour in (("declared exact", BLUE), ("not declared", GREEN)):
        episodes, low, high, _ = zip(*course[name], strict=True)
        right.fill_between(episodes, low, high, color=colour, alpha=0.2, linewidth=0.0)
        right.plot(episodes, low, marker="o", color=colour, label=f"structure {name}: certified at least")
        right.plot(episodes, high, color=colour, linewidth=1.0, label="  no safe policy earns more")
    right.axhline(best.earned, color="black", linestyle="--", linewidth=1.0, label="optimum")
    right.axhline(rows[0].earned, color=GREY, linestyle=":", linewidth=1.5, label="baseline")
    right.set(xscale="log", xlabel="real episodes", ylabel="reward", title="What is certified on the way", ylim=(0.0, 16.4))
    right.set_xticks([one[0] for one in course["not declared"]], [f"{one[0]:,}" for one in course["not declared"]])
    right.minorticks_off()
    right.legend(fontsize=8, loc="center right", bbox_to_anchor=(1.0, 0.5))
    for axes in (left, right):
        axes.grid(color="0.92")
        axes.set_axisbelow(True)
    return figure
