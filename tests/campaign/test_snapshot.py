"""A snapshot saves time and decides nothing: with it, without it, or with a bad one, the campaign is the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from safe2real.campaign import Campaign, record, snapshot
from safe2real.campaign.replay import Replay
from safe2real.campaign.status import CampaignStatus
from safe2real.model.archive import Archive
from tests.campaign.systems import assert_same_model, change, model_of, paper_grid, read, run_rounds, three_states
from tests.cases import sampled

SYSTEM = three_states()


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setattr(record, "LEAST_STEP", 10)
    return tmp_path / "campaign.db"


def lively(place: Path, rounds: int = 12) -> None:
    """A record with everything in it: out of order, cut short, abandoned, told late, imported, forced, out."""
    with Campaign.create(place, SYSTEM.specification) as campaign:
        for number in range(rounds):
            one, two, three = campaign.ask_batch(3, worker=f"robot {number % 3}")
            campaign.tell(three.id, SYSTEM.episode(three))
            if number % 3 == 0:
                campaign.abandon(two.id, "the battery is empty")
            if number % 4 == 0:
                campaign.tell(two.id, SYSTEM.episode(two), force="late")
            if number == 5:
                campaign.import_log("log", one.policy, [SYSTEM.episode(one)], overlap="count")
            if number % 5:
                campaign.tell(one.id, SYSTEM.episode(one))


def covered(place: Path) -> int:
    return read(place, "SELECT max(sequence) FROM safe2real_snapshot")[0][0] or 0


def content_of(place: Path) -> bytes:
    return read(place, "SELECT content FROM safe2real_snapshot")[0][0]


def put_snapshot(place: Path, content: bytes) -> None:
    change(place, "UPDATE safe2real_snapshot SET content = ?", content)


def timeless(campaign: Campaign) -> CampaignStatus:
    """The status but for what it says of how long something is out."""
    return replace(campaign.status(forecast=False), notices=())


def replayed(campaign: Campaign) -> Replay:
    replay = Replay(campaign.fresh_learner())
    for event in campaign.events():
        replay.apply(event)
    return replay


def state_of(replay: Replay) -> dict:
    archive = snapshot.state_of(replay, "")
    return archive.document | {name: array.tobytes() for name, array in archive.arrays.items()}


def test_a_process_that_begins_from_a_snapshot_knows_the_same(place, monkeypatch):
    lively(place)
    assert covered(place) > 30
    reads = []
    apply = Replay.apply
    monkeypatch.setattr(Replay, "apply", lambda self, event: (reads.append(event.sequence), apply(self, event))[1])
    with Campaign.open(place) as campaign:
        status = timeless(campaign)
        assert min(reads) == covered(place) + 1, "the snapshot was not used"
        assert state_of(campaign.record.replay) == state_of(replayed(campaign))
        model = model_of(campaign)
    change(place, "DELETE FROM safe2real_snapshot")
    with Campaign.open(place) as campaign:
        assert timeless(campaign) == status
        assert_same_model(model_of(campaign), model)
        assert campaign.verify().holds


def test_every_snapshot_on_the_way_leads_to_the_same(place, monkeypatch):
    """Taken after every single event of a lively record, and continued from there."""
    lively(place, 8)
    with Campaign.open(place) as campaign:
        events, digest = campaign.events(), campaign.record.problem_digest
        whole = state_of(replayed(campaign))
        replay = Replay(campaign.fresh_learner())
        for event in events:
            replay.apply(event)
            content = snapshot.snapshot_of(replay, digest, None)
            again = snapshot.replay_from(content, (replay.sequence, replay.digest), campaign.fresh_learner(), digest, None)
            assert again is not None
            for later in events[event.sequence :]:
                again.apply(later)
            assert state_of(again) == whole


def test_a_planning_campaign_goes_on_bit_for_bit(place, tmp_path):
    grid = paper_grid()
    with (
        Campaign.create(place, grid.specification) as campaign,
        Campaign.create(tmp_path / "q.db", grid.specification) as quiet,
    ):
        run_rounds(campaign, grid, 12)
        run_rounds(quiet, grid, 14)
        with Campaign.open(place) as other:
            run_rounds(other, grid, 2)
            assert other.record.covered > 0
            assert_same_model(model_of(other), model_of(quiet))


def sealed(payload: bytes) -> bytes:
    return snapshot._seal(payload, None).encode() + payload


def forged(content: bytes, change: Callable[[Archive], Any]) -> bytes:
    """A forger makes digest and seal anew, which needs no key in a record without one."""
    archive = Archive.from_bytes(content[64:], "snapshot", format=99, name="it")
    change(archive)
    return sealed(archive.to_bytes(format=99))


def numbers_in(archive: Archive) -> dict:
    return archive.document["replay"]["numbers"]


def claim(archive: Archive) -> None:
    numbers_in(archive)["told"] = 1000


@sampled(
    "harm",
    [
        lambda content: b"",
        lambda content: content[:-1],
        lambda content: content[:100] + b"x" + content[101:],
        lambda content: forged(content, lambda archive: archive.document.update(format=8)),
        lambda content: forged(content, lambda archive: archive.document.update(version="9")),
        lambda content: forged(content, lambda archive: archive.document.update(specification="0")),
        lambda content: forged(content, lambda archive: archive.document.pop("replay")),
        lambda content: forged(content, lambda archive: numbers_in(archive).update(samples=1000)),  # not what is counted
        lambda content: sealed(content[64:-30]),
        lambda content: sealed(content[64:100]),
        lambda content: snapshot._seal(b"", None).encode(),
    ],
    keep=(1, 2, 4, 7, 8),
)
def test_a_bad_snapshot_is_passed_over(place, harm):
    lively(place)
    with Campaign.open(place) as campaign:
        status = timeless(campaign)
    put_snapshot(place, harm(content_of(place)))
    with Campaign.open(place) as campaign:
        assert timeless(campaign) == status
        assert campaign.record.covered == 0


def test_a_snapshot_of_a_lost_branch_is_passed_over(place, tmp_path):
    """The record is restored to a time before it; its event is not there, or another one is."""
    lively(place, 6)
    ((last,),) = read(place, "SELECT max(sequence) FROM safe2real_event")
    change(place, "UPDATE safe2real_snapshot SET digest = ?", "0" * 64)
    with Campaign.open(place) as campaign:
        assert campaign.status(forecast=False).events == last
        assert campaign.record.covered == 0
    change(place, "UPDATE safe2real_snapshot SET sequence = ?", last + 7)
    with Campaign.open(place) as campaign:
        assert campaign.status(forecast=False).events == last
        assert campaign.record.covered == 0


def test_verify_does_not_believe_it_and_says_so(place):
    lively(place)
    put_snapshot(place, forged(content_of(place), claim))
    with Campaign.open(place) as campaign:
        assert campaign.status(forecast=False).told > 100, "the forged one was taken, which is what this test is about"
        ledger = campaign.verify()
        assert ledger.episodes < 100
        (problem,) = ledger.problems
        assert problem.sequence == covered(place)
        assert "the snapshot" in problem.what


def test_a_signed_record_takes_snapshots_of_its_key_only(place, tmp_path, monkeypatch):
    (tmp_path / "keys").write_text(f"rover {'11' * 32}\n")
    monkeypatch.setenv("SAFE2REAL_KEY_FILE", str(tmp_path / "keys"))
    lively(place)
    with Campaign.open(place) as campaign:
        campaign.status(forecast=False)
        assert campaign.record.covered > 0
    put_snapshot(place, forged(content_of(place), claim))
    with Campaign.open(place) as campaign:
        assert campaign.status(forecast=False).told < 100
        assert campaign.record.covered == 0
