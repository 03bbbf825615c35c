"""What a fleet's deployments share is checked once; what they do not share is checked for each."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from safe2real.campaign import Campaign
from safe2real.campaign.verify import Checker, check_record
from safe2real.model.serialization import to_text
from tests.campaign.systems import chained, run_rounds, three_states

SYSTEM = three_states()


@pytest.fixture
def campaign(tmp_path):
    with Campaign.create(tmp_path / "campaign.db", SYSTEM.specification) as campaign:
        run_rounds(campaign, SYSTEM, 30)
        for deployment in campaign.ask_batch(8, worker="fleet"):
            campaign.tell(deployment.id, SYSTEM.episode(deployment))
        campaign.ask_batch(8, worker="fleet")
        yield campaign


def checked(campaign: Campaign, index: int, **forged):
    """The ledger of a record in which one body was changed and all digests were made anew."""
    events = list(campaign.events())
    events[index] = replace(events[index], body=to_text(json.loads(events[index].body) | forged))
    with campaign.journal.reading() as transaction:
        checker = Checker(campaign.name, campaign.record.problem_digest, campaign.fresh_learner(), transaction.blob)
        return check_record(checker, chained(events))


def test_the_claims_of_a_shared_proposal_are_computed_once(campaign, monkeypatch):
    computed = []
    claims = Checker._check_claims
    monkeypatch.setattr(Checker, "_check_claims", lambda self, *given: (computed.append(1), claims(self, *given))[1])
    ledger = campaign.verify()
    assert (ledger.holds, ledger.deployments, ledger.identical) == (True, 46, 46)
    assert len(computed) == 30 + 2


def test_each_deployment_of_a_fleet_has_its_own_coin(campaign):
    index = next(i for i, e in enumerate(campaign.events()) if e.kind == "ask" and e.deployment == 35)
    body = json.loads(campaign.events()[index].body)
    for other in range(len(body["policies"])):
        if other != body["drawn"]:
            found = checked(campaign, index, drawn=other)
            assert [problem.what for problem in found.problems if problem.sequence == index + 1] == [
                "the policy that was run is not the one that the coin of this deployment shows"
            ]
    found = checked(campaign, index, drawn=len(body["policies"]))
    assert "not a deployment as it was recorded" in found.problems[0].what


@pytest.mark.parametrize(
    ("key", "value"), [("lower_bounds", [3.9]), ("uncertainty", 1e-6), ("episodes_counted", 7), ("candidates", 0)]
)
def test_a_claim_that_one_of_them_makes_alone_is_checked(campaign, key, value):
    index = next(i for i, e in enumerate(campaign.events()) if e.kind == "ask" and e.deployment == 35)
    found = checked(campaign, index, **{key: value})
    assert any(problem.sequence == index + 1 for problem in found.problems)
    assert all(problem.sequence == index + 1 for problem in found.problems), "the others are as they were"
