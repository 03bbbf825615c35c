"""Cells of continuous environments: numbering by hand, one step from a cell, and every argument that cannot be meant."""

import math

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary

from safe2real.errors import InvalidInput
from safe2real.systems.discretise import Discretised


class Drift(gymnasium.Env):
    """A point in [0, 4] x [-1, 1] that moves by its action; it ends at 4."""

    def __init__(self, *, high=(4.0, 1.0), actions=None, state=True):
        self.observation_space = Box(np.array([0.0, -1.0]), np.array(high), dtype=np.float64)
        self.action_space = Discrete(3, start=-1) if actions is None else actions
        if state:
            self.state = None
        self.steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        if hasattr(self, "state"):
            self.state = np.array([1.5, 0.5])
        return np.array([1.5, 0.5]), {}

    def step(self, action):
        self.steps += 1
        push = float(np.asarray(action).reshape(-1)[0])
        self.state = np.array([min(4.0, self.state[0] + push), self.state[1]])
        return self.state.copy(), push, bool(self.state[0] >= 4.0), False, {"steps": self.steps}


def pendulum(**more):
    return Discretised(
        gymnasium.make("Pendulum-v1"),
        bins=(8, 4),
        low=(-math.pi, -8.0),
        high=(math.pi, 8.0),
        action_bins=(3,),
        features=lambda seen: (math.atan2(seen[1], seen[0]), seen[2]),
        **more,
    )


def cart_pole(**more):
    return Discretised(
        gymnasium.make("CartPole-v1"), bins=(3, 3, 3, 3), low=(-2.4, -3.0, -0.21, -3.5), high=(2.4, 3.0, 0.21, 3.5), **more
    )


# ---------------------------------------------------------------------------------------------------------- cells


def test_cells_are_numbered_with_the_last_dimension_fastest():
    env = Discretised(Drift(), bins=(4, [0.0, 0.5]))
    assert env.shape == (4, 3)
    assert env.observation_space == Discrete(12)
    assert env.state_of((0.2, -0.5)) == 0
    assert env.state_of((0.2, 0.2)) == 1
    assert env.state_of((0.2, 0.7)) == 2
    assert env.state_of((2.5, 0.2)) == 2 * 3 + 1


def test_an_edge_belongs_to_the_upper_cell_and_what_is_outside_to_the_outer_one():
    env = Discretised(Drift(), bins=(4, [0.0, 0.5]))
    assert env.state_of((1.0, 0.5)) == 1 * 3 + 2
    assert env.state_of((4.0, 1.0)) == 3 * 3 + 2
    assert env.state_of((99.0, -99.0)) == 3 * 3
    assert env.state_of((-math.inf, math.inf)) == 2


def test_bounds_and_centres_by_hand():
    env = Discretised(Drift(), bins=(4, [0.0, 0.5]))
    lower, upper = env.bounds(2 * 3 + 1)
    assert lower.tolist() == [2.0, 0.0]
    assert upper.tolist() == [3.0, 0.5]
    assert env.centre(0).tolist() == [0.5, -0.5]
    assert env.centre(11).tolist() == [3.5, 0.75]


def test_every_centre_lies_in_its_cell():
    for env in (Discretised(gymnasium.make("MountainCar-v0"), bins=(7, 5)), Discretised(Drift(), bins=(4, [0.0, 0.5]))):
        assert [env.state_of(env.centre(state)) for state in range(env.num_states)] == list(range(env.num_states))


def test_one_cell_along_a_dimension():
    env = Discretised(Drift(), bins=(1, []))
    assert env.num_states == 1
    assert env.centre(0).tolist() == [2.0, 0.0]


def test_given_bounds_replace_those_of_the_space():
    env = Discretised(Drift(high=(np.inf, 1.0)), bins=(2, 1), low=(0.0, -1.0), high=(10.0, 1.0))
    assert [env.state_of((x, 0.0)) for x in (4.9, 5.0, 11.0)] == [0, 1, 1]


# --------------------------------------------------------------------------------------------------------- actions


def test_discrete_actions_pass_through_from_their_start():
    env = Discretised(Drift(), bins=(4, 1))
    assert env.action_space == Discrete(3)
    assert [env.action_of(a) for a in range(3)] == [-1, 0, 1]
    assert [env.nearest_action(a) for a in (-1, 0, 1)] == [0, 1, 2]
    env.reset()
    assert env.step(2)[:3] == (2, 1.0, False)  # from 1.5 to 2.5


