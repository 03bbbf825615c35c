"""A controller that knows nothing of this package drives a campaign by starting processes."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.cli.commands import done, specification

# The machine: reads an answer to ask and the specification, runs the policy on the specification's own dynamics.
MACHINE = """
import json, random, sys
try:
    import safe2real
except ImportError:
    pass
else:
    sys.exit("the machine should not know the package")
deployment = json.load(open(sys.argv[1]))["deployments"][0]
system = json.load(open(sys.argv[2]))["simulator"]
random.seed(deployment["number"])
rows = {}
for s, a, t, p in zip(system["states"], system["actions"], system["successors"], system["probabilities"]):
    rows.setdefault((s, a), ([], []))[0].append(t)
    rows[s, a][1].append(p)
policy, states, actions = deployment["policy"], [int(sys.argv[3])], []
for h in range(12):
    s = states[-1]
    if policy["kind"] == "deterministic":
        a = policy["actions"][h][s]
    else:
        a = random.choices(range(len(policy["probabilities"][h][s])), policy["probabilities"][h][s])[0]
    actions.append(a)
    states.append(random.choices(*rows[s, a])[0])
json.dump({"states": states, "actions": actions}, open(sys.argv[4], "w"))
print(deployment["id"])
"""

CONTROLLER = """
set -eu
for round in $ROUNDS; do
    "$SAFE2REAL" campaign ask run.db --worker shell > asked.json
    id=$("$PYTHON" -I -S machine.py asked.json spec.json "$START" episode.json)
    "$SAFE2REAL" campaign tell run.db "$id" < episode.json > "told$round.json"
done
"""


def test_rounds_from_a_shell(tmp_path):
    rounds, text = 2, specification()
    (tmp_path / "spec.json").write_text(text)
    (tmp_path / "machine.py").write_text(MACHINE)
    done("init", tmp_path / "run.db", tmp_path / "spec.json")
    command = Path(sys.executable).with_name("safe2real")
    start = json.loads(text)["start"].index(1.0)
    environment = {**os.environ, "SAFE2REAL": str(command), "PYTHON": sys.executable, "START": str(start)}
    environment["ROUNDS"] = " ".join(str(number) for number in range(1, rounds + 1))
    ran = subprocess.run(
        ["/bin/sh", "-c", CONTROLLER], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == ran.stderr == ""
    for number in range(1, rounds + 1):
        told = json.loads((tmp_path / f"told{number}.json").read_text())
        assert (told["id"].split("-")[1], told["new"], told["samples"]) == (str(number), True, 12)
    ledger = done("verify", tmp_path / "run.db")
    assert (ledger["holds"], ledger["deployments"], ledger["episodes"]) == (True, rounds, rounds)


def test_a_campaign_command_does_not_wait_for_the_experiments():
    heavy = ("matplotlib", "distributed", "ray")
    script = f"import sys, safe2real.cli; print([name for name in {heavy} if name in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"
