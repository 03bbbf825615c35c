"""What the service does at its addresses: asked, told, refused, and by whom."""

import gzip
import json
import re
import threading
import time
from importlib.resources import files
from urllib.parse import urljoin

import pytest

from safe2real.campaign import Campaign
from safe2real.service import request
from safe2real.service.campaign_pool import Limits, Rate
from safe2real.service.problem_documents import MEDIA_TYPE
from safe2real.service.tokens import REMEMBERED, Tokens
from safe2real.version import __version__
from tests.campaign.systems import falling, three_states
from tests.service.servers import API, episode_of, problem_document, serving


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("campaigns")) as client:
        yield client


def refused(answer, status, kind):
    assert answer.headers["content-type"] == MEDIA_TYPE
    document = answer.json()
    assert (answer.status_code, document["status"], document["kind"]) == (status, status, kind), document
    assert document["type"] == f"urn:safe2real:problem:{kind}"
    assert document["title"]
    return document["detail"]


def events(client, name="arm"):
    with Campaign.open(client.service.places.place_of(name)) as campaign:
        return campaign.events()


def test_a_lost_answer_is_asked_for_again_and_an_episode_counts_once(client):
    first, again = (client.ask().json()["deployments"][0] for _ in range(2))
    assert first == again
    assert first["worker"] == "worker"
    told = [client.tell(first).json() for _ in range(2)]
    assert [one["new"] for one in told] == [True, False]
    assert told[0]["sequence"] == told[1]["sequence"]
    other = {**episode_of(first), "states": [0, 0, 0, 0, 1]}
    address = f"{API}/arm/deployments/{first['id']}/tell"
    assert "told already, with another episode" in refused(client.by("worker", "POST", address, json=other), 409, "conflict")


@pytest.mark.parametrize("n", [101, 10_000, 10**400])
def test_no_worker_keeps_the_others_waiting_by_one_large_ask(client, n):
    why = refused(client.ask("operator", worker="greedy", n=n), 422, "invalid-input")
    assert "at most 100 deployments at once" in why
    assert "ask again when these are told or abandoned" in why
    assert len(client.ask("operator", worker="greedy", n=100).json()["deployments"]) == 100


def test_the_record_says_who_asked_told_and_abandoned(client):
    asked = client.ask("operator", worker="cell-9").json()["deployments"][0]
    last = events(client)[-1]
    assert (last.worker, json.loads(last.body)["by"]) == ("cell-9", "operator")
    address = f"{API}/arm/deployments/{asked['id']}/abandon"
    assert client.by("operator", "POST", address, json={"reason": "power", "worker": "cell-9"}).json()["new"]
    assert events(client)[-1].worker == "operator"


def test_a_worker_asks_and_tells_as_itself_and_nothing_else(client):
    assert "asks and tells for no other" in refused(client.ask(worker="cell-9"), 403, "forbidden")
    others = client.ask("operator", worker="cell-7").json()["deployments"][0]
    assert "is held by 'cell-7'" in refused(client.tell(others), 409, "conflict")
    refused(client.tell(others, force="mine now"), 403, "forbidden")
    refused(client.tell(others, worker="cell-7"), 403, "forbidden")
    for method, path in (
        ("GET", "/status"), ("GET", "/map"), ("GET", "/course"), ("GET", "/export"), ("GET", "/stream"),
        ("POST", "/plan"), ("POST", "/verify"), ("POST", "/import"), ("POST", "/abandon"), ("POST", "/branch"),
        ("POST", "/declare"), ("GET", "/problem"), ("GET", "/deployments"),
    ):  # fmt: skip
        body = {} if method == "GET" else {"json": {}}
        refused(client.by("worker", method, f"{API}/arm{path}", **body), 403, "forbidden")
    refused(client.by("worker", "GET", API), 403, "forbidden")
    refused(client.by("worker", "GET", "/api/v1/metrics"), 403, "forbidden")
    assert client.by("operator", "POST", f"{API}/arm/abandon", json={"worker": "cell-7", "reason": "x"}).json()["ids"]
    again = client.by("worker", "POST", f"{API}/arm/deployments/{others['id']}/abandon", json={"reason": "x"})
    refused(again, 409, "conflict")  # nor does it learn what became of it


def test_an_auditor_records_nothing(client):
    for path in ("/ask", "/abandon", "/import", "/branch", "/declare", "/deployments/x/tell"):
        refused(client.by("auditor", "POST", f"{API}/arm{path}", json={}), 403, "forbidden")
    refused(client.by("auditor", "POST", API, json={}), 403, "forbidden")
    assert client.by("auditor", "GET", f"{API}/arm/status").json()["standing"] == "certified"


