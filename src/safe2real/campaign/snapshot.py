"""The state of a campaign after some event, so that a new process does not have to read all events before it.

A snapshot says which event it covers, with its digest, and is taken only where the record holds that event; it is sealed
with its own digest, or with the key that signs the record. It is no part of the record: `verify` never reads it, and
without it, or with one that is damaged or of another release, everything is computed from the events.
"""

from __future__ import annotations

import hashlib
import hmac
import io
from collections import deque
from dataclasses import asdict, astuple
from typing import Any
from zipfile import BadZipFile

import numpy as np

from safe2real.campaign.declared import direct, method_from
from safe2real.campaign.events import Event
from safe2real.campaign.replay import Held, Replay, Withdrawn
from safe2real.campaign.signing import Keys
from safe2real.campaign.tape import Change, Tape
from safe2real.exploration.counting import Entry, Episodes, entry_of
from safe2real.exploration.learner import Learner
from safe2real.methods.for_rewards import ForRewards
from safe2real.methods.trial_within import base_of
from safe2real.model.encoding import from_text, to_text
from safe2real.model.naming import named_to_json
from safe2real.standing import Assumption, AssumptionCode
from safe2real.version import __version__

_REVISION = 5  # of what is written here
LEAST_STEP = 5_000  # events between two snapshots
_SHARE = 50  # or one in so many of the record, when that is more
_NUMBERS = (
    "sequence", "digest", "deployments", "told", "cut_short", "left_model", "told_late", "imported", "samples", "branches",
    "departures", "outside_support", "forced", "_next_to_count",
)  # fmt: skip
_ARRAYS = ("states", "actions", "ends", "of_baseline", "of_candidate")  # of an entry of the tape
_SEAL = 64
_NOT_OURS = (ValueError, KeyError, TypeError, IndexError, EOFError, BadZipFile)


def is_due(sequence: int, covered: int) -> bool:
    """Whether a snapshot is worth its write when the last one covers the record up to `covered`."""
    return sequence - covered >= max(LEAST_STEP, sequence // _SHARE)


def snapshot_of(replay: Replay, problem: str, keys: Keys | None) -> bytes:
    """The state of a replay; `problem` is the digest of what it is a replay of."""
    _ = replay.learner  # counts what is ready, so that nothing is left between
    entries = replay.tape.entries()
    counted = {index: entry for index, entry in enumerate(entries) if isinstance(entry, Entry)}
    arrays = {f"{index}.{name}": getattr(entry, name) for index, entry in counted.items() for name in _ARRAYS}
    packed = io.BytesIO()
    np.savez(packed, **{name: _smallest(array) for name, array in arrays.items() if array is not None})
    document = {
        "revision": _REVISION,
        "version": __version__,
        "specification": problem,
        "numbers": {name: getattr(replay, name) for name in _NUMBERS},
        "held": [asdict(held.event) for held in replay.held.values()],
        "abandoned": [asdict(held.event) for held in replay.abandoned.values()],
        "withdrawn": [[asdict(one.held.event), one.at, one.reason] for one in replay.withdrawn.values()],
        "waiting": [[number, None if one is None else list(astuple(one))] for number, one in replay._waiting.items()],
        "logs": [[after, list(astuple(one))] for after, one in replay._logs],
        "parts": replay._parts,
        "said": [[one.code.value, one.text, one.subject] for one in replay._said],
        "at_once": [isinstance(entry, Entry) and entry.at_once for entry in entries],
        "lost": [isinstance(entry, Entry) and entry.lost for entry in entries],
        "trials": [entry.said if isinstance(entry, Change) else None for entry in entries],
    }
    method = base_of(replay.learner.method)
    if isinstance(method, ForRewards):  # the record may have declared others since it began
        document["method"] = named_to_json(method)
    payload = to_text(document).encode() + b"\n" + packed.getvalue()
    return _seal(payload, keys).encode() + payload


def replay_from(content: bytes, covered: tuple[int, str], learner: Learner, digest: str, keys: Keys | None) -> Replay | None:
    """The replay that a snapshot holds; None if it is damaged, of another release or campaign, or not of that event."""
    seal, payload = content[:_SEAL], content[_SEAL:]
    if not hmac.compare_digest(seal, _seal(payload, keys).encode()):
        return None
    try:
        text, _, raw = payload.partition(b"\n")
        document = from_text(text, "the snapshot")
        known = (document["revision"], document["version"], document["specification"])
        numbers = document["numbers"]
        if known != (_REVISION, __version__, digest) or (numbers["sequence"], numbers["digest"]) != covered:
            return None
        return _restored(document, raw, learner)
    except _NOT_OURS:  # sealed, and yet not as it is written here: the events know better
        return None


def _restored(document: dict[str, Any], raw: bytes, learner: Learner) -> Replay:
    if "method" in document:
        direct(learner, method_from(document["method"], "the snapshot"))
    replay = Replay(learner)
    for name in _NUMBERS:
        setattr(replay, name, document["numbers"][name])
    replay.held = _held(document["held"])
    replay.abandoned = _held(document["abandoned"])
    for event, at, reason in document["withdrawn"]:
        ((number, held),) = _held([event]).items()
        replay.withdrawn[number] = Withdrawn(held, at, reason)
    replay._waiting = {number: None if one is None else Episodes(*one) for number, one in document["waiting"]}
    replay._logs = deque((after, Episodes(*one)) for after, one in document["logs"])
    replay._parts = document["parts"]
    replay._said = [Assumption(AssumptionCode(code), text, subject) for code, text, subject in document["said"]]
    with np.load(io.BytesIO(raw), allow_pickle=False) as arrays:
        flags = zip(document["at_once"], document["lost"], document["trials"], strict=True)
        entries = [
            Change(said)
            if said is not None
            else entry_of(*(arrays.get(f"{index}.{name}") for name in _ARRAYS), at_once=bool(at_once), lost=bool(lost))
            for index, (at_once, lost, said) in enumerate(flags)
        ]
    replay.tape = Tape(entries)
    replay.tape.play(replay._learner)
    return replay


def _held(events: list[dict[str, Any]]) -> dict[int, Held]:
    found = [Event(**event) for event in events]
    return {event.deployment or 0: Held(event.deployment or 0, event.worker or "", event.at, event) for event in found}


def _smallest(array: Any) -> Any:
    """The same whole numbers in as few bytes as they need."""
    kind = np.min_scalar_type(int(array.max(initial=0)))
    return np.ascontiguousarray(array, dtype=np.uint8 if array.dtype == np.bool_ else kind.newbyteorder("<"))


def _seal(payload: bytes, keys: Keys | None) -> str:
    """Whoever has a key to add events has it to seal a snapshot; each process takes those of its own key."""
    return hashlib.sha256(payload).hexdigest() if keys is None else keys.seal(payload)
