"""What a learner can be asked; nothing here changes what it proposes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace

from numpy.typing import ArrayLike

from safe2real.evidence.evidence import Evidence
from safe2real.exploration.certificate import Certificate
from safe2real.exploration.certify import certify
from safe2real.exploration.kept import KeptPlans, improved
from safe2real.exploration.logs import ImportedLogs
from safe2real.exploration.plan import Plan, plan
from safe2real.exploration.structure import plan_with_structure
from safe2real.methods import ALL
from safe2real.methods.base import Method
from safe2real.methods.intervals import Interval
from safe2real.methods.related.base import Related
from safe2real.model.checks import Floats
from safe2real.problem.problem import Problem
from safe2real.standing import Assumption, AssumptionCode, Doubt, Standing, standing_of


class Looking(ABC):
    """The questions about a problem, its evidence and a method."""

    problem: Problem
    evidence: Evidence
    method: Method
    _imported: ImportedLogs
    _kept: KeptPlans

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
        return self.method.doubts(self.evidence)

    @property
    def is_refuted(self) -> bool:
        """Whether the data contradict what proposals rest on: final."""
        return self.method.is_refuted(self.evidence)

    def floors(self) -> dict[str, float]:
        """What is certain of the method's candidate alone, by name; empty where the method says nothing of the kind.

        It rests on what every certificate of this learner lists.
        """
        return self.method.floors(self.evidence)

    def certify(self, bounds: Floats, doubts: Sequence[Doubt] = (), *, thresholds: Floats | None = None) -> Certificate:
        """Lower bounds [K] on V_c with all that the method assumes, and with the reasons why it is no guarantee, if any."""
        return certify(self.evidence, bounds, doubts, thresholds=thresholds, assumed=self._assumed, method=self.method)

    @property
    def _assumed(self) -> tuple[Assumption, ...]:
        """What proposals rest on besides the evidence: imported logs, and bounds of a method that is not of this package."""
        logs = self._imported.assumptions
        if type(self.method) in ALL or isinstance(self.method, Related):  # which says itself whose bounds it has
            return logs
        text = f"the method {self.method.name!r}, which is from outside the package, bounds what it proposes as it states"
        return (*logs, Assumption(AssumptionCode.EXTENSION, text, self.method.name))

    def plan(self, reward: ArrayLike) -> Plan:
        """A policy for `reward` in [0, 1], certified feasible, with a bound on what it may miss: at any round.

        What is proposed is not changed by it. A plan for the same reward that was certified earlier and is worth more is
        given again. See `exploration.plan.plan`.
        """
        # What the stop of another proves is not known here, and that of a trial is about one policy.
        ours = type(self.method) in ALL and self.method.covers_any_reward
        found = plan(self.evidence, reward, stopped=ours and not self.evidence.is_refuted and self.stopped)
        settled = self.evidence.settled()
        for one in self.method.intervals(self.problem, settled):  # what the stop was decided by is not to be lost
            if one.is_about(reward):
                found = improved(settled, found, one)
        found = self._kept.better(settled, reward, found)
        stated = self.problem.alternatives
        if stated is not None and stated.exact and not self.evidence.is_refuted:
            other = plan_with_structure(self.evidence, reward)
            found = other if other.value > found.value else found
        return replace(found, certificate=found.certificate.assuming(self._imported.assumptions))

    def plan_with_structure(self, reward: ArrayLike) -> Plan:
        """The best plan that ties or alternatives find, a candidate for a trial; see `exploration.structure`."""
        found = plan_with_structure(self.evidence, reward)
        return replace(found, certificate=found.certificate.assuming(self._imported.assumptions))
