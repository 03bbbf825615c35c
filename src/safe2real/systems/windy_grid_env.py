"""The windy grid as a Gymnasium environment, and its drawing (Figure 1(a) of the paper)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from safe2real.errors import InvalidInput, needed_for
from safe2real.systems.windy_grid import WindyGrid

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

PAPER_GRID = WindyGrid.paper()


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
    `(probability, next state, reward, terminated)` of the dynamics in use; `Kernel.from_gymnasium` reads it.

    ## Arguments
    ```python
    import gymnasium
    import safe2real.systems

    gymnasium.make("safe2real/WindyGrid-v0", grid=safe2real.systems.WindyGrid.paper(), dynamics="real", render_mode=None)
    ```
    - `grid`: the layout, the horizon and the wind.
    - `dynamics`: `"real"` with the wind, `"simulator"` without.
    - `render_mode`: `"rgb_array"` or None.

    ## Version history
    - v0: the first version.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 4}  # noqa: RUF012 (an instance attribute to Gymnasium)

    def __init__(
        self, grid: WindyGrid = PAPER_GRID, dynamics: Literal["real", "simulator"] = "real", render_mode: str | None = None
    ) -> None:
        if not isinstance(grid, WindyGrid):
            raise InvalidInput(f"grid is a {type(grid).__name__}; give a WindyGrid, e.g. WindyGrid.paper()")
        if dynamics not in ("real", "simulator"):
            raise InvalidInput(f"dynamics is {dynamics!r}; choose 'real' (with wind) or 'simulator' (without)")
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise InvalidInput(f"render_mode is {render_mode!r}; choose one of {self.metadata['render_modes']} or None")
        self.grid = grid
        self.dynamics = dynamics
        self.render_mode = render_mode
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

    def render(self) -> NDArray[np.uint8] | None:
        """The grid as an RGB image [height, width, 3]."""
        if self.render_mode is None:
            gymnasium.logger.warn('render() draws nothing without a render mode; make the environment with "rgb_array"')
            return None
        # Matplotlib is slow to import and only drawing needs it. A figure of one's own leaves pyplot's global state alone.
        with needed_for("pictures", "report"):
            from matplotlib.backends.backend_agg import FigureCanvasAgg
            from matplotlib.figure import Figure

        figure = Figure(figsize=(5.8, 4.4), dpi=100, layout="constrained")
        canvas = FigureCanvasAgg(figure)
        draw_grid(self.grid, figure.add_subplot(), agent=self._state)
        canvas.draw()  # type: ignore[no-untyped-call]
        return np.array(canvas.buffer_rgba(), dtype=np.uint8)[..., :3].copy()  # type: ignore[no-untyped-call]


def draw_grid(grid: WindyGrid, axes: Axes, *, agent: int | None = None, legend: bool = True) -> None:
    """Draw Figure 1(a): a star at the start, the wall hatched, windy cells red (redder in stronger wind), the agent a ring.

    Cell (row, column) is the unit square centred at x = column, y = row, as `imshow` has it, so heat maps can lie under it.
    The legend goes to the right of the axes; make room for it, e.g. with a constrained layout.
    """
    with needed_for("pictures", "report"):
        from matplotlib.lines import Line2D
        from matplotlib.patches import Circle, Patch, PathPatch, Rectangle
        from matplotlib.path import Path

    def square(cell: tuple[int, int], **style: Any) -> None:
        axes.add_patch(Rectangle((cell[1] - 0.5, cell[0] - 0.5), 1.0, 1.0, **style))

    def red(strength: float) -> tuple[float, float, float, float]:
        return (0.84, 0.15, 0.16, 0.15 + 0.75 * strength)

    hatched: dict[str, Any] = {"facecolor": "none", "edgecolor": "0.25", "hatch": "///", "linewidth": 0.0}
    for cell, strength in zip(grid.windy, grid.wind, strict=True):
        square(cell, facecolor=red(strength), edgecolor="none", zorder=1)
    for cell in grid.wall:
        square(cell, **hatched, zorder=2)
    for line in range(grid.size + 1):
        style: dict[str, Any] = {"color": "0.6", "linewidth": 0.8, "zorder": 3, "clip_on": False}
        axes.plot([line - 0.5, line - 0.5], [-0.5, grid.size - 0.5], **style)
        axes.plot([-0.5, grid.size - 0.5], [line - 0.5, line - 0.5], **style)
    star = Path.unit_regular_star(5, 0.42)
    points = np.asarray(star.vertices) * (0.26, -0.26) + (grid.start[1], grid.start[0])  # y grows downwards here
    axes.add_patch(PathPatch(Path(points, star.codes), facecolor="gold", edgecolor="black", linewidth=0.8, zorder=4))
    if agent is not None:
        row, column = grid.cell(agent)
        axes.add_patch(Circle((column, row), 0.34, facecolor="none", edgecolor="tab:blue", linewidth=3.0, zorder=5))

    axes.set(xlim=(-0.5, grid.size - 0.5), ylim=(grid.size - 0.5, -0.5), aspect="equal", xlabel="column", ylabel="row")
    ticks = range(0, grid.size, -(-grid.size // 10))  # at most ten
    axes.set_xticks(ticks)
    axes.set_yticks(ticks)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    if not legend:
        return
    handles: list[Artist] = [
        Line2D([], [], marker="*", linestyle="none", markersize=14, color="gold", markeredgecolor="black", label="start")
    ]
    if grid.wall:
        handles.append(Patch(**hatched, label="unsafe wall"))
    strengths = sorted(set(grid.wind))
    if len(strengths) > 4:  # the ends of the scale say enough
        strengths = [strengths[0], strengths[-1]]
    handles += [Patch(facecolor=red(p), edgecolor="none", label=f"wind {p:.3g}") for p in strengths]
    if agent is not None:
        ring: dict[str, Any] = {"markerfacecolor": "none", "markeredgecolor": "tab:blue", "markeredgewidth": 2.5}
        handles.append(Line2D([], [], marker="o", linestyle="none", markersize=11, label="agent", **ring))
    axes.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.02, 1.0), borderaxespad=0.0, frameon=False)
