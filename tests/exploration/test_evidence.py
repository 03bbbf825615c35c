"""Nothing that happened goes unlooked at: every row, the baseline's margin, and episodes that break off."""

import math
from dataclasses import replace

import gymnasium
import numpy as np
import pytest

import safe2real as s2r
from safe2real import radii
from safe2real._compiled import evidence as _kernels
from safe2real._compiled import margin as _margin
from safe2real.evidence.hybrid import HybridModel, Separation
from safe2real.evidence.trust import RETURNS_SHARE, BaselineTrust
from safe2real.exploration import explore, roll_out
from safe2real.problem import RowAccuracy
from safe2real.standing import AssumptionCode, DoubtCode, Standing
from tests.cases import each

UTILITY = np.array([[0.8, 0.8], [1.0, 1.0], [0.0, 0.0]])


def forked(real: bool) -> s2r.Kernel:
    """Action 0 stays at the start; action 1 leads to the good end, says the simulator, and to the bad one in reality."""
    table = np.zeros((3, 2, 3))
    table[0, 0, 0] = table[1, :, 1] = table[2, :, 2] = 1.0
    table[0, 1, 2 if real else 1] = 1.0
    return s2r.Kernel.from_dense(table)


def forked_learner(growth: float, *, known_is_true: bool = False, method: object = None, **others: object) -> s2r.Learner:
    """The wrong row stands in front of the only suspects, which are never reached: nothing but that row ever grows."""
    model = s2r.CMDP.of(forked(known_is_true), 3, 0, s2r.AtLeast(UTILITY, 2.0))
    known = np.array([[True, True], [False, False], [True, True]])
    settings = s2r.Settings(
        **{"margin": 0.4, "calibrated_gap": 0.0, "mismatch_gap": 0.5, "tolerance": 0.1, "replan_growth": growth, **others}
    )
    return s2r.Learner(s2r.Problem(model, stay(3, 3), settings, known=known), method)


def stay(horizon: int, states: int, actions: int = 2) -> s2r.MarkovPolicy:
    return s2r.MarkovPolicy.deterministic(np.zeros(states, dtype=int), num_actions=actions, horizon=horizon)


@each("growth", [0.0, 0.5, 1.0])
def test_a_wrong_known_row_is_found_however_rarely_plans_are_made(growth):
    learner = forked_learner(growth)
    run = s2r.simulate(learner, forked(True), max_rounds=2_000)
    row = int(learner.evidence.counts.visits[0, 1])
    alone = HybridModel(
        learner.simulator.kernel, 3, separation=Separation(0.0, 0.5), radius=radii.Adaptive(), delta=0.05, known=None
    )
    needed = next(n for n in range(1, 100) if _kernels.radius_at(alone.rule, 1, n, 1) < 1.0)
    assert row == needed  # the first visit that proves it is the last
    assert learner.standing is Standing.REFUTED
    assert learner.propose().reason is s2r.methods.Reason.BASELINE
    unsafe = (run.real_values < 2.0 - 1e-9).any(axis=1)
    assert run.deployed[unsafe].sum() <= 2 * needed
    assert run.rounds == 2_000


@pytest.mark.parametrize("growth", [0.0, 0.5])
def test_ask_and_tell_looks_at_the_same_rows_as_the_compiled_run(growth):
    compiled, asked = forked_learner(growth), forked_learner(growth)
    run = s2r.simulate(compiled, forked(True), max_rounds=100)
    truth = asked.simulator.with_kernel(forked(True))
    reasons = []
    for number in range(1, 101):
        proposal = asked.propose()
        reasons.append(proposal.reason.value)
        asked.observe(roll_out(truth, proposal.draw(), seed=0, round_number=number))
    assert reasons == np.repeat(run.reason, run.deployed).tolist()
    np.testing.assert_array_equal(asked.evidence.belief.low, compiled.evidence.belief.low)
    np.testing.assert_array_equal(asked.evidence.belief.look_at, compiled.evidence.belief.look_at)
    np.testing.assert_array_equal(asked.evidence.trust.state.wealth, compiled.evidence.trust.state.wealth)
    np.testing.assert_array_equal(asked.evidence.trust.state.counters, compiled.evidence.trust.state.counters)


