"""Whoever sends or reads a byte now and then does not hold a connection for ever."""

import http.client
import socket
import threading
import time
from contextlib import suppress
from urllib.request import urlopen

import pytest

from safe2real.service.campaign_pool import Limits, Service
from safe2real.service.server import Connection
from safe2real.service.storage import places_at
from tests.service.browser import Command
from tests.service.servers import listening

HEAD = b"GET /api/v1/health HTTP/1.1\r\nHost: x\r\nX-Slow: "
BODY = b"POST /api/v1/campaigns HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 5000\r\n"


def connected(url):
    return socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), timeout=10)


def lasted(url, first, trickle=b"a", seconds=60.0):
    """(how long a connection lived that sends a byte now and then, what it was answered)."""
    said, began = b"", time.monotonic()
    with connected(url) as connection, suppress(ConnectionError):
        connection.sendall(first)
        connection.settimeout(0.05)
        while time.monotonic() - began < seconds:
            with suppress(TimeoutError):
                part = connection.recv(65536)
                if not part:
                    break
                said += part
            connection.sendall(trickle)
    return time.monotonic() - began, said


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    limits = Limits(sending=0.5)
    service = Service(places_at(str(tmp_path_factory.mktemp("campaigns"))), limits=limits)
    with pytest.MonkeyPatch.context() as patched, listening(service) as url:
        patched.setattr(Connection, "HEAD", 0.5)
        patched.setattr(Connection, "READING", 0.5)
        yield url, service


@pytest.mark.parametrize("first", [b"", b"G", HEAD])
def test_a_head_that_does_not_end_is_not_waited_for(service, first):
    seconds, said = lasted(service[0], first, trickle=b"a" if first else b"")
    assert 0.4 < seconds < 5.0
    assert said == b""


def test_a_second_head_that_does_not_end_is_not_waited_for_either(service):
    whole = b"GET /api/v1/health HTTP/1.1\r\nHost: x\r\n\r\n"
    seconds, said = lasted(service[0], whole + HEAD)
    assert said.count(b"200 OK") == 1
    assert seconds < 5.0


def test_a_body_that_does_not_end_is_refused_and_not_waited_for(service):
    url, running = service
    token = running.tokens.add("slow", "operator")
    seconds, said = lasted(url, BODY + f"Authorization: Bearer {token}\r\n\r\n".encode())
    assert b"503" in said[:20]
    assert b"did not arrive within" in said
    assert seconds < 5.0


def test_the_body_of_one_without_a_token_is_not_waited_for(service):
    seconds, said = lasted(service[0], BODY + b"\r\n")
    assert b"401" in said[:20]
    assert seconds < 5.0


def test_an_answer_that_nobody_reads_is_given_up(service):
    url, running = service
    token = running.tokens.add("reader", "operator")
    request = f"GET /api/v1/openapi.json HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
    with connected(url) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        began, ended = time.monotonic(), False
        while time.monotonic() - began < 10.0 and not ended:
            try:
                connection.settimeout(0.2)
                connection.sendall(request * 20)
            except TimeoutError:
                continue
            except ConnectionError:
                ended = True
    assert ended


def test_others_are_answered_meanwhile(service):
    url, _ = service
    slow = [threading.Thread(target=lasted, args=(url, HEAD)) for _ in range(20)]
    for thread in slow:
        thread.start()
    with urlopen(f"{url}/api/v1/health", timeout=5) as answer:
        assert answer.status == 200
    for thread in slow:
        thread.join()


def test_an_idle_connection_stays(service):
    connection = http.client.HTTPConnection("127.0.0.1", int(service[0].rpartition(":")[2]), timeout=10)
    sockets = set()
    for _ in range(2):
        connection.request("GET", "/api/v1/health")
        assert connection.getresponse().read() == b'{"status":"ok"}'
        sockets.add(connection.sock)
        time.sleep(1.0)  # longer than a head may take
    assert len(sockets) == 1
    connection.close()


@pytest.mark.slow
def test_as_users_start_it(tmp_path):
    """The times that users get, in a process of its own."""
    server = Command(tmp_path)
    times = {}
    cases = {"nothing": (b"", b""), "head": (HEAD, b"a"), "refused body": (BODY + b"\r\n", b"a")}
    threads = [
        threading.Thread(target=lambda name=name, how=how: times.update({name: lasted(server.url, *how)[0]}))
        for name, how in cases.items()
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    server.end()
    print({name: round(seconds, 1) for name, seconds in times.items()})
    assert all(19.0 < seconds < 30.0 for seconds in times.values()), times
