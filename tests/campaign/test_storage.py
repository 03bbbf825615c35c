"""Bad places: full, read-only, cut short, somebody else's, missing. Nothing is damaged, and the message has the cure."""

from __future__ import annotations

import os
import re
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy

import safe2real as s2r
from safe2real.campaign import Campaign
from safe2real.campaign.journal.sql import explained
from safe2real.errors import Conflict, InvalidInput, StorageFailure
from tests.campaign.systems import ROOT, Nursery, assert_same_model, change, ids_of, make, model_of, run_rounds, three_states
from tests.cases import sampled

SYSTEM = three_states()
NOBODY = 65534


def files(place: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in place.parent.iterdir() if path.is_file()}


# A full disk

FULL = r"campaign\.db: the disk is full: nothing of this call was recorded, all before it is; free some space and try again"


def allow_pages(campaign: Campaign, more: int) -> None:
    """The file may grow by so many pages; the setting is the connection's, which the pool keeps."""
    connection = campaign.journal._engine.raw_connection()
    (pages,) = connection.cursor().execute("PRAGMA page_count").fetchone()
    connection.cursor().execute(f"PRAGMA max_page_count = {pages + more}").fetchall()
    connection.close()


@sampled("more", [0, 1, 3], keep=[1])
def test_a_full_database_refuses_and_goes_on_later(place, more):
    """First an ask is refused; then, with room for a while and deployments in hand, a tell."""
    with make(place, 4) as campaign, make(place.with_name("quiet.db")) as quiet:
        allow_pages(campaign, more)
        with pytest.raises(StorageFailure, match=FULL):
            run_rounds(campaign, SYSTEM, 100)
        check_intact(campaign, place)
        assert not campaign.status(forecast=False).held
        allow_pages(campaign, 10_000)
        deployments = campaign.ask_batch(150, worker="worker")
        allow_pages(campaign, more)
        with pytest.raises(StorageFailure, match=FULL):
            tell_all(campaign, deployments)
        check_intact(campaign, place)
        events, held = campaign.events(), campaign.status(forecast=False).held
        refused = deployments[-len(held) :]
        assert [id for id, _, _ in held] == [deployment.id for deployment in refused]
        assert 1 < len(held) < 150
        with pytest.raises(StorageFailure, match=FULL):
            tell_all(campaign, refused)
        assert campaign.events() == events
        allow_pages(campaign, 10_000)
        tell_all(campaign, refused)
        # The same as if there had been room all the time.
        run_rounds(quiet, SYSTEM, deployments[0].number - 1)
        tell_all(quiet, quiet.ask_batch(150, worker="worker"))
        assert_same_model(model_of(campaign), model_of(quiet))
        assert campaign.verify().holds


def tell_all(campaign: Campaign, deployments: list) -> None:
    for deployment in deployments:
        assert campaign.tell(deployment.id, SYSTEM.episode(deployment)).new


def check_intact(campaign: Campaign, place: Path) -> None:
    """After a refusal the process that was refused knows exactly what another one reads from the file."""
    with Campaign.open(place) as other:
        assert other.events() == campaign.events()
        assert other.status(forecast=False) == campaign.status(forecast=False)
        assert_same_model(model_of(other), model_of(campaign))
        assert other.verify().holds


def test_a_log_is_imported_whole_or_not_at_all(place):
    with make(place, 1) as campaign:
        policy = s2r.MarkovPolicy.uniform(horizon=4, num_states=3, num_actions=2)
        states = np.zeros(5, dtype=int)
        episodes = [s2r.Trajectory.of(SYSTEM.real, states, actions) for actions in np.ndindex(2, 2, 2, 2)] * 400
        allow_pages(campaign, 62)  # enough for the first of the events it is recorded as
        before = campaign.events()
        with pytest.raises(StorageFailure, match=FULL):
            campaign.import_log("warehouse", policy, episodes)
        assert campaign.events() == before
        allow_pages(campaign, 10_000)
        assert campaign.import_log("warehouse", policy, episodes).new
        assert [event.kind for event in campaign.events()[len(before) :]] == ["import"] * 2
        assert campaign.verify().holds


