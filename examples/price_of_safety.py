"""What does safety cost? A delivery robot on a 6 x 6 floor with a wet patch, planned exactly in under a millisecond.

Moving along a row of wet cells is the short way to the goal. The constraint limits the expected number of steps spent on
wet cells; the multiplier of the solution is the price of tightening that limit. Prints the whole trade-off.
"""

from __future__ import annotations

import time

import numpy as np

import safe2real as s2r

SIZE, HORIZON, SLIP = 6, 20, 0.15
MOVES = ((-1, 0), (0, 1), (1, 0), (0, -1))  # up, right, down, left
WET = [(3, c) for c in range(1, 5)]
START, GOAL = (3, 0), (3, 5)


def floor() -> s2r.Kernel:
    """With probability 0.85 the robot moves as told, otherwise in a random direction; walls stop it."""
    states, actions, successors, probabilities = [], [], [], []
    for row in range(SIZE):
        for column in range(SIZE):
            for action, told in enumerate(MOVES):
                outcomes = [(told, 1.0 - SLIP)] + [(other, SLIP / 4) for other in MOVES]
                for (down, right), probability in outcomes:
                    r, c = min(max(row + down, 0), SIZE - 1), min(max(column + right, 0), SIZE - 1)
                    states.append(row * SIZE + column)
                    actions.append(action)
                    successors.append(r * SIZE + c)
                    probabilities.append(probability)
    return s2r.Kernel.from_triples(
        states, actions, successors, probabilities, num_states=SIZE * SIZE, num_actions=len(MOVES)
    )


def main() -> None:
    kernel = floor()
    at = {(r, c): r * SIZE + c for r in range(SIZE) for c in range(SIZE)}
    reward = np.zeros((SIZE * SIZE, len(MOVES)))
    reward[at[GOAL]] = 1.0
    wet = np.zeros_like(reward)
    wet[[at[cell] for cell in WET]] = 1.0
    s2r.solve(s2r.CMDP.of(kernel, HORIZON, at[START], s2r.AtMost(wet, 1.0)), reward)  # compile before timing

    print("Steps at the goal (of 20) against the expected steps on wet cells that are allowed:\n")
    print("  allowed   at goal   wet steps   price of one wet step   policies mixed   planned in")
    solution = None
    for limit in (0.0, 0.02, 0.05, 0.1, 0.3, 1.0, 2.0, 4.0):
        model = s2r.CMDP.of(kernel, HORIZON, at[START], s2r.AtMost(wet, limit, name="wet"))
        began = time.perf_counter()
        solution = s2r.solve(model, reward, warm=solution)
        milliseconds = 1000.0 * (time.perf_counter() - began)
        if solution.status is s2r.planning.Status.INFEASIBLE:
            print(f"  {limit:7.2f}   impossible: the driest policy is still {solution.shortfall:.3f} steps above it")
            continue
        spent = HORIZON - solution.constraint_values[0]
        print(
            f"  {limit:7.2f}   {solution.value:7.3f}   {spent:9.3f}   {solution.multipliers[0]:21.3f}"
            f"   {len(solution.policy.policies):14d}   {milliseconds:7.2f} ms"
        )


if __name__ == "__main__":
    main()
