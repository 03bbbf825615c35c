"""Random systems that meet every assumption, and none by more than it must.

A case is a function of (seed, part, number, length) alone. Its thresholds are put so that some policies miss them. The
margin that is stated is the baseline's real one to the last digit, or less in some cases, in which the data may
prove more. The real rows are the adversary's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safe2real import CMDP, AtLeast, Kernel, MarkovPolicy, Problem, methods, radii, refinements
from safe2real.methods import Method
from safe2real.model.validation import Floats
from safe2real.problem import Settings, Ties
from safe2real.radii import Radius
from safe2real.refinements import Refinement
from trial.adversary import Shift, moved_row, shifted
from trial.exact import dense_rows, greedy, policy_value, value_functions
from trial.parts import Part

DELTAS = (0.05, 0.3, 0.9)
RADII: tuple[Radius, ...] = (radii.Literal(), radii.KL(), radii.Union(), radii.Stitched(), radii.Adaptive())
_LEAST_ROOM = 0.05  # between the baseline's V_c and the least that any policy has; below it no threshold would bind
_FEW_ROWS = 60  # up to as many, plans are cheap
_EAGER = (100, 2000)  # rounds of runs that plan every round: the shortest and the longest
_SHORTEST_LAZY = 1000
_ASKED = (20, 100)  # episodes of the runs that are not compiled


class Family(StrEnum):
    """What kind of system it is."""

    COINS = "coins"
    """2 or 3 states, all rows near a fair coin: where radii are tight."""
    GATE = "gate"
    """One dangerous row, perhaps rarely reached, among rows that are mostly known: where one bad row decides."""
    SPREAD = "spread"
    """The whole range: up to 12 states, 3 actions, 8 steps, 3 constraints, rows of any shape."""
    TIED = "tied"
    """Rows of a few classes, each of which shares one law over outcomes; the learner is told so. Never compiled."""
    WIDE = "wide"
    """One state with up to 60 successors, from which a log can be both simulator and data."""


_SHARES = {
    Part.LONG: {Family.COINS: 0.4, Family.GATE: 0.3, Family.SPREAD: 0.3},
    Part.ASKED: {Family.COINS: 0.3, Family.GATE: 0.1, Family.SPREAD: 0.1, Family.TIED: 0.5},
    Part.FITTED: {Family.WIDE: 1.0},
}
_SHORT = {Family.COINS: 0.6, Family.GATE: 0.25, Family.SPREAD: 0.15}


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
    within: Floats | None  # [S, A] or [H, S, A] the real distances where they are stated, 1 elsewhere
    ties: Ties | None
    settings: Settings
    method: Method
    margins: Floats  # [K] the real ones; those in `settings` are at most as large
    rounds: int

    @property
    def problem(self) -> Problem:
        """What the library is told."""
        return Problem(
            self.task,
            self.baseline,
            self.settings,
            known=self.known,
            support=self.support,
            within=self.within,
            ties=self.ties,
        )

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
            "counts_end": task.counts_end,
            "support": self.support is not None,
            "within": self.within is not None,
            "ties": self.ties is not None,
            "known_rows": int(self.known.sum()),
            "wrong_rows": int(self.wrong.sum()),
            "radius": settings.radius.name,
            "refinements": [one.name for one in settings.refinements],
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
    ties: Ties | None = None

    @property
    def per_step(self) -> bool:
        return self.rows.ndim == 4


def draw_case(
    seed: int,
    number: int,
    longest: int,
    part: Part = Part.LONG,
    *,
    family: Family | None = None,
    false_ties: bool = False,
) -> Case:
    """Case `number` of a part: of the three deltas in turn; its run has at most `longest` rounds.

    It is of a `family` if one is given. With `false_ties` the real rows of one class are moved each for itself, so that
    they share no law.
    """
    rng = np.random.default_rng([seed, number] if part is Part.LONG else [seed, number, list(Part).index(part)])
    shares = _SHARES.get(part, _SHORT)
    kind = family or Family(rng.choice(list(shares), p=list(shares.values())))
    while True:  # until a threshold can bind; nearly always at once
        case = _drawn(rng, part, kind, number, longest, false_ties=false_ties)
        if case is not None and (case.task.num_constraints or part not in (Part.POLICY, Part.CAMPAIGN)):
            return case


def _drawn(
    rng: np.random.Generator, part: Part, family: Family, number: int, longest: int, *, false_ties: bool
) -> Case | None:
    drawn = {Family.COINS: _coins, Family.GATE: _gate, Family.SPREAD: _spread, Family.TIED: _tied, Family.WIDE: _wide}
    shape = drawn[family](rng)
    counts_end = not shape.per_step and family is not Family.WIDE and bool(rng.random() < 0.25)
    if counts_end:
        utilities = np.array(shape.utilities)
        utilities[:, -1] = utilities[:, -1, :, :1]  # nothing is done at the end
        shape = replace(shape, utilities=utilities)
    H, S, A = shape.horizon, shape.states, shape.actions
    calibrated_gap = 0.0 if family is Family.WIDE else float(rng.choice([0.0, *rng.uniform(0.005, 0.1, size=2)]))
    mismatch_gap = float(rng.uniform(calibrated_gap + 0.1, 0.9))
    share = 0.5 if false_ties else rng.choice([0.0, 0.2, 0.5])
    wrong = shape.may_be_wrong & (rng.random(shape.known.shape) < share)
    shift = Shift(calibrated_gap, mismatch_gap, shape.known, wrong)
    if shape.ties is not None and not false_ties:
        real, wrong = _shifted_laws(rng, shape.ties, shape.rows, shift)
    else:
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
    settings = _settings(
        rng,
        margin=tuple(map(float, stated)),
        calibrated_gap=calibrated_gap,
        mismatch_gap=mismatch_gap,
        # Mostly so low that nothing stops, and the guarantee has to hold on.
        tolerance=min(stated, default=0.5 * H) / 4.0 * float(rng.choice([1.0, 1e-3, 1e-3, 1e-3])),
        delta=DELTAS[number % len(DELTAS)],
        replan_growth=float(rng.choice(_growths(shape.known.size))) if lazy else 0.0,
    )
    within = _within(rng, shape.rows, real) if shape.ties is None and rng.random() < 0.25 else None
    return Case(
        number=number,
        family=family,
        task=CMDP.of(kernel, H - counts_end, shape.start, constraints, counts_end=counts_end),
        real=Kernel.from_dense(real),
        baseline=MarkovPolicy.stochastic(baseline),
        wrong=wrong,
        known=shape.known,
        support=_support(rng, shape.rows, real) if rng.random() < 0.5 else None,
        within=within,
        ties=shape.ties,
        settings=settings,
        method=_method(rng, part, family, shape, settings),
        margins=margins,
        rounds=_rounds(rng, longest, lazy=lazy) if part is Part.LONG else int(rng.integers(*_ASKED)),
    )


def _method(rng: np.random.Generator, part: Part, family: Family, shape: _Shape, settings: Settings) -> Method:
    """Algorithm 1 or 2; where rounds are not compiled the other methods, too."""
    any_reward = methods.RewardFree() if rng.random() < (0.5 if family is Family.GATE else 0.3) else methods.SimToReal()
    if part in (Part.LONG, Part.POLICY) or rng.random() < 0.4:
        return any_reward
    reward = rng.random((shape.states, shape.actions))
    if rng.random() < 0.5:
        table = rng.dirichlet(np.full(shape.actions, 0.5), size=(shape.horizon, shape.states))
        return methods.Trial(MarkovPolicy.stochastic(table), {"reward": reward})
    if not settings.robust_safety:
        return any_reward
    accuracy = float(rng.choice([0.02, 0.3]))
    return methods.ForRewards({"reward": reward}, accuracy=accuracy)


def _settings(rng: np.random.Generator, **given: Any) -> Settings:
    """The paper's, the defaults, or any refinements."""
    radius, seed = RADII[rng.integers(len(RADII))], int(rng.integers(2**63))
    kind = rng.random()
    if kind < 0.25:
        return Settings.paper(radius=radius, seed=seed, **given)
    if kind < 0.6:
        return Settings(radius=radius, seed=seed, **given)
    used = _refinements(rng, given["mismatch_gap"] / max(given["calibrated_gap"], 1e-3))
    flags = {"span_bonus": bool(rng.random() < 0.5), "robust_safety": bool(rng.random() < 0.7)}
    return Settings(radius=radius, seed=seed, refinements=used, **flags, **given)


