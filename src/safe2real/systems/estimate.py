"""A finite system by counting: for simulators that can be sampled but have no table, and for logged data.

Every row is the empirical distribution of what followed a state and an action. With it comes how far each row can be off:
the certified radii of `radii`, for all rows at once. What that means for a run: a simulator that was estimated differs
from itself by its sampling error. So `calibrated_gap` must cover the accuracy of every row that is to be reused, on top of
the simulator's own error, or the rows must be learnt from real data (methods.RewardFree() trusts none of them).

Three sources, one function each: `estimate_by_sampling` starts a simulator in every row, `estimate_by_running` runs an
environment in episodes, `estimate_from_log` counts logged episodes. The last two leave rows unvisited where no episode went.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import repeat
from typing import Any, Literal, Protocol

import gymnasium
import numpy as np
from numpy.typing import NDArray

from safe2real import radii
from safe2real.errors import InvalidInput
from safe2real.model import CMDP, MarkovPolicy, Trajectory
from safe2real.model.constraint_text import count, rounded_up
from safe2real.model.environment_seeds import unused_seed
from safe2real.model.names import Legend
from safe2real.model.serialization import fingerprint
from safe2real.model.validation import (
    Floats,
    boolean,
    check_function,
    frozen,
    is_whole,
    positive_integer,
    probability_of_failure,
    seed_number,
    shown,
)
from safe2real.problem.problem import RowAccuracy
from safe2real.progress import Report, progress_bar
from safe2real.radii import Radius, System
from safe2real.systems.datasets import EpisodeLog, LoggedEpisode, Numbering, read_episodes, truth
from safe2real.systems.discretise import Discretised, finite_value
from safe2real.systems.finite import FiniteSystem, SystemDescription, build_system
from safe2real.systems.finite_env import FiniteEnv, FiniteTranslation, check_spaces, first_of, legend_of_env, name_of
from safe2real.systems.measure import radii_after
from safe2real.systems.outcomes import MOST_COSTS, ArrivalCost, Outcomes, cost_on_arrival
from safe2real.systems.rollout import Runnable

Behaviour = Callable[[int, int, np.random.Generator], int]
"""(step, state, rng) -> action"""
Unvisited = Literal["uniform", "stay"]
Outcome = tuple[int, int, int, float, bool]
"""(state, action, next state, cost on arrival, terminated)"""
_MOST_WRITTEN_OUT = 20_000_000  # transitions of unvisited rows


class Generative(Protocol):
    """A simulator that can be started anywhere: `Discretised` is one."""

    num_states: int
    num_actions: int

    def sample(self, state: int, action: int, rng: np.random.Generator, /) -> tuple[int, float, bool]:
        """(next state, reward, terminated)"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Counting:
    """How rows are estimated from counts, and the confidence of their accuracy.

    Args:
        unvisited: rows without a visit become uniform over all states ("uniform"), or stay where they are ("stay").
        partial: whether episodes will do that stop before the horizon without having been terminated.
        radius: behind the accuracy of rows; the adaptive one if None.
        delta: probability that some row is farther from the truth than its accuracy.

    Raises:
        InvalidInput: an argument is invalid.
    """

    unvisited: Unvisited = "uniform"
    partial: bool = False
    radius: Radius | None = None
    delta: float = 0.05

    def __post_init__(self) -> None:
        probability_of_failure("delta", self.delta)
        boolean("partial", self.partial)
        if self.unvisited not in ("uniform", "stay"):
            raise InvalidInput(f"unvisited is {self.unvisited!r}; give 'uniform' or 'stay'")
        if self.radius is not None and not isinstance(self.radius, Radius):
            names = ", ".join(f"radii.{one.__name__}()" for one in radii.ALL if one.certified)
            raise InvalidInput(f"radius is {shown(self.radius)}; give one of safe2real: {names}")


class _NoReward:
    """The reward of an episode that was recorded without rewards: a cost that depends on it is refused, and is never 0."""

    def __init__(self, place: str) -> None:
        self._place = place

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise InvalidInput(
            f"{self._place} has no rewards, and the cost is a function of the reward; give LoggedEpisode(states, actions, "
            "rewards=...), or a cost that depends on states and actions alone"
        )

    __bool__ = __float__ = __int__ = __index__ = __array__ = __hash__ = __format__ = __str__ = __repr__ = _refuse
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __neg__ = __pos__ = __abs__ = __round__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __pow__ = _refuse
    __rpow__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __divmod__ = __ceil__ = __floor__ = __trunc__ = _refuse


