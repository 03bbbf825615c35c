"""A trial in a campaign: what a learner would do, kept; what nobody saw; logs; and records that were forged."""

from dataclasses import replace

import numpy as np
import pytest

import safe2real as s2r
from safe2real.campaign.journal import MemoryJournal
from safe2real.campaign.verify import Checker, check_record
from safe2real.evidence.mean_bounds import mean_bounds
from safe2real.exploration import roll_out
from safe2real.exploration.proposal import coin_of, drawn
from safe2real.methods import Trial
from safe2real.methods.trial import share_of_delta
from safe2real.model.serialization import digest_of, from_text, policy_to_bytes, to_text
from safe2real.model.trajectory import utilities_along
from safe2real.standing import AssumptionCode
from safe2real.testing.systems import random_case
from tests.campaign.systems import chained
from tests.methods.test_trial import OTHER, POLICY, RESTS_ON


def run_campaign(journal, case, trial, number, *, lose=()):
    """Ask and tell; deployments whose number is in `lose` are abandoned."""
    with s2r.Campaign.create(journal, case.problem, method=trial, trust_margin=True) as campaign:
        for _ in range(number):
            one = campaign.ask(worker="arm")
            if one.number in lose:
                campaign.abandon(one.id, "battery")
            else:
                campaign.tell(one.id, roll_out(case.reality, one.policy, seed=3, round_number=one.number))
        return campaign.proposal(), campaign.verify(), campaign.floors()


def test_a_campaign_of_a_trial_is_what_a_learner_does_and_verifies():
    case, trial = random_case(2), Trial(POLICY, {"second": np.tile([0.0, 1.0], (4, 1))})
    journal = MemoryJournal()
    proposal, ledger, floors = run_campaign(journal, case, trial, 60)
    assert ledger.holds, ledger.describe()
    assert ledger.certified
    assert ledger.identical == 60
    learner = s2r.Learner(case.problem, trial)
    for number in range(1, 61):
        deployed = learner.propose()
        policy = deployed.mixture.policies[drawn(deployed.mixture.weights, coin_of(case.problem.settings.coin_seed, number))]
        learner.observe(roll_out(case.reality, policy, seed=3, round_number=number))
    assert learner.floors() == floors
    assert learner.propose().exploration_weight == proposal.exploration_weight > case.problem.settings.margin / 3
    codes = {one.code for one in proposal.certificate.assumptions}
    assert codes > RESTS_ON
    assert AssumptionCode.SEPARATION not in codes
    with s2r.Campaign.open(journal) as again:
        assert again.verify().holds
        assert again.floors() == floors
        assert again.forecast().rounds is None  # returns are not rehearsed


def test_what_is_given_up_counts_as_nothing_and_told_late_it_does_not_count_again():
    case, trial = random_case(2), Trial(POLICY)
    journal = MemoryJournal()
    with s2r.Campaign.create(journal, case.problem, method=trial, trust_margin=True) as campaign:
        given_up, lost = [], 0
        for _ in range(30):
            one = campaign.ask(worker="arm")
            campaign.abandon(one.id, "battery")
            given_up.append(one)
            lost += one.drawn < 1 and one.mixture.policies[one.drawn].actions is not None
        evidence = campaign.record.catch_up().learner.evidence
        assert evidence.returns.episodes == lost > 0
        assert evidence.returns.bounds[0].total == 0.0
        for one in given_up:
            campaign.tell(one.id, roll_out(case.reality, one.policy, seed=3, round_number=one.number))
        evidence = campaign.record.catch_up().learner.evidence
        assert evidence.returns.episodes == lost  # their places were counted, for the worst
        assert evidence.samples == 3 * 30
        held = campaign.ask_batch(2, worker="arm")
        campaign.abandon(held[1].id, "battery")  # its place waits for the first: told in time it counts in full
        campaign.tell(held[1].id, roll_out(case.reality, held[1].policy, seed=3, round_number=40))
        campaign.tell(held[0].id, roll_out(case.reality, held[0].policy, seed=3, round_number=41))
        mine = sum(one.policy.actions is not None for one in held)
        assert campaign.record.catch_up().learner.evidence.returns.episodes == lost + mine
        assert campaign.verify().holds