def test_no_room_for_a_new_campaign(place, monkeypatch):
    """Nothing that looks like a campaign is left behind, and the same call works once there is room."""
    limit = [2]

    def limited(*arguments, **options):
        connection = connect(*arguments, **options)
        connection.execute(f"PRAGMA max_page_count = {limit[0]}")
        return connection

    connect = sqlite3.dbapi2.connect
    monkeypatch.setattr(sqlite3.dbapi2, "connect", limited)
    with pytest.raises(StorageFailure, match=FULL):
        make(place)
    with pytest.raises(StorageFailure, match="holds no campaign; make one with"):
        Campaign.open(place)
    limit[0] = 10_000
    with make(place, 2) as campaign:
        assert campaign.verify().holds


@pytest.mark.parametrize("room", [0, 500, 5_000, 9_000, 30_000])
def test_a_file_that_may_grow_no_more(nursery, place, room):
    """RLIMIT_FSIZE: writes fail in the middle, without SQLite having been told of a limit."""
    make(place, 2).close()
    child = nursery.run_one("fill_up", url=str(place), system="tiny", worker="robot", room=room)
    ((what, id, kind, message),) = child.of("refused")
    assert kind == "StorageFailure"
    assert re.search(
        r"campaign\.db: reading or writing failed; check the disk, then repeat the call: all before it is recorded", message
    )
    *before, last = child.of("told")
    ((told, events, holds),) = child.of("seen")
    assert (told, events, holds) == (2 + len(before), 1 + 2 * told + (what == "tell"), True)
    if what == "tell":
        assert last[0] == id, "the refused tell was not the next one to be accepted"
    with Campaign.open(place) as campaign:
        ids = ids_of(campaign)
        recorded = {ids[event.deployment]: event.sequence for event in campaign.events() if event.kind == "tell"}
        assert {id: sequence for id, sequence, *_ in child.of("told")}.items() <= recorded.items()
        assert len(recorded) == told + 1
        assert campaign.verify().holds


def test_a_disk_that_is_full():
    """A real one, of 300 kB."""
    with tempfile.TemporaryDirectory(prefix="safe2real-") as name:
        folder = Path(name)
        mounted = shutil.which("mount") and subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", name], capture_output=True, check=False
        )
        if not mounted or mounted.returncode != 0:
            pytest.skip("a small disk cannot be mounted here; that needs root")
        try:
            (folder / "ballast").write_bytes(b"0" * 40_000)
            with make(folder / "campaign.db", 1) as campaign:
                with pytest.raises(StorageFailure, match=FULL):
                    run_rounds(campaign, SYSTEM, 1000)
                status, events = campaign.status(forecast=False), campaign.events()
                assert status.told >= 3
                assert campaign.verify().holds
                with pytest.raises(StorageFailure):
                    run_rounds(campaign, SYSTEM, 1)
                assert campaign.events() == events
                (folder / "ballast").unlink()
                run_rounds(campaign, SYSTEM, 1)
                assert campaign.status(forecast=False).told == status.told + 1
                assert campaign.verify(head=status.head).holds
        finally:
            subprocess.run(["umount", name], check=True)


# Read-only places


@pytest.fixture
def open_folder():
    """A folder that everybody may enter, with a name that has to be quoted; pytest's own are closed to others."""
    folder = Path(tempfile.mkdtemp(prefix="safe2real-"))
    folder.chmod(0o755)
    inner = folder / "odd %41 name #1?"
    inner.mkdir(mode=0o755)
    yield inner
    inner.chmod(0o755)
    shutil.rmtree(folder)


READ_ONLY = r"campaign\.db can only be read; make the file and its folder writable, then"


def visitor() -> int | None:
    """Whom permissions bind: not root."""
    return NOBODY if os.geteuid() == 0 else None


def leave_killed(nursery: Nursery, place: Path, tells: int) -> None:
    """The log of a process that was killed stays beside the file."""
    kill = {"after": "told", "count": tells, "delay": 0.0}
    arguments = {"url": str(place), "system": "tiny", "worker": "robot"}
    (child,) = nursery.run({"task": "ask_and_tell", "arguments": arguments, "kill": kill})
    assert child.ended == -signal.SIGKILL


