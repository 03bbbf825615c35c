"""Systems by counting: rows by hand, what the accuracy promises, and data that a model cannot be made of."""

from dataclasses import fields

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Discrete

from safe2real import radii
from safe2real.campaign import Campaign
from safe2real.errors import InvalidInput
from safe2real.evidence.row_rule import RowFacts, rule_of
from safe2real.model import MarkovPolicy
from safe2real.model.constraint_text import rounded_up
from safe2real.radii import System
from safe2real.report.export import export_minari
from safe2real.systems import estimate as module
from safe2real.systems.datasets import LoggedEpisode, read_episodes
from safe2real.systems.discretise import Discretised
from safe2real.systems.estimate import Counting, estimate_by_running, estimate_by_sampling, estimate_from_log
from safe2real.systems.finite import SystemDescription
from safe2real.systems.measure import clone_baseline, estimate_margin
from tests.campaign.systems import three_states
from tests.compiled.calling import radius_at

DESCRIBED, COUNTED = ({one.name for one in fields(kind)} for kind in (SystemDescription, Counting))


def estimated(source, horizon, **given):
    """The estimate for this kind of source, by arguments of all three."""
    described = {name: given.pop(name) for name in DESCRIBED & set(given)}
    counting = Counting(**{name: given.pop(name) for name in COUNTED & set(given)})
    runs = isinstance(source, gymnasium.Env) and (given or not hasattr(source, "sample"))
    simulated = estimate_by_running if runs else estimate_by_sampling
    function = simulated if runs or hasattr(source, "sample") else estimate_from_log
    return function(source, horizon, SystemDescription(**described), counting=counting, **given)


P = np.array(  # [S, A, S]
    [
        [[0.9, 0.1, 0.0], [0.2, 0.3, 0.5]],
        [[0.0, 1.0, 0.0], [0.5, 0.0, 0.5]],
        [[0.0, 0.0, 1.0], [0.1, 0.1, 0.8]],
    ]
)


def table(found):
    """P[s][a] = [(probability, next state, reward, terminated), ...] as Gymnasium has it."""
    rows, outcomes = {s: {a: [] for a in range(2)} for s in range(3)}, found.outcomes
    columns = (outcomes.states, outcomes.actions, outcomes.probabilities, outcomes.successors, outcomes.rewards)
    for s, a, *entry in zip(*(column.tolist() for column in (*columns, outcomes.terminated)), strict=True):
        rows[s][a].append(tuple(entry))
    return rows


class Chain:
    """A generative simulator with rows P; entering state 2 by action 1 from state 1 ends the episode."""

    num_states, num_actions = 3, 2

    def __init__(self, rows=P):
        self.rows = rows

    def sample(self, state, action, rng):
        after = int(rng.choice(3, p=self.rows[state, action]))
        return after, float(10 * state + after), (state, action, after) == (1, 1, 2)


class ChainEnv(gymnasium.Env):
    """The same rows as an environment without a table, from state 0; observations and actions count from 5 and 7."""

    def __init__(self, ends=True, cost=True, first=(5, 7)):
        self.observation_space, self.action_space = Discrete(3, start=first[0]), Discrete(2, start=first[1])
        self.ends, self.cost, self.first = ends, cost, first

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 0
        return self.first[0], {}

    def step(self, action):
        before, self.at = self.at, int(self.np_random.choice(3, p=P[self.at, action - self.first[1]]))
        ended = self.ends and (before, action - self.first[1], self.at) == (1, 1, 2)
        return self.at + self.first[0], 1.0, ended, False, {"cost": 0.5 * (self.at == 2)} if self.cost else {}


def episode(states, actions, *, rewards=None, costs=None, terminated=False):
    floats = [None if column is None else np.array(column, dtype=float) for column in (rewards, costs)]
    return LoggedEpisode(np.array(states), np.array(actions), *floats, terminated)


# ------------------------------------------------------------------------------------------------------ by hand


