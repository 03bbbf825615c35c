"""The two cars of examples/mountain_car.py, and both as cells of position and speed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.classic_control.mountain_car import MountainCarEnv
from numpy.typing import NDArray

import safe2real as s2r
from safe2real.systems.discretise import Discretised
from safe2real.systems.estimate import EstimatedModel, estimate_by_sampling
from safe2real.systems.finite import SystemDescription

TICKS = 7  # one step here in steps of Gymnasium: fewer and longer decisions
HORIZON = 20
FAST = 0.04 * TICKS  # the speed limit, in positions per step
LIMIT = 1.0  # expected steps above it
FLOOR = (-0.7, -0.4)  # the stretch where the simulator is wrong
ENGINE = 2.5  # how much stronger the real engine is there
GAP = 0.25  # declared: a row is right, or wrong by at least this
HEAVIER = 1.05  # gravity of the last part of the study, everywhere
STRONGEST = 3.0  # nobody believes it to be stronger anywhere
WALL, GOAL = -1.2, 0.5
LEFT, COAST, RIGHT = range(3)


class Track(MountainCarEnv):
    """Gymnasium's mountain car with longer steps; the engine is `engine` times as strong on the valley floor."""

    def __init__(self, engine: float = 1.0, gravity: float = 1.0) -> None:
        super().__init__()
        self.gravity = 0.0025 * TICKS**2 * gravity
        self.usual_force, self.engine = 0.001 * TICKS**2, engine
        self.max_speed = 0.12 * TICKS  # more than the hills give: no speed is cut off
        self.low, self.high = np.float32([WALL, -self.max_speed]), np.float32([0.6, self.max_speed])
        self.observation_space = gymnasium.spaces.Box(self.low, self.high, dtype=np.float32)

    def step(self, action: int) -> Any:
        on_the_floor = FLOOR[0] <= self.state[0] < FLOOR[1]
        self.force = self.usual_force * (self.engine if on_the_floor else 1.0)
        return super().step(action)


def cells_of(track: Track, grid: tuple[int, int] = (17, 13)) -> Discretised:
    """Cells of position and speed before the goal; behind it the speed does not matter, so that the goal is one state."""
    return Discretised(
        track,
        bins=(np.linspace(WALL, GOAL, grid[0] + 1)[1:], grid[1]),
        low=(WALL, -0.52),
        high=(0.6, 0.52),
        features=lambda seen: (seen[0], 0.0 if seen[0] >= GOAL else seen[1]),
    )


def model_of(track: Track, *, points: int, grid: tuple[int, int] = (17, 13)) -> EstimatedModel:
    """The cells of a car as a finite system: a step starts at a random one of `points` fixed points of its cell.

    The points are the same for every car, so that rows are equal where the physics are.
    """
    cells = cells_of(track, grid)
    middle = np.array([cells.centre(state) for state in range(cells.num_states)])  # [cells, 2]
    start = np.zeros(cells.num_states)
    for position in np.arange(-0.59995, -0.4, 1e-4):  # episodes start at rest, anywhere in [-0.6, -0.4]
        start[cells.state_of((position, 0.0))] += 1.0
    speeding = (np.abs(middle[:, 1]) > FAST) & (middle[:, 0] < GOAL)
    first = start / start.sum()
    speed = SystemDescription(start=first, cost=speeding.astype(float), limit=LIMIT, ended=0.0, name="speeding")
    return estimate_by_sampling(cells, HORIZON, speed, samples_per_row=points)


def worth(model: s2r.CMDP, policy: s2r.model.Policy, reward: NDArray[np.float64]) -> tuple[float, float]:
    """(steps at the goal, steps above the limit), exactly."""
    above = model.wordings[0].number(s2r.planning.constraint_values(model, policy)[0])
    return float(s2r.evaluate(model, policy, reward)), above


def at_goal(found: EstimatedModel) -> NDArray[np.float64]:
    """[S, A] 1 at the goal and after it: the earlier, the better."""
    return found.system.known.astype(np.float64)


@dataclass(frozen=True, eq=False)
class Cars:
    """The simulator and the real car as cells, in one numbering of S states."""

    track: Track  # the real one
    simulated: EstimatedModel
    real: s2r.CMDP
    support: s2r.Kernel

    @property
    def model(self) -> s2r.CMDP:
        return self.simulated.system.model

    @property
    def gaps(self) -> NDArray[np.float64]:
        """[S, A] TV distance of the real rows to the simulated ones."""
        return np.asarray(self.real.kernel.distances_to(self.model.kernel))


def cars(real: Track, *, points: int, simulated: EstimatedModel | None = None) -> Cars:
    simulated = model_of(Track(), points=points) if simulated is None else simulated
    system = simulated.system
    kernel = system.kernel_of(model_of(real, points=points).outcomes)
    return Cars(real, simulated, system.model.with_kernel(kernel), support_of(simulated, cells_of(real)))


def support_of(simulated: EstimatedModel, cells: Discretised) -> s2r.Kernel:
    """Where a step can lead with 0 to `STRONGEST` times the engine's force: what is declared to the learner."""
    system, known = simulated.system, simulated.system.known
    columns: list[tuple[int, int, int, float]] = []
    for row in range(system.model.kernel.num_rows):
        state, action = divmod(row, 3)
        after = system.model.kernel.row(row)[0].tolist() if known[state, action] else _after(simulated, cells, state, action)
        columns += [(state, action, successor, 1.0 / len(after)) for successor in after]
    states, actions, successors, shares = zip(*columns, strict=True)
    return s2r.Kernel.from_triples(states, actions, successors, shares, num_states=system.model.num_states, num_actions=3)


def _after(simulated: EstimatedModel, cells: Discretised, state: int, action: int) -> list[int]:
    """speed' = speed + force - gravity cos(3 position), position' = position + speed', over the whole of a cell."""
    system, track = simulated.system, Track()
    (x_low, v_low), (x_high, v_high) = cells.bounds(int(system.origin[state]))
    if x_low >= GOAL:
        return list(range(system.model.num_states))  # a cell behind the goal that no car enters
    slope = np.cos(3.0 * np.linspace(x_low, x_high, 101))
    weakest, strongest = sorted((0.0, (action - COAST) * STRONGEST * track.usual_force))
    slowest, fastest = v_low + weakest - track.gravity * slope.max(), v_high + strongest - track.gravity * slope.min()
    speeds = np.concatenate([[-np.inf], cells.edges[1], [np.inf]])
    found: set[int] = set()
    for low, high in zip(np.maximum(speeds[:-1], slowest), np.minimum(speeds[1:], fastest), strict=True):
        if low > high:
            continue  # no speed of this band
        x_first, x_last = x_low + low, x_high + high
        if x_last >= GOAL:
            found.add(system.state_of(cells.state_of((GOAL, 0.0)), terminated=True))
        if x_first <= WALL:
            found.add(system.state_of(cells.state_of((WALL, 0.0))))  # the wall stops the car
        ends = [cells.state_of((min(max(x, WALL), GOAL - 1e-9), 0.5 * (low + high))) for x in (x_first, x_last)]
        found.update(range(ends[0], ends[1] + 1, cells.shape[1]))
    return sorted(found)
