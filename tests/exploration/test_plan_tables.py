"""Tables of a plan for other languages: they hold the policy, and the example of the documentation reads them."""

import csv
import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import safe2real as s2r
from safe2real.errors import InvalidInput
from safe2real.exploration.certificate import Certificate
from safe2real.exploration.plan import Origin, Plan
from safe2real.exploration.plan_export import plan_to_json, state_rows
from safe2real.model.constraint_text import Wording
from safe2real.model.names import Legend
from safe2real.standing import Doubt, DoubtCode
from tests.systems.test_acting import pond
from tests.systems.test_finite import TableEnv, corridor, slipped

H, S, A = 3, 4, 2
PAGE = Path(__file__).resolve().parents[2] / "docs" / "running-plans.md"


def made(*, legend=None) -> Plan:
    """A plan by hand: one deterministic and one stochastic policy."""
    rng = np.random.default_rng(2)
    fixed = s2r.MarkovPolicy.deterministic(rng.integers(A, size=(H, S)), num_actions=A)
    mixed = s2r.MarkovPolicy.stochastic(rng.dirichlet(np.ones(A), size=(H, S)))
    certificate = Certificate(np.array([2.25]), np.array([2.0]), (), (), (Wording("falls", H, is_cost=True),))
    origin = Origin(np.zeros((1, S, A)), legend or Legend(), {"margin": 0.5}, 12, "1.0")
    return Plan(None, s2r.Mixture.of([0.25, 0.75], [fixed, mixed]), 1.5, np.inf, np.inf, certificate, origin)


def rows_of(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_tables_hold_the_policy(tmp_path):
    plan = made(legend=Legend(tuple("pqrs"), ("=go", "stay")))
    files = plan.export(tmp_path / "out")
    assert [file.name for file in files] == ["plan.json", "policy.csv"]
    tables = np.zeros((2, H, S, A))
    for row in rows_of(files[1]):
        place = tuple(int(row[name]) for name in ("policy", "step", "state", "action"))
        tables[place] = float(row["probability"])
        assert float(row["weight"]) == plan.policy.weights[place[0]]
        assert row["state_name"] == "pqrs"[place[2]]
        assert row["action_name"] == ("'=go", "stay")[place[3]]  # no spreadsheet computes it
    for table, policy in zip(tables, plan.policy.policies, strict=True):
        assert np.array_equal(table, policy.probabilities)
    document = json.loads(files[0].read_text())
    assert document["policy"]["weights"] == [0.25, 0.75]
    assert document["policy"]["policies"][0]["actions"] == plan.policy.policies[0].actions.tolist()
    assert document["policy"]["policies"][1]["probabilities"] == plan.policy.policies[1].probabilities.tolist()
    assert (document["horizon"], document["num_states"], document["num_actions"]) == (H, S, A)
    assert document["bound"] is None
    (falls,) = document["certificate"]["constraints"]
    assert falls == {"name": "falls", "relation": "<=", "asked": 1.0, "proved": 0.75}
    assert document["certificate"]["holds"] is True
    assert document["action_names"] == ["=go", "stay"]
    assert document["settings"] == {"margin": 0.5}


def test_what_is_no_guarantee_says_so():
    plan = made()
    doubted = replace(plan.certificate, doubts=(Doubt(DoubtCode.RADIUS_SCALED, "scaled"),))
    document = plan_to_json(replace(plan, certificate=doubted, origin=None))
    assert document["certificate"]["standing"] == "heuristic"
    assert document["certificate"]["certified"] is document["certificate"]["holds"] is False
    assert document["certificate"]["doubts"][0]["code"] == "radius-scaled"
    assert "settings" not in document


def test_states_of_the_environment(tmp_path):
    system = s2r.from_gymnasium(TableEnv(corridor()), H, s2r.SystemDescription(cost=slipped, limit=1.0, ended=0))
    listed = list(state_rows(system))
    assert listed[0] == ["state", "environment_state", "cost_on_arrival", "ended"]
    for number, state, cost, ended in listed[1:]:
        if state != "":
            assert system.state_of(state, cost, bool(ended)) == number
    assert len(listed) == 1 + system.model.num_states
    assert [row[1] for row in list(state_rows(pond()))[1:]] == [f"level {n}" for n in range(5)]
    written = made().export(tmp_path, system=pond())[2]
    assert rows_of(written)[3] == {"state": "3", "environment_state": "level 3", "cost_on_arrival": "0.0", "ended": "0"}
    with pytest.raises(InvalidInput, match="from_gymnasium"):
        made().export(tmp_path / "other", system="lake")
    assert not (tmp_path / "other").exists()
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match="cannot be a folder"):
        made().export(tmp_path / "file")


def examples(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_the_example_in_javascript_acts_as_the_policy_does(tmp_path):
    plan = made()
    plan.export(tmp_path / "pick")
    script = "".join(examples("javascript"))
    assert len(script.splitlines()) <= 20
    script += """
const counts = {};
for (let episode = 0; episode < 20000; episode++) {
  const act = newEpisode();
  const key = [act(0, 1), act(1, 2), act(2, 0)].join("");
  counts[key] = (counts[key] || 0) + 1;
}
console.log(JSON.stringify(counts));
"""
    done = subprocess.run(["node", "-e", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    counts = json.loads(done.stdout)
    expected: dict[str, float] = {}
    for weight, policy in zip(plan.policy.weights, plan.policy.policies, strict=True):
        p = policy.probabilities
        for a, b, c in np.ndindex(A, A, A):
            expected[f"{a}{b}{c}"] = expected.get(f"{a}{b}{c}", 0.0) + weight * p[0, 1, a] * p[1, 2, b] * p[2, 0, c]
    for key, share in expected.items():  # had it drawn the mixture at every step, these would be others
        assert abs(counts.get(key, 0) / 20000 - share) < 5 * np.sqrt(share * (1 - share) / 20000) + 1e-9


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
def test_the_example_in_c_acts_as_the_policy_does(tmp_path):
    plan = made()
    plan.export(tmp_path / "pick")
    source = tmp_path / "act.c"
    (code,) = examples("c")
    source.write_text(code + '\nint main(void) { load("pick/policy.csv"); for (int h = 0; h < 3; h++) '
                      'for (int s = 0; s < 4; s++) printf("%d ", act(0, h, s, 0.5)); return 0; }\n')  # fmt: skip
    subprocess.run(["gcc", "-Wall", "-Werror", str(source), "-o", str(tmp_path / "act")], check=True)
    done = subprocess.run([str(tmp_path / "act")], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert list(map(int, done.stdout.split())) == plan.policy.policies[0].actions.reshape(-1).tolist()
