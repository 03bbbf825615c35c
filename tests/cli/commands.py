"""The paper's small grid for the command line: a specification, episodes on the real grid, and commands run in process."""

import json
from dataclasses import dataclass
from typing import Any

from typer.testing import CliRunner

import safe2real as s2r
from safe2real.cli import app
from safe2real.exploration import roll_out
from safe2real.model.serialization import policy_from_json
from safe2real.systems import WindyGrid

GRID = WindyGrid.paper()
MODEL = GRID.cmdp(GRID.simulator(), threshold=10.71)
REAL = MODEL.with_kernel(GRID.real())
BASELINE = s2r.MarkovPolicy.uniform(horizon=12, num_states=25, num_actions=4)


def specification(*, tolerance: float = 0.385, certified: bool = False) -> str:
    heuristic = {} if certified else {"radius": s2r.radii.Scaled(0.376), "bonus_scale": 0.0201}
    settings = s2r.Settings.paper(margin=0.306, calibrated_gap=0.0, mismatch_gap=0.68, tolerance=tolerance, **heuristic)
    return s2r.Problem(MODEL, BASELINE, settings).to_text()


def episode(deployment: dict[str, Any]) -> dict[str, Any]:
    """What the real grid does under the policy of an answer to ask."""
    return rolled(policy_from_json(deployment["policy"], "policy"), deployment["number"])


def rolled(policy: s2r.MarkovPolicy, number: int) -> dict[str, Any]:
    trajectory = roll_out(REAL, policy, seed=7, round_number=number)
    return {"states": trajectory.states.tolist(), "actions": trajectory.actions.tolist()}


@dataclass
class Ended:
    """How a command ended; exactly one document on stdout, or one line on stderr."""

    code: int
    document: Any = None
    error: str = ""
    message: str = ""


def campaign(*arguments: Any, given: Any = None) -> Ended:
    """Run `safe2real campaign ...`; `given` is standard input: bytes, or an object that becomes JSON."""
    stdin = given if given is None or isinstance(given, bytes) else json.dumps(given).encode()
    result = CliRunner().invoke(app, ["campaign", *map(str, arguments)], input=stdin, prog_name="safe2real")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    if result.stdout:
        assert not result.stderr
        assert result.stdout.count("\n") == 1
        return Ended(result.exit_code, _strict(result.stdout))
    assert result.stderr.count("\n") == 1
    line = _strict(result.stderr)
    assert set(line) == {"error", "message"}
    return Ended(result.exit_code, error=line["error"], message=line["message"])


def done(*arguments: Any, given: Any = None) -> Any:
    """The document of a command that must succeed."""
    ended = campaign(*arguments, given=given)
    assert ended.code == 0, ended
    return ended.document


def run_rounds(url: Any, rounds: int) -> None:
    """Ask and tell, `rounds` times or until the stop."""
    for _ in range(rounds):
        asked = campaign("ask", url, "--worker", "arm")
        if asked.error == "stopped":
            return
        (deployment,) = asked.document["deployments"]
        done("tell", url, deployment["id"], given=episode(deployment))


def _strict(text: str) -> Any:
    """JSON as other languages read it, which have no NaN."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    return json.loads(text, parse_constant=refuse)
