"""With or without the simulator: which is expected to need fewer episodes, by rehearsing both on the same reality.

Both methods run with the same seeds for as many rounds. What is compared is not the stop, which neither may reach, but the
episodes until plans for random rewards are certified equally well: to the bound that the worse of the two ends with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from safe2real.methods.base import Method
from safe2real.methods.sim_to_real import RewardFree, SimToReal
from safe2real.model.constraint_text import count, roughly
from safe2real.model.validation import ROUNDING
from safe2real.preflight.findings import Advice, Recommendation
from safe2real.preflight.rehearsed_runs import Look, Trial

_CLEAR = 1.1  # times fewer episodes; below, nobody should care


class Cheaper(StrEnum):
    """Which of the two is expected to need fewer episodes."""

    WITH = "with"
    WITHOUT = "without"
    NEITHER = "neither"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Rehearsals with and without the simulator's rows, one pair for each seed."""

    bound: tuple[float, ...]  # [n] on the suboptimality of plans, which both methods reach
    with_simulator: tuple[float, ...]  # [n] episodes until then
    without: tuple[float, ...]  # [n]
    taken_for_right: int  # wrong rows that were cleared, and unsafe rounds: the simulator must not be used so
    first_look: float = 0.0  # episodes; what was reached by then may have been reached before

    @property
    def factors(self) -> tuple[float, ...]:
        """[n] how many times more episodes it takes without the simulator."""
        pairs = zip(self.without, self.with_simulator, strict=True)
        return tuple(one / other for one, other in pairs)

    @property
    def factor(self) -> float:
        """The geometric mean of them."""
        return float(np.exp(np.mean(np.log(self.factors))))

    @property
    def cheaper(self) -> Cheaper:
        if self.taken_for_right:
            return Cheaper.WITHOUT
        if 1.0 / _CLEAR < self.factor < _CLEAR:
            return Cheaper.NEITHER
        return Cheaper.WITH if self.factor > 1.0 else Cheaper.WITHOUT

    @property
    def agreeing(self) -> int:
        """Runs that point the way of their mean."""
        return sum((one > 1.0) == (self.factor > 1.0) for one in self.factors)


def other_than(method: Method) -> Method | None:
    """What a method is compared with; None where the question does not arise."""
    if type(method) is SimToReal:
        return RewardFree()
    return SimToReal() if type(method) is RewardFree else None


def compared(method: Method, trials: Sequence[Trial], others: Sequence[Trial], horizon: int) -> Comparison | None:
    """The comparison of `trials` by `method` with `others`, seed by seed; None where plans were not bounded."""
    first, second = (trials, others) if method.reuses_simulator else (others, trials)
    bounds, with_simulator, without = [], [], []
    for one, other in zip(first, second, strict=True):
        reached = float(np.maximum(one.looks[-1].plan_bound, other.looks[-1].plan_bound))  # nan if either is
        if not np.isfinite(reached):
            return None
        bounds.append(reached)
        with_simulator.append(samples_until(one.looks, reached) / horizon)
        without.append(samples_until(other.looks, reached) / horizon)
    taken = max((trial.lost + trial.unsafe_rounds for trial in first), default=0)
    first_look = max((trial.looks[0].samples / horizon for trial in (*first, *second)), default=0.0)
    return Comparison(tuple(bounds), tuple(with_simulator), tuple(without), taken, first_look) if bounds else None


def samples_until(looks: Sequence[Look], bound: float) -> float:
    """When plans were within `bound`, between two looks by powers; the first look where they were before it."""
    for i, look in enumerate(looks):
        if look.plan_bound > bound * (1.0 + ROUNDING):
            continue
        before = looks[i - 1] if i else None
        if before is None or look.plan_bound <= 0.0 or before.plan_bound <= look.plan_bound:
            return float(look.samples)
        share = np.log(before.plan_bound / bound) / np.log(before.plan_bound / look.plan_bound)
        return float(before.samples * (look.samples / before.samples) ** share)
    return float(looks[-1].samples)


def advise_method(method: Method, found: Comparison, *, guessed: bool, separated: bool = True) -> Recommendation:
    """Which is expected to be cheaper, by how much, and how sure that is; not `separated`: the gaps are not to be had."""
    runs = len(found.factors)
    means = {name: float(np.mean(getattr(found, name))) for name in ("with_simulator", "without")}
    numbers = {
        "cheaper": found.cheaper.value,
        "factor": found.factor,
        "factors": list(found.factors),
        "bound": float(np.mean(found.bound)),
        "episodes_with": means["with_simulator"],
        "episodes_without": means["without"],
        "runs": runs,
        "runs_that_agree": found.agreeing,
        "guessed": guessed,
        "at_first_look": min(*found.with_simulator, *found.without) <= found.first_look,
        "taken_for_right": found.taken_for_right,
    }
    said = (
        f"plans for random rewards are within {numbers['bound']:.3g} after "
        f"{roughly(means['with_simulator'], 'episode')} with the simulator's rows (SimToReal) and "
        f"{roughly(means['without'])} without them (RewardFree)"
    )
    said += f": {_worded(found)}. {_how_sure(found, runs, guessed)}"
    uses = {Cheaper.WITH: SimToReal, Cheaper.WITHOUT: RewardFree}.get(found.cheaper)
    cure = f"use methods.{uses.__name__}()" if uses is not None and type(method) is not uses else ""
    if uses is SimToReal:
        cure = cure if separated else "do without them all the same: the gaps that they rest on cannot be stated"
        return Recommendation(Advice.METHOD, said, cure, "the two gaps are true of the real system", numbers)
    return Recommendation(Advice.METHOD, said, cure, numbers=numbers)


def _worded(found: Comparison) -> str:
    if found.taken_for_right:
        return "but with them a wrong row was taken for right, or something unsafe was deployed: do without"
    if found.cheaper is Cheaper.NEITHER:
        return "no difference that matters, and without them no gap is assumed"
    times = found.factor if found.cheaper is Cheaper.WITH else 1.0 / found.factor
    return f"{found.cheaper.value} them it is about {times:.2g} times cheaper"


def _how_sure(found: Comparison, runs: int, guessed: bool) -> str:
    low, high = min(found.factors), max(found.factors)
    said = f"{found.agreeing} of {count(runs, 'rehearsal')} point that way"
    said += f" (factors {low:.2g} to {high:.2g})" if runs > 1 else ""
    if min(*found.with_simulator, *found.without) <= found.first_look:
        said += f"; nobody looked before {count(found.first_look, 'episode')}, so the factor may be larger"
    if guessed:
        said += ". That is on one guess of what is wrong: the more rows are wrong, the less the simulator is worth"
    return said
