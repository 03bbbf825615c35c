"""A record that goes back, a file that is taken away, an index that is damaged: refused before anything is written."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sql

from safe2real.campaign import Campaign, backup
from safe2real.campaign.backup import back_up
from safe2real.campaign.journal import sqlite
from safe2real.errors import Conflict, InvalidInput, StorageFailure
from tests.campaign.systems import assert_same_model, make, model_of, read, run_rounds, three_states

SYSTEM = three_states()


def restore_into(copy: Path, place: Path) -> None:
    """`.restore`: the content of a backup into the open file, as an administrator may do under running processes."""
    with closing(sqlite3.connect(copy)) as source, closing(sqlite3.connect(place)) as target:
        source.backup(target)


def rows(place: Path) -> list[tuple]:
    return read(place, "SELECT sequence, kind, deployment FROM safe2real_event ORDER BY sequence")


# A record that goes back


@pytest.mark.parametrize("call", ["ask", "tell", "abandon", "import", "branch", "status"])
def test_who_outlives_a_restore_writes_nothing(place, tmp_path, call):
    """It used to append an event that does not follow, and the record failed every check for good."""
    with make(place, 5) as campaign:
        back_up(place, tmp_path / "copy.db")
        run_rounds(campaign, SYSTEM, 10)
        held = campaign.ask(worker="worker")
        restore_into(tmp_path / "copy.db", place)
        before = rows(place)
        calls = {
            "ask": lambda: campaign.ask(worker="worker"),
            "tell": lambda: campaign.tell(held.id, SYSTEM.episode(held)),
            "abandon": lambda: campaign.abandon(held.id, "none"),
            "import": lambda: campaign.import_log("log", held.policy, [SYSTEM.episode(held)]),
            "branch": lambda: campaign.branch("none"),
            "status": lambda: campaign.status(forecast=False),
        }
        with pytest.raises(StorageFailure, match=r"went back: this process has seen event 32 of the record, which ends"):
            calls[call]()
        assert rows(place) == before
        assert before[-1] == (11, "tell", 5)
    with Campaign.open(place) as campaign:
        assert campaign.verify().holds


def test_a_process_that_only_tells_knows_what_it_told(place, tmp_path):
    with make(place, 0) as campaign:
        deployments = campaign.ask_batch(3, worker="worker")
        back_up(place, tmp_path / "copy.db")
        with Campaign.open(place) as teller:
            teller.tell(deployments[0].id, SYSTEM.episode(deployments[0]))
            restore_into(tmp_path / "copy.db", place)
            with pytest.raises(StorageFailure, match="went back: this process has seen event 5"):
                teller.tell(deployments[1].id, SYSTEM.episode(deployments[1]))
    with Campaign.open(place) as campaign:  # the deployments were in the copy: their episodes can be told, all of them
        for deployment in deployments:
            assert campaign.tell(deployment.id, SYSTEM.episode(deployment)).new
        assert campaign.verify().holds


@pytest.mark.parametrize("beside", ["", "-journal", "-wal", "-shm"])
def test_a_backup_onto_a_full_disk_leaves_nothing(place, tmp_path, monkeypatch, beside):
    def fill_the_disk(_, draft):
        Path(f"{draft}{beside}").write_bytes(b"what SQLite had written")
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(backup, "_copy_file", fill_the_disk)
    (tmp_path / "copies").mkdir()
    with make(place, 1), pytest.raises(StorageFailure, match="database or disk is full"):
        back_up(place, tmp_path / "copies" / "copy.db")
    assert list((tmp_path / "copies").iterdir()) == []


def test_another_branch_of_the_same_length_is_refused_too(place, tmp_path):
    with make(place, 5) as campaign:
        back_up(place, tmp_path / "copy.db")
        run_rounds(campaign, SYSTEM, 2)
        restore_into(tmp_path / "copy.db", place)
        with Campaign.open(place) as other:
            other.branch("the disk failed")
            run_rounds(other, SYSTEM, 4)
        with pytest.raises(StorageFailure, match="seen event 15 of the record, which holds another event in its place now"):
            campaign.ask(worker="worker")
    with Campaign.open(place) as campaign:
        assert campaign.verify().holds
        assert campaign.status(forecast=False).branches == 1


def test_an_episode_of_a_lost_branch_is_not_taken_for_another(place, tmp_path):
    """Number 6 is handed out twice: to a worker who was asked before the restore, and to another one after it."""
    with make(place, 5) as campaign:
        back_up(place, tmp_path / "copy.db")
        lost = campaign.ask(worker="old")
    shutil.copy(tmp_path / "copy.db", place)
    for name in ("-wal", "-shm"):
        Path(f"{place}{name}").unlink(missing_ok=True)
    with Campaign.open(place) as campaign:
        with pytest.raises(InvalidInput, match=r"never handed out.*belongs to a branch that is lost; import can keep"):
            campaign.tell(lost.id, SYSTEM.episode(lost))
        campaign.branch("the disk failed")
        new = campaign.ask(worker="new")
        assert (new.number, new.id != lost.id) == (lost.number, True)
        for call in (lambda: campaign.tell(lost.id, SYSTEM.episode(lost)), lambda: campaign.abandon(lost.id, "none")):
            with pytest.raises(InvalidInput, match="lost by a restore; this record has handed out another deployment 6"):
                call()
        with pytest.raises(InvalidInput, match="give the id of the answer to ask"):
            campaign.tell(lost.id.rpartition("-")[0], SYSTEM.episode(lost))
        assert campaign.tell(new.id, SYSTEM.episode(new)).new
        assert campaign.import_log("lost", lost.policy, [SYSTEM.episode(lost)], overlap="count").new
        ledger = campaign.verify()
        assert ledger.holds
        assert [event.kind for event in campaign.events()][-4:] == ["branch", "ask", "tell", "import"]


def test_an_episode_of_before_the_copy_is_told_by_its_old_id(place, tmp_path):
    with make(place, 2) as campaign:
        held = campaign.ask(worker="worker")
        back_up(place, tmp_path / "copy.db")
        campaign.tell(held.id, SYSTEM.episode(held))
        restore_into(tmp_path / "copy.db", place)
    with Campaign.open(place) as campaign:
        campaign.branch("the disk failed")
        assert campaign.tell(held.id, SYSTEM.episode(held)).new
        assert campaign.verify().holds


# A file that is taken away


def test_a_removed_file_takes_no_episode(place):
    with make(place, 2) as campaign:
        held = campaign.ask(worker="worker")
        for path in place.parent.glob("campaign.db*"):
            path.unlink()
        for call in (lambda: campaign.tell(held.id, SYSTEM.episode(held)), lambda: campaign.status(forecast=False)):
            with pytest.raises(StorageFailure, match=r"was removed while this process had it open: nothing .* is recorded"):
                call()
        assert not place.exists()


def test_a_file_removed_within_a_transaction_takes_no_episode(place):
    """The last look is just before the commit."""
    with make(place, 2) as campaign:
        with pytest.raises(StorageFailure, match="was removed"), campaign.journal.writing():
            place.unlink()
        assert not place.exists()


def test_a_replaced_file_is_not_written_to(place, tmp_path):
    """Nor does the log of the old one overwrite the new one, now or later."""
    with make(place, 3) as campaign:
        held = campaign.ask(worker="worker")
        with make(tmp_path / "other.db", 6) as other:
            expected, name = other.events(), other.name
        os.replace(tmp_path / "other.db", place)
        with pytest.raises(StorageFailure, match="was replaced by another file while this process had it open"):
            campaign.tell(held.id, SYSTEM.episode(held))
        content = place.read_bytes()
        with pytest.raises(StorageFailure, match=r"the log campaign\.db-wal beside .* is not of this campaign"):
            Campaign.open(place)
        assert place.read_bytes() == content
    assert place.read_bytes() == content
    for left in ("-wal", "-shm"):
        Path(f"{place}{left}").unlink(missing_ok=True)
    with Campaign.open(place) as found:
        assert (found.name, found.events()) == (name, expected)
        assert found.verify().holds


def test_a_copy_beside_a_log_of_later_is_refused(place, tmp_path):
    """A backup is put in place, and the log of the live file is forgotten: its pages would go over the copy."""
    campaign = make(place, 3)
    back_up(place, tmp_path / "copy.db")
    with closing(sqlite3.connect(place)) as reader:  # keeps the log there when the campaign is closed
        reader.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        run_rounds(campaign, SYSTEM, 40)
        reader.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        run_rounds(campaign, SYSTEM, 1)
        log = Path(f"{place}-wal").read_bytes()
        campaign.close()
    shutil.copy(tmp_path / "copy.db", place)
    Path(f"{place}-wal").write_bytes(log)
    Path(f"{place}-shm").unlink(missing_ok=True)
    content = place.read_bytes()
    with pytest.raises(StorageFailure, match="is not of this campaign, or not of this copy of it"):
        Campaign.open(place)
    assert place.read_bytes() == content
    Path(f"{place}-wal").unlink()
    with Campaign.open(place) as found:
        assert found.verify().holds
        assert found.status(forecast=False).told == 3


def test_damage_in_the_file_is_not_blamed_on_its_log(place):
    """Moving a log away loses what is in it, so that must be said of a foreign one alone."""
    with make(place, 3) as campaign:
        with closing(sqlite3.connect(place)) as connection:
            connection.execute("UPDATE safe2real_event SET kind = CAST(x'ff' AS TEXT) WHERE sequence = 2")
            connection.commit()
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        run_rounds(campaign, SYSTEM, 1)
        assert Path(f"{place}-wal").stat().st_size
        sqlite.check_log(place)


def test_a_body_that_was_changed_in_the_log_is_for_verify_to_say(place):
    make(place, 3).close()
    with closing(sqlite3.connect(place)) as connection:
        connection.execute("UPDATE safe2real_event SET body = replace(body, '0', '1') WHERE sequence = 3")
        connection.commit()
        assert Path(f"{place}-wal").stat().st_size
        with Campaign.open(place) as campaign:
            assert [problem.sequence for problem in campaign.verify().problems][:1] == [3]


def test_what_a_torn_log_holds_is_known_by_its_checksums(place, tmp_path):
    """SQLite ignores a log from the first frame that is not as it was written."""
    with make(place, 5):
        content = bytearray(Path(f"{place}-wal").read_bytes())
    (tmp_path / "log").write_bytes(content)
    whole = sqlite._logged_digests(tmp_path / "log", proved=True)
    assert len(whole) == 11
    assert whole == sqlite._logged_digests(tmp_path / "log")
    content[32 + 24 + 100] ^= 1  # in the first page
    (tmp_path / "log").write_bytes(content)
    assert sqlite._logged_digests(tmp_path / "log", proved=True) == set()
    assert sqlite._logged_digests(tmp_path / "log") == whole


def test_a_log_of_its_own_is_never_refused(place):
    """Whatever is in the file already: after every write the campaign can be opened by others."""
    with make(place, 0) as campaign:
        connection = campaign.journal._engine.raw_connection()
        connection.cursor().execute("PRAGMA wal_autocheckpoint = 3")
        connection.close()
        for _ in range(60):
            run_rounds(campaign, SYSTEM, 1)
            sqlite.check_log(place)
        with Campaign.open(place) as other:
            assert other.events() == campaign.events()


def test_another_campaign_in_the_same_file_is_recognised(place, tmp_path):
    """`.restore` of another campaign's backup keeps the inode."""
    with make(place, 3) as campaign, make(tmp_path / "other.db", 5):
        back_up(tmp_path / "other.db", tmp_path / "copy.db")
        restore_into(tmp_path / "copy.db", place)
        before = rows(place)
        with pytest.raises(StorageFailure, match=rf"was campaign {campaign.name} and is \w+ now"):
            campaign.ask(worker="worker")
        assert rows(place) == before


