"""What a learner does with a method from outside, whatever that method does."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import safe2real as s2r
from safe2real.campaign.journal import MemoryJournal
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
    learner.evidence.trust.compiled.utilities[:] = 0.0  # whatever the baseline does returns nothing
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


@pytest.mark.parametrize(
    "decision",
    [
        {"reason": Reason.BASELINE, "exploration_weight": 1.0},
        {"weights": (2.0,)},
        {"weights": (-1.0,), "exploration_weight": -1.0},
        {"lower_bounds": np.array([np.nan])},
        {"weights": ()},
    ],
)
def test_decisions_that_are_none_are_refused(decision):
    """What is certified has to be what is deployed, whatever a method says."""
    policy = s2r.MarkovPolicy.deterministic([0, 0, 0, 0], num_actions=2, horizon=3)
    given = {"reason": Reason.MIXTURE, "policies": (policy,), "weights": (1.0,), "exploration_weight": 0.5}
    with pytest.raises(s2r.errors.InvalidInput):
        Decision(**(given | {"lower_bounds": np.array([5.0])} | decision))


def test_bounds_that_are_missing_reach_nothing():
    class Silent(Stubborn):
        def propose(self, problem, evidence, **context):
            decision = super().propose(problem, evidence, **context)
            return Decision(Reason.MIXTURE, decision.policies, decision.weights, 1.0)

    with pytest.raises(s2r.errors.InvalidInput, match="0 lower bounds for 1 constraints"):
        s2r.Learner(random_case(0).problem, Silent()).propose()


def test_a_stop_of_an_unknown_method_proves_nothing_about_plans():
    class Stops(Stubborn):
        def propose(self, problem, evidence, **context):
            return Decision(Reason.STOP, uncertainty=0.0)

    case = random_case(0)
    settings = s2r.Settings.paper(margin=0.3, calibrated_gap=0.0, mismatch_gap=0.5, tolerance=0.075)
    plan = s2r.Learner(s2r.Problem(case.problem.simulator, case.problem.baseline, settings), Stops()).plan(np.ones((4, 2)))
    exact = s2r.planning.constraint_values(case.reality, plan.policy)
    assert (exact >= plan.certificate.lower_bounds - 1e-9).all()


def test_a_subclass_with_its_own_proposals_is_simulated_as_it_proposes():
    class Lazy(s2r.methods.SimToReal):
        def propose(self, problem, evidence, **context):
            return Decision(Reason.BASELINE)

    case = random_case(0)
    run = s2r.simulate(s2r.Learner(case.problem, Lazy()), case.real, max_rounds=20)
    assert set(run.reason.tolist()) == {Reason.BASELINE.value}


@dataclass(frozen=True)
class Unpaid(Method):
    """A candidate for which the margin pays nothing yet, and what is known of it."""

    name: ClassVar[str] = "unpaid"

    def propose(self, problem, evidence, *, seed, round_number, memory=None):
        policy = s2r.MarkovPolicy.deterministic([0, 0, 0, 0], num_actions=2, horizon=3)
        return Decision(Reason.MIXTURE, (policy,), (1.0,), 0.0, np.array([-np.inf]), 0.7)

    def recheck(self, recorded, evidence, now):
        return evidence.lower_bounds(recorded.candidate)


def test_what_is_known_of_a_candidate_is_not_lost_where_nothing_of_it_is_deployed():
    learner = s2r.Learner(random_case(0).problem, Unpaid())
    assert learner.propose().reason is Reason.BASELINE
    assert learner.propose().uncertainty == 0.7
    with s2r.Campaign.create(MemoryJournal(), learner.problem, method=Unpaid(), trust_margin=True) as campaign:
        campaign.ask(worker="arm")
        assert campaign.status(forecast=False).uncertainty == 0.7
        assert campaign.verify().holds  # a record of the baseline alone claims nothing of a candidate
