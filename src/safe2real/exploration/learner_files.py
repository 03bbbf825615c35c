"""A learner in one file: the problem and the method, all that was counted and concluded, and where it stands.

Not a record: nobody can check how the counts came about, and what is observed later is not in it. A campaign keeps every
episode before it counts; its snapshots are of the same kind as this file, but for what they cover.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from safe2real.evidence.evidence_state import put_evidence, take_evidence
from safe2real.exploration.learner import Learner
from safe2real.exploration.plan_export import put_plan, take_plan
from safe2real.methods import for_rewards, sim_to_real
from safe2real.methods.base import Decision, Reason
from safe2real.methods.intervals import Start
from safe2real.methods.named import document_of, problem_and_method
from safe2real.model.archive import Archive
from safe2real.model.extensions import Extensions
from safe2real.model.serialization import to_text
from safe2real.model.validation import seed_number
from safe2real.problem.problem import Problem

_COMPILED, _DECLARED = "compiled rounds", "declared rewards"


def put_decision(archive: Archive, decision: Decision | None) -> None:
    """Keep what was decided; its memory is kept beside it."""
    if decision is None:
        return
    archive.document["decision"] = decision.reason.name
    if decision.notice:
        archive.document["notice"] = decision.notice
    archive.put_policies("decision", decision.policies)
    archive.put("decision.weights", np.array(decision.weights, dtype=np.float64))
    archive.put("decision.numbers", np.array([decision.exploration_weight, decision.uncertainty]))
    archive.put("decision.lower_bounds", np.asarray(decision.lower_bounds, dtype=np.float64))


def take_decision(archive: Archive, memory: Any) -> Decision | None:
    """What `put_decision` kept."""
    if "decision" not in archive.document:
        return None
    name = archive.entry("decision", str)
    if name not in Reason.__members__:
        raise archive.wrong(f"decision is {name!r}")
    policies = archive.policies("decision")
    weights = archive.array("decision.weights", np.float64, (len(policies),))
    share, uncertainty = archive.array("decision.numbers", np.float64, (2,)).tolist()
    lower = archive.array("decision.lower_bounds", np.float64, (None,))
    notice = archive.entry("notice", str) if "notice" in archive.document else ""
    return Decision(
        Reason[name], tuple(policies), tuple(weights.tolist()), share, lower, uncertainty, memory=memory, notice=notice
    )


def put_memory(archive: Archive, memory: Any) -> None:
    """Keep what the last decision left to begin the next from."""
    if isinstance(memory, sim_to_real.Memory):
        archive.document["memory"] = {"kind": _COMPILED, "warm": int(memory.warm)}
        for field, array in memory.candidate._asdict().items():
            archive.put(f"memory.{field}", array)
    elif isinstance(memory, for_rewards.Memory):
        explores = memory.exploring is not None
        archive.document["memory"] = {"kind": _DECLARED, "rewards": list(memory.starts), "exploring": explores}
        starts = [*memory.starts.values(), *([memory.exploring] if memory.exploring is not None else [])]
        for i, start in enumerate(starts):
            archive.put(f"memory.{i}.plan_prices", start.plan_prices)
            archive.put(f"memory.{i}.top_prices", start.top_prices)
            archive.put_policies(f"memory.{i}", list(start.policies))
        archive.put("memory.matters", memory.matters)
        archive.put("memory.suspects", memory.suspects)


def take_memory(archive: Archive, problem: Problem, kept: int) -> Any:
    """What `put_memory` kept, for a problem of which `kept` constraints are kept to."""
    if "memory" not in archive.document:
        return None
    document = archive.entry("memory", dict)
    if document.get("kind") == _COMPILED:
        empty = sim_to_real.empty_memory(problem, kept)
        for field, array in empty.candidate._asdict().items():
            array[...] = archive.array(f"memory.{field}", array.dtype, array.shape)
        warm, actions = document.get("warm"), empty.candidate.actions
        if type(warm) is not int or not 0 <= warm <= len(actions) or (actions >= problem.simulator.num_actions).any():
            raise archive.wrong("memory has policies that this problem cannot have")
        return empty._replace(warm=warm)
    names, explores = document.get("rewards"), document.get("exploring")
    if document.get("kind") != _DECLARED or not isinstance(names, list) or not isinstance(explores, bool):
        raise archive.wrong("memory is of no method that is known here")
    starts = [_start(archive, i, problem) for i in range(len(names) + explores)]
    rows = (problem.simulator.kernel.num_rows,)
    return for_rewards.Memory(
        starts=dict(zip(map(str, names), starts, strict=False)),
        exploring=starts[-1] if explores else None,
        matters=archive.array("memory.matters", np.bool_, rows),
        suspects=archive.array("memory.suspects", np.bool_, rows),
    )


def _start(archive: Archive, number: int, problem: Problem) -> Start:
    constraints, policies = problem.simulator.num_constraints, archive.policies(f"memory.{number}")
    if any(policy.shape != problem.simulator.shape for policy in policies):
        raise archive.wrong("memory has policies of another system")
    plan, top = (archive.array(f"memory.{number}.{one}_prices", np.float64, (constraints,)) for one in ("plan", "top"))
    return Start(plan, top, policies)


KIND, _FORMAT = "learner", 1
_IMPORTED = ("_ids", "_named", "_unnamed")  # sets of texts


def save_learner(learner: Learner, path: str | os.PathLike[str]) -> Path:
    """Write a learner to `path`, over an older file; see `load_learner`.

    Raises:
        InvalidInput: its evidence is of a class from outside the package.
        StorageFailure: it cannot be written.
    """
    decision, memory, planned = learner.hand_over()
    imported, kept = learner._imported, learner._kept.listed()
    archive = Archive(KIND)
    archive.document = {
        "specification": document_of(learner.problem, learner.method),
        "revisions": _revisions(learner),
        "round": learner.round,
        "warm_start": learner.warm_start,
        "imported": {name: sorted(getattr(imported, name)) for name in _IMPORTED},
        "alike": imported._alike,
        "kept": len(kept),
        "environment": {"entropy": learner.seeds.entropy, "stream": learner.seeds.stream},
    }
    archive.put("environment.used", np.array(sorted(learner.seeds.used), dtype=np.int64))
    put_evidence(archive, learner.evidence)
    put_decision(archive, decision)
    put_memory(archive, memory)
    archive.put("planned", planned)
    for i, (reward, plan) in enumerate(kept):
        put_plan(archive, replace(plan, origin=None), f"kept.{i}")
        archive.put(f"kept.{i}.for", reward)
    return archive.save(path, format=_FORMAT)


def load_learner(path: str | os.PathLike[str], *, extensions: Extensions = ()) -> Learner:
    """The learner that `Learner.save` wrote: it proposes the same, bit for bit, goes on, and plans the same.

    Args:
        path: of the file. Reading it runs no code, whatever it says. It is not signed: certificates of the loaded learner
            are worth what the file's source is.
        extensions: classes of methods and radii from outside the package that it may name.

    Returns:
        A learner of its own; the file stays as it is.

    Raises:
        InvalidInput: the file is damaged, was changed, is of another kind or of a newer release, or names a method or a
            radius that is not known here.

    Example:
        >>> learner.save("tuesday.npz")
        >>> learner = s2r.load_learner("tuesday.npz")
    """
    archive = Archive.load(path, KIND, format=_FORMAT)
    problem, method = problem_and_method(to_text(archive.entry("specification", dict)), extensions)
    learner = Learner(problem, method, warm_start=archive.entry("warm_start", bool), trust_margin=True)
    _check_revisions(archive, learner)
    if archive.document.get("trials"):  # their floors added to the probability of failure
        raise archive.wrong("it holds trials within a run, which this release has no more; count its episodes again")
    take_evidence(archive, learner.evidence)
    _take_seeds(archive, learner)
    imported = archive.entry("imported", dict)
    for name in _IMPORTED:
        listed = imported.get(name)
        if not isinstance(listed, list) or not all(isinstance(one, str) for one in listed):
            raise archive.wrong(f"imported.{name} is no list of texts")
        setattr(learner._imported, name, set(listed))
    learner._imported._alike = archive.entry("alike", int)
    for i in range(archive.entry("kept", int)):
        plan = take_plan(archive, f"kept.{i}")
        shape = problem.simulator.shape
        if plan.policy.shape not in (shape, (problem.simulator.steps, *shape[1:])):
            raise archive.wrong(f"kept.{i} is a plan of another system")
        per_step = archive.arrays.get(f"kept.{i}.for", np.empty(0)).ndim == 3
        learner._kept.put_back(archive.array(f"kept.{i}.for", np.float64, shape if per_step else shape[1:]), plan)
    memory = take_memory(archive, problem, learner.evidence.kept)
    planned = archive.array("planned", np.int64, learner.evidence.counts.tally.visits.shape)
    learner.resume(archive.entry("round", int), take_decision(archive, memory), memory, planned)
    return learner


def _take_seeds(archive: Archive, learner: Learner) -> None:
    """Go on with the stream of environment seeds; a file from before they were kept goes on with one of its own."""
    if "environment" not in archive.document:
        learner.seeds.branch(to_text(learner.evidence.counts.tally.visits.tolist()).encode())
        return
    kept = archive.entry("environment", dict)
    learner.seeds.entropy, learner.seeds.stream = (seed_number(name, kept.get(name)) for name in ("entropy", "stream"))
    learner.seeds.used = set(archive.array("environment.used", np.int64, (None,)).tolist())


def _revisions(learner: Learner) -> dict[str, int]:
    """Of everything that may come from outside and has concluded something."""
    bounds = {f"refinement {one.name}": one.revision for one in learner.settings.refinements}
    return {"method": learner.method.revision, "radius": learner.settings.radius.revision} | bounds


def _check_revisions(archive: Archive, learner: Learner) -> None:
    """Refuse what only a newer release understands, and what was concluded by a rule that was corrected since."""
    written = archive.entry("revisions", dict)
    for what, known in _revisions(learner).items():
        said = written.get(what, 1 if what.startswith("refinement") else None)  # files from before name no refinements
        if type(said) is not int or said > known:
            raise archive.wrong(f"the {what} is of revision {said!r}, this release has {known}: upgrade it")
        if said < known:
            raise archive.wrong(
                f"the {what} is of revision {said}, and what it concluded is not what revision {known} here would: count "
                "the episodes again in a new learner; a campaign keeps them and does that by itself"
            )
