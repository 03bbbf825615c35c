"""The one loop: ask the learner, flip its coin, run an episode somewhere, tell.

What differs between an exploration, a simulated run and a rehearsal is where episodes come from: a `World`. Whatever happens
in an episode, what was seen of it is counted; whether an episode that breaks off refutes the model or is a fault of the
environment is decided here, once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from safe2real.errors import InvalidInput, OutsideModel, StepLimit
from safe2real.exploration.coin import coin_of, drawn
from safe2real.exploration.learner import Learner
from safe2real.exploration.proposal import Proposal
from safe2real.methods.trial_within import running_trial
from safe2real.model.policy import MarkovPolicy
from safe2real.model.trajectory import Trajectory


@dataclass(slots=True)
class Seen:
    """An episode on its way."""

    states: list[int] = field(default_factory=list)
    actions: list[int] = field(default_factory=list)
    acting: int | None = None  # the action whose outcome is not known yet, or not to be relied on
    after: int | None = None  # the state that it led to, if that was seen
    seed: int | None = None  # that the environment was reset with

    def prefix(self) -> tuple[list[int], list[int]]:
        """(states [n + 1], actions [n]): all whose outcome was seen."""
        if self.acting is None or self.after is None:
            return self.states, self.actions
        return [*self.states, self.after], [*self.actions, self.acting]


class World(Protocol):
    """Where episodes come from."""

    @property
    def faults(self) -> tuple[type[BaseException], ...]:
        """What `run` may raise that says nothing about the system: the episode is cut short by it."""

    def run(self, policy: MarkovPolicy, round_number: int, seen: Seen) -> Trajectory:
        """One episode. What has happened of it so far is kept in `seen`, in case it breaks off."""


class NotBegun(InvalidInput):
    """The very first reset shows that the environment is wired wrongly: no action was taken, so there is no episode."""


class Miswired(InvalidInput):
    """The very first step shows that the environment is wired wrongly; what was seen of the episode is counted."""


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

    `progress(proposal)` is called before every round. What `world` raises is raised again when what was seen is counted.
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
    """Hand one proposal out to `episodes` episodes from round `first_round` on, each with its own coin, and count them all.

    What was certified once stays certified: this is what a campaign does with a batch.
    """
    if proposal.mixture is None:
        return
    # Written out once: a deterministic policy does it whenever it is asked.
    parts = [MarkovPolicy(*part.shape, None, part.probabilities) for part in proposal.mixture.policies]
    numbers = range(first_round, first_round + episodes)
    shown = [drawn(proposal.mixture.weights, coin_of(learner.settings.coin_seed, number)) for number in numbers]
    seen = [world.run(parts[index], number, Seen()) for index, number in zip(shown, numbers, strict=True)]
    of_baseline = np.array([proposal.mixture.policies[index] is learner.baseline for index in shown])
    learner.count(
        np.concatenate([episode.states for episode in seen]),
        np.concatenate([episode.actions for episode in seen]),
        np.cumsum([0, *(episode.length for episode in seen)], dtype=np.int64),
        of_baseline=of_baseline,
        of_candidate=~of_baseline & (learner.decide().tries == (running_trial(learner.method) or 0)),
    )


def _run_round(learner: Learner, world: World, proposal: Proposal) -> None:
    policy, seen = proposal.draw(), Seen()
    try:
        episode = world.run(policy, proposal.round, seen)
    except NotBegun:
        raise
    except BaseException as error:
        if isinstance(error, InvalidInput) and _is_slip(learner, error, seen):
            if seen.states:
                learner.skip_round()
            raise type(error)(f"{error}. {_NOTHING_COUNTED}") from error
        # What is raised here, not by the environment, says that the two do not fit: no fault that a user can have meant.
        fault = isinstance(error, world.faults) and not isinstance(error, InvalidInput)
        if fault or isinstance(error, (StepLimit, Miswired)):
            cause = MISWIRED if isinstance(error, Miswired) else type(error).__name__
            states, actions = seen.prefix()
            learner.cut_short(states, actions, cause)
            raise
        unfinished = [] if seen.acting is None else [seen.acting]
        _break_off(learner, seen.states, [*seen.actions, *unfinished], error)
        raise
    try:
        learner.observe(episode)
    except InvalidInput as error:  # what it reports is not what it did; it has run, so it is not forgotten
        _break_off(learner, episode.states[:-1].tolist(), episode.actions.tolist(), error)


def _is_slip(learner: Learner, error: InvalidInput, seen: Seen) -> bool:
    """Whether an error shows a mistake in the wiring, found before anything was counted.

    A state that the model lacks is what the system did, unless not even one step was taken. Dropping an episode of a policy
    whose own returns are bounded would bias its mean.
    """
    first = learner.round == 1 or learner.evidence.counts.episodes == 0
    sound = not learner.is_refuted and not learner.evidence.goes_by_returns
    return first and sound and (not isinstance(error, OutsideModel) or not seen.states)


def _break_off(learner: Learner, states: list[int], actions: list[int], error: BaseException) -> None:
    """Count an episode whose last outcome is not one of the model's, as far as anybody knows; say why, and what follows."""
    learner.leave_model(states[: len(actions)], actions)
    cause = (str(error) if isinstance(error, OutsideModel) else f"{type(error).__name__}: {error}")[:_LONGEST_CAUSE]
    causes = learner.evidence.broken_off
    causes[cause] = causes.get(cause, 0) + 1
    if isinstance(error, InvalidInput):
        kind = OutsideModel if isinstance(error, OutsideModel) else InvalidInput
        raise kind(f"{error}. {_FOR_GOOD}") from error
    error.add_note(_FOR_GOOD)
