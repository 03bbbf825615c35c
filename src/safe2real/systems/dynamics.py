"""Systems that engineers write as s' = f(s, a, w): the map f is known, the law of the finite noise w is not.

From f and a guess of the law this makes the simulator (its rows are the law pushed through f), the numbering of states and
actions, and the ties: rows of one noise class share one law over w, whatever that is in reality (docs/structure.md).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import ArrayLike, NDArray

from safe2real.errors import InvalidInput, OutsideModel
from safe2real.model.cmdp import CMDP
from safe2real.model.names import Legend
from safe2real.model.validation import Floats, check_function, distributions, finite_floats, finite_number, frozen, shown
from safe2real.problem.ties import Ties
from safe2real.systems.finite import TIES_HINT, FiniteSystem, SystemDescription, build_system
from safe2real.systems.finite_env import FiniteTranslation, key_of, listed_names
from safe2real.systems.outcomes import Outcomes
from safe2real.systems.rollout import Runnable

NOISE = "noise"
"""Where an environment's `info` says which noise was drawn."""


class DynamicsEnv(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment seen in the numbers of `Dynamics`: Discrete spaces, episodes of exactly H steps."""

    def __init__(self, env: gymnasium.Env[Any, Any], system: Dynamics) -> None:
        if not (hasattr(env, "observation_space") and hasattr(env, "action_space")):
            raise InvalidInput(f"env is a {type(env).__name__}; give a Gymnasium environment, e.g. gymnasium.make(...)")
        super().__init__(env)
        self.model, self.ties = system.model, system.ties
        self.observation_space = gymnasium.spaces.Discrete(self.model.num_states)
        self.action_space = gymnasium.spaces.Discrete(self.model.num_actions)
        self._translation = system.translation
        self._labels = {label: number for number, label in enumerate(system.noise)}
        self._state = self._step = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        observed, info = self.env.reset(seed=seed, options=options)
        self._state, self._step = self._translation.begin(observed), 0
        return self._state, info

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        observed, reward, terminated, truncated, info = self.env.step(self._translation.action_of(int(action)))
        self._step += 1
        last = self._step >= self.model.steps
        if (terminated or truncated) and not last:
            raise InvalidInput(
                f"the environment ended the episode after {self._step} steps, before the horizon of {self.model.steps}; "
                "let it go on in an absorbing state, or make it with max_episode_steps of at least the horizon"
            )
        before, self._state = self._state, self._translation.begin(observed)
        if NOISE in info:
            info = {**info, NOISE: self._label(info[NOISE], before, int(action))}
        return self._state, float(reward), False, last, info

    def _label(self, given: Any, state: int, action: int) -> int:
        """The number of the label that was reported for a step from `state`, which f must lead to where it led."""
        key = key_of(given)
        if not isinstance(key, Hashable) or key not in self._labels:
            raise InvalidInput(
                f"info[{NOISE!r}] is {shown(given)}, which is none of the {len(self._labels)} values of noise; report the "
                "one that was drawn, or nothing"
            )
        label = self._labels[key]
        after = np.asarray(self.ties.successors)[..., state, action, label].reshape(-1)[0]
        if after != self._state:
            leads = "which cannot happen there" if after < 0 else f"which leads to state {after}"
            raise OutsideModel(
                f"from state {state} with action {action} the environment went to state {self._state} and reported the "
                f"noise {given!r}, {leads}; the step that was declared is not the system's"
            )
        return label


Step = Callable[[Any, Any, Any], Any]
"""step(state, action, w): the next state, or None where w cannot happen."""


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Dynamics(Runnable):
    """A system s' = f(s, a, w) in numbers; made by `from_dynamics`. State, action and label i are the i-th of their list."""

    system: FiniteSystem  # `model`, `reward` and what shows a running environment in these numbers
    ties: Ties
    states: tuple[Hashable, ...]  # [S]
    actions: tuple[Hashable, ...]  # [A]
    noise: tuple[Hashable, ...]  # [L] the labels

    def __repr__(self) -> str:
        missing = (
            ""
            if self.unit_reward.any()
            else "\n  no reward: unit_reward is 0; give from_dynamics(..., reward=) or plan for where(...)"
        )
        return f"Dynamics({len(self.noise)} values of noise)\n  {self.model}\n  {TIES_HINT}{missing}"

    @property
    def model(self) -> CMDP:
        """The model of its system."""
        return self.system.model

    @property
    def unit_reward(self) -> Floats:
        """The reward [S, A] that was given, shifted and scaled to [0, 1], as planning wants it; 0 where none was given."""
        return self.system.unit_reward

    def where(self, predicate: Callable[[Any], bool]) -> Floats:
        """Return the reward that is 1 in all states with a property, else 0.

        Args:
            predicate: a function of a state; true where the reward is paid.

        Returns:
            A reward [S, A] to plan for.
        """
        check_function("predicate", predicate, "state")
        return self.system.where(np.array([bool(predicate(state)) for state in self.states]))

    def as_env(self, env: gymnasium.Env[Any, Any]) -> DynamicsEnv:
        """Show a running environment, whose observations are `states`, in the model's numbers.

        It is stepped with the `actions` themselves. If it reports the noise that was drawn, in `info["noise"]`, the report
        is compared with f at once, and passed on as the number of the label.

        Args:
            env: the real environment.

        Returns:
            The environment, for `explore` and `roll_out`.
        """
        return DynamicsEnv(env, self)

    @property
    def translation(self) -> FiniteTranslation:
        """Between `states` and `actions` and their numbers, for agents."""
        numbers = {state: number for number, state in enumerate(self.states)}

        def state_of(observation: Any) -> int:
            key = key_of(observation)
            if not isinstance(key, Hashable) or key not in numbers:
                raise OutsideModel(f"an observation is {shown(observation)}, which is none of the {len(numbers)} states")
            return numbers[key]

        return FiniteTranslation(self.system, state_of, self.actions.__getitem__)


@dataclass(frozen=True, eq=False, slots=True)
class Noise:
    """The finite noise w of s' = f(s, a, w), and the law of it that only the simulator claims to know.

    Args:
        values: [L] the values that w can have.
        law: the simulator's law of w: one probability for each of `values`, or a mapping from w to it. With `classes` a
            mapping from each class to such a law.
        classes: a function of (state, action): those of one class share one law. All share one if it is left out.
        exact: whether the real system is such a system, with this f and these classes, for any laws. Certificates then rest
            on this claim and name it first. Otherwise the ties only find plans, which a trial has to certify.
        reported: whether every episode will say which w was drawn (`info["noise"]`); rows in which two values of w look
            alike can then be learnt from too.
    """

    values: Iterable[Hashable]
    law: Any
    classes: Callable[[Any, Any], Hashable] | None = None
    exact: bool = False
    reported: bool = False


def from_dynamics(
    states: Iterable[Hashable],
    actions: Iterable[Hashable],
    step: Step,
    noise: Noise,
    horizon: int,
    description: SystemDescription,
    *,
    reward: Callable[[Any, Any], float] | ArrayLike | None = None,
) -> Dynamics:
    """Make the system s' = step(s, a, w), with w drawn from a law that only the simulator claims to know.

    Args:
        states: all of them, in the order of their numbers.
        actions: likewise.
        step: the next state, one of `states`; None where that w cannot happen.
        noise: the values of w and their law.
        horizon: actions of an episode.
        description: with a `start`, one of `states` or a distribution [S]. Its cost is a function of (state, action), or an
            array [S] or [S, A].
        reward: a function of (state, action) or an array [S, A]; 0 if it is left out.

    Returns:
        The system, with `model` and `ties` for a `Problem`.

    Raises:
        InvalidInput: a law is no distribution, or a step leads to a state that is not listed; names it.

    Example:
        >>> pond = from_dynamics(
        ...     range(5), (0, 1, 2), lambda level, out, rain: min(4, max(0, level - out) + rain),
        ...     Noise((0, 1, 2), [0.5, 0.3, 0.2]), 12,
        ...     SystemDescription(start=2, cost=lambda level, out: level == 4, limit=2.0),
        ... )
        >>> pond.model.num_states, pond.ties.num_labels
        (5, 3)
    """
    if not isinstance(noise, Noise):
        raise InvalidInput(f"noise is {shown(noise)}; give Noise(values, law)")
    description = SystemDescription.of(description)
    listed = _distinct("states", states), _distinct("actions", actions), _distinct("noise", noise.values)
    check_function("step", step, "state, action, w")
    if noise.classes is not None:
        check_function("noise.classes", noise.classes, "state, action")
    if description.drop_unreachable or description.ended is not None:
        raise InvalidInput("from_dynamics keeps all states and no episode ends early; leave drop_unreachable and ended out")
    if description.start is None:
        raise InvalidInput("the description has no start; give start=, one of the states or a distribution over them")
    successors = _successors(step, *listed)
    classes, class_names = _classes(noise.classes, *listed[:2])
    laws = _laws(noise.law, class_names if noise.classes is not None else None, listed[2])
    ties = Ties(
        classes,
        successors,
        exact=noise.exact,
        reported=noise.reported,
        laws=laws,
        class_names=_names(class_names),
        label_names=_names(listed[2]),
    )
    outcomes = _outcomes(successors, laws[classes], _table("reward", reward, *listed[:2]))
    start, cost = description.start, description.cost
    first = start if np.ndim(start) == 1 and not isinstance(start, tuple) else _first_state(start, listed[0])
    costs = None if cost is None else _table("cost", cost, *listed[:2])
    legend = Legend.of(
        description.state_names or listed_names("state", listed[0]),
        description.action_names or listed_names("action", listed[1]),
        description.positions,
    )
    system = build_system(outcomes, horizon, replace(description, start=first, cost=costs), legend=legend)
    return Dynamics(system, ties, *listed)


def _successors(step: Step, states: Sequence[Any], actions: Sequence[Any], noise: Sequence[Any]) -> NDArray[np.int64]:
    """[S, A, L]; -1 where a value of w cannot happen."""
    numbers = {state: number for number, state in enumerate(states)}
    found = np.full((len(states), len(actions), len(noise)), -1, dtype=np.int64)
    for index in np.ndindex(found.shape):
        s, a, w = states[index[0]], actions[index[1]], noise[index[2]]
        after = key_of(step(s, a, w))
        if after is None:
            continue
        if not isinstance(after, Hashable) or after not in numbers:
            raise InvalidInput(
                f"step({s!r}, {a!r}, {w!r}) is {shown(after)}, which is none of the {len(states)} states; let it return one "
                "of them, or None where that noise cannot happen"
            )
        found[index] = numbers[after]
    return found


def _classes(
    given: Callable[[Any, Any], Hashable] | None, states: Sequence[Any], actions: Sequence[Any]
) -> tuple[NDArray[np.int64], tuple[Hashable, ...]]:
    """([S, A] the class of each row, [C] what the user calls them)."""
    numbers: dict[Hashable, int] = {}
    found = np.zeros((len(states), len(actions)), dtype=np.int64)
    for s, a in np.ndindex(found.shape):
        called = "noise" if given is None else key_of(given(states[s], actions[a]))
        if not isinstance(called, Hashable):
            raise InvalidInput(
                f"noise.classes({states[s]!r}, {actions[a]!r}) is {shown(called)}; name it by a number, a text or a tuple"
            )
        found[s, a] = numbers.setdefault(called, len(numbers))
    return found, tuple(numbers)


def _laws(given: Any, classes: tuple[Hashable, ...] | None, noise: Sequence[Hashable]) -> Floats:
    """[C, L]"""
    if classes is None:
        for one, law in given.items() if isinstance(given, Mapping) else ():
            if isinstance(law, Sequence | Mapping | np.ndarray):
                raise InvalidInput(
                    f"noise.law has a law for {one!r}, as for a class, and the noise has no classes; give "
                    "Noise(..., classes=), a function of (state, action) that returns the class"
                )
        return _law("noise.law", given, noise)[None, :]
    if not isinstance(given, Mapping):
        raise InvalidInput(f"noise.law is {shown(given)}; with classes give a mapping from each class to its law")
    missing = [one for one in classes if one not in given]
    if missing:
        raise InvalidInput(f"noise.law has no law for the class {missing[0]!r}, which noise.classes names; add it")
    unused = [one for one in given if one not in classes]
    if unused:
        raise InvalidInput(
            f"noise.law has a law for {unused[0]!r}, which noise.classes names for no state and action; correct the one "
            "or the other, or leave it out"
        )
    return np.stack([_law(f"noise.law[{one!r}]", given[one], noise) for one in classes])


def _law(name: str, given: Any, noise: Sequence[Hashable]) -> Floats:
    """[L]"""
    if isinstance(given, Mapping):
        unknown = [one for one in given if one not in noise]
        if unknown:
            raise InvalidInput(
                f"{name} has a probability for {unknown[0]!r}, which is no noise; it has {shown(list(noise))}"
            )
        given = [given.get(one, 0.0) for one in noise]
    law = distributions(name, given)
    if law.shape != (len(noise),):
        raise InvalidInput(
            f"{name} has shape {law.shape}; give one probability for each of the {len(noise)} values of noise"
        )
    return law


def _table(name: str, given: Any, states: Sequence[Any], actions: Sequence[Any]) -> Floats:
    """[S, A] of a function of (state, action), or of an array."""
    shape = (len(states), len(actions))
    if given is None:
        return np.zeros(shape)
    if callable(given):
        check_function(name, given, "state, action")
        given = [[_called(name, given, state, action) for action in actions] for state in states]
    array = finite_floats(name, given)
    if array.shape not in (shape, shape[:1]):
        raise InvalidInput(f"{name} has shape {array.shape}; give a function of (state, action), or an array {shape}")
    return np.array(np.broadcast_to(array[:, None] if array.ndim == 1 else array, shape))


def _called(name: str, function: Callable[[Any, Any], Any], state: Any, action: Any) -> float:
    value = function(state, action)
    return finite_number(f"{name}({state!r}, {action!r})", float(value) if isinstance(value, (bool, np.bool_)) else value)


def _outcomes(successors: NDArray[np.int64], laws: Floats, rewards: Floats) -> Outcomes:
    """Return the possible outcomes under the simulator's laws [S, A, L]."""
    impossible = (laws > 0.0) & (successors < 0)
    if impossible.any():
        s, a, w = np.argwhere(impossible)[0]
        raise InvalidInput(
            f"noise.law gives label {w} the probability {laws[s, a, w]:g} in state {s} with action {a}, where step says "
            "that it cannot happen; make it 0, or say where it leads"
        )
    states, actions, labels = np.nonzero(laws > 0.0)
    return Outcomes(
        num_states=len(successors),
        num_actions=successors.shape[1],
        states=states,
        actions=actions,
        successors=successors[states, actions, labels],
        probabilities=frozen(laws[states, actions, labels]),
        rewards=rewards[states, actions],
        terminated=np.zeros(states.size, dtype=np.bool_),
        costs=np.zeros(states.size),
    )


def _distinct(name: str, values: Iterable[Any]) -> tuple[Hashable, ...]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise InvalidInput(f"{name} is {shown(values)}; list them, each once: numbers, texts or tuples")
    found = tuple(key_of(value) for value in values)
    if not found or not all(isinstance(one, Hashable) for one in found) or len(set(found)) < len(found):
        raise InvalidInput(f"{name} is {shown(found)}; list each of them once: numbers, texts or tuples")
    return found


def _first_state(start: Any, states: Sequence[Hashable]) -> int:
    key = key_of(start)
    if not isinstance(key, Hashable) or key not in states:
        raise InvalidInput(
            f"start is {shown(start)}, which is none of the {len(states)} that the system has; give one as it was listed"
        )
    return states.index(key)


def _names(values: Sequence[Hashable]) -> tuple[str, ...]:
    """Return the texts of the values as names; none if they are not distinct or not printable."""
    texts = tuple(map(str, values))
    return texts if len(set(texts)) == len(texts) and all(text.isprintable() for text in texts) else ()
