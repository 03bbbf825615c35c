"""Systems, policies and episodes: the two forms of a constraint, shapes, and refusals."""

import math

import numpy as np
import pytest

import safe2real as s2r
from safe2real.errors import InvalidInput
from safe2real.model.trajectory import check_trajectory
from tests.evidence.small_learners import stay

KERNEL = s2r.Kernel.from_dense(np.full((2, 2, 2), 0.5))


def test_cost_form_is_the_utility_form():
    cost = np.array([[0.0, 0.3], [1.0, 0.0]])
    field = s2r.CMDP.of(KERNEL, 4, 0, s2r.AtMost(cost, 1.5, name="falls"))
    paper = s2r.CMDP.of(KERNEL, 4, 0, s2r.AtLeast(1.0 - cost, 2.5))
    np.testing.assert_array_equal(field.utilities, paper.utilities)
    assert field.thresholds == paper.thresholds
    assert field.names == ("falls",)


def test_start_is_a_state_or_a_distribution():
    assert s2r.CMDP.of(KERNEL, 3, 1).start.tolist() == [0.0, 1.0]
    assert s2r.CMDP.of(KERNEL, 3, [0.25, 0.75]).start.tolist() == [0.25, 0.75]


def test_stationary_and_per_step_utilities_mix():
    steps = np.arange(12).reshape(3, 2, 2) / 12
    model = s2r.CMDP.of(KERNEL, 3, 0, [s2r.AtLeast(np.ones((2, 2)), 1.0), s2r.AtLeast(steps, 1.0)])
    assert model.utilities.shape == (2, 3, 2, 2)
    np.testing.assert_array_equal(model.utilities[1], steps)
    assert s2r.CMDP.of(KERNEL, 3, 0, s2r.AtLeast(np.ones((2, 2)), 1.0)).utilities.shape == (1, 1, 2, 2)


def test_with_kernel_keeps_the_task():
    model = s2r.CMDP.of(KERNEL, 3, 0, s2r.AtLeast(np.ones((2, 2)), 1.0))
    other = s2r.Kernel.from_dense(np.stack([np.eye(2), np.eye(2)], axis=1))
    assert model.with_kernel(other).compiled_arrays is model.compiled_arrays
    with pytest.raises(s2r.errors.InvalidInput, match=r"\(S, A\) = \(3, 1\)"):
        model.with_kernel(s2r.Kernel.from_dense(np.eye(3)[:, None]))


@pytest.mark.parametrize(
    ("constraint", "message"),
    [
        (s2r.AtLeast([[0.0, 1.5], [0.0, 0.0]], 1.0), r"constraints\[0\].utility\[0, 1\] is 1.5; utilities lie in \[0, 1\]"),
        (s2r.AtMost([[0.0, 0.0], [-0.2, 0.0]], 1.0), r"constraints\[0\].cost\[1, 0\] is -0.2"),
        (s2r.AtLeast(np.zeros((2, 2)), 3.5), r"constraints\[0\].threshold is 3.5; .*between 0 and 3"),
        (s2r.AtMost(np.zeros((2, 2)), -1.0), r"constraints\[0\].limit is -1"),
        (s2r.AtLeast(np.zeros((2, 3)), 1.0), r"utility has shape \(2, 3\); give \(S, A\) = \(2, 2\)"),
        (s2r.AtLeast(np.zeros((2, 2)), float("nan")), "threshold is nan"),
        (s2r.AtLeast(np.zeros((2, 2)), [1.0, 2.0]), r"threshold has shape \(2,\)"),
    ],
)
def test_bad_constraints_are_named(constraint, message):
    with pytest.raises(s2r.errors.InvalidInput, match=message):
        s2r.CMDP.of(KERNEL, 3, 0, constraint)


def test_bad_systems_are_named():
    with pytest.raises(s2r.errors.InvalidInput, match=r"constraints\[0\] is a float"):
        s2r.CMDP.of(KERNEL, 3, 0, [1.0])
    with pytest.raises(s2r.errors.InvalidInput, match="horizon is 0"):
        s2r.CMDP.of(KERNEL, 0)
    with pytest.raises(s2r.errors.InvalidInput, match="kernel is a NoneType"):
        s2r.CMDP.of(None, 3)
    with pytest.raises(s2r.errors.InvalidInput, match="start is 2; states run from 0 to 1"):
        s2r.CMDP.of(KERNEL, 3, 2)
    with pytest.raises(s2r.errors.InvalidInput, match=r"start sums to 0\.9"):
        s2r.CMDP.of(KERNEL, 3, [0.5, 0.4])
    with pytest.raises(s2r.errors.InvalidInput, match=r"start has shape \(3,\)"):
        s2r.CMDP.of(KERNEL, 3, [0.5, 0.4, 0.1])
    with pytest.raises(s2r.errors.InvalidInput, match="rows for 2 steps"):
        s2r.CMDP.of(s2r.Kernel.from_dense(np.full((2, 2, 2, 2), 0.5)), 3)
    model = s2r.CMDP.of(KERNEL, 3, 0, s2r.AtLeast(np.ones((2, 2)), 1.0))
    with pytest.raises(s2r.errors.InvalidInput, match=r"thresholds\[0\] is 4"):
        model.with_thresholds([4.0])
    with pytest.raises(s2r.errors.InvalidInput, match="has 1 constraints"):
        model.with_thresholds([1.0, 1.0])


