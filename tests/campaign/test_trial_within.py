"""A trial within a campaign of another method: whose episodes count, what follows, records that were forged."""

from dataclasses import replace

import numpy as np
import pytest

import safe2real as s2r
from safe2real.campaign.journal import MemoryJournal
from safe2real.campaign.snapshot import replay_from, snapshot_of
from safe2real.campaign.verify import check_record
from safe2real.errors import InvalidInput
from safe2real.exploration import roll_out
from safe2real.methods import ForRewards, SimToReal, Trial
from safe2real.methods.trial_within import TrialWithin
from safe2real.model.serialization import digest_of, policy_to_bytes
from safe2real.planning.evaluate import constraint_values
from safe2real.report.campaign_report import write_campaign_report
from safe2real.standing import AssumptionCode
from safe2real.testing.systems import random_case
from tests.campaign.test_trial import _forge
from tests.cases import each
from tests.methods.test_trial import OTHER, POLICY

SECOND = np.tile([0.0, 1.0], (4, 1))


def work(campaign, case, number):
    for _ in range(number):
        one = campaign.ask(worker="arm")
        campaign.tell(one.id, roll_out(case.reality, one.policy, seed=3, round_number=one.number))


def begun(journal, case, *, before=20, during=40):
    """A campaign with a trial that runs."""
    campaign = s2r.Campaign.create(journal, case.problem, trust_margin=True)
    work(campaign, case, before)
    campaign.begin_trial(POLICY, delta=0.02, rewards={"second": SECOND})
    work(campaign, case, during)
    return campaign


def learner_of(campaign):
    return campaign._record.catch_up().learner


def test_a_trial_runs_within_a_campaign_and_the_campaign_goes_on(tmp_path):
    case, journal = random_case(2), MemoryJournal()
    with begun(journal, case) as campaign:
        status = campaign.status(forecast=False)
        assert status.trial.running
        assert status.failure == pytest.approx(case.problem.settings.delta + 0.02)
        write_campaign_report(campaign, tmp_path / "page.html", forecast=False)
        assert "With probability at least 0.93 over the whole campaign" in " ".join(
            (tmp_path / "page.html").read_text().split()
        )
        assert 0 < status.trial.episodes < 40
        assert campaign.floors() == status.trial.floors
        assert learner_of(campaign).samples == 60 * 3  # all of it is counted for the rows
        said = campaign.proposal().certificate.assumptions
        assert {AssumptionCode.SEPARATION, AssumptionCode.INDEPENDENT} <= {one.code for one in said}
        assert any("with probability 0.02 at most, ADDED to delta" in str(one) for one in said)
        floors = campaign.floors()
        campaign.end_trial()
        work(campaign, case, 5)
        assert campaign.method.name == SimToReal.name
        assert campaign.status(forecast=False).trial.floors == floors
        assert not campaign.status(forecast=False).trial.running
        assert any("ADDED to delta" in str(one) for one in campaign.plan(SECOND).certificate.assumptions)
        campaign.begin_trial(OTHER, delta=0.01)
        work(campaign, case, 10)
        ledger = campaign.verify()
        assert ledger.holds, ledger.describe()
        assert ledger.identical == 75
    with s2r.Campaign.open(journal) as again:
        assert [one.number for one in learner_of(again).trials] == [1, 2]
        assert again.verify().holds


def test_only_what_was_handed_out_for_the_trial_counts_for_it():
    case = random_case(2)
    with s2r.Campaign.create(MemoryJournal(), case.problem, method=ForRewards({"second": SECOND}, accuracy=0.05),
                             trust_margin=True) as campaign:  # fmt: skip
        early = campaign.ask_batch(5, worker="early")
        campaign.begin_trial(POLICY, delta=0.02)
        late = campaign.ask_batch(30, worker="late")
        for one in early:
            campaign.tell(one.id, roll_out(case.reality, one.policy, seed=3, round_number=one.number))
        assert learner_of(campaign).evidence.returns.episodes == 0
        tried = [
            one for one in late if one.policy is not None and np.array_equal(one.policy.probabilities, POLICY.probabilities)
        ]
        assert tried
        campaign.abandon(late[-1].id, "battery") if late[-1] in tried else None
        for one in late[1:-1]:
            campaign.tell(one.id, roll_out(case.reality, one.policy, seed=3, round_number=one.number))
        campaign.end_trial()  # with the first of them still out, nothing of it was counted
        assert learner_of(campaign).trials[0].returns.episodes <= 1
        campaign.begin_trial(OTHER, delta=0.02)
        campaign.tell(late[0].id, roll_out(case.reality, late[0].policy, seed=3, round_number=late[0].number))
        assert learner_of(campaign).evidence.returns.episodes == 0  # they were of the first trial
        assert learner_of(campaign).evidence.counts.episodes >= 34
        assert campaign.verify().holds
        with pytest.raises(InvalidInput, match="end it first"):
            campaign.declare({"other": SECOND})


