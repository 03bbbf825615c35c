"""Observations and actions of several whole numbers, as one each."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from safe2real.errors import InvalidInput
from safe2real.systems import Discretised, Enumerated
from safe2real.systems.estimate import estimate_by_running


class Shop(gymnasium.Env):
    """Stock 0 to 2 in season 0 or 1; an action says how much to order, and whether by air."""

    def __init__(self, observations=None, actions=None):
        self.observation_space = observations or spaces.MultiDiscrete([3, 2])
        self.action_space = actions or spaces.Tuple((spaces.Discrete(2, start=1), spaces.Discrete(2)))

    def _seen(self):
        return np.array([self.stock, self.season])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.stock, self.season = 2, 0
        return self._seen(), {}

    def step(self, action):
        order, by_air = action
        assert order in (1, 2)
        self.stock = min(2, max(0, self.stock - 1) + order * by_air)
        self.season = 1 - self.season
        return self._seen(), 0.0, False, False, {}


def test_the_advice_for_such_a_space_works():
    with pytest.raises(InvalidInput, match=r"MultiDiscrete.*, not Discrete; wrap .*systems.Enumerated\(env\)"):
        estimate_by_running(Shop(), 3, episodes=5)
    with pytest.raises(InvalidInput, match=r"MultiDiscrete.*Enumerated\(env\)"):
        Discretised(Shop(), bins=[3, 2], action_bins=[2])
    found = estimate_by_running(Enumerated(Shop()), 3, episodes=50)
    assert found.system.model.kernel.shape == (6, 4)
    legend = found.system.model.legend
    assert (legend.states[5], legend.actions[1]) == ("(2, 1)", "(1, 1)")
    assert np.flatnonzero(found.system.model.start).tolist() == [4]  # (2, 0)


def test_numbers_and_values_are_each_others_way_back():
    seen = spaces.Dict({
        "door": spaces.MultiBinary(2),
        "at": spaces.Tuple((spaces.Discrete(3, start=-1), spaces.MultiDiscrete([[2], [3]]))),
    })  # fmt: skip
    env = Enumerated(Shop(seen, spaces.MultiDiscrete([2, 2], start=[5, 7])))
    assert (env.num_states, env.num_actions) == (3 * 6 * 4, 4)
    for state in range(env.num_states):
        assert seen.contains(env.observation_of(state)), env.observation_of(state)
        assert env.state_of(env.observation_of(state)) == state
    assert env.action_of(3).tolist() == [6, 8]
    assert env.legend.actions == ("(5, 7)", "(5, 8)", "(6, 7)", "(6, 8)")  # by the values that they have there
    assert env.legend.states[0] == "(-1, 0, 0, 0, 0)"


def test_what_is_no_whole_number_or_too_many_is_refused():
    with pytest.raises(InvalidInput, match=r"observation space has a part Box.*Discretised"):
        Enumerated(Shop(spaces.Tuple((spaces.Discrete(2), spaces.Box(0.0, 1.0)))))
    with pytest.raises(InvalidInput, match=r"1000 x 1000 = 1000000 are more"):
        Enumerated(Shop(spaces.MultiDiscrete([1000, 1000])))
    env = Enumerated(Shop())
    with pytest.raises(InvalidInput, match=r"an observation is .*, which its space does not have"):
        env.state_of([3, 0])
