"""The margin that is claimed of the baseline is tested by every episode, and what the data prove beyond it is used."""

import numpy as np
import pytest

import safe2real as s2r
from safe2real._compiled import margin as _margin
from safe2real.evidence.baseline_margin import RETURNS_SHARE, BaselineTrust
from safe2real.standing import DoubtCode, Standing
from tests.evidence.small_learners import UTILITY, forked, forked_learner, returns_learner, stay


@pytest.mark.parametrize("growth", [0.0, 0.5])
@pytest.mark.parametrize("heuristic", [False, True])
def test_a_baseline_without_its_margin_halts_the_run(growth, heuristic):
    others = {"radius": s2r.radii.Scaled(0.4)} if heuristic else {}
    learner, real = returns_learner(growth, **others)
    run = s2r.simulate(learner, real, max_rounds=2_000)
    assert run.halted
    assert not run.stopped
    assert run.rounds < 60
    proposal = learner.propose()
    assert proposal.reason is s2r.methods.Reason.HALT
    assert proposal.mixture is None
    certificate = proposal.certificate
    assert certificate.standing is Standing.REFUTED
    assert not certificate.reaches
    assert DoubtCode.MARGIN_REFUTED in [doubt.code for doubt in certificate.doubts]
    assert [doubt.subject for doubt in certificate.doubts if doubt.code is DoubtCode.MARGIN_REFUTED] == ["speed"]
    assert certificate.describe().startswith("NOT SAFE")
    assert "stop the machine" in certificate.describe()
    for refused in (proposal.draw, lambda: learner.observe(s2r.Trajectory.of(learner.simulator, [0, 1, 1], [0, 0]))):
        with pytest.raises(s2r.errors.Halted, match="stop the machine"):
            refused()
    plan = learner.plan(np.ones((2, 2)))
    assert not plan.certificate.holds
    assert not plan.certificate.reaches
    assert s2r.simulate(learner, real, max_rounds=10).rounds == 0


def test_the_returns_alone_refute_after_the_episodes_that_the_bets_say():
    """Every episode earns 1 where 1.7 of 2 was claimed: the wealth of each bet is a power, worked out here."""
    learner, _ = returns_learner()
    stakes = 0.5 ** np.arange(1, 13) / (1.0 - 1.7 / 2.0)
    alarm = 1.0 / (RETURNS_SHARE * 0.05)
    needed = next(n for n in range(1, 500) if np.mean((1.0 + stakes * (1.7 - 1.0) / 2.0) ** n) >= alarm)
    trust = learner.evidence.trust
    for n in range(1, needed + 1):
        assert not trust.halted
        trust.take(
            np.array([0, 1, 1], dtype=np.uint32), np.zeros(2, dtype=np.uint32), np.array([0, 2]), np.array([n <= needed])
        )
    assert trust.halted
    assert trust.episodes == needed
    assert trust.refuted.tolist() == [True]


def test_an_episode_cut_short_counts_as_if_the_rest_were_perfect():
    learner, _ = returns_learner()
    trust = learner.evidence.trust
    for _ in range(1_000):  # the first step earns 1, the second was not seen
        trust.take(np.array([0, 1], dtype=np.uint32), np.zeros(1, dtype=np.uint32), np.array([0, 1]), np.array([True]))
    assert not trust.halted
    trust = returns_learner()[0].evidence.trust
    for _ in range(50):
        trust.take(np.array([1, 1], dtype=np.uint32), np.zeros(1, dtype=np.uint32), np.array([0, 1]), np.array([True]))
    assert trust.halted


def test_the_confidence_sets_refute_a_margin_without_any_episode_of_the_baseline():
    learner, _ = returns_learner()
    states, actions = np.tile(np.array([0, 1, 1], dtype=np.uint32), 200), np.zeros(400, dtype=np.uint32)
    learner.count(states, actions, np.arange(0, 402, 2))  # whose episodes these were is not said
    assert learner.evidence.trust.episodes == 0
    assert learner.evidence.trust.halted
    assert learner.evidence.trust.compiled.ceiling[0] < 1.7
    assert learner.propose().reason is s2r.methods.Reason.HALT


