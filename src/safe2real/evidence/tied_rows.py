"""Evidence for rows that are tied: counts are pooled by unit, and a unit's law is pushed forward to each of its rows.

Ties that are not declared exact are tested (`TieTest`) and certify nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from safe2real._compiled.rows import Reach, Rows
from safe2real.errors import InvalidInput
from safe2real.evidence.counts import Counts, places_of
from safe2real.evidence.evidence import Evidence
from safe2real.evidence.hybrid import HybridModel
from safe2real.evidence.pooling import Ints, Pooling, pooling_of
from safe2real.evidence.row_rule import StatedRows
from safe2real.model.archive import Archive
from safe2real.model.kernel import Kernel
from safe2real.model.trajectory import Trajectory
from safe2real.model.validation import ROUNDING, Floats, Indices
from safe2real.problem.problem import Problem
from safe2real.problem.ties import summed
from safe2real.radii import RowShape, System
from safe2real.standing import Assumption, AssumptionCode, Doubt, DoubtCode


class UnitModel(HybridModel):
    """The hybrid model of the units of a problem; a visit is an episode of one step, from its unit to its outcome."""

    def __init__(self, problem: Problem, pooling: Pooling, *, reuses_simulator: bool) -> None:
        self._pooling, horizon = pooling, problem.simulator.horizon
        stated = StatedRows(pooling.known, pooling.support, pooling.within)
        super().__init__(pooling.kernel, horizon, problem.settings, stated, reuses_simulator=reuses_simulator)

    def _system(self) -> System:
        return self._pooling.system

    def _near(self) -> Reach:
        return self._pooling.near

    def visit(self, units: Ints, outcomes: Ints) -> None:
        """Count visits in order, updating the model after each."""
        pairs = np.stack([units, outcomes], axis=1).astype(np.uint32).reshape(-1)
        self.observe_all(pairs, np.zeros(units.size, dtype=np.uint32), np.arange(units.size + 1))

    def visit_at_once(self, units: Ints, outcomes: Ints, often: Ints) -> None:
        """Count visits whose order is unknown: all of them first, then update the model once."""
        self.counts.add(units, outcomes, often)
        self.update()


class Store:
    """Successors and probabilities of all rows: the units' own, then every tied row label by label, seen and simulated."""

    def __init__(self, pooling: Pooling, units: UnitModel) -> None:
        tally, kernel = units.counts.tally, pooling.kernel
        tied = np.flatnonzero(pooling.tied)
        possible = pooling.leads[tied] >= 0  # [T, L]
        at, label = np.nonzero(possible)
        unit = pooling.shared[tied[at]]
        self._classes, self._tied, self._length = pooling.classes, tied, possible.sum(axis=1)
        self._first, self._simulated = tally.successor.size, kernel.compiled_rows.successor.size
        self._each = at.size
        seen, simulated = (
            _laws(pooling, tally.successor, tally.probability, *pointers)
            for pointers in ((tally.begin, tally.length), (tally.simulator_begin, tally.simulator_length))
        )
        successor = pooling.leads[tied[at], label].astype(np.uint32)
        self.successor = np.concatenate([tally.successor, successor, successor])
        self.probability = np.concatenate([tally.probability, seen[unit, label], simulated[unit, label]])

    def places(self, begin: Indices, length: Indices, source: Ints) -> tuple[Indices, Indices]:
        """[R] where the rows lie that are learnt from the units `source` [R], whose own are at `begin`, `length` [U]."""
        rows, lengths = begin[source], length[source]
        by_label = self._classes[source[self._tied]] >= 0
        first = (np.cumsum(self._length) - self._length)[by_label]
        here = self._tied[by_label]
        learnt = rows[here].astype(np.int64) >= self._simulated  # else it points at the simulator's law
        rows[here] = self._first + first + np.where(learnt, 0, self._each)
        lengths[here] = self._length[by_label]
        return rows, lengths


