"""One episode: all that crosses from the real system to us."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from safe2real.errors import InvalidInput
from safe2real.model.cmdp import CMDP
from safe2real.model.policy import MarkovPolicy
from safe2real.model.validation import Floats, Indices, frozen, whole_numbers

_BLOCK = 4_096  # episodes that are looked at together


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Trajectory:
    """States and actions of one episode; build one with `Trajectory.of`, which checks it against its system.

    An episode has `model.steps` actions; one that was cut short has the first n of them, and its transitions are as good as
    any.
    """

    states: Indices  # [n + 1], n <= steps
    actions: Indices  # [n]
    labels: Indices | None = None  # [n] of the noise that was drawn at each step, where the system says so
    seed: int | None = None  # that the environment was reset with, where it is known: episodes of one seed count once

    def __post_init__(self) -> None:
        for name in ("states", "actions", "labels"):
            given = getattr(self, name)
            if not isinstance(given, np.ndarray) and not (name == "labels" and given is None):
                numbers = whole_numbers(name, given, below=np.iinfo(np.uint32).max, what=name)
                object.__setattr__(self, name, frozen(numbers.astype(np.uint32)))

    def __repr__(self) -> str:
        first = " ".join(f"{s} -{a}->" for s, a in zip(self.states[:4].tolist(), self.actions[:4].tolist(), strict=False))
        return f"Trajectory({self.length} steps: {first} ...)"

    @property
    def length(self) -> int:
        """Steps that were taken."""
        return self.actions.size

    @classmethod
    def of(
        cls,
        model: CMDP,
        states: ArrayLike,
        actions: ArrayLike,
        *,
        labels: ArrayLike | None = None,
        seed: int | None = None,
        partial: bool = False,
        any_start: bool = False,
    ) -> Trajectory:
        """Build an episode of a system; its transitions may differ from those of `model`.

        Args:
            model: the system with its states, actions, start and horizon.
            states: [n + 1] visited, n = model.steps.
            actions: [n] taken.
            labels: [n] of the noise that was drawn, for problems whose ties say that it is reported.
            seed: the environment's seed at the reset, where it is known.
            partial: whether to accept the first n >= 1 steps of an episode that was cut short.
            any_start: whether to accept an episode that began where those of `model` never do; the caller deals with it.

        Returns:
            The episode.

        Raises:
            InvalidInput: lengths, ranges or the first state do not fit the system.
        """
        visited = whole_numbers("states", states, below=model.num_states, what="states")
        chosen = whole_numbers("actions", actions, below=model.num_actions, what="actions")
        horizon = model.steps
        steps = chosen.size if partial and 1 <= chosen.size <= horizon else horizon
        if visited.shape != (steps + 1,) or chosen.shape != (steps,):
            wanted = (
                f"an episode of {horizon} steps that was cut short has 1 to {horizon} actions and one state more"
                if partial
                else f"an episode of {horizon} steps has {horizon + 1} states and {horizon} actions"
            )
            short = not partial and chosen.size < horizon
            cure = (
                ". If it was cut short, tell the steps seen with partial=True (--partial on the command line), and do "
                "not fill it up. One that the system itself ended goes on in its absorbing state, see FiniteSystem.as_env"
            )
            cure = cure if short else ""
            raise InvalidInput(f"{wanted}; got shapes {visited.shape} and {chosen.shape}{cure}")
        if not any_start and model.start[visited[0]] == 0.0:
            possible = np.flatnonzero(model.start)
            raise InvalidInput(f"states[0] is {visited[0]}; episodes of this system start in {possible[:10].tolist()}")
        drawn = None if labels is None else _labels(labels, chosen.size)
        return cls(frozen(visited.astype(np.uint32)), frozen(chosen.astype(np.uint32)), drawn, seed)


def _labels(labels: ArrayLike, steps: int) -> Indices:
    drawn = whole_numbers("labels", labels, below=np.iinfo(np.uint32).max, what="labels")
    if drawn.shape != (steps,):
        raise InvalidInput(f"labels has shape {drawn.shape}; give one for each of the {steps} steps")
    return frozen(drawn.astype(np.uint32))


def check_trajectory(model: CMDP, trajectory: Trajectory) -> Trajectory:
    """Return the episode if it is a whole one of `model`'s; it may have been made for another system, or by hand.

    Raises:
        InvalidInput: it is no episode of that system; says what differs.
    """
    if not isinstance(trajectory, Trajectory):
        raise InvalidInput(f"an episode is a {type(trajectory).__name__}; give Trajectory.of(model, states, actions)")
    if _fits(model, trajectory):
        return trajectory
    labels, seed = trajectory.labels, trajectory.seed
    return Trajectory.of(model, trajectory.states, trajectory.actions, labels=labels, seed=seed)


def _fits(model: CMDP, trajectory: Trajectory) -> bool:
    """Whether an episode that `Trajectory.of` has made for some system is one of `model`'s, too."""
    states, actions, labels = trajectory.states, trajectory.actions, trajectory.labels
    kept = [one for one in (states, actions, labels) if one is not None]
    if not all(isinstance(one, np.ndarray) and one.dtype == np.uint32 and not one.flags.writeable for one in kept):
        return False
    steps = actions.size
    if actions.ndim != 1 or states.shape != (steps + 1,) or (labels is not None and labels.shape != (steps,)):
        return False
    return bool(
        steps == model.steps
        and states.max() < model.num_states
        and actions.max() < model.num_actions
        and model.compiled_arrays.start[states[0]] > 0.0
    )


