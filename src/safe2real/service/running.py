"""Running the service: one process, one listener, one line that says where."""

from __future__ import annotations

import ipaddress
import json
import logging
import socket
import sys

import uvicorn
from fastapi import FastAPI

from safe2real.errors import InvalidInput
from safe2real.service.alerts import AlertTerms
from safe2real.service.application import make_app
from safe2real.service.problems import hidden
from safe2real.service.service import Options, Service, check_loopback
from safe2real.service.slow_client_timeouts import Connection
from safe2real.service.storage import places_at

_KEEP_ALIVE = 75  # seconds that an idle connection stays
_GOODBYE = 10  # seconds that what is under way is given when the server is stopped
_CONNECTIONS = 1000


def run(
    place: str,
    host: str,
    port: int,
    *,
    auth: bool = True,
    alerts: AlertTerms | None = None,
    trusted_proxy: str | None = None,
) -> None:
    """Serve the campaigns of a folder or a database until the process is told to stop.

    Args:
        place: a folder, or the URL of a PostgreSQL database.
        host: the address to listen on.
        port: 0 for any that is free; the line on standard output says which.
        auth: whether a token is needed.
        alerts: whom to tell of what must not wait for somebody to look; nobody if not given.
        trusted_proxy: the address or network of the proxy whose X-Forwarded-For says whose request it is; if not given,
            the header is ignored.

    Raises:
        InvalidInput: The place or the proxy's address is none, the address cannot be listened on, or it needs no token and
            is not loopback.
    """
    if not auth:
        check_loopback(host)
    service = Service(places_at(place), Options(auth=auth))
    _log_without_secrets()
    config = configured(make_app(service, alerts), trusted_proxy)
    with listener_at(host, port) as listener:
        address, number = listener.getsockname()[:2]
        shown = f"[{address}]" if ":" in address else address
        print(json.dumps({"serving": service.places.shown, "url": f"http://{shown}:{number}", "auth": auth}), flush=True)
        uvicorn.Server(config).run(sockets=[listener])


def configured(app: FastAPI, trusted_proxy: str | None = None) -> uvicorn.Config:
    """How the application is run, here and in tests.

    Raises:
        InvalidInput: The proxy's address is none.
    """
    if trusted_proxy is not None:
        _check_address(trusted_proxy)
    return uvicorn.Config(
        app,
        http=Connection,
        ws="none",
        access_log=False,
        log_config=None,
        server_header=False,
        timeout_keep_alive=_KEEP_ALIVE,
        timeout_graceful_shutdown=_GOODBYE,
        limit_concurrency=_CONNECTIONS,
        proxy_headers=trusted_proxy is not None,
        # Loopback is not trusted by default: any local program could claim another address with each guess at a token.
        forwarded_allow_ips=trusted_proxy,
        h11_max_incomplete_event_size=64 << 10,  # of headers
    )


def _check_address(given: str) -> None:
    try:
        ipaddress.ip_network(given, strict=False)
    except ValueError:
        raise InvalidInput(
            f"--trusted-proxy is {given[:60]!r}; give the address that the proxy connects from, for example 127.0.0.1, or a "
            "network like 10.0.0.0/24"
        ) from None


def listener_at(host: str, port: int) -> socket.socket:
    """A socket that is listened on.

    Raises:
        InvalidInput: Another program has it, or the address is none of this machine.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=256)
    except OSError as error:
        raise InvalidInput(
            f"{host}:{port} cannot be listened on ({error.strerror}); choose another --host or --port"
        ) from error
    # Answers leave at once. Connections inherit it; without, the kernel holds each answer's end back for 40 ms.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


class _Hidden(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return hidden(super().format(record))


def _log_without_secrets() -> None:
    """Warnings and errors alone, on standard error; whatever they quote, no token and no password."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Hidden("%(asctime)s %(name)s %(levelname)s %(message)s"))
    handler.setLevel(logging.WARNING)
    for name in ("uvicorn", "safe2real", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
