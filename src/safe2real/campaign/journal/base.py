"""The contract of a journal, the storage of one campaign: a header, events in order, and blobs by name.

A journal of your own is one class with `transaction`, and the six methods of what that yields (`Transaction`): read and put
the header, events and blobs. Everything else that a campaign asks follows from these few here; a journal with indexes
overrides what it can answer faster. `safe2real.testing.JournalContract` says whether a campaign may be trusted to it.

Every transaction begins by looking whether this is still the record that the process knows: one that was restored from a
backup, or that a standby server has only in part, is refused before anything is written to it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from safe2real.campaign.events import ASK, BEFORE_THE_FIRST, IMPORT, AskBody, Draft, Event, ImportBody, event_after
from safe2real.campaign.signing import KEY_FILE, Keys, Signature
from safe2real.errors import Conflict, InvalidInput, StorageFailure
from safe2real.model.serialization import digest_of

FORMAT = 2  # of the record; a reader refuses another one
_SNAPSHOT = "snapshot"


class Disturbed(StorageFailure):
    """A read may be inconsistent, because another process began to write meanwhile. Read again."""


@dataclass(frozen=True, slots=True)
class Header:
    """The campaign to which a record belongs."""

    name: str  # random, part of every deployment's id
    specification: str  # the problem, as JSON
    format: int  # of the record


class Transaction(ABC):
    """Reads and writes within one transaction; reads include the transaction's own writes."""

    place = "the journal"  # for messages; these three are set by `Journal`
    keys: Keys | None = None  # sign what is added
    unsigned = False  # whether it is known that the record is not signed
    added: tuple[int, str] | None = None  # sequence and digest of the last event that was appended here

    # To be implemented by a journal

    @abstractmethod
    def header(self) -> Header | None:
        """The header; None where there is no campaign yet."""

    @abstractmethod
    def events(self, after: int = 0, until: int | None = None) -> Iterator[Event]:
        """Return the events numbered `after` + 1 to `until`, in order, exactly as they were put."""

    @abstractmethod
    def blob(self, name: str) -> bytes | None:
        """Return the stored bytes under `name` without verifying their digest, or None."""

    @abstractmethod
    def put_header(self, header: Header) -> None:
        """Replace the header."""

    @abstractmethod
    def put_events(self, events: Sequence[Event]) -> None:
        """Append events."""

    @abstractmethod
    def put_blobs(self, blobs: Mapping[str, bytes]) -> None:
        """Store bytes by name, replacing those under the same name."""

    # Defaults, which a journal may override for speed

    def identity(self, sequence: int) -> tuple[str | None, str | None]:
        """The campaign's name, and the digest of one event; None for that of number 0."""
        header = self.header()
        return None if header is None else header.name, self.digest_at(sequence) if sequence else None

    def last(self) -> tuple[int, str]:
        """(sequence, digest) of the newest event."""
        end = (0, BEFORE_THE_FIRST)
        for event in self.events():
            end = event.sequence, event.digest
        return end

    def digest_at(self, sequence: int) -> str | None:
        """The digest of one event, by its place in the record."""
        return next((event.digest for event in self.events(sequence - 1, sequence)), None)

    def events_of(self, deployment: int) -> dict[str, Event]:
        """All events of one deployment, by kind."""
        return {event.kind: event for event in self.events() if event.deployment == deployment}

    def events_of_kind(self, kind: str) -> Iterator[Event]:
        """Return the events of one kind, in order."""
        return (event for event in self.events() if event.kind == kind)

    def has_blobs(self, names: Sequence[str]) -> set[str]:
        """Return the names under which bytes are stored."""
        return {name for name in names if self.blob(name) is not None}

    def policies(self) -> Iterator[tuple[str, bytes]]:
        """(digest, content) of every policy that the record names."""
        named = {digest for event in self.events_of_kind(ASK) for digest in AskBody.read(event).policies}
        named |= {ImportBody.read(event).policy for event in self.events_of_kind(IMPORT)}
        for digest in sorted(named):
            content = self.blob(digest)
            if content is not None:
                yield digest, content

    def signatures(self) -> Iterator[Signature]:
        """Return the signatures of all signed events, in order."""
        for event in self.events():
            content = self.blob(_signature_name(event.sequence))
            if content is not None:
                signature, _, signer = content.decode("utf-8", "replace").partition(" ")
                yield Signature(event.sequence, signer, signature)

    def is_signed(self) -> bool:
        """Return whether the record is signed: its first event has a signature, so all events must have one."""
        return self.blob(_signature_name(1)) is not None

    def put_signatures(self, signatures: Sequence[Signature]) -> None:
        self.put_blobs({_signature_name(one.sequence): f"{one.signature} {one.signer}".encode() for one in signatures})

    def snapshot(self) -> tuple[int, str, bytes] | None:
        """Return (sequence, digest, content) of the stored snapshot, or None if the record lacks its last event.

        The content is not verified.
        """
        head, _, content = (self.blob(_SNAPSHOT) or b"").partition(b"\n")
        sequence, _, digest = head.decode("utf-8", "replace").partition(" ")
        covers = sequence.isdecimal() and self.digest_at(int(sequence)) == digest
        return (int(sequence), digest, content) if covers else None

    def keep_snapshot(self, sequence: int, digest: str, content: bytes) -> None:
        """Replace the snapshot."""
        self.put_blobs({_SNAPSHOT: f"{sequence} {digest}\n".encode() + content})

    def damage(self) -> list[str]:
        """Return the damage that the storage itself detects; empty without any, or if it has no such check."""
        return []

    # Shared by all journals

    def append(self, drafts: Iterable[Draft]) -> list[Event]:
        """Add the next events; durable when the transaction ends."""
        sequence, previous = self.last()
        events = []
        for draft in drafts:
            event = event_after(sequence, previous, draft)
            sequence, previous = event.sequence, event.digest
            events.append(event)
        if events:
            self.put_events(events)
            self._sign(events)
            self.added = (sequence, previous)
        return events

    def add_policies(self, contents: Sequence[bytes]) -> list[str]:
        """Store the contents that are not stored yet; return all digests."""
        digests = [digest_of(content) for content in contents]
        present = self.has_blobs(digests)
        missing = {digest: content for digest, content in zip(digests, contents, strict=True) if digest not in present}
        if missing:
            self.put_blobs(missing)
        return digests

    def _sign(self, events: Sequence[Event]) -> None:
        """Sign new events. A record is signed from its first event to its last, or not at all."""
        if events[0].sequence > 1 and not (self.unsigned and self.keys is None):
            signed = self.is_signed()
            self.unsigned = not signed
            if signed != (self.keys is not None):
                state = "signed, and this process has no key" if signed else "not signed, and this process has a key"
                raise InvalidInput(
                    f"the record at {self.place} is {state}: nothing was recorded. {KEY_FILE} names the file of the key; "
                    "a record is signed from its creation on, or never"
                )
        if self.keys is not None:
            self.put_signatures([self.keys.sign(event) for event in events])


