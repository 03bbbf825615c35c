"""docs/comparison-proofs.md on random rows: given KL(p, q) <= x in every row, W bounds the error of every policy's value."""

import numpy as np

from experiments.related.clipped import clipped_maximum, clipped_value
from safe2real import Kernel, MarkovPolicy
from safe2real.model.cmdp import CMDP
from safe2real.planning import evaluate

STATES, ACTIONS, HORIZON = 4, 2, 5


def pair(rng, furthest):
    """(model on p, reality q, x [S, A]): x is the KL distance itself, so the event of the proof holds with equality."""
    q = rng.dirichlet(np.full(STATES, 0.5), size=(STATES, ACTIONS)) + 1e-6
    q /= q.sum(axis=-1, keepdims=True)
    share = 10.0 ** rng.uniform(-4.0, np.log10(furthest), size=(STATES, ACTIONS, 1))
    p = (1.0 - share) * q + share * rng.dirichlet(np.full(STATES, 0.3), size=(STATES, ACTIONS))
    kl = (p * np.log(np.maximum(p, 1e-300) / q)).sum(axis=-1)
    return *(CMDP.of(Kernel.from_dense(rows), HORIZON, 0, []) for rows in (p, q)), np.maximum(kl, 0.0)


def test_the_bound_holds_with_its_fifteen():
    said_something, clipped = 0, 0
    for seed in range(200):
        rng = np.random.default_rng([seed, 3])
        model, reality, x = pair(rng, (1e-3, 1e-2, 1e-1, 1.0)[seed % 4])
        bonus, gain = 15.0 * HORIZON**2 * x, 1.0 + 1.0 / HORIZON
        largest = clipped_maximum(model, bonus, gain=gain, cap=float(HORIZON)).value
        for _ in range(5):
            policy = MarkovPolicy.stochastic(rng.dirichlet(np.ones(ACTIONS), size=(HORIZON, STATES)))
            reward = (rng.random((HORIZON, STATES, ACTIONS)) < 0.5).astype(float)
            w = clipped_value(model, policy, bonus, gain=gain, cap=float(HORIZON))
            off = abs(evaluate(model, policy, reward) - evaluate(reality, policy, reward))
            assert off <= 3.0 * np.e * np.sqrt(w / 15.0) + w
            assert w <= largest + 1e-12
            said_something += 3.0 * np.e * np.sqrt(w / 15.0) + w < HORIZON
            clipped += w < HORIZON - 1e-9 and bonus.max() > HORIZON
    assert min(said_something, clipped) > 100


def test_one_row_at_a_time():
    """|p f - q f| <= 2 sqrt(Var_p(f) x) + 2.65 H x, the step that the constants come from."""
    rng = np.random.default_rng(0)
    tightest = 0.0
    for _ in range(4_000):
        q = rng.dirichlet(np.full(3, 0.5)) + 1e-9
        q /= q.sum()
        p = (1.0 - (share := 10.0 ** rng.uniform(-4, 0))) * q + share * rng.dirichlet(np.full(3, 0.3))
        f = HORIZON * rng.random(3)
        x = float((p * np.log(np.maximum(p, 1e-300) / q)).sum())
        bound = 2.0 * np.sqrt(max(0.0, float(p @ f**2 - (p @ f) ** 2)) * max(x, 0.0)) + 2.65 * HORIZON * max(x, 0.0)
        tightest = max(tightest, abs(p @ f - q @ f) / max(bound, 1e-12) if x > 1e-9 else 0.0)
    assert 0.3 < tightest <= 1.0