def test_box_actions_become_a_grid_of_representatives():
    space = Box(np.float32([-1.0, 0.0]), np.float32([1.0, 10.0]), dtype=np.float32)
    env = Discretised(Drift(actions=space), bins=(4, 1), action_bins=(3, [2.0, 5.0]))
    assert env.num_actions == 6
    assert env.actions.tolist() == [[-1, 2], [-1, 5], [0, 2], [0, 5], [1, 2], [1, 5]]
    assert env.action_of(3).dtype == np.float32
    assert space.contains(env.action_of(3))


def test_the_nearest_action_is_the_nearest_along_each_dimension():
    space = Box(np.array([-1.0, 0.0]), np.array([1.0, 1000.0]), dtype=np.float64)
    env = Discretised(Drift(actions=space), bins=(4, 1), action_bins=(2, 2))  # (-1, 0), (-1, 1000), (1, 0), (1, 1000)
    assert env.nearest_action((0.9, 499.0)) == 2
    assert env.nearest_action((-0.1, 501.0)) == 1
    assert [env.nearest_action(env.action_of(action)) for action in range(4)] == [0, 1, 2, 3]


def test_one_representative_is_the_middle():
    env = Discretised(gymnasium.make("MountainCarContinuous-v0"), bins=(4, 4), action_bins=(1,))
    assert env.actions.tolist() == [[0.0]]


# --------------------------------------------------------------------------------------------------------- sampling


def test_a_sample_is_one_step_from_a_point_of_the_cell():
    env = Discretised(Drift(), bins=(4, 2))
    rng = np.random.default_rng(0)
    found = [env.sample(env.state_of((2.5, 0.5)), 2, rng) for _ in range(50)]
    assert found == [(env.state_of((3.5, 0.5)), 1.0, False)] * 50
    assert env.sample(env.state_of((3.5, 0.5)), 2, rng) == (env.state_of((4.0, 0.5)), 1.0, True)


def test_points_are_uniform_in_the_cell():
    env = Discretised(Drift(), bins=(2, 1))
    points = []
    core = env.unwrapped
    true_step = core.step
    core.step = lambda action: (points.append(core.state.copy()), true_step(action))[1]
    rng = np.random.default_rng(1)
    for _ in range(2000):
        env.sample(0, 1, rng)
    seen = np.array(points)
    assert seen.min(axis=0) == pytest.approx([0.0, -1.0], abs=0.01)
    assert seen.max(axis=0) == pytest.approx([2.0, 1.0], abs=0.01)
    assert seen.mean(axis=0) == pytest.approx([1.0, 0.0], abs=0.05)


def test_a_sample_after_an_end_starts_afresh(recwarn):
    env = cart_pole()
    fallen, rng = env.state_of((0.0, 0.0, 0.2, 3.0)), np.random.default_rng(0)
    found = [env.sample(fallen, 1, rng) for _ in range(300)]
    assert 100 < sum(terminated for _, _, terminated in found) < 300
    assert {reward for _, reward, _ in found} == {1.0}  # CartPole pays 0, and warns, for steps after the end of an episode
    assert not [warning for warning in recwarn if "already returned terminated" in str(warning.message)]


def test_samples_are_a_function_of_the_generator():
    env = pendulum()
    one, other = ([env.sample(5, 0, np.random.default_rng(seed)) for _ in range(3)] for seed in (3, 3))
    assert one == other
    noisy = gymnasium.make("Acrobot-v1")
    noisy.unwrapped.torque_noise_max = 5.0
    angles = {"low": (-math.pi, -math.pi, -12.0, -28.0), "high": (math.pi, math.pi, 12.0, 28.0)}
    features = lambda seen: (math.atan2(seen[1], seen[0]), math.atan2(seen[3], seen[2]), seen[4], seen[5])  # noqa: E731
    acrobot = Discretised(noisy, bins=(1, 1, 40, 40), features=features, **angles)
    first = [acrobot.sample(800, 1, rng) for rng in [np.random.default_rng(0)] for _ in range(20)]
    acrobot.reset(seed=9)
    assert [acrobot.sample(800, 1, rng) for rng in [np.random.default_rng(0)] for _ in range(20)] == first


def test_the_physics_of_the_pendulum_through_features():
    env = pendulum()
    rng = np.random.default_rng(0)
    state = env.state_of((1.0, 0.0, 0.5))  # upright, slowly turning
    after, reward, terminated = env.sample(state, 1, rng)
    core = env.unwrapped
    assert core.state.shape == (2,)
    assert after == env.state_of(core._get_obs())
    assert reward < 0.0
    assert not terminated