def test_a_log_of_the_policy_counts_as_one_block_and_says_what_that_assumes():
    case, trial = random_case(2), Trial(POLICY)
    log = [roll_out(case.reality, POLICY, seed=8, round_number=t) for t in range(200)]
    log.sort(key=lambda one: -utilities_along(case.reality, one.states, one.actions).sum())  # sorted, it gains nothing
    journal = MemoryJournal()
    with s2r.Campaign.create(journal, case.problem, method=trial, trust_margin=True) as campaign:
        campaign.import_log("bench", POLICY, log)
        returns = [utilities_along(case.reality, one.states, one.actions).sum() for one in log]
        top = campaign.record.catch_up().learner.evidence.returns.bounds[0].high
        whole = mean_bounds(returns, share_of_delta(0.05, 1, 1), high=top)[0]
        assert campaign.floors()["constraint"] == pytest.approx(whole, rel=1e-3)
        said = campaign.proposal().certificate.assumptions
        assert "had no part in choosing it" in " ".join(map(str, said))
        campaign.import_log("other", OTHER, [roll_out(case.reality, OTHER, seed=8, round_number=0)])
        assert campaign.record.catch_up().learner.evidence.returns.episodes == 200
        campaign.ask(worker="arm")
        assert campaign.verify().holds


def test_what_left_the_model_in_a_log_is_counted_before_the_rest_is_looked_at():
    case = random_case(2)
    good = [{"states": one.states.tolist(), "actions": one.actions.tolist()}
            for one in (roll_out(case.reality, POLICY, seed=8, round_number=t) for t in range(60))]  # fmt: skip
    left = [{"states": [0], "actions": [1], "left_model": True}] * 60
    with s2r.Campaign.create(MemoryJournal(), case.problem, method=Trial(POLICY), trust_margin=True) as campaign:
        campaign.import_log("bench", POLICY, good + left, overlap="count")
        mixed = campaign.floors()["constraint"]
        assert campaign.record.catch_up().learner.evidence.returns.episodes == 120
    with s2r.Campaign.create(MemoryJournal(), case.problem, method=Trial(POLICY), trust_margin=True) as campaign:
        campaign.import_log("bench", POLICY, good, overlap="count")
        assert mixed < 0.6 * campaign.floors()["constraint"]


def _forge(events, change):
    """The record with the body of ask 30 changed, and every digest after it computed again."""
    return chained(
        replace(event, body=to_text(change(from_text(event.body, "a body"))))
        if (event.kind, event.deployment) == ("ask", 30)
        else event
        for event in events
    )


def _claims_more(body):
    return body | {"lower_bounds": [bound + 0.05 for bound in body["lower_bounds"]]}


def _deploys_more(body):
    coin = drawn(np.array([0.95, 0.05]), coin_of(2, 30))
    return body | {"weights": [0.95, 0.05], "exploration_weight": 0.95, "drawn": coin}


def _deploys_another(body):
    return body | {"policies": [digest_of(policy_to_bytes(OTHER)), *body["policies"][1:]]}


@pytest.mark.parametrize(("change", "message"), [
    (_claims_more, "claim more than the data prove"),
    (_deploys_more, "the certificate does not hold"),
    (_deploys_another, "is not the policy of this trial"),
])  # fmt: skip
def test_a_forged_record_is_refused(change, message):
    case, journal = random_case(2), MemoryJournal()
    run_campaign(journal, case, Trial(POLICY), 40, lose=(5, 6))
    with s2r.Campaign.open(journal) as campaign:
        policies = {digest_of(policy_to_bytes(one)): policy_to_bytes(one) for one in (POLICY, OTHER, case.problem.baseline)}
        events = _forge(campaign.events(), change)
        record = campaign.record
        honest, forged = (
            check_record(Checker(record.name, record.problem_digest, record.fresh_learner(), policies.get), given)
            for given in (campaign.events(), events)
        )
        assert honest.holds, honest.describe()
    assert message in forged.describe()
