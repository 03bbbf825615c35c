"""Environments: yours as a finite system, and the paper's windy grid, `safe2real/WindyGrid-v0`, registered on import."""

import gymnasium

from safe2real.systems.datasets import EpisodeLog, LoggedEpisode, read_episodes
from safe2real.systems.discretise import Discretised
from safe2real.systems.dynamics import Dynamics, from_dynamics
from safe2real.systems.enumerated import Enumerated
from safe2real.systems.finite import FiniteSystem, from_gymnasium
from safe2real.systems.finite_env import FiniteEnv
from safe2real.systems.rollout import Agreement, Observed, Rollout
from safe2real.systems.windy_grid import Cell, WindyGrid, WindyGridEnv, draw_grid, equispaced_wind, windy_order

WINDY_GRID_ID = "safe2real/WindyGrid-v0"
"""What `gymnasium.make` knows the paper's grid by."""

# The environment truncates its own episodes (the horizon belongs to the grid), so no TimeLimit is asked for. Gymnasium
# also imports this module for "safe2real.systems:safe2real/WindyGrid-v0", and registering twice would warn.
if WINDY_GRID_ID not in gymnasium.registry:
    gymnasium.register(id=WINDY_GRID_ID, entry_point="safe2real.systems.windy_grid:WindyGridEnv")

__all__ = [
    "WINDY_GRID_ID",
    "Agreement",
    "Cell",
    "Discretised",
    "Dynamics",
    "Enumerated",
    "EpisodeLog",
    "FiniteEnv",
    "FiniteSystem",
    "LoggedEpisode",
    "Observed",
    "Rollout",
    "WindyGrid",
    "WindyGridEnv",
    "draw_grid",
    "equispaced_wind",
    "from_dynamics",
    "from_gymnasium",
    "read_episodes",
    "windy_order",
]
