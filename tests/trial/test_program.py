"""Tallies, records, tables and the program around them."""

import itertools
import json

import pytest
from typer.testing import CliRunner

from safe2real.errors import InvalidInput
from safe2real.parallel import workers
from trial.__main__ import app, control_runs, longest_run, route_runs
from trial.flaws import Flaw
from trial.outcome import Outcome
from trial.parts import ROUTES, Part
from trial.record import Record
from trial.statements import Kind
from trial.table import markdown
from trial.tally import Tallies, Tally, interval
from trial.workers import Plan, run_in_order


def outcome(number=0, delta=0.05, failures=(), unsafe=0, halted=False, radius="adaptive", part=Part.LONG, allowed=None):
    return Outcome(
        number=number,
        part=part,
        delta=delta,
        allowed=delta if allowed is None else allowed,
        family="coins",
        radius=radius,
        failures=failures,
        deployments=100,
        unsafe=unsafe,
        exploring=80,
        mixtures=10,
        plans=8,
        stopped=False,
        halted=halted,
    )


def tallies(runs, failed, *, delta=0.05, kinds=(Kind.UNSAFE,), **more):
    result = Tallies()
    for number in range(runs):
        result.add(outcome(number, delta, kinds if number < failed else (), **more))
    return result


def test_the_interval_is_that_of_clopper_and_pearson():
    assert interval(0, 10) == pytest.approx((0.0, 1.0 - 0.025**0.1))
    assert interval(10, 10) == pytest.approx((0.025**0.1, 1.0))
    assert interval(1, 10) == pytest.approx((0.0025286, 0.4450161), abs=1e-7)
    assert interval(50, 100, confidence=0.99) == pytest.approx((0.3688614, 0.6311386), abs=1e-7)


def test_a_tally_counts_a_run_once_however_many_statements_were_false():
    tally = Tally()
    tally.add(outcome(failures=(Kind.UNSAFE, Kind.RADIUS), unsafe=7))
    tally.add(outcome())
    tally.add(outcome(failures=(Kind.HALTED,), halted=True))
    assert (tally.runs, tally.failed, tally.alarms, tally.unsafe, tally.halted) == (3, 2, 1, 7, 1)
    assert tally.kinds == {"unsafe": 1, "radius": 1, "halted": 1}
    assert (tally.deployments, tally.exploring, tally.mixtures, tally.plans) == (300, 240, 30, 24)
    assert Tally.sum([tally, tally]).to_json() == {**{k: 2 * v for k, v in tally.to_json().items() if k != "kinds"},
                                                   "kinds": {"unsafe": 2, "radius": 2, "halted": 2}}  # fmt: skip


def good_controls():
    return {
        Flaw.HALF_RADIUS: tallies(100, 40),
        Flaw.MARGIN: tallies(100, 30),
        Flaw.TESTED_MARGIN: tallies(100, 0, halted=True),
    }


def test_a_record_says_what_speaks_against_the_guarantee_and_against_itself():
    record = Record(seed=0, asked=1, longest=1, jobs=1, trial=tallies(1000, 40), controls=good_controls())
    assert record.problems() == []
    record.trial = tallies(1000, 80)
    assert len(record.problems()) == 2  # above delta, and above delta with the share of the test on returns
    record.trial = tallies(1000, 80, kinds=(Kind.HALTED,))  # false alarms alone: at most delta and a tenth of it
    (problem,) = record.problems()
    assert "0.055" in problem
    record.trial = tallies(1000, 80, part=Part.ASKED)
    assert len(record.problems()) == 2
    assert all(problem.startswith("ask and tell: ") for problem in record.problems())
    record.trial = tallies(1000, 80, part=Part.ASKED, allowed=0.1)  # by what its learners say themselves
    assert record.problems() == []
    record.trial.add(outcome(part=Part.LONG, failures=()))
    for number in range(1000):
        record.trial.add(outcome(number, part=Part.SEEDS, failures=(Kind.RADIUS,) if number < 80 else ()))
    assert len(record.problems()) == 2  # a part that fails is not hidden by the others
    record.trial = tallies(1000, 40)
    record.controls[Flaw.HALF_RADIUS] = tallies(100, 10)
    assert "radius" in record.problems()[0]
    record.controls = {**good_controls(), Flaw.TESTED_MARGIN: tallies(100, 0)}
    assert "halts" in record.problems()[0]


