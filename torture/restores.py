"""Backups brought back under running processes, and files taken away or exchanged: nothing is written where it is lost."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from safe2real.campaign import Campaign
from safe2real.campaign.backup import back_up
from safe2real.errors import InvalidInput, Safe2RealError, StorageFailure
from tests.campaign.systems import run_rounds, three_states
from torture.tally import Bench, Tally


def restores(bench: Bench) -> Tally:
    """A backup is restored into the open file; the process that saw more must not write, nor an old id be taken."""
    tally, chance = Tally("restores under a running process"), bench.chance("restores")
    system, place = three_states(), bench.folder / "restored.db"
    Campaign.create(place, system.specification).close()
    for number in bench.attempts(tally, least=3):
        copy = bench.folder / f"copy{number}.db"
        with Campaign.open(place) as campaign:
            run_rounds(campaign, system, chance.randint(0, 3))
            back_up(place, copy)
            run_rounds(campaign, system, chance.randint(0, 5))
            lost = campaign.ask(worker="old")
            with closing(sqlite3.connect(copy)) as source, closing(sqlite3.connect(place)) as target:
                source.backup(target)
            before = _events(place)
            try:
                if chance.random() < 0.5:
                    campaign.ask(worker="new")
                else:
                    campaign.tell(lost.id, system.episode(lost))
                tally.lost.append("a process that outlived a restore was let write")
            except StorageFailure:
                tally.refused += 1
            if _events(place) != before:
                tally.lost.append("a refused call left an event")
        with Campaign.open(place) as campaign:
            campaign.branch("torture")
            run_rounds(campaign, system, chance.randint(0, 6))
            try:
                campaign.tell(lost.id, system.episode(lost))
                tally.lost.append("an episode of a lost branch was taken")
            except InvalidInput:
                pass
            if not campaign.verify().holds:
                tally.lost.append("a restored record does not verify")
        copy.unlink()
    return tally


def exchanged_files(bench: Bench) -> Tally:
    """The file is removed, or another one put in its place, while a process has it open."""
    tally, chance = Tally("files removed or exchanged"), bench.chance("exchanged")
    system, place, other = three_states(), bench.folder / "mine.db", bench.folder / "other.db"
    for _ in bench.attempts(tally, least=3):
        for path in bench.folder.glob("mine.db*"):
            path.unlink()
        with Campaign.create(place, system.specification) as campaign:
            run_rounds(campaign, system, chance.randint(1, 5))
            held = campaign.ask(worker="rover")
            removed = chance.random() < 0.5
            if removed:
                place.unlink()
            else:
                with Campaign.create(other, system.specification) as stranger:
                    run_rounds(stranger, system, chance.randint(1, 8))
                    expected = stranger.events()
                os.replace(other, place)
            try:
                campaign.tell(held.id, system.episode(held))
                tally.lost.append("an episode was taken into a file that nobody will read")
            except StorageFailure:
                tally.refused += 1
        if removed:
            continue
        try:
            Campaign.open(place).close()
        except Safe2RealError:  # the log of the other one is beside it
            for left in ("-wal", "-shm"):
                Path(f"{place}{left}").unlink(missing_ok=True)
        with Campaign.open(place) as found:
            if found.events() != expected or not found.verify().holds:
                tally.lost.append("the file that was put in place was overwritten")
    return tally


def _events(place: Path) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(place)) as connection:
        return connection.execute("SELECT sequence, digest FROM safe2real_event ORDER BY sequence").fetchall()
