"""Logs: counted as a whole, in their place, and no episode twice."""

from __future__ import annotations

import json
import tracemalloc
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import safe2real as s2r
from safe2real.campaign import Campaign, Overlap
from safe2real.campaign import events as kinds
from safe2real.campaign.backup import load_record
from safe2real.campaign.events import IMPORT, Draft, ImportBody
from safe2real.campaign.import_log import _overhang
from safe2real.exploration import roll_out
from safe2real.exploration.episode_log import PackedEpisodes, log_digest, packed
from safe2real.model.serialization import digest_of, policy_to_bytes, to_text
from safe2real.problem.problem import Problem
from safe2real.report.export import export_json
from safe2real.service.record_endpoints import import_log, read_log
from safe2real.standing import AssumptionCode
from tests.campaign.systems import paper_grid, run_rounds, three_states

SYSTEM = three_states()
BASELINE = SYSTEM.specification.baseline
GRID = paper_grid()


@pytest.fixture
def campaign(place: Path) -> Any:
    with Campaign.create(place, SYSTEM.specification) as made:
        yield made


def episode(*states: int, id: str | None = None, policy: int = 0) -> dict[str, Any]:
    found = {"states": list(states), "actions": [policy] * (len(states) - 1)}
    return found if id is None else {**found, "id": id}


A, B, C, D = episode(0, 0, 0, 0, 0), episode(0, 1, 1, 1, 1), episode(0, 0, 1, 0, 1), episode(0, 1, 0, 1, 0)


def counted(campaign: Campaign) -> int:
    return campaign.status(forecast=False).samples_counted // 4


def coin() -> Problem:
    """One row of which half the successors are 1; the simulator says a tenth. Wrong, and never to be cleared."""
    rows = np.array([[[0.9, 0.1]], [[0.9, 0.1]]])
    model = s2r.CMDP.of(s2r.Kernel.from_dense(rows), 1, 0, s2r.AtLeast(np.ones((2, 1)), 0.5))
    only = s2r.MarkovPolicy.uniform(horizon=1, num_states=2, num_actions=1)
    settings = s2r.Settings(margin=0.5, calibrated_gap=0.0, mismatch_gap=0.4, tolerance=0.1, span_bonus=False)
    return Problem(model, only, settings)


# Half of 800 successors are 1, sorted so that the first 400 look like the simulator.
COINS = [episode(0, int(i % 10 == 0)) for i in range(400)] + [episode(0, 1)] * 360 + [episode(0, 0)] * 40


@pytest.mark.parametrize("sort", [False, True])
def test_a_sorted_log_clears_no_row_on_its_prefix(place: Path, sort: bool) -> None:
    """The row was cleared on the first half, and the rest then contradicted a system on which every assumption is true."""
    specification = coin()
    log = COINS if sort else [COINS[i] for i in np.random.default_rng(1).permutation(len(COINS))]
    with Campaign.create(place, specification) as campaign:
        campaign.import_log("a year", specification.baseline, log)
        assert campaign.assurance().certified
        assert campaign.record.replay.learner.evidence.suspects[0, 0]
        assert campaign.verify().holds


