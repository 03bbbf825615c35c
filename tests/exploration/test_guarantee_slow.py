"""The statistical claims with literal constants, over fixed seeds (make slow)."""

import numpy as np
import pytest

import safe2real as s2r
from safe2real.exploration import Learner, simulate
from safe2real.problem.problem import Problem
from safe2real.problem.settings import Settings

pytestmark = pytest.mark.slow


def small_problem(seed: int, per_step: bool):
    """S = 3, A = 2, H = 2: some rows of the real system differ from the simulator by at least 0.6, the others not at all."""
    rng = np.random.default_rng(seed)
    H, S, A = 2, 3, 2
    lead = (H,) if per_step else ()
    simulator = rng.dirichlet(np.full(S, 0.3), size=(*lead, S, A))
    real = simulator.copy()
    mismatch = np.zeros((*lead, S, A), dtype=bool)
    for index in np.argwhere(rng.random((*lead, S, A)) < 0.35):
        candidates = rng.dirichlet(np.full(S, 0.3), size=200)
        far = candidates[0.5 * np.abs(candidates - simulator[tuple(index)]).sum(axis=1) >= 0.6]
        if len(far):
            real[tuple(index)] = far[0]
            mismatch[tuple(index)] = True
    safety = rng.random((S, A))
    # The baseline takes the safer action 85 % of the time; its margin is exact on the real system.
    truth = s2r.CMDP.of(s2r.Kernel.from_dense(real), H, 0, s2r.AtLeast(safety, 0.0))
    greedy = s2r.solve(truth, safety).policy.policies[0]
    table = 0.85 * greedy.probabilities + 0.15 / A
    baseline = s2r.MarkovPolicy.stochastic(table)
    margin = 0.5
    limit = float(s2r.planning.constraint_values(truth, baseline)[0]) - margin
    if limit <= 0.0:
        return None
    model = s2r.CMDP.of(s2r.Kernel.from_dense(simulator), H, 0, s2r.AtLeast(safety, limit))
    return model, s2r.Kernel.from_dense(real), baseline, mismatch, margin


def test_100_literal_runs_keep_every_promise():
    runs = 0
    samples = []
    for seed in range(1000):
        problem = small_problem(seed, per_step=seed % 2 == 1)
        if problem is None:
            continue
        model, real, baseline, mismatch, margin = problem
        settings = Settings.paper(
            margin=margin, calibrated_gap=0.0, mismatch_gap=0.6, tolerance=margin / 4, delta=0.1, seed=seed
        )
        learner = Learner(Problem(model, baseline, settings), trust_margin=True)  # the margin is that on the real system
        run = simulate(learner, real, max_rounds=2_000_000)
        assert run.stopped
        assert run.unsafe_share(model.thresholds) == 0.0
        assert learner.evidence.suspects[mismatch].all()
        truth = model.with_kernel(real)
        rng = np.random.default_rng(seed)
        for _ in range(20):
            reward = rng.random((model.horizon, model.num_states, model.num_actions))
            plan = learner.plan(reward)
            assert plan.certificate.certified
            assert plan.certificate.holds
            assert (s2r.planning.constraint_values(truth, plan.policy) >= model.thresholds - 1e-9).all()
            gap = s2r.solve(truth, reward).value - s2r.evaluate(truth, plan.policy, reward)
            assert gap <= plan.suboptimality
        runs += 1
        samples.append(run.samples)
        if runs == 100:
            break
    assert runs == 100
    print(f"samples to the certified stop: median {np.median(samples):.0f}, largest {max(samples)}")
