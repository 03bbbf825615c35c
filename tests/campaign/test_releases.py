"""Records outlive releases: what an older one wrote is opened, continued and verified; what a newer one wrote is refused."""

from __future__ import annotations

import json
import shutil
import sqlite3
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import safe2real as s2r
from safe2real import radii
from safe2real.campaign import Campaign, Differences
from safe2real.campaign.events import BEFORE_THE_FIRST, IMPORT, Draft, event_after
from safe2real.campaign.history import entries_of
from safe2real.campaign.replay import Replay
from safe2real.campaign.revisions import bounds_of
from safe2real.exploration import roll_out
from safe2real.model.serialization import to_text
from safe2real.report.campaign_report import write_campaign_report
from safe2real.standing import Standing
from safe2real.version import __version__
from tests.campaign.systems import run_rounds, three_states
from tests.cases import each

ASSETS = Path(__file__).resolve().parents[1] / "assets"
RELEASES = sorted(ASSETS.glob("campaign-*.db"))


@pytest.fixture(params=RELEASES, ids=lambda path: path.stem)
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return Path(shutil.copy(request.param, tmp_path / "campaign.db"))


def test_there_is_a_record_of_every_release() -> None:
    assert [path.name for path in RELEASES] == ["campaign-0.1.0.db"]
    assert all(path.stat().st_size < 300_000 for path in RELEASES)


def test_an_old_record_opens_and_verifies(old: Path) -> None:
    before = old.read_bytes()
    with Campaign.open(old) as campaign:
        status = campaign.status(forecast=False)
        assert (status.standing, status.rounds, status.told, status.imported) == (Standing.CERTIFIED, 26, 24, 45)
        assert (status.cut_short, status.abandoned, status.told_late, status.episodes_waiting) == (1, 1, 1, 1)
        ledger = campaign.verify()
        assert ledger.holds, ledger.describe()
        assert ledger.version is None
        assert ledger.certified
        campaign.plan(np.ones((3, 2)))
    assert old.read_bytes() == before  # nothing is migrated by looking


def test_an_old_record_goes_on(old: Path, tmp_path: Path) -> None:
    system = three_states()
    with Campaign.open(old) as campaign:
        oldest = next(iter(campaign.status(forecast=False).held))[0]
        held = campaign.ask(worker="left")
        assert held.id == oldest
        campaign.tell(held.id, roll_out(system.real, held.policy, seed=3, round_number=held.number))
        run_rounds(campaign, system, 5)
        campaign.import_log("new", campaign.problem.baseline, [{"states": [0, 2, 2, 2, 2], "actions": [0] * 4}])
        last = campaign.ask(worker="arm")
        campaign.tell(last.id, ([], []), left_model=True)
        assert campaign.ask(worker="arm").reason is s2r.methods.Reason.BASELINE
        ledger = campaign.verify()
        assert ledger.holds, ledger.describe()
        assert ledger.standing is Standing.REFUTED
        assert len(entries_of(campaign.name, campaign.events(), campaign.problem.simulator)) == 33
        write_campaign_report(campaign, tmp_path / "page.html", forecast=False)


def test_the_first_event_names_version_method_and_bounds(tmp_path: Path) -> None:
    system = three_states()
    with Campaign.create(tmp_path / "campaign.db", system.specification) as campaign:
        run_rounds(campaign, system, 1)
        create, ask, _ = (json.loads(event.body) for event in campaign.events())
        assert create["version"] == __version__
        assert create["method"] == "sim-to-real safe RL"
        assert create["bounds"] == ask["bounds"] == bounds_of(system.specification.settings)
        assert create["bounds"]["radius"] == "literal/1"
        assert "trust_margin" not in create
        assert campaign.verify().version == __version__


def test_every_radius_has_a_revision() -> None:
    assert {(kind.name, kind.revision) for kind in radii.ALL} == {
        (name, 1) for name in ("literal", "scaled", "kl", "union", "stitched", "adaptive")
    }


def rewritten(campaign: Campaign, change) -> None:
    """The record with other bodies, and digests that fit."""
    events = list(campaign.events())
    with campaign.journal.writing() as transaction:
        transaction._connection.exec_driver_sql("DELETE FROM safe2real_event")
        previous = BEFORE_THE_FIRST
        for event in events:
            body = json.loads(event.body)
            change(event, body)
            changed = replace(event, body=to_text(body))
            changed = replace(changed, digest=changed.digest_after(previous))
            previous = changed.digest
            transaction._connection.exec_driver_sql(
                "INSERT INTO safe2real_event VALUES (?, ?, ?, ?, ?, ?, ?)",
                tuple(
                    getattr(changed, name) for name in ("sequence", "kind", "deployment", "worker", "at", "body", "digest")
                ),
            )


