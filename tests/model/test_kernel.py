"""Kernels: every way in gives the same rows, and every bad row is named."""

import numpy as np
import pytest
from scipy import sparse

import safe2real as s2r

ROWS = np.array(
    [
        [[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]],
        [[0.1, 0.2, 0.7], [1 / 3, 1 / 3, 1 / 3]],
        [[0.0, 0.0, 1.0], [0.0, 1.0, 0.0]],
    ]
)


def triples(rows):
    states, actions, successors = np.nonzero(rows)
    return states, actions, successors, rows[states, actions, successors]


def test_every_constructor_gives_the_same_rows():
    kernels = [
        s2r.Kernel.from_dense(ROWS),
        s2r.Kernel.from_sparse(sparse.csr_matrix(ROWS.reshape(6, 3)), num_actions=2),
        s2r.Kernel.from_triples(*triples(ROWS), num_states=3, num_actions=2),
    ]
    for kernel in kernels:
        np.testing.assert_allclose(kernel.to_dense(), ROWS, atol=1e-15)
        assert kernel.is_stationary
        # The row that is uniform over all states is not written out.
        assert kernel.length[3] == 0
        assert kernel.probability.size == np.count_nonzero(ROWS) - 3


def test_what_is_possible_is_equally_likely():
    np.testing.assert_allclose(s2r.Kernel.uniform_over(ROWS > 0.3).to_dense()[0], [[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])
    assert s2r.Kernel.uniform_over(np.stack([ROWS > 0.0] * 4)).horizon == 4
    with pytest.raises(s2r.errors.InvalidInput, match=r"possible\[1, 1\] allows no state"):
        s2r.Kernel.uniform_over(ROWS > 0.35)
    with pytest.raises(s2r.errors.InvalidInput, match=r"possible is float64 of shape \(3, 2, 3\); give booleans"):
        s2r.Kernel.uniform_over(ROWS)


def test_per_step_rows():
    rows = np.stack([ROWS, ROWS[:, ::-1]])
    steps = np.repeat([0, 1], [np.count_nonzero(ROWS)] * 2)
    columns = [np.concatenate(pair) for pair in zip(triples(rows[0]), triples(rows[1]), strict=True)]
    kernel = s2r.Kernel.from_triples(*columns, num_states=3, num_actions=2, steps=steps, horizon=2)
    np.testing.assert_allclose(kernel.to_dense(), rows)
    matrix = s2r.Kernel.from_sparse(sparse.coo_matrix(rows.reshape(12, 3)), num_actions=2, horizon=2)
    np.testing.assert_allclose(matrix.to_dense(), rows)


def test_duplicate_successors_are_summed():
    given = {"states": [0, 0, 0, 1], "actions": [0] * 4, "successors": [0, 1, 0, 1], "probabilities": [0.5, 0.25, 0.25, 1.0]}
    np.testing.assert_allclose(s2r.Kernel.from_triples(**given, num_states=2, num_actions=1).to_dense()[0, 0], [0.75, 0.25])


def test_what_was_validated_cannot_be_changed():
    mine = ROWS.copy()
    kernel = s2r.Kernel.from_dense(mine)
    mine[:] = 7.0
    np.testing.assert_allclose(kernel.to_dense(), ROWS)
    with pytest.raises(ValueError, match="read-only"):
        kernel.probability[0] = 2.0


def test_a_kernel_read_back_is_the_same_bit_for_bit():
    rng = np.random.default_rng(0)
    rows = rng.dirichlet(np.ones(7), size=(7, 3)) * (1.0 + 5e-10)
    once = s2r.Kernel.from_dense(rows)
    twice = s2r.Kernel.from_dense(once.to_dense())
    assert (once.probability == twice.probability).all()
    np.testing.assert_allclose(once.to_dense().sum(axis=-1), 1.0, atol=1e-15)


def spoiled(index, value):
    rows = ROWS.copy()
    rows[index] = value
    return rows


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (spoiled((0, 1, 2), 0.98), r"transition\[0, 1\] sums to 0.98; rows must sum to 1"),
        (spoiled((1, 0, 1), np.nan), r"transition\[1, 0, 1\] is nan"),
        (spoiled((1, 0, 0), -0.1), r"transition\[1, 0\] gives state 0 probability -0.1"),
        (np.zeros((0, 2, 0)), "number of states is 0"),
        (np.zeros((2, 0, 2)), "number of actions is 0"),
        (np.zeros((3, 2)), r"shape \(3, 2\); give \(S, A, S\)"),
        (np.zeros((2, 1, 3)), r"shape \(2, 1, 3\); give \(S, A, S\)"),
        ("rows", "not an array of numbers"),
    ],
)
def test_bad_rows_are_named(rows, message):
    with pytest.raises(s2r.errors.InvalidInput, match=message):
        s2r.Kernel.from_dense(rows)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"successors": [0, 3]}, r"successors\[1\] is 3; states run from 0 to 1"),
        ({"states": [0, -1]}, r"states\[1\] is -1"),
        ({"actions": [0, 0.5]}, "actions has entries of type float64"),
        ({"probabilities": [1.0, np.inf]}, r"probabilities\[1\] is inf"),
        ({"probabilities": [1.0]}, "one length"),
        ({"horizon": 2}, "go together"),
        ({"num_states": 0}, "num_states is 0"),
        ({"num_actions": True}, "num_actions is True"),
    ],
)
def test_bad_triples_are_named(change, message):
    given = {"states": [0, 1], "actions": [0, 0], "successors": [0, 1], "probabilities": [1.0, 1.0]}
    given |= {"num_states": 2, "num_actions": 1} | change
    with pytest.raises(s2r.errors.InvalidInput, match=message):
        s2r.Kernel.from_triples(**given)