def test_stationary_policies_are_repeated():
    policy = s2r.MarkovPolicy.stochastic([[0.25, 0.75], [1.0, 0.0]], horizon=3)
    assert policy.shape == (3, 2, 2)
    np.testing.assert_array_equal(policy.probabilities[2], [[0.25, 0.75], [1.0, 0.0]])
    chosen = s2r.MarkovPolicy.deterministic([1, 0], num_actions=2, horizon=3)
    np.testing.assert_array_equal(chosen.probabilities[1], [[0.0, 1.0], [1.0, 0.0]])


def test_a_mixture_is_drawn_with_its_weights_and_acts_to_the_end():
    stay = s2r.MarkovPolicy.deterministic([0, 0], num_actions=2, horizon=2)
    move = s2r.MarkovPolicy.deterministic([1, 1], num_actions=2, horizon=2)
    mixture = s2r.Mixture.of([0.2, 0.8, 0.0], [stay, move, stay])
    assert len(mixture.policies) == 2
    rng = np.random.default_rng(0)
    share = np.mean([mixture.draw(rng) is move for _ in range(4000)])
    assert share == pytest.approx(0.8, abs=0.02)
    assert [move.act(h, 0, rng) for h in range(2)] == [1, 1]
    coin = s2r.MarkovPolicy.stochastic([[0.3, 0.7], [0.5, 0.5]], horizon=1)
    assert np.mean([coin.act(0, 0, rng) for _ in range(4000)]) == pytest.approx(0.7, abs=0.03)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: s2r.MarkovPolicy.stochastic([[0.5, 0.4]], horizon=1), r"policy\[0\] sums to 0.9"),
        (lambda: s2r.MarkovPolicy.stochastic([[1.2, -0.2]], horizon=1), r"policy\[0, 1\] is -0.2"),
        (lambda: s2r.MarkovPolicy.stochastic([[0.5, 0.5]]), r"shape \(1, 2\); give \(H, S, A\)"),
        (lambda: s2r.MarkovPolicy.stochastic(np.full((2, 1, 2), 0.5), horizon=3), r"shape \(2, 1, 2\)"),
        (lambda: s2r.MarkovPolicy.deterministic([2], num_actions=2, horizon=1), r"actions\[0\] is 2; actions run"),
        (lambda: s2r.MarkovPolicy.deterministic([1], num_actions=2), r"actions have shape \(1,\)"),
        (lambda: s2r.MarkovPolicy.uniform(horizon=0, num_states=1, num_actions=1), "horizon is 0"),
        (lambda: s2r.Mixture.of([], []), "one weight per policy"),
        (lambda: s2r.Mixture.of([0.5, 0.4], [UNIFORM, UNIFORM]), "weights sums to 0.9"),
        (lambda: s2r.Mixture.of([0.5, 0.5], [UNIFORM, LONGER]), "all must have the same"),
    ],
)
def test_bad_policies_are_named(make, message):
    with pytest.raises(s2r.errors.InvalidInput, match=message):
        make()


UNIFORM = s2r.MarkovPolicy.uniform(horizon=2, num_states=2, num_actions=2)
LONGER = s2r.MarkovPolicy.uniform(horizon=3, num_states=2, num_actions=2)


def test_an_episode_is_checked_against_its_system():
    model = s2r.CMDP.of(KERNEL, 3, 1)
    episode = s2r.Trajectory.of(model, [1, 0, 1, 1], [0, 1, 0])
    assert episode.states.tolist() == [1, 0, 1, 1]
    for states, actions, message in [
        ([1, 0, 1], [0, 1, 0], "4 states and 3 actions"),
        ([1, 0, 1, 1], [0, 1], "4 states and 3 actions"),
        ([1, 0, 2, 1], [0, 1, 0], r"states\[2\] is 2"),
        ([1, 0, 1, 1], [0, 5, 0], r"actions\[1\] is 5"),
        ([0, 0, 1, 1], [0, 1, 0], r"states\[0\] is 0; episodes of this system start in \[1\]"),
        ([1.0, 0.5, 1, 1], [0, 1, 0], "whole numbers"),
        ([[1, 0, 1, 1]], [0, 1, 0], "got shapes"),
        (["a", 0, 1, 1], [0, 1, 0], "whole numbers"),
        ([1, [0], 1, 1], [0, 1, 0], "not a plain list"),
        (None, [0, 1, 0], "whole numbers"),
    ]:
        with pytest.raises(s2r.errors.InvalidInput, match=message):
            s2r.Trajectory.of(model, states, actions)