def test_a_token_for_one_campaign_knows_of_no_other(client):
    client.tokens["local"] = client.service.tokens.add("local", "operator", "arm")
    body = {"name": "leg", "problem": problem_document(three_states())}
    refused(client.by("local", "POST", API, json=body), 403, "forbidden")
    assert client.by("operator", "POST", API, json=body).status_code == 201
    there, nowhere = (client.by("local", "GET", f"{API}/{name}/status") for name in ("leg", "nowhere"))
    assert refused(there, 403, "forbidden") == refused(nowhere, 403, "forbidden")
    assert [one["name"] for one in client.by("local", "GET", API).json()["campaigns"]] == ["arm"]
    assert [one["name"] for one in client.by("operator", "GET", API).json()["campaigns"]] == ["arm", "leg"]
    deployment = client.ask().json()["deployments"][0]
    address = f"{API}/leg/deployments/{deployment['id']}/tell"
    assert "belongs to campaign" in refused(
        client.by("operator", "POST", address, json=episode_of(deployment)), 422, "invalid-input"
    )


def test_without_a_token_there_is_no_answer(client):
    for headers in ({}, {"Authorization": "Bearer x"}, {"Authorization": "Basic eDp5"}, {"Authorization": "Bearer "}):
        answer = client.get(API, headers=headers)
        refused(answer, 401, "unauthorised")
        assert answer.headers["www-authenticate"].startswith("Bearer")
    refused(client.get(f"{API}?token={client.tokens['operator']}"), 401, "unauthorised")
    assert client.get("/api/v1/health").json() == {"status": "ok"}
    assert client.get("/api/v1/ready").json() == {"status": "ready"}


def test_a_revoked_token_is_refused(client):
    client.tokens["gone"] = client.service.tokens.add("gone", "auditor")
    assert client.by("gone", "GET", API).status_code == 200
    assert Tokens(client.service.places).revoke("gone")  # as another process does
    time.sleep(REMEMBERED + 0.1)
    refused(client.by("gone", "GET", API), 401, "unauthorised")


def test_headers_that_browsers_obey(client):
    headers = client.get("/api/v1/health").headers
    assert headers["content-security-policy"].startswith("default-src 'self'")
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == "no-store"
    assert "server" not in headers


def test_what_is_read(client):
    assert client.tell(client.ask().json()["deployments"][0]).json()["new"]
    total = client.by("auditor", "GET", f"{API}/arm/status").json()["told"]
    for path in ("/status?forecast=true", "/map", "/course", "/deployments", "/problem"):
        assert client.by("auditor", "GET", f"{API}/arm{path}").status_code == 200, path
    rows = client.by("auditor", "GET", f"{API}/arm/map").json()
    assert (len(rows["visits"]), rows["verdict"][2], rows["intervals_certified"]) == (3, ["OPEN", "OPEN"], True)
    told = client.by("auditor", "GET", f"{API}/arm/deployments?outcome=told").json()
    assert (told["total"], told["deployments"][0]["observed"]) == (total, [4.0])
    course = client.by("auditor", "GET", f"{API}/arm/course?points=10").json()
    upright = {key: value for key, value in course["constraints"][0].items() if key not in ("proved", "observed")}
    assert upright == {"name": "upright", "relation": ">=", "limit": 1.5, "observed_mean": 4.0, "observed_count": total}
    plan = client.by("auditor", "POST", f"{API}/arm/plan", json={"reward": [[0, 1], [0, 0], [0, 0]]}).json()
    assert plan["certificate"]["holds"]
    assert client.by("auditor", "GET", "/api/v1/openapi.json").json()["info"]["version"] == __version__
    assert f'safe2real_campaign_told{{campaign="arm"}} {total}\n' in client.by("auditor", "GET", "/api/v1/metrics").text
    exported = client.by("auditor", "GET", f"{API}/arm/export").json()
    assert len(exported["events"]) == len(events(client))
    assert client.by("auditor", "GET", f"{API}/arm/export?format=csv").content[:2] == b"PK"