@pytest.mark.parametrize("size", [1, 7, 800])
def test_a_log_of_many_events_is_one_log(place: Path, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "IMPORT_SIZE", size)
    specification = coin()
    with Campaign.create(place, specification) as campaign:
        campaign.import_log("a year", specification.baseline, COINS)
        assert [event.kind for event in campaign.events()].count("import") == -(-800 // size)
        assert campaign.assurance().certified
        assert campaign.status(forecast=False).imported == 800
        assert campaign.verify().holds


@pytest.mark.parametrize(
    ("log", "halts"),
    [  # the first has its bad episodes first, so many in a row that 2.5^n is no number any more
        ([episode(0, 1, 1)] * 2000 + [episode(0, 0, 1)] * 1000 + [episode(0, 0, 0)] * 1000, False),
        ([episode(0, 0, 0)] * 20 + [episode(0, 1, 1)] * 380, True),
    ],
)
def test_whether_a_log_of_the_baseline_has_the_margin_does_not_depend_on_its_order(place: Path, log, halts: bool) -> None:
    rows = np.array([[[0.5, 0.5]], [[0.0, 1.0]]])
    model = s2r.CMDP.of(s2r.Kernel.from_dense(rows), 2, 0, s2r.AtLeast(np.array([[1.0], [0.0]]), 1.0, "upright"))
    only = s2r.MarkovPolicy.uniform(horizon=2, num_states=2, num_actions=1)
    settings = s2r.Settings(margin=0.5, calibrated_gap=0.0, mismatch_gap=0.4, tolerance=0.1)
    with Campaign.create(place, Problem(model, only, settings)) as campaign:
        campaign.import_log("a year", only, log)
        assert campaign.status(forecast=False).halted is halts
        assert campaign.assurance().certified is not halts


def test_a_log_takes_its_place_after_what_is_out(campaign: Campaign) -> None:
    first, second = campaign.ask(worker="first"), campaign.ask(worker="second")
    campaign.import_log("last year", BASELINE, [A, B, C])
    third = campaign.ask(worker="third")
    for deployment in (second, third):
        campaign.tell(deployment.id, SYSTEM.episode(deployment))
    status = campaign.status(forecast=False)
    assert (status.samples, status.samples_counted) == (20, 0)
    assert (status.episodes_waiting, status.waiting_for) == (5, first.id)
    campaign.tell(first.id, SYSTEM.episode(first))
    learner = s2r.Learner(SYSTEM.specification, warm_start=False)
    for one in (SYSTEM.episode(first), SYSTEM.episode(second)):
        learner.count(one.states, one.actions, np.array([0, 4]))
    flat = np.array(A["states"] + B["states"] + C["states"], dtype=np.uint32)
    learner.count(flat, np.zeros(12, dtype=np.uint32), np.array([0, 4, 8, 12]), at_once=True)
    last = SYSTEM.episode(third)
    learner.count(last.states, last.actions, np.array([0, 4]))
    campaign.proposal()
    found = campaign.record.replay.learner.evidence.counts.tally
    expected = learner.evidence.counts.tally
    for name in ("visits", "successor", "count"):  # also in the order of first successors
        assert np.array_equal(getattr(found, name), getattr(expected, name)), name
    assert campaign.verify().holds


def test_a_log_without_anything_out_is_counted_at_once(campaign: Campaign) -> None:
    campaign.import_log("last year", BASELINE, [A])
    assert counted(campaign) == 1
    deployment = campaign.ask(worker="arm")
    campaign.import_log("another", BASELINE, [B])
    assert (counted(campaign), campaign.status(forecast=False).waiting_for) == (1, deployment.id)
    campaign.abandon(deployment.id, "power cut")
    assert counted(campaign) == 2


# Episodes that the record has already


def test_overlapping_logs_count_once(place: Path) -> None:
    """January; January and February."""
    spec = GRID.specification
    year = [roll_out(GRID.real, spec.baseline, seed=3, round_number=i) for i in range(30)]
    with Campaign.create(place, spec) as campaign:
        campaign.import_log("january", spec.baseline, year[:20])
        with pytest.raises(
            s2r.errors.Conflict, match=r"20 of the 30 episodes look like recorded ones \(20 in the log 'january'\)"
        ):
            campaign.import_log("january and february", spec.baseline, year)
        receipt = campaign.import_log("january and february", spec.baseline, year, overlap="skip")
        assert (receipt.new, receipt.skipped, receipt.samples) == (True, 20, 120)
        assert campaign.status(forecast=False).samples_counted == 360
        again = campaign.import_log("january and february", spec.baseline, year, overlap="skip")
        assert (again.new, again.skipped) == (False, 20)
        assert not campaign.import_log("all of it", spec.baseline, year, overlap="skip").new
        receipt = campaign.import_log("february on", spec.baseline, year[25:], overlap=Overlap.SKIP)
        assert (receipt.new, receipt.skipped, receipt.samples) == (False, 5, 0)
        said = [one for one in campaign.assurance().assumptions if one.code is AssumptionCode.LOGS and one.subject]
        assert [one.subject for one in said] == ["january and february"]
        assert "20 episodes" in said[0].text
        assert campaign.verify().holds


def test_a_log_that_goes_on_where_another_ended(campaign: Campaign) -> None:
    campaign.import_log("autumn", BASELINE, [A, B, C])
    receipt = campaign.import_log("winter", BASELINE, [B, C, D, D], overlap="skip")
    assert (receipt.skipped, counted(campaign)) == (2, 5)
    receipt = campaign.import_log("summer", BASELINE, [D, A], overlap="skip")  # the other way round
    assert receipt.skipped == 2  # D is in winter, A in autumn: whole logs by now
    assert campaign.verify().holds


def test_what_is_skipped_is_as_often_as_it_was_recorded(campaign: Campaign) -> None:
    """Episodes that look alike within a log are as many as there are; only so many go as the record has."""
    campaign.import_log("january", BASELINE, [A, A, B])
    receipt = campaign.import_log("both", BASELINE, [A, B, A, A, B, C], overlap="skip")
    assert (receipt.skipped, counted(campaign)) == (3, 6)
    visits = campaign.mismatch_map().visits
    assert visits[0, 0] == 4 * 3 + 2 * 1 + 3  # three As, two Bs and C


def test_where_it_is_not_clear_which_they_are_nothing_is_skipped(campaign: Campaign) -> None:
    """To leave out whatever looks alike would leave the rare ones."""
    campaign.import_log("january", BASELINE, [A, A, B])
    with pytest.raises(s2r.errors.Conflict, match=r"not clear which they are: give every episode an `id`"):
        campaign.import_log("february", BASELINE, [D, A, C], overlap="skip")
    assert counted(campaign) == 3


def test_other_episodes_that_look_alike_are_counted_when_someone_says_so(campaign: Campaign) -> None:
    """Small systems: a second log is refused with a way through, and what was said is an assumption from then on."""
    campaign.import_log("january", BASELINE, [A, A, B])
    with pytest.raises(
        s2r.errors.Conflict, match=r"2 of the 3 .* \(2 in the log 'january'\).*overlap='skip'.*overlap='count'.*`id`"
    ):
        campaign.import_log("february", BASELINE, [A, B, C])
    assert campaign.import_log("february", BASELINE, [A, B, C], overlap="count").new
    assert counted(campaign) == 6
    deployment = campaign.ask(worker="arm")
    (said,) = [one for one in deployment.certificate.assumptions if one.subject == "february"]
    assert said.code is AssumptionCode.LOGS
    assert said.text.startswith("episodes of the log 'february' that look like recorded ones or ")
    assert said.text.endswith(" are other episodes: 2 episodes")
    assert campaign.verify().holds
    with pytest.raises(s2r.errors.InvalidInput, match="overlap is 'maybe'; give one of refuse, skip, count"):
        campaign.import_log("march", BASELINE, [A], overlap="maybe")


def test_the_same_log_may_be_another_one_that_looks_alike(campaign: Campaign) -> None:
    """A deterministic machine: every log is the same."""
    campaign.import_log("monday", BASELINE, [A, A])
    with pytest.raises(s2r.errors.Conflict, match="imported as 'monday'"):
        campaign.import_log("tuesday", BASELINE, [A, A])
    assert campaign.import_log("tuesday", BASELINE, [A, A], overlap="count").new
    assert counted(campaign) == 4
    assert campaign.verify().holds


def test_an_id_settles_it(campaign: Campaign) -> None:
    campaign.import_log("january", BASELINE, [episode(*A["states"], id="1/1"), episode(*A["states"], id="1/2")])
    # Other ids are other episodes, whatever they look like.
    assert campaign.import_log("february", BASELINE, [episode(*A["states"], id="2/1")]).new
    both = [episode(*A["states"], id=id) for id in ("1/2", "2/1", "3/1")]
    with pytest.raises(s2r.errors.Conflict, match="2 of the 3 episodes have the id of a recorded one; leave them out"):
        campaign.import_log("march", BASELINE, both)
    with pytest.raises(s2r.errors.Conflict, match="the same and cannot count as others"):
        campaign.import_log("march", BASELINE, both, overlap="count")
    receipt = campaign.import_log("march", BASELINE, both, overlap="skip")
    assert (receipt.skipped, counted(campaign)) == (2, 4)
    assert not [one for one in campaign.assurance().assumptions if one.subject == "march"]  # nothing was left to believe
    with pytest.raises(s2r.errors.Conflict, match=r"the id '1/1' names another episode in the log 'january'"):
        campaign.import_log("april", BASELINE, [episode(*B["states"], id="1/1")])
    with pytest.raises(s2r.errors.InvalidInput, match="1 ids are there twice, the first is 'x'"):
        campaign.import_log("april", BASELINE, [episode(*B["states"], id="x"), episode(*C["states"], id="x")])
    with pytest.raises(s2r.errors.InvalidInput, match=r"episodes\[0\].id is 5; give a text"):
        campaign.import_log("april", BASELINE, [{**B, "id": 5}])
    with pytest.raises(s2r.errors.Conflict, match="1 of the 1 episodes look like recorded ones"):
        campaign.import_log("april", BASELINE, [A])  # without a name it could be any of them
    assert campaign.verify().holds
    assert json.loads(campaign.events()[1].body)["episodes"][0]["id"] == "1/1"


def test_what_the_campaign_ran_itself_is_in_the_record_too(campaign: Campaign) -> None:
    told = None
    while told is None:
        deployment = campaign.ask(worker="arm")
        episode_ = SYSTEM.episode(deployment)
        campaign.tell(deployment.id, episode_)
        if np.array_equal(deployment.policy.probabilities, BASELINE.probabilities):
            told = {"states": episode_.states.tolist(), "actions": episode_.actions.tolist()}
            id = deployment.id
    with pytest.raises(s2r.errors.Conflict, match="in this campaign's own deployments"):
        campaign.import_log("the machine's log", BASELINE, [told])
    assert not campaign.import_log("the machine's log", BASELINE, [{**told, "id": id}], overlap="skip").new
    out = campaign.ask(worker="arm")
    with pytest.raises(s2r.errors.Conflict, match=f"'{out.id}' is a deployment of this campaign that was not told; tell it"):
        campaign.import_log("the machine's log", BASELINE, [{**A, "id": out.id}])


def test_verify_finds_episodes_that_were_counted_twice(campaign: Campaign) -> None:
    campaign.import_log("january", BASELINE, [A, B])
    campaign.import_log("february", BASELINE, [A, C], overlap="count")
    events = list(campaign.events())
    body = json.loads(events[2].body)
    with campaign.journal.writing() as transaction:
        transaction._connection.exec_driver_sql("DELETE FROM safe2real_event WHERE sequence = 3")
        transaction.append([kinds.Draft("import", {**body, "overlap": "none", "alike": 0}, worker="february")])
    (problem,) = campaign.verify().problems
    assert problem.what == "1 imported episodes look like recorded ones, and the import does not say what they are"


@pytest.mark.parametrize(
    ("first", "second", "shared"),
    [("abc", "bcd", 2), ("abc", "abc", 3), ("abc", "cab", 1), ("aaab", "aab", 3), ("ab", "cd", 0), ("abab", "babx", 3)],
)
def test_how_far_one_log_goes_on_where_the_other_ended(first: str, second: str, shared: int) -> None:
    assert _overhang(first, second) == shared
    longest = max(k for k in range(len(second) + 1) if first.endswith(second[:k]))
    assert shared == longest


def test_a_document_cut_within_a_log_is_loaded_up_to_the_log(tmp_path, monkeypatch):
    """Kept in part, the log could never be imported again, and the new record would never verify."""
    monkeypatch.setattr(kinds, "IMPORT_SIZE", 5)
    system = three_states()
    baseline = system.specification.baseline
    log = [roll_out(system.real, baseline, seed=5, round_number=number) for number in range(1, 16)]
    with Campaign.create(tmp_path / "cut.db", system.specification) as campaign:
        run_rounds(campaign, system, 2)
        campaign.import_log("january", baseline, log, overlap="count")
        document = json.loads(export_json(campaign, tmp_path / "record.json").read_text())
    assert [event["kind"] for event in document["events"]][-3:] == ["import"] * 3
    document["events"].pop()
    load_record(tmp_path / "new.db", document, "restored")
    with Campaign.open(tmp_path / "new.db") as campaign:
        assert campaign.verify().holds
        assert campaign.import_log("january", baseline, log, overlap="count").new
        assert campaign.verify().holds


def test_parts_of_a_log_must_follow_each_other(tmp_path):
    system = three_states()
    baseline = system.specification.baseline
    episodes = [
        {"states": one.states.tolist(), "actions": one.actions.tolist()}
        for one in (roll_out(system.real, baseline, seed=5, round_number=number) for number in range(1, 5))
    ]
    with Campaign.create(tmp_path / "c.db", system.specification) as campaign:
        run_rounds(campaign, system, 2)
        for part, after in ((1, 2), (3, 4)):  # the second of three never comes, and deployments lie between
            with campaign.journal.writing() as transaction:
                (digest,) = transaction.add_policies([policy_to_bytes(baseline)])
                body = ImportBody(digest, "0" * 64, episodes[part - 1 : part], part, 3, after, "count", 1, 0, "me")
                transaction.append([Draft(IMPORT, asdict(body), worker="january")])
            run_rounds(campaign, system, 2)
        problems = [problem.what for problem in campaign.verify().problems]
    assert any("part 3 of 3 of a log does not follow the part before it" in what for what in problems), problems


def test_a_log_is_imported_in_a_few_times_its_size(tmp_path, monkeypatch):
    """A server has so much memory; of lists of Python numbers a log of short episodes takes fifty times its size."""
    monkeypatch.setattr(kinds, "IMPORT_SIZE", 500)  # so that few episodes are a long log
    system, log = three_states(), tmp_path / "log"
    episode = json.dumps({"states": [0] * 5, "actions": [0] * 4}).encode() + b"\n"
    log.write_bytes(b'{"source": "log", "overlap": "count"}\n' + 10_000 * episode)
    with Campaign.create(tmp_path / "c.db", system.specification) as campaign:
        campaign.import_log("other", system.specification.baseline, [{"states": [0] * 5, "actions": [0] * 4}])  # compiles
        tracemalloc.start()
        try:
            document = import_log(campaign, read_log(log.open("rb")))
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert document["episodes"] == 10_000
    assert most < 8 * log.stat().st_size


@pytest.mark.parametrize("episodes", [[], [{"states": [0, 1], "actions": [2]}] * 3])
def test_a_log_has_the_digest_of_its_list(episodes):
    assert log_digest(episodes) == digest_of(to_text(episodes).encode())


def test_packed_episodes_are_the_same_and_what_cannot_be_packed_stays_as_it_is():
    given = [
        {"states": [0, 2**32 - 1], "actions": [3]},
        {"states": [], "actions": [], "left_model": True, "id": "é"},
        {"states": [5], "actions": [1], "left_model": True},
        {"states": [7, 8, 9], "actions": [0, 1], "id": "b"},
    ]
    found = packed(given)
    assert isinstance(found, PackedEpisodes)
    assert (list(found), found[-1], found[1:3]) == (given, given[-1], given[1:3])
    assert (found.ids, found.first_states.tolist(), found.left_model.tolist()) == (
        ["é", "b"],
        [0, 0, 5, 7],
        [False, True, True, False],
    )
    assert list(found.where([True, False, False, True])) == [given[0], given[3]]
    for wrong in ([-1, 0], [2**32, 0], [0.0, 1], "ab", None):
        changed = [*given, {"states": wrong, "actions": [0]}]
        assert packed(changed) is changed
    for more in ({"x": 1}, {"left_model": 1}, {"id": 3}):
        changed = [*given, {**given[0], **more}]
        assert packed(changed) is changed
