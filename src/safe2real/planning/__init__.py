"""The best policy of a known model, and what any policy is worth in it."""

from safe2real.planning.evaluate import constraint_values, evaluate, occupancy, value_functions
from safe2real.planning.many import Solutions, solve_many
from safe2real.planning.solve import Solution, Status, solve

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