# Damaged indexes


def forget_in_index(place: Path, number: int, kind: str) -> None:
    """Take one entry out of the index of deployments, and leave the table as it is: what a damaged index page does."""
    with closing(sqlite3.connect(place)) as connection:
        name = "sqlite_autoindex_safe2real_event_1"
        (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (name,)).fetchone()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    content = bytearray(place.read_bytes())
    page = bytearray(content[(root - 1) * size : root * size])
    assert page[0] == 0x0A, "a leaf, while the record is short"
    cells = int.from_bytes(page[3:5], "big")
    pointers = [int.from_bytes(page[8 + 2 * i : 10 + 2 * i], "big") for i in range(cells)]

    def is_entry(cell: int) -> bool:
        header = page[cell + 1]
        types = page[cell + 2 : cell + 1 + header]
        width = {1: 1, 2: 2, 8: 0, 9: 0}[types[0]] if types[0] else 0
        begin = cell + 1 + header
        found = {8: 0, 9: 1}.get(types[0], int.from_bytes(page[begin : begin + width], "big"))
        return found == number and page[begin + width : begin + width + len(kind)] == kind.encode()

    kept = [pointer for pointer in pointers if not is_entry(pointer)]
    assert len(kept) == cells - 1
    page[3:5] = len(kept).to_bytes(2, "big")
    page[8 : 8 + 2 * len(kept)] = b"".join(pointer.to_bytes(2, "big") for pointer in kept)
    content[(root - 1) * size : root * size] = page
    place.write_bytes(content)