def lock_away(place: Path, file_mode: int, folder_mode: int) -> None:
    for path in place.parent.iterdir():
        path.chmod(file_mode)
    place.parent.chmod(folder_mode)


@pytest.mark.parametrize(("file_mode", "folder_mode"), [(0o444, 0o555), (0o444, 0o777), (0o666, 0o555)])
@pytest.mark.parametrize("killed", [False, True], ids=["settled", "killed"])
@pytest.mark.parametrize("linked", [False, True], ids=["", "linked"])
def test_who_may_only_read_can_look(nursery, open_folder, file_mode, folder_mode, killed, linked):
    place = open_folder / "campaign.db"
    with make(place, 3) as campaign:
        held = campaign.ask(worker="somebody else")
    if killed:
        leave_killed(nursery, place, 5)
        assert place.with_name("campaign.db-wal").stat().st_size > 0
    url = open_folder / "link to campaign.db" if linked else place
    if linked:
        url.symlink_to(place)
    lock_away(place, file_mode, folder_mode)
    before = files(place)
    answers = {
        name: rest
        for name, *rest in nursery.run_one("visit", user=visitor(), url=str(url), system="tiny", held=held.id).reports
    }
    lock_away(place, 0o644, 0o755)
    for name in ("open", "status", "verify", "events", "mismatch_map", "proposal"):
        assert answers[name][0] == "fine", (name, answers[name])
    for name in ("ask", "tell", "abandon", "create"):
        assert answers[name][0] == "StorageFailure", (name, answers[name])
        assert re.search(READ_ONLY, answers[name][1])
    assert {name: content for name, content in files(place).items() if not name.endswith("-shm")} == {
        name: content for name, content in before.items() if not name.endswith("-shm")
    }
    with Campaign.open(place) as campaign:
        told = campaign.status(forecast=False).told
        assert told >= (8 if killed else 3)
        assert answers["status"][1] == told
        assert answers["events"][1] == len(campaign.events())
        assert answers["verify"][1] is campaign.verify().holds is True


def test_who_may_only_read_sees_what_is_written_meanwhile(nursery, open_folder):
    """Opened while nobody was writing; then somebody is, with checkpoints, and leaves again."""
    place, pipe = open_folder / "campaign.db", open_folder / "pipe"
    make(place, 3).close()
    os.mkfifo(pipe, 0o644)
    if os.geteuid() != 0:
        pytest.skip("the reader must be another user, and only root can become one")

    def look():
        try:
            return nursery.run_one("look_twice", user=NOBODY, url=str(place), signal_file=str(pipe))
        finally:
            os.close(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK))  # do not keep us waiting for a reader that never came

    with ThreadPoolExecutor(1) as other:
        looking = other.submit(look)
        with open(pipe, "w"):  # opened when the reader has looked once, closed when it shall look again
            for _ in range(3):
                with Campaign.open(place) as campaign:
                    run_rounds(campaign, SYSTEM, 20)
        assert looking.result().of("seen") == [[3, 7, True], [63, 127, True]]


def test_a_log_without_its_index_needs_a_folder_to_write_to(nursery, open_folder):
    """Copied from a machine that crashed: the file and its -wal, in a folder that is not ours."""
    place = open_folder / "campaign.db"
    make(place).close()
    leave_killed(nursery, place, 3)
    place.with_name("campaign.db-shm").unlink()
    lock_away(place, 0o444, 0o555)
    (child,) = nursery.run(
        {"task": "visit", "arguments": {"url": str(place), "system": "tiny", "held": "x"}, "user": visitor()}
    )
    kind, message = child.of("open")[0]
    assert kind == "StorageFailure"
    assert re.search(r"campaign\.db.*cannot be opened; .*-wal beside it.*folder that you may write to", message), message


def test_nobody_can_create_where_they_may_not_write(nursery, open_folder):
    open_folder.chmod(0o555)
    child = nursery.run_one("create", user=visitor(), url=str(open_folder / "campaign.db"), system="tiny")
    kind, message = child.of("created")[0]
    assert kind == "StorageFailure"
    assert re.search(r"campaign\.db: it cannot be opened; check that the folder exists and that you may", message)
    assert list(open_folder.iterdir()) == []


# Damaged places


