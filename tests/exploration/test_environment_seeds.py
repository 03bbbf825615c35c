"""Environment seeds: no two episodes that are counted together come from the same one, whoever began with which seed."""

from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest

import safe2real as s2r
from safe2real import PolicyTrial
from safe2real.errors import Conflict
from safe2real.exploration import TrialTerms, trial_run
from safe2real.model.environment_seeds import EnvironmentSeeds
from safe2real.systems.measure import estimate_margin
from tests.exploration.tiny import settings, stay, tiny


class Noted(gym.Env):
    """The tiny system, which notes every seed; an observation of `several` states is drawn from the seed alone."""

    def __init__(self, several=0):
        self.several = several
        self.observation_space, self.action_space = (
            gym.spaces.Discrete(several or 2),
            gym.spaces.Discrete(3 if several else 2),
        )
        self.seeds = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seeds.append(seed)
        self.state = int(self.np_random.integers(self.several)) if self.several else 0
        return self.state, {}

    def step(self, action):
        if self.several:  # a coin of the seed says which of the actions 0 and 1 costs; 2 never does
            return self.state, 0.0, True, False, {"cost": float(action == self.np_random.integers(2))}
        self.state = max(self.state, action)
        return self.state, 0.0, False, False, {}


def learner_of(**changes):
    return s2r.Learner(s2r.Problem(tiny(), stay(), settings(tolerance=1e-3, **changes)))


def explored(learner, rounds, keep=None):
    env = Noted()
    s2r.explore(learner, env, max_rounds=rounds, keep=keep)
    return env.seeds


def test_a_learner_that_imports_and_explores_on_sees_other_episodes():
    kept, again = [], learner_of(seed=0)
    first = explored(learner_of(seed=0), 40, kept)
    assert [episode.seed for _, episode in kept] == first
    for policy in {id(policy): policy for policy, _ in kept}.values():
        again.import_episodes(policy, [episode for one, episode in kept if one is policy], overlap="count")
    second = explored(again, 40)
    assert len(second) == 40
    assert not set(first) & set(second)


def test_a_learner_that_imports_episodes_without_their_seeds_sees_other_ones():
    """A log of another program does not say which seeds it had; what it showed leads to another stream."""
    kept, again = [], learner_of(seed=0)
    first = explored(learner_of(seed=0), 20, kept)
    log = [{"states": one.states.tolist(), "actions": one.actions.tolist()} for _, one in kept]
    mixed = s2r.MarkovPolicy.stochastic(np.full((2, 2, 2), 0.5))
    again.import_episodes(mixed, log, overlap="count")
    assert not set(first) & set(explored(again, 20))


def test_an_episode_of_a_seed_that_was_used_is_refused_and_changes_nothing():
    kept, again = [], learner_of(seed=0)
    explored(learner_of(seed=0), 3, kept)
    episodes = [episode for policy, episode in kept if policy is kept[0][0]]
    with pytest.raises(Conflict, match="environment seeds were used"):
        again.import_episodes(kept[0][0], [episodes[0], episodes[0]], overlap="count")
    assert again.samples == 0
    again.import_episodes(kept[0][0], episodes, overlap="count")
    with pytest.raises(Conflict, match=f"the first is {episodes[0].seed}"):
        again.import_episodes(kept[0][0], episodes[:1], overlap="count")
    assert again.samples == 2 * len(episodes)


def test_a_campaign_refuses_episodes_of_one_seed_too(tmp_path):
    kept = []
    explored(learner_of(seed=0), 2, kept)
    policy, episode = kept[0]
    problem = s2r.Problem(tiny(), stay(), settings(tolerance=1e-3))
    with s2r.Campaign.create(str(tmp_path / "c.db"), problem) as campaign:
        for logs in ([(policy, [episode] * 2)], [(policy, [episode])] * 2):
            with pytest.raises(Conflict, match=f"the first is {episode.seed}"):
                campaign.import_logs("twice", logs, overlap="count")
        assert campaign.status(forecast=False).samples == 0


def test_an_observed_episode_uses_its_seed():
    kept, again = [], learner_of(seed=0)
    explored(learner_of(seed=0), 1, kept)
    policy, episode = kept[0]
    again.observe(episode)
    with pytest.raises(Conflict, match=f"the first is {episode.seed}"):
        again.observe(episode)
    with pytest.raises(Conflict, match=f"the first is {episode.seed}"):
        again.import_episodes(policy, [episode], overlap="count")
    assert (again.samples, again.round) == (2, 2)