def _laws(pooling: Pooling, successor: Indices, probability: Floats, begin: Indices, length: Indices) -> Floats:
    """[U, L] the stored law of every class; uniform over its possible labels if none is stored."""
    classes = np.flatnonzero(pooling.classes >= 0)
    result = np.zeros((pooling.classes.size, pooling.leads.shape[1]))
    sizes = length[classes].astype(np.int64)
    unit, at = np.repeat(classes, sizes), places_of(begin[classes], sizes)
    result[unit, successor[at]] = probability[at]
    for empty in classes[sizes == 0]:
        row = int(np.flatnonzero(pooling.shared == empty)[0])
        result[empty] = (pooling.leads[row] >= 0) / (pooling.leads[row] >= 0).sum()
    return result


# Are rows that were declared alike, alike?
#
# Problem: ties that are false would be believed before anything else objects. Two tests, each with half of `SHARE` of
# delta. Each row against the rest of its class: by a confidence radius that holds at all times at once, the observed law
# of a row lies within its radius of the row's real law, and that of the other rows of its class within theirs of the law
# of the class; if the ties are true these are one, pushed through the row's map, and the observed laws are never farther
# apart than both radii. All of a class at once: the likelihood of the observations under laws of their own, a free mixture
# for each row or for each state, over that under the best single law; if the ties are true that is at most a nonnegative
# martingale that begins at 1, which by Ville's inequality hardly ever becomes large. A refutation is final. True ties are
# refuted with probability at most `SHARE` of delta: a false alarm, which costs their use and no safety. Proofs:
# docs/structure.md.

SHARE = 0.1
_LOOKS = 8  # the next test is due when the visits have grown by 1 / _LOOKS


