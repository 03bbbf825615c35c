"""Plans: a certified feasible policy for one reward, with a bound on its suboptimality.

At any round the data allow every kernel within the TV balls. Feasible: a policy is certified when its worst V_c over those
kernels reaches the threshold; one that does not is mixed with the baseline, whose margin pays for the rest, and the
baseline alone is always allowed. Good: its worst reward over those kernels is a lower bound on its value, and
Lagrangian duality over the optimistic kernels is an upper bound on the value of any feasible policy. The difference bounds
the suboptimality; both bounds tighten as data arrive.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from safe2real.errors import InvalidInput
from safe2real.evidence.evidence import Evidence
from safe2real.exploration.certificate import Certificate, certify
from safe2real.exploration.plan_export import export_plan
from safe2real.methods.base import Interval, candidate_share
from safe2real.model.archive import Archive
from safe2real.model.cmdp import CMDP, step_rewards, without_steps
from safe2real.model.constraint_text import Wording, rounded_down, rounded_up
from safe2real.model.names import Legend, legend_from_json
from safe2real.model.policy import MarkovPolicy, Mixture
from safe2real.model.serialization import check_keys
from safe2real.model.validation import Floats, frozen, reward_floats
from safe2real.planning.certified_mixture import best_mixture, column_of, trusted_column
from safe2real.planning.robust import RowSets, ceiling
from safe2real.planning.solve import Solution, solve
from safe2real.problem.theorem import accuracy_of
from safe2real.progress import Report
from safe2real.standing import Assumption, AssumptionCode, Doubt, DoubtCode
from safe2real.tables import Row, Tabular

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_KIND, _FORMAT = "plan", 1  # of a file
_TRIES = 6  # tightenings tried; the right one is found in two or three
_MOST_KEPT = 64  # rewards whose best plan is kept; the ones asked for longest ago are forgotten
_UNTESTED = Doubt(
    DoubtCode.STRUCTURE_UNTESTED,
    "it rests on ties, which are not called exact: run a trial of this policy before it is relied on",
)


@dataclass(frozen=True, eq=False, slots=True)
class Origin:
    """The reward, settings and data that a plan was computed from."""

    reward: Floats  # [1 or H, S, A] in [0, 1]
    legend: Legend  # names of states and actions
    settings: Mapping[str, Any]  # of the problem, as its document has them, the method among them
    samples: int  # steps of the real system behind it
    version: str  # of safe2real


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Plan(Tabular):
    """A policy for one reward, with certified bounds on the real system.

    Example:
        >>> plan = learner.plan(reward)
        >>> agent = plan.policy.agent(seed=0, system=system)  # acts in the environment's own words
        >>> plan.save("pick.npz")  # and s2r.load_plan("pick.npz")
        >>> plan.export("pick")  # tables for other languages
    """

    solution: Solution | None  # on the learnt model, with tightened thresholds; None for the baseline alone
    policy: Mixture
    value: float  # lower bound on its real reward
    bound: float  # upper bound on the real reward of every feasible policy
    suboptimality: float  # at most this far from the best feasible policy
    certificate: Certificate
    origin: Origin | None = None  # None where it was made from evidence alone
    model: CMDP | None = None  # a guess of the real system when it was made: to draw it on, nothing rests on it

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write its `state` to one file that `load_plan` reads, over an older one; nothing is pickled.

        Args:
            path: of the file, e.g. "pick.npz".

        Returns:
            The path.

        Raises:
            StorageFailure: the file cannot be written.
        """
        return self.state().save(path, format=_FORMAT)

    def state(self) -> Archive:
        """Return the plan as an archive, bit for bit, without `solution` and `model`.

        The certificate is kept as data: a heuristic or refuted plan keeps its standing when it is loaded.

        Returns:
            The archive that `from_state` reads.
        """
        archive, certificate, origin = Archive(_KIND), self.certificate, self.origin
        archive.put_mixture("policy", self.policy)
        archive.put("numbers", np.array([self.value, self.bound, self.suboptimality]))
        archive.put("lower_bounds", certificate.lower_bounds)
        archive.put("thresholds", certificate.thresholds)
        lists = {name: [asdict(one) for one in getattr(certificate, name)] for name in _STATED}
        archive.document = {"certificate": lists, "origin": None}
        if origin is not None:
            archive.put("reward", origin.reward)
            archive.document["origin"] = {"legend": origin.legend.to_json(), "settings": dict(origin.settings),
                                          "samples": origin.samples, "version": origin.version}  # fmt: skip
        return archive

    @classmethod
    def from_state(cls, archive: Archive) -> Plan:
        """Restore a plan from its `state`; its `solution` and `model` are None.

        Args:
            archive: as `state` returned it.

        Returns:
            The plan.

        Raises:
            InvalidInput: the archive does not hold a plan.
        """
        policy = archive.mixture("policy")
        thresholds = archive.array("thresholds", np.float64, (None,))
        lower_bounds = archive.array("lower_bounds", np.float64, thresholds.shape)
        lists = check_keys(archive.entry("certificate", dict), f"{archive.name}, certificate", required=tuple(_STATED))
        try:
            stated = {name: tuple(read(**one) for one in lists[name]) for name, read in _STATED.items()}
        except (TypeError, ValueError) as error:  # unknown codes, and values that are not lists
            raise archive.wrong(f"the certificate cannot be read ({error})") from error
        value, bound, suboptimality = archive.array("numbers", np.float64, (3,)).tolist()
        certificate = Certificate(lower_bounds, thresholds, **stated)
        return cls(None, policy, value, bound, suboptimality, certificate, _origin_in(archive, policy))

    def export(self, folder: str | os.PathLike[str], *, system: Any = None) -> list[Path]:
        """Write the plan as tables for other languages; docs/running-plans.md has the format.

        Args:
            folder: where plan.json and policy.csv go; files of that name are replaced.
            system: the finite system whose states states.csv lists; None writes no states.csv.

        Returns:
            The files.

        Raises:
            InvalidInput: the folder cannot be made, or `system` is no finite system.
            StorageFailure: a file cannot be written.
        """
        return export_plan(self, Path(folder), system=system)

    @property
    def legend(self) -> Legend:
        """Names of states and actions, where they are known."""
        if self.origin is not None:
            return self.origin.legend
        return Legend() if self.model is None else self.model.legend

    def to_table(self) -> list[Row]:
        """Return the policy as a table: a line for every policy of the mixture, step, state and possible action.

        One policy is drawn at the start of an episode, by its weight, and followed to the end.

        Returns:
            Lines with the keys policy, weight, step, state, action, state_number, action_number and probability.
        """
        table = []
        for number, (weight, policy) in enumerate(zip(self.policy.weights.tolist(), self.policy.policies, strict=True)):
            chances = policy.probabilities
            for step, state, action in np.argwhere(chances > 0.0).tolist():
                names = {"state": self.legend.state(state), "action": self.legend.action(action)}
                numbers = {"state_number": state, "action_number": action}
                chance = {"probability": float(chances[step, state, action])}
                table.append({"policy": number, "weight": weight, "step": step} | names | numbers | chance)
        return table

    def plot(self, path: str | os.PathLike[str] | None = None, *, model: CMDP | None = None) -> Figure:
        """Draw the policy: arrows or names of actions on a map where states have positions, else steps and states.

        A state is drawn darker the longer the policy is in it. That is computed on `model`; without one, on the simulator
        with observed rows in place of those that are proved wrong. Start, costs and ends are marked.

        Args:
            path: where to keep it, e.g. "plan.png"; nowhere if None.
            model: another system of the same sizes to draw it on, e.g. `system.model`.

        Returns:
            A matplotlib figure; no display is needed.

        Raises:
            MissingExtra: matplotlib is not installed.
            InvalidInput: the path cannot be written, or the plan knows of no model and none is given.
        """
        from safe2real.plots.policy import draw_policy
        from safe2real.plots.style import kept

        on = self.model if model is None else model
        if on is None:
            raise InvalidInput("this plan has no model to be drawn on; give one: plot(model=system.model)")
        missed = ""
        if np.isfinite(self.suboptimality):
            missed = f", at most {rounded_up(self.suboptimality, digits=2)} below the best"
        title = f"Plan ({self.certificate.standing}): worth at least {rounded_down(self.value, digits=3)}{missed}"
        return kept(draw_policy(self.policy, on, title=title), path)

    def __repr__(self) -> str:
        worth = f"worth {rounded_down(self.value)} or more, at most {rounded_up(self.suboptimality)} below the best"
        return f"Plan({worth})\n  {self.certificate}\n  {self.policy.summary}"