@pytest.mark.parametrize("kind", ["ask", "tell"])
def test_a_damaged_index_doubles_nothing(place, kind):
    """The check used to hold, a known deployment was "never handed out", and an episode could be told again."""
    with make(place, 3) as campaign:
        held = campaign.ask(worker="worker")
        campaign.tell(held.id, SYSTEM.episode(held))
        id, episode = held.id, SYSTEM.episode(held)
    forget_in_index(place, 4, kind)
    before = rows(place)
    with Campaign.open(place) as campaign:
        with pytest.raises(StorageFailure, match="the index of the record does not agree with its events about"):
            campaign.tell(id, episode)
        ledger = campaign.verify()
    assert not ledger.holds
    assert "the database is damaged" in ledger.problems[-1].what
    assert rows(place) == before


# Reading beside a writer


def test_reading_a_file_that_is_written_meanwhile_is_repeated(place):
    """Without a log the file is read as it is; somebody who begins to write meanwhile is noticed."""
    make(place, 60).close()
    with Campaign.open(place) as reader:
        reader.journal.file.read_only = True  # as for somebody who may not write
        reader.journal._engine.dispose()
        reader.journal._engine = reader.journal.file.engine(reader.journal.url)
        assert not Path(f"{place}-wal").exists()
        totals = []

        def progress(done: int, total: int) -> None:
            totals.append(total)
            if len(totals) == 1:
                with Campaign.open(place) as writer:
                    run_rounds(writer, SYSTEM, 20)

        ledger = reader.verify(progress=progress)
        assert (ledger.holds, ledger.events) == (True, 161)
        assert totals == [121, 161]