class TieTest:
    """Tests of whether the rows of each class are alike, with the refuted rows so far."""

    def __init__(self, problem: Problem, pooling: Pooling) -> None:
        self._pooling, self._radius = pooling, problem.settings.radius
        self.rows: Ints = np.flatnonzero(pooling.tied)  # [T] the rows that are tested
        self._delta = 0.5 * SHARE * problem.settings.delta  # of each test
        counted = np.flatnonzero(pooling.counted)
        actions = problem.simulator.num_actions
        self._groups = [counted, counted // actions * actions]  # by row, by state
        self._classes = np.unique(pooling.shared[counted])  # [C]
        self.refuted: NDArray[np.bool_] = np.zeros(self.rows.size, dtype=np.bool_)  # [T] never taken back
        self._next = 1  # visits to tested rows at which the next test is due

    @property
    def refuted_classes(self) -> list[int]:
        """The classes whose rows are shown not to be alike."""
        found = np.unique(self._pooling.classes[self._pooling.shared[self.rows[self.refuted]]])
        return [int(number) for number in found]

    @property
    def is_refuted(self) -> bool:
        return bool(self.refuted.any())

    def look(self, counts: Counts) -> None:
        """Test each tested row against the rest of its class, if a test is due; that depends on visits only."""
        visits = int(counts.tally.visits[self.rows].sum()) if self.rows.size else 0
        if visits < self._next or not self.rows.size:
            return
        self._next = visits + max(1, visits // _LOOKS)
        own, rest = self.observed(counts)
        n, others = own.sum(axis=1), rest.sum(axis=1)
        both = (n > 0) & (others > 0)
        apart = np.zeros(n.shape)
        apart[both] = 0.5 * np.abs(own[both] / n[both, None] - self._pushed(rest)[both] / others[both, None]).sum(axis=1)
        self.refuted |= both & (apart > self.radii(own) + self.radii(rest) + ROUNDING)
        beyond = self._classes[self.evidence(counts) >= np.log(max(1, self._classes.size) / self._delta)]
        self.refuted |= np.isin(self._pooling.shared[self.rows], beyond)

    def state(self) -> Archive:
        """Return the refuted rows, and when the next test is due."""
        archive = Archive("tie test")
        archive.document = {"next": self._next}
        archive.put("refuted", self.refuted)
        return archive

    def restore(self, archive: Archive) -> None:
        """Restore the `state` of a test of the same ties."""
        archive.fill("refuted", self.refuted)
        self._next = archive.whole("next")

    def evidence(self, counts: Counts) -> Floats:
        """[C] log of the likelihood of each class under laws of their own over that under the best single law."""
        pooling, own = self._pooling, self._label_counts(counts)
        counted = np.flatnonzero(pooling.counted)
        possible = (pooling.leads[counted] >= 0).sum(axis=1)
        every = []
        for group in self._groups:  # rows of one group that are of one class share a law in the numerator
            keys, first, at = np.unique(
                np.stack([pooling.shared[counted], group]), axis=1, return_index=True, return_inverse=True
            )
            together = np.zeros((first.size, own.shape[1]), dtype=np.int64)
            np.add.at(together, at.reshape(-1), own[counted])
            every.append(
                summed(np.searchsorted(self._classes, keys[0]), _mixtures(together, possible[first]), self._classes.size)
            )
        numerator = np.logaddexp.reduce(every, axis=0) - np.log(len(every))
        total = np.zeros((self._classes.size, own.shape[1]), dtype=np.int64)
        np.add.at(total, np.searchsorted(self._classes, pooling.shared[counted]), own[counted])
        share = total / np.maximum(1, total.sum(axis=1, keepdims=True))
        best = (total * np.log(np.where(total > 0, share, 1.0))).sum(axis=1)
        return np.asarray(numerator - best)

    def observed(self, counts: Counts) -> tuple[Ints, Ints]:
        """([T, L] how often each row showed each label, [T, L] how often the other rows of its class did).

        If several labels lead to the same successor in a row, an observation counts for the first of them.
        """
        pooling, every = self._pooling, self._label_counts(counts)
        by_class = np.zeros((pooling.classes.size, every.shape[1]), dtype=np.int64)
        counted = pooling.counted
        np.add.at(by_class, pooling.shared[counted], every[counted])
        own = every[self.rows]
        return own, by_class[pooling.shared[self.rows]] - np.where(counted[self.rows, None], own, 0)

    def _label_counts(self, counts: Counts) -> Ints:
        """[R, L] how often every row of a class showed each label."""
        pooling = self._pooling
        rows, successors, often = counts.transitions()
        labels = np.where(pooling.tied[rows], pooling.labels(rows, successors), -1)
        every = np.zeros(pooling.leads.shape, dtype=np.int64)
        np.add.at(every, (rows[labels >= 0], labels[labels >= 0]), often[labels >= 0])
        return every

    def radii(self, label_counts: Ints) -> Floats:
        """[T] the radius of every row's own law, or of the rest's, after `label_counts` [T, L]; 1 without a visit."""
        possible = (self._pooling.leads[self.rows] >= 0).sum(axis=1)
        visits, seen = label_counts.sum(axis=1), (label_counts > 0).sum(axis=1)
        result = np.ones(visits.shape)
        for size in np.unique(possible):
            shape = RowShape(int(size), 2 * self.rows.size, self._pooling.system, self._delta)
            here = (possible == size) & (visits > 0)
            if size < 2:
                result[here] = 0.0
            elif here.any():
                result[here] = np.minimum(1.0, self._radius.after(visits[here], seen[here], shape))
        return result

    def _pushed(self, label_counts: Ints) -> Ints:
        """[T, L] counts of labels as the row itself would show them."""
        leads = self._pooling.leads[self.rows]
        first = (leads[:, :, None] == leads[:, None, :]).argmax(axis=2)  # [T, L] the first label that leads there
        result = np.zeros(label_counts.shape, dtype=np.int64)
        np.add.at(result, (np.arange(len(label_counts))[:, None], first), label_counts)
        return result


def _mixtures(counts: NDArray[np.int64], possible: NDArray[np.int64]) -> Floats:
    """[n] log of the Dirichlet(1/2) mixture of laws over `possible` outcomes [n], of the `counts` [n, L].

    It is the product of (count so far + 1/2) / (visits so far + possible / 2), whatever the order.
    """
    from scipy.special import gammaln  # late: it takes longer to import than all of this package

    half = 0.5 * possible
    each = (gammaln(counts + 0.5) - gammaln(0.5)).sum(axis=1)
    return np.asarray(each + gammaln(half) - gammaln(half + counts.sum(axis=1)))


# Evidence in which rows are learnt together: one hybrid model of units, shown as rows.
#
# The units (`pooling.py`) have a hybrid model of their own, with everything computed from counts: sets, suspects, cleared
# and refuted rows. The union bound is over units. A row of a class is its unit's law, label by label, with the
# successor that each label has there: a TV or KL ball around a law is pushed forward to one of the same radius, so that
# everything that looks at rows, robust or not, looks at these.

_BY_ROW = ("constant", "size", "profile", "near_profile", "near_begin", "near_length", "likelihood", "within")


_ALIKE = 1e-6  # gaps that differ by less are alike


class TiedEvidence(Evidence):
    """The evidence of a problem whose rows are learnt together."""

    def __init__(
        self, problem: Problem, *, reuses_simulator: bool = True, keeps_safe: bool = True, structured: bool = False
    ) -> None:
        """Begin without counts; `structured` assumes also ties that are not exact, which certifies nothing."""
        self.ties = problem.ties if structured else problem.exact_ties
        self.pooling = pooling_of(problem, self.ties)
        self.unit_model = UnitModel(problem, self.pooling, reuses_simulator=reuses_simulator)
        self.test = TieTest(problem, self.pooling)
        self._declared_known = problem.known_rows()  # others that need no learning were not declared to be
        self._taken_over: dict[tuple[int, int], int] = {}  # from other counts: (row, successor) -> how often
        self._labels_counted = self._labels_ignored = self._labels_lost = False  # reported ones, by `_usable`
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
        """Count one episode and update the model. Return whether to replan.

        It is judged by visits per unit (a class of tied rows).
        """
        rows, _ = self.counts.transitions_of(trajectory.states, trajectory.actions, np.array([0, trajectory.length]))
        suspect = self.belief.suspect[rows]
        self.observe(trajectory)
        unit = self.pooling.unit
        now, before = self._by_unit(self.counts.tally.visits)[unit[rows]], self._by_unit(planned)[unit[rows]]
        grown = now > (1.0 + growth) * before
        return bool((suspect & grown).any() or (self.rule.proves and self.belief.refuted.any()))

    def record_all(self, states: Indices, actions: Indices, ends: NDArray[np.int64]) -> None:
        self._count(states, actions, ends)
        rows, successors = self.counts.transitions_of(states, actions, ends)
        self._usable(None)
        self._learn_at_once(rows, successors, np.ones(rows.size, dtype=np.int64))

    def update(self) -> None:
        self.unit_model.update()
        self._refresh_rows()

    def make_room(self) -> None:
        self.counts.make_room()  # the model's rows are elsewhere

    def refute(self, step: int, state: int, action: int) -> None:
        super().refute(step, state, action)
        self._refresh_rows()

    def catch_up(self) -> None:
        """Take over the transitions that other code has put into `counts` since the last call, in unknown order."""
        rows, successors, often = self.counts.transitions()
        keys = list(zip(rows.tolist(), successors.tolist(), strict=True))
        new = often - np.array([self._taken_over.get(key, 0) for key in keys], dtype=np.int64)
        if not new.any():
            return
        self._taken_over = dict(zip(keys, often.tolist(), strict=True))
        self._learn_at_once(rows[new > 0], successors[new > 0], new[new > 0])

    def _take(self, states: Indices, actions: Indices, ends: NDArray[np.int64], labels: Ints | None) -> None:
        self._count(states, actions, ends)
        rows, successors = self.counts.transitions_of(states, actions, ends)
        units, outcomes = self.pooling.unit[rows], self.pooling.outcomes(rows, successors)
        labels = self._usable(labels)
        if labels is not None:  # a label that the row does not show, but the episode reports, counts for the class too
            said = np.flatnonzero(self.pooling.tied[rows] & ~self.pooling.counted[rows])
            # In the order of time: a conclusion must not depend on later visits.
            order = np.argsort(np.concatenate([np.arange(rows.size), said]), kind="stable")
            units = np.concatenate([units, self.pooling.shared[rows[said]]])[order]
            outcomes = np.concatenate([outcomes, labels[said]])[order]
        explained = outcomes >= 0  # the support has noticed a transition that no label explains
        if explained.any():
            self.unit_model.visit(units[explained], outcomes[explained])
        self.test.look(self.counts)
        self._refresh_rows()

    def _usable(self, labels: Ints | None) -> Ints | None:
        """The labels that may be counted: all of them from the first episode on, or none.

        An episode may have lost its labels because of their values, for example when it was cut short: the other episodes
        would be chosen by outcome. If it is the first one, all labels are ignored; later it voids the ties.
        """
        if self.ties is None or not self.ties.reported:
            return None
        if labels is None:
            self._labels_lost |= self._labels_counted
            self._labels_ignored = True
            if self._labels_lost:
                self.trust.leave()
        elif not self._labels_ignored:
            self._labels_counted = True
        return None if self._labels_ignored else labels

    def _room_for(self, states: Indices, actions: Indices, ends: NDArray[np.int64]) -> None:
        self.counts.room_for(*self.counts.transitions_of(states, actions, ends))  # the model's rows are elsewhere

    def _learn_at_once(self, rows: Ints, successors: Ints, often: Ints) -> None:
        outcomes = self.pooling.outcomes(rows, successors)
        explained = outcomes >= 0
        self.unit_model.visit_at_once(self.pooling.unit[rows[explained]], outcomes[explained], often[explained])
        self.test.look(self.counts)
        self._refresh_rows()

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
        rows, successors = self.counts.transitions_of(
            trajectory.states, trajectory.actions, np.array([0, trajectory.length])
        )
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

    # Keeping it

    @property
    def follows_from_order(self) -> bool:
        return super().follows_from_order and not self.test.rows.size

    def _put_belief(self, archive: Archive, *, of_record: bool) -> None:
        archive.put_part("units", self.unit_model.state(of_record=of_record))
        archive.put_part("test", self.test.state())
        archive.put("refuted", self.belief.refuted)
        fed = [[row, successor, often] for (row, successor), often in self._taken_over.items()]
        archive.put("fed", np.array(fed, dtype=np.int64).reshape(-1, 3))
        archive.put("labels", np.array([self._labels_counted, self._labels_ignored, self._labels_lost]))

    def _restore_belief(self, archive: Archive) -> None:
        self.unit_model.restore(archive.part("units"))
        self.test.restore(archive.part("test"))
        fed = archive.array("fed", np.int64, (None, 3)).tolist()
        self._taken_over = {(row, successor): often for row, successor, often in fed}
        self._labels_counted, self._labels_ignored, self._labels_lost = archive.array("labels", np.bool_, (3,)).tolist()
        archive.fill("refuted", self.belief.refuted)
        self._refresh_rows()

    # The units, shown as rows

    def _refresh_rows(self) -> None:
        """Copy the belief about each unit to its rows."""
        pooling, units = self.pooling, self.unit_model
        refuted = self.belief.refuted.copy()
        refuted[self.test.rows[self.test.refuted]] = True
        units.belief.refuted[pooling.unit[refuted]] = True
        units.belief.refuted[pooling.shared[refuted & pooling.tied]] = True
        # Both sets of a row that is not counted for its class hold: its own, and the one that is pushed forward.
        own, shared = units.belief.gap[pooling.unit], np.where(pooling.tied, units.belief.gap[pooling.shared], np.inf)
        better = (shared <= own + _ALIKE) & (own > 0.0)
        self._source = np.where(better, pooling.shared, pooling.unit)
        self._store = Store(pooling, units)
        by_row = {name: _by_row(getattr(units.rule, name), self._source) for name in _BY_ROW}
        self.rule = type(units.rule)(**{**units.rule._asdict(), **by_row})
        self.reach = pooling.reach
        begin, length = self._store.places(units.belief.begin, units.belief.length, self._source)
        self.belief = type(units.belief)(*(field[self._source] for field in units.belief))._replace(
            begin=begin, length=length, known=self._declared_known
        )
        self.belief.refuted[:] |= units.belief.refuted[pooling.unit]
        self.belief.refuted[:] |= pooling.tied & units.belief.refuted[pooling.shared]

    @property
    def rows(self) -> Rows:
        return Rows(self.belief.begin, self.belief.length, self._store.successor, self._store.probability)

    def view(self, wrong: NDArray[np.bool_] | None = None) -> Kernel:
        simulator, rows = self.counts.simulator, self.rows
        if wrong is not None:
            tally = self.unit_model.counts.tally
            begin, length = tally.simulator_begin.copy(), tally.simulator_length.copy()
            off = self._source[wrong]
            begin[off], length[off] = tally.begin[off], tally.length[off]
            begin, length = self._store.places(begin, length, self._source)
            rows = rows._replace(begin=begin, length=length)
        return Kernel(simulator.num_states, simulator.num_actions, simulator.horizon, rows)

    def pool(self, visits: NDArray[Any]) -> NDArray[Any]:
        return self._by_unit(visits)[self._source].astype(visits.dtype).reshape(visits.shape)

    def credit(self, stakes: Floats) -> Floats:
        by_unit, unit = summed(self._source, stakes, self.pooling.classes.size), self.pooling.unit
        return by_unit[unit] + np.where(self._source == unit, 0.0, stakes)  # a set of its own may become the smaller one

    @property
    def units(self) -> tuple[HybridModel, Ints]:
        return self.unit_model, self._source

    def _by_unit(self, visits: NDArray[Any]) -> Floats:
        """[U] the visits [R] that are counted for each unit."""
        return summed(self.pooling.unit, visits.reshape(-1).astype(np.float64), self.pooling.classes.size)

    # The basis of its bounds

    @property
    def _labels_limit(self) -> bool:
        """Whether labels rule successors out, besides a declared support."""
        return bool(self.pooling.tied.any())

    @property
    def support_assumed(self) -> tuple[Assumption, ...]:
        found = super().support_assumed
        if not self._labels_limit:
            return found
        text = "no tied row goes to a state to which no label of the ties leads"
        return (*found, Assumption(AssumptionCode.SUPPORT, text, "ties"))

    @property
    def ruled_out(self) -> str:
        if not self._labels_limit:
            return super().ruled_out
        led = "to states to which no label of the ties leads"
        return led if self.problem.support is None else f"{led}, or {super().ruled_out}"

    def doubts(self) -> tuple[Doubt, ...]:
        found = super().doubts()
        if self._labels_lost:
            text = "an episode came without its labels, so that those of the others are a chosen sample"
            found = (Doubt(DoubtCode.STRUCTURE_REFUTED, text), *found)
        if not (self.test.is_refuted and self.problem.settings.certified):
            return found
        names = [
            f"class {number}" if self.ties is None else self.ties.class_name(number) for number in self.test.refuted_classes
        ]
        text = f"the data refute the ties: the rows of {', '.join(names[:5])} are not alike"
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


def _by_row(array: NDArray[Any], unit: Ints) -> NDArray[Any]:
    return array[unit] if array.size else array


def structured_of(evidence: Evidence, before: TiedEvidence | None) -> TiedEvidence:
    """Return the same counts with the problem's ties assumed true; continues from the result `before`."""
    if before is None or before.counts is not evidence.counts:
        before = _with_the_counts_of(evidence)
    before.trust, before.faults = evidence.trust, evidence.faults
    before.outside_support, before.departed = evidence.outside_support, evidence.departed
    before.broken_off = evidence.broken_off
    before.catch_up()
    return before


def structured_from(evidence: Evidence, archive: Archive) -> TiedEvidence:
    """Return what `structured_of` had concluded from the counts of `evidence`, as `TiedEvidence.conclusions` kept it."""
    found = _with_the_counts_of(evidence)
    found.trust = evidence.trust
    found.restore_conclusions(archive)
    return found


def _with_the_counts_of(evidence: Evidence) -> TiedEvidence:
    reuses, keeps = evidence.reuses_simulator, evidence.keeps_safe
    found = TiedEvidence(evidence.problem, reuses_simulator=reuses, keeps_safe=keeps, structured=True)
    found.counts = evidence.counts
    return found
