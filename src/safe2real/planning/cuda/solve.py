"""Exact plans of one or many systems on a GPU.

Problem, algorithm and stopping rule are those of `planning.solve`; the sweeps run on the device and the search on the host.
The proof is the same: a feasible mixture's value meets a dual bound (weak duality), both from float64 values whose sums are
formed as the CPU forms them, fused where those are. `solve(model, reward, warm=solution)` on the CPU evaluates the same
policies anew and proves the result again, with nothing of the device in it.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from safe2real._compiled import codes
from safe2real.model.cmdp import CMDP
from safe2real.model.policy import MarkovPolicy
from safe2real.model.validation import Floats, Indices, frozen
from safe2real.planning.cuda.batch import Batch, upload
from safe2real.planning.cuda.runtime import find_cupy
from safe2real.planning.cuda.searches import SearchEnds, search_all
from safe2real.planning.cuda.sweeper import Sweeper
from safe2real.planning.solve import Solution, as_solution, warm_multipliers
from safe2real.planning.sweeper import LANES, Outcome, slots_for

_ONE_AT_A_TIME = threading.Lock()  # launches are recorded on one stream


class DevicePolicy(MarkovPolicy):
    """A deterministic policy found on the device. Its actions are copied to the host when they are first read.

    A GPU holds an action in one byte where there are at most 256; on the host it takes as much as in every policy.
    """

    __slots__ = ("_cupy", "_fetched", "_held")

    def __init__(self, shape: tuple[int, int, int], cupy: Any, held: Any) -> None:
        # The fields of a frozen dataclass; `actions` is a property here.
        for name, value in zip(("horizon", "num_states", "num_actions"), shape, strict=True):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "table", None)
        object.__setattr__(self, "_cupy", cupy)
        object.__setattr__(self, "_held", held)  # [H, S]
        object.__setattr__(self, "_fetched", None)

    @property
    def held(self) -> Any | None:
        """[H, S] on the device, or None when it has been copied to the host and let go."""
        return self._held  # type: ignore[attr-defined]

    @property
    def actions(self) -> Indices:
        """[H, S] on the host."""
        if self._fetched is None:  # type: ignore[attr-defined]
            copied = self._cupy.asnumpy(self._held)  # type: ignore[attr-defined]
            object.__setattr__(self, "_fetched", frozen(copied.astype(np.uint32)))
            object.__setattr__(self, "_held", None)
        return self._fetched  # type: ignore[attr-defined, no-any-return]


@dataclass(frozen=True, eq=False, slots=True)
class Answers:
    """The results for N systems with K constraints each; C policies per system lie on the device."""

    batch: Batch
    models: Sequence[CMDP]  # N, or one that all share
    found: SearchEnds

    def solution(self, i: int) -> Solution:
        """The answer for system i, as `planning.solve` gives it; its policies stay on the device until they are read."""
        found, shape, cupy = self.found, self.batch.shape, self.batch.cupy
        outcome = Outcome(
            int(found.status[i]), float(found.bound[i]), float(found.shortfall[i]), int(found.passes[i]), found.lines[i],
            found.weights[i], found.multipliers[i].copy(),
        )  # fmt: skip
        model = self.models[i if len(self.models) > 1 else 0]
        return as_solution(
            model, outcome, lambda used: [DevicePolicy(shape, cupy, self.batch.actions[slot, i]) for slot in used]
        )


def solve_on_device(models: Sequence[CMDP], rewards: Sequence[Floats], warm: Solution | None = None) -> Answers:
    """The exact optimum of every system, all searched at once.

    Args:
        models: N systems of one shape, or one that all share.
        rewards: N of them, [1 or H, S, A] each, or one that all share.
        warm: solution of a similar problem from which all searches start.

    Raises:
        InvalidInput: There is no GPU or no CuPy, or the systems do not fit on it.
    """
    constraints = models[0].num_constraints
    if warm is not None:
        warm_multipliers(models[0], warm)  # which refuses one of another shape
    cupy = find_cupy()
    with _ONE_AT_A_TIME, _stream():
        batch = upload(cupy, models, rewards, slots_for(constraints), LANES if constraints else 1)
        return search(batch, models, warm)


def search(batch: Batch, models: Sequence[CMDP], warm: Solution | None = None) -> Answers:
    """`solve_on_device` for a batch that is there already, under the stream of `upload`."""
    sweeper, systems = Sweeper(batch), batch.systems
    if batch.parts == 1:
        lines = sweeper.greedy(np.ones((systems, 1, 1)), np.zeros((systems, 1), dtype=np.int32))
        best = SearchEnds(
            np.full(systems, codes.OPTIMAL), lines, np.ones((systems, 1)), lines[:, 0, 0],
            np.zeros((systems, 0)), np.zeros(systems), np.ones(systems, dtype=np.int64),
        )  # fmt: skip
        return Answers(batch, models, best)
    thresholds = np.stack([model.compiled_arrays.thresholds for model in models])  # [N or 1, K]
    if len(thresholds) < systems:
        thresholds = np.repeat(thresholds, systems, axis=0)
    known = 0 if warm is None else _place(batch, warm)
    multipliers = np.zeros(models[0].num_constraints) if warm is None else warm_multipliers(models[0], warm)
    found = search_all(sweeper, thresholds, known, multipliers)
    return Answers(batch, models, found)


def _place(batch: Batch, warm: Solution) -> int:
    """Put the policies of a warm start into the first slots of every system; returns how many there are."""
    count = 0
    for part in warm.policy.policies[: batch.parts]:
        held = part.held if isinstance(part, DevicePolicy) else None
        if held is None and part.actions is None:
            continue
        batch.actions[count] = batch.cupy.asarray(part.actions) if held is None else held
        count += 1
    return count


@cache
def _stream() -> Any:
    """Return the one stream of all plans: memory freed on a stream is reused on that stream alone."""
    return find_cupy().cuda.Stream(non_blocking=True)
