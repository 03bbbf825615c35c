"""Rehearsals of one check share their time and their progress."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

import safe2real as s2r
from safe2real.parallel import ENGINES, workers
from safe2real.preflight.rehearsal import Rehearsals
from tests.preflight.specs import kernel, tiny

METHOD = s2r.methods.SimToReal()


def test_each_takes_its_part_of_the_progress_and_what_is_left_out_is_done():
    seen = []
    rehearsals = Rehearsals([], 120, 3, None, lambda done, total: seen.append((done, total)))
    for seed in (0, 1):
        rehearsals.run(tiny(), METHOD, kernel(s0a1=[0.6, 0.4]), seed=seed)
    assert seen == [(100, 360), (120, 360), (220, 360), (240, 360)]
    rehearsals.finish()
    assert seen[-1] == (360, 360)


def test_time_that_is_not_needed_is_left_to_the_others():
    rehearsals = Rehearsals([], 10**9, 2, 0.0, None)
    trial = rehearsals.run(tiny(), METHOD, kernel(s0a1=[0.6, 0.4]), seed=0)
    assert trial.rounds == 100  # the first look, and no further
    patient = Rehearsals([], 50, 4, 1_000.0, None)
    assert 240.0 < patient._share(4) <= 250.0
    assert 990.0 < patient._share(1) <= 1_000.0
    assert Rehearsals([], 50, 4, None, None)._share(4) is None


def test_an_engine_makes_the_same_ones_in_the_order_of_their_seeds():
    seen = []
    real, seeds, rounds = kernel(s0a1=[0.6, 0.4]), [3, 1], [70, None]
    with workers("threads", jobs=2):
        shared = Rehearsals([], 120, 4, None, lambda done, total: seen.append((done, total)))
        trials = shared.run_each(tiny(), METHOD, real, seeds=seeds, rounds=rounds)
    alone = Rehearsals([], 120, 4, None, None).run_each(tiny(), METHOD, real, seeds=seeds, rounds=rounds)
    for trial, other in zip(trials, alone, strict=True):
        same(trial, other)
    assert [(trial.seed, trial.rounds) for trial in trials] == [(3, 70), (1, 120)]
    assert seen == [(120, 480), (240, 480)]
    with workers("threads", jobs=2):
        assert Rehearsals([], 10**9, 2, 0.0, None).run_each(tiny(), METHOD, real, seeds=[0])[0].rounds == 100


@pytest.mark.slow
@pytest.mark.parametrize("name", ENGINES)
def test_a_whole_check_says_the_same_on_every_engine(name):
    pytest.importorskip({"dask": "distributed", "local": "os", "threads": "os"}.get(name, name))
    problem, real = tiny(), kernel(s0a1=[0.6, 0.4])
    alone = s2r.check_problem(problem, reality=real, max_rounds=300)
    with workers(name, jobs=2):
        shared = s2r.check_problem(problem, reality=real, max_rounds=300)
    assert shared.to_document() == alone.to_document()
    for trial, other in zip(shared.trials, alone.trials, strict=True):
        same(trial, other)


def same(trial, other):
    for field in fields(trial):
        np.testing.assert_array_equal(getattr(trial, field.name), getattr(other, field.name), err_msg=field.name)


def test_a_shorter_one_and_one_that_is_forecast():
    rehearsals = Rehearsals([], 150, 2, None, None)
    real = kernel(s0a1=[0.6, 0.4])
    assert rehearsals.run(tiny(), METHOD, real, seed=0, rounds=20).rounds == 20
    assert rehearsals.run(tiny(), METHOD, real, seed=0, looks_ahead=True).forecast is not None
