"""What a learner can be asked; nothing here changes what it proposes."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from numpy.typing import ArrayLike

from safe2real.evidence.evidence import Evidence
from safe2real.evidence.mismatch_map import MismatchMap, map_mismatch
from safe2real.exploration.certificate import Certificate, certify
from safe2real.exploration.episode_log import ImportedLogs
from safe2real.exploration.plan import Origin, Plan, checked_reward, plan
from safe2real.exploration.plan_cache import KeptPlans, improved
from safe2real.exploration.structure import plan_with_structure
from safe2real.figures.history import Between, Moment, Moments
from safe2real.methods import ALL
from safe2real.methods.base import Method
from safe2real.methods.for_rewards import guess_of
from safe2real.methods.intervals import Interval
from safe2real.methods.named import settings_of
from safe2real.methods.trial import Trial
from safe2real.methods.trial_within import PastTrial, base_of
from safe2real.model.cmdp import CMDP, without_steps
from safe2real.model.constraint_text import count
from safe2real.model.policy import carried_out
from safe2real.model.validation import Floats, frozen
from safe2real.problem.problem import Problem
from safe2real.progress import Report, progress_bar
from safe2real.standing import Assumption, AssumptionCode, Doubt, DoubtCode, Standing, standing_of
from safe2real.version import __version__

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Looking(ABC):
    """The questions about a problem, its evidence and a method."""

    evidence: Evidence
    method: Method
    trials: tuple[PastTrial, ...]
    _imported: ImportedLogs
    _kept: KeptPlans
    moments: Moments

    @property
    @abstractmethod
    def problem(self) -> Problem:
        """What is given and assumed; read-only, since the evidence was counted under it."""

    @property
    @abstractmethod
    def stopped(self) -> bool:
        """Whether the method has what it was after."""

    def intervals(self) -> tuple[Interval, ...]:
        """What is certain of each declared reward on all that was counted; empty where none is declared."""
        return self.method.intervals(self.problem, self.evidence.settled())

    @property
    def standing(self) -> Standing:
        """What everything that is proposed and planned now is worth."""
        return standing_of(self.doubts())

    def doubts(self) -> tuple[Doubt, ...]:
        """Why nothing here is a guarantee; empty when it is one. Data that refute an assumption are a reason too."""
        return (*self._ignored, *self.method.doubts(self.evidence))

    @property
    def _ignored(self) -> tuple[Doubt, ...]:
        """That the method does not keep to the constraints there are, whatever it says of its data itself."""
        if self.evidence.kept == self.problem.simulator.num_constraints:
            return ()
        return (Doubt(DoubtCode.CONSTRAINTS_IGNORED, "the exploration ignores the constraints"),)

    @property
    def failure(self) -> float:
        """How likely it is at most that anything which this run promises is false, if what it assumes is true.

        delta, what the trials within the run add, and what an estimated simulator adds where its rows are reused. The floors
        of `methods.Trial` have a delta of their own beside that of the rows, which plans go by: 2 delta together.
        """
        own = (2.0 if isinstance(self.method, Trial) else 1.0) * self.problem.settings.delta
        rows = self.problem.estimated if self.evidence.reuses_simulator else None
        added = sum(one.within.delta for one in self.trials) + (0.0 if rows is None else rows.delta)
        return min(1.0, own + added)

    @property
    def is_refuted(self) -> bool:
        """Whether the data contradict what proposals rest on: final."""
        return self.method.is_refuted(self.evidence)

    def floors(self) -> dict[str, float]:
        """What is certain of the method's candidate alone, by name; empty where the method says nothing of the kind.

        Of a utility or a reward: it is expected to be at least this. Of a cost: at most.

        It rests on what every certificate of this learner lists.
        """
        return self.method.floors(self.evidence)

    def certify(self, bounds: Floats, doubts: Sequence[Doubt] = (), *, thresholds: Floats | None = None) -> Certificate:
        """Lower bounds [K] on V_c with all that the method assumes, and with the reasons why it is no guarantee, if any."""
        doubted, assumed = (*self._ignored, *doubts), self._assumed
        return certify(self.evidence, bounds, doubted, thresholds=thresholds, assumed=assumed, method=self.method)

    @property
    def _assumed(self) -> tuple[Assumption, ...]:
        """What proposals rest on besides the evidence: imported logs, and bounds of a method that is not of this package."""
        found = (*self._imported.assumptions, *self._trials_assumed)
        method = base_of(self.method)
        if type(method) in ALL:
            return found
        text = f"the method {method.name!r}, which is from outside the package, bounds what it proposes as it states"
        return (*found, Assumption(AssumptionCode.EXTENSION, text, method.name))

    @property
    def _trials_assumed(self) -> tuple[Assumption, ...]:
        """That trials within the run came out right: each adds to the probability that anything promised is false."""
        if not self.trials:
            return ()
        added, number = sum(one.within.delta for one in self.trials), len(self.trials)
        which = f"the floors of {count(number, 'trial')} within this run hold"
        text = f"{which}: with probability {added:g} at most, ADDED to delta, one does not"
        return (Assumption(AssumptionCode.EVENT, text, "trials"),)

    def plan(self, reward: ArrayLike, *, progress: Report | bool | None = None) -> Plan:
        """A policy for `reward` in [0, 1], certified feasible, with a bound on what it may miss: at any round.

        What is proposed is not changed by it. A plan for the same reward that was certified earlier and is worth more is
        given again. See `exploration.plan.plan`.

        Args:
            reward: [S, A], or [H, S, A] where it changes with the step.
            progress: shows a bar where it takes longer than a second: True always, False never, None on a terminal; or a
                function that is told (steps done, in all).
        """
        reward = without_steps(checked_reward(self.evidence, reward))
        # What the stop of another proves is not known here, and that of a trial is about one policy.
        ours = type(base_of(self.method)) in ALL and self.method.covers_any_reward
        stopped = ours and not self.evidence.is_refuted and self.stopped
        with progress_bar("steps of planning", progress) as report:
            found = plan(self.evidence, reward, stopped=stopped, report=report)
        settled = self.evidence.settled()
        for one in self.method.intervals(self.problem, settled):  # what the stop was decided by is not to be lost
            if one.is_about(reward):
                found = improved(settled, found, one)
        found = self._kept.better(settled, reward, found)
        stated = self.problem.alternatives
        if stated is not None and stated.exact and not self.evidence.is_refuted:
            other = plan_with_structure(self.evidence, reward)
            found = other if other.value > found.value else found
        return self._complete(found, reward)

    def plan_with_structure(self, reward: ArrayLike) -> Plan:
        """The best plan that ties or alternatives find, a candidate for a trial; see `exploration.structure`."""
        return self._complete(plan_with_structure(self.evidence, reward), reward)

    def _complete(self, found: Plan, reward: ArrayLike) -> Plan:
        """With what it rests on besides, and what it was made for."""
        problem = self.problem
        origin = Origin(
            reward=frozen(checked_reward(self.evidence, reward)),
            legend=problem.simulator.legend,
            settings=settings_of(problem, base_of(self.method)),
            samples=self.evidence.samples,
            version=__version__,
        )
        certificate = found.certificate.assuming((*self._imported.assumptions, *self._trials_assumed))
        policy = carried_out(found.policy, problem.simulator)
        kept = _kept_model(guess_of(self.evidence))
        return replace(found, policy=policy, certificate=certificate, origin=origin, model=kept)

    # Pictures and tables

    @property
    def mismatch_map(self) -> MismatchMap:
        """For every row how far it is from the simulator, and what is known about it."""
        return map_mismatch(self.evidence.settled())

    def plot(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """What is known, in one picture: what is certain over samples, above the map of where the simulator is wrong.

        Over samples: for `methods.ForRewards` the interval of each declared reward, for `methods.Trial` the floors of the
        policy (which rest on no row, so there is no map), otherwise the uncertainty on its way to the tolerance, with the
        rows that are in doubt. It says above what all of it is worth.

        Args:
            path: where to keep it, e.g. "learner.png"; nowhere if None.

        Returns:
            A matplotlib figure; no display is needed.

        Raises:
            MissingExtra: matplotlib is not installed.
            InvalidInput: the path cannot be written.
        """
        from safe2real.figures.learning import draw_learning
        from safe2real.figures.style import kept

        last = list(self.moments)[-1:]
        uncertainty = last[0].uncertainty if last else float("inf")
        now, method, trial = self._moment(uncertainty, self.intervals()), self.method, isinstance(self.method, Trial)
        figure = draw_learning(
            [*(one for one in self.moments if one.samples < now.samples), now],
            self.problem.simulator,
            standing=self.standing,
            tolerance=method.stops_at(self.problem),
            targets=method.target if isinstance(method, Trial) else None,
            found=None if trial else self.mismatch_map,
            separation=self.evidence.separation if self.evidence.reuses_simulator else None,
        )
        return kept(figure, path)

    def _moment(self, uncertainty: float, intervals: Sequence[Interval]) -> Moment:
        """What is known now."""
        certain = tuple(Between(one.name, one.lower, one.upper, one.allowed) for one in intervals)
        suspects = int(self.evidence.belief.suspect.sum())
        return Moment(self.evidence.samples, uncertainty, suspects, certain, self.method.floors(self.evidence))


def _kept_model(model: CMDP) -> CMDP:
    """The same with rows of its own: those of the evidence change with every episode."""
    rows = model.kernel._rows
    return model.with_kernel(replace(model.kernel, _rows=type(rows)(*(array.copy() for array in rows))))
