"""A record that lives as long as its process: for tests, notebooks and rehearsals.

Threads may share it. One of them writes at a time; the others read what was complete when they began.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from itertools import islice

from safe2real.campaign.events import Event
from safe2real.campaign.journal.base import Header, Journal, Transaction


class _Store:
    """A store that several journals can share. Events are only appended, so a reader needs only their number."""

    def __init__(self) -> None:
        self.header: Header | None = None
        self.events: list[Event] = []
        self.blobs: dict[str, bytes] = {}
        self.writer = threading.Lock()


class MemoryJournal(Journal):
    """`MemoryJournal()` is a new place; `MemoryJournal(other)` another object on the place of that one."""

    place = "the memory of this process"
    durable = False

    def __init__(self, other: MemoryJournal | None = None) -> None:
        self.store: _Store = _Store() if other is None else other.store

    @contextmanager
    def transaction(self, *, writing: bool) -> Iterator[MemoryTransaction]:
        with self.store.writer if writing else nullcontext():
            transaction = MemoryTransaction(self.store)
            yield transaction
            if writing:
                transaction.commit()


class MemoryTransaction(Transaction):
    """Writes reach the store when the block ends, and are dropped after an error."""

    def __init__(self, store: _Store) -> None:
        self._store, self._header, self._length = store, store.header, len(store.events)
        self._events: list[Event] = []
        self._blobs: dict[str, bytes] = {}

    def commit(self) -> None:
        self._store.blobs |= self._blobs
        self._store.events += self._events
        self._store.header = self._header

    def header(self) -> Header | None:
        return self._header

    def events(self, after: int = 0, until: int | None = None) -> Iterator[Event]:
        for index in range(after, self._length if until is None else min(until, self._length)):
            yield self._store.events[index]
        last = None if until is None else max(0, until - self._length)
        yield from islice(self._events, max(0, after - self._length), last)

    def blob(self, name: str) -> bytes | None:
        return self._blobs.get(name, self._store.blobs.get(name))

    def put_header(self, header: Header) -> None:
        self._header = header

    def put_events(self, events: Sequence[Event]) -> None:
        self._events += events

    def put_blobs(self, blobs: Mapping[str, bytes]) -> None:
        self._blobs |= blobs