def test_a_record_is_read_as_it_was_written(tmp_path):
    record = Record(seed=5, asked=10, longest=20, jobs=2, seconds=3.0, complete=True, controls=good_controls())
    record.trial = tallies(30, 2)
    record.describe({"number": 1})
    record.write(tmp_path / "r.json")
    again = Record.read(tmp_path / "r.json")
    assert markdown(again) == markdown(record)
    assert again.failures == [{"number": 1}]
    assert [path.name for path in tmp_path.iterdir()] == ["r.json"]
    (tmp_path / "other.json").write_text("[]")
    with pytest.raises(InvalidInput, match="not a result of a trial"):
        Record.read(tmp_path / "other.json")
    with pytest.raises(InvalidInput, match="not a result of a trial"):
        Record.read(tmp_path / "missing.json")


def test_the_table_shows_every_number():
    record = Record(seed=0, asked=1, longest=1, jobs=1, trial=tallies(1234, 3), controls=good_controls())
    text = markdown(record)
    assert "UNFINISHED" in text
    assert (
        "| compiled runs | 0.05 | 1,234 | 62 | 3 | 0.00050 to 0.00709 | unsafe 3 | 9,872 | 123,400 | 98,720 | 12,340 | 0 |"
        in text
    )
    assert "| every radius halved | compiled runs | 0.05 | 100 | 40 |" in text
    assert len({line.count("|") for line in text.split("\n\n")[1].splitlines()}) == 1


def test_runs_come_in_order_whatever_the_number_of_processes():
    """Of the compiled part."""
    plan = Plan(seed=1, longest=150)
    alone = list(itertools.islice(run_in_order(plan), 10))
    assert list(run_in_order(plan, 6)) == alone[:6]
    with workers(jobs=2):
        together = list(itertools.islice(run_in_order(plan), 10))
    assert together == alone
    assert [one.number for one in alone] == list(range(10))


def test_lengths_grow_with_the_trial():
    assert longest_run(10**7) == 37947
    assert longest_run(10**9) == 379473
    assert route_runs(10**7) == 118
    assert route_runs(10**9) == 600
    for flaw, runs in (Flaw.MARGIN, 60), (Flaw.ONE_LOG, 24):
        assert control_runs(10**9, flaw) == control_runs(10**7, flaw) == runs


def test_every_part_has_a_control_and_every_control_a_part():
    assert {flaw.part for flaw in Flaw if flaw is not Flaw.NOTHING} == set(Part)
    assert set(ROUTES) | {Part.LONG} == set(Part)


@pytest.mark.slow
def test_the_program_writes_prints_and_repeats_a_trial(tmp_path):
    file = tmp_path / "trial.json"
    arguments = ["--deployments", "2e3", "--seed", "2", "--jobs", "1"]
    done = CliRunner().invoke(app, [*arguments, "--out", str(file)])
    assert done.exit_code in (0, 1), done.output  # as short a trial may be too short for its controls
    document = json.loads(file.read_text())
    assert document["complete"]
    made = [sum(group[name] for group in document["trial"]) for name in ("deployments", "unsafe", "runs")]
    assert made[0] >= 2000
    assert made[1] == 0
    assert {group["delta"] for group in document["trial"]} == {0.05, 0.3, 0.9}
    assert set(document["controls"]) == {str(flaw) for flaw in Flaw if flaw is not Flaw.NOTHING}
    printed = CliRunner().invoke(app, ["--table", str(file)])
    assert printed.stdout == done.stdout
    again = Tallies()
    for part in Part:
        runs = sum(group["runs"] for group in document["trial"] if group["part"] == part)
        assert runs == route_runs(2000) or part is Part.LONG
        for one in itertools.islice(run_in_order(Plan(2, longest_run(2000), part)), runs):
            again.add(one)
    assert again.to_json() == document["trial"]
    one = CliRunner().invoke(app, [*arguments, "--run", "4", "--part", "logs"])
    assert json.loads(one.stdout)["number"] == 4
    assert json.loads(one.stdout)["part"] == "logs"


def test_the_program_refuses_what_it_cannot_do(tmp_path):
    assert CliRunner().invoke(app, ["--deployments", "0"]).exit_code == 2
    assert CliRunner().invoke(app, ["--jobs", "0"]).exit_code == 2
    assert CliRunner().invoke(app, ["--engine", "slurm"]).exit_code == 2
    assert CliRunner().invoke(app, ["--table", str(tmp_path / "missing.json")]).exit_code == 2
