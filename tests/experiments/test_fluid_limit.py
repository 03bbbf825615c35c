"""Runs in batches: as good as round by round, and a fluid limit that is near them."""

import numpy as np
import pytest

from experiments import related
from experiments.fluid_limit import run_in_batches
from safe2real import Learner, methods, simulate
from safe2real.errors import InvalidInput
from safe2real.planning import constraint_values, evaluate
from safe2real.testing.systems import random_case

REWARD = np.random.default_rng(5).random((4, 2))


def both(case, method, most):
    return [run_in_batches(case.problem, method, case.real, most=most, expected=expected)[0] for expected in (True, False)]


@pytest.mark.parametrize("seed", [0, 3])
def test_the_fluid_limit_stops_where_sampled_runs_do(seed):
    case = random_case(seed)
    fluid, sampled = both(case, related.RFExpress(epsilon=8.0), 10**8)
    assert fluid.expected
    assert not sampled.expected
    assert fluid.stopped
    assert sampled.stopped
    assert fluid.samples > 10_000
    assert fluid.samples == pytest.approx(sampled.samples, rel=0.05)
    assert fluid.unsafe_share == pytest.approx(sampled.unsafe_share, abs=0.05)


def test_the_fluid_limit_leaves_the_baseline_where_sampled_runs_do():
    case, most = random_case(0), 10**5
    for method in (related.Dope(REWARD, most, 0, ours=True), related.OptPess(REWARD, most, ours=True)):
        fluid, sampled = both(case, method, most)
        assert 0 < fluid.samples_on_baseline == pytest.approx(sampled.samples_on_baseline, rel=0.1)
        assert fluid.unsafe_share == sampled.unsafe_share == 0.0


def test_batches_stop_about_where_rounds_do():
    case = random_case(0)
    run = simulate(Learner(case.problem, methods.Unconstrained()), case.real, max_rounds=10**6)
    batched, evidence = run_in_batches(case.problem, methods.Unconstrained(), case.real, most=10**6)
    assert run.stopped
    assert batched.stopped
    assert batched.samples == pytest.approx(run.samples, rel=0.25)
    assert evidence.samples == batched.samples
    np.testing.assert_array_equal(evidence.suspects.shape, (4, 2))


def test_fluid_counts_are_the_expected_ones():
    case = random_case(1)
    told = []
    run, evidence = run_in_batches(
        case.problem,
        related.Sweet(0.01),
        case.real,
        most=1e6 + 0.5,
        expected=True,
        rewards=[REWARD],
        progress=lambda done, decision, evidence: told.append(done),
    )
    assert run.baseline_only.all()
    assert run.episodes.sum() == evidence.counts.episodes == 10**6
    assert told == [0, *np.cumsum(run.episodes)[:-1]]
    P = case.real.to_dense().reshape(8, 4)
    seen = np.array([evidence.counts.empirical_row(row) for row in range(8)])
    np.testing.assert_allclose(seen, P, atol=1e-4)
    assert evidence.samples == pytest.approx(3 * 10**6, abs=20)
    worth, values = run.average
    assert worth[0] == pytest.approx(evaluate(case.reality, case.problem.baseline, REWARD))
    assert values == pytest.approx(constraint_values(case.reality, case.problem.baseline))
    assert run.samples_on_baseline == run.samples == 3 * 10**6


def test_a_run_ends_where_its_watcher_has_seen_enough():
    case = random_case(1)
    enough = {"most": 10**6, "progress": lambda done, *rest: done >= 50}
    run, _ = run_in_batches(case.problem, related.Sweet(0.01), case.real, **enough)
    assert run.episodes.sum() == 50
    assert not run.stopped


def test_what_counts_alone_cannot_run_is_refused():
    case = random_case(1)
    with pytest.raises(InvalidInput, match="run it with simulate"):
        run_in_batches(case.problem, related.LogBarrier(REWARD), case.real, most=10)
    with pytest.raises(InvalidInput, match="growth"):
        run_in_batches(case.problem, related.Sweet(), case.real, most=10, growth=0.0)
    with pytest.raises(InvalidInput, match="changes with the step"):
        run_in_batches(case.problem, related.Sweet(), case.real.repeated(3), most=10)
