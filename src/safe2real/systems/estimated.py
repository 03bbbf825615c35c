"""What `estimate_model` gives: a finite system by counting, and how far each of its rows can be off."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from safe2real.errors import InvalidInput
from safe2real.model import CMDP, Trajectory
from safe2real.model.constraint_text import count, rounded_up
from safe2real.model.serialization import fingerprint
from safe2real.model.validation import frozen
from safe2real.problem.accuracy import RowAccuracy
from safe2real.systems.acting import FiniteTranslation
from safe2real.systems.arrivals import Outcomes
from safe2real.systems.datasets import read_episodes
from safe2real.systems.discretise import Discretised
from safe2real.systems.episodes import EpisodeLog, LoggedEpisode, Numbering
from safe2real.systems.finite import FiniteSystem
from safe2real.systems.finite_env import FiniteEnv
from safe2real.systems.rollout import Runnable
from safe2real.systems.sampling import Costing, Unvisited

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class EstimatedModel(RowAccuracy, Runnable):
    """A system by counting, and how far its rows can be off; S and A are those of `system.model`."""

    system: FiniteSystem  # the rows that are `known` there have an accuracy of 0, and no visits
    samples: int
    unvisited_rows: Unvisited
    source: str
    start_samples: int  # first states that the start distribution is counted from; 0 where it was given
    costing: Costing
    outcomes: Outcomes  # the empirical rows in the environment's numbers
    log: EpisodeLog | None
    partial: bool  # whether episodes that were cut short are among the samples
    seen_as: Discretised | Numbering | None = None  # the state of an observation, where observations are no numbers

    def __repr__(self) -> str:
        return f"EstimatedModel({count(self.samples, 'sample')} of {self.source})\n  {self.model}"

    @property
    def translation(self) -> FiniteTranslation:
        """Between the environment's own observations and actions and the model's numbers, for agents.

        Where cells of a `Discretised` environment were counted, these are the observations of the environment within;
        `system.translation` is for the numbers of cells.
        """
        return FiniteTranslation(self.system, self.seen_as)

    @property
    def model(self) -> CMDP:
        return self.system.model

    @property
    def known(self) -> NDArray[np.bool_]:
        """[S, A] rows that are true by construction: those after the end of an episode."""
        return self.system.known

    def as_env(self, env: gymnasium.Env[Any, Any]) -> FiniteEnv:
        """The (real) environment `env`, which shows numbers, seen as `system`; a continuous one goes in as `Discretised`."""
        return self.system.as_env(env)

    @property
    def row_accuracy(self) -> RowAccuracy:
        """For `Problem(..., estimated=...)`, so that pre-flight and certificates know that this was estimated."""
        return RowAccuracy(self.accuracy, self.visits, self.delta, self.certified)

    @property
    def worst_accuracy(self) -> float:
        """Over the rows that were visited: what `calibrated_gap` must cover where all of them are to be reused."""
        return self.worst

    @property
    def table(self) -> dict[int, dict[int, list[tuple[float, int, float, bool]]]]:
        """P[s][a] = [(probability, next state, reward, terminated), ...] in the environment's states, as in Gymnasium."""
        found = self.outcomes
        table: dict[int, dict[int, list[tuple[float, int, float, bool]]]] = {
            s: {a: [] for a in range(found.num_actions)} for s in range(found.num_states)
        }
        columns = (found.states, found.actions, found.probabilities, found.successors, found.rewards, found.terminated)
        for s, a, *entry in zip(*(column.tolist() for column in columns), strict=True):
            table[s][a].append(tuple(entry))
        return table

    def trajectories(self, log: Any = None, *, partial: bool = False) -> list[Trajectory]:
        """Logged episodes in the numbers of the model, H steps each: for imports, `clone_baseline` and `estimate_margin`.

        `log` is anything that `read_episodes` takes, with the observations and actions that the model was estimated from; by
        default the episodes of the estimate themselves, which cannot be imported as data. Longer episodes are cut at the
        horizon, terminated ones go on in the absorbing state. With `partial` episodes that were cut short are kept as they
        are; a margin cannot be estimated from them, because what they left out may be what went wrong.
        """
        chosen = self.log if log is None else log
        if chosen is None:
            raise InvalidInput(f"this model was estimated from {self.source}, not from logs; give log=read_episodes(...)")
        if not isinstance(chosen, EpisodeLog):
            states, actions = self.outcomes.num_states, self.outcomes.num_actions
            chosen = read_episodes(chosen, discretiser=self.seen_as, num_states=states, num_actions=actions)
        if not partial:
            refuse_short(chosen, self.system.model.steps)
        return [self._trajectory(f"episode {i}", episode, partial) for i, episode in enumerate(chosen.episodes)]

    def _trajectory(self, place: str, episode: LoggedEpisode, partial: bool) -> Trajectory:
        return Trajectory.of(self.model, *_path_of(self.system, self.costing, place, episode), partial=partial)

    def plot(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """The system as it was estimated; see `FiniteSystem.plot`."""
        return self.system.plot(path)

    def describe(self) -> str:
        """What was estimated from what, how accurate it is, and what that means for a run."""
        model, known = self.system.model, int(self.system.known.sum())
        unseen = self.unvisited
        lines = [
            f"{model.num_states} states, {model.num_actions} actions, horizon {model.steps}, estimated from "
            f"{count(self.samples, 'sample')} of {self.source}; estimated: "
            f"{count(model.kernel.num_rows - known, 'row')}, {known} known by construction."
        ]
        if unseen.any():
            named = ", ".join(model.legend.row(s, a) for s, a in np.argwhere(unseen)[:5].tolist())
            more = ", ..." if unseen.sum() > 5 else ""
            meant = "uniform over all states" if self.unvisited_rows == "uniform" else "staying in the state"
            lines.append(
                f"never visited: {count(int(unseen.sum()), 'row')}, {named}{more}; taken as {meant}, which nothing supports."
            )
        if (self.visits > 0).any():
            typical = float(np.median(self.accuracy[self.visits > 0]))
            label = f"with probability {1.0 - self.delta:g}" if self.certified else "HEURISTIC, not a guarantee"
            lines.append(
                f"Accuracy of the visited rows in TV distance ({label}): median {typical:.4f}, worst "
                f"{rounded_up(self.worst_accuracy, 4)}. Where all of them are to be reused, calibrated_gap must be at least "
                f"{rounded_up(self.worst_accuracy, 4)} plus the simulator's own error; otherwise let them be learnt."
            )
        if self.log is not None or self.partial:
            lines.append(
                "This assumes that no step is missing because of what it would have shown: where a log or an episode "
                "breaks off before the bad step is written, what went wrong seems impossible, however accurate the row."
            )
        if self.start_samples:
            lines.append(
                f"The distribution of the first state is counted from {self.start_samples:,} first states; its error is not "
                "part of any guarantee: give start= where you know it."
            )
        return "\n".join(lines)


def _path_of(system: FiniteSystem, costing: Costing, place: str, episode: LoggedEpisode) -> tuple[list[int], list[int]]:
    """States and actions of a logged episode in the numbers of the model, up to its horizon."""
    horizon = system.model.steps
    steps = min(episode.length, horizon)
    costs = costing.of(episode, place)
    numbers = [int(s) for s in episode.states]
    states = [system.state_of(numbers[0])]
    states += [system.state_of(numbers[k + 1], float(costs[k]), episode.ends_at(k)) for k in range(steps)]
    actions = episode.actions[:steps].tolist()
    if episode.terminated and steps < horizon:
        states += [system.after_end_of(states[-1])] * (horizon - steps)
        actions += [0] * (horizon - steps)
    return states, actions


def knowing_its_log(system: FiniteSystem, costing: Costing, log: EpisodeLog) -> FiniteSystem:
    """Mark the kernel with the fingerprints of the episodes that it was estimated from, so that imports can refuse them."""
    marks = set[int]()
    for i, episode in enumerate(log.episodes):
        try:
            marks.add(fingerprint(*_path_of(system, costing, f"episode {i}", episode)))
        except InvalidInput:  # it goes where the model has no state, so it cannot be imported either
            continue
    kernel = replace(system.model.kernel, fitted_to=frozen(np.array(sorted(marks), dtype=np.int64)))
    return replace(system, model=replace(system.model, kernel=kernel))


def refuse_short(log: EpisodeLog, horizon: int) -> None:
    short = log.too_short(horizon)
    if short:
        lengths = [log.episodes[i].length for i in short]
        raise InvalidInput(
            f"{len(short)} of {len(log.episodes)} episodes stop before the horizon of {horizon} although they did not "
            f"terminate, the first of them episode {short[0]} after {lengths[0]} steps; choose a horizon of at most "
            f"{min(lengths)}, or partial=True to use what there is of them"
        )
