"""A model with TV balls around its rows, as tests write them."""

from typing import Any

import numpy as np

import safe2real as s2r
from safe2real.planning.evaluate import checked_utility
from safe2real.planning.robust import RowSets, reach_of

Array = np.ndarray[Any, Any]


def balls_around(model: s2r.CMDP, gaps: Array, support: s2r.Kernel | None = None) -> RowSets:
    """The balls of `gaps` [S, A] or [H, S, A], on the successors of `support`."""
    return RowSets(model, np.asarray(gaps, dtype=np.float64).reshape(-1), reach_of(support, model.kernel))


def best_value(model: s2r.CMDP, utility: Array, gaps: Array, support: s2r.Kernel | None = None) -> float:
    """The maximum of V_f over all policies and all kernels within the balls."""
    return balls_around(model, gaps, support).best(checked_utility(model, utility))


def worst_value(
    model: s2r.CMDP, policy: s2r.MarkovPolicy | s2r.Mixture, utility: Array, gaps: Array, support: s2r.Kernel | None = None
) -> float:
    """The minimum of V_f over the kernels within the balls."""
    return balls_around(model, gaps, support).worst(policy, checked_utility(model, utility))


def worst_constraint_values(
    model: s2r.CMDP, policy: s2r.MarkovPolicy | s2r.Mixture, gaps: Array, support: s2r.Kernel | None = None
) -> Array:
    """[K] the same of every constraint."""
    return balls_around(model, gaps, support).worst_constraints(policy)