def test_a_reader_never_ignores_a_log(place):
    """Not even an empty one: it is there because somebody has the file open."""
    with make(place, 3) as campaign:
        Path(f"{place}-wal").stat()
        with closing(sqlite.connect_read_only(place, 1.0)) as reader:
            (seen,) = reader.execute("SELECT count(*) FROM safe2real_event").fetchone()
            run_rounds(campaign, SYSTEM, 1)
            (later,) = reader.execute("SELECT count(*) FROM safe2real_event").fetchone()
        assert (seen, later) == (7, 9)


def test_every_event_up_to_the_end_is_accounted_for(place, monkeypatch):
    """A reader that stops early says so."""
    with make(place, 5) as campaign:
        from safe2real.campaign.journal.sql import SQLTransaction

        whole = SQLTransaction.events
        monkeypatch.setattr(SQLTransaction, "events", lambda self, after=0, until=None: list(whole(self, after, until))[:7])
        ledger = campaign.verify()
        assert not ledger.holds
        assert ledger.problems[-1].what == "the record ends with event 11, and it could be read up to event 7 only"


# Who may act


def test_a_deployment_is_told_for_the_worker_that_holds_it(place):
    with make(place, 0) as campaign:
        one, two = campaign.ask_batch(2, worker="cell-3")
        for call in (
            lambda: campaign.tell(one.id, SYSTEM.episode(one), worker="cell-4"),
            lambda: campaign.abandon(one.id, "none", worker="cell-4"),
        ):
            with pytest.raises(Conflict, match=r"deployment 1 is held by 'cell-3', not by 'cell-4'.*force, which is"):
                call()
        assert campaign.tell(one.id, SYSTEM.episode(one), worker="cell-3").new
        assert campaign.tell(two.id, SYSTEM.episode(two), worker="cell-4", force="cell-3 broke down").new
        *_, force, tell = campaign.events()
        assert (force.kind, force.worker, tell.worker) == ("force", campaign.by, campaign.by)
        assert '"holder":"cell-3"' in force.body
        assert "cell-3 broke down" in force.body
        assert campaign.status(forecast=False).forced == 1
        assert campaign.verify().holds


