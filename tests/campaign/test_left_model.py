"""The real system went where the model has no state: that can always be told, it is kept, and it refutes."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

import safe2real as s2r
from safe2real.campaign import Campaign
from safe2real.methods.base import Reason
from safe2real.report.campaign_report import write_campaign_report
from safe2real.report.export import export_csv, export_json
from safe2real.standing import DoubtCode, Standing
from tests.campaign.systems import run_rounds, three_states

SYSTEM = three_states()
MODEL = SYSTEM.specification.simulator


def left_after(policy: s2r.MarkovPolicy, states: list[int]) -> tuple[list[int], list[int]]:
    """The policy acted in each of these states, and the last action led nowhere that the model knows."""
    probabilities = policy.probabilities
    return states, [int(np.argmax(probabilities[h, state])) for h, state in enumerate(states)]


def codes(campaign: Campaign) -> set[DoubtCode]:
    return {doubt.code for doubt in campaign.assurance().doubts}


def test_leaving_the_model_is_recorded_once_refutes_and_survives(place: Path, tmp_path: Path) -> None:
    with Campaign.create(place, SYSTEM.specification) as campaign:
        run_rounds(campaign, SYSTEM, 3)
        deployment = campaign.ask(worker="arm")
        assert deployment.certificate.certified
        seen = left_after(deployment.policy, [0, 1, 1])
        receipt = campaign.tell(deployment.id, seen, left_model=True)
        assert (receipt.new, receipt.samples) == (True, 2)
        assert not campaign.tell(deployment.id, seen, left_model=True).new
        with pytest.raises(s2r.errors.Conflict, match="told already, with another episode"):
            campaign.tell(deployment.id, (seen[0][:2], seen[1][:2]), left_model=True)
        with pytest.raises(s2r.errors.Conflict, match="told already, with another episode"):
            campaign.tell(deployment.id, SYSTEM.episode(deployment))
    with Campaign.open(place) as campaign:
        status = campaign.status()
        assert (status.standing, status.next_reason, status.left_model) == (Standing.REFUTED, "BASELINE", 1)
        assert (status.told, status.cut_short, status.samples, status.samples_counted) == (4, 0, 14, 14)
        assert status.forecast.rounds is None
        assert DoubtCode.LEFT_MODEL in codes(campaign)
        assert not campaign.plan(np.ones((3, 2))).certificate.certified
        after = campaign.ask(worker="arm")
        assert after.reason is s2r.methods.Reason.BASELINE
        assert not after.certificate.certified
        ledger = campaign.verify()
        assert ledger.holds, ledger.describe()
        assert ledger.standing is Standing.REFUTED
        assert ledger.samples == 14
        page = write_campaign_report(campaign, tmp_path / "page.html", forecast=False).read_text()
        assert f"went where the model has no state ({deployment.id})" in page
        assert "left the model" in page
        document = json.loads(export_json(campaign, tmp_path / "record.json").read_text())
        told = [json.loads(event["body"]) for event in document["events"] if event["kind"] == "tell"]
        assert told[-1] == {"states": seen[0], "actions": seen[1], "left_model": True}
        with export_csv(campaign, tmp_path / "tables")[0].open() as file:
            rows = [row for row in csv.DictReader(file) if row["deployment"] == deployment.id]
        assert [row["next_state"] for row in rows] == ["1", "1", ""]
        assert {row["left_model"] for row in rows} == {"True"}


def test_an_episode_that_began_in_no_state_of_the_model_is_told_with_nothing(place: Path) -> None:
    with Campaign.create(place, SYSTEM.specification) as campaign:
        deployment = campaign.ask(worker="arm")
        receipt = campaign.tell(deployment.id, {"states": [], "actions": [], "left_model": True})
        assert (receipt.new, receipt.samples) == (True, 0)
        assert not campaign.tell(deployment.id, ([], []), left_model=True).new
        assert DoubtCode.LEFT_MODEL in codes(campaign)
        assert campaign.status(forecast=False).samples_counted == 0
        assert campaign.verify().holds


@pytest.mark.parametrize("partial", [False, True])
def test_an_episode_that_began_where_none_does_is_kept_and_refutes(place: Path, partial: bool) -> None:
    """All of its transitions are counted: what a row does next does not depend on how one came there."""
    with Campaign.create(place, SYSTEM.specification) as campaign:
        deployment = campaign.ask(worker="arm")
        states = [1, 1, 0] if partial else [1, 1, 0, 0, 0]
        actions = left_after(deployment.policy, states[:-1])[1]
        receipt = campaign.tell(deployment.id, {"states": states, "actions": actions}, partial=partial)
        assert (receipt.new, receipt.samples) == (True, len(actions))
        status = campaign.status(forecast=False)
        assert (status.standing, status.samples_counted) == (Standing.REFUTED, len(actions))
        assert campaign.mismatch_map().visits.sum() == len(actions)
    with Campaign.open(place) as campaign:
        assert DoubtCode.LEFT_MODEL in codes(campaign)
        assert campaign.verify().holds


def test_its_actions_are_those_of_the_policy_and_its_lengths_fit(place: Path) -> None:
    with Campaign.create(place, SYSTEM.specification) as campaign:
        deployment = campaign.ask(worker="arm")
        states, actions = left_after(deployment.policy, [0, 1])
        with pytest.raises(s2r.errors.InvalidInput, match=r"actions\[1\] is . in state 1, which its policy never does"):
            campaign.tell(deployment.id, (states, [actions[0], 1 - actions[1]]), left_model=True)
        with pytest.raises(s2r.errors.InvalidInput, match="as many states as actions"):
            campaign.tell(deployment.id, SYSTEM.episode(deployment), left_model=True)
        with pytest.raises(s2r.errors.InvalidInput, match=r"give the pair \(states, actions\)"):
            campaign.tell(deployment.id, (states, actions, actions), left_model=True)  # type: ignore[arg-type]
        with pytest.raises(s2r.errors.InvalidInput, match="at most 4 of each"):
            campaign.tell(deployment.id, ([0] * 5, [0] * 5), left_model=True)
        with pytest.raises(s2r.errors.InvalidInput, match=r"give the pair \(states, actions\)"):
            campaign.tell(deployment.id, [states, actions], left_model=True)  # type: ignore[arg-type]
        with pytest.raises(s2r.errors.InvalidInput, match="left_model is 1; give true or false"):
            campaign.tell(deployment.id, {"states": states, "actions": actions, "left_model": 1})
        # A number that no state has is no state; what to do with it is said.
        with pytest.raises(
            s2r.errors.InvalidInput, match=r'states\[2\] is 7; .*went where the model has no state.*"left_model"'
        ):
            campaign.tell(deployment.id, {"states": [0, 1, 7], "actions": actions}, partial=True)
        assert len(campaign.events()) == 2
        assert campaign.assurance().certified


def test_its_transitions_wait_for_their_place_and_what_they_refute_does_not(place: Path) -> None:
    """A worker that never comes back must not keep a crash that was told from being looked at."""
    with Campaign.create(place, SYSTEM.specification) as campaign:
        first, second = campaign.ask(worker="first"), campaign.ask(worker="second")
        campaign.tell(second.id, left_after(second.policy, [0]), left_model=True)
        status = campaign.status(forecast=False)
        assert (status.standing, status.episodes_waiting, status.waiting_for) == (Standing.REFUTED, 1, first.id)
        assert status.samples_counted == 0
        assert not campaign.verify().certified
        assert campaign.ask(worker="third").reason is Reason.BASELINE
        campaign.tell(first.id, SYSTEM.episode(first))
        assert campaign.status(forecast=False).standing is Standing.REFUTED
        assert campaign.verify().holds


def test_what_comes_before_and_after_it_is_counted_in_order(place: Path) -> None:
    """All six are read at once; the model is the one of a learner that was told one by one."""
    with Campaign.create(place, SYSTEM.specification) as campaign:
        fleet = campaign.ask_batch(6, worker="fleet")
        outcomes = [SYSTEM.episode(one) for one in fleet]
        for number in (5, 4, 3, 1, 0):
            campaign.tell(fleet[number].id, outcomes[number])
        left = left_after(fleet[2].policy, [0, 1, 1])
        campaign.tell(fleet[2].id, left, left_model=True)
        learner = s2r.Learner(SYSTEM.specification, warm_start=False)
        for number, episode in enumerate(outcomes):
            if number == 2:
                learner.leave_model(*left)
            else:
                learner.count(episode.states, episode.actions, np.array([0, 4]), of_baseline=np.array([False]))
        campaign.proposal()
        found = campaign.record.replay.learner
        assert np.array_equal(found.evidence.counts.visits, learner.evidence.counts.visits)
        assert np.array_equal(found.evidence.belief.refuted, learner.evidence.belief.refuted)
        assert np.array_equal(found.evidence.bonus, learner.evidence.bonus)
        assert found.doubts() == learner.doubts()


def test_an_imported_log_may_leave_the_model_too(place: Path) -> None:
    baseline = SYSTEM.specification.baseline
    log = [
        {"states": [0, 0, 0, 0, 0], "actions": [0, 0, 0, 0]},
        {"states": [0, 1], "actions": [0, 0], "left_model": True},
        {"states": [], "actions": [], "left_model": True},
        {"states": [1, 0, 0, 0, 0], "actions": [0, 0, 0, 0], "left_model": False},
    ]
    with Campaign.create(place, SYSTEM.specification) as campaign:
        receipt = campaign.import_log("last year", baseline, log)
        assert (receipt.new, receipt.samples) == (True, 9)
        status = campaign.status(forecast=False)
        assert (status.imported, status.left_model, status.samples_counted) == (4, 2, 9)
        assert "3 episodes went where the model has no state" in campaign.assurance().describe()
        assert campaign.verify().holds
        with pytest.raises(
            s2r.errors.InvalidInput, match=r"episodes\[0\]: actions\[1\] is 1 in state 1, which its policy never"
        ):
            campaign.import_log("wrong", baseline, [{"states": [0, 1], "actions": [0, 1], "left_model": True}])
