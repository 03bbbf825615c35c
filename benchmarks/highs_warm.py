"""HiGHS as a loop would use it: one model in memory, whose costs change, solved again from the last basis."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import csc_array, vstack

from benchmarks.instances import Instance
from experiments.oracles.linear_program import occupancy_program
from safe2real.model.validation import Floats


def warm_call(instance: Instance, later_reward: Floats) -> Callable[[], float] | None:
    """A call that changes the rewards to `later_reward` and solves again, from where it was; None without highspy."""
    try:
        highspy = importlib.import_module("highspy")
    except ImportError:
        return None
    program, later = occupancy_program(instance.model, instance.reward), occupancy_program(instance.model, later_reward)
    matrix = csc_array(vstack([csc_array(program["A_eq"]), csc_array(program["A_ub"])]))
    equal, most = np.asarray(program["b_eq"]), np.asarray(program["b_ub"])
    solver: Any = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    linear = highspy.HighsLp()
    rows, columns = matrix.shape
    linear.num_col_, linear.num_row_ = columns, rows
    linear.col_cost_ = np.asarray(program["c"])
    linear.col_lower_, linear.col_upper_ = np.zeros(columns), np.full(columns, highspy.kHighsInf)
    linear.row_lower_ = np.concatenate([equal, np.full(most.size, -highspy.kHighsInf)])
    linear.row_upper_ = np.concatenate([equal, most])
    linear.a_matrix_.start_, linear.a_matrix_.index_ = matrix.indptr, matrix.indices
    linear.a_matrix_.value_ = matrix.data
    solver.passModel(linear)
    solver.run()
    basis = solver.getBasis()
    before, after = np.asarray(program["c"]), np.asarray(later["c"])
    every = np.arange(columns, dtype=np.int32)

    def change_and_solve() -> float:
        solver.setBasis(basis)
        solver.changeColsCost(columns, every, after)
        solver.run()
        value = -float(solver.getObjectiveValue())
        solver.changeColsCost(columns, every, before)
        return value

    return change_and_solve
