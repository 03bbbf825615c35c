"""`safe2real check`: text for people, JSON for programs, and an exit code that says whether anything fails."""

import html
import json
import re

import pytest
from typer.testing import CliRunner

from safe2real.cli import app
from tests.preflight.specs import REAL, TOML, tiny, write

QUICK = ("--runs", "1", "--max-rounds", "150")


def check(*arguments):
    return CliRunner().invoke(app, ["check", *QUICK, *map(str, arguments)], prog_name="safe2real", env={"COLUMNS": "200"})


def refused(*arguments):
    ended = check(*arguments)
    assert ended.exit_code == 2, ended.output
    assert ended.stdout == ""
    (line,) = ended.stderr.splitlines()
    error = json.loads(line)
    assert error["error"] == "invalid-input"
    return error["message"]


def test_people_read_levels_in_words_and_the_verdict_last(tmp_path):
    ended = check(write(tmp_path, TOML + REAL))
    assert ended.exit_code == 0, ended.output
    assert ended.stderr == ""
    lines = ended.stdout.splitlines()
    assert lines[-1].startswith("READY: nothing fails")
    assert "Rehearsed on a stated reality." in lines
    assert any("OK" in line and "separation" in line for line in lines)
    assert any("WARNING" in line and "samples to the stop" in line for line in lines)
    assert "safe exploration: stands, if the assumptions are true" in lines


def test_programs_get_one_document(tmp_path):
    ended = check(write(tmp_path, TOML + REAL), "--json")
    assert ended.exit_code == 0
    document = json.loads(ended.stdout)
    assert document["ready"] is True
    assert document["reality"] == "stated"
    assert document["guarantees"]["safe exploration"] == {"stands": True, "why_not": "", "because": []}
    assert document["standing"] == "certified"
    found = {finding["code"]: finding for finding in document["findings"]}
    assert found["separation"]["level"] == "ok"
    assert found["rehearsed-stop"]["level"] == "warning"
    on_simulator = found["baseline-on-simulator"]
    assert (on_simulator["subject"], on_simulator["about"], on_simulator["affects"]) == ("upright", "simulator", [])


def test_a_baseline_that_fails_its_margin_has_an_exit_code_of_its_own(tmp_path):
    spec = write(tmp_path, TOML + REAL.replace("[[[1.0, 0.0]", "[[[0.5, 0.5]"))
    ended = check(spec)
    assert ended.exit_code == 7
    levels = [line.split()[0] for line in ended.stdout.splitlines() if line.split()[0].isupper()]
    assert levels.index("FAILURE") == 0 < levels.index("OK")
    assert "Cure:" in ended.stdout
    assert ended.stdout.splitlines()[-1].startswith("NOT READY")
    ended = check(spec, "--json")
    assert ended.exit_code == 7
    document = json.loads(ended.stdout)
    assert document["standing"] == "refuted"
    safety = document["guarantees"]["safe exploration"]
    assert safety["stands"] is False
    assert safety["because"] == [{"code": "baseline-on-stated-reality", "subject": "upright"}]
    (failing,) = [one for one in document["findings"] if one["code"] == "baseline-on-stated-reality"]
    assert failing["affects"] == ["safe exploration", "planning accuracy", "termination bound"]


def test_a_tolerance_that_no_run_accepts_is_refused_with_the_largest_that_one_does(tmp_path):
    assert "at most margin / 4 = 0.25" in refused(write(tmp_path, TOML.replace("tolerance = 0.25", "tolerance = 0.5")))


def test_rollouts_are_read_and_believed(tmp_path):
    log = tmp_path / "log.jsonl"
    log.write_text("\n".join(400 * [json.dumps({"states": [0, 0, 0, 0], "actions": [0, 0, 0]})]))
    document = json.loads(check(write(tmp_path, TOML + REAL), "--rollouts", log, "--json").stdout)
    (finding,) = [one for one in document["findings"] if one["name"] == "baseline by rollouts, upright"]
    assert finding["level"] == "ok"
    assert finding["numbers"]["episodes"] == 400


