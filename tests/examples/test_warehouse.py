"""The warehouse study in its reduced form: what it claims about safety, the map and the plans is true."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from warehouse import main
from warehouse_study import NUMBERS, QUICK, Outcome, Study

import safe2real as s2r
from experiments.studies.warehouse_floor import GAP, SMALL_FLOOR, Warehouse
from safe2real.evidence.mismatch_map import Verdict
from safe2real.exploration import explore


@pytest.fixture(scope="module")
def done() -> Any:
    """(the study after its exploration, the exploration, the outcomes of all errands)."""
    study = Study(QUICK)
    shares: list[float] = []
    exploration = study.explore(shares.append)
    assert shares[-1] == 1.0
    assert (np.array(shares) >= 0.0).all()
    return study, exploration, [study.plan(errand) for errand in study.errands()]


def test_every_deployment_is_safe_and_the_stop_is_certified(done):
    study, exploration, _ = done
    assert exploration.stopped
    assert study.learner.settings.certified
    assert not study.learner.doubts()
    assert exploration.unsafe_episodes == 0
    assert exploration.people.max() <= study.case.limit + 1e-8
    assert exploration.people.max() > 0.25 * study.case.limit  # it does go where the people are
    assert exploration.samples == exploration.episodes * study.case.horizon


def test_the_assumptions_are_true(done):
    study, _, _ = done
    assert study.people(study.baseline) == pytest.approx(0.0, abs=1e-9)  # so the margin is the whole limit
    gaps = study.real.kernel.distances_to(study.system.model.kernel)
    assert set(gaps.round(9).ravel().tolist()) == {0.0, 0.7125, 0.95}
    assert gaps[gaps > 0.0].min() >= GAP == study.learner.settings.mismatch_gap
    assert not (study.learner.evidence.known & study.wrong).any()


def test_exactly_the_wrong_moves_are_found(done):
    study, _, _ = done
    found = study.mismatch()
    assert study.wrong.sum() == 8  # six moves on wet floor, two into the door
    np.testing.assert_array_equal(found.verdict == Verdict.WRONG, study.wrong)
    assert found.count(Verdict.CONTRADICTED) == 0


def test_every_plan_is_as_promised(done):
    study, _, outcomes = done
    assert {outcome.kind for outcome in outcomes} == {"pick", "count", "charge", "round"}
    for outcome in outcomes:
        assert outcome.certified, outcome.place
        assert outcome.people <= study.case.limit + 1e-8, outcome.place
        assert -1e-8 <= outcome.suboptimality <= outcome.bound + 1e-8, outcome.place
        assert outcome.value >= outcome.baseline_value - 1e-8, outcome.place
        assert outcome.kept(study.case.limit)
    assert max(outcome.bound for outcome in outcomes) < 0.05 * study.case.horizon


def test_plans_of_the_raw_simulator_are_not(done):
    study, _, outcomes = done
    unsafe = [outcome for outcome in outcomes if outcome.simulator_people > study.case.limit]
    assert len(unsafe) >= len(outcomes) // 2
    assert all(outcome.simulator_value < outcome.simulator_promise - 0.5 for outcome in unsafe)


def test_bounds_shrink_on_the_way(done):
    _, exploration, _ = done
    means = [np.mean(point.bounds) for point in exploration.checkpoints]
    assert len(means) == 3
    assert means[0] > 2.0 * means[-1]
    assert all((np.array(point.suboptimalities) <= np.array(point.bounds) + 1e-8).all() for point in exploration.checkpoints)


def test_a_run_in_pieces_is_the_run_in_one(done):
    study, exploration, _ = done
    whole = Study(QUICK)
    run = s2r.simulate(whole.learner, whole.real.kernel)
    assert (run.stopped, run.samples) == (True, exploration.samples)
    np.testing.assert_array_equal(whole.learner.evidence.suspects, study.learner.evidence.suspects)


def test_a_promise_that_is_broken_is_noticed(done):
    _, _, outcomes = done
    outcome = outcomes[0]
    values = {name: getattr(outcome, name) for name in ("kind", "place", "certified", *NUMBERS)}
    assert Outcome(**values).kept(2.0)
    for broken in ({"people": 2.1}, {"suboptimality": outcome.bound + 0.1}, {"certified": False}):
        assert not Outcome(**values | broken).kept(2.0)


def test_the_environment_does_what_its_table_says():
    env = Warehouse(SMALL_FLOOR, real=True)
    state, _ = env.reset(seed=3)
    assert env.cells[state] == (7, 3)
    wet = env.index[4, 3]
    stays = 0
    for _ in range(2_000):
        env.state = wet
        stays += env.step(0)[0] == wet
    assert stays / 2_000 == pytest.approx(0.7625, abs=0.04)
    assert Warehouse(SMALL_FLOOR).P[env.index[2, 3]][0] == [(1.0, env.index[2, 3], 0.0, False)]  # the door


def test_the_learner_explores_the_environment_itself():
    study = Study(QUICK, seed=1)
    explore(study.learner, study.system.as_env(study.real_env), max_rounds=30)
    assert study.learner.samples == 30 * study.case.horizon


@pytest.mark.slow
def test_the_command_prints_and_draws(tmp_path, capsys):
    main(["--quick", "--out", str(tmp_path)])
    printed = " ".join(capsys.readouterr().out.split())
    assert "within their bound: 16 of 16" in printed
    assert "Unsafe episodes, by exact evaluation: 0." in printed
    assert {path.name for path in tmp_path.iterdir()} == {"outcomes.csv", "warehouse-floor.png", "warehouse-rewards.png"}
    assert len((tmp_path / "outcomes.csv").read_text().splitlines()) == 17
