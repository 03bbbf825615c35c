"""Limits are said before anything is taken: deployments in one ask, bytes of arrays, a worker that is gone."""

import json
import sqlite3

import pytest

import safe2real as s2r
from safe2real.errors import InvalidInput, StorageFailure
from tests.campaign.systems import change, ids_of, paper_grid, run_rounds, three_states
from tests.cli.commands import campaign as command


@pytest.fixture
def opened(tmp_path):
    with s2r.Campaign.create(tmp_path / "c.db", three_states().specification) as made:
        yield made


# Deployments


def test_one_ask_hands_out_so_many_and_no_more(opened, monkeypatch):
    with pytest.raises(InvalidInput, match=r"n is 1000000000; .* at most 10,000 deployments: ask again.*SAFE2REAL_MAX_ASK"):
        opened.ask_batch(10**9, worker="w")
    assert len(opened.events()) == 1
    monkeypatch.setenv("SAFE2REAL_MAX_ASK", "3")
    assert len(opened.ask_batch(3, worker="w")) == 3
    with pytest.raises(InvalidInput, match="at most 3"):
        opened.ask_batch(4, worker="w")


@pytest.mark.parametrize("value", ["-1", "0", "1.5", "many", "9" * 40])
def test_a_limit_that_is_none_is_said(opened, monkeypatch, value):
    monkeypatch.setenv("SAFE2REAL_MAX_ASK", value)
    with pytest.raises(InvalidInput, match=r"SAFE2REAL_MAX_ASK is .*; give a whole number"):
        opened.ask(worker="w")


def test_everything_that_a_worker_holds_is_given_up_at_once(opened):
    gone, other = opened.ask_batch(3, worker="gone"), opened.ask_batch(2, worker="other")
    assert opened.abandon_all("gone", "the machine burnt down") == [one.id for one in gone]
    assert opened.abandon_all("gone", "again") == []
    status = opened.status(forecast=False)
    assert status.abandoned == 3
    assert [id for id, *_ in status.held] == [one.id for one in other]
    assert opened.verify().holds
    system = three_states()
    assert opened.tell(gone[1].id, system.episode(gone[1])).new  # an episode that turns up is taken


def test_the_command_gives_up_one_or_all(tmp_path):
    place = tmp_path / "c.db"
    s2r.Campaign.create(place, three_states().specification).close()
    command("ask", place, "--worker", "gone", "-n", 2)
    ended = command("abandon", place, "--all", "--worker", "gone", "--reason", "sold")
    assert len(ended.document["ids"]) == 2
    for wrong in (["--all"], ["--worker", "gone"], ["--all", "--worker", "gone", ended.document["ids"][0]], []):
        refused = command("abandon", place, *wrong, "--reason", "r")
        assert (refused.code, "--all with the --worker" in refused.message) == (2, True)


# Leases


