"""What a campaign hands out, counts and remembers; crashes, fleets and forgeries have files of their own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import safe2real as s2r
from safe2real.campaign import FIELD_ASSUMPTIONS, Campaign
from safe2real.campaign.journal import MemoryJournal
from safe2real.evidence.mismatch_map import Verdict
from safe2real.exploration import Learner, roll_out
from safe2real.exploration.proposal import coin_of, drawn
from safe2real.problem.problem import Problem
from safe2real.standing import Standing
from safe2real.systems import WindyGrid
from tests.campaign.systems import assert_same_model, described, model_of, paper_grid, run_rounds

GRID = paper_grid()
REAL, MODEL, BASELINE = GRID.real, GRID.specification.simulator, GRID.specification.baseline
SETTINGS = replace(GRID.specification.settings, seed=4)
SPECIFICATION = replace(GRID.specification, settings=SETTINGS)
QUICK = replace(SPECIFICATION, settings=replace(SETTINGS, tolerance=2.0))  # stops after some hundred rounds
LITERAL = s2r.Settings(margin=0.306, calibrated_gap=0.0, mismatch_gap=0.68, tolerance=0.306 / 4)


def log_of(policy: s2r.MarkovPolicy, episodes: int) -> list[s2r.Trajectory]:
    return [roll_out(REAL, policy, seed=3, round_number=number) for number in range(episodes)]


def fresh_learner() -> Learner:
    return Learner(SPECIFICATION, warm_start=False)


def assert_as_learnt(campaign: Campaign, learner: Learner) -> None:
    assert_same_model(model_of(campaign), described(learner.evidence, learner.propose()))


def learner_of(campaign: Campaign) -> Learner:
    return campaign.record.catch_up().learner


def test_a_single_worker_runs_exactly_algorithm_1(place: Path) -> None:
    campaign = Campaign.create(place, SPECIFICATION)
    learner = fresh_learner()
    mixtures = 0
    for _ in range(150):
        deployment = campaign.ask(worker="arm")
        proposal = learner.propose()
        assert deployment.number == proposal.round
        assert deployment.reason is proposal.reason
        assert deployment.exploration_weight == proposal.exploration_weight
        assert deployment.uncertainty == proposal.uncertainty
        assert np.array_equal(deployment.policy.probabilities, proposal.draw().probabilities)
        assert np.array_equal(deployment.certificate.lower_bounds, proposal.certificate.lower_bounds)
        mixtures += deployment.reason is s2r.methods.Reason.MIXTURE
        episode = GRID.episode(deployment)
        campaign.tell(deployment.id, episode)
        learner.observe(episode)
    assert mixtures > 50
    assert_as_learnt(campaign, learner)


def test_a_deployment_is_recorded_before_it_is_handed_out(place: Path) -> None:
    campaign = Campaign.create(place, SPECIFICATION)
    deployment = campaign.ask(worker="arm")
    with Campaign.open(place) as other:
        assert [event.kind for event in other.events()] == ["create", "ask"]
        assert other.status(forecast=False).held[0][:2] == (deployment.id, "arm")


def test_a_campaign_that_is_there_is_opened_if_it_is_the_same(place: Path) -> None:
    with Campaign.create(place, SPECIFICATION, exist_ok=True, lease=60.0) as campaign:
        campaign.ask(worker="a")
    with Campaign.create(place, SPECIFICATION, exist_ok=True, lease=60.0) as again:
        assert (again.name, len(again.events())) == (campaign.name, 2)
    other = replace(SPECIFICATION, settings=replace(SPECIFICATION.settings, margin=0.25))
    with pytest.raises(s2r.errors.Conflict, match=r"about another problem: settings\.margin is 0\.306 there and 0\.25 here"):
        Campaign.create(place, other, exist_ok=True, lease=60.0)
    with pytest.raises(s2r.errors.Conflict, match=r"another problem: lease is \{'seconds': 60.0, .* there and None here"):
        Campaign.create(place, SPECIFICATION, exist_ok=True)
    with pytest.raises(s2r.errors.Conflict, match="holds a campaign already"):
        Campaign.create(place, SPECIFICATION, lease=60.0)


def test_a_worker_is_given_the_same_until_it_tells(place: Path) -> None:
    campaign = Campaign.create(place, SPECIFICATION)
    first = campaign.ask_batch(2, worker="a")
    with Campaign.open(place) as elsewhere:
        again = elsewhere.ask_batch(2, worker="a")
    assert [one.id for one in again] == [one.id for one in first]
    assert len(campaign.events()) == 3
    assert campaign.ask(worker="a").id == first[0].id  # fewer than it holds: the oldest
    assert len(campaign.ask_batch(3, worker="a")) == 3  # one more is added
    assert campaign.ask(worker="b").number == 4
    campaign.tell(first[0].id, GRID.episode(first[0]))
    assert [one.number for one in campaign.ask_batch(3, worker="a")] == [2, 3, 5]


def test_deployments_of_one_proposal_have_coins_of_their_own(place: Path) -> None:
    campaign = Campaign.create(place, SPECIFICATION)
    run_rounds(campaign, GRID, 120)
    fleet = campaign.ask_batch(60, worker="fleet")
    assert len({one.uncertainty for one in fleet}) == 1
    weights = fleet[0].mixture.weights
    assert [one.drawn for one in fleet] == [drawn(weights, coin_of(SETTINGS.seed, one.number)) for one in fleet]
    assert len({one.drawn for one in fleet}) > 1


def test_episodes_are_counted_in_the_order_of_their_deployments(place: Path) -> None:
    """A report that comes early must not get ahead: what is counted may not depend on how long an episode took."""
    campaign = Campaign.create(place, SPECIFICATION)
    slow, fast, last = (campaign.ask(worker=worker) for worker in ("slow", "fast", "last"))
    campaign.tell(fast.id, GRID.episode(fast))
    campaign.tell(last.id, GRID.episode(last))
    status = campaign.status(forecast=False)
    assert (status.samples, status.samples_counted) == (24, 0)
    assert (status.episodes_waiting, status.waiting_for) == (2, slow.id)
    campaign.tell(slow.id, GRID.episode(slow))
    learner = fresh_learner()
    for one in (slow, fast, last):
        learner.observe(GRID.episode(one))
    assert_as_learnt(campaign, learner)
    status = campaign.status(forecast=False)
    assert (status.samples_counted, status.episodes_waiting, status.waiting_for) == (36, 0, None)


def test_abandoning_releases_the_episodes_behind_and_a_late_report_is_still_taken(place: Path) -> None:
    campaign = Campaign.create(place, SPECIFICATION)
    lost, fine = campaign.ask(worker="a"), campaign.ask(worker="b")
    campaign.tell(fine.id, GRID.episode(fine))
    receipt = campaign.abandon(lost.id, "power cut in hall 3\nrestarted")
    assert (receipt.new, campaign.abandon(lost.id, "again").new) == (True, False)
    assert campaign.status(forecast=False).samples_counted == 12
    assert campaign.ask(worker="a").number == 3
    assert campaign.tell(lost.id, GRID.episode(lost)).new
    status = campaign.status(forecast=False)
    assert (status.told, status.abandoned, status.samples, status.samples_counted) == (2, 0, 24, 24)
    assert campaign.verify().holds
    with pytest.raises(s2r.errors.Conflict, match="what was told stays"):
        campaign.abandon(lost.id, "once more")


def test_the_prefix_of_an_aborted_episode_counts(place: Path) -> None:
    campaign = Campaign.create(place, SPECIFICATION)
    deployment = campaign.ask(worker="arm")
    whole = GRID.episode(deployment)
    prefix = s2r.Trajectory.of(MODEL, whole.states[:6], whole.actions[:5], partial=True)
    with pytest.raises(s2r.errors.InvalidInput, match="12 steps has 13 states"):
        campaign.tell(deployment.id, prefix)
    assert campaign.tell(deployment.id, prefix, partial=True).samples == 5
    status = campaign.status(forecast=False)
    assert (status.samples_counted, status.cut_short) == (5, 1)
    visits = campaign.mismatch_map().visits
    expected = np.zeros((25, 4), dtype=int)
    np.add.at(expected, (whole.states[:5], whole.actions[:5]), 1)
    assert np.array_equal(visits, expected)


def test_a_log_is_imported_once(place: Path) -> None:
    campaign = Campaign.create(place, SPECIFICATION)
    log = log_of(BASELINE, 7)
    as_objects = [{"states": one.states.tolist(), "actions": one.actions.tolist()} for one in log]
    assert campaign.import_log("october", BASELINE, log).new
    assert not campaign.import_log("october", BASELINE, as_objects).new
    with pytest.raises(s2r.errors.Conflict, match="another log"):
        campaign.import_log("october", BASELINE, log[:6])
    learner = fresh_learner()
    for one in log:
        learner.observe(one)
    assert np.array_equal(campaign.mismatch_map().visits, learner.evidence.counts.visits)
    assert campaign.status(forecast=False).imported == 7
    follows = s2r.MarkovPolicy.deterministic(np.zeros(25, dtype=int), num_actions=4, horizon=12)
    with pytest.raises(s2r.errors.InvalidInput, match=r"episodes\[0\].*never does there"):
        campaign.import_log("wrong policy", follows, log)
    assert campaign.verify().holds


def test_after_the_stop_there_is_a_plan_and_nothing_to_deploy() -> None:
    campaign = Campaign.create(MemoryJournal(), QUICK)
    held = campaign.ask(worker="slow")  # out since the first round
    campaign.abandon(held.id, "lost")
    reward = np.random.default_rng(0).random((25, 4))
    early = campaign.plan(reward)  # nothing is known yet: the baseline, and a bound that says so
    assert early.certificate.reaches
    assert not early.certificate.holds  # a heuristic radius certifies nothing
    assert early.suboptimality > 3.0
    with pytest.raises(s2r.errors.Stopped, match="nothing is left to deploy"):
        run_rounds(campaign, GRID, 3_000)
    status = campaign.status()
    assert status.stopped
    assert status.next_reason == "STOP"
    assert status.forecast is not None
    assert status.forecast.rounds == 0
    assert status.uncertainty <= 2.0
    plan = campaign.plan(reward)
    again = learner_of(campaign).plan(reward)
    assert plan.solution.value == again.solution.value
    assert set(FIELD_ASSUMPTIONS) <= set(plan.certificate.assumptions)
    # A sample is never refused: what was out during the stop is still taken, and the record still checks.
    assert campaign.tell(held.id, GRID.episode(held)).new
    assert campaign.verify().holds


def test_forecasts_are_of_the_right_size() -> None:
    """This campaign stops after about 3,000 rounds."""
    with Campaign.create(MemoryJournal(), SPECIFICATION) as campaign:
        at_start = campaign.forecast()
        assert at_start.rounds is not None
        assert 1_200 < at_start.rounds < 6_000
        assert at_start.samples == 12 * at_start.rounds
        run_rounds(campaign, GRID, 400)
        later = campaign.forecast()
        assert later.rounds is not None
        assert 0.6 * 2_600 < later.rounds < 1.5 * 2_600


def test_a_forecast_with_literal_constants_is_quick_and_large(place: Path) -> None:
    literal = replace(SETTINGS, tolerance=0.306 / 4, radius=s2r.radii.Literal(), bonus_scale=1.0)
    campaign = Campaign.create(place, Problem(MODEL, BASELINE, literal))
    optimistic = campaign.forecast()  # nothing is known to be wrong yet
    assert optimistic.samples is not None
    assert 1e5 < optimistic.samples < 1e7
    campaign.import_log("baseline", BASELINE, log_of(BASELINE, 3_000))
    forecast = campaign.forecast()
    assert forecast.samples is not None
    assert 1e8 < forecast.samples < 1e11


def test_what_is_handed_out_says_what_it_is(place: Path, tmp_path: Path) -> None:
    heuristic = Campaign.create(place, SPECIFICATION).ask(worker="arm").certificate
    assert not heuristic.certified
    assert heuristic.describe().startswith("HEURISTIC")
    campaign = Campaign.create(tmp_path / "literal.db", Problem(MODEL, BASELINE, LITERAL))
    certificate = campaign.ask(worker="arm").certificate
    assert certificate.certified
    assert set(FIELD_ASSUMPTIONS) <= set(certificate.assumptions)
    assert campaign.status(forecast=False).certified
    assert campaign.verify().certified


def test_nothing_leaves_without_a_certificate(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign = Campaign.create(place, SPECIFICATION)
    run_rounds(campaign, GRID, 30)
    genuine = Learner.propose

    def unsafe(self: Learner) -> s2r.exploration.Proposal:
        proposal = genuine(self)
        assert proposal.certificate is not None
        low = replace(proposal.certificate, lower_bounds=proposal.certificate.thresholds - 0.01)
        return replace(proposal, certificate=low)

    monkeypatch.setattr(Learner, "propose", unsafe)
    before = len(campaign.events())
    with pytest.raises(s2r.Safe2RealError, match="stopped at the door"):
        campaign.ask(worker="arm")
    assert len(campaign.events()) == before


def test_a_campaign_that_would_ignore_safety_is_refused(place: Path) -> None:
    with pytest.raises(s2r.errors.InvalidInput, match="without a certificate"):
        Campaign.create(place, Problem(MODEL, BASELINE, SETTINGS), method=s2r.methods.Unconstrained())
    assert not place.exists()


@pytest.mark.parametrize("seed", range(12))
def test_a_specification_survives_storage_bit_for_bit(seed: int) -> None:
    rng = np.random.default_rng(seed)
    states, actions, horizon = int(rng.integers(2, 7)), int(rng.integers(1, 4)), int(rng.integers(1, 6))
    lead = (horizon,) if seed % 2 else ()
    rows = rng.dirichlet(np.full(states, 0.3), size=(*lead, states, actions))
    rows[..., 0, :, :] = 1.0 / states  # rows without stored transitions
    utilities = [rng.random((states, actions)), rng.random((horizon, states, actions))][: 1 + seed % 3 // 2]
    constraints = [s2r.AtLeast(utility, 0.0, f"c{k}") for k, utility in enumerate(utilities)]
    model = s2r.CMDP.of(s2r.Kernel.from_dense(rows), horizon, rng.dirichlet(np.ones(states)), constraints)
    policy = rng.dirichlet(np.ones(actions), size=(horizon, states))
    known = None if seed % 3 else rng.random((*lead, states, actions)) < 0.3
    margin = tuple(rng.random(len(utilities)) * 0.5 + 0.1)
    settings = s2r.Settings(margin=margin, calibrated_gap=0.01, mismatch_gap=0.3, tolerance=0.01 / 3, seed=2**64 - 1)
    given = Problem(model, s2r.MarkovPolicy.stochastic(policy), settings, known)
    read = Problem.from_text(given.to_text())
    for name in ("begin", "length", "successor", "probability"):
        assert np.array_equal(getattr(read.simulator.kernel, name), getattr(model.kernel, name)), name
    for name in ("start", "utilities", "thresholds"):
        assert np.array_equal(getattr(read.simulator, name), getattr(model, name)), name
    assert read.simulator.names == model.names
    assert read.settings == settings
    assert np.array_equal(read.baseline.probabilities, policy)
    assert (read.known is None) == (known is None)
    assert known is None or np.array_equal(np.asarray(read.known), known)
    assert read.to_text() == given.to_text()


def test_large_arrays_are_packed_and_exact() -> None:
    rng = np.random.default_rng(1)
    rows = rng.dirichlet(np.ones(30), size=(30, 6))
    model = s2r.CMDP.of(s2r.Kernel.from_dense(rows), 40, 0, s2r.AtLeast(rng.random((40, 30, 6)), 1.0))
    baseline = s2r.MarkovPolicy.uniform(horizon=40, num_states=30, num_actions=6)
    given = Problem(model, baseline, s2r.Settings(margin=0.5, calibrated_gap=0.0, mismatch_gap=0.3, tolerance=0.1))
    text = given.to_text()
    assert '"zlib"' in text
    read = Problem.from_text(text)
    assert np.array_equal(read.simulator.kernel.probability, model.kernel.probability)
    assert np.array_equal(read.simulator.utilities, model.utilities)


def test_data_that_refute_an_assumption_end_certification(place: Path) -> None:
    """Windy rows are declared exact: from the moment the data show otherwise nothing is called certified."""
    campaign = Campaign.create(place, Problem(MODEL, BASELINE, LITERAL, known=WindyGrid.paper().mismatch()))
    early = campaign.ask(worker="early")
    assert early.certificate.certified
    campaign.import_log("baseline", BASELINE, log_of(BASELINE, 2_000))
    campaign.abandon(early.id, "not needed")  # the log comes after it
    late = campaign.ask(worker="late").certificate
    assert not late.certified
    assert "contradict an assumption about" in late.describe(width=None)
    assert not campaign.status(forecast=False).certified
    ledger = campaign.verify()
    assert ledger.holds
    assert not ledger.certified
    assert "contradict an assumption about" in ledger.describe()


def test_the_learner_knows_which_episodes_are_the_baselines(place: Path) -> None:
    """Their returns test its margin: those for which the coin showed it, and logs that it collected."""
    campaign = Campaign.create(place, QUICK)
    deployments = run_rounds(campaign, GRID, 150)
    shown = [one for one in deployments if one.mixture.policies[one.drawn] is one.mixture.policies[-1]]
    alone = [one for one in shown if np.array_equal(one.policy.probabilities, BASELINE.probabilities)]
    assert 0 < len(alone) < len(deployments)
    assert learner_of(campaign).evidence.trust.episodes == len(alone)
    other = s2r.MarkovPolicy.deterministic(np.zeros((12, 25), dtype=int), num_actions=4)
    campaign.import_log("other", other, log_of(other, 5), overlap="count")
    assert learner_of(campaign).evidence.trust.episodes == len(alone)
    campaign.import_log("own", BASELINE, log_of(BASELINE, 5))
    assert learner_of(campaign).evidence.trust.episodes == len(alone) + 5
    late = campaign.ask(worker="late")
    campaign.abandon(late.id, "power cut")
    campaign.tell(late.id, GRID.episode(late))
    is_baseline = np.array_equal(late.policy.probabilities, BASELINE.probabilities)
    assert learner_of(campaign).evidence.trust.episodes == len(alone) + 5 + is_baseline


def test_a_transition_outside_the_declared_support_ends_certification(place: Path) -> None:
    campaign = Campaign.create(place, Problem(MODEL, BASELINE, LITERAL, support=WindyGrid.paper().neighbours()))
    deployment = campaign.ask(worker="arm")
    assert deployment.certificate.certified
    states = [int(state) for state in np.flatnonzero(MODEL.start)] + [0] * 12  # from the corner at the bottom to the top
    campaign.tell(deployment.id, {"states": states, "actions": [0] * 12})
    after = campaign.ask(worker="arm")
    assert "declared support rules out" in after.certificate.describe(width=None)
    assert campaign.status(forecast=False).samples == 12  # and the sample is kept
    assert campaign.verify().holds
    with Campaign.open(place) as again:
        assert again.problem.support is not None
        assert not again.ask(worker="arm").certificate.certified


def test_a_transition_outside_the_declared_support_refutes_before_its_turn_to_be_counted(place: Path) -> None:
    """A worker that never comes back must not keep it from being looked at."""
    campaign = Campaign.create(place, Problem(MODEL, BASELINE, LITERAL, support=WindyGrid.paper().neighbours()))
    out, told = campaign.ask(worker="out"), campaign.ask(worker="arm")
    states = [int(state) for state in np.flatnonzero(MODEL.start)] + [0] * 12
    campaign.tell(told.id, {"states": states, "actions": [0] * 12})
    status = campaign.status(forecast=False)
    assert (status.samples_counted, status.standing, status.waiting_for) == (0, Standing.REFUTED, out.id)
    said = [str(doubt) for doubt in campaign.assurance().doubts]
    assert any("the data hold 1 transition that the declared support rules out" in doubt for doubt in said)
    campaign.tell(out.id, GRID.episode(out))
    counted = campaign.status(forecast=False)
    assert (counted.samples_counted, counted.standing) == (24, Standing.REFUTED)
    doubts = campaign.assurance().doubts
    assert any("the data hold 1 transition that the declared support rules out" in str(doubt) for doubt in doubts)
    assert campaign.verify().holds


def test_a_refutation_is_final_and_leaves_the_baseline(place: Path) -> None:
    """A row declared exact is refuted by the first hundred successors; the next hundred make its frequencies fit again."""
    rows = np.array([[[0.5, 0.5]], [[0.5, 0.5]]])
    model = s2r.CMDP.of(s2r.Kernel.from_dense(rows), 1, 0, s2r.AtLeast(np.ones((2, 1)), 0.5))
    only = s2r.MarkovPolicy.uniform(horizon=1, num_states=2, num_actions=1)
    settings = s2r.Settings(margin=0.4, calibrated_gap=0.0, mismatch_gap=0.3, tolerance=0.1, span_bonus=False)
    known = np.array([[True], [False]])
    campaign = Campaign.create(place, Problem(model, only, settings, known=known))
    for source, state in (("all ones", 1), ("all zeros", 0)):
        campaign.import_log(source, only, [{"states": [0, state], "actions": [0]}] * 200)
        status = campaign.status(forecast=False)
        assert not status.certified
        assert status.next_reason == "BASELINE"
    plan = campaign.plan(np.ones((2, 1)))
    assert not plan.certificate.certified
    assert plan.policy.policies == (campaign.problem.baseline,)
    assert campaign.mismatch_map().verdict[0, 0] == Verdict.CONTRADICTED
    deployment = campaign.ask(worker="arm")
    assert deployment.reason is s2r.methods.Reason.BASELINE
    assert not deployment.certificate.certified
    ledger = campaign.verify()
    assert ledger.holds
    assert not ledger.certified


def test_verify_wants_a_candidate_that_is_feasible_on_the_model(place: Path) -> None:
    """V_c - Delta bounds only what is feasible on the model: Delta is the largest uncertainty among those."""
    campaign = Campaign.create(place, SPECIFICATION)
    run_rounds(campaign, GRID, 60)
    learner = learner_of(campaign)
    proposal = learner.propose()
    assert proposal.mixture is not None
    candidate = s2r.Mixture.of([1.0], [proposal.mixture.policies[0]])
    value = learner.evidence.estimate(candidate)
    evidence = learner.evidence  # which of several candidates it is depends on the processor: any room above it will do
    problem = replace(learner.problem, settings=replace(learner.problem.settings, margin=0.04, tolerance=0.01))
    evidence.problem = replace(problem, simulator=MODEL.with_thresholds(value - 0.1))
    assert np.array_equal(evidence.lower_bounds(candidate, 0.2), value - 0.2)
    evidence.problem = replace(problem, simulator=MODEL.with_thresholds(value + 0.001))
    assert np.isneginf(evidence.lower_bounds(candidate, 0.2)).all()
