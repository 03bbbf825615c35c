"""What is found of one run: each deployment, the learner's state, plans and floors, against the truth."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import ArrayLike

from safe2real.exploration import Learner
from safe2real.exploration.certificate import Certificate
from safe2real.exploration.plan import Plan
from safe2real.methods import Method, Trial
from safe2real.methods.for_rewards import ForRewards
from safe2real.model.policy import Mixture, Policy
from safe2real.model.validation import ROUNDING, Floats
from trial.exact import Truth
from trial.flaws import Flaw
from trial.outcome import Outcome
from trial.parts import Part
from trial.statements import Kind, about_floors, about_learner, about_plan, rewards
from trial.systems import Case


class Judge:
    """Counts what was deployed and asked, and which kinds of statement were false."""

    def __init__(self, case: Case, rng: np.random.Generator) -> None:
        self.case, self.rng, self.truth = case, rng, Truth(case.task, case.real)
        self.found: set[Kind] = set()
        self.deployments = self.unsafe = self.exploring = self.mixtures = self.plans = 0
        self.halted = False
        self._last: tuple[float, bytes] | None = None

    def deployed(self, mixture: Mixture, certificate: Certificate | None, share: float) -> None:
        """One deployment of a mixture with this share of what is not the baseline."""
        self.mean_of(self.truth.constraint_values(mixture), certificate, share)

    def mean_of(self, values: Floats, certificate: Certificate | None, share: float) -> None:
        """One deployment whose real V_c [K] are `values`."""
        self.deployments += 1
        self.exploring += share > 0.0
        now = share, values.tobytes()
        self.mixtures += share > 0.0 and now != self._last
        self._last = now
        if (values < self.case.task.thresholds[: values.size] - ROUNDING).any():
            self.unsafe += 1
            self.found.add(Kind.UNSAFE)
        if certificate is not None and certificate.certified and (certificate.lower_bounds > values + ROUNDING).any():
            self.found.add(Kind.CERTIFICATE)

    def look(self, learner: Learner) -> None:
        """At everything that is said of the state the learner is in."""
        self.found.update(about_learner(self.case, learner, self.truth))
        self.halted |= learner.evidence.trust.halted
        method = learner.method
        if isinstance(method, Trial):
            self.floors(learner.floors(), method.policy, method.rewards or {})

    def floors(self, floors: dict[str, float], policy: Policy, named: Mapping[str, ArrayLike]) -> None:
        """At the floors of a policy; `named` are the rewards among them."""
        values = dict(zip(self.case.task.labels, self.truth.constraint_values(policy).tolist(), strict=True))
        values |= {name: self.truth.earned(policy, np.asarray(reward)) for name, reward in named.items()}
        self.found.update(about_floors(floors, values))

    def ask_plans(self, learner: Learner, plan: Callable[[Floats], Plan] | None = None) -> None:
        """Plans for the adversary's rewards and for those that were declared; of `learner` unless `plan` is given."""
        for reward in (*rewards(self.case, learner.evidence, self.truth, self.rng), *_declared(learner.method)):
            self.found.update(about_plan((plan or learner.plan)(reward), self.truth, reward))
            self.plans += 1

    def outcome(self, part: Part, flaw: Flaw, allowed: float) -> Outcome:
        """What is counted of the run."""
        case, found = self.case, self.found - flaw.told
        return Outcome(
            number=case.number,
            part=part,
            delta=case.settings.delta,
            allowed=min(1.0, allowed),
            family=str(case.family),
            radius=case.settings.radius.name,
            failures=tuple(kind for kind in Kind if kind in found),
            deployments=self.deployments,
            unsafe=self.unsafe,
            exploring=self.exploring,
            mixtures=self.mixtures,
            plans=self.plans,
            stopped=False,
            halted=self.halted,
        )


def _declared(method: Method) -> list[Floats]:
    return [np.asarray(one) for one in method.rewards.values()] if isinstance(method, ForRewards) else []
