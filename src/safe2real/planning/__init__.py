"""The best policy of a known model, and what any policy is worth in it."""

from safe2real.planning.evaluate import constraint_values, evaluate, occupancy, value_functions
from safe2real.planning.solve import Solution, Solutions, Status, solve, solve_many

__all__ = [
    "Solution",
    "Solutions",
    "Status",
    "constraint_values",
    "evaluate",
    "occupancy",
    "solve",
    "solve_many",
    "value_functions",
]
