"""One log as simulator and as data: bounds are proved for a simulator that was fixed before the counted episodes."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import safe2real as s2r
from safe2real.campaign import Campaign, carry_over
from safe2real.campaign.events import Draft
from safe2real.cli import app
from safe2real.errors import Conflict
from safe2real.standing import AssumptionCode

SUCCESSORS, EPISODES = 60, 120
STATES = SUCCESSORS + 1
BASELINE = s2r.MarkovPolicy.deterministic([0] * STATES, num_actions=1, horizon=2)
REFUSED = (
    r"of the \d+ episodes look like ones that the simulator was estimated from.*estimate_from_log\(log\[::2\], \.\.\.\)"
)


def log_of(seed: int, episodes: int = EPISODES):
    """Episodes of a system that goes from state 0 to one of the others, all equally likely, and stays there."""
    drawn = np.random.default_rng(seed).integers(1, STATES, episodes)
    return [([0, int(s), int(s)], [0, 0]) for s in drawn]


def problem_of(log, gap: float = 0.0) -> s2r.Problem:
    described = s2r.SystemDescription(cost=np.zeros(STATES), limit=1.0, start=0)
    stay = s2r.systems.Counting(unvisited="stay")
    system = s2r.estimate_from_log(log, 2, described, counting=stay, num_states=STATES, num_actions=1)
    settings = s2r.Settings(margin=1.0, calibrated_gap=0.0, mismatch_gap=gap, tolerance=0.25, delta=0.04)
    known = np.arange(STATES)[:, None] > 0
    return s2r.Problem(system.model, BASELINE, settings, known=known)


def objects(log):
    return [{"states": states, "actions": actions} for states, actions in log]


def promised_and_true(problem: s2r.Problem, log) -> tuple[float, float]:
    """Of a reward that is chosen after the log, to be where it went: its certified value, and the true one."""
    learner = s2r.Learner(problem, s2r.methods.ForRewards({"any": np.zeros((STATES, 1))}), trust_margin=True)
    learner.import_episodes(BASELINE, objects(log), overlap="count")
    reward = np.zeros(STATES)
    reward[[states[1] for states, _ in log]] = 1.0
    plan = learner.plan(reward)
    assert plan.certificate.standing is s2r.Standing.CERTIFIED
    return plan.value, reward[1:].mean()


def test_certificates_of_a_log_that_made_its_own_simulator_are_false_and_those_of_a_split_log_are_true():
    false = {"one log": 0, "split": 0}
    for seed in range(10):
        log = log_of(seed)
        for name, fit, count in (("one log", log, log), ("split", log[::2], log[1::2])):
            value, truth = promised_and_true(problem_of(fit), count)
            false[name] += value > truth
    assert false == {"one log": 10, "split": 0}  # with overlap="count", which is not true of one log


def test_a_row_that_is_wrong_is_cleared_at_once_by_its_own_log_and_not_by_another():
    cleared = []
    for fit, count in ((log_of(0), log_of(0)), (log_of(0), log_of(1))):
        learner = s2r.Learner(problem_of(fit, gap=0.2), trust_margin=True)
        off = float(learner.problem.simulator.kernel.to_dense()[0, 0, 1:].clip(max=1 / SUCCESSORS).sum())
        assert 1.0 - off > 0.2  # as far from the truth as a wrong row must be
        learner.import_episodes(BASELINE, objects(count), overlap="count")
        cleared.append(not learner.evidence.suspects[0, 0])
    assert cleared == [True, False]


def test_a_learner_refuses_the_log_of_its_simulator_its_parts_and_what_overlaps_with_it(tmp_path):
    log, fresh = log_of(0), [([0, s, s + 1], [0, 0]) for s in range(1, 20)]
    learner = s2r.Learner(problem_of(log), trust_margin=True)
    for _ in range(2):
        for part in (log, log[::-1], log[5:9]):
            with pytest.raises(Conflict, match=f"{len(part)} {REFUSED}"):
                learner.import_episodes(BASELINE, objects(part))
        with pytest.raises(Conflict, match=f"^3 {REFUSED}"):
            learner.import_episodes(BASELINE, objects(fresh + log[:3]))
        learner = s2r.load_learner(learner.save(tmp_path / "learner"))  # the file knows, too
    assert learner.import_episodes(BASELINE, objects(fresh)) == len(fresh)
    assert learner.import_episodes(BASELINE, objects(log[:3]), overlap="count") == 3
    said = [one.text for one in learner.propose().certificate.assumptions if one.code is AssumptionCode.LOGS]
    assert any("3 imported episodes" in text and "simulator was estimated from are other episodes" in text for text in said)


def test_a_support_knows_the_log_that_it_was_read_from():
    problem = problem_of(log_of(0))
    fitted, plain = problem.simulator.kernel, s2r.Kernel.from_dense(problem.simulator.kernel.to_dense())
    model = s2r.CMDP.of(plain, 2, 0, s2r.AtMost(np.zeros((STATES, 1)), 1.0))
    learner = s2r.Learner(s2r.Problem(model, BASELINE, problem.settings, support=fitted), trust_margin=True)
    with pytest.raises(Conflict, match=REFUSED):
        learner.import_episodes(BASELINE, objects(log_of(0)))
    assert s2r.Problem(model, BASELINE, problem.settings).fitted_episodes() == frozenset()


def test_terminated_and_longer_episodes_are_recognised_in_the_numbers_of_the_model():
    log = [([0, 1, 2], [0, 1], True), ([0, 2, 1, 0, 1], [1, 0, 0, 1], False)]
    system = s2r.estimate_from_log(log, 3, s2r.SystemDescription(start=0, cost=[0, 0, 1], limit=1.0, ended=[0, 0, 1]))
    marks = s2r.Problem.from_text(_with_any_baseline(system).to_text()).fitted_episodes()
    assert len(marks) == 2
    learner = s2r.Learner(_with_any_baseline(system), trust_margin=True)
    with pytest.raises(Conflict, match=f"^2 {REFUSED}"):
        learner.import_episodes(learner.problem.baseline, system.trajectories())


def _with_any_baseline(system) -> s2r.Problem:
    even = np.full((system.model.num_states, 2), 0.5)
    settings = s2r.Settings(margin=0.1, calibrated_gap=0.0, mismatch_gap=0.0, tolerance=0.025)
    return s2r.Problem(system.model, s2r.MarkovPolicy.stochastic(even, horizon=3), settings, known=system.known)


def test_a_campaign_its_commands_and_its_record_refuse_the_log_of_the_simulator(tmp_path):
    log, place = log_of(0), str(tmp_path / "one.db")
    (tmp_path / "log.jsonl").write_text("\n".join(json.dumps(one) for one in objects(log)))
    with Campaign.create(place, problem_of(log), trust_margin=True) as campaign:
        for overlap in ("refuse", "skip"):
            with pytest.raises(Conflict, match=REFUSED):
                campaign.import_log("log", BASELINE, objects(log), overlap=overlap)
        done = CliRunner().invoke(app, ["campaign", "import", place, str(tmp_path / "log.jsonl"), "--source", "log"])
        assert done.exit_code != 0
        assert "120 of the 120 episodes look like ones that the simulator was estimated from" in done.output
        campaign.import_log("log", BASELINE, objects(log[:5]), overlap="count")
        assert campaign.verify().holds
        said = campaign.ask(worker="arm").certificate.assumptions
        assert any("of the log 'log' that look like" in one.text and one.text.endswith(": 5 episodes") for one in said)
        assert campaign.import_log("again", BASELINE, objects(log[:5]), overlap="skip").skipped == 5


def test_verify_finds_the_log_of_the_simulator_in_a_record_that_does_not_say_so(tmp_path):
    log = log_of(0)
    with Campaign.create(str(tmp_path / "one.db"), problem_of(log), trust_margin=True) as campaign:
        campaign.import_log("log", BASELINE, objects(log), overlap="count")
        body = json.loads(list(campaign.events())[-1].body)
        with campaign.journal.writing() as transaction:
            transaction._connection.exec_driver_sql("DELETE FROM safe2real_event WHERE sequence = 2")
            transaction.append([Draft("import", {**body, "overlap": "none", "alike": 0}, worker="log")])
        (problem,) = campaign.verify().problems
        assert problem.what.startswith("120 imported episodes look like ones that the simulator was estimated from")


def test_episodes_are_not_carried_over_into_a_simulator_that_was_refitted_to_them(tmp_path):
    log, fresh = log_of(0), log_of(1)
    with (
        Campaign.create(str(tmp_path / "old.db"), problem_of(log), trust_margin=True) as old,
        Campaign.create(str(tmp_path / "refitted.db"), problem_of(fresh), trust_margin=True) as refitted,
        Campaign.create(str(tmp_path / "new.db"), problem_of(log), trust_margin=True) as new,
    ):
        old.import_log("fresh", BASELINE, objects(fresh), overlap="count")
        with pytest.raises(Conflict, match=r"^120 of the 120 .*Create the new campaign with the earlier simulator"):
            carry_over(refitted, old)
        assert carry_over(refitted, old, overlap="count").episodes == EPISODES
        assert carry_over(new, old, overlap="count").episodes == EPISODES  # many look like the log by chance


def test_the_model_of_a_plan_is_no_simulator_for_the_episodes_that_made_it(tmp_path):
    """It holds the observed rows, and does not know the episodes; so it refuses all that are imported."""
    log = objects(log_of(1))
    learner = s2r.Learner(problem_of(log_of(0)), trust_margin=True)
    assert learner.plan(np.zeros(STATES)).model.kernel.fitted_to is not None  # that of the simulator, so far
    learner.import_episodes(BASELINE, log, overlap="count")
    refitted = replace(learner.problem, simulator=learner.plan(np.zeros(STATES)).model)
    again = s2r.Learner(s2r.Problem.from_text(refitted.to_text()), trust_margin=True)
    refused = "the simulator is the model of a plan.*Take the simulator of that learner"
    with pytest.raises(Conflict, match=refused):
        again.import_episodes(BASELINE, log)
    with (
        Campaign.create(str(tmp_path / "old.db"), problem_of(log_of(0)), trust_margin=True) as old,
        Campaign.create(str(tmp_path / "new.db"), refitted, trust_margin=True) as new,
    ):
        old.import_log("log", BASELINE, log, overlap="count")
        with pytest.raises(Conflict, match=refused):
            carry_over(new, old)
        with pytest.raises(Conflict, match=refused):
            new.import_log("log", BASELINE, log)
        assert new.status(forecast=False).samples == 0


def test_every_certificate_says_what_was_fixed_before_the_data():
    (said,) = [
        one
        for one in s2r.Learner(problem_of(log_of(0)), trust_margin=True).propose().certificate.assumptions
        if one.code is AssumptionCode.FIXED
    ]
    assert "simulator, the gaps and the declared support and ties were fixed before" in said.text