def test_batches_do_not_change_what_is_concluded():
    states, actions = np.tile(np.array([0, 1, 1], dtype=np.uint32), 60), np.zeros(120, dtype=np.uint32)
    whole, single = returns_learner()[0], returns_learner()[0]
    whole.count(states, actions, np.arange(0, 122, 2), of_baseline=np.arange(60) % 3 == 0)
    for i in range(60):
        single.count(states[:3], actions[:2], np.array([0, 2]), of_baseline=np.array([i % 3 == 0]))
    for one, other in zip(whole.evidence.trust.compiled, single.evidence.trust.compiled, strict=True):
        np.testing.assert_array_equal(one, other)


def test_an_impossible_margin_halts_before_anything_is_deployed():
    """All rows are known, and the baseline's V_c on them is what it is."""
    model = s2r.CMDP.of(forked(False), 3, 0, s2r.AtLeast(UTILITY, 2.0))
    settings = s2r.Settings(margin=0.41, calibrated_gap=0.0, mismatch_gap=0.5, tolerance=0.1)
    learner = s2r.Learner(s2r.Problem(model, stay(3, 3), settings, known=np.ones((3, 2), dtype=bool)), trust_margin=True)
    assert learner.propose().reason is s2r.methods.Reason.HALT  # 2.4 is 0.4 above the threshold, not 0.41
    right = s2r.Learner(
        s2r.Problem(model, stay(3, 3), s2r.Settings(margin=0.4, calibrated_gap=0.0, mismatch_gap=0.5, tolerance=0.1))
    )
    assert right.propose().reason is not s2r.methods.Reason.HALT


def bernoulli_trust(claimed: float, delta: float, constraints: int = 1) -> BaselineTrust:
    kernel = s2r.Kernel.from_dense(np.full((2, 1, 2), 0.5))
    kept = [s2r.AtLeast(np.array([[0.0], [1.0]]), claimed / 2.0)] * constraints
    model = s2r.CMDP.of(kernel, 1, 0, kept)
    margins = np.full(constraints, claimed / 2.0)
    return BaselineTrust(model, stay(1, 2, 1), margins, delta=delta, proves=False, raises=False)


@pytest.mark.parametrize("share", [0.5, *(pytest.param(one, marks=pytest.mark.slow) for one in (0.1, 0.9))])
def test_a_margin_that_is_exactly_there_is_refuted_no_more_often_than_said(share):
    """Returns of 0 or 1 whose mean is exactly what is claimed, looked at after every one of 1,500 episodes."""
    delta, runs, halted = 0.9, 1_500, 0
    rng = np.random.default_rng(3)
    for _ in range(runs):
        trust = bernoulli_trust(share, delta)
        states = np.zeros(2 * 1_500, dtype=np.uint32)
        states[::2] = rng.random(1_500) < share
        trust.take(states, np.zeros(1_500, dtype=np.uint32), np.arange(1_501), np.ones(1_500, dtype=bool))
        halted += trust.halted
    allowed = RETURNS_SHARE * delta
    assert halted / runs <= allowed
    assert halted > 0  # the test is not vacuous: a claim that is tight is sometimes refuted


def test_a_margin_that_is_not_there_is_refuted_by_returns():
    rng = np.random.default_rng(4)
    trust = bernoulli_trust(0.9, 0.05)
    states = np.zeros(2 * 4_000, dtype=np.uint32)
    states[::2] = rng.random(4_000) < 0.85
    trust.take(states, np.zeros(4_000, dtype=np.uint32), np.arange(4_001), np.ones(4_000, dtype=bool))
    assert trust.halted


