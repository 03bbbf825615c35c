"""The mountain car, studied with less of everything: what it claims of the cells is true, and what it says of the car."""

from __future__ import annotations

import mountain_car
import numpy as np
import pytest
from mountain_car import Size, car_as_data, coast, learner_for, stages, study
from mountain_car_figure import draw
from mountain_car_report import show
from mountain_car_track import COAST, ENGINE, FLOOR, GAP, GOAL, LIMIT, STRONGEST, Track, cars, cells_of
from rich.console import Console

import safe2real as s2r

SMALL = Size(points=30, episodes=2_000, without=2_000, drives=40, rehearsals=500, car_episodes=150, fine=(17, 15))


@pytest.fixture(scope="module")
def found():
    with stages() as stage:
        return study(SMALL, stage)


@pytest.mark.slow
def test_what_is_declared_is_true(found):
    ours, learner = found.exploration.cars, found.exploration.learner
    gaps, cells = ours.gaps, cells_of(ours.track)
    assert ((gaps == 0.0) | (gaps >= GAP)).all()
    on_the_floor = [FLOOR[0] <= cells.centre(state)[0] < FLOOR[1] for state in range(cells.num_states)]
    wrong = (gaps > 0.0).any(axis=1)
    assert wrong.sum() == sum(on_the_floor)
    assert np.flatnonzero(wrong).tolist() == np.flatnonzero(on_the_floor).tolist()
    assert not (gaps[:, COAST] > 0.0).any()  # the baseline does not use the engine
    margin = LIMIT - mountain_car.worth(ours.real, coast(ours), mountain_car.at_goal(ours.simulated))[1]
    assert 0.0 < learner.evidence.stated[0] <= margin
    assert learner.settings.certified
    assert (ours.simulated.visits[~ours.simulated.system.known] == SMALL.points).all()


@pytest.mark.slow
def test_the_declared_support_holds_whatever_the_engine(found):
    ours = found.exploration.cars
    for engine in (0.0, STRONGEST):
        real = cars(Track(engine=engine), points=3).real.kernel
        for row in range(real.num_rows):
            assert np.isin(real.row(row)[0], ours.support.row(row)[0]).all()


@pytest.mark.slow
def test_every_deployed_mixture_keeps_the_limit_on_the_cells(found):
    for one in (found.exploration, found.without, found.heavier_without):
        assert one.episodes == 2_000
        assert one.began[0] == 0
        assert one.checkpoints[-1].episodes == 2_000
        assert one.unsafe == 0
        assert one.costs.max() <= LIMIT
        for point in one.checkpoints:
            assert point.cost <= LIMIT + 1e-9
            assert point.at_least - 1e-9 <= point.earned <= point.at_most + 1e-9
        assert one.plan.certificate.certified


@pytest.mark.slow
def test_the_simulator_alone_would_break_the_limit_on_the_cells_and_on_the_car(found):
    naive = next(one for one in found.driven if one.name == "planned on the simulator")
    assert naive.cells[1] > 1.5 * LIMIT
    assert naive.car[1] - naive.error[1] > LIMIT


@pytest.mark.slow
def test_the_trusted_policy_drives_as_it_should(found):
    off = next(one for one in found.driven if one.name.startswith("engine off"))
    assert off.car == (0.0, 0.0)  # a car at rest on the valley floor never leaves it, nor is fast
    assert 0.0 < off.cells[1] < 0.5  # its cells do not know that


@pytest.mark.slow
def test_data_of_the_continuous_car_contradict_the_cells(found):
    assert found.car_contradicts is not None
    ours = found.exploration.cars
    learner = learner_for(ours, SMALL.rehearsals)
    assert car_as_data(ours, learner, SMALL.car_episodes) == found.car_contradicts
    assert not learner.plan(mountain_car.at_goal(ours.simulated)).certificate.certified


@pytest.mark.slow
def test_physics_that_are_wrong_everywhere_are_noticed(found):
    result = found.heavier
    gaps = result.cars.gaps
    assert ((gaps > 0.0) & (gaps < GAP)).sum() > 100
    assert result.contradicted is not None
    assert result.unsafe == 0
    assert not result.plan.certificate.certified
    assert [policy.actions.max() for policy in result.plan.policy.policies] == [COAST]  # the baseline alone


@pytest.mark.slow
def test_tables_and_figure(found, tmp_path):
    console = Console(record=True, width=120, file=(tmp_path / "out.txt").open("w"))
    show(found, console)
    text = console.export_text()
    assert "no stop yet after 2,000 episodes; unsafe among the" in text
    assert "Certified: expected " in text
    assert "contradict its assumptions after" in text
    draw(found).savefig(tmp_path / "figure.png", dpi=40)
    assert (tmp_path / "figure.png").stat().st_size > 10_000


def test_the_simulator_is_gymnasiums_with_longer_steps():
    track = Track()
    track.reset(seed=0)
    track.state = np.array([-0.5, 0.1])
    seen, _, ended, _, _ = track.step(2)
    speed = 0.1 + 0.001 * 49 - 0.0025 * 49 * np.cos(-1.5)
    assert seen == pytest.approx([-0.5 + speed, speed])
    assert not ended
    strong = Track(engine=ENGINE)
    strong.reset(seed=0)
    strong.state = np.array([-0.5, 0.1])
    assert strong.step(2)[0][1] == pytest.approx(speed + 1.5 * 0.049)


@pytest.mark.slow
def test_the_goal_is_one_state(found):
    cells = cells_of(Track())
    assert {cells.state_of((GOAL + x, v)) for x in (0.0, 0.05) for v in (0.0, 0.3, 0.5)} == {cells.state_of((GOAL, 0.0))}
    system = found.exploration.cars.simulated.system
    assert int(system.known[:, 0].sum()) == 2  # the goal, and after it


@pytest.mark.slow
def test_the_whole_study_stops_and_its_plan_is_nearly_the_best():
    with stages() as stage:
        whole = study(Size(), stage)
    ours = whole.exploration.cars
    assert whole.exploration.stopped
    assert whole.exploration.unsafe == whole.without.unsafe == whole.heavier.unsafe == whole.heavier_without.unsafe == 0
    reward = mountain_car.at_goal(ours.simulated)
    best = s2r.solve(ours.real, reward).value
    assert best - whole.exploration.plan.value < 0.1
    cleared = ~whole.exploration.learner.evidence.suspects
    assert not (cleared & (ours.gaps > 0.0)).any()