def test_sums_that_are_loose_are_renormalised_once():
    loose = np.array([0.5, 0.5 + 9e-10])
    model = s2r.CMDP.of(s2r.Kernel.from_dense(np.full((2, 1, 2), 0.5)), 1, loose, s2r.AtLeast(np.ones((2, 1)), 0.5))
    assert abs(model.start.sum() - 1.0) < 1e-15
    policy = s2r.MarkovPolicy.stochastic(np.broadcast_to(loose, (1, 2, 2)))
    np.testing.assert_allclose(policy.probabilities.sum(axis=2), 1.0, atol=1e-15)
    again = s2r.MarkovPolicy.stochastic(policy.probabilities)
    np.testing.assert_array_equal(again.probabilities, policy.probabilities)
    thirds = np.full((1, 2, 3), 1.0 / 3.0)
    np.testing.assert_array_equal(s2r.MarkovPolicy.stochastic(thirds).probabilities, thirds)
    assert s2r.evaluate(model, s2r.MarkovPolicy.uniform(horizon=1, num_states=2, num_actions=1), np.ones((2, 1))) <= 1.0
    weights = s2r.Mixture.of(loose, [stay(1, 2, 1), stay(1, 2, 1)]).weights
    assert math.isclose(weights.sum(), 1.0, rel_tol=1e-15)


def small_model(states=2, horizon=3, start=0):
    rows = np.full((states, 1, states), 1.0 / states)
    return s2r.CMDP.of(s2r.Kernel.from_dense(rows), horizon, start)


def test_an_episode_is_checked_where_it_is_made_and_only_compared_with_a_system_later():
    model = small_model()
    episode = s2r.Trajectory.of(model, [0, 1, 1, 0], [0, 0, 0], seed=4)
    assert check_trajectory(model, episode) is episode
    assert check_trajectory(small_model(states=3), episode) is episode  # another system in which it could have happened


@pytest.mark.parametrize(
    ("model", "episode"),
    [
        (small_model(horizon=2), s2r.Trajectory.of(small_model(), [0, 1, 1, 0], [0, 0, 0])),
        (small_model(start=1), s2r.Trajectory.of(small_model(), [0, 1, 1, 0], [0, 0, 0])),
        (small_model(), s2r.Trajectory.of(small_model(states=3), [0, 2, 1, 0], [0, 0, 0])),
        (small_model(), s2r.Trajectory.of(small_model(), [0, 1], [0], partial=True)),
        (small_model(), s2r.Trajectory(np.array([0, 1, 7, 0], dtype=np.uint32), np.zeros(3, dtype=np.uint32))),
        (small_model(), s2r.Trajectory(np.array([0, 1, -1, 0]), np.zeros(3, dtype=np.int64))),
        (small_model(), ([0, 1, 1, 0], [0, 0, 0])),
    ],
)
def test_an_episode_of_another_system_or_made_by_hand_is_refused(model, episode):
    with pytest.raises(InvalidInput):
        check_trajectory(model, episode)


@pytest.mark.parametrize(
    ("states", "actions"), [([0, 0.5], [0]), ("01", [0]), ([0, -1], [0]), (None, [0]), ([0, 1], [[0], [0, 1]])]
)
def test_lists_that_are_no_whole_numbers_make_no_episode(states, actions):
    with pytest.raises(InvalidInput, match=r"whole numbers|states run from 0|is not a plain list"):
        s2r.Trajectory(states, actions)


def test_an_episode_made_by_hand_of_lists_is_made_anew():
    checked = check_trajectory(small_model(), s2r.Trajectory([0, 1, 1, 0], np.zeros(3, dtype=np.int64)))
    assert checked.states.dtype == np.uint32
    assert not checked.states.flags.writeable


@pytest.mark.parametrize(
    ("make", "way"),
    [
        (lambda: s2r.Mixture(np.array([0.5, 0.5]), (stay(1, 2),)), "Mixture.of"),
        (lambda: s2r.Mixture([1.0], (stay(1, 2),)), "Mixture.of"),
        (lambda: s2r.Mixture(np.zeros(0), ()), "Mixture.of"),
        (lambda: s2r.Kernel(2, 1, None, np.full((2, 1, 2), 0.5)), "Kernel.from_dense"),
        (lambda: s2r.CMDP(np.full((2, 1, 2), 0.5), 3, None, (), ()), "CMDP.of"),
        (lambda: s2r.CMDP(small_model().kernel, 3, np.ones(2), (), ()), "CMDP.of"),
    ],
)
def test_what_is_put_together_by_hand_is_refused_with_the_way_to_build_it(make, way):
    with pytest.raises(InvalidInput, match=f"by hand from .*; build one\\s+with {way}"):
        make()