def test_reached_targets_give_way_to_the_method_whose_episodes_do_not_count():
    case = random_case(2)
    learner = s2r.Learner(case.problem)
    learner.begin_trial(s2r.Mixture.of([0.5, 0.5], [POLICY, case.problem.baseline]), delta=0.05, target={"constraint": 0.05})
    assert learner.method.trial.candidate.policies == (POLICY,)
    for number in range(400):
        learner.observe(roll_out(case.reality, learner.propose().draw(), seed=3, round_number=number))
        if not learner.decide().tries:
            break
    counted, floor = learner.evidence.returns.episodes, learner.floors()["constraint"]
    assert 0 < counted < 400
    assert 0.05 <= floor <= constraint_values(case.reality, POLICY)[0]
    for number in range(400, 440):
        learner.observe(roll_out(case.reality, learner.propose().draw(), seed=3, round_number=number))
    assert (learner.evidence.returns.episodes, learner.floors()["constraint"]) == (counted, floor)
    assert learner.end_trial() == {"constraint": floor}


@pytest.mark.parametrize("seed", range(8))
def test_no_mixture_is_unsafe_and_every_floor_is_true(seed):
    case = random_case(seed)
    learner = s2r.Learner(case.problem, trust_margin=True)
    exact = constraint_values(case.reality, POLICY)
    for number in range(300):
        if number == 30:
            learner.begin_trial(POLICY, delta=0.05)
        proposal = learner.propose()
        if proposal.mixture is None:
            break
        deployed = sum(
            w * constraint_values(case.reality, p)
            for w, p in zip(proposal.mixture.weights, proposal.mixture.policies, strict=True)
        )
        assert (deployed >= case.reality.thresholds - 1e-9).all()
        learner.observe(roll_out(case.reality, proposal.draw(), seed=seed, round_number=number))
    assert all(
        learner.floors()[name] <= value for name, value in zip(case.reality.labels, exact, strict=True) if learner.floors()
    )


def test_a_snapshot_goes_on_within_a_trial():
    case, journal = random_case(2), MemoryJournal()
    with begun(journal, case) as campaign:
        campaign.end_trial()
        campaign.begin_trial(OTHER, delta=0.01)
        work(campaign, case, 10)
        record = campaign._record
        replay = record.catch_up()
        content = snapshot_of(replay, record.problem_digest, None)
        again = replay_from(content, (replay.sequence, replay.digest), record.fresh_learner(), record.problem_digest, None)
        assert again.learner.floors() == campaign.floors()
        assert [one.returns.floors for one in again.learner.trials] == [one.returns.floors for one in replay.learner.trials]
        assert again.learner.propose().exploration_weight == campaign.proposal().exploration_weight


def _unmarked(event, body):
    if event.kind == "ask" and event.deployment == 50:
        del body["tries"]
    return body


def _of_another_trial(event, body):
    if event.kind == "ask" and event.deployment == 50:
        body["tries"] = 2
    return body


def _marked_before(event, body):
    if event.kind == "ask" and event.deployment == 15:
        body["tries"] = 1
    return body


def _of_another_policy(event, body):
    if event.kind == "ask" and event.deployment == 50:
        body["policies"][0] = digest_of(policy_to_bytes(OTHER))
    return body


def _another_number(event, body):
    if event.kind == "trial":
        body["begin"]["number"] = 3
    return body


@each(("change", "message"), [
    (_unmarked, "is not the one of trial 1"),
    (_of_another_trial, "no trial of that number was running"),
    (_marked_before, "no trial of that number was running"),
    (_of_another_policy, "is not the policy of this trial"),
    (_another_number, "the next here is 1"),
])  # fmt: skip
def test_a_forged_record_is_refused(change, message):
    case, journal = random_case(2), MemoryJournal()
    with begun(journal, case) as campaign:
        record, stored = campaign._record, {digest_of(policy_to_bytes(one)): policy_to_bytes(one) for one in (
            OTHER, *campaign.stored_policies().values())}  # fmt: skip
        honest, forged = (
            check_record(record.name, record.fresh_learner(), record.problem_digest, events, stored.get)
            for events in (campaign.events(), _forge(campaign.events(), change))
        )
    assert honest.holds, honest.describe()
    assert any(message in one.what for one in forged.problems), forged.problems


@each(("act", "message"), [
    (lambda learner: learner.end_trial(), "no trial is running"),
    (lambda learner: learner.begin_trial(learner.baseline, delta=0.05), "baseline"),
    (lambda learner: learner.begin_trial(s2r.Mixture.of([1.0], [learner.baseline]), delta=0.05), "baseline alone"),
    (lambda learner: learner.begin_trial(POLICY, delta=0.0), "delta of the trial"),
    (lambda learner: [learner.begin_trial(POLICY, delta=0.05) for _ in range(2)], "is no trial itself|no trial itself"),
    (lambda learner: [learner.begin_trial(POLICY, delta=0.05), learner.direct(SimToReal())], "end it first"),
    (lambda learner: learner.begin_trial(POLICY, delta=0.05, target={"speed": 1.0}), "target names"),
    (lambda learner: learner.try_out(TrialWithin(SimToReal(), Trial(POLICY), 0.05)), "this run goes by"),
])  # fmt: skip
def test_what_does_not_fit_is_refused_and_changes_nothing(act, message):
    learner = s2r.Learner(random_case(2).problem)
    with pytest.raises(InvalidInput, match=message):
        act(learner)