def test_rows_are_frequencies():
    log = read_episodes([([0, 1, 0, 1, 1], [0, 1, 0, 0]), ([0, 0, 0, 0, 0], [0, 0, 1, 1])], num_states=3)
    found = estimate_from_log(log, 4, counting=Counting(unvisited="stay"))
    rows = found.system.model.kernel.to_dense()
    assert rows[0, 0] == pytest.approx([0.5, 0.5, 0.0])  # 0 by 0: to 1, 1, 0, 0
    assert rows[0, 1] == pytest.approx([1.0, 0.0, 0.0])
    assert rows[1, 0] == pytest.approx([0.0, 1.0, 0.0])
    assert rows[1, 1] == pytest.approx([1.0, 0.0, 0.0])
    assert rows[2] == pytest.approx(np.array([[0.0, 0.0, 1.0]] * 2))  # never visited
    assert found.visits.tolist() == [[4, 2], [1, 1], [0, 0]]
    assert found.unvisited.tolist() == [[False, False], [False, False], [True, True]]
    assert found.accuracy[2].tolist() == [1.0, 1.0]
    assert found.system.model.start.tolist() == [1.0, 0.0, 0.0]
    assert (found.samples, found.start_samples) == (8, 2)


def test_a_log_that_missed_the_last_states_and_actions():
    for source in ([([0, 1, 0], [0, 0])], read_episodes([([0, 1, 0], [0, 0])])):
        found = estimate_from_log(source, 2, SystemDescription(cost=[0, 0, 0, 1], limit=1.0), num_states=4, num_actions=3)
        assert found.visits.shape == (4, 3)
        assert found.visits.sum() == 2


def test_unvisited_rows_are_uniform_by_default():
    found = estimate_from_log([([0, 1], [0])], 1)
    assert found.system.model.kernel.to_dense()[1, 0].tolist() == [0.5, 0.5]
    assert "2 states, 1 actions" in found.describe()
    assert "never visited: 1 row, action 0 in state 1; taken as uniform" in found.describe()


def test_mean_rewards_are_of_the_environment():
    log = read_episodes([episode([0, 1, 0, 0], [0, 0, 0], rewards=[1.0, 5.0, 2.0])])
    found = estimate_from_log(log, 3)
    assert found.system.reward[:, 0].tolist() == [1.5, 5.0]


def test_the_end_becomes_known_states():
    log = read_episodes([episode([0, 1, 2], [0, 0], terminated=True), episode([0, 1, 0, 1], [0, 0, 0])])
    found = estimate_from_log(log, 3, SystemDescription(cost=[0.0, 0.0, 1.0], limit=1.0, ended=0.25))
    system, model = found.system, found.system.model
    fallen = system.state_of(2, terminated=True)
    over = system.after_end_of(fallen)
    assert model.kernel.to_dense()[1, 0, [0, fallen]].tolist() == [0.5, 0.5]
    assert (1.0 - model.utilities[0, 0])[[fallen, over], 0].tolist() == [1.0, 0.25]
    assert system.known[[fallen, over]].all()
    assert found.visits[[fallen, over]].sum() == 0
    assert found.accuracy[[fallen, over]].sum() == 0.0
    assert not found.unvisited[[fallen, over]].any()


def test_logged_costs_are_paid_on_arrival():
    log = read_episodes([episode([0, 1, 0], [0, 0], costs=[0.5, 0.0]), episode([0, 1, 0], [0, 0], costs=[0.0, 0.0])])
    found = estimate_from_log(log, 2, SystemDescription(cost="logged", limit=1.0))
    system = found.system
    dear, cheap = system.state_of(1, 0.5), system.state_of(1)
    assert system.model.kernel.to_dense()[0, 0, [dear, cheap]].tolist() == [0.5, 0.5]
    assert (1.0 - system.model.utilities[0, 0, [dear, cheap], 0]).tolist() == [0.5, 0.0]
    assert found.visits[[dear, cheap], 0].tolist() == [2, 2]  # a copy has the row of its state
    first, second = found.trajectories()
    assert first.states.tolist() == [0, dear, 0]
    assert second.states.tolist() == [0, cheap, 0]


def test_logged_costs_that_are_all_zero_are_costs():
    log = read_episodes([episode([0, 1, 0], [0, 0], costs=[0.0, 0.0])])
    assert estimate_from_log(log, 2, SystemDescription(cost="logged", limit=1.0)).system.model.thresholds.tolist() == [2.0]


def test_a_cost_function_is_paid_on_arrival():
    log = read_episodes([([0, 1, 0], [0, 0])])
    found = estimate_from_log(log, 2, SystemDescription(cost=lambda s, a, t, reward, terminated: t == 1, limit=1.0))
    assert found.system.state_of(1, 1.0) == 1
    assert found.trajectories()[0].states.tolist() == [0, 1, 0]


# ---------------------------------------------------------------------------------------------------- the sources


