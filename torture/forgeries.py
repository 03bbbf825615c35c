"""People with write access: whatever the documents say is noticed is noticed."""

from __future__ import annotations

import os
import random
import sqlite3
from contextlib import closing
from pathlib import Path
from unittest.mock import patch

from safe2real.campaign import Campaign
from safe2real.campaign.events import Event
from tests.campaign.systems import run_rounds, three_states
from torture.hostile_inputs import chain
from torture.tally import Bench, Tally

COLUMNS = ("kind", "deployment", "worker", "at", "body", "digest")


def forgeries(bench: Bench) -> Tally:
    """One column of one event changed, an event removed or two exchanged; then with all digests made anew, against a key."""
    tally, chance, system = Tally("forged events, with and without a key"), bench.chance("forgeries"), three_states()
    source, place, keys = bench.folder / "genuine.db", bench.folder / "forged.db", bench.folder / "keys"
    keys.write_text(f"rover {'5a' * 32}\n")
    with patch.dict(os.environ, SAFE2REAL_KEY_FILE=str(keys)):
        with Campaign.create(source, system.specification) as campaign:
            run_rounds(campaign, system, 15)
            head = campaign.status(forecast=False).head
        for _ in bench.attempts(tally, least=10):
            for left in ("", "-wal", "-shm"):
                Path(f"{place}{left}").unlink(missing_ok=True)
            place.write_bytes(source.read_bytes())
            what = _forge(place, chance, chained=chance.random() < 0.6)
            with Campaign.open(place) as campaign:
                if campaign.verify(head=head).holds:
                    tally.lost.append(f"not noticed: {what}")
    return tally


def _forge(place: Path, chance: random.Random, *, chained: bool) -> str:
    with closing(sqlite3.connect(place)) as connection, connection:
        rows = connection.execute("SELECT * FROM safe2real_event ORDER BY sequence").fetchall()
        index = chance.randrange(1, len(rows))
        column = chance.choice(COLUMNS)
        old = Event(*rows[index])
        new = {
            "kind": "branch",
            "deployment": (old.deployment or 0) + 100,
            "worker": f"{old.worker}x",
            "at": "2020-01-01T00:00:00.000+00:00",
            "body": old.body.replace("0", "1", 1) if "0" in old.body else old.body + " ",
            "digest": "0" * 64,
        }[column]
        connection.execute(f"UPDATE safe2real_event SET {column} = ? WHERE sequence = ?", (new, old.sequence))
        if chained and column != "digest":
            chain(connection)
    return f"{column} of event {index + 1}{', all digests made anew' if chained else ''}"
