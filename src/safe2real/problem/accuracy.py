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

    @property
    def worst(self) -> float:
        """Over the rows that were visited: what `calibrated_gap` must cover where all of them are to be reused."""
        return float(self.accuracy[self.visits > 0].max(initial=0.0))

    @property
    def unvisited(self) -> NDArray[np.bool_]:
        """[S, A] rows that nothing was seen of."""
        return np.asarray((self.visits == 0) & (self.accuracy > 0.0), dtype=np.bool_)


def check_estimated(rows: RowAccuracy, kernel: Kernel) -> None:
    """Refuse what is no accuracy of these rows."""
    if not isinstance(rows, RowAccuracy):
        raise InvalidInput(f"estimated is a {type(rows).__name__}; give the row_accuracy of what estimate_model returned")
    shape = (kernel.num_states, kernel.num_actions)
    for name, array in (("accuracy", rows.accuracy), ("visits", rows.visits)):
        if array.shape != shape:
            raise InvalidInput(f"estimated.{name} has shape {array.shape}; give one number for each row, {shape}")
    if not ((rows.accuracy >= 0.0) & (rows.accuracy <= 1.0)).all() or (rows.visits < 0).any():
        raise InvalidInput(
            "estimated holds an accuracy outside [0, 1] or a negative number of visits; give what was computed"
        )


def estimated_to_json(rows: RowAccuracy) -> dict[str, Any]:
    return {
        "accuracy": array_to_json(rows.accuracy),
        "visits": array_to_json(rows.visits),
        "delta": rows.delta,
        "certified": rows.certified,
    }


def estimated_from_json(value: Any, kernel: Kernel) -> RowAccuracy:
    given = check_keys(value, "estimated", required=("accuracy", "visits", "delta", "certified"))
    visits = numbers_from_json(given["visits"], "estimated.visits")
    rows = RowAccuracy(
        accuracy=frozen(finite_floats("estimated.accuracy", numbers_from_json(given["accuracy"], "estimated.accuracy"))),
        visits=frozen(whole_numbers("estimated.visits", visits, below=2**63 - 1, what="visits").astype(np.int64)),
        delta=probability_of_failure("estimated.delta", given["delta"]),
        certified=boolean("estimated.certified", given["certified"]),
    )
    check_estimated(rows, kernel)
    return rows
