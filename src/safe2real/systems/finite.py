"""An environment as a finite system: what it costs, where it ends, and how its states are numbered here.

A constraint is a sum of c(s, a) over exactly H steps. Two things of an environment do not fit that as they are.

The end. A terminated transition into t leads to a state of its own, "t, ended here", whose cost is paid once; from there
every action leads to an absorbing state, which costs what the user says it does, step by step (one such state for each
such cost). These rows are ours, not the environment's: they are true by construction, and `known`.

Costs of transitions (falling, colliding). The expected cost of (s, a) depends on probabilities that the simulator may have
wrong. So the cost is paid on arrival: t has a copy for every cost with which it can be entered, and the cost is a function
of the state again, true on the real system whatever its probabilities. A copy behaves as t does.

What the last action leads to has to be paid for too, or plans would put the fall there. So where costs are those of states
or of transitions the model counts the end (`CMDP.counts_end`): one step more, in which the cost of the last arrival is
collected and nothing is done. Costs of a state AND an action are paid in the steps in which something is done.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import ArrayLike, NDArray

from safe2real.errors import InvalidInput
from safe2real.model import CMDP, AtMost, Kernel
from safe2real.model.names import Legend
from safe2real.model.validation import (
    ROUNDING,
    Floats,
    boolean,
    check_function,
    checked_name,
    frozen,
    positive_integer,
    shown,
    whole_numbers,
)
from safe2real.problem.ties import Ties, laws_of
from safe2real.systems import outcomes as rows
from safe2real.systems.finite_env import FiniteEnv, FiniteTranslation, check_spaces, first_of, legend_of_env, name_of
from safe2real.systems.outcomes import ENDED, Arrival, ArrivalCost, Outcomes, TransitionTable
from safe2real.systems.rollout import Runnable

LOGGED = "logged"
"""Given as a cost: use the costs of the data from which a system is estimated."""
TIES_HINT = "this system has ties: Problem(..., ties=system.ties)"
"""What the text of a system says beside its model: without them every row is learnt by itself."""

_LONGEST_BASE = 40  # characters of a name that something is added to


@dataclass(frozen=True, eq=False, kw_only=True, slots=True)
class SystemDescription:
    """The parts of a finite system that a table or samples do not contain: costs, the end, the start, names.

    `from_gymnasium`, `from_dynamics` and the three `estimate_...` functions take it. All of it is about the environment's
    own S states and A actions.

    Args:
        cost: what is paid, in [0, 1]; without it the system has no constraint. An array [S], paid for being there, at the
            end of the episode too; an array [S, A], paid for what is done there; a function of a transition (state, action,
            next state, reward, terminated), paid once on arrival, the last one too. For `from_dynamics` also a function of
            (state, action); for estimates also "logged", the costs of the data as paid on arrival (`info["cost"]`).
        limit: on the expected cost of an episode; needed with `cost`.
        ended: cost of each step after termination: a number, or [S] by terminal state. Required where episodes can end,
            because the constraint counts it.
        name: of the constraint, in messages and pages.
        counts_end: whether a cost [S, A] also counts the state that the last action leads to; the cost must not depend on
            the action then. If False, costs caused by the last action are not counted, and a plan may exploit that;
            `rollout` shows by how much. Costs [S] and costs of transitions always count the end.
        start: a state, or a distribution [S]; the environment's own, or counted from samples, if None.
        drop_unreachable: leave out states that the TABLE cannot reach within the horizon: a real system that gets there all
            the same is refused by `as_env`, so drop only what no system can reach.
        state_names: [S] what states are called, in messages, maps, pages; what the environment calls them if None.
        action_names: [A] likewise.
        positions: [S, 2] column and row of each state on a map, NaN for nowhere; those of a toy-text grid if None.

    Raises:
        InvalidInput: a cost without its limit or a limit without its cost, or a name that cannot be printed.

    Example:
        >>> SystemDescription(cost=[0, 0, 1], limit=0.4, start=0).name
        'cost'
    """

    cost: ArrayLike | ArrivalCost | Callable[[Any, Any], float] | str | None = None
    limit: float | None = None
    ended: ArrayLike | None = None
    name: str = "cost"
    counts_end: bool = False
    start: Any = None
    drop_unreachable: bool = False
    state_names: Sequence[str] | None = None
    action_names: Sequence[str] | None = None
    positions: ArrayLike | None = None

    def __post_init__(self) -> None:
        checked_name("name", self.name)
        if isinstance(self.cost, str) and self.cost != LOGGED:
            raise InvalidInput(f"cost is {self.cost!r}; give an array, a function, or {LOGGED!r} for the costs in the data")
        if (self.limit is None) != (self.cost is None):
            given = "limit is given without a cost" if self.cost is None else "a cost is given without its limit"
            raise InvalidInput(
                f"{given}; give cost= and limit= together: the expected cost of an episode is at most the limit"
            )
        for name in ("counts_end", "drop_unreachable"):
            boolean(name, getattr(self, name))
        self.legend  # noqa: B018 (refuses names that are no texts)

    @classmethod
    def of(cls, given: SystemDescription | None) -> SystemDescription:
        """Return what is given, or an empty description.

        Args:
            given: a description, or None.

        Returns:
            A description.

        Raises:
            InvalidInput: it is something else.
        """
        if given is not None and not isinstance(given, cls):
            raise InvalidInput(f"description is {shown(given)}; give SystemDescription(cost=..., limit=...)")
        return cls() if given is None else given

    @property
    def legend(self) -> Legend:
        """The given names."""
        return Legend.of(self.state_names, self.action_names, self.positions)

    @property
    def own_cost(self) -> ArrayLike | None:
        """The cost where it is an array over states, and not one of transitions."""
        return None if callable(self.cost) or isinstance(self.cost, str) else self.cost

    @property
    def arrival_cost(self) -> ArrivalCost | None:
        """The cost where it is a function of a transition."""
        if callable(self.cost):
            check_function("cost", self.cost, "state, action, next_state, reward, terminated")
            return self.cost  # type: ignore[return-value]
        return None


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class FiniteSystem(Runnable):
    """An environment with a fixed horizon and S states of our numbering; made by `from_gymnasium` and `estimate_...`.

    Example:
        >>> import gymnasium
        >>> system = from_gymnasium(gymnasium.make("FrozenLake-v1"), 12)
        >>> reward = system.where([15])  # to be at the goal
        >>> real = system.as_env(gymnasium.make("FrozenLake-v1", max_episode_steps=12))
        >>> real.reset(seed=0)[0] == system.state_of(0)
        True
    """

    model: CMDP
    known: NDArray[np.bool_]  # [S, A] rows that are true by construction; for Problem(..., known=...)
    reward: Floats  # [S, A] expected reward, in the environment's units; where the rows are wrong, so is it
    origin: NDArray[np.int64]  # [S] the environment's state behind each state; -1 after the end
    arrivals: Mapping[Arrival, int]  # (environment's state, cost on arrival, terminated) -> state
    arrival_cost: ArrivalCost | None
    ended: Floats  # [states of the environment] what every step costs after an episode that ended there
    ties: Ties | None = None  # of its rows, as they were given of the environment's; for Problem(..., ties=...)
    first_state: int = 0  # from which the environment's observations count; here states count from 0
    first_action: int = 0  # likewise

    def __repr__(self) -> str:
        tied = "" if self.ties is None else f"\n  {TIES_HINT}"
        return f"FiniteSystem(of an environment with {self.ended.size} states)\n  {self.model}{tied}"

    def where(self, states: ArrayLike) -> Floats:
        """Return the reward that is 1 in all states that stand for some of the environment's, else 0.

        Args:
            states: of the environment: numbers [n], or a boolean for each [states of the environment].

        Returns:
            A reward [S, A] to plan for.

        Raises:
            InvalidInput: the environment has no such state.
        """
        given, size = np.asarray(list(states) if isinstance(states, (set, frozenset)) else states), self.ended.size
        if given.dtype == np.bool_ and given.shape == (size,):
            given = np.flatnonzero(given)
        states = whole_numbers("states", given, below=size, what="the environment's states")
        return frozen(np.repeat(np.isin(self.origin, states)[:, None], self.model.num_actions, axis=1).astype(np.float64))

    @property
    def copies(self) -> NDArray[np.int64]:
        """[S] the first state that has the same rows by construction: one state of the environment stands behind both.

        For Problem(..., copies=...): what is seen in one is then counted for all.
        """
        return frozen(rows.copies_in(self.origin, self.known[:, 0], self.model.kernel))

    @property
    def unit_reward(self) -> Floats:
        """`reward` [S, A] shifted and scaled to [0, 1], as planning wants it; the best policies stay the best."""
        low, high = float(self.reward.min()), float(self.reward.max())
        return frozen((self.reward - low) / (high - low) if high > low else np.zeros(self.reward.shape))

    def state_of(self, state: int, cost: float = 0.0, terminated: bool = False) -> int:
        """Return the state of the model for a state of the environment, by how it was entered.

        Args:
            state: the environment's.
            cost: paid on arrival.
            terminated: whether the episode ended there.

        Returns:
            The model's state.

        Raises:
            OutsideModel: the model has no such state, or none that is entered like that.
        """
        arrival = (int(state), float(cost), bool(terminated))
        if state < 0 or arrival not in self.arrivals:
            raise rows.unknown_arrival(f"the environment entered state {state}", arrival)
        return self.arrivals[arrival]

    def after_end_of(self, state: int) -> int:
        """Return the state that follows one in which, or after which, the episode has ended.

        Args:
            state: the model's.

        Returns:
            An absorbing state of the model.
        """
        return int(self.model.kernel.row(state * self.model.num_actions)[0][0])

    def per_state(self, values: ArrayLike) -> Any:
        """Return an array over the environment's states as one over the model's, for a policy's actions or probabilities.

        Args:
            values: [states of the environment, ...], one entry for each.

        Returns:
            One entry for each state of the model. After the end, where no action matters, it is the first entry.

        Raises:
            InvalidInput: the first axis has another length.
        """
        given = np.asarray(values)
        if given.ndim == 0 or len(given) != self.ended.size:
            raise InvalidInput(
                f"values have shape {given.shape}; give one entry for each of the environment's {self.ended.size} states"
            )
        return given[np.maximum(self.origin, 0)]

    def kernel_of(self, real: gymnasium.Env[Any, Any] | TransitionTable | rows.Outcomes) -> Kernel:
        """Return the rows of another environment in this numbering: the real one's, in a study.

        Args:
            real: an environment with a table, a table alone, or the `outcomes` of an `EstimatedModel`. An environment must
                start its episodes as the system does; of the others that is taken for granted. The table is that of
                `env.unwrapped`: wrappers that change what actions do are not seen.

        Returns:
            The kernel, of the shape of this system's.

        Raises:
            InvalidInput: it is of another size, starts elsewhere, or leads to states that this system does not have.
        """
        if isinstance(real, rows.Outcomes):
            found = real
        else:
            if not isinstance(real, Mapping):
                self._check_start(real)
            found = rows.outcomes_of(real, self.arrival_cost)
        outcomes = replace(found, ended=self.ended)
        sizes = (outcomes.num_states, outcomes.num_actions)
        if sizes != (self.ended.size, self.model.num_actions):
            raise InvalidInput(
                f"the environment has {sizes[0]} states and {sizes[1]} actions; the system was made of one with "
                f"{self.ended.size} states and {self.model.num_actions} actions"
            )
        return rows.kernel_in(outcomes, self.arrivals, self.origin[self.model.start > 0.0], self.model.steps)

    def as_env(self, env: gymnasium.Env[Any, Any]) -> FiniteEnv:
        """Show a running environment, usually the real one, in the model's numbers.

        A cost that is a function of transitions is computed from what THIS environment shows, its rewards too.

        Args:
            env: with as many states and actions as the environment that the system was made of.

        Returns:
            The environment, for `explore` and `roll_out`.

        Raises:
            InvalidInput: it is of another size.
        """
        return FiniteEnv(env, self)

    @property
    def translation(self) -> FiniteTranslation:
        """Between the environment's observations and actions and the model's numbers, for agents."""
        return FiniteTranslation(self)

    def _check_start(self, env: gymnasium.Env[Any, Any]) -> None:
        given = getattr(env.unwrapped, "initial_state_distrib", None)
        if given is None or np.shape(given) != self.ended.shape:
            return
        here = np.bincount(np.maximum(self.origin, 0), self.model.start, minlength=self.ended.size)
        apart = np.abs(np.asarray(given, dtype=np.float64) - here)
        if apart.max() > ROUNDING:
            state = int(apart.argmax())
            raise InvalidInput(
                f"the environment starts in state {state} with probability {float(np.asarray(given)[state]):g}, this system "
                f"with {here[state]:g}; make both start alike, or give its table alone (env.unwrapped.P) if that is meant"
            )


def from_gymnasium(
    env: gymnasium.Env[Any, Any],
    horizon: int,
    description: SystemDescription | None = None,
    *,
    ties: Ties | None = None,
) -> FiniteSystem:
    """Make a finite system of an environment with a table `env.unwrapped.P`, whose expected cost is at most a limit.

    Args:
        env: with Discrete observations and actions.
        horizon: steps of an episode.
        description: costs and their limit, the end, the start and names; without it the system has no constraint.
        ties: which rows of the environment behave alike, in its own states; the system's `ties` are the same in its numbers.

    Returns:
        The system; `model`, `known` and `reward` are what a `Problem` and a plan need of it.

    Raises:
        InvalidInput: where the environment has no table, or what is given does not fit it; says what to give instead.

    Example:
        >>> import gymnasium
        >>> lake = gymnasium.make("FrozenLake-v1", is_slippery=True)
        >>> falls = SystemDescription(cost=lambda s, a, t, reward, over: over and not reward, limit=0.4, ended=0)
        >>> from_gymnasium(lake, 12, falls).model.num_states >= 16
        True
    """
    check_spaces(env)
    description = SystemDescription.of(description)
    outcomes = rows.outcomes_of(env, description.arrival_cost)
    sizes = {"states": outcomes.num_states, "actions": outcomes.num_actions}
    for (what, size), space in zip(sizes.items(), (env.observation_space, env.action_space), strict=True):
        if int(space.n) != size:  # type: ignore[attr-defined]
            raise InvalidInput(f"the table of {name_of(env)} has {size} {what} but its space is {space}; make them agree")
    if description.start is None:
        start = getattr(env.unwrapped, "initial_state_distrib", None)
        if start is None:
            raise InvalidInput(
                f"{name_of(env)} does not say where its episodes start (no initial_state_distrib); "
                "give start=, a state or a distribution over states"
            )
        description = replace(description, start=start)
    legend = legend_of_env(env, outcomes.num_states, outcomes.num_actions, description.legend)
    system = build_system(outcomes, horizon, description, ties=ties, legend=legend)
    return replace(system, first_state=first_of(env.observation_space), first_action=first_of(env.action_space))


def build_system(
    outcomes: Outcomes,
    horizon: int,
    description: SystemDescription,
    *,
    ties: Ties | None = None,
    legend: Legend | None = None,
) -> FiniteSystem:
    """Build the system of these outcomes.

    Args:
        outcomes: in the environment's states. What a function of transitions paid is among them.
        horizon: steps of an episode.
        description: with a start. Its function of transitions is for environments that will be seen as this system.
        ties: in the environment's states.
        legend: names of the environment's states.

    Returns:
        The system in a numbering of its own.

    Raises:
        InvalidInput: the parts do not fit together.
    """
    horizon = positive_integer("horizon", horizon)
    if ties is not None and not isinstance(ties, Ties):
        raise InvalidInput(f"ties is a {type(ties).__name__}; give Ties(classes, successors)")
    if isinstance(description.cost, str):
        raise InvalidInput(f"cost is {LOGGED!r}, which is for estimates from data; give an array or a function")
    limit, own = description.limit, description.own_cost
    legend = Legend() if legend is None else legend
    legend.check_size(outcomes.num_states, outcomes.num_actions)
    first = rows.start_distribution(description.start, outcomes.num_states)
    ended = rows.costs_after_end(description.ended, outcomes, required=limit is not None)
    outcomes = replace(outcomes, ended=ended)
    arrivals = rows.find_arrivals(outcomes, first > 0.0)
    if description.drop_unreachable:
        arrivals = rows.without_unreachable(arrivals, outcomes, first > 0.0, horizon)
    # What is done matters for a cost [S, A], so nothing is paid where nothing is done.
    counts_end = description.counts_end or (limit is not None and (own is None or np.ndim(own) == 1))
    constraints = () if limit is None else AtMost(rows.costs_paid(arrivals, own, outcomes), limit, description.name)
    kernel = rows.kernel_in(outcomes, arrivals, np.flatnonzero(first), horizon)
    tied = None if ties is None else rows.ties_in(ties, outcomes, arrivals)
    if tied is not None:
        laws_of(tied, kernel)  # refuses what does not fit the rows
    begin = np.zeros(len(arrivals))
    for state in np.flatnonzero(first):
        begin[arrivals[(int(state), 0.0, False)]] = first[state]
    over = np.array([terminated for _, _, terminated in arrivals], dtype=np.bool_)
    origin = np.array([state for state, _, _ in arrivals], dtype=np.int64)
    model = CMDP.of(kernel, horizon, begin, constraints, counts_end=counts_end)
    return FiniteSystem(
        model=model.with_legend(_legend_in(legend, arrivals)),
        known=frozen(np.repeat(over[:, None], kernel.num_actions, axis=1)),
        reward=frozen(np.where(over[:, None], 0.0, outcomes.mean_rewards()[np.maximum(origin, 0)])),
        origin=frozen(origin),
        arrivals=arrivals,
        arrival_cost=description.arrival_cost,
        ended=frozen(outcomes.ended),
        ties=tied,
    )


def _legend_in(legend: Legend, arrivals: Mapping[Arrival, int]) -> Legend:
    """The names of an environment's states as those of a finite system, which numbers the ways to enter them.

    A state has its plain name where there is one way to enter it; a copy says what it is: ended, or entered at a cost.
    """
    ordered = sorted(arrivals, key=arrivals.__getitem__)
    ways = np.bincount([state for state, _, _ in ordered if state != ENDED])
    ends = sum(state == ENDED for state, _, _ in ordered)
    names: list[str] = []
    for state, cost, over in ordered:
        if state == ENDED:
            names.append("after the end" + (f", at cost {cost:g}" if ends > 1 else ""))
            continue
        added = (", ended here" if over else "") + (f", entered at cost {cost:g}" if cost and ways[state] > 1 else "")
        name = legend.state(state)
        names.append(f"{name[:_LONGEST_BASE]}{added}" if added else name)
    plain = all(name == f"state {number}" for number, name in enumerate(names))
    where = None
    if legend.positions is not None:
        where = np.array([(np.nan, np.nan) if state == ENDED else legend.positions[state] for state, _, _ in ordered])
    return Legend.of(None if plain else names, legend.actions or None, where)
