"""The trial of a treatment plan, with few patients."""

import pytest

from experiments.studies.sepsis_system import LEAST_SURVIVAL, build, load_records
from experiments.studies.sepsis_trial import BATCH, Course, treat


def test_a_few_patients_are_counted_whole_and_nothing_unsafe_is_deployed():
    case = build(load_records())
    course = treat(case, seed=0, patients=600)
    assert [patients for patients, _ in course.floors] == list(range(BATCH, 601, BATCH))
    bounds = [bound for _, bound in course.floors]
    assert bounds == sorted(bounds)
    assert 0.2 < bounds[-1] < course.plan == pytest.approx(0.7611, abs=1e-4)
    assert min(course.deployed) > LEAST_SURVIVAL


def test_the_first_look_at_which_a_floor_is_reached():
    course = Course([(50, 0.2), (100, 0.71), (150, 0.72)], [], 0.8)
    assert course.patients_until(0.7) == 100
    assert course.patients_until(0.73) is None
