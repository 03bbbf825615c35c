"""Ranges of sums: those of every path that is possible, by trying them all; narrower ranges need fewer rollouts."""

from __future__ import annotations

import itertools

import gymnasium
import numpy as np
import pytest

import safe2real as s2r
from safe2real.errors import InvalidInput
from safe2real.systems.measure import estimate_margin, spans

S, A, H = 3, 2, 3


def by_paths(model: s2r.CMDP, follows: np.ndarray) -> list[tuple[float, float]]:
    """`follows` [H, S, A, S] says what is possible."""
    sums: list[list[float]] = []
    utilities = np.broadcast_to(model.utilities, (model.num_constraints, *model.shape))
    for path in itertools.product(range(S), range(A), repeat=model.horizon):
        states, actions = path[0::2], path[1::2]
        if all(follows[h, states[h], actions[h], states[h + 1]] for h in range(model.horizon - 1)):
            sums.append([sum(u[h, states[h], actions[h]] for h in range(model.horizon)) for u in utilities])
    return [(min(one), max(one)) for one in zip(*sums, strict=True)]


@pytest.mark.parametrize("per_step", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_ranges_are_those_of_the_paths_that_are_possible(seed: int, per_step: bool) -> None:
    rng = np.random.default_rng(seed)
    shape = (H, S, A) if per_step else (S, A)
    make = lambda: rng.dirichlet(np.ones(S), shape) * (rng.random((*shape, S)) < 0.6) + np.eye(S)[0] * 1e-3  # noqa: E731
    rows, declared = ((one / one.sum(axis=-1, keepdims=True)) for one in (make(), make()))
    constraints = [s2r.AtLeast(rng.random((H, S, A)), 0.0, "a"), s2r.AtMost(rng.random((S, A)), H, "b")]
    model = s2r.CMDP.of(s2r.Kernel.from_dense(rows), H, 0, constraints)
    known, support = rng.random(shape) < 0.5, s2r.Kernel.from_dense(declared)
    everywhere, exact, said = np.ones((*shape, S), dtype=bool), rows > 0.0, declared > 0.0
    for options, follows in (
        ({}, everywhere),
        ({"known": known}, np.where(known[..., None], exact, everywhere)),
        ({"support": support}, said),
        ({"known": known, "support": support}, np.where(known[..., None], exact, said)),
    ):
        expected = by_paths(model, np.broadcast_to(follows, (H, S, A, S)))
        assert np.array(spans(model, **options)) == pytest.approx(np.array(expected))


def fell(state: int, action: int, after: int, reward: float, over: bool) -> bool:
    return over and not reward


LAKE = gymnasium.make("FrozenLake-v1", max_episode_steps=20)
SYSTEM = s2r.from_gymnasium(LAKE, 20, s2r.SystemDescription(cost=fell, limit=0.8, ended=0, name="falls"))
CAREFUL = s2r.MarkovPolicy.deterministic(
    SYSTEM.per_state([0, 3, 3, 3, 0, 0, 0, 0, 3, 1, 0, 0, 0, 2, 1, 0]), num_actions=4, horizon=20
)


def test_what_ends_an_episode_costs_at_most_once() -> None:
    model = SYSTEM.model
    assert spans(model) == [(0.0, 21.0)]
    assert spans(model, known=SYSTEM.known) == [(20.0, 21.0)]


def test_far_fewer_rollouts_confirm_a_margin() -> None:
    model = SYSTEM.model
    seen = SYSTEM.rollout(CAREFUL, LAKE, 40, seed=3)
    wide = estimate_margin(model, seen.trajectories, delta=0.05)
    narrow = estimate_margin(model, seen.trajectories, delta=0.05, known=SYSTEM.known)
    truth = float(s2r.planning.constraint_values(model, CAREFUL)[0])
    assert wide.lower_bounds[0] < narrow.lower_bounds[0] <= truth <= narrow.upper_bounds[0]
    assert wide.margins[0] < 0.0 < narrow.margins[0]
    # `rollout` knows by itself what the system knows by construction.
    assert seen.constraints[0].high - seen.constraints[0].low < 0.6


def test_what_is_declared_and_contradicted_is_refused() -> None:
    rows = np.zeros((2, 1, 2))
    rows[:, 0, 1] = 1.0
    model = s2r.CMDP.of(s2r.Kernel.from_dense(rows), 3, 0, s2r.AtMost([1.0, 0.0], 3.0, "there"))
    stayed = s2r.Trajectory.of(model, [0, 0, 0, 0], [0, 0, 0])
    assert estimate_margin(model, [stayed], delta=0.1).margins[0] <= 0.0
    for declared in ({"known": np.ones((2, 1), dtype=bool)}, {"support": model.kernel}):
        with pytest.raises(InvalidInput, match=r"episodes\[0\] has a sum of 0 of constraint 0.*\[2, 3\].*leave them out"):
            estimate_margin(model, [stayed], delta=0.1, **declared)
    with pytest.raises(InvalidInput, match=r"known has shape \(2,\) and type float64"):
        spans(model, known=np.ones(2))
    with pytest.raises(InvalidInput, match=r"support has rows of shape \(3, 1\)"):
        spans(model, support=s2r.Kernel.from_dense(np.full((3, 1, 3), 1 / 3)))
