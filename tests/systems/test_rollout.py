"""Rollouts: means and intervals of what a plan is worth, in the user's words, beside what was promised."""

from dataclasses import replace
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest

import safe2real as s2r
from safe2real.errors import InvalidInput
from safe2real.planning.evaluate import constraint_values
from safe2real.standing import Standing
from safe2real.systems.rollout import Agreement, Observed
from tests.systems.test_acting import fell

ENV = gymnasium.make("CliffWalking-v1", max_episode_steps=16)
SYSTEM = s2r.from_gymnasium(ENV, 15, s2r.SystemDescription(cost=fell, limit=1.5, ended=0, name="falls"))
MODEL = SYSTEM.model
POLICY = s2r.MarkovPolicy.uniform(horizon=15, num_states=MODEL.num_states, num_actions=4)
REWARD = SYSTEM.where([24, 12, 0])  # to be on the left


def promising(value, low, standing=Standing.CERTIFIED):
    certificate = SimpleNamespace(lower_bounds=np.array([low]), standing=standing, wordings=MODEL.wordings)
    origin = SimpleNamespace(reward=np.asarray(REWARD)[None])
    return SimpleNamespace(policy=POLICY, value=value, certificate=certificate, origin=origin)


def test_intervals_hold_the_exact_values():
    found = SYSTEM.rollout(POLICY, ENV, 300, seed=4, reward=REWARD)
    exact = s2r.evaluate(MODEL, POLICY, REWARD), 15 + 1 - float(constraint_values(MODEL, POLICY)[0])
    (falls,) = found.constraints
    assert found.value.low <= exact[0] <= found.value.high
    assert falls.low <= exact[1] <= falls.high
    assert abs(falls.mean - exact[1]) < 0.5
    assert falls.high - falls.low < 2.0
    assert (found.value.agreement, falls.agreement) == (Agreement.NOTHING_PROMISED,) * 2
    assert np.allclose(16 - found.sums[:, 0].mean(), falls.mean)
    assert found.returns.shape == found.values.shape == (300,)
    text = found.describe()
    assert "probability 0.95" in text
    assert "falls: " in text
    assert "betting" in text


def test_the_end_pays_only_where_a_reward_says_so():
    for reward, paid in ((np.ones((MODEL.num_states, 4)), 15.0), (np.ones(MODEL.shape), 16.0)):
        found = SYSTEM.rollout(POLICY, ENV, 2, reward=reward)
        assert found.values.tolist() == [paid] * 2
        assert s2r.evaluate(MODEL, POLICY, reward) == pytest.approx(paid)
    assert SYSTEM.rollout(promising(1.0, 14.0), ENV, 20).values.max() <= 15.0


def test_the_same_seed_gives_the_same_rollout():
    first, again, other = (SYSTEM.rollout(POLICY, ENV, 20, seed=seed, reward=REWARD) for seed in (1, 1, 2))
    assert np.array_equal(first.returns, again.returns)
    assert np.array_equal(first.values, again.values)
    assert not np.array_equal(first.returns, other.returns)


def test_what_happened_can_be_counted_by_a_learner():
    found = SYSTEM.rollout(POLICY, ENV, 20, seed=1)
    sums = [s2r.model.trajectory.utilities_along(MODEL, one.states, one.actions).sum() for one in found.trajectories]
    assert sums == pytest.approx(found.sums[:, 0])
    settings = s2r.Settings(margin=0.1, calibrated_gap=0.0, mismatch_gap=0.5, tolerance=0.02)
    learner = s2r.Learner(s2r.Problem(MODEL, POLICY, settings, known=SYSTEM.known), trust_margin=True)
    assert learner.import_episodes(POLICY, found.trajectories) == 20
    assert learner.samples == 20 * 15


def test_what_was_promised_is_held_against_what_was_seen():
    value, cost = s2r.evaluate(MODEL, POLICY, REWARD), 15 + 1 - float(constraint_values(MODEL, POLICY)[0])
    kept = SYSTEM.rollout(promising(value - 2.0, 15 - cost - 3.0), ENV, 200, seed=0)
    assert [kept.value.agreement, kept.constraints[0].agreement] == [Agreement.CONFIRMED] * 2
    assert not kept.contradicted
    broken = SYSTEM.rollout(promising(value + 5.0, 15 - cost + 1.5), ENV, 200, seed=0)
    assert [one.name for one in broken.contradicted] == ["falls", "value"]
    assert "contradicted" in broken.describe()
    open_yet = SYSTEM.rollout(promising(value, 15 - cost, Standing.HEURISTIC), ENV, 20, seed=0)
    assert [open_yet.value.agreement, open_yet.constraints[0].agreement] == [Agreement.CONSISTENT] * 2
    assert "The promises are heuristic, not a guarantee." in open_yet.describe()


