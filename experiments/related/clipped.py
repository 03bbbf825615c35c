"""Values that are clipped at every step: how much a bonus can add up to, and the best policy's value from both sides.

Problem: methods without a constraint measure what they do not know by W_h(s, a) = min(cap, bonus(s, a) + gain P W_{h+1}),
whose clip and gain (1 + 1/H, say) belong to their proofs, or keep an upper and a lower value with bonuses from the variance
of the next value (Bernstein). Algorithm: one backward induction over the stored transitions. There is nothing to stop.

A row of which nothing is known has the bonus inf: it is worth the cap.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from experiments.related import clipped_kernels as clipped
from safe2real.errors import InvalidInput
from safe2real.model.cmdp import CMDP
from safe2real.model.policy import MarkovPolicy, fitted
from safe2real.model.validation import Floats, bare, frozen, shown
from safe2real.planning.evaluate import checked_utility


@dataclass(frozen=True, eq=False, slots=True)
class Clipped:
    """The largest clipped sum of a bonus, and who attains it."""

    policy: MarkovPolicy
    values: Floats  # [H + 1, S]; row H is the end of the episode and 0
    value: float  # from the start


def clipped_maximum(model: CMDP, bonus: ArrayLike, *, gain: float, cap: float) -> Clipped:
    """max over actions of W_h(s, a) = min(cap, bonus + gain P W_{h+1}), with the policy that attains it.

    Args:
        model: whose rows P are.
        bonus: [S, A] or [H, S, A], at least 0; inf where nothing is known.
        gain: by which what comes later counts more, at least 0.
        cap: no value is larger.

    References:
        Menard et al., ICML 2021 (RF-Express); Miryoosefi and Jin, ICML 2022 (VI-Zero).
    """
    actions = np.empty((model.horizon, model.num_states), dtype=np.uint32)
    values = clipped.greedy(model.kernel.compiled_rows, _bonus("bonus", model, bonus), *_numbers(gain, cap), actions)
    return Clipped(MarkovPolicy(*model.shape, frozen(actions), None), values, float(model.start @ values[0]))


def clipped_value(model: CMDP, policy: MarkovPolicy, bonus: ArrayLike, *, gain: float, cap: float) -> float:
    """The same of one policy, which need not be the best: sum_a policy(a) W_h(s, a) in place of the maximum."""
    policy = fitted(policy, model)
    given = _bonus("bonus", model, bonus), *_numbers(gain, cap)
    values = clipped.following(model.kernel.compiled_rows, *given, bare(policy.probabilities))
    return float(model.start @ values[0])


@dataclass(frozen=True, eq=False, slots=True)
class Bracket:
    """The best policy's value from both sides, if the bonuses cover what is not known."""

    policy: MarkovPolicy  # the best of the upper values
    upper: Floats  # [H + 1, S]
    lower: Floats  # [H + 1, S]
    variances: Floats  # [H, S, A] of the upper value after each row


def bracketed(model: CMDP, reward: ArrayLike, scale: ArrayLike, bonus: ArrayLike, *, share: float, cap: float) -> Bracket:
    """Upper and lower values of the best policy for `reward`, with bonuses from the variance of the upper value.

    Qup = min(cap, r + e + P Vup) and Qlow = max(0, r - e + P Vlow), with e = scale sqrt(Var Vup) + bonus
    + share P (Vup - Vlow); Vup and Vlow are their maxima over actions.

    Args:
        model: whose rows P are.
        reward: [S, A] or [H, S, A], any finite numbers.
        scale: of the standard deviation, [S, A] or [H, S, A], at least 0; inf where nothing is known.
        bonus: in addition, likewise.
        share: of the distance between upper and lower value after the row.
        cap: no upper value is larger.

    References:
        Menard et al., ICML 2021 (BPI-UCBVI); Qu et al., AISTATS 2025 (HySRL).
    """
    objective = checked_utility(model, reward, "reward")
    spread, added = _bonus("scale", model, scale), _bonus("bonus", model, bonus)
    if len(spread) != len(added):  # compiled code reads both at the same step
        spread, added = (np.ascontiguousarray(np.broadcast_to(one, model.shape)) for one in (spread, added))
    actions = np.empty((model.horizon, model.num_states), dtype=np.uint32)
    variances = np.empty(model.shape)
    upper, lower = clipped.bracket(
        model.kernel.compiled_rows, objective, spread, added, *_numbers(share, cap), actions, variances
    )  # fmt: skip
    return Bracket(MarkovPolicy(*model.shape, frozen(actions), None), upper, lower, variances)


def _bonus(name: str, model: CMDP, given: ArrayLike) -> Floats:
    array = np.array(given, dtype=np.float64)
    array = array[None] if array.ndim == 2 else array
    if array.shape not in ((1, *model.shape[1:]), model.shape) or not (array >= 0.0).all():
        raise InvalidInput(f"{name} is {shown(given)}; give numbers of at least 0, inf included, [S, A] or [H, S, A]")
    return array


def _numbers(factor: float, cap: float) -> tuple[float, float]:
    if not (0.0 <= factor < np.inf and 0.0 <= cap < np.inf):
        raise InvalidInput(f"the gain or share is {factor} and the cap is {cap}; give finite numbers of at least 0")
    return float(factor), float(cap)
