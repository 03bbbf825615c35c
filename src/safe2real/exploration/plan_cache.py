"""Plans that were certified once stay certified: the best of each reward's, kept while nothing is refuted.

The sets that plans rest on hold at all times at once with probability 1 - delta. On that one event every lower bound that
was ever printed is true of its policy, and every upper bound of all feasible policies; so the largest of the former and the
smallest of the latter hold together. What an assumption that is refuted takes away, it takes from all of them.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from safe2real.evidence.evidence import Evidence
from safe2real.exploration.certificate import certify
from safe2real.exploration.plan import Plan
from safe2real.methods.intervals import Interval
from safe2real.model.validation import Floats

_MOST = 64  # rewards; the ones asked for longest ago are forgotten


def improved(evidence: Evidence, found: Plan, interval: Interval) -> Plan:
    """`found` with what is certain of its reward besides: the better policy, and the smaller upper bound."""
    if interval.lower > found.value:
        certificate = certify(evidence, interval.lower_bounds)
        found = replace(found, policy=interval.policy, value=interval.lower, certificate=certificate)
    bound = max(min(found.bound, interval.upper), found.value)
    return replace(found, bound=bound, suboptimality=bound - found.value)


class KeptPlans:
    """The best plan of every reward that was asked for."""

    def __init__(self) -> None:
        self._plans: OrderedDict[tuple[tuple[int, ...], bytes], Plan] = OrderedDict()

    def listed(self) -> list[tuple[Floats, Plan]]:
        """(reward, plan), the one asked for longest ago first."""
        return [(np.frombuffer(content).reshape(shape), plan) for (shape, content), plan in self._plans.items()]

    def put_back(self, reward: Floats, plan: Plan) -> None:
        """Keep one of `listed` again."""
        self._plans[(reward.shape, reward.tobytes())] = plan

    def better(self, evidence: Evidence, reward: ArrayLike, found: Plan) -> Plan:
        """`found`, or the policy that was certified to be worth more; with the smallest upper bound of both.

        The certificate says what it rests on now: an assumption that came up since then is among them.
        """
        settings = evidence.problem.settings
        if evidence.is_refuted or not settings.certified:
            self._plans.clear()
            return found
        if not settings.robust_safety:
            return found  # the paper's own plans: each is what its theorem says, of the data that there are
        array = np.asarray(reward, dtype=np.float64)
        key = (array.shape, array.tobytes())
        before = self._plans.pop(key, None)
        best = found
        if before is not None:
            best = before if before.value > found.value else found
            bound = max(min(before.bound, found.bound), best.value)
            best = replace(
                best,
                bound=bound,
                suboptimality=bound - best.value,
                certificate=certify(evidence, best.certificate.lower_bounds),
            )
        self._plans[key] = best
        if len(self._plans) > _MOST:
            self._plans.popitem(last=False)
        return best
