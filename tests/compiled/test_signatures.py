"""Every compiled function is compiled once: all callers hand over the same types, and K >= 2 costs nobody else anything."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SESSION = """
import importlib, json, pkgutil, sys, tempfile
from pathlib import Path
import numpy as np
import safe2real as s2r
import safe2real._compiled
from safe2real.campaign import Campaign
from safe2real.evidence.counts import Counts
from safe2real.exploration import roll_out
from safe2real.exploration.simulate import collect
from tests.campaign.systems import three_states
from tests.planning.balls import best_value, worst_constraint_values

system, constraints = three_states(), int(sys.argv[1])
task, model, real = system.specification, system.specification.simulator, system.real
if constraints == 2:
    twice = [s2r.AtLeast(model.utilities[0, 0], 1.5, name) for name in ("upright", "again")]
    model = s2r.CMDP.of(model.kernel, 4, 0, twice)
    task, real = s2r.Problem(model, task.baseline, task.settings), model.with_kernel(real.kernel)
reward = np.eye(3)[:, :2]
mixed = s2r.solve(model, reward)
s2r.solve(model, reward, warm=mixed)
if constraints == 1:
    s2r.solve(model.with_constraints(0), np.ones((4, 3, 2)))
for policy in (task.baseline, mixed.policy, s2r.MarkovPolicy.uniform(horizon=4, num_states=3, num_actions=2)):
    s2r.evaluate(model, policy, reward)
    s2r.planning.constraint_values(model, policy)
    worst_constraint_values(model, policy, np.full((3, 2), 0.1), support=model.kernel)
s2r.planning.value_functions(model, task.baseline, reward)
best_value(model, reward, np.full((3, 2), 0.1))
collect(real, task.baseline, Counts(model.kernel, 4), episodes=3, seed=1)

learner = s2r.Learner(task, warm_start=False)
for t in range(3):
    learner.observe(roll_out(real, learner.propose().draw(), seed=1, round_number=t))
s2r.simulate(learner, real.kernel, max_rounds=20)
learner.plan(reward)
learner.evidence.estimate(task.baseline)
learner.evidence.distances, learner.evidence.radii

with tempfile.TemporaryDirectory() as folder, Campaign.create(Path(folder) / "campaign.db", task) as campaign:
    for _ in range(3):
        deployment = campaign.ask(worker="arm")
        campaign.tell(deployment.id, roll_out(real, deployment.policy, seed=1, round_number=deployment.number))
    campaign.status()
    campaign.plan(reward)
    campaign.mismatch_map()
    campaign.verify()

found = {}
for entry in pkgutil.iter_modules(safe2real._compiled.__path__):
    module = importlib.import_module(f"safe2real._compiled.{entry.name}")
    for name, value in vars(module).items():
        if hasattr(value, "signatures") and value.py_func.__module__ == module.__name__:
            if not value.targetoptions.get("no_cpython_wrapper"):
                found[f"{entry.name}.{name}"] = [str(signature) for signature in value.signatures]
print(json.dumps(found))
"""


FIRST_PLAN = """
import sys
import safe2real as s2r
from tests.campaign.systems import three_states

task = three_states().specification
model = task.simulator
listed = [s2r.AtLeast(model.utilities[0, 0], 1.5, name) for name in ("upright", "again")[: int(sys.argv[1])]]
model = s2r.CMDP.of(model.kernel, 4, 0, listed)
s2r.Learner(s2r.Problem(model, task.baseline, task.settings)).propose()
"""


def run(script: str, constraints: int, **environment: str) -> str:
    command = [sys.executable, "-c", script, str(constraints)]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | environment).stdout


@pytest.mark.parametrize("constraints", [1, 2])
def test_every_function_that_python_calls_is_compiled_for_one_signature(constraints: int) -> None:
    found = json.loads(run(SESSION, constraints))
    assert {name: many for name, many in found.items() if len(many) > 1} == {}
    used = ("sweeps.sweep_called", "rounds.run", "worst_rows.least_of_step", "row_update.observe_episodes")
    assert all(found[name] for name in used)
    assert not found["search.solve_often"]


@pytest.mark.slow
@pytest.mark.parametrize("constraints", [1, 2])
def test_a_first_proposal_compiles_passes_and_no_search(constraints: int, tmp_path: Path) -> None:
    run(FIRST_PLAN, constraints, NUMBA_CACHE_DIR=str(tmp_path))
    modules = {path.name.split(".")[0] for path in tmp_path.glob("*/*.nbc")}
    assert "sweeps" in modules
    assert not modules & {"search", "dual_search", "column_generation"}
