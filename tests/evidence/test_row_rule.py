"""What the hybrid model asks of a radius: how many rows share delta, and what a declared support leaves of a row."""

import numpy as np
import pytest

from experiments.oracles.run_length_bounds import radius_after
from safe2real import radii
from safe2real.evidence.row_rule import StatedRows
from safe2real.model.kernel import Kernel
from safe2real.radii import Radius, System
from tests.evidence.small_learners import hybrid_model
from tests.radii.formulas import FORMULAS, TIGHT, union_by_formula


@pytest.mark.parametrize("radius", TIGHT)
def test_a_declared_support_shrinks_the_radius(radius: Radius) -> None:
    """Rows with 1, 2, 3 and all of 25 possible successors, in one system; the literal radius takes no notice."""
    S = 25
    simulator = Kernel.from_dense(np.broadcast_to(np.eye(S)[0], (S, 1, S)))
    declared = np.full((S, 1, S), 1.0 / S)
    for row, m in enumerate((1, 2, 3)):
        declared[row, 0] = np.where(np.arange(S) < m, 1.0 / m, 0.0)
    support = Kernel.from_dense(declared)
    delta, n = 0.1, 5000
    for kind in (radius, radii.Literal()):
        plain, shrunk = (
            hybrid_model(simulator, 1, separation=None, radius=kind, delta=delta, stated=StatedRows(support=given))
            for given in (None, support)
        )
        for model in (plain, shrunk):
            model.counts.tally.visits[:] = n
            model.counts.tally.length[:] = 3
        difference = (plain.radii - shrunk.radii)[:, 0]
        if kind is not radius:
            assert (difference == 0.0).all()
            continue
        assert shrunk.radii[0, 0] == 0.0
        assert (np.diff(shrunk.radii[:4, 0]) > 0.0).all()
        assert (difference[:3] > 0.0).all()
        assert (difference[3:] == 0.0).all()
        for row, m in ((1, 2), (2, 3), (3, S)):
            stated = FORMULAS[type(radius)](m, n, 3, S, delta)
            assert shrunk.radii[row, 0] == pytest.approx(stated, rel=1e-12)


def test_the_levels_of_pooled_and_separate_rows() -> None:
    """delta is shared by the rows there are: S A pooled, H S A per step."""
    dense = np.full((3, 2, 3), 1 / 3)
    for kernel, rows in ((Kernel.from_dense(dense), 6), (Kernel.from_dense(dense).repeated(4), 24)):
        model = hybrid_model(kernel, 4, separation=None, radius=radii.Union(), delta=0.1)
        model.counts.tally.visits[:] = 1000
        np.testing.assert_allclose(model.radii, union_by_formula(3, 1000, 3, rows, 0.1), rtol=1e-12)


def test_the_hybrid_model_uses_the_same_radius() -> None:
    simulator = Kernel.from_dense(np.full((3, 2, 3), 1 / 3))
    model = hybrid_model(simulator, 4, separation=None, radius=radii.Scaled(0.3), delta=0.1)
    model.counts.tally.visits[:] = [0, 1, 2, 10, 500, 10**9]
    expected = [radius_after(radii.Scaled(0.3), float(n), System(3, 2, 4), 0.1) for n in model.counts.visits.reshape(-1)]
    np.testing.assert_allclose(model.radii.reshape(-1), expected, rtol=1e-14)
