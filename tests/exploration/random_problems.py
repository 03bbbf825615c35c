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
