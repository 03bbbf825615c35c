"""Agents in the environment's own words do what the policy does in the model's numbers, copies, ends and cells included."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import safe2real as s2r
from safe2real.errors import InvalidInput, OutsideModel
from tests.systems.test_finite import TableEnv, corridor, slipped


def stochastic(system, seed=0):
    """A policy that acts otherwise in every copy of a state."""
    model = system.model
    table = np.random.default_rng(seed).dirichlet(np.ones(model.num_actions), size=(model.horizon, model.num_states))
    return s2r.Mixture.of([0.6, 0.4], [s2r.MarkovPolicy.stochastic(table), s2r.MarkovPolicy.stochastic(table[::-1])])


def episodes_by_numbers(system, env, policy, count):
    """(states, actions) of episodes in the model's numbers, by the wrapped environment."""
    agent, seen = policy.agent(seed=5), system.as_env(env)
    for episode in range(count):
        agent.reset()
        state, _ = seen.reset(seed=episode)
        states, actions = [], []
        for _ in range(system.model.steps):
            states.append(state)
            actions.append(agent(state))
            state = seen.step(actions[-1])[0]
        yield states, actions


def episodes_by_words(system, env, policy, count, *, rewards=True):
    """The same in the environment's own observations and actions, until it ends."""
    agent = policy.agent(seed=5, system=system)
    for episode in range(count):
        agent.reset()
        observation, _ = env.reset(seed=episode)
        states, actions, reward, terminated = [], [], None, False
        for _ in range(system.model.steps):
            action = agent(observation, reward=reward if rewards else None)
            states.append(agent.state)
            actions.append(agent.action)
            observation, reward, terminated, _, _ = env.step(action)
            if terminated:
                break
        yield states, actions


def fell(state, action, successor, reward, terminated):
    return reward == -100


def illegal(state, action, successor, reward, terminated):
    return 0.5 * (reward == -10)


CASES = (
    ("FrozenLake-v1", 12, {"cost": lambda s, a, t, r, over: over and not r, "limit": 0.5, "ended": 0}),
    ("CliffWalking-v1", 15, {"cost": fell, "limit": 1.0, "ended": 0}),
    ("Taxi-v4", 10, {"cost": illegal, "limit": 2.0, "ended": 0}),
)


@pytest.mark.parametrize(("name", "horizon", "stated"), CASES)
def test_words_and_numbers_give_the_same_episodes(name, horizon, stated):
    env = gymnasium.make(name, max_episode_steps=horizon + 1)
    system = s2r.from_gymnasium(env, horizon, s2r.SystemDescription(**stated))
    policy = stochastic(system)
    by_numbers = list(episodes_by_numbers(system, env, policy, 30))  # one after the other: they share an environment
    pairs = zip(by_numbers, episodes_by_words(system, env, policy, 30), strict=True)
    costly = 0
    for (states, actions), (said_states, said_actions) in pairs:
        assert states[: len(said_states)] == said_states
        assert actions[: len(said_actions)] == said_actions
        costly += any(state >= system.ended.size for state in said_states)
    if name != "FrozenLake-v1":  # there, what costs ends the episode
        assert costly > 5  # copies of states were visited: the agent knows in which it is


def test_where_costs_are_told_by_the_reward_it_is_asked_for():
    env = TableEnv(corridor(slip=1.0))
    system = s2r.from_gymnasium(env, 6, s2r.SystemDescription(cost=slipped, limit=1.0, ended=0))
    policy = s2r.MarkovPolicy.deterministic(np.ones(system.model.num_states, dtype=int), num_actions=2, horizon=6)
    agent = policy.agent(system=system)
    agent.reset()
    agent(0)
    agent(1)  # entered in one way only: nothing has to be said
    with pytest.raises(InvalidInput, match=r"state 0 can be entered at the costs 0 and 1.*reward=reward"):
        agent(0)
    agent(0, reward=-1.0)
    assert agent.state == system.state_of(0, 1.0)
    agent(1, reward=0.0)
    agent(0, cost=1.0)
    assert agent.state == system.state_of(0, 1.0)
    with pytest.raises(OutsideModel):
        agent(1, cost=0.25)
    with pytest.raises(OutsideModel):
        agent(9, reward=0.0)


