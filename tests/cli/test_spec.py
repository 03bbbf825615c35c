"""`safe2real spec`: the JSON document says the same problem and the same method."""

import numpy as np
import pytest
from typer.testing import CliRunner

from safe2real import methods
from safe2real.cli import app
from safe2real.methods.document import document_of
from safe2real.model.serialization import to_text
from safe2real.preflight import read_spec_file
from tests.preflight.specs import LAKE, TOML, tiny, write

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
def test_both_forms_say_the_same(tmp_path, text):
    given = read_spec_file(write(tmp_path, text))
    again = read_spec_file(write(tmp_path, spec(given.path), "one.json"))
    assert again.to_text() == given.to_text()


REWARD = {'far "end"': np.array([[0.0, 0.0], [1.0, 1.0]])}
METHODS = [
    methods.RewardFree(),
    methods.Unconstrained(),
    methods.ForRewards(REWARD, accuracy=0.5),
    methods.Trial(tiny().baseline),  # without a target, which is null in JSON and not in TOML
    methods.Trial(tiny().baseline, rewards=REWARD, target={'far "end"': 0.5}, number=2),
]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
def test_both_forms_have_the_method(tmp_path, method):
    given = write(tmp_path, to_text(document_of(tiny(), method)), "spec.json")
    in_toml = write(tmp_path, spec(given, "--to", "toml"), "spec.toml")
    assert read_spec_file(in_toml).to_text() == read_spec_file(given).to_text()
    assert type(read_spec_file(in_toml).method) is type(method)


def test_a_specification_from_elsewhere_runs_no_code(tmp_path):
    ended = CliRunner().invoke(app, ["spec", str(write(tmp_path, LAKE)), "--no-code"], prog_name="safe2real")
    assert ended.exit_code == 2
    assert "an environment is code" in ended.stderr
