"""The server: one process and one listener, which times out slow clients; its numerical code can be compiled in advance.

uvicorn limits the size of heads, the number of connections and the time of idle ones. `Connection` adds timeouts for a head
that does not end, for the rest of a refused body, and for a client that does not read its answer.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
import socket
import sys
from dataclasses import replace
from typing import Any

import h11
import numpy as np
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from safe2real import examples
from safe2real.campaign.campaign import Campaign
from safe2real.campaign.journal import MemoryJournal
from safe2real.errors import InvalidInput
from safe2real.exploration.simulate import roll_out
from safe2real.model.cmdp import CMDP, AtLeast
from safe2real.service.alerts import AlertTerms
from safe2real.service.application import make_app
from safe2real.service.campaign_pool import Service
from safe2real.service.problem_documents import hidden
from safe2real.service.storage import places_at

_KEEP_ALIVE = 75  # seconds that an idle connection stays
_GOODBYE = 10  # seconds that requests have to finish when the server is stopped
_CONNECTIONS = 1000
_WARM_ROUNDS = 3  # of a campaign that compiles


def run(
    place: str,
    host: str,
    port: int,
    *,
    auth: bool = True,
    alerts: AlertTerms | None = None,
    trusted_proxy: str | None = None,
) -> None:
    """Serve the campaigns of a folder or a database until the process is stopped.

    Args:
        place: a folder, or the URL of a PostgreSQL database.
        host: the address to listen on.
        port: the port, or 0 for any free one; the line on standard output names it.
        auth: whether a token is needed.
        alerts: the webhook that receives alerts; none are sent if not given.
        trusted_proxy: the address or network of the proxy whose X-Forwarded-For names the client; if not given, the
            header is ignored.

    Raises:
        InvalidInput: The place or the proxy's address is invalid, the address cannot be listened on, or no token is needed
            and the address is not loopback.
    """
    if not auth and host not in ("127.0.0.1", "::1", "localhost"):  # every client is an operator
        raise InvalidInput(f"--no-auth with --host {host}: without tokens the service answers on loopback alone, 127.0.0.1")
    service = Service(places_at(place), auth=auth)
    _log_without_secrets()
    config = configured(make_app(service, alerts), trusted_proxy)
    with listener_at(host, port) as listener:
        address, number = listener.getsockname()[:2]
        shown = f"[{address}]" if ":" in address else address
        said = json.dumps({"serving": service.places.shown, "url": f"http://{shown}:{number}", "auth": auth})
        try:
            AnnouncedServer(config, said).run(sockets=[listener])
        except asyncio.CancelledError:  # asyncio's answer to an interrupt before uvicorn handles signals
            raise KeyboardInterrupt from None


class AnnouncedServer(uvicorn.Server):
    """A server that says where it answers once it does: from then on an interrupt ends it in order."""

    def __init__(self, config: uvicorn.Config, announcement: str) -> None:
        super().__init__(config)
        self._announcement = announcement

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then print the announcement as one line.

        Args:
            sockets: The listening sockets.
        """
        await super().startup(sockets=sockets)
        if self.started:
            print(self._announcement, flush=True)


def configured(app: FastAPI, trusted_proxy: str | None = None) -> uvicorn.Config:
    """Return the configuration of uvicorn, here and in tests.

    Raises:
        InvalidInput: The proxy's address is invalid.
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
    """Return a listening socket.

    Raises:
        InvalidInput: Another program listens there, or this machine does not have the address.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=256)
    except OSError as error:
        raise InvalidInput(
            f"{host}:{port} cannot be listened on ({error.strerror}); choose another --host or --port"
        ) from error
    # Connections inherit this; without it the kernel delays the end of each answer by 40 ms.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


class Connection(H11Protocol):
    """One connection, which is aborted if its client is too slow."""

    HEAD, READING = 20.0, 60.0  # seconds for a request's head, and for reading an answer
    _arriving: asyncio.TimerHandle | None = None
    _being_read: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._set_timer()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._set_timer()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.conn.their_state is h11.SEND_BODY:  # refused before all of it had arrived
            self._set_timer()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._being_read = self.loop.call_later(self.READING, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._being_read = _cancelled(self._being_read)

    def connection_lost(self, exc: Exception | None) -> None:
        self._arriving, self._being_read = _cancelled(self._arriving), _cancelled(self._being_read)
        super().connection_lost(exc)

    def _set_timer(self) -> None:
        """Run the timer except while a request is answered; more bytes do not restart it."""
        if self.cycle is not None and not self.cycle.response_complete:
            self._arriving = _cancelled(self._arriving)
        elif self._arriving is None and not self.transport.is_closing():
            self._arriving = self.loop.call_later(self.HEAD, self.transport.abort)


def _cancelled(timer: asyncio.TimerHandle | None) -> asyncio.TimerHandle | None:
    """Cancel a timer, and return None to replace it."""
    if timer is not None:
        timer.cancel()
    return None


class _Redacting(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return hidden(super().format(record))


def _log_without_secrets() -> None:
    """Log warnings and errors to standard error, without tokens and passwords."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Redacting("%(asctime)s %(name)s %(levelname)s %(message)s"))
    handler.setLevel(logging.WARNING)
    for name in ("uvicorn", "safe2real", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False


def warm() -> None:
    """Compile the service's numerical code, so that the first ask of a fresh installation does not take a minute.

    Campaigns in memory of a packaged problem, with its constraint and with two of them, are driven through every kind of
    request. Machine code is kept on disk (see `_compiled.cache`).
    """
    alone = examples.machine(seed=0).problem
    model = alone.simulator
    stated = [AtLeast(model.utilities[0, -1], model.thresholds[0], name) for name in ("first", "second")]
    both = CMDP.of(model.kernel, model.steps, model.start, stated, counts_end=model.counts_end)
    for problem in (alone, replace(alone, simulator=both)):
        with Campaign.create(MemoryJournal(), problem) as campaign:
            for _ in range(_WARM_ROUNDS):
                deployment = campaign.ask(worker="warm")
                episode = roll_out(problem.simulator, deployment.policy, seed=0, round_number=deployment.number)
                campaign.tell(deployment.id, episode)
            campaign.status()
            campaign.plan(np.full((model.num_states, model.num_actions), 0.5))
            campaign.mismatch_map()
            campaign.verify()