def test_data_that_prove_a_larger_margin_are_used_and_never_promise_more_than_there_is():
    real = forked(False)
    learner = forked_learner(0.0, known_is_true=False, margin=0.05, tolerance=0.0125)
    start = learner.evidence.trusted[0]
    assert start == pytest.approx(2.4)  # the rows that the baseline visits are known: its V_c is proved before any data
    stated = forked_learner(0.0, margin=0.05, tolerance=0.0125, robust_safety=False)
    assert stated.evidence.trusted[0] == pytest.approx(2.05)  # the paper's rule knows the stated margin only
    assert learner.propose().exploration_weight > stated.propose().exploration_weight
    run = s2r.simulate(learner, real, max_rounds=500)
    assert (run.real_values >= 2.0 - 1e-9).all()
    assert (learner.evidence.trusted <= s2r.planning.constraint_values(learner.simulator, learner.baseline) + 1e-12).all()


def test_a_proved_margin_is_a_lower_bound_while_rows_are_learnt():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        table = rng.dirichlet(np.ones(3), size=(3, 2))
        utility = rng.random((3, 2))
        kernel = s2r.Kernel.from_dense(table)
        free = s2r.CMDP.of(kernel, 4, 0)
        baseline = s2r.MarkovPolicy.uniform(horizon=4, num_states=3, num_actions=2)
        worth = s2r.evaluate(free, baseline, utility)
        model = s2r.CMDP.of(kernel, 4, 0, s2r.AtLeast(utility, worth - 0.5))
        settings = s2r.Settings(
            margin=0.02, calibrated_gap=0.0, mismatch_gap=0.3, tolerance=0.005, seed=seed, replan_growth=0.2
        )
        learner = s2r.Learner(s2r.Problem(model, baseline, settings))
        raised = []
        for _ in range(6):
            s2r.simulate(learner, kernel, max_rounds=2_000)
            raised.append(float(learner.evidence.trusted[0]))
        assert raised == sorted(raised)
        assert raised[-1] <= worth + 1e-9
        assert raised[-1] > worth - 0.48 + 1e-6
        assert learner.standing is Standing.CERTIFIED


def test_looks_at_the_baseline_come_after_fixed_numbers_of_samples():
    learner, _ = returns_learner()
    trust = learner.evidence.trust
    assert trust.compiled.counters[_margin.NEXT] == 2  # one horizon
    ends = np.arange(0, 42, 2)
    assert trust.episodes_until_due(ends) == 1
    trust.take(np.zeros(3, dtype=np.uint32), np.zeros(2, dtype=np.uint32), np.array([0, 2]), np.array([False]))
    assert trust.due
    trust.look(learner.evidence)
    assert not trust.due


def test_a_run_that_ignores_the_constraints_tests_no_margin_and_still_plans():
    learner = forked_learner(0.0, method=s2r.methods.Unconstrained())
    assert learner.propose().reason is s2r.methods.Reason.MIXTURE
    plan = learner.plan(np.ones((3, 2)))
    assert plan.certificate.certified
    assert learner.evidence.trusted.tolist() == pytest.approx([2.4])
    s2r.simulate(learner, forked(False), max_rounds=50)
    assert learner.evidence.trust.episodes == 0


def test_episodes_of_which_nothing_was_seen_count_as_perfect_returns():
    """Left out, they would make the rest a sample chosen by outcome: three of four are perfect, and nobody sees how."""
    learner, _ = returns_learner()
    for n in range(400):
        if n % 4:
            learner.leave_model([0], [0], of_baseline=True)
        else:
            states, actions = np.array([0, 0, 1], dtype=np.uint32), np.zeros(2, dtype=np.uint32)
            learner.count(states, actions, np.array([0, 2]), of_baseline=np.array([True]))
    assert learner.evidence.trust.episodes == 400
    assert not learner.evidence.trust.halted
    bad = np.tile(np.array([1, 1, 1], dtype=np.uint32), 5_000), np.zeros(10_000, dtype=np.uint32), np.arange(0, 10_002, 2)
    learner.count(*bad, of_baseline=np.ones(5_000, dtype=bool), at_once=True)
    assert learner.evidence.trust.halted  # also where the wealth of a bet is beyond numbers
