"""Logs cut and files damaged at random: what can be read is what was written, or it is refused; nothing is doubled."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from safe2real.campaign import Campaign
from safe2real.campaign.deployment import id_of
from safe2real.errors import Safe2RealError
from tests.campaign.systems import run_rounds, three_states
from torture.tally import Bench, Tally


def torn_logs(bench: Bench) -> Tally:
    """The write-ahead log of a killed process, cut or altered anywhere: the record is the longest whole beginning of it."""
    tally, chance = Tally("torn write-ahead logs"), bench.chance("logs")
    system, source, place = three_states(), bench.folder / "source.db", bench.folder / "torn.db"
    with Campaign.create(source, system.specification) as campaign:
        run_rounds(campaign, system, 25)
        for _ in bench.attempts(tally, least=10):
            run_rounds(campaign, system, 1)
            whole = campaign.events()
            _copy(source, place)
            log = Path(f"{place}-wal")
            content = bytearray(log.read_bytes())
            if len(content) < 64:
                continue
            where = chance.randrange(32, len(content))
            if chance.random() < 0.6:
                del content[where:]
            else:
                content[where] ^= 1 << chance.randrange(8)
            log.write_bytes(content)
            try:
                with Campaign.open(place) as found:
                    events = found.events()
                    if events != whole[: len(events)]:
                        tally.lost.append(f"a log damaged at byte {where} gave another record")
                    elif not found.verify().holds:
                        tally.lost.append(f"a log damaged at byte {where} gave a record that does not verify")
            except Safe2RealError:
                tally.refused += 1
    return tally


def damaged_files(bench: Bench) -> Tally:
    """Bytes and pages of the file overwritten: a check that holds has read every event as it was; no tell is taken twice."""
    tally, chance = Tally("damaged files and indexes"), bench.chance("files")
    system, source, place = three_states(), bench.folder / "sound.db", bench.folder / "damaged.db"
    with Campaign.create(source, system.specification) as campaign:
        run_rounds(campaign, system, 120)
        whole = campaign.events()
        asked = [event for event in whole if event.kind == "ask"]
        episodes = {event.deployment: event.body for event in whole if event.kind == "tell"}
        name = campaign.name
    for _ in bench.attempts(tally, least=10):
        content = bytearray(source.read_bytes())
        page = chance.randrange(len(content) // 4096)
        if chance.random() < 0.4:
            content[page * 4096 : (page + 1) * 4096] = bytes(4096)
        else:
            for _ in range(chance.choice([1, 1, 8])):
                content[page * 4096 + chance.randrange(4096)] = chance.randrange(256)
        for left in ("-wal", "-shm"):
            Path(f"{place}{left}").unlink(missing_ok=True)
        place.write_bytes(content)
        try:
            with Campaign.open(place) as found:
                if found.verify().holds and found.events() != whole:
                    tally.lost.append(f"damage to page {page + 1} was not noticed")
                ask = chance.choice(asked)
                if found.tell(id_of(name, ask), json.loads(episodes[ask.deployment])).new:
                    tally.lost.append(f"damage to page {page + 1}: an episode was taken a second time")
        except Safe2RealError:
            tally.refused += 1
    return tally


def _copy(source: Path, target: Path) -> None:
    """What a machine that lost its power leaves: the file and its log, no index of the log."""
    for name in ("", "-wal"):
        shutil.copy(f"{source}{name}", f"{target}{name}")
    Path(f"{target}-shm").unlink(missing_ok=True)
