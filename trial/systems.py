"""Random systems that meet every assumption, and none by more than it must.

A case is a function of (seed, number, length) alone. Its thresholds are put so that some policies miss them, the margin that
is stated is the baseline's real one to the last digit (or, in some cases, less: then the data may prove more than is
stated), and the real rows are the adversary's.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safe2real import CMDP, AtLeast, Kernel, MarkovPolicy, methods, radii
from safe2real.methods import Method
from safe2real.model.validation import Floats
from safe2real.problem.settings import Settings
from safe2real.radii import Radius
from trial.adversary import Shift, shifted
from trial.exact import dense_rows, greedy, policy_value, value_functions

DELTAS = (0.05, 0.3, 0.9)
RADII: tuple[Radius, ...] = (radii.Literal(), radii.KL(), radii.Union(), radii.Stitched(), radii.Adaptive())
_LEAST_ROOM = 0.05  # between the baseline's V_c and the least that any policy has; below it no threshold would bind
_FEW_ROWS = 60  # up to as many, plans are cheap
_EAGER = (100, 2000)  # rounds of runs that plan every round: the shortest and the longest
_SHORTEST_LAZY = 1000


class Family(StrEnum):
    """What kind of system it is."""

    COINS = "coins"
    """2 or 3 states, all rows near a fair coin: where radii are tight."""
    GATE = "gate"
    """One dangerous row, perhaps rarely reached, among rows that are mostly known: where one bad row decides."""
    SPREAD = "spread"
    """The whole range: up to 12 states, 3 actions, 8 steps, 3 constraints, rows of any shape."""


@dataclass(frozen=True, eq=False, slots=True)
class Case:
    """A system, what is said of it, and how long it is run."""

    number: int
    family: Family
    task: CMDP  # the simulator with the constraints
    real: Kernel
    baseline: MarkovPolicy
    wrong: NDArray[np.bool_]  # [S, A] or [H, S, A]
    known: NDArray[np.bool_]  # [S, A] or [H, S, A]
    support: Kernel | None
    settings: Settings
    method: Method
    margins: Floats  # [K] the real ones; those in `settings` are at most as large
    rounds: int

    def describe(self) -> dict[str, object]:
        """What tells this case from the others, for a record of failures."""
        task, settings = self.task, self.settings
        return {
            "number": self.number,
            "family": str(self.family),
            "states": task.num_states,
            "actions": task.num_actions,
            "horizon": task.horizon,
            "constraints": task.num_constraints,
            "stationary": task.kernel.is_stationary,
            "support": self.support is not None,
            "known_rows": int(self.known.sum()),
            "wrong_rows": int(self.wrong.sum()),
            "radius": settings.radius.name,
            "robust_safety": settings.robust_safety,
            "method": self.method.name,
            "replan_growth": settings.replan_growth,
            "calibrated_gap": settings.calibrated_gap,
            "mismatch_gap": settings.mismatch_gap,
            "tolerance": settings.tolerance,
            "delta": settings.delta,
            "rounds": self.rounds,
        }


@dataclass(frozen=True, eq=False, slots=True)
class _Shape:
    """The parts of a system that are drawn before its dynamics are."""

    states: int
    actions: int
    horizon: int
    rows: Floats  # [S, A, S] or [H, S, A, S], the simulator's
    start: Floats  # [S]
    utilities: Floats  # [K, H, S, A]
    known: NDArray[np.bool_]
    may_be_wrong: NDArray[np.bool_]

    @property
    def per_step(self) -> bool:
        return self.rows.ndim == 4


def draw_case(seed: int, number: int, longest: int) -> Case:
    """Case `number`: of the three deltas in turn; its run has at most `longest` rounds."""
    rng = np.random.default_rng([seed, number])
    family = Family(rng.choice(list(Family), p=[0.4, 0.3, 0.3]))
    while True:  # until a threshold can bind; nearly always at once
        case = _drawn(rng, family, number, DELTAS[number % len(DELTAS)], longest)
        if case is not None:
            return case


def _drawn(rng: np.random.Generator, family: Family, number: int, delta: float, longest: int) -> Case | None:
    shape = {Family.COINS: _coins, Family.GATE: _gate, Family.SPREAD: _spread}[family](rng)
    H, S, A = shape.horizon, shape.states, shape.actions
    calibrated_gap = float(rng.choice([0.0, *rng.uniform(0.005, 0.1, size=2)]))
    mismatch_gap = float(rng.uniform(calibrated_gap + 0.1, 0.9))
    wrong = shape.may_be_wrong & (rng.random(shape.known.shape) < rng.choice([0.0, 0.2, 0.5]))
    shift = Shift(calibrated_gap, mismatch_gap, shape.known, wrong)
    real, wrong = shifted(shape.rows, _worth(rng, shape), shift)
    truth = np.broadcast_to(real, (H, S, A, S))
    baseline = _baseline(rng, shape, truth)
    reached = np.array([policy_value(truth, shape.start, utility, baseline) for utility in shape.utilities])
    least = np.array([
        policy_value(truth, shape.start, utility, greedy(truth, -utility)) for utility in shape.utilities
    ])  # fmt: skip
    room = reached - least
    if (room < _LEAST_ROOM).any():
        return None
    thresholds = np.maximum(0.0, reached - rng.uniform(0.1, 0.9, size=room.shape) * room)
    constraints = [
        AtLeast(utility if (utility != utility[0]).any() else utility[0], float(threshold), f"c{k}")
        for k, (utility, threshold) in enumerate(zip(shape.utilities, thresholds, strict=True))
    ]
    margins = reached - thresholds
    stated = margins * rng.choice([1.0, 1.0, rng.uniform(0.1, 0.9)])
    kernel = Kernel.from_dense(shape.rows)
    lazy = bool(rng.random() < 0.6)
    reward_free = bool(rng.random() < (0.5 if family is Family.GATE else 0.3))
    return Case(
        number=number,
        family=family,
        task=CMDP.of(kernel, H, shape.start, constraints),
        real=Kernel.from_dense(real),
        baseline=MarkovPolicy.stochastic(baseline),
        wrong=wrong,
        known=shape.known,
        support=_support(rng, shape.rows, real) if rng.random() < 0.5 else None,
        settings=_settings(
            rng,
            margin=tuple(map(float, stated)),
            calibrated_gap=calibrated_gap,
            mismatch_gap=mismatch_gap,
            # Mostly so low that nothing stops, and the guarantee has to hold on.
            tolerance=min(stated, default=0.5 * H) / 4.0 * float(rng.choice([1.0, 1e-3, 1e-3, 1e-3])),
            delta=delta,
            replan_growth=float(rng.choice(_growths(shape.known.size))) if lazy else 0.0,
        ),
        method=methods.RewardFree() if reward_free else methods.SimToReal(),
        margins=margins,
        rounds=_rounds(rng, longest, lazy=lazy),
    )


def _settings(rng: np.random.Generator, **given: Any) -> Settings:
    radius, seed = RADII[rng.integers(len(RADII))], int(rng.integers(2**63))
    return (Settings.paper if rng.random() < 0.3 else Settings)(radius=radius, seed=seed, **given)


def _growths(rows: int) -> tuple[float, ...]:
    """How lazy a learner is; a large system that plans all the time would take the time of a hundred small ones."""
    return (0.05, 0.05, 0.2, 0.5, 1.0) if rows <= _FEW_ROWS else (0.5, 1.0)


def _rounds(rng: np.random.Generator, longest: int, *, lazy: bool) -> int:
    """Short runs and long ones: as many of 1,000 to 10,000 rounds as of 10,000 to 100,000."""
    low, high = (_SHORTEST_LAZY, longest) if lazy else _EAGER
    return int(np.exp(rng.uniform(np.log(min(low, longest)), np.log(min(high, longest)))))


def _worth(rng: np.random.Generator, shape: _Shape) -> Floats:
    """What the successors of a row are worth to a constraint, [S] or [H, S]: where the adversary moves mass by.

    Of the policy that does best or worst by it, or of the uniform one; now and then to the contrary, or at random, for a
    simulator may be wrong in any direction.
    """
    H, S, A = shape.horizon, shape.states, shape.actions
    kind = rng.choice(["harm", "help", "any"], p=[0.75, 0.1, 0.15])
    if kind == "any" or not len(shape.utilities):
        return rng.random((H, S) if shape.per_step else S)
    rows = dense_rows(Kernel.from_dense(shape.rows), H)
    utility = shape.utilities[rng.integers(len(shape.utilities))]
    policies = (greedy(rows, utility), greedy(rows, -utility), np.full((H, S, A), 1.0 / A))
    after = value_functions(rows, utility, policies[rng.integers(3)])[1:]
    worth = after if shape.per_step else after.mean(axis=0)
    return -worth if kind == "help" else worth


def _baseline(rng: np.random.Generator, shape: _Shape, real: Floats) -> Floats:
    """A policy [H, S, A] that is good for all constraints at once, mixed with chance, or just chance."""
    chance = np.full((shape.horizon, shape.states, shape.actions), 1.0 / shape.actions)
    if not len(shape.utilities):
        return chance
    blend = np.tensordot(rng.dirichlet(np.ones(len(shape.utilities))), shape.utilities, axes=1)
    share = rng.choice([0.02, 0.1, 0.3])
    return np.asarray((1.0 - share) * greedy(real, blend) + share * chance)


def _support(rng: np.random.Generator, rows: Floats, real: Floats) -> Kernel:
    """Every successor of either system, and now and then one that neither has."""
    possible = (rows > 0.0) | (real > 0.0) | (rng.random(rows.shape) < rng.choice([0.0, 0.2]))
    return Kernel.from_dense(possible / possible.sum(axis=-1, keepdims=True))


def _coins(rng: np.random.Generator) -> _Shape:
    states, actions, horizon = int(rng.choice([2, 2, 3])), 2, int(rng.integers(3, 5))
    lead = (horizon,) if rng.random() < 0.2 else ()
    rows = np.zeros((*lead, states, actions, states))
    for place in np.ndindex(rows.shape[:-1]):
        heads = rng.uniform(0.35, 0.65)
        rows[place][rng.choice(states, size=2, replace=False)] = heads, 1.0 - heads
    good = rng.permutation(states) / (states - 1.0)  # what a state is worth, whatever the action
    utility = np.broadcast_to(good[:, None], (horizon, states, actions))
    return _shape(rng, rows, utility[None], horizon, known_share=rng.choice([0.0, 0.5]))


def _gate(rng: np.random.Generator) -> _Shape:
    """One waits in state 0, or goes through the gate (action 1) to a good or a bad end, the last two states.

    All other rows are known but perhaps one, so that what is certified hangs on one radius. In some cases a lobby is in
    front, from which few episodes come to the gate.
    """
    lobby = bool(rng.random() < 0.3)
    states, actions, horizon = 3 + lobby, int(rng.choice([2, 2, 3])), int(rng.integers(3, 6))
    good, bad = states - 2, states - 1
    rows = np.zeros((states, actions, states))
    rows[0, :, 0] = rows[good, :, good] = rows[bad, :, bad] = 1.0
    danger = rng.uniform(0.3, 0.7)
    rows[0, 1] = 0.0
    rows[0, 1, [good, bad]] = 1.0 - danger, danger
    if lobby:
        arrives = rng.choice([0.3, 0.1, 0.03])
        rows[1, :, [0, good]] = np.array([[arrives], [1.0 - arrives]])
    utility = np.ones((horizon, states, actions))
    utility[:, 0] = rng.choice([0.5, 1.0])
    utility[:, bad] = 0.0
    known = np.ones((states, actions), dtype=np.bool_)
    known[0, 1] = False
    known[rng.integers(states), 0] = rng.random() < 0.5
    may_be_wrong = ~known & (np.arange(states) == 0)[:, None] & (np.arange(actions) == 1)
    return _Shape(states, actions, horizon, rows, np.eye(states)[1 if lobby else 0], utility[None], known, may_be_wrong)


def _spread(rng: np.random.Generator) -> _Shape:
    states, actions, horizon = int(rng.integers(2, 13)), int(rng.integers(2, 4)), int(rng.integers(3, 9))
    lead = (horizon,) if rng.random() < 0.4 else ()
    rows = np.zeros((*lead, states, actions, states))
    most = int(rng.integers(2, min(states, 4) + 1))
    for place in np.ndindex(rows.shape[:-1]):
        successors = rng.choice(states, size=rng.integers(1, most + 1), replace=False)
        rows[place][successors] = rng.dirichlet(np.full(successors.size, rng.choice([0.5, 5.0])))
    constraints = int(rng.integers(0, 4))
    steps = horizon if rng.random() < 0.3 else 1
    utilities = rng.random((constraints, steps, states, actions))
    if rng.random() < 0.5:
        utilities = np.where(utilities < 0.3, 0.0, 1.0)
    utilities = np.broadcast_to(utilities, (constraints, horizon, states, actions))
    return _shape(rng, rows, utilities, horizon, known_share=rng.choice([0.0, 0.0, 0.4, 0.8]))


def _shape(rng: np.random.Generator, rows: Floats, utilities: Floats, horizon: int, *, known_share: float) -> _Shape:
    states, actions = rows.shape[-1], rows.shape[-2]
    start = rng.dirichlet(np.ones(states)) if rng.random() < 0.4 else np.eye(states)[rng.integers(states)]
    known = rng.random(rows.shape[:-1]) < known_share
    return _Shape(states, actions, horizon, rows, start, utilities, known, np.ones(known.shape, dtype=np.bool_))
