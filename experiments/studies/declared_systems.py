"""The systems of the study on declared rewards, each with rewards: grid, lake, cliff, warehouse and pond.

The grid is that of the certified study, the warehouse that of the case study, the pond has classes of noise. Lake and cliff
are Gymnasium's own, with three cells more slippery in reality than in the simulator: on the lake in the middle, between the
holes; on the cliff along its edge. What is declared as support, where it is: a move of the grid ends in the cell or beside
it, and so does one of the robot; one on the lake or the cliff goes as meant or to either side; any rain falls on the pond.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from experiments.studies.certified_runs import THRESHOLD, corner_walk
from experiments.studies.instance import Instance
from experiments.studies.seasonal_pond import seasonal_pond
from experiments.studies.warehouse_floor import FLOOR, Warehouse
from experiments.studies.windy_grid_ties import terrain_ties
from safe2real.model.kernel import Kernel
from safe2real.model.policy import MarkovPolicy
from safe2real.planning.evaluate import constraint_values
from safe2real.systems.finite import FiniteSystem, SystemDescription, from_gymnasium
from safe2real.systems.windy_grid import WindyGrid

Cell = tuple[int, int]
RANDOM_REWARD = (1, 20_261_115)  # the seed of the grid's random reward
_SLIPPERY = 1.0 / 3.0  # probability that a move goes as meant there
_AMONG_PEOPLE = 4.0  # expected steps of an episode of the robot, at most


@cache
def instance(name: str) -> Instance:
    """One of `SYSTEMS`, made once in a process."""
    return SYSTEMS[name]()


def _grid() -> Instance:
    grid = WindyGrid.paper()
    baseline, model = corner_walk(grid), grid.cmdp(grid.simulator(), THRESHOLD)
    margin = float(constraint_values(model.with_kernel(grid.real()), baseline)[0]) - THRESHOLD
    rewards = {"random": np.random.default_rng(RANDOM_REWARD).random((grid.num_states, grid.num_actions))}
    for cell in ((0, 4), (1, 2)):
        rewards[f"cell {cell}"] = np.zeros((grid.num_states, grid.num_actions))
        rewards[f"cell {cell}"][grid.state(cell)] = 1.0
    ties = terrain_ties(grid, exact=True)
    return Instance(model, grid.real(), baseline, margin, None, grid.neighbours(), rewards, ties)


def _lake() -> Instance:
    environment = _with_slippery_cells(
        "FrozenLake-v1", 8, {"map_name": "8x8", "success_rate": 0.9}, "success_rate", _SLIPPERY
    )
    firm = environment(())
    holes = (firm.unwrapped.desc == b"H").ravel().astype(float)
    system = from_gymnasium(firm, 30, SystemDescription(cost=holes, limit=3.0, ended=holes, name="time under water"))
    down, right, up = 1, 2, 3
    actions = np.full((8, 8), right)  # along the upper edge, then down the right one; from the middle, up first
    actions[1:5], actions[:, 7] = up, down
    cells = ((2, 4), (3, 4), (4, 4))
    return _of(
        system, environment, cells, actions, 1.4, 63, {f"cell {cell}": 8 * cell[0] + cell[1] for cell in ((5, 4), (6, 3))}
    )


def _cliff() -> Instance:
    environment = _with_slippery_cells("CliffWalking-v1", 12, {"is_slippery": False}, "is_slippery", True)
    system = from_gymnasium(environment(()), 24, SystemDescription(cost=_fell, limit=0.5, ended=0.0, name="falls"))
    up, right, down = range(3)
    actions = np.full((4, 12), up)  # to the upper edge, along it, and down on the far side
    actions[0], actions[:, 11] = right, down
    cells = ((2, 3), (2, 6), (2, 9))
    return _of(
        system, environment, cells, actions, 0.5, 47, {f"cell {cell}": 12 * cell[0] + cell[1] for cell in ((2, 6), (2, 3))}
    )


def _warehouse() -> Instance:
    simulator, shelf = Warehouse(FLOOR), (1, 23)
    system = from_gymnasium(
        simulator, 36, SystemDescription(cost=simulator.people, limit=_AMONG_PEOPLE, name="steps among people")
    )
    beside = [simulator.index[row, shelf[1]] for row in (shelf[0] - 1, shelf[0] + 1)]
    return Instance(
        model=system.model,
        real=system.kernel_of(Warehouse(FLOOR, real=True)),
        baseline=MarkovPolicy.stochastic(simulator.roaming(), horizon=36),
        margin=_AMONG_PEOPLE,  # the baseline never leaves its side of the fence
        known=system.known | simulator.solid(),
        support=simulator.support(),
        rewards={"shelf": system.where(beside)},
    )


def _fell(state: int, action: int, next_state: int, reward: float, terminated: bool) -> float:
    return float(reward == -100)  # Gymnasium puts whoever falls back to the start


def _with_slippery_cells(
    name: str, columns: int, options: dict[str, Any], option: str, slippery: Any
) -> Callable[[Sequence[Cell]], Any]:
    """A maker of environments whose rows of some cells are those of the slippery one."""
    import gymnasium  # late: only this study makes environments

    def make(cells: Sequence[Cell]) -> Any:
        made, slick = gymnasium.make(name, **options), gymnasium.make(name, **{**options, option: slippery})
        for row, column in cells:
            made.unwrapped.P[columns * row + column] = slick.unwrapped.P[columns * row + column]  # type: ignore[attr-defined]
        return made

    return make


def _of(
    system: FiniteSystem,
    environment: Callable[[Sequence[Cell]], Any],
    slippery: Sequence[Cell],
    actions: np.ndarray[Any, Any],
    margin: float,
    goal: int,
    cells: dict[str, int],
) -> Instance:
    model, real = system.model, system.kernel_of(environment(slippery))
    at_goal = np.array(system.where([goal]))
    at_goal[system.after_end_of(goal)] = 1.0
    everywhere = system.kernel_of(environment([(int(row), int(column)) for row, column in np.ndindex(actions.shape)]))
    beside = (model.kernel.to_dense() > 0.0) | (everywhere.to_dense() > 0.0)  # [S, A, S]
    return Instance(
        model=model,
        real=real,
        baseline=MarkovPolicy.deterministic(
            system.per_state(actions.ravel()), num_actions=model.num_actions, horizon=model.steps
        ),
        margin=margin,
        known=system.known,
        support=Kernel.from_dense(beside / beside.sum(axis=-1, keepdims=True)),
        rewards={"goal": at_goal} | {name: np.array(system.where([state])) for name, state in cells.items()},
    )


SYSTEMS: dict[str, Callable[[], Instance]] = {
    "grid": _grid,
    "lake": _lake,
    "cliff": _cliff,
    "warehouse": _warehouse,
    "pond": seasonal_pond,
}
