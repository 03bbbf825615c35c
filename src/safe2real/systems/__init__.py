"""Environments as finite systems: with a table, by counting, through cells, or written as s' = f(s, a, w).

The paper's windy grid is `windy_grid`. Importing that module registers it with Gymnasium, and its names here import it when
they are first used: `gymnasium.make(safe2real.systems.WINDY_GRID_ID)`, or in one text
`gymnasium.make("safe2real.systems.windy_grid:safe2real/WindyGrid-v0")`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from safe2real.systems.datasets import EpisodeLog, LoggedEpisode, read_episodes
from safe2real.systems.discretise import Discretised
from safe2real.systems.dynamics import Dynamics, Noise, from_dynamics
from safe2real.systems.enumerated import Enumerated
from safe2real.systems.estimate import (
    Counting,
    EstimatedModel,
    estimate_by_running,
    estimate_by_sampling,
    estimate_from_log,
)
from safe2real.systems.finite import FiniteSystem, SystemDescription, from_gymnasium
from safe2real.systems.finite_env import FiniteEnv
from safe2real.systems.rollout import Agreement, Observed, Rollout

if TYPE_CHECKING:
    from safe2real.systems.windy_grid import (
        WINDY_GRID_ID,
        Cell,
        WindyGrid,
        WindyGridEnv,
    )

__all__ = [
    "WINDY_GRID_ID",
    "Agreement",
    "Cell",
    "Counting",
    "Discretised",
    "Dynamics",
    "Enumerated",
    "EpisodeLog",
    "EstimatedModel",
    "FiniteEnv",
    "FiniteSystem",
    "LoggedEpisode",
    "Noise",
    "Observed",
    "Rollout",
    "SystemDescription",
    "WindyGrid",
    "WindyGridEnv",
    "estimate_by_running",
    "estimate_by_sampling",
    "estimate_from_log",
    "from_dynamics",
    "from_gymnasium",
    "read_episodes",
]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module("safe2real.systems.windy_grid"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
