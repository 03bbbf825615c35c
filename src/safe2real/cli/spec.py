"""Specification files: `safe2real new SPEC.toml` writes a commented one to fill in, `safe2real spec SPEC` the other form."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from safe2real.cli.io import answer, exit_codes
from safe2real.cli.options import FilesAnywhere, NoCode, Spec
from safe2real.errors import Conflict, InvalidInput

NEW_EXITS, SPEC_EXITS = exit_codes(0, 2, 4, 5, 130), exit_codes(0, 1, 2, 130)
_TABLE = """[simulator]
# Arrays saved by numpy.savez: transition [S, A, S], or states, actions, successors, probabilities, num_states, num_actions.
file = "model.npz"

[[constraints]]
name = "unsafe"
unsafe = [0]  # states that cost 1 for each step in them; or cost = [...] for each state, or for each state and action
limit = {limit}  # of the expected sum over an episode

[baseline]
actions = "policy.npy"  # the policy that you trust: an action for each state [S], or for each step and state [H, S]
"""
_ENVIRONMENT = """[simulator]
gymnasium = "{name}"
# arguments = {{map_name = "8x8"}}
unsafe = {unsafe}  # states that cost 1 on arrival{found}
paid = "arrival"
limit = {limit}  # of the expected sum over an episode
ended = 0.0  # what each step after the end of an episode costs

# [real]  # what to rehearse on, if it is known; else a guess of where the simulator is wrong
# gymnasium = "{name}"

[baseline]
policy = "uniform"  # replace it by the policy that you trust: actions = [...], one for each state of the environment
"""
_SETTINGS = """
# support = "simulator" before the first [table] would say: no real step leads where the simulator rules it out.

[settings]
margin = {margin}  # by which the baseline stays below the limit on the REAL system, as rollouts confirm
calibrated_gap = 0.0  # the largest error of a right row of the simulator, in TV distance; 0 if a right row is exact
mismatch_gap = 0.2  # the smallest error of a wrong row; too large is unsafe
tolerance = {tolerance}  # the uncertainty at which exploration stops; at most margin / 4
delta = 0.05  # the probability that a certificate is wrong
# With the rewards known, the stop comes sooner:
# algorithm = {{kind = "declared rewards", rewards = {{goal = "goal.npy"}}, accuracy = 0.05}}
"""


def new(
    spec: Annotated[Path, typer.Argument(metavar="SPEC.toml", help="The file to write; nothing is overwritten.")],
    environment: Annotated[
        str | None, typer.Option("--gymnasium", metavar="ID", help="An environment with a transition table; it runs code.")
    ] = None,
    horizon: Annotated[int, typer.Option(prompt="Actions of an episode", min=1, help="Actions of an episode.")] = 20,
    limit: Annotated[
        float, typer.Option(prompt="Limit of the expected cost of an episode", help="Of the expected cost of an episode.")
    ] = 0.5,
) -> None:
    """Write a commented specification to fill in; `safe2real check SPEC.toml` then says what is missing.

    Numbers without an option are asked for.
    """
    from safe2real.campaign.files import whole_file

    if spec.suffix != ".toml":
        raise InvalidInput(f"{spec} is no .toml file; give it that name")
    if spec.exists():
        raise Conflict(f"{spec} is there already; it stays: give another name")
    if not 0.0 < limit <= horizon:
        raise InvalidInput(f"--limit is {limit:g}; give an expected cost above 0 and at most the {horizon} steps")
    numbers = {"limit": limit, "margin": limit / 2.0, "tolerance": limit / 8.0}
    part = _TABLE.format(**numbers) if environment is None else _of_environment(environment, limit)
    with whole_file(spec) as file:
        file.write(f"horizon = {horizon}  # actions of an episode\n\n{part}{_SETTINGS.format(**numbers)}")
    answer({"file": str(spec)})


def _of_environment(name: str, limit: float) -> str:
    """Return the tables of an environment.

    States in which an episode ends without a reward are taken to be unsafe, if it ends with a reward in others.
    """
    from safe2real.preflight.spec_file import make_environment

    table = make_environment({"gymnasium": name}, "simulator").unwrapped.P
    outcomes = [one for actions in table.values() for listed in actions.values() for one in listed]
    good = {state for _, state, reward, over in outcomes if over and reward > 0.0}
    bad = sorted({int(state) for _, state, _, over in outcomes if over} - {int(state) for state in good})
    if not (good and bad):
        return _ENVIRONMENT.format(name=name, unsafe=[], found=": name them", limit=limit)
    found = ": here those in which an episode ends without a reward"
    return _ENVIRONMENT.format(name=name, unsafe=bad, found=found, limit=limit)


class Form(Enum):
    """The form of a specification."""

    JSON = "json"
    TOML = "toml"


def spec(
    spec: Spec,
    form: Annotated[Form, typer.Option("--to", help="The form to write.")] = Form.JSON,
    no_code: NoCode = False,
    files_anywhere: FilesAnywhere = False,
) -> None:
    """Print a specification as one JSON document, or as TOML, with its method.

    Arrays in files are written out, and an environment becomes its rows. What is
    rehearsed on (`real`, `guess`, `run`) is left out. `campaign init` takes both.
    """
    from safe2real.preflight.spec_file import read_spec_file

    read = read_spec_file(spec, allow_code=not no_code, files_anywhere=files_anywhere)
    typer.echo(read.to_text() if form is Form.JSON else read.to_toml(), nl=form is Form.JSON)
