"""Rollouts held against what is declared: one step to where a declaration says that none leads refutes it.

A declared support names every successor of a row, and a row that is declared known has the simulator's successors and no
others. No statistics are needed: what has probability 0 does not happen. That rollouts keep to a declaration proves nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from safe2real.model.constraint_text import count
from safe2real.model.kernel import Kernel
from safe2real.model.trajectory import Trajectory
from safe2real.preflight.findings import EVERY_CLAIM, Code, Finding, Level
from safe2real.problem.problem import Problem


def rollout_findings(problem: Problem, rollouts: Sequence[Trajectory]) -> list[Finding]:
    """Whether steps of the real system contradict the declared support, or rows that are declared known.

    Args:
        problem: what is declared.
        rollouts: episodes of the real system, checked (`baseline.check_rollouts`).

    Returns:
        A failure for each declaration that is false; nothing where none is contradicted.
    """
    findings = []
    if problem.support is not None:
        outside = rows_left(problem.support, rollouts)
        if outside.any():
            said = f"{_named(problem, outside)}: the rollouts lead to states that the declared support does not name"
            cure, rows = "name every possible successor, or declare no support", {"rows": int(outside.sum())}
            findings.append(Finding(Code.SUPPORT_BY_ROLLOUTS, Level.FAILURE, said, cure, rows, affects=EVERY_CLAIM))
    wrong = problem.known_rows() & rows_left(problem.simulator.kernel, rollouts)
    if wrong.any():
        said = f"{_named(problem, wrong)}: declared known, but the rollouts lead to states of probability 0 there"
        cure, rows = "declare only rows known that are exact", {"rows": int(wrong.sum())}
        findings.append(Finding(Code.KNOWN_ROWS_BY_ROLLOUTS, Level.FAILURE, said, cure, rows, affects=EVERY_CLAIM))
    return findings


def rows_left(kernel: Kernel, rollouts: Sequence[Trajectory]) -> NDArray[np.bool_]:
    """[R] rows from which a rollout went to a state that `kernel` rules out there."""
    left, pairs = np.zeros(kernel.num_rows, dtype=np.bool_), kernel.num_states * kernel.num_actions
    possible: dict[int, set[int]] = {}  # successors of the rows that were come by
    for episode in rollouts:
        rows = episode.states[:-1].astype(np.int64) * kernel.num_actions + episode.actions
        if not kernel.is_stationary:
            rows += np.arange(rows.size) * pairs
        for row, successor in zip(rows.tolist(), episode.states[1:].tolist(), strict=True):
            if row not in possible:
                possible[row] = set(kernel.row(row)[0].tolist())  # a kernel stores no successor of probability 0
            left[row] |= successor not in possible[row]
    return left


def _named(problem: Problem, rows: NDArray[np.bool_]) -> str:
    """How many rows, and the first of them."""
    model = problem.simulator
    state, action = divmod(int(np.argmax(rows)) % (model.num_states * model.num_actions), model.num_actions)
    return f"{count(int(rows.sum()), 'row')}, the first is {model.legend.row(state, action)}"
