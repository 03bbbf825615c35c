"""`safe2real spec`: the JSON document says the same problem and the same method."""

import pytest
from typer.testing import CliRunner

from safe2real.cli import app
from safe2real.preflight import read_spec_file
from tests.preflight.specs import LAKE, TOML, write

DECLARED = 'algorithm = {kind = "declared rewards", rewards = {"far \\"end\\"" = [0.0, 1.0]}}\n'


def spec(*arguments):
    ended = CliRunner().invoke(app, ["spec", *map(str, arguments)], prog_name="safe2real")
    assert ended.exit_code == 0, ended.output
    return ended.stdout


@pytest.mark.parametrize("text", [TOML, TOML + DECLARED, f'support = "simulator"\n{TOML}', LAKE])
def test_both_forms_say_the_same(tmp_path, text):
    given = read_spec_file(write(tmp_path, text))
    again = read_spec_file(write(tmp_path, spec(given.path), "one.json"))
    assert again.to_text() == given.to_text()


def test_a_specification_from_elsewhere_runs_no_code(tmp_path):
    ended = CliRunner().invoke(app, ["spec", str(write(tmp_path, LAKE)), "--no-code"], prog_name="safe2real")
    assert ended.exit_code == 2
    assert "an environment is code" in ended.stderr
