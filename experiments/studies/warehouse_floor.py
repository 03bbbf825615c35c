"""A warehouse as a Gymnasium environment with a table, once as its simulator has it and once as it really is.

The robot drives on the free cells of a floor plan. Two rows of the floor are shared with people, behind fences with three
gates. The simulator does not know that the floor at the middle gate is wet, where the wheels spin, and its map has a roller
door shut that is open in reality.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from safe2real.model.kernel import Kernel

# `#` rack or fence, `.` floor, `p` shared with people, `w` shared and wet in reality, `D` roller door, `d` the robot's dock
FLOOR = (
    "...........................",
    ".#####.######.######.#####.",
    "...........................",
    "...........................",
    ".#####.######.######D######",
    "...........................",
    "...........................",
    "######.######.######.######",
    "ppppppppppppwwwpppppppppppp",
    "ppppppppppppwwwpppppppppppp",
    "######.######.######.######",
    "...........................",
    "...........................",
    ".#####.######.######.#####.",
    "...........................",
    "...........................",
    ".#####.######.######.#####.",
    "...........................",
    ".............d.............",
)
# The same in small, for a quick look.
SMALL_FLOOR = (
    ".......",
    ".##D##.",
    ".......",
    "#.#.#.#",
    "pppwwpp",
    "#.#.#.#",
    ".......",
    "...d...",
)
MOVES = ((-1, 0), (0, 1), (1, 0), (0, -1))  # up, right, down, left
WAIT = len(MOVES)
ACTIONS = ("up", "right", "down", "left", "wait")
PAUSE = 0.05  # share of moves that are lost, everywhere: the robot stops to find out where it is
SPIN = 0.75  # share of moves that are lost on wet floor besides: the wheels spin
GAP = 0.7  # what is said about rows that are wrong: at least this far off. True: 0.7125 on wet floor, 0.95 at the door

Cell = tuple[int, int]  # row, column


class Warehouse(gymnasium.Env[np.int64, np.int64]):
    """One robot on one floor; `real=True` has the wet floor and the open door.

    Actions: `Discrete(5)`: up, right, down, left, wait. Observations: `Discrete(S)`, the free cells row by row. A move
    into a rack, a fence or off the floor does nothing, and neither does one into a door that is shut. Any other move leads
    to the next cell, or is lost and leads nowhere. There is no reward and no end: both are the user's. `P[s][a]` lists
    (probability, next state, reward, terminated).
    """

    def __init__(self, floor: tuple[str, ...] = FLOOR, *, real: bool = False) -> None:
        self.floor, self.real = floor, real
        self.cells: list[Cell] = [(r, c) for r, line in enumerate(floor) for c, mark in enumerate(line) if mark != "#"]
        self.index = {cell: state for state, cell in enumerate(self.cells)}
        self.observation_space = spaces.Discrete(len(self.cells))
        self.action_space = spaces.Discrete(len(ACTIONS))
        self.P = {
            state: {action: self._outcomes(state, action) for action in range(len(ACTIONS))}
            for state in range(len(self.cells))
        }
        self.initial_state_distrib = (self.marks == "d").astype(np.float64)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.int64, dict[str, Any]]:
        super().reset(seed=seed)
        self.state = int(self.np_random.choice(len(self.cells), p=self.initial_state_distrib))
        return np.int64(self.state), {}

    def step(self, action: np.int64) -> tuple[np.int64, float, bool, bool, dict[str, Any]]:
        outcomes = self.P[self.state][int(action)]
        chosen = int(self.np_random.choice(len(outcomes), p=[probability for probability, *_ in outcomes]))
        self.state = outcomes[chosen][1]
        return np.int64(self.state), 0.0, False, False, {}

    @property
    def marks(self) -> NDArray[np.str_]:
        """[S] the letter of every free cell on the plan."""
        return np.array([self.floor[r][c] for r, c in self.cells])

    @property
    def people(self) -> NDArray[np.float64]:
        """[S] 1 in the cells that are shared with people: the cost of a step there."""
        return np.isin(self.marks, ["p", "w"]).astype(np.float64)

    def target(self, state: int, action: int) -> int:
        """Where a move leads if nothing goes wrong and every door is open; the state itself where something solid is."""
        if action == WAIT:
            return state
        (r, c), (down, right) = self.cells[state], MOVES[action]
        return self.index.get((r + down, c + right), state)

    def solid(self) -> NDArray[np.bool_]:
        """[S, A] rows that are exact by construction: waiting, and moves into what is solid. Doors are not."""
        pairs = np.ndindex(len(self.cells), len(ACTIONS))
        return np.array([self.target(s, a) == s for s, a in pairs]).reshape(len(self.cells), len(ACTIONS))

    def support(self) -> Kernel:
        """What a step can do at all: stay, or reach a neighbouring cell; waiting and solid things leave no choice."""
        rows: list[tuple[int, int, int, float]] = []
        for (s, a), exact in np.ndenumerate(self.solid()):
            possible = {s} if exact else {s} | {self.target(s, move) for move in range(len(MOVES))}
            rows += [(s, a, t, 1.0 / len(possible)) for t in possible]
        states, actions, successors, shares = zip(*rows, strict=True)
        return Kernel.from_triples(states, actions, successors, shares, num_states=len(self.cells), num_actions=len(ACTIONS))

    def roaming(self) -> NDArray[np.float64]:
        """The baseline [S, A]: random moves on the dock's side of the fence, never through a gate."""
        fence = max(r for r, line in enumerate(self.floor) if "p" in line) + 1
        table = np.zeros((len(self.cells), len(ACTIONS)))
        for state, (r, _) in enumerate(self.cells):
            ways = [a for a in range(len(MOVES)) if self.target(state, a) != state]
            if r > fence:
                ways = [a for a in ways if self.cells[self.target(state, a)][0] > fence]
            table[state, ways] = 1.0 / len(ways)
        return table

    def _outcomes(self, state: int, action: int) -> list[tuple[float, int, float, bool]]:
        target = self.target(state, action)
        (r, c), (to_r, to_c) = self.cells[state], self.cells[target]
        shut = self.floor[to_r][to_c] == "D" and not self.real
        if target == state or shut:
            return [(1.0, state, 0.0, False)]
        wet = self.floor[r][c] == "w" and self.real
        moves = (1.0 - PAUSE) * (1.0 - SPIN if wet else 1.0)
        return [(moves, target, 0.0, False), (1.0 - moves, state, 0.0, False)]
