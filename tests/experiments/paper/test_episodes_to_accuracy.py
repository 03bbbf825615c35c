"""What the certified study says about other systems: from made-up rows, and without the optional package."""

import pytest

from experiments.artefact import Outcome
from experiments.studies import certified
from experiments.studies import episodes_to_accuracy as affordable
from experiments.studies import sepsis_to_accuracy as affordable_sepsis
from experiments.studies.episodes_to_accuracy_runs import tried_run
from safe2real.errors import InvalidInput

CALM = {"unsafe_rounds": 0, "lost": 0}


def row(task, **result):
    return {"kind": task.kind, "settings": task.settings, "result": CALM | result}


def made_up(task, episodes):
    """A row of one of `affordable`'s tasks, with so many episodes wherever some are counted."""
    if task.kind == "stop":
        return row(task, episodes=episodes if task.settings["refined"] else 6 * episodes, bounds=[0.001] * 5)
    if task.kind == "declared":
        return row(task, episodes=[episodes], looked=1, true=1)
    reached = {"share": 300, "80 %": 100, "90 %": None}
    return row(task, before=60, trial=reached, claimed=1.0, worth=2.0, best=2.0, certified_untested=False)


def drawn(episodes, folder):
    """The outcome of declared runs that all took so many episodes, or None: that did not get there."""
    outcome = Outcome()
    rows = [made_up(task, episodes if task.kind == "declared" else 45) for task in affordable.tasks(2)]
    affordable.draw(rows, folder, outcome)
    return outcome, {one.name: one for one in outcome.comparisons}


def test_every_system_has_its_row_beside_what_is_wanted(tmp_path):
    outcome, compared = drawn(45, tmp_path)
    rows = {line[0]: line[1:] for line in outcome.more["certified-declared"].rows}
    assert rows["warehouse, shelf"] == ["-", "45 (45 to 45)", "-", "-", "1,500", "-", "2"]
    assert rows["pond, water in store"][:3] == ["45 (45 to 45)"] * 3
    assert compared["warehouse, shelf, support: episodes to 5 %"].within
    assert all(one.within for one in compared.values())
    assert [line[0] for line in outcome.more["certified-tried"].rows].count("pond, water in store") == 2
    assert (tmp_path / "declared.png").stat().st_size > 10_000


def test_what_was_not_reached_is_said(tmp_path):
    outcome, compared = drawn(None, tmp_path)
    rows = {line[0]: line[1:] for line in outcome.more["certified-declared"].rows}
    assert rows["pond, water in store"][:3] == ["> 6,000"] * 3
    shelf = compared["warehouse, shelf, support: episodes to 5 %"]
    assert (shelf.ours, shelf.within) == ("> 3,000", False)


def sepsis_rows(first):
    """A run whose floor is 72 %, 74 % and 78 % after `first`, twice and three times as many patients."""
    points = [{"patients": first * i, "floor": floor, "survival": 0.79} for i, floor in ((1, 0.72), (2, 0.74), (3, 0.78))]
    return [row(task, points=points, lowest=0.67, mixtures=3, false=0) for task in affordable_sepsis.tasks(2)]


def test_sepsis_stands_beside_what_is_wanted(monkeypatch, tmp_path):
    monkeypatch.setattr(affordable_sepsis, "installed_records", lambda: "2.0.1")
    assert [task.kind for task in affordable_sepsis.tasks(10)] == ["sepsis_floor"] + ["sepsis_trial"] * 3
    for first, within in ((3_000, [True, True, True]), (15_000, [True, True, False]), (25_000, [False, False, False])):
        outcome = Outcome()
        affordable_sepsis.draw(sepsis_rows(first), tmp_path, outcome)
        assert [one.within for one in outcome.comparisons[:3]] == within
        assert [one.within for one in outcome.comparisons[3:]] == [True] * 3
    assert [line[4] for line in outcome.more["certified-sepsis"].rows] == ["50,000", "75,000", "50,000, 50,000"]
    assert (tmp_path / "sepsis.png").stat().st_size > 10_000


def test_without_the_package_the_others_stay_and_the_cure_is_said(monkeypatch, tmp_path):
    everything = {task.kind for task in certified.tasks(1)}
    monkeypatch.setattr(affordable_sepsis, "installed_records", lambda: None)
    assert {task.kind for task in certified.tasks(1)} == everything - {"sepsis_floor", "sepsis_trial"}
    outcome = Outcome()
    affordable_sepsis.draw([], tmp_path, outcome)
    assert not outcome.comparisons
    assert "pip install 'safe2real[examples]'" in outcome.remarks[0]


def test_ties_of_the_pond_that_nobody_calls_exact_find_a_policy_for_a_trial():
    found = tried_run({"system": "pond", "reward": "water in store", "seed": 1, "before": 60, "most": 300})
    assert (found["before"], found["unsafe_rounds"], found["certified_untested"]) == (60, 0, False)
    assert 0.9 * found["best"] < found["worth"] < found["best"]
    assert found["trial"]["80 %"] <= 300
    with pytest.raises(InvalidInput, match="no ties are known"):
        tried_run({"system": "lake", "reward": "goal", "seed": 1, "before": 60, "most": 300})