def test_every_row_of_a_generative_simulator():
    found = estimate_by_sampling(
        Chain(), 5, SystemDescription(start=0, cost=[0.0, 0.0, 1.0], limit=5.0, ended=0.0), samples_per_row=4000
    )
    assert found.visits[:3].tolist() == [[4000, 4000]] * 3
    assert not found.unvisited.any()
    system = found.system
    rows = system.model.kernel.to_dense()
    assert rows[0, 1, :3] == pytest.approx(P[0, 1], abs=0.03)
    assert rows[1, 1, [0, system.state_of(2, terminated=True)]] == pytest.approx([0.5, 0.5], abs=0.03)
    assert found.system.reward[1, 0] == pytest.approx(11.0)
    assert (found.samples, found.start_samples) == (24000, 0)
    assert "24,000 samples of Chain started anywhere, 4000 in every row" in found.describe()
    assert "first state" not in found.describe()


class Thirsty(Chain):
    """Another row for state 0 and action 0, and one that takes more random numbers."""

    def sample(self, state, action, rng):
        return (
            (int(rng.integers(3) * (rng.random() < 0.5)), 0.0, False)
            if (state, action) == (0, 0)
            else super().sample(state, action, rng)
        )


def test_simulators_that_agree_on_a_row_give_the_same_row():
    one, two = (
        estimate_by_sampling(source, 3, SystemDescription(start=0, ended=0.0), samples_per_row=50)
        for source in (Chain(), Thirsty())
    )
    same = [table(one)[s][a] == table(two)[s][a] for s in range(3) for a in range(2)]
    assert same == [False, True, True, True, True, True]
    other = estimate_by_sampling(Chain(), 3, SystemDescription(start=0, ended=0.0), samples_per_row=50, seed=1)
    assert table(other)[0][1] != table(one)[0][1]


def test_rows_are_sampled_apart_from_each_other():
    alike = np.tile([[0.2, 0.3, 0.5]], (3, 2, 1))
    rows = table(estimate_by_sampling(Chain(alike), 3, SystemDescription(start=0, ended=0.0), samples_per_row=50))
    found = [tuple(entry[0] for entry in rows[s][a]) for s in (0, 2) for a in range(2)]
    assert len(set(found)) == 4


def test_the_table_is_one_that_a_system_reads():
    found = estimate_by_sampling(Chain(), 3, SystemDescription(start=0, ended=0))
    again = found.system.kernel_of(table(found))
    assert again.to_dense() == pytest.approx(found.system.model.kernel.to_dense())
    assert sum(entry[0] for entry in table(found)[1][1]) == pytest.approx(1.0)
    assert {entry[3] for entry in table(found)[1][1]} == {False, True}


def test_an_environment_is_run_in_episodes():
    found = estimate_by_running(ChainEnv(), 6, SystemDescription(cost=[0, 0, 1], limit=3.0, ended=0.0), episodes=800)
    rows = found.system.model.kernel.to_dense()
    assert rows[0, 1, :3] == pytest.approx(P[0, 1], abs=0.06)
    assert found.system.model.start[0] == 1.0
    assert found.start_samples == 800
    assert "800 episodes of ChainEnv" in found.describe()
    assert "first state is counted from 800" in found.describe()
    repeated = estimate_by_running(ChainEnv(), 6, SystemDescription(cost=[0, 0, 1], limit=3.0, ended=0.0), episodes=800)
    assert table(repeated) == table(found)
    other = estimate_by_running(ChainEnv(), 6, SystemDescription(cost=[0, 0, 1], limit=3.0, ended=0.0), episodes=800, seed=1)
    assert table(other) != table(found)


def test_a_behaviour_policy():
    lazy = MarkovPolicy.deterministic([0, 0, 0], num_actions=2, horizon=6)
    for policy in (lazy, lambda step, state, rng: 0):
        found = estimate_by_running(ChainEnv(), 6, episodes=30, policy=policy)
        assert found.visits.sum() == 180
        assert found.visits[:, 1].tolist() == [0, 0, 0]
    swapped = estimate_by_running(ChainEnv(ends=False), 6, episodes=30, policy=lambda step, state, rng: step % 2)
    assert swapped.visits.sum(axis=0).tolist() == [90, 90]


def test_costs_of_the_environments_info():
    found = estimate_by_running(ChainEnv(ends=False), 6, SystemDescription(cost="logged", limit=3.0), episodes=50)
    assert (1.0 - found.system.model.utilities[0, 0, found.system.state_of(2, 0.5), 0]) == 0.5
    env = found.system.as_env(ChainEnv(ends=False, first=(0, 0)))
    env.reset(seed=0)
    with pytest.raises(InvalidInput, match=r"the costs of this system were read from data.*give cost="):
        env.step(0)


