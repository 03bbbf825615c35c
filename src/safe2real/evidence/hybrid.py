"""The hybrid model: counts, suspect and cleared rows, and the bonus (Algorithm 1, Lines 3 and 4).

A row is suspect until its empirical distribution is so close to the simulator's that, by the separation assumption, it
cannot be a mismatch; then it is cleared (the paper deletes it from the suspects). The model has the observed successors of
suspect rows (or the simulator's row while a declared `within` bounds it more tightly), and the simulator's row for cleared
rows and for rows declared known.

The rule itself is compiled: `update_rows` and `is_cleared` in `_compiled/row_update.py`, and the sequential test in
`_compiled/clearing.py`. This module holds their state and calls them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from safe2real._compiled import row_update
from safe2real._compiled.rows import Reach, Rows, Sets
from safe2real._compiled.tally import record_episode
from safe2real.evidence.counts import Counts, places_of
from safe2real.evidence.row_rule import NOTHING_STATED, RowFacts, Separation, StatedRows, near_of, rule_of
from safe2real.model.archive import Archive
from safe2real.model.kernel import Kernel, merged
from safe2real.model.trajectory import Trajectory
from safe2real.model.validation import Floats, Indices, bare
from safe2real.planning.robust import reach_of
from safe2real.problem.settings import Settings
from safe2real.radii import System
from safe2real.refinements import NearSets, find

_BELIEVED = ("suspect", "refuted", "low", "high", "look_at", "gap", "divergence", "bonus")  # [R] each

_NO_ROWS = np.empty(0, dtype=np.int64)


class HybridModel:
    """Counts, suspects and the model made of both; the only state that grows with real data."""

    def __init__(
        self,
        simulator: Kernel,
        horizon: int,
        settings: Settings,
        stated: StatedRows = NOTHING_STATED,
        *,
        reuses_simulator: bool = True,
    ) -> None:
        """Begin without counts.

        Args:
            simulator: R rows.
            horizon: steps of an episode that are summed.
            settings: the gaps, the radius with its refinements, the probability of failure that all rows share, the bonus.
            stated: declared knowledge of rows.
            reuses_simulator: whether rows are ever cleared; Algorithm 2 clears none.
        """
        self.counts = Counts(simulator, horizon)
        rows = simulator.num_rows
        gaps = Separation(settings.calibrated_gap, settings.mismatch_gap)
        self.separation = gaps if reuses_simulator else Separation(0.0, 0.0)
        self.reuses_simulator, self.certified = reuses_simulator, settings.radius.certified
        self.reach = reach_of(stated.support, simulator)
        self._left = 0  # counted episodes that reached a state outside the model
        self.behind = False  # whether episodes were counted since the last `update`
        self.outside_support = 0  # transitions counted that the declared support rules out
        self.announced_outside = 0  # the same, including recorded transitions that are not counted yet
        self.broken_off: dict[str, int] = {}  # number of departed episodes that ended for another cause, by cause
        self.departed = 0  # episodes that reached a state outside the model, counted or announced
        exact = np.zeros(rows, dtype=np.bool_) if stated.known is None else stated.known.copy()
        near = self._near() if find(settings.refinements, NearSets) else None
        self.rule = rule_of(
            settings.radius,
            self._system(),
            RowFacts(self._sizes(), exact, near, stated.within),
            settings.delta,
            refinements=settings.refinements,
            separation=gaps if reuses_simulator else None,
            bonus_scale=settings.bonus_scale,
        )
        self.belief = row_update.Belief(
            begin=np.zeros(rows, dtype=np.uint32),
            length=np.zeros(rows, dtype=np.uint32),
            suspect=~exact,
            known=exact,
            refuted=np.zeros(rows, dtype=np.bool_),
            low=np.zeros(rows),
            high=np.ones(rows),
            look_at=np.ones(rows, dtype=np.int64),
            gap=np.zeros(rows),
            divergence=np.full(rows, np.inf),
            bonus=np.zeros(rows),
        )
        self.update()

    def observe(self, trajectory: Trajectory) -> None:
        """Count one episode, already checked against the system, and update the model: rows may be cleared."""
        self.observe_all(trajectory.states, trajectory.actions, np.array([0, trajectory.length]))

    def observe_all(self, states: Indices, actions: Indices, ends: NDArray[np.int64]) -> None:
        """Count checked, concatenated episodes, updating the model after each; equal to `observe` one by one.

        Episode i has actions[ends[i] : ends[i + 1]], and its states begin at ends[i] + i: it has one state more.
        """
        simulator, done, episodes = self.counts.simulator, 0, len(ends) - 1
        states, actions = bare(states), bare(actions)
        self._check_support(states, actions, ends)
        self._room_for(states, actions, ends)
        while done < episodes:
            first = int(ends[done])
            counted = row_update.observe_episodes(
                self.counts.tally,
                self.belief,
                self.rule,
                states[first + done :],
                actions[first:],
                ends[done:] - first,
                _NO_ROWS,
                self.counts.horizon if self.counts.has_room else 0,  # else there is room for these already
                simulator.num_states,
                simulator.num_actions,
                self.counts.rows_per_step,
            )
            self.counts.episodes += counted
            done += counted
            self._keep_room()

    def record(self, trajectory: Trajectory, planned: NDArray[np.int64], growth: float) -> bool:
        """Count one checked episode without updating the model, for methods that do not plan in every round.

        Returns whether another plan is due: a suspect row has been visited the fraction `growth` more often than at the
        last plan, `planned` [R], or the data contradict an assumption, which is tested here.
        """
        simulator = self.counts.simulator
        states, actions = bare(trajectory.states), bare(trajectory.actions)
        self._check_support(states, actions, np.array([0, trajectory.length]))
        self._room_for(states, actions, np.array([0, trajectory.length]))
        due, _ = row_update.record_watching(
            self.counts.tally,
            self.belief,
            self.rule,
            planned,
            growth,
            states,
            actions,
            self.counts.horizon,
            simulator.num_states,
            simulator.num_actions,
            self.counts.rows_per_step,
        )
        self.counts.episodes += 1
        self.behind = True
        self._keep_room()
        return bool(due)

    def record_all(self, states: Indices, actions: Indices, ends: NDArray[np.int64]) -> None:
        """Count checked, concatenated episodes, then `update` once.

        For a log whose order may depend on its content: only the whole log is a fair sample.
        """
        self._count(states, actions, ends)
        self.update()

    def refute(self, step: int, state: int, action: int) -> None:
        """Mark a row as contradicted, for good: its successor has no state in the model."""
        actions, per_step = self.counts.simulator.num_actions, self.counts.rows_per_step
        self._left += 1
        self.departed = max(self.departed, self._left)
        self.belief.refuted[step * per_step + state * actions + action] = True

    def update(self) -> None:
        """Update the model from the counts: empirical rows, cleared rows, radii and bonus."""
        row_update.update_all(self.counts.tally, self.belief, self.rule, self.counts.simulator.num_states)
        self.behind = False

    def make_room(self) -> None:
        """Give every row room for any episode, as compiled rounds need it, and point the model at the rows' new places."""
        if self.counts.make_room():
            # no update: the model must not depend on when segments happen to move
            learnt = self.learnt
            self.belief.begin[learnt] = self.counts.tally.begin[learnt]

    def _keep_room(self) -> None:
        if self.counts.has_room:
            self.make_room()

    def _count(self, states: Indices, actions: Indices, ends: NDArray[np.int64]) -> None:
        """Count checked episodes without updating the model."""
        states, actions, counts = bare(states), bare(actions), self.counts
        self._check_support(states, actions, ends)
        self._room_for(states, actions, ends)
        for i in range(len(ends) - 1):
            first, last = int(ends[i]), int(ends[i + 1])
            visited, chosen = states[first + i : last + i + 1], actions[first:last]
            record_episode(counts.tally, visited, chosen, counts.simulator.num_actions, counts.rows_per_step)
            counts.episodes += 1
            self._keep_room()

    def _room_for(self, states: Indices, actions: Indices, ends: NDArray[np.int64]) -> None:
        """Make room for these episodes in rows that lack it, and point the model at the moved rows."""
        if not self.counts.has_room:
            moved = self.counts.room_for(*self.counts.transitions_of(states, actions, ends))
            learnt = moved[self.belief.begin[moved] >= self.counts.simulator.successor.size]
            self.belief.begin[learnt] = self.counts.tally.begin[learnt]

    @property
    def learnt(self) -> NDArray[np.bool_]:
        """[R] whether the model has the observed row; a suspect row may still be the simulator's (`within`)."""
        return np.asarray(self.belief.begin >= self.counts.simulator.successor.size)

    @property
    def rows(self) -> Rows:
        """View of the hybrid model's rows for compiled code; invalid after the next counted episode."""
        return Rows(self.belief.begin, self.belief.length, self.counts.tally.successor, self.counts.tally.probability)

    @property
    def row_sets(self) -> Sets:
        """View of the model's rows and their confidence sets for compiled code; invalid after the next counted episode."""
        return Sets(self.rows, self.reach, self.belief.gap, self.belief.divergence)

    @property
    def possible(self) -> Kernel | None:
        """The declared possible successors, as a kernel whose probabilities are not used; None where all are possible."""
        if not self.reach.length.size:
            return None
        simulator = self.counts.simulator
        rows = Rows(*self.reach, np.ones(self.reach.successor.size))
        return Kernel(simulator.num_states, simulator.num_actions, simulator.horizon, rows)

    @property
    def suspects(self) -> NDArray[np.bool_]:
        """Rows still learnt from real data, [S, A] or [H, S, A]; it only ever shrinks."""
        return self._shaped(self.belief.suspect.copy())

    @property
    def known(self) -> NDArray[np.bool_]:
        """Rows declared exact, [S, A] or [H, S, A]."""
        return self._shaped(self.belief.known.copy())

    @property
    def refuted(self) -> NDArray[np.bool_]:
        """Rows of which the data have contradicted an assumption, [S, A] or [H, S, A]; final."""
        return self._shaped(self.belief.refuted.copy())

    @property
    def visits(self) -> NDArray[np.int64]:
        """Visits that a row is known by, [S, A] or [H, S, A]; those of rows that are learnt together count for each."""
        pooled: NDArray[np.int64] = self.pool(self.counts.visits)
        return pooled

    @property
    def seen(self) -> NDArray[np.int64]:
        """[R] number of different outcomes observed in each row."""
        model, unit = self.units
        return np.asarray(model.counts.tally.length[unit], dtype=np.int64)

    def pool(self, visits: NDArray[Any]) -> NDArray[Any]:
        """Return each row's share of `visits` [R]: its own entry, unless rows are learnt together."""
        return visits

    def credit(self, stakes: Floats) -> Floats:
        """[R] the `stakes` [R] on which a visit to each row bears: its own, unless rows are learnt together."""
        return stakes

    @property
    def units(self) -> tuple[HybridModel, NDArray[np.int64] | slice]:
        """(the model of the units that are learnt, [R] the unit of each row): itself, unless rows are learnt together."""
        return self, slice(None)

    @property
    def distances(self) -> Floats:
        """TV distance of the empirical rows to the simulator's, [S, A] or [H, S, A]."""
        model, unit = self.units
        return self._shaped(model.counts.distances()[unit])

    @property
    def radii(self) -> Floats:
        """TV confidence radii of the empirical rows, [S, A] or [H, S, A]."""
        model, unit = self.units
        tally, result = model.counts.tally, np.empty(model.counts.simulator.num_rows)
        visits, seen = tally.visits.astype(np.float64), tally.length.astype(np.int64)
        row_update.radii(model.rule, visits, seen, model.all_near, result)
        return self._shaped(result[unit])

    @property
    def all_near(self) -> NDArray[np.bool_]:
        """[R] whether all observed successors are near ones; always True without the refinement `NearSets`."""
        model, unit = self.units
        result = np.empty(model.counts.simulator.num_rows, dtype=np.bool_)
        row_update.near_rows(model.counts.tally, model.rule, result)
        return result[unit]

    @property
    def bonus(self) -> Floats:
        """The bonus b, [S, A] or [H, S, A]: the largest effect of a row's uncertainty on any value (paper, Lemma 1)."""
        return self._shaped(self.belief.bonus.copy())

    def view(self, wrong: NDArray[np.bool_] | None = None) -> Kernel:
        """Return a view of the model without a copy; it is invalid after the next counted episode.

        If `wrong` [R] is given, the view has the empirical rows where it is True and the simulator's rows elsewhere.
        """
        simulator, tally, rows = self.counts.simulator, self.counts.tally, self.rows
        if wrong is not None:
            rows = rows._replace(
                begin=np.where(wrong, tally.begin, tally.simulator_begin),
                length=np.where(wrong, tally.length, tally.simulator_length),
            )
        return Kernel(simulator.num_states, simulator.num_actions, simulator.horizon, rows)

    def to_kernel(self) -> Kernel:
        """The hybrid model as a kernel of its own: empirical rows inside `suspects`, simulator rows outside."""
        simulator, view = self.counts.simulator, self.rows
        at, owner = places_of(view.begin, view.length), np.repeat(np.arange(view.length.size), view.length)
        kept = merged(owner, view.successor[at], view.probability[at], simulator.num_states)
        length = np.bincount(kept[0], minlength=view.length.size)
        begin = np.cumsum(length) - length
        rows = Rows(begin.astype(np.uint32), length.astype(np.uint32), *kept[1:])
        return Kernel(simulator.num_states, simulator.num_actions, simulator.horizon, rows)

    # Keeping it

    def state(self, *, of_record: bool = False) -> Archive:
        """Return counts and conclusions; `restore` puts them into a model of the same simulator.

        Args:
            of_record: leave out parts that do not follow from the counted episodes and their order, such as spare room.
        """
        archive = self.conclusions(of_record=of_record)
        archive.put_part("counts", self.counts.state(of_record=of_record))
        return archive

    def restore(self, archive: Archive) -> None:
        """Take in the `state` of a model of the same simulator and settings, in which nothing is counted yet.

        Raises:
            InvalidInput: it cannot be one.
        """
        self.counts.restore(archive.part("counts"))
        self.restore_conclusions(archive)

    def conclusions(self, *, of_record: bool = False) -> Archive:
        """Return all of the state but the counts."""
        archive = Archive("hybrid model")
        archive.document = {
            "outside_support": self.outside_support,
            "announced_outside": self.announced_outside,
            "departed": self.departed,
            "left": self._left,
            "behind": bool(self.behind),
            "broken_off": self.broken_off,
        }
        self._put_belief(archive, of_record=of_record)
        return archive

    def restore_conclusions(self, archive: Archive) -> None:
        """Take in what `conclusions` gave; the counts are those that they were drawn from."""
        self._restore_belief(archive)
        self.outside_support, self.announced_outside = archive.whole("outside_support"), archive.whole("announced_outside")
        self.departed, self._left = archive.whole("departed"), archive.whole("left")
        self.behind, self.broken_off = archive.entry("behind", bool), archive.tallies("broken_off")

    def _put_belief(self, archive: Archive, *, of_record: bool) -> None:
        for field in _BELIEVED:
            archive.put(field, getattr(self.belief, field))
        archive.put("learnt", self.learnt)
        archive.put("length", self.belief.length)

    def _restore_belief(self, archive: Archive) -> None:
        belief, tally = self.belief, self.counts.tally
        for field in _BELIEVED:
            archive.fill(field, getattr(belief, field))
        learnt = archive.array("learnt", np.bool_, belief.suspect.shape)
        length = archive.array("length", np.uint32, belief.suspect.shape)
        if (length > np.where(learnt, tally.length, tally.simulator_length)).any():
            raise archive.wrong("rows have more successors than were observed")
        belief.begin[:] = np.where(learnt, tally.begin, tally.simulator_begin)
        belief.length[:] = length

    def _system(self) -> System:
        return System(self.counts.simulator.num_states, self.counts.simulator.num_actions, self.counts.horizon)

    def _near(self) -> Reach:
        return near_of(self.counts.simulator, self.reach)

    def _sizes(self) -> NDArray[np.int64]:
        """Return the number of possible successors of each row [R]."""
        simulator = self.counts.simulator
        everywhere = np.full(simulator.num_rows, simulator.num_states, dtype=np.int64)
        if self.reach.length.size == 0:
            return everywhere
        return np.where(self.reach.length > 0, self.reach.length.astype(np.int64), everywhere)

    def _check_support(self, states: Indices, actions: Indices, ends: NDArray[np.int64]) -> None:
        """Notice transitions that the declared support rules out: from the first one on, nothing is certified."""
        if self.reach.length.size:
            rows, successors = self.counts.transitions_of(states, actions, ends)
            limited = self.reach.length[rows] > 0  # after any other row, all successors are possible
            rows, successors = rows[limited], successors[limited]
            first, length = (part[rows].astype(np.int64) for part in (self.reach.begin, self.reach.length))
            allowed = np.zeros(rows.size, dtype=np.bool_)
            for i in range(int(length.max(initial=0))):
                allowed |= self.reach.successor[first + np.minimum(i, length - 1)] == successors
            self.belief.refuted[rows[~allowed]] = True
            self.outside_support += int((~allowed).sum())

    def _shaped(self, rows: NDArray[Any]) -> NDArray[Any]:
        return rows.reshape(self.counts.simulator.shape)