class Journal(ABC):
    """The stored record of one campaign."""

    place = "the journal"  # as messages name it
    durable = True  # whether what a transaction wrote outlives the process and a loss of power
    keys: Keys | None = None  # sign what is added
    _name: str | None = None  # of the campaign, once it was read
    _unsigned = False  # whether it is known that the record is not signed, which stays so
    _known = (0, BEFORE_THE_FIRST)  # sequence and digest of an event that the record must go on to hold

    @abstractmethod
    def transaction(self, *, writing: bool) -> AbstractContextManager[Transaction]:
        """Open a transaction on a consistent view; with `writing`, exclude other writers until the end of the block.

        At the end of the block everything put is durable; after an exception in it, or a killed process, nothing is.
        """

    def close(self) -> None:
        """Release resources; finished transactions are durable already."""
        return None

    @property
    def known(self) -> tuple[int, str]:
        """Sequence and digest of the newest event seen; give them to `remember` of another object of this process."""
        return self._known

    def remember(self, sequence: int, digest: str) -> None:
        """Require that the record holds this event: later transactions on a record without it are refused."""
        if sequence > self._known[0]:
            self._known = (sequence, digest)

    def header(self) -> Header:
        """Return the campaign's header.

        Raises:
            StorageFailure: the place has no campaign, or its format is not the one of this version.
        """
        with self.reading() as transaction:
            header = transaction.header()
        if header is None:
            raise StorageFailure(
                f"{self.place} holds no campaign; make one with Campaign.create or `safe2real campaign init`"
            )
        check_format(header.format, self.place)
        self._name = header.name
        return header

    @contextmanager
    def reading(self, *, as_it_is: bool = False) -> Iterator[Transaction]:
        """Open a consistent view, which blocks no writer. `as_it_is` also reads a record that lost known events."""
        with self._begun(writing=False) as transaction:
            if not as_it_is:
                self._recognise(transaction)
            yield transaction

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        """Open the only write transaction: it commits durably when the block ends; if the block raises, nothing is kept."""
        with self._begun(writing=True) as transaction:
            self._recognise(transaction)
            yield transaction
        if transaction.added is not None:
            self.remember(*transaction.added)

    @contextmanager
    def created(self, header: Header) -> Iterator[Transaction]:
        """Create a record in a place that has none; nothing is created if the block fails."""
        with self._begun(writing=True) as transaction:
            if transaction.header() is not None:
                raise Conflict(f"{self.place} holds a campaign already; open it, or choose another place for a new one")
            transaction.put_header(header)
            yield transaction

    @contextmanager
    def _begun(self, *, writing: bool) -> Iterator[Transaction]:
        with self.transaction(writing=writing) as transaction:
            transaction.place, transaction.keys, transaction.unsigned = self.place, self.keys, self._unsigned
            yield transaction
        self._unsigned = transaction.unsigned

    def _recognise(self, transaction: Transaction) -> None:
        """Refuse the record of another campaign, and a record that lacks an event that this process has seen."""
        sequence, digest = self._known
        if self._name is None and not sequence:
            return
        name, found = transaction.identity(sequence)
        if self._name is not None and name != self._name:
            raise StorageFailure(
                f"{self.place} was campaign {self._name} and is {name or 'none'} now: another database was "
                "put in its place, and nothing was written to it. Open the campaign again"
            )
        if sequence and found != digest:
            end, _ = transaction.last()
            how = f"ends with event {end} now" if found is None else "holds another event in its place now"
            raise StorageFailure(
                f"{self.place} went back: this process has seen event {sequence} of the record, which {how} (a backup was "
                "restored, or a standby took over that had not received everything). Nothing was written. Open the campaign "
                "again to go on from the record as it is; say once that it is a new branch with `safe2real campaign branch`"
            )


def check_format(found: object, place: str) -> None:
    """Refuse what only another release can read."""
    if found != FORMAT:
        raise StorageFailure(f"{place} has format {found} and this version reads format {FORMAT}; upgrade safe2real")


def _signature_name(sequence: int) -> str:
    return f"signature-{sequence}"