@pytest.mark.parametrize("known", [True, False])
def test_a_lazy_learner_knows_of_a_refutation_in_the_round_in_which_it_happens(known):
    """A row that is a little wrong, found after hundreds of visits: beside it a model that looks after every episode."""
    simulator, real = np.zeros((2, 2, 2)), np.zeros((2, 2, 2))
    simulator[:], real[:] = [0.5, 0.5], [0.66, 0.34]
    model = s2r.CMDP.of(s2r.Kernel.from_dense(simulator), 1, 0, s2r.AtLeast(np.ones((2, 2)), 0.5))
    settings = s2r.Settings(
        margin=0.5, calibrated_gap=0.0, mismatch_gap=0.6, tolerance=1e-4, span_bonus=False, replan_growth=1.0
    )
    marked = np.array([[known, False], [True, True]])  # nobody takes action 1, so that nothing ever stops
    learner = s2r.Learner(s2r.Problem(model, stay(1, 2), settings, known=marked))
    gaps = Separation(0.0, 0.6)
    eager = HybridModel(
        model.kernel, 1, separation=gaps, radius=radii.Adaptive(), delta=0.05, bonus_scale=1.0, known=marked.reshape(-1)
    )
    rounds = []
    for number in range(1, 3_000):
        episode = roll_out(model.with_kernel(s2r.Kernel.from_dense(real)), stay(1, 2), seed=5, round_number=number)
        learner.observe(episode)
        eager.observe(episode)
        rounds.append((learner.standing is Standing.REFUTED, bool(eager.belief.refuted.any())))
        if all(rounds[-1]):
            break
    assert len(rounds) > 50
    assert rounds[-1] == (True, True)
    if known:
        assert all(lazy == at_once for lazy, at_once in rounds)
    else:  # a suspect row is cleared at once or when a plan is due, so the two may look at it with different eyes
        assert sum(lazy != at_once for lazy, at_once in rounds) < 0.1 * len(rounds)


@each("radius", [radii.Adaptive(), radii.KL(), radii.Union(), radii.Stitched(), s2r.radii.Literal()])
@each("kind", ["known", "cleared"])
def test_no_contradiction_is_missed_between_two_looks(radius, kind):
    """Rows are looked at when they can contradict, not at every visit: it must be noticed at the very same visit."""
    gap, looks, found = (0.0 if kind == "known" else 0.1), 0, 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        simulator = rng.dirichlet(np.ones(4))
        kernel = s2r.Kernel.from_dense(np.broadcast_to(simulator, (4, 1, 4)).copy())
        hybrid = HybridModel(
            kernel, 1, separation=Separation(gap, 0.9), radius=radius, delta=0.3, known=np.full(4, kind == "known")
        )
        hybrid.belief.suspect[:] = False
        hybrid.update()
        real = rng.dirichlet(np.ones(4)) if seed % 3 else simulator
        truth, counts = False, np.zeros(4)
        for n in range(1, 1_500):
            successor = int(rng.choice(4, p=real))
            counts[successor] += 1
            before = int(hybrid.belief.look_at[0])
            hybrid.observe_all(np.array([0, successor], dtype=np.uint32), np.zeros(1, dtype=np.uint32), np.array([0, 1]))
            looks += int(hybrid.belief.look_at[0]) != before
            distance = 0.5 * np.abs(counts / n - simulator).sum()
            seen = int((counts > 0).sum())
            truth |= distance - _kernels.radius_at(hybrid.rule, 0, n, seen) > gap + 1e-9
            assert bool(hybrid.belief.refuted[0]) == truth, n
            if truth:
                found += 1
                break
    assert found >= 5
    assert looks < 9_000  # of more than 20,000 visits


