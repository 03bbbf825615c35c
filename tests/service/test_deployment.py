"""What docs/service.md says about running the service, done: the proxy, the unit, the drill."""

import http.client
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
from urllib.request import urlopen

import pytest

from safe2real.campaign import Campaign
from safe2real.client import RemoteCampaign
from safe2real.errors import InvalidInput
from safe2real.service.campaign_pool import Service
from safe2real.service.server import _CONNECTIONS, run
from safe2real.service.storage import places_at
from safe2real.service.tokens import Tokens
from tests.campaign.systems import ROOT, run_rounds, three_states
from tests.service.servers import API, listening, serving

PAGE = (ROOT / "docs" / "service.md").read_text("utf-8")


def block(language):
    return re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)[1]


def program(name):
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")
    if found is None:
        pytest.skip(f"there is no {name} on this machine")
    return found


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@pytest.fixture
def proxied(tmp_path, monkeypatch):
    """(the address of nginx as the page configures it, the service behind it, the folder of its logs)."""
    nginx, openssl, port = program("nginx"), program("openssl"), free_port()
    key, certificate = tmp_path / "fleet.key", tmp_path / "fleet.pem"
    command = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate, "-days", "2"]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    subprocess.run([*command, *names], check=True, capture_output=True)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    (tmp_path / "campaigns").mkdir()
    service = Service(places_at(str(tmp_path / "campaigns")))
    with listening(service, "127.0.0.1") as url:
        server = block("nginx")
        for said, meant in (
            ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
            ("fleet.example;", "localhost;"),
            ("/etc/ssl/fleet.example.pem", str(certificate)),
            ("/etc/ssl/fleet.example.key", str(key)),
            ("http://127.0.0.1:8080", url),
            ("client_header_timeout 20s", "client_header_timeout 1s"),
        ):
            assert said in server
            server = server.replace(said, meant)
        (tmp_path / "logs").mkdir()
        temporary = "".join(
            f"{one}_temp_path {tmp_path / one};" for one in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        settings = f"events {{}} http {{ access_log {tmp_path / 'logs' / 'access'}; {temporary} {server} }}"
        (tmp_path / "nginx.conf").write_text(f"daemon off; user root; pid {tmp_path / 'pid'}; {settings}")
        process = subprocess.Popen([nginx, "-c", tmp_path / "nginx.conf", "-e", tmp_path / "logs" / "error"])
        try:
            for _ in range(100):
                try:
                    urlopen(f"https://localhost:{port}/api/v1/health", timeout=5).close()
                    break
                except OSError:
                    time.sleep(0.05)
            yield f"https://localhost:{port}", service, tmp_path / "logs"
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(10)


@pytest.mark.slow
def test_through_nginx_with_tls(proxied):
    url, service, logs = proxied
    token = service.tokens.add("ann", "operator")
    port = int(url.rpartition(":")[2])
    system = three_states()
    with RemoteCampaign.create(f"{url}/campaigns/arm", system.specification, token) as campaign:
        stream = http.client.HTTPSConnection("localhost", port, context=ssl.create_default_context(), timeout=5)
        stream.request("GET", f"{API}/arm/stream", headers={"Authorization": f"Bearer {token}"})
        lines = stream.getresponse()
        while not lines.readline().startswith(b"event: record"):
            pass
        began = time.monotonic()
        run_rounds(campaign, system, 1, "cell")
        while b'"kind": "tell"' not in lines.readline():
            pass
        assert time.monotonic() - began < 3.0  # events are told as they happen
        stream.close()
        log = [{"states": [0] * 5, "actions": [0] * 4, "id": str(number)} for number in range(3000)]
        assert campaign.import_log("january", system.specification.baseline, log, overlap="count").samples == 12_000
        assert campaign.verify().holds
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", port), timeout=20) as slow:
        context = ssl.create_default_context()
        with context.wrap_socket(slow, server_hostname="localhost") as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
            assert b"200" not in connection.recv(4096)
    assert time.monotonic() - began < 15.0
    with urlopen(f"{url}/api/v1/health", timeout=5) as answer:
        assert answer.headers["strict-transport-security"]
    assert (logs / "access").read_text().count("/ask") == 1
    assert token not in (logs / "access").read_text() + (logs / "error").read_text()


@pytest.mark.slow
def test_who_is_without_a_token_behind_a_proxy_has_an_address_of_its_own(proxied):
    url, _, _ = proxied
    forged = {"X-Forwarded-For": "203.0.113.9"}  # which the proxy replaces
    codes = []
    for _ in range(30):
        connection = http.client.HTTPSConnection("localhost", int(url.rpartition(":")[2]), timeout=5)
        connection.request("GET", API, headers=forged | {"X-Forwarded-For": f"203.0.113.{len(codes)}"})
        codes.append(connection.getresponse().status)
        connection.close()
    assert set(codes) == {401, 429}


@pytest.mark.parametrize(
    ("trusted", "evaded"), [(None, False), ("203.0.113.9", False), ("127.0.0.1", True), ("127.0.0.0/8", True)]
)
def test_only_a_trusted_proxy_says_whose_request_it_is(tmp_path, trusted, evaded):
    """Else a program on the machine would have a failure limit of its own for each address that it makes up."""
    with listening(Service(places_at(str(tmp_path))), trusted) as url:

        def code(address):
            connection = http.client.HTTPConnection("127.0.0.1", int(url.rpartition(":")[2]), timeout=5)
            connection.request("GET", API, headers={"X-Forwarded-For": address})
            return connection.getresponse().status

        codes = {code(f"203.0.113.{number}") for number in range(40)}
        assert codes == ({401} if evaded else {401, 429})


@pytest.mark.parametrize("given", ["*", "", "proxy.example", "127.0.0.1,10.0.0.1"])
def test_a_trusted_proxy_has_an_address(tmp_path, given):
    with pytest.raises(InvalidInput, match=r"--trusted-proxy is .*; give the address"):
        run(str(tmp_path), "127.0.0.1", 0, trusted_proxy=given)


def test_the_unit_has_files_for_all_connections():
    """Each connection is an open file, each campaign some more; the usual limit of a service is 1024."""
    limits = dict(line.split("=", 1) for line in block("ini").splitlines() if line.startswith("Limit"))
    assert int(limits["LimitNOFILE"]) >= 4 * _CONNECTIONS


@pytest.mark.slow
def test_the_unit_is_one(tmp_path):
    analyze = program("systemd-analyze")
    unit = block("ini").replace("/opt/safe2real/bin/safe2real", sys.executable)
    (tmp_path / "safe2real.service").write_text(unit)
    done = subprocess.run([analyze, "verify", tmp_path / "safe2real.service"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_the_drill(server, tmp_path):
    """Copied, restored elsewhere, checked, and gone on with; a copy that lacks what was noted is found out."""
    for one in ("pg_dump", "pg_restore"):
        program(one)
    fleet, drill, stale = (server.url(server.new_database()) for _ in range(3))
    system, heads = three_states(), {}
    with serving(fleet) as client:
        body = {"name": "left-leg", "problem": client.by("operator", "GET", f"{API}/arm/problem").json()}
        assert client.by("operator", "POST", API, json=body).status_code == 201
        for name in ("arm", "left-leg"):
            with Campaign.open(client.service.places.place_of(name)) as campaign:
                run_rounds(campaign, system, 3)
                heads[name] = campaign.status(forecast=False).head
        token = client.tokens["auditor"]
    (tmp_path / "heads").write_text("".join(f"{name} {head}\n" for name, head in heads.items()))
    command = f"{sys.executable} -m safe2real.cli"
    environment = {**os.environ, "SAFE2REAL": command, "PYTHONPATH": str(ROOT / "src")}

    def drilled(to, noted):
        script = ["sh", "examples/service_drill.sh", fleet, to, noted]
        return subprocess.run(script, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)

    done = drilled(drill, tmp_path / "heads")
    assert (done.returncode, done.stdout) == (0, "arm holds\nleft-leg holds\n"), done.stderr
    assert Tokens(places_at(drill)).caller(token).name == "auditor"  # who may ask came along
    with Campaign.open(places_at(drill).place_of("arm")) as campaign:
        assert campaign.branch("the drill").new
        run_rounds(campaign, system, 1)
        (tmp_path / "later").write_text(f"arm {campaign.status(forecast=False).head}\n")
    assert drilled(stale, tmp_path / "later").returncode == 6  # not in the fleet's record
