"""A finite system by counting: for simulators that can be sampled but have no table, and for logged data.

Every row is the empirical distribution of what followed a state and an action. With it comes how far each row can be off:
the certified radii of `confidence`, for all rows at once. What that means for a run: a simulator that was estimated differs
from itself by its sampling error. So `calibrated_gap` must cover the accuracy of every row that is to be reused, on top of
the simulator's own error, or the rows must be learnt from real data (methods.RewardFree() trusts none of them).
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from numpy.typing import ArrayLike, NDArray

from safe2real import radii
from safe2real.errors import InvalidInput
from safe2real.model import CMDP, MarkovPolicy, Trajectory
from safe2real.model.constraint_text import count, rounded_up
from safe2real.model.serialization import fingerprint
from safe2real.model.validation import check_function, frozen, positive_integer, probability_of_failure, seed_number, shown
from safe2real.problem.problem import RowAccuracy
from safe2real.progress import Report, progress_bar
from safe2real.radii import Radius, System
from safe2real.systems.agent_adapter import FiniteTranslation
from safe2real.systems.arrival_costs import ArrivalCost, Outcomes
from safe2real.systems.datasets import EpisodeLog, LoggedEpisode, Numbering, read_episodes
from safe2real.systems.discretise import Discretised
from safe2real.systems.env_names import legend_of_env
from safe2real.systems.finite import FiniteSystem, build_system
from safe2real.systems.finite_env import FiniteEnv, check_spaces, first_of, name_of
from safe2real.systems.measure import radii_after
from safe2real.systems.rollout import Runnable
from safe2real.systems.sampling import Behaviour, Costing, Seen, Unvisited, count_log, run_episodes, sample_rows

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


_EPISODES, _PER_ROW = 1000, 100
_RESETS = 1000  # to see where episodes start
_LOGGED = "logged"
_SAMPLED, _RUN, _READ = "a simulator with sample()", "an environment that is run in episodes", "a dataset"


def estimate_model(
    source: Any,
    horizon: int,
    *,
    cost: ArrayLike | ArrivalCost | str | None = None,
    limit: float | None = None,
    ended: ArrayLike | None = None,
    start: int | ArrayLike | None = None,
    episodes: int | None = None,
    samples_per_row: int | None = None,
    policy: MarkovPolicy | Behaviour | None = None,
    discretiser: Discretised | Numbering | None = None,
    num_states: int | None = None,
    num_actions: int | None = None,
    unvisited: Unvisited = "uniform",
    partial: bool = False,
    drop_unreachable: bool = False,
    radius: Radius | None = None,
    delta: float = 0.05,
    seed: int = 0,
    name: str = "cost",
    state_names: Sequence[str] | None = None,
    action_names: Sequence[str] | None = None,
    positions: ArrayLike | None = None,
    progress: Report | bool | None = None,
) -> EstimatedModel:
    """A finite system from samples, with the accuracy of every row.

    Args:
        source: a simulator with `sample(state, action, rng)` (`Discretised`, or any `Generative`), sampled in EVERY row;
            a Gymnasium environment with Discrete spaces, run in episodes; or a dataset, see `read_episodes`. The last two
            leave rows unvisited where nobody went. One that is both is run in episodes if you give their number.
        horizon: steps of an episode.
        cost: as for `from_gymnasium`; or "logged", the costs of the dataset, or info["cost"] of the environment, as paid on
            arrival.
        limit: on the expected cost of an episode.
        ended: as for `from_gymnasium`; refused where no end was seen, because it would mean nothing.
        start: a state or a distribution [S]; otherwise it is counted.
        episodes: how many to run; 1000 if None.
        samples_per_row: of a simulator; 100 if None.
        policy: what to run; uniformly random actions if None.
        discretiser: with `num_states` and `num_actions`, as for `read_episodes`.
        num_states: of a dataset.
        num_actions: of a dataset.
        unvisited: rows that nobody visited become uniform over all states, or stay where they are.
        partial: whether episodes will do that stop before the horizon without having been terminated.
        drop_unreachable: as for `from_gymnasium`.
        radius: behind the accuracy of rows; the adaptive one if None.
        delta: probability that some row is farther from the truth than its accuracy.
        seed: of all sampling. The samples of row (s, a) come from a generator of their own, made of (seed, s, a): two
            simulators that behave alike there give the same row.
        name: of the constraint.
        progress: shows a bar with the time left: True always, False never, None on a terminal; or a function that is told
            (rows or episodes done, in all).
        state_names: as for `from_gymnasium`; cells of `Discretised` are called after their centres.
        action_names: likewise.
        positions: likewise; cells of two dimensions lie on a grid.

    Returns:
        The system, and for every row the samples behind it and how far it can be off.

    Raises:
        InvalidInput: also for arguments that do not apply to the source; says which do.

    Example:
        >>> estimated = estimate_model([([0, 1, 0], [0, 1]), ([0, 1, 1], [0, 0])], 2)
        >>> int(estimated.visits.sum())
        4

    Guarantee: with probability at least 1 - `delta` every row is within its `accuracy` of the true one, provided that the
    source is a finite Markov system, and that no step is missing from a log (or, with `partial`, from an episode) because
    of what it would have shown: a logger that dies before it writes the bad step makes it seem impossible. The cells of a
    `Discretised` environment are a Markov system when they are sampled by `sample`, which draws the point of the cell anew;
    in episodes of it they are not.
    """
    horizon = positive_integer("horizon", horizon)
    delta = probability_of_failure("delta", delta)
    seed = seed_number("seed", seed)
    if unvisited not in ("uniform", "stay"):
        raise InvalidInput(f"unvisited is {unvisited!r}; give 'uniform' or 'stay'")
    if isinstance(cost, str) and cost != _LOGGED:
        raise InvalidInput(f"cost is {cost!r}; give an array, a function, or {_LOGGED!r} for the costs in the data")
    if radius is not None and not isinstance(radius, Radius):
        names = ", ".join(f"radii.{one.__name__}()" for one in radii.ALL if one.certified)
        raise InvalidInput(f"radius is {shown(radius)}; give one of safe2real: {names}")
    if callable(cost):
        check_function("cost", cost, "state, action, next_state, reward, terminated")
    costing = Costing(cost if callable(cost) else None, isinstance(cost, str))
    stated: dict[str, Any] = {"cost": _only_logged if costing.logged else cost, "limit": limit, "ended": ended, "name": name}
    system_of: Callable[..., FiniteSystem] = functools.partial(build_system, horizon=horizon, **stated)
    called: dict[str, Any] = {"state_names": state_names, "action_names": action_names, "positions": positions}
    kind = _kind_of(source, episodes)
    _only_for((_SAMPLED,), kind, samples_per_row=samples_per_row)
    _only_for((_RUN,), kind, episodes=episodes, policy=policy)
    _only_for((_RUN, _READ), kind, partial=partial or None)
    _only_for((_READ,), kind, discretiser=discretiser, num_states=num_states, num_actions=num_actions)
    log: EpisodeLog | None = None
    if kind == _SAMPLED:
        wanted = positive_integer("samples_per_row", _PER_ROW if samples_per_row is None else samples_per_row)
        sizes = _check_sizes(system_of, start, source.num_states, source.num_actions, called)
        if start is None and not isinstance(source, gymnasium.Env):
            raise InvalidInput("sample() does not say where episodes start; give start=, a state or a distribution")
        with progress_bar("rows sampled", progress) as report:
            seen = sample_rows(source, wanted, seed, costing, resets=_RESETS if start is None else 0, report=report)
        said = f"{name_of(source)} started anywhere, {wanted} in every row"
    elif kind == _RUN:
        wanted = positive_integer("episodes", _EPISODES if episodes is None else episodes)
        check_spaces(source)
        sizes = _check_sizes(system_of, start, int(source.observation_space.n), int(source.action_space.n), called)
        given: dict[str, Any] = {"policy": policy, "seed": seed, "wants_costs": costing.logged, "partial": partial}
        with progress_bar("episodes", progress) as report:
            ran = run_episodes(source, horizon, wanted, **given, report=report)
        seen, said = count_log(ran, costing), f"{count(wanted, 'episode')} of {name_of(source)}"
    else:
        log = read_episodes(source, discretiser=discretiser, num_states=num_states, num_actions=num_actions)
        sizes = _check_sizes(system_of, start, log.num_states, log.num_actions, called)
        if not partial:
            refuse_short(log, horizon)
        seen, said = count_log(log, costing), f"{len(log.episodes):,} logged episodes"
    if ended is not None and not seen.saw_an_end:
        raise InvalidInput(
            f"ended is given, but no episode ended in the samples of {said}, so it would mean nothing; say which logged "
            "episodes terminated, as (states, actions, terminated), take more samples, or leave ended out"
        )
    visits, different = seen.per_row()
    outcomes = seen.frequencies(visits, unvisited)
    first = seen.start() if start is None else start
    legend = legend_of_env(discretiser if kind == _READ else source, *sizes, **called)
    system = system_of(outcomes, start=first, drop_unreachable=drop_unreachable, legend=legend)
    if kind == _RUN:
        spaces = source.observation_space, source.action_space
        system = replace(system, first_state=first_of(spaces[0]), first_action=first_of(spaces[1]))
    if log is not None:
        system = knowing_its_log(system, costing, log)
    used = radii.Adaptive() if radius is None else radius
    accuracy = radii_after(used, visits, different, System(seen.possible, seen.num_actions, horizon), delta)
    home = np.maximum(system.origin, 0)
    return EstimatedModel(
        system=system,
        visits=frozen(np.where(system.known, 0, visits[home])),
        accuracy=frozen(np.where(system.known, 0.0, accuracy[home])),
        delta=delta,
        certified=used.certified,
        samples=int(visits.sum()),
        unvisited_rows=unvisited,
        source=said,
        start_samples=seen.starts.total() if start is None else 0,
        costing=costing,
        outcomes=outcomes,
        log=log,
        partial=partial,
        seen_as=source if isinstance(source, Discretised) else discretiser,
    )


def _check_sizes(
    system_of: Callable[..., FiniteSystem],
    start: int | ArrayLike | None,
    num_states: Any,
    num_actions: Any,
    names: Mapping[str, Any],
) -> tuple[int, int]:
    """Make a system in which nothing moves: what does not fit its sizes is refused before samples are taken, not after."""
    sizes = positive_integer("source.num_states", num_states), positive_integer("source.num_actions", num_actions)
    legend_of_env(None, *sizes, **names)
    still = Seen(*sizes, cost_levels=1)
    system_of(still.frequencies(still.per_row()[0], "stay"), start=0 if start is None else start)
    return sizes


def _kind_of(source: Any, episodes: int | None) -> str:
    runs = isinstance(source, gymnasium.Env)
    if not callable(getattr(source, "sample", None)) or (runs and episodes is not None):
        return _RUN if runs else _READ
    missing = [name for name in ("num_states", "num_actions") if not hasattr(source, name)]
    if missing:
        instead = ", or give episodes= to run it in episodes" if runs else ""
        raise InvalidInput(f"{name_of(source)} has sample() but no {' and no '.join(missing)}; add what is missing{instead}")
    return _SAMPLED


def _only_for(kinds: tuple[str, ...], kind: str, **given: Any) -> None:
    """Refuse arguments that mean something for other sources only."""
    for name, value in given.items():
        if value is not None and kind not in kinds:
            other = ", or wrap the environment: Discretised(env, bins=...)" if name == "discretiser" else ""
            if kind == _SAMPLED and name == "policy":
                other = ", or give episodes= too where it is an environment"
            raise InvalidInput(f"{name} is for {' or '.join(kinds)}; the source is {kind}: leave {name} out{other}")


def _only_logged(state: int, action: int, next_state: int, reward: float, terminated: bool) -> float:
    """In place of a cost function: without one, a live environment would seem to cost nothing."""
    raise InvalidInput(
        "the costs of this system were read from data, so they cannot be computed for another environment; give cost= as an "
        "array or a function cost(state, action, next_state, reward, terminated), or log episodes with their costs. An "
        "agent is told them: agent(observation, cost=info['cost'])"
    )
