"""A running environment in a model's numbers: as an environment, for agents, and by its names.

`FiniteEnv` shows a running environment, usually the real one, as a finite system. The translations say which state of the
model an observation is and what an action is called. A finite system has a copy of a state for every cost with which it can
be entered (`outcomes`); which of them the environment is in follows from the cost of the step that led there.

Names serve maps, plans and pages alone. An environment may state its own: attributes `state_names` and `action_names`,
Atari's `get_action_meanings()`, and the maps of the toy-text grids (`desc`, `shape`, or `nrow` and `ncol`). They are taken
where they fit and left out where they do not; a user's names are checked.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from operator import index
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from numpy.typing import ArrayLike

from safe2real.errors import InvalidInput, StepLimit
from safe2real.model.names import Legend
from safe2real.model.validation import finite_number, shown
from safe2real.systems.enumerated import WHOLE
from safe2real.systems.outcomes import cost_on_arrival, unknown_arrival

if TYPE_CHECKING:
    from safe2real.systems.finite import FiniteSystem

NAMELESS = Legend()


class FiniteEnv(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment seen as a `FiniteSystem`: Discrete spaces, and episodes of exactly H steps.

    After the environment's episode has ended, the wrapper stays in the absorbing state up to the horizon.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], system: FiniteSystem) -> None:
        check_spaces(env)
        super().__init__(env)
        self.system = system
        self.observation_space = gymnasium.spaces.Discrete(system.model.num_states)
        self.action_space = gymnasium.spaces.Discrete(system.model.num_actions)
        sizes = int(env.observation_space.n), int(env.action_space.n)  # type: ignore[attr-defined]
        if sizes != (system.ended.size, system.model.num_actions):
            raise InvalidInput(
                f"the environment has {sizes[0]} states and {sizes[1]} actions; this system was made for "
                f"{system.ended.size} and {system.model.num_actions}: give the environment that it was made for, or, where "
                "the sizes were read off a log, num_states= and num_actions= to estimate_from_log"
            )
        self._first_action = first_of(env.action_space)
        self._state = self._seen = self._step = 0  # the environment's state, the system's, and steps done
        self._over = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """Begin an episode of the environment.

        Args:
            seed: of the environment's random numbers; None goes on with them.
            options: passed to the environment.

        Returns:
            The first state in the model's numbers, and the environment's information.

        Raises:
            OutsideModel: the episode starts in a state that the model does not have.
        """
        state, info = self.env.reset(seed=seed, options=options)
        self._state, self._step, self._over = self._number(state), 0, False
        self._seen = self.system.state_of(self._state)
        return self._seen, info

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """Act for one step.

        Args:
            action: its number.

        Returns:
            The next state in the model's numbers, the reward, False, whether the horizon is reached, and information.

        Raises:
            StepLimit: the environment cut the episode off before the horizon.
            OutsideModel: the step leads to a state, or has a cost, that the model does not have.
        """
        self._step += 1
        last = self._step >= self.system.model.steps
        if self._over:
            self._seen = self.system.after_end_of(self._seen)
            return self._seen, 0.0, False, last, {}
        observed, reward, terminated, truncated, info = self.env.step(action + self._first_action)
        if truncated and not terminated and not last:
            raise StepLimit(
                f"the environment cut the episode off after {self._step} steps, before the horizon of "
                f"{self.system.model.steps}; make it with max_episode_steps={self.system.model.steps} or more"
            )
        state, given = self._number(observed), self.system.arrival_cost
        cost = 0.0 if given is None else cost_on_arrival(given, self._state, int(action), state, float(reward), terminated)
        self._state, self._over = state, bool(terminated)
        self._seen = self.system.state_of(state, cost, self._over)
        return self._seen, float(reward), False, last, info

    def _number(self, observation: Any) -> int:
        return state_number(observation, first_of(self.env.observation_space))


def state_number(observation: Any, first: int) -> int:
    """Return the state that an observation of a Discrete space shows, counted from 0; the space counts from `first`."""
    try:
        return index(observation) - first
    except TypeError as error:
        raise InvalidInput(
            f"an observation is {shown(observation)}; a state is a whole number: wrap the environment first, "
            "safe2real.systems.Discretised(env, bins=...)"
        ) from error


def first_of(space: Any) -> int:
    """Return the number from which a Discrete space counts."""
    return int(getattr(space, "start", 0))


def check_spaces(env: Any) -> None:
    """Refuse anything but an environment with Discrete observations and actions."""
    if not (hasattr(env, "observation_space") and hasattr(env, "action_space")):
        raise InvalidInput(f"env is a {type(env).__name__}; give a Gymnasium environment, e.g. gymnasium.make(...)")
    for what, space in (("observation", env.observation_space), ("action", env.action_space)):
        if not isinstance(space, gymnasium.spaces.Discrete):
            whole = isinstance(space, (*WHOLE, gymnasium.spaces.Tuple, gymnasium.spaces.Dict))
            how = "Enumerated(env), which numbers them" if whole else "Discretised(env, bins=...)"
            raise InvalidInput(
                f"the {what} space of {name_of(env)} is {shown(space)}, not Discrete; wrap the environment first: "
                f"safe2real.systems.{how}"
            )


def name_of(env: Any) -> str:
    """Return the class name of an environment without its wrappers."""
    return type(getattr(env, "unwrapped", env)).__name__


class FiniteTranslation:
    """The states and actions of the environment that a `FiniteSystem` was made of."""

    def __init__(
        self,
        system: FiniteSystem,
        state_of: Callable[[Any], int] | None = None,
        action_of: Callable[[int], Any] | None = None,
    ) -> None:
        """`state_of` numbers an observation and `action_of` names an action, where the environment's are no numbers."""
        self._system = system
        self._number = state_of or (lambda observation: state_number(observation, system.first_state))
        self.action_of = action_of or (lambda action: action + system.first_action)
        ways: dict[int, list[tuple[float, int]]] = {}  # (cost, state) of every way to enter a state and go on
        for (state, cost, terminated), number in system.arrivals.items():
            if not terminated:
                ways.setdefault(state, []).append((cost, number))
        self._ways = ways

    def begin(self, observation: Any) -> int:
        return self._system.state_of(self._number(observation))

    def follow(self, state: int, action: int, observation: Any, reward: float | None, cost: float | None) -> int:
        system, here = self._system, self._number(observation)
        given, ways = system.arrival_cost, self._ways.get(here, [])
        if given is None:  # a cost of being in a state: no state has copies, whatever a step is said to have cost
            return system.state_of(here)
        if cost is not None:
            return system.state_of(here, finite_number("cost", float(cost)))
        if reward is not None:
            paid = cost_on_arrival(given, int(system.origin[state]), action, here, float(reward), False)
            return system.state_of(here, paid)
        if not ways:
            raise unknown_arrival(f"the environment entered state {here}", (here, 0.0, False))
        if len(ways) > 1:
            costs = " and ".join(f"{paid:g}" for paid, _ in sorted(ways))
            raise InvalidInput(
                f"the environment's state {here} can be entered at the costs {costs}, and the model tells these apart; say "
                "what the last step paid: agent(observation, reward=reward), or cost= where the environment says the cost"
            )
        return ways[0][1]


