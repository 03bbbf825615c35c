"""Visits and successors of every row: all that the real system has shown.

Pooled over steps for stationary dynamics (each episode adds H visits), per step otherwise (each adds one visit to one row of
every step), exactly as the paper counts. Memory grows with the distinct transitions seen, not with S^2.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from safe2real._compiled import tally as compiled_tally
from safe2real.errors import InvalidInput
from safe2real.model.checks import Floats, bare, positive_integer, whole_numbers
from safe2real.model.kernel import Kernel
from safe2real.model.trajectory import Trajectory


class Counts:
    """Counts beside the rows of a simulator; pooled when the simulator is stationary, per step otherwise."""

    def __init__(self, simulator: Kernel, horizon: int) -> None:
        self.simulator = simulator
        self.horizon = positive_integer("horizon", horizon)
        if simulator.horizon not in (None, self.horizon):
            raise InvalidInput(
                f"horizon is {horizon} but the simulator has rows for {simulator.horizon} steps; make them equal"
            )
        self.episodes = 0
        # New successors a row can meet in one episode; every segment keeps that much room.
        self._new_per_episode = horizon if simulator.is_stationary else 1
        likely = simulator.length.astype(np.int64) + self._new_per_episode + 4
        self.tally = self._lay_out(np.minimum(simulator.num_states, likely), None)

    @property
    def rows_per_step(self) -> int:
        """0 when counts are pooled over steps."""
        return 0 if self.simulator.is_stationary else self.simulator.num_states * self.simulator.num_actions

    @property
    def visits(self) -> NDArray[np.int64]:
        """n(s, a) as [S, A], or [H, S, A] per step; a copy."""
        return np.array(self.tally.visits).reshape(self.simulator.shape)

    @property
    def samples(self) -> int:
        """State-action pairs sampled from the real system."""
        return int(self.tally.visits.sum())

    def record(self, trajectory: Trajectory) -> None:
        """Add one episode; its transitions need not be possible in the simulator."""
        size, horizon = self.simulator.num_states, self.horizon
        whole_numbers("states", trajectory.states, below=size, what="states")
        whole_numbers("actions", trajectory.actions, below=self.simulator.num_actions, what="actions")
        if len(trajectory.actions) != horizon or len(trajectory.states) != horizon + 1:
            raise InvalidInput(f"the episode has {len(trajectory.actions)} actions; these counts are for {horizon} steps")
        compiled_tally.record_episode(
            self.tally, bare(trajectory.states), bare(trajectory.actions), self.simulator.num_actions, self.rows_per_step
        )
        self.episodes += 1
        self.make_room()

    def add(self, rows: NDArray[np.int64], successors: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
        """Add transitions that were counted elsewhere, each as often as `counts` [n] says; no order is known of them."""
        for row, successor, count in zip(rows.tolist(), successors.tolist(), counts.tolist(), strict=True):
            self.make_room()
            first, length = int(self.tally.begin[row]), int(self.tally.length[row])
            found = np.flatnonzero(self.tally.successor[first : first + length] == successor)
            at = first + (int(found[0]) if found.size else length)
            if not found.size:
                self.tally.successor[at] = successor
                self.tally.length[row] += np.uint32(1)
            self.tally.count[at] += count
            self.tally.visits[row] += count

    def transitions(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """(rows, successors, how often) of everything that was seen."""
        length = self.tally.length.astype(np.int64)
        rows = np.repeat(np.arange(length.size), length)
        within = np.arange(rows.size) - np.repeat(np.cumsum(length) - length, length)
        at = self.tally.begin.astype(np.int64)[rows] + within
        return rows, self.tally.successor[at].astype(np.int64), self.tally.count[at]

    def empirical_row(self, row: int) -> Floats:
        """Observed successor frequencies [S]; uniform for an unvisited row (paper, eq. def-hat-P-real)."""
        size = self.simulator.num_states
        n = int(self.tally.visits[row])
        if n == 0:
            return np.full(size, 1.0 / size)
        first, count = int(self.tally.begin[row]), int(self.tally.length[row])
        result = np.zeros(size)
        result[self.tally.successor[first : first + count]] = self.tally.count[first : first + count] / n
        return result

    def distances(self) -> Floats:
        """TV distance of every empirical row to the simulator's [R]; unvisited rows count as uniform."""
        result = np.empty(self.simulator.num_rows)
        compiled_tally.distances(self.tally, self.simulator.num_states, result)
        return result

    def make_room(self) -> bool:
        """Give rows whose segment could overflow in the next episode twice the space; says whether anything moved."""
        tally, size = self.tally, self.simulator.num_states
        needed = np.minimum(size, tally.length.astype(np.int64) + self._new_per_episode)
        full = tally.capacity < needed
        if not full.any():
            return False
        # Rows that will soon be full move in the same go: laying out costs as much for one row as for all.
        roomy = np.minimum(size, 2 * needed)
        self.tally = self._lay_out(np.maximum(tally.capacity.astype(np.int64), roomy), tally)
        return True

    def _lay_out(self, capacity: NDArray[np.int64], old: compiled_tally.Tally | None) -> compiled_tally.Tally:
        """Fresh segments of the given capacities behind the simulator's transitions, with the old content copied in."""
        simulator = self.simulator
        rows, stored = simulator.num_rows, simulator.successor.size
        begin = stored + np.cumsum(capacity) - capacity
        total = stored + int(capacity.sum())
        if total > np.iinfo(np.uint32).max:
            raise InvalidInput(
                f"{total} transitions would have to be kept; at most {np.iinfo(np.uint32).max} can be indexed"
            )
        successor = np.zeros(total, dtype=np.uint32)
        probability = np.zeros(total)
        count = np.zeros(total, dtype=np.int64)
        successor[:stored], probability[:stored] = simulator.successor, simulator.probability
        length, visits = np.zeros(rows, dtype=np.uint32), np.zeros(rows, dtype=np.int64)
        if old is not None:
            length, visits = old.length, old.visits
            within = np.arange(int(length.sum())) - np.repeat(np.cumsum(length, dtype=np.int64) - length, length)
            source = np.repeat(old.begin.astype(np.int64), length) + within
            target = np.repeat(begin, length) + within
            for new, previous in ((successor, old.successor), (probability, old.probability), (count, old.count)):
                new[target] = previous[source]
        return compiled_tally.Tally(
            simulator_begin=simulator.begin.copy(),
            simulator_length=simulator.length.copy(),
            begin=begin.astype(np.uint32),
            length=length,
            capacity=capacity.astype(np.uint32),
            successor=successor,
            probability=probability,
            count=count,
            visits=visits,
        )