def test_restore_is_the_way_from_the_binned_vector_to_the_state():
    swapped = {"bins": (4, 2), "low": (-0.07, -1.2), "high": (0.07, 0.6), "features": lambda seen: seen[::-1]}
    cells = Discretised(gymnasium.make("MountainCar-v0"), **swapped, restore=lambda point: (point[1], point[0]))
    fast_on_the_left = cells.state_of((-1.0, 0.06))
    after, _, _ = cells.sample(fast_on_the_left, 1, np.random.default_rng(0))
    position, speed = cells.unwrapped.state
    assert position < -0.1
    assert speed > 0.03
    assert after == cells.state_of((position, speed))
    with pytest.raises(
        InvalidInput, match=r"the state of MountainCarEnv is .* but its observation gives .*; give `restore`"
    ):
        Discretised(gymnasium.make("MountainCar-v0"), **swapped).sample(0, 1, np.random.default_rng(0))


def test_an_episode_after_sampling(recwarn):
    env = Discretised(gymnasium.make("MountainCar-v0", max_episode_steps=5), bins=(10, 10))
    rng = np.random.default_rng(0)
    for state in range(0, 100, 7):
        env.sample(state, 2, rng)
    state, _ = env.reset(seed=4)
    for step in range(5):
        state, _, terminated, truncated, _ = env.step(1)
        assert (terminated, truncated) == (False, step == 4)
    assert env.observation_space.contains(state)


# -------------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"bins": 4}, r"bins is 4; give a list with, for each of the 2 dimensions"),
        ({"bins": (4,)}, r"bins has 1 entries for 2 dimensions"),
        ({"bins": (4, 0)}, r"bins\[1\] is 0; it must be a whole number of at least 1"),
        ({"bins": (4, 2.5)}, r"bins\[1\] is 2.5"),
        ({"bins": (4, [0.5, 0.1])}, r"bins\[1\] is \[0.5, 0.1\]; inner edges are a list of increasing numbers"),
        ({"bins": (4, [-1.0, 0.1])}, r"bins\[1\] has edges from -1 to 0.1; inner edges lie strictly between low = -1"),
        ({"bins": (4, [0.0, 1.0])}, r"inner edges lie strictly between low = -1 and high = 1"),
        ({"bins": (4, [0.0, math.nan])}, r"bins\[1\]\[1\] is nan"),
        ({"bins": (1000, 1000)}, r"bins make 1000 x 1000 = 1000000 cells; at most 100000 are allowed"),
        ({"bins": (4, 4), "low": (0.0,)}, r"low has shape \(1,\); give one number per dimension, shape \(2,\)"),
        ({"bins": (4, 4), "low": (5.0, -1.0)}, r"dimension 0 goes from 5 to 4; low must be below high"),
        ({"bins": (4, 4), "action_bins": (3,)}, r"the action space is Discrete\(3, start=-1\), which is discrete already"),
        ({"bins": (4, 4), "features": lambda seen: seen}, r"with `features` the bounds of the space do not apply"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(InvalidInput, match=message):
        Discretised(Drift(), **arguments)


def test_infinite_and_huge_bounds_name_the_dimension_and_the_cure():
    with pytest.raises(InvalidInput, match=r"dimension 1 of the observation has low = -inf.*give low and high"):
        Discretised(gymnasium.make("CartPole-v1"), bins=(3, 3, 3, 3))
    with pytest.raises(InvalidInput, match=r"dimension 0 of the observation has high = 3.4.*e\+38"):
        Discretised(Drift(high=(np.finfo(np.float32).max, 1.0)), bins=(3, 3))


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (Dict({"a": Box(0, 1, (1,))}), r"the observation space is a Dict: .*Enumerated.*give `features`"),
        (Box(0, 255, (8, 8, 3), np.uint8), r"observations have shape \(8, 8, 3\), like an image.*give `features`"),
        (Discrete(5), r"the observation space is Discrete\(5\), which is discrete already"),
    ],
)
def test_spaces_that_cannot_be_cut(space, message):
    env = Drift()
    env.observation_space = space
    with pytest.raises(InvalidInput, match=message):
        Discretised(env, bins=(2, 2))


