"""What each related paper proves, on tiny systems whose reality is known: optimism, pessimism, stops that imply accuracy."""

import numpy as np
import pytest

from experiments import related
from experiments.fluid_limit import run_in_batches
from experiments.related.barrier_evidence import expected_gradients
from experiments.related.rf_express import Uncertainty
from experiments.related.transfer import covering
from safe2real import CMDP, AtLeast, Kernel, Learner, MarkovPolicy, Mixture, simulate, solve
from safe2real.errors import InvalidInput
from safe2real.exploration import roll_out
from safe2real.methods import Reason
from safe2real.planning import constraint_values, evaluate, occupancy
from safe2real.testing.systems import random_case

REWARD = np.random.default_rng(5).random((4, 2))
SEEDS = range(6)


def informed(case, method, visits, seed=None):
    """The method's evidence after `visits` of every row: sampled with a seed, as expected without one."""
    evidence, P = method.evidence(case.problem), case.real.to_dense().reshape(8, 4)
    rng = np.random.default_rng(seed)
    counts = np.rint(visits * P).astype(np.int64) if seed is None else rng.multinomial(visits, P)
    rows, successors = np.nonzero(counts)
    evidence.counts.add(rows, successors, counts[rows, successors])
    evidence.counts.episodes = int(8 * visits // 3)
    evidence.update()
    return evidence


def decide(case, method, evidence):
    return method.propose(case.problem, evidence, seed=0, round_number=1)


def policies(number):
    rng = np.random.default_rng(1)
    return [MarkovPolicy.deterministic(rng.integers(0, 2, (3, 4)), num_actions=2) for _ in range(number)]


# Bounds on errors


@pytest.mark.parametrize("ours", [False, True])
def test_no_value_is_further_off_than_the_certificate_of_rf_express(ours):
    for seed in SEEDS:
        case, method = random_case(seed), related.RFExpress(ours=ours)
        evidence = informed(case, method, 3_000 if ours else 20_000_000, seed)
        known = Uncertainty.on(case.problem, evidence, ours=ours)
        _, largest = known.largest()
        assert largest < 3.0  # it says something
        for policy in policies(20):
            reward = np.random.default_rng(seed).random((4, 2))
            off = abs(evaluate(case.reality, policy, reward) - evaluate(known.model, policy, reward))
            assert off <= known.of(policy) <= largest + 1e-12


def test_rf_express_is_as_its_authors_code_computes_it():
    """W by loops as in their AdaptiveRF agent, for pooled visits: bonus, gain, clip, and the bound with the root."""
    case, method = random_case(2), related.RFExpress()
    evidence = informed(case, method, 4_000_000, 1)
    rows, successors, counts = evidence.counts.transitions()
    seen = np.zeros((8, 4))
    seen[rows, successors] = counts
    n = seen.sum(axis=1)
    bonus = 15 * 3**2 * (np.log(3 * 4 * 2 * 3 / 0.05) + 4 * np.log(8 * np.exp(1) * (n + 1))) / n
    V = np.zeros(4)
    for _ in range(3):
        Q = bonus.reshape(4, 2) + (1.0 + 1.0 / 3.0) * (seen / n[:, None]).reshape(4, 2, 4) @ V
        V = np.minimum(Q.max(axis=1), 3.0)
    w = case.problem.simulator.start @ V
    assert 0.0 < w < 3.0
    assert decide(case, method, evidence).uncertainty == pytest.approx(3 * np.exp(1) * np.sqrt(w) + w, rel=1e-12)


def test_stops_imply_accuracy():
    """At its stop every plan is within epsilon of the best, and the next fewer visits do not stop it."""
    for method, enough in ((related.RFExpress(0.5), 10**10), (related.RFExpress(0.5, ours=True), 10**6)):
        for seed in (0, 3):
            case = random_case(seed)
            assert decide(case, method, informed(case, method, 100, seed)).reason is Reason.MIXTURE
            evidence = informed(case, method, enough, seed)
            assert decide(case, method, evidence).reason is Reason.STOP
            policy = method.output(case.problem, evidence, REWARD)
            assert solve(case.reality, REWARD).value - evaluate(case.reality, policy, REWARD) <= 0.5
            assert (constraint_values(case.reality, policy) >= case.reality.thresholds - 0.5).all()


def test_vi_zero_is_optimistic_about_every_error_and_ends_in_time():
    method = related.VIZero(episodes=100_000)
    for seed in SEEDS:
        case = random_case(seed)
        evidence = informed(case, method, 30_000, seed)
        found = decide(case, method, evidence)
        for policy in policies(20):
            off = abs(evaluate(case.reality, policy, REWARD) - evaluate(evidence.model, policy, REWARD))
            assert off <= found.uncertainty
    level = np.log(2 * 4 * 2 * 100_000 * 3 / 0.05)  # d = 2 returns
    bonus = np.sqrt(2 * 3**2 * level / 30_000) + 3**2 * 4 * level / 30_000
    np.testing.assert_allclose(method.bonus(case.problem, informed(case, method, 30_000, 1)), bonus)
    assert decide(case, method, informed(case, method, 40_000)).reason is Reason.STOP  # 106,000 episodes
    assert decide(case, related.VIZero(10**9, epsilon=0.5), informed(case, method, 10**8)).reason is Reason.STOP


def test_what_is_hardly_known_is_worth_the_clip_and_no_more():
    case = random_case(1)
    express, zero, hybrid = related.RFExpress(), related.VIZero(10**6), related.HySRL(REWARD, reachability=0.5, epsilon=0.05)
    evidence = informed(case, express, 10)
    assert decide(case, express, evidence).uncertainty == pytest.approx(3 * np.exp(1) * np.sqrt(3.0) + 3.0)
    assert Uncertainty.on(case.problem, evidence, ours=False).of(case.problem.baseline) == pytest.approx(
        3 * np.exp(1) * np.sqrt(3.0) + 3.0
    )
    assert decide(case, zero, informed(case, zero, 10)).uncertainty == pytest.approx(3.0)
    assert hybrid.searching(case.problem, informed(case, hybrid, 10))[1] == pytest.approx(3.0 + 1.0)
    bracket, gap = hybrid.learning(case.problem, informed(case, hybrid, 10))
    assert gap <= 3.0
    assert bracket.upper.max() <= 3.0


# Optimism and pessimism


METHODS = {
    "OptPess-LP": (related.OptPess(REWARD, 10**9), 4 * 10**6),
    "DOPE": (related.Dope(REWARD, 10**7, 0), 400_000),
    "OptPess-LP, our radius": (related.OptPess(REWARD, 10**9, ours=True), 20_000),
    "DOPE, our radius": (related.Dope(REWARD, 10**9, 0, ours=True), 20_000),
}


@pytest.mark.parametrize(("method", "visits"), METHODS.values(), ids=METHODS)
def test_what_is_planned_is_optimistic_and_what_is_claimed_is_pessimistic(method, visits):
    for seed in SEEDS:
        case = random_case(seed, constraints=1 + seed % 2)
        assert decide(case, method, informed(case, method, 10, seed)).reason is Reason.BASELINE
        evidence = informed(case, method, visits, seed)
        found = decide(case, method, evidence)
        assert found.reason is Reason.MIXTURE
        best = solve(case.reality, REWARD).value
        optimum = method.optimum(case.problem, evidence, REWARD)
        assert (optimum[0] if isinstance(optimum, tuple) else optimum).bound >= best - 1e-9
        deployed = Mixture.of(found.weights, found.policies)
        real = constraint_values(case.reality, deployed)
        assert (real >= found.lower_bounds).all()
        assert (found.lower_bounds >= case.reality.thresholds - 1e-9).all()
        assert best - evaluate(case.reality, deployed, REWARD) <= found.uncertainty + 1e-9


def test_dope_waits_as_long_as_the_authors_code_does():
    case, method = random_case(0), related.Dope(REWARD, 10**9)
    assert method.warm_up_for(case.problem) == pytest.approx(4**2 * 2 * 3**3 / 0.3**2)
    evidence = informed(case, method, 10**7)
    for episodes, reason in ((9_599, Reason.BASELINE), (9_600, Reason.MIXTURE)):  # however much it knows
        evidence.counts.episodes = episodes
        assert decide(case, method, evidence).reason is reason
    with pytest.raises(InvalidInput, match="warm_up"):
        related.Dope(REWARD, 10, warm_up=-1)


def test_optpess_waits_until_half_of_the_margin_is_certain():
    case, method = random_case(0), related.OptPess(REWARD, 10**9)
    for visits, reason in ((10**6, Reason.BASELINE), (4 * 10**6, Reason.MIXTURE)):
        evidence = informed(case, method, visits)
        assert method.optimum(case.problem, evidence, REWARD).is_feasible  # it could leave the baseline at both
        assert decide(case, method, evidence).reason is reason


def test_sweet_mixes_as_much_as_is_certified_and_no_more():
    for method, visits in ((related.Sweet(0.1), 10**9), (related.Sweet(0.01, ours=True), 30_000)):
        case = random_case(1)
        assert decide(case, method, informed(case, method, 10)).reason is Reason.BASELINE
        evidence = informed(case, method, visits, 1)
        found = decide(case, method, evidence)
        assert found.reason is Reason.MIXTURE
        assert 0.0 < found.exploration_weight <= 1.0
        real = constraint_values(case.reality, found.mixture(case.problem.baseline))
        assert (real >= case.reality.thresholds).all()
        assert (constraint_values(case.reality, found.policies[0]) >= found.lower_bounds).all()


# Simulators


def test_hysrl_finds_the_region_and_brackets_the_best_value():
    method = related.HySRL(REWARD, reachability=0.5, epsilon=0.05)
    for seed in SEEDS:
        case = random_case(seed)
        free = case.reality.with_constraints(0)
        wrong = case.real.distances_to(case.problem.simulator.kernel).reshape(-1) > 0.0
        evidence = informed(case, method, 2_000_000, seed)
        assert not method.ignores_simulator(case.problem)
        _, left, limit = method.searching(case.problem, evidence)
        assert left > limit  # literal constants ask for more than that
        np.testing.assert_array_equal(method.region(case.problem, evidence), wrong)
        bracket, gap = method.learning(case.problem, evidence)
        best, start = solve(free, REWARD).value, case.reality.start
        assert start @ bracket.lower[0] <= best <= start @ bracket.upper[0]
        assert best - evaluate(free, bracket.policy, REWARD) <= gap
    first = decide(case, method, evidence)
    assert (first.reason, first.uncertainty) == (Reason.MIXTURE, 3.0)  # phase 1, in which nothing is known of values
    searching, _, _ = method.searching(case.problem, evidence)
    np.testing.assert_array_equal(first.policies[0].probabilities, searching.probabilities)
    stopped = decide(case, method, informed(case, method, 10**13))
    assert stopped.reason is Reason.STOP
    assert stopped.uncertainty <= 0.05
    closer = related.HySRL(REWARD, reachability=0.5, epsilon=1e-7)
    second = decide(case, closer, informed(case, closer, 10**13))
    assert second.reason is Reason.MIXTURE
    assert 1e-7 < second.uncertainty < 0.05


def test_hysrl_does_without_the_simulator_where_the_accuracy_does_not_need_it():
    case, method = random_case(1), related.HySRL(REWARD, reachability=0.5, epsilon=0.5)
    assert method.ignores_simulator(case.problem)
    assert method.region(case.problem, informed(case, method, 1_000)).all()


def test_transfer_explores_evaluates_both_and_keeps_the_better():
    case = random_case(1)
    learner = Learner(case.problem, related.ExplorationTransfer(REWARD, episodes=1_200))
    run = simulate(learner, case.real, max_rounds=5_000)
    assert run.stopped
    assert run.rounds == 1_200
    assert (run.deployed == [600, 300, 300]).all()
    assert (learner.evidence.visits > 5).all()  # every row
    free, evidence = case.reality.with_constraints(0), learner.evidence
    worth = [evaluate(free, policy, REWARD) for policy in evidence.tried]
    assert evidence.earned[::-1] / 300 == pytest.approx(worth, abs=0.2)
    output = learner.method.output(case.problem, evidence, REWARD)
    assert evaluate(free, output, REWARD) >= max(worth) - 0.2
    assert solve(free, REWARD).value - max(worth) < 0.2


def test_exploration_policies_reach_what_acting_at_random_does_not():
    """A chain whose other action leads back to its start."""
    rows = np.zeros((6, 2, 6))
    rows[np.arange(6), 0, np.minimum(np.arange(6) + 1, 5)] = rows[:, 1, 0] = 1.0
    model = CMDP.of(Kernel.from_dense(rows), 7, 0, [AtLeast(np.ones((6, 2)), 1.0)])
    uniform = MarkovPolicy.uniform(horizon=7, num_states=6, num_actions=2)
    found = covering(type(random_case(0).problem)(model, uniform, random_case(0).problem.settings))
    reached, at_random = (occupancy(model, policy)[:, 5].sum() for policy in (found, uniform))
    assert at_random == pytest.approx(4 / 64)
    assert reached > 3.0 * at_random


# Log barrier


def collect(case, evidence, episodes, seed):
    """Episodes of the iterate, for its own sums alone: counting rows takes longer, and it does not look at them."""
    for number in range(episodes):
        episode = roll_out(case.reality, evidence.policy, seed=seed, round_number=number)
        evidence._add(episode.states, episode.actions)


def test_the_log_barrier_climbs_and_every_bound_of_it_is_true():
    case = random_case(4)
    method = related.LogBarrier(REWARD, batch=400, eta=0.05)
    evidence, before = method.evidence(case.problem), evaluate(case.reality, case.problem.baseline, REWARD)
    for iteration in range(8):
        collect(case, evidence, 400, iteration)
        real = constraint_values(case.reality, evidence.policy) - case.reality.thresholds
        assert (real >= evidence.slack).all()
        assert (evidence.slack > 0.0).all()
    assert evidence.iteration == 9
    assert evaluate(case.reality, method.output(case.problem, evidence, REWARD), REWARD) > before


def test_the_log_barrier_stops_where_its_gradient_is_short():
    case, method = random_case(4), related.LogBarrier(REWARD, batch=400, eta=0.05)
    evidence = method.evidence(case.problem)
    assert decide(case, method, evidence).reason is Reason.MIXTURE
    flat = np.zeros((2, 3, 4, 2))
    evidence.expect(np.array([1.0, case.reality.thresholds[0] + 0.3]), flat)
    stopped = decide(case, method, evidence)
    assert (stopped.reason, stopped.uncertainty) == (Reason.STOP, 0.0)
    for length, reason in ((0.024, Reason.STOP), (0.026, Reason.MIXTURE)):  # eta / 2 is between
        flat[0, 0, 0, 0] = length
        evidence.expect(np.array([1.0, case.reality.thresholds[0] + 0.3]), flat)
        assert decide(case, method, evidence).reason is reason


def test_expected_gradients_are_what_batches_tend_to_per_step_too():
    case = random_case(2)
    policy, tables = case.problem.baseline, [REWARD[None], case.reality.utilities[0]]
    values, gradients = expected_gradients(case.reality, policy, tables)
    repeated = case.reality.with_kernel(case.real.repeated(3))
    again = expected_gradients(repeated, policy, tables)
    np.testing.assert_allclose(again[1], gradients, atol=1e-12)
    evidence = related.LogBarrier(REWARD, batch=10**6).evidence(case.problem)
    collect(case, evidence, 3_000, 1)
    np.testing.assert_allclose(evidence._gradients / evidence._number, gradients, atol=0.06)
    np.testing.assert_allclose(evidence._returns / evidence._number, values, atol=0.06)


def test_gradients_are_those_of_the_values():
    """Against differences."""
    case, step = random_case(2), 1e-5
    evidence = related.LogBarrier(REWARD).evidence(case.problem)
    _, found = expected_gradients(case.reality, case.problem.baseline, evidence.tables)
    for j, utility in enumerate((REWARD, case.reality.utilities[0, 0])):
        for h, s, a in ((0, 0, 1), (1, 2, 0)):
            values = []
            for sign in (1.0, -1.0):
                theta = evidence.theta.copy()
                theta[h, s, a] += sign * step
                table = np.exp(theta) / np.exp(theta).sum(axis=-1, keepdims=True)
                values.append(evaluate(case.reality, MarkovPolicy.stochastic(table), utility))
            assert found[j, h, s, a] == pytest.approx((values[0] - values[1]) / (2 * step), abs=1e-8)


def test_the_barrier_pushes_away_from_the_threshold():
    """Up V_r and, the more the less slack there is, up V_c."""
    case, method = random_case(4), related.LogBarrier(REWARD, batch=10**9, eta=0.05)
    evidence = method.evidence(case.problem)
    before, gradients = evidence.theta.copy(), np.zeros((2, 3, 4, 2))
    gradients[0, 0, 0, 0], gradients[1, 1, 1, 1] = 0.1, 0.6
    evidence.expect(np.array([1.0, case.reality.thresholds[0] + 0.3]), gradients)
    moved = evidence.theta - before
    assert moved[0, 0, 0] > 0.0
    assert moved[1, 1, 1] / moved[0, 0, 0] == pytest.approx(0.05 / 0.3 * 0.6 / 0.1)
    assert np.count_nonzero(moved) == 2


def test_a_baseline_that_never_takes_an_action_has_no_logarithm():
    case = random_case(1)
    always = MarkovPolicy.deterministic([0] * 4, num_actions=2, horizon=3)
    problem = type(case.problem)(case.problem.simulator, always, case.problem.settings)
    with pytest.raises(InvalidInput, match="softmax"):
        related.LogBarrier(REWARD).evidence(problem)


def test_systems_that_change_with_the_step_are_counted_per_step():
    case = random_case(1)
    model, kernels = case.problem.simulator, (case.problem.simulator.kernel.repeated(3), case.real.repeated(3))
    problem = type(case.problem)(model.with_kernel(kernels[0]), case.problem.baseline, case.problem.settings)
    both = (related.OptPess(REWARD, 40), related.Dope(REWARD, 40, 0), related.HySRL(REWARD, 0.5))
    for method in (related.RFExpress(), related.VIZero(40), related.Sweet(), *both):
        _, evidence = run_in_batches(problem, method, kernels[1], most=30)
        assert evidence.visits.shape == (3, 4, 2)
        assert evidence.samples == 90
        method.output(problem, evidence, REWARD)
    learner = Learner(problem, related.ExplorationTransfer(REWARD, 40))
    assert simulate(learner, kernels[1], max_rounds=50).rounds == 40
