"""Rollouts against declarations: a step that is declared impossible refutes the declaration."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import safe2real as s2r
from safe2real.model.trajectory import Trajectory
from safe2real.preflight.findings import About, Code, Level
from safe2real.preflight.gaps import rollout_findings, rows_left
from safe2real.preflight.hypothetical_reality import Guess
from safe2real.problem.theorem import Guarantee
from tests.preflight.specs import WALK, look, ring


def episodes_of(problem, *, jumps):
    """The baseline stays where it is; one that jumps goes from state 0 to 4, which the simulator rules out."""
    stay, jump = ([0] * 7, [0, 4, 4, 4, 4, 4, 4])
    return [Trajectory.of(problem.simulator, states, [0] * 6) for states in [stay] * 3 + [jump] * jumps]


def known_row(state, action):
    known = np.zeros((WALK, 2), dtype=bool)
    known[state, action] = True
    return known


def test_a_declared_support_that_a_rollout_leaves_is_a_failure():
    problem = replace(ring(), support=ring().simulator.kernel)
    assert rollout_findings(problem, episodes_of(problem, jumps=0)) == []
    (found,) = rollout_findings(problem, episodes_of(problem, jumps=2))
    assert (found.code, found.level, found.about) == (Code.SUPPORT_BY_ROLLOUTS, Level.FAILURE, About.REAL_SYSTEM)
    assert found.numbers == {"rows": 1}
    assert set(found.affects) == set(Guarantee)
    assert problem.simulator.legend.row(0, 0) in found.what


def test_a_known_row_that_a_rollout_contradicts_is_a_failure():
    problem = replace(ring(), known=known_row(0, 0))
    assert rollout_findings(problem, episodes_of(problem, jumps=0)) == []
    (found,) = rollout_findings(problem, episodes_of(problem, jumps=1))
    assert (found.code, found.level) == (Code.KNOWN_ROWS_BY_ROLLOUTS, Level.FAILURE)
    assert set(found.affects) == set(Guarantee)
    other = replace(problem, known=known_row(1, 0))  # a row that is not known may lead anywhere
    assert rollout_findings(other, episodes_of(other, jumps=1)) == []


@pytest.mark.parametrize("make", [list, tuple, np.array])
def test_rollouts_made_by_hand_are_read_like_others(make):
    problem = replace(ring(), support=ring().simulator.kernel)
    by_hand = [Trajectory(make([0, 4, 4, 4, 4, 4, 4]), make([0] * 6))]
    found = look(problem, Guess(rows=0), max_rounds=5, rollouts=by_hand)
    assert Code.SUPPORT_BY_ROLLOUTS in {one.code for one in found.failures}
    assert [one.what for one in found.failures] == [
        one.what for one in look(problem, Guess(rows=0), max_rounds=5, rollouts=episodes_of(problem, jumps=1)[3:]).failures
    ]


def test_the_check_is_not_ready_then():
    problem = replace(ring(), known=known_row(0, 0))
    found = look(problem, Guess(rows=0), max_rounds=5, rollouts=episodes_of(problem, jumps=1))
    assert not found.ready
    assert Code.KNOWN_ROWS_BY_ROLLOUTS in {one.code for one in found.failures}
    assert all(found.guarantees.values())  # each with why it does not stand


def test_rows_that_change_with_the_step_are_told_apart():
    rows = np.zeros((2, 2, 1, 2))
    rows[0, :, 0, 0] = rows[1, :, 0, 1] = 1.0  # first to state 0, then to state 1
    kernel = s2r.Kernel.from_dense(rows)
    model = s2r.CMDP.of(kernel, 2, 0)
    assert not rows_left(kernel, [Trajectory.of(model, [0, 0, 1], [0, 0])]).any()
    assert np.flatnonzero(rows_left(kernel, [Trajectory.of(model, [0, 0, 0], [0, 0])])).tolist() == [2]
