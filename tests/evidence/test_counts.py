"""Room for what is counted: at once for all rows of a small system, as they are seen in a large one; the same counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import safe2real as s2r
from safe2real._compiled.rows import Reach
from safe2real.evidence import counts as counts_module
from safe2real.evidence.counts import Counts
from safe2real.evidence.evidence import Evidence
from safe2real.evidence.row_rule import near_of
from safe2real.exploration import roll_out
from safe2real.planning.robust import reach_of

STATES, ACTIONS, HORIZON = 30, 2, 6


def system(rng: np.random.Generator, *, per_step: bool) -> s2r.CMDP:
    lead = (HORIZON,) if per_step else ()
    dense = rng.random((*lead, STATES, ACTIONS, STATES)) * (rng.random((*lead, STATES, ACTIONS, STATES)) < 0.4)
    dense[..., 0] += 0.01
    dense[..., 3, 0, :] = 1.0  # uniform rows
    dense /= dense.sum(axis=-1, keepdims=True)
    utility = rng.random((STATES, ACTIONS))
    return s2r.CMDP.of(s2r.Kernel.from_dense(dense), HORIZON, 0, [s2r.AtLeast(utility, 0.5)])


def evidence_of(model: s2r.CMDP) -> Evidence:
    baseline = s2r.MarkovPolicy.uniform(horizon=HORIZON, num_states=STATES, num_actions=ACTIONS)
    settings = s2r.Settings(margin=0.2, calibrated_gap=0.0, mismatch_gap=0.5, tolerance=0.05)
    return Evidence(s2r.Problem(model, baseline, settings))


def learn(evidence: Evidence, episodes: int) -> None:
    """One by one, waiting and in batches."""
    problem, planned = evidence.problem, np.zeros(evidence.counts.simulator.num_rows, dtype=np.int64)
    ran = [roll_out(problem.simulator, problem.baseline, seed=4, round_number=i) for i in range(episodes)]
    third = episodes // 3
    for episode in ran[:third]:
        evidence.take(episode, of_baseline=True)
    for episode in ran[third : 2 * third]:
        evidence.take(episode, of_baseline=True, planned=planned)
    rest = ran[2 * third :]
    ends = np.arange(len(rest) + 1) * HORIZON
    states, actions = (np.concatenate([getattr(one, name) for one in rest]) for name in ("states", "actions"))
    half = len(rest) // 2
    evidence.count(states[: half * (HORIZON + 1)], actions[: half * HORIZON], ends[: half + 1])
    evidence.count(states[half * (HORIZON + 1) :], actions[half * HORIZON :], ends[half:] - ends[half], at_once=True)


def told(evidence: Evidence) -> list[np.ndarray]:
    """All that it knows, wherever it lies."""
    belief = [getattr(evidence.belief, name) for name in evidence.belief._fields if name != "begin"]
    kernel = evidence.to_kernel()
    return [*belief, *evidence.counts.transitions(), kernel.begin, kernel.length, kernel.successor, kernel.probability]


@pytest.mark.parametrize("per_step", [False, True])
def test_room_as_rows_are_seen_gives_the_same_counts_and_model(per_step: bool, monkeypatch: Any) -> None:
    model = system(np.random.default_rng(1), per_step=per_step)
    roomy = evidence_of(model)
    monkeypatch.setattr(counts_module, "_ROOM_AT_ONCE", 0)
    scant = evidence_of(model)
    assert roomy.counts.has_room
    assert scant.counts.tally.capacity.sum() == 0
    learn(roomy, 60)
    learn(scant, 60)
    assert not scant.counts.has_room
    assert scant.counts.tally.capacity.sum() < roomy.counts.tally.capacity.sum() / (1.0 if per_step else 1.5)
    for one, other in zip(told(roomy), told(scant), strict=True):
        np.testing.assert_array_equal(one, other)
    tally = scant.counts.tally
    segments = np.zeros(tally.successor.size, dtype=np.int64)
    for begin, capacity in zip(tally.begin.tolist(), tally.capacity.tolist(), strict=True):
        segments[begin : begin + capacity] += 1
    assert segments.max() == 1  # no two rows share a place
    assert not segments[: model.kernel.successor.size].any()
    scant.make_room()  # compiled rounds may begin
    assert (scant.counts.tally.capacity >= np.minimum(STATES, tally.length + (1 if per_step else HORIZON))).all()
    for one, other in zip(told(roomy), told(scant), strict=True):
        np.testing.assert_array_equal(one, other)


def test_compiled_rounds_on_evidence_without_room_are_those_with_it(monkeypatch: Any) -> None:
    model = system(np.random.default_rng(2), per_step=False)
    roomy = s2r.Learner(evidence_of(model).problem)
    monkeypatch.setattr(counts_module, "_ROOM_AT_ONCE", 0)
    scant = s2r.Learner(evidence_of(model).problem)
    for learner in (roomy, scant):
        s2r.simulate(learner, model.kernel, max_rounds=40)
    for one, other in zip(told(roomy.evidence), told(scant.evidence), strict=True):
        np.testing.assert_array_equal(one, other)


def test_transitions_counted_elsewhere_find_room(monkeypatch: Any) -> None:
    monkeypatch.setattr(counts_module, "_ROOM_AT_ONCE", 0)
    counts = Counts(system(np.random.default_rng(3), per_step=False).kernel, HORIZON)
    rows, successors = np.repeat([5, 7], STATES), np.tile(np.arange(STATES), 2)
    counts.add(rows, successors, np.full(rows.size, 2))
    assert counts.visits.reshape(-1)[[5, 7]].tolist() == [2 * STATES] * 2
    np.testing.assert_array_equal(np.stack(counts.transitions()), np.stack([rows, successors, np.full(rows.size, 2)]))


@pytest.mark.parametrize("per_step", [False, True])
def test_the_near_successors_of_a_state_are_those_of_all_its_actions(per_step: bool) -> None:
    kernel = system(np.random.default_rng(5), per_step=per_step).kernel
    near, dense = near_of(kernel, reach_of(None, kernel)), kernel.to_dense().reshape(-1, ACTIONS, STATES)
    declared = Reach(kernel.begin, np.where(np.arange(kernel.num_rows) % 3, 0, kernel.length), kernel.successor)
    shorter = near_of(kernel, declared)
    for row in range(kernel.num_rows):
        there = np.flatnonzero(dense[row // ACTIONS].any(axis=0))
        wanted = [] if there.size == STATES else there.tolist()
        first, length = int(near.begin[row]), int(near.length[row])
        assert near.successor[first : first + length].tolist() == wanted
        assert shorter.length[row] == (0 if declared.length[row] else length)
    assert (near.length == 0).any()
    assert (near.length > 0).any()
