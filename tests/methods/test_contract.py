"""The methods of the package keep the contract that those from outside must."""

import numpy as np
import pytest

from safe2real import Campaign, methods
from safe2real.campaign.journal import MemoryJournal
from safe2real.errors import InvalidInput
from safe2real.testing import MethodContract
from safe2real.testing.systems import random_case


class TestSimToReal(MethodContract):
    def make(self):
        return methods.SimToReal()


class TestRewardFree(MethodContract):
    def make(self):
        return methods.RewardFree()


class TestForRewards(MethodContract):
    sizes = (4,)

    def make(self):
        rng, (states,) = np.random.default_rng(5), self.sizes
        return methods.ForRewards({"one": rng.random((states, 2)), "late": rng.random((3, states, 2))}, accuracy=0.2)


class TestForRewardsOfMoreStates(TestForRewards):
    sizes = (12,)

    def cases(self):
        return list(super().cases())[:2]


def test_a_method_that_ignores_the_constraints_is_a_function_too_and_claims_nothing():
    contract = type("Contract", (MethodContract,), {"make": lambda self: methods.Unconstrained()})()
    for promise in [name for name in dir(MethodContract) if name.startswith("test_")]:
        getattr(contract, promise)()


def test_a_campaign_does_not_deploy_what_its_record_cannot_prove():
    journal, case = MemoryJournal(), random_case(3)
    with pytest.raises(InvalidInput, match="unconstrained sim-to-real RL"):
        Campaign.create(journal, case.problem, method=methods.Unconstrained(), trust_margin=True)
    with Campaign.create(journal, case.problem, trust_margin=True) as campaign:  # nothing was left in the way
        assert campaign.ask(worker="arm").number == 1


def test_what_is_said_of_each():
    assert [kind.name for kind in methods.ALL] == [
        "sim-to-real safe RL", "reward-free safe RL", "unconstrained sim-to-real RL", "declared rewards",
        "trial of one policy",
    ]  # fmt: skip
    assert [kind.covers_any_reward for kind in methods.ALL] == [True, True, True, False, False]
    assert [(kind.reuses_simulator, kind.keeps_safe, kind().can_be_rechecked) for kind in methods.ANY_REWARD] == [
        (True, True, True),
        (False, True, True),
        (True, False, False),
    ]
    assert all(kind.has_compiled_rounds for kind in methods.ANY_REWARD)