def test_cells_are_sampled_or_run():
    cells = Discretised(gymnasium.make("MountainCar-v0"), bins=([-0.55, 0.2], 3))
    anywhere = estimate_by_sampling(cells, 3, samples_per_row=5)
    assert not anywhere.unvisited.any()
    assert anywhere.start_samples == 1000
    assert anywhere.system.model.start.sum() == pytest.approx(1.0)
    assert anywhere.system.model.start[cells.state_of((-0.5, 0.0))] == pytest.approx(0.75, abs=0.05)  # [-0.6, -0.4]
    run = estimate_by_running(cells, 3, episodes=5)
    assert (run.samples, run.unvisited.any()) == (15, True)


@pytest.mark.filterwarnings("ignore")
def test_what_a_campaign_exports_is_read_back(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    system, told = three_states(), []
    with Campaign.create(tmp_path / "campaign.db", system.specification) as campaign:
        for _ in range(12):
            deployment = campaign.ask(worker="w")
            told.append(system.episode(deployment))
            campaign.tell(deployment.id, told[-1])
        export_minari(campaign, "tiny/arm-v0")
    found = estimate_from_log("tiny/arm-v0", 4)
    read = found.trajectories()
    assert [one.states.tolist() for one in read] == [one.states.tolist() for one in told]
    assert [one.actions.tolist() for one in read] == [one.actions.tolist() for one in told]
    assert found.visits.sum() == 48


# ------------------------------------------------------------------------------------------------------ accuracy


def distances(found):
    """TV distance [6] of the rows of the chain to the true ones; the ended arrival counts as state 2."""
    rows, system = found.system.model.kernel.to_dense(), found.system
    result = []
    for s in range(3):
        for a in range(2):
            seen = np.zeros(3)
            for after, probability in enumerate(rows[s, a]):
                seen[system.origin[after]] += probability
            result.append(0.5 * np.abs(seen - P[s, a]).sum())
    return np.array(result)


@pytest.mark.parametrize(("estimates", "most"), [(40, 27), pytest.param(200, 90, marks=pytest.mark.slow)])
def test_the_accuracy_covers_the_true_rows(estimates, most):
    """Each estimate may fail with probability 0.3, so that more failures than `most` are a rare accident (below 1e-4)."""
    failed, ratios = 0, []
    for seed in range(estimates):
        found = estimate_by_sampling(
            Chain(), 3, SystemDescription(start=0), samples_per_row=60, seed=seed, counting=Counting(delta=0.3)
        )
        off = distances(found)
        allowed = found.accuracy[:3].reshape(-1)
        failed += bool((off > allowed).any())
        ratios.append(off.max() / allowed.max())
    assert failed <= most
    assert 0.05 < np.mean(ratios) < 0.9  # not a bound that says nothing


def test_the_accuracy_shrinks_with_samples_and_with_certainty():
    few, many = (estimate_by_sampling(Chain(), 3, SystemDescription(start=0), samples_per_row=n) for n in (100, 2500))
    assert many.worst < 0.3 * few.worst
    assert many.worst == many.accuracy[:3].max()
    sure = estimate_by_sampling(Chain(), 3, SystemDescription(start=0), samples_per_row=100, counting=Counting(delta=1e-6))
    assert sure.worst > few.worst
    assert f"worst {rounded_up(few.worst, 4)}" in few.describe()
    assert f"calibrated_gap must be at least {rounded_up(few.worst, 4)}" in few.describe()
    assert "with probability 0.95" in few.describe()


def test_the_accuracy_is_the_radius_of_what_is_possible_before_the_data_are_seen():
    """6 rows; any of 3 next states, terminated or not, at any of the 16 costs a system can have where costs are paid."""
    for cost, possible in ((None, 6), (lambda *_: 0.0, 96)):
        found = estimate_by_sampling(
            Chain(), 3, SystemDescription(start=0, cost=cost, limit=None if cost is None else 1, ended=0), samples_per_row=40
        )
        rule = rule_of(radii.Adaptive(), System(possible, 2, 3), RowFacts(np.full(6, possible)), 0.05)
        seen = len(table(found)[0][1])
        assert found.accuracy[0, 1] == radius_at(rule, 1, 40, seen)


def test_the_radius_is_a_choice_and_heuristics_say_so():
    literal = estimate_by_sampling(
        Chain(), 3, SystemDescription(start=0), samples_per_row=1000, counting=Counting(radius=radii.Literal())
    )
    tight = estimate_by_sampling(Chain(), 3, SystemDescription(start=0), samples_per_row=1000)
    assert literal.worst > tight.worst
    scaled = estimate_by_sampling(
        Chain(), 3, SystemDescription(start=0), samples_per_row=1000, counting=Counting(radius=radii.Scaled(0.4))
    )
    assert not scaled.certified
    assert "HEURISTIC, not a guarantee" in scaled.describe()


# --------------------------------------------------------------------------------------------------- trajectories


def test_logs_as_trajectories_for_a_baseline_and_its_margin():
    stops = episode([0, 1, 2], [0, 1], terminated=True)
    goes_on = episode([0, 1, 0, 1, 0, 0], [0, 1, 0, 0, 1])  # longer than the horizon
    found = estimate_from_log([stops, goes_on], 4, SystemDescription(cost=[0.0, 0.0, 1.0], limit=3.0, ended=0.5))
    system = found.system
    fallen = system.state_of(2, terminated=True)
    over = system.after_end_of(fallen)
    first, second = found.trajectories()
    assert first.states.tolist() == [0, 1, fallen, over, over]
    assert first.actions.tolist() == [0, 1, 0, 0]
    assert second.states.tolist() == [0, 1, 0, 1, 0]
    assert second.actions.tolist() == [0, 1, 0, 0]
    baseline = clone_baseline(system.model, found.trajectories(), smoothing=0.0)
    assert baseline.probabilities[0, 1].tolist() == pytest.approx([1 / 3, 2 / 3])
    margin = estimate_margin(system.model, found.trajectories(), delta=0.1)
    assert margin.means == pytest.approx([5 - (1.0 + 0.5 + 0.5) / 2])  # fallen for one step, over for one and at the end


def test_an_episode_that_ends_with_the_last_step():
    found = estimate_from_log([episode([0, 1, 2], [0, 0], terminated=True)], 2)
    assert found.trajectories()[0].states.tolist() == [0, 1, found.system.state_of(2, terminated=True)]


def test_other_logs_in_the_same_numbers():
    found = estimate_by_sampling(Chain(), 3, SystemDescription(start=0, ended=0))
    with pytest.raises(InvalidInput, match=r"estimated from Chain started anywhere.*not from logs; give log=read_episodes"):
        found.trajectories()
    log = read_episodes([([0, 0, 1, 0], [0, 0, 1])])
    assert found.trajectories(log)[0].states.tolist() == [0, 0, 1, 0]
    short = read_episodes([([0, 0], [0])])
    with pytest.raises(InvalidInput, match="stop before the horizon of 3"):
        found.trajectories(short)
    assert found.trajectories(short, partial=True)[0].length == 1


# ------------------------------------------------------------------------------------------------------ bad input


def test_episodes_shorter_than_the_horizon():
    log = read_episodes([([0, 1, 0], [0, 0]), ([0, 1, 1, 0], [0, 0, 0]), ([0] * 6, [0] * 5)])
    with pytest.raises(
        InvalidInput,
        match=r"2 of 3 episodes stop before the horizon of 5 .*episode 0 after 2 steps; .*at most 2, or partial=True",
    ):
        estimate_from_log(log, 5)
    assert estimate_from_log(log, 5, counting=Counting(partial=True)).samples == 10
    assert estimate_from_log(log, 2).samples == 10
    ended = [episode([0, 1], [0], terminated=True)]
    assert estimate_from_log(ended, 5).samples == 1


def test_an_environment_that_is_cut_off_before_the_horizon():
    env = gymnasium.wrappers.TimeLimit(ChainEnv(ends=False), 3)
    with pytest.raises(InvalidInput, match=r"ChainEnv cut episode 0 off after 3 steps.*max_episode_steps=5 or more"):
        estimate_by_running(env, 5, episodes=2)
    assert estimate_by_running(env, 5, episodes=2, counting=Counting(partial=True)).samples == 6
    assert estimate_by_running(env, 3, episodes=2).samples == 6


@pytest.mark.parametrize(
    ("source", "more", "message"),
    [
        (
            gymnasium.make("MountainCar-v0"),
            {},
            r"observation space of MountainCarEnv is Box.*not Discrete.*Discretised\(env",
        ),
        (gymnasium.make("Pendulum-v1"), {"episodes": 3}, r"observation space of PendulumEnv is Box"),
        (Chain(), {}, r"sample\(\) does not say where episodes start; give start="),
        (Chain(), {"start": 0, "cost": "logged", "limit": 1.0}, r"sample\(\) gives no cost"),
        (Chain(), {"start": 0, "samples_per_row": 0}, r"samples_per_row is 0"),
        (Chain(), {"start": 0, "delta": 1.0}, r"delta is 1; the probability of failure"),
        (Chain(), {"start": 0, "seed": -1}, r"seed is -1"),
        (Chain(), {"start": 0, "unvisited": "zero"}, r"unvisited is 'zero'; give 'uniform' or 'stay'"),
        (Chain(), {"start": 0, "cost": "costs"}, r"cost is 'costs'; give an array, a function, or 'logged'"),
        (Chain(), {"start": 0, "cost": [0, 0, 1]}, r"a cost is given without its limit"),
        (
            Chain(),
            {"start": 0, "radius": "kl"},
            r"radius is 'kl'; give one of .*: radii.Literal\(\), radii.KL\(\)",
        ),
        (Chain(), {"start": 0, "radius": radii.KL}, r"radius is <class .*; give one of"),
        (ChainEnv(), {"episodes": 0}, r"episodes is 0"),
        (ChainEnv(), {"policy": 3}, r"policy is 3; give a MarkovPolicy or a function"),
        (ChainEnv(), {"policy": lambda *_: 2}, r"policy\(0, 0\) is 2; it must be a whole number from 0 to 1"),
        (ChainEnv(), {"policy": MarkovPolicy.uniform(horizon=2, num_states=3, num_actions=2)}, r"\(H, S, A\) = \(2, 3, 2\)"),
        (ChainEnv(cost=False), {"cost": "logged", "limit": 1}, r"the environment's info has no 'cost'"),
        ([episode([0] * 5, [0] * 4)], {"cost": "logged", "limit": 1}, r"episode 0 has no costs; cost='logged' needs them"),
        ([episode([0] * 5, [0] * 4, costs=[0, 0, 3, 0])], {"cost": "logged", "limit": 1}, r"costs\[2\] is 3; costs lie in"),
        (3.5, {}, r"the dataset is a float; give a list of"),
    ],
)
def test_bad_input(source, more, message):
    with pytest.raises(InvalidInput, match=message):
        estimated(source, 4, **more)


def test_a_sample_outside_the_states():
    broken = Chain()
    broken.sample = lambda state, action, rng: (3, 0.0, False)
    with pytest.raises(InvalidInput, match=r"sample\(0, 0\): the next state is 3; it must be a whole number from 0 to 2"):
        estimate_by_sampling(broken, 4, SystemDescription(start=0))


class Untouched(Chain):
    """A simulator that must not be sampled."""

    def sample(self, state, action, rng):
        raise AssertionError("sampled before the arguments were checked")


class UntouchedEnv(ChainEnv):
    """An environment that must not be run."""

    def reset(self, *, seed=None, options=None):
        raise AssertionError("run before the arguments were checked")


@pytest.mark.parametrize("source", [Untouched(), UntouchedEnv()])
@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            {"cost": [0, 1], "limit": 1.0},
            r"cost has shape \(2,\); give one entry for each of .*states, \(3,\)",
        ),
        ({"cost": [0, 0, 7], "limit": 1.0}, r"cost.* 7"),
        ({"cost": [0, 0, 1]}, r"a cost is given without its limit"),
        ({"cost": lambda *_: 0.0}, r"a cost is given without its limit"),
        ({"cost": "logged"}, r"a cost is given without its limit"),
        ({"limit": 1.0}, r"limit is given without a cost"),
        ({"cost": [0, 0, 1], "limit": -1.0}, r"-1"),
        ({"start": 3}, r"start is 3; give one of the environment's 3 states"),
        ({"start": [0.5, 0.5]}, r"start is \[0.5, 0.5\]; give one of the environment's 3 states"),
        ({"cost": [0, 0, 1], "limit": 1.0, "ended": [0, 1]}, r"ended has shape \(2,\)"),
        ({"cost": [0, 0, 1], "limit": 1.0, "ended": 2}, r"ended is 2"),
        (
            {"cost": lambda state, action: 0.0, "limit": 1.0},
            r"cost is called with \(state, action, next_state, reward, terminated\), which does not fit it",
        ),
    ],
)
def test_arguments_are_checked_before_samples_are_taken(source, more, message):
    with pytest.raises(InvalidInput, match=message):
        estimated(source, 4, **{"start": 0, **more})