@dataclass(frozen=True, slots=True)
class Costing:
    """The cost on arrival: a function of the transition, the logged one, or none."""

    function: ArrivalCost | None
    logged: bool

    @property
    def levels(self) -> int:
        """The most different costs, independent of the data."""
        return 1 if self.function is None and not self.logged else MOST_COSTS

    def of(self, episode: LoggedEpisode, place: str) -> Floats:
        """Return the cost of each step of an episode [n]."""
        n = episode.length
        if self.logged:
            if episode.costs is None:
                raise InvalidInput(f"{place} has no costs; cost='logged' needs them (info['cost'], or the array costs)")
            outside = np.flatnonzero((episode.costs < 0.0) | (episode.costs > 1.0))
            if outside.size:
                k = int(outside[0])
                raise InvalidInput(
                    f"{place}, costs[{k}] is {episode.costs[k]:g}; costs lie in [0, 1]: divide them by the largest"
                )
            return episode.costs
        if self.function is None:
            return np.zeros(n)
        rewards: list[Any] = [_NoReward(place)] * n if episode.rewards is None else episode.rewards.tolist()
        s, a = episode.states.tolist(), episode.actions.tolist()
        return np.array(
            [cost_on_arrival(self.function, s[k], a[k], s[k + 1], rewards[k], episode.ends_at(k)) for k in range(n)]
        )


