"""Specification files: TOML to JSON and back say the same problem and method, and `safe2real new` writes one."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from safe2real import methods
from safe2real.cli import app
from safe2real.methods.document import document_of
from safe2real.model.serialization import to_text
from safe2real.preflight import read_spec_file
from tests.preflight.specs import LAKE, ROWS, TOML, tiny, write

DECLARED = 'algorithm = {kind = "declared rewards", rewards = {"far \\"end\\"" = [0.0, 1.0]}}\n'


def spec(*arguments):
    ended = CliRunner().invoke(app, ["spec", *map(str, arguments)], prog_name="safe2real")
    assert ended.exit_code == 0, ended.output
    return ended.stdout


SUPPORTED = '[support]\ngymnasium = "FrozenLake-v1"\n'


@pytest.mark.parametrize(
    "text",
    [
        *(TOML, TOML + DECLARED, f'support = "simulator"\n{TOML}', LAKE),
        *(f'support = "simulator"\n{LAKE}', LAKE + SUPPORTED),
    ],
)
def test_the_document_says_the_same(tmp_path, text):
    given = read_spec_file(write(tmp_path, text))
    in_json = write(tmp_path, spec(given.path), "one.json")
    in_toml = write(tmp_path, spec(in_json, "--to", "toml"), "two.toml")
    for file in (in_json, in_toml):
        assert read_spec_file(file).to_text() == given.to_text()


REWARD = {'far "end"': np.array([[0.0, 0.0], [1.0, 1.0]])}
METHODS = [
    methods.RewardFree(),
    methods.Unconstrained(),
    methods.ForRewards(REWARD, accuracy=0.5),
    methods.Trial(tiny().baseline),  # without a target, which is null in JSON and not in TOML
    methods.Trial(tiny().baseline, rewards=REWARD, target={'far "end"': 0.5}, number=2),
]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
@pytest.mark.parametrize("form", ["json", "toml"])
def test_both_forms_have_the_method(tmp_path, method, form):
    given = write(tmp_path, to_text(document_of(tiny(), method)), "spec.json")
    again = read_spec_file(write(tmp_path, spec(given, "--to", form), f"again.{form}"))
    assert again.to_text() == read_spec_file(given).to_text()
    assert type(again.method) is type(method)


def test_a_specification_from_elsewhere_runs_no_code(tmp_path):
    ended = CliRunner().invoke(app, ["spec", str(write(tmp_path, LAKE)), "--no-code"], prog_name="safe2real")
    assert ended.exit_code == 2
    assert "an environment is code" in ended.stderr


def new(*arguments, given=""):
    return CliRunner().invoke(app, ["new", *map(str, arguments)], input=given, prog_name="safe2real")


def test_an_environment_gives_a_specification_that_is_read_at_once(tmp_path):
    file = tmp_path / "lake.toml"
    ended = new(file, "--gymnasium", "FrozenLake-v1", "--horizon", 6, "--limit", 0.4)
    assert ended.exit_code == 0, ended.output
    assert json.loads(ended.stdout) == {"file": str(file)}
    given = read_spec_file(file)
    model, settings = given.problem.simulator, given.problem.settings
    assert (model.steps, model.wordings[0].number(model.thresholds[0])) == (6, pytest.approx(0.4))
    assert (settings.margin, settings.tolerance) == (0.2, 0.05)
    assert sorted(state for state, cost, _ in given.system.arrivals if cost) == [5, 7, 11, 12]  # the holes, not the goal


def test_an_environment_whose_ends_pay_alike_has_no_unsafe_state_yet(tmp_path):
    """Every end of the cliff's episodes is the goal, and costs as much as any step."""
    file = tmp_path / "cliff.toml"
    assert new(file, "--gymnasium", "CliffWalking-v1", "--horizon", 6, "--limit", 0.4).exit_code == 0
    assert "unsafe = []  # states that cost 1 on arrival: name them\n" in file.read_text()


def test_a_table_of_ones_own_is_asked_for_its_numbers(tmp_path):
    file = tmp_path / "own.toml"
    ended = new(file, given="3\n1.5\n")
    assert ended.exit_code == 0, ended.output
    np.savez(tmp_path / "model.npz", transition=ROWS)
    np.save(tmp_path / "policy.npy", np.array([0, 0]))
    problem = read_spec_file(file).problem
    assert (problem.simulator.steps, problem.simulator.num_states) == (3, 2)
    assert problem.settings.margin == 0.75


@pytest.mark.parametrize("given", ["", "3\n"])
def test_a_question_that_is_not_answered_is_one_line(tmp_path, given):
    ended = new(tmp_path / "own.toml", given=given)  # the input ends, as with Ctrl-D; Ctrl-C is the same to Typer
    assert ended.exit_code == 130
    assert json.loads(ended.stderr.strip().splitlines()[-1])["error"] == "interrupted"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "options", "code"),
    [
        ("there.toml", (), 4),
        ("spec.json", (), 2),
        ("a.toml", ("--gymnasium", "Nowhere-v9"), 2),
        ("a.toml", ("--limit", 21), 2),
    ],
)
def test_what_cannot_be_written_leaves_nothing(tmp_path, name, options, code):
    (tmp_path / "there.toml").write_text("kept")
    ended = new(tmp_path / name, "--horizon", 20, *(options if "--limit" in options else (*options, "--limit", 1.0)))
    assert ended.exit_code == code, ended.output
    assert [file.name for file in tmp_path.iterdir()] == ["there.toml"]
    assert (tmp_path / "there.toml").read_text() == "kept"
