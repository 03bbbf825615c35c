"""Alerts: told once, told again until they are taken, and never more than a message."""

import asyncio
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from safe2real.campaign import Campaign
from safe2real.campaign.documents import status_document
from safe2real.errors import InvalidInput
from safe2real.service.alerts import Alert, AlertTerms, Cause, Watchman, alerts_in, post
from safe2real.service.campaign_pool import Service
from safe2real.service.storage import places_at
from tests.campaign.systems import falling, run_rounds, three_states
from tests.service.browser import Command

NO_HTTP = 0  # instead of a status
LATER = "2126-01-01T00:00:00.000+00:00"


@pytest.fixture
def campaign(tmp_path):
    with Campaign.create(tmp_path / "arm.db", three_states().specification) as made:
        yield made


def found(campaign, silent_after=None):
    return alerts_in("arm", status_document(campaign, forecast=False), silent_after, LATER)


class Hook:
    """A webhook that keeps what it is sent; `answers` says with which status, 200 when none is left."""

    def __init__(self):
        self.taken, self.answers, self.takes = [], [], 0.0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                outer.taken.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                time.sleep(outer.takes)
                status = outer.answers.pop(0) if outer.answers else 200
                if status == NO_HTTP:
                    self.wfile.write(b"a proxy that is being restarted\r\n\r\n")
                    self.close_connection = True
                    return
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/hook?key=secret"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def hook():
    made = Hook()
    yield made
    made.close()


async def looked(watchman):
    """A look, and all that it began."""
    await watchman.check()
    while others := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(others)


def test_a_calm_campaign_is_no_news(campaign):
    run_rounds(campaign, three_states(), 2)
    assert found(campaign, 60.0) == []


def test_a_worker_is_silent_only_after_the_stated_time(campaign):
    held = campaign.ask(worker="robot")
    assert found(campaign) == []
    (alert,) = found(campaign, 60.0)
    assert (alert.cause, alert.subject) == (Cause.SILENT, held.id)
    assert "robot has had" in alert.text
    assert alerts_in("arm", status_document(campaign, forecast=False), 60.0, held.at) == []


def test_a_refutation_is_told_with_its_reason(campaign):
    deployment = campaign.ask(worker="robot")
    campaign.tell(deployment.id, ([0], [int(deployment.policy.actions[0, 0])]), left_model=True)
    (alert,) = found(campaign)
    assert alert.cause is Cause.REFUTED
    assert "no state" in alert.text


def test_a_refuted_margin_comes_first(tmp_path):
    with Campaign.create(tmp_path / "arm.db", falling().specification) as campaign:
        while not campaign.status(forecast=False).halted:
            run_rounds(campaign, falling(), 1)
        alerts = found(campaign)
    assert [alert.cause for alert in alerts] == [Cause.MARGIN_REFUTED, Cause.REFUTED]
    assert alerts[0].text.startswith("STOP THE MACHINE")


def test_the_stop_is_told(campaign):
    document = {**status_document(campaign, forecast=False), "stopped": True}
    assert [one.cause for one in alerts_in("arm", document, None, LATER)] == [Cause.STOPPED]


def test_each_is_told_once_again_until_taken_and_again_when_it_comes_back(tmp_path, campaign, hook):
    asyncio.run(watched(tmp_path, campaign, hook))


async def watched(tmp_path, campaign, hook):
    service = Service(places_at(str(tmp_path)), auth=False)
    watchman = Watchman(service, AlertTerms(hook.url, 1e-9))
    held = campaign.ask(worker="robot")
    hook.answers = [500, 302, NO_HTTP]
    for _ in range(5):
        await looked(watchman)
    assert [one["subject"] for one in hook.taken] == [held.id] * 4  # refused, sent elsewhere, not understood, taken
    assert status_document(campaign, forecast=False)["held"]  # nothing was abandoned
    campaign.abandon(held.id, "power")
    await looked(watchman)
    again = campaign.ask(worker="robot")
    await looked(watchman)
    assert [one["subject"] for one in hook.taken[4:]] == [again.id]
    service.close()


def test_a_refutation_waits_for_no_silent_worker(tmp_path, campaign, hook):
    """60 workers of another campaign are silent, and the webhook takes 0.1 s for each: 6 s, one after the other."""
    with Campaign.create(tmp_path / "aaa.db", three_states().specification) as other:
        for number in range(60):
            other.ask(worker=f"robot {number}")
    hook.takes = 0.1
    asyncio.run(refuted_behind(tmp_path, campaign, hook))


async def refuted_behind(tmp_path, campaign, hook):
    service = Service(places_at(str(tmp_path)), auth=False)
    watching = asyncio.create_task(Watchman(service, AlertTerms(hook.url, 1e-9)).watch())
    while not hook.taken:
        await asyncio.sleep(0.02)
    deployment = campaign.ask(worker="robot")
    campaign.tell(deployment.id, ([0], [int(deployment.policy.actions[0, 0])]), left_model=True)
    began = time.monotonic()
    while not [one for one in list(hook.taken) if one["cause"] == "refuted"]:
        await asyncio.sleep(0.02)
        assert time.monotonic() - began < 4.0  # seconds: half of them between two looks
    assert [one["cause"] for one in hook.taken].count("worker-silent") < 60
    watching.cancel()
    await asyncio.wait([watching])
    service.close()


def test_a_mistake_about_one_campaign_keeps_no_alert_about_another(tmp_path, campaign, hook, monkeypatch, caplog):
    asyncio.run(watched_with_a_mistake(tmp_path, campaign, hook, monkeypatch))
    assert "aaa could not be checked" in caplog.text


async def watched_with_a_mistake(tmp_path, campaign, hook, monkeypatch):
    Campaign.create(tmp_path / "aaa.db", three_states().specification).close()
    held = campaign.ask(worker="robot")
    service = Service(places_at(str(tmp_path)), auth=False)

    def mistaken(one, **how):
        if one.name != campaign.name:
            raise ZeroDivisionError
        return status_document(one, **how)

    monkeypatch.setattr("safe2real.service.alerts.status_document", mistaken)
    await looked(Watchman(service, AlertTerms(hook.url, 1e-9)))
    assert [one["subject"] for one in hook.taken] == [held.id]
    service.close()


def test_a_dead_webhook_is_a_warning_without_its_address(caplog):
    began = time.monotonic()
    assert not post("http://127.0.0.1:9/hook?key=secret", Alert("arm", Cause.STOPPED, "", "done"))
    assert time.monotonic() - began < 5.0
    assert "was not taken" in caplog.text
    assert "secret" not in caplog.text


def test_terms_are_checked():
    for url in ("https://[x", "ftp://host/x", "file:///etc/passwd", "https:///x", "hook"):
        with pytest.raises(InvalidInput, match="not one of the web"):
            AlertTerms(url)
    with pytest.raises(InvalidInput, match="silent-after is -1"):
        AlertTerms("https://host/x", -1)


@pytest.mark.slow
def test_the_command_tells_a_webhook_and_never_shows_its_address(tmp_path, campaign, hook):
    held = campaign.ask(worker="robot")
    server = Command(tmp_path, "--no-auth", "--alert-url", hook.url, "--silent-after", "0.5")
    for _ in range(300):
        if hook.taken:
            break
        time.sleep(0.1)
    server.end()
    (alert,) = hook.taken
    assert (alert["campaign"], alert["cause"], alert["subject"]) == ("arm", "worker-silent", held.id)
    assert "secret" not in server.said