def test_where_episodes_start_is_asked_before_samples_are_taken():
    with pytest.raises(InvalidInput, match=r"sample\(\) does not say where episodes start"):
        estimate_by_sampling(Untouched(), 4)


class Half:
    """It can be sampled, but of its sizes it tells one."""

    num_states = 3
    sample = Chain.sample
    rows = P


class HalfEnv(ChainEnv):
    sample = Chain.sample
    rows = P


def test_a_simulator_that_does_not_tell_its_sizes():
    with pytest.raises(InvalidInput, match=r"Half has sample\(\) but no num_actions; add what is missing$"):
        estimate_by_sampling(Half(), 4, SystemDescription(start=0))
    with pytest.raises(InvalidInput, match=r"no num_states and no num_actions; add what is missing, or run it"):
        estimate_by_sampling(HalfEnv(), 4)
    assert estimate_by_running(HalfEnv(ends=False), 4, episodes=5).samples == 20
    broken = Chain()
    broken.num_states = "three"
    with pytest.raises(InvalidInput, match=r"num_states is 'three'"):
        estimate_by_sampling(broken, 4, SystemDescription(start=0))


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ((0, np.nan, False), r"the reward is nan; it must be a finite number"),
        ((0, -np.inf, False), r"the reward is -inf"),
        ((0, None, False), r"the reward is None"),
        ((0, "1", False), r"the reward is '1'"),
        ((0, 0.0, {}), r"terminated is {}; give True where the environment ended the episode, else False"),
        ((0, 0.0, False, False, {}), r"is \(0, 0.0, False, False, {}\); it must be \(next state, reward, terminated\)"),
        (0, r"is 0; it must be \(next state, reward, terminated\)"),
        (None, r"is None; it must be \(next state, reward, terminated\)"),
    ],
)
def test_what_sample_must_not_return(result, message):
    broken = Chain()
    broken.sample = lambda state, action, rng: result if (state, action) == (1, 0) else (0, 0.0, False)
    with pytest.raises(InvalidInput, match=rf"sample\(1, 0\):? {message}"):
        estimate_by_sampling(broken, 4, SystemDescription(start=0), samples_per_row=2)


