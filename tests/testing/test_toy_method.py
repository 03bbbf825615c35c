"""A method from outside: walk towards one reward as far as that is certified. And ones that cheat."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

from safe2real import Campaign, solve
from safe2real.campaign.journal import MemoryJournal
from safe2real.methods import Decision, Method, Reason
from safe2real.methods.base import candidate_share, refuted_decision
from safe2real.testing import MethodContract
from safe2real.testing.systems import random_case


@dataclass(frozen=True)
class TowardsOne(Method):
    """Deploys what the model calls best for reaching state `goal`, mixed with the baseline until its worst case is safe."""

    goal: int = 1
    name: ClassVar[str] = "toy: towards one state"

    def propose(self, problem, evidence, *, seed, round_number, memory=None):
        over = refuted_decision(evidence)
        reward = np.eye(problem.simulator.num_states)[self.goal][:, None] * np.ones(problem.simulator.num_actions)
        best = solve(evidence.model, reward)
        if over is not None or not best.is_feasible:
            return over or Decision(Reason.BASELINE)
        lower = evidence.lower_bounds(best.policy)
        share = candidate_share(lower, problem.simulator.thresholds, evidence.margins)
        return Decision(Reason.MIXTURE, best.policy.policies, tuple(best.policy.weights.tolist()), share, lower)

    def recheck(self, recorded, evidence, now):
        return evidence.lower_bounds(recorded.candidate)


class TestTowardsOne(MethodContract):
    def make(self):
        return TowardsOne()


class Cheat(TowardsOne):
    def propose(self, problem, evidence, **context):  # all of the candidate, with bounds that are made up
        return replace(super().propose(problem, evidence, **context), exploration_weight=1.0, lower_bounds=np.full(1, 2.5))


class CheatsLate(Cheat):
    """Honest for the first 1,000 samples."""

    def propose(self, problem, evidence, **context):
        late = evidence.counts.visits.sum() > 1_000
        return (Cheat if late else TowardsOne).propose(self, problem, evidence, **context)


class CheatsOnLarge(Cheat):
    """Honest on systems of at most 8 states."""

    def propose(self, problem, evidence, **context):
        large = problem.simulator.num_states > 8
        return (Cheat if large else TowardsOne).propose(self, problem, evidence, **context)


class CheatsBetween(Cheat):
    """Honest on systems of at most 5 states, and from 12 on."""

    def propose(self, problem, evidence, **context):
        between = 5 < problem.simulator.num_states < 12
        return (Cheat if between else TowardsOne).propose(self, problem, evidence, **context)


@pytest.mark.parametrize("cheat", [CheatsLate, CheatsOnLarge, CheatsBetween])
def test_one_that_cheats_only_later_or_on_larger_systems_is_refused(cheat):
    contract = type("Contract", (MethodContract,), {"make": lambda self: cheat()})()
    contract.test_every_proposal_is_covered_by_what_the_data_prove()  # which sees little data of small systems
    with pytest.raises(AssertionError, match="it claims"):
        contract.test_much_data_and_more_states_change_nothing()


def test_one_that_proposes_what_is_not_certified_is_refused_by_the_contract_and_by_verify():
    contract = type("Contract", (MethodContract,), {"make": lambda self: Cheat()})()
    with pytest.raises(AssertionError, match="it claims"):
        contract.test_every_proposal_is_covered_by_what_the_data_prove()
    with Campaign.create(MemoryJournal(), random_case(3).problem, method=Cheat(), trust_margin=True) as campaign:
        campaign.ask(worker="toy")
        assert "claim more than the data prove" in campaign.verify().describe()