def test_a_file_that_was_cut_short_is_refused_whatever_is_left_of_it(place):
    with make(place, 40) as campaign:
        events = campaign.events()
    whole = place.read_bytes()
    pages = len(whole) // 4096
    assert pages > 10
    lengths = {15, 16, 20, 99, 100, 101, 511, 512, 1000, 4095, 4097, len(whole) - 4096}
    lengths |= {4096 * page for page in range(1, pages)} | {4096 * page + 2000 for page in range(1, pages - 1)}
    damaged = r"campaign\.db: the file is (damaged or cut short; restore a copy|not an SQLite database; check the name)"
    for length in sorted(lengths):
        place.write_bytes(whole[:length])
        for call in (Campaign.open, make):
            with pytest.raises(StorageFailure, match=damaged):
                call(place)
        assert files(place) == {place.name: whole[:length]}, length
    for length in range(len(whole) - 4000, len(whole), 400):  # SQLite does not see that the last page is not whole
        place.write_bytes(whole[:length])
        assert not readable(place) or readable(place) == events
    place.write_bytes(whole)
    assert readable(place) == events


def readable(place: Path) -> list | None:
    """The record, if the campaign goes on as if nothing were wrong; the error of ours that it stopped with is looked at."""
    try:
        with Campaign.open(place) as campaign:
            events = campaign.events()
            holds = campaign.verify().holds
            campaign.ask(worker="worker")
    except (StorageFailure, InvalidInput) as error:
        # The place, or where to look for what is wrong.
        assert "campaign.db" in str(error) or "verify" in str(error) or "specification" in str(error)  # noqa: PT017
        return None
    finally:
        for path in place.parent.glob("campaign.db-*"):  # a damaged file keeps its log
            path.unlink()
    return events if holds else None


def test_pages_that_were_overwritten_are_noticed(place):
    """Any page, any damage: the campaign goes on only if what it needs is as it was."""
    with make(place, 40) as campaign:
        events = campaign.events()
    whole = place.read_bytes()
    pages, noticed = len(whole) // 4096, 0
    for page in range(pages):
        for junk in (b"\0" * 4096, np.random.default_rng(page).bytes(4096), whole[:4096]):
            place.write_bytes(whole[: 4096 * page] + junk + whole[4096 * (page + 1) :])
            found = readable(place)
            noticed += found is None
            # Else the damage is where nothing is stored, or in an index that was not needed.
            assert found is None or found == events or (page == 0 and junk == whole[:4096]), page
    assert noticed > pages
    print(f"\n{noticed} of {3 * pages} overwritten pages were noticed")


