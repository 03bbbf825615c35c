"""Logged episodes: every layout read into the same numbers, and what cannot be read refused with its cure."""

import builtins
import math
from pathlib import Path
from types import SimpleNamespace

import gymnasium
import minari
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from minari.data_collector import EpisodeBuffer

from safe2real.errors import InvalidInput, MissingExtra
from safe2real.model import CMDP, Kernel, Trajectory
from safe2real.systems.datasets import LoggedEpisode, read_episodes
from safe2real.systems.discretise import Discretised

# Two episodes: 0 -> 1 -> 2 (terminated), 0 -> 0 -> 1 -> 1 (cut off).
STATES = ([0, 1, 2], [0, 0, 1, 1])
ACTIONS = ([1, 0], [0, 1, 0])
REWARDS = ([0.5, 1.0], [0.0, 0.5, 0.25])
COSTS = ([0.0, 1.0], [0.0, 0.0, 1.0])


def logged():
    """The two episodes with everything that is known of them."""
    columns = zip(STATES, ACTIONS, REWARDS, COSTS, (True, False), strict=True)
    return [LoggedEpisode(*one) for one in columns]


def check(log, *, rewards=True, costs=True, terminated=(True, False)):
    assert [one.states.tolist() for one in log.episodes] == [list(states) for states in STATES]
    assert [one.actions.tolist() for one in log.episodes] == [list(actions) for actions in ACTIONS]
    assert [one.rewards is not None and one.rewards.tolist() for one in log.episodes] == [
        rewards and list(r) for r in REWARDS
    ]
    assert [one.costs is not None and one.costs.tolist() for one in log.episodes] == [costs and list(c) for c in COSTS]
    assert tuple(one.terminated for one in log.episodes) == terminated
    assert log.steps == 5


