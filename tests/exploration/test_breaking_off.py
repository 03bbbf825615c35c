"""Whatever breaks an episode off, what was seen of it is counted, and whose fault it was is decided once."""

import gymnasium
import numpy as np
import pytest

import safe2real as s2r
from safe2real.exploration import explore
from safe2real.standing import AssumptionCode, DoubtCode, Standing
from tests.cases import each
from tests.evidence.small_learners import stay


class Broken(gymnasium.Env):
    """Ten steps to the right on a line; raises what it is told to, at the step it is told to."""

    def __init__(self, model: s2r.CMDP, error: BaseException, at: int) -> None:
        self.observation_space = gymnasium.spaces.Discrete(model.num_states)
        self.action_space = gymnasium.spaces.Discrete(model.num_actions)
        self.error, self.at, self.steps = error, at, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        if self.at < 0:
            raise self.error
        return 0, {}

    def step(self, action):
        if self.steps == self.at:
            raise self.error
        self.steps += 1
        return min(self.steps, 3), 0.0, False, False, {}


def line_learner() -> s2r.Learner:
    table = np.zeros((4, 1, 4))
    for s in range(4):
        table[s, 0, min(s + 1, 3)] = 1.0
    model = s2r.CMDP.of(s2r.Kernel.from_dense(table), 5, 0, s2r.AtLeast(np.ones((4, 1)), 4.0))
    settings = s2r.Settings(margin=1.0, calibrated_gap=0.0, mismatch_gap=0.5, tolerance=0.25)
    return s2r.Learner(s2r.Problem(model, stay(5, 4, 1), settings))


@each("error", [RuntimeError("the gripper fell off"), ZeroDivisionError(), SystemExit(1)])
def test_whatever_step_raises_what_was_seen_is_counted(error):
    learner = line_learner()
    with pytest.raises(type(error)):
        explore(learner, Broken(learner.simulator, error, 3), max_rounds=5)
    assert learner.evidence.counts.visits[:, 0].tolist() == [1, 1, 1, 0]
    assert learner.standing is Standing.REFUTED
    assert learner.doubts()[0].code is DoubtCode.LEFT_MODEL
    assert learner.propose().reason is s2r.methods.Reason.BASELINE
    assert learner.round == 2
    begun = line_learner()
    with pytest.raises(type(error)):
        explore(begun, Broken(begun.simulator, error, -1), max_rounds=5)
    assert begun.samples == 0
    assert begun.standing is Standing.REFUTED


@pytest.mark.parametrize(("error", "faults"), [(ConnectionError(), (OSError,)), (KeyboardInterrupt(), ())])
def test_a_fault_of_the_environment_cuts_an_episode_short_and_is_named_as_an_assumption(error, faults):
    learner = line_learner()
    with pytest.raises(type(error)):
        explore(learner, Broken(learner.simulator, error, 2), max_rounds=5, faults=faults)
    assert learner.evidence.counts.visits[:, 0].tolist() == [1, 1, 0, 0]
    assert learner.standing is Standing.CERTIFIED
    assumed = [one for one in learner.propose().certificate.assumptions if one.code is AssumptionCode.FAULTS]
    assert [one.subject for one in assumed] == [type(error).__name__]
    assert learner.round == 2


def test_an_environment_that_shows_a_state_the_model_has_not_is_outside_of_it():
    learner = line_learner()
    env = Broken(learner.simulator, RuntimeError(), 99)
    env.step = lambda action: (17, 0.0, False, False, {})
    with pytest.raises(s2r.errors.OutsideModel, match="showed state 17; the model has 4 states"):
        explore(learner, env, max_rounds=1)
    assert learner.standing is Standing.REFUTED


def test_an_episode_that_begins_where_none_does_refutes():
    learner = line_learner()
    env = Broken(learner.simulator, RuntimeError(), 99)
    env.reset = lambda **_: (2, {})
    for _ in range(3):
        with pytest.raises(s2r.errors.OutsideModel, match=r"showed state 2; episodes of the model start in \[0\]"):
            explore(learner, env, max_rounds=1)
    assert learner.round == 4
    assert learner.standing is Standing.REFUTED


def test_leaving_the_model_is_no_fault_whatever_faults_are_named():
    learner = line_learner()
    env = Broken(learner.simulator, RuntimeError(), 99)
    env.step = lambda action: (17, 0.0, False, False, {})
    with pytest.raises(s2r.errors.OutsideModel):
        explore(learner, env, max_rounds=1, faults=(ValueError,))
    assert learner.standing is Standing.REFUTED
