"""How much one request, one token and one address may take of the service."""

from __future__ import annotations

import asyncio
import time
import zlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

from starlette.requests import ClientDisconnect, Request

from safe2real.errors import InvalidInput
from safe2real.model.input_size import human
from safe2real.service.problems import Busy, TooLarge, TooMany, WrongType

_REMEMBERED = 10_000  # keys of a rate limit before idle ones are forgotten


@dataclass(frozen=True, slots=True)
class Limits:
    """Of the whole service; the defaults are for a fleet of some hundred machines."""

    body: int = 8 << 20  # bytes of one request, written out
    log: int = 1 << 30  # bytes of one imported log, written out
    rate: float = 500.0  # requests per second of one token
    failures: float = 5.0  # per second and address, of requests without a token that is valid
    sending: float = 60.0  # seconds until all of a body is here
    importing: float = 600.0
    answering: float = 120.0  # seconds until a campaign has answered
    planning: float = 300.0  # the same for what may take long: plans, maps, forecasts
    streams: int = 200  # pages that watch at the same time
    own_streams: int = 50  # of them, by one token


class Rate:
    """So many a second for each key, and twice as many at once."""

    def __init__(self, per_second: float) -> None:
        self._rate, self._most = per_second, 2.0 * per_second
        self._left: dict[str, tuple[float, float]] = {}  # key -> (left, at)

    def take(self, key: str) -> None:
        """Count one.

        Raises:
            TooMany: There were too many.
        """
        at = time.monotonic()
        left = self._now(key, at) - 1.0
        if left < 0.0:
            raise TooMany(f"more than {self._rate:g} requests a second; wait a moment")
        if len(self._left) > _REMEMBERED:
            self._left = {one: state for one, state in self._left.items() if self._now(one, at) < self._most}
        self._left[key] = (left, at)

    def _now(self, key: str, at: float) -> float:
        left, since = self._left.get(key, (self._most, at))
        return min(self._most, left + (at - since) * self._rate)


async def chunks(request: Request, *, limit: int, seconds: float) -> AsyncIterator[bytes]:
    """The body as it arrives, written out where it was compressed; never more than `limit` bytes of it.

    Raises:
        TooLarge: It is longer, compressed or written out.
        WrongType: It is compressed in a way that is not known.
        Busy: It did not arrive in time.
        InvalidInput: It cannot be written out, or ended too early.
    """
    coding = request.headers.get("content-encoding", "identity").strip().lower()
    if coding not in ("identity", "gzip"):
        raise WrongType("content-encoding is neither gzip nor identity; send the body in one of these")
    claimed = request.headers.get("content-length", "0")
    if not (claimed.isascii() and claimed.isdigit()) or len(claimed) > 18 or int(claimed) > limit:
        raise TooLarge(f"the body is longer than {human(limit)}, which is the limit here; send it in parts")
    unpacker = zlib.decompressobj(31) if coding == "gzip" else None
    total = 0
    try:
        async with asyncio.timeout(seconds):
            async for chunk in request.stream():
                written = _written_out(unpacker, chunk, limit - total)
                total += len(written)
                if total > limit:
                    raise TooLarge(f"the body is longer than {human(limit)} written out, which is the limit here")
                if written:
                    yield written
    except TimeoutError:
        raise Busy(f"the body did not arrive within {seconds:g} s; send it again") from None
    except ClientDisconnect:
        raise InvalidInput("the body ended before its time; send it again") from None
    if unpacker is not None and not unpacker.eof:
        raise InvalidInput("the compressed body is cut short; send it again")


def _written_out(unpacker: zlib._Decompress | None, chunk: bytes, room: int) -> bytes:
    if unpacker is None:
        return chunk
    rest = chunk if unpacker.eof else b""
    try:
        # One byte more than there is room for, so that a bomb shows without being written out.
        written = unpacker.decompress(chunk, room + 1) if chunk and not unpacker.eof else b""
    except zlib.error as error:
        raise InvalidInput(f"the body cannot be written out ({error}); compress it again with gzip") from error
    if rest or unpacker.unused_data:  # another part, as of files put together: what it says must not be lost
        raise InvalidInput("the compressed body has more than one part; write the parts out and compress them as one")
    return written
