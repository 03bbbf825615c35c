"""The paper's windy gridworld as a pair of kernels: a nominal simulator, and a real system with wind in some cells.

Cells are (row, column) with row 0 at the top; state s is row * size + column; actions are up, right, down, left.

Simulator: the intended move is made with probability `intended`; otherwise the agent slips, uniformly to one of the in-grid
neighbours of its cell. An intended move off the grid stays put.

Real system: on a windy cell of strength p, P_real(. | s, a) = (1 - p) P_sim(. | s, a) + p P_sim(. | s, opposite of a). This
is the formula of the paper's appendix on sigma_s; the prose of its section 5 describes another wind, whose gap (0.8375)
contradicts the reported sigma_s = 0.68.

An action and its opposite slip alike and intend two different cells (at most one of the two moves leaves the grid), so on
every windy pair the total variation gap is exactly `intended` * p. Hence |B| = 4 n for n windy cells, and sigma_s is
`intended` times the weakest wind. Under a policy that gives an action and its opposite the same probability, such as the
uniform one, the wind cancels out: its values are the same on both systems, wherever the wind blows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from safe2real.errors import InvalidInput
from safe2real.model import CMDP, AtLeast, Kernel
from safe2real.model.names import Legend
from safe2real.model.validation import Floats, finite_floats, finite_number, frozen, positive_integer
from safe2real.systems.finite_env import grid_positions

WINDY_GRID_ID = "safe2real/WindyGrid-v0"
"""The id of the paper's grid for `gymnasium.make`, registered when this module is imported."""
Cell = tuple[int, int]
"""A cell of a grid: (row, column), row 0 at the top."""

ACTIONS = ("up", "right", "down", "left")
_MOVES = np.array([(-1, 0), (0, 1), (1, 0), (0, -1)])  # [A, 2]
_OPPOSITE = np.array([2, 3, 0, 1])  # [A]

# The figure's cells are not listed in the text; see `WindyGrid.paper` for how these were found.
_PAPER_WINDY: tuple[Cell, ...] = ((3, 2), (1, 2), (1, 3))


