"""Kill -9 at any moment of a worker's life: what was acknowledged is there, once, as it was told."""

from __future__ import annotations

import json

from safe2real.campaign import Campaign
from tests.campaign.systems import SYSTEMS, Nursery, ids_of
from torture.tally import Bench, Tally

MOMENTS = ("fork", "alive", "open", "ask", "locked", "commit", "run", "tell", "told")


def kills(bench: Bench) -> Tally:
    """One campaign, one worker that is killed again and again; a check of everything after every kill."""
    tally, chance, place = Tally("kill -9 of a worker"), bench.chance("kills"), bench.folder / "kills.db"
    acknowledged: dict[str, object] = {}
    Campaign.create(place, SYSTEMS["tiny"]().specification).close()
    nursery = Nursery()
    try:
        for _ in bench.attempts(tally, least=5):
            after = chance.choice(MOMENTS)
            count = 1 if after in MOMENTS[:3] else chance.randint(1, 4)  # the first three happen once
            moment = {"after": after, "count": count, "delay": chance.expovariate(200.0)}
            task = {"url": str(place), "system": "tiny", "worker": "rover", "checkpoint": chance.choice([None, 3, 20])}
            (child,) = nursery.run({"task": "ask_and_tell", "arguments": task, "kill": moment})
            for id, _, episode in child.of("told"):
                acknowledged[id] = episode
            tally.lost += lost_of(place, acknowledged)
    finally:
        nursery.close()
    return tally


def lost_of(place: object, acknowledged: dict[str, object]) -> list[str]:
    """What is wrong with a record after its writers have died; one text, or none."""
    with Campaign.open(str(place)) as campaign:
        events, ids = campaign.events(), ids_of(campaign)
        told = [event for event in events if event.kind == "tell"]
        recorded = {ids[event.deployment or 0]: json.loads(event.body) for event in told}
        if len(recorded) != len(told):
            return ["an episode is recorded twice"]
        missing = [id for id, episode in acknowledged.items() if recorded.get(id) != episode]
        if missing:
            return [f"the episode of {missing[0]} was acknowledged and is not there as it was told"]
        return [] if len(events) % 8 or campaign.verify().holds else ["the record does not verify"]
