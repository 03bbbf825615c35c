"""Everything a campaign is about, fixed when it begins: simulator, constraints, trusted policy, and what is assumed.

A specification is one JSON document, stored with the campaign. All processes decode the same text, so all of them compute
with the same bits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from safe2real.errors import InvalidInput
from safe2real.evidence.confidence import RADII, Radius, ScaledRadius
from safe2real.exploration.learner import Learner
from safe2real.exploration.settings import Algorithm, Settings
from safe2real.model.checks import Floats, finite_number, positive_integer, shown
from safe2real.model.cmdp import CMDP, AtLeast, AtMost, Constraint
from safe2real.model.encoding import (
    array_to_json,
    check_keys,
    check_unpacked,
    from_text,
    numbers_from_json,
    policy_from_json,
    policy_to_json,
    to_text,
    within,
)
from safe2real.model.kernel import Kernel
from safe2real.model.limits import AS_NUMBER, check_bytes
from safe2real.model.policy import MarkovPolicy
from safe2real.planning.evaluate import constraint_values
from safe2real.standing import Assumption, AssumptionCode, Doubt, DoubtCode
from safe2real.systems.estimated import RowAccuracy
from safe2real.systems.row_accuracy import check_estimated, estimated_from_json, estimated_to_json

_SETTINGS = tuple(field.name for field in fields(Settings))
_REQUIRED_SETTINGS = ("margin", "calibrated_gap", "mismatch_gap", "tolerance")
_ROUNDING = 1e-9
_TRANSITIONS = ("states", "actions", "successors", "probabilities")


@dataclass(frozen=True, eq=False, slots=True)
class Problem:
    """What `Learner` is made of: `simulator` carries the constraints, `known` marks rows that are exact.

    `support` is a kernel of the simulator's shape whose successors are the possible ones. `estimated` is how far the rows
    of a simulator that was estimated can be off (`EstimatedModel.row_accuracy`): its probability of failure adds to delta.
    """

    simulator: CMDP
    baseline: MarkovPolicy
    settings: Settings
    known: ArrayLike | None = None
    support: Kernel | None = None
    estimated: RowAccuracy | None = None

    def learner(self, *, trust_margin: bool = False) -> Learner:
        """A fresh learner; refuses what no guarantee can hold for.

        A baseline that lacks its stated margin on the simulator itself is refused too, unless `trust_margin` says that it
        has it on the real system all the same: the margin is a claim about that one.
        """
        if not isinstance(self.simulator, CMDP):
            raise InvalidInput(f"simulator is a {type(self.simulator).__name__}; give a CMDP, with its constraints")
        if not isinstance(self.settings, Settings):
            raise InvalidInput(f"settings is a {type(self.settings).__name__}; give Settings(...)")
        if self.settings.algorithm is Algorithm.UNCONSTRAINED:
            raise InvalidInput(
                "the algorithm ignores the constraints while it explores; a campaign hands out no policy without a "
                "certificate: use Algorithm.SIM_TO_REAL, or `simulate` to study Algorithm 3"
            )
        known = None if self.known is None else numbers_from_json(self.known, "known")
        learner = Learner(
            self.simulator,
            self.baseline,
            self.settings,
            known=known,
            support=self.support,
            assumed=self._assumed(),
            doubted=self._doubted(),
            warm_start=False,
        )
        if not trust_margin:
            self._refuse_lost_margin(learner.margins)
        return learner

    def _assumed(self) -> tuple[Assumption, ...]:
        """What the simulator rests on itself."""
        rows, gap = self.estimated, self.settings.calibrated_gap
        if rows is None:
            return ()
        check_estimated(rows, self.simulator.kernel)
        if not self.settings.algorithm.reuses_simulator:
            return ()
        sure = f"with probability at least {1.0 - rows.delta:g}, in addition to delta" if rows.certified else "HEURISTICALLY"
        text = (
            f"the rows of the simulator, which were estimated, are within {rows.worst:.4g} of those they stand for, {sure}"
        )
        if gap < rows.worst:
            text += f" (calibrated_gap, {gap:g}, does not cover that)"
        return (Assumption(AssumptionCode.ESTIMATED, text),)

    def _doubted(self) -> tuple[Doubt, ...]:
        """Why an estimated simulator makes everything worth less than certified."""
        rows, gap = self.estimated, self.settings.calibrated_gap
        if rows is None or not self.settings.algorithm.reuses_simulator:
            return ()
        found = []
        if not rows.certified:
            found.append(Doubt(DoubtCode.SIMULATOR_ESTIMATED, "the simulator was estimated with a heuristic radius"))
        if gap < rows.worst:
            text = f"calibrated_gap, {gap:g}, does not cover the accuracy {rows.worst:.4g} of the estimated simulator"
            found.append(Doubt(DoubtCode.GAP_NOT_COVERED, text))
        return tuple(found)

    def _refuse_lost_margin(self, margins: Floats) -> None:
        model = self.simulator
        for name, value, threshold, xi in zip(
            model.labels, constraint_values(model, self.baseline), model.thresholds, margins, strict=True
        ):
            slack = float(value - threshold)
            if slack < xi - _ROUNDING:
                state = f"state a margin of at most {_down(slack)}, " if slack > 0.0 else ""
                raise InvalidInput(
                    f"the baseline's V_c for {name} is {value:.6g} on the simulator itself, where threshold + margin is "
                    f"{threshold:.6g} + {xi:.6g}; {state}lower the threshold, or choose a safer baseline. If rollouts on "
                    "the real system show that the margin is there, whatever the simulator says, give trust_margin=True"
                )

    def to_text(self) -> str:
        """The JSON document; `from_text` gives back the same numbers, bit for bit."""
        model, settings = self.simulator, self.settings
        document: dict[str, Any] = {
            "horizon": model.horizon,
            "simulator": _kernel_to_json(model.kernel),
            "start": array_to_json(model.start),
            "constraints": [
                {
                    "name": model.names[k],
                    "utility": array_to_json(_without_steps(model.utilities[k])),
                    "threshold": float(model.thresholds[k]),
                }
                for k in range(model.num_constraints)
            ],
            "baseline": policy_to_json(self.baseline),
            "settings": {
                "margin": np.asarray(settings.margin, dtype=float).tolist(),
                "calibrated_gap": float(settings.calibrated_gap),
                "mismatch_gap": float(settings.mismatch_gap),
                "tolerance": float(settings.tolerance),
                "delta": float(settings.delta),
                "seed": int(settings.seed),
                "algorithm": settings.algorithm.value,
                "radius": _radius_to_json(settings.radius),
                "bonus_scale": float(settings.bonus_scale),
                "span_bonus": settings.span_bonus,
                "robust_safety": settings.robust_safety,
                "replan_growth": float(settings.replan_growth),
            },
        }
        if self.known is not None:
            document["known"] = array_to_json(np.asarray(self.known))
        if self.support is not None:
            document["support"] = _kernel_to_json(self.support)
        if self.estimated is not None:
            document["estimated"] = estimated_to_json(self.estimated)
        return to_text(document)

    @classmethod
    def from_text(cls, text: str) -> Problem:
        """Read and check a document written by `to_text`, by hand, or in another language."""
        result = cls.from_document(from_text(text, "the specification"))
        result.learner(trust_margin=True)  # refuse now what cannot be run later
        return result

    @classmethod
    def from_document(cls, document: Any) -> Problem:
        """The same for a document that is read already; arrays and kernels may be there as they are.

        Whether a guarantee can hold for it is not looked at: `learner` does that, and `preflight` says what is wrong.
        """
        given = check_keys(
            document,
            "the specification",
            required=("horizon", "simulator", "baseline", "settings"),
            optional=("start", "constraints", "known", "support", "estimated"),
        )
        check_unpacked(given, "the specification")
        listed = given.get("constraints", [])
        if not isinstance(listed, list):
            raise InvalidInput(
                f"constraints is {shown(listed)}; give a list of objects with utility and threshold, or cost and limit"
            )
        kernel = kernel_from_json(given["simulator"], "simulator")
        horizon = positive_integer("horizon", given["horizon"])
        check_size(horizon, kernel, len(listed))
        model = CMDP.of(
            kernel,
            horizon,
            numbers_from_json(given.get("start", 0), "start"),
            [_constraint_from_json(value, f"constraints[{k}]") for k, value in enumerate(listed)],
        )
        known = given.get("known")
        return cls(
            simulator=model,
            baseline=policy_from_json(given["baseline"], "baseline", horizon=model.horizon, num_states=model.num_states),
            settings=_settings_from_json(given["settings"]),
            known=None if known is None else numbers_from_json(known, "known"),
            support=kernel_from_json(given["support"], "support") if "support" in given else None,
            estimated=estimated_from_json(given["estimated"], kernel) if "estimated" in given else None,
        )


def check_size(horizon: int, kernel: Kernel, constraints: int = 0) -> None:
    """Refuse policies that could not be handed out, and constraints that could not be; said before one is written out."""
    tables = max(1, constraints)
    check_bytes(
        f"horizon is {shown(horizon)}: with {kernel.num_states} states, {kernel.num_actions} actions and {constraints} "
        "constraints, a table for every step",
        tables * horizon * kernel.num_states * kernel.num_actions * AS_NUMBER,
        "merge states or shorten the horizon",
    )


def _down(value: float) -> str:
    """Four digits, rounded down: what is typed in then holds."""
    return f"{math.floor(value * 1e4 + 1e-5) / 1e4:.6g}"


def _without_steps(utility: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """[S, A] where the utility does not change with the step, [H, S, A] where it does."""
    return utility[0] if len(utility) == 1 else utility


def _kernel_to_json(kernel: Kernel) -> dict[str, Any]:
    rows = [kernel.row(index) for index in range(kernel.num_rows)]
    shape = (kernel.horizon or 1, kernel.num_states, kernel.num_actions)
    sizes = [len(successors) for successors, _ in rows]
    steps, states, actions = np.unravel_index(np.repeat(np.arange(kernel.num_rows), sizes), shape)
    document: dict[str, Any] = {
        "num_states": kernel.num_states,
        "num_actions": kernel.num_actions,
        "states": array_to_json(states.astype(np.uint32)),
        "actions": array_to_json(actions.astype(np.uint32)),
        "successors": array_to_json(np.concatenate([successors for successors, _ in rows])),
        "probabilities": array_to_json(np.concatenate([probabilities for _, probabilities in rows])),
    }
    if kernel.horizon is not None:
        document["steps"] = array_to_json(steps.astype(np.uint32))
        document["num_steps"] = kernel.horizon
    return document


def kernel_from_json(value: Any, name: str) -> Kernel:
    """Rows from {"transition": ...} or from parallel lists of transitions; a kernel is itself."""
    if isinstance(value, Kernel):
        return value
    if isinstance(value, dict) and "transition" in value:
        check_keys(value, name, required=("transition",))
        dense = numbers_from_json(value["transition"], f"{name}.transition")
        stored = int(np.count_nonzero(dense))
        what = f"{name}.transition, kept as its {stored} transitions,"
        check_bytes(what, stored * len(_TRANSITIONS) * AS_NUMBER, "merge states")
        with within(name):
            return Kernel.from_dense(dense)
    if isinstance(value, dict) and value.keys().isdisjoint((*_TRANSITIONS, "num_states", "num_actions")):
        raise InvalidInput(
            f'{name} must hold {{"transition": [S][A][S] or [H][S][A][S]}}, or parallel lists of stored transitions: '
            + ", ".join(("num_states", "num_actions", *_TRANSITIONS))
        )
    given = check_keys(value, name, required=("num_states", "num_actions", *_TRANSITIONS), optional=("steps", "num_steps"))
    lists = [numbers_from_json(given[column], f"{name}.{column}") for column in _TRANSITIONS]
    steps = numbers_from_json(given["steps"], f"{name}.steps") if "steps" in given else None
    sizes = {"num_states": given["num_states"], "num_actions": given["num_actions"], "horizon": given.get("num_steps")}
    with within(name):
        return Kernel.from_triples(*lists, steps=steps, **sizes)


def _constraint_from_json(value: Any, name: str) -> Constraint:
    if isinstance(value, dict) and "cost" in value:
        given = check_keys(value, name, required=("cost", "limit"), optional=("name",))
        return AtMost(numbers_from_json(given["cost"], f"{name}.cost"), given["limit"], _label(given, name))
    given = check_keys(value, name, required=("utility", "threshold"), optional=("name",))
    return AtLeast(numbers_from_json(given["utility"], f"{name}.utility"), given["threshold"], _label(given, name))


def _label(given: dict[str, Any], name: str) -> str:
    label = given.get("name", "constraint")
    # What cannot be printed, a database may not be able to keep either.
    if not isinstance(label, str) or not label.isprintable():
        raise InvalidInput(f"{name}.name is {shown(label)}; give a text of printable characters")
    return label


def _radius_to_json(radius: Radius) -> Any:
    return {"kind": "scaled", "scale": radius.scale} if isinstance(radius, ScaledRadius) else {"kind": radius.name}


def _radius_from_json(value: Any) -> Radius:
    certified = {kind.name: kind for kind in RADII if kind is not ScaledRadius}
    if isinstance(value, dict) and value.get("kind") == ScaledRadius.name:
        return ScaledRadius(check_keys(value, "settings.radius", required=("kind", "scale"))["scale"])
    if isinstance(value, dict) and list(value) == ["kind"] and isinstance(value["kind"], str) and value["kind"] in certified:
        return certified[value["kind"]]()  # type: ignore[call-arg]
    raise InvalidInput(
        f'settings.radius is {shown(value)}; give {{"kind": one of {", ".join(certified)}}}, or '
        '{"kind": "scaled", "scale": 0.4} for a heuristic campaign'
    )


def _settings_from_json(value: Any) -> Settings:
    given = check_keys(
        value,
        "settings",
        required=_REQUIRED_SETTINGS,
        optional=tuple(name for name in _SETTINGS if name not in _REQUIRED_SETTINGS),
    )
    if "radius" in given:
        given["radius"] = _radius_from_json(given["radius"])
    if "algorithm" in given:
        known = {algorithm.value: algorithm for algorithm in Algorithm}
        if not isinstance(given["algorithm"], str) or given["algorithm"] not in known:
            raise InvalidInput(f"settings.algorithm is {shown(given['algorithm'])}; give one of {', '.join(known)}")
        given["algorithm"] = known[given["algorithm"]]
    several = isinstance(given["margin"], list)
    given["margin"] = (
        tuple(finite_number(f"margin[{k}]", xi) for k, xi in enumerate(given["margin"]))
        if several
        else finite_number("margin", given["margin"])
    )
    return Settings(**given)