def test_sample_and_policy_with_other_arguments():
    broken = Chain()
    broken.sample = lambda state, action: (0, 0.0, False)
    with pytest.raises(InvalidInput, match=r"simulator.sample is called with \(state, action, rng\), which does not fit it"):
        estimate_by_sampling(broken, 4, SystemDescription(start=0))
    with pytest.raises(InvalidInput, match=r"policy is called with \(step, state, rng\), which does not fit it"):
        estimate_by_running(ChainEnv(), 4, policy=lambda state: 0)


class OddEnv(ChainEnv):
    """An environment whose second step shows something else."""

    def __init__(self, **odd):
        super().__init__(ends=False)
        self.odd = odd

    def step(self, action):
        observed, reward, ended, cut, info = super().step(action)
        if self.steps == 1:
            observed, reward = self.odd.get("observed", observed), self.odd.get("reward", reward)
            info = {"cost": self.odd.get("cost", 0.0)}
        self.steps += 1
        return observed, reward, ended, cut, info

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        observed, info = super().reset(seed=seed)
        return self.odd.get("first", observed), info


@pytest.mark.parametrize(
    ("odd", "message"),
    [
        ({"reward": np.nan}, r"episode 0, step 1: the reward is nan; it must be a finite number"),
        ({"reward": None}, r"episode 0, step 1: the reward is None"),
        ({"cost": np.inf}, r"episode 0, step 1: info\['cost'\] is inf"),
        ({"observed": 4}, r"episode 0, step 1: the observation, counted from 0, is -1; it must be .* from 0 to 2"),
        ({"observed": 8}, r"episode 0, step 1: the observation, counted from 0, is 3"),
        ({"observed": 5.5}, r"episode 0, step 1: the observation, counted from 0, is 5.5"),
        ({"first": None}, r"episode 0, reset: the observation, counted from 0, is None"),
    ],
)
def test_what_an_environment_must_not_show(odd, message):
    with pytest.raises(InvalidInput, match=message):
        estimate_by_running(OddEnv(**odd), 4, SystemDescription(cost="logged", limit=1.0), episodes=2)
    assert estimate_by_running(OddEnv(observed=np.array(6)), 4, episodes=2).samples == 8


