"""The lake and the cliff, explored for a while: what the study claims is true, and its assumptions hold."""

from __future__ import annotations

import pytest
from frozen_lake import cliff_walking, explore, frozen_lake, report
from frozen_lake_figure import draw
from rich.console import Console

import safe2real as s2r
from safe2real.evidence.mismatch_map import Verdict, map_mismatch
from safe2real.exploration import explore as explore_environment


@pytest.fixture(scope="module")
def studies():
    return [explore(make(), seeds=1, max_rounds=12_000, on_the_way=()) for make in (frozen_lake, cliff_walking)]


def test_what_the_settings_assume_is_true(studies):
    for study in studies:
        world, settings = study.world, study.learner.settings
        gaps = study.real.distances_to(world.system.model.kernel)
        assert ((gaps == 0.0) | (gaps >= settings.mismatch_gap)).all()
        assert int((gaps > 0.0).sum()) == 4 * len(world.slippery)
        assert world.cost(study.real, world.baseline) <= world.limit - world.margin + 1e-9
        assert gaps[world.system.known].max() == 0.0
        assert settings.certified


def test_every_deployed_policy_is_safe_and_plans_are_feasible_and_within_their_bound(studies):
    for study in studies:
        assert study.run.rounds == 12_000
        assert study.unsafe == (0.0,)
        assert study.highest_cost <= study.world.limit
        for plan in study.plans:
            at_least, earned, cost = plan.certified
            assert cost <= study.world.limit + 1e-9
            assert at_least - 1e-9 <= earned
            assert plan.best - earned <= plan.suboptimality + 1e-9


def test_the_simulator_alone_would_break_the_limit(studies):
    for study in studies:
        broken = [plan for plan in study.plans if plan.simulator[2] > study.world.limit]
        assert len(broken) >= 2
        assert all(plan.simulator[1] < plan.simulator[0] for plan in broken)  # and earn less than it promised


def test_only_slippery_cells_are_called_wrong(studies):
    for study in studies:
        found = map_mismatch(study.learner.evidence)
        gaps = study.real.distances_to(study.world.system.model.kernel)
        wrong = found.verdict == Verdict.WRONG
        assert wrong.any()
        assert (gaps[wrong] > 0.0).all()
        assert (gaps[found.verdict == Verdict.CLEARED] == 0.0).all()


def test_the_gymnasium_environment_itself_can_be_explored(studies):
    world = studies[0].world
    learner = s2r.Learner(
        s2r.Problem(world.system.model, world.baseline, studies[0].learner.settings, known=world.system.known)
    )
    explore_environment(learner, world.system.as_env(world.make(world.slippery)), max_rounds=20)
    assert learner.samples == 20 * world.system.model.steps
    assert not learner.doubts()


def test_table_and_figure(studies, tmp_path):
    console = Console(record=True, width=110, file=(tmp_path / "out.txt").open("w"))
    for study in studies:
        report(study, console)
    text = console.export_text()
    assert "Certified: expected " in text
    assert "unsafe policies deployed: 0%" in text
    draw(studies).savefig(tmp_path / "figure.png", dpi=40)
    assert (tmp_path / "figure.png").stat().st_size > 10_000
