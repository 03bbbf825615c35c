"""Studies over seeds in one call: equal to the runs one by one, several at a time, and nothing waits for the interpreter."""

from dataclasses import fields, replace

import joblib
import numpy as np
import pytest

from safe2real import methods
from safe2real.errors import InvalidInput
from safe2real.exploration import Learner, simulate, simulate_many
from safe2real.problem.problem import Problem
from tests.exploration.random_problems import random_problem, settings_for

SEEDS = [5, 0, 7, 1, 2**40]


def study(constraints=1):
    model, real, baseline = random_problem(3, per_step=False, constraints=constraints)
    return Problem(model, baseline, settings_for(seed=11)), real


def one_by_one(problem, real, method, rounds):
    for seed in SEEDS:
        learner = Learner(replace(problem, settings=replace(problem.settings, seed=seed)), method)
        yield learner, simulate(learner, real, max_rounds=rounds)


def same(run, other):
    for field in fields(run):
        np.testing.assert_array_equal(getattr(run, field.name), getattr(other, field.name), err_msg=field.name)


def visits(learner, run):
    """What is kept of a run: a function of a module, so that workers find it."""
    return run.rounds, learner.evidence.counts.visits.copy()


@pytest.mark.parametrize("constraints", [1, 2])
@pytest.mark.parametrize("method", [methods.SimToReal(), methods.Unconstrained()])
def test_every_run_is_the_one_that_simulate_makes(method, constraints):
    problem, real = study(constraints)
    made = simulate_many(problem, SEEDS, real, method=method, max_rounds=400, jobs=3)
    for run, (_, other) in zip(made, one_by_one(problem, real, method, 400), strict=True):
        same(run, other)
    assert len({run.uncertainty.tobytes() for run in made}) > 1  # seeds are other runs


def test_a_method_without_compiled_rounds_is_the_same_too():
    problem, real = study()
    problem = replace(problem, settings=replace(problem.settings, robust_safety=True))
    reward = np.random.default_rng(0).random((problem.simulator.num_states, problem.simulator.num_actions))
    method = methods.ForRewards({"r": reward})
    made = simulate_many(problem, SEEDS[:3], real, method=method, max_rounds=20, jobs=2)
    for run, (_, other) in zip(made, one_by_one(problem, real, method, 20), strict=False):
        same(run, other)


def test_what_is_kept_is_taken_where_the_run_was_made_in_the_order_of_the_seeds():
    problem, real = study()
    told = []
    kept = simulate_many(
        problem, SEEDS, real, max_rounds=300, keep=visits, jobs=2, progress=lambda done, total: told.append((done, total))
    )
    for (rounds, seen), (learner, run) in zip(kept, one_by_one(problem, real, None, 300), strict=True):
        assert rounds == run.rounds
        np.testing.assert_array_equal(seen, learner.evidence.counts.visits)
    assert told == [(done, len(SEEDS)) for done in range(1, len(SEEDS) + 1)]


@pytest.mark.slow
def test_processes_make_the_same_runs():
    problem, real = study()
    with joblib.parallel_config(backend="loky"):
        kept = simulate_many(problem, SEEDS, real, max_rounds=300, keep=visits, jobs=2)
        runs = simulate_many(problem, SEEDS, real, max_rounds=300, jobs=2)
    for (rounds, seen), run, (learner, other) in zip(kept, runs, one_by_one(problem, real, None, 300), strict=True):
        assert rounds == other.rounds
        np.testing.assert_array_equal(seen, learner.evidence.counts.visits)
        same(run, other)


@pytest.mark.parametrize(
    ("seeds", "options", "said"),
    [
        ([1, -1], {}, r"seeds\[1\] is -1"),
        ([1], {"max_rounds": 0}, "max_rounds is 0"),
        ([1], {"jobs": 0}, "jobs is 0"),
    ],
)
def test_what_is_no_study_is_refused(seeds, options, said):
    problem, real = study()
    with pytest.raises(InvalidInput, match=said):
        simulate_many(problem, seeds, real, **options)
    with pytest.raises(InvalidInput, match="give the Kernel of the real system"):
        simulate_many(problem, [1, 2], problem.simulator, jobs=2)