@each("by", [-0.01, 0.01])
def test_a_bound_may_claim_less_than_is_provable_now_and_never_more(tmp_path: Path, by: float) -> None:
    """As if this release had tightened a bound, or found one to be wrong."""
    system = three_states()
    with Campaign.create(tmp_path / "campaign.db", system.specification) as campaign:
        run_rounds(campaign, system, 3)

        def change(event, body):
            if event.kind == "ask" and event.deployment == 2:
                if by > 0.0:
                    body["lower_bounds"] = [bound + by for bound in body["lower_bounds"]]
                else:
                    body["uncertainty"] = body["uncertainty"] - by

        assert campaign.verify().differences == Differences(0, 0.0)
        rewritten(campaign, change)
        ledger = campaign.verify()
        if by > 0.0:
            assert [problem.deployment for problem in ledger.problems] == [2]
            assert "claim more than the data prove" in ledger.problems[0].what
        else:
            assert ledger.holds
            assert ledger.differences.deployments == 1
            assert ledger.differences.largest == pytest.approx(0.01)


def test_a_bound_of_a_newer_revision_cannot_be_checked_here(tmp_path: Path) -> None:
    system = three_states()
    with Campaign.create(tmp_path / "campaign.db", system.specification) as campaign:
        run_rounds(campaign, system, 1)

        def change(event, body):
            if event.kind == "ask":
                body["bounds"]["radius"] = "literal/2"

        rewritten(campaign, change)
        (problem,) = campaign.verify().problems
        assert problem.what == "the radius is literal/2, newer than literal/1 here; upgrade safe2real to check it"


def test_a_newer_format_is_refused(old: Path) -> None:
    with sqlite3.connect(old) as database:
        database.execute("UPDATE safe2real_campaign SET format = 3")
    with pytest.raises(s2r.errors.StorageFailure, match="has format 3 and this version reads up to 2; upgrade safe2real"):
        Campaign.open(old)


def test_an_unknown_event_is_refused_with_the_cure(old: Path) -> None:
    with Campaign.open(old) as campaign, campaign.journal.writing() as transaction:
        transaction.append([Draft("teleport", {}, 1)])
    with (
        Campaign.open(old) as campaign,
        pytest.raises(s2r.errors.StorageFailure, match=r"unknown kind 'teleport'; .*upgrade"),
    ):
        campaign.ask(worker="arm")


def test_a_record_is_migrated_on_request_alone(old: Path) -> None:
    def format_of() -> int:
        with sqlite3.connect(old) as database:
            return database.execute("SELECT format FROM safe2real_campaign").fetchone()[0]

    with Campaign.open(old) as campaign:
        before = list(campaign.events())
        campaign.ask(worker="another")
        assert (campaign.format, format_of()) == (1, 1)
        assert campaign.migrate()
        assert not campaign.migrate()
        assert (campaign.format, format_of()) == (2, 2)
        assert list(campaign.events())[: len(before)] == before  # no event was changed
        assert json.loads(campaign.events()[-1].body) == {"from": 1, "to": 2, "version": __version__}
        assert campaign.verify().holds
        assert campaign.ask(worker="another")


def test_a_log_of_many_events_by_the_first_release_is_one_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its parts were not numbered; the digest of the whole says where it ends. Counted when it came, as a whole."""
    monkeypatch.setattr("safe2real.campaign.events.IMPORT_SIZE", 2)
    from safe2real.model.serialization import digest_of, policy_to_bytes

    specification = three_states().specification
    contents = [{"states": [0, 0, 0, 0, state], "actions": [0] * 4} for state in (0, 1, 0, 1)]
    body = {"policy": digest_of(policy_to_bytes(specification.baseline)), "log": digest_of(to_text(contents).encode())}
    replay, sequence, digest = Replay(s2r.Learner(specification, warm_start=False)), 0, BEFORE_THE_FIRST
    for part in (contents[:2], contents[2:]):
        event = event_after(sequence, digest, Draft(IMPORT, {**body, "episodes": part}, worker="last year"))
        replay.apply(event)
        sequence, digest = event.sequence, event.digest
        assert replay.learner.evidence.counts.episodes == (0 if sequence == 1 else 4)
    assert not replay.unfinished