def _refinements(rng: np.random.Generator, most: float) -> tuple[Refinement, ...]:
    """Any of them; a protection is at most `most`. The chain needs the balls of likelihood."""
    clearing = [None, refinements.BelowGap, refinements.SequentialClearing][rng.integers(3)]
    used: list[Refinement] = [] if clearing is None else [clearing(float(rng.choice([1.0, min(2.0, most)])))]
    used += [kind() for kind in (refinements.NearSets, refinements.OpenRows) if rng.random() < 0.5]
    if rng.random() < 0.5:
        used += [refinements.LikelihoodBalls(), *([refinements.Chain()] if rng.random() < 0.7 else [])]
    return tuple(used)


def _within(rng: np.random.Generator, rows: Floats, real: Floats) -> Floats:
    """The real distances of some rows, to the last digit; nothing is said of the others."""
    distances = np.minimum(1.0, 0.5 * np.abs(rows - real).sum(axis=-1) + 1e-12)
    return np.where(rng.random(distances.shape) < 0.5, distances, 1.0)


def _shifted_laws(rng: np.random.Generator, ties: Ties, rows: Floats, shift: Shift) -> tuple[Floats, NDArray[np.bool_]]:
    """(the real rows, which are wrong): each class's law is moved as a whole, so that the ties are true."""
    real, wrong = rows.copy(), np.zeros(shift.wrong.shape, dtype=np.bool_)
    classes, successors = np.asarray(ties.classes), np.asarray(ties.successors)
    for number in range(ties.num_classes):
        places = np.argwhere(classes == number)
        first = tuple(places[0])
        law, worth = rows[first][successors[first]], rng.random(ties.num_labels)
        far = moved_row(law, worth, shift.mismatch_gap) if shift.wrong[first] else None
        near = moved_row(law, worth, shift.calibrated_gap) if far is None else far
        for place in map(tuple, places):
            wrong[place] = far is not None
            if near is not None:
                real[place] = 0.0
                real[place][successors[place]] = near
    return real, wrong


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


