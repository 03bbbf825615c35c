"""What is printed at the prompt: a few lines, whatever the size."""

import numpy as np

import safe2real as s2r


def test_reprs_are_a_few_lines_and_say_the_sizes() -> None:
    states, actions, horizon = 200, 4, 50
    kernel = s2r.Kernel.from_dense(np.full((states, actions, states), 1.0 / states))
    model = s2r.CMDP.of(kernel, horizon, 0, s2r.AtLeast(np.ones((states, actions)), 3.0, "upright"))
    solution = s2r.solve(model, np.zeros((states, actions)))
    episode = s2r.Trajectory.of(model, np.zeros(horizon + 1), np.ones(horizon))
    policy = s2r.MarkovPolicy.uniform(horizon=horizon, num_states=states, num_actions=actions)
    assert repr(kernel) == "Kernel(200 states, 4 actions, 0 transitions, stationary)"
    assert repr(kernel.repeated(50)) == "Kernel(200 states, 4 actions, 0 transitions, 50 steps)"
    assert repr(model) == f"CMDP({kernel}, horizon 50, 1 constraints)\n  expected upright >= 3"
    assert repr(policy) == "MarkovPolicy(stochastic, 50 steps, 200 states, 4 actions)"
    assert repr(solution.policy) == "Mixture of 1:\n  1 MarkovPolicy(deterministic, 50 steps, 200 states, 4 actions)"
    assert (
        repr(solution)
        == f"Solution(OPTIMAL, value 0 of at most {solution.bound:.6g}, expected upright 50)\n{solution.policy}"
    )
    assert solution.policy.summary == "Mixture of 1 with weights 1"
    mixed = s2r.Mixture.of([0.1, 0.15, 0.3, 0.25, 0.2], [policy] * 5)
    assert mixed.summary == "Mixture of 5 with weights 0.3, 0.25, 0.2, 0.15, ..."
    assert repr(episode) == "Trajectory(50 steps: 0 -1-> 0 -1-> 0 -1-> 0 -1-> ...)"


def test_the_shape_of_a_kernel_is_that_of_its_rows() -> None:
    kernel = s2r.Kernel.from_dense(np.full((3, 2, 3), 1.0 / 3.0))
    assert (kernel.shape, kernel.rows_per_step) == ((3, 2), 0)
    assert (kernel.repeated(5).shape, kernel.repeated(5).rows_per_step) == ((5, 3, 2), 6)
