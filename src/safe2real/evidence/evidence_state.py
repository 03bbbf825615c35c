"""Evidence as arrays and plain data, and back: what snapshots of campaigns and files of learners store."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safe2real.errors import InvalidInput
from safe2real.evidence.counts import Counts, places_of
from safe2real.evidence.evidence import Evidence
from safe2real.evidence.hybrid import HybridModel
from safe2real.evidence.mean_bounds import CandidateReturns, RunningLower
from safe2real.evidence.tied_rows import TiedEvidence, evidence_for
from safe2real.model.archive import Archive
from safe2real.model.extensions import Extensions
from safe2real.model.input_size import check_bytes
from safe2real.model.serialization import to_text
from safe2real.problem.document import to_document
from safe2real.problem.problem import Problem

_NUMBERS = ("outside_support", "announced_outside", "departed", "_left")  # of a hybrid model
_BELIEF = ("suspect", "refuted", "low", "high", "look_at", "gap", "divergence", "bonus")  # [R] each
_TRUST = ("margins", "ceiling", "wealth", "refuted", "counters", "flags")
_LABELS = ("_listened", "_deaf", "_lost_labels")
_BYTES_OF_TRANSITION = 20  # successor, probability, count


def follows_from_order(evidence: Evidence) -> bool:
    """Whether all that is kept of it is a function of the episodes counted and their order.

    Not so where a test looks at whatever has come in by then: stated ties are looked at after batches. A class, a radius or
    a refinement from outside the package may conclude something else tomorrow.
    """
    settings = evidence.problem.settings
    if not all(type(one).__module__.startswith("safe2real.") for one in (settings.radius, *settings.refinements)):
        return False
    if type(evidence) not in (Evidence, TiedEvidence):
        return False
    return not isinstance(evidence, TiedEvidence) or not evidence.test.rows.size


def put_evidence(archive: Archive, evidence: Evidence, name: str = "evidence", *, what_was_asked: bool = True) -> None:
    """Keep evidence under a name; with `what_was_asked` also what was only computed because somebody asked for plans.

    Raises:
        InvalidInput: it is of a class from outside the package, whose state nobody here knows.
    """
    if type(evidence) not in (Evidence, TiedEvidence):
        raise InvalidInput(
            f"the evidence is a {type(evidence).__name__}, which is not of this package, so what it knows cannot be kept; "
            "keep the episodes, or run a campaign"
        )
    document: dict[str, Any] = {"kind": type(evidence).__name__, "faults": evidence.faults}
    _put_counts(archive, evidence.counts, f"{name}.counts")
    for field in _TRUST:
        archive.put(f"{name}.trust.{field}", getattr(evidence.trust.state, field))
    if isinstance(evidence, TiedEvidence):
        _put_tied(archive, evidence, name, document)
    else:
        _put_belief(archive, evidence, name)
    document |= _numbers_of(evidence)
    if evidence.returns is not None:
        document["returns"] = put_returns(archive, evidence.returns, f"{name}.returns")
    if what_was_asked and isinstance(evidence._structured, TiedEvidence):  # it shares the counts
        document["structured"] = _numbers_of(evidence._structured)
        _put_tied(archive, evidence._structured, f"{name}.structured", document["structured"])
    archive.document[name] = document


def take_evidence(archive: Archive, evidence: Evidence, name: str = "evidence") -> None:
    """Put what `put_evidence` kept into `evidence` of the same problem and method, in which nothing is counted yet.

    Raises:
        InvalidInput: what is kept is of another kind of evidence, or cannot be.
    """
    document = archive.entry(name, dict)
    if document.get("kind") != type(evidence).__name__:
        raise archive.wrong(f"{name} is of another kind of evidence")
    _take_counts(archive, evidence.counts, f"{name}.counts")
    trust = evidence.trust.state
    for field in _TRUST:
        _fill(archive, f"{name}.trust.{field}", getattr(trust, field))
    possible = (trust.margins >= trust.stated).all() and np.isfinite(trust.margins).all() and (trust.wealth >= 0.0).all()
    if not possible or not np.isfinite(trust.ceiling).all():
        raise archive.wrong(f"{name}.trust has a margin below the stated one, or what is no number")
    if isinstance(evidence, TiedEvidence):
        _take_tied(archive, evidence, name, document)
    else:
        _take_belief(archive, evidence, name)
    _take_numbers(archive, evidence, name, document)
    evidence.faults = _tallies(archive, document, "faults")
    if evidence.returns is not None:
        take_returns(archive, evidence.returns, f"{name}.returns", document.get("returns"))
    if "structured" in document:
        problem, reuses, keeps = evidence.problem, evidence.reuses_simulator, evidence.keeps_safe
        other = TiedEvidence(problem, reuses_simulator=reuses, keeps_safe=keeps, ties=True)
        other.counts, other.trust = evidence.counts, evidence.trust
        _take_tied(archive, other, f"{name}.structured", document["structured"])
        _take_numbers(archive, other, f"{name}.structured", document["structured"])
        evidence._structured = other


# A hybrid model: counts, and what is believed


def _put_counts(archive: Archive, counts: Counts, name: str) -> None:
    tally = counts.tally
    at = places_of(tally.begin, tally.length)
    for field in ("capacity", "length", "visits"):
        archive.put(f"{name}.{field}", getattr(tally, field))
    for field in ("successor", "probability", "count"):
        archive.put(f"{name}.{field}", getattr(tally, field)[at])
    archive.put(f"{name}.episodes", np.array([counts.episodes], dtype=np.int64))


def _take_counts(archive: Archive, counts: Counts, name: str) -> None:
    rows, size = counts.simulator.num_rows, counts.simulator.num_states
    capacity, length = (archive.array(f"{name}.{field}", np.uint32, (rows,)) for field in ("capacity", "length"))
    visits = archive.array(f"{name}.visits", np.int64, (rows,))
    stored = int(length.sum(dtype=np.int64))
    successor = archive.array(f"{name}.successor", np.uint32, (stored,))
    probability = archive.array(f"{name}.probability", np.float64, (stored,))
    count = archive.array(f"{name}.count", np.int64, (stored,))
    (episodes,) = archive.array(f"{name}.episodes", np.int64, (1,)).tolist()
    check_bytes(f"{archive.name}: {name}", int(capacity.sum(dtype=np.int64)) * _BYTES_OF_TRANSITION)
    seen = np.zeros(rows, dtype=np.int64)
    np.add.at(seen, np.repeat(np.arange(rows), length), count)
    possible = (length <= capacity).all() and (capacity <= size).all() and (successor < size).all() and (count > 0).all()
    if not possible or not np.array_equal(seen, visits) or not ((probability >= 0.0) & (probability <= 1.0)).all():
        raise archive.wrong(f"{name} has rows, successors or visits that do not fit together")
    tally = counts._lay_out(capacity.astype(np.int64), None)
    tally.length[:], tally.visits[:] = length, visits
    at = places_of(tally.begin, tally.length)
    tally.successor[at], tally.probability[at], tally.count[at] = successor, probability, count
    counts.tally, counts.episodes = tally, episodes
    counts.has_room = counts.lacking_room.size == 0  # where it is not, rows get it when it is needed


def _put_belief(archive: Archive, model: HybridModel, name: str) -> None:
    for field in _BELIEF:
        archive.put(f"{name}.{field}", getattr(model.belief, field))
    archive.put(f"{name}.learnt", model.learnt)
    archive.put(f"{name}.length", model.belief.length)


def _take_belief(archive: Archive, model: HybridModel, name: str) -> None:
    belief, tally = model.belief, model.counts.tally
    for field in _BELIEF:
        _fill(archive, f"{name}.{field}", getattr(belief, field))
    learnt = archive.array(f"{name}.learnt", np.bool_, belief.suspect.shape)
    length = archive.array(f"{name}.length", np.uint32, belief.suspect.shape)
    if (length > np.where(learnt, tally.length, tally.simulator_length)).any():
        raise archive.wrong(f"{name}.length has rows that are longer than what was seen of them")
    belief.begin[:] = np.where(learnt, tally.begin, tally.simulator_begin)
    belief.length[:] = length


# Rows that are learnt together, and returns


def _put_tied(archive: Archive, evidence: TiedEvidence, name: str, document: dict[str, Any]) -> None:
    _put_counts(archive, evidence.units.counts, f"{name}.units.counts")
    _put_belief(archive, evidence.units, f"{name}.units")
    archive.put(f"{name}.refuted", evidence.belief.refuted)
    archive.put(f"{name}.tested", evidence.test.refuted)
    fed = [[row, successor, often] for (row, successor), often in evidence._fed.items()]
    archive.put(f"{name}.fed", np.array(fed, dtype=np.int64).reshape(-1, 3))
    document["units"] = _numbers_of(evidence.units)
    document["next_test"] = evidence.test._next
    document["labels"] = [bool(getattr(evidence, field)) for field in _LABELS]


def _take_tied(archive: Archive, evidence: TiedEvidence, name: str, document: Any) -> None:
    _take_counts(archive, evidence.units.counts, f"{name}.units.counts")
    _take_belief(archive, evidence.units, f"{name}.units")
    units, labels = document.get("units"), document.get("labels")
    if not isinstance(units, dict) or not isinstance(labels, list) or len(labels) != len(_LABELS):
        raise archive.wrong(f"{name} has no units or labels")
    _take_numbers(archive, evidence.units, f"{name}.units", units)
    _fill(archive, f"{name}.tested", evidence.test.refuted)
    evidence.test._next = _whole(archive, document, "next_test")
    fed = archive.array(f"{name}.fed", np.int64, (None, 3)).tolist()
    evidence._fed = {(row, successor): often for row, successor, often in fed}
    for field, value in zip(_LABELS, labels, strict=True):
        setattr(evidence, field, bool(value))
    _fill(archive, f"{name}.refuted", evidence.belief.refuted)
    evidence._show()


def put_returns(archive: Archive, returns: CandidateReturns, name: str) -> dict[str, Any]:
    """Keep what the returns of a policy on trial have shown; gives what the document has to say of them."""
    bounds = [_put_returns(archive, one, f"{name}.{i}") for i, one in enumerate(returns.bounds)]
    return {"logged": returns.logged, "bounds": bounds}


def take_returns(archive: Archive, returns: CandidateReturns, name: str, document: Any) -> None:
    """What `put_returns` kept, into returns of the same trial of which nothing is counted yet."""
    kept = document.get("bounds") if isinstance(document, dict) else None
    if not isinstance(kept, list) or len(kept) != len(returns.bounds):
        raise archive.wrong(f"{name} has returns of another number of constraints and rewards")
    returns.logged = _whole(archive, document, "logged")
    for i, (one, said) in enumerate(zip(returns.bounds, kept, strict=True)):
        _take_returns(archive, one, f"{name}.{i}", said)


def _put_returns(archive: Archive, bound: RunningLower, name: str) -> dict[str, Any]:
    archive.put(f"{name}.values", np.array(list(bound._times), dtype=np.float64))  # in the order in which sums are formed
    archive.put(f"{name}.times", np.array(list(bound._times.values()), dtype=np.int64))
    archive.put(f"{name}.growth", bound._growth)
    archive.put(f"{name}.total", np.array([bound.total]))
    return {"index": bound._index}


def _take_returns(archive: Archive, bound: RunningLower, name: str, said: Any) -> None:
    values = archive.array(f"{name}.values", np.float64, (None,)).tolist()
    times = archive.array(f"{name}.times", np.int64, (len(values),)).tolist()
    if not isinstance(said, dict) or any(one < 1 for one in times) or not all(0.0 <= one <= 1.0 for one in values):
        raise archive.wrong(f"{name} has values outside their range")
    bound._times = dict(zip(values, times, strict=True))
    bound.count, bound._index = sum(times), _whole(archive, said, "index")
    (bound.total,) = archive.array(f"{name}.total", np.float64, (1,)).tolist()
    bound._growth = archive.array(f"{name}.growth", np.float64, bound._growth.shape)


# Small things


def _numbers_of(model: HybridModel) -> dict[str, Any]:
    numbers = {field: int(getattr(model, field)) for field in _NUMBERS}
    return {**numbers, "behind": bool(model.behind), "broken_off": model.broken_off}


def _take_numbers(archive: Archive, model: HybridModel, name: str, document: dict[str, Any]) -> None:
    for field in _NUMBERS:
        setattr(model, field, _whole(archive, document, field))
    if not isinstance(document.get("behind"), bool):
        raise archive.wrong(f"{name} does not say whether its model is behind")
    model.behind = document["behind"]
    model.broken_off = _tallies(archive, document, "broken_off")


def _whole(archive: Archive, document: dict[str, Any], name: str, *, least: int = 0) -> int:
    value = document.get(name)
    if type(value) is not int or value < least:
        raise archive.wrong(f"{name} is {value!r}")
    return value


def _tallies(archive: Archive, document: dict[str, Any], name: str) -> dict[str, int]:
    value = document.get(name)
    if not isinstance(value, dict) or not all(type(one) is int and one > 0 for one in value.values()):
        raise archive.wrong(f"{name} is {value!r}")
    return dict(value)


def _fill(archive: Archive, name: str, target: NDArray[Any]) -> None:
    """Into the array that is there, which compiled code knows."""
    target[...] = archive.array(name, target.dtype, target.shape)


# Evidence alone in one file: the problem that it is about, and all that was counted and concluded.
#
# For what is computed from evidence without a learner: `certify`, `plan`, `map_mismatch`. A learner's own file has its
# method and where it stands as well (`Learner.save`).

KIND, _FORMAT = "evidence", 1


def save_evidence(evidence: Evidence, path: str | os.PathLike[str]) -> Path:
    """Write evidence to `path`, over an older file; nothing is pickled, and nothing is changed.

    Raises:
        InvalidInput: it is of a class from outside the package, or keeps the returns of a policy on trial, which mean
            nothing without that policy: save the learner.
        StorageFailure: it cannot be written.
    """
    if evidence.returns is not None:
        raise InvalidInput("the evidence keeps the returns of a policy on trial; save its learner: learner.save(path)")
    archive = Archive(KIND)
    archive.document = {
        "specification": to_document(evidence.problem),
        "reuses_simulator": evidence.reuses_simulator,
        "keeps_safe": evidence.keeps_safe,
    }
    put_evidence(archive, evidence)
    return archive.save(path, format=_FORMAT)


def load_evidence(path: str | os.PathLike[str], *, extensions: Extensions = ()) -> Evidence:
    """What `save_evidence` wrote, of its own; reading it runs no code. `extensions` are radii from elsewhere.

    Raises:
        InvalidInput: the file is damaged, was changed, or is of another kind or of a newer release.
    """
    archive = Archive.load(path, KIND, format=_FORMAT)
    problem = Problem.from_text(to_text(archive.entry("specification", dict)), extensions=extensions)
    flags = {name: archive.entry(name, bool) for name in ("reuses_simulator", "keeps_safe")}
    evidence = evidence_for(problem, **flags)
    take_evidence(archive, evidence)
    return evidence
