"""Which way a row's mass is found does not matter for the number: the higher first, of equals the one stored first."""

import numpy as np

from safe2real._compiled.rows import Reach, Rows, Sets
from tests.compiled.calling import worst_expectation

NOWHERE = np.empty(0, dtype=np.uint32)


def plainly(row: np.ndarray, successors: np.ndarray, values: np.ndarray, gap: float, bottom: float) -> float:
    """The definition, with a sort."""
    total = 0.0
    for p, s in zip(row, successors, strict=True):
        total += p * values[s]
    if row.size == values.size and (row == 1.0 / row.size).all():
        total = sum(values.tolist()) / values.size  # a uniform row has its mean
    left = gap
    for i in sorted(range(row.size), key=lambda i: (-values[successors[i]], i)):
        if left <= 0.0 or values[successors[i]] <= bottom:
            break
        moved = min(left, row[i])
        total -= moved * (values[successors[i]] - bottom)
        left -= moved
    return float(total)


def test_short_rows_long_rows_and_uniform_rows_give_the_number_of_the_definition() -> None:
    rng = np.random.default_rng(3)
    for case in range(300):
        states = int(rng.integers(2, 120))
        length = int(rng.integers(1, states + 1)) if case % 4 else 0
        successors = np.sort(rng.choice(states, size=length or states, replace=False)).astype(np.uint32)
        row = rng.dirichlet(np.ones(length)) * (rng.random(length) < 0.9) if length else np.full(states, 1.0 / states)
        values = np.round(rng.random(states), 1) if case % 3 else rng.random(states)  # with equal values, and without
        gap = float(rng.choice([0.01, 0.2, 0.9]))
        stored = NOWHERE if length == 0 else successors
        rows = Rows(np.zeros(1, np.uint32), np.full(1, length, np.uint32), stored, row if length else np.empty(0))
        limited = np.sort(rng.choice(states, size=3)).astype(np.uint32)
        for reach in (Reach(NOWHERE, NOWHERE, NOWHERE), Reach(rows.begin, np.full(1, 3, np.uint32), limited)):
            bottom = values.min() if reach.length.size == 0 else values[limited].min()
            low = worst_expectation(Sets(rows, reach, np.full(1, gap), np.full(1, np.inf)), 0, values)
            assert low == plainly(row, successors, values, gap, bottom), case
