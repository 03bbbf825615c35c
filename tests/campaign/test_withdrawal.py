"""After a refutation only the baseline is handed out; when its own margin is refuted, nothing is."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import safe2real as s2r
from safe2real.campaign import Campaign
from safe2real.campaign.deployment import id_of
from safe2real.campaign.events import Draft, event_after
from safe2real.campaign.verify import Checker
from safe2real.exploration import roll_out
from safe2real.exploration.proposal import coin_of, drawn
from safe2real.report.campaign_report import write_campaign_report
from safe2real.standing import DoubtCode, Standing
from tests.campaign.systems import falling, run_rounds, three_states

SYSTEM = three_states()


def kinds(campaign: Campaign) -> list[str]:
    return [event.kind for event in campaign.events()]


def refuted(place: Path) -> tuple[Campaign, str, str]:
    """Two workers hold mixtures, and a third says that the system left the model: (campaign, ids of the two)."""
    campaign = Campaign.create(place, SYSTEM.specification)
    crash = campaign.ask(worker="crashed")
    left, right = campaign.ask(worker="left"), campaign.ask(worker="right")
    assert {one.reason for one in (crash, left, right)} == {s2r.methods.Reason.MIXTURE}
    campaign.tell(crash.id, ([0], [int(np.argmax(crash.policy.probabilities[0, 0]))]), left_model=True)
    return campaign, left.id, right.id


def test_a_mixture_that_is_held_is_withdrawn_and_the_baseline_handed_out(place: Path) -> None:
    campaign, left, right = refuted(place)
    with campaign, Campaign.open(place) as elsewhere:
        after = campaign.ask(worker="left")
        assert (after.reason, after.number) == (s2r.methods.Reason.BASELINE, 4)
        assert after.policy is campaign.problem.baseline or np.array_equal(
            after.policy.probabilities, campaign.problem.baseline.probabilities
        )
        assert [one.id for one in after.withdrawn] == [left]
        assert "where the model has no state" in after.withdrawn[0].reason
        assert kinds(campaign)[-2:] == ["withdraw", "ask"]
        again = elsewhere.ask(worker="left")  # whoever lost the answer is given it again, with what was withdrawn
        assert (again.id, [one.id for one in again.withdrawn]) == (after.id, [left])
        assert not campaign.ask(worker="new").withdrawn
        status = campaign.status(forecast=False)
        assert (status.withdrawn, status.abandoned) == (1, 0)
        assert right in [id for id, *_ in status.held]
        assert campaign.verify().holds


def test_the_baseline_alone_is_not_withdrawn(place: Path) -> None:
    campaign, *_ = refuted(place)
    with campaign:
        first = campaign.ask(worker="left")
        assert campaign.ask(worker="left").id == first.id
        assert kinds(campaign).count("withdraw") == 1
        assert [one.number for one in campaign.ask_batch(2, worker="left")] == [4, 5]


def test_what_ran_of_a_withdrawn_deployment_is_still_taken(place: Path) -> None:
    campaign, left, right = refuted(place)
    with campaign:
        campaign.ask(worker="left")
        campaign.ask(worker="right")
        assert not campaign.abandon(right, "withdrawn").new
        assert campaign.tell(left, {"states": [0, 0], "actions": _first_action(campaign, left)}, partial=True).new
        status = campaign.status(forecast=False)
        assert (status.withdrawn, status.told_late, status.samples, status.samples_counted) == (1, 1, 1, 1)
        assert not campaign.ask(worker="left").withdrawn
        ledger = campaign.verify()
        assert ledger.holds, ledger.describe()


def _first_action(campaign: Campaign, id: str) -> list[int]:
    asked = next(event for event in campaign.events() if event.kind == "ask" and id == id_of(campaign.name, event))
    body = json.loads(asked.body)
    policy = campaign.stored_policies()[body["policies"][body["drawn"]]]
    return [int(np.argmax(policy.probabilities[0, 0]))]


def test_a_withdrawal_releases_what_waits_behind_it(place: Path) -> None:
    campaign, left, right = refuted(place)
    with campaign:
        campaign.tell(right, {"states": [0, 0], "actions": _first_action(campaign, right)}, partial=True)
        assert campaign.status(forecast=False).waiting_for == left
        campaign.ask(worker="left")
        assert campaign.status(forecast=False).samples_counted == 1
        assert campaign.verify().holds


def problems(campaign: Campaign, events: list) -> list[str]:
    with campaign.journal.reading() as transaction:
        contents = dict(transaction.policies())
    checker = Checker(campaign.name, campaign.record.problem_digest, campaign.fresh_learner(), contents.get)
    found = []
    for event in events:
        checker.events = event.sequence
        try:
            checker.check(event)
        except s2r.errors.InvalidInput as error:
            found.append(str(error))
    return found


def test_verify_wants_a_refutation_for_every_withdrawal(place: Path) -> None:
    with Campaign.create(place, SYSTEM.specification) as campaign:
        run_rounds(campaign, SYSTEM, 2)
        campaign.ask(worker="arm")
        events = list(campaign.events())
        body = {"cause": "refuted", "reason": "it looked bad"}
        made_up = event_after(len(events), events[-1].digest, Draft("withdraw", body, 3, "arm"))
        assert problems(campaign, [*events, made_up]) == [
            "a deployment was withdrawn though the data did not refute what it rests on"
        ]
        stranger = event_after(len(events), events[-1].digest, Draft("withdraw", body, 3, "leg"))
        assert problems(campaign, [*events, stranger]) == [
            "a deployment was withdrawn that is not out, or from another worker"
        ]


def test_verify_finds_a_mixture_that_was_handed_out_after_a_refutation(place: Path) -> None:
    campaign, *_ = refuted(place)
    with campaign:
        events = list(campaign.events())
        mixture = json.loads(next(event.body for event in events if event.deployment == 2))
        coin = coin_of(campaign.problem.settings.coin_seed, 4)
        late = {**mixture, "certified": False, "drawn": drawn(np.array(mixture["weights"]), coin)}
        for body in (late, {**late, "uncertainty": None}):
            event = event_after(len(events), events[-1].digest, Draft("ask", body, 4, "late"))
            assert problems(campaign, [*events, event]) == ["the data did not allow a mixture here: the answer was BASELINE"]


# The margin of the baseline itself


def test_nothing_is_handed_out_once_the_baselines_margin_is_refuted(place: Path, tmp_path: Path) -> None:
    specification, real = falling().specification, falling().real
    campaign = Campaign.create(place, specification)
    with campaign:
        campaign.import_log(
            "last week", specification.baseline,
            [roll_out(real, specification.baseline, seed=1, round_number=i) for i in range(60)],
        )  # fmt: skip
        with pytest.raises(s2r.errors.Halted, match=r"STOP THE MACHINE.*new campaign with a smaller margin.*import"):
            campaign.ask(worker="arm")
        status = campaign.status()
        assert (status.halted, status.next_reason, status.standing) == (True, "HALT", Standing.REFUTED)
        assert status.forecast.rounds is None
        assert [doubt.subject for doubt in campaign.assurance().doubts if doubt.code is DoubtCode.MARGIN_REFUTED] == [
            "upright"
        ]
        page = write_campaign_report(campaign, tmp_path / "page.html", forecast=False).read_text()
        body = page[page.index("<body>") :]
        assert body.startswith("<body><div class='stop'><b>STOP THE MACHINE.</b>")
        assert campaign.verify().holds
        assert kinds(campaign) == ["create", "import"]


def test_what_is_held_when_the_margin_is_refuted_is_withdrawn_and_can_be_told(place: Path) -> None:
    """The worker that tells the last episode and the one that holds a deployment: both are stopped."""
    specification, real = falling().specification, falling().real
    with Campaign.create(place, specification) as campaign:
        for _ in range(200):
            first, later = campaign.ask(worker="arm"), campaign.ask(worker="leg")
            campaign.tell(first.id, roll_out(real, first.policy, seed=1, round_number=first.number))
            if campaign.status(forecast=False).halted:
                break
            campaign.abandon(later.id, "the next round begins")
        own = later.id
        for _ in range(2):
            with pytest.raises(s2r.errors.Halted, match=f"Do not run {own}: withdrawn"):
                campaign.ask(worker="leg")
        assert kinds(campaign)[-1] == "withdraw"
        assert kinds(campaign).count("withdraw") == 1
        assert campaign.tell(own, roll_out(real, later.policy, seed=1, round_number=later.number)).new
        ledger = campaign.verify()
        assert ledger.holds, ledger.describe()
        with pytest.raises(s2r.errors.Halted):
            campaign.ask(worker="arm")