def test_a_method_that_is_unsafe_or_a_trial_takes_none():
    case = random_case(2)
    for method in (s2r.methods.Unconstrained(), Trial(OTHER)):
        with pytest.raises(InvalidInput, match="keeps to its constraints"):
            s2r.Learner(case.problem, method).begin_trial(POLICY, delta=0.05)


def staying(limit=12.0):
    """Two states; action 1 leads to the second, which costs 1 a step: in 20 steps the trusted policy costs nothing."""
    kernel = s2r.Kernel.from_dense([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]])
    model = s2r.CMDP.of(kernel, 20, 0, s2r.AtMost([0.0, 1.0], limit, "falls"))
    baseline, other = (s2r.MarkovPolicy.deterministic([a, a], num_actions=2, horizon=20) for a in (0, 1))
    settings = s2r.Settings(margin=limit / 2.0, calibrated_gap=0.0, mismatch_gap=0.5, tolerance=0.5)
    return s2r.Problem(model, baseline, settings), other


@pytest.mark.parametrize("seed", range(6))
def test_an_episode_that_is_out_stays_what_it_was_proposed_for(seed):
    problem, falling = staying()
    problem = replace(problem, settings=replace(problem.settings, seed=seed))
    quiet = s2r.MarkovPolicy.deterministic([0, 1], num_actions=2, horizon=20)
    learner = s2r.Learner(problem)
    learner.begin_trial(quiet, delta=0.2)
    for _ in range(60):
        learner.observe(roll_out(problem.simulator, learner.propose().draw(), seed=1, round_number=learner.round))
    log = [roll_out(problem.simulator, problem.baseline, seed=5, round_number=0)]

    def restart():
        learner.end_trial()
        learner.begin_trial(falling, delta=0.2)

    for change in (restart, lambda: learner.import_episodes(problem.baseline, log), learner.end_trial):
        episode = roll_out(problem.simulator, learner.propose().draw(), seed=1, round_number=learner.round)
        before = learner.evidence.counts.episodes
        change()
        with pytest.raises(InvalidInput, match="tell it first"):
            learner.save("nowhere.npz")
        learner.observe(episode)
        assert learner.evidence.counts.episodes > before  # nothing is lost
    assert learner.trials[-1].returns.floors["falls"] >= 19.0  # which is what the falling policy costs


def test_what_is_not_said_of_an_episode_follows_from_what_was_handed_out():
    problem, falling = staying()
    learner = s2r.Learner(problem, Trial(falling))
    counted = 0
    for _ in range(40):
        mine = learner.propose().draw() is not learner.baseline
        learner.cut_short([0], [], "battery", of_baseline=not mine)
        counted += mine
    assert learner.evidence.returns.episodes == counted > 0


def test_floors_and_targets_of_a_cost_are_costs():
    problem, _ = staying()
    quiet = s2r.MarkovPolicy.deterministic([0, 1], num_actions=2, horizon=20)
    learner = s2r.Learner(problem, Trial(quiet, target={"falls": 4.0}))
    assert learner.floors() == {"falls": 20.0}
    while not learner.stopped:
        learner.observe(roll_out(problem.simulator, learner.propose().draw(), seed=1, round_number=learner.round))
    assert 0.0 <= learner.floors()["falls"] <= 4.0
    with pytest.raises(InvalidInput, match="no episode can cost less than 0"):
        s2r.Learner(problem, Trial(quiet, target={"falls": 0.0}))


def test_a_trial_within_is_begun_and_not_given():
    problem, falling = staying()
    with pytest.raises(InvalidInput, match="begin_trial"):
        s2r.Learner(problem, TrialWithin(SimToReal(), Trial(falling), 0.05))


def _with_floats(event, body):
    if event.kind == "tell" and event.deployment == 30:
        body["states"] = [float(state) for state in body["states"]]
    return body


def _marked_after_the_end(event, body):
    if event.kind == "ask" and event.deployment == 62:
        body["tries"] = 1
    return body


@each(("change", "message"), [
    (_with_floats, "as it is recorded"),
    (_marked_after_the_end, "no trial of that number was running"),
])  # fmt: skip
def test_forgeries_that_look_like_what_was_checked_before(change, message):
    case, journal = random_case(2), MemoryJournal()
    with begun(journal, case) as campaign:
        held = campaign.ask(worker="arm")
        campaign.end_trial()
        campaign.ask(worker="leg")
        record, stored = campaign._record, {digest_of(policy_to_bytes(one)): policy_to_bytes(one) for one in
                                            campaign.stored_policies().values()}  # fmt: skip
        assert held.number == 61
        forged = check_record(
            record.name, record.fresh_learner(), record.problem_digest, _forge(campaign.events(), change), stored.get
        )
    assert any(message in one.what for one in forged.problems), forged.problems