@pytest.fixture
def minari_root(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    return tmp_path


def recorded(infos=None, *, observation_space=None, observations=STATES, name="test/log-v0", first=0):
    buffers = [
        EpisodeBuffer(
            observations=np.array(observations[i]),
            actions=np.array(ACTIONS[i]) + first,
            rewards=list(REWARDS[i]),
            terminations=[False] * (len(ACTIONS[i]) - 1) + [i == 0],
            truncations=[False] * (len(ACTIONS[i]) - 1) + [i == 1],
            infos=None if infos is None else infos[i],
        )
        for i in range(2)
    ]
    return minari.create_dataset_from_buffers(
        name,
        buffers,
        observation_space=Discrete(4) if observation_space is None else observation_space,
        action_space=Discrete(3, start=first),
    )


# ------------------------------------------------------------------------------------------------------- layouts


@pytest.mark.filterwarnings("ignore")
def test_minari_by_object_and_by_id(minari_root):
    infos = [{"cost": np.array([9.0, *costs])} for costs in COSTS]  # the first is what reset said
    dataset = recorded(infos)
    for source in (dataset, "test/log-v0"):
        log = read_episodes(source)
        check(log)
        assert (log.num_states, log.num_actions) == (4, 3)  # of the spaces, not of what was seen


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("first", [1, -2])
def test_discrete_spaces_of_minari_are_counted_from_zero(minari_root, first):
    shifted = [np.array(states) + first for states in STATES]
    dataset = recorded(observation_space=Discrete(4, start=first), observations=shifted, first=first)
    log = read_episodes(dataset)
    check(log, costs=False)
    assert (log.num_states, log.num_actions) == (4, 3)
    by_function = read_episodes(dataset, discretiser=lambda seen: (int(seen) - first) // 2)
    assert by_function.episodes[1].actions.tolist() == ACTIONS[1]
    assert (by_function.num_states, by_function.num_actions) == (2, 3)  # states of the function, not of the space


def test_an_observation_below_its_space():
    dataset = Fake()
    dataset.observation_space = Discrete(3, start=1)
    with pytest.raises(InvalidInput, match=r"observations \(less 1, the first of their space\)\[0\] is -1"):
        read_episodes(dataset)


@pytest.mark.filterwarnings("ignore")
def test_minari_costs_by_another_name_without_reset_or_not_at_all(minari_root):
    check(read_episodes(recorded([{"costs": np.array(costs)} for costs in COSTS])))
    check(read_episodes(recorded(name="test/plain-v0")), costs=False)


def test_pairs_trajectories_and_episodes():
    pairs = list(zip(STATES, ACTIONS, strict=True))
    log = read_episodes(pairs)
    check(log, rewards=False, costs=False, terminated=(False, False))
    assert read_episodes(log) is log
    check(read_episodes(log.episodes), rewards=False, costs=False, terminated=(False, False))
    model = CMDP.of(Kernel.from_dense(np.full((3, 2, 3), 1 / 3)), horizon=2)
    from_trajectories = read_episodes([Trajectory.of(model, [0, 1, 2], [1, 0])])
    assert from_trajectories.episodes[0].states.tolist() == [0, 1, 2]


def test_lists_say_which_episodes_terminated():
    triples = [(STATES[0], ACTIONS[0], True), (STATES[1], ACTIONS[1], np.bool_(False))]
    check(read_episodes(triples), rewards=False, costs=False)
    mixed = [triples[0], (STATES[1], ACTIONS[1])]
    check(read_episodes(mixed), rewards=False, costs=False)
    with pytest.raises(InvalidInput, match=r"episode 0, terminated is \[False, True\]; give True where"):
        read_episodes([(*mixed[1], [False, True])])


def test_logged_episodes_of_plain_lists():
    log = read_episodes(logged())
    check(log)
    assert log.episodes[0].length == 2
    assert not LoggedEpisode([0, 1], [0]).terminated
    with pytest.raises(InvalidInput, match=r"episode 0, rewards has 1 entries for 2 steps"):
        read_episodes([LoggedEpisode(STATES[0], ACTIONS[0], [0.5])])


def test_what_is_in_numbers_already_takes_no_discretiser():
    log = read_episodes(logged())
    for source, what in ((log, "the log"), (list(log.episodes), "episode 0")):
        with pytest.raises(InvalidInput, match=f"{what} is in the environment's numbers already; leave discretiser"):
            read_episodes(source, discretiser=int)


def test_given_sizes():
    log = read_episodes(logged(), num_states=7, num_actions=5)
    assert (log.num_states, log.num_actions) == (7, 5)
    with pytest.raises(InvalidInput, match=r"the dataset has state 2, but there are 2 states; they run from 0 to 1"):
        read_episodes(logged(), num_states=2)
    with pytest.raises(InvalidInput, match=r"the dataset has action 1, but there are 1 actions"):
        read_episodes(logged(), num_actions=1)


# ---------------------------------------------------------------------------------------------------- discretisers


def test_box_observations_and_actions_with_a_discretised_environment():
    cells = Discretised(gymnasium.make("Pendulum-v1"), bins=(2, 2, 2), action_bins=([-2.0, 0.5, 2.0],))
    seen = np.array([[0.9, -0.1, 3.0], [0.9, 0.1, -3.0], [-0.9, 0.1, 3.0]])  # cells 101, 110, 011
    log = read_episodes([(seen, np.array([[1.9], [0.0]]))], discretiser=cells)
    assert log.episodes[0].states.tolist() == [5, 6, 3]
    assert log.episodes[0].actions.tolist() == [2, 1]
    assert (log.num_states, log.num_actions) == (8, 3)


@pytest.mark.filterwarnings("ignore")
def test_box_observations_of_minari_with_a_function(minari_root):
    boxes = [np.array(states, dtype=np.float32)[:, None] * np.ones(2, dtype=np.float32) + 0.25 for states in STATES]
    dataset = recorded(observation_space=Box(0, 9, (2,)), observations=boxes)
    log = read_episodes(dataset, discretiser=lambda seen: int(seen.sum() / 2), num_states=6)
    check(log, costs=False)
    assert (log.num_states, log.num_actions) == (6, 3)


def test_non_discrete_observations_without_a_discretiser():
    with pytest.raises(InvalidInput, match=r"episode 0, states have shape \(3, 3\).*Discretised\(env, bins=.*discretiser="):
        read_episodes([(np.zeros((3, 3)), [0, 1])])
    with pytest.raises(InvalidInput, match=r"episode 0, states have shape \(3,\) and type float64: .*discretiser"):
        read_episodes([(np.full(3, 0.5), [0, 1])])
    with pytest.raises(InvalidInput, match=r"episode 0, actions have shape \(2,\).*action_bins"):
        read_episodes([([0, 1, 2], np.full(2, 0.5))])
    with pytest.raises(InvalidInput, match=r"episode 0, observations have shape \(3,\) and type object.*discretiser="):
        read_episodes(Fake(observations={"cell": np.array(STATES[0])}))


# -------------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ([LoggedEpisode([0, 1], [0], [math.nan])], r"episode 0, rewards\[0\] is nan"),
        ([([0, -1], [0])], r"episode 0, states\[1\] is -1"),
        ([], r"the dataset has no episode"),
        ([([0, 1], [0, 1])], r"episode 0 has 2 states and 2 actions; it needs at least one action and one state more"),
        ([([0], [])], r"episode 0 has 1 states and 0 actions"),
        ([3], r"episode 0 is 3; give \(states, actions, terminated\), or \(states, actions\)"),
        (["ab"], r"episode 0 is 'ab'; give \(states"),
        ([([0, 1], [0], False, 0)], r"episode 0 is \(.*; give \(states, actions, terminated\)"),
        ([([0, math.nan], [0])], r"episode 0, states\[1\] is nan"),
        ([([0, None], [0])], r"episode 0, states, entry 1 is None; it must be known"),
        ([([[0], [1, 2]], [0])], r"episode 0, states is not an array"),
        ([(0, [0])], r"episode 0, states is 0, not an array"),
        ([LoggedEpisode([0, 1], [0], [None])], r"episode 0, rewards, entry 0 is None"),
        (7, r"the dataset is a int; give a list of \(states, actions, terminated\), or a Minari dataset or its id"),
        ({"states": [0, 1]}, r"the dataset is a dict; give a list"),
        ("log.npz", r"'log.npz' is not the id of a dataset; give a list"),
        (Path("log.csv"), r"'log.csv' is not the id of a dataset"),
        ("", r"'' is not the id of a dataset"),
    ],
)
def test_bad_sources(source, message):
    with pytest.raises(InvalidInput, match=message):
        read_episodes(source)


