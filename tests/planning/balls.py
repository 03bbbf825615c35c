"""`TVBalls` for gaps over rows, a support and any utility, as tests have them."""

from typing import Any

import numpy as np

from safe2real.model import CMDP, Kernel, Policy
from safe2real.planning.evaluate import checked_utility
from safe2real.planning.robust import TVBalls, reach_of


def balls_of(model: CMDP, gaps: Any, support: Kernel | None = None) -> TVBalls:
    return TVBalls(model, np.array(gaps, dtype=np.float64).reshape(-1), reach_of(support, model.kernel))


def worst_value(model: CMDP, policy: Policy, utility: Any, gaps: Any, *, support: Kernel | None = None) -> float:
    return balls_of(model, gaps, support).worst(policy, checked_utility(model, utility))


def worst_constraint_values(model: CMDP, policy: Policy, gaps: Any, *, support: Kernel | None = None) -> Any:
    return balls_of(model, gaps, support).worst_constraints(policy)


def best_value(model: CMDP, utility: Any, gaps: Any, *, support: Kernel | None = None) -> float:
    return balls_of(model, gaps, support).best(checked_utility(model, utility))