_STATED: dict[str, Any] = {  # the lists of a certificate, and how to read one entry
    "assumptions": lambda code, text, subject: Assumption(AssumptionCode(code), str(text), str(subject)),
    "doubts": lambda code, text, subject: Doubt(DoubtCode(code), str(text), str(subject)),
    "wordings": lambda label, horizon, is_cost: Wording(str(label), float(horizon), bool(is_cost)),
}


def _origin_in(archive: Archive, policy: Mixture) -> Origin | None:
    if archive.document.get("origin") is None:
        return None
    said = check_keys(
        archive.document["origin"], f"{archive.name}, origin", required=("legend", "settings", "samples", "version")
    )
    horizon, states, actions = policy.shape
    reward, legend = archive.array("reward", np.float64, (None, states, actions)), legend_from_json(said["legend"])
    legend.check_size(states, actions)
    if (
        len(reward) not in (1, horizon, horizon + 1)
        or not isinstance(said["settings"], dict)
        or type(said["samples"]) is not int
    ):
        raise archive.wrong("origin has a reward, settings or samples that cannot be")
    return Origin(frozen(reward), legend, said["settings"], said["samples"], str(said["version"]))


def load_plan(path: str | os.PathLike[str]) -> Plan:
    """Read the plan that `Plan.save` wrote, bit for bit, with the standing that it had.

    Args:
        path: of the file. Reading it never runs code. The file is not signed: trust its certificate as much as its source.

    Returns:
        The plan; `solution` and `model` are None.

    Raises:
        InvalidInput: the file is damaged, was changed, is of another kind, or of a newer release.

    Example:
        >>> plan = s2r.load_plan("pick.npz")
        >>> agent = plan.policy.agent(seed=0, system=system)
    """
    return Plan.from_state(Archive.load(path, _KIND, format=_FORMAT))


