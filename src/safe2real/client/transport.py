"""Requests to a service, with timeouts and retries of requests that are safe to repeat."""

from __future__ import annotations

import http.client
import json
import os
import random
import re
import ssl
import time
from dataclasses import dataclass
from typing import IO, Any
from urllib.parse import urlencode, urlsplit

from safe2real.errors import Conflict, Halted, InvalidInput, Safe2RealError, Stopped, StorageFailure
from safe2real.model.serialization import from_text
from safe2real.version import __version__

TOKEN = "SAFE2REAL_TOKEN"
_ERRORS: dict[str, type[Safe2RealError]] = {
    kind.kind: kind for kind in (InvalidInput, Stopped, Halted, Conflict, StorageFailure)
}
_NOT_DONE = "too-many"  # after this refusal any request may be sent again
_FIRST_WAIT, _LONGEST_WAIT = 0.1, 5.0  # seconds between tries
_LOST = (OSError, http.client.HTTPException)


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a campaign and of its page: scheme://host[:port]/campaigns/NAME."""

    scheme: str
    host: str
    port: int | None
    prefix: str  # before /campaigns/, where a proxy has one
    name: str

    @classmethod
    def of(cls, url: Any, *, plain_http: bool) -> Address:
        """Read an address.

        Raises:
            InvalidInput: It is no address of a campaign, holds a secret, or would send a token in the clear over a network.
        """
        try:
            parts = urlsplit(url) if isinstance(url, str) else None
            _ = None if parts is None else parts.port  # raises ValueError where the port is no number
        except ValueError:
            parts = None
        before, middle, name = ("", "", "") if parts is None else parts.path.rstrip("/").rpartition("/campaigns/")
        if parts is None or parts.scheme not in ("http", "https") or not parts.hostname or not (middle and name):
            raise InvalidInput("the campaign's address is not like https://host:8080/campaigns/NAME; give one like that")
        if parts.username is not None or parts.query or parts.fragment or "/" in name:
            raise InvalidInput("the campaign's address has more than scheme, host, port and /campaigns/NAME; leave that out")
        if parts.scheme == "http" and not plain_http and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
            raise InvalidInput(
                f"http://{parts.hostname} would carry the token in the clear; use https, or say plain_http=True where the "
                "network itself is private"
            )
        return cls(parts.scheme, parts.hostname, parts.port, before.removesuffix("/api/v1"), name)

    def connect(self, timeout: float) -> http.client.HTTPConnection:
        if self.scheme == "https":
            return http.client.HTTPSConnection(self.host, self.port, timeout=timeout, context=ssl.create_default_context())
        return http.client.HTTPConnection(self.host, self.port, timeout=timeout)

    def __str__(self) -> str:
        port = "" if self.port is None else f":{self.port}"
        return f"{self.scheme}://{self.host}{port}{self.prefix}/campaigns/{self.name}"


class Transport:
    """One connection to one service, renewed when it breaks; for one thread."""

    def __init__(self, address: Address, token: str | None, *, timeout: float, patience: float) -> None:
        self.address, self._timeout, self._patience = address, timeout, patience
        given = os.environ.get(TOKEN) if token is None else token
        self._headers = {"User-Agent": f"safe2real/{__version__}", "Accept": "application/json"}
        if given is not None:
            if not re.fullmatch(r"[\w.-]{1,200}", given, re.ASCII):  # never shown, not even in part
                raise InvalidInput("the token has letters that no token has, or none at all; copy it again")
            self._headers["Authorization"] = f"Bearer {given}"
        self._connection: http.client.HTTPConnection | None = None

    def campaign(self, method: str, path: str, document: Any = None, **how: Any) -> Any:
        """Send a request to the campaign; see `send`."""
        return self.send(method, f"/campaigns/{self.address.name}{path}", document, **how)

    def send(
        self,
        method: str,
        path: str,
        document: Any = None,
        *,
        query: dict[str, Any] | None = None,
        log: IO[bytes] | None = None,
        again: bool = True,
        timeout: float | None = None,
    ) -> Any:
        """Send one request and return its answer.

        Args:
            method: of HTTP.
            path: below /api/v1.
            document: the body, as JSON.
            query: parameters after the "?".
            log: a compressed body of JSON Lines instead.
            again: whether the request may be sent again when its outcome is unknown.
            timeout: seconds until an answer begins, if not the usual ones.

        Raises:
            Safe2RealError: The service's error, with the class that the same local call raises.
            StorageFailure: There was no answer within the patience.
        """
        body: bytes | IO[bytes] | None = None if document is None else json.dumps(document, allow_nan=False).encode()
        headers = dict(self._headers)
        if log is not None:
            size = log.seek(0, os.SEEK_END)
            headers |= {"Content-Encoding": "gzip", "Content-Type": "application/x-ndjson", "Content-Length": str(size)}
        elif body is not None:
            headers["Content-Type"] = "application/json"
        address = f"{self.address.prefix}/api/v1{path}" + (f"?{urlencode(query)}" if query else "")
        deadline, wait = time.monotonic() + self._patience, _FIRST_WAIT
        while True:
            if log is not None:
                log.seek(0)
                body = log
            sent = False
            try:
                connection = self._connected(timeout or self._timeout)
                sent = True
                connection.request(method, address, body, headers)
                answer = connection.getresponse()
                status, content = answer.status, answer.read()
                problem = None if status < 400 else _problem(status, content)
            except _LOST as error:
                self.close()
                problem, may_repeat = _unreachable(self.address, error), again or not sent
            else:
                may_repeat = problem is not None and _may_repeat(problem, status, again)
            if problem is None:
                return from_text(content, "the service's answer")
            if not may_repeat or time.monotonic() + wait > deadline:
                raise problem
            time.sleep(wait * random.uniform(0.5, 1.0))
            wait = min(2.0 * wait, _LONGEST_WAIT)

    def _connected(self, timeout: float) -> http.client.HTTPConnection:
        """Return an open connection; if this fails, nothing was sent."""
        if self._connection is None:
            connection = self.address.connect(timeout)
            connection.connect()
            self._connection = connection
        if self._connection.sock is None:  # the service closed the connection after the last answer
            self._connection.connect()
        self._connection.sock.settimeout(timeout)
        return self._connection

    def close(self) -> None:
        """Let go of the connection; the next request makes another."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None


class Refusal(InvalidInput):
    """A refusal by the service itself: of the token, the address, the size, or the rate."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.refused = kind


def _problem(status: int, content: bytes) -> Safe2RealError:
    """Return the exception for a problem document."""
    try:
        found = from_text(content, "the answer")
    except InvalidInput:
        found = None
    if not isinstance(found, dict) or not isinstance(found.get("kind"), str):  # from a proxy, not from the service
        return StorageFailure(f"the service did not answer: something before it did, with the status {status}; try again")
    kind, detail = found["kind"], str(found.get("detail"))
    if kind in _ERRORS:
        return _ERRORS[kind](detail)
    return StorageFailure(detail) if kind in ("busy", "internal") else Refusal(kind, detail)


def _may_repeat(problem: Safe2RealError, status: int, again: bool) -> bool:
    if isinstance(problem, Refusal):
        return problem.refused == _NOT_DONE
    return isinstance(problem, StorageFailure) and status in (502, 503, 504) and again


def _unreachable(address: Address, error: Exception) -> StorageFailure:
    said = str(error) or type(error).__name__
    return StorageFailure(
        f"{address} does not answer ({said[:200]}); nothing is known of this call: repeat it, "
        "an episode is never counted twice"
    )
