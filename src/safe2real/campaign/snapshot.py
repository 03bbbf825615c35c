"""The state of a campaign after some event, so that a new process does not have to read all events before it.

It is the learner's state (`Learner.state`) and what else a replay holds (`Replay.state`), in one archive. A snapshot says
which event it covers, with its digest, and is taken only where the record holds that event; it is sealed with its own
digest, or with the key that signs the record. It is no part of the record: without it, or with one that is damaged, does not
fit or is of another release, everything is computed from the events. `verify` computes everything from the events in any
case, and then says whether the snapshot says the same.
"""

from __future__ import annotations

import hashlib
import hmac

import numpy as np

from safe2real.campaign.events import bounds_of
from safe2real.campaign.replay import Replay
from safe2real.campaign.signing import Keys
from safe2real.errors import InvalidInput
from safe2real.exploration.learner import Learner
from safe2real.model.archive import Archive
from safe2real.model.serialization import to_text
from safe2real.model.validation import ROUNDING
from safe2real.version import __version__

_REVISION = 9  # of what is written here
_KIND = "snapshot"
_SEAL = 64
_NOT_OURS = (ValueError, KeyError, TypeError, IndexError, OverflowError)


def snapshot_of(replay: Replay, problem: str, keys: Keys | None) -> bytes | None:
    """Return the state of a replay, sealed; `problem` is the digest of what it is a replay of.

    None where the state is not the one that the events alone lead to. Stated ties are looked at after batches, and bounds
    from outside the package may conclude something else tomorrow. An episode that left the model or the declared support
    refutes as soon as it is told and counts in its turn, so what is concluded in between depends on when it was asked for; a
    snapshot from before it stays as good as it was.
    """
    archive = state_of(replay, problem)
    if archive is None:
        return None
    payload = archive.to_bytes(format=_REVISION)
    return _seal(payload, keys).encode() + payload


def replay_from(content: bytes, covered: tuple[int, str], learner: Learner, digest: str, keys: Keys | None) -> Replay | None:
    """Return the replay that a snapshot holds; None if it is damaged, of another release or campaign, or not of that event.

    `learner` has counted nothing; where None is returned it is of no use any more.
    """
    try:
        archive = _read(content, covered, learner, digest, keys)
        return None if archive is None else _restored(archive, learner)
    except _NOT_OURS:  # sealed, and yet not as it is written here: the events know better
        return None


def is_sealed(content: bytes, keys: Keys | None) -> bool:
    """Return whether a snapshot is unchanged since it was written, with this key if there is one."""
    return hmac.compare_digest(content[:_SEAL], _seal(content[_SEAL:], keys).encode())


def contradicts(content: bytes, covered: tuple[int, str], replay: Replay, digest: str, keys: Keys | None) -> bool:
    """Return whether a usable snapshot differs from `replay`, the state computed from the events that it covers."""
    try:
        found = _read(content, covered, replay.learner, digest, keys)
    except _NOT_OURS:
        return False
    expected = state_of(replay, digest)
    if found is None or expected is None:
        return found is not None
    said = {name: found.document.get(name) for name in expected.document}
    return to_text(said) != to_text(expected.document) or not _alike(found, expected)


def state_of(replay: Replay, problem: str) -> Archive | None:
    """Return all that a snapshot holds; None where it would not follow from the events alone."""
    learner = replay.learner  # counts what is ready, so that nothing is left between
    if replay.departures or replay.outside_support or not learner.evidence.follows_from_order:
        return None
    archive = Archive(_KIND)
    archive.document = {
        "specification": problem,
        "concluded by": _concluded_by(learner),
        "replay": replay.state(),
    }
    archive.put_part("learner", learner.state(of_record=True))
    return archive


def _concluded_by(learner: Learner) -> dict[str, str]:
    """Return the revisions of all bounds and of the method; a snapshot of other revisions is not used."""
    method = learner.method
    return bounds_of(learner.settings) | {"method": f"{method.name}/{method.revision}"}


def _read(content: bytes, covered: tuple[int, str], learner: Learner, digest: str, keys: Keys | None) -> Archive | None:
    """Return the snapshot if it is intact and of this release, campaign, revisions and covered event; else None."""
    if not is_sealed(content, keys):
        return None
    archive = Archive.from_bytes(content[_SEAL:], _KIND, format=_REVISION, name="the snapshot")
    document, numbers = archive.document, archive.document["replay"]["numbers"]
    known = (document["format"], document["version"], document["specification"], document["concluded by"])
    if known != (_REVISION, __version__, digest, _concluded_by(learner)):
        return None
    return archive if (numbers["sequence"], numbers["digest"]) == covered else None


def _restored(archive: Archive, learner: Learner) -> Replay:
    learner.restore(archive.part("learner"))
    replay = Replay(learner)
    replay.restore(archive.entry("replay", dict))
    if learner.samples != replay.samples - replay.uncounted_samples:
        raise InvalidInput("the snapshot has counted other samples than were recorded; delete it")
    return replay


def _alike(one: Archive, other: Archive) -> bool:
    """Return whether both hold the same counts and conclusions; computed numbers may differ in their last digits."""
    if one.arrays.keys() != other.arrays.keys():
        return False
    for name, array in one.arrays.items():
        beside = other.arrays[name]
        if array.shape != beside.shape or array.dtype != beside.dtype:
            return False
        if not (
            np.allclose(array, beside, rtol=ROUNDING, atol=1e-12)
            if array.dtype.kind == "f"
            else np.array_equal(array, beside)
        ):
            return False
    return True


def _seal(payload: bytes, keys: Keys | None) -> str:
    """Return the seal of a snapshot: its digest, or by the key that also signs events; a process takes those of its key."""
    return hashlib.sha256(payload).hexdigest() if keys is None else keys.seal(payload)