def test_no_estimate_counts_an_episode_of_one_seed_twice():
    kept = []
    explored(learner_of(seed=0), 3, kept)
    once = [episode for _, episode in kept]
    assert estimate_margin(tiny(), once, delta=0.1).episodes == 3
    assert s2r.estimate_from_log(once, 2, num_states=2, num_actions=2).samples == 6
    with pytest.raises(Conflict, match="3 of the 6 environment seeds"):
        estimate_margin(tiny(), once * 2, delta=0.1)
    with pytest.raises(Conflict, match="3 of the 6 environment seeds"):
        s2r.estimate_from_log(once * 2, 2, num_states=2, num_actions=2)


def test_learners_differ_unless_a_seed_is_given_and_a_saved_one_goes_on(tmp_path):
    assert explored(learner_of(seed=5), 4) == explored(learner_of(seed=5), 4)
    assert explored(learner_of(), 4) != explored(learner_of(), 4)
    whole, half = learner_of(seed=5), learner_of(seed=5)
    expected = explored(whole, 8)
    begun = explored(half, 4)
    half.save(tmp_path / "half")
    loaded = s2r.load_learner(tmp_path / "half")
    assert begun + explored(loaded, 4) == expected
    assert loaded.seeds.used == set(expected)


def test_a_seed_that_was_used_is_drawn_again():
    seeds, fresh = EnvironmentSeeds(7), EnvironmentSeeds(7)
    seeds.used.add(fresh.of_round(1))
    assert seeds.of_round(1) not in fresh.used


def test_a_second_trial_of_a_policy_that_was_fitted_to_the_first_is_not_certified_falsely():
    """The adversary learns the cheap action of every observation by heart; on fresh episodes it costs 0.5."""
    terms = {"limit": 0.4, "margin": 0.3, "high": 1.0, "name": "cost", "delta": 0.1}
    certified = 0
    for seed in range(10):
        cheap, env, rng = {}, Noted(several=10_000), np.random.default_rng(seed)

        def recorded(seen, action, cheap=cheap, env=env):
            state = env.np_random.bit_generator.state
            cheap[seen] = 1 - int(env.np_random.integers(2))  # what the episode will show, as a log of it would
            env.np_random.bit_generator.state = state
            return action

        first = PolicyTrial(TrialTerms(**terms, seed=0))
        trial_run(
            env,
            lambda seen, rng=rng: recorded(seen, int(rng.integers(2))),
            lambda seen: recorded(seen, 2),
            first,
            episodes=150,
        )
        second = PolicyTrial(TrialTerms(**terms, number=2, seed=0))
        trial_run(Noted(several=10_000), lambda seen, cheap=cheap: cheap.get(seen, 0), lambda seen: 2, second, episodes=150)
        certified += second.floors["cost"] <= 0.4
    assert certified <= 1


def test_whoever_knows_a_learners_episodes_meets_others():
    """A simulator may be fitted to what they showed, a reward or the policy of a trial chosen by it."""
    reward = {"right": np.array([[0.0, 0.0], [1.0, 1.0]])}
    robust = replace(settings(tolerance=1e-3, seed=0), robust_safety=True)
    problem, known = s2r.Problem(tiny(), stay(), robust), np.array([[True, False], [False, False]])
    refitted = tiny().with_kernel(s2r.Kernel.from_dense(np.full((2, 2, 2), 0.5)))
    right = s2r.MarkovPolicy.deterministic([1, 1], num_actions=2, horizon=2)
    streams = [
        explored(learner, 20)
        for learner in (
            s2r.Learner(problem),
            s2r.Learner(s2r.Problem(refitted, stay(), robust), trust_margin=True),
            s2r.Learner(s2r.Problem(tiny(), stay(), robust, known=known)),
            s2r.Learner(s2r.Problem(tiny(), stay(), replace(robust, delta=0.04))),
            s2r.Learner(problem, s2r.methods.ForRewards(reward)),
            s2r.Learner(problem, s2r.methods.Trial(stay())),
            s2r.Learner(problem, s2r.methods.Trial(right)),
        )
    ]
    for number in (1, 2):  # of trials without a table, with the learner's seed
        seeds = PolicyTrial(TrialTerms(limit=0.4, margin=0.3, high=1.0, number=number, seed=0)).seeds()
        streams.append([seeds.of_round(i) for i in range(1, 21)])
    assert len({seed for stream in streams for seed in stream}) == 20 * len(streams)


def test_rewards_declared_on_the_way_begin_a_new_stream():
    reward = {"right": np.array([[0.0, 0.0], [1.0, 1.0]])}
    robust = replace(settings(tolerance=1e-3, seed=0), robust_safety=True)
    method = s2r.methods.ForRewards(reward, accuracy=1e-9)
    declared, whole = (s2r.Learner(s2r.Problem(tiny(), stay(), robust), method) for _ in range(2))
    begun = explored(declared, 10)
    declared.declare({"left": np.array([[1.0, 1.0], [0.0, 0.0]])})
    undeclared = explored(whole, 20)
    assert undeclared[:10] == begun
    assert not set(explored(declared, 10)) & set(undeclared)
