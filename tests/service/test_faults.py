"""The server is killed at any moment, its database restarted, answers are lost: nothing is lost or doubled."""

import random
import signal
import threading
import time
from contextlib import suppress
from dataclasses import replace
from unittest.mock import Mock

import pytest

from safe2real.campaign import Campaign
from safe2real.campaign.backup import back_up
from safe2real.campaign.events import Draft
from safe2real.client import RemoteCampaign
from safe2real.errors import StorageFailure
from safe2real.service.campaign_pool import Limits
from safe2real.service.storage import places_at
from safe2real.service.tokens import Tokens
from tests.campaign.systems import three_states
from tests.service.servers import API, Processes, put_back, serving


class Fleet:
    """Workers in threads, each with a token of its own, who ask and tell through whatever happens."""

    def __init__(self, place, urls, workers):
        self.system, self.acknowledged, self.failures = three_states(), {}, []
        self._place, self._stop = places_at(place), threading.Event()
        tokens = Tokens(self._place)
        self.tokens = {f"cell-{number}": tokens.add(f"cell-{number}", "worker") for number in range(workers)}
        self.tokens["ann"] = tokens.add("ann", "operator")
        problem = self.system.specification
        endless = replace(problem, settings=replace(problem.settings, tolerance=1e-6))  # however fast the machine is
        RemoteCampaign.create(f"{urls[0]}/campaigns/arm", endless, self.tokens["ann"]).close()
        given = ((name, urls[index % len(urls)]) for index, name in enumerate(self.tokens) if name != "ann")
        self._threads = [threading.Thread(target=self._work, args=one, daemon=True) for one in given]
        for thread in self._threads:
            thread.start()

    def _work(self, name, url):
        with RemoteCampaign(f"{url}/campaigns/arm", self.tokens[name], timeout=30.0, patience=120.0) as campaign:
            try:
                while not self._stop.is_set():
                    deployment = campaign.ask()
                    campaign.tell(deployment.id, self.system.episode(deployment))
                    self.acknowledged[deployment.id] = name
            except Exception as error:  # noqa: BLE001 (shown by the test)
                self.failures.append(repr(error))

    def end(self):
        self._stop.set()
        for thread in self._threads:
            thread.join(150)
        assert self.failures == []
        assert not any(thread.is_alive() for thread in self._threads)

    def check(self):
        """Every acknowledged episode is recorded once, as what happened, by the one who told it."""
        with Campaign.open(self._place.place_of("arm")) as campaign:
            assert campaign.verify().holds
            told = {event.deployment: event for event in campaign.events() if event.kind == "tell"}
            for id, name in self.acknowledged.items():
                assert told[int(id.split("-")[1])].worker == name
            status = campaign.status(forecast=False)
            assert status.told == len(told) >= len(self.acknowledged)
            assert status.rounds - status.told == len(status.held) <= len(self.tokens)
        return len(self.acknowledged)


@pytest.fixture(scope="module")
def processes():
    processes = Processes()
    yield processes
    processes.close()


def killed(processes, place, kills, workers=3):
    """The server killed so often at random moments under load; how many episodes were acknowledged."""
    process = processes.start(place)
    fleet = Fleet(place, [process.url], workers)
    chance = random.Random(5)
    for _ in range(kills):
        known = len(fleet.acknowledged)
        while len(fleet.acknowledged) == known and not fleet.failures:  # until it is up and at work
            time.sleep(0.005)
        time.sleep(chance.uniform(0.0, 0.3))
        process.kill()
        process.start()
    fleet.end()
    process.kill(signal.SIGTERM)
    assert not any(token in processes.said for token in fleet.tokens.values())
    return fleet.check()


@pytest.mark.slow
def test_killed_a_few_times(processes, tmp_path):
    assert killed(processes, str(tmp_path), 2) > 0


@pytest.mark.slow
def test_killed_two_hundred_times(processes, tmp_path):
    assert killed(processes, str(tmp_path), 200) > 200


@pytest.mark.slow
def test_killed_on_postgresql(processes, server):
    assert killed(processes, server.url(server.new_database()), 50) > 50


@pytest.mark.slow
def test_two_servers_on_one_database_which_restarts(processes, server):
    place = server.url(server.new_database())
    both = [processes.start(place), processes.start(place)]
    fleet = Fleet(place, [one.url for one in both], 4)
    for _ in range(3):
        time.sleep(4.0)
        server.stop("immediate")
        time.sleep(0.5)
        server.start()
    time.sleep(3.0)
    both[0].kill()
    both[0].start()
    time.sleep(3.0)
    fleet.end()
    for one in both:
        one.kill(signal.SIGTERM)
    assert fleet.check() > 20
    assert set(fleet.acknowledged.values()) == set(fleet.tokens) - {"ann"}


MALFORMED = (
    {"states": [0, 0, 0, 0, 7], "actions": [0] * 4},
    {"states": None, "actions": [0]},
    {"states": [], "actions": []},
)


@pytest.mark.parametrize("body", MALFORMED)
def test_a_record_with_an_episode_that_is_none_is_refused_again_and_again(tmp_path, body):
    with serving(tmp_path) as client:
        client.tell(client.ask().json()["deployments"][0])
        number = client.ask().json()["deployments"][0]["number"]
        with Campaign.open(tmp_path / "arm.db") as campaign, campaign.journal.writing() as transaction:
            transaction.append([Draft("tell", body, number, "worker")])
        for _ in range(3):
            assert client.ask().status_code == 503
            assert client.by("auditor", "GET", f"{API}/arm/status").status_code == 503
            for path in ("/course", "/deployments"):  # which need not read all of an episode
                assert client.by("auditor", "GET", f"{API}/arm{path}").status_code in (200, 503)
        numbers = client.by("auditor", "GET", "/api/v1/metrics")
        assert 'safe2real_campaign_readable{campaign="arm"} 0' in numbers.text