@dataclass(frozen=True, slots=True, init=False)
class WindyGrid:
    """A square grid with an unsafe wall and windy cells, n of them; `paper` builds the paper's.

    The wall is unsafe, not solid: the agent walks through it and pays for it. `wind` is one strength for all windy cells or
    one per cell, in the order of `windy`. By default the wall is the three central cells of the middle row and the start is
    the bottom-left corner. Wind may also blow on wall cells and on the start.
    """

    size: int
    horizon: int
    intended: float  # in (0, 1]: probability of the intended move
    windy: tuple[Cell, ...]  # [n]
    wind: tuple[float, ...]  # [n] in (0, 1]: probability that the wind reverses the move
    wall: tuple[Cell, ...]
    start: Cell

    def __init__(
        self,
        size: int = 5,
        horizon: int = 12,
        intended: float = 0.85,
        windy: Iterable[Cell] = (),
        wind: float | Sequence[float] = 0.8,
        wall: Iterable[Cell] | None = None,
        start: Cell | None = None,
    ) -> None:
        size = _grid_size(size)
        windy_cells = _distinct_cells("windy", windy, size)
        wall_cells = _central_wall(size) if wall is None else _distinct_cells("wall", wall, size)
        first = (size - 1, 0) if start is None else _as_cell("start", start, size)
        if first in wall_cells:
            raise InvalidInput(f"start is {first}, a wall cell; start in a safe cell or leave it out of the wall")
        for name, value in (
            ("size", size),
            ("horizon", positive_integer("horizon", horizon)),
            ("intended", _probability("intended", intended, "without control over moves there is nothing to learn")),
            ("windy", windy_cells),
            ("wind", _strengths(wind, len(windy_cells))),
            ("wall", wall_cells),
            ("start", first),
        ):
            object.__setattr__(self, name, value)

    @classmethod
    def paper(cls, wind: float | Sequence[float] = 0.8) -> WindyGrid:
        """Figure 1: windy cells (3, 2), (1, 2) and (1, 3) around the wall (2, 1), (2, 2), (2, 3); sigma_s = 0.85 * wind.

        The text does not list the figure's cells. Three adjacent to the wall with which an order by distance can begin are
        the two at distance 1 of its centre, (3, 2) and (1, 2), and one at distance 2. The figure on estimating sigma_s
        tells more: with the literal radius and the uniform policy, C = B first holds near the reported 2.4e5, 1.2e6 and 6e5
        samples only if the weakest wind of instance III blows on (3, 2), between the start and the wall, and the third cell
        is (1, 3) or (2, 4), which the uniform policy visits about equally rarely. Of these two, (1, 3) has the wall below
        it: there the paper's example, *up* sending the agent downward, is a move away from the wall that ends in it.

        Args:
            wind: the probability that wind reverses a move, one for all cells or one for each.

        Returns:
            The grid.
        """
        return cls(windy=_PAPER_WINDY, wind=wind)

    @property
    def num_states(self) -> int:
        """Number of states, one per cell."""
        return self.size * self.size

    @property
    def num_actions(self) -> int:
        """Number of actions, one per move."""
        return len(ACTIONS)

    def state(self, cell: Cell) -> int:
        """Return the number of a cell.

        Args:
            cell: (row, column).

        Returns:
            row * size + column.

        Raises:
            InvalidInput: the cell is not on the grid.
        """
        row, column = _as_cell("cell", cell, self.size)
        return row * self.size + column

    def cell(self, state: int) -> Cell:
        """Return the cell of a state.

        Args:
            state: its number.

        Returns:
            (row, column).

        Raises:
            InvalidInput: there is no such state.
        """
        if not 0 <= state < self.num_states:
            raise InvalidInput(f"state is {state}; states run from 0 to {self.num_states - 1}")
        return int(state) // self.size, int(state) % self.size

    def simulator(self) -> Kernel:
        """Return P_sim: no wind anywhere.

        Returns:
            The kernel.
        """
        return self._kernel(np.zeros(self.num_states))

    def real(self) -> Kernel:
        """Return P_real: the wind reverses moves on the windy cells.

        Returns:
            The kernel. Rows of all other cells equal the simulator's bit for bit.
        """
        strength = np.zeros(self.num_states)
        for cell, value in zip(self.windy, self.wind, strict=True):
            strength[self.state(cell)] = value
        return self._kernel(strength)

    def safety(self) -> Floats:
        """Return the utility c(s, a) of the constraint.

        Returns:
            [S, A], 1 where s is safe, 0 where it is a wall cell.
        """
        utility = np.ones((self.num_states, self.num_actions))
        utility[[self.state(cell) for cell in self.wall]] = 0.0
        return frozen(utility)

    def cmdp(self, kernel: Kernel, threshold: float) -> CMDP:
        """Return the task on a kernel: at least `threshold` of the H steps in safe cells, in expectation.

        Args:
            kernel: the real one, the simulator's or an estimate.
            threshold: of the expected number of steps in safe cells.

        Returns:
            The model, with names and positions of the cells.
        """
        constraint = AtLeast(self.safety(), threshold, name="safety")
        return CMDP.of(kernel, self.horizon, self.state(self.start), constraint).with_legend(self.legend())

    def legend(self) -> Legend:
        """Return the names of cells and moves, and where the cells lie.

        Returns:
            The legend.
        """
        cells = [f"cell {self.cell(state)}" for state in range(self.num_states)]
        return Legend.of(cells, ACTIONS, grid_positions(self.size, self.size))

    def neighbours(self) -> Kernel:
        """Return a support to declare: an action leads to the cell itself or to a neighbour.

        Returns:
            A kernel whose zeros are the declaration; its probabilities mean nothing.
        """
        position = np.stack(np.divmod(np.arange(self.num_states), self.size), axis=1)  # [S, 2]
        near = np.abs(position[:, None, :] - position[None, :, :]).sum(axis=2) <= 1  # [S, S]
        rows = np.repeat((near / near.sum(axis=1, keepdims=True))[:, None, :], self.num_actions, axis=1)
        return Kernel.from_dense(rows)

    def gaps(self) -> Floats:
        """Return how far the simulator is off.

        Returns:
            [S, A] total variation distance between the real and the simulated row of every pair.
        """
        return self.real().distances_to(self.simulator())

    def mismatch(self) -> NDArray[np.bool_]:
        """Return the mismatch region B.

        Returns:
            [S, A], true where the simulator is wrong.
        """
        return frozen(self.gaps() > 0.0)

    def mismatch_gap(self) -> float:
        """Return sigma_s, the smallest positive entry of `gaps`.

        Returns:
            A distance; 1.0 if the simulator is right everywhere, because every separation holds then.
        """
        gaps = self.gaps()
        return float(gaps[gaps > 0.0].min(initial=1.0))

    def _kernel(self, strength: Floats) -> Kernel:
        """The kernel with wind `strength` [S]; written as transitions, so that the grid may be large."""
        states = np.arange(self.num_states)
        position = np.stack(np.divmod(states, self.size), axis=1)  # [S, 2]
        target = position[:, None, :] + _MOVES  # [S, A, 2]
        inside = ((target >= 0) & (target < self.size)).all(axis=2)  # [S, A]
        arrival = np.where(inside, target @ np.array([self.size, 1]), states[:, None])  # [S, A] where a move ends
        slip = inside * ((1.0 - self.intended) / inside.sum(axis=1, keepdims=True))  # [S, A] by direction of the slip
        # Outcomes of every pair: its intended move, then a slip in each direction.
        shape = (self.num_states, self.num_actions, 1 + self.num_actions)
        successors, probabilities = np.empty(shape, dtype=np.int64), np.empty(shape)
        successors[..., 0], probabilities[..., 0] = arrival, self.intended
        successors[..., 1:], probabilities[..., 1:] = arrival[:, None, :], slip[:, None, :]
        p = strength[:, None, None]
        successors = np.concatenate([successors, successors[:, _OPPOSITE]], axis=2)
        probabilities = np.concatenate([(1.0 - p) * probabilities, p * probabilities[:, _OPPOSITE]], axis=2)
        from_state, action, _ = np.indices(successors.shape)
        columns = [column.ravel() for column in (from_state, action, successors, probabilities)]
        return Kernel.from_triples(*columns, num_states=self.num_states, num_actions=self.num_actions)