@dataclass(slots=True)
class OutcomeCounts:
    """Counts of every outcome, and the sums of their rewards."""

    num_states: int
    num_actions: int
    cost_levels: int
    counts: Counter[Outcome] = field(default_factory=Counter)
    rewards: dict[Outcome, float] = field(default_factory=dict)
    starts: Counter[int] = field(default_factory=Counter)

    def add(self, outcome: Outcome, reward: float) -> None:
        self.counts[outcome] += 1
        self.rewards[outcome] = self.rewards.get(outcome, 0.0) + reward

    @property
    def possible(self) -> int:
        """How many outcomes a row can have: any next state, at any cost, terminated or not. Known before the data are."""
        return 2 * self.num_states * self.cost_levels

    def per_row(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(visits [S, A], different outcomes seen [S, A])."""
        visits = np.zeros((self.num_states, self.num_actions), dtype=np.int64)
        different = np.zeros_like(visits)
        for (s, a, *_), times in self.counts.items():
            visits[s, a] += times
            different[s, a] += 1
        return visits, different

    def frequencies(self, visits: NDArray[np.int64], unvisited: Unvisited) -> Outcomes:
        """The empirical rows; those without a visit as `unvisited` says."""
        never = np.argwhere(visits == 0).tolist()
        if unvisited == "uniform" and len(never) * self.num_states > _MOST_WRITTEN_OUT:
            raise InvalidInput(
                f"{len(never)} rows were never visited; written out as uniform over {self.num_states} states they do not "
                "fit into memory: take more samples, or choose unvisited='stay'"
            )
        listed = [
            (*key, times / int(visits[key[0], key[1]]), self.rewards[key] / times) for key, times in self.counts.items()
        ]
        for s, a in never:
            anywhere = (s,) if unvisited == "stay" else range(self.num_states)
            listed += [(s, a, t, 0.0, False, 1.0 / len(anywhere), 0.0) for t in anywhere]
        listed.sort()
        states, actions, after, costs, ends, shares, rewards = map(np.array, zip(*listed, strict=True))
        return Outcomes(self.num_states, self.num_actions, states, actions, after, shares, rewards, ends, costs)

    @property
    def saw_an_end(self) -> bool:
        """Whether the environment ended any episode."""
        return any(terminated for *_, terminated in self.counts)

    def start(self) -> Floats:
        """The frequencies of first states [S]."""
        counts = np.array([self.starts[state] for state in range(self.num_states)], dtype=np.float64)
        return np.asarray(counts / counts.sum())


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
    seen_as: Discretised | Numbering | None = None  # numbers observations that are no numbers

    def __repr__(self) -> str:
        return f"EstimatedModel({count(self.samples, 'sample')} of {self.source})\n  {self.model}"

    @property
    def translation(self) -> FiniteTranslation:
        """Between the environment's own observations and actions and the model's numbers, for agents.

        Where cells of a `Discretised` environment were counted, these are the observations of the environment within;
        `system.translation` is for the numbers of cells.
        """
        if isinstance(self.seen_as, Discretised):
            return FiniteTranslation(self.system, self.seen_as.state_of, self.seen_as.action_of)
        return FiniteTranslation(self.system, self.seen_as)

    @property
    def model(self) -> CMDP:
        """The model of its system."""
        return self.system.model

    @property
    def known(self) -> NDArray[np.bool_]:
        """[S, A] rows that are true by construction: those after the end of an episode."""
        return self.system.known

    def as_env(self, env: gymnasium.Env[Any, Any]) -> FiniteEnv:
        """Show a running environment in the numbers of `system`.

        Args:
            env: the real environment, with Discrete spaces; wrap a continuous one in `Discretised` first.

        Returns:
            The environment, for `explore`.

        Raises:
            InvalidInput: it is of another size.
        """
        return self.system.as_env(env)

    @property
    def row_accuracy(self) -> RowAccuracy:
        """For `Problem(..., estimated=...)`, so that pre-flight and certificates know that this was estimated."""
        return RowAccuracy(self.accuracy, self.visits, self.delta, self.certified)

    def trajectories(self, log: Any = None, *, partial: bool = False) -> list[Trajectory]:
        """Return logged episodes in the model's numbers, H steps each: for imports, `clone_baseline` and `estimate_margin`.

        Longer episodes are cut at the horizon; terminated ones go on in the absorbing state.

        Args:
            log: anything that `read_episodes` takes, with the observations and actions that the model was estimated from.
                By default the episodes of the estimate themselves, which cannot be imported as data.
            partial: whether to keep episodes that were cut short. A margin cannot be estimated from them, because what they
                left out may be what went wrong.

        Returns:
            One trajectory for each episode.

        Raises:
            InvalidInput: there is no log, an episode is shorter than the horizon, or it shows what the model does not have.
        """
        chosen = self.log if log is None else log
        if chosen is None:
            raise InvalidInput(f"this model was estimated from {self.source}, not from logs; give log=read_episodes(...)")
        if not isinstance(chosen, EpisodeLog):
            states, actions = self.outcomes.num_states, self.outcomes.num_actions
            chosen = read_episodes(chosen, discretiser=self.seen_as, num_states=states, num_actions=actions)
        if not partial:
            _refuse_short(chosen, self.system.model.steps)
        return [self._trajectory(f"episode {i}", episode, partial) for i, episode in enumerate(chosen.episodes)]

    def _trajectory(self, place: str, episode: LoggedEpisode, partial: bool) -> Trajectory:
        return Trajectory.of(self.model, *_path_of(self.system, self.costing, place, episode), partial=partial)

    def describe(self) -> str:
        """Say what was estimated from what data, how accurate it is, and what that means for a run.

        Returns:
            Some lines of text.
        """
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
                f"{rounded_up(self.worst, 4)}. Where all of them are to be reused, calibrated_gap must be at least "
                f"{rounded_up(self.worst, 4)} plus the simulator's own error; otherwise let them be learnt."
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


def _marked_with_log(system: FiniteSystem, costing: Costing, log: EpisodeLog) -> FiniteSystem:
    """Mark the kernel with the fingerprints of the episodes that it was estimated from, so that imports can refuse them."""
    marks = set[int]()
    for i, episode in enumerate(log.episodes):
        try:
            marks.add(fingerprint(*_path_of(system, costing, f"episode {i}", episode)))
        except InvalidInput:  # it goes where the model has no state, so it cannot be imported either
            continue
    kernel = replace(system.model.kernel, fitted_to=frozen(np.array(sorted(marks), dtype=np.int64)))
    return replace(system, model=replace(system.model, kernel=kernel))


def _refuse_short(log: EpisodeLog, horizon: int) -> None:
    """Refuse episodes that stop before the horizon without an end."""
    short = {i: one.length for i, one in enumerate(log.episodes) if one.length < horizon and not one.terminated}
    if short:
        first, length = next(iter(short.items()))
        raise InvalidInput(
            f"{len(short)} of {len(log.episodes)} episodes stop before the horizon of {horizon} although they did not "
            f"terminate, the first of them episode {first} after {length} steps; choose a horizon of at most "
            f"{min(short.values())}, or partial=True to use what there is of them"
        )


_RESETS = 1000  # to see where episodes start


def estimate_by_sampling(
    simulator: Generative,
    horizon: int,
    description: SystemDescription | None = None,
    *,
    samples_per_row: int = 100,
    counting: Counting | None = None,
    seed: int = 0,
    progress: Report | bool | None = None,
) -> EstimatedModel:
    """Estimate a finite system from a simulator that can be started anywhere, sampled in EVERY row.

    Args:
        simulator: with `num_states`, `num_actions` and `sample(state, action, rng)`: a `Discretised` environment, or any
            `Generative`.
        horizon: steps of an episode.
        description: costs and their limit, the end, the start, names. The start is counted from resets if it is left out, so
            a simulator that is no environment needs it. Cells of `Discretised` are called after their centres.
        samples_per_row: of each of the S A rows.
        counting: the radius and delta of the accuracy.
        seed: of all sampling. The samples of row (s, a) come from a generator of their own, made of (seed, s, a): two
            simulators that behave alike there give the same row.
        progress: shows a bar with the time left: True always, False never, None on a terminal; or a function that is told
            (rows done, in all).

    Returns:
        The system, and for every row the samples behind it and how far it can be off.

    Raises:
        InvalidInput: the simulator has no `sample`, or an argument does not fit it.

    Example:
        >>> class Coin:
        ...     num_states, num_actions = 2, 1
        ...     def sample(self, state, action, rng):
        ...         return int(rng.integers(2)), 0.0, False
        >>> int(estimate_by_sampling(Coin(), 3, SystemDescription(start=0)).visits.sum())
        200

    Guarantee: with probability at least 1 - `delta` every row is within its `accuracy` of the true one, provided that the
    simulator is a finite Markov system. The cells of a `Discretised` environment are one when they are sampled by `sample`,
    which draws the point of the cell anew.
    """
    if not callable(getattr(simulator, "sample", None)):
        raise InvalidInput(
            f"{name_of(simulator)} has no sample(state, action, rng); run an environment by estimate_by_running(env, ...), "
            "or count logged episodes with estimate_from_log(log, ...)"
        )
    missing = [name for name in ("num_states", "num_actions") if not hasattr(simulator, name)]
    if missing:
        instead = ", or run it in episodes: estimate_by_running" if isinstance(simulator, gymnasium.Env) else ""
        raise InvalidInput(
            f"{name_of(simulator)} has sample() but no {' and no '.join(missing)}; add what is missing{instead}"
        )
    task = _Task.of(horizon, description, counting)
    if task.costing.logged:
        raise InvalidInput("cost='logged' is for logs and episodes; sample() gives no cost: give an array or a function")
    wanted, seed = positive_integer("samples_per_row", samples_per_row), seed_number("seed", seed)
    legend = task.legend_of(simulator, simulator.num_states, simulator.num_actions)
    if task.description.start is None and not isinstance(simulator, gymnasium.Env):
        raise InvalidInput("sample() does not say where episodes start; give start=, a state or a distribution")
    check_function("simulator.sample", simulator.sample, "state, action, rng")
    with progress_bar("rows sampled", progress) as report:
        seen = _sample_rows(simulator, task, wanted, seed=seed, report=report)
    source = f"{name_of(simulator)} started anywhere, {wanted} in every row"
    return task.estimated(seen, source, legend, seen_as=simulator if isinstance(simulator, Discretised) else None)


def estimate_by_running(
    env: gymnasium.Env[Any, Any],
    horizon: int,
    description: SystemDescription | None = None,
    *,
    episodes: int = 1000,
    policy: MarkovPolicy | Behaviour | None = None,
    counting: Counting | None = None,
    seed: int = 0,
    progress: Report | bool | None = None,
) -> EstimatedModel:
    """Estimate a finite system from an environment that is run in episodes.

    Args:
        env: with Discrete observations and actions.
        horizon: steps of an episode.
        description: costs and their limit, the end, the start (counted if it is left out), names.
        episodes: how many to run.
        policy: what to run, in the environment's states; uniformly random actions if None.
        counting: what becomes of rows without a visit and of episodes that are cut short; the radius and delta.
        seed: of the policy and of the environment.
        progress: as for `estimate_by_sampling`, of episodes.

    Returns:
        The system, and for every row the samples behind it and how far it can be off.

    Raises:
        InvalidInput: an argument does not fit the environment, or it cuts an episode short.

    Guarantee: with probability at least 1 - `delta` every row is within its `accuracy` of the true one, provided that the
    environment is a finite Markov system (cells of a `Discretised` one are not, in episodes), and that with `partial` no
    step is missing from an episode because of what it would have shown.
    """
    task = _Task.of(horizon, description, counting)
    wanted, seed = positive_integer("episodes", episodes), seed_number("seed", seed)
    check_spaces(env)
    spaces: tuple[Any, Any] = (env.observation_space, env.action_space)
    legend = task.legend_of(env, int(spaces[0].n), int(spaces[1].n))
    with progress_bar("episodes", progress) as report:
        ran = _run_episodes(env, task, wanted, policy=policy, seed=seed, report=report)
    seen_as = env if isinstance(env, Discretised) else None
    source = f"{count(wanted, 'episode')} of {name_of(env)}"
    found = task.estimated(_count_log(ran, task.costing), source, legend, seen_as=seen_as)
    system = replace(found.system, first_state=first_of(spaces[0]), first_action=first_of(spaces[1]))
    return replace(found, system=system, partial=task.counting.partial)


def estimate_from_log(
    log: Any,
    horizon: int,
    description: SystemDescription | None = None,
    *,
    counting: Counting | None = None,
    discretiser: Discretised | Numbering | None = None,
    num_states: int | None = None,
    num_actions: int | None = None,
) -> EstimatedModel:
    """Estimate a finite system from logged episodes.

    Args:
        log: episodes, a Minari dataset or its id: whatever `read_episodes` takes.
        horizon: steps of an episode.
        description: costs and their limit ("logged" for those of the log), the end, the start (counted if it is left out),
            names.
        counting: what becomes of rows without a visit and of episodes that are cut short; the radius and delta.
        discretiser: as for `read_episodes`, where observations are no numbers of states.
        num_states: where the log may have missed the last ones.
        num_actions: likewise.

    Returns:
        The system, and for every row the samples behind it and how far it can be off. Its kernel is marked with the
        episodes, so that imports can refuse them.

    Raises:
        InvalidInput: the log cannot be read, does not fit the arguments, or has episodes that are cut short.

    Example:
        >>> estimated = estimate_from_log([([0, 1, 0], [0, 1]), ([0, 1, 1], [0, 0])], 2)
        >>> int(estimated.visits.sum())
        4

    Guarantee: with probability at least 1 - `delta` every row is within its `accuracy` of the true one, provided that the
    log is of a finite Markov system, and that no step is missing from it because of what it would have shown: a logger that
    dies before it writes the bad step makes it seem impossible.
    """
    task = _Task.of(horizon, description, counting)
    episodes = read_episodes(log, discretiser=discretiser, num_states=num_states, num_actions=num_actions)
    legend = task.legend_of(discretiser, episodes.num_states, episodes.num_actions)
    if not task.counting.partial:
        _refuse_short(episodes, task.horizon)
    seen = _count_log(episodes, task.costing)
    found = task.estimated(seen, count(len(episodes.episodes), "logged episode"), legend, seen_as=discretiser)
    system = _marked_with_log(found.system, task.costing, episodes)
    return replace(found, system=system, log=episodes, partial=task.counting.partial)


@dataclass(frozen=True, slots=True)
class _Task:
    """The arguments that all three estimates share."""

    horizon: int
    description: SystemDescription
    counting: Counting
    costing: Costing

    @classmethod
    def of(cls, horizon: int, description: SystemDescription | None, counting: Counting | None) -> _Task:
        described = SystemDescription.of(description)
        costing = Costing(described.arrival_cost, isinstance(described.cost, str))
        if costing.logged:
            described = replace(described, cost=_only_logged)
        return cls(positive_integer("horizon", horizon), described, counting or Counting(), costing)

    def legend_of(self, env: Any, num_states: Any, num_actions: Any) -> Legend:
        """Names for that many states; what does not fit them is refused before samples are taken, not after."""
        sizes = positive_integer("num_states", num_states), positive_integer("num_actions", num_actions)
        legend = legend_of_env(env, *sizes, self.description.legend)
        still = OutcomeCounts(*sizes, cost_levels=1)  # a system in which nothing moves
        begun = 0 if self.description.start is None else self.description.start
        build_system(
            still.frequencies(still.per_row()[0], "stay"),
            self.horizon,
            replace(self.description, start=begun, drop_unreachable=False),
        )
        return legend

    def estimated(
        self, seen: OutcomeCounts, source: str, legend: Legend, *, seen_as: Discretised | Numbering | None
    ) -> EstimatedModel:
        """The system of these counts."""
        if self.description.ended is not None and not seen.saw_an_end:
            raise InvalidInput(
                f"ended is given, but no episode ended in the samples of {source}, so it would mean nothing; say which "
                "logged episodes terminated, as (states, actions, terminated), take more samples, or leave ended out"
            )
        visits, different = seen.per_row()
        outcomes = seen.frequencies(visits, self.counting.unvisited)
        counted = self.description.start is None
        description = replace(self.description, start=seen.start()) if counted else self.description
        system = build_system(outcomes, self.horizon, description, legend=legend)
        used = radii.Adaptive() if self.counting.radius is None else self.counting.radius
        shape = System(seen.possible, seen.num_actions, self.horizon)
        accuracy = radii_after(used, visits, different, shape, self.counting.delta)
        home = np.maximum(system.origin, 0)
        return EstimatedModel(
            system=system,
            visits=frozen(np.where(system.known, 0, visits[home])),
            accuracy=frozen(np.where(system.known, 0.0, accuracy[home])),
            delta=self.counting.delta,
            certified=used.certified,
            samples=int(visits.sum()),
            unvisited_rows=self.counting.unvisited,
            source=source,
            start_samples=seen.starts.total() if counted else 0,
            costing=self.costing,
            outcomes=outcomes,
            log=None,
            partial=False,
            seen_as=seen_as,
        )


def _sample_rows(simulator: Any, task: _Task, count: int, *, seed: int, report: Report | None) -> OutcomeCounts:
    """Draw `count` samples of every row, those of (s, a) from a generator made of (seed, s, a); then see where it resets."""
    given, seen = task.costing.function, OutcomeCounts(simulator.num_states, simulator.num_actions, task.costing.levels)
    for s in range(seen.num_states):
        for a in range(seen.num_actions):
            rng = np.random.default_rng((seed, s, a))
            for _ in range(count):
                after, reward, terminated = _sampled(f"sample({s}, {a})", simulator.sample(s, a, rng), seen.num_states)
                paid = 0.0 if given is None else cost_on_arrival(given, s, a, after, reward, terminated)
                seen.add((s, a, after, paid, terminated), reward)
            if report is not None:
                report(s * seen.num_actions + a + 1, seen.num_states * seen.num_actions)
    rng = np.random.default_rng(seed)
    for i in range(_RESETS if task.description.start is None else 0):
        seen.starts[_observed(f"reset {i}", simulator.reset(seed=int(rng.integers(2**31)))[0], simulator)] += 1
    return seen


def _sampled(place: str, result: Any, num_states: int) -> tuple[int, float, bool]:
    if not isinstance(result, (tuple, list)) or len(result) != 3:
        raise InvalidInput(f"{place} is {shown(result)}; it must be (next state, reward, terminated)")
    after, reward, terminated = result
    state = _within(f"{place}: the next state", after, num_states)
    return state, finite_value(f"{place}: the reward", reward), truth(f"{place}: terminated", terminated)


def _count_log(log: EpisodeLog, costing: Costing) -> OutcomeCounts:
    """Count every step of every episode."""
    seen = OutcomeCounts(log.num_states, log.num_actions, costing.levels)
    for i, episode in enumerate(log.episodes):
        costs = costing.of(episode, f"episode {i}").tolist()
        rewards = [0.0] * episode.length if episode.rewards is None else episode.rewards.tolist()
        states = episode.states.tolist()
        seen.starts[states[0]] += 1
        for k, action in enumerate(episode.actions.tolist()):
            seen.add((states[k], action, states[k + 1], costs[k], episode.ends_at(k)), rewards[k])
    return seen


def _run_episodes(
    env: gymnasium.Env[Any, Any],
    task: _Task,
    episodes: int,
    *,
    policy: MarkovPolicy | Behaviour | None,
    seed: int,
    report: Report | None,
) -> EpisodeLog:
    """Run episodes of `env` of at most the task's steps, with uniformly random actions unless there is a `policy`."""
    horizon, wants_costs, partial = task.horizon, task.costing.logged, task.counting.partial
    num_states, num_actions = int(env.observation_space.n), int(env.action_space.n)  # type: ignore[attr-defined]
    first_action = first_of(env.action_space)
    rng, used = np.random.default_rng(seed), set[int]()
    resets = (int(rng.integers(2**31)) for _ in repeat(None))
    act = _behaviour(policy, horizon, num_states, num_actions)
    found = []
    for i in range(episodes):
        observed, _ = env.reset(seed=unused_seed(resets, used))
        states, actions = [_observed(f"episode {i}, reset", observed, env)], list[int]()
        rewards, costs = list[float](), list[float]()
        terminated = truncated = False
        while len(actions) < horizon and not (terminated or truncated):
            action = _within(f"policy({len(actions)}, {states[-1]})", act(len(actions), states[-1], rng), num_actions)
            observed, reward, terminated, truncated, info = env.step(action + first_action)
            place = f"episode {i}, step {len(actions)}"
            actions.append(action)
            states.append(_observed(place, observed, env))
            rewards.append(finite_value(f"{place}: the reward", reward))
            if wants_costs:
                if "cost" not in info:
                    raise InvalidInput(
                        "cost is 'logged' but the environment's info has no 'cost'; give an array or a function"
                    )
                costs.append(finite_value(f"{place}: info['cost']", info["cost"]))
        if len(actions) < horizon and not terminated and not partial:
            raise InvalidInput(
                f"{name_of(env)} cut episode {i} off after {len(actions)} steps, before the horizon of {horizon}; make it "
                f"with max_episode_steps={horizon} or more, choose a shorter horizon, or partial=True"
            )
        visited, chosen = (frozen(np.array(column, dtype=np.int64)) for column in (states, actions))
        paid = frozen(np.array(costs)) if wants_costs else None
        found.append(LoggedEpisode(visited, chosen, frozen(np.array(rewards)), paid, bool(terminated)))
        if report is not None:
            report(i + 1, episodes)
    return EpisodeLog(tuple(found), num_states, num_actions)


def _behaviour(policy: MarkovPolicy | Behaviour | None, horizon: int, num_states: int, num_actions: int) -> Behaviour:
    if policy is None:
        return lambda step, state, rng: int(rng.integers(num_actions))
    if isinstance(policy, MarkovPolicy):
        if policy.shape != (horizon, num_states, num_actions):
            raise InvalidInput(
                f"policy has shape (H, S, A) = {policy.shape}; for this environment and horizon it must be "
                f"{(horizon, num_states, num_actions)}, in the environment's states"
            )
        return policy.act
    if not callable(policy):
        raise InvalidInput(f"policy is {shown(policy)}; give a MarkovPolicy or a function (step, state, rng) -> action")
    check_function("policy", policy, "step, state, rng")
    return policy


def _observed(place: str, observation: Any, env: gymnasium.Env[Any, Any]) -> int:
    """A state as the environment shows it, counted from 0."""
    space: Any = env.observation_space
    number = observation.item() if isinstance(observation, np.ndarray) and observation.ndim == 0 else observation
    if isinstance(number, (int, np.integer)):
        number = int(number) - first_of(space)
    return _within(f"{place}: the observation, counted from 0,", number, int(space.n))


def _within(place: str, value: Any, below: int) -> int:
    if not is_whole(value) or not 0 <= value < below:
        raise InvalidInput(f"{place} is {shown(value)}; it must be a whole number from 0 to {below - 1}")
    return int(value)


def _only_logged(state: int, action: int, next_state: int, reward: float, terminated: bool) -> float:
    """In place of a cost function: without one, a live environment would seem to cost nothing."""
    raise InvalidInput(
        "the costs of this system were read from data, so they cannot be computed for another environment; give cost= as an "
        "array or a function cost(state, action, next_state, reward, terminated), or log episodes with their costs. An "
        "agent is told them: agent(observation, cost=info['cost'])"
    )
