"""What counting the last state of an episode costs on the lake of docs/guarantee.md: `python docs/end_numbers.py`."""

from __future__ import annotations

import gymnasium
import numpy as np

import safe2real as s2r

FLOOR, CAREFUL = ["SFFF", "FHFH", "FFFG"], [1, 3, 1, 3, 0, 0, 1, 0, 2, 2, 2, 0]
HORIZON, SLIPPERY, SEEDS = 14, 6, 3


def episodes_to_a_plan(*, counted: bool, declared: bool, seed: int) -> int:
    """Return the episodes until a plan for the goal is certified within 5 % of the best.

    Args:
        counted: whether the state after the last move is paid for.
        declared: whether the simulator's successors are declared as the support.
        seed: of the settings.

    Returns:
        Episodes; every deployed policy was safe.
    """
    simulator, real, slick = (gymnasium.make("FrozenLake-v1", desc=FLOOR, success_rate=rate) for rate in (0.9, 0.9, 0.3))
    real.unwrapped.P[SLIPPERY] = slick.unwrapped.P[SLIPPERY]
    holes = np.array([cell == "H" for cell in "".join(FLOOR)], dtype=float)
    cost = holes if counted else np.repeat(holes[:, None], 4, axis=1)  # [S] counts the end, [S, A] does not
    system = s2r.from_gymnasium(simulator, HORIZON, s2r.SystemDescription(cost=cost, limit=0.6, ended=holes))
    trusted = s2r.MarkovPolicy.deterministic(system.per_state(CAREFUL), num_actions=4, horizon=HORIZON)
    settings = s2r.Settings(margin=0.3, calibrated_gap=0.0, mismatch_gap=0.5, tolerance=0.075, seed=seed)
    support = system.model.kernel if declared else None
    problem = s2r.Problem(system.model, trusted, settings, known=system.known, support=support)
    learner = s2r.Learner(problem, s2r.methods.ForRewards({"goal": system.where([11])}, accuracy=0.05))
    run = s2r.simulate(learner, system.kernel_of(real), max_rounds=4_000)
    assert run.stopped
    assert run.unsafe_share(system.model.thresholds) == 0.0
    return run.rounds


def main() -> None:
    for declared in (False, True):
        for counted in (False, True):
            found = [episodes_to_a_plan(counted=counted, declared=declared, seed=seed) for seed in range(SEEDS)]
            end, support = "counted" if counted else "free", "declared" if declared else "not declared"
            print(f"support {support}, the last state {end}: {min(found):,} to {max(found):,} episodes ({SEEDS} seeds)")


if __name__ == "__main__":
    main()