def check_actions(policy: MarkovPolicy, trajectory: Trajectory, where: str, cure: str = "") -> None:
    """Refuse an episode that `policy` cannot have made: bounds on a policy come from its own episodes alone.

    Raises:
        InvalidInput: an action has probability 0 under the policy; says `where`, and the `cure` after it.
    """
    actions, states = trajectory.actions, trajectory.states[: trajectory.length]
    possible = _can_act(policy, np.arange(trajectory.length), states, actions)
    if not possible.all():
        h = int(np.argmin(possible))
        raise InvalidInput(
            f"{where}: actions[{h}] is {actions[h]} in state {states[h]}, which its policy never does there; "
            f"was the episode told for another deployment, or did the machine not follow the policy?{cure}"
        )


def check_episodes_of(
    policies: Sequence[MarkovPolicy], states: Indices, actions: Indices, ends: NDArray[np.int64], chosen: NDArray[np.bool_]
) -> None:
    """`check_actions` of the `chosen` [episodes] among episodes laid end to end: one of `policies` made each of them.

    Raises:
        InvalidInput: none of the policies can have made a chosen episode.
    """
    for first in range(0, chosen.size, _BLOCK):  # of a long log: the numbers below take many times its memory
        last = min(first + _BLOCK, chosen.size)
        if not chosen[first:last].any():
            continue
        begins, lengths = ends[first:last], np.diff(ends[first : last + 1])
        taken = actions[ends[first] : ends[last]]
        steps = np.arange(taken.size) - np.repeat(begins - begins[0], lengths)
        here = states[np.repeat(begins + np.arange(first, last), lengths) + steps]
        made = [np.logical_and.reduceat(_can_act(one, steps, here, taken), begins - begins[0]) for one in policies]
        wrong = np.flatnonzero(chosen[first:last] & ~np.logical_or.reduce(made))
        if wrong.size == 0:
            continue
        i = first + int(wrong[0])
        episode = Trajectory(states[ends[i] + i : ends[i + 1] + i + 1], actions[ends[i] : ends[i + 1]])
        check_actions(policies[0], episode, f"episode {i + 1} of {chosen.size}")


def _can_act(policy: MarkovPolicy, steps: NDArray[Any], states: Indices, actions: Indices) -> NDArray[np.bool_]:
    """[n] whether the policy takes these actions with positive probability."""
    if policy.actions is not None:
        return np.asarray(policy.actions[steps, states] == actions)
    return np.asarray(policy.probabilities[steps, states, actions] > 0.0)


def utilities_along(model: CMDP, states: ArrayLike, actions: ArrayLike) -> Floats:
    """Return the utility of each step of an episode of n actions for each constraint, [K, n]; the sums are its returns.

    [K, n + 1] for a whole episode of a system that counts the end.
    """
    before, taken = with_end(model, np.asarray(states), np.asarray(actions))
    steps = np.arange(taken.size) if model.utilities.shape[1] > 1 else 0
    worth = np.array([utility[steps, before[: taken.size], taken] for utility in model.utilities])
    return worth.reshape(model.num_constraints, taken.size)


def with_end(model: CMDP, states: NDArray[Any], actions: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """States and actions of an episode as `model` sums them: where it counts the end, a whole one has a step more.

    Nothing is done in that step, so its action (0) and the state after it stand for nothing: they are never counted.
    """
    if not model.counts_end or len(actions) != model.steps:
        return states, actions
    return np.append(states, states[-1]), np.append(actions, actions.dtype.type(0))
