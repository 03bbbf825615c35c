"""How far the rows of a simulator that was estimated can be off."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safe2real.errors import InvalidInput
from safe2real.model.kernel import Kernel
from safe2real.model.serialization import array_to_json, check_keys, numbers_from_json
from safe2real.model.validation import Floats, boolean, finite_floats, frozen, probability_of_failure, whole_numbers


@dataclass(frozen=True, eq=False, slots=True)
class RowAccuracy:
    """How far the rows of an estimated simulator can be from those they stand for: what a `Problem` must know."""

    accuracy: Floats  # [S, A] TV distance, all rows at once with probability 1 - delta; 1 unvisited, 0 known
    visits: NDArray[np.int64]  # [S, A] samples behind each row
    delta: float
    certified: bool  # whether the accuracy carries that guarantee

    def __post_init__(self) -> None:
        accuracy = frozen(finite_floats("estimated.accuracy", self.accuracy))
        visits = whole_numbers("estimated.visits", self.visits, below=2**63 - 1, what="visits")
        if accuracy.shape != visits.shape or (accuracy < 0.0).any() or (accuracy > 1.0).any():
            raise InvalidInput(
                f"estimated has an accuracy of shape {accuracy.shape} and visits of shape {visits.shape}, or an accuracy "
                "outside [0, 1]; give one TV distance and one number of visits for each row"
            )
        object.__setattr__(self, "accuracy", accuracy)
        object.__setattr__(self, "visits", frozen(visits))
        probability_of_failure("estimated.delta", self.delta)
        boolean("estimated.certified", self.certified)

    @property
    def worst(self) -> float:
        """Over the rows that were visited: what `calibrated_gap` must cover where all of them are to be reused."""
        return float(self.accuracy[self.visits > 0].max(initial=0.0))

    @property
    def unvisited(self) -> NDArray[np.bool_]:
        """[S, A] rows that nothing was seen of."""
        return np.asarray((self.visits == 0) & (self.accuracy > 0.0), dtype=np.bool_)


def check_estimated(rows: RowAccuracy, kernel: Kernel) -> None:
    """Refuse the accuracy of another simulator's rows."""
    if not isinstance(rows, RowAccuracy):
        raise InvalidInput(f"estimated is a {type(rows).__name__}; give the row_accuracy of what estimate_model returned")
    shape = (kernel.num_states, kernel.num_actions)
    if rows.accuracy.shape != shape:
        raise InvalidInput(f"estimated.accuracy has shape {rows.accuracy.shape}; give one number for each row, {shape}")


def estimated_to_json(rows: RowAccuracy) -> dict[str, Any]:
    return {
        "accuracy": array_to_json(rows.accuracy),
        "visits": array_to_json(rows.visits),
        "delta": rows.delta,
        "certified": rows.certified,
    }


def estimated_from_json(value: Any) -> RowAccuracy:
    given = check_keys(value, "estimated", required=("accuracy", "visits", "delta", "certified"))
    arrays = {name: numbers_from_json(given[name], f"estimated.{name}") for name in ("accuracy", "visits")}
    return RowAccuracy(**{**given, **arrays})
