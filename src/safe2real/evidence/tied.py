"""Evidence in which rows are learnt together: one hybrid model of units, shown as rows.

The units (`pooling.py`) have a hybrid model of their own, with all that follows from counts: sets, suspects, what is cleared
and refuted. The union bound is over units. A row of a class is its unit's law, label by label, with the successor that each
label has there: a TV or KL ball around a law is pushed forward to one of the same radius, so that everything that looks at
rows, robust or not, looks at these.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from safe2real._compiled.rows import Reach, Rows
from safe2real._compiled.tally import record_episode
from safe2real.errors import InvalidInput
from safe2real.evidence.evidence import Evidence, share_of_sets
from safe2real.evidence.hybrid import HybridModel, Separation
from safe2real.evidence.pooling import Ints, Pooling, pooling_of
from safe2real.evidence.tie_test import TieTest
from safe2real.model.checks import Floats, Indices, bare
from safe2real.model.kernel import Kernel
from safe2real.model.trajectory import Trajectory
from safe2real.problem.problem import Problem
from safe2real.radii.base import System
from safe2real.standing import Assumption, AssumptionCode, Doubt, DoubtCode

_BY_ROW = ("constant", "size", "profile", "near_profile", "near_begin", "near_length", "likelihood", "within")


class UnitModel(HybridModel):
    """The hybrid model of the units of a problem; a visit is an episode of one step, from its unit to its outcome."""

    def __init__(self, problem: Problem, pooling: Pooling, *, reuses_simulator: bool) -> None:
        settings, model = problem.settings, problem.simulator
        self._pooling = pooling
        self._sizes_of = System(max(model.num_states, pooling.leads.shape[1]), model.num_actions, model.horizon)
        super().__init__(
            pooling.kernel,
            model.horizon,
            separation=Separation(settings.calibrated_gap, settings.mismatch_gap) if reuses_simulator else None,
            radius=settings.radius,
            delta=settings.delta * share_of_sets(problem),
            bonus_scale=settings.bonus_scale,
            known=pooling.known,
            support=pooling.support,
            within=pooling.within,
            refinements=settings.refinements,
        )

    def _system(self) -> System:
        return self._sizes_of

    def _near(self) -> Reach:
        return self._pooling.near

    def visit(self, units: Ints, outcomes: Ints) -> None:
        """Visits one after the other, the deletion rule after each."""
        pairs = np.stack([units, outcomes], axis=1).astype(np.uint32).reshape(-1)
        self.observe_all(pairs, np.zeros(units.size, dtype=np.uint32), np.arange(units.size + 1))

    def visit_at_once(self, units: Ints, outcomes: Ints, often: Ints) -> None:
        """Visits of which no order is known: nothing is concluded before all of them are counted."""
        self.counts.add(units, outcomes, often)
        self.update()


class TiedEvidence(Evidence):
    """Counts and what follows from them, for a problem whose rows are learnt together."""

    def __init__(
        self, problem: Problem, *, reuses_simulator: bool = True, keeps_safe: bool = True, ties: bool | None = None
    ) -> None:
        """`ties` says whether those of the problem are taken for true; if it is left out, whether they were said to be."""
        self.ties = problem.ties if ties or (ties is None and problem.ties is not None and problem.ties.exact) else None
        self.pooling = pooling_of(problem, ties=self.ties is not None)
        self.units = UnitModel(problem, self.pooling, reuses_simulator=reuses_simulator)
        self.test = TieTest(problem, self.pooling)
        self._fed: dict[tuple[int, int], int] = {}  # what was taken over from elsewhere: (row, successor) -> how often
        super().__init__(problem, reuses_simulator=reuses_simulator, keeps_safe=keeps_safe)

    @property
    def runs_compiled(self) -> bool:
        return False  # compiled rounds count rows

    # Counting

    def observe(self, trajectory: Trajectory) -> None:
        labels = self._reported(trajectory)
        ends = np.array([0, trajectory.length])
        self._take(trajectory.states, trajectory.actions, ends, labels)

    def observe_all(self, states: Indices, actions: Indices, ends: NDArray[np.int64]) -> None:
        self._take(states, actions, ends, None)

    def record(self, trajectory: Trajectory, planned: NDArray[np.int64], growth: float) -> bool:
        """Count one episode; the model follows at once. Says whether another plan is due, by the visits to units."""
        rows, _ = self._transitions(trajectory.states, trajectory.actions, np.array([0, trajectory.length]))
        suspect = self.belief.suspect[rows]
        self.observe(trajectory)
        before = self.pool(planned)[rows]
        grown = self.pool(self.counts.tally.visits)[rows] > (1.0 + growth) * before
        return bool((suspect & grown).any() or (self.rule.proves and self.belief.refuted.any()))

    def record_all(self, states: Indices, actions: Indices, ends: NDArray[np.int64]) -> None:
        self._count(states, actions, ends)
        rows, successors = self._transitions(states, actions, ends)
        self._learn(rows, self.pooling.outcomes(rows, successors), self.pooling.counted[rows], at_once=True)

    def update(self) -> None:
        self.units.update()
        self._show()

    def make_room(self) -> None:
        self.counts.make_room()  # the model's rows are elsewhere

    def refute(self, step: int, state: int, action: int) -> None:
        super().refute(step, state, action)
        self._show()

    def catch_up(self) -> None:
        """Take over what somebody else has put into `counts` since the last time; of that, no order is known."""
        rows, successors, often = self.counts.transitions()
        keys = list(zip(rows.tolist(), successors.tolist(), strict=True))
        new = often - np.array([self._fed.get(key, 0) for key in keys], dtype=np.int64)
        if not new.any():
            return
        self._fed = dict(zip(keys, often.tolist(), strict=True))
        outcomes = self.pooling.outcomes(rows, successors)
        self._learn(rows, outcomes, self.pooling.counted[rows] & (new > 0), at_once=True, often=new)

    def _take(self, states: Indices, actions: Indices, ends: NDArray[np.int64], labels: Ints | None) -> None:
        self._count(states, actions, ends)
        rows, successors = self._transitions(states, actions, ends)
        outcomes, counted = self.pooling.outcomes(rows, successors), self.pooling.counted[rows]
        if labels is not None:
            tied = self.pooling.tied[rows]
            outcomes, counted = np.where(tied, labels, outcomes), counted | tied
        self._learn(rows, outcomes, counted, at_once=False)

    def _count(self, states: Indices, actions: Indices, ends: NDArray[np.int64]) -> None:
        """Row by row, as if nothing were tied: what the test of the ties looks at."""
        states, actions = bare(states), bare(actions)
        self._check_support(states, actions, ends)
        for i in range(len(ends) - 1):
            first, last = int(ends[i]), int(ends[i + 1])
            visited, chosen = states[first + i : last + i + 1], actions[first:last]
            record_episode(self.counts.tally, visited, chosen, self.counts.simulator.num_actions, self.counts.rows_per_step)
            self.counts.episodes += 1
            self.counts.make_room()

    def _learn(
        self, rows: Ints, outcomes: Ints, counted: NDArray[np.bool_], *, at_once: bool, often: Ints | None = None
    ) -> None:
        """Visits to units; one whose outcome no label explains has been noticed by the support already."""
        use = counted & (outcomes >= 0)
        units, outcomes = self.pooling.unit[rows[use]], outcomes[use]
        if at_once:
            self.units.visit_at_once(units, outcomes, np.ones(units.size, dtype=np.int64) if often is None else often[use])
        elif units.size:
            self.units.visit(units, outcomes)
        self.test.look(self.counts)
        self._show()

    def _transitions(self, states: Indices, actions: Indices, ends: NDArray[np.int64]) -> tuple[Ints, Ints]:
        """(row, successor) of every step of episodes laid end to end."""
        steps = np.arange(int(ends[-1]))
        episode = np.searchsorted(ends, steps, side="right") - 1
        here = np.asarray(states).astype(np.int64)[steps + episode]
        after = np.asarray(states).astype(np.int64)[steps + episode + 1]
        rows = (steps - ends[episode]) * self.counts.rows_per_step
        return rows + here * self.counts.simulator.num_actions + np.asarray(actions).astype(np.int64)[steps], after

    def _reported(self, trajectory: Trajectory) -> Ints | None:
        """The labels that an episode reports, held against where they lead; refused before anything is counted."""
        if self.ties is None or not self.ties.reported:
            return None
        if trajectory.labels is None:
            raise InvalidInput(
                "the ties say that every episode reports its labels, and this one has none; give Trajectory.of(..., "
                "labels=...)"
            )
        labels = np.asarray(trajectory.labels).astype(np.int64)
        rows, successors = self._transitions(trajectory.states, trajectory.actions, np.array([0, trajectory.length]))
        tied, most = self.pooling.tied[rows], self.ties.num_labels
        leads = self.pooling.leads[rows, np.minimum(labels, most - 1)]
        wrong = np.flatnonzero(tied & ((labels >= most) | (leads != successors)))
        if wrong.size:
            step = int(wrong[0])
            said = f"labels run from 0 to {most - 1}" if labels[step] >= most else f"that leads to state {leads[step]}"
            raise InvalidInput(
                f"labels[{step}] is {labels[step]} where the episode goes to state {successors[step]}; {said}: report what "
                "was drawn, or call the episode one that left the model"
            )
        return labels

    # The units, shown as rows

    def _show(self) -> None:
        """Everything that is known of units, for each of their rows."""
        pooling, units = self.pooling, self.units
        units.belief.refuted[pooling.unit[self.belief.refuted]] = True
        units.belief.refuted[pooling.unit[self.test.rows[self.test.refuted]]] = True
        self._store = _Store(pooling, units)
        by_row = {name: _by_row(getattr(units.rule, name), pooling.unit) for name in _BY_ROW}
        self.rule = type(units.rule)(**{**units.rule._asdict(), **by_row})
        self.reach = pooling.reach
        begin, length = self._store.places(units.belief.begin, units.belief.length)
        self.belief = type(units.belief)(*(field[pooling.unit] for field in units.belief))._replace(
            begin=begin, length=length
        )

    @property
    def rows(self) -> Rows:
        return Rows(self.belief.begin, self.belief.length, self._store.successor, self._store.probability)

    def view(self, wrong: NDArray[np.bool_] | None = None) -> Kernel:
        simulator, rows = self.counts.simulator, self.rows
        if wrong is not None:
            tally = self.units.counts.tally
            begin, length = tally.simulator_begin.copy(), tally.simulator_length.copy()
            off = self.pooling.unit[wrong]
            begin[off], length[off] = tally.begin[off], tally.length[off]
            begin, length = self._store.places(begin, length)
            rows = rows._replace(begin=begin, length=length)
        return Kernel(simulator.num_states, simulator.num_actions, simulator.horizon, rows)

    def to_kernel(self) -> Kernel:
        simulator, rows = self.counts.simulator, self.rows
        dense = np.zeros((simulator.num_rows, simulator.num_states))
        for row in range(simulator.num_rows):
            first, count = int(rows.begin[row]), int(rows.length[row])
            if count == 0:
                dense[row] = 1.0 / simulator.num_states
            np.add.at(dense[row], rows.successor[first : first + count], rows.probability[first : first + count])
        return Kernel.from_dense(dense.reshape((*simulator.shape, simulator.num_states)))

    def pool(self, visits: NDArray[Any]) -> NDArray[Any]:
        flat, counted, unit = visits.reshape(-1), self.pooling.counted, self.pooling.unit
        total = np.bincount(unit[counted], weights=flat[counted], minlength=self.pooling.classes.size)
        return total[unit].astype(visits.dtype).reshape(visits.shape)

    @property
    def seen(self) -> NDArray[np.int64]:
        return self.units.seen[self.pooling.unit]

    @property
    def distances(self) -> Floats:
        return self._shaped(self.units.distances[self.pooling.unit])

    @property
    def radii(self) -> Floats:
        return self._shaped(self.units.radii[self.pooling.unit])

    @property
    def all_near(self) -> NDArray[np.bool_]:
        return self.units.all_near[self.pooling.unit]

    # What it rests on

    def doubts(self) -> tuple[Doubt, ...]:
        found = super().doubts()
        if not (self.test.is_refuted and self.problem.settings.certified):
            return found
        text = f"the data refute the ties: {int(self.test.refuted.sum())} rows differ from the rest of their class"
        return (Doubt(DoubtCode.STRUCTURE_REFUTED, text), *found)

    def assumptions(self) -> tuple[Assumption, ...]:
        found = super().assumptions()
        if self.ties is None:  # copies are true by construction
            return found
        rows, classes = int(self.pooling.tied.sum()), int((self.pooling.classes >= 0).sum())
        text = (
            f"the {rows} rows that were tied behave as {classes} do: those of a class share one law over outcome labels, "
            "and each label leads where the ties say"
        )
        return (Assumption(AssumptionCode.TIES, text), *found)


class _Store:
    """Successors and probabilities of all rows: the units' own, then every tied row label by label, seen and simulated."""

    def __init__(self, pooling: Pooling, units: UnitModel) -> None:
        tally, kernel = units.counts.tally, pooling.kernel
        tied = np.flatnonzero(pooling.tied)
        possible = pooling.leads[tied] >= 0  # [T, L]
        at, label = np.nonzero(possible)
        unit = pooling.unit[tied[at]]
        self._unit, self._tied, self._length = pooling.unit, tied, possible.sum(axis=1)
        self._first, self._simulated = tally.successor.size, kernel.rows.successor.size
        self._each = at.size
        seen, simulated = (
            _laws(pooling, tally.successor, tally.probability, *pointers)
            for pointers in ((tally.begin, tally.length), (tally.simulator_begin, tally.simulator_length))
        )
        successor = pooling.leads[tied[at], label].astype(np.uint32)
        self.successor = np.concatenate([tally.successor, successor, successor])
        self.probability = np.concatenate([tally.probability, seen[unit, label], simulated[unit, label]])

    def places(self, begin: Indices, length: Indices) -> tuple[Indices, Indices]:
        """[R] where the rows of units lie whose own are at `begin`, `length` [U]: the units' own, or label by label."""
        rows, lengths = begin[self._unit], length[self._unit]
        first = np.cumsum(self._length) - self._length
        learnt = rows[self._tied].astype(np.int64) >= self._simulated  # else it points at the simulator's law
        rows[self._tied] = self._first + first + np.where(learnt, 0, self._each)
        lengths[self._tied] = self._length
        return rows, lengths


