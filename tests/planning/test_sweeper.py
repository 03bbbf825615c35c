"""The search with somebody else's sweeps: a plain sweeper in NumPy gives what the compiled one gives."""

from collections.abc import Sequence

import numpy as np
import pytest

import safe2real as s2r
from safe2real.planning.solve import solve_by
from safe2real.planning.sweeper import LANES, slots_for
from tests.planning.test_solve import fixed_recipe
from tests.random_models import Recipe, build


class PlainSweeper:
    """Backward induction in NumPy, one weighting after the other; it notes what it was asked."""

    def __init__(self, model: s2r.CMDP, objective: np.ndarray) -> None:
        H, S, A = model.shape
        self.shape, self.start = model.shape, model.start
        dense = model.kernel.to_dense()
        self.rows = dense if dense.ndim == 4 else np.broadcast_to(dense, (H, S, A, S))
        tables = [objective, *model.utilities]
        self.tables = np.stack([np.broadcast_to(table, (H, S, A)) for table in tables])  # [1 + K, H, S, A]
        self.actions = np.zeros((slots_for(model.num_constraints), H, S), dtype=np.uint32)
        self.passes = 0

    def sweep(self, weights: np.ndarray, slots: np.ndarray, lines: np.ndarray, pair: tuple[int, int] | None) -> None:
        assert len(weights) == len(slots) == LANES
        assert pair is None
        self.passes += 1
        for row, slot in zip(weights, slots.tolist(), strict=True):
            lines[slot] = self._one(row, slot, 0.0)

    def break_ties(self, slot: int, tie: float, lines: np.ndarray) -> None:
        assert len(self.tables) == 2
        self.passes += 1
        lines[slot] = self._one(np.array([0.0, 1.0]), slot, tie)

    def _one(self, weights: np.ndarray, slot: int, tie: float) -> np.ndarray:
        values = np.zeros((len(self.tables), self.shape[1]))
        for h in range(self.shape[0] - 1, -1, -1):
            q = self.tables[:, h] + np.einsum("sat,kt->ksa", self.rows[h], values)
            weighted = np.einsum("k,ksa->sa", weights, q)
            good = weighted >= weighted.max(axis=1, keepdims=True) - tie
            chosen = np.where(good, q[0], -np.inf).argmax(axis=1) if tie else weighted.argmax(axis=1)
            self.actions[slot, h] = chosen
            values = q[:, np.arange(self.shape[1]), chosen]
        return values @ self.start

    def narrow_to(self, one: int, other: int) -> bool:
        return False

    def evaluate(self, slot: int, lines: np.ndarray) -> None:
        values = np.zeros((len(self.tables), self.shape[1]))
        for h in range(self.shape[0] - 1, -1, -1):
            q = self.tables[:, h] + np.einsum("sat,kt->ksa", self.rows[h], values)
            values = q[:, np.arange(self.shape[1]), self.actions[slot, h]]
        lines[slot] = values @ self.start

    def put(self, slot: int, actions: np.ndarray) -> None:
        self.actions[slot] = actions

    def take(self, slots: Sequence[int]) -> np.ndarray:
        return self.actions[list(slots)]


@pytest.mark.parametrize("start", ["cold", "warm"])
def test_another_sweeper_finds_the_same(start: str) -> None:
    seen = set()
    for seed in range(120):
        model, reward = build(fixed_recipe(seed))
        objective = np.asarray(reward, dtype=float).reshape(-1, *model.shape[1:])
        solution = s2r.solve(model, reward)
        warm = s2r.solve(model, 1.0 - reward) if start == "warm" else None
        sweeper = PlainSweeper(model, objective)
        found = solve_by(sweeper, model, objective, warm=warm)
        assert found.sweeps == sweeper.passes
        assert found.status is solution.status, seed
        assert found.shortfall == pytest.approx(solution.shortfall, abs=1e-9)
        if found.is_feasible:
            # INACCURATE: at the edge of what is possible other roundings give other values, but within both bounds.
            exact = 1e-9 if found.status is not s2r.planning.Status.INACCURATE else solution.bound - solution.value
            assert found.value == pytest.approx(solution.value, abs=exact)
            assert found.bound == pytest.approx(solution.bound, abs=exact)
            worth = s2r.evaluate(model, found.policy, reward)
            assert worth == pytest.approx(found.value, abs=1e-9)
        seen.add((model.num_constraints, found.status.name))
    assert seen >= {(constraints, status) for constraints in (1, 2, 3) for status in ("OPTIMAL", "INFEASIBLE")}


@pytest.mark.parametrize("constraints", [1, 2, 3])
def test_a_warm_start_saves_passes(constraints: int) -> None:
    model, reward = build(Recipe(1, 12, 4, 8, constraints, False, "dense", "random", "active", False))
    cold = solve_by(PlainSweeper(model, reward[None]), model, reward[None])
    again = solve_by(PlainSweeper(model, reward[None]), model, reward[None], warm=cold)
    assert again.value == pytest.approx(cold.value, abs=1e-9)
    assert again.sweeps <= cold.sweeps / 2
