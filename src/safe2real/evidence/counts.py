"""Visits and successors of every row: all that the real system has shown.

Pooled over steps for stationary dynamics (each episode adds H visits), per step otherwise (each adds one visit to one row of
every step), exactly as the paper counts. Memory grows with the distinct transitions seen, not with S^2.

A row's successors lie in a segment of their own. Compiled rounds count without asking, so every segment needs room for a
whole episode there: `make_room`. Where that is much memory, rows get it only as they are seen: `room_for`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from safe2real._compiled import tally as compiled_tally
from safe2real.errors import InvalidInput
from safe2real.model.archive import Archive
from safe2real.model.kernel import Kernel
from safe2real.model.trajectory import Trajectory
from safe2real.model.validation import Floats, Indices, bare, check_bytes, positive_integer, whole_numbers

_MOST = int(np.iinfo(np.uint32).max)  # transitions that can be indexed
_BYTES_OF_TRANSITION = 20  # successor, probability, count
_ROOM_AT_ONCE = 2**22  # slots of 20 bytes that all rows are given at the beginning, if it takes no more


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
        likely = np.minimum(simulator.num_states, simulator.length.astype(np.int64) + self._new_per_episode + 4)
        self.has_room = int(likely.sum()) <= _ROOM_AT_ONCE  # whether every row has room for any episode
        self.tally = self._lay_out(likely if self.has_room else np.zeros_like(likely), None)

    @property
    def rows_per_step(self) -> int:
        """Offset from the rows of a step to those of the next; 0 when counts are pooled over steps."""
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
            raise InvalidInput(
                f"the episode has {len(trajectory.actions)} actions; these counts are for {horizon} steps: make them with "
                "Counts(kernel, model.steps)"
            )
        self.room_for(*self.transitions_of(trajectory.states, trajectory.actions, np.array([0, horizon])))
        compiled_tally.record_episode(
            self.tally, bare(trajectory.states), bare(trajectory.actions), self.simulator.num_actions, self.rows_per_step
        )
        self.episodes += 1
        self.keep_room()

    def transitions_of(
        self, states: Indices, actions: Indices, ends: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return (row, successor) of every step of concatenated episodes, as in `HybridModel.observe_all`."""
        lengths = np.diff(ends)
        episode = np.repeat(np.arange(lengths.size), lengths)
        at = np.arange(int(ends[0]), int(ends[-1]))
        step = at - ends[:-1][episode]
        rows = states[at + episode].astype(np.int64) * self.simulator.num_actions + actions[at]
        return rows + step * self.rows_per_step, states[at + episode + 1].astype(np.int64)

    def add(self, rows: NDArray[np.int64], successors: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
        """Add transitions counted elsewhere, each `counts` [n] times, in unknown order."""
        self.room_for(rows, successors)
        for row, successor, count in zip(rows.tolist(), successors.tolist(), counts.tolist(), strict=True):
            self.keep_room()
            first, length = int(self.tally.begin[row]), int(self.tally.length[row])
            found = np.flatnonzero(self.tally.successor[first : first + length] == successor)
            at = first + (int(found[0]) if found.size else length)
            if not found.size:
                self.tally.successor[at] = successor
                self.tally.length[row] += np.uint32(1)
            self.tally.count[at] += count
            self.tally.visits[row] += count

    def transitions(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return (rows, successors, counts) of all observed transitions."""
        length = self.tally.length
        rows, at = np.repeat(np.arange(length.size), length), places_of(self.tally.begin, length)
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
        """Double the segments that could overflow in the next episode; return whether any row moved."""
        self.has_room = True
        tally, size = self.tally, self.simulator.num_states
        if not self.lacking_room.size:
            return False
        # Rows that will soon be full move in the same go: laying out costs as much for one row as for all.
        roomy = np.minimum(size, 2 * self._needed)
        self.tally = self._lay_out(np.maximum(tally.capacity.astype(np.int64), roomy), tally)
        return True

    @property
    def lacking_room(self) -> NDArray[np.int64]:
        """Rows whose segment could overflow in the next episode."""
        return np.flatnonzero(self.tally.capacity < self._needed)

    @property
    def _needed(self) -> NDArray[np.int64]:
        """[R] slots with which an episode cannot overflow the segment."""
        return np.asarray(np.minimum(self.simulator.num_states, self.tally.length.astype(np.int64) + self._new_per_episode))

    def keep_room(self) -> bool:
        """`make_room` where every row has had room before."""
        return self.has_room and self.make_room()

    def room_for(self, rows: NDArray[np.int64], successors: NDArray[np.int64]) -> NDArray[np.int64]:
        """Make sure that these transitions can be recorded, where not every row has room; gives the rows that moved.

        A row that is full goes to the end of the store, where it has twice the space.
        """
        if self.has_room:
            return np.empty(0, dtype=np.int64)
        tally, size = self.tally, self.simulator.num_states
        owner = distinct(rows * size + successors) // size  # a row for every successor of it
        moving = distinct(owner)
        new = np.searchsorted(owner, moving, side="right") - np.searchsorted(owner, moving)
        needed = np.minimum(size, tally.length[moving].astype(np.int64) + new)
        full = needed > tally.capacity[moving]
        moving, needed = np.asarray(moving[full], dtype=np.int64), needed[full]
        if not moving.size:
            return np.asarray(moving)
        capacity = np.minimum(size, np.maximum(needed, 2 * tally.capacity[moving].astype(np.int64)))
        begin = self._used + np.cumsum(capacity) - capacity
        self._used += int(capacity.sum())
        if self._used > tally.successor.size:
            total = _indexable(max(self._used, min(tally.successor.size * 3 // 2, _MOST)))
            kept = ("successor", "probability", "count")
            tally = self.tally = tally._replace(**{name: _longer(getattr(tally, name), total) for name in kept})
        length = tally.length[moving]
        source, target = places_of(tally.begin[moving], length), places_of(begin, length)
        for array in (tally.successor, tally.probability, tally.count):
            array[target] = array[source]
        tally.begin[moving], tally.capacity[moving] = begin, capacity
        return np.asarray(moving)

    def state(self, *, of_record: bool = False) -> Archive:
        """Return the counts; `of_record` leaves out spare room, which depends on the batches that were counted."""
        archive, tally = Archive("counts"), self.tally
        at = places_of(tally.begin, tally.length)
        archive.put("capacity", tally.length if of_record else tally.capacity)
        archive.put("length", tally.length)
        archive.put("visits", tally.visits)
        for field in ("successor", "probability", "count"):
            archive.put(field, getattr(tally, field)[at])
        archive.put("episodes", np.array([self.episodes], dtype=np.int64))
        return archive

    def restore(self, archive: Archive) -> None:
        """Restore saved counts of the same simulator.

        Raises:
            InvalidInput: the numbers do not fit together, or are of another simulator.
        """
        rows, size = self.simulator.num_rows, self.simulator.num_states
        capacity, length = (archive.array(field, np.uint32, (rows,)) for field in ("capacity", "length"))
        visits = archive.array("visits", np.int64, (rows,))
        stored = int(length.sum(dtype=np.int64))
        successor = archive.array("successor", np.uint32, (stored,))
        probability = archive.array("probability", np.float64, (stored,))
        count = archive.array("count", np.int64, (stored,))
        (episodes,) = archive.array("episodes", np.int64, (1,)).tolist()
        check_bytes(archive.name, int(capacity.sum(dtype=np.int64)) * _BYTES_OF_TRANSITION)
        seen = np.zeros(rows, dtype=np.int64)
        np.add.at(seen, np.repeat(np.arange(rows), length), count)
        possible = (length <= capacity).all() and (capacity <= size).all() and (successor < size).all() and (count > 0).all()
        if not possible or not np.array_equal(seen, visits) or not ((probability >= 0.0) & (probability <= 1.0)).all():
            raise archive.wrong("rows, successors or visits do not fit together")
        tally = self._lay_out(capacity.astype(np.int64), None)
        tally.length[:], tally.visits[:] = length, visits
        at = places_of(tally.begin, tally.length)
        tally.successor[at], tally.probability[at], tally.count[at] = successor, probability, count
        self.tally, self.episodes = tally, episodes
        self.has_room = self.lacking_room.size == 0  # where it is not, rows get it when it is needed

    def _lay_out(self, capacity: NDArray[np.int64], old: compiled_tally.Tally | None) -> compiled_tally.Tally:
        """Fresh segments of the given capacities behind the simulator's transitions, with the old content copied in."""
        simulator = self.simulator
        rows, stored = simulator.num_rows, simulator.successor.size
        begin = stored + np.cumsum(capacity) - capacity
        total = self._used = _indexable(stored + int(capacity.sum()))
        successor = np.zeros(total, dtype=np.uint32)
        probability = np.zeros(total)
        count = np.zeros(total, dtype=np.int64)
        successor[:stored], probability[:stored] = simulator.successor, simulator.probability
        length, visits = np.zeros(rows, dtype=np.uint32), np.zeros(rows, dtype=np.int64)
        if old is not None:
            length, visits = old.length, old.visits
            source, target = places_of(old.begin, length), places_of(begin, length)
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


def places_of(begin: NDArray[Any], length: NDArray[Any]) -> NDArray[np.int64]:
    """Return the indices of the rows' stored transitions, row after row."""
    sizes = length.astype(np.int64)
    within = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.repeat(begin.astype(np.int64), sizes) + within


def distinct(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the distinct values in order, by a sort: several times faster here than `np.unique`."""
    ordered = np.sort(numbers)
    return ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])] if ordered.size else ordered


def _indexable(total: int) -> int:
    if total > _MOST:
        raise InvalidInput(f"{total} transitions would have to be kept; at most {_MOST} can be indexed")
    return total


def _longer(array: NDArray[Any], total: int) -> NDArray[Any]:
    """Return the array extended by zeros."""
    result = np.zeros(total, dtype=array.dtype)
    result[: array.size] = array
    return result