def _central_wall(size: int) -> tuple[Cell, ...]:
    """Return the three central cells of the middle row; of an even number the later of the two middle rows or columns."""
    size = _grid_size(size)
    if size < 3:
        raise InvalidInput(f"size is {size}; the default wall is three cells wide, so give a wall or a size of at least 3")
    middle = size // 2
    return tuple((middle, column) for column in range(middle - 1, middle + 2))


def _grid_size(value: Any) -> int:
    size = positive_integer("size", value)
    if size < 2:
        raise InvalidInput(f"size is {size}; a cell needs a neighbour to slip to, so give at least 2")
    return size


def _probability(name: str, value: Any, why_not_zero: str) -> float:
    number = finite_number(name, value)
    if not 0.0 < number <= 1.0:
        raise InvalidInput(f"{name} is {number:g}; it must be above 0 ({why_not_zero}) and at most 1")
    return number


def _strengths(wind: Any, count: int) -> tuple[float, ...]:
    values = finite_floats("wind", wind)
    if values.shape not in ((), (count,)):
        raise InvalidInput(f"wind has shape {values.shape} for {count} windy cells; give one number, or one per windy cell")
    names = ["wind"] if values.ndim == 0 else [f"wind[{i}]" for i in range(count)]
    reason = "a cell without wind is left out of `windy`"
    checked = [_probability(name, value, reason) for name, value in zip(names, values.reshape(-1), strict=True)]
    return tuple(checked * count) if values.ndim == 0 else tuple(checked)


def _as_cell(name: str, value: Any, size: int) -> Cell:
    pair = np.asarray(value)
    if pair.shape != (2,) or pair.dtype.kind not in "iu":
        raise InvalidInput(f"{name} is {value!r}; a cell is a pair of whole numbers (row, column)")
    if (pair < 0).any() or (pair >= size).any():
        raise InvalidInput(f"{name} is {tuple(pair.tolist())}; rows and columns of this grid run from 0 to {size - 1}")
    return int(pair[0]), int(pair[1])


def _distinct_cells(name: str, value: Iterable[Any], size: int) -> tuple[Cell, ...]:
    cells = tuple(_as_cell(f"{name}[{i}]", cell, size) for i, cell in enumerate(value))
    for i, cell in enumerate(cells):
        if cell in cells[:i]:
            raise InvalidInput(f"{name}[{i}] is {cell}, which {name}[{cells.index(cell)}] is already; list a cell once")
    return cells


PAPER_GRID = WindyGrid.paper()
# The environment truncates its own episodes (the horizon belongs to the grid), so no TimeLimit is asked for.
gymnasium.register(id=WINDY_GRID_ID, entry_point="safe2real.systems.windy_grid:WindyGridEnv")


