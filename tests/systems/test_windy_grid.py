"""The windy grid against rows worked out by hand, the paper's reported constants, and Gymnasium's own checks."""

import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import safe2real as s2r
from experiments.paper.windy_instances import equispaced_wind, with_mismatch
from safe2real.errors import InvalidInput
from safe2real.systems import WINDY_GRID_ID, WindyGrid, WindyGridEnv

UP, RIGHT, DOWN, LEFT = range(4)
PAPER = WindyGrid.paper()


def row_of(grid: WindyGrid, kernel: s2r.Kernel, cell, action) -> dict:
    """{cell: probability} of one transition row."""
    successors, probabilities = kernel.row(grid.state(cell) * 4 + action)
    return {grid.cell(s): pytest.approx(p, abs=1e-15) for s, p in zip(successors, probabilities, strict=True)}


# --- the kernels ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "grid",
    [PAPER, with_mismatch(25, 0.35, 3), WindyGrid(size=2, wall=[(0, 0)], windy=[(1, 1)]), WindyGrid(intended=1.0)],
)
def test_rows_are_distributions(grid):
    for kernel in (grid.simulator(), grid.real()):
        dense = kernel.to_dense()
        np.testing.assert_allclose(dense.sum(axis=2), 1.0, atol=1e-12)
        assert (dense >= 0.0).all()


@pytest.mark.parametrize(
    ("cell", "action", "expected"),
    [
        # Corner, two neighbours: each slip 0.15 / 2 = 0.075.
        ((4, 0), UP, {(3, 0): 0.85 + 0.075, (4, 1): 0.075}),
        ((4, 0), LEFT, {(4, 0): 0.85, (3, 0): 0.075, (4, 1): 0.075}),
        # Edge, three neighbours: each slip 0.05.
        ((0, 2), UP, {(0, 2): 0.85, (0, 1): 0.05, (0, 3): 0.05, (1, 2): 0.05}),
        ((0, 2), DOWN, {(1, 2): 0.9, (0, 1): 0.05, (0, 3): 0.05}),
        # Interior, four neighbours: each slip 0.0375. The wall can be entered and left.
        ((2, 2), RIGHT, {(2, 3): 0.8875, (1, 2): 0.0375, (3, 2): 0.0375, (2, 1): 0.0375}),
        ((3, 2), UP, {(2, 2): 0.8875, (4, 2): 0.0375, (3, 1): 0.0375, (3, 3): 0.0375}),
    ],
)
def test_simulator_rows_by_hand(cell, action, expected):
    assert row_of(PAPER, PAPER.simulator(), cell, action) == expected


@pytest.mark.parametrize(
    ("grid", "cell", "action", "expected"),
    [
        # 0.8 of the 0.85 go the other way: 0.17 + 0.0375 up and 0.68 + 0.0375 down.
        (PAPER, (1, 2), UP, {(0, 2): 0.2075, (2, 2): 0.7175, (1, 1): 0.0375, (1, 3): 0.0375}),
        (PAPER, (3, 2), RIGHT, {(3, 3): 0.2075, (3, 1): 0.7175, (2, 2): 0.0375, (4, 2): 0.0375}),
        # A windy corner: left stays put with 0.2 x 0.85 and is blown right with 0.8 x 0.85, slips of 0.075 either way.
        (WindyGrid(windy=[(4, 0)]), (4, 0), LEFT, {(4, 0): 0.17, (4, 1): 0.68 + 0.075, (3, 0): 0.075}),
    ],
)
def test_windy_rows_by_hand(grid, cell, action, expected):
    assert row_of(grid, grid.real(), cell, action) == expected


def test_wind_is_the_formula_of_the_appendix():
    grid = with_mismatch(16, equispaced_wind(16), seed=1)
    simulated, real = grid.simulator().to_dense(), grid.real().to_dense()
    expected = simulated.copy()
    for cell, p in zip(grid.windy, grid.wind, strict=True):
        s = grid.state(cell)
        expected[s] = (1.0 - p) * simulated[s] + p * simulated[s][[DOWN, LEFT, UP, RIGHT]]
    np.testing.assert_allclose(real, expected, atol=1e-15)
    calm = ~grid.mismatch().any(axis=1)
    np.testing.assert_array_equal(real[calm], simulated[calm])  # bit for bit


# --- the paper's constants --------------------------------------------------------------------------------------------


def test_paper_layout():
    assert (PAPER.size, PAPER.horizon, PAPER.intended, PAPER.start) == (5, 12, 0.85, (4, 0))
    assert PAPER.wall == ((2, 1), (2, 2), (2, 3))
    assert PAPER.windy == ((3, 2), (1, 2), (1, 3))
    beside_the_wall = {(r + dr, c + dc) for r, c in PAPER.wall for dr, dc in ((1, 0), (-1, 0), (0, 1), (0, -1))}
    assert set(PAPER.windy) <= beside_the_wall
    assert with_mismatch(3, 0.8, seed=3) == PAPER  # one that the priority order produces


