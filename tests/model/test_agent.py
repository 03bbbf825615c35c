"""An agent acts as its mixture does: one policy for each episode, step by step, reproducibly; misuse is said."""

import numpy as np
import pytest

import safe2real as s2r
from safe2real.errors import InvalidInput, OutOfOrder, OutsideModel
from safe2real.model.policy import Agent, mixture_of

H, S, A = 6, 3, 2
RNG = np.random.default_rng(0)
MODEL = s2r.CMDP.of(s2r.Kernel.from_dense(RNG.dirichlet(np.ones(S), size=(S, A))), H, 0)
REWARD = RNG.random((H, S, A))


def mixture():
    left = s2r.MarkovPolicy.deterministic(np.zeros(S, dtype=int), num_actions=A, horizon=H)
    right = s2r.MarkovPolicy.deterministic(np.ones(S, dtype=int), num_actions=A, horizon=H)
    table = np.random.default_rng(1).dirichlet(np.ones(A), size=(H, S))
    return s2r.Mixture.of([0.5, 0.3, 0.2], [left, right, s2r.MarkovPolicy.stochastic(table)])


def run(agent, rng, episodes):
    """The mean reward of episodes on MODEL, with the model's own numbers."""
    total, kernel = 0.0, MODEL.kernel
    for _ in range(episodes):
        agent.reset()
        state = 0
        for h in range(H):
            action = agent(state)
            total += REWARD[h, state, action]
            successors, probabilities = kernel.row(state * A + action)
            state = int(rng.choice(successors, p=probabilities))
    return total / episodes


def test_episodes_are_worth_what_evaluation_says():
    episodes = 2_000
    found = run(mixture().agent(seed=3), np.random.default_rng(2), episodes)
    # A sum of H numbers in [0, 1] deviates by at most H / 2; five standard errors.
    assert abs(found - s2r.evaluate(MODEL, mixture(), REWARD)) < 5 * (H / 2) / np.sqrt(episodes)


def test_the_mixture_is_drawn_once_for_each_episode():
    agent, drawn = s2r.Mixture.of([0.5, 0.5], mixture().policies[:2]).agent(seed=1), []
    for _ in range(200):
        agent.reset()
        actions = {agent(0) for _ in range(H)}
        assert len(actions) == 1  # one deterministic policy for all of it
        drawn += actions
    assert 60 < sum(drawn) < 140


def test_the_same_seed_gives_the_same_episodes_in_any_order():
    first, second = mixture().agent(seed=7), mixture().agent(seed=7)
    told = {}
    for episode in range(5):
        first.reset()
        told[episode] = (first.policy, [first(1) for _ in range(H)])
    for episode in (3, 0, 4):
        second.reset(episode)
        policy = first.mixture.policies.index(told[episode][0])
        assert second.mixture.policies.index(second.policy) == policy
        assert [second(1) for _ in range(H)] == told[episode][1]
    other = mixture().agent(seed=8)
    differs = False
    for episode in range(5):
        other.reset()
        differs |= [other(1) for _ in range(H)] != told[episode][1]
    assert differs


def test_misuse_is_said():
    agent = mixture().agent()
    with pytest.raises(OutOfOrder, match=r"call agent\.reset\(\) first"):
        agent(0)
    agent.reset()
    for _ in range(H):
        agent(0)
    with pytest.raises(OutOfOrder, match="made for 6 steps"):
        agent(0)
    agent.reset()
    with pytest.raises(OutsideModel, match="run from 0 to 2"):
        agent(3)
    with pytest.raises(InvalidInput, match="system=system"):
        agent(np.zeros(2))
    assert agent(np.int64(1)) in (0, 1)
    with pytest.raises(InvalidInput, match="episode is -1"):
        agent.reset(-1)
    with pytest.raises(InvalidInput, match="seed is -1"):
        mixture().agent(seed=-1)
    with pytest.raises(InvalidInput, match="give a MarkovPolicy, a Mixture, or a plan"):
        mixture_of("policy")
    with pytest.raises(InvalidInput, match="from_gymnasium"):
        Agent(mixture(), system=MODEL)


def test_a_markov_policy_acts_too():
    agent = mixture().policies[1].agent(seed=0)
    agent.reset()
    assert [agent(state) for state in (0, 1, 2)] == [1, 1, 1]
    assert "step 3 of 6" in repr(agent)