@pytest.mark.parametrize(
    ("relation", "promised", "expected"),
    [
        (">=", 1.0, Agreement.CONFIRMED),
        (">=", 1.5, Agreement.CONSISTENT),
        (">=", 2.1, Agreement.CONTRADICTED),
        ("<=", 2.0, Agreement.CONFIRMED),
        ("<=", 1.5, Agreement.CONSISTENT),
        ("<=", 0.9, Agreement.CONTRADICTED),
    ],
)
def test_agreement(relation, promised, expected):
    assert Observed("x", 1.4, 1.0, 2.0, relation, promised).agreement is expected


def test_mistakes_are_said():
    done = []
    SYSTEM.rollout(POLICY, ENV, 3, progress=lambda count, total: done.append((count, total)))
    assert done == [(1, 3), (2, 3), (3, 3)]
    assert SYSTEM.rollout(POLICY, ENV, 2).value is None
    for given, match in (
        ({"episodes": 0}, "episodes is 0"),
        ({"delta": 1.0}, "delta is 1"),
        ({"reward": np.full((2, 2), 0.5)}, "reward has shape"),
        ({"plan": "plan"}, "give a MarkovPolicy, a Mixture, or a plan"),
        ({"plan": s2r.MarkovPolicy.uniform(horizon=2, num_states=3, num_actions=4)}, "this system has"),
    ):
        with pytest.raises(InvalidInput, match=match):
            SYSTEM.rollout(**({"plan": POLICY, "env": ENV, "episodes": 2} | given))


def test_promises_about_other_constraints_are_refused():
    """By position alone a bound on crashes would be held against falls."""
    (falls,) = MODEL.wordings
    for other in (replace(falls, label="crashes"), replace(falls, is_cost=False), replace(falls, horizon=99)):
        plan = promising(1.0, 2.0)
        plan.certificate.wordings = (other,)
        with pytest.raises(InvalidInput, match=r"constraint 0 of the plan's certificate is .*run the plan in the system"):
            SYSTEM.rollout(plan, ENV, 1)
    more = promising(1.0, 2.0)
    more.certificate.wordings, more.certificate.lower_bounds = (falls, falls), np.array([2.0, 2.0])
    with pytest.raises(InvalidInput, match=r"constraint 1 .* that of this system is none"):
        SYSTEM.rollout(more, ENV, 1)


def test_ends_and_promises_are_shown_on_the_side_on_which_they_are_true():
    third, more = 1.0 / 3.0, 2.0 / 3.0
    assert (
        "expected in [0.666666, 1.33334]; promised >= 0.666666" in Observed("x", 1, more, 1 + third, ">=", more).describe()
    )
    assert "promised <= 0.333334" in Observed("x", 1, 0, 1, "<=", third).describe()


def test_where_the_last_step_leads_to_is_counted_or_shown():
    class Cliff(gymnasium.Env):
        """One step to the edge, then over it in the last one."""

        observation_space, action_space = gymnasium.spaces.Discrete(3), gymnasium.spaces.Discrete(1)
        P = {s: {0: [(1.0, min(s + 1, 2), 0.0, s == 1)]} for s in range(3)}  # noqa: RUF012
        initial_state_distrib = (1.0, 0.0, 0.0)

        def reset(self, *, seed=None, options=None):
            self.state = 0
            return 0, {}

        def step(self, action):
            self.state += 1
            return self.state, 0.0, self.state == 2, False, {}

    system = s2r.from_gymnasium(
        Cliff(), 2, s2r.SystemDescription(cost=lambda s, a, t, reward, over: over, limit=0.5, ended=0, name="falls")
    )
    policy = s2r.MarkovPolicy.uniform(horizon=2, num_states=system.model.num_states, num_actions=1)
    seen = system.rollout(policy, Cliff(), 5)
    assert seen.constraints[0].mean == 1.0
    assert seen.uncounted.tolist() == [0.0]
    plain = s2r.from_gymnasium(
        Cliff(), 2, s2r.SystemDescription(cost=[[0], [0], [1]], limit=0.5, ended=0, name="falls")
    )  # paid for acting there
    seen = plain.rollout(policy, Cliff(), 5)
    assert seen.constraints[0].mean == 0.0
    assert seen.uncounted.tolist() == [1.0]
    assert "falls, NOT COUNTED: 1 on average for where the last step led to" in seen.describe()