@pytest.mark.parametrize("dynamics", ["simulator", "real"])
def test_uniform_policy_is_worth_what_the_fit_says(dynamics):
    """11.07 on both: under the uniform policy an action and its opposite are equally likely and the wind cancels."""
    model = PAPER.cmdp(getattr(PAPER, dynamics)(), threshold=10.71)
    uniform = s2r.MarkovPolicy.uniform(horizon=12, num_states=25, num_actions=4)
    assert s2r.evaluate(model, uniform, PAPER.safety()) == pytest.approx(11.073847941543406, abs=1e-12)
    assert s2r.planning.constraint_values(model, uniform)[0] == pytest.approx(11.07, abs=0.005)


def test_wind_matters_to_a_policy_that_chooses():
    """Planned in the simulator to reach the far side of the wall, a policy is less safe in the wind."""
    reward = np.zeros((25, 4))
    reward[PAPER.state((1, 3))] = 1.0
    planned = s2r.solve(PAPER.cmdp(PAPER.simulator(), 11.5), reward)
    (promised,) = planned.constraint_values
    (found,) = s2r.planning.constraint_values(PAPER.cmdp(PAPER.real(), 11.5), planned.policy)
    assert promised >= 11.5 - 1e-9
    assert found < promised - 0.1


@pytest.mark.parametrize(
    ("wind", "sigma"),
    [
        (0.8, 0.68),
        (0.35, 0.2975),
        (equispaced_wind(3), 0.17),
        *zip((0.15, 0.2, 0.3, 0.4, 0.55, 0.7, 0.85), (0.1275, 0.17, 0.255, 0.34, 0.4675, 0.595, 0.7225), strict=True),
    ],
)
def test_separation_of_the_paper(wind, sigma):
    assert WindyGrid.paper(wind).mismatch_gap() == pytest.approx(sigma, abs=1e-12)


def test_gap_is_the_same_for_every_pair_even_at_the_edges():
    grid = with_mismatch(25, equispaced_wind(25), seed=0)
    gaps = grid.gaps()
    dense = np.abs(grid.real().to_dense() - grid.simulator().to_dense()).sum(axis=2) / 2.0
    np.testing.assert_allclose(gaps, dense, atol=1e-15)
    for cell, p in zip(grid.windy, grid.wind, strict=True):
        np.testing.assert_allclose(gaps[grid.state(cell)], 0.85 * p, atol=1e-15)
    assert grid.mismatch_gap() == pytest.approx(0.17)


@pytest.mark.parametrize("pairs", [4, 8, 12, 24, 40, 64, 84, 100])
def test_four_mismatch_pairs_per_windy_cell(pairs):
    grid = with_mismatch(pairs // 4, 0.8, seed=2)
    assert grid.mismatch().shape == (25, 4)
    assert grid.mismatch().sum() == pairs
    assert grid.mismatch_gap() == pytest.approx(0.68)


def test_no_wind_no_mismatch():
    calm = with_mismatch(0, 0.8, seed=0)
    assert calm.mismatch().sum() == 0
    assert calm.mismatch_gap() == 1.0


def test_other_sizes():
    grid = with_mismatch(7, 0.8, 0, size=9, horizon=30)
    assert (grid.start, grid.wall, grid.horizon) == ((8, 0), ((4, 3), (4, 4), (4, 5)), 30)
    assert grid.mismatch().sum() == 28
    assert grid.cmdp(grid.real(), 20.0).num_states == 81


def test_grids_are_values():
    assert WindyGrid.paper(0.8) == WindyGrid.paper([0.8, 0.8, 0.8])
    assert hash(WindyGrid.paper()) == hash(PAPER)
    assert WindyGrid.paper(0.7) != PAPER
    assert eval(repr(PAPER)) == PAPER
    assert [PAPER.state(PAPER.cell(s)) for s in range(25)] == list(range(25))
    with pytest.raises(AttributeError):
        PAPER.size = 6


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: WindyGrid(size=1), r"size is 1; .* at least 2"),
        (lambda: WindyGrid(size=2), r"size is 2; .* give a wall"),
        (lambda: WindyGrid(horizon=0), r"horizon is 0; .* at least 1"),
        (lambda: WindyGrid(intended=0.0), r"intended is 0; it must be above 0"),
        (lambda: WindyGrid(intended=1.5), r"intended is 1.5; .* at most 1"),
        (lambda: WindyGrid(windy=[(0, 0), (5, 0)]), r"windy\[1\] is \(5, 0\); .* from 0 to 4"),
        (lambda: WindyGrid(windy=[(0, 0), (1, 1), (0, 0)]), r"windy\[2\] is \(0, 0\), which windy\[0\] is already"),
        (lambda: WindyGrid(windy=[7]), r"windy\[0\] is 7; a cell is a pair"),
        (lambda: WindyGrid(wall=[(1.5, 2)]), r"wall\[0\] is \(1.5, 2\); a cell is a pair of whole numbers"),
        (lambda: WindyGrid(wall=[(4, 0)]), r"start is \(4, 0\), a wall cell"),
        (lambda: WindyGrid.paper(0.0), r"wind is 0; .* left out of `windy`"),
        (lambda: WindyGrid.paper([0.5, 0.5, 1.2]), r"wind\[2\] is 1.2; .* at most 1"),
        (lambda: WindyGrid.paper([0.5, 0.5]), r"wind has shape \(2,\) for 3 windy cells; give one number, or one per"),
        (lambda: PAPER.cell(25), r"state is 25; states run from 0 to 24"),
        (lambda: WindyGridEnv(grid=5), r"grid is a int; give a WindyGrid"),
        (lambda: WindyGridEnv(dynamics="sim"), r"dynamics is 'sim'; choose 'real'"),
    ],
)
def test_mistakes_name_place_value_and_cure(build, message):
    with pytest.raises(InvalidInput, match=message):
        build()


