"""A journal from outside: JSON lines in a file, one for each transaction."""

import fcntl
import json
import os
from contextlib import contextmanager
from dataclasses import astuple

from safe2real.campaign import Campaign
from safe2real.campaign.journal import Event, Header, Journal, Transaction
from tests.campaign.systems import run_rounds, three_states


class Lines(Transaction):
    def __init__(self, lines):
        self.new = {"header": None, "events": [], "blobs": {}}
        self.all = [*map(json.loads, lines), self.new]

    def header(self):
        return next((Header(*one["header"]) for one in reversed(self.all) if one["header"]), None)

    def events(self, after=0, until=None):
        every = (Event(*row) for one in self.all for row in one["events"])
        return (event for event in every if after < event.sequence and (until is None or event.sequence <= until))

    def blob(self, name):
        return next((one["blobs"][name].encode("latin1") for one in reversed(self.all) if name in one["blobs"]), None)

    def put_header(self, header):
        self.new["header"] = astuple(header)

    def put_events(self, events):
        self.new["events"] += map(astuple, events)

    def put_blobs(self, blobs):
        self.new["blobs"] |= {name: content.decode("latin1") for name, content in blobs.items()}


class LinesJournal(Journal):
    def __init__(self, path):
        self.path, self.place = path, str(path)

    @contextmanager
    def transaction(self, *, writing):
        with self.path.open("ab", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX if writing else fcntl.LOCK_SH)
            whole = self.path.read_bytes().rpartition(b"\n")  # what follows the end of the last line was cut off by a kill
            transaction = Lines(whole[0].splitlines())
            yield transaction
            if any(transaction.new.values()):
                file.truncate(len(whole[0] + whole[1]))
                file.write(json.dumps(transaction.new).encode() + b"\n")
                os.fsync(file.fileno())


def test_a_campaign_on_it(tmp_path):
    with Campaign.create(LinesJournal(tmp_path / "campaign.jsonl"), three_states().specification) as campaign:
        run_rounds(campaign, three_states(), 10)
        assert campaign.verify().describe().startswith("certified: 10 deployments and 10 episodes")