@pytest.mark.parametrize("growth", [0.0, 0.3])
def test_a_row_that_drifts_is_refuted_without_any_separation(growth):
    """First all visits lead to one state, then all to the other: no distance fits both."""
    table = np.full((2, 1, 2), 0.5)
    model = s2r.CMDP.of(s2r.Kernel.from_dense(table), 1, 0, s2r.AtLeast(np.ones((2, 1)), 0.5))
    settings = s2r.Settings(
        margin=0.5,
        calibrated_gap=0.0,
        mismatch_gap=0.0,
        tolerance=1e-3,
        span_bonus=False,
        replan_growth=growth,
    )
    learner = s2r.Learner(s2r.Problem(model, stay(1, 2, 1), settings), s2r.methods.RewardFree())
    for successor in [0] * 400 + [1] * 390:
        learner.observe(s2r.Trajectory.of(model, [0, successor], [0]))
    # By now half of the visits led to either state: the interval of today alone would see nothing.
    low, high = learner.evidence.belief.low[0], learner.evidence.belief.high[0]
    assert abs(learner.evidence.distances[0, 0]) < 0.01
    assert low > high
    assert learner.standing is Standing.REFUTED
    assert [doubt.code for doubt in learner.doubts()] == [DoubtCode.ROWS_CONTRADICTED]


# The baseline's margin


def returns_learner(growth: float = 0.0, **others: object) -> tuple[s2r.Learner, s2r.Kernel]:
    """On the simulator the baseline earns 2 in two steps; in reality every step costs everything."""
    good, bad = np.zeros((2, 2, 2)), np.zeros((2, 2, 2))
    good[:, :, 0] = bad[:, :, 1] = 1.0
    utility = np.array([[1.0, 1.0], [0.0, 0.0]])
    model = s2r.CMDP.of(s2r.Kernel.from_dense(good), 2, 0, s2r.AtLeast(utility, 1.2, "speed"))
    settings = s2r.Settings(
        **{"margin": 0.5, "calibrated_gap": 0.0, "mismatch_gap": 0.9, "tolerance": 0.01, "replan_growth": growth, **others}
    )
    return s2r.Learner(s2r.Problem(model, stay(2, 2), settings)), s2r.Kernel.from_dense(bad)


@each("growth", [0.0, 0.5])
@each("heuristic", [False, True])
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
    assert learner.evidence.trust.state.ceiling[0] < 1.7
    assert learner.propose().reason is s2r.methods.Reason.HALT


def test_batches_do_not_change_what_is_concluded():
    states, actions = np.tile(np.array([0, 1, 1], dtype=np.uint32), 60), np.zeros(120, dtype=np.uint32)
    whole, single = returns_learner()[0], returns_learner()[0]
    whole.count(states, actions, np.arange(0, 122, 2), of_baseline=np.arange(60) % 3 == 0)
    for i in range(60):
        single.count(states[:3], actions[:2], np.array([0, 2]), of_baseline=np.array([i % 3 == 0]))
    for one, other in zip(whole.evidence.trust.state, single.evidence.trust.state, strict=True):
        np.testing.assert_array_equal(one, other)


def test_an_impossible_margin_halts_before_anything_is_deployed():
    """All rows are known, and the baseline's V_c on them is what it is."""
    model = s2r.CMDP.of(forked(False), 3, 0, s2r.AtLeast(UTILITY, 2.0))
    settings = s2r.Settings(margin=0.41, calibrated_gap=0.0, mismatch_gap=0.5, tolerance=0.1)
    learner = s2r.Learner(s2r.Problem(model, stay(3, 3), settings, known=np.ones((3, 2), dtype=bool)))
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


@each("share", [0.1, 0.5, 0.9])
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


# Episodes that break off


class Broken(gymnasium.Env):
    """Ten steps to the right on a line; raises what it is told to, at the step it is told to."""

    def __init__(self, model: s2r.CMDP, error: BaseException, at: int) -> None:
        self.observation_space = gymnasium.spaces.Discrete(model.num_states)
        self.action_space = gymnasium.spaces.Discrete(model.num_actions)
        self.error, self.at, self.steps = error, at, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        if self.at < 0:
            raise self.error
        return 0, {}

    def step(self, action):
        if self.steps == self.at:
            raise self.error
        self.steps += 1
        return min(self.steps, 3), 0.0, False, False, {}


