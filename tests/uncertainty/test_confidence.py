"""The radius is written twice, once compiled: both must be the paper's, whatever the sizes, the scale and the visits."""

import math

import numpy as np
import pytest

from safe2real.model.kernel import Kernel
from safe2real.uncertainty import _kernels
from safe2real.uncertainty.bounds import literal_beta
from safe2real.uncertainty.confidence import LiteralRadius, Radius, ScaledRadius, System, radius_after, radius_constants
from safe2real.uncertainty.mismatch import HybridModel

VISITS = [*range(300), *(int(n) for n in np.geomspace(300, 1e15, 200))]


def rule_for(radius: Radius, system: System, delta: float) -> _kernels.Rule:
    """As `HybridModel` makes it; the rest of the rule has no part in the radius."""
    constant, weight = radius_constants(system, delta)
    return _kernels.Rule(constant, weight, float(radius.scale), threshold=-1.0, suspect_bonus=1.0, cleared_bonus=0.0)


@pytest.mark.parametrize("delta", [1e-9, 0.05, 0.99])
@pytest.mark.parametrize("radius", [LiteralRadius(), *map(ScaledRadius, (1e-3, 0.05, 0.4, 1.0, 2.5))], ids=str)
@pytest.mark.parametrize(
    "sizes", [(1, 1, 1), (2, 3, 5), (25, 4, 12), (300, 1, 1), (1, 50, 1), (1, 1, 1000), (10_000, 18, 500)]
)
def test_the_compiled_radius_is_the_python_radius_and_the_papers(
    sizes: tuple[int, int, int], radius: Radius, delta: float
) -> None:
    S, A, H = sizes
    rule = rule_for(radius, System(S, A, H), delta)
    compiled = np.array([_kernels.radius_at(rule, n) for n in VISITS])
    in_python = [radius_after(radius, n, System(S, A, H), delta) for n in VISITS]
    betas = [math.log(2 * S * A * H / delta) + S * math.log(8 * math.e * (n + 1)) for n in VISITS]
    printed = [min(1.0, radius.scale * math.sqrt(beta / max(2 * n, 1))) for n, beta in zip(VISITS, betas, strict=True)]
    np.testing.assert_allclose(compiled, in_python, rtol=1e-14)
    np.testing.assert_allclose(in_python, printed, rtol=1e-14)
    assert (np.diff(compiled) <= 0.0).all()  # Lemma beta-monotone
    assert (compiled < 1.0).any()
    public = [literal_beta(n, num_states=S, num_actions=A, horizon=H, delta=delta) for n in VISITS[::10]]
    np.testing.assert_allclose(public, betas[::10], rtol=1e-14)


def test_without_data_the_literal_radius_is_one_and_a_scaled_one_may_be_less() -> None:
    # S = A = H = 1, delta = 0.5: beta(0) = log 4 + log 8e = 4.4657359028
    system = System(1, 1, 1)
    assert radius_after(LiteralRadius(), 0, system, 0.5) == 1.0
    assert radius_after(ScaledRadius(0.1), 0, system, 0.5) == pytest.approx(0.1 * math.sqrt(4.4657359028), rel=1e-10)


def test_the_hybrid_model_uses_the_same_radius() -> None:
    simulator = Kernel.from_dense(np.full((3, 2, 3), 1 / 3))
    model = HybridModel(simulator, 4, separation=None, radius=ScaledRadius(0.3), delta=0.1)
    model.counts.tally.visits[:] = [0, 1, 2, 10, 500, 10**9]
    expected = [radius_after(ScaledRadius(0.3), float(n), System(3, 2, 4), 0.1) for n in model.counts.visits.reshape(-1)]
    np.testing.assert_allclose(model.radii.reshape(-1), expected, rtol=1e-14)
