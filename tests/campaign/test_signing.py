"""Keys: what was signed can be proved to be the author's, in its place; what was not shows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from safe2real.campaign import Campaign
from safe2real.campaign.events import Draft, Event, event_after
from safe2real.campaign.signing import Keys
from safe2real.campaign.snapshot import snapshot_of
from safe2real.errors import InvalidInput
from tests.campaign.systems import chained, change, read, run_rounds, three_states, write_events

SYSTEM = three_states()
CELL, AUDITOR, SPY = "11" * 32, "22" * 32, "33" * 32


def keys(monkeypatch, folder: Path, *lines: str) -> None:
    path = folder / "keys"
    path.write_text("\n".join(lines) + "\n")
    monkeypatch.setenv("SAFE2REAL_KEY_FILE", str(path))


@pytest.fixture
def signed(place, tmp_path, monkeypatch):
    keys(monkeypatch, tmp_path, "# of this machine", f"cell-3 {CELL}")
    with Campaign.create(place, SYSTEM.specification) as campaign:
        run_rounds(campaign, SYSTEM, 3)
        assert campaign.by == "cell-3"
    return place


def problems(place: Path) -> list[str]:
    with Campaign.open(place) as campaign:
        return [problem.what for problem in campaign.verify().problems]


def chained_anew(place: Path, forge) -> None:
    """What a forger can do without a key: change an event, and make all digests anew from there."""
    rows = read(place, "SELECT * FROM safe2real_event ORDER BY sequence")
    write_events(place, chained(forge([Event(*row) for row in rows])))


def test_a_signed_record_is_checked_with_the_keys_of_all(signed, tmp_path, monkeypatch):
    keys(monkeypatch, tmp_path, f"cell-4 {AUDITOR}", f"cell-3 {CELL}")
    with Campaign.open(signed) as campaign:
        run_rounds(campaign, SYSTEM, 2, "other")
    assert problems(signed) == []
    keys(monkeypatch, tmp_path, f"cell-3 {CELL}")
    assert problems(signed) == ["the event is signed by 'cell-4', whose key is not in the key file"] * 4
    monkeypatch.delenv("SAFE2REAL_KEY_FILE")
    assert problems(signed) == []  # who has no key checks everything else


def test_what_only_a_key_notices(signed):
    """Workers, times and reasons: nothing in the guarantee follows from them."""
    forgeries = {
        "worker": lambda events: [replace(e, worker="somebody") if e.kind == "tell" else e for e in events],
        "time": lambda events: [replace(e, at="2020-01-01T00:00:00.000+00:00") for e in events],
        "asks": lambda events: [
            *events,
            event_after(7, events[-1].digest, Draft("branch", {"reason": "x"}, worker="cell-3")),
        ],
    }
    content = {path.name: path.read_bytes() for path in signed.parent.iterdir()}
    for forge in forgeries.values():
        chained_anew(signed, forge)
        assert problems(signed)
        for path in signed.parent.glob("campaign.db*"):
            path.unlink()
        for name, old in content.items():
            (signed.parent / name).write_bytes(old)
    assert problems(signed) == []


def test_the_same_forgeries_are_not_noticed_without_a_key(signed, monkeypatch):
    """As the documents say. If one of them is noticed some day, take it off the list there."""
    monkeypatch.delenv("SAFE2REAL_KEY_FILE")
    chained_anew(signed, lambda events: [replace(e, worker="x" if e.worker else None, at="2020-01-01") for e in events])
    assert problems(signed) == []


def test_signatures_that_nobody_could_check_are_said_to_be_unchecked(signed, tmp_path, monkeypatch):
    with Campaign.open(signed) as campaign:
        assert (campaign.verify().signatures_checked, "signatures" in campaign.verify().describe()) == (True, False)
    monkeypatch.delenv("SAFE2REAL_KEY_FILE")
    with Campaign.open(signed) as campaign:
        ledger = campaign.verify()
    assert (ledger.holds, ledger.signatures_checked) == (True, False)
    assert "its signatures were NOT checked: SAFE2REAL_KEY_FILE names no file of keys here" in ledger.describe()
    with Campaign.create(tmp_path / "plain.db", SYSTEM.specification) as plain:
        assert plain.verify().signatures_checked is None


def test_signatures_that_are_taken_away_or_moved_show(signed):
    change(signed, "DELETE FROM safe2real_signature WHERE sequence = 4")
    assert problems(signed) == ["the event is not signed"]
    change(signed, "UPDATE safe2real_signature SET sequence = 4 WHERE sequence = 5")
    assert problems(signed) == [
        "the signature is not one of 'cell-3': the event was forged, or its number or its past changed",
        "the event is not signed",
    ]


def test_a_signature_of_another_is_not_the_author_s(signed, tmp_path, monkeypatch):
    """One who has a key of their own, but not the author's, cannot say that it was the author."""
    keys(monkeypatch, tmp_path, f"spy {SPY}", f"cell-3 {CELL}")
    with Campaign.open(signed) as campaign:
        campaign.record.by = "cell-3"
        run_rounds(campaign, SYSTEM, 1)
    assert problems(signed) == ["the event says that 'cell-3' did it, and 'spy' signed it"] * 2


