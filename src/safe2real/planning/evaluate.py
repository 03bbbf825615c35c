"""Evaluation of a policy in a known model: values of any utility, value functions, and the occupancy measure.

Problem: V_f = E[ sum_h f_h(s_h, a_h) ] for a policy under a kernel. Algorithm: one pass over the stored transitions, forward
for occupancies (and from them values), backward for value functions. A mixture's values are the weighted sum of its parts'.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from safe2real._compiled import evaluation
from safe2real.errors import InvalidInput
from safe2real.model.cmdp import CMDP, step_rewards
from safe2real.model.policy import MarkovPolicy, Mixture, Policy, fitted
from safe2real.model.validation import Floats, bare


def occupancy(model: CMDP, policy: Policy) -> Floats:
    """Return the probability of being in state s at step h and taking action a.

    Args:
        model: the system.
        policy: a policy for systems of its shape (H, S, A), or a mixture of such.

    Returns:
        [H, S, A]; every step sums to 1.

    Raises:
        InvalidInput: the policy is for another shape.
    """
    policy = fitted(policy, model)
    if isinstance(policy, Mixture):
        total = np.zeros(model.shape)
        for weight, part in zip(policy.weights, policy.policies, strict=True):
            total += weight * occupancy(model, part)
        return total
    visits: Floats = evaluation.occupancy(
        model.kernel.compiled_rows, model.compiled_arrays.start, bare(policy.probabilities)
    )
    return visits


def evaluate(model: CMDP, policy: Policy, utility: ArrayLike) -> float:
    """Return V_f, the expected sum of a utility over one episode of a policy.

    Args:
        model: the system.
        policy: a policy or a mixture of policies.
        utility: [S, A] or [H, S, A], any finite numbers. Where `model` counts the end, a table [S, A] is for the steps
            before it; for its constraints ask `constraint_values`.

    Returns:
        The value.

    Raises:
        InvalidInput: the policy or the utility is of another shape, or a number is not finite.
    """
    array = checked_utility(model, utility)
    return float((occupancy(model, policy) * array).sum())


def constraint_values(model: CMDP, policy: Policy) -> Floats:
    """Return V_c of every constraint; the policy is feasible when they reach `model.thresholds`.

    Args:
        model: the system and its K constraints.
        policy: a policy or a mixture of policies.

    Returns:
        [K] values.

    Raises:
        InvalidInput: the policy is for another shape.
    """
    visits = occupancy(model, policy)
    return np.array([(visits * utility).sum() for utility in model.utilities])


def value_functions(model: CMDP, policy: MarkovPolicy, utility: ArrayLike) -> Floats:
    """Return V_h(s) for every step and state.

    Args:
        model: the system.
        policy: one Markov policy.
        utility: [S, A] or [H, S, A], any finite numbers.

    Returns:
        [H + 1, S]; row H is the end of the episode and 0.

    Raises:
        InvalidInput: for a mixture, which has no value function of its own, and for another shape.
    """
    if isinstance(policy, Mixture):
        raise InvalidInput(
            "a mixture has no value function of its own (which part runs is drawn once per episode); "
            "ask for those of its policies, or of mixture.to_markov(model)"
        )
    policy = fitted(policy, model)
    array = checked_utility(model, utility)
    values: Floats = evaluation.value_functions(model.kernel.compiled_rows, array, bare(policy.probabilities))
    return values


def checked_utility(model: CMDP, utility: ArrayLike, name: str = "utility") -> Floats:
    """Return any finite numbers [S, A] or [H, S, A] as [1 or H, S, A], an array of our own."""
    return np.ascontiguousarray(step_rewards(model, name, utility, unit_interval=False))