def _laws(pooling: Pooling, successor: Indices, probability: Floats, begin: Indices, length: Indices) -> Floats:
    """[U, L] of every class that is stored there; uniform over what is possible where nothing is stored."""
    classes = np.flatnonzero(pooling.classes >= 0)
    result = np.zeros((pooling.classes.size, pooling.leads.shape[1]))
    sizes = length[classes].astype(np.int64)
    unit = np.repeat(classes, sizes)
    at = begin.astype(np.int64)[unit] + np.arange(unit.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    result[unit, successor[at]] = probability[at]
    for empty in classes[sizes == 0]:
        row = int(np.flatnonzero(pooling.unit == empty)[0])
        result[empty] = (pooling.leads[row] >= 0) / (pooling.leads[row] >= 0).sum()
    return result


def _by_row(array: NDArray[Any], unit: Ints) -> NDArray[Any]:
    return array[unit] if array.size else array


def evidence_for(problem: Problem, *, reuses_simulator: bool, keeps_safe: bool) -> Evidence:
    """Nothing counted yet: rows are learnt together where that is certain, by construction or by the user's word."""
    together = problem.copies is not None or (problem.ties is not None and problem.ties.exact)
    kind = TiedEvidence if together else Evidence
    return kind(problem, reuses_simulator=reuses_simulator, keeps_safe=keeps_safe)


def structured_of(evidence: Evidence, before: TiedEvidence | None) -> TiedEvidence:
    """The same counts with the problem's ties taken for true; goes on from what it was `before`."""
    if before is None or before.counts is not evidence.counts:
        reuses, keeps = evidence.reuses_simulator, evidence.keeps_safe
        before = TiedEvidence(evidence.problem, reuses_simulator=reuses, keeps_safe=keeps, ties=True)
        before.counts = evidence.counts
    before.trust, before.faults = evidence.trust, evidence.faults
    before.outside_support, before.departed = evidence.outside_support, evidence.departed
    before.catch_up()
    return before