def test_a_minari_dataset_that_is_not_here(minari_root):
    for name in ("test/nowhere-v0", "D4RL/door/human-v2", "plain-v12"):
        with pytest.raises(InvalidInput, match=rf"there is no Minari dataset '{name}' here .*minari download"):
            read_episodes(name)


@pytest.mark.parametrize(
    ("discretiser", "message"),
    [
        (lambda: 0, r"discretiser is called with \(observation\), which does not fit it"),
        (3, r"discretiser is 3; give a function \(observation\)"),
    ],
)
def test_a_discretiser_that_cannot_be_called(discretiser, message):
    with pytest.raises(InvalidInput, match=message):
        read_episodes(logged(), discretiser=discretiser)


@pytest.mark.parametrize("package", ["minari", "h5py"])
def test_a_missing_package_is_named_with_its_cure(monkeypatch, package):
    true_import = builtins.__import__

    def without(name, *others, **more):
        if name == package:
            raise ModuleNotFoundError(name=name)
        return true_import(name, *others, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtra, match=rf"need the package {package}.*pip install 'safe2real\[minari\]'"):
        read_episodes("test/log-v0")


def test_an_episode_ends_at_its_last_step_if_it_terminated():
    log = read_episodes(logged())
    assert log.episodes[0].ends_at(1)
    assert not log.episodes[0].ends_at(0)
    assert not log.episodes[1].ends_at(2)


def test_costs_of_the_wrong_length():
    with pytest.raises(InvalidInput, match="episode 0, costs has 4 entries for 2 steps"):
        read_episodes(Fake(costs=[9.0, 9.0, 0.0, 1.0]))


def test_dict_and_tuple_observations_are_given_to_the_discretiser_step_by_step():
    cell = np.array(STATES[0])
    stacked = {"cell": cell, "inner": (cell, cell + 10)}
    log = read_episodes(Fake(observations=stacked), discretiser=lambda seen: seen["cell"] + seen["inner"][1] - 10)
    assert log.episodes[0].states.tolist() == [0, 2, 4]
    log = read_episodes(Fake(observations=(cell, cell)), discretiser=lambda seen: seen[0])
    assert log.episodes[0].states.tolist() == list(STATES[0])


class Fake:
    """A dataset with Minari's interface and one episode."""

    def __init__(self, costs=(0.0, 0.0), observations=None):
        self.costs, self.observations = costs, np.array(STATES[0]) if observations is None else observations

    def iterate_episodes(self):
        yield SimpleNamespace(
            observations=self.observations,
            actions=np.array(ACTIONS[0]),
            rewards=np.array(REWARDS[0]),
            terminations=np.array([False, True]),
            infos={"cost": self.costs},
        )