@pytest.mark.parametrize("where", ["safe2real.campaign.replay.count_in_order", "safe2real.campaign.replay.Replay._release"])
def test_an_episode_taken_in_by_half_is_neither_dropped_nor_doubled(tmp_path, monkeypatch, where):
    with serving(tmp_path) as client:
        for _ in range(3):
            client.tell(client.ask().json()["deployments"][0])
        with monkeypatch.context() as patched:
            patched.setattr(where, Mock(side_effect=MemoryError))
            assert (client.ask().status_code, client.ask().json()["kind"]) == (503, "busy")
        for _ in range(2):
            client.tell(client.ask().json()["deployments"][0])
        writer = client.service.open_now()[0].writer._campaign.status(forecast=False)
        assert (writer.told, writer.samples, writer.samples_counted) == (5, 20, 20)
        with Campaign.open(tmp_path / "arm.db") as campaign:
            assert campaign.verify().holds


def test_a_mistake_does_not_make_a_server_forget_what_it_has_seen(tmp_path, monkeypatch):
    with serving(tmp_path) as client:
        restored(client, tmp_path)
        with monkeypatch.context() as patched:
            patched.setattr(Campaign, "ask_batch", Mock(side_effect=MemoryError))
            assert client.ask().json()["kind"] == "busy"
        assert client.ask().json()["kind"] == "storage"


def restored(client, folder):
    """One deployment more than a copy has, then the copy instead of the record."""
    assert client.tell(client.ask().json()["deployments"][0]).json()["new"]
    place = folder / "arm.db"
    back_up(place, folder / "copy")
    assert client.tell(client.ask().json()["deployments"][0]).json()["new"]
    assert client.by("auditor", "GET", f"{API}/arm/course").json()["total"] == 2
    put_back(place, folder / "copy")
    return place


def branched(client, reason):
    return client.by("operator", "POST", f"{API}/arm/branch", json={"reason": reason})


def test_a_branch_that_fails_leaves_the_refusal_as_it_was(tmp_path):
    with serving(tmp_path) as client:
        restored(client, tmp_path)
        assert branched(client, "").status_code == 422
        assert (client.ask().status_code, client.ask().json()["kind"]) == (503, "storage")


def test_a_branch_waits_for_no_plan_and_nothing_is_handed_out_before_it(tmp_path):
    with serving(tmp_path) as client:
        place = restored(client, tmp_path)
        client.service.limits = Limits(answering=5.0)
        busy = threading.Event()
        hosted = client.service.open_now()[0]
        hosted.planner._thread.submit(busy.wait, 60.0)  # as a long plan does
        hosted.reader._thread.submit(busy.wait, 60.0)
        try:
            assert branched(client, "restored").status_code == 200
            assert client.tell(client.ask().json()["deployments"][0]).json()["new"]
        finally:
            busy.set()
        with Campaign.open(place) as campaign:
            assert [event.kind for event in campaign.events()][-3:] == ["branch", "ask", "tell"]


def test_a_record_that_went_back_is_refused_until_somebody_says_so(tmp_path):
    with serving(tmp_path) as client:
        place = restored(client, tmp_path)
        for answer in (client.ask(), client.by("auditor", "GET", f"{API}/arm/status")):
            assert (answer.status_code, answer.json()["kind"]) == (503, "storage"), answer.text
            assert str(tmp_path) not in answer.text
        assert branched(client, "restored last night's copy").json()["new"]
        assert client.tell(client.ask().json()["deployments"][0]).json()["new"]
        status = client.by("auditor", "GET", f"{API}/arm/status").json()
        assert (status["branches"], status["told"]) == (1, 2)
        assert client.by("auditor", "GET", f"{API}/arm/course").json()["total"] == 2
    with Campaign.open(place) as campaign:
        assert campaign.verify().holds


def test_plans_keep_no_third_object_and_notice_a_record_that_went_back(tmp_path):
    with serving(tmp_path) as client:

        def planned():
            return client.by("auditor", "POST", f"{API}/arm/plan", json={"reward": [[0, 1], [0, 0], [0, 0]]})

        client.tell(client.ask().json()["deployments"][0])
        place = tmp_path / "arm.db"
        back_up(place, tmp_path / "copy")
        client.tell(client.ask().json()["deployments"][0])
        assert planned().status_code == 200
        hosted = client.service.open_now()[0]
        assert (hosted.writer._campaign is None, hosted.planner._campaign is None) == (False, True)
        put_back(place, tmp_path / "copy")
        assert (planned().status_code, planned().json()["kind"]) == (503, "storage")


def test_no_tell_is_acknowledged_into_a_log_that_was_removed(tmp_path, processes):
    """The server is killed right after: what it answered 200 to must be in the record."""
    system, acknowledged = three_states(), 0
    token = Tokens(places_at(str(tmp_path))).add("ann", "operator")
    server = processes.start(str(tmp_path))
    RemoteCampaign.create(f"{server.url}/campaigns/arm", system.specification, token).close()
    with RemoteCampaign(f"{server.url}/campaigns/arm", token, patience=0.1) as remote:
        held = remote.ask_batch(5, worker="cell")
        (tmp_path / "arm.db-wal").unlink()
        for one in held:
            with suppress(StorageFailure):
                acknowledged += remote.tell(one.id, system.episode(one)).new
    server.kill()
    with suppress(StorageFailure), Campaign.open(tmp_path / "arm.db") as campaign:
        assert campaign.status(forecast=False).told >= acknowledged
    assert acknowledged == 0
