"""Compiled runs against ask and tell, round by round; a run on a Gymnasium environment; the paper's grid."""

import gymnasium
import numpy as np
import pytest

import safe2real as s2r
from safe2real import radii
from safe2real.evidence.counts import Counts
from safe2real.exploration import Learner, collect, explore, roll_out, simulate
from safe2real.problem.problem import Problem
from safe2real.problem.settings import Settings
from safe2real.systems import WindyGrid
from tests.exploration.random_problems import random_problem, settings_for

MODEL, REAL, BASELINE = random_problem(1, per_step=False)
TRUTH = MODEL.with_kernel(REAL)


@pytest.mark.parametrize(
    ("call", "arguments", "message"),
    [
        (simulate, {"real": MODEL}, "give the Kernel"),
        (simulate, {"real": REAL, "max_rounds": 0}, "max_rounds is 0"),
        (simulate, {"real": REAL, "max_rounds": 1.5}, "max_rounds is 1.5"),
        (explore, {"env": object(), "max_rounds": 1}, "give a Gymnasium environment"),
        (roll_out, {"policy": s2r.MarkovPolicy.uniform(horizon=3, num_states=5, num_actions=3)}, "policy has shape"),
        (roll_out, {"seed": -1}, "seed is -1"),
        (roll_out, {"seed": 2**64}, "seed is"),
        (collect, {"policy": s2r.Mixture.of([1.0], [BASELINE])}, "give one Markov policy"),
        (collect, {"counts": Counts(s2r.Kernel.from_dense(np.full((2, 3, 2), 0.5)), 4)}, r"\(H, S, A\) = \(4, 2, 3\)"),
        (collect, {"model": TRUTH.with_kernel(REAL.repeated(4))}, "pool over steps"),
        (collect, {"episodes": -3}, "episodes is -3"),
    ],
)
def test_bad_arguments_of_simulated_runs_are_named(call, arguments, message):
    usual = {
        simulate: lambda: {"learner": Learner(Problem(MODEL, BASELINE, settings_for()), trust_margin=True)},
        explore: lambda: {"learner": Learner(Problem(MODEL, BASELINE, settings_for()), trust_margin=True)},
        roll_out: lambda: {"model": TRUTH, "policy": BASELINE, "seed": 0, "round_number": 1},
        collect: lambda: {"model": TRUTH, "policy": BASELINE, "counts": Counts(MODEL.kernel, 4), "episodes": 1, "seed": 0},
    }
    with pytest.raises(s2r.errors.InvalidInput, match=message):
        call(**usual[call]() | arguments)


def test_counts_refuse_an_episode_that_was_not_checked():
    hand_made = s2r.Trajectory(np.array([0, 9, 0, 0, 0], dtype=np.uint32), np.zeros(4, dtype=np.uint32))
    with pytest.raises(s2r.errors.InvalidInput, match=r"states\[1\] is 9"):
        Counts(MODEL.kernel, 4).record(hand_made)


def test_pooling_must_match_the_real_system():
    model, real, baseline = random_problem(1, per_step=False)
    learner = Learner(Problem(model, baseline, settings_for()), trust_margin=True)
    with pytest.raises(s2r.errors.InvalidInput, match="would void the guarantee"):
        simulate(learner, real.repeated(4))
    steps = Learner(Problem(model.with_kernel(model.kernel.repeated(4)), baseline, settings_for()), trust_margin=True)
    with pytest.raises(s2r.errors.InvalidInput, match="repeated"):
        simulate(steps, real)
    simulate(steps, real.repeated(4), max_rounds=3)
    assert steps.round == 4


def test_the_paper_grid_is_explored_safely():
    """The inferred constants of the experiments, one seed: safe throughout, stops, clears most rows, loses none of B."""
    grid = WindyGrid.paper()
    model = grid.cmdp(grid.simulator(), 10.71)
    baseline = s2r.MarkovPolicy.uniform(horizon=12, num_states=25, num_actions=4)
    settings = Settings.paper(
        margin=0.306,
        calibrated_gap=0.0,
        mismatch_gap=0.68,
        tolerance=0.385,
        seed=1,
        radius=radii.Scaled(0.376),
        bonus_scale=0.0201,
    )
    learner, told = Learner(Problem(model, baseline, settings)), []
    run = simulate(learner, grid.real(), progress=lambda *done: told.append(done))
    assert run.stopped
    assert told[-1] == (run.rounds, run.uncertainty[-1])
    assert run.unsafe_share(model.thresholds) == 0.0
    assert learner.evidence.suspects[grid.mismatch()].all()
    assert learner.evidence.suspects.sum() < 40
    assert run.state_visits.sum() == run.samples == learner.samples
    reward = np.random.default_rng(0).random((25, 4))
    plan = learner.plan(reward)
    truth = model.with_kernel(grid.real())
    best = s2r.solve(truth, reward)
    assert s2r.planning.constraint_values(truth, plan.policy)[0] >= 10.71
    assert best.value - s2r.evaluate(truth, plan.policy, reward) <= 0.05


def test_explore_absorbs_early_ends_and_refuses_what_does_not_fit():
    class Ends(gymnasium.Env):
        """Ends after the first step in state 1."""

        def __init__(self, cut=False, states=2):
            self.observation_space = gymnasium.spaces.Discrete(states)
            self.action_space = gymnasium.spaces.Discrete(2)
            self.cut = cut

        def reset(self, *, seed=None, options=None):
            return 0, {}

        def step(self, action):
            return 1, 0.0, not self.cut, self.cut, {}

    rows = np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]])
    model = s2r.CMDP.of(s2r.Kernel.from_dense(rows), 3, 0, s2r.AtLeast(np.ones((2, 2)), 1.0))
    baseline = s2r.MarkovPolicy.uniform(horizon=3, num_states=2, num_actions=2)
    learner = Learner(Problem(model, baseline, settings_for()))
    explore(learner, Ends(), max_rounds=2)
    assert learner.evidence.counts.visits.sum(axis=1).tolist() == [2, 4]
    # An end in a state that the simulator can leave is not Markov in these states, and is refused.
    leaves = s2r.CMDP.of(s2r.Kernel.from_dense(rows[::-1, :, ::-1]), 3, 0, s2r.AtLeast(np.ones((2, 2)), 1.0))
    with pytest.raises(s2r.errors.InvalidInput, match="ended the episode in state 1 after 1 steps"):
        explore(Learner(Problem(leaves, baseline, settings_for())), Ends(), max_rounds=1)
    with pytest.raises(s2r.errors.InvalidInput, match="cut the episode off after 1 steps"):
        explore(learner, Ends(cut=True), max_rounds=1)
    with pytest.raises(s2r.errors.InvalidInput, match=r"observation space is Discrete\(3\)"):
        explore(learner, Ends(states=3), max_rounds=1)
    boxed = Ends()
    boxed.observation_space = gymnasium.spaces.Box(0.0, 1.0)
    with pytest.raises(s2r.errors.InvalidInput, match="bin it first"):
        explore(learner, boxed, max_rounds=1)


def test_collect_counts_what_roll_out_shows():
    model, real, baseline = random_problem(2, per_step=False)
    truth = model.with_kernel(real)
    counts = Counts(model.kernel, model.horizon)
    collect(truth, baseline, counts, episodes=300, seed=9)
    expected = Counts(model.kernel, model.horizon)
    for t in range(1, 301):
        expected.record(roll_out(truth, baseline, seed=9, round_number=t))
    np.testing.assert_array_equal(counts.visits, expected.visits)
    np.testing.assert_allclose(counts.distances(), expected.distances())
    assert counts.episodes == 300
