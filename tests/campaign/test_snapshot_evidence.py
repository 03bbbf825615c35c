"""Opening from a snapshot is opening by the events, bit for bit, for every method; and a part that is false is noticed."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

import safe2real as s2r
from safe2real import methods
from safe2real.campaign import Campaign, carry_over, record, snapshot
from safe2real.campaign.journal import MemoryJournal
from safe2real.errors import StorageFailure
from safe2real.evidence import counts
from safe2real.exploration import roll_out
from safe2real.model import archive
from safe2real.testing.systems import random_case
from tests.campaign.systems import assert_same_model, change, model_of, paper_grid, read
from tests.campaign.test_snapshot import content_of, forged, put_snapshot, timeless
from tests.evidence.tied_systems import ledge, ledge_problem
from tests.methods.test_trial import POLICY

E = "learner.evidence"  # where a snapshot keeps it
REWARD = np.random.default_rng(5).random((4, 2))
CASE = random_case(2)


@dataclass(frozen=True)
class Kind:
    problem: s2r.Problem
    real: s2r.CMDP
    method: methods.Method


def of_case(method: methods.Method, **more) -> Kind:
    return Kind(CASE.problem, CASE.reality, method, **more)


def of_ledge(*, exact: bool = False, **more) -> Kind:
    simulated = ledge((0.05, 0.1), exact=exact)
    ties = simulated.ties if more.pop("ties", False) else None
    return Kind(ledge_problem(simulated, ties, **more), ledge((0.05, 0.3)).model, methods.SimToReal())


GRID = paper_grid()
KINDS = {
    "grid": Kind(GRID.specification, GRID.real, methods.SimToReal()),
    "sim-to-real": of_case(methods.SimToReal()),
    "reward-free": of_case(methods.RewardFree()),
    "declared": of_case(methods.ForRewards({"one": REWARD}, accuracy=1e-6)),
    "trial": of_case(methods.Trial(POLICY, {"one": REWARD})),
    "copies": of_ledge(copies=np.arange(9)),
    "loose ties": of_ledge(ties=True),
}


@pytest.fixture(autouse=True)
def _soon(monkeypatch):
    monkeypatch.setattr(record, "LEAST_STEP", 10)


@pytest.fixture(params=KINDS)
def kind(request, monkeypatch):
    if request.param == "grid":  # as in large systems, rows have room for what was seen of them, by batches
        monkeypatch.setattr(counts, "_ROOM_AT_ONCE", 0)
    return KINDS[request.param]


def go_on(campaign: Campaign, kind: Kind, rounds: int) -> None:
    """Out of order, given up, told late: what a fleet does."""
    for number in range(rounds):
        one, two, three = campaign.ask_batch(3, worker="arm")
        for deployment in (three, one):
            episode = roll_out(kind.real, deployment.policy, seed=3, round_number=deployment.number)
            campaign.tell(deployment.id, episode)
        campaign.abandon(two.id, "battery")
        if number % 3 == 1:
            campaign.tell(two.id, roll_out(kind.real, two.policy, seed=3, round_number=two.number), force="found")


def filled(place: Path, kind: Kind) -> None:
    baseline = kind.problem.baseline
    with Campaign.create(place, kind.problem, method=kind.method, trust_margin=True) as campaign:
        go_on(campaign, kind, 4)
        log = [roll_out(kind.real, baseline, seed=9, round_number=number) for number in range(7)]
        campaign.import_log("log", baseline, log, overlap="count")
        _ = campaign.record.catch_up().learner.evidence.structured  # asked for plans: what it computes must not show
        go_on(campaign, kind, 4)


def knows(campaign: Campaign) -> tuple:
    """All that a replay holds, with all its bits."""
    archive = snapshot.state_of(campaign.record.catch_up(), "")
    return archive.document, {name: (one.dtype, one.shape, one.tobytes()) for name, one in archive.arrays.items()}


def test_opening_from_a_snapshot_is_opening_by_the_events(place, tmp_path, kind):
    bare = tmp_path / "bare.db"
    filled(place, kind)
    shutil.copy(place, bare)
    change(bare, "DELETE FROM safe2real_snapshot")
    with Campaign.open(place) as campaign, Campaign.open(bare) as replayed:
        assert knows(campaign) == knows(replayed)
        assert campaign.record.covered > 30 > replayed.record.covered
        assert_same_model(model_of(campaign), model_of(replayed))
        for one in (campaign, replayed):
            one.record.covered = one.record._worked = 10**9  # no more snapshots
            go_on(one, kind, 3)
        (document, arrays), (others, beside) = knows(campaign), knows(replayed)
        assert arrays == beside
        assert document["learner"] == others["learner"]
        assert_same_model(model_of(campaign), model_of(replayed))
        assert campaign.floors() == replayed.floors()
        assert campaign.verify().holds
        assert replayed.verify().holds


def test_no_episode_is_counted_again_where_the_evidence_is_kept(place, monkeypatch):
    counted = []
    filled(place, KINDS["sim-to-real"])
    count = s2r.Learner.count
    monkeypatch.setattr(
        s2r.Learner,
        "count",
        lambda self, states, *rest, **more: (counted.append(len(states)), count(self, states, *rest, **more)),
    )
    with Campaign.open(place) as campaign:
        samples = campaign.status(forecast=False).samples
        assert sum(counted) < samples / 4, "what the snapshot covers was counted again"
    assert content_of(place).count(b"states") < samples, "it holds episodes"


def rewritten(content: bytes, harm) -> bytes:
    """The same with other arrays, sealed anew: whoever may write to the table can do that."""

    def change(archive):
        archive.arrays = {name: array.copy() for name, array in archive.arrays.items()}
        harm(archive.arrays)

    return forged(content, change)


def visited(arrays, change_by):
    arrays[E + ".counts.visits"][int(arrays[E + ".counts.visits"].argmax())] += change_by


def counted_once_more(arrays):
    """A transition that nobody recorded, with all that has to fit."""
    row = int(arrays[E + ".counts.visits"].argmax())
    at = int(arrays[E + ".counts.length"][:row].sum())
    arrays[E + ".counts.visits"][row] += 1
    arrays[E + ".counts.count"][at] += 1


IMPOSSIBLE = {
    "visits that are not those of the successors": lambda arrays: visited(arrays, 1),
    "a sample more than was recorded": counted_once_more,
    "an array is gone": lambda arrays: arrays.pop(E + ".gap"),
    "another number of rows": lambda arrays: arrays.update({E + ".gap": arrays[E + ".gap"][:-1]}),
    "other numbers": lambda arrays: arrays.update({E + ".gap": arrays[E + ".gap"].astype(np.float32)}),
    "successors of another system": lambda arrays: arrays[E + ".counts.successor"].fill(99),
    "a margin below the stated one": lambda arrays: arrays[E + ".trust.margins"].fill(-1.0),
}


@pytest.mark.parametrize("harm", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_a_part_that_cannot_be_is_refused_and_the_events_are_read(place, harm):
    filled(place, KINDS["sim-to-real"])
    with Campaign.open(place) as campaign:
        expected = knows(campaign)
    put_snapshot(place, rewritten(content_of(place), harm))
    with Campaign.open(place) as campaign:
        assert knows(campaign) == expected
        assert campaign.record.covered == 0
        assert "the snapshot" in campaign.verify().describe()


POSSIBLE = {
    "cleared": lambda arrays: arrays[E + ".suspect"].fill(False),
    "nearer": lambda arrays: arrays[E + ".gap"].fill(0.01),
    "never refuted": lambda arrays: arrays[E + ".trust.wealth"].fill(0.0),
    "a larger margin": lambda arrays: arrays[E + ".trust.margins"].fill(2.0),
}


@pytest.mark.parametrize("harm", POSSIBLE.values(), ids=POSSIBLE)
def test_a_part_that_could_be_and_is_not_is_found_by_verify(place, harm):
    filled(place, KINDS["sim-to-real"])
    content = content_of(place)
    put_snapshot(place, rewritten(content, lambda arrays: None))
    with Campaign.open(place) as campaign:
        assert campaign.verify().holds
    put_snapshot(place, rewritten(content, harm))
    with Campaign.open(place) as campaign:
        ledger = campaign.verify()
        (problem,) = ledger.problems
        assert "delete it" in problem.what
        assert not ledger.certified
    change(place, "DELETE FROM safe2real_snapshot")
    with Campaign.open(place) as campaign:
        assert campaign.verify().holds


def test_one_of_another_release_is_replaced(place, monkeypatch):
    """Else every process would read all events until the record has grown enough."""
    filled(place, KINDS["sim-to-real"])
    for module in (snapshot, archive):
        monkeypatch.setattr(module, "__version__", "99.0")
    monkeypatch.setattr(record, "LEAST_STEP", 40)  # so much has not come since
    with Campaign.open(place) as campaign:
        campaign.status(forecast=False)
        assert campaign.record.covered == 0
        campaign.ask(worker="arm")
    with Campaign.open(place) as campaign:
        campaign.status(forecast=False)
        assert campaign.record.covered > 30


def test_one_that_a_corrected_bound_would_not_have_concluded_is_refused(place, monkeypatch):
    """The specification names a radius, not its revision; what an older one cleared or refuted is computed anew."""
    kind = KINDS["sim-to-real"]
    filled(place, kind)
    for corrected in (type(kind.problem.settings.radius), type(kind.method)):
        with monkeypatch.context() as raised:
            raised.setattr(corrected, "revision", corrected.revision + 1)
            with Campaign.open(place) as campaign:
                campaign.status(forecast=False)
                assert campaign.record.covered == 0, corrected
    with Campaign.open(place) as campaign:
        campaign.status(forecast=False)
        assert campaign.record.covered > 30


def test_exact_ties_have_no_snapshot_since_they_are_looked_at_after_batches(place):
    kind = of_ledge(ties=True, exact=True)
    filled(place, kind)
    assert read(place, "SELECT * FROM safe2real_snapshot") == []
    with Campaign.open(place) as campaign:
        assert campaign.status(forecast=False).samples_counted > 0
        assert campaign.verify().holds


def test_conclusions_of_bounds_from_outside_are_not_kept():
    """Their code may change without a word, so the events are read."""
    own = type("Own", (type(KINDS["sim-to-real"].problem.settings.radius),), {"__module__": "elsewhere"})()
    problem = KINDS["sim-to-real"].problem
    assert s2r.Learner(problem).evidence.follows_from_order
    own_radius = replace(problem, settings=replace(problem.settings, radius=own))
    assert not s2r.Learner(own_radius).evidence.follows_from_order


def test_after_an_episode_that_left_the_model_the_snapshot_from_before_it_stands(place, tmp_path):
    kind, bare = KINDS["sim-to-real"], tmp_path / "bare.db"
    filled(place, kind)
    with Campaign.open(place) as campaign:
        deployment = campaign.ask(worker="other")
        before = content_of(place)
        campaign.tell(deployment.id, ([], []), left_model=True)
        go_on(campaign, kind, 8)
        assert content_of(place) == before
    shutil.copy(place, bare)
    change(bare, "DELETE FROM safe2real_snapshot")
    with Campaign.open(place) as campaign, Campaign.open(bare) as replayed:
        assert timeless(campaign) == timeless(replayed)
        assert campaign.record.covered > 0
        assert_same_model(model_of(campaign), model_of(replayed))
        assert campaign.verify().holds


def test_a_long_log_is_covered_as_soon_as_it_is_imported(monkeypatch):
    """It is one event or a few, and all of its episodes would have to be counted by whoever opens the campaign."""
    monkeypatch.setattr(record, "LEAST_STEP", 40)
    kind, old, new = KINDS["sim-to-real"], MemoryJournal(), MemoryJournal()
    with (
        Campaign.create(old, kind.problem, trust_margin=True) as earlier,
        Campaign.create(new, kind.problem, trust_margin=True) as campaign,
    ):
        go_on(earlier, kind, 30)
        assert carry_over(campaign, earlier).episodes == 70
        assert len(campaign.events()) < 40
    with Campaign.open(new) as campaign:
        expected = campaign.status(forecast=False)
        assert campaign.record.covered > 1
        assert campaign.verify().holds
        assert expected.samples == 210


def test_an_import_that_was_recorded_does_not_fail_for_want_of_a_snapshot(monkeypatch):
    refused = []

    def fails(*_):
        refused.append(True)
        raise StorageFailure("the disk is full")

    monkeypatch.setattr(record, "snapshot_of", fails)
    kind, journal = KINDS["sim-to-real"], MemoryJournal()
    log = [roll_out(kind.real, kind.problem.baseline, seed=9, round_number=number) for number in range(20)]
    with Campaign.create(journal, kind.problem, method=kind.method, trust_margin=True) as campaign:
        campaign.import_log("log", kind.problem.baseline, log)
    assert refused
    with Campaign.open(journal) as campaign:
        assert campaign.status(forecast=False).imported == 20
