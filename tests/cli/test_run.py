"""`safe2real run`: a whole campaign from a file, resumed where it ended, with the truth about what was deployed."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

import safe2real as s2r
from safe2real.cli import app
from safe2real.cli import run as module
from safe2real.cli.io import NOT_READY
from safe2real.cli.run import _print_after
from safe2real.errors import Conflict
from safe2real.model.constraint_text import Wording
from safe2real.preflight.rehearsed_campaign import Exact, RehearsedCampaign, exact_values, open_or_begin, run_campaign
from safe2real.report.preflight_report import draw_exact
from safe2real.standing import Standing
from tests.preflight.specs import LAKE, REAL, TOML, kernel, tiny, write

RUN = "\n[run]\nmax_rounds = 60\ngrowth = 0.1\nplans = 2\n"
WRONG = kernel(s0a1=[0.6, 0.4])
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "specs" / "windy_grid.toml"


@pytest.fixture
def no_pictures(monkeypatch):
    """The report and the figures take longer than all the rest; two tests look at them."""
    monkeypatch.setattr(module, "_write", lambda *_: {})


def run(*arguments):
    return CliRunner().invoke(app, ["run", *map(str, arguments)], prog_name="safe2real", env={"COLUMNS": "200"})


def document_of(*arguments):
    ended = run(*arguments, "--json")
    assert ended.exit_code == 0, ended.output
    return json.loads(ended.stdout)


def test_a_campaign_from_a_file(tmp_path):
    out = tmp_path / "out"
    document = document_of(write(tmp_path, TOML + REAL + RUN), "--out", out)
    assert document["rounds"] == 60
    assert document["samples"] == 180
    assert document["stopped"] is False
    assert document["certified"] is document["verified"] is True
    assert document["unsafe_deployments"] == document["deployments_below_their_bound"] == 0
    assert document["assumptions_broken"] == []
    assert (document["wrong_rows"], document["wrong_rows_cleared"]) == (1, 0)
    assert len(document["plans"]) == 2
    assert all(plan["as_promised"] and plan["feasible"] and plan["certified"] for plan in document["plans"])
    assert json.loads((out / "summary.json").read_text()) == document
    assert "Campaign" in Path(document["files"]["report"]).read_text()
    for figure in ("safety", "mismatch"):
        assert Path(document["files"][figure]).read_bytes().startswith(b"\x89PNG")
    with s2r.Campaign.open(out / "campaign.db") as campaign:
        assert campaign.status(forecast=False).told == 60
        assert campaign.verify().holds


def test_the_summary_for_people(tmp_path):
    ended = run(write(tmp_path, TOML + REAL + RUN))
    assert ended.exit_code == 0
    assert ended.stdout.startswith("Reality: as stated in the file.\ncertified, if the margin and the gaps are true of ")
    assert "the real system. 60 deployments, 180 samples." in ended.stdout
    assert "unsafe deployments, by exact evaluation: 0 of 60" in ended.stdout
    assert "the last round was reached" in ended.stdout
    assert str(tmp_path / "spec-run" / "report.html") in ended.stdout  # beside the file by default


@pytest.mark.usefixtures("no_pictures")
def test_distances_that_this_reality_does_not_keep_to_are_a_broken_assumption(tmp_path):
    """Row (0, 1) of the reality is 0.6 away from the simulator's."""
    for stated, broken in ((0.6, []), (0.5, ["within"])):
        folder = tmp_path / str(stated)
        folder.mkdir()
        text = f"within = [[1.0, {stated}], [1.0, 1.0]]\n{TOML}{REAL}{RUN}"
        document = document_of(write(folder, text))
        assert [one["code"] for one in document["assumptions_broken"]] == broken
        assert document["certified"] is not bool(broken)
    said = run(write(folder, text), "--out", tmp_path / "again").stdout
    assert "ASSUMPTION BROKEN, so nothing below is a guarantee. distances that were stated" in said
    said = run(write(folder, text.replace("0.5]", "0.6]")), "--out", tmp_path / "kept").stdout
    assert "certified, if the margin, the gaps and the distances that `within` states are true of the real system" in said


@pytest.mark.usefixtures("no_pictures")
def test_a_promise_that_is_broken_ends_with_a_code_of_its_own(tmp_path, monkeypatch):
    """Also where every deployment was safe."""
    monkeypatch.setattr(RehearsedCampaign, "as_certified", property(lambda self: False))
    assert run(write(tmp_path, TOML + REAL + RUN)).exit_code == NOT_READY


