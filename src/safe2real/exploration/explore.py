"""Run a learner on a Gymnasium environment, one episode after the other."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from safe2real.errors import InvalidInput, OutsideModel, StepLimit
from safe2real.exploration.learner import Learner
from safe2real.exploration.proposal import Proposal, coin_of, drawn
from safe2real.methods.base import Reason
from safe2real.model.cmdp import CMDP
from safe2real.model.constraint_text import count
from safe2real.model.environment_seeds import EnvironmentSeeds
from safe2real.model.policy import MarkovPolicy
from safe2real.model.trajectory import Trajectory
from safe2real.model.validation import Indices, check_reset, frozen, is_whole, positive_integer, shown
from safe2real.progress import progress_bar
from safe2real.standing import Standing


@dataclass(slots=True)
class Unfinished:
    """A running episode: its states and actions so far."""

    states: list[int] = field(default_factory=list)
    actions: list[int] = field(default_factory=list)
    acting: int | None = None  # the action whose outcome is not known yet, or not to be relied on
    after: int | None = None  # the state that it led to, if that was seen
    seed: int | None = None  # that the environment was reset with

    def prefix(self) -> tuple[list[int], list[int]]:
        """Return (states [n + 1], actions [n]): all whose outcome was seen."""
        if self.acting is None or self.after is None:
            return self.states, self.actions
        return [*self.states, self.after], [*self.actions, self.acting]


class World(Protocol):
    """A source of episodes."""

    @property
    def faults(self) -> tuple[type[BaseException], ...]:
        """Exceptions of `run` that say nothing about the system: they only cut the episode short."""

    def run(self, policy: MarkovPolicy, round_number: int, seen: Unfinished) -> Trajectory:
        """Run one episode; `seen` holds its states and actions so far, in case it breaks off."""


class NotBegun(InvalidInput):
    """The very first reset shows that the environment is wired wrongly: no action was taken, so there is no episode."""


class Miswired(InvalidInput):
    """The very first step shows that the environment is wired wrongly; the episode so far is counted."""


MISWIRED = "a mistake in the wiring of the environment"
_FOR_GOOD = (
    "What was seen of the episode is counted, and this learner certifies nothing any more: mend the environment, and begin "
    "with a new one"
)
_NOTHING_COUNTED = (
    "It was the first episode, so nothing is counted and nothing is refuted: mend the environment, and explore again"
)
_LONGEST_CAUSE = 300


def drive(
    learner: Learner, world: World, *, max_rounds: int, progress: Callable[[Proposal], None] | None = None
) -> Proposal:
    """Propose, run and observe until the stop, a halt, or for `max_rounds` rounds; returns the last proposal.

    `progress(proposal)` is called before every round. Exceptions of `world` are raised again once the episode so far is
    counted.
    """
    for _ in range(max_rounds):
        proposal = learner.propose()
        if progress is not None:
            progress(proposal)
        if proposal.is_last:
            return proposal
        _run_round(learner, world, proposal)
    return learner.propose()


def drive_batch(learner: Learner, world: World, proposal: Proposal, *, first_round: int, episodes: int) -> None:
    """Run `episodes` episodes of one proposal, from round `first_round` on, each with its own coin, and count them all.

    The proposal's certificate holds for all of them, as for a batch of a campaign.
    """
    if proposal.mixture is None:
        return
    # Expanded once: a deterministic policy would compute its probabilities at every access.
    parts = [MarkovPolicy(*part.shape, None, part.probabilities) for part in proposal.mixture.policies]
    numbers = range(first_round, first_round + episodes)
    shown = [drawn(proposal.mixture.weights, coin_of(learner.settings.coin_seed, number)) for number in numbers]
    seen = [world.run(parts[index], number, Unfinished()) for index, number in zip(shown, numbers, strict=True)]
    of_baseline = np.array([proposal.mixture.policies[index] is learner.baseline for index in shown])
    learner.count(
        np.concatenate([episode.states for episode in seen]),
        np.concatenate([episode.actions for episode in seen]),
        np.cumsum([0, *(episode.length for episode in seen)], dtype=np.int64),
        of_baseline=of_baseline,
        of_candidate=~of_baseline,
    )


def _run_round(learner: Learner, world: World, proposal: Proposal) -> None:
    policy, seen = proposal.draw(), Unfinished()
    try:
        episode = world.run(policy, proposal.round, seen)
    except BaseException as error:
        _count_beginning(learner, world, seen, error)
        raise
    try:
        learner.observe(episode)
    except InvalidInput as error:  # the report is wrong, but the episode has run, so it must count
        _break_off(learner, episode.states[:-1].tolist(), episode.actions.tolist(), error)


def _count_beginning(learner: Learner, world: World, seen: Unfinished, error: BaseException) -> None:
    """Count the beginning of an episode that `error` ended: cut short by a fault, or else as one that left the model.

    Nothing is counted of a wiring mistake in the first episode, nor of one in the first reset of a later call.
    """
    if isinstance(error, NotBegun):
        return
    if isinstance(error, InvalidInput) and _is_wiring_mistake(learner, error, seen):
        if seen.states:
            learner.skip_round()
        raise type(error)(f"{error}. {_NOTHING_COUNTED}") from error
    # InvalidInput is raised here, not by the environment: the two do not fit, which is never one of the user's faults.
    fault = isinstance(error, world.faults) and not isinstance(error, InvalidInput)
    if fault or isinstance(error, (StepLimit, Miswired)):
        states, actions = seen.prefix()
        learner.cut_short(states, actions, MISWIRED if isinstance(error, Miswired) else type(error).__name__)
        return
    unfinished = [] if seen.acting is None else [seen.acting]
    _break_off(learner, seen.states, [*seen.actions, *unfinished], error)


def _is_wiring_mistake(learner: Learner, error: InvalidInput, seen: Unfinished) -> bool:
    """Return whether an error shows a mistake in the wiring, found before anything was counted.

    A state that the model lacks is the system's behaviour, unless no step was taken. Dropping an episode of a policy whose
    own returns are bounded would bias its mean.
    """
    first = learner.round == 1 or learner.evidence.counts.episodes == 0
    sound = not learner.is_refuted and not learner.evidence.goes_by_returns
    return first and sound and (not isinstance(error, OutsideModel) or not seen.states)


def _break_off(learner: Learner, states: list[int], actions: list[int], error: BaseException) -> None:
    """Count an episode whose last outcome counts as outside the model, and add the cause and the consequence."""
    learner.leave_model(states[: len(actions)], actions)
    cause = (str(error) if isinstance(error, OutsideModel) else f"{type(error).__name__}: {error}")[:_LONGEST_CAUSE]
    causes = learner.evidence.broken_off
    causes[cause] = causes.get(cause, 0) + 1
    if isinstance(error, InvalidInput):
        kind = OutsideModel if isinstance(error, OutsideModel) else InvalidInput
        raise kind(f"{error}. {_FOR_GOOD}") from error
    error.add_note(_FOR_GOOD)


@dataclass(frozen=True, slots=True)
class ExploreEvent:
    """The progress of `explore`; no field is ever None."""

    proposal: Proposal  # of the next episode; at the end, the one that `explore` returns
    episodes: int  # of this call so far
    max_rounds: int
    samples: int  # of the learner, earlier calls included
    standing: Standing
    over: bool  # no episode follows: the stop, a halt, or `max_rounds`

    def __str__(self) -> str:
        done = f"{self.episodes:,} of {count(self.max_rounds, 'episode')}, {count(self.samples, 'sample')}"
        return f"{done}, {self.standing}: {self.proposal.reason.name.lower()}"


def explore(
    learner: Learner,
    env: Any,
    *,
    max_rounds: int,
    faults: tuple[type[BaseException], ...] = (),
    progress: Callable[[ExploreEvent], None] | bool | None = None,
    keep: list[tuple[MarkovPolicy, Trajectory]] | None = None,
) -> Proposal:
    """Propose, roll out on `env` and observe, until the stop or for `max_rounds` rounds.

    An episode that terminates early stays in its last state, as the simulator's absorbing rows say. The environment's
    rewards and costs are not read. It is reset with a seed that no counted episode had (`Learner.seeds`): episodes of
    different seeds must be independent. If the environment raises, the episode so far is counted first. An exception
    counts as behaviour outside the model (`OutsideModel` says just that): the learner certifies nothing any more, and its
    doubts name the cause.

    The first episode of a learner tests the wiring. A mistake there is refused, nothing is counted or refuted, and the
    learner continues once the environment is fixed: a limit of steps below the horizon, a reset in a state that is not a
    declared start, an observation that is no whole number. A state that the model lacks, reached by a step, is the system's
    behaviour, and refutes even then. Later calls are stricter: a mistake in their first reset is refused too, and one in
    their first step cuts the episode short as a fault, which certificates name.

    Args:
        learner: it is changed, by every episode.
        env: any Gymnasium environment with discrete observations and actions of the learner's sizes.
        max_rounds: episodes at most.
        faults: exceptions that are faults of the environment and not of the system, say a lost connection: such an episode
            is only cut short, and every certificate then assumes that the fault is independent of the system's next
            behaviour. A keyboard interrupt counts as a fault.
        progress: shows a bar with the time left to `max_rounds`, which the stop may save: True always, False never, None
            on a terminal, and lines of the log elsewhere; or a function that is given an `ExploreEvent` before every episode
            and when it is over.
        keep: a list to which every episode is added with the policy that was drawn for it, also the beginning of one that
            breaks off: a learner with other assumptions can count them by `import_episodes`.

    Returns:
        The last proposal. Its reason is STOP after the stop, and HALT if the data refute the baseline's margin: stop the
        machine then. Where the data refute an assumption on the way, a warning says so.

    Raises:
        InvalidInput: the environment does not fit the learner's system.
        OutsideModel: it showed a state that the model has not.
        Exception: any exception of the environment, faults too.

    Example:
        >>> s2r.explore(learner, system.as_env(machine), max_rounds=1_000)
    """
    model, max_rounds = learner.simulator, positive_integer("max_rounds", max_rounds)
    if not (hasattr(env, "observation_space") and hasattr(env, "action_space")):
        if isinstance(env, type):
            raise InvalidInput(f"{env.__name__} is a class; give an instance, {env.__name__}()")
        raise InvalidInput(f"env is a {type(env).__name__}; give a Gymnasium environment")
    check_reset(env)
    _check_space("observation", env.observation_space, model.num_states)
    _check_space("action", env.action_space, model.num_actions)
    reported = learner.problem.reports_labels
    world: World = Environment(model, env, learner.seeds, (*faults, KeyboardInterrupt), reported=reported)
    if keep is not None:
        world = _Keeping(world, model, keep)
    first, sound = learner.round, not learner.is_refuted
    with progress_bar("episodes", False if callable(progress) else progress) as report:

        def tell(proposal: Proposal, *, over: bool) -> None:
            if callable(progress):
                episodes = proposal.round - first
                progress(ExploreEvent(proposal, episodes, max_rounds, learner.samples, learner.standing, over))
            elif report is not None:
                report(proposal.round - first, max_rounds)

        last = drive(learner, world, max_rounds=max_rounds, progress=lambda one: tell(one, over=one.is_last))
        if not last.is_last:
            tell(last, over=True)
    if sound and learner.is_refuted:
        said = "STOP THE MACHINE: " if last.reason is Reason.HALT else ""
        warnings.warn(f"{said}nothing is certified any more: {'; '.join(map(str, learner.doubts()))}", stacklevel=2)
    return last


class _Keeping:
    """A world that stores every episode of another one, also unfinished ones."""

    def __init__(self, world: World, model: CMDP, kept: list[tuple[MarkovPolicy, Trajectory]]) -> None:
        self.world, self.model, self.kept, self.faults = world, model, kept, world.faults

    def run(self, policy: MarkovPolicy, round_number: int, seen: Unfinished) -> Trajectory:
        episode = None
        try:
            episode = self.world.run(policy, round_number, seen)
            return episode
        finally:
            states, actions = seen.prefix()
            if episode is None and actions:
                episode = Trajectory.of(self.model, states, actions, seed=seen.seed, partial=True)
            if episode is not None:
                self.kept.append((policy, episode))


class Environment:
    """A Gymnasium environment with the states and actions of `model`. Every round seeds it anew, with an unused seed."""

    def __init__(
        self,
        model: CMDP,
        env: Any,
        seeds: EnvironmentSeeds,
        faults: tuple[type[BaseException], ...] = (),
        *,
        reported: bool = False,
    ) -> None:
        """With `reported` every step must give the number of the drawn label as info["noise"]."""
        self.model, self.env, self.seeds, self.faults, self.reported = model, env, seeds, faults, reported
        self._tried = False  # whether a step has come back as it must

    def run(self, policy: MarkovPolicy, round_number: int, seen: Unfinished) -> Trajectory:
        """Run one episode; an error before the first step has returned counts as a mistake in the wiring.

        Exceptions are a state outside the model, which is the system's behaviour, and a step limit, which has its own error.
        """
        try:
            return self._episode(policy, round_number, seen)
        except InvalidInput as error:
            if self._tried or isinstance(error, (OutsideModel, StepLimit)):
                raise
            raise (Miswired if seen.states else NotBegun)(str(error)) from error

    def _episode(self, policy: MarkovPolicy, round_number: int, seen: Unfinished) -> Trajectory:
        model, table = self.model, policy.probabilities
        seen.seed = self.seeds.of_round(round_number)
        begun = _state(_shaped(self.env.reset(seed=seen.seed), 2, "env.reset")[0], model.num_states, "env.reset")
        if model.start[begun] == 0.0:
            raise OutsideModel(f"env.reset showed {_called(model, begun)}; episodes of the model start in {_starts(model)}")
        seen.states.append(begun)
        terminated, last = False, model.steps - 1
        labels: list[int] = []
        for h in range(model.steps):
            here = seen.states[-1]
            seen.acting = drawn(table[h, here], self.seeds.draw(round_number, 2 + 2 * h))
            if not terminated:
                observed, _, terminated, truncated, info = _shaped(self.env.step(seen.acting), 5, "env.step")
                seen.after = here = _state(observed, model.num_states, "env.step")
                if self.reported:
                    labels.append(_label(info))
                self._tried = True
                if terminated and h < last and not _absorbs(model, here, h + 1):
                    raise InvalidInput(
                        f"the environment ended the episode in state {here} after {h + 1} steps, but the simulator's "
                        "rows there are not self-loops; add an absorbing state for the end of the episode"
                    )
                if terminated and h < last and self.reported:
                    raise InvalidInput(
                        f"the environment ended the episode after {h + 1} steps, and the ties say that all {model.steps} "
                        "report the number of a label; let it go on to the horizon, or say that labels are not reported"
                    )
                if truncated and not terminated and h < last:
                    raise StepLimit(
                        f"the environment cut the episode off after {h + 1} steps, before the horizon of {model.steps}; "
                        "raise its max_episode_steps to the horizon"
                    )
            seen.actions.append(seen.acting)
            seen.states.append(here)
            seen.acting = seen.after = None
        labelled = _numbers(labels) if self.reported else None  # each was checked on arrival; `observe` checks the whole
        return Trajectory(_numbers(seen.states), _numbers(seen.actions), labelled, seen.seed)


def _numbers(listed: list[int]) -> Indices:
    return frozen(np.array(listed, dtype=np.uint32))


def _starts(model: CMDP) -> str:
    states = np.flatnonzero(model.start)[:10].tolist()
    return " or ".join(_called(model, state) for state in states) if model.legend.states else f"{states}"


def _called(model: CMDP, state: int) -> str:
    """Return the name of a state with its number, where it has a name."""
    return f"{model.legend.state(state)!r} (state {state})" if model.legend.states else f"state {state}"


def _state(observed: Any, num_states: int, place: str) -> int:
    given = observed.item() if isinstance(observed, (np.ndarray, np.generic)) and observed.size == 1 else observed
    state = int(given) if isinstance(given, float) and given.is_integer() else given
    if not is_whole(state):
        raise InvalidInput(
            f"{place} showed {shown(observed)}; a state is a whole number: show the environment in the numbers of the "
            "system, system.as_env(env)"
        )
    if not 0 <= state < num_states:
        raise OutsideModel(f"{place} showed state {state}; the model has {num_states} states, from 0 to {num_states - 1}")
    return state


def _shaped(result: Any, parts: int, place: str) -> Any:
    if not isinstance(result, (tuple, list)) or len(result) != parts:
        raise InvalidInput(f"{place} gave {shown(result)}; an environment of Gymnasium gives {parts} things")
    return result


def _label(info: Any) -> int:
    given: Any = info.get("noise") if isinstance(info, Mapping) else None
    if not (is_whole(given) and 0 <= given < np.iinfo(np.uint32).max):
        raise InvalidInput(
            f"info['noise'] is {shown(given)}, and the ties say that every step reports the number of its label; report "
            "it, or say that labels are not reported"
        )
    return int(given)


def _absorbs(model: CMDP, state: int, step: int) -> bool:
    """Return whether the simulator stays in `state` from `step` on, whatever the action."""
    kernel, actions = model.kernel, model.num_actions
    steps = [0] if kernel.is_stationary else range(step, model.horizon)
    rows = [(h * kernel.num_states + state) * actions + a for h in steps for a in range(actions)]
    return all(kernel.row(row)[0].tolist() == [state] for row in rows)


def _check_space(name: str, space: Any, size: int) -> None:
    if not hasattr(space, "n"):
        raise InvalidInput(
            f"the {name} space is {space}; it must be Discrete({size}): give system.as_env(env) if a system made "
            "the model, else bin it first"
        )
    if int(space.n) != size or int(getattr(space, "start", 0)) != 0:
        raise InvalidInput(f"the {name} space is {space}; the learner's system needs Discrete({size}) starting at 0")
