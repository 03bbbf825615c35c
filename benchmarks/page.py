"""docs/performance.md from a file of measurements: `python -m benchmarks.page out/bench.json`.

The text is written by hand; what stands between `<!-- measured: NAME -->` and `<!-- end -->` is replaced, and the figures
with it. `--check` compares the last two lines of the history and says which ratios fell by a fifth or more.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.page_figures import draw_growth, draw_ratios

PAGE, PICTURES = Path("docs/performance.md"), Path("docs/img")
HISTORY = Path("benchmarks/history.jsonl")
FELL = 0.8  # of the ratio before: less than that is a regression, more is noise


def table(header: list[str], rows: list[list[str]]) -> str:
    """A table in Markdown."""
    return "\n".join("| " + " | ".join(row) + " |" for row in [header, ["---"] * len(header), *rows])


def ratio(value: float | None) -> str:
    """A ratio to a peer, to three digits."""
    return "" if value is None else f"{value:,.0f}x" if value >= 100 else f"{value:.3g}x"


def about_machine(result: dict[str, Any]) -> str:
    """Where and when it was measured."""
    facts = result["machine"]
    caches = ", ".join(f"{name} {size}" for name, size in facts.get("caches", {}).items())
    versions = ", ".join(f"{name} {number}" for name, number in facts["versions"].items())
    return (
        f"Measured {facts['when'][:10]} on {facts['cores']} cores of an {facts.get('processor', 'unknown processor')} "
        f"({caches}), Python {facts['python']}, {versions}. Load average when it began: {facts['load'][0]} on "
        f"{facts['cores']} cores."
    )


def heading(result: dict[str, Any]) -> str:
    """Which machine, in a line."""
    facts = result["machine"]
    return f"**{facts['cores']} cores of an {facts.get('processor', 'unknown processor')}**"


def programs(result: dict[str, Any]) -> str:
    """Against linear programs."""
    header = ["S, A, H", "HiGHS / cold start", "HiGHS / warm start", "HiGHS kept in memory / warm start", "passes, cold"]
    return table(
        header,
        [
            [row["size"], ratio(row["cold"]), ratio(row["warm"]), ratio(row.get("kept_model")), f"{row['passes']:.1f}"]
            for row in result["linear_programs"]
        ],
    )


def storm(result: dict[str, Any]) -> str:
    """Against Storm."""
    if not result["storm"]:
        return "Not measured in this run."
    ways = list(result["storm"][0]["ratio"])
    rows = [
        [row["size"], *(ratio(row["ratio"][way]) for way in ways), f"{row['storm_seconds']:.2f} s", str(row["passes"])]
        for row in result["storm"]
    ]
    return table(["S, A, H", *(f"Storm / {way}" for way in ways), "Storm", "passes"], rows)


def by_threads(result: dict[str, Any]) -> str:
    """One pass by threads."""
    counts = list(dict.fromkeys(row["threads"] for row in result["threads"]))
    rows = []
    for size in dict.fromkeys(row["size"] for row in result["threads"]):
        taken = {row["threads"]: row["seconds"] for row in result["threads"] if row["size"] == size}
        rows.append([size, f"{1e3 * taken[1]:.2f} ms", *(f"{taken[1] / taken[count]:.2f}x" for count in counts[1:])])
    return table(["S, A, H", "one pass, 1 thread", *(f"{count} threads" for count in counts[1:])], rows)


def exponent(rows: list[dict[str, Any]], name: str) -> float:
    """The slope of log time over log size."""
    return float(np.polyfit(np.log([row[name] for row in rows]), np.log([row["seconds"] for row in rows]), 1)[0])


def growing(result: dict[str, Any]) -> str:
    """How a pass grows."""
    rows = []
    kinds = {"states_near": "states, neighbouring successors", "states": "states, successors spread over all of them"}
    for key in ("states_near", "states", "horizon", "successors"):
        points, name = result["growth"][key], key.removesuffix("_near")
        range_of = f"{points[0][name]:,} to {points[-1][name]:,}"
        rows.append([kinds.get(key, key), range_of, f"{exponent(points, name):.2f}"])
    several = {row["constraints"]: row["seconds"] for row in result["growth"]["constraints"]}
    text = table(["dimension", "from ... to", "time grows with the power"], rows)
    return (
        text
        + f"\n\nA pass with two constraints costs {several[2] / several[1]:.2f} times one with one, with three "
        + (f"{several[3] / several[1]:.2f} times.")
    )


def floor(result: dict[str, Any]) -> str:
    """A pass against reading the arrays."""
    rows = []
    for row in result["floor"]:
        each = row["pass"]
        one = each / 4.0 / row["stream"]
        times = [f"{1e3 * each:.1f} ms", f"{1e3 * row['stream']:.1f} ms"]
        rows.append([f"10,000, 4, 100, {row['argument']}", *times, f"{each / row['stream']:.2f}", f"{one:.2f}"])
    return table(
        ["S, A, H", "one pass", "reading all arrays once", "pass / reading", "each of its four sweeps / reading"], rows
    )


def memory(result: dict[str, Any]) -> str:
    """What fits."""
    rows = [
        [f"{row['states']:,}", row["status"], f"{row['gap']:.0e}", str(row["passes"]), f"{row['seconds']:.1f} s",
         f"{row['processor_seconds']:.1f} s", f"{row['peak_bytes'] / 2**30:.2f} GiB"]
        for row in result["memory"]
    ]  # fmt: skip
    return table(["states", "status", "bound - value", "passes", "wall time", "processor time", "peak memory"], rows)


PARTS = {
    "machine": about_machine, "programs": programs, "storm": storm, "growth": growing, "floor": floor,
    "threads": by_threads, "memory": memory,
}  # fmt: skip


def fill(text: str, results: list[dict[str, Any]]) -> str:
    """The page with every part that is marked replaced; what several machines measured stands one below the other."""
    for name, part in PARTS.items():
        marked = re.compile(rf"(<!-- measured: {name} -->\n).*?(<!-- end -->)", flags=re.DOTALL)
        found = marked.search(text)
        if found is None:
            raise SystemExit(f"{PAGE} has no place for {name!r}: add <!-- measured: {name} --> and <!-- end -->")
        said = [part(result) if len(results) == 1 else f"{heading(result)}\n\n{part(result)}" for result in results]
        text = f"{text[: found.end(1)]}" + "\n\n".join(said) + f"\n{text[found.start(2) :]}"
    return text


def regressions(lines: list[str]) -> list[str]:
    """What fell by a fifth or more between the last two lines of a history."""
    if len(lines) < 2:
        return []
    before, after = (json.loads(line)["ratios"] for line in lines[-2:])
    return [
        f"{name}: {before[name]} -> {after[name]}" for name in before if name in after and after[name] < FELL * before[name]
    ]


def main() -> None:
    """Fill the page and draw its figures, or compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "measurements", type=Path, nargs="*", default=[Path("out/bench.json")], help="figures from the first"
    )
    parser.add_argument("--check", action="store_true", help="only compare the last two runs of the history")
    given = parser.parse_args()
    if given.check:
        fell = regressions(HISTORY.read_text().splitlines())
        print("\n".join(fell) or "nothing fell by a fifth")
        sys.exit(1 if fell else 0)
    results = [json.loads(path.read_text()) for path in given.measurements]
    PAGE.write_text(fill(PAGE.read_text(), results))
    draw_growth(results[0], PICTURES / "performance-growth.png")
    draw_ratios(results[0], PICTURES / "performance-ratios.png")


if __name__ == "__main__":
    main()