@pytest.mark.usefixtures("no_pictures")
def test_it_goes_on_where_it_ended_as_if_it_had_never_stopped(tmp_path):
    def told(folder):
        with s2r.Campaign.open(folder / "campaign.db") as campaign:
            return [(event.deployment, event.body) for event in campaign.events() if event.kind == "tell"]

    file, parts, whole = write(tmp_path, TOML + REAL + RUN.replace("0.1", "0.0")), tmp_path / "parts", tmp_path / "whole"
    for rounds in (25, 25, 60):  # the second time there is nothing more to do
        assert document_of(file, "--out", parts, "--max-rounds", rounds)["rounds"] == rounds
    with open_or_begin(tiny(), s2r.methods.SimToReal(), WRONG, 1, whole) as campaign:
        run_campaign(campaign, WRONG, max_rounds=60, growth=0.0, seed=1)
    assert told(parts) == told(whole)
    assert len(told(whole)) == 60


def test_what_was_handed_out_and_not_told_is_told_first(tmp_path):
    with open_or_begin(tiny(), s2r.methods.SimToReal(), WRONG, 1, tmp_path) as campaign:
        campaign.ask_batch(3, worker="rehearsal")  # and here the process died
    with open_or_begin(tiny(), s2r.methods.SimToReal(), WRONG, 1, tmp_path) as campaign:
        run_campaign(campaign, WRONG, max_rounds=3, growth=0.0, seed=1)
        status = campaign.status(forecast=False)
        assert (status.rounds, status.told, len(status.held)) == (3, 3, 0)


@pytest.mark.usefixtures("no_pictures")
def test_a_folder_of_another_study_is_left_alone(tmp_path):
    out = tmp_path / "out"
    document_of(write(tmp_path, TOML + REAL + RUN), "--out", out)
    before = (out / "campaign.db").read_bytes()
    others = {
        "specification": TOML.replace("margin = 1.0", "margin = 1.2") + REAL + RUN,
        "reality or seed": TOML + REAL.replace("0.6, 0.4", "0.5, 0.5") + RUN,
    }
    for what, text in others.items():
        ended = run(write(tmp_path, text), "--out", out)
        assert ended.exit_code == 4
        error = json.loads(ended.stderr)
        assert error["error"] == "conflict"
        assert f"another {what}" in error["message"]
        assert "--out" in error["message"]
    with pytest.raises(Conflict):
        open_or_begin(tiny(), s2r.methods.SimToReal(), WRONG, 2, out)  # another seed
    assert (out / "campaign.db").read_bytes() == before


@pytest.mark.usefixtures("no_pictures")
def test_to_the_stop(tmp_path):
    text = TOML + REAL + RUN.replace("60", "100000").replace("0.1", "1.0")
    heuristic = text.replace("delta = 0.1", 'delta = 0.1\nbonus_scale = 0.05\nradius = {kind = "scaled", scale = 0.5}')
    document = document_of(write(tmp_path, heuristic))
    assert document["stopped"] is True
    assert document["uncertainty"] <= document["tolerance"]
    assert document["certified"] is False
    shown = run(write(tmp_path, heuristic)).stdout
    assert "HEURISTIC, not a guarantee" in shown
    assert "stopped: uncertainty" in shown


@pytest.mark.usefixtures("no_pictures")
def test_a_reality_that_breaks_an_assumption_is_said_first(tmp_path):
    """Row (0, 0) falls with 0.8: the baseline alone is worth 1.24, less than the threshold.

    The constraint has the name of a finding about the simulator, which must not hide the broken margin.
    """
    named = TOML.replace('"upright"', '"falls seen on the simulator"')
    text = named + REAL.replace("[[[1.0, 0.0]", "[[[0.2, 0.8]") + RUN
    ended = run(write(tmp_path, text))
    assert ended.exit_code == 7
    lines = ended.stdout.splitlines()
    assert lines[1].startswith("ASSUMPTION BROKEN")
    assert "fails its stated margin" in lines[1]
    assert lines[2].startswith("NOT GUARANTEED")
    assert "certified." not in lines[2]
    assert "HALTED: the data refute the margin" in ended.stdout
    assert "the last round was reached" not in ended.stdout
    with s2r.Campaign.open(tmp_path / "spec-run" / "campaign.db") as campaign:
        system = tiny().simulator.with_kernel(kernel(s0a0=[0.2, 0.8], s0a1=[0.6, 0.4]))
        exact = exact_values(campaign, system)
    assert f"by exact evaluation: {exact.unsafe} of {exact.numbers.size};" in ended.stdout
    assert 0 < exact.unsafe == exact.numbers.size < 60
    assert exact.values.max() <= 1.5
    document = json.loads((tmp_path / "spec-run" / "summary.json").read_text())
    assert (document["certified"], document["standing"]) == (False, "refuted")
    assert "falls seen on the simulator" in {one["subject"] for one in document["assumptions_broken"]}


