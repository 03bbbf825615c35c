"""Random and adversarial CMDPs, and a second, plain implementation of what the compiled passes compute."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

import safe2real as s2r


@dataclass(frozen=True)
class Recipe:
    """What to build; every field is drawn separately so that failures shrink to the feature that matters."""

    seed: int
    num_states: int
    num_actions: int
    horizon: int
    constraints: int
    per_step: bool
    rows: str  # dense, sparse, deterministic, uniform, mixed, tiny
    utilities: str  # random, constant, binary, step
    threshold: str  # inactive, active, just, infeasible, random
    spread_start: bool


recipes = st.builds(
    Recipe,
    seed=st.integers(0, 2**32 - 1),
    num_states=st.integers(1, 7),
    num_actions=st.integers(1, 4),
    horizon=st.integers(1, 7),
    constraints=st.integers(0, 3),
    per_step=st.booleans(),
    rows=st.sampled_from(["dense", "sparse", "deterministic", "uniform", "mixed", "tiny", "unreachable"]),
    utilities=st.sampled_from(["random", "constant", "binary", "step"]),
    threshold=st.sampled_from(["inactive", "active", "just", "infeasible", "random"]),
    spread_start=st.booleans(),
)


def random_rows(rng: np.random.Generator, kind: str, rows: int, num_states: int) -> np.ndarray:
    """Transition rows [rows, S] of one kind."""
    if kind == "mixed":
        kinds = rng.choice(["dense", "sparse", "deterministic", "uniform", "tiny"], size=rows)
        return np.concatenate([random_rows(rng, one, 1, num_states) for one in kinds])
    if kind == "uniform":
        return np.full((rows, num_states), 1.0 / num_states)
    if kind == "deterministic":
        return np.eye(num_states)[rng.integers(num_states, size=rows)]
    weights = rng.dirichlet(np.ones(num_states), size=rows)
    if kind == "sparse":
        weights *= rng.random((rows, num_states)) < 0.5
        weights[np.arange(rows), rng.integers(num_states, size=rows)] += 0.1
    elif kind == "tiny":
        weights = np.eye(num_states)[rng.integers(num_states, size=rows)] + 1e-6 * weights
    elif kind == "unreachable":
        weights[:, num_states // 2 + 1 :] = 0.0
        weights[:, 0] += 0.1
    return weights / weights.sum(axis=1, keepdims=True)


def random_utility(rng: np.random.Generator, kind: str, shape: tuple[int, ...]) -> np.ndarray:
    if kind == "constant":
        return np.full(shape, rng.choice([0.0, 0.5, 1.0]))
    if kind == "binary":
        return (rng.random(shape) < 0.5).astype(float)
    return rng.random(shape)


def build(recipe: Recipe) -> tuple[s2r.CMDP, np.ndarray]:
    """The system and a reward."""
    rng = np.random.default_rng(recipe.seed)
    H, S, A = recipe.horizon, recipe.num_states, recipe.num_actions
    lead = (H,) if recipe.per_step else ()
    rows = random_rows(rng, recipe.rows, int(np.prod((*lead, S, A))), S)
    kernel = s2r.Kernel.from_dense(rows.reshape(*lead, S, A, S))
    shape = (H, S, A) if recipe.utilities == "step" else (S, A)
    start = rng.dirichlet(np.ones(S)) if recipe.spread_start else int(rng.integers(S))
    reward = random_utility(rng, recipe.utilities, shape)
    costs = [random_utility(rng, recipe.utilities, shape) for _ in range(recipe.constraints)]
    free = s2r.CMDP.of(kernel, H, start, [s2r.AtLeast(u, 0.0) for u in costs])
    if not costs:
        return free, reward
    return free.with_thresholds(thresholds_for(recipe.threshold, free, reward, costs, rng)), reward


def thresholds_for(kind, free, reward, costs, rng) -> np.ndarray:
    H = free.horizon
    greedy = dense_values(free, dense_greedy(free, reward), costs)
    # Values of the policy that is best for a random weighting: a point on the boundary of what can be reached at once.
    blend = rng.dirichlet(np.ones(len(costs)))
    safest = dense_values(free, dense_greedy(free, sum(b * c for b, c in zip(blend, costs, strict=True))), costs)
    if kind == "inactive":
        values = greedy - rng.random(len(costs)) * greedy
    elif kind == "active":
        values = greedy + rng.random() * (safest - greedy)
    elif kind == "just":
        values = safest
    elif kind == "infeasible":
        values = safest + rng.choice([1e-6, 0.01, 1.0]) * (H - safest)
    else:
        values = rng.random(len(costs)) * H
    return np.clip(values, 0.0, H)


def dense_rows(model: s2r.CMDP) -> np.ndarray:
    """[H, S, A, S]"""
    dense = model.kernel.to_dense()
    return np.broadcast_to(dense, (model.horizon, *dense.shape[-3:])) if dense.ndim == 3 else dense


def per_step(model: s2r.CMDP, utility) -> np.ndarray:
    return np.broadcast_to(utility, (model.horizon, model.num_states, model.num_actions))


def dense_greedy(model: s2r.CMDP, utility) -> np.ndarray:
    """Actions [H, S] by textbook backward induction."""
    P, u = dense_rows(model), per_step(model, utility)
    V = np.zeros(model.num_states)
    actions = np.empty((model.horizon, model.num_states), dtype=int)
    for h in reversed(range(model.horizon)):
        Q = u[h] + P[h] @ V
        actions[h] = Q.argmax(axis=1)
        V = Q.max(axis=1)
    return actions


def dense_maximum(model: s2r.CMDP, utility) -> float:
    """The largest expected sum of a utility, by textbook backward induction."""
    P, u = dense_rows(model), per_step(model, utility)
    V = np.zeros(model.num_states)
    for h in reversed(range(model.horizon)):
        V = (u[h] + P[h] @ V).max(axis=1)
    return float(model.start @ V)


def dense_values(model: s2r.CMDP, actions: np.ndarray, utilities) -> np.ndarray:
    """Values of several utilities under deterministic actions [H, S], by textbook evaluation."""
    P = dense_rows(model)
    states = np.arange(model.num_states)
    values = []
    for utility in utilities:
        u = per_step(model, utility)
        V = np.zeros(model.num_states)
        for h in reversed(range(model.horizon)):
            V = u[h][states, actions[h]] + P[h][states, actions[h]] @ V
        values.append(model.start @ V)
    return np.array(values)


def dense_mixture_values(model: s2r.CMDP, mixture: s2r.Mixture, utilities) -> np.ndarray:
    return sum(
        weight * dense_values(model, policy.probabilities.argmax(axis=2), utilities)
        for weight, policy in zip(mixture.weights, mixture.policies, strict=True)
    )
