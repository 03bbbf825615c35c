"""Environments: yours as a finite system, and the paper's windy grid, `safe2real/WindyGrid-v0`, registered on import."""

import gymnasium

from safe2real.envs.datasets import read_episodes
from safe2real.envs.discretise import Discretised
from safe2real.envs.episodes import EpisodeLog, LoggedEpisode
from safe2real.envs.finite import FiniteSystem, from_gymnasium
from safe2real.envs.finite_env import FiniteEnv
from safe2real.envs.windy_grid import Cell, WindyGrid, equispaced_wind, windy_order
from safe2real.envs.windy_grid_env import WindyGridEnv, draw_grid

WINDY_GRID_ID = "safe2real/WindyGrid-v0"

# The environment truncates its own episodes (the horizon belongs to the grid), so no TimeLimit is asked for. Gymnasium
# also imports this module for "safe2real.envs:safe2real/WindyGrid-v0", and registering twice would warn.
if WINDY_GRID_ID not in gymnasium.registry:
    gymnasium.register(id=WINDY_GRID_ID, entry_point="safe2real.envs.windy_grid_env:WindyGridEnv")

__all__ = [
    "WINDY_GRID_ID",
    "Cell",
    "Discretised",
    "EpisodeLog",
    "FiniteEnv",
    "FiniteSystem",
    "LoggedEpisode",
    "WindyGrid",
    "WindyGridEnv",
    "draw_grid",
    "equispaced_wind",
    "from_gymnasium",
    "read_episodes",
    "windy_order",
]
