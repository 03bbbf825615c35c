"""Small random simulators with a reality that differs in some rows."""

import numpy as np

import safe2real as s2r
from safe2real import radii
from safe2real.problem.settings import Settings


def random_problem(seed: int, *, per_step: bool, constraints: int = 1):
    """A small simulator, a reality that differs in some rows, a uniform baseline with a known margin."""
    rng = np.random.default_rng(seed)
    H, S, A = 4, 5, 3
    lead = (H,) if per_step else ()
    simulator = rng.dirichlet(np.full(S, 0.4), size=(*lead, S, A))
    real = simulator.copy()
    wrong = rng.random((*lead, S, A)) < 0.3
    real[wrong] = rng.dirichlet(np.full(S, 0.4), size=int(wrong.sum()))
    baseline = s2r.MarkovPolicy.uniform(horizon=H, num_states=S, num_actions=A)
    utilities = rng.random((constraints, S, A))
    free = s2r.CMDP.of(s2r.Kernel.from_dense(real), H, 0, [s2r.AtLeast(u, 0.0) for u in utilities])
    values = s2r.planning.constraint_values(free, baseline)
    limits = [s2r.AtLeast(u, float(v - 0.3)) for u, v in zip(utilities, values, strict=True)]
    return s2r.CMDP.of(s2r.Kernel.from_dense(simulator), H, 0, limits), s2r.Kernel.from_dense(real), baseline


def settings_for(seed=0, **changes):
    base = {
        "margin": 0.3,
        "calibrated_gap": 0.0,
        "mismatch_gap": 0.3,
        "tolerance": 0.2,
        "seed": seed,
        "radius": radii.Scaled(0.25),
        "bonus_scale": 0.1,
    }
    return Settings.paper(**(base | changes))


def quick(**changes):
    """Constants with which rows are cleared within a few hundred rounds."""
    base = {
        "margin": 0.3,
        "calibrated_gap": 0.02,
        "mismatch_gap": 0.4,
        "tolerance": 0.02,
        "radius": radii.Scaled(0.2),
        "bonus_scale": 0.1,
        "replan_growth": 0.2,
    }
    return Settings(**(base | changes))


def sparse_problem(seed: int, *, per_step: bool, constraints: int = 1):
    """Simulator rows of two successors, real rows of many: segments overflow while a run goes on."""
    rng = np.random.default_rng(seed)
    H, S, A = 3, 40, 2
    lead = (H,) if per_step else ()
    simulator = np.zeros((*lead, S, A, S))
    for index in np.ndindex(*lead, S, A):
        simulator[index][rng.choice(S, size=2, replace=False)] = 0.5
    real = 0.99 * simulator + 0.01 / S
    wrong = rng.random((*lead, S, A)) < 0.4
    real[wrong] = rng.dirichlet(np.full(S, 0.6), size=int(wrong.sum()))
    real[..., 0, :, :] = rng.dirichlet(np.full(S, 5.0), size=real[..., 0, :, 0].shape)  # where every episode begins
    baseline = s2r.MarkovPolicy.uniform(horizon=H, num_states=S, num_actions=A)
    utilities = rng.random((constraints, S, A))
    free = s2r.CMDP.of(s2r.Kernel.from_dense(real), H, 0, [s2r.AtLeast(u, 0.0) for u in utilities])
    truth = free.with_thresholds(s2r.planning.constraint_values(free, baseline) - 0.3)
    return truth.with_kernel(s2r.Kernel.from_dense(simulator)), truth.kernel, baseline


def hub(horizon=2):
    """State 0 leads to 59 others, each of which leads back: a segment overflows at the first visit to a new state.

    A row like those of the 59 is cleared by its first visit, so the row that makes a plan due is cleared in the episode that
    makes a segment move.
    """
    S = 60
    simulator = np.zeros((S, 1, S))
    simulator[0, 0, 1] = simulator[1:, 0, 0] = 1.0
    real = simulator.copy()
    real[0, 0] = [0.0, *[1.0 / (S - 1)] * (S - 1)]
    model = s2r.CMDP.of(s2r.Kernel.from_dense(simulator), horizon, 0)
    baseline = s2r.MarkovPolicy.uniform(horizon=horizon, num_states=S, num_actions=1)
    settings = Settings(
        margin=1.0,
        calibrated_gap=0.0,
        mismatch_gap=0.9,
        tolerance=1e-4,
        radius=radii.Scaled(0.02),
        span_bonus=False,
        replan_growth=1.0,
    )
    return model, s2r.Kernel.from_dense(real), baseline, settings
