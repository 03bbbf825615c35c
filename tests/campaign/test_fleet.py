"""Many processes on one campaign, on SQLite and on PostgreSQL: nothing is lost, nothing is doubled, nobody is stuck."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import sqlalchemy

import safe2real as s2r
from safe2real.campaign import Campaign
from safe2real.campaign.journal import sql as storage
from safe2real.campaign.journal.sql import SQLJournal
from safe2real.errors import Conflict, InvalidInput, StorageFailure
from tests.campaign.systems import (
    assert_same_model,
    described,
    fingerprint_of,
    ids_of,
    model_of,
    paper_grid,
    run_rounds,
    three_states,
)
from tests.cases import sampled

PROCESSES = 8
ROUNDS = 25  # of each process


# Places


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    """An empty place for a campaign, in either database."""
    if request.param == "sqlite":
        return str(tmp_path / "campaign.db")
    return request.getfixturevalue("server").new_place()


# Fleets


def workers(url: str, **changes) -> list[dict]:
    arguments = {"url": url, "system": "grid", "rounds": ROUNDS, "wild": False, "dies": False} | changes
    return [{"task": "fleet_worker", "arguments": arguments | {"worker": f"robot {number}"}} for number in range(PROCESSES)]


def counted_by_hand(campaign: Campaign) -> dict:
    """The model by the rule itself: deployments count in the order of their numbers, late ones when they come."""
    learner = s2r.Learner(campaign.problem, warm_start=False)
    episodes: dict[int, s2r.Trajectory] = {}
    settled: set[int] = set()
    passed = 0

    def count(number: int) -> None:
        learner.evidence.observe(episodes[number])

    for event in campaign.events():
        if event.kind == "tell":
            body = json.loads(event.body)
            episodes[event.deployment] = s2r.Trajectory.of(
                campaign.problem.simulator, body["states"], body["actions"], partial=True
            )
            if event.deployment <= passed:
                count(event.deployment)
        if event.kind in ("tell", "abandon"):
            settled.add(event.deployment)
        while passed + 1 in settled:
            passed += 1
            if passed in episodes:
                count(passed)
    return described(learner.evidence, learner.propose())


@sampled("rounds", [10, ROUNDS], keep=[0])
def test_eight_wild_processes_on_one_campaign(nursery, url, rounds):
    """They ask for one or three, tell out of order, twice, in part, late, otherwise, give up, reopen; two of them die."""
    Campaign.create(url, paper_grid().specification).close()
    fleet = workers(url, wild=True, rounds=rounds)
    for number in (2, 5):
        fleet[number]["arguments"]["dies"] = True
    children = nursery.run(*fleet, deadline=300.0)
    assert [child.ended for child in children] == [0, 0, -9, 0, 0, -9, 0, 0], [child.reports[-1] for child in children]
    with Campaign.open(url) as campaign:
        status = campaign.status(forecast=False)
        assert Counter(worker for _, worker, _ in status.held) == {"robot 2": 3, "robot 5": 3}
        for id, _, _ in status.held:
            campaign.abandon(id, "the robot is gone")
        events = campaign.events()
        assert [event.sequence for event in events] == list(range(1, len(events) + 1))
        # Who was given what: every deployment to exactly one worker, and as many as wanted.
        given: dict[int, str] = {}
        for number, child in enumerate(children):
            for wanted, deployments in child.of("asked"):
                assert len(deployments) == wanted
                assert given.keys().isdisjoint(deployments)
                given |= dict.fromkeys(deployments, f"robot {number}")
        assert {event.deployment: event.worker for event in events if event.kind == "ask"} == given
        assert list(given) != sorted(given), "the processes did not run at the same time"
        # What was told, and when it was acknowledged: the record says the same, no more and no less.
        told, ids = [report for child in children for report in child.of("told")], ids_of(campaign)
        assert all(new for *_, new in told)
        assert {id: (sequence, episode) for id, sequence, episode, _ in told} == {
            ids[event.deployment]: (event.sequence, json.loads(event.body)) for event in events if event.kind == "tell"
        }
        assert len({id for id, *_ in told}) == len(told)
        abandoned = {number: sequence for child in children for number, sequence, _ in child.of("abandoned")}
        by_robots = [event for event in events if event.kind == "abandon" and "battery" in event.body]
        assert abandoned == {event.deployment: event.sequence for event in by_robots}
        late = sum(late for child in children for *_, late in child.of("abandoned"))
        conflicts = sum(len(child.of("conflict")) for child in children)
        assert min(late, conflicts, len(abandoned) - late) > 0, "the fleet was not wild enough to show anything"
        status = campaign.status(forecast=False)
        assert (status.held, status.episodes_waiting, status.told) == ((), 0, len(told))
        assert status.samples_counted == status.samples == sum(len(episode["actions"]) for _, _, episode, _ in told)
        ledger = campaign.verify()
        assert ledger.holds, ledger.describe()
        # Three replays in two processes, and one by hand, agree on every bit.
        model = model_of(campaign)
        with Campaign.open(url) as again:
            assert_same_model(model_of(again), model)
        assert nursery.run_one("fingerprint", url=url).of("model") == [[fingerprint_of(model)]]
        assert_same_model(counted_by_hand(campaign), model)
    print(f"\n{len(given)} deployments, {len(told)} told, {late} late, {len(abandoned)} abandoned, {conflicts} conflicts")


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_only_one_of_many_creators_wins(nursery, request, tmp_path, database):
    for number in range(3):
        url = str(tmp_path / f"{number}.db") if database == "sqlite" else request.getfixturevalue("server").new_place()
        children = nursery.run(*[{"task": "create", "arguments": {"url": url, "system": "tiny"}}] * PROCESSES)
        outcomes = [child.of("created")[0] for child in children]
        assert sorted(kind for kind, _ in outcomes) == ["Conflict"] * (PROCESSES - 1) + ["fine"], outcomes
        with Campaign.open(url) as campaign:
            assert [campaign.name] == [answer for kind, answer in outcomes if kind == "fine"]
            assert campaign.verify().holds


# One contract


def test_both_databases_keep_the_contract(url):
    system = three_states()
    with Campaign.create(url, system.specification) as campaign:
        with pytest.raises(Conflict, match="holds a campaign already; open it, or choose another place"):
            Campaign.create(url, system.specification)
        one, two = campaign.ask_batch(2, worker="one")
        with Campaign.open(url) as other:
            assert other.name == campaign.name
            assert other.problem.to_text() == system.specification.to_text()
            again = other.ask_batch(2, worker="one")
            assert [deployment.id for deployment in again] == [one.id, two.id]
            for mine, theirs in zip((one, two), again, strict=True):
                np.testing.assert_array_equal(mine.policy.probabilities, theirs.policy.probabilities)
                np.testing.assert_array_equal(mine.mixture.weights, theirs.mixture.weights)
                assert mine.certificate.lower_bounds.tolist() == theirs.certificate.lower_bounds.tolist()
                assert (mine.at, mine.drawn, mine.uncertainty) == (theirs.at, theirs.drawn, theirs.uncertainty)
            three = other.ask(worker="two")
            assert three.number == 3
        episode = system.episode(one)
        first = campaign.tell(one.id, episode)
        assert (first.new, first.samples) == (True, 4)
        assert campaign.tell(one.id, episode) == type(first)(first.sequence, False, 4)
        with pytest.raises(Conflict, match=r"-1-\w+ was told already, with another episode, at 20.*Was the id mixed up\?"):
            campaign.tell(one.id, s2r.Trajectory(episode.states[:-1], episode.actions[:-1]), partial=True)
        with pytest.raises(Conflict, match=r"was told at .*; what was told stays"):
            campaign.abandon(one.id, "too late")
        gone = campaign.abandon(two.id, "Akku leer: 0 % \N{LOW BATTERY}")
        assert campaign.abandon(two.id, "still") == type(gone)(gone.sequence, False, 0)
        late = campaign.tell(two.id, system.episode(two))
        assert late.new
        with pytest.raises(InvalidInput, match="was never handed out"):
            campaign.tell(f"{campaign.name}-999999999-000000", episode)
        log = [system.episode(three)]
        policy = three.policy
        imported = campaign.import_log("Lager, März", policy, log, overlap="count")
        assert (imported.new, imported.samples) == (True, 4)
        assert campaign.import_log("Lager, März", policy, log) == type(imported)(imported.sequence, False, 4)
        with pytest.raises(Conflict, match="another log was imported as 'Lager, März'"):
            campaign.import_log("Lager, März", policy, log * 2)
        status = campaign.status(forecast=False)
        assert (status.rounds, status.told, status.abandoned, status.imported) == (3, 2, 0, 1)
        assert [(id, worker) for id, worker, _ in status.held] == [(three.id, "two")]
        # The log comes after what was handed out before it, and three is out.
        assert (status.samples, status.samples_counted, status.waiting_for) == (12, 8, three.id)
        kinds = [event.kind for event in campaign.events()]
        assert kinds == ["create", "ask", "ask", "ask", "tell", "abandon", "tell", "import"]
        ledger = campaign.verify(head=status.head)
        assert (ledger.holds, ledger.certified, ledger.head) == (True, True, status.head)
    with Campaign.open(url) as campaign:
        # A notice says for how many seconds somebody has had what is waited for.
        assert replace(campaign.status(forecast=False), notices=()) == replace(status, notices=())
        assert campaign.verify(head=status.head) == ledger


def test_the_rules_hold_in_the_database_too(url):
    """A program that goes around us cannot record an episode twice, or two events in one place."""
    with Campaign.create(url, three_states().specification) as campaign:
        run_rounds(campaign, three_states(), 1)
        *_, tell = campaign.events()
        engine = sqlalchemy.create_engine(
            url.replace("postgresql:", "postgresql+psycopg:") if "://" in url else f"sqlite:///{url}"
        )
        for sequence, kind, deployment in [(4, "tell", 1), (3, "abandon", 1), (1, "create", None)]:
            values = {"sequence": sequence, "kind": kind, "deployment": deployment, "at": tell.at, "body": "{}"}
            row = storage._events.insert().values(digest="0" * 64, **values)
            with engine.connect() as connection, pytest.raises(sqlalchemy.exc.IntegrityError):
                connection.execute(row)
        engine.dispose()
        assert len(campaign.events()) == 3


# Waiting


def test_a_second_writer_waits_for_the_first(url):
    """And never hears that the database is locked."""
    system = three_states()
    with Campaign.create(url, system.specification) as campaign:
        deployment = campaign.ask(worker="one")
        reached, done = threading.Event(), threading.Event()

        def tell():
            with Campaign.open(url) as other:
                write = other.journal.writing
                other.journal.writing = lambda: reached.set() or write()
                receipt = other.tell(deployment.id, system.episode(deployment))
                done.set()
                return receipt

        with ThreadPoolExecutor(1) as second, SQLJournal(url).writing() as transaction:
            told = second.submit(tell)
            assert reached.wait(60.0)
            assert not done.wait(0.5), "two writers at the same time"
            assert transaction.last()[0] == 2
            assert len(campaign.events()) == 2  # readers are not kept waiting
            # The block ends here: first the lock is given back, then the other one is waited for.
        assert told.result(60.0).sequence == 3
        assert campaign.verify().holds


def test_who_waits_too_long_is_told_why(url, monkeypatch):
    system = three_states()
    monkeypatch.setattr(storage, "PATIENCE", 1.0)
    with Campaign.create(url, system.specification) as campaign:
        deployment = campaign.ask(worker="one")

        def tell():
            with Campaign.open(url) as other:
                return other.tell(deployment.id, system.episode(deployment))

        holder = SQLJournal(url)
        with ThreadPoolExecutor(1) as second, holder.writing():
            waiting = second.submit(tell)
            error = waiting.exception(30.0)
        holder.close()
        assert isinstance(error, StorageFailure)
        assert re.search(
            r"campaign.*another process has been writing for .* s; try again, and look for a process", str(error)
        )
        assert [event.kind for event in campaign.events()] == ["create", "ask"]
        assert tell().new


# PostgreSQL only


def test_two_campaigns_in_one_database(server):
    """A schema of its own is enough."""
    system, database = three_states(), server.new_database()
    places = []
    for number, schema in enumerate(("north", "south"), start=1):
        server.execute(database, f"CREATE SCHEMA {schema}")
        places.append(server.url(database, search_path=schema))
        with Campaign.create(places[-1], system.specification) as campaign:
            run_rounds(campaign, system, number)
    with Campaign.open(places[0]) as north, Campaign.open(places[1]) as south:
        assert north.name != south.name
        assert [one.status(forecast=False).told for one in (north, south)] == [1, 2]
        assert north.verify().holds
        assert south.verify().holds
    with pytest.raises(Conflict, match="holds a campaign already"):
        Campaign.create(places[0], system.specification)
    with pytest.raises(StorageFailure, match=r"campaign\d+ holds no campaign; make one with"):
        Campaign.open(server.url(database))  # the schema public has none
    with pytest.raises(StorageFailure, match="west"):
        Campaign.create(server.url(database, search_path="west"), system.specification)


def test_tables_of_others_do_not_matter_to_postgresql(server):
    database = server.new_database()
    server.execute(database, "CREATE TABLE customers (name text)")
    with Campaign.create(server.url(database), three_states().specification) as campaign:
        run_rounds(campaign, three_states(), 1)
        assert campaign.verify().holds


def test_a_strict_server_does_not_make_writers_fail(server, nursery):
    """Under a serializable default, reads after the lock would be as old as the wait for it."""
    url = server.new_place(default_transaction_isolation="serializable")
    Campaign.create(url, three_states().specification).close()
    children = nursery.run(*workers(url, system="tiny", rounds=10))
    assert [child.ended for child in children] == [0] * PROCESSES, [child.reports[-1] for child in children]
    with Campaign.open(url) as campaign:
        assert campaign.status(forecast=False).told == 10 * PROCESSES


@sampled("crashes", [1, 3], keep=[0])
def test_what_was_told_survives_the_crash_of_the_server(server, nursery, crashes):
    url, system = server.new_place(), three_states()
    told: dict[str, tuple] = {}
    messages: list[str] = []
    with Campaign.create(url, system.specification) as campaign, ThreadPoolExecutor(1) as other:
        for _ in range(crashes):
            mine = campaign.ask(worker="the test")
            enough = len(campaign.events()) + 60

            def recorded_so_far() -> int:
                with campaign.journal.reading() as transaction:
                    return transaction.last()[0]

            fleet = [
                {"task": "persevere", "arguments": {"url": url, "system": "tiny", "worker": f"robot {n}", "rounds": 10**6}}
                for n in range(4)
            ]
            running = other.submit(nursery.run, *fleet, deadline=120.0)
            while recorded_so_far() < enough:
                assert not running.done(), running.result()
            server.stop("immediate")
            children = running.result()
            for child in children:
                assert child.ended == 0, child.reports[-1]
                told |= {id: (sequence, episode) for id, sequence, episode, _ in child.of("told")}
                ((_, kind, message),) = child.of("failed")
                assert kind == "StorageFailure"
                messages.append(message)
            with pytest.raises(StorageFailure) as failure:
                campaign.tell(mine.id, system.episode(mine))
            messages.append(str(failure.value))
            with pytest.raises(StorageFailure) as failure:
                Campaign.open(url)
            messages.append(str(failure.value))
            server.start()
            # The same object goes on: a connection that died with the server is replaced.
            assert campaign.tell(mine.id, system.episode(mine)).new
            events = campaign.events()
            assert [event.sequence for event in events] == list(range(1, len(events) + 1))
            recorded = {ids_of(campaign)[event.deployment]: event for event in events if event.kind == "tell"}
            for id, (sequence, episode) in told.items():
                assert (recorded[id].sequence, json.loads(recorded[id].body)) == (sequence, episode)
            assert campaign.verify().holds
        held = Counter(worker for _, worker, _ in campaign.status(forecast=False).held)
        assert max(held.values(), default=0) <= 1
    for message in messages:
        assert "campaign" in message
        assert "the server cannot be reached; nothing is known of this call: repeat it" in message, message
        assert "safe2real@127.0.0.1" in message
    print(f"\n3 crashes of the server, {len(told)} acknowledged tells, all there; for example: {messages[0]}")


@sampled("crashes", [1, 3], keep=[0])
def test_a_careless_server_does_not_make_tells_fleeting(server, crashes):
    """With synchronous_commit off, PostgreSQL answers before the log is on disk; a tell must not."""
    system = three_states()
    with Campaign.create(server.new_place(synchronous_commit="off"), system.specification) as campaign:
        for _ in range(crashes):
            run_rounds(campaign, system, 5)
            before = campaign.events()
            run_rounds(campaign, system, 1)
            server.stop("immediate")
            server.start()
            assert len(campaign.events()) == len(before) + 2


def test_a_server_that_only_reads_can_be_looked_at(server):
    url, system = server.new_place(), three_states()
    with Campaign.create(url, system.specification) as campaign:
        run_rounds(campaign, system, 2)
        deployment = campaign.ask(worker="one")
    with Campaign.open(url + "%20-cdefault_transaction_read_only%3Don") as campaign:
        assert campaign.status(forecast=False).told == 2
        assert campaign.verify().holds
        for call in (lambda: campaign.ask(worker="one"), lambda: campaign.tell(deployment.id, system.episode(deployment))):
            with pytest.raises(StorageFailure, match="the server only reads here; give the address of one that writes"):
                call()


def test_places_that_cannot_be_reached_are_named(server):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, not listening: nobody answers
        nobody = f"postgresql://robot:secret@127.0.0.1:{taken.getsockname()[1]}/fleet"
        with pytest.raises(StorageFailure, match=r"127\.0\.0\.1.*the server cannot be reached.*refused") as failure:
            Campaign.open(nobody)
    assert "secret" not in str(failure.value)
    with pytest.raises(StorageFailure, match=r'/nowhere: .*create the database first.*"nowhere" does not exist'):
        Campaign.open(server.url("nowhere"))
    with pytest.raises(StorageFailure, match=r"check the user and the password"):
        Campaign.open(server.url("postgres").replace("safe2real@", "stranger@"))
