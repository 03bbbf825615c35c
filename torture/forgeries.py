"""People with write access: whatever the documents say is noticed is noticed."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from safe2real.campaign import Campaign
from safe2real.campaign.events import BEFORE_THE_FIRST, Event
from tests.campaign.systems import run_rounds, three_states
from torture.tally import Bench, Tally

COLUMNS = ("kind", "deployment", "worker", "at", "body", "digest")


def forgeries(bench: Bench) -> Tally:
    """One column of one event changed, an event removed or two exchanged; then with all digests made anew, against a key."""
    tally, chance, system = Tally("forged events, with and without a key"), bench.chance("forgeries"), three_states()
    source, place, keys = bench.folder / "genuine.db", bench.folder / "forged.db", bench.folder / "keys"
    keys.write_text(f"rover {'5a' * 32}\n")
    usual = os.environ.get("SAFE2REAL_KEY_FILE")
    os.environ["SAFE2REAL_KEY_FILE"] = str(keys)
    try:
        with Campaign.create(source, system.specification) as campaign:
            run_rounds(campaign, system, 15)
            head = campaign.status(forecast=False).head
        for _ in bench.attempts(tally, least=10):
            for left in ("", "-wal", "-shm"):
                Path(f"{place}{left}").unlink(missing_ok=True)
            place.write_bytes(source.read_bytes())
            chained = chance.random() < 0.6
            what = _forge(place, chance, chained)
            with Campaign.open(place) as campaign:
                if campaign.verify(head=head).holds:
                    tally.lost.append(f"not noticed: {what}")
    finally:
        os.environ.pop("SAFE2REAL_KEY_FILE")
        if usual is not None:
            os.environ["SAFE2REAL_KEY_FILE"] = usual
    return tally


def _forge(place: Path, chance: object, chained: bool) -> str:
    with closing(sqlite3.connect(place)) as connection, connection:
        rows = connection.execute("SELECT * FROM safe2real_event ORDER BY sequence").fetchall()
        events = [Event(*row) for row in rows]
        index = chance.randrange(1, len(events))  # type: ignore[attr-defined]
        column = chance.choice(COLUMNS)  # type: ignore[attr-defined]
        old = events[index]
        new = {
            "kind": "branch",
            "deployment": (old.deployment or 0) + 100,
            "worker": f"{old.worker}x",
            "at": "2020-01-01T00:00:00.000+00:00",
            "body": old.body.replace("0", "1", 1) if "0" in old.body else old.body + " ",
            "digest": "0" * 64,
        }[column]
        events[index] = replace(old, **{column: new})
        if chained and column != "digest":
            previous = BEFORE_THE_FIRST
            for number, event in enumerate(events):
                events[number] = replace(event, digest=event.digest_after(previous))
                previous = events[number].digest
        for event in events:
            values = (event.kind, event.deployment, event.worker, event.at, event.body, event.digest, event.sequence)
            connection.execute(
                "UPDATE safe2real_event SET kind=?, deployment=?, worker=?, at=?, body=?, digest=? WHERE sequence=?", values
            )
    return f"{column} of event {index + 1}{', all digests made anew' if chained else ''}"
