"""Plans that structure finds: by ties that are taken for true, and for all simulators that are still possible.

What is stated of the real system and not said to be exact certifies nothing: false ties or alternatives are believed long
before the data can object. So a plan found here carries the doubt STRUCTURE_UNTESTED, and becomes a guarantee by a trial of
that one policy, which needs no model at all. Where the statement was said to be exact, the plan is certified and says first
what it rests on.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from safe2real.evidence.alternatives import Surviving
from safe2real.evidence.evidence import Evidence
from safe2real.exploration.certificate import certify
from safe2real.exploration.plan import Plan, baseline_plan, checked_reward, plan
from safe2real.model.cmdp import CMDP, without_steps
from safe2real.model.policy import Mixture
from safe2real.model.validation import Floats
from safe2real.planning.solve import solve
from safe2real.standing import Assumption, AssumptionCode, Doubt, DoubtCode

_UNTESTED = "it rests on {what}, which nobody called exact: run a trial of this policy before it is relied on"
_SMALLEST_WEIGHT = 1e-9


def plan_with_structure(evidence: Evidence, reward: ArrayLike) -> Plan:
    """The best plan that the stated structure finds; certified only as far as that was said to be exact.

    Nothing is changed by it, except that the statement is held against the data as they are: what refutes it is final.

    Args:
        evidence: of a problem with ties, alternatives or both.
        reward: [S, A], or [H, S, A] where it changes with the step, in [0, 1].

    Returns:
        A candidate, with bounds that hold if the structure does. Its certificate has the doubt STRUCTURE_UNTESTED, or
        STRUCTURE_REFUTED where the data contradict the structure: then it is the baseline. With no structure stated, or
        with ties that are exact, it is the plan itself.
    """
    problem, found = evidence.problem, []
    if evidence.is_refuted:
        return baseline_plan(evidence)
    if problem.ties is not None and not problem.ties.exact:
        found.append(_tied_plan(evidence, reward))
    surviving = evidence.surviving
    if surviving is not None:
        found.append(alternatives_plan(evidence, surviving, reward))
    if not found:
        return plan(evidence, reward, stopped=False)
    return max(found, key=lambda one: (not _is_refuted(one), one.value))


def _is_refuted(one: Plan) -> bool:
    return any(doubt.code is DoubtCode.STRUCTURE_REFUTED for doubt in one.certificate.doubts)


def _tied_plan(evidence: Evidence, reward: ArrayLike) -> Plan:
    structured = evidence.structured
    if structured.is_refuted:
        return baseline_plan(structured)
    made = plan(structured, reward, stopped=False)
    doubt = Doubt(DoubtCode.STRUCTURE_UNTESTED, _UNTESTED.format(what="ties"))
    return _with_certificate(made, structured, made.certificate.lower_bounds, (doubt,))


def alternatives_plan(evidence: Evidence, surviving: Surviving, reward: ArrayLike) -> Plan:
    """The mixture with the best worst value over the simulators that are left, feasible on every one of them.

    Its parts are the best policies of each simulator, by themselves and with thresholds raised by what they miss on the
    others, and the baseline; a small linear program weighs them. The bound is the best value on any simulator that is left.
    """
    model, stated = evidence.problem.simulator, surviving.stated
    rewards = checked_reward(evidence, reward)
    surviving.look(evidence.counts)
    if surviving.is_refuted:
        text = f"the data refute all {len(stated.simulators)} simulators that were given"
        return _with_certificate(
            baseline_plan(evidence), evidence, evidence.trusted, (Doubt(DoubtCode.STRUCTURE_REFUTED, text),)
        )
    parts, bound = _candidates(model, surviving, rewards)
    parts = (*parts, Mixture.of([1.0], [evidence.problem.baseline]))
    worth = np.array([surviving.values(one, without_steps(rewards)) for one in parts])  # [P, J]
    safe = np.array([surviving.constraints(one) for one in parts])  # [P, J, K]
    # The real system is one of those left, and there the baseline has its margin: by its word, like everywhere.
    safe[-1] = np.maximum(safe[-1], evidence.trusted)
    weights = _weighed(worth, safe, model.thresholds)
    policy = _flattened(weights, parts)
    value = float((weights @ worth).min())
    doubts = () if stated.exact else (Doubt(DoubtCode.STRUCTURE_UNTESTED, _UNTESTED.format(what="alternatives")),)
    text = f"the real system is one of the {len(stated.simulators)} simulators that were given; left are " + ", ".join(
        surviving.names
    )
    lower = np.tensordot(weights, safe, axes=1).min(axis=0)
    plain = Plan(None, policy, value, max(bound, value), max(0.0, bound - value), certify(evidence, lower))
    return _with_certificate(plain, evidence, lower, doubts, Assumption(AssumptionCode.ALTERNATIVES, text))


def _candidates(model: CMDP, surviving: Surviving, rewards: Floats) -> tuple[tuple[Mixture, ...], float]:
    """(policies that are the best on one simulator, the best value of any)."""
    objective, bound = without_steps(rewards), 0.0
    found: list[Mixture] = []
    for kernel in surviving.kernels:
        here = model.with_kernel(kernel)
        best = solve(here, objective)
        if not best.is_feasible:
            continue
        bound = max(bound, best.bound)
        found.append(best.policy)
        missing = np.maximum(0.0, model.thresholds - surviving.constraints(best.policy).min(axis=0))
        for share in (0.5, 1.0):
            raised = np.minimum(model.thresholds + share * missing, float(model.horizon))
            tighter = solve(here.with_thresholds(raised), objective, warm=best) if missing.any() else best
            if tighter.is_feasible and tighter is not best:
                found.append(tighter.policy)
    return tuple(found), min(bound, float(model.horizon))


def _weighed(worth: Floats, safe: Floats, thresholds: Floats) -> Floats:
    """[P] the mixture with the best worst value; the last part, the baseline, meets every threshold by itself."""
    from scipy.optimize import linprog  # late: importing it takes longer than all of planning

    parts, left = worth.shape
    constraints = thresholds.size
    above = np.concatenate([-worth.T, -safe.reshape(parts, left * constraints).T])  # of the weights
    level = np.concatenate([np.ones(left), np.zeros(left * constraints)])[:, None]
    limits = np.concatenate([np.zeros(left), -np.tile(thresholds, left)])
    done = linprog(
        np.append(np.zeros(parts), -1.0),
        A_ub=np.hstack([above, level]),
        b_ub=limits,
        A_eq=np.append(np.ones(parts), 0.0)[None, :],
        b_eq=[1.0],
        bounds=[(0.0, 1.0)] * parts + [(None, None)],
    )
    alone = np.zeros(parts)
    alone[-1] = 1.0
    if done.x is None:
        return alone
    weights = np.where(done.x[:-1] > _SMALLEST_WEIGHT, done.x[:-1], 0.0)
    weights = weights / weights.sum()
    # What rounding left of a threshold, the baseline pays for.
    short = np.maximum(0.0, thresholds - np.tensordot(weights, safe, axes=1)).max(initial=0.0)
    slack = float((safe[-1] - thresholds).min(initial=1.0))
    share = min(1.0, short / max(slack, 1e-12)) if short > 0.0 else 0.0
    return np.asarray((1.0 - share) * weights + share * alone)


def _flattened(weights: Floats, parts: tuple[Mixture, ...]) -> Mixture:
    shares, policies = [], []
    for weight, part in zip(weights.tolist(), parts, strict=True):
        for own, policy in zip(part.weights.tolist(), part.policies, strict=True):
            if weight * own > 0.0:
                shares.append(weight * own)
                policies.append(policy)
    return Mixture.of(np.array(shares) / sum(shares), policies)


def _with_certificate(
    made: Plan, evidence: Evidence, lower: Floats, doubts: tuple[Doubt, ...], first: Assumption | None = None
) -> Plan:
    """The same plan, certified as its structure allows; what it rests on is said first."""
    plain = certify(evidence, lower, doubts)
    assumptions = plain.assumptions if first is None else (first, *plain.assumptions)
    return replace(made, certificate=replace(plain, assumptions=assumptions))
