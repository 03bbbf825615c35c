"""A network that dies, a process that stops with the lock in its hand: everybody else goes on in bounded time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from safe2real.campaign import Campaign
from safe2real.campaign.journal import postgresql
from safe2real.campaign.journal import sql as storage
from safe2real.errors import StorageFailure
from tests.campaign.systems import ROOT, run_rounds, three_states
from torture.servers import Network

SYSTEM = three_states()


@pytest.fixture
def network(server):
    network = Network(server.port)
    yield network
    network.close()


HOLD_THE_LOCK = """
import sys, time
from safe2real.campaign.journal import postgresql
from safe2real.campaign.journal.sql import SQLJournal
postgresql.HOLDER_IDLE = float(sys.argv[2])
with SQLJournal(sys.argv[1]).writing():
    print("locked", flush=True)
    time.sleep(600)
"""


def test_a_stopped_holder_of_the_lock_keeps_nobody_waiting_for_long(server):
    """It used to block all others for as long as was watched."""
    place = server.new_place()
    with Campaign.create(place, SYSTEM.specification) as campaign:
        run_rounds(campaign, SYSTEM, 1)
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
        with subprocess.Popen(
            [sys.executable, "-c", HOLD_THE_LOCK, place, "2"], env=environment, stdout=subprocess.PIPE, text=True
        ) as holder:
            try:
                assert holder.stdout.readline() == "locked\n"
                holder.send_signal(signal.SIGSTOP)
                began = time.monotonic()
                run_rounds(campaign, SYSTEM, 1)
                assert time.monotonic() - began < 20.0
            finally:
                holder.kill()
        assert campaign.verify().holds


def through(network: Network, place: str, server) -> str:
    return place.replace(f":{server.port}/", f":{network.port}/")


def test_a_dead_network_is_an_error_and_not_a_wait(server, network, monkeypatch):
    """The proxy goes on to acknowledge packets, so no timer of the kernel helps."""
    place = server.new_place()
    with Campaign.create(place, SYSTEM.specification) as near:
        monkeypatch.setattr(postgresql, "SIGN_OF_LIFE", 2.0)
        monkeypatch.setitem(postgresql.CONNECTION, "connect_timeout", 2)
        with Campaign.open(through(network, place, server)) as far:
            held = far.ask(worker="far")
            network.cut()
            began = time.monotonic()
            with pytest.raises(StorageFailure, match="cannot be reached; nothing is known of this call: repeat it"):
                far.tell(held.id, SYSTEM.episode(held))
            assert time.monotonic() - began < 30.0
            network.mend()
            assert far.tell(held.id, SYSTEM.episode(held)).new
            assert far.verify().holds
        run_rounds(near, SYSTEM, 1)


def test_a_server_that_never_answers_is_not_waited_for(network, monkeypatch):
    monkeypatch.setitem(postgresql.CONNECTION, "connect_timeout", 2)
    network.cut()
    began = time.monotonic()
    with pytest.raises(StorageFailure, match="cannot be reached"):
        Campaign.open(f"postgresql://safe2real@127.0.0.1:{network.port}/postgres")
    assert time.monotonic() - began < 20.0


def test_an_answer_that_is_lost_after_the_commit_counts_once(server, network, monkeypatch):
    """The worst moment: the server has committed, and nobody hears it. The call is repeated, and nothing is doubled."""
    place = server.new_place()
    Campaign.create(place, SYSTEM.specification).close()
    monkeypatch.setattr(postgresql, "ANSWER", 2.0)
    with Campaign.open(through(network, place, server)) as far:
        held = far.ask(worker="far")
        append = storage.SQLTransaction.append

        def append_and_lose_the_network(self, drafts):
            events = append(self, drafts)
            network.deaf()
            return events

        monkeypatch.setattr(storage.SQLTransaction, "append", append_and_lose_the_network)
        with pytest.raises(StorageFailure, match=r"nothing is known of this call.*\(no answer on this connection for 2 s"):
            far.tell(held.id, SYSTEM.episode(held))
        monkeypatch.setattr(storage.SQLTransaction, "append", append)
        network.mend()
        again = far.tell(held.id, SYSTEM.episode(held))
        assert not again.new, "the server had taken it"
        assert [event.kind for event in far.events()] == ["create", "ask", "tell"]


def test_times_that_are_given_stay(server, monkeypatch):
    place = server.new_place(lock_timeout="3s", statement_timeout="4s", idle_in_transaction_session_timeout="5s")
    Campaign.create(place, SYSTEM.specification).close()
    store = storage.SQLJournal(place)
    with store.writing() as transaction:
        found = [
            transaction._connection.exec_driver_sql(f"SHOW {name}").scalar()
            for name in ("lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout")
        ]
    store.close()
    assert found == ["3s", "4s", "5s"]


def test_a_slow_statement_is_given_up(server, monkeypatch):
    monkeypatch.setattr(postgresql, "STATEMENT", 1.0)
    place = server.new_place()
    with Campaign.create(place, SYSTEM.specification) as campaign:
        with (
            pytest.raises(StorageFailure, match="the server took too long and gave the statement up"),
            campaign.journal.reading() as transaction,
        ):
            transaction._connection.exec_driver_sql("SELECT pg_sleep(30)")
        assert campaign.verify().holds


def test_a_standby_that_had_not_received_everything_is_not_written_to(server):
    """After a failover the newest events are gone; who saw them must not go on as if they were there."""
    database = server.new_database()
    with Campaign.create(server.url(database), SYSTEM.specification) as campaign:
        run_rounds(campaign, SYSTEM, 3)
        server.execute(database, "DELETE FROM safe2real_event WHERE sequence > 4")
        with pytest.raises(StorageFailure, match="went back: this process has seen event 7 of the record, which ends with"):
            campaign.ask(worker="worker")
        assert server.execute(database, "SELECT max(sequence) FROM safe2real_event") == [(4,)]
    with Campaign.open(server.url(database)) as campaign:
        campaign.branch("a standby took over")
        run_rounds(campaign, SYSTEM, 2)
        assert campaign.verify().holds


# Roles

ROLES = Path(ROOT / "docs" / "postgresql-roles.sql")


def test_the_roles_of_the_documents_allow_what_they_say(server):
    import psycopg

    database = server.new_database()
    url = server.url(database)
    with Campaign.create(url, SYSTEM.specification) as campaign:
        run_rounds(campaign, SYSTEM, 1)
    server.execute(database, ROLES.read_text())
    for role in ("safe2real_worker", "safe2real_auditor"):
        server.execute(database, f"CREATE ROLE {role}_login LOGIN IN ROLE {role}")
    worker = url.replace("safe2real@", "safe2real_worker_login@")
    auditor = url.replace("safe2real@", "safe2real_auditor_login@")
    with Campaign.open(worker) as campaign:
        run_rounds(campaign, SYSTEM, 3)
        campaign.branch("none")
        assert campaign.verify().holds
    with Campaign.open(auditor) as campaign:
        assert campaign.verify().holds
        assert campaign.status(forecast=False).told == 4
        with pytest.raises(StorageFailure, match="permission denied"):
            campaign.ask(worker="auditor")
    forbidden = [
        "UPDATE safe2real_event SET worker = 'nobody'",
        "DELETE FROM safe2real_event WHERE sequence = 3",
        "UPDATE safe2real_campaign SET format = 2",
        "UPDATE safe2real_campaign SET specification = '{}'",
        "UPDATE safe2real_policy SET content = ''",
        "DELETE FROM safe2real_policy",
        "TRUNCATE safe2real_event",
        "INSERT INTO safe2real_snapshot VALUES (1, '', '')",  # which an unsigned record could not tell from one of ours
        "DELETE FROM safe2real_snapshot",
        "DROP TABLE safe2real_event",
    ]
    for place in (worker, auditor):
        for statement in forbidden:
            with psycopg.connect(place, autocommit=True) as connection, pytest.raises(psycopg.Error):
                connection.execute(statement)
    # Not even the owner, by mistake.
    for statement in forbidden[:4]:
        with psycopg.connect(url, autocommit=True) as connection, pytest.raises(psycopg.Error, match="append only"):
            connection.execute(statement)
    with suppress(psycopg.Error), Campaign.open(url) as campaign:
        assert campaign.verify().holds
        assert campaign.status(forecast=False).told == 4
