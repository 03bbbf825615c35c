"""The comparison with related systems: what it runs, and that its page says what it must."""

import pytest

from experiments import related
from experiments.studies import comparison
from experiments.studies import public_code_check as beside
from experiments.studies.comparison_runs import EPSILON, compared_run, problem_of, reachability
from experiments.studies.declared_systems import instance
from experiments.studies.plain_runs import LEARNERS, best_value, judged, passed, plain_run, ucb_vi


def result(task):
    """What a run of it could give, without running it."""
    kind, settings = task.kind, task.settings
    if kind == "bar":
        return {"episodes": 1_000, "unsafe": 0, "value": 2.0, "miss": -0.1, "best": 2.05}
    if kind == "plain":
        records = [[10, 3, 1.0], [40, 7, 1.9 if settings["penalty"] <= 0.5 else 1.8]]
        return {"records": records, "ran": 50, "unsafe": 9, "value": 1.7}
    if kind == "beside":
        runs = [one for one in beside.public_code()["runs"] if one["quantity"] == settings["quantity"]]
        return {"number": next(one["public"] for one in runs if not one["explained"]), "error": 0.0}
    number = 20 if settings.get("reward") is None else 1
    name = {"barrier": "LogBarrier", "transferred": "ExplorationTransfer"}.get(kind) or settings["method"]
    safe = getattr(related, name).facts.safe if hasattr(related, name) else name != "Algorithm 3"
    assert name != "Declared rewards" or settings["panel"] == "B"
    return {
        "expected": settings.get("panel") == "A",
        "stopped": True,
        "samples": 1_200,
        "reached": 1_200,
        "on_baseline": 12,
        "unsafe_share": 0.0 if safe else 0.5,
        "gaps": [0.1] * number,
        "misses": [0.0] * number,
        "curve": [[100.0, 0.1, 1.0, 1.0], [1_200.0, 0.2, 0.1, 1.0]],
    }


@pytest.fixture
def rows():
    kept = []
    for task in comparison.tasks(1):
        kept.append({"kind": task.kind, "settings": task.settings, "result": result(task), "seconds": 1.0, "id": task.id})
    return kept


def test_every_system_is_in_panel_a_and_every_task_is_another(rows):
    assert len({row["id"] for row in rows}) == len(rows)
    names = {line.name for line in comparison.lines_of(rows, "A")}
    assert names == {"Algorithm 1", "Algorithm 2", "Algorithm 3", *(kind.__name__ for kind in related.ALL)}


def test_the_page_calls_nothing_adapted_by_its_bare_name(rows, tmp_path):
    outcome = comparison.draw(rows, tmp_path)
    assert all(one.within is not False for one in outcome.comparisons if "bare" in one.name or "proof" in one.name)
    text = (tmp_path / "page.md").read_text()
    tables = text.split("## The systems")[0]
    for kind in related.ALL:
        facts = kind.facts
        assert facts.citation in text
        exact = facts.fidelity is related.Fidelity.EXACT
        assert (f"| {facts.system}, visits pooled |" if exact else f"| {facts.label} |") in tables
        assert f"| {facts.system} |" not in tables
    assert text.count("not run: its constants were not found in a public source") == len(related.NOT_RUN) == 2
    searched = {one["system"] for one in beside.public_code()["searched"]}
    assert {one.system for one in related.NOT_RUN} <= searched
    compared = {one["system"] for one in beside.public_code()["runs"]}
    systems = {kind.facts.system.split(",")[0] for kind in related.ALL} | {one.system for one in related.NOT_RUN}
    assert compared | searched == systems  # every system has been looked for
    assert "DIFFERS" not in text
    assert "(fluid)" in text
    for learner in LEARNERS:
        assert f"| {learner} |" in text
    assert (tmp_path / "comparison.png").stat().st_size > 10_000


def test_one_reward_methods_pay_for_every_reward(rows):
    lines = {line.name: line for line in comparison.lines_of(rows, "A")}
    assert lines["Dope"].samples == 20 * lines["RFExpress"].samples == 24_000
    assert lines["HySRL"].unsafe_share == 0.5


def test_declared_rewards_pay_once_or_for_every_reward(rows):
    lines = [line for line in comparison.lines_of(rows, "B") if line.name == "Declared rewards"]
    assert [line.samples for line in lines] == [1_200, 24_000]
    assert [line.cells[2] for line in lines] == ["declared", "one"]
    assert len({line.label for line in lines}) == 2


def test_plain_learners_are_as_good_as_the_plan_when_their_records_say_so(rows):
    table = comparison.plain_table(rows).rows
    by_learner = {(row[0], row[1], row[2]): row[3:] for row in table}
    assert by_learner["grid, cell (0, 4)", "Q-learning", "0.1"] == ["40", "7", "95%"]
    assert by_learner["grid, cell (0, 4)", "Q-learning", "1"] == ["not in 50 (0 of 1 seeds)", "9", "85%"]


def test_a_public_number_that_differs_shows(rows, tmp_path, monkeypatch):
    monkeypatch.setattr(comparison, "draw_samples", lambda *given: None)
    for row in rows:
        if row["settings"].get("quantity") == "dope_value":
            row["result"]["number"] += 0.1
    by_name = {one.name: one.within for one in comparison.draw(rows, tmp_path).comparisons}
    assert by_name["numbers of public code that differ from ours without a reason"] is False


def test_an_unsafe_safe_method_shows(rows, tmp_path, monkeypatch):
    monkeypatch.setattr(comparison, "draw_samples", lambda *given: None)  # which takes the time
    for row in rows:
        if row["settings"].get("method") == "Dope":
            row["result"]["unsafe_share"] = 0.01
    assert comparison.draw(rows, tmp_path).comparisons[0].within is False


def test_runs_are_exact_about_what_was_deployed():
    assert reachability() == pytest.approx(0.798, abs=5e-4)
    found = compared_run({"method": "HySRL", "panel": "B", "reward": 0, "seed": 0})
    assert found["stopped"]
    assert 0.2 < found["unsafe_share"] < 0.8
    assert found["gaps"][0] <= EPSILON
    assert found["curve"][-1][0] == found["samples"] == found["reached"]
    assert problem_of("A", 0).settings.radius.name == "literal"


def test_ucb_vi_has_no_bonus_where_only_the_end_is_counted():
    """Otherwise actions that nobody takes there would make every state look best of all, for ever."""
    lake = instance("lake")
    assert lake.model.counts_end
    worth = []

    def see(done, safety, policy):
        worth.append(judged(lake, policy, "goal")[0])
        return done > 60_000

    ucb_vi(lake, "goal", 0.0, 0, see, scale=0.001)
    assert max(worth) > 1.0


@pytest.mark.slow
def test_plain_learning_on_the_grid():
    best = best_value("grid")
    found = plain_run({"system": "grid", "learner": "Q-learning", "penalty": 0.1, "seed": 0})
    assert found["unsafe"] > 0
    assert found["records"][-1][2] == found["value"] >= 0.95 * best
    at = passed(found, 0.9 * best)
    assert at["episodes"] <= found["ran"]
    assert at["unsafe"] <= found["unsafe"]
    simulated = plain_run({"system": "grid", "learner": "plan on the simulator", "penalty": 0.0, "seed": 0})
    assert passed(simulated, best)["episodes"] is None
    assert simulated["ran"] == 100_000
