"""The state of a campaign after some event, so that a new process does not have to read all events before it.

A snapshot says which event it covers, with its digest, and is taken only where the record holds that event; it is sealed
with its own digest, or with the key that signs the record. It is no part of the record: without it, or with one that is
damaged, does not fit or is of another release, everything is computed from the events. `verify` computes everything from
the events in any case, and then says whether the snapshot says the same.

It holds what was counted and concluded (`evidence_state`), so that opening does not depend on how many episodes there are.
Where that does not follow from the counted episodes and their order alone, it holds the episodes instead, packed, and they
are counted again (`Tape`).
"""

from __future__ import annotations

import hashlib
import hmac
import io
import zlib
from collections import deque
from dataclasses import asdict
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from safe2real.campaign.directives import direct, method_from
from safe2real.campaign.events import Event
from safe2real.campaign.replay import Held, Replay, Withdrawn
from safe2real.campaign.revisions import bounds_of
from safe2real.campaign.signing import Keys
from safe2real.campaign.tape import Tape
from safe2real.errors import InvalidInput
from safe2real.evidence.evidence_state import put_evidence, take_evidence
from safe2real.exploration.episode_log import Episodes, entry_of, packed
from safe2real.exploration.learner import Learner
from safe2real.methods.for_rewards import ForRewards
from safe2real.model.archive import Archive
from safe2real.model.extensions import named_to_json
from safe2real.model.serialization import from_text, to_text
from safe2real.model.validation import ROUNDING
from safe2real.standing import Assumption, AssumptionCode
from safe2real.version import __version__

_REVISION = 8  # of what is written here
LEAST_STEP = 5_000  # events and imported episodes between two snapshots
_SHARE = 50  # or one in so many of the record, when that is more
_KIND = "snapshot"
_NUMBERS = (
    "sequence", "digest", "deployments", "told", "cut_short", "left_model", "told_late", "imported", "samples", "branches",
    "departures", "outside_support", "forced", "_next_to_count",
)  # fmt: skip
_ARRAYS = ("states", "actions", "ends", "of_baseline", "of_candidate")  # of an entry of the tape
_SEAL = 64
_NOT_OURS = (ValueError, KeyError, TypeError, IndexError, OverflowError, EOFError, BadZipFile, zlib.error)

_Arrays = dict[str, NDArray[Any]]


def work_in(replay: Replay) -> int:
    """How much there is to read and to count: events, and the episodes of logs, of which one event has many."""
    return replay.sequence + replay.imported