@dataclass(frozen=True, eq=False, slots=True)
class CertifiedPolicy:
    """A policy that is certified feasible on the real system."""

    solution: Solution | None  # None for the baseline alone
    policy: Mixture
    value: float  # worst reward over the balls
    lower_bounds: Floats  # [K] on V_c


def plan(evidence: Evidence, reward: ArrayLike, *, stopped: bool, report: Report | None = None) -> Plan:
    """Plan for a reward: return a certified feasible policy with a bound on its suboptimality, at any round.

    A function of the evidence, which it leaves as it is. Once a run with the paper's settings has `stopped` it is pi^out:
    thresholds raised by tau (Line 17), within 2 H tau / xi + 2 tau of the best. Otherwise it is the best of several by its
    worst case (`best_certified`).

    Args:
        evidence: the data, including episodes that its model has not absorbed yet.
        reward: [S] or [S, A], or [H, S, A] where it changes with the step, in [0, 1].
        stopped: whether the method that collected the data has stopped.
        report: is told (steps done, in all).

    Returns:
        The plan, without an origin.
    """
    rewards = checked_reward(evidence, reward)
    settings, evidence = evidence.problem.settings, evidence.settled()
    if evidence.is_refuted:
        return baseline_plan(evidence)
    if stopped and not settings.robust_safety:
        return _paper_plan(evidence, rewards)
    best, upper = best_certified(
        evidence.sets,
        rewards,
        baseline=evidence.problem.baseline,
        margins=evidence.margins,
        tolerance=settings.tolerance,
        report=report,
    )
    return Plan(
        solution=best.solution,
        policy=best.policy,
        value=best.value,
        bound=max(upper, best.value),
        suboptimality=max(0.0, upper - best.value),
        certificate=certify(evidence, best.lower_bounds),
    )


def plan_under_ties(evidence: Evidence, reward: ArrayLike) -> Plan:
    """Return the best plan as if the stated ties were true; see `Learner.plan_with_structure`."""
    if evidence.is_refuted:
        return baseline_plan(evidence)
    structured = evidence.structured
    if structured is evidence:
        return plan(evidence, reward, stopped=False)
    if structured.is_refuted:
        return baseline_plan(structured)
    made = plan(structured, reward, stopped=False)
    return replace(made, certificate=certify(structured, made.certificate.lower_bounds, (_UNTESTED,)))


def checked_reward(evidence: Evidence, reward: ArrayLike) -> Floats:
    """Return a reward as [1 or H, S, A]; refuse one that is not of the problem, or not in [0, 1]."""
    model = evidence.problem.simulator
    return step_rewards(model, "reward", reward_floats("reward", reward), unit_interval=True)