def test_bad_matrices_are_named():
    with pytest.raises(s2r.errors.InvalidInput, match=r"shape \(5, 3\); with 2 actions it must be \(6, 3\)"):
        s2r.Kernel.from_sparse(sparse.csr_matrix(np.ones((5, 3))), num_actions=2)
    with pytest.raises(s2r.errors.InvalidInput, match=r"give a scipy\.sparse matrix"):
        s2r.Kernel.from_sparse(ROWS, num_actions=2)


def test_distances_are_half_the_absolute_differences():
    rng = np.random.default_rng(3)
    for shape in ((4, 2), (3, 4, 2)):
        first, second = (rng.dirichlet(np.full(4, 0.3), size=shape) for _ in range(2))
        first[..., 0, :, :] = 0.25  # uniform rows are stored as nothing
        second[..., 1, 0, :] = [0.0, 0.0, 1.0, 0.0]
        mine, yours = s2r.Kernel.from_dense(first), s2r.Kernel.from_dense(second)
        expected = np.abs(first - second).sum(axis=-1) / 2.0
        np.testing.assert_allclose(mine.distances_to(yours), expected, atol=1e-14)
        np.testing.assert_allclose(yours.distances_to(mine), expected, atol=1e-14)
        assert (mine.distances_to(mine) == 0.0).all()
    with pytest.raises(
        s2r.errors.InvalidInput, match=r"rows of shape \(3, 4, 2\) and \(4, 2\); compare kernels of one shape"
    ):
        mine.distances_to(s2r.Kernel.from_dense(second[0]))


def test_distances_are_those_of_the_dense_rows_however_many_are_compared_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(8)
    monkeypatch.setattr("safe2real.model.kernel._AT_ONCE", 7)
    for case in range(20):
        states, lead = int(rng.integers(1, 9)), (3,) if case % 2 else ()
        pair = []
        for _ in range(2):
            dense = rng.random((*lead, states, 2, states)) * (rng.random((*lead, states, 2, states)) < 0.5)
            dense[..., 0] += 0.01
            dense /= dense.sum(axis=-1, keepdims=True)
            dense[rng.random(dense.shape[:-1]) < 0.3] = 1.0 / states
            pair.append(s2r.Kernel.from_dense(dense))
        apart = 0.5 * np.abs(pair[0].to_dense() - pair[1].to_dense()).sum(axis=-1)
        np.testing.assert_allclose(pair[0].distances_to(pair[1]), apart, atol=1e-15)
        assert not pair[0].distances_to(pair[0]).any()
