"""A method's decision and memory as arrays and plain data, and back: a part of `Learner.state`."""

from __future__ import annotations

from typing import Any

import numpy as np

from safe2real.methods import for_rewards, sim_to_real
from safe2real.methods.base import Decision, Reason
from safe2real.methods.for_rewards import SearchStart
from safe2real.model.archive import Archive
from safe2real.problem.problem import Problem

_COMPILED, _DECLARED = "compiled rounds", "declared rewards"


def put_decision(archive: Archive, decision: Decision | None) -> None:
    """Store a decision; `put_memory` stores its memory."""
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
    """Return the decision that `put_decision` stored."""
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
    """Store the last decision's memory, from which the next one starts."""
    if isinstance(memory, sim_to_real.Memory):
        archive.document["memory"] = {"kind": _COMPILED, "warm": int(memory.warm)}
        for field, array in memory.candidate._asdict().items():
            archive.put(f"memory.{field}", array)
    elif isinstance(memory, for_rewards.SearchMemory):
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
    """Return the memory that `put_memory` stored, for a problem with `kept` enforced constraints."""
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
    return for_rewards.SearchMemory(
        starts=dict(zip(map(str, names), starts, strict=False)),
        exploring=starts[-1] if explores else None,
        matters=archive.array("memory.matters", np.bool_, rows),
        suspects=archive.array("memory.suspects", np.bool_, rows),
    )


def _start(archive: Archive, number: int, problem: Problem) -> SearchStart:
    constraints, policies = problem.simulator.num_constraints, archive.policies(f"memory.{number}")
    if any(policy.shape != problem.simulator.shape for policy in policies):
        raise archive.wrong("memory has policies of another system")
    plan, top = (archive.array(f"memory.{number}.{one}_prices", np.float64, (constraints,)) for one in ("plan", "top"))
    return SearchStart(plan, top, policies)
