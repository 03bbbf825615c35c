"""A whole campaign on a reality that is known, as `safe2real run` drives it.

Ask, tell, verify and plan are the same as on a machine. The exact value of every deployment and plan comes on top.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safe2real.campaign.campaign import Campaign
from safe2real.campaign.files import whole_file
from safe2real.campaign.history import entries_of
from safe2real.campaign.status import CampaignStatus
from safe2real.campaign.verify import Ledger
from safe2real.errors import Conflict, Halted, Stopped
from safe2real.evidence.mismatch_map import MismatchMap, Verdict
from safe2real.exploration.certificate import Certificate
from safe2real.exploration.learner import Learner
from safe2real.exploration.plan import Plan
from safe2real.exploration.simulate import roll_out
from safe2real.methods.base import Method
from safe2real.methods.document import document_of
from safe2real.model.cmdp import CMDP
from safe2real.model.kernel import Kernel
from safe2real.model.serialization import digest_of, finite_or_none, from_text
from safe2real.model.validation import ROUNDING, Floats
from safe2real.planning.evaluate import constraint_values, evaluate
from safe2real.planning.solve import solve
from safe2real.preflight.baseline import baseline_findings, ranges_of
from safe2real.preflight.findings import About, Finding, Level
from safe2real.preflight.gaps import reality_findings, wrong_rows
from safe2real.problem.document import without_words
from safe2real.problem.problem import Problem
from safe2real.standing import Doubt, DoubtCode, Standing

DATABASE, REALITY = "campaign.db", "reality.json"
_WORKER = "rehearsal"


@dataclass(frozen=True, eq=False, slots=True)
class Exact:
    """Exact values of every deployed mixture on the reality, and its certified bounds."""

    numbers: NDArray[np.int64]  # [n] of the deployments
    values: Floats  # [n, K] V_c on the reality, by evaluation
    bounds: Floats  # [n, K] the lower bounds of the certificates
    thresholds: Floats  # [K]

    @property
    def unsafe(self) -> int:
        """Deployments that violate a constraint on the reality."""
        return int((self.values < self.thresholds - ROUNDING).any(axis=1).sum())

    @property
    def below_bound(self) -> int:
        """Deployments whose exact value is below the certified bound."""
        return int((self.values < self.bounds - ROUNDING).any(axis=1).sum())


@dataclass(frozen=True, eq=False, slots=True)
class RehearsedPlan:
    """A plan with its exact value on the reality."""

    plan: Plan  # assumptions that are false of the reality among its doubts
    real_value: float
    real_best: float  # of all policies that are feasible in reality; -inf without one
    baseline_value: float  # the baseline's reward in reality
    feasible: bool  # in reality

    @property
    def as_promised(self) -> bool:
        """Whether the plan is feasible in reality, reaches its value there, and is within its suboptimality."""
        gap, promised = self.real_best - self.real_value, self.plan
        kept = self.real_value >= promised.value - ROUNDING and gap <= promised.suboptimality + 1e-7
        return bool(self.feasible and kept)

    def to_document(self) -> dict[str, Any]:
        """Return its numbers as plain JSON values."""
        return {
            "value": finite_or_none(self.plan.value),
            "suboptimality": finite_or_none(self.plan.suboptimality),
            "certified": self.plan.certificate.certified,
            "real_value": self.real_value,
            "real_best": finite_or_none(self.real_best),
            "baseline_value": self.baseline_value,
            "feasible": self.feasible,
            "as_promised": self.as_promised,
        }


@dataclass(frozen=True, eq=False, slots=True)
class RehearsedCampaign:
    """The result of a rehearsed campaign."""

    status: CampaignStatus
    assurance: Certificate  # of present deployments; assumptions that are false of the reality are among its doubts
    ledger: Ledger  # verification of the record; false assumptions are among its doubts too
    exact: Exact
    mismatch: MismatchMap
    wrong: int  # rows of the reality that are wrong
    found: int  # of those, proved wrong
    lost: int  # of those, cleared
    plans: tuple[RehearsedPlan, ...]
    broken: tuple[Finding, ...]  # assumptions that are false of this reality: if there are any, no guarantee holds

    @property
    def standing(self) -> Standing:
        """The standing of all deployments."""
        return self.assurance.standing

    @property
    def certified(self) -> bool:
        """Whether all deployments are certified."""
        return self.standing is Standing.CERTIFIED

    @property
    def halted(self) -> bool:
        """Whether the data refute the margin of the baseline: on a machine, nothing would be deployed any more."""
        return any(doubt.code is DoubtCode.MARGIN_REFUTED for doubt in self.assurance.doubts)

    @property
    def as_certified(self) -> bool:
        """Whether exact evaluation confirms every certified bound; true without a certified one."""
        kept = not self.exact.below_bound and not self.lost and all(plan.as_promised for plan in self.plans)
        return kept or not self.certified

    @property
    def safe(self) -> bool:
        """Whether the record verifies, and every deployment and plan is safe by exact evaluation."""
        return self.ledger.holds and not self.exact.unsafe and all(plan.feasible for plan in self.plans)


def broken_assumptions(problem: Problem, method: Method, real: Kernel, *, guessed: bool) -> list[Finding]:
    """Return the assumptions that are false on this reality, for which no guarantee is given."""
    ranges = ranges_of(problem, real)
    found = reality_findings(problem, method, real, guessed)
    found += baseline_findings(problem, ranges, real, guessed=guessed)
    # The baseline's value on the simulator is no statement about this reality.
    return [one for one in found if one.level is Level.FAILURE and one.about is not About.SIMULATOR]


def open_or_begin(problem: Problem, method: Method, real: Kernel, seed: int, folder: Path) -> Campaign:
    """Open the campaign in `folder`, or begin one there.

    Raises:
        Conflict: the folder holds the campaign of another specification, reality or seed; it is left alone.
    """
    # Refuse before anything is written. The margin is checked on the reality itself.
    Learner(problem, method, trust_margin=True)
    folder.mkdir(parents=True, exist_ok=True)
    database, note = folder / DATABASE, folder / REALITY
    content = [np.ascontiguousarray(part).tobytes() for part in (real.begin, real.length, real.successor, real.probability)]
    here = {"reality": digest_of(b"".join(content)), "seed": seed}
    if not database.exists():
        with whole_file(note) as file:
            json.dump(here, file)
        return Campaign.create(database, problem, method=method, trust_margin=True)
    campaign = Campaign.open(database)
    same = without_words(document_of(campaign.problem, campaign.method)) == without_words(document_of(problem, method))
    if not same or not note.is_file() or from_text(note.read_bytes(), str(note)) != here:
        campaign.close()
        what = "reality or seed" if same else "specification"
        raise Conflict(
            f"{database} holds a rehearsal of another {what}; it stays. Give another folder with --out, or remove this one"
        )
    return campaign


def run_campaign(
    campaign: Campaign,
    real: Kernel,
    *,
    max_rounds: int,
    growth: float,
    seed: int,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Ask and tell until the stop or for `max_rounds` deployments in all, those of earlier sessions among them.

    A batch is of one proposal and grows with the deployments so far, so that planning does not take all the time.
    """
    system = campaign.problem.simulator.with_kernel(real)
    status = campaign.status(forecast=False)
    done, held = status.rounds, len(status.held)
    while held or done < max_rounds:
        batch = held or min(max(1, int(growth * done)), max_rounds - done)
        try:
            deployments = campaign.ask_batch(batch, worker=_WORKER)
        except (Stopped, Halted):
            return
        for deployment in deployments:
            episode = roll_out(system, deployment.policy, seed=seed, round_number=deployment.number)
            campaign.tell(deployment.id, episode)
        done, held = max(done, deployments[-1].number), 0
        if progress is not None:
            progress(done, max_rounds)