def line_learner() -> s2r.Learner:
    table = np.zeros((4, 1, 4))
    for s in range(4):
        table[s, 0, min(s + 1, 3)] = 1.0
    model = s2r.CMDP.of(s2r.Kernel.from_dense(table), 5, 0, s2r.AtLeast(np.ones((4, 1)), 4.0))
    settings = s2r.Settings(margin=1.0, calibrated_gap=0.0, mismatch_gap=0.5, tolerance=0.25)
    return s2r.Learner(s2r.Problem(model, stay(5, 4, 1), settings))


@each("error", [RuntimeError("the gripper fell off"), ZeroDivisionError(), SystemExit(1)])
def test_whatever_step_raises_what_was_seen_is_counted(error):
    learner = line_learner()
    with pytest.raises(type(error)):
        explore(learner, Broken(learner.simulator, error, 3), max_rounds=5)
    assert learner.evidence.counts.visits[:, 0].tolist() == [1, 1, 1, 0]
    assert learner.standing is Standing.REFUTED
    assert learner.doubts()[0].code is DoubtCode.LEFT_MODEL
    assert learner.propose().reason is s2r.methods.Reason.BASELINE
    assert learner.round == 2
    begun = line_learner()
    with pytest.raises(type(error)):
        explore(begun, Broken(begun.simulator, error, -1), max_rounds=5)
    assert begun.samples == 0
    assert begun.standing is Standing.REFUTED


@pytest.mark.parametrize(("error", "faults"), [(ConnectionError(), (OSError,)), (KeyboardInterrupt(), ())])
def test_a_fault_of_the_environment_cuts_an_episode_short_and_is_named_as_an_assumption(error, faults):
    learner = line_learner()
    with pytest.raises(type(error)):
        explore(learner, Broken(learner.simulator, error, 2), max_rounds=5, faults=faults)
    assert learner.evidence.counts.visits[:, 0].tolist() == [1, 1, 0, 0]
    assert learner.standing is Standing.CERTIFIED
    assumed = [one for one in learner.propose().certificate.assumptions if one.code is AssumptionCode.FAULTS]
    assert [one.subject for one in assumed] == [type(error).__name__]
    assert learner.round == 2


def test_an_environment_that_shows_a_state_the_model_has_not_is_outside_of_it():
    learner = line_learner()
    env = Broken(learner.simulator, RuntimeError(), 99)
    env.step = lambda action: (17, 0.0, False, False, {})
    with pytest.raises(s2r.errors.OutsideModel, match="showed state 17; the model has 4 states"):
        explore(learner, env, max_rounds=1)
    assert learner.standing is Standing.REFUTED


def test_a_heuristic_run_that_leaves_the_model_deploys_the_baseline_alone():
    learner = forked_learner(0.0, radius=s2r.radii.Scaled(0.3))
    assert learner.propose().reason is s2r.methods.Reason.MIXTURE
    learner.leave_model([0], [1])
    assert learner.standing is Standing.REFUTED
    assert learner.propose().reason is s2r.methods.Reason.BASELINE
    assert not learner.plan(np.ones((3, 2))).certificate.holds


# Labels


def test_holds_implies_certified_after_a_refutation():
    learner = forked_learner(0.0)
    learner.leave_model([0], [1])
    for certificate in (learner.propose().certificate, learner.plan(np.ones((3, 2))).certificate):
        assert certificate.reaches
        assert not certificate.certified
        assert not certificate.holds
        assert certificate.standing is Standing.REFUTED


def test_assumptions_and_doubts_are_named_by_codes():
    learner = forked_learner(0.0)
    codes = [one.code for one in learner.propose().certificate.assumptions]
    assert AssumptionCode.MARKOV in codes
    assert AssumptionCode.COMPLETE in codes
    assert len(codes) == len(set(codes))
    other = s2r.Learner(replace(learner.problem, estimated=coarse(learner)))
    assert AssumptionCode.ESTIMATED in [one.code for one in other.propose().certificate.assumptions]


def coarse(learner: s2r.Learner) -> RowAccuracy:
    """The simulator's rows were estimated, to 0.1, and the calibrated gap does not cover that."""
    return RowAccuracy(np.full((3, 2), 0.1), np.full((3, 2), 50), delta=0.01, certified=True)


