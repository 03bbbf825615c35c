"""What happens is told as it happens, once, in order, and from where a connection broke."""

import asyncio
import http.client
import json
import time
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest

from safe2real.campaign import Campaign
from safe2real.campaign.backup import back_up
from safe2real.client import RemoteCampaign
from safe2real.service.campaign_pool import Limits, Service
from safe2real.service.event_stream import _messages
from safe2real.service.storage import places_at
from tests.campaign.systems import run_rounds, three_states
from tests.service.servers import listening, serving


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    service = Service(places_at(str(tmp_path_factory.mktemp("campaigns"))))
    token = service.tokens.add("ann", "operator")
    with listening(service) as url:
        RemoteCampaign.create(f"{url}/campaigns/arm", three_states().specification, token).close()
        yield url, token, service


class Stream:
    """Messages of one connection."""

    def __init__(self, url, token, after=None):
        parts = urlsplit(url)
        self._connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=5)
        headers = {"Authorization": f"Bearer {token}"} | ({} if after is None else {"Last-Event-ID": str(after)})
        self._connection.request("GET", "/api/v1/campaigns/arm/stream", headers=headers)
        self.answer = self._connection.getresponse()

    def message(self):
        """(kind, id, data) of the next one; what begins with a colon or retry is none."""
        found, began = {}, time.monotonic()
        while True:
            line = self.answer.readline().decode()
            assert line, "the stream is over"
            assert time.monotonic() - began < 10.0, "nothing but signs of life"
            line = line.rstrip("\n")
            key, _, value = line.partition(": ")
            if line:
                found[key] = value
            elif "event" in found:
                return found["event"], found.get("id"), json.loads(found["data"])
            else:
                found = {}

    def records(self, number):
        found = []
        while len(found) < number:
            kind, id, data = self.message()
            if kind == "record":
                assert id == f"{data['sequence']}-{data['digest']}"
                found.append(data)
        return found

    def close(self):
        self._connection.close()


def test_each_event_is_told_within_two_seconds_whoever_wrote_it(service):
    url, token, running = service
    stream = Stream(url, token)
    assert stream.answer.headers["content-type"].startswith("text/event-stream")
    kind, _, status = stream.message()
    assert (kind, status["standing"]) == ("status", "certified")
    first = stream.records(1)[0]
    assert (first["kind"], first["sequence"]) == ("create", 1)
    with RemoteCampaign(f"{url}/campaigns/arm", token) as remote:
        began = time.monotonic()
        asked = remote.ask(worker="cell")
        told = stream.records(1)[0]
        assert time.monotonic() - began < 2.0
        assert (told["kind"], told["worker"], told["by"], told["id"]) == ("ask", "cell", "ann", asked.id)
    with Campaign.open(running.places.place_of("arm")) as other:  # as another server does
        other.tell(asked.id, three_states().episode(asked))
        began = time.monotonic()
        told = stream.records(1)[0]
        assert time.monotonic() - began < 2.0
        assert (told["kind"], told["worker"], told["samples"], told["left_model"]) == ("tell", "cell", 4, False)
    kind, _, status = stream.message()
    assert (kind, status["told"]) == ("status", 1)
    stream.close()
    again = Stream(url, token, after=1)
    assert [one["kind"] for one in again.records(2)] == ["ask", "tell"]
    again.close()


def test_a_revoked_token_is_told_nothing_more(service):
    url, token, running = service
    stream = Stream(url, running.tokens.add("gone", "auditor"))
    assert stream.message()[0] == "status"
    running.tokens.revoke("gone")
    with RemoteCampaign(f"{url}/campaigns/arm", token) as remote:
        remote.ask(worker="another")
    while (message := stream.message())[0] == "status":
        pass
    assert message[0] == "problem" or message[2]["sequence"] == 1
    while message[0] == "record" and message[2]["worker"] != "another":
        message = stream.message()
    assert (message[0], message[2].get("kind")) == ("problem", "unauthorised")
    assert stream.answer.readline() == b""  # it is over
    stream.close()


def test_who_has_left_is_not_counted(service):
    url, token, running = service
    streams = [Stream(url, token) for _ in range(3)]
    for one in streams:
        one.message()
    assert running.streams.total() >= 3
    for one in streams:
        one.close()
    for _ in range(100):
        if running.streams.total() == 0:
            break
        time.sleep(0.05)
    assert running.streams.total() == 0


def test_what_is_no_number_is_refused(service):
    url, token, _ = service
    stream = Stream(url, token, after="x")
    assert stream.answer.status == 422
    stream.close()


