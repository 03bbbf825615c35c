"""The best policy of a known model, and what any policy is worth in it."""

from safe2real.planning.evaluate import constraint_values, evaluate, occupancy, value_functions
from safe2real.planning.solve import Solution, Status, solve

__all__ = ["Solution", "Status", "constraint_values", "evaluate", "occupancy", "solve", "value_functions"]
