"""A campaign for declared rewards: asked and told, verified, opened again, with rewards added and dropped on the way."""

import dataclasses
import json

import numpy as np
import pytest
from typer.testing import CliRunner

import safe2real as s2r
from safe2real import Campaign, methods
from safe2real.campaign import record
from safe2real.campaign.events import DECLARE, Draft
from safe2real.campaign.journal import MemoryJournal
from safe2real.campaign.replay import declared_in
from safe2real.campaign.signing import principal_of
from safe2real.cli import app
from safe2real.errors import InvalidInput, Stopped, StorageFailure
from safe2real.exploration import roll_out
from safe2real.model.serialization import named_to_json
from safe2real.testing.systems import random_case

CASE = random_case(1)
REWARD = np.random.default_rng([1, 1]).random((4, 2))
OTHER = 1.0 - REWARD


def create(journal, accuracy=0.15):
    method = methods.ForRewards({"mine": REWARD}, accuracy=accuracy)
    return Campaign.create(journal, CASE.problem, method=method, trust_margin=True)


def run_to_the_stop(campaign, most=2_000, batch=5):
    for _ in range(most // batch):
        try:
            deployments = campaign.ask_batch(batch, worker="arm")
        except Stopped:
            return True
        for one in deployments:
            campaign.tell(one.id, roll_out(CASE.reality, one.policy, seed=3, round_number=one.number))
    return False


def test_ask_tell_status_verify_add_and_drop():
    journal = MemoryJournal()
    with create(journal) as campaign:
        before = campaign.status()
        assert [one.name for one in before.rewards] == ["mine"]
        assert not before.rewards[0].accurate
        assert before.tolerance == 0.15
        assert before.forecast.rounds > 0
        assert run_to_the_stop(campaign)
        after = campaign.status()
        (mine,) = after.rewards
        assert after.stopped
        assert mine.accurate
        assert mine.upper - mine.lower <= mine.allowed == pytest.approx(0.15 * mine.upper)
        best = s2r.solve(CASE.reality, REWARD).value
        plan = campaign.plan(REWARD)
        assert mine.lower <= plan.value <= best <= plan.bound <= mine.upper
        assert plan.certificate.holds
        receipt = campaign.declare({"other": OTHER})
        assert receipt.sequence == len(campaign.events())
        assert principal_of(campaign.events()[-1]) == campaign.by  # whose signature it must bear
        assert [one.name for one in campaign.status(forecast=False).rewards] == ["mine", "other"]
        assert not campaign.status(forecast=False).stopped
        told = campaign.status(forecast=False).told
        assert run_to_the_stop(campaign)
        stopped = campaign.status(forecast=False)
        assert stopped.told > told
        ledger = campaign.verify()
        assert ledger.holds, ledger.describe()
    with Campaign.open(journal) as again:
        assert again.verify().holds
        assert again.status(forecast=False).rewards == stopped.rewards
        assert list(again.method.rewards) == ["mine", "other"]
        assert again.method.rewards["other"].tobytes() == OTHER.tobytes()
        again.declare(drop=["mine"])
        assert [one.name for one in again.status(forecast=False).rewards] == ["other"]
        assert again.verify().holds


def test_two_processes_propose_the_same_after_a_declaration():
    journal = MemoryJournal()
    with create(journal, accuracy=0.01) as one, Campaign.open(journal) as two:
        for _ in range(10):
            deployment = one.ask(worker="arm")
            one.tell(deployment.id, roll_out(CASE.reality, deployment.policy, seed=3, round_number=deployment.number))
        two.status(forecast=False)
        one.declare({"other": OTHER}, drop=["mine"])
        first, second = one.proposal(), two.proposal()
        assert first.exploration_weight == second.exploration_weight
        assert first.uncertainty == second.uncertainty
        assert np.array_equal(first.mixture.weights, second.mixture.weights)


@pytest.mark.parametrize(
    ("added", "dropped", "words"),
    [
        ({"wide": np.ones((4, 3))}, (), "wide"),
        ({"high": np.full((4, 2), 1.5)}, (), "high"),
        ({"hole": np.full((4, 2), np.nan)}, (), "hole"),
        ({"mine": OTHER}, (), "mine"),
        ({}, ["mine"], "reward"),
        ({}, ["nobody"], "no reward is called"),
        (None, (), "nothing is declared"),
        (None, 3, "drop is 3"),
    ],
)
def test_what_is_refused_leaves_nothing_in_the_record(added, dropped, words):
    with create(MemoryJournal()) as campaign:
        with pytest.raises(InvalidInput, match=words):
            campaign.declare(added, drop=dropped)
        assert len(campaign.events()) == 1


def test_a_campaign_is_not_created_for_what_cannot_be_a_reward_nor_redirected_without_any():
    journal = MemoryJournal()
    for rewards in ({"goal": 2.0 * np.ones((4, 2))}, {"goal": np.ones((5, 2))}):
        with pytest.raises(InvalidInput):
            Campaign.create(journal, CASE.problem, method=methods.ForRewards(rewards), trust_margin=True)
    with Campaign.create(MemoryJournal(), CASE.problem, trust_margin=True) as plain:
        with pytest.raises(InvalidInput, match="explores for every reward"):
            plain.declare({"goal": REWARD})
        assert len(plain.events()) == 1
        assert plain.status(forecast=False).rewards == ()


def test_a_snapshot_knows_what_was_declared(monkeypatch):
    monkeypatch.setattr(record, "LEAST_STEP", 10)
    journal = MemoryJournal()
    with create(journal, accuracy=0.01) as campaign:
        campaign.declare({"other": OTHER})
        for _ in range(30):
            deployment = campaign.ask(worker="arm")
            campaign.tell(deployment.id, roll_out(CASE.reality, deployment.policy, seed=3, round_number=deployment.number))
        expected = campaign.proposal()
    with journal.reading() as transaction:
        found = transaction.snapshot()
    assert found is not None
    with Campaign.open(journal) as again:
        assert again.proposal().uncertainty == expected.uncertainty
        assert list(again.method.rewards) == ["mine", "other"]
        assert again.record.covered > 0


def test_a_forged_declaration_is_reported_and_not_followed():
    journal = MemoryJournal()
    with create(journal) as campaign:
        campaign.declare({"other": OTHER})
        (event,) = [event for event in campaign.events() if event.kind == DECLARE]
        body = json.loads(event.body)
        for damage in (
            {"method": {**body["method"], "rewards": {"other": [[2.0, 0.0]] * 4}}},
            {"method": {**body["method"], "rewards": {"other": [[1.0, 0.0]] * 3}}},
            {"method": {"kind": "sim-to-real safe RL"}},
            {"method": "declared rewards"},
            {},
        ):
            forged = dataclasses.replace(event, body=json.dumps(damage))
            with pytest.raises(InvalidInput):
                declared_in(forged).check(CASE.problem)


def test_a_declaration_in_a_campaign_without_rewards_is_reported():
    journal, method = MemoryJournal(), methods.ForRewards({"goal": REWARD})
    with Campaign.create(journal, CASE.problem, trust_margin=True) as campaign:
        with journal.writing() as transaction:
            transaction.append([Draft(DECLARE, {"method": named_to_json(method)}, worker="somebody")])
        ledger = campaign.verify()
        assert not ledger.holds
        assert "which has none" in ledger.problems[0].what
        with pytest.raises(StorageFailure, match="which has none"):
            campaign.ask(worker="arm")


def test_the_command_line_shows_every_reward(tmp_path):
    place = tmp_path / "campaign.db"
    with create(place) as campaign:
        campaign.declare({"other": OTHER})
    ended = CliRunner().invoke(app, ["campaign", "status", str(place), "--no-forecast"])
    shown = json.loads(ended.stdout)
    assert [one["name"] for one in shown["rewards"]] == ["mine", "other"]
    assert all(one["lower"] <= one["upper"] and not one["accurate"] for one in shown["rewards"])


def test_rewards_are_declared_and_planned_for_on_the_command_line(tmp_path):
    place = tmp_path / "campaign.db"
    create(place).close()
    np.save(tmp_path / "other.npy", OTHER)
    np.savez(tmp_path / "several.npz", one=OTHER, two=REWARD)
    (tmp_path / "third.json").write_text(json.dumps(OTHER.tolist()))

    def command(*arguments):
        ended = CliRunner().invoke(app, ["campaign", arguments[0], str(place), *map(str, arguments[1:])])
        return ended.exit_code, json.loads(ended.stdout or ended.stderr)

    added = ["--add", f"other={tmp_path}/other.npy", "--add", f"third={tmp_path}/third.json"]
    code, said = command("declare", *added, "--drop", "mine", "--add", f"fourth={tmp_path}/several.npz:two")
    assert (code, said["rewards"], said["new"]) == (0, ["fourth", "other", "third"], True)
    with Campaign.open(place) as campaign:
        assert campaign.verify().holds
        campaign.status(forecast=False)
        np.testing.assert_array_equal(campaign.method.rewards["fourth"], REWARD)
        recorded = len(campaign.events())
    for arguments, words in (
        ([], "nothing is declared"),
        (["--add", "other"], "give NAME=FILE"),
        (["--add", f"={tmp_path}/other.npy"], "give NAME=FILE"),
        (["--add", f"new={tmp_path}/other.npx"], "other.npx cannot be read"),
        (["--add", f"new={tmp_path}/several.npz"], "say which one"),
        (["--drop", "nobody"], "no reward is called 'nobody'"),
    ):
        code, said = command("declare", *arguments)
        assert (code, said["error"]) == (2, "invalid-input")
        assert words in said["message"]
    with Campaign.open(place) as campaign:
        assert len(campaign.events()) == recorded
    plans = [command("plan", tmp_path / name)[1]["value"] for name in ("other.npy", "several.npz:one", "third.json")]
    assert plans[0] == plans[1] == plans[2]
