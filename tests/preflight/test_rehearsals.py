"""Rehearsals of one check share their time and their progress."""

from __future__ import annotations

import safe2real as s2r
from safe2real.preflight.rehearsals import Rehearsals
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


def test_a_shorter_one_and_one_that_is_forecast():
    rehearsals = Rehearsals([], 150, 2, None, None)
    real = kernel(s0a1=[0.6, 0.4])
    assert rehearsals.run(tiny(), METHOD, real, seed=0, rounds=20).rounds == 20
    assert rehearsals.run(tiny(), METHOD, real, seed=0, looks_ahead=True).forecast is not None