def test_a_record_is_signed_throughout_or_not_at_all(signed, place, tmp_path, monkeypatch):
    monkeypatch.delenv("SAFE2REAL_KEY_FILE")
    with Campaign.open(signed) as campaign, pytest.raises(InvalidInput, match="is signed, and this process has no key"):
        run_rounds(campaign, SYSTEM, 1)
    with Campaign.create(tmp_path / "plain.db", SYSTEM.specification) as plain:
        run_rounds(plain, SYSTEM, 1)
    keys(monkeypatch, tmp_path, f"cell-3 {CELL}")
    with (
        Campaign.open(tmp_path / "plain.db") as plain,
        pytest.raises(InvalidInput, match="not signed, and this process"),
    ):
        run_rounds(plain, SYSTEM, 1)
    assert problems(tmp_path / "plain.db") == ["the event is not signed"] * 3
    assert problems(signed) == []


@pytest.mark.parametrize(
    "text", ["", "cell-3", "cell-3 zz", f"cell-3 {'1' * 30}", f"{CELL}", f"a {CELL}\na {SPY}", "cell-3 " + "é" * 40]
)
def test_key_files_that_are_refused_are_not_quoted(tmp_path, text):
    path = tmp_path / "keys"
    path.write_text(text)
    with pytest.raises(InvalidInput) as refused:
        Keys.read(path)
    assert CELL not in str(refused.value)
    assert "1" * 30 not in str(refused.value)


def test_keys_are_not_shown(signed):
    shown = repr(Keys({"cell-3": bytes.fromhex(CELL)}))
    assert shown == "Keys of cell-3"


def test_one_process_acts_for_others_and_signs_with_their_keys(place, tmp_path, monkeypatch):
    keys(monkeypatch, tmp_path, f"cell-3 {CELL}", f"auditor {AUDITOR}")
    with Campaign.create(place, SYSTEM.specification) as campaign:
        deployment = campaign.ask(worker="a")
        with campaign.acting_as("auditor"):
            campaign.tell(deployment.id, SYSTEM.episode(deployment))
        assert campaign.by == "cell-3"
        with pytest.raises(InvalidInput, match="no key of 'stranger'"), campaign.acting_as("stranger"):
            campaign.ask(worker="a")
        assert campaign.events()[-1].worker == "auditor"
        ledger = campaign.verify()
        assert ledger.holds
        assert ledger.signatures_checked


def test_a_snapshot_sealed_by_one_who_is_acted_for_is_not_taken(tmp_path, monkeypatch):
    (tmp_path / "keys").write_text(f"server {'ab' * 32}\ncell {'cd' * 32}\n")
    monkeypatch.setenv("SAFE2REAL_KEY_FILE", str(tmp_path / "keys"))
    place, system = tmp_path / "arm.db", three_states()
    with Campaign.create(place, system.specification) as campaign:
        with campaign.acting_as("cell"):
            campaign.ask(worker="cell")
        record = campaign.record
        replay = record.catch_up()
        replay.told += 1000  # a forged state
        forged = snapshot_of(replay, record.problem_digest, campaign.journal.keys.first("cell"))
        with campaign.journal.writing() as transaction:
            transaction.keep_snapshot(replay.sequence, replay.digest, forged)
    with Campaign.open(place) as campaign:
        with campaign.acting_as("cell"):
            campaign.ask(worker="cell")
        assert campaign.status(forecast=False).told == 0
