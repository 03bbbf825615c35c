"""Thousands of requests that nobody honest sends: no mistake shows, nothing leaks, nothing is recorded."""

import json
import logging
import socket
from contextlib import suppress
from urllib.request import urlopen

import pytest

from safe2real.campaign import Campaign
from safe2real.service.campaign_pool import Service
from safe2real.service.problem_documents import MEDIA_TYPE
from safe2real.service.storage import places_at
from tests.service.hostile_requests import HTML, requests
from tests.service.servers import listening, reached, serving

SECRET = "hunter2-the-password"


def attack(client, number, seed):
    """What was answered to so many requests by somebody with a worker's token, forged ones, a revoked one, or none."""
    revoked = client.service.tokens.add(f"revoked-{seed}", "operator")
    client.service.tokens.revoke(f"revoked-{seed}")
    client.service.failures._rate = client.service.failures._most = 1e9  # or most would be refused for their number alone
    client.service.rate._rate = client.service.rate._most = 1e9
    others = client.ask("operator", worker="somebody else").json()["deployments"][0]["id"]
    worker = client.tokens["worker"]
    shown = (
        *[f"Bearer {worker}"] * 4, *[f"Bearer {client.tokens['auditor']}"] * 4, None, f"Bearer {revoked}",
        f"Bearer {worker[:-1]}", f"bearer  {worker}x", "Bearer " + "a" * 5000, f"Basic {worker}",
    )  # fmt: skip
    with Campaign.open(client.service.places.place_of("arm")) as campaign:
        before = campaign.events()
    secrets = (*client.tokens.values(), revoked, SECRET)
    counts = {}
    for request in requests(number, seed, (others, others[:-1] + "0", "0" * 8 + "-1-000000"), shown):
        answer = client.request(**request)
        counts[answer.status_code] = counts.get(answer.status_code, 0) + 1
        said = json.dumps(dict(answer.headers)) + answer.text
        assert answer.status_code < 500, (request, answer.text)
        assert not any(secret in said for secret in secrets), request
        assert str(client.service.places.shown) not in said, request
        if answer.status_code >= 400:
            assert answer.headers["content-type"] == MEDIA_TYPE, request  # which no browser shows as a page
        assert answer.headers["x-content-type-options"] == "nosniff"
    with Campaign.open(client.service.places.place_of("arm")) as campaign:
        recorded = campaign.events()[len(before) :]
        # All that a worker's token allows: to ask for itself.
        assert {(event.kind, event.worker) for event in recorded} <= {("ask", "worker")}
        assert not any(HTML in event.body for event in recorded)
        assert campaign.verify().holds
    assert client.service.places.names() == ["arm"]
    return counts


def test_a_few(tmp_path, caplog, monkeypatch):
    monkeypatch.setenv("PGPASSWORD", SECRET)
    caplog.set_level(logging.DEBUG)
    with serving(tmp_path) as client:
        counts = attack(client, 150, 1)
        assert {401, 403, 404, 405, 415, 422} <= set(counts), counts
        assert not any(token in caplog.text for token in client.tokens.values())


def test_a_few_through_a_socket(tmp_path):
    with reached(tmp_path) as client:
        assert {401, 403, 422} <= set(attack(client, 60, 8))


@pytest.mark.slow
def test_two_thousand_through_a_socket(tmp_path):
    with reached(tmp_path) as client:
        counts = [attack(client, 500, seed) for seed in range(2, 6)]
    print({code: sum(one.get(code, 0) for one in counts) for code in sorted({code for one in counts for code in one})})


def test_an_operator_finds_no_mistake_either(tmp_path):
    with serving(tmp_path) as client:
        client.service.rate._rate = client.service.rate._most = 1e9
        for request in requests(150, 7, ("x",), (f"Bearer {client.tokens['operator']}",)):
            answer = client.request(**request)
            assert answer.status_code < 500, (request, answer.text)
            assert client.tokens["operator"] not in answer.text
        with Campaign.open(client.service.places.place_of("arm")) as campaign:
            assert campaign.verify().holds


def test_html_in_every_text_is_kept_as_text(tmp_path):
    with serving(tmp_path) as client:
        asked = client.ask("operator", worker=HTML).json()["deployments"][0]
        address = f"/api/v1/campaigns/arm/deployments/{asked['id']}/abandon"
        assert client.by("operator", "POST", address, json={"reason": HTML}).json()["new"]
        for path in ("/status", "/deployments"):
            answer = client.by("auditor", "GET", f"/api/v1/campaigns/arm{path}")
            assert answer.headers["content-type"] == "application/json"


def test_a_token_sent_as_a_text_is_not_recorded(tmp_path):
    with serving(tmp_path) as client:
        token = client.tokens["operator"]
        answer = client.ask("operator", worker=token)
        assert answer.status_code == 422
        assert token not in answer.text
        query = client.by("operator", "GET", f"/api/v1/campaigns?{token}=1")
        assert query.status_code == 422
        assert token not in query.text
        lost = client.by("operator", "GET", f"/api/v1/campaigns/{token}/status")
        assert token not in lost.text
        named = client.by("operator", "POST", f"/api/v1/campaigns/arm/deployments/{token}/abandon", json={"reason": "x"})
        assert "the deployment's id is" in named.text  # which shows what was given, but for a token
        assert token not in named.text


RAW = (
    b"", b"\x00" * 100, b"GET\r\n\r\n", b"GET /api/v1/campaigns HTTP/9.9\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"GET /api/v1/health HTTP/1.1\r\n\r\n", b"GET " + b"/a" * 50_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /api/v1/campaigns HTTP/1.1\r\nHost: x\r\n" + b"X: y\r\n" * 20_000 + b"\r\n",
    b"POST /api/v1/campaigns HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n{}",
    b"POST /api/v1/campaigns HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n{}",
    b"POST /api/v1/campaigns HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"POST /api/v1/campaigns HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
    b"GET /api/v1/campaigns/arm/../../../etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /page/..%2f..%2ftokens.py HTTP/1.1\r\nHost: x\r\n\r\n", b"GET /page/../service.py HTTP/1.1\r\nHost: x\r\n\r\n",
)  # fmt: skip


def test_what_is_hardly_http(tmp_path):
    service = Service(places_at(str(tmp_path)))
    with listening(service) as url:
        address = ("127.0.0.1", int(url.rpartition(":")[2]))
        for sent in RAW:
            with socket.create_connection(address, timeout=30) as connection:
                connection.sendall(sent)
                connection.shutdown(socket.SHUT_WR)
                with suppress(ConnectionError):
                    said = connection.makefile("rb").read()
                status = said[9:12] if said else b""
                assert status in (b"", b"400", b"401", b"404", b"413", b"431"), (sent[:80], said[:200])
                assert b"import" not in said  # of a file
        with urlopen(f"{url}/api/v1/health", timeout=5) as answer:
            assert answer.status == 200
    assert service.places.names() == []
