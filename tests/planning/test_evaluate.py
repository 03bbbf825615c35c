"""Evaluation against hand-worked numbers, textbook loops and simulation."""

import numpy as np
import pytest
from hypothesis import given, settings

import safe2real as s2r
from tests.random_models import build, dense_mixture_values, dense_rows, recipes


@pytest.fixture
def chain():
    """Two states; action 0 stays, action 1 moves from 0 to 1 with probability 0.5; state 1 absorbs."""
    rows = np.array([[[1.0, 0.0], [0.5, 0.5]], [[0.0, 1.0], [0.0, 1.0]]])
    return s2r.CMDP.of(s2r.Kernel.from_dense(rows), 2, 0, s2r.AtMost([[0.0, 0.0], [1.0, 1.0]], 1.0))


def test_hand_worked_value_and_occupancy(chain):
    move = s2r.MarkovPolicy.deterministic([1, 0], num_actions=2, horizon=2)
    np.testing.assert_allclose(s2r.planning.occupancy(chain, move), [[[0, 1], [0, 0]], [[0, 0.5], [0.5, 0]]])
    # Cost 1 in state 1: expected cost 0.5, so the utility 1 - cost is worth 2 - 0.5.
    np.testing.assert_allclose(s2r.planning.constraint_values(chain, move), [1.5])
    np.testing.assert_allclose(
        s2r.planning.value_functions(chain, move, [[0, 0], [1, 1]]), [[0.5, 2.0], [0.0, 1.0], [0.0, 0.0]]
    )


def test_mixture_is_linear_and_to_markov_keeps_the_occupancy(chain):
    stay = s2r.MarkovPolicy.deterministic([0, 0], num_actions=2, horizon=2)
    move = s2r.MarkovPolicy.deterministic([1, 0], num_actions=2, horizon=2)
    mixture = s2r.Mixture.of([0.25, 0.75], [stay, move])
    assert s2r.planning.constraint_values(chain, mixture) == pytest.approx(0.25 * 2.0 + 0.75 * 1.5)
    single = mixture.to_markov(chain)
    np.testing.assert_allclose(s2r.planning.occupancy(chain, single), s2r.planning.occupancy(chain, mixture), atol=1e-15)
    # In state 0 at the second step the two parts arrive with weights 0.25 and 0.375: not the mixture's own weights.
    np.testing.assert_allclose(single.probabilities[1, 0], [0.4, 0.6])


@settings(max_examples=150, deadline=None, derandomize=True)
@given(recipes)
def test_evaluation_agrees_with_textbook_loops(recipe):
    model, reward = build(recipe)
    rng = np.random.default_rng(recipe.seed)
    shape = (model.horizon, model.num_states)
    parts = [
        s2r.MarkovPolicy.deterministic(rng.integers(model.num_actions, size=shape), num_actions=model.num_actions)
        for _ in range(3)
    ]
    mixture = s2r.Mixture.of(rng.dirichlet(np.ones(3)), parts)
    expected = dense_mixture_values(model, mixture, [reward, *model.utilities])
    assert s2r.evaluate(model, mixture, reward) == pytest.approx(expected[0], abs=1e-12)
    np.testing.assert_allclose(s2r.planning.constraint_values(model, mixture), expected[1:], atol=1e-12)
    visits = s2r.planning.occupancy(model, mixture)
    np.testing.assert_allclose(visits.sum(axis=(1, 2)), 1.0, atol=1e-12)
    single = mixture.to_markov(model)
    np.testing.assert_allclose(s2r.planning.occupancy(model, single), visits, atol=1e-12)
    values = s2r.planning.value_functions(model, single, reward)
    assert model.start @ values[0] == pytest.approx(expected[0], abs=1e-12)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(recipes)
def test_push_is_one_step_of_the_dense_kernel(recipe):
    model, _ = build(recipe)
    mass = np.random.default_rng(recipe.seed).random((model.num_states, model.num_actions))
    for h in range(model.horizon):
        expected = np.einsum("sa,sat->t", mass, dense_rows(model)[h])
        np.testing.assert_allclose(model.kernel.push(h, mass), expected, atol=1e-13)


def test_a_mixture_has_no_value_function(chain):
    stay = s2r.MarkovPolicy.deterministic([0, 0], num_actions=2, horizon=2)
    with pytest.raises(s2r.errors.InvalidInput, match="to_markov"):
        s2r.planning.value_functions(chain, s2r.Mixture.of([1.0], [stay]), np.zeros((2, 2)))


def test_a_policy_of_another_system_is_refused(chain):
    with pytest.raises(s2r.errors.InvalidInput, match=r"policy has shape.*\(3, 2, 2\).*\(2, 2, 2\)"):
        s2r.planning.occupancy(chain, s2r.MarkovPolicy.uniform(horizon=3, num_states=2, num_actions=2))


def test_a_reward_of_the_wrong_shape_is_refused(chain):
    with pytest.raises(s2r.errors.InvalidInput, match=r"reward has shape \(2, 3\).*\(2, 2\).*\(2, 2, 2\)"):
        s2r.solve(chain, np.zeros((2, 3)))
    with pytest.raises(s2r.errors.InvalidInput, match=r"reward\[0, 1\] is nan"):
        s2r.solve(chain, [[0.0, np.nan], [0.0, 0.0]])
