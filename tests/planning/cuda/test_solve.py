"""Plans on the device against those of the CPU: the same statuses, bounds and policies."""

import sys

import numpy as np
import pytest

import safe2real as s2r
from safe2real.planning import Solution, Solutions, Status, solve_many
from safe2real.planning.cuda import batch, runtime
from safe2real.planning.cuda.solve import DevicePolicy
from safe2real.planning.sweeper import LANES
from tests.cases import each
from tests.planning.cuda import emulated
from tests.planning.test_solve import fixed_recipe
from tests.processor import fuses
from tests.random_models import Recipe, build


def one_constraint(seed: int):
    """A random system with no constraint or one; every kind of row, utility and threshold comes up."""
    recipe = fixed_recipe(seed)
    return build(
        Recipe(**{name: getattr(recipe, name) for name in Recipe.__dataclass_fields__} | {"constraints": seed % 4 > 0})
    )


def check_same(mine: Solution, yours: Solution) -> None:
    """Bit for bit where the CPU has fused multiply-add: the same sums in the same order, hence the same search."""
    if not yours.multipliers.size or not fuses():
        return check_close(mine, yours)  # without a constraint the CPU adds up a row before its reward
    assert mine.status is yours.status
    assert (mine.value, mine.bound, mine.shortfall, mine.sweeps) == (yours.value, yours.bound, yours.shortfall, yours.sweeps)
    np.testing.assert_array_equal(mine.constraint_values, yours.constraint_values)
    np.testing.assert_array_equal(mine.multipliers, yours.multipliers)
    np.testing.assert_array_equal(mine.policy.weights, yours.policy.weights)
    for part, other in zip(mine.policy.policies, yours.policy.policies, strict=True):
        np.testing.assert_array_equal(part.actions, other.actions)
    return None


def check_listed(found: Solutions, i: int, yours: Solution) -> None:
    """What `solve_many` says of its i-th plan: bit for bit where `check_same` is."""
    check_same(found[i], yours)
    assert found.statuses[i] is yours.status
    assert found.values[i] == pytest.approx(yours.value, abs=1e-9)
    np.testing.assert_allclose(found.constraint_values[i], yours.constraint_values, atol=1e-9)
    if fuses():
        assert (found.bounds[i], found.sweeps[i], found.shortfalls[i]) == (yours.bound, yours.sweeps, yours.shortfall)
        np.testing.assert_array_equal(found.multipliers[i], yours.multipliers)


def check_close(mine: Solution, yours: Solution) -> None:
    """To 1e-9, where sums over all states are formed in another order."""
    assert mine.status is yours.status
    scale = max(1.0, abs(yours.value))
    assert mine.value == pytest.approx(yours.value, abs=1e-9 * scale)
    assert mine.bound == pytest.approx(yours.bound, abs=1e-9 * scale)
    np.testing.assert_allclose(mine.constraint_values, yours.constraint_values, atol=1e-9 * scale)


def test_small_systems_bit_for_bit(cupy):
    seen = set()
    for seed in range(120):
        model, reward = one_constraint(seed)
        mine, yours = s2r.solve(model, reward, device="cuda"), s2r.solve(model, reward)
        check_same(mine, yours)
        seen.add((model.num_constraints, yours.status))
    assert seen >= {(0, Status.OPTIMAL), (1, Status.OPTIMAL), (1, Status.INFEASIBLE)}


def check_warm_starts(systems) -> None:
    """From policies on the device, from policies that were read, and from ones that the CPU found."""
    for seed, (model, reward) in enumerate(systems):
        other = np.random.default_rng(seed).random(reward.shape)
        for wanted in (other, 0.999 * reward + 0.001 * other):
            before = s2r.solve(model, wanted)
            yours = s2r.solve(model, reward, warm=before)
            held = s2r.solve(model, wanted, device="cuda")
            check_same(s2r.solve(model, reward, warm=held, device="cuda"), yours)
            held.policy.policies[0].actions  # noqa: B018
            check_same(s2r.solve(model, reward, warm=held, device="cuda"), yours)
            check_same(s2r.solve(model, reward, warm=before, device="cuda"), yours)