def _tied(rng: np.random.Generator) -> _Shape:
    """Each row is of one of a few classes; a class is a law over labels, each of which leads to a successor of its own."""
    states, actions, horizon = int(rng.integers(2, 5)), 2, int(rng.integers(3, 6))
    labels = int(rng.integers(2, min(states, 3) + 1))
    classes = rng.integers(rng.integers(1, 4), size=(states, actions))
    classes = np.unique(classes, return_inverse=True)[1].reshape(states, actions)
    laws = rng.dirichlet(np.full(labels, 3.0), size=int(classes.max()) + 1)
    rows, successors = np.zeros((states, actions, states)), np.zeros((states, actions, labels), dtype=np.int64)
    for place in np.ndindex(classes.shape):
        successors[place] = rng.permutation(states)[:labels]
        rows[place][successors[place]] = laws[classes[place]]
    good = rng.permutation(states) / (states - 1.0)
    utility = np.broadcast_to(good[:, None], (horizon, states, actions))
    shape = _shape(rng, rows, utility[None], horizon, known_share=0.0)
    return replace(shape, ties=Ties(classes, successors, exact=True))


def _wide(rng: np.random.Generator) -> _Shape:
    """From state 0 to any of the others, where it stays; only what state 0 does is in doubt."""
    states, actions, horizon = int(rng.integers(20, 61)), 2, 3
    rows = np.zeros((states, actions, states))
    rows[np.arange(states), :, np.arange(states)] = 1.0
    rows[0, :, 0] = 0.0
    rows[0, :, 1:] = rng.dirichlet(np.full(states - 1, 5.0), size=actions)
    utility = np.broadcast_to(rng.random((states, 1)), (horizon, states, actions))
    known = np.ones((states, actions), dtype=np.bool_)
    known[0] = False
    return _Shape(states, actions, horizon, rows, np.eye(states)[0], utility[None], known, np.zeros_like(known))
