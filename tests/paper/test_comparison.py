"""The comparison with related systems: what it runs, and that its page says what it must."""

import numpy as np
import pytest

from safe2real.methods import related
from safe2real.paper import comparison
from safe2real.paper.comparison_figure import mean_curve
from safe2real.paper.comparison_runs import EPSILON, compared_run, problem_of, reachability
from safe2real.paper.plain_runs import LEARNERS, plain_run


def result(task):
    """What a run of it could give, without running it."""
    kind, settings = task.kind, task.settings
    if kind == "bar":
        return {"episodes": 1_000, "unsafe": 0, "value": 2.0, "miss": -0.1, "best": 2.05}
    if kind == "plain":
        late = settings["penalty"] > 0.5
        ended = {"episodes": None, "ran": 50} if late else {"episodes": 40}
        return {**ended, "unsafe": 7, "value": 1.9, "miss": 0.0, "bar": 2.0}
    number = 20 if settings.get("reward") is None else 1
    name = {"barrier": "LogBarrier", "transferred": "ExplorationTransfer"}.get(kind) or settings["method"]
    safe = getattr(related, name).facts.safe if hasattr(related, name) else name != "Algorithm 3"
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
    assert "(fluid)" in text
    for learner in LEARNERS:
        assert f"| {learner} |" in text
    assert (tmp_path / "comparison.png").stat().st_size > 10_000


def test_one_reward_methods_pay_for_every_reward(rows):
    lines = {line.name: line for line in comparison.lines_of(rows, "A")}
    assert lines["Dope"].samples == 20 * lines["RFExpress"].samples == 24_000
    assert lines["HySRL"].unsafe_share == 0.5
    samples, unsafe, gap = mean_curve(lines["Dope"])
    np.testing.assert_allclose([samples, unsafe, gap], [[100.0, 1_200.0], [0.1, 0.2], [1.0, 0.1]])


def test_an_unsafe_safe_method_shows(rows, tmp_path, monkeypatch):
    monkeypatch.setattr(comparison, "draw_curves", lambda *given: None)  # which takes the time
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


@pytest.mark.slow
def test_plain_learning_on_the_grid():
    found = plain_run({"system": "grid", "learner": "Q-learning", "penalty": 0.1, "seed": 0})
    assert found["unsafe"] > 0
    assert found["value"] >= 0.95 * found["bar"]
    simulated = plain_run({"system": "grid", "learner": "plan on the simulator", "penalty": 0.0, "seed": 0})
    assert simulated["episodes"] is None