def test_every_event_says_who_did_it(place, monkeypatch):
    monkeypatch.setenv("SAFE2REAL_BY", "Ada")
    from safe2real.campaign.signing import principal_of

    with make(place, 1) as campaign:
        held = campaign.ask(worker="worker")
        campaign.abandon(held.id, "none")
        campaign.import_log("log", held.policy, [SYSTEM.episode(held)])
        campaign.branch("none")
        assert [principal_of(event) for event in campaign.events()] == [None, *["Ada"] * 6]


def test_the_model_after_a_branch_is_that_of_an_uninterrupted_run(place, tmp_path):
    with make(place, 4) as campaign, make(tmp_path / "quiet.db", 8) as quiet:
        back_up(place, tmp_path / "copy.db")
        run_rounds(campaign, SYSTEM, 3)
        restore_into(tmp_path / "copy.db", place)
        with Campaign.open(place) as restored:
            restored.branch("the disk failed")
            run_rounds(restored, SYSTEM, 4)
            assert_same_model(model_of(restored), model_of(quiet))


def one_more(place: Path, worker: str) -> str:
    """The output of another process that tells one episode; it opens the file anew."""
    script = (
        "import sys; from safe2real.campaign import Campaign; from tests.campaign.systems import three_states\n"
        "with Campaign.open(sys.argv[1]) as campaign:\n"
        "    held = campaign.ask(worker=sys.argv[2]); campaign.tell(held.id, three_states().episode(held))\n"
        "    print('told', campaign.status(forecast=False).told, campaign.verify().holds)"
    )
    done = subprocess.run([sys.executable, "-c", script, place, worker], capture_output=True, text=True, check=False)
    return done.stdout.strip() or done.stderr


def test_an_index_that_is_removed_under_a_process_loses_nothing_that_any_process_was_told(place):
    """Two processes with an index of their own each would write over each other's events."""
    with make(place, 3) as campaign:
        held = campaign.ask(worker="worker")
        Path(f"{place}-shm").unlink()
        assert one_more(place, "another") == "told 4 True"
        for _ in range(2):
            with pytest.raises(StorageFailure, match=r"-shm was replaced by another file.*must stay in its place"):
                campaign.tell(held.id, SYSTEM.episode(held))
        with pytest.raises(StorageFailure, match="-shm was replaced"):
            Campaign.open(place)  # SQLite gives every connection of a process the index that the first one opened
    assert one_more(place, "third") == "told 5 True"


def test_a_link_that_leads_to_another_name_of_the_open_file_is_noticed(place, tmp_path):
    """Other processes would look for the log under the new name, and not see what is in the old one."""
    make(place, 3).close()
    link, renamed = tmp_path / "link.db", tmp_path / "renamed.db"
    link.symlink_to(place)
    with Campaign.open(link) as campaign:
        held = campaign.ask(worker="worker")
        Path(place).rename(renamed)
        link.unlink()
        link.symlink_to(renamed)
        with pytest.raises(StorageFailure, match=r"renamed.db-wal was removed while this process had it open"):
            campaign.tell(held.id, SYSTEM.episode(held))


def test_a_log_that_is_removed_under_a_process_is_noticed_and_nothing_is_acknowledged(place):
    log = Path(f"{place}-wal")
    with make(place, 3) as campaign:
        held = campaign.ask(worker="worker")
        log.unlink()
        for call in (lambda: campaign.tell(held.id, SYSTEM.episode(held)), lambda: campaign.status(forecast=False)):
            with pytest.raises(StorageFailure, match=r"-wal was removed while this process had it open.*SIGTERM"):
                call()
        log.write_bytes(b"")  # as another process that opens the file makes one
        with pytest.raises(StorageFailure, match=r"-wal was replaced by another file"):
            campaign.tell(held.id, SYSTEM.episode(held))
    with Campaign.open(place) as campaign:  # what was acknowledged came into the file when the process closed it
        assert campaign.status(forecast=False).told == 3
        assert campaign.tell(held.id, SYSTEM.episode(held)).new
        held = campaign.ask(worker="worker")
        sql.event.listen(campaign.journal._engine, "commit", lambda _: log.unlink(missing_ok=True))  # at the last moment
        with pytest.raises(StorageFailure, match="this call is not acknowledged"):
            campaign.tell(held.id, SYSTEM.episode(held))
