"""No row that contradicts what is claimed of it goes unnoticed, however rarely plans are made."""

import numpy as np
import pytest

import safe2real as s2r
from safe2real import radii
from safe2real._compiled import row_update
from safe2real.evidence.hybrid import HybridModel
from safe2real.evidence.row_rule import Separation, StatedRows
from safe2real.exploration import roll_out
from safe2real.refinements import NearSets
from safe2real.standing import DoubtCode, Standing
from tests.compiled.calling import radius_at
from tests.evidence.small_learners import forked, forked_learner, hybrid_model, stay


@pytest.mark.parametrize("growth", [0.0, 0.5, 1.0])
def test_a_wrong_known_row_is_found_however_rarely_plans_are_made(growth):
    refined = forked_learner(growth)
    s2r.simulate(refined, forked(True), max_rounds=200)
    assert refined.standing is Standing.REFUTED
    assert refined.evidence.counts.visits[0, 1] == 1  # a successor that a known row rules out: once is enough
    learner = forked_learner(growth, refinements=())
    run = s2r.simulate(learner, forked(True), max_rounds=2_000)
    row = int(learner.evidence.counts.visits[0, 1])
    alone = hybrid_model(learner.simulator.kernel, 3, separation=Separation(0.0, 0.5), radius=radii.Adaptive(), delta=0.05)
    needed = next(n for n in range(1, 100) if radius_at(alone.rule, 1, n, 1) < 1.0)
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
    np.testing.assert_array_equal(asked.evidence.trust.compiled.wealth, compiled.evidence.trust.compiled.wealth)
    np.testing.assert_array_equal(asked.evidence.trust.compiled.counters, compiled.evidence.trust.compiled.counters)


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
    eager = HybridModel(model.kernel, 1, settings, StatedRows(marked.reshape(-1)))
    rounds, planned = [], np.zeros_like(learner.evidence.counts.tally.visits)
    for number in range(1, 3_000):
        episode = roll_out(model.with_kernel(s2r.Kernel.from_dense(real)), stay(1, 2), seed=5, round_number=number)
        if learner.evidence.take(episode, of_baseline=True, planned=planned):
            planned[:] = learner.evidence.counts.tally.visits
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