class WindyGridEnv(gymnasium.Env[np.int64, np.int64]):
    """A grid with an unsafe wall in its middle and wind that the simulator does not know of.

    ## Description
    The 5 x 5 gridworld of the paper's experiments. With probability 0.85 the intended move is made, otherwise the agent
    slips to one of the in-grid neighbours of its cell, each equally likely; an intended move off the grid stays put. The
    three wall cells can be walked on but are unsafe. On windy cells the real system carries out the opposite action with
    the probability given by the wind's strength p (0.8 in the paper): P_real(. | s, a) = (1 - p) P_sim(. | s, a) +
    p P_sim(. | s, opposite of a). The environment is reward-free: a reward is chosen later, when a policy is planned.

    ## Action space
    `Discrete(4)`: 0 up, 1 right, 2 down, 3 left.

    ## Observation space
    `Discrete(size * size)`: row * size + column of the agent's cell, with row 0 at the top.

    ## Starting state
    The bottom-left corner (state 20 of the paper's grid), always.

    ## Rewards
    0.0 at every step.

    ## Costs
    `info["cost"]` of a step is 1.0 if the state the action was taken in is a wall cell and 0.0 otherwise: the cost of the
    pair (s, a), that is 1 - c(s, a). The sum over an episode is the number of its H decisions made on the wall; entering
    the wall with the last step is free. The paper's V_c >= threshold says the expected sum is at most H - threshold.

    ## Episode end
    Truncated by the environment itself after `grid.horizon` steps (12); never terminated. Stepping on without a reset raises
    `gymnasium.error.ResetNeeded`.

    ## Information
    `reset` returns an empty `info`; `step` returns `{"cost": float}`. `env.unwrapped.P[s][a]` lists the transitions
    `(probability, next state, reward, terminated)` of the dynamics in use; `from_gymnasium` reads it.

    ## Arguments
    ```python
    import gymnasium
    from safe2real.systems.windy_grid import WindyGrid

    gymnasium.make("safe2real/WindyGrid-v0", grid=WindyGrid.paper(), dynamics="real")
    ```
    - `grid`: the layout, the horizon and the wind.
    - `dynamics`: `"real"` with the wind, `"simulator"` without.

    ## Version history
    - v0: the first version.
    """

    def __init__(self, grid: WindyGrid = PAPER_GRID, dynamics: Literal["real", "simulator"] = "real") -> None:
        if not isinstance(grid, WindyGrid):
            raise InvalidInput(f"grid is a {type(grid).__name__}; give a WindyGrid, e.g. WindyGrid.paper()")
        if dynamics not in ("real", "simulator"):
            raise InvalidInput(f"dynamics is {dynamics!r}; choose 'real' (with wind) or 'simulator' (without)")
        self.grid = grid
        self.dynamics = dynamics
        self.observation_space = spaces.Discrete(grid.num_states)
        self.action_space = spaces.Discrete(grid.num_actions)
        self._kernel = grid.real() if dynamics == "real" else grid.simulator()
        self._unsafe = frozenset(grid.state(cell) for cell in grid.wall)
        self._state = grid.state(grid.start)
        self._steps_left = 0  # none before the first reset

    @property
    def P(self) -> dict[int, dict[int, list[tuple[float, int, float, bool]]]]:  # noqa: N802 (Gymnasium's name)
        """Gymnasium's transition table, `P[s][a] = [(probability, next state, reward, terminated), ...]`."""
        states, actions = range(self.grid.num_states), range(self.grid.num_actions)
        table: dict[int, dict[int, list[tuple[float, int, float, bool]]]] = {s: {a: [] for a in actions} for s in states}
        for row, successor, probability in zip(*(column.tolist() for column in self._kernel.transitions()), strict=True):
            table[row // len(actions)][row % len(actions)].append((probability, successor, 0.0, False))
        return table

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.int64, dict[str, Any]]:
        super().reset(seed=seed)
        self._state = self.grid.state(self.grid.start)
        self._steps_left = self.grid.horizon
        return np.int64(self._state), {}

    def step(self, action: np.int64 | int) -> tuple[np.int64, float, bool, bool, dict[str, Any]]:
        if self._steps_left == 0:
            raise gymnasium.error.ResetNeeded(f"an episode has {self.grid.horizon} steps; call reset() to begin one")
        if not self.action_space.contains(action):
            raise InvalidInput(f"action is {action!r}; give 0 (up), 1 (right), 2 (down) or 3 (left)")
        cost = float(self._state in self._unsafe)
        successors, probabilities = self._kernel.row(self._state * self.grid.num_actions + int(action))
        self._state = int(self.np_random.choice(successors, p=probabilities))
        self._steps_left -= 1
        return np.int64(self._state), 0.0, False, self._steps_left == 0, {"cost": cost}
