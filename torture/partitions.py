"""A network that dies and a server that crashes, at any moment: calls end in bounded time, and repeated count once."""

from __future__ import annotations

import threading
import time
from unittest.mock import patch

from safe2real.campaign import Campaign
from safe2real.campaign.journal import postgresql
from safe2real.errors import StorageFailure
from tests.campaign.crash_loop import as_json
from tests.campaign.systems import run_rounds, three_states
from torture.kills import lost_of
from torture.servers import Network, NoServer, running_server
from torture.tally import Bench, Tally

SHORT = 1.5  # seconds, instead of the usual times
PATIENCE = 30.0  # what a call may take here


def partitions(bench: Bench) -> Tally:
    """A worker behind a network that is cut in one direction or both, and a server that is crashed now and then."""
    tally, chance, system = Tally("partitions and crashes, PostgreSQL"), bench.chance("partitions"), three_states()
    short = patch.multiple(postgresql, ANSWER=SHORT, SIGN_OF_LIFE=SHORT, HOLDER_IDLE=SHORT)
    try:
        with short, running_server() as server:
            place = server.new_place()
            Campaign.create(place, system.specification).close()
            acknowledged: dict[str, object] = {}
            for _ in bench.attempts(tally, least=3):
                network = Network(server.port)
                crash = chance.random() < 0.2
                disaster = (lambda: server.stop("immediate")) if crash else chance.choice([network.cut, network.deaf])
                timer = threading.Timer(chance.uniform(0.0, 0.3), disaster)
                with Campaign.open(place.replace(f":{server.port}/", f":{network.port}/")) as far:
                    timer.start()
                    began = time.monotonic()
                    try:
                        while time.monotonic() - began < PATIENCE:
                            began = time.monotonic()
                            deployment = far.ask(worker="far")
                            episode = system.episode(deployment)
                            far.tell(deployment.id, episode)
                            acknowledged[deployment.id] = as_json(episode)
                    except StorageFailure:
                        tally.refused += 1
                    timer.join()
                    if crash:
                        server.start()
                    if time.monotonic() - began > PATIENCE:
                        tally.lost.append("a call did not end")
                network.close()
                with Campaign.open(place) as near:
                    run_rounds(near, system, 1, "near")
                    run_rounds(near, system, 1, "far")  # what was out behind the dead network is handed out again
                tally.lost += lost_of(place, acknowledged)
    except NoServer as error:
        tally.skipped = str(error)
    return tally