def test_sums_that_are_loose_are_renormalised_once():
    loose = np.array([0.5, 0.5 + 9e-10])
    model = s2r.CMDP.of(s2r.Kernel.from_dense(np.full((2, 1, 2), 0.5)), 1, loose, s2r.AtLeast(np.ones((2, 1)), 0.5))
    assert abs(model.start.sum() - 1.0) < 1e-15
    policy = s2r.MarkovPolicy.stochastic(np.broadcast_to(loose, (1, 2, 2)))
    np.testing.assert_allclose(policy.probabilities.sum(axis=2), 1.0, atol=1e-15)
    again = s2r.MarkovPolicy.stochastic(policy.probabilities)
    np.testing.assert_array_equal(again.probabilities, policy.probabilities)
    thirds = np.full((1, 2, 3), 1.0 / 3.0)
    np.testing.assert_array_equal(s2r.MarkovPolicy.stochastic(thirds).probabilities, thirds)
    assert s2r.evaluate(model, s2r.MarkovPolicy.uniform(horizon=1, num_states=2, num_actions=1), np.ones((2, 1))) <= 1.0
    weights = s2r.Mixture.of(loose, [stay(1, 2, 1), stay(1, 2, 1)]).weights
    assert math.isclose(weights.sum(), 1.0, rel_tol=1e-15)


def test_looks_at_the_baseline_come_after_fixed_numbers_of_samples():
    learner, _ = returns_learner()
    trust = learner.evidence.trust
    assert trust.state.counters[_margin.NEXT] == 2  # one horizon
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


def test_a_plan_on_the_way_changes_nothing_also_where_it_clears_rows():
    """A plan is made with all that was counted; what is proposed next is as if nobody had planned."""
    found = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        kernel = s2r.Kernel.from_dense(rng.dirichlet(np.ones(3), size=(3, 2)))
        model = s2r.CMDP.of(kernel, 4, 0, s2r.AtLeast(rng.random((3, 2)), 0.4))
        settings = s2r.Settings(
            margin=0.1, calibrated_gap=0.0, mismatch_gap=0.6, tolerance=1e-3, seed=seed, replan_growth=1.0
        )
        baseline = s2r.MarkovPolicy.uniform(horizon=4, num_states=3, num_actions=2)
        asked, compiled = (s2r.Learner(s2r.Problem(model, baseline, settings)) for _ in range(2))
        for learner in (asked, compiled):
            s2r.simulate(learner, kernel, max_rounds=150 + 7 * seed)
        asked.propose()
        before = [array.tobytes() for array in (*asked.evidence.counts.tally, *asked.evidence.belief)]
        asked.plan(rng.random((3, 2)))
        assert [array.tobytes() for array in (*asked.evidence.counts.tally, *asked.evidence.belief)] == before
        found += int(asked.evidence.settled().suspects.sum()) != int(asked.evidence.suspects.sum())
        run = s2r.simulate(compiled, kernel, max_rounds=1)
        assert asked.propose().exploration_weight == run.exploration_weight[0]
    assert found >= 3


def test_an_episode_that_begins_where_none_does_refutes():
    learner = line_learner()
    env = Broken(learner.simulator, RuntimeError(), 99)
    env.reset = lambda **_: (2, {})
    for _ in range(3):
        with pytest.raises(s2r.errors.OutsideModel, match=r"showed state 2; episodes of the model start in \[0\]"):
            explore(learner, env, max_rounds=1)
    assert learner.round == 4
    assert learner.standing is Standing.REFUTED


def test_leaving_the_model_is_no_fault_whatever_faults_are_named():
    learner = line_learner()
    env = Broken(learner.simulator, RuntimeError(), 99)
    env.step = lambda action: (17, 0.0, False, False, {})
    with pytest.raises(s2r.errors.OutsideModel):
        explore(learner, env, max_rounds=1, faults=(ValueError,))
    assert learner.standing is Standing.REFUTED


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


def test_a_simulator_that_was_estimated_too_coarsely_is_doubted():
    learner = forked_learner(0.0)
    other = s2r.Learner(replace(learner.problem, estimated=coarse(learner)))
    assert [one.code for one in other.doubts()] == [DoubtCode.GAP_NOT_COVERED]
    assert other.standing is Standing.INCOMPLETE
    assert not other.propose().certificate.holds