def test_a_bound_is_never_below_the_value(cupy):
    """Where only the safest policy will do, missing a threshold by rounding is worth more than the bound's exactness."""
    model, reward = build(Recipe(11, 70, 5, 60, 1, False, "mixed", "binary", "just", False))
    for mine in (s2r.solve(model, reward, device="cuda"), solve_many([model], [reward], device="cuda")[0]):
        assert mine.multipliers[0] > 1e6
        assert mine.value <= mine.bound <= mine.value + 1e-9
    many = solve_many([model], [reward], device="cuda")
    assert many.values[0] <= many.bounds[0]


def test_warm_starts_bit_for_bit(cupy):
    check_warm_starts(one_constraint(seed) for seed in range(30))


def large_system(states: int, *, per_step: bool, seed: int = 0, ragged: bool = True, uniform: bool = True):
    """Rows of 1 to 6 successors, some of them uniform, and a start that is spread over all states."""
    rng = np.random.default_rng(seed)
    horizon, actions = 8, 3
    lead = (horizon, states, actions) if per_step else (states, actions)
    rows = int(np.prod(lead))
    given = rng.integers(states, size=(rows, 6))
    chance = rng.random((rows, 6)) * (rng.random((rows, 6)) < 0.6 if ragged else 1.0)
    chance[:, 0] += 1e-3
    chance /= chance.sum(axis=1, keepdims=True)
    where = np.repeat(np.arange(rows), 6)
    step, pair = np.divmod(where, states * actions)
    steps = {"steps": step, "horizon": horizon} if per_step else {}
    kernel = s2r.Kernel.from_triples(
        *np.divmod(pair, actions), given.reshape(-1), chance.reshape(-1), num_states=states, num_actions=actions, **steps
    )
    if uniform:
        kernel.compiled_rows.length[:: rows // 20] = 0  # rows of pairs that nobody has visited
    start = rng.dirichlet(np.ones(states))
    model = s2r.CMDP.of(kernel, horizon, start, s2r.AtLeast(rng.random(lead), 0.0))
    reward = rng.random(lead)
    low = s2r.solve(model, reward).constraint_values[0]
    high = s2r.solve(model, model.utilities[0] if per_step else model.utilities[0, 0]).constraint_values[0]
    return model.with_thresholds([0.5 * (low + high)]), reward


@each("per_step", [False, True])
def test_large_systems_to_rounding(per_step, cupy):
    """Above 256 states means and starts are summed in another order; the CPU proves the device's policies again."""
    model, reward = large_system(3_001, per_step=per_step)
    mine, yours = s2r.solve(model, reward, device="cuda"), s2r.solve(model, reward)
    assert mine.multipliers[0] > 0.0
    check_close(mine, yours)
    again = s2r.solve(model, reward, warm=mine)
    check_close(again, yours)
    assert again.sweeps <= 2


def test_unrolled_rows(cupy, monkeypatch):
    """Rows of equal length in a system from 10,000 states on have kernels of their own; one start needs no sum."""
    compiled = []
    monkeypatch.setattr(batch, "kernels", lambda *kind: compiled.append(kind) or runtime.kernels(*kind))
    model, reward = large_system(10_007, per_step=False, ragged=False, uniform=False)
    alone = s2r.CMDP.of(model.kernel, model.horizon, 5, s2r.AtLeast(model.utilities[0, 0], float(model.thresholds[0])))
    check_close(s2r.solve(alone, reward, device="cuda"), s2r.solve(alone, reward))  # which looks at few actions on its way
    assert compiled == [(2, LANES, 2, 6, 1)]


def test_more_actions_than_a_byte_holds(cupy):
    rng = np.random.default_rng(0)
    kernel = s2r.Kernel.from_dense(rng.dirichlet(np.ones(3), size=(3, 300)))
    model = s2r.CMDP.of(kernel, 4, 0, s2r.AtLeast(rng.random((3, 300)), 2.5))
    reward = rng.random((3, 300)) * np.linspace(0.5, 1.0, 300)
    mine = s2r.solve(model, reward, device="cuda")
    assert mine.policy.policies[0].held.dtype == np.uint16
    check_same(mine, s2r.solve(model, reward))
    assert max(int(part.actions.max()) for part in mine.policy.policies) > 255


def test_policies_stay_on_the_device_until_they_are_read(cupy):
    model, reward = build(Recipe(7, 6, 3, 5, 1, False, "dense", "random", "active", False))
    part = s2r.solve(model, reward, device="cuda").policy.policies[0]
    assert isinstance(part, DevicePolicy)
    assert part.held is not None
    assert part.held.dtype == np.uint8
    assert part.actions.dtype == np.uint32
    assert not part.actions.flags.writeable
    assert part.held is None
    assert part.probabilities.shape == part.shape == (5, 6, 3)
    assert "deterministic" in repr(part)


def test_many_systems_at_once(cupy):
    kinds = ("active", "infeasible", "inactive")
    cases = [build(Recipe(seed, 6, 3, 5, 1, False, "mixed", "random", kinds[seed % 3], True)) for seed in range(90)]
    models, rewards = [model for model, _ in cases], [reward for _, reward in cases]
    found = solve_many(models, rewards, device="cuda")
    assert len(found) == len(cases)
    for i, (model, reward) in enumerate(cases):
        check_listed(found, i, s2r.solve(model, reward))
    assert len(set(found.statuses)) >= 2


def test_many_rewards_and_many_thresholds_of_one_system(cupy):
    model, reward = build(Recipe(3, 40, 3, 5, 1, True, "sparse", "random", "active", False))
    rng = np.random.default_rng(0)
    rewards = [rng.random(reward.shape) for _ in range(7)]
    for mine, other in zip(solve_many(model, rewards, device="cuda"), rewards, strict=True):
        check_same(mine, s2r.solve(model, other))
    curve = [
        model.with_thresholds([share * model.thresholds[0]])
        for share in np.linspace(0.5, 1.2, 9)
        if share * model.thresholds[0] <= 5
    ]
    for mine, one in zip(solve_many(curve, reward, device="cuda"), curve, strict=True):
        check_same(mine, s2r.solve(one, reward))


def test_without_cupy(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    runtime.kernels.cache_clear()
    model, reward = build(Recipe(7, 6, 3, 5, 1, False, "dense", "random", "active", False))
    with pytest.raises(s2r.errors.InvalidInput, match=r"CuPy cannot be imported.*safe2real\[gpu\].*leave `device` out"):
        s2r.solve(model, reward, device="cuda")
    with pytest.raises(s2r.errors.InvalidInput, match=r'device is \'tpu\'; choose "cpu"'):
        s2r.solve(model, reward, device="tpu")


def test_without_a_gpu(cupy, monkeypatch):
    model, reward = build(Recipe(7, 6, 3, 5, 1, False, "dense", "random", "active", False))

    def none() -> int:
        raise cupy.cuda.runtime.CUDARuntimeError(100)

    monkeypatch.setattr(cupy.cuda.runtime, "getDeviceCount", none)
    with pytest.raises(s2r.errors.InvalidInput, match=r"CuPy finds no GPU \(.+\); look at nvidia-smi"):
        s2r.solve(model, reward, device="cuda")
    monkeypatch.setattr(cupy.cuda.runtime, "getDeviceCount", lambda: 0)
    with pytest.raises(s2r.errors.InvalidInput, match="CuPy finds no GPU; look"):
        s2r.solve(model, reward, device="cuda")


def test_what_does_not_fit_is_refused_with_its_size(cupy, monkeypatch):
    model, reward = build(Recipe(7, 6, 3, 5, 1, False, "dense", "random", "active", False))
    monkeypatch.setattr(cupy.cuda.runtime, "memGetInfo", lambda: (0, 2**30))
    monkeypatch.setattr(cupy, "get_default_memory_pool", emulated.Pool)
    with pytest.raises(
        s2r.errors.InvalidInput, match=r"1 systems of shape \(H, S, A\) = \(5, 6, 3\) need .* GiB .* are free"
    ):
        s2r.solve(model, reward, device="cuda")


@each("group", [1, 2, LANES])
def test_however_many_lanes_a_thread_carries(group, cupy, monkeypatch):
    monkeypatch.setattr(batch, "group_for", lambda lanes, *_: min(lanes, group))
    for seed in range(1, 12):
        model, reward = one_constraint(seed)
        check_same(s2r.solve(model, reward, device="cuda"), s2r.solve(model, reward))