def test_a_cost_is_no_matter_where_states_have_no_copies():
    """The cost is one of being in a state: what a step is said to have cost tells nothing, and is no surprise."""
    system = s2r.from_gymnasium(
        TableEnv(corridor(slip=1.0)), 6, s2r.SystemDescription(cost=np.array([0.0, 0.0, 1.0]), limit=1.0, ended=0)
    )
    agent = s2r.MarkovPolicy.uniform(horizon=6, num_states=system.model.num_states, num_actions=2).agent(system=system)
    agent.reset()
    agent(0)
    agent(1, cost=1.0)
    assert agent.state == system.state_of(1)


class FromOne(TableEnv):
    """Counts observations and actions from 1."""

    def __init__(self):
        super().__init__(corridor(slip=0.0))
        self.observation_space, self.action_space = spaces.Discrete(3, start=1), spaces.Discrete(2, start=1)

    def reset(self, **given):
        state, info = super().reset(**given)
        return state + 1, info

    def step(self, action):
        state, *rest = super().step(action - 1)
        return state + 1, *rest


def test_numbers_that_do_not_begin_at_0():
    env = FromOne()
    system = s2r.from_gymnasium(env, 4)
    agent = system.agent(s2r.MarkovPolicy.deterministic([1, 0, 0, 0], num_actions=2, horizon=4))
    agent.reset()
    assert [agent(1), agent(2)] == [2, 1]
    estimated = s2r.estimate_by_running(env, 4, episodes=5)
    policy = s2r.MarkovPolicy.deterministic([1] * estimated.model.num_states, num_actions=2, horizon=4)
    agent = estimated.agent(policy)
    agent.reset()
    assert agent(1) == 2


def test_a_continuous_environment_by_its_own_observations():
    env = gymnasium.make("MountainCarContinuous-v0", max_episode_steps=30)
    cells = s2r.Discretised(env, bins=(6, 5), action_bins=(3,))
    estimated = s2r.estimate_by_sampling(
        cells, 20, s2r.SystemDescription(start=int(cells.reset(seed=0)[0])), samples_per_row=2
    )
    policy = stochastic(estimated)
    agent, plain = policy.agent(seed=2, system=estimated), policy.agent(seed=2, system=estimated.system)
    agent.reset()
    plain.reset()
    observation, _ = env.reset(seed=0)
    for _ in range(20):
        number = plain(cells.state_of(observation))
        action = agent(observation)
        assert action.shape == env.action_space.shape
        assert np.array_equal(action, cells.action_of(number))
        observation, *_ = env.step(action)


def pond(**more):
    return s2r.from_dynamics(
        [f"level {n}" for n in range(5)],
        ("closed", "open"),
        lambda level, gate, rain: f"level {min(4, max(0, int(level[-1]) - 2 * (gate == 'open')) + rain)}",
        s2r.Noise((0, 1, 2), [0.5, 0.3, 0.2]),
        8,
        s2r.SystemDescription(start="level 2", cost=lambda level, gate: level == "level 4", limit=2.0, **more),
    )


def test_listed_states_and_actions():
    system = pond()
    shut_below = [0, 0, 1, 1, 1]
    agent = system.agent(s2r.MarkovPolicy.deterministic(shut_below, num_actions=2, horizon=8), seed=1)
    agent.reset()
    assert [agent("level 2"), agent("level 1"), agent("level 4")] == ["open", "closed", "open"]
    with pytest.raises(OutsideModel, match="none of the 5 states"):
        agent("level 5")


def test_a_system_of_another_policy_is_refused():
    system = pond()
    with pytest.raises(InvalidInput, match="this system has"):
        system.agent(s2r.MarkovPolicy.uniform(horizon=3, num_states=5, num_actions=2))