@pytest.mark.parametrize(("path", "own"), [("/", {"overview"}), ("/campaigns/arm", None)])
def test_a_page_has_every_part_that_its_scripts_look_for(client, path, own):
    scripts = {one.stem: one.read_text() for one in files("safe2real.service").joinpath("page").glob("*.js")}
    shared = {"access", "elements", "shell", "standing", "words"}
    wanted = (own or scripts.keys() - {"overview"}) | shared
    page = client.get(path).text
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert {id for name in wanted for id in re.findall(r'find\("([^"]+)"\)', scripts[name])} <= set(ids)
    for address in re.findall(r'(?:src|href)="([^"#]+)"', page):
        assert client.get(urljoin(path, address)).status_code == 200, address


def test_nothing_is_left_of_a_copy(client, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for headers in ({}, {"Range": "bytes=0-1"}, {"Range": "bytes=x"}, {"Range": "bytes=99999999-"}):
        answer = client.by("auditor", "GET", f"{API}/arm/export", headers=headers)
        assert answer.status_code == 200
        assert answer.json()["events"]
        assert list(tmp_path.iterdir()) == []


def test_a_log_is_read_beside_the_campaign(client, monkeypatch):
    seen = []
    monkeypatch.setattr(
        "safe2real.service.record_endpoints.read_log", lambda _: seen.append(threading.current_thread().name) or ({}, [])
    )
    form = {"Content-Type": "application/x-ndjson"}
    client.by("operator", "POST", f"{API}/arm/import", content="{}", headers=form)
    assert seen[0].startswith("making")  # not the thread that asks and tells


def test_no_token_waits_for_campaigns_that_are_made(client, monkeypatch):
    over = threading.Event()
    monkeypatch.setattr("safe2real.service.application.Campaign.create", lambda *_, **__: over.wait(30.0))
    body = {"name": "slow", "problem": problem_document(three_states())}
    threads = [threading.Thread(target=client.by, args=("operator", "POST", API), kwargs={"json": body}) for _ in range(3)]
    for thread in threads:
        thread.start()
    time.sleep(REMEMBERED + 0.1)  # until tokens are to be read again
    began = time.monotonic()
    assert client.by("worker", "GET", "/api/v1/whoami").status_code == 200
    assert time.monotonic() - began < 5.0
    over.set()
    for thread in threads:
        thread.join()


def test_every_address_is_described(client):
    """By FastAPI, from the models: bodies with examples, who may, and every way in which it is refused."""
    document = client.by("auditor", "GET", "/api/v1/openapi.json").json()
    schemas = document["components"]["schemas"]
    assert document["components"]["securitySchemes"]["token"]["scheme"] == "bearer"
    assert len(document["paths"]) == 22
    for path, methods in document["paths"].items():
        for method, described in methods.items():
            assert described["description"], path
            assert described["security"] == [{"token": []}], path
            assert described["tags"][0].startswith("for "), path
            assert {"401", "403", "404", "409", "410", "413", "415", "422", "423", "429", "503"} <= set(
                described["responses"]
            )
            assert list(described["responses"]["422"]["content"]) == [MEDIA_TYPE], path
            if method == "post":
                for kind, content in described["requestBody"]["content"].items():
                    model = schemas.get(content["schema"].get("$ref", "").rpartition("/")[2])
                    assert kind != "application/json" or model["additionalProperties"] is False, path
                    for key in () if model is None else model.get("required", ()):
                        assert model["properties"][key]["examples"], (path, key)
            assert len([one for one in described.get("parameters", ()) if one["in"] == "path"]) == path.count("{"), path


@pytest.mark.parametrize(
    ("path", "body", "why"),
    [
        ("/ask", {"n": 2.0}, "n is 2.0; give a whole number"),
        ("/ask", {"n": True}, "n is True; give a whole number"),
        ("/ask", {"mixture": 1}, "mixture is 1; give true or false"),
        ("/ask", {"wroker": "a"}, "unknown key 'wroker'"),
        ("/ask", {"worker": ["a"]}, "worker is ['a']; give a text"),
        ("/ask", {"worker": "a" * 201}, "at most 200 characters"),
        ("/ask", [], "the body is []; give an object"),
        ("/ask", {f"x{number}": 0 for number in range(1000)}, "the body has 1000 keys"),
        ("/abandon", {"worker": "a"}, "the body lacks 'reason'"),
        ("/abandon", None, "the body is missing"),
        ("/declare", {"drop": [1] * 10_000}, "drop.0 is 1; give a text"),
        ("/plan", {"reward": {"dtype": "<f8", "shape": [2**39, 2**39], "zlib": "eJw="}}, "the limit is 256 MiB"),
        ("/plan", {"reward": [[2.0, 0.0]] * 3}, "reward"),
        ("/deployments/x/tell", {"states": "0", "actions": []}, "states is '0'; give a list"),
    ],
)
def test_a_body_of_the_wrong_form_is_refused_with_the_place_the_value_and_the_fix(client, path, body, why):
    before = len(events(client))
    how = {} if body is None else {"json": body}
    assert why in refused(client.by("operator", "POST", f"{API}/arm{path}", **how), 422, "invalid-input")
    assert len(events(client)) == before


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("deployments?limit=0", "limit is '0'; give a value greater than or equal to 1"),
        ("deployments?outcome=lost", "give some of: out, told"),
        ("deployments?limit=1&limit=2", "or one twice"),
        ("deployments?nothing=1", "known are: outcome, offset, limit"),
        ("map?nothing=1", "known are: none"),
        ("status?forecast=maybe", "forecast is 'maybe'; give true or false"),
        ("export?format=xml", "format is 'xml'"),
    ],
)
def test_a_query_of_the_wrong_form_is_refused_likewise(client, query, why):
    assert why in refused(client.by("auditor", "GET", f"{API}/arm/{query}"), 422, "invalid-input")


