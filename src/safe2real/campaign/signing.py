"""Who did it, and the proof: every event names a principal, and a key can sign it.

A signature is HMAC-SHA256 of the event's digest, which is of everything recorded before, so it proves the event, its place
and its author. Keys are in a file that SAFE2REAL_KEY_FILE names, one a line, `name key`, the key as at least 32 hexadecimal
digits. A process signs with the first one, under its name; a check needs the keys of all that signed. Any program with a key
can sign with it: give each program its own, and all of them only to the one who checks.
"""

from __future__ import annotations

import getpass
import hmac
import os
import socket
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from safe2real.campaign.events import ABANDON, ASK, BRANCH, DECLARE, FORCE, IMPORT, TELL, Event
from safe2real.errors import InvalidInput
from safe2real.model.serialization import from_text

KEY_FILE = "SAFE2REAL_KEY_FILE"
PRINCIPAL = "SAFE2REAL_BY"
_LEAST_DIGITS = 32


@dataclass(frozen=True, slots=True)
class Signature:
    """The signature of one event."""

    sequence: int
    signer: str
    signature: str


@dataclass(frozen=True, slots=True)
class Keys:
    """Keys by the names of their owners; the first one signs."""

    secrets: dict[str, bytes]

    def __repr__(self) -> str:
        return f"Keys of {', '.join(self.secrets)}"  # nothing of the keys themselves

    @property
    def signer(self) -> str:
        return next(iter(self.secrets))

    @classmethod
    def read(cls, path: Path) -> Keys:
        """The keys of a file; messages name lines, never their content."""
        try:
            lines = path.read_text("utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidInput(f"the key file {path} cannot be read ({type(error).__name__}); check {KEY_FILE}") from error
        secrets: dict[str, bytes] = {}
        for number, line in enumerate(lines, start=1):
            if not line.strip() or line.startswith("#"):
                continue
            name, _, digits = line.strip().rpartition(" ")
            try:
                key = bytes.fromhex(digits)
            except ValueError:
                key = b""
            if not name.strip() or 2 * len(key) < _LEAST_DIGITS or name.strip() in secrets:
                raise InvalidInput(
                    f"line {number} of the key file {path} is not a name of its own and a key of at least {_LEAST_DIGITS} "
                    "hexadecimal digits; make one with: openssl rand -hex 32"
                )
            secrets[name.strip()] = key
        if not secrets:
            raise InvalidInput(f"the key file {path} holds no key; give lines like: cell-3 0f1e...")
        return cls(secrets)

    def first(self, name: str) -> Keys:
        """Return these keys with that of `name` first, so that it signs."""
        if name not in self.secrets:
            raise InvalidInput(f"the key file has no key of {name[:60]!r}, who does this; add one, and start again")
        return Keys({name: self.secrets[name], **self.secrets})

    def sign(self, event: Event) -> Signature:
        return Signature(event.sequence, self.signer, _signature(self.secrets[self.signer], event))

    def seal(self, content: bytes) -> str:
        """Proof that a content is of a process with this key."""
        return hmac.new(self.secrets[self.signer], b"safe2real content " + content, "sha256").hexdigest()

    def problem_with(self, event: Event, found: Signature | None) -> str | None:
        """Return the defect of an event's signature, or None."""
        if found is None:
            return "the event is not signed"
        if found.signer not in self.secrets:
            return f"the event is signed by {found.signer[:60]!r}, whose key is not in the key file"
        if not hmac.compare_digest(found.signature, _signature(self.secrets[found.signer], event)):
            return f"the signature is not one of {found.signer!r}: the event was forged, or its number or its past changed"
        principal = principal_of(event)
        if principal is not None and principal != found.signer:
            return f"the event says that {principal[:60]!r} did it, and {found.signer!r} signed it"
        return None


def keys_from_environment() -> Keys | None:
    path = os.environ.get(KEY_FILE)
    return Keys.read(Path(path)) if path else None


def current_principal(keys: Keys | None) -> str:
    """The principal of this process: the key's owner, or SAFE2REAL_BY, or the user and the machine."""
    if keys is not None:
        return keys.signer
    given = os.environ.get(PRINCIPAL, "").strip()
    if not given.isprintable():
        raise InvalidInput(f"{PRINCIPAL} is {given[:60]!r}; give a name of printable characters in one line")
    if given:
        return given[:200]
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container without a table of users
        user = f"user-{os.getuid()}"
    return f"{user}@{socket.gethostname()}"[:200]


def principal_of(event: Event) -> str | None:
    """Return the principal that an event names; None if it names none, as the first event."""
    if event.kind in (TELL, ABANDON, BRANCH, FORCE, DECLARE):
        return event.worker
    if event.kind in (ASK, IMPORT):
        try:
            by = from_text(event.body, "the body").get("by")
        except (InvalidInput, AttributeError):  # reported where bodies are read
            return None
        return by if isinstance(by, str) else None
    return None


def signatures_checked(
    events: Iterable[Event], found: Iterator[Signature], keys: Keys, report: Callable[[Event, str], None]
) -> Iterator[Event]:
    """Pass the events on, calling `report` for each with an invalid signature. Both inputs are in the record's order."""
    following = next(found, None)
    for event in events:
        while following is not None and following.sequence < event.sequence:
            following = next(found, None)
        own = following if following is not None and following.sequence == event.sequence else None
        problem = keys.problem_with(event, own)
        if problem is not None:
            report(event, problem)
        yield event


def _signature(key: bytes, event: Event) -> str:
    return hmac.new(key, f"safe2real event {event.digest}".encode(), "sha256").hexdigest()
