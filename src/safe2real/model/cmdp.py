"""A constrained Markov decision process: transition rows, a horizon, a start, and zero or more safety constraints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from safe2real.errors import InvalidInput
from safe2real.model.constraint_text import Wording
from safe2real.model.kernel import Kernel
from safe2real.model.names import Legend
from safe2real.model.validation import (
    Floats,
    distributions,
    finite_floats,
    finite_number,
    frozen,
    positive_integer,
    shown,
    step_utilities,
    whole_numbers,
)


@dataclass(frozen=True, eq=False, slots=True)
class AtLeast:
    """The paper's form: the expected sum of `utility` over an episode is at least `threshold`."""

    utility: ArrayLike  # [S], [S, A] or [H, S, A], in [0, 1]
    threshold: float  # in [0, H]
    name: str = "constraint"


@dataclass(frozen=True, eq=False, slots=True)
class AtMost:
    """The field's form: the expected sum of `cost` over an episode is at most `limit`."""

    cost: ArrayLike  # [S], [S, A] or [H, S, A], in [0, 1]
    limit: float  # in [0, H]
    name: str = "constraint"


Constraint = AtLeast | AtMost
"""A utility that reaches its threshold, or a cost that stays within its limit."""


class Arrays(NamedTuple):
    """Start and constraints as writable arrays, for compiled code, which never writes to them; see `Rows`."""

    start: Floats  # [S]
    utilities: Floats  # [K, 1 or H, S, A]
    thresholds: Floats  # [K]


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class CMDP:
    """A finite-horizon CMDP (paper, section 2.1); build one with `CMDP.of`.

    K is the number of constraints. Both forms of constraint are kept as utility >= threshold: cost <= limit is the utility
    1 - cost with threshold H - limit. The first axis of `utilities` after K is 1 when none of them changes with the step.

    H steps are summed. With `counts_end` the last of them only collects the payment of the state that an episode ends in.
    No action is carried out there and no transition follows, so an episode has `steps` = H - 1 actions, and rewards count
    for those alone.
    """

    kernel: Kernel
    horizon: int
    compiled_arrays: Arrays  # writable arrays, which compiled code takes and nothing ever writes to
    names: tuple[str, ...]  # [K]
    costs: tuple[bool, ...]  # [K] whether a constraint was written as cost <= limit
    legend: Legend = field(default_factory=Legend)  # what states and actions are called
    counts_end: bool = False  # whether the state is paid for that the last action leads to

    def __post_init__(self) -> None:
        if not isinstance(self.kernel, Kernel) or not isinstance(self.compiled_arrays, Arrays):
            raise InvalidInput(
                f"a system was put together by hand from {shown(self.kernel)} and {shown(self.compiled_arrays)}; build one "
                "with CMDP.of(kernel, horizon, start, constraints)"
            )

    @classmethod
    def of(
        cls,
        kernel: Kernel,
        horizon: int,
        start: int | ArrayLike = 0,
        constraints: Sequence[Constraint] | Constraint = (),
        *,
        state_names: Sequence[str] | None = None,
        action_names: Sequence[str] | None = None,
        positions: ArrayLike | None = None,
        counts_end: bool = False,
    ) -> CMDP:
        """Build a system from its parts.

        Args:
            kernel: the transition rows.
            horizon: the number of actions in an episode.
            start: a state, or a distribution [S].
            constraints: AtLeast or AtMost: one, several or none.
            state_names: [S] for messages, maps and pages.
            action_names: [A] likewise.
            positions: [S, 2] column and row of each state on a map, NaN for a state without a place.
            counts_end: whether the state after the last action is paid for too, by constraints that do not depend on
                the action there: for costs that are paid on arrival, or a fall in the last step would cost nothing.

        Returns:
            The system.

        Raises:
            InvalidInput: a part does not fit the others, or is out of its range; with the place, the value and the fix.
        """
        if not isinstance(kernel, Kernel):
            raise InvalidInput(f"kernel is a {type(kernel).__name__}; build one with Kernel.from_dense or another from_*")
        horizon = positive_integer("horizon", horizon)
        if kernel.horizon is not None and kernel.horizon != horizon:
            raise InvalidInput(f"horizon is {horizon} but the kernel has rows for {kernel.horizon} steps; make them equal")
        if counts_end and kernel.horizon is not None:
            raise InvalidInput(
                "counts_end is True and the rows change with the step, so the end has no rows; give rows that do not change"
            )
        horizon += bool(counts_end)
        listed = [constraints] if isinstance(constraints, (AtLeast, AtMost)) else list(constraints or ())
        parts = [_as_utility(c, k, horizon, kernel) for k, c in enumerate(listed)]
        steps = max((len(utility) for utility, _ in parts), default=1)
        stacked = np.empty((len(parts), steps, kernel.num_states, kernel.num_actions))
        for k, (utility, _) in enumerate(parts):
            stacked[k] = utility
        thresholds = np.array([threshold for _, threshold in parts], dtype=np.float64)
        arrays = Arrays(_start_distribution(start, kernel.num_states), stacked, thresholds)
        if counts_end:
            _check_end(stacked[:, -1])
        costs = tuple(isinstance(c, AtMost) for c in listed)
        model = cls(kernel, horizon, arrays, tuple(c.name for c in listed), costs, counts_end=bool(counts_end))
        return model.with_legend(Legend.of(state_names, action_names, positions))

    def __repr__(self) -> str:
        pairs = zip(self.wordings, self.compiled_arrays.thresholds, strict=True)
        constraints = "".join(f"\n  {wording.requirement(threshold)}" for wording, threshold in pairs)
        horizon = f"horizon {self.steps}{' and the end' if self.counts_end else ''}"
        return f"CMDP({self.kernel}, {horizon}, {self.num_constraints} constraints){constraints}"

    @property
    def start(self) -> Floats:
        """[S] distribution of the first state."""
        return frozen(self.compiled_arrays.start)

    @property
    def utilities(self) -> Floats:
        """[K, 1 or H, S, A] utilities of the constraints, in [0, 1]."""
        return frozen(self.compiled_arrays.utilities)

    @property
    def thresholds(self) -> Floats:
        """[K] least expected sums of the utilities over an episode."""
        return frozen(self.compiled_arrays.thresholds)

    @property
    def shape(self) -> tuple[int, int, int]:
        """The sizes (H, S, A)."""
        return (self.horizon, self.num_states, self.num_actions)

    @property
    def steps(self) -> int:
        """The number of actions of an episode: H, or H - 1 where the last step only collects."""
        return self.horizon - self.counts_end

    @property
    def num_states(self) -> int:
        """How many states there are: S."""
        return self.kernel.num_states

    @property
    def num_actions(self) -> int:
        """How many actions there are: A."""
        return self.kernel.num_actions

    @property
    def num_constraints(self) -> int:
        """How many constraints there are: K."""
        return self.compiled_arrays.thresholds.size

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the constraints [K], made unique: a repeated name gets its number."""
        names = self.names
        found: list[str] = []
        for k, name in enumerate(names):
            label = name if names.count(name) == 1 else f"{name} {k}"
            while label in (*found, *names[:k], *names[k + 1 :]) and label != name:
                label += "'"
            found.append(label)
        return tuple(found)

    @property
    def wordings(self) -> tuple[Wording, ...]:
        """[K] the constraints as they were written, for whatever people read."""
        return tuple(Wording(label, self.horizon, cost) for label, cost in zip(self.labels, self.costs, strict=True))

    def with_legend(self, legend: Legend) -> CMDP:
        """Return the same system with other names of states and actions.

        Args:
            legend: names for all S states and A actions.

        Returns:
            A new system that shares its arrays with this one.

        Raises:
            InvalidInput: the legend is for other sizes.
        """
        legend.check_size(self.num_states, self.num_actions)
        return replace(self, legend=legend)

    def with_thresholds(self, thresholds: ArrayLike) -> CMDP:
        """Return the same system with other thresholds, e.g. tightened ones for planning.

        Args:
            thresholds: [K] in [0, H].

        Returns:
            A new system that shares its rows with this one.

        Raises:
            InvalidInput: another number of thresholds, or one outside [0, H].
        """
        values = finite_floats("thresholds", thresholds)
        if values.shape != (self.num_constraints,):
            raise InvalidInput(f"thresholds have shape {values.shape}; this system has {self.num_constraints} constraints")
        for k, value in enumerate(values):
            _check_range(f"thresholds[{k}]", float(value), self.horizon)
        return replace(self, compiled_arrays=self.compiled_arrays._replace(thresholds=values))

    def with_constraints(self, count: int) -> CMDP:
        """Return the same system with its first constraints alone.

        Args:
            count: how many constraints to keep.

        Returns:
            A new system that shares its rows with this one.
        """
        start, utilities, thresholds = self.compiled_arrays
        kept = Arrays(start, utilities[:count], thresholds[:count])
        return replace(self, compiled_arrays=kept, names=self.names[:count], costs=self.costs[:count])

    def with_kernel(self, kernel: Kernel) -> CMDP:
        """Return the same task on other dynamics, e.g. the real system beside its simulator.

        Args:
            kernel: transition rows for the same S and A.

        Returns:
            A new system with the same constraints and start.

        Raises:
            InvalidInput: a kernel of other sizes, or of another number of steps.
        """
        expected = (self.num_states, self.num_actions)
        if (kernel.num_states, kernel.num_actions) != expected or kernel.horizon not in (None, self.horizon):
            raise InvalidInput(
                f"the kernel has (S, A) = {(kernel.num_states, kernel.num_actions)} and horizon {kernel.horizon}; "
                f"this system has {expected} and horizon {self.horizon}"
            )
        return replace(self, kernel=kernel)


def _check_end(utilities: Floats) -> None:
    """Refuse utilities [K, S, A] of the step that only collects which depend on the action."""
    if (utilities != utilities[:, :, :1]).any():
        k, state, action = np.argwhere(utilities != utilities[:, :, :1])[0]
        raise InvalidInput(
            f"constraints[{k}] differs between action 0 and action {action} in state {state}, and with counts_end nothing "
            "is done in the state that an episode ends in; let its last step depend on the state alone"
        )


def _as_utility(constraint: Constraint, k: int, horizon: int, kernel: Kernel) -> tuple[Floats, float]:
    sizes = {"horizon": horizon, "num_states": kernel.num_states, "num_actions": kernel.num_actions}
    where = f"constraints[{k}]"
    # A name that cannot be printed may be one that a database cannot keep either.
    if isinstance(constraint, AtMost | AtLeast) and not (isinstance(constraint.name, str) and constraint.name.isprintable()):
        raise InvalidInput(f"{where}.name is {shown(constraint.name)}; give a text of printable characters in one line")
    if isinstance(constraint, AtMost):
        limit = finite_number(f"{where}.limit", constraint.limit)
        _check_range(f"{where}.limit", limit, horizon, "costs")
        cost = step_utilities(f"{where}.cost", constraint.cost, unit_interval=True, bound="limit", **sizes)
        return 1.0 - cost, horizon - limit
    if isinstance(constraint, AtLeast):
        threshold = finite_number(f"{where}.threshold", constraint.threshold)
        _check_range(f"{where}.threshold", threshold, horizon)
        utility = step_utilities(f"{where}.utility", constraint.utility, unit_interval=True, bound="threshold", **sizes)
        return utility, threshold
    raise InvalidInput(f"{where} is a {type(constraint).__name__}; give AtLeast(utility, threshold) or AtMost(cost, limit)")


def _check_range(name: str, value: float, horizon: int, summed: str = "utilities") -> None:
    if not 0.0 <= value <= horizon:
        raise InvalidInput(
            f"{name} is {value:g}; a sum of {horizon} {summed} in [0, 1] lies between 0 and {horizon}, so choose it there"
        )


def _start_distribution(start: int | ArrayLike, num_states: int) -> Floats:
    given = np.asarray(start)
    if given.ndim == 0:
        state = whole_numbers("start", given, below=num_states, what="states")
        return np.asarray((np.arange(num_states) == state).astype(np.float64))
    if given.shape != (num_states,):
        raise InvalidInput(f"start has shape {given.shape}; give a state, or a distribution over {num_states} states")
    return np.ascontiguousarray(distributions("start", given))


def step_rewards(model: CMDP, name: str, values: ArrayLike, *, unit_interval: bool) -> Floats:
    """Return a reward, or a utility that is no constraint, for each step as a copy of shape [1 or H, S, A].

    Where `model` counts the end, [S], [S, A] and [steps, S, A] are for the steps with an action: the end pays 0. [H, S, A]
    includes the end.
    """
    horizon, states, actions = model.shape
    sizes: dict[str, Any] = {"num_states": states, "num_actions": actions, "unit_interval": unit_interval}
    if not model.counts_end:
        return step_utilities(name, values, horizon=horizon, **sizes)
    if np.shape(values) == model.shape:
        table = step_utilities(name, values, horizon=horizon, **sizes)
        if unit_interval and (table[-1] != table[-1, :, :1]).any():
            raise InvalidInput(
                f"{name} differs between actions in its last step, which is the end, where nothing is done; give "
                f"({model.steps}, S, A), or make it the same for all actions there"
            )
        return table
    done = step_utilities(name, values, horizon=model.steps, **sizes)
    table = np.zeros(model.shape)
    table[: model.steps] = done
    return table


def without_steps(table: Floats) -> Floats:
    """[S, A] of a utility or reward [1, S, A] that does not change with the step; [H, S, A] as it is."""
    return np.asarray(table[0]) if len(table) == 1 else table
