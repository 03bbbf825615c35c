"""A pond in four seasons, made by `from_dynamics`: how levels change is known, how much it rains in a season is not.

A state is (level 0 .. 5, season), an action is how much is let out, 0 to 2, the noise is the rain, 0 to 2, and its class is
the season. An episode is two years. The pond is flooded at its highest level, where all the rain that does not fit looks
alike; what is wanted is water in store. The simulator has one law wrong: in spring the snow melts.
"""

from __future__ import annotations

import numpy as np

from experiments.studies.instance import Instance
from safe2real.model.kernel import Kernel
from safe2real.model.policy import MarkovPolicy
from safe2real.planning.evaluate import constraint_values
from safe2real.systems.dynamics import Dynamics, Noise, from_dynamics
from safe2real.systems.finite import SystemDescription

State = tuple[int, int]  # level, season
Law = tuple[float, float, float]  # probabilities of rain 0, 1, 2
HIGHEST, MOST_OUT, HORIZON = 5, 2, 8
SEASONS = ("winter", "spring", "summer", "autumn")
RAIN = (0, 1, 2)
LAWS = {
    "winter": (0.5, 0.3, 0.2),
    "spring": (0.6, 0.3, 0.1),
    "summer": (0.8, 0.1, 0.1),
    "autumn": (0.4, 0.4, 0.2),
}
SPRING = (0.2, 0.3, 0.5)  # in reality
LIMIT = 1.0  # flooded seasons of an episode, expected


def pond_with(laws: dict[str, Law]) -> Dynamics:
    """The pond where it rains by these laws."""
    return from_dynamics(
        [(level, season) for level in range(HIGHEST + 1) for season in range(len(SEASONS))],
        range(MOST_OUT + 1),
        _after,
        Noise(RAIN, laws, classes=lambda state, out: SEASONS[state[1]], exact=True),
        HORIZON,
        SystemDescription(start=(2, 0), cost=lambda state, out: state[0] == HIGHEST, limit=LIMIT, name="flooded seasons"),
    )


def seasonal_pond() -> Instance:
    """The simulator, the reality with its spring, a keeper who lets out all that he can, and water in store as a reward."""
    simulator, reality = pond_with(LAWS), pond_with({**LAWS, "spring": SPRING})
    model, real = simulator.model, reality.model.kernel
    baseline = MarkovPolicy.deterministic([MOST_OUT] * model.num_states, num_actions=model.num_actions, horizon=HORIZON)
    slack = float(constraint_values(model.with_kernel(real), baseline)[0] - model.thresholds[0])
    successors = np.asarray(simulator.ties.successors)  # [S, A, L]
    possible = np.zeros((model.num_states, model.num_actions, model.num_states))
    for state, action in np.ndindex(successors.shape[:2]):
        possible[state, action, successors[state, action]] = 1.0
    return Instance(
        model=model,
        real=real,
        baseline=baseline,
        margin=slack,
        known=simulator.system.known,
        support=Kernel.from_dense(possible / possible.sum(axis=-1, keepdims=True)),
        rewards={"water in store": simulator.where(lambda state: state[0] >= HIGHEST - 2)},
        ties=simulator.ties,
    )


def _after(state: State, out: int, rain: int) -> State:
    level, season = state
    return min(HIGHEST, max(0, level - out) + rain), (season + 1) % len(SEASONS)