def test_an_end_that_nobody_saw_costs_nothing_so_saying_its_cost_is_refused():
    message = r"ended is given, but no episode ended in the samples of .*; say which .*, take more samples, or leave"
    pairs = [([0, 1, 2], [0, 0])]
    for source, more in ((pairs, {}), (ChainEnv(ends=False), {"episodes": 3}), (Chain(P[:, [0, 0]]), {"start": 0})):
        with pytest.raises(InvalidInput, match=message):
            estimated(source, 2, cost=[0, 0, 1], limit=1.0, ended=1.0, **more)
    found = estimate_from_log([(*pairs[0], True)], 2, SystemDescription(cost=[0, 0, 1], limit=1.0, ended=1.0))
    fallen = found.system.state_of(2, terminated=True)
    assert (1.0 - found.system.model.utilities[0, 0, found.system.after_end_of(fallen), 0]) == 1.0
    assert found.system.known[fallen].all()  # not a state that nobody has left


def test_what_is_missing_from_logs_is_an_assumption_that_is_said():
    said = "This assumes that no step is missing because of what it would have shown"
    assert said in estimate_from_log([([0, 1, 0], [0, 0])], 2).describe()
    cut = gymnasium.wrappers.TimeLimit(ChainEnv(ends=False), 3)
    assert said in estimate_by_running(cut, 5, episodes=2, counting=Counting(partial=True)).describe()
    assert said not in estimate_by_running(cut, 3, episodes=2).describe()
    assert said not in estimate_by_sampling(Chain(), 3, SystemDescription(start=0)).describe()