def test_features_make_any_space_a_vector():
    env = Drift()
    env.observation_space = Dict({"a": Box(0, 1, (1,))})
    cells = Discretised(env, bins=(4,), low=(0.0,), high=(1.0,), features=lambda seen: seen["a"])
    assert cells.state_of({"a": np.array([0.6])}) == 2
    with pytest.raises(InvalidInput, match=r"features\(observation\) has 2 numbers; the cells have 1 dimensions"):
        cells.state_of({"a": np.array([0.6, 0.1])})


@pytest.mark.parametrize(
    ("space", "action_bins", "message"),
    [
        (Box(-1, 1, (2,)), None, r"give action_bins, for each of its 2 dimensions"),
        (Box(-1, 1, (2,)), (3,), r"action_bins has 1 entries for 2 dimensions"),
        (Box(-1, 1, (1,)), ([-2.0, 0.0],), r"action_bins\[0\] is \[-2.0, 0.0\]; give values from -1 to 1"),
        (Box(-1, 1, (1,)), ([],), r"action_bins\[0\] is \[\]"),
        (Box(-1, 1, (2,)), (1000, 1000), r"action_bins make 1000000 actions"),
        (Box(-np.inf, np.inf, (1,)), (3,), r"dimension 0 of the actions goes from -inf to inf; give the representative"),
        (MultiBinary(3), None, r"the action space is a MultiBinary; it must be Discrete or Box"),
    ],
)
def test_bad_actions(space, action_bins, message):
    with pytest.raises(InvalidInput, match=message):
        Discretised(Drift(actions=space), bins=(2, 2), action_bins=action_bins)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda env: env.state_of((math.nan, 0.0)), r"dimension 0 of an observation is not a number \(NaN\)"),
        (lambda env: env.state_of((1.0,)), r"an observation has 1 numbers; the cells have 2 dimensions"),
        (lambda env: env.state_of("here"), r"an observation is 'here'; give a vector of numbers"),
        (lambda env: env.centre(16), r"state\[0\] is 16; states run from 0 to 15"),
        (lambda env: env.bounds(-1), r"state\[0\] is -1"),
        (lambda env: env.step(3), r"action\[0\] is 3; actions run from 0 to 2"),
        (lambda env: env.sample(0, True, np.random.default_rng()), r"whole numbers"),
        (lambda env: env.nearest_action(2), r"action\[0\] is 3; actions run from 0 to 2"),
    ],
)
def test_bad_values(call, message):
    with pytest.raises(InvalidInput, match=message):
        call(Discretised(Drift(), bins=(4, 4)))


def test_sampling_needs_a_state_that_can_be_set():
    with pytest.raises(InvalidInput, match=r"Drift has no `state` that can be set.*estimate_by_running\(env, horizon"):
        Discretised(Drift(state=False), bins=(2, 2)).sample(0, 0, np.random.default_rng())
    cells = Discretised(gymnasium.make("Pendulum-v1"), bins=(3, 3, 3), action_bins=(3,))
    with pytest.raises(InvalidInput, match=r"the state of PendulumEnv is .* but its observation gives .*`features`"):
        cells.sample(0, 0, np.random.default_rng())


def test_not_an_environment():
    with pytest.raises(InvalidInput, match="env is a str; give a Gymnasium environment"):
        Discretised("MountainCar-v0", bins=(2, 2))


def test_the_wrong_number_of_numbers_in_an_action():
    env = Discretised(gymnasium.make("Pendulum-v1"), bins=(3, 3, 3), action_bins=(3,))
    with pytest.raises(InvalidInput, match=r"an action has 2 numbers; this environment's have 1"):
        env.nearest_action((0.0, 1.0))


def test_functions_that_cannot_be_called():
    with pytest.raises(InvalidInput, match=r"features is called with \(observation\), which does not fit it"):
        Discretised(Drift(), bins=(2, 2), low=(0, -1), high=(4, 1), features=lambda a, b: a)
    with pytest.raises(InvalidInput, match=r"restore is 3; give a function \(vector\)"):
        Discretised(Drift(), bins=(2, 2), restore=3)


@pytest.mark.parametrize("reward", [None, math.inf])
def test_a_reward_that_is_no_number(reward):
    env = Drift()
    env.step = lambda action: (env.state, reward, False, False, {})
    with pytest.raises(InvalidInput, match=rf"the reward of step\(2\) is {reward}; it must be a finite number"):
        Discretised(env, bins=(2, 2)).sample(0, 2, np.random.default_rng(0))
