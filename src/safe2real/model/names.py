"""What states and actions are called, and where states lie: for maps, plans and pages, never for a computation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from safe2real.errors import InvalidInput
from safe2real.model.serialization import array_to_json, check_keys, numbers_from_json
from safe2real.model.validation import Floats, checked_name, finite_floats, frozen, shown

_LONGEST = 80  # characters of a name: pages have to show it


@dataclass(frozen=True, eq=False, slots=True)
class Legend:
    """Names of states and actions, and positions of states in the plane; each may be left out.

    Example:
        >>> Legend(actions=("left", "right")).action(1)
        'right'
        >>> Legend().state(3)
        'state 3'
    """

    states: tuple[str, ...] = ()  # [S] or empty
    actions: tuple[str, ...] = ()  # [A] or empty
    positions: Floats | None = None  # [S, 2] column and row (downwards), NaN where a state lies nowhere

    @classmethod
    def of(
        cls, states: Sequence[str] | None = None, actions: Sequence[str] | None = None, positions: ArrayLike | None = None
    ) -> Legend:
        """Check and keep; whether the sizes fit a system is looked at where it joins one (`check_size`)."""
        where = None
        if positions is not None:
            where = np.asarray(positions, dtype=np.float64)
            if where.ndim != 2 or where.shape[1] != 2 or np.isinf(where).any():
                raise InvalidInput(f"positions have shape {where.shape}; give (column, row) for each state, NaN for nowhere")
            where = frozen(where)
        return cls(_names("state_names", states), _names("action_names", actions), where)

    def __bool__(self) -> bool:
        return bool(self.states or self.actions or self.positions is not None)

    def state(self, number: int) -> str:
        """Return the name of a state."""
        return self.states[number] if self.states else f"state {number}"

    def action(self, number: int) -> str:
        """Return the name of an action."""
        return self.actions[number] if self.actions else f"action {number}"

    def row(self, state: int, action: int) -> str:
        """Return the name of a state-action pair."""
        return f"{self.action(action)} in {self.state(state)}"

    def check_size(self, num_states: int, num_actions: int) -> None:
        """Refuse names or positions of another system.

        Raises:
            InvalidInput: the sizes differ; with both sizes.
        """
        pairs = (("state_names", self.states, num_states, "states"), ("action_names", self.actions, num_actions, "actions"))
        for what, names, size, things in pairs:
            if names and len(names) != size:
                raise InvalidInput(f"{what} has {len(names)} names; the system has {size} {things}: give one for each")
            _names(what, names)  # a legend may have been made without `of`
        if self.positions is not None and len(self.positions) != num_states:
            raise InvalidInput(
                f"positions has {len(self.positions)} rows; the system has {num_states} states: give one each"
            )

    def to_json(self) -> dict[str, Any]:
        """Return the names and positions that are given, as plain JSON values."""
        document: dict[str, Any] = {}
        if self.states:
            document["states"] = list(self.states)
        if self.actions:
            document["actions"] = list(self.actions)
        if self.positions is not None:
            lies = np.asarray(np.isfinite(self.positions).all(axis=1))  # JSON has no NaN
            document["positions"] = array_to_json(np.where(lies[:, None], self.positions, 0.0))
            document["nowhere"] = np.flatnonzero(~lies).tolist()
        return document


def legend_from_json(value: Any) -> Legend:
    """Read a legend written by `Legend.to_json` or by hand."""
    if isinstance(value, Legend):
        return value
    given = check_keys(value, "legend", required=(), optional=("states", "actions", "positions", "nowhere"))
    positions = None
    if "positions" in given:
        positions = np.array(finite_floats("legend.positions", numbers_from_json(given["positions"], "legend.positions")))
        nowhere = given.get("nowhere", [])
        if not isinstance(nowhere, list) or not all(type(s) is int and 0 <= s < len(positions) for s in nowhere):
            raise InvalidInput(f"legend.nowhere is {shown(nowhere)}; give a list of states that have no position")
        positions[nowhere] = np.nan
    return Legend.of(given.get("states"), given.get("actions"), positions)


def _names(what: str, given: Sequence[str] | None) -> tuple[str, ...]:
    if given is None:
        return ()
    if isinstance(given, str) or not isinstance(given, Sequence | np.ndarray):
        raise InvalidInput(f"{what} is {shown(given)}; give a list of texts")
    for i, name in enumerate(given):
        checked_name(f"{what}[{i}]", name, _LONGEST)
    return tuple(map(str, given))
