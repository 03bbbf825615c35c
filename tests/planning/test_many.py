"""Many problems in one call: the answers of `solve`, and what does not go together is refused. The GPU's are in cuda/."""

import numpy as np
import pytest

import safe2real as s2r
from safe2real.planning import Status, solve_many
from tests.random_models import Recipe, build


def system(seed: int, *, states: int = 6, constraints: int = 1, per_step: bool = False):
    return build(Recipe(seed, states, 3, 5, constraints, per_step, "dense", "random", "active", False))


def test_each_answer_is_the_one_of_solve():
    cases = [system(seed) for seed in range(5)]
    found = solve_many([model for model, _ in cases], [reward for _, reward in cases])
    for i, (model, reward) in enumerate(cases):
        alone = s2r.solve(model, reward)
        assert (found.values[i], found.bounds[i], found.sweeps[i]) == (alone.value, alone.bound, alone.sweeps)
        assert found[i].status is found.statuses[i] is alone.status
        np.testing.assert_array_equal(found.multipliers[i], alone.multipliers)
        np.testing.assert_array_equal(found.constraint_values[i], alone.constraint_values)
    assert len(list(found)) == len(found) == 5
    assert found[-1].value == found.values[4]
    with pytest.raises(IndexError):
        found[5]
    assert repr(found) == "Solutions(5 OPTIMAL)"


def test_one_of_either_serves_all():
    model, reward = system(3)
    tight = [model, model.with_thresholds([5.0])]
    assert solve_many(tight, reward).statuses == (Status.OPTIMAL, Status.INFEASIBLE)
    assert solve_many(tight, reward).shortfalls[1] > 0.0
    assert len(solve_many(model, [reward, 1.0 - reward, 2.0 * reward])) == 3
    assert len(solve_many(model, reward)) == 1


def test_what_does_not_go_together():
    model, reward = system(3)
    with pytest.raises(s2r.errors.InvalidInput, match=r"models\[1\] has .*\(5, 7, 3\).*models\[0\] has .*\(5, 6, 3\)"):
        solve_many([model, system(4, states=7)[0]], reward)
    with pytest.raises(s2r.errors.InvalidInput, match=r"models\[1\]"):
        solve_many([model, system(4, per_step=True)[0]], reward)
    with pytest.raises(s2r.errors.InvalidInput, match="2 models and 3 rewards"):
        solve_many([model, model], [reward] * 3)
    with pytest.raises(s2r.errors.InvalidInput, match="models is empty"):
        solve_many([], reward)
    with pytest.raises(s2r.errors.InvalidInput, match="device is 'gpu'"):
        solve_many(model, reward, device="gpu")