def test_the_json_document_of_campaigns_and_options_for_the_guess(tmp_path):
    file = write(tmp_path, tiny().to_text(), "spec.json")
    for more, wrong in (((), 1), (("--guess-rows", "2", "--guess-gap", "0.7"), 2)):
        document = json.loads(check(file, "--json", *more).stdout)
        assert document["reality"] == "guessed"
        (separation,) = [one for one in document["findings"] if one["name"] == "separation"]
        assert separation["numbers"]["wrong"] == wrong
        assert ("0.7" if more else "0.5") + " or more" in separation["what"]
    between = check(file, "--json", "--guess-gap", "0.3")
    assert between.exit_code == 7
    stated = json.loads(check(write(tmp_path, TOML + REAL), "--guess-rows", "1", "--json").stdout)
    assert stated["reality"] == "guessed"  # what is asked for on the command line goes first


def test_the_figure_and_the_findings_are_written(tmp_path):
    out = tmp_path / "new" / "folder"
    ended = check(write(tmp_path, TOML + REAL), "--out", out)
    assert (out / "preflight.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads((out / "preflight.json").read_text())["ready"] is True
    assert str(out / "preflight.png") in ended.stdout


def test_what_is_wrong_is_one_json_line(tmp_path):
    assert "did you mean 'horizon'?" in refused(write(tmp_path, TOML.replace("horizon", "horizont")))
    assert "cannot be read" in refused(tmp_path / "nowhere.toml")
    missing = TOML.replace("transition = [[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]]", 'file = "model.npz"')
    assert "simulator.file is 'model.npz', a file that is not there" in refused(write(tmp_path, missing))
    assert "Missing argument" in refused()
    assert "--runs" in refused(write(tmp_path), "--runs", "0")
    assert "No such option" in refused(write(tmp_path), "--rnus", "1")


def test_heuristic_constants_are_in_the_last_line(tmp_path):
    heuristic = TOML.replace("delta = 0.1", 'delta = 0.1\nradius = {kind = "scaled", scale = 0.5}') + REAL
    ended = check(write(tmp_path, heuristic))
    assert ended.stdout.splitlines()[-1].startswith("READY (HEURISTIC")
    said = " ".join(ended.stdout.split())
    assert "stop (certified" not in said
    assert "are certified" not in said


def test_what_the_settings_cannot_be_is_said_with_the_name_of_the_file(tmp_path):
    said = refused(write(tmp_path, TOML.replace("margin = 1.0", "margin = [1.0, 1.0]")))
    assert said.startswith("spec.toml: margin is")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"states": [0, 1, 1, 1], "actions": [1, 0, 0]}', "log.jsonl is not of the baseline"),
        ('{"states": [0, 0], "actions": [0]}', "an episode of 3 steps has 4 states and 3 actions"),
        ("", "holds no episode"),
        ("{", "line 1 of"),
    ],
)
def test_rollouts_that_are_not_whole_episodes(tmp_path, line, words):
    log = tmp_path / "log.jsonl"
    log.write_text(line)
    assert words in refused(write(tmp_path, TOML), "--rollouts", log)


def test_a_folder_that_cannot_be_made_is_storage(tmp_path):
    (tmp_path / "taken").write_text("")
    ended = check(write(tmp_path, TOML + REAL), "--out", tmp_path / "taken")
    assert ended.exit_code == 5
    assert json.loads(ended.stderr)["error"] == "storage"


def test_help_says_what_the_codes_mean():
    shown = CliRunner().invoke(app, ["check", "--help"], env={"COLUMNS": "200"}).stdout
    assert re.search(r"^ *7  a check fails", shown, re.MULTILINE)
    assert "--rollouts" in shown


def test_alternatives_are_printed_stored_and_on_the_page(tmp_path):
    ended = check(write(tmp_path, TOML + REAL), "--out", tmp_path / "out")
    assert ended.exit_code == 0, ended.output
    stored = json.loads((tmp_path / "out" / "preflight.json").read_text())["findings"]
    (other,) = [one for one in stored if one["code"] == "other-method"]
    assert other["name"] in ended.stdout
    page = html.unescape((tmp_path / "out" / "preflight.html").read_text())
    assert other["what"] in page
    quick = json.loads(check(write(tmp_path, TOML + REAL), "--no-compare", "--json").stdout)
    assert "other-method" not in [one["code"] for one in quick["findings"]]