def test_a_lost_log_shows_when_the_head_was_noted(nursery, place):
    """Who copies the file without its -wal, or half of it, has an older record; SQLite cannot know, `verify` does."""
    make(place, 3).close()
    leave_killed(nursery, place, 6)
    log = place.with_name("campaign.db-wal")
    contents = {path: path.read_bytes() for path in (place, log)}
    copy = place.with_name("copy.db")
    shutil.copy(place, copy)
    shutil.copy(log, copy.with_name("copy.db-wal"))
    with Campaign.open(copy) as campaign:
        status = campaign.status(forecast=False)
        assert status.told >= 9
        assert campaign.verify(head=status.head).holds
    lost = 0
    size = len(contents[log])
    for length in (0, 31, 32, 100, size // 3, size // 2, size - 5000, size - 1):
        place.write_bytes(contents[place])
        log.write_bytes(contents[log][:length])
        place.with_name("campaign.db-shm").unlink(missing_ok=True)
        with Campaign.open(place) as campaign:
            shorter = campaign.status(forecast=False)
            assert campaign.verify().holds  # a true beginning
            ledger = campaign.verify(head=status.head)
            assert ledger.holds == (shorter.events == status.events)
            lost += not ledger.holds
            if not ledger.holds:
                assert f"the event with digest {status.head} is no longer in the record" in ledger.problems[0].what
    assert lost >= 6


def test_an_interrupted_create_is_taken_up_with_a_log(place):
    """Killed while SQLite switched the new file to its log: the file has a page, and a journal that takes it back."""
    with make(place):
        pass
    header = bytearray(place.read_bytes()[:4096])
    header[28:32] = struct.pack(">I", 1)  # one page
    place.write_bytes(header)
    journal = bytes.fromhex("d9d505f920a163d7") + struct.pack(">IIIII", 0, 12345, 0, 512, 4096)
    place.with_name("campaign.db-journal").write_bytes(journal.ljust(512, b"\0"))
    with make(place, 2) as campaign:
        assert campaign.verify().holds
    assert sqlite3.connect(place).execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_an_empty_file_is_no_campaign_and_may_become_one(place):
    place.touch()
    with pytest.raises(StorageFailure, match=r"campaign\.db holds no campaign; make one with Campaign\.create or"):
        Campaign.open(place)
    with make(place, 1) as campaign:
        assert campaign.verify().holds


@pytest.mark.parametrize("content", [b"to do: charge the robots\n", b"SQLite format 2\0" * 300, b"\0" * 5000])
def test_a_file_of_another_kind_is_left_alone(place, content):
    place.write_bytes(content)
    for call in (Campaign.open, make):
        with pytest.raises(StorageFailure, match=r"campaign\.db: the file is not an SQLite database; check the name"):
            call(place)
    assert files(place) == {place.name: content}


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_the_database_of_something_else_is_left_alone(place, mode):
    change(place, f"PRAGMA journal_mode = {mode}")
    change(place, "CREATE TABLE customers (name TEXT)")
    change(place, "INSERT INTO customers VALUES ('Ada')")
    before = files(place)
    with pytest.raises(StorageFailure, match=r"campaign\.db holds no campaign; make one with"):
        Campaign.open(place)
    with pytest.raises(
        Conflict, match=r"campaign\.db is the database of something else \(tables customers\); choose another"
    ):
        make(place)
    assert {name: content for name, content in files(place).items() if name == place.name} == before
    assert sqlite3.connect(place).execute("SELECT * FROM customers").fetchall() == [("Ada",)]


# Places that are none


@pytest.mark.parametrize(
    ("url", "open_says", "create_says"),
    [
        ("", "the place of the campaign is empty; give a file name", None),
        (
            "mysql://fleet@host/campaign",
            "mysql databases are not supported; give a file name, sqlite:///file, or postgres",
            None,
        ),
        (
            "nosuch://host/campaign",
            r"\(nosuch://\*\*\*\) is no URL of a database that is known here; give a file name",
            None,
        ),
        (
            "postgresql://a:secret@host:port/x",
            r"\(postgresql://\*\*\*\) is no URL of a database that is known here; give a file name",
            None,
        ),
        ("sqlite://", "a campaign in memory would be lost with the process; give a file name", None),
        ("sqlite:///:memory:", "a campaign in memory would be lost", None),
        (":memory:", "a campaign in memory would be lost", None),
        ("sqlite:///file::memory:?uri=true", "give a file name", None),
        ("sqlite:///file:x?mode=memory&uri=true", "give a file name", None),
        ("{folder}", "is a folder; give the name of a file in it", None),
        ("{folder}/missing.db", r"there is no file .*missing\.db; check the name, or make a campaign there first", ""),
        (
            "{folder}/no/such/a.db",
            r"there is no file .*a\.db; check the name",
            "there is no folder .*/no/such; make it first",
        ),
        (None, "the place of the campaign is a NoneType; give a file name", None),
        (b"campaign.db", "the place of the campaign is a bytes; give a file name", None),
    ],
)
def test_places_that_are_none_are_named(tmp_path, url, open_says, create_says):
    """`create_says`: "" where it works, None where it says the same."""
    if isinstance(url, str):
        url = url.format(folder=tmp_path)
    with pytest.raises((InvalidInput, StorageFailure), match=open_says) as failure:
        Campaign.open(url)
    assert list(tmp_path.iterdir()) == []
    assert "secret" not in str(failure.value)
    if create_says == "":
        Campaign.create(url, SYSTEM.specification).close()
        assert [path.name for path in tmp_path.iterdir()] == ["missing.db"]
        return
    with pytest.raises((InvalidInput, StorageFailure), match=create_says or open_says):
        Campaign.create(url, SYSTEM.specification)
    assert list(tmp_path.iterdir()) == []


def test_names_are_taken_as_they_are(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("plain.db", "50% done?.db", "läuft #1.db", "sqlite:///by url.db", tmp_path / "path.db"):
        Campaign.create(name, SYSTEM.specification).close()
        with Campaign.open(name) as campaign:
            assert campaign.verify().holds
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "50% done?.db",
        "by url.db",
        "läuft #1.db",
        "path.db",
        "plain.db",
    ]


def test_a_file_that_moves_with_the_process_stays_the_same(tmp_path, monkeypatch):
    """A relative name is that of the folder it was opened in."""
    monkeypatch.chdir(tmp_path)
    with Campaign.create("campaign.db", SYSTEM.specification) as campaign:
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        campaign.journal._engine.dispose()
        run_rounds(campaign, SYSTEM, 1)
        assert campaign.verify().holds
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_without_the_driver_of_postgresql_the_cure_is_named():
    script = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from safe2real.campaign.journal import sql as storage\n"
        "from safe2real.errors import InvalidInput\n"
        "try: storage.SQLJournal('postgresql://host/fleet')\n"
        "except InvalidInput as error: print(error)\n"
    )
    said = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert re.search(r"host/fleet.*pip install 'safe2real\[postgresql\]'", said), said


