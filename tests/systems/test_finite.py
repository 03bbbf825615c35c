"""`from_gymnasium`: the same values as the table gives when it is followed step by step, whatever ends and costs it has."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import safe2real as s2r
from safe2real import examples
from safe2real.errors import InvalidInput
from safe2real.exploration import explore
from safe2real.systems import from_gymnasium
from safe2real.systems.finite import SystemDescription
from safe2real.systems.outcomes import ENDED, read_table


class TableEnv(examples.TableEnv):
    """Any table as an environment."""

    def __init__(self, table, start=0):
        super().__init__(table, start)


class SilentStart(TableEnv):
    """It does not say where it starts."""

    def __init__(self, table):
        super().__init__(table)
        del self.initial_state_distrib


def corridor(slip=0.25):
    """0 - 1 - 2: action 0 stays, action 1 goes on; from 1 it ends in 2, or slips back to 0 at a cost told by the reward."""
    return {
        0: {0: [(1.0, 0, 0.0, False)], 1: [(1.0, 1, 0.0, False)]},
        1: {0: [(1.0, 1, 0.0, False)], 1: [(1.0 - slip, 2, 1.0, True), (slip, 0, -1.0, False)]},
        2: {0: [(1.0, 2, 0.0, True)], 1: [(1.0, 2, 0.0, True)]},
    }


def slipped(state, action, successor, reward, terminated):
    return reward < 0.0


def expected_cost(env, policy, horizon, cost, ended):
    """The table followed by hand: probability of every state, cost of every transition, nothing of the package."""
    table, total = env.unwrapped.P, 0.0
    alive, arrived, over = np.array(env.unwrapped.initial_state_distrib, dtype=float), 0.0, 0.0
    for _h in range(horizon):
        total += over * ended  # from the second step after the end; in the first the arrival itself is paid
        after, finished = np.zeros(len(table)), 0.0
        for s, a in np.ndindex(len(table), len(table[0])):
            flow = alive[s] * policy[s, a]
            for p, t, r, terminated in table[s][a]:
                total += flow * p * cost(s, a, t, r, terminated)
                if terminated:
                    finished += flow * p
                else:
                    after[t] += flow * p
        alive, arrived, over = after, finished, over + arrived
    return total + over * ended  # at the end


def test_numbers_rows_costs_and_what_is_known_by_hand():
    system = from_gymnasium(TableEnv(corridor()), 5, SystemDescription(cost=slipped, limit=1.0, ended=0.5))
    # 2 keeps its number, as it is entered in one way only; 0 is entered plainly and by slipping; then the end.
    assert dict(system.arrivals) == {
        (0, 0.0, False): 0, (1, 0.0, False): 1, (2, 0.0, True): 2, (0, 1.0, False): 3, (ENDED, 0.5, True): 4,
    }  # fmt: skip
    assert system.origin.tolist() == [0, 1, 2, 0, -1]
    rows = system.model.kernel.to_dense()
    assert rows[1, 1].tolist() == [0.0, 0.0, 0.75, 0.25, 0.0]
    assert rows[3].tolist() == [[1.0, 0, 0, 0, 0], [0, 1.0, 0, 0, 0]]  # the copy behaves as 0 does: staying is a plain entry
    assert rows[2, :, 4].tolist() == rows[4, :, 4].tolist() == [1.0, 1.0]
    assert (1.0 - system.model.utilities[0, 0]).tolist() == [[0, 0], [0, 0], [0, 0], [1, 1], [0.5, 0.5]]
    assert system.model.thresholds.tolist() == [5.0]  # of 5 steps and the end
    assert system.known.tolist() == [[False] * 2, [False] * 2, [True] * 2, [False] * 2, [True] * 2]
    assert system.reward.tolist() == [[0, 0], [0, 0.5], [0, 0], [0, 0], [0, 0]]
    assert system.unit_reward[1, 1] == 1.0
    assert system.unit_reward[0, 0] == 0.0
    assert system.where([0]).tolist() == [[1, 1], [0, 0], [0, 0], [1, 1], [0, 0]]
    assert system.per_state([5, 6, 7]).tolist() == [5, 6, 7, 5, 5]
    assert system.state_of(0, cost=1.0) == 3


@pytest.mark.parametrize("ended", [0.3, *(pytest.param(one, marks=pytest.mark.slow) for one in (0.0, 1.0))])
@pytest.mark.parametrize(
    ("name", "arguments", "cost"),
    [
        ("FrozenLake-v1", {"map_name": "8x8", "success_rate": 0.6}, lambda s, a, t, r, done: done and r == 0),
        ("CliffWalking-v1", {"is_slippery": True}, lambda s, a, t, r, done: r == -100),
        ("Taxi-v4", {"is_rainy": True}, lambda s, a, t, r, done: 0.5 * (r == -10)),
    ],
)
def test_expected_costs_are_those_of_the_table(name, arguments, cost, ended):
    env, horizon = gymnasium.make(name, **arguments), 14
    rng = np.random.default_rng(1)
    table = rng.dirichlet(np.ones(env.action_space.n), size=env.observation_space.n)
    expected = expected_cost(env, table, horizon, cost, ended)
    for drop in (False, True):
        system = from_gymnasium(
            env, horizon, SystemDescription(cost=cost, limit=horizon, ended=ended, drop_unreachable=drop)
        )
        policy = s2r.MarkovPolicy.stochastic(system.per_state(table), horizon=horizon)
        paid = system.model.wordings[0].number(s2r.planning.constraint_values(system.model, policy)[0])
        assert paid == pytest.approx(expected, abs=1e-9)
    assert expected > 0.01


def test_costs_of_states_are_paid_for_being_there_and_once_where_the_episode_ends():
    system = from_gymnasium(TableEnv(corridor(slip=0.0)), 6, SystemDescription(cost=[0.0, 0.25, 1.0], limit=2.0, ended=0.1))
    go_on = s2r.MarkovPolicy.deterministic(np.ones(system.model.num_states), num_actions=2, horizon=6)
    # steps: 0, 1 (0.25), arrived in 2 (1.0), ended, ended, ended (0.1 each), and at the end of the episode (0.1)
    assert 7.0 - s2r.planning.constraint_values(system.model, go_on)[0] == pytest.approx(0.25 + 1.0 + 0.4)
    by_action = from_gymnasium(
        TableEnv(corridor(0.0)), 6, SystemDescription(cost=[[0, 1], [0, 0], [0, 0]], limit=2.0, ended=0.0)
    )
    assert 6.0 - s2r.planning.constraint_values(by_action.model, go_on)[0] == pytest.approx(1.0)


def test_the_end_can_cost_something_else_in_every_state():
    table = corridor(slip=0.0)
    table[0][0] = [(1.0, 1, 0.0, True)]  # action 0 gives up: the episode ends in 1
    env = TableEnv(table)
    system = from_gymnasium(env, 6, SystemDescription(cost=[0.0, 0.0, 0.0], limit=6.0, ended=[0.0, 0.75, 0.25]))
    assert system.arrivals[ENDED, 0.25, True] == 4  # 0, 1, 2; then 1 entered by giving up; then the two ends
    assert system.arrivals[ENDED, 0.75, True] == 5
    go_on, give_up = (
        s2r.MarkovPolicy.deterministic(np.full(system.model.num_states, action), num_actions=2, horizon=6)
        for action in (1, 0)
    )
    assert 7.0 - s2r.planning.constraint_values(system.model, go_on)[0] == pytest.approx(4 * 0.25)
    assert 7.0 - s2r.planning.constraint_values(system.model, give_up)[0] == pytest.approx(5 * 0.75)
    assert system.kernel_of(env).to_dense().tolist() == system.model.kernel.to_dense().tolist()
    running = system.as_env(env)
    running.reset(seed=0)
    assert [running.step(0)[0] for _ in range(3)] == [system.state_of(1, terminated=True), 5, 5]


def test_only_what_the_horizon_reaches_is_kept_when_asked():
    env = gymnasium.make("CliffWalking-v1")
    kept = from_gymnasium(env, 3, SystemDescription(drop_unreachable=True))
    # From the corner: itself, one to three up, and right of those (the cliff lies to the right of the corner itself).
    assert sorted(kept.origin.tolist()) == [0, 12, 13, 24, 25, 26, 36]
    assert ENDED not in kept.origin
    ending = from_gymnasium(
        TableEnv(corridor()), 2, SystemDescription(drop_unreachable=True)
    )  # the last step can end the episode
    assert set(ending.arrivals) == {(0, 0.0, False), (1, 0.0, False), (2, 0.0, True), (ENDED, 0.0, True)}
    one_step = from_gymnasium(TableEnv(corridor()), 1, SystemDescription(drop_unreachable=True))
    assert set(one_step.arrivals) == {(0, 0.0, False), (1, 0.0, False)}
    assert one_step.model.kernel.to_dense()[1].tolist() == [[0.0, 1.0], [0.0, 1.0]]  # nobody acts in 1 any more
    assert not one_step.known.any()  # a real system may get there earlier, and then it does act
    with pytest.raises(InvalidInput, match=r"action 0 in state 36 leads to state 37 \(cost 0, not terminated\)"):
        kept.kernel_of(TableEnv({s: {a: [(1.0, min(s + 1, 47), 0.0, False)] for a in range(4)} for s in range(48)}, 36))


def test_another_table_in_the_same_numbering():
    simulator = from_gymnasium(TableEnv(corridor(slip=0.1)), 5, SystemDescription(cost=slipped, limit=1.0, ended=0.0))
    real = simulator.kernel_of(TableEnv(corridor(slip=0.6)))
    assert real.to_dense()[1, 1].tolist() == [0.0, 0.0, 0.4, 0.6, 0.0]
    same = simulator.kernel_of(TableEnv(corridor(slip=0.1)))
    assert (same.to_dense() == simulator.model.kernel.to_dense()).all()
    never = from_gymnasium(TableEnv(corridor(slip=0.0)), 5, SystemDescription(cost=slipped, limit=1.0, ended=0.0))
    with pytest.raises(
        InvalidInput, match=r"action 1 in state 1 leads to state 0 \(cost 1, not terminated\).*build it from"
    ):
        never.kernel_of(TableEnv(corridor(slip=0.6)))
    with pytest.raises(InvalidInput, match="has 64 states and 4 actions; the system was made of one with 3 states"):
        never.kernel_of(gymnasium.make("FrozenLake-v1", map_name="8x8"))


def test_the_running_environment_shows_the_states_of_the_system():
    system = from_gymnasium(TableEnv(corridor(slip=0.0)), 5, SystemDescription(cost=slipped, limit=1.0, ended=0.0))
    env = system.as_env(TableEnv(corridor(slip=0.0)))
    assert env.reset(seed=1)[0] == 0
    shown = [env.step(action) for action in (0, 1, 1, 0, 1)]
    assert [observation for observation, *_ in shown] == [
        0,
        1,
        2,
        system.arrivals[ENDED, 0.0, True],
        system.arrivals[ENDED, 0.0, True],
    ]
    assert [terminated for _, _, terminated, _, _ in shown] == [False] * 5
    assert [truncated for _, _, _, truncated, _ in shown] == [False] * 4 + [True]
    assert env.reset(seed=1)[0] == 0  # a new episode begins at the beginning
    assert env.step(1)[0] == 1


def test_slips_of_the_running_environment_are_paid_for():
    system = from_gymnasium(TableEnv(corridor(slip=0.5)), 4, SystemDescription(cost=slipped, limit=1.0, ended=0.0))
    env = system.as_env(TableEnv(corridor(slip=1.0)))
    env.reset(seed=0)
    assert [env.step(1)[0] for _ in range(3)] == [1, system.state_of(0, cost=1.0), 1]
    stranger = from_gymnasium(TableEnv(corridor(slip=0.0)), 4, SystemDescription(cost=slipped, limit=1.0, ended=0.0))
    env = stranger.as_env(TableEnv(corridor(slip=1.0)))
    env.reset(seed=0)
    env.step(1)
    with pytest.raises(InvalidInput, match=r"entered state 0 \(cost 1, not terminated\), which this system does not have"):
        env.step(1)


def test_a_learner_explores_a_gymnasium_environment_as_it_explores_its_kernel():
    def fell(s, a, t, r, done):
        return done and r == 0

    horizon = 10
    slippery = gymnasium.make("FrozenLake-v1", success_rate=0.8)
    system = from_gymnasium(slippery, horizon, SystemDescription(cost=fell, limit=0.9, ended=0.0))
    baseline = s2r.MarkovPolicy.deterministic(system.per_state(np.zeros(16)), num_actions=4, horizon=horizon)
    settings = s2r.Settings(margin=0.3, calibrated_gap=0.0, mismatch_gap=0.5, tolerance=0.05, replan_growth=1.0, seed=0)
    learner = s2r.Learner(s2r.Problem(system.model, baseline, settings, known=system.known))
    explore(learner, system.as_env(slippery), max_rounds=200)
    counts = learner.evidence.counts
    assert counts.episodes == 200
    visits, dense = counts.visits.reshape(-1), system.model.kernel.to_dense().reshape(-1, 17)
    for row in np.flatnonzero(visits):
        assert (counts.empirical_row(row)[dense[row] == 0.0] == 0.0).all()  # nothing that the table rules out
    assert visits[0] > 100
    # Left from the start stays in the first column; one of the slips stays too, the other goes down.
    assert counts.empirical_row(0)[0] == pytest.approx(0.9, abs=0.05)


def test_what_the_model_has_no_state_for_is_kept_as_far_as_it_was_seen_and_ends_certification():
    never = from_gymnasium(TableEnv(corridor(slip=0.0)), 4, SystemDescription(cost=slipped, limit=1.0, ended=0.0))
    go_on = s2r.MarkovPolicy.deterministic(np.ones(never.model.num_states), num_actions=2, horizon=4)
    settings = s2r.Settings(margin=0.9, calibrated_gap=0.0, mismatch_gap=0.5, tolerance=0.2, replan_growth=0.5)
    learner = s2r.Learner(s2r.Problem(never.model, go_on, settings, known=never.known))
    assert learner.propose().certificate.certified
    with pytest.raises(s2r.errors.OutsideModel, match=r"entered state 0 \(cost 1, not terminated\)"):
        explore(learner, never.as_env(TableEnv(corridor(slip=1.0))), max_rounds=200)
    # Whole episodes before it, and what led to the slip, which itself has no state to be counted in.
    assert 4 * (learner.round - 2) < learner.samples < 4 * (learner.round - 1)
    assert np.argwhere(learner.evidence.refuted).tolist() == [[1, 1]]
    proposal = learner.propose()
    assert proposal.reason is s2r.methods.Reason.BASELINE
    assert not proposal.certificate.certified
    assert "the data contradict an assumption about 1 row," in proposal.certificate.describe()
    assert not learner.plan(never.where([2])).certificate.certified


def test_an_episode_that_begins_elsewhere_ends_certification_too():
    system = from_gymnasium(
        TableEnv(corridor()), 4, SystemDescription(start=0, cost=slipped, limit=1.0, ended=0.0, drop_unreachable=True)
    )
    stay = s2r.MarkovPolicy.deterministic(np.zeros(system.model.num_states), num_actions=2, horizon=4)
    settings = s2r.Settings(margin=0.9, calibrated_gap=0.0, mismatch_gap=0.2, tolerance=0.2)
    learner = s2r.Learner(s2r.Problem(system.model, stay, settings, known=system.known))
    explore(learner, system.as_env(TableEnv(corridor())), max_rounds=1)  # before that it is a slip that can be mended
    counted = learner.samples
    elsewhere = TableEnv(corridor(), start=2)
    with pytest.raises(s2r.errors.OutsideModel, match=r"entered state 2 \(cost 0, not terminated\)"):
        explore(learner, system.as_env(elsewhere), max_rounds=5)
    assert learner.samples == counted
    assert not learner.propose().certificate.certified


def test_rewards_on_states_and_values_per_state_are_checked():
    system = from_gymnasium(TableEnv(corridor()), 5, SystemDescription(cost=slipped, limit=1.0, ended=0.0))
    assert system.where({0, 2}).tolist() == system.where([True, False, True]).tolist() == system.where([2, 0]).tolist()
    for states, message in (
        ([3], r"states\[0\] is 3; the environment's states run from 0 to 2"),
        ([-1], r"states\[0\] is -1"),
        ([0.5], "the environment's states are whole numbers"),
        ([True, False], "the environment's states are whole numbers"),
    ):
        with pytest.raises(InvalidInput, match=message):
            system.where(states)
    for values in ([1, 2], [1, 2, 3, 4], 7):
        with pytest.raises(InvalidInput, match="give one entry for each of the environment's 3 states"):
            system.per_state(values)


def test_actions_that_begin_elsewhere_are_counted_from_0():
    class Shifted(TableEnv):
        def __init__(self):
            super().__init__(corridor(slip=0.0))
            self.action_space = spaces.Discrete(2, start=1)

        def step(self, action):
            return super().step(action - 1)

    system = from_gymnasium(Shifted(), 5, SystemDescription(cost=slipped, limit=1.0, ended=0.0))
    env = system.as_env(Shifted())
    env.reset(seed=0)
    assert [env.step(action)[0] for action in (0, 1, 1)] == [0, 1, 2]


def test_another_environment_must_start_alike():
    system = from_gymnasium(TableEnv(corridor()), 5, SystemDescription(cost=slipped, limit=1.0, ended=0.0))
    elsewhere = TableEnv(corridor(), start=1)
    with pytest.raises(
        InvalidInput, match=r"starts in state 0 with probability 0, this system with 1; make both start alike"
    ):
        system.kernel_of(elsewhere)
    assert system.kernel_of(elsewhere.P).to_dense().tolist() == system.model.kernel.to_dense().tolist()


@pytest.mark.parametrize(
    ("shown", "message"), [(-1, r"entered state -1"), (0.9, r"an observation is 0.9; a state is a whole")]
)
def test_observations_that_are_no_states_are_refused(shown, message):
    class Strange(TableEnv):
        def step(self, action):
            return shown, 0.0, True, False, {}

    env = from_gymnasium(TableEnv(corridor()), 5, SystemDescription(cost=slipped, limit=1.0, ended=0.0)).as_env(
        Strange(corridor())
    )
    env.reset(seed=0)
    with pytest.raises(InvalidInput, match=message):
        env.step(0)


# ------------------------------------------------------------------------------------------------------------ bad input


def frozen_lake():
    return gymnasium.make("FrozenLake-v1")


@pytest.mark.parametrize(
    ("env", "horizon", "message"),
    [
        (gymnasium.make("CartPole-v1"), 9, r"observation space of CartPoleEnv is Box.*Discretised"),
        (gymnasium.make("Blackjack-v1"), 9, r"observation space of BlackjackEnv is Tuple"),
        ("FrozenLake-v1", 9, r"env is a str; give a Gymnasium environment"),
        (frozen_lake(), 0, r"horizon is 0; it must be a whole number of at least 1"),
        (SilentStart(corridor()), 9, r"does not say where its episodes start"),
    ],
)
def test_an_environment_that_cannot_be_numbered_is_refused_with_its_cure(env, horizon, message):
    with pytest.raises(InvalidInput, match=message):
        from_gymnasium(env, horizon)


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        ({"cost": np.zeros(3), "limit": 1, "ended": 0}, r"cost has shape \(3,\); give one"),
        ({"cost": np.zeros(16)}, r"a cost is given without its limit"),
        ({"limit": 1.0}, r"limit is given without a cost"),
        ({"cost": np.zeros(16), "limit": 1}, r"can end before the horizon; give ended="),
        ({"cost": np.ones(16) * 2, "limit": 1, "ended": 0}, r"cost\[0, 0\] is 2; costs lie"),
        ({"cost": lambda *_: 3, "limit": 1, "ended": 0}, r"cost\(0, 0, 0, 0, False\) is 3"),
        ({"cost": lambda s: 0, "limit": 1, "ended": 0}, r"cost is called with \(state, action, next_state"),
        ({"cost": lambda *_: None, "limit": 1, "ended": 0}, r"cost\(0, 0, 0, 0, False\)"),
        (
            {"cost": lambda s, a, t, r, d: s / 100 + a / 9, "limit": 1, "ended": 0},
            r"transitions have \d+ different costs; at most 16.*round them",
        ),
        ({"ended": [0.0]}, r"ended has shape \(1,\); give one number, or one for each"),
        ({"ended": 2.0}, r"ended is 2.0; what a step after the end costs lies in"),
        ({"start": 16}, r"start is 16; give one of the environment's 16 states"),
        ({"start": [0.5, 0.5]}, r"start is \[0.5, 0.5\]; give one of"),
        ({"start": np.full(16, 0.1)}, r"start sums to 1.6"),
        ({"cost": "logged", "limit": 1.0, "ended": 0}, "cost is 'logged', which is for estimates from data"),
    ],
)
def test_a_description_that_does_not_fit_is_refused_with_its_cure(stated, message):
    with pytest.raises(InvalidInput, match=message):
        from_gymnasium(frozen_lake(), 9, SystemDescription(**stated))


def test_tables_are_dictionaries_or_lists_of_the_size_of_their_spaces():
    table = corridor()
    listed = from_gymnasium(TableEnv([[table[s][a] for a in range(2)] for s in range(3)]), 5)
    assert listed.model.kernel.to_dense().tolist() == from_gymnasium(TableEnv(table), 5).model.kernel.to_dense().tolist()
    array, wide = TableEnv(table), TableEnv(table)
    array.P = np.zeros((3, 2, 3))
    with pytest.raises(InvalidInput, match=r"P is a ndarray; a table is P\[s\]\[a\]"):
        from_gymnasium(array, 5)
    wide.observation_space = spaces.Discrete(9)
    with pytest.raises(InvalidInput, match=r"the table of TableEnv has 3 states but its space is Discrete\(9\)"):
        from_gymnasium(wide, 5)


def test_a_description_is_asked_for_by_its_name():
    with pytest.raises(InvalidInput, match=r"description is \[0, 1\]; give SystemDescription\(cost=..., limit=...\)"):
        from_gymnasium(gymnasium.make("FrozenLake-v1"), 3, [0, 1])


def test_an_environment_without_a_table_is_sent_to_sampling():
    env = TableEnv(corridor())
    del env.P
    with pytest.raises(
        InvalidInput, match=r"TableEnv has no transition table \(env.unwrapped.P\); estimate it with estimate_"
    ):
        from_gymnasium(env, 9)


def test_an_environment_that_cuts_episodes_off_or_has_other_actions_is_refused():
    system = from_gymnasium(frozen_lake(), 9, SystemDescription(cost=np.zeros(16), limit=1.0, ended=0.0))
    short = system.as_env(gymnasium.make("FrozenLake-v1", max_episode_steps=2))
    short.reset(seed=0)
    short.step(0)
    with pytest.raises(InvalidInput, match=r"cut the episode off after 2 steps, before the horizon of 9; make it with max_"):
        short.step(0)
    with pytest.raises(InvalidInput, match=r"has 500 states and 6 actions; this system was made for 16 and 4: give"):
        system.as_env(gymnasium.make("Taxi-v4"))


def test_it_is_printed_in_a_few_lines():
    system = from_gymnasium(gymnasium.make("FrozenLake-v1"), 5, SystemDescription(cost=np.eye(16)[5], limit=0.5, ended=0))
    assert repr(system).splitlines()[0] == "FiniteSystem(of an environment with 16 states)"
    assert len(repr(system)) < 300


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({0: {0: [], 1: []}, 1: {0: []}}, r"P\[1\] must list the actions 0 to 1"),
        ({0: {0: [(1.0, 5, 0.0, False)]}}, r"P\[0\]\[0\]\[0\], the next state,.* is 5"),
        ({0: {0: [(1.0, 0)]}}, r"P\[0\]\[0\]\[0\] is \(1.0, 0\)"),
        ({0: {0: [("a", 0, 0.0, False)]}}, "the probability, is not an array of numbers"),
        ({}, "number of states in the table is 0"),
        (np.ones((2, 2, 2)), "arrays \\[S, A, S\\] are for Kernel.from_dense"),
        ({0: {0: []}}, "lists no outcome at all"),
    ],
)
def test_bad_tables_are_named(table, message):
    with pytest.raises(s2r.errors.InvalidInput, match=message):
        read_table(table)