def test_episodes_of_one_step():
    log = [
        episode([0, after], [0], rewards=[float(after)], terminated=over)
        for after, over in ((1, False), (1, True), (0, False))
    ]
    found = estimate_from_log(log, 1, SystemDescription(ended=0.0))
    system = found.system
    row = system.model.kernel.to_dense()[0, 0]
    assert row[[1, system.state_of(1, terminated=True), 0]] == pytest.approx([1 / 3] * 3)
    assert [one.length for one in found.trajectories()] == [1, 1, 1]


def test_unvisited_rows_that_do_not_fit(monkeypatch):
    monkeypatch.setattr(module, "_MOST_WRITTEN_OUT", 89)
    log = read_episodes([([0, 1], [0])], num_states=10)
    with pytest.raises(InvalidInput, match=r"9 rows were never visited; written out as uniform over 10 .*unvisited='stay'"):
        estimate_from_log(log, 1)
    assert estimate_from_log(log, 1, counting=Counting(unvisited="stay")).system.model.num_states == 10


@pytest.mark.parametrize(
    "cost",
    [
        lambda s, a, t, reward, over: reward == -1.0,
        lambda s, a, t, reward, over: reward < 0.0,
        lambda s, a, t, reward, over: max(0.0, -reward),
        lambda s, a, t, reward, over: 0.5 * abs(reward),
        lambda s, a, t, reward, over: over and not reward,
        lambda s, a, t, reward, over: np.isclose(reward, -1.0),
        lambda s, a, t, reward, over: float(np.clip(reward, 0.0, 1.0)),
        lambda s, a, t, reward, over: {-1.0: 1.0}.get(reward, 0.0),
        lambda s, a, t, reward, over: reward,
    ],
)
def test_a_log_without_rewards_is_refused_where_the_cost_depends_on_them(cost):
    """Every reward was taken for 0, so nothing in such a log cost anything, and a margin confirmed by it was false."""
    described = SystemDescription(cost=cost, limit=1.0, ended=0.0)
    whole = [
        episode([0, 1, 0], [0, 0], rewards=[-1.0, 0.0]),
        episode([0, 1, 1], [0, 1], rewards=[0.0, -1.0], terminated=True),
    ]
    if cost(0, 0, 1, -1.0, False) >= 0.0:
        found = estimate_from_log(read_episodes(whole), 2, described)
        for log in ([([0, 1, 0], [0, 0], True)], [episode([0, 1, 0], [0, 0], terminated=True)]):
            with pytest.raises(InvalidInput, match="episode 0 has no rewards"):
                found.trajectories(log)
    with pytest.raises(InvalidInput, match="episode 0 has no rewards"):
        estimate_from_log([([0, 1, 0], [0, 0], True)], 2, described)


def test_a_log_without_rewards_serves_where_the_cost_does_not_depend_on_them():
    described = SystemDescription(cost=lambda s, a, t, reward, over: float(t == 1), limit=1.0)
    found = estimate_from_log([([0, 1, 0], [0, 0])], 2, described)
    assert [path.states.tolist() for path in found.trajectories([([0, 1, 0], [0, 0])])]
    with pytest.raises(InvalidInput, match=r"cost\(0, 0, 1, no reward, False\) is 2"):
        estimate_from_log([([0, 1], [0])], 1, SystemDescription(cost=lambda s, a, t, reward, over: 2.0, limit=1.0))