def key_of(value: Any) -> Any:
    """Return what a state, an action or a label is known by: plain numbers for NumPy's, tuples for lists and arrays."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (np.ndarray, list)):
        return tuple(key_of(one) for one in value) if np.ndim(value) else key_of(np.asarray(value)[()])
    return value


def legend_of_env(
    env: Any,
    num_states: int,
    num_actions: int,
    given: Legend = NAMELESS,
) -> Legend:
    """Return the given names; missing ones are those of the environment, if there is one and it has names.

    Raises:
        InvalidInput: the given names are of another size.
    """
    given.check_size(num_states, num_actions)
    own: Any = env.get_wrapper_attr("legend") if isinstance(env, gymnasium.Env) and env.has_wrapper_attr("legend") else None
    if not isinstance(own, Legend):
        own = _said_by(getattr(env, "unwrapped", env), num_states, num_actions)
    where = own.positions if given.positions is None else given.positions
    return Legend(given.states or own.states, given.actions or own.actions, where)


def listed_names(what: str, values: Sequence[Hashable]) -> tuple[str, ...] | None:
    """Name listed values: texts as they are, others as state (3, 2); None where one of them cannot be printed."""
    names = tuple(value if isinstance(value, str) else f"{what} {value}" for value in values)
    try:
        return Legend.of(names).states
    except InvalidInput:
        return None


def grid_positions(rows: int, columns: int) -> ArrayLike:
    """Return [rows columns, 2] (column, row) of the cells of a grid, counted row by row from the top left."""
    row, column = np.divmod(np.arange(rows * columns), columns)
    return np.stack([column, row], axis=1).astype(np.float64)


def _said_by(core: Any, num_states: int, num_actions: int) -> Legend:
    meanings = getattr(core, "get_action_meanings", None)
    actions = getattr(core, "action_names", None)
    if actions is None and callable(meanings):
        actions = meanings()
    return Legend(
        _fitting(getattr(core, "state_names", None), num_states),
        _fitting(actions, num_actions),
        Legend.of(positions=_grid_of(core, num_states)).positions,
    )


def _fitting(names: Any, size: int) -> tuple[str, ...]:
    """Return the names that an environment gives, or () where they are unusable: names are optional."""
    try:
        found = Legend.of(names).states
    except InvalidInput:
        return ()
    return found if len(found) == size else ()


def _grid_of(core: Any, num_states: int) -> ArrayLike | None:
    sides = getattr(core, "nrow", None), getattr(core, "ncol", None)
    for shape in (np.shape(getattr(core, "desc", ())), getattr(core, "shape", None), sides):
        if isinstance(shape, tuple) and len(shape) == 2 and all(isinstance(side, int | np.integer) for side in shape):
            rows, columns = int(shape[0]), int(shape[1])
            if rows * columns == num_states and min(rows, columns) > 1:
                return grid_positions(rows, columns)
    return None