def is_due(work: int, covered: int) -> bool:
    """Whether a snapshot is worth its write when the last one covers so much of the work."""
    return work - covered >= max(LEAST_STEP, work // _SHARE)


def snapshot_of(replay: Replay, problem: str, keys: Keys | None) -> bytes | None:
    """The state of a replay; `problem` is the digest of what it is a replay of.

    None where the state is not the one that the events alone lead to: from an episode on that left the model or the declared
    support. That refutes as soon as it is told and counts in its turn, so what is concluded in between depends on when
    somebody asked. A snapshot from before it stays as good as it was.
    """
    written = _written(replay, problem)
    if written is None:
        return None
    compressed = io.BytesIO()
    np.savez_compressed(compressed, **written[1])  # type: ignore[arg-type]
    payload = to_text(written[0]).encode() + b"\n" + compressed.getvalue()
    return _seal(payload, keys).encode() + payload


def replay_from(content: bytes, covered: tuple[int, str], learner: Learner, digest: str, keys: Keys | None) -> Replay | None:
    """The replay that a snapshot holds; None if it is damaged, of another release or campaign, or not of that event.

    `learner` has counted nothing; where None is returned it is of no use any more.
    """
    try:
        read = _read(content, covered, learner, digest, keys)
        return None if read is None else _restored(*read, learner)
    except _NOT_OURS:  # sealed, and yet not as it is written here: the events know better
        return None


def is_sealed(content: bytes, keys: Keys | None) -> bool:
    """Whether a snapshot is as it was written, by this key where there is one."""
    return hmac.compare_digest(content[:_SEAL], _seal(content[_SEAL:], keys).encode())


def says_otherwise(content: bytes, covered: tuple[int, str], replay: Replay, digest: str, keys: Keys | None) -> bool:
    """Whether processes would begin with a snapshot that is not what the events up to there led to, in `replay`."""
    try:
        read = _read(content, covered, replay.learner, digest, keys)
    except _NOT_OURS:
        return False
    written = _written(replay, digest)
    if read is None or written is None:
        return read is not None
    return to_text(read[0]) != to_text(written[0]) or not _alike(read[1], written[1])


def _written(replay: Replay, problem: str) -> tuple[dict[str, Any], _Arrays] | None:
    learner = replay.learner  # counts what is ready, so that nothing is left between
    document = {
        "revision": _REVISION,
        "version": __version__,
        "specification": problem,
        "concluded by": _concluded_by(learner),
        "numbers": {name: getattr(replay, name) for name in _NUMBERS},
        "held": [asdict(held.event) for held in replay.held.values()],
        "abandoned": [asdict(held.event) for held in replay.abandoned.values()],
        "withdrawn": [[asdict(one.held.event), one.at, one.reason] for one in replay.withdrawn.values()],
        "waiting": [[number, None if one is None else _episodes(one)] for number, one in replay._waiting.items()],
        "logs": [[after, [_episodes(one) for one in logs]] for after, logs in replay._logs],
        "parts": {log: [_episodes(one) for one in parts] for log, parts in replay._parts.items()},
        "said": [[one.code.value, one.text, one.subject] for one in replay._said],
    }
    method = learner.method
    if isinstance(method, ForRewards):  # the record may have declared others since it began
        document["method"] = named_to_json(method)
    if replay.tape.keeps:
        return document | _flags(replay.tape), _packed(replay.tape)
    if replay.departures or replay.outside_support:
        return None
    archive = Archive(_KIND)
    put_evidence(archive, learner.evidence, what_was_asked=False)
    for name in archive.arrays:  # how much room rows have depends on the batches in which they were filled
        if name.endswith(".capacity"):
            archive.put(name, archive.arrays[name.replace(".capacity", ".length")])
    return document | {"progress": archive.document}, archive.arrays


def _concluded_by(learner: Learner) -> dict[str, str]:
    """The revision of every bound and of the method: what a corrected one had concluded before is not believed."""
    method = learner.method
    return bounds_of(learner.settings) | {"method": f"{method.name}/{method.revision}"}


def _read(
    content: bytes, covered: tuple[int, str], learner: Learner, digest: str, keys: Keys | None
) -> tuple[dict[str, Any], _Arrays] | None:
    """What was written, if it is whole, of this release and campaign, by the same bounds, and of that event."""
    if not is_sealed(content, keys):
        return None
    text, _, raw = content[_SEAL:].partition(b"\n")
    document = from_text(text, "the snapshot")
    known = (document["revision"], document["version"], document["specification"])
    numbers = document["numbers"]
    if known != (_REVISION, __version__, digest) or document["concluded by"] != _concluded_by(learner):
        return None
    if (numbers["sequence"], numbers["digest"]) != covered:
        return None
    with np.load(io.BytesIO(raw), allow_pickle=False) as arrays:
        return document, {name: arrays[name] for name in arrays.files}


def _restored(document: dict[str, Any], arrays: _Arrays, learner: Learner) -> Replay:
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
    replay._logs = deque((after, [_read_back(*one) for one in logs]) for after, logs in document["logs"])
    replay._parts = {log: [_read_back(*one) for one in parts] for log, parts in document["parts"].items()}
    replay._said = [Assumption(AssumptionCode(code), text, subject) for code, text, subject in document["said"]]
    if replay.tape.keeps:
        replay.tape = _unpacked(document, arrays)
        replay.tape.play(learner)
        return replay
    archive = Archive(_KIND, name="the snapshot")
    archive.document, archive.arrays = document["progress"], arrays
    take_evidence(archive, learner.evidence)
    if learner.samples != replay.samples - replay.uncounted_samples:
        raise InvalidInput("the snapshot has counted other samples than were recorded; delete it")
    return replay


def _alike(one: _Arrays, other: _Arrays) -> bool:
    """Whether the same was counted and concluded; numbers that were computed may differ in their last digits."""
    if one.keys() != other.keys():
        return False
    for name, array in one.items():
        beside = other[name]
        if array.shape != beside.shape or array.dtype != beside.dtype:
            return False
        if not (
            np.allclose(array, beside, rtol=ROUNDING, atol=1e-12)
            if array.dtype.kind == "f"
            else np.array_equal(array, beside)
        ):
            return False
    return True


# The episodes themselves


def _flags(tape: Tape) -> dict[str, Any]:
    entries = tape.entries()
    return {
        "at_once": [entry.at_once for entry in entries],
        "lost": [entry.lost for entry in entries],
    }


def _packed(tape: Tape) -> _Arrays:
    arrays = {f"{index}.{name}": getattr(entry, name) for index, entry in enumerate(tape.entries()) for name in _ARRAYS}
    return {name: _smallest(array) for name, array in arrays.items() if array is not None}


def _unpacked(document: dict[str, Any], arrays: _Arrays) -> Tape:
    flags = zip(document["at_once"], document["lost"], strict=True)
    return Tape(
        [
            entry_of(*(arrays.get(f"{index}.{name}") for name in _ARRAYS), at_once=bool(at_once), lost=bool(lost))
            for index, (at_once, lost) in enumerate(flags)
        ]
    )


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


def _episodes(one: Episodes) -> list[Any]:
    return [list(one.contents), one.of_baseline, one.of_candidate]


def _read_back(contents: list[Any], of_baseline: bool, of_candidate: bool) -> Episodes:
    """A log, in little memory again."""
    return Episodes(packed(contents), of_baseline, of_candidate)
