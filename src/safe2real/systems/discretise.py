"""A low-dimensional continuous environment as one with finitely many states and actions.

The box of observations is cut along each dimension; a state is the number of a cell, the last dimension counted fastest. A
value on an edge belongs to the upper cell, a value outside the bounds to the outer cell. An action is the number of a
representative action.

What this means: the cells of a continuous system are not a Markov chain, because what happens next depends on where in the
cell the system is. A model of the cells fixes one answer, for instance a uniformly random point (`sample`). Every guarantee
that is given about such a model is about the model. How far the continuous system is from it must be measured on that
system; finer cells bring the two together and need more data.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.typing import ArrayLike, NDArray

from safe2real.errors import InvalidInput
from safe2real.model.names import Legend
from safe2real.model.validation import Floats, check_function, finite_floats, frozen, positive_integer, shown, whole_numbers
from safe2real.systems.enumerated import MOST_CELLS, MOST_NAMED
from safe2real.systems.finite_env import legend_of_env

_HUGE = 1e6  # a bound beyond this says "any number": some spaces have the largest float instead of infinity


def _read_bounds(space: Any, low: ArrayLike | None, high: ArrayLike | None, featured: bool) -> tuple[Floats, Floats]:
    """Return the lower and upper bounds [d] of the coordinates to cut: features, or observations of `space`."""
    what, found = "feature" if featured else "observation", list[Floats]()
    if featured:
        if low is None or high is None:
            raise InvalidInput("with `features` the bounds of the space do not apply; give low and high, one per feature")
        shape = (np.size(low),)
    else:
        _check_box(space)
        shape = space.shape
    for name, given in (("low", low), ("high", high)):
        values = np.asarray(getattr(space, name) if given is None else finite_floats(name, given), dtype=np.float64)
        if values.shape != shape or not values.size:
            raise InvalidInput(f"{name} has shape {values.shape}; give one number per dimension, shape {shape}")
        for i, bound in enumerate(values):
            if not abs(bound) <= _HUGE:
                raise InvalidInput(
                    f"dimension {i} of the {what} has {name} = {bound:g}, which cannot be cut into cells; give low and high "
                    f"with the range that the {what}s keep to there (values beyond it count as in the outer cell)"
                )
        found.append(frozen(values))
    for i, (lower, upper) in enumerate(zip(*found, strict=True)):
        if not lower < upper:
            raise InvalidInput(f"dimension {i} goes from {lower:g} to {upper:g}; low must be below high")
    return found[0], found[1]


def _check_box(space: Any) -> None:
    if isinstance(space, Discrete):
        raise InvalidInput(f"the observation space is {space}, which is discrete already; use the environment as it is")
    if not isinstance(space, Box):
        raise InvalidInput(
            f"the observation space is a {type(space).__name__}: {shown(space)}; if it is made of whole numbers, use "
            "safe2real.systems.Enumerated(env); otherwise give `features`, a function from an observation to a short vector"
        )
    if len(space.shape) > 1:
        raise InvalidInput(
            f"observations have shape {space.shape}, like an image; cells need a few numbers: give `features`, a function "
            "from an observation to a short vector"
        )


def _inner_edges(bins: Any, low: Floats, high: Floats) -> tuple[Floats, ...]:
    """Return the inner edges along each dimension, from numbers of bins or as given."""
    given = _per_dimension("bins", bins, low.size, "a number of bins, or the inner edges")
    edges = []
    for i, (entry, lower, upper) in enumerate(zip(given, low, high, strict=True)):
        if np.ndim(entry) == 0:
            inner = np.linspace(lower, upper, positive_integer(f"bins[{i}]", entry) + 1)[1:-1]
        else:
            inner = finite_floats(f"bins[{i}]", entry)
            if inner.ndim != 1 or (np.diff(inner) <= 0.0).any():
                raise InvalidInput(f"bins[{i}] is {shown(entry)}; inner edges are a list of increasing numbers")
            if inner.size and not (lower < inner[0] and inner[-1] < upper):
                raise InvalidInput(
                    f"bins[{i}] has edges from {inner[0]:g} to {inner[-1]:g}; inner edges lie strictly between "
                    f"low = {lower:g} and high = {upper:g}, which are edges already"
                )
        edges.append(frozen(inner))
    return tuple(edges)


def _representatives(space: Any, action_bins: Any) -> Floats | None:
    """Return the actions [A, k] that stand for a Box of them; None where actions are discrete already."""
    if isinstance(space, Discrete):
        if action_bins is not None:
            raise InvalidInput(f"the action space is {space}, which is discrete already; leave action_bins out")
        return None
    if not isinstance(space, Box):
        raise InvalidInput(f"the action space is a {type(space).__name__}; it must be Discrete or Box: wrap the environment")
    if action_bins is None:
        raise InvalidInput(
            f"the action space is {space}; give action_bins, for each of its {math.prod(space.shape)} dimensions how many "
            "representative values to use, or the values"
        )
    lows, highs = (np.asarray(bound, dtype=np.float64).reshape(-1) for bound in (space.low, space.high))
    given = _per_dimension("action_bins", action_bins, lows.size, "how many representative values, or the values")
    columns: list[NDArray[np.float64]] = []
    for i, (entry, lower, upper) in enumerate(zip(given, lows, highs, strict=True)):
        if np.ndim(entry) == 0:
            count = positive_integer(f"action_bins[{i}]", entry)
            if not (abs(lower) <= _HUGE and abs(upper) <= _HUGE):
                raise InvalidInput(
                    f"dimension {i} of the actions goes from {lower:g} to {upper:g}; give the representative values"
                )
            columns.append(np.linspace(lower, upper, count) if count > 1 else np.array([0.5 * (lower + upper)]))
        else:
            values = finite_floats(f"action_bins[{i}]", entry)
            if values.ndim != 1 or not values.size or (values < lower).any() or (values > upper).any():
                raise InvalidInput(f"action_bins[{i}] is {shown(entry)}; give values from {lower:g} to {upper:g}")
            columns.append(values)
    total = math.prod(column.size for column in columns)
    if total > MOST_CELLS:
        raise InvalidInput(f"action_bins make {total} actions; at most {MOST_CELLS} are allowed: use fewer values")
    return frozen(np.array(list(itertools.product(*columns))))


def _per_dimension(name: str, given: Any, dimensions: int, what: str) -> list[Any]:
    listed = isinstance(given, (list, tuple)) or (isinstance(given, np.ndarray) and given.ndim > 0)
    if not listed:
        raise InvalidInput(f"{name} is {shown(given)}; give a list with, for each of the {dimensions} dimensions, {what}")
    entries = list(given)
    if len(entries) != dimensions:
        raise InvalidInput(f"{name} has {len(entries)} entries for {dimensions} dimensions; give for each {what}")
    return entries


_SAME_STATE = 1e-4  # observations are float32


class Discretised(gymnasium.Wrapper[Any, Any, Any, Any]):
    """`env` with Discrete observations and actions.

    Args:
        env: with Box observations; or any, with `features`.
        bins: one entry per dimension: a number of cells of equal width between `low` and `high`, or the inner edges.
        low: [d] the bounds of the observation space unless given.
        high: likewise.
        action_bins: for Box actions, one entry per dimension: how many representative values from the lowest to the highest,
            or the values. Discrete actions pass through.
        features: cells of other coordinates: from an observation to the vector that is cut up; needs `low` and `high`.
        restore: the way back, which `sample` needs: the simulator's own `state` at a point of a cell. Without it the vector
            itself is.

    Raises:
        InvalidInput: where a space cannot be cut like that; says how it can.

    Example:
        Pendulum, whose observation is (cos, sin, speed), by angle and speed:

            Discretised(env, bins=(21, 15), low=(-pi, -8), high=(pi, 8), action_bins=(5,),
                        features=lambda seen: (atan2(seen[1], seen[0]), seen[2]))
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        *,
        bins: Sequence[int | ArrayLike],
        low: ArrayLike | None = None,
        high: ArrayLike | None = None,
        action_bins: Sequence[int | ArrayLike] | None = None,
        features: Callable[[Any], ArrayLike] | None = None,
        restore: Callable[[Floats], Any] | None = None,
    ) -> None:
        if not isinstance(env, gymnasium.Env):
            raise InvalidInput(f"env is a {type(env).__name__}; give a Gymnasium environment")
        for name, function, argument in (("features", features, "observation"), ("restore", restore, "vector")):
            if function is not None:
                check_function(name, function, argument)
        super().__init__(env)
        self._features, self._restore = features, restore
        self.low, self.high = _read_bounds(env.observation_space, low, high, features is not None)
        self.edges = _inner_edges(bins, self.low, self.high)
        self._inner = [edges.tolist() for edges in self.edges]  # lists are searched faster than short arrays
        self.shape = tuple(edges.size + 1 for edges in self.edges)  # cells along each dimension
        self.num_states = math.prod(self.shape)
        if self.num_states > MOST_CELLS:
            raise InvalidInput(
                f"bins make {' x '.join(map(str, self.shape))} = {self.num_states} cells; at most {MOST_CELLS} are "
                "allowed, and some hundreds are what data can fill: use fewer bins, or `features` that keep fewer dimensions"
            )
        self.actions = _representatives(env.action_space, action_bins)  # [A, k], None where actions pass through
        self.num_actions = int(env.action_space.n) if self.actions is None else len(self.actions)  # type: ignore[attr-defined]
        self.observation_space = Discrete(self.num_states)
        self.action_space = Discrete(self.num_actions)
        self._restart = True  # before the next sample
        self._cell: tuple[int, Floats, Floats] | None = None  # that was sampled last, and its corners
        self._checked = False  # whether `restore` gives states that look like the environment's

    # ------------------------------------------------------------------------------------------------ the environment

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """Begin an episode of the environment.

        Args:
            seed: of the environment's random numbers; None goes on with them.
            options: passed to the environment.

        Returns:
            The cell of the first observation, and the environment's information.
        """
        observation, info = self.env.reset(seed=seed, options=options)
        self._restart = False
        return self.state_of(observation), info

    def step(self, action: int) -> tuple[int, Any, bool, bool, dict[str, Any]]:
        """Act for one step.

        Args:
            action: its number.

        Returns:
            The cell that the step led to; reward, terminated, truncated and information are the environment's.
        """
        observation, reward, terminated, truncated, info = self.env.step(self.action_of(action))
        self._restart = bool(terminated or truncated)
        return self.state_of(observation), reward, bool(terminated), bool(truncated), info

    # ------------------------------------------------------------------------------------------- cells and their points

    def state_of(self, observation: Any) -> int:
        """Return the number of the cell that an observation lies in.

        Args:
            observation: the environment's own; `features` are taken of it.

        Returns:
            The state.

        Raises:
            InvalidInput: the observation has another shape, or is not a number.
        """
        values = self._point(observation).tolist()
        state = 0
        for i, (edges, value) in enumerate(zip(self._inner, values, strict=True)):
            if math.isnan(value):  # it would seem to be in the last cell
                raise InvalidInput(
                    f"dimension {i} of an observation is not a number (NaN): {shown(observation)}; a state must be known: "
                    "mend the sensor or the simulator, or leave the dimension out with `features`"
                )
            state = state * (len(edges) + 1) + bisect_right(edges, value)
        return state

    def bounds(self, state: int) -> tuple[Floats, Floats]:
        """Return the corners of a cell; outer cells end at `low` and `high`.

        Args:
            state: the cell's number.

        Returns:
            The lower and the upper corner, [d] each.

        Raises:
            InvalidInput: there is no such cell.
        """
        cell = np.unravel_index(_number("state", state, self.num_states, "states"), self.shape)
        ends = [np.array([a, *edges, b]) for a, edges, b in zip(self.low, self.edges, self.high, strict=True)]
        lower = np.array([along[i] for along, i in zip(ends, cell, strict=True)])
        upper = np.array([along[i + 1] for along, i in zip(ends, cell, strict=True)])
        return lower, upper

    def centre(self, state: int) -> Floats:
        """Return the middle of a cell.

        Args:
            state: the cell's number.

        Returns:
            A point [d].

        Raises:
            InvalidInput: there is no such cell.
        """
        lower, upper = self.bounds(state)
        return np.asarray(0.5 * (lower + upper))

    @property
    def legend(self) -> Legend:
        """Cells by their centres, representative actions by their values; two dimensions lie on a grid, the second upwards.

        More cells than pages can name have no names.
        """
        if self.actions is None:
            actions = legend_of_env(self.env, 0, self.num_actions).actions
        else:
            actions = tuple(map(_listed, self.actions))
        if self.num_states > MOST_NAMED:
            return Legend.of(None, actions or None)
        positions = None
        if len(self.shape) == 2:
            across, up = np.divmod(np.arange(self.num_states), self.shape[1])
            positions = np.stack([across, self.shape[1] - 1 - up], axis=1)
        return Legend.of([_listed(self.centre(cell)) for cell in range(self.num_states)], actions or None, positions)

    def action_of(self, action: int) -> Any:
        """Return the environment's own action for a number.

        Args:
            action: the number.

        Returns:
            A representative action in the form of the environment's space, or the number of a discrete one.

        Raises:
            InvalidInput: there is no such action.
        """
        number = _number("action", action, self.num_actions, "actions")
        if self.actions is None:
            return number + int(getattr(self.env.action_space, "start", 0))
        space = self.env.action_space
        return self.actions[number].reshape(space.shape).astype(space.dtype)

    def nearest_action(self, action: Any) -> int:
        """Return the representative action nearest to one of the environment's, for logged data.

        Args:
            action: the environment's own.

        Returns:
            The number of the representative.

        Raises:
            InvalidInput: the action has another shape.
        """
        if self.actions is None:
            first = int(getattr(self.env.action_space, "start", 0))
            shifted = np.asarray(action).reshape(-1) - first
            return int(whole_numbers("action", shifted, below=self.num_actions, what="actions")[0])
        given = finite_floats("action", action).reshape(-1)
        if given.shape != self.actions.shape[1:]:
            raise InvalidInput(f"an action has {given.size} numbers; this environment's have {self.actions.shape[1]}")
        return int(np.argmin(((self.actions - given) ** 2).sum(axis=1)))  # of a grid: the nearest along each dimension

    # ------------------------------------------------------------------------------------------------ one step from a cell

    def sample(self, state: int, action: int, rng: np.random.Generator) -> tuple[int, float, bool]:
        """Draw one step from a uniformly random point of a cell.

        For simulators with a settable `unwrapped.state`, such as those of classic control. Afterwards the environment is
        wherever the step has led; `reset` it before an episode.

        Args:
            state: the cell's number.
            action: its number.
            rng: gives all randomness, the environment's too.

        Returns:
            (next state, reward, terminated).

        Raises:
            InvalidInput: the simulator has no state that can be set, or `restore` does not put it where the cell says.
        """
        if self._cell is None or self._cell[0] != state:  # samples of one cell are mostly asked for together
            self._cell = (state, *self.bounds(state))
        _, lower, upper = self._cell
        chosen = self.action_of(action)
        core: Any = self.env.unwrapped
        if not self._checked:
            self._check_restore()
        if self._restart:
            self.env.reset(seed=0)  # wrappers count steps, and some simulators remember that they have ended
        core.np_random = rng
        core.state = self._state_at(lower + (upper - lower) * rng.random(lower.size))
        observation, reward, terminated, truncated, _ = self.env.step(chosen)
        self._restart = bool(terminated or truncated)
        return self.state_of(observation), finite_value(f"the reward of step({action})", reward), bool(terminated)

    def _state_at(self, point: Floats) -> Any:
        return point if self._restore is None else self._restore(point)

    def _check_restore(self) -> None:
        """Refuse to sample where setting the state would not put the simulator where the cell says."""
        core: Any = self.env.unwrapped
        observation, _ = self.env.reset(seed=0)
        self._restart = False
        if getattr(core, "state", None) is None:
            raise InvalidInput(
                f"{type(core).__name__} has no `state` that can be set, so no step can be sampled from a cell; estimate the "
                "model from episodes instead: estimate_by_running(env, horizon)"
            )
        actual = np.asarray(core.state, dtype=np.float64).reshape(-1)
        restored = np.asarray(self._state_at(self._point(observation)), dtype=np.float64).reshape(-1)
        if restored.shape != actual.shape or not np.allclose(restored, actual, rtol=_SAME_STATE, atol=_SAME_STATE):
            raise InvalidInput(
                f"after a reset the state of {type(core).__name__} is {actual.round(4).tolist()}, but its observation gives "
                f"{restored.round(4).tolist()}; give `restore`, a function from the vector that is binned to the state, or "
                "`features` that compute the state from an observation"
            )
        self._checked = True

    def _point(self, observation: Any) -> Floats:
        vector = observation if self._features is None else self._features(observation)
        try:
            point = np.asarray(vector, dtype=np.float64).reshape(-1)
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"an observation is {shown(vector)}; give a vector of numbers, or `features`") from error
        if point.size != self.low.size:
            what = "an observation has" if self._features is None else "features(observation) has"
            raise InvalidInput(f"{what} {point.size} numbers; the cells have {self.low.size} dimensions")
        return point


def _listed(numbers: Floats) -> str:
    """(0.25, -1), or the number alone, within what a name may have."""
    inside = ", ".join(f"{value + 0.0:.3g}" for value in numbers[:8]) + (", ..." if len(numbers) > 8 else "")
    return f"({inside})" if len(numbers) > 1 else inside


def _number(name: str, value: Any, below: int, what: str) -> int:
    if type(value) is int and 0 <= value < below:  # what simulators are given a million times
        return value
    return int(whole_numbers(name, [value], below=below, what=what)[0])


def finite_value(place: str, value: Any) -> float:
    """Return a reward or a cost that an environment or a simulator gives as a finite float."""
    try:
        number = math.nan if isinstance(value, str) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise InvalidInput(f"{place} is {shown(value)}; it must be a finite number: mend the source")
    return number