def test_exact_values_are_those_of_the_mixtures(tmp_path):
    system = tiny().simulator.with_kernel(WRONG)
    with open_or_begin(tiny(), s2r.methods.SimToReal(), WRONG, 1, tmp_path) as campaign:
        run_campaign(campaign, WRONG, max_rounds=40, growth=0.0, seed=1)
        exact = exact_values(campaign, system)
        deployment = campaign.ask(worker="someone")
        again = exact_values(campaign, system)
    assert again.values[-1, 0] == pytest.approx(s2r.planning.constraint_values(system, deployment.mixture)[0])
    assert len(np.unique(exact.values)) > 1
    assert (exact.values >= exact.bounds - 1e-9).all()
    assert exact.unsafe == exact.below_bound == 0


@pytest.mark.usefixtures("no_pictures")
def test_rewards_of_the_file_are_planned_for(tmp_path):
    text = TOML + REAL + RUN + "rewards = [[[0.0, 0.0], [1.0, 1.0]]]\n"
    (plan,) = document_of(write(tmp_path, text))["plans"]
    # Being in state 1 is rewarded: who leaves at once is there with 0.4 at the second step and with 0.64 at the third.
    assert plan["real_best"] == pytest.approx(1.04)
    assert plan["baseline_value"] == 0.0
    assert 0.0 < plan["real_value"] <= 1.04 + 1e-9


@pytest.mark.usefixtures("no_pictures")
def test_plans_are_written_with_what_they_are_worth(tmp_path):
    document = document_of(write(tmp_path, TOML + REAL + RUN), "--out", tmp_path / "out")
    for number, said in enumerate(document["plans"]):
        folder = tmp_path / "out" / "plans" / str(number)
        assert {file.name for file in folder.iterdir()} == {"plan.npz", "plan.json", "policy.csv"}
        plan = s2r.load_plan(folder / "plan.npz")
        assert plan.value == said["value"]
        assert plan.certificate.certified
    assert document["files"]["plans"] == str(tmp_path / "out" / "plans")
    # On a reality of which an assumption is false, no plan is a guarantee.
    text = f"within = [[1.0, 0.5], [1.0, 1.0]]\n{TOML}{REAL}{RUN}"
    document_of(write(tmp_path, text), "--out", tmp_path / "broken")
    plan = s2r.load_plan(tmp_path / "broken" / "plans" / "0" / "plan.npz")
    assert [doubt.code.value for doubt in plan.certificate.doubts] == ["false-of-reality"]
    assert not plan.certificate.holds


@pytest.mark.usefixtures("no_pictures")
def test_without_a_reality_one_is_guessed(tmp_path):
    document = document_of(write(tmp_path, TOML + RUN), "--guess-rows", 1, "--guess-gap", 0.6)
    assert document["reality"] == "guessed"
    assert document["wrong_rows"] == 1


def test_what_no_run_accepts_is_refused_and_leaves_nothing(tmp_path):
    ended = run(write(tmp_path, TOML.replace("tolerance = 0.25", "tolerance = 0.5") + REAL))
    assert ended.exit_code == 2
    assert "margin / 4" in json.loads(ended.stderr)["message"]
    assert not (tmp_path / "spec-run").exists()


@pytest.mark.parametrize("reality", [REAL, ""])
def test_a_list_of_margins_of_another_length_is_refused(tmp_path, reality):
    ended = run(write(tmp_path, TOML.replace("margin = 1.0", "margin = [1.0, 1.0]") + reality))
    assert ended.exit_code == 2
    assert json.loads(ended.stderr)["message"].startswith("spec.toml: margin is (1.0, 1.0)")
    assert not (tmp_path / "spec-run").exists()


@pytest.mark.usefixtures("no_pictures")
def test_the_numbering_of_an_environment_is_kept_for_controllers(tmp_path):
    document = document_of(write(tmp_path, LAKE), "--max-rounds", 2)
    states = json.loads(Path(document["files"]["states"]).read_text())
    assert len(states) == 17
    assert states[5] == {
        "state": 5,
        "environment_state": 5,
        "cost_on_arrival": 1.0,
        "ended": True,
        "name": "state 5, ended here",
    }
    assert (Path(document["files"]["plans"]) / "0" / "states.csv").read_text().splitlines()[6] == "5,5,1.0,1"
    assert "states" not in document_of(write(tmp_path, TOML + REAL + RUN), "--out", tmp_path / "other")["files"]