# Changed contents


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("UPDATE safe2real_campaign SET format = 1", r"has format 1 and this version reads format 2; upgrade safe2real"),
        ("UPDATE safe2real_campaign SET format = 3", r"has format 3 and this version reads format 2; upgrade safe2real"),
        (
            "UPDATE safe2real_campaign SET format = 'two'",
            r"has format two and this version reads format 2; upgrade safe2real",
        ),
        ("DELETE FROM safe2real_campaign", r"holds 0 campaigns where one belongs; restore a copy"),
        (
            "INSERT INTO safe2real_campaign SELECT 1, 'second', specification FROM safe2real_campaign",
            r"holds 2 campaigns where one belongs; restore a copy",
        ),
        ("DROP TABLE safe2real_event", r"no such table: safe2real_event"),
    ],
)
def test_a_header_that_is_not_ours_is_refused(place, statement, says):
    make(place, 2).close()
    change(place, statement)
    with pytest.raises(StorageFailure, match=r"campaign\.db.*" + says), Campaign.open(place) as campaign:
        campaign.ask(worker="worker")
    with pytest.raises(Conflict, match="holds a campaign already"):
        make(place)


def test_a_specification_that_cannot_be_read_is_named(place):
    make(place, 2).close()
    change(place, "UPDATE safe2real_campaign SET specification = '{}'")
    with pytest.raises((StorageFailure, InvalidInput), match="the specification lacks 'horizon'"):
        Campaign.open(place)


# Processes and connections


def test_a_campaign_does_not_cross_a_fork(nursery, place):
    make(place).close()
    child = nursery.run_one("fork_inside", url=str(place), system="tiny")
    inside = child.of("inside")
    assert len(inside) == 3
    for kind, message in inside:
        assert kind == "StorageFailure"
        assert re.search(
            r"campaign\.db was opened in process \d+ and is used in \d+, its fork; open the campaign again", message
        )
    assert child.of("reopened") == [[True]]
    assert child.of("outside") == [[4, True]]


def test_every_connection_is_as_durable_as_promised(place):
    with make(place, 1) as campaign:
        for _ in range(2):
            with campaign.journal.reading() as transaction:
                found = {
                    name: transaction._connection.exec_driver_sql(f"PRAGMA {name}").scalar()
                    for name in ("synchronous", "journal_mode", "busy_timeout")
                }
            assert found == {"synchronous": 2, "journal_mode": "wal", "busy_timeout": 60_000}
            campaign.journal._engine.dispose()


def test_a_lost_connection_never_promises_that_nothing_was_recorded():
    """It may have been lost after the commit: the only honest answer is to repeat the call."""
    error = sqlalchemy.exc.OperationalError("COMMIT", None, Exception("SSL SYSCALL error: EOF detected"))
    assert "nothing of this call was recorded" in explained(error, "place")
    error.connection_invalidated = True
    said = explained(error, "place")
    assert "nothing is known of this call: repeat it" in said
    assert "nothing of this call was recorded" not in said
