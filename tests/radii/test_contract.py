"""Every radius of the package keeps the contract that those from outside must, and compiled code uses its numbers."""

import numpy as np
import pytest

from safe2real import radii
from safe2real.evidence.row_rule import StatedRows
from safe2real.model.kernel import Kernel
from safe2real.radii import Radius, RowShape, System
from safe2real.testing import RadiusContract
from tests.evidence.small_learners import hybrid_model

EVERY = [radii.Literal(), radii.Scaled(0.4), radii.KL(), radii.Union(), radii.Stitched(), radii.Adaptive()]
PROMISES = [name for name in dir(RadiusContract) if name.startswith("test_")]


def test_none_is_left_out():
    assert {type(radius) for radius in EVERY} == set(radii.ALL)
    assert len(PROMISES) >= 7


@pytest.mark.parametrize("radius", EVERY)
def test_the_contract(radius: Radius):
    contract = type("Contract", (RadiusContract,), {"make": lambda self: radius})()
    for promise in PROMISES:
        getattr(contract, promise)()


@pytest.mark.parametrize("radius", EVERY)
def test_the_plain_radius_is_the_one_that_models_are_built_with(radius: Radius):
    """Rows with 2, 3, 11 and 30 possible successors, after few and many visits with few and many of them seen."""
    states, horizon, delta = 30, 3, 0.07
    possible = np.array([2, 3, 11, 30])
    declared = np.full((states, 1, states), 1.0 / states)
    for row, size in enumerate(possible):
        declared[row, 0] = np.where(np.arange(states) < size, 1.0 / size, 0.0)
    simulator = Kernel.from_dense(declared)
    system = System(states, 1, horizon)
    for visits in (1, 2, 9, 100, 12_345, 10**8):
        for seen in (1, 2, 11, 30):
            model = hybrid_model(
                simulator, horizon, separation=None, radius=radius, delta=delta, stated=StatedRows(support=simulator)
            )
            model.counts.tally.visits[:] = visits
            model.counts.tally.length[:] = np.minimum(seen, np.pad(possible, (0, states - 4), constant_values=states))
            for row, size in enumerate(possible.tolist()):
                shape = RowShape(size, states, system, delta)
                plain = radius.after(np.array([visits]), np.array([min(seen, size)]), shape)[0]
                assert model.radii[row, 0] == pytest.approx(min(1.0, plain), rel=1e-12), (visits, seen, size)
