"""The numbers by which compiled code knows radii, rules, reasons and outcomes, and how exactly it plans."""

from __future__ import annotations

# Radii

LITERAL = 0
KL = 1
UNION = 2
STITCHED = 3
ADAPTIVE = 4
TABLE = 5  # a radius from elsewhere, tabulated
SHORT_RUN, LONG_RUN = 20.0, 1000.0  # visits for which the two mixtures of ADAPTIVE are tuned

# When a row is cleared
HALFWAY = 0  # distance + radius <= (eps_s + sigma_s) / 2, the paper's rule
BELOW_GAP = 1  # distance + radius < sigma_s
SEQUENTIAL = 2  # that, or the sequential test

# Why a round proposes what it does
BASELINE = 0
MIXTURE = 1
STOP = 2
HALT = 3

# How a planning problem ends, and how exactly it is solved

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
