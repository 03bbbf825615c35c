"""The page of measurements: filled between its marks, and regressions named."""

import json
import re

import pytest

from benchmarks import page

RESULT = {
    "machine": {"when": "2026-01-02T03:04:05+00:00", "cores": 2, "python": "3.11", "load": [0.5, 0.5, 0.5], "versions": {}},
    "linear_programs": [{"size": "small", "cold": 321.4, "warm": 45.67, "passes": 5.0}],
    "storm": [],
    "growth": {
        "states": [{"states": n, "seconds": 2e-6 * n} for n in (10, 100, 1000)],
        "states_near": [{"states": n, "seconds": 1e-6 * n} for n in (10, 100, 1000)],
        "horizon": [{"horizon": n, "seconds": 1e-6 * n**1.5} for n in (10, 100, 1000)],
        "successors": [{"successors": n, "seconds": 1e-6 * n} for n in (2, 20)],
        "constraints": [{"constraints": n, "seconds": float(n + 1)} for n in (1, 2, 3)],
    },
    "threads": [{"size": "large", "threads": n, "seconds": 1.0 / n} for n in (1, 2)],
    "floor": [{"argument": "per-step", "pass": 0.2, "stream": 0.1}],
    "memory": [{"states": 1000, "status": "OPTIMAL", "gap": 0.0, "passes": 7, "seconds": 1.0, "processor_seconds": 2.0,
                "peak_bytes": 2**30}],
}  # fmt: skip


def test_every_part_of_the_page_is_filled_and_nothing_else_changes() -> None:
    text = page.PAGE.read_text()
    filled = page.fill(text, [RESULT])
    assert page.fill(filled, [RESULT]) == filled
    outside = re.compile(r"<!-- measured.*?<!-- end -->", flags=re.DOTALL)
    assert outside.sub("", filled) == outside.sub("", text)
    for expected in (
        "| small | 321x | 45.7x |  | 5.0 |",
        "| horizon | 10 to 1,000 | 1.50 |",
        "two constraints costs 1.50 times",
        "| 2.00 | 0.50 |",
        "| large | 1000.00 ms | 2.00x |",
        "| 1,000 | OPTIMAL | 0e+00 | 7 | 1.0 s | 2.0 s | 1.00 GiB |",
        "Not measured in this run",
    ):
        assert expected in filled


def test_machines_stand_below_each_other() -> None:
    other = {**RESULT, "machine": {**RESULT["machine"], "cores": 16, "processor": "Other"}}
    filled = page.fill(page.PAGE.read_text(), [RESULT, other])
    assert filled.count("**16 cores of an Other**") == len(page.PARTS) == filled.count("**2 cores of an unknown processor**")


def test_a_page_without_a_place_for_a_part_is_refused() -> None:
    with pytest.raises(SystemExit, match="memory"):
        page.fill(page.PAGE.read_text().replace("measured: memory", "memory"), [RESULT])


def test_ratios_that_fell_by_a_fifth_are_named() -> None:
    before, after = {"a": 100.0, "b": 100.0, "gone": 1.0}, {"a": 79.0, "b": 81.0, "new": 5.0}
    lines = [json.dumps({"ratios": one}) for one in ({"a": 1e9}, before, after)]
    assert page.regressions(lines) == ["a: 100.0 -> 79.0"]
    assert page.regressions(lines[:1]) == []