@pytest.mark.parametrize(
    "radius",
    [
        radii.Adaptive(),
        *(
            pytest.param(one, marks=pytest.mark.slow)
            for one in (radii.KL(), radii.Union(), radii.Stitched(), radii.Literal())
        ),
    ],
    ids=lambda radius: radius.name,
)
@pytest.mark.parametrize("kind", ["known", "cleared"])
def test_no_contradiction_is_missed_between_two_looks(radius, kind):
    """Rows are looked at when they can contradict, not at every visit: it must be noticed at the very same visit."""
    gap, looks, found = (0.0 if kind == "known" else 0.1), 0, 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        simulator = rng.dirichlet(np.ones(4))
        kernel = s2r.Kernel.from_dense(np.broadcast_to(simulator, (4, 1, 4)).copy())
        hybrid = hybrid_model(
            kernel,
            1,
            separation=Separation(gap, 0.9),
            radius=radius,
            delta=0.3,
            stated=StatedRows(np.full(4, kind == "known")),
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
            truth |= distance - radius_at(hybrid.rule, 0, n, seen) > gap + 1e-9
            assert bool(hybrid.belief.refuted[0]) == truth, n
            if truth:
                found += 1
                break
    assert found >= 5
    assert looks < 9_000  # of more than 20,000 visits


def near_ten_of(states: int, radius: radii.Radius, first: float = 0.1) -> HybridModel:
    """Known rows of `states` possible successors, of which the simulator has ten, the `first` likeliest: those are near."""
    row = np.array([first, *[(1.0 - first) / 9] * 9, *[0.0] * (states - 10)])
    kernel = s2r.Kernel.from_dense(np.broadcast_to(row, (states, 1, states)).copy())
    chosen = {"separation": Separation(0.0, 0.9), "radius": radius, "delta": 0.3, "refinements": (NearSets(),)}
    hybrid = hybrid_model(kernel, 1, stated=StatedRows(np.ones(states, dtype=np.bool_)), **chosen)
    hybrid.update()
    return hybrid


@pytest.mark.parametrize("radius", [radii.Adaptive(), radii.Union(), radii.Stitched()])
@pytest.mark.parametrize("states", [11, 12, 40])
def test_the_radius_times_the_visits_never_falls_when_a_far_successor_is_seen(radius, states):
    rule = near_ten_of(states, radius).rule
    for seen in range(1, 11):
        for n in (seen, seen + 1, 50, 2_000):
            before, after = radius_at(rule, 0, n, seen), radius_at(rule, 0, n + 1, seen + 1, all_near=False)
            assert n * before <= (n + 1) * after, (n, seen)
            assert before <= radius_at(rule, 0, n, seen, all_near=False)  # both halves hold, the smaller one is used


@pytest.mark.parametrize(("distance", "close"), [(d, c) for d in (0.2, 0.1, 0.06) for c in (0.92, 0.95, 0.97, 0.99)])
def test_no_contradiction_is_missed_when_the_first_far_successor_comes(distance, close):
    """All visits lead to one state, until the row is about to contradict what is known of it; then one leads far away.

    The simulator has neither the rest of that state's share nor the far state, so the distance stays as it is.
    """
    hybrid = near_ten_of(12, radii.Adaptive(), 1.0 - distance)
    n = next(n for n in range(1, 10_000) if distance > close * radius_at(hybrid.rule, 0, n, 1))
    hybrid.observe_all(np.zeros(2 * n, dtype=np.uint32), np.zeros(n, dtype=np.uint32), np.arange(n + 1))
    for k in range(1, 1_000):
        following = np.array([0, 11 if k == 1 else 0], dtype=np.uint32)
        hybrid.observe_all(following, np.zeros(1, dtype=np.uint32), np.array([0, 1]))
        truth = distance - radius_at(hybrid.rule, 0, n + k, 2, all_near=False) > 1e-9
        assert bool(hybrid.belief.refuted[0]) == truth, (n, k)
        if truth:
            return
    pytest.fail("nothing was contradicted")


@pytest.mark.parametrize(("n", "right", "target"), [(20, 0.5, 0.4), (400, 0.5, 0.3), (400, 0.8, 0.12), (2_000, 0.7, 0.1)])
def test_the_upper_end_of_an_interval_does_not_fall_below_a_target_before_its_time(n, right, target):
    """All visits lead to one state, then all to the other: the observed row comes back, and the distance falls fast."""
    kernel = s2r.Kernel.from_dense(np.broadcast_to([right, 1.0 - right], (2, 1, 2)).copy())
    rule = hybrid_model(kernel, 1, separation=Separation(0.0, 0.9), radius=radii.Adaptive(), delta=0.3).rule

    def upper_end(k):
        return abs(n / (n + k) - right) + radius_at(rule, 0, n + k, 2)

    radius = radius_at(rule, 0, n, 2)
    wait = row_update.visits_to_fall.py_func(n, 1.0 - right, radius, target)
    first = next(k for k in range(1, 10 * n) if upper_end(k) < target)
    assert 0.0 < wait < first


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


def test_a_heuristic_run_that_leaves_the_model_deploys_the_baseline_alone():
    learner = forked_learner(0.0, radius=s2r.radii.Scaled(0.3))
    assert learner.propose().reason is s2r.methods.Reason.MIXTURE
    learner.leave_model([0], [1])
    assert learner.standing is Standing.REFUTED
    assert learner.propose().reason is s2r.methods.Reason.BASELINE
    assert not learner.plan(np.ones((3, 2))).certificate.holds


def test_a_plan_on_the_way_changes_nothing_also_where_it_clears_rows():
    """A plan is made with all that was counted; what is proposed next is as if nobody had planned."""
    found = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        kernel = s2r.Kernel.from_dense(rng.dirichlet(np.ones(3), size=(3, 2)))
        model = s2r.CMDP.of(kernel, 4, 0, s2r.AtLeast(rng.random((3, 2)), 0.4))
        settings = s2r.Settings(
            margin=0.1, calibrated_gap=0.0, mismatch_gap=0.6, tolerance=1e-3, seed=seed, replan_growth=1.0, refinements=()
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