def baseline_plan(evidence: Evidence) -> Plan:
    """Return the baseline as a plan: after a refutation the sets are invalid, and its stated margin alone is left."""
    horizon = float(evidence.problem.simulator.horizon)
    return Plan(
        solution=None,
        policy=Mixture.of([1.0], [evidence.problem.baseline]),
        value=0.0,
        bound=horizon,
        suboptimality=horizon,
        certificate=certify(evidence, evidence.trusted),
    )


def _paper_plan(evidence: Evidence, rewards: Floats) -> Plan:
    model, tau = evidence.problem.simulator, evidence.problem.settings.tolerance
    horizon = model.horizon
    objective = without_steps(rewards)
    tightened = np.minimum(model.thresholds + tau, horizon)
    solution = solve(model.with_kernel(evidence.to_kernel()).with_thresholds(tightened), objective)
    margin = float(evidence.stated.min(initial=float(horizon)))
    feasible = solution.is_feasible
    text = "no policy keeps the tightened constraints on the learnt model"
    doubts = [] if feasible else [Doubt(DoubtCode.NO_FEASIBLE_PLAN, text)]
    bounded = feasible and tau <= margin / 4.0
    missed = accuracy_of(tau, horizon, margin) + max(0.0, solution.bound - solution.value) if bounded else np.inf
    value = max(0.0, solution.value - tau)
    return Plan(
        solution=solution,
        policy=solution.policy,
        value=value,
        bound=min(float(horizon), value + missed),
        suboptimality=missed,
        certificate=certify(evidence, solution.constraint_values - tau, doubts),
    )


def best_certified(
    balls: RowSets,
    reward: Floats,
    *,
    baseline: MarkovPolicy,
    margins: Floats,
    tolerance: float,
    report: Report | None = None,
) -> tuple[CertifiedPolicy, float]:
    """Return the best worst-case policy among those tried, and an upper bound on the best feasible reward.

    The best certified mixture of the baseline, of every policy that `tightened` tried, and of policies found by robust
    backward induction (`planning.certified_mixture`); so it is never worse than the best of `tightened`.
    """
    thresholds, tell = balls.model.thresholds, report or (lambda done, total: None)
    given: dict[str, Any] = {"baseline": baseline, "margins": margins, "tolerance": tolerance}
    best, tried, optimum = tightened(balls, reward, **given, report=report)
    tell(_TRIES, _TRIES + 2)
    first = trusted_column(balls, baseline, reward, thresholds + margins)
    others = {id(part): part for solution in tried for part in solution.policy.policies}
    columns = [first, *(column_of(balls, part, reward) for part in others.values())]
    multipliers = optimum.multipliers if optimum.is_feasible else np.zeros(thresholds.shape)
    found = best_mixture(balls, reward, columns, prices=multipliers)
    tell(_TRIES + 1, _TRIES + 2)
    if found.value > best.value:
        solution = best.solution if best.solution is not None or len(found.used) == 1 else optimum
        best = CertifiedPolicy(solution, found.policy, found.value, found.lower_bounds)
    return best, ceiling(balls, reward, multipliers).value


def tightened(
    balls: RowSets,
    reward: Floats,
    *,
    baseline: MarkovPolicy,
    margins: Floats,
    tolerance: float,
    report: Report | None = None,
) -> tuple[CertifiedPolicy, list[Solution], Solution]:
    """Return the best of the model's own solutions by its worst case, all feasible ones tried, and the model's optimum.

    Thresholds are tightened on the model until the solution's worst V_c reaches them in reality: first not at all, then by
    the paper's tolerance, then by the remaining gap. Mixing with the baseline closes the gap that is left.
    """
    model = balls.model
    thresholds, horizon = model.thresholds, float(model.horizon)
    trusted = thresholds + margins
    baseline_value = balls.worst(baseline, reward)
    objective = without_steps(reward)
    optimum = solve(model, objective)
    tightening = np.zeros(thresholds.shape)
    missing = np.full(thresholds.shape, tolerance)
    best: CertifiedPolicy | None = None
    tried: list[Solution] = []
    solution = optimum
    for done in range(_TRIES):
        if report is not None:
            report(done, _TRIES + 2)
        if solution.is_feasible:
            tried.append(solution)
            lower = balls.worst_constraints(solution.policy)
            share = candidate_share(lower, thresholds, margins)
            value = share * balls.worst(solution.policy, reward) + (1.0 - share) * baseline_value
            if best is None or value > best.value:
                mixed = Mixture.of([*(share * solution.policy.weights), 1.0 - share], [*solution.policy.policies, baseline])
                best = CertifiedPolicy(solution, mixed, value, share * lower + (1.0 - share) * trusted)
            if tightening.any():
                missing = thresholds - lower
            if tightening.any() and (np.abs(missing) <= 1e-6).all():
                break
        tightening = np.clip(tightening + missing if solution.is_feasible else 0.5 * tightening, 0.0, horizon - thresholds)
        solution = solve(model.with_thresholds(thresholds + tightening), objective, warm=solution)
    if best is None or best.value < baseline_value:
        alone = Mixture.of([1.0], [baseline])
        best = CertifiedPolicy(None, alone, baseline_value, trusted)
    return best, tried, optimum


