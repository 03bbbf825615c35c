"""Connections that do not get on with it are ended: whoever sends or reads a byte now and then would hold one for ever.

uvicorn gives time to idle connections alone. Here the head of a request has to arrive within `HEAD` seconds, counted from
the connection or from its first byte; so has the rest of a body that nobody waits for any more; and an answer has to be
read on within `READING` seconds. The body of a request that is being answered has its own limit (`limits.chunks`).
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


class Connection(H11Protocol):
    """One connection of the service."""

    HEAD, READING = 20.0, 60.0  # seconds
    _arriving: asyncio.TimerHandle | None = None
    _being_read: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._look()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.conn.their_state is h11.SEND_BODY:  # refused before all of it was here
            self._look()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._being_read = self.loop.call_later(self.READING, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._being_read = _cancelled(self._being_read)

    def connection_lost(self, exc: Exception | None) -> None:
        self._arriving, self._being_read = _cancelled(self._arriving), _cancelled(self._being_read)
        super().connection_lost(exc)

    def _look(self) -> None:
        """While a request is answered there is nothing to wait for here; else the time runs, and more bytes do not help."""
        if self.cycle is not None and not self.cycle.response_complete:
            self._arriving = _cancelled(self._arriving)
        elif self._arriving is None and not self.transport.is_closing():
            self._arriving = self.loop.call_later(self.HEAD, self.transport.abort)


def _cancelled(timer: asyncio.TimerHandle | None) -> asyncio.TimerHandle | None:
    """No timer, where there was one."""
    if timer is not None:
        timer.cancel()
    return None
