"""Data one already has go into a learner as into a campaign: as a whole, once, and named on every certificate."""

import numpy as np
import pytest

import safe2real as s2r
from safe2real.campaign.journal import MemoryJournal
from safe2real.errors import Conflict, InvalidInput
from safe2real.exploration import roll_out
from safe2real.methods import Reason, Trial
from safe2real.standing import AssumptionCode
from safe2real.testing.systems import random_case

OTHER = s2r.MarkovPolicy.deterministic([0, 1, 0, 1], num_actions=2, horizon=3)


def log_of(case, policy, episodes=40):
    return [roll_out(case.reality, policy, seed=6, round_number=t) for t in range(episodes)]


def same(one, other):
    pairs = zip((*one.evidence.counts.tally, *one.evidence.belief), (*other.evidence.counts.tally, *other.evidence.belief),
                strict=True)  # fmt: skip
    return all(np.array_equal(left, right) for left, right in pairs)


@pytest.mark.parametrize("policy", ["baseline", "other"])
def test_it_is_what_a_campaign_counts(policy):
    case = random_case(1)
    collector = case.problem.baseline if policy == "baseline" else OTHER
    learner = s2r.Learner(case.problem, warm_start=False)
    assert learner.import_episodes(collector, log_of(case, collector)) == 40
    with s2r.Campaign.create(MemoryJournal(), case.problem, trust_margin=True) as campaign:
        campaign.import_log("log", collector, log_of(case, collector))
        there = campaign._record.catch_up().learner
    assert same(learner, there)
    assert learner.evidence.trust.episodes == there.evidence.trust.episodes == (40 if policy == "baseline" else 0)
    assert learner.evidence.trust.compiled.wealth.tolist() == there.evidence.trust.compiled.wealth.tolist()
    assert learner.round == 1
    assert learner.propose().exploration_weight == there.propose().exploration_weight


def test_certificates_name_what_the_log_assumes_and_nothing_before_it():
    case = random_case(1)
    learner, reward = s2r.Learner(case.problem), np.ones((4, 2))
    for made in (learner.propose().certificate, learner.plan(reward).certificate):
        assert AssumptionCode.LOGS not in {one.code for one in made.assumptions}
    learner.import_episodes(OTHER, log_of(case, OTHER))
    for made in (learner.propose().certificate, learner.plan(reward).certificate):
        assert [one.code for one in made.assumptions].count(AssumptionCode.LOGS) == 1


def named(log, prefix):
    return [
        {"states": one.states.tolist(), "actions": one.actions.tolist(), "id": f"{prefix}{i}"} for i, one in enumerate(log)
    ]


def test_no_episode_counts_twice():
    case = random_case(1)
    learner, log = s2r.Learner(case.problem), log_of(case, OTHER, 20)
    learner.import_episodes(OTHER, log)
    for again in (log, log[:10], log[::-1], log[5:6], named(log[:2], "e")):  # whole, in part, turned round, with new names
        with pytest.raises(Conflict, match=f"{len(again)} of the {len(again)} episodes look like"):
            learner.import_episodes(OTHER, again)
    assert learner.samples == 3 * 20


def test_names_tell_episodes_apart():
    case = random_case(1)
    learner, log = s2r.Learner(case.problem), log_of(case, OTHER, 3)
    learner.import_episodes(OTHER, named(log, "a"))
    learner.import_episodes(OTHER, named(log, "b"))  # others that happen to be alike
    with pytest.raises(Conflict, match="id 'b1'"):
        learner.import_episodes(OTHER, named(log, "b")[1:])
    with pytest.raises(Conflict, match="look like"):
        learner.import_episodes(OTHER, log[:1])  # without a name it may be one of them
    assert learner.samples == 3 * 6
    assert [one.code for one in learner.propose().certificate.assumptions].count(AssumptionCode.LOGS) == 1


def test_episodes_that_somebody_calls_others_count_and_are_said():
    case = random_case(1)
    learner, log = s2r.Learner(case.problem), log_of(case, OTHER, 3)
    learner.import_episodes(OTHER, log)
    assert learner.import_episodes(OTHER, log[:2], overlap="count") == 2
    assert learner.samples == 3 * 5
    texts = [one.text for one in learner.propose().certificate.assumptions if one.code is AssumptionCode.LOGS]
    assert len(texts) == 2
    assert texts[1].startswith("the 2 imported episodes that look like")
    with pytest.raises(InvalidInput, match="overlap is 'skip'"):
        learner.import_episodes(OTHER, log, overlap="skip")


def test_what_is_not_of_the_policy_is_refused_and_changes_nothing():
    case = random_case(1)
    learner = s2r.Learner(case.problem)
    with pytest.raises(InvalidInput, match="never does there"):
        learner.import_episodes(OTHER, log_of(case, case.problem.baseline))
    with pytest.raises(InvalidInput, match="give the Markov policy that collected"):
        learner.import_episodes("baseline", [])
    with pytest.raises(InvalidInput, match="episodes is 3"):
        learner.import_episodes(OTHER, 3)
    assert learner.samples == 0
    assert not learner._imported.assumptions


def test_bad_rollouts_of_the_baseline_halt_and_leaving_the_model_refutes():
    case = random_case(1)
    worst = np.argmin(case.problem.simulator.utilities[0][0].sum(axis=1))
    bad = [{"states": [0, int(worst), int(worst), int(worst)], "actions": [0, 0, 0], "id": str(i)} for i in range(400)]
    learner = s2r.Learner(case.problem, Trial(OTHER))
    learner.evidence.trust.compiled.utilities[:] = 0.0
    learner.import_episodes(case.problem.baseline, bad)
    assert learner.propose().reason is Reason.HALT
    other = s2r.Learner(case.problem)
    other.import_episodes(OTHER, [{"states": [0], "actions": [0], "left_model": True}])
    assert other.propose().reason is Reason.BASELINE
    assert other.round == 1


def test_a_log_of_the_policy_on_trial_raises_its_floor_as_one_block():
    case = random_case(1)
    learner, log = s2r.Learner(case.problem, Trial(OTHER)), log_of(case, OTHER)
    learner.import_episodes(OTHER, log)
    assert learner.evidence.returns.episodes == learner.evidence.returns.logged == 40
    assert learner.floors()["constraint"] > 0.0
    codes = [one.code for one in learner.propose().certificate.assumptions]
    assert AssumptionCode.LOGS in codes
    assert AssumptionCode.SELECTION in codes
    backwards = s2r.Learner(case.problem, Trial(OTHER))
    backwards.import_episodes(OTHER, log[::-1])
    assert backwards.floors() == pytest.approx(learner.floors())


def test_an_episode_that_was_cut_short_counts_for_whose_it_was():
    """Left out of the floors, the others would be chosen by what happened."""
    case = random_case(0)
    horizon = case.problem.simulator.horizon
    trial = s2r.methods.Trial(s2r.MarkovPolicy.deterministic([1] * 4, num_actions=2, horizon=horizon))
    told, said = s2r.Learner(case.problem, trial), s2r.Learner(case.problem, trial)
    for number in range(60):
        proposal = told.propose()
        mine = proposal.draw() is case.problem.baseline
        assert said.propose().exploration_weight == proposal.exploration_weight
        told.cut_short([0], [], "breaker")
        said.cut_short([0], [], "breaker", of_baseline=mine, of_candidate=not mine)
        assert told.floors() == said.floors(), number
    assert told.evidence.trust.episodes == said.evidence.trust.episodes > 0
