"""Records outlive releases: they name the rules they were made by, and what another release alone can read is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from safe2real import radii
from safe2real.campaign import Campaign, Differences
from safe2real.campaign.events import Draft, bounds_of
from safe2real.errors import StorageFailure
from safe2real.model.serialization import to_text
from safe2real.version import __version__
from tests.campaign.systems import chained, make, run_rounds, three_states, write_events


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
    events = []
    for event in campaign.events():
        body = json.loads(event.body)
        change(event, body)
        events.append(replace(event, body=to_text(body)))
    write_events(campaign.journal.file.path, chained(events))


@pytest.mark.parametrize("by", [-0.01, 0.01])
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


def test_an_unknown_event_is_refused_with_the_cure(place: Path) -> None:
    with make(place) as campaign, campaign.journal.writing() as transaction:
        transaction.append([Draft("teleport", {}, 1)])
    with Campaign.open(place) as campaign, pytest.raises(StorageFailure, match=r"unknown kind 'teleport'; .*upgrade"):
        campaign.ask(worker="arm")