def test_a_body_needs_its_media_type_and_no_body_needs_none(client):
    address = f"{API}/arm/ask"
    assert client.by("worker", "POST", address).status_code == 200
    refused(client.by("worker", "POST", address, content=b"{}"), 415, "wrong-type")
    refused(client.by("worker", "POST", address, content=b"{}", headers={"Content-Type": "text/plain"}), 415, "wrong-type")
    form = {"Content-Type": "application/json; charset=utf-8"}
    assert client.by("worker", "POST", address, content=b"{}", headers=form).status_code == 200


def test_a_long_body_is_parsed_beside_the_event_loop(client, monkeypatch):
    threads, parsed = [], request._parsed
    monkeypatch.setattr(request, "_parsed", lambda content: threads.append(threading.get_ident()) or parsed(content))
    for n in (1, 30_000):
        body = {"states": [0] * n, "actions": [0] * n}
        refused(client.by("worker", "POST", f"{API}/arm/deployments/x/tell", json=body), 422, "invalid-input")
    loop = client.portal.call(threading.get_ident)
    assert [one == loop for one in threads] == [True, False]


def test_the_role_is_checked_before_the_body(client):
    for body in ('{"reason"', "x" * 100_000):
        answer = client.by("auditor", "POST", f"{API}/arm/ask", content=body, headers={"Content-Type": "application/json"})
        refused(answer, 403, "forbidden")


def test_a_check_runs_beside_and_is_found_again(client):
    job = client.by("auditor", "POST", f"{API}/arm/verify", json={})
    assert job.status_code == 202
    for _ in range(200):
        found = client.by("auditor", "GET", f"{API}/arm/verify").json()
        if found["state"] != "running":
            break
        time.sleep(0.05)
    assert (found["state"], found["ledger"]["holds"], found["by"]) == ("done", True, "auditor")
    assert found["job"] == job.json()["job"]


def test_a_check_that_looks_for_another_head_is_no_answer(client, monkeypatch):
    began, over = threading.Event(), threading.Event()

    def waits(self, **_):
        began.set()
        over.wait(30.0)
        return verify(self)

    verify = Campaign.verify
    monkeypatch.setattr(Campaign, "verify", waits)
    running = client.by("auditor", "POST", f"{API}/arm/verify", json={}).json()
    assert began.wait(10.0)
    try:
        assert client.by("auditor", "POST", f"{API}/arm/verify", json={}).json()["job"] == running["job"]
        other = client.by("auditor", "POST", f"{API}/arm/verify", json={"head": "0" * 64})
        assert "another head" in refused(other, 503, "busy")
    finally:
        over.set()


def test_a_body_of_several_compressed_parts_is_refused_whole(client):
    lines = [{"source": "feb"}, {"states": [0, 0, 0, 0, 1], "actions": [0] * 4}]
    first, second = (gzip.compress(json.dumps(line).encode() + b"\n") for line in lines)
    form = {"Content-Type": "application/x-ndjson", "Content-Encoding": "gzip"}
    for content in (first + second, iter((first, second))):  # at once, and as it arrives
        answer = client.by("operator", "POST", f"{API}/arm/import", content=content, headers=form)
        assert "more than one part" in refused(answer, 422, "invalid-input")


