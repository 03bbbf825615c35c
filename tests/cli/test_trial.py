"""A trial within a campaign, from the command line."""

import json

from safe2real.model.policy import Mixture
from safe2real.model.serialization import mixture_to_json, to_text
from safe2real.testing.systems import random_case
from tests.cli.driving import campaign, done
from tests.methods.test_trial import POLICY


def test_a_trial_begins_and_ends(tmp_path):
    (tmp_path / "spec.json").write_text(random_case(2).problem.to_text())
    (tmp_path / "reward.json").write_text(json.dumps([[0.0, 1.0]] * 4))
    place, plan = tmp_path / "cell.db", tmp_path / "plan.json"
    plan.write_text(to_text({"policy": mixture_to_json(Mixture.of([1.0], [POLICY])), "value": 1.0}))
    done("init", place, tmp_path / "spec.json", "--trust-margin")
    begun = done("trial", "begin", place, plan, "--delta", "0.01", "--reward", f"second={tmp_path}/reward.json")
    assert begun["trial"]["running"]
    assert begun["trial"]["floors"] == {"constraint": 0.0, "second": 0.0}
    (deployment,) = done("ask", place, "--worker", "arm")["deployments"]
    assert deployment["reason"] == "MIXTURE"
    assert "end the one that runs" in campaign("trial", "begin", place, plan, "--delta", "0.01").message
    assert not done("trial", "end", place)["trial"]["running"]
    assert done("status", place, "--no-forecast")["trial"]["number"] == 1
    assert "give a number" in campaign("trial", "begin", place, plan, "--delta", 0.1, "--target", "second=much").message
    assert "NAME=VALUE" in campaign("trial", "begin", place, plan, "--delta", 0.1, "--target", "second").message