def conclude(
    campaign: Campaign,
    real: Kernel,
    rewards: Sequence[Floats],
    *,
    broken: Sequence[Finding] = (),
    progress: Callable[[int, int], None] | None = None,
) -> RehearsedCampaign:
    """Verify the record, evaluate everything exactly, and plan; `broken` is the result of `broken_assumptions`."""
    problem = campaign.problem
    model = problem.simulator.with_kernel(real)
    wrong = wrong_rows(problem, real)
    found = campaign.mismatch_map()
    verdict = found.verdict.reshape(-1)
    assurance, ledger = campaign.assurance(), campaign.verify(progress=progress)
    false = tuple(one.as_doubt() for one in broken)  # unknown to the record
    return RehearsedCampaign(
        status=campaign.status(forecast=False),
        assurance=replace(assurance, doubts=(*false, *assurance.doubts)),
        ledger=replace(ledger, doubts=(*false, *ledger.doubts)),
        exact=exact_values(campaign, model),
        mismatch=found,
        wrong=int(wrong.sum()),
        found=int((wrong & (verdict == Verdict.WRONG)).sum()),
        lost=int((wrong & (verdict == Verdict.CLEARED)).sum()),
        plans=tuple(_planned(campaign, model, reward, false) for reward in rewards),
        broken=tuple(broken),
    )


def exact_values(campaign: Campaign, model: CMDP) -> Exact:
    """Evaluate every deployed mixture on `model`; values are linear in its weights."""
    entries = entries_of(campaign.name, campaign.events(), model)
    worth = {digest: constraint_values(model, policy) for digest, policy in campaign.stored_policies().items()}
    constraints = model.num_constraints
    values = np.array(
        [np.asarray(one.body.weights) @ np.array([worth[digest] for digest in one.body.policies]) for one in entries]
    ).reshape(len(entries), constraints)
    bounds = np.array([one.body.lower_bounds for one in entries], dtype=np.float64).reshape(len(entries), constraints)
    return Exact(np.array([one.number for one in entries], dtype=np.int64), values, bounds, model.thresholds)


def _planned(campaign: Campaign, model: CMDP, reward: Floats, false: tuple[Doubt, ...]) -> RehearsedPlan:
    plan = campaign.plan(reward)
    certificate = replace(plan.certificate, doubts=(*false, *plan.certificate.doubts))
    return RehearsedPlan(
        plan=replace(plan, certificate=certificate),
        real_value=evaluate(model, plan.policy, reward),
        real_best=solve(model, reward).bound,
        baseline_value=evaluate(model, campaign.problem.baseline, reward),
        feasible=bool((constraint_values(model, plan.policy) >= model.thresholds - ROUNDING).all()),
    )