@pytest.mark.usefixtures("no_pictures")
def test_without_a_constraint_nothing_is_promised(tmp_path):
    start, end = TOML.index("[[constraints]]"), TOML.index("[baseline]")
    ended = run(write(tmp_path, TOML[:start] + TOML[end:] + REAL + RUN))
    assert ended.exit_code == 0
    assert "WARNING. constraints: no constraint: nothing is promised about safety" in ended.stdout
    assert "ASSUMPTION BROKEN" not in ended.stdout


def test_the_figure_has_steps_and_whole_deployments():
    exact = Exact(np.arange(1, 4), np.full((3, 1), 2.0), np.array([[1.5], [2.0], [1.5]]), np.array([1.5]))
    for shown in (exact, Exact(exact.numbers[:1], exact.values[:1], exact.bounds[:1], exact.thresholds)):
        (axes,) = draw_exact(shown, [Wording("upright", 3, is_cost=False)], "certified lower bound").axes
        (bound,) = [line for line in axes.lines if line.get_label() == "certified lower bound"]
        assert bound.get_drawstyle() == "steps-mid"
        assert (bound.get_xdata()[0], bound.get_xdata()[-1]) == (0.5, shown.numbers[-1] + 0.5)
        low, high = axes.get_xlim()
        ticks = [tick for tick in axes.get_xticks() if low <= tick <= high]
        assert ticks
        assert all(tick == round(tick) for tick in ticks)
        assert axes.get_axisbelow() is True


@pytest.mark.usefixtures("no_pictures")
def test_the_example_is_as_its_script_makes_it(tmp_path):
    document = document_of(EXAMPLE, "--out", tmp_path / "out", "--max-rounds", 30)
    assert json.loads((tmp_path / "out" / "summary.json").read_text()) == document
    assert [plan["as_promised"] for plan in document["plans"]] == [True] * 3
    assert document["certified"] is True
    assert document["unsafe_deployments"] == 0
    assert document["wrong_rows"] == 12
    grid = s2r.systems.WindyGrid.paper()
    with np.load(EXAMPLE.with_name("windy_grid.npz"), allow_pickle=False) as arrays:
        np.testing.assert_array_equal(arrays["simulator"], grid.simulator().to_dense())
        np.testing.assert_array_equal(arrays["real"], grid.real().to_dense())


def test_nothing_is_called_certified_where_an_assumption_is_false(tmp_path):
    # In reality staying does not stay: the baseline lacks its margin, and is unsafe itself.
    real = REAL.replace("[[1.0, 0.0], [0.6, 0.4]]", "[[0.1, 0.9], [0.0, 1.0]]")
    assert real != REAL
    spec = write(tmp_path, TOML + real)
    ended = run(spec, "--out", tmp_path / "out", "--max-rounds", "20")
    assert ended.exit_code == 7
    assert "ASSUMPTION BROKEN" in ended.stdout
    told = ended.stdout.split("NOT GUARANTEED", 1)[1]
    assert "certified" not in told.replace("NOT GUARANTEED", "")
    document = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert document["certified"] is False
    assert document["standing"] == "refuted"
    assert document["halted"] is True
    assert document["statement"].startswith("NOT SAFE: a constraint is not shown to be kept")
    assert document["verification"].startswith("REFUTED, not a guarantee")
    assert {one["code"] for one in document["doubts"]} >= {"false-of-reality"}
    (broken,) = document["assumptions_broken"]
    assert (broken["code"], broken["subject"]) == ("baseline-on-stated-reality", "upright")
    assert not any(plan["certified"] for plan in document["plans"])
    page = (tmp_path / "out" / "report.html").read_text()
    assert "AN ASSUMPTION IS FALSE: no guarantee" in page
    assert "<h2>No guarantee</h2>" in page
    assert "<h2>The guarantee</h2>" not in page
    assert "The certified lower bound" not in page


def test_what_is_promised_is_shown_on_the_side_on_which_it_is_true(capsys):
    third = 1.0 / 3.0
    plan = SimpleNamespace(
        real_value=1.0,
        real_best=2.0 * third,
        baseline_value=0.5,
        plan=SimpleNamespace(suboptimality=third),
        as_promised=True,
        feasible=True,
    )
    ended = SimpleNamespace(
        status=SimpleNamespace(rounds=1, samples=2, stopped=True, uncertainty=third, tolerance=third),
        exact=SimpleNamespace(unsafe=0, numbers=np.zeros(1), below_bound=0),
        ledger=SimpleNamespace(describe=str),
        **{"standing": Standing.CERTIFIED, "certified": True, "halted": False, "found": 0, "wrong": 0, "lost": 0},
        plans=[plan],
    )
    _print_after(ended, {}, "the margin and the gaps")
    said = capsys.readouterr().out
    assert "uncertainty 0.333334 <= tolerance 0.333334" in said
    assert "of at most 0.666667 " in said
    assert "promised within 0.333334: as promised" in said
