"""How a planning problem ends, and how exactly it is solved."""

from __future__ import annotations

OPTIMAL = 0
INFEASIBLE = 1
INACCURATE = 2

MAX_SWEEPS = 400

# A constraint is met when it is missed by no more than this times max(1, H): the rounding of one evaluation.
FEASIBILITY_TOLERANCE = 1e-12
# The search goes on until the bound exceeds the value by this times max(1, |value|), or until rounding forbids more.
TARGET_EXCESS = 1e-12
# The excess that still counts as optimal, times max(1, |value|).
ACCEPTED_EXCESS = 1e-9
# Allowance for rounding in a dual bound, times (|bound| + H * sum of multipliers); a bound must not be below the optimum.
ROUNDING = 2e-15
