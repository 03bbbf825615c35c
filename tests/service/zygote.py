"""A process that has everything imported and compiled, and forks a server for each line on its standard input.

A server that is started as users start it takes seconds to import; two hundred of them would take half an hour.
"""

import json
import os
import signal
import sys

from safe2real.campaign import Campaign
from safe2real.campaign.journal import MemoryJournal
from safe2real.service.server import run
from tests.campaign.systems import three_states

if __name__ == "__main__":
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those who are killed
    system = three_states()
    with Campaign.create(MemoryJournal(), system.specification) as campaign:
        for _ in range(2):
            deployment = campaign.ask(worker="warm")
            campaign.tell(deployment.id, system.episode(deployment))
        campaign.status()
    for line in sys.stdin:
        place, port = json.loads(line)
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            sys.stdin.close()
            print(os.getpid(), flush=True)
            run(place, "127.0.0.1", port)
            os._exit(0)