def test_a_page_of_a_record_that_was_restored_starts_over_and_hears_every_change_of_status(tmp_path):
    """The page has seen 9 events; the restored record has 3, and gets to 5: a number alone would say that nothing is new."""
    system, place = three_states(), tmp_path / "arm.db"
    with Campaign.create(place, system.specification) as campaign:
        run_rounds(campaign, system, 1)
        back_up(place, tmp_path / "copy")
        run_rounds(campaign, system, 3)
        last = campaign.events()[-1]
    (tmp_path / "copy").replace(place)
    service = Service(places_at(str(tmp_path)))
    token = service.tokens.add("ann", "operator")
    with listening(service) as url:
        stream = Stream(url, token, after=last.sequence)
        assert stream.message()[0] == "status"
        kind, _, restarted = stream.message()
        assert (kind, restarted["events"]) == ("restart", 3)
        assert [one["sequence"] for one in stream.records(3)] == [1, 2, 3]
        with RemoteCampaign(f"{url}/campaigns/arm", token) as remote:
            asked = remote.ask(worker="cell")
            remote.tell(asked.id, ([0], [int(asked.policy.actions[0, 0])]), left_model=True)
        began = time.monotonic()
        while (message := stream.message())[0] != "status" or message[2]["standing"] != "refuted":
            assert time.monotonic() - began < 3.0
        with Campaign.open(place) as other:
            head = other.events()[-1]
        assert message[2]["head"] == head.digest
        stream.close()
        # A record as long as the page has seen, with another event in its place.
        stream = Stream(url, token, after=f"3-{head.digest}")
        while (message := stream.message())[0] == "status":
            pass
        assert message[0] == "restart"
        stream.close()


def test_a_record_that_goes_back_under_an_open_stream_is_said_with_its_status():
    """As `.restore` of the sqlite3 program does, in the file that is open: no connection breaks."""
    heads = [(9, "9" * 64)] * 2 + [(4, "4" * 64)] * 99

    class Hosted:
        name = shown_place = "arm"
        changed = asyncio.Event()
        reader = SimpleNamespace(do=lambda *_, **__: asyncio.sleep(0, (now[0] == 4, [])))

        async def head(self, _):
            now[:] = heads.pop(0)
            return tuple(now)

        async def status(self, _):
            return tuple(now), json.dumps({"events": now[0]})

    async def said():
        stream, found = _messages(Hosted(), (9, "9" * 64), 1.0), []
        async for message in stream:
            found += [message] if message.startswith("event") else []
            if len(found) == 3:
                return found

    now = []
    kinds = [message.splitlines()[0].removeprefix("event: ") for message in asyncio.run(asyncio.wait_for(said(), 20.0))]
    assert kinds == ["status", "restart", "status"]


def test_a_silent_stream_says_which_head_it_speaks_of(service, monkeypatch):
    monkeypatch.setattr("safe2real.service.event_stream._BREATH", 0.6)
    url, token, _ = service
    stream = Stream(url, token)
    heads = set()
    while (message := stream.message())[0] != "alive":
        heads.add(message[2].get("head"))
    assert message[2]["head"] in heads
    stream.close()


def test_streams_that_begin_at_once_keep_the_limits(tmp_path):
    """As many requests at once as a crowd of pages sends when a server comes back."""
    with serving(tmp_path, limits=Limits(streams=5, own_streams=3)) as client:
        headers = [(b"authorization", f"Bearer {client.tokens[name]}".encode()) for name in ("operator", "auditor")]

        async def begin(header, statuses, over):
            path = "/api/v1/campaigns/arm/stream"
            scope = {"type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "query_string": b""}
            scope |= {"headers": [header, (b"host", b"localhost")], "http_version": "1.1", "scheme": "http", "root_path": ""}
            requests = iter(({"type": "http.request", "body": b"", "more_body": False},))

            async def receive():
                if (request := next(requests, None)) is not None:
                    return request
                await over.wait()
                return {"type": "http.disconnect"}

            async def send(message):
                if message["type"] == "http.response.start":
                    statuses.append(message["status"])

            await client.app({**scope, "server": ("localhost", 80), "client": ("127.0.0.1", 1)}, receive, send)

        async def crowd():
            statuses, over = [], asyncio.Event()
            tasks = [asyncio.ensure_future(begin(header, statuses, over)) for header in headers * 10]
            while len(statuses) < len(tasks):
                await asyncio.sleep(0.01)
            watching = client.service.streams.total()
            over.set()
            await asyncio.gather(*tasks)
            return statuses, watching

        statuses, watching = client.portal.call(crowd)
        assert (statuses.count(200), statuses.count(503), watching) == (5, 15, 5)
        assert client.service.streams.total() == 0