def test_who_has_no_token_keeps_nobody_out_who_has_one(tmp_path):
    with serving(tmp_path) as client:
        codes = {client.get(API).status_code for _ in range(30)}
        assert codes == {401, 429}
        assert client.by("worker", "GET", "/api/v1/whoami").status_code == 200


def test_a_log_is_imported_whole_or_not_at_all(client):
    lines = [{"source": "jan"}, {"states": [0, 0, 0, 0, 1], "actions": [0] * 4, "id": "a"}]
    text = "\n".join(map(json.dumps, lines))
    form = {"Content-Type": "application/x-ndjson"}
    before = len(events(client))
    for broken in (text + "\n{", text + "\n{}", "", text + '\n{"states": [9], "actions": []}', "[]\n" + text):
        refused(client.by("operator", "POST", f"{API}/arm/import", content=broken, headers=form), 422, "invalid-input")
    refused(client.by("operator", "POST", f"{API}/arm/import", content=text), 415, "wrong-type")
    assert len(events(client)) == before
    packed = {**form, "Content-Encoding": "gzip"}
    answer = client.by("operator", "POST", f"{API}/arm/import", content=gzip.compress(text.encode()), headers=packed)
    assert answer.json() | {"sequence": 0} == {
        "source": "jan", "episodes": 1, "skipped": 0, "sequence": 0, "new": True, "samples": 4,
    }  # fmt: skip
    cut = gzip.compress(text.encode())[:-9]
    refused(client.by("operator", "POST", f"{API}/arm/import", content=cut, headers=packed), 422, "invalid-input")


def test_a_halted_campaign_says_stop_the_machine(tmp_path):
    with serving(tmp_path, system=falling()) as client:
        for _ in range(200):
            answer = client.ask()
            if answer.status_code != 200:
                break
            for one in answer.json()["deployments"]:
                actions = [step[0] for step in one["policy"]["actions"]][:1]
                horizon = len(one["policy"]["actions"])
                actions += [step[1] for step in one["policy"]["actions"]][1:]
                body = {"states": [0] + [1] * horizon, "actions": actions}
                told = client.by("worker", "POST", f"{API}/arm/deployments/{one['id']}/tell", json=body)
                assert told.status_code == 200, told.text
        assert "STOP THE MACHINE" in refused(answer, 423, "halted")
        assert client.by("auditor", "GET", f"{API}/arm/status").json()["standing"] == "refuted"


def test_without_tokens_only_this_machine_is_answered(tmp_path):
    with serving(tmp_path, auth=False) as client:
        assert client.get(API).json()["authentication"] is False
        for headers in (
            {"Sec-Fetch-Site": "cross-site"},
            {"Host": "evil.example"},
            {"Origin": "https://evil.example"},
            {"Host": "127.0.0.1.evil.example:80"},
        ):
            refused(client.get(API, headers=headers), 403, "forbidden")
        form = {"Content-Type": "text/plain"}
        refused(client.post(f"{API}/arm/ask", content='{"worker": "a"}', headers=form), 415, "wrong-type")


def test_limits(tmp_path):
    with serving(tmp_path, limits=Limits(body=200_000)) as client:
        client.service.limits = Limits(body=2000)
        refused(client.ask(worker="a" * 3000), 413, "too-large")
        bomb = gzip.compress(b" " * 10_000_000)
        assert len(bomb) < 20_000
        client.service.limits = Limits(body=50_000)
        packed = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
        refused(client.by("worker", "POST", f"{API}/arm/ask", content=bomb, headers=packed), 415, "wrong-type")
        client.service.limits = Limits(log=50_000)
        packed["Content-Type"] = "application/x-ndjson"
        refused(client.by("operator", "POST", f"{API}/arm/import", content=bomb, headers=packed), 413, "too-large")
        packed["Content-Encoding"] = "br"
        refused(client.by("operator", "POST", f"{API}/arm/import", content=b"x", headers=packed), 415, "wrong-type")
        client.service.limits = Limits()
        refused(client.ask(worker="a" * 70_000), 413, "too-large")  # a worker's bodies are short
        client.service.rate = Rate(0.001)
        client.service.rate._most = 3.0
        codes = [client.by("worker", "GET", "/api/v1/whoami").status_code for _ in range(5)]
        assert codes[0] == 200
        assert codes[-1] == 429
        client.service.failures = Rate(0.001)
        client.service.failures._most = 3.0
        codes = [client.get(API, headers={"Authorization": "Bearer x"}).status_code for _ in range(8)]
        assert (codes[0], codes[-1]) == (401, 429)