def later(monkeypatch, seconds):
    """The clock of everything that is written from now on."""
    from datetime import UTC, datetime, timedelta

    moment = (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat(timespec="milliseconds")
    for module in ("events", "status"):
        monkeypatch.setattr(f"safe2real.campaign.{module}.now", lambda: moment)


def test_what_is_out_for_longer_than_its_lease_is_named(tmp_path, monkeypatch):
    with s2r.Campaign.create(tmp_path / "c.db", three_states().specification, lease=60) as made:
        held = made.ask(worker="gone")
        assert (made.status(forecast=False).lease, made.status(forecast=False).overdue) == (60.0, ())
        later(monkeypatch, 61)
        assert made.status(forecast=False).overdue == (held.id,)
        made.ask(worker="other")
        assert made.status(forecast=False).withdrawn == 0  # not created so
        assert not any(one.subject == "lease" for one in made.assurance().assumptions)
        assert made.verify().holds


def test_what_is_overdue_is_withdrawn_where_the_campaign_was_created_so(tmp_path, monkeypatch):
    system, place = three_states(), tmp_path / "c.db"
    with s2r.Campaign.create(place, system.specification, lease=60, withdraw_overdue=True) as made:
        gone = made.ask(worker="gone")
        other = made.ask(worker="other")
        made.tell(other.id, system.episode(other))
        assert made.status(forecast=False).episodes_waiting == 1
        (lasting,) = [one.text for one in made.assurance().assumptions if one.subject == "lease"]
        assert lasting == "no deployment outlasts its lease of 60 s because of what happens in its episode"
    later(monkeypatch, 61)
    with s2r.Campaign.open(place) as made:
        next_one = made.ask(worker="other")
        status = made.status(forecast=False)
        assert (status.withdrawn, status.episodes_waiting) == (1, 0)
        assert [id for id, *_ in status.held] == [next_one.id]
        (event,) = [one for one in made.events() if one.kind == "withdraw"]
        assert (event.deployment, event.worker, json.loads(event.body)["reason"]) == (gone.number, "gone", "lease expired")
        assert made.verify().holds
        assert made.tell(gone.id, system.episode(gone)).new  # it turns up
        assert made.verify().holds
        again = made.ask(worker="gone")
        assert again.id != gone.id


def test_a_withdrawal_before_its_time_does_not_verify(tmp_path, monkeypatch):
    from safe2real.campaign.events import Draft

    for name, options in (("a", {"lease": 60, "withdraw_overdue": True}), ("b", {"lease": 60}), ("c", {})):
        with s2r.Campaign.create(tmp_path / name, three_states().specification, **options) as made:
            made.ask(worker="w")
            later(monkeypatch, 59 if name == "a" else 61)
            body = {"cause": "lease expired", "reason": "lease expired"}
            with made.journal.writing() as transaction:
                transaction.append([Draft("withdraw", body, 1, "w")])
            (problem,) = made.verify().problems
            assert "withdrawn for its lease, which was not over, or takes nothing back" in problem.what
            monkeypatch.undo()


@pytest.mark.parametrize("lease", [0, -1, float("inf"), 1e12, "60", True, None])
def test_leases_that_cannot_be_are_refused(place, lease):
    with pytest.raises(InvalidInput, match="lease"):
        s2r.Campaign.create(place, three_states().specification, lease=lease, withdraw_overdue=True)
    assert not place.exists()


# The record


def test_a_campaign_without_events_does_not_begin_again(tmp_path):
    place = tmp_path / "c.db"
    system = three_states()
    with s2r.Campaign.create(place, system.specification) as made:
        run_rounds(made, system, 2)
        last = ids_of(made)[2]
    change(place, "DELETE FROM safe2real_event")
    with s2r.Campaign.open(place) as emptied:
        for call in (
            lambda: emptied.ask(worker="w"),
            lambda: emptied.status(forecast=False),
            lambda: emptied.tell(last, {"states": [0] * 5, "actions": [0] * 4}),
            lambda: emptied.import_log("log", system.specification.baseline, [{"states": [0] * 5, "actions": [0] * 4}]),
        ):
            with pytest.raises(StorageFailure, match="events are gone"):
                call()
        assert not emptied.verify().holds


def test_a_body_that_is_none_is_damage_not_a_mistake_of_ours(tmp_path):
    """Digests that fit can be computed by anybody who writes to the file."""
    from torture.hostile_inputs import chain

    for number, body in enumerate(("[]", '{"states": 1, "actions": {}}', '{"states": ["a", "b"], "actions": ["c"]}', "7")):
        place = tmp_path / f"{number}.db"
        with s2r.Campaign.create(place, three_states().specification) as made:
            run_rounds(made, three_states(), 2)
        with sqlite3.connect(place) as connection:
            connection.execute("UPDATE safe2real_event SET body = ? WHERE kind = 'tell' AND deployment = 1", (body,))
            chain(connection)
        connection.close()
        with s2r.Campaign.open(place) as forged:
            with pytest.raises(StorageFailure, match="run verify"):
                forged.ask(worker="w")
            assert not forged.verify().holds


def test_a_policy_that_is_a_number_is_damage(tmp_path):
    """`bytes` of a large number would be as many zeros."""
    place = tmp_path / "c.db"
    with s2r.Campaign.create(place, three_states().specification) as made:
        run_rounds(made, three_states(), 1)
        made.ask(worker="w")
    change(place, "UPDATE safe2real_policy SET content = 1000000000000")
    with s2r.Campaign.open(place) as damaged:
        for call in (lambda: damaged.ask(worker="w"), damaged.stored_policies, damaged.verify):
            with pytest.raises(StorageFailure, match=r"the policy [0-9a-f]{12} cannot be read"):
                call()


def test_a_lower_limit_is_said_and_not_called_a_change(tmp_path, monkeypatch):
    """The record is as it was written; this process may not read that much."""
    grid = paper_grid()
    with s2r.Campaign.create(tmp_path / "c.db", grid.specification) as made:
        run_rounds(made, grid, 1)
    monkeypatch.setenv("SAFE2REAL_MAX_BYTES", "1000")
    with pytest.raises(InvalidInput, match=r"would take .*, and the limit is 1000 bytes; .*SAFE2REAL_MAX_BYTES") as error:
        s2r.Campaign.open(tmp_path / "c.db")
    assert "changed" not in str(error.value)
    monkeypatch.delenv("SAFE2REAL_MAX_BYTES")
    with s2r.Campaign.open(tmp_path / "c.db") as opened:
        assert opened.verify().holds