# --- the Gymnasium environment ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dynamics", ["real", "simulator"])
def test_gymnasium_accepts_it(dynamics):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(gymnasium.make(WINDY_GRID_ID, dynamics=dynamics).unwrapped)


def test_registered_once():
    import importlib

    import safe2real.systems

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        importlib.reload(safe2real.systems)
        env = gymnasium.make(f"safe2real.systems:{WINDY_GRID_ID}")
    assert isinstance(env.unwrapped, WindyGridEnv)


@pytest.mark.parametrize("dynamics", ["real", "simulator"])
def test_table_gives_the_kernel_back(dynamics):
    kernel = getattr(PAPER, dynamics)()
    table = gymnasium.make(WINDY_GRID_ID, dynamics=dynamics).unwrapped.P
    dense = np.zeros((25, 4, 25))
    for state, action in np.ndindex(25, 4):
        for probability, successor, *_ in table[state][action]:
            dense[state, action, successor] += probability
    np.testing.assert_array_equal(dense, kernel.to_dense())


@pytest.mark.parametrize("steps", [6_000, pytest.param(60_000, marks=pytest.mark.slow)])
def test_step_frequencies_match_the_kernel(steps):
    env = WindyGridEnv(with_mismatch(25, 0.8, 0))
    dense = env.grid.real().to_dense()
    rng = np.random.default_rng(0)
    counts = np.zeros((25, 4, 25))
    state, _ = env.reset(seed=0)
    for _ in range(steps):
        action = int(rng.integers(4))
        following, _, _, truncated, _ = env.step(action)
        counts[state, action, following] += 1
        state = env.reset()[0] if truncated else following
    assert (counts[dense == 0.0] == 0).all()
    visits = counts.sum(axis=2, keepdims=True)
    deviation = np.abs(counts - visits * dense) / np.sqrt(np.maximum(visits * dense * (1.0 - dense), 1.0))
    assert deviation.max() < 5.0  # standard deviations, over about 400 entries


def test_cost_is_that_of_the_pair_acted_from():
    env = WindyGridEnv(WindyGrid(intended=1.0, windy=[], start=(3, 2)))
    state, info = env.reset(seed=0)
    assert info == {}
    costs = []
    for action in (UP, UP, DOWN, DOWN):  # onto the wall, off it, onto it, off it
        state, reward, terminated, _, info = env.step(action)
        assert (reward, terminated) == (0.0, False)
        costs.append(info["cost"])
    assert costs == [0.0, 1.0, 0.0, 1.0]
    assert state == env.grid.state((3, 2))


@pytest.mark.parametrize("episodes", [400, pytest.param(3_000, marks=pytest.mark.slow)])
def test_mean_cost_is_horizon_minus_constraint_value(episodes):
    env = WindyGridEnv()
    rng = np.random.default_rng(1)
    totals = []
    for episode in range(episodes):
        env.reset(seed=1 if episode == 0 else None)
        totals.append(sum(env.step(int(rng.integers(4)))[4]["cost"] for _ in range(12)))
    error = np.std(totals) / np.sqrt(len(totals))
    assert np.mean(totals) == pytest.approx(12 - 11.073847941543406, abs=4 * error)


def test_truncated_at_the_horizon_and_never_terminated():
    env = WindyGridEnv()
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(UP)
    for _ in range(2):
        env.reset(seed=3)
        ends = [env.step(UP)[2:4] for _ in range(12)]
        assert ends == [(False, False)] * 11 + [(False, True)]
        with pytest.raises(gymnasium.error.ResetNeeded):
            env.step(UP)


def test_wrong_action():
    env = WindyGridEnv()
    env.reset(seed=0)
    with pytest.raises(InvalidInput, match=r"action is 4; give 0 \(up\)"):
        env.step(4)


def test_seeding():
    def states(seed):
        env = gymnasium.make(WINDY_GRID_ID)
        visited = [env.reset(seed=seed)[0]]
        visited += [env.step(step % 4)[0] for step in range(12)]
        visited.append(env.reset()[0])  # goes on with the same generator
        return visited + [env.step(step % 4)[0] for step in range(12)]

    assert states(5) == states(5)
    assert states(5) != states(6)
    assert states(5)[0] == states(5)[13] == 20