def improved(evidence: Evidence, found: Plan, interval: Interval) -> Plan:
    """Return the better of a plan and the policy of an interval of the same reward, with the smaller upper bound."""
    certificate = certify(evidence, interval.lower_bounds)
    other = replace(found, policy=interval.policy, value=interval.lower, bound=interval.upper, certificate=certificate)
    return _better(found, other)


def _better(one: Plan, other: Plan) -> Plan:
    """Return the plan of the larger value with the smaller upper bound of both; both are for one reward."""
    best = other if other.value > one.value else one
    bound = max(min(one.bound, other.bound), best.value)
    return replace(best, bound=bound, suboptimality=bound - best.value)


class KeptPlans:
    """The best plan of every reward so far: an earlier certificate stays valid while nothing is refuted.

    The sets that plans rest on hold at all times at once with probability 1 - delta. On that one event every lower bound
    that was ever printed is true of its policy, and every upper bound of all feasible policies; so the largest of the former
    and the smallest of the latter hold together. A refuted assumption invalidates every kept plan.
    """

    def __init__(self, plans: Iterable[tuple[Floats, Plan]] = ()) -> None:
        """`plans` are rewards with their plans, the one asked for longest ago first."""
        self._plans = OrderedDict(((reward.shape, reward.tobytes()), plan) for reward, plan in plans)

    def __len__(self) -> int:
        return len(self._plans)

    def state(self) -> Archive:
        """Return the plans with their rewards, the one asked for longest ago first."""
        archive = Archive(_KIND)
        for i, ((shape, content), plan) in enumerate(self._plans.items()):
            archive.put_part(f"{i:02}", replace(plan, origin=None).state())
            archive.put(f"{i:02}.for", np.frombuffer(content).reshape(shape))
        return archive

    @classmethod
    def from_state(cls, archive: Archive, model: CMDP) -> KeptPlans:
        """Return the plans whose `state` this is, of a system of the size of `model`.

        Raises:
            InvalidInput: it is the state of something else.
        """
        found, shape = [], model.shape
        for name in sorted(archive.document):
            part = archive.part(name)
            plan, per_step = Plan.from_state(part), part.has("for") and part.arrays["for"].ndim == 3
            if plan.policy.shape not in (shape, (model.steps, *shape[1:])):
                raise part.wrong("it is a plan of another system")
            reward = part.array("for", np.float64, shape if per_step else shape[1:])
            found.append((reward, plan))
        return cls(found)

    def better(self, evidence: Evidence, reward: ArrayLike, found: Plan) -> Plan:
        """Return `found` or an earlier plan that is certified to be worth more, with the smaller upper bound of both.

        The certificate lists today's assumptions, including those added since the earlier plan.
        """
        settings = evidence.problem.settings
        if evidence.is_refuted or not settings.certified:
            self._plans.clear()
            return found
        if not settings.robust_safety:
            return found  # the paper's own plans: its theorem is about the present data alone
        array = np.asarray(reward, dtype=np.float64)
        key = (array.shape, array.tobytes())
        before = self._plans.pop(key, None)
        best = found
        if before is not None:
            best = _better(found, before)
            best = replace(best, certificate=certify(evidence, best.certificate.lower_bounds))
        self._plans[key] = best
        if len(self._plans) > _MOST_KEPT:
            self._plans.popitem(last=False)
        return best
