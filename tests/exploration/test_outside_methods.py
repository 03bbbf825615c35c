"""What a learner does with a method from outside, whatever that method does."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import safe2real as s2r
from safe2real.methods import Decision, Method, Reason
from safe2real.standing import AssumptionCode
from safe2real.testing.systems import random_case


@dataclass(frozen=True)
class Stubborn(Method):
    """Always the same policy, with a bound that was made up."""

    claimed: float = 5.0
    name: ClassVar[str] = "stubborn"

    def propose(self, problem, evidence, *, seed, round_number, memory=None):
        policy = s2r.MarkovPolicy.deterministic([0, 0, 0, 0], num_actions=2, horizon=3)
        return Decision(Reason.MIXTURE, (policy,), (1.0,), 1.0, np.array([self.claimed]))


def test_no_method_is_asked_once_an_assumption_is_refuted():
    learner = s2r.Learner(random_case(0).problem, Stubborn())
    assert learner.propose().reason is Reason.MIXTURE
    learner.leave_model([0], [0])
    assert learner.propose().reason is Reason.BASELINE
    learner.evidence.trust.state.utilities[:] = 0.0  # whatever the baseline does returns nothing
    n = 500
    whose = {"of_baseline": np.ones(n, dtype=np.bool_)}
    learner.count(np.zeros(4 * n, dtype=np.uint32), np.zeros(3 * n, dtype=np.uint32), 3 * np.arange(n + 1), **whose)
    assert learner.propose().reason is Reason.HALT


def test_a_mixture_that_its_own_bounds_do_not_cover_is_not_handed_out():
    learner = s2r.Learner(random_case(0).problem, Stubborn(claimed=0.0))
    with pytest.raises(s2r.errors.InvalidInput, match="its own bounds do not cover"):
        learner.propose()


def test_certificates_say_that_they_rest_on_a_method_from_outside():
    case = random_case(0)
    certificate = s2r.Learner(case.problem, Stubborn()).propose().certificate
    (said,) = [one for one in certificate.assumptions if one.code is AssumptionCode.EXTENSION]
    assert said.subject == "stubborn"
    ours = s2r.Learner(case.problem).propose().certificate
    assert AssumptionCode.EXTENSION not in [one.code for one in ours.assumptions]
