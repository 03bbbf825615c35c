"""A trial goes by the returns of its own policy alone: by hand, against exact values, in a campaign, and against forgers."""

import numpy as np
import pytest

import safe2real as s2r
from safe2real.errors import Halted, InvalidInput, OutsideModel, Stopped
from safe2real.evidence.mean_bounds import mean_bounds
from safe2real.exploration import TrialTerms, roll_out
from safe2real.exploration.plan import plan
from safe2real.methods import Reason, Trial
from safe2real.methods.document import document_of, problem_and_method
from safe2real.methods.trial import share_of_delta
from safe2real.model.serialization import from_text, to_text
from safe2real.model.trajectory import utilities_along
from safe2real.planning import constraint_values
from safe2real.problem.document import METHOD
from safe2real.standing import AssumptionCode
from safe2real.testing import MethodContract
from safe2real.testing.systems import random_case
from tests.exploration.tiny import settings, stay, tiny

SIZES = {"num_actions": 2, "horizon": 3}
POLICY = s2r.MarkovPolicy.deterministic([1, 0, 1, 0], **SIZES)
OTHER = s2r.MarkovPolicy.deterministic([0, 0, 0, 0], **SIZES)
RESTS_ON = {AssumptionCode.MARGIN, AssumptionCode.INDEPENDENT, AssumptionCode.COUNTED, AssumptionCode.EVENT}


class Kept:
    """The returns of the candidate, kept beside an evidence by whoever tests it."""

    def __init__(self, evidence):
        self.values, self.best, self.evidence = [], [np.zeros(evidence.kept)], evidence
        take = evidence.take

        def watched(trajectory, *, of_baseline, of_candidate=False, planned=None):
            if of_candidate:
                model = evidence.problem.simulator
                self.values.append(utilities_along(model, trajectory.states, trajectory.actions).sum(axis=1))
            return take(trajectory, of_baseline=of_baseline, of_candidate=of_candidate, planned=planned)

        evidence.take = watched

    def bounds(self, alpha):
        """[K] the best of the bounds after each value so far, computed from all values."""
        for n in range(len(self.best), len(self.values) + 1):
            columns = np.array(self.values[:n]).T
            now = np.array([mean_bounds(column, alpha, high=3.0)[0] for column in columns])
            self.best.append(np.maximum(self.best[-1], now))
        return self.best[-1]


class Watched(Trial):
    """A trial whose evidence can be computed again by the contract."""

    def evidence(self, problem):
        found = super().evidence(problem)
        found.kept_values = Kept(found)
        return found


class TestTrial(MethodContract):
    sizes = (4,)  # the policy's

    def make(self):
        return Watched(POLICY)

    def cases(self):  # one and two constraints, eager and lazy; what is provable takes long to compute anew
        return list(super().cases())[:3]

    def provable(self, case, evidence, candidate):
        if [policy.probabilities.tolist() for policy in candidate.policies] != [POLICY.probabilities.tolist()]:
            return np.zeros(evidence.kept)
        return evidence.kept_values.bounds(share_of_delta(0.05, 1, evidence.kept))

    def test_a_campaign_of_it_verifies(self):  # by its name, as any other process opens it
        self.make = lambda: Trial(POLICY)
        super().test_a_campaign_of_it_verifies()


def three_steps(threshold=1.5, margin=0.5, **changes):
    """State 0 is safe; action 0 stays there, action 1 leads out of it for good. The baseline stays."""
    chosen = settings(margin=margin, tolerance=margin / 4, **changes)
    return s2r.Problem(tiny(threshold, horizon=3), stay(horizon=3), chosen)


def test_one_episode_by_hand():
    """A return of 3 of at most 3: the mean bet F makes the capital 1 - F + F / m, which reaches 1 / alpha at m."""
    problem = three_steps(delta=0.4)
    learner = s2r.Learner(problem, Trial(stay(horizon=3)))
    first = learner.propose()
    assert first.reason is Reason.MIXTURE
    assert first.exploration_weight == pytest.approx(0.5 / (0.5 + 1.5))  # nothing is known: the candidate may be worth 0
    assert first.certificate.lower_bounds == pytest.approx([1.5])
    fractions = 0.5 ** np.arange(16)
    weights = 1.0 / np.arange(2, 18) / (1.0 / np.arange(2, 18)).sum()
    mean, alpha = weights @ fractions, 0.4 / 2
    learner.count(np.zeros(4, np.uint32), np.zeros(3, np.uint32), np.array([0, 3]), of_candidate=np.array([True]))
    floor = 3.0 * mean / (1.0 / alpha - 1.0 + mean)
    assert learner.floors()["constraint"] == pytest.approx(floor, rel=2e-3)
    assert learner.floors()["constraint"] <= floor
    assert learner.propose().exploration_weight == pytest.approx(0.5 / (2.0 - floor), rel=1e-3)


def test_delta_is_split_over_bounds_and_over_all_trials_that_follow():
    shares = [share_of_delta(0.05, number, 3) for number in range(1, 2_000)]
    assert shares[0] == pytest.approx(0.05 / 6)
    assert 3 * sum(shares) == pytest.approx(0.05, rel=1e-3)
    assert 3 * sum(shares) < 0.05
    problem = three_steps()
    reward = {"stay": np.ones((2, 2)), "go": np.zeros((2, 2))}
    evidence = Trial(stay(horizon=3), reward, number=4).evidence(problem)
    assert {one.alpha for one in evidence.returns.bounds} == {0.1 / (4 * 5 * 3)}


def test_certificates_list_what_a_trial_rests_on_and_nothing_of_the_rows():
    case = random_case(2)
    learner = s2r.Learner(case.problem, Trial(POLICY))
    s2r.simulate(learner, case.real, max_rounds=300)
    certificate = learner.propose().certificate
    assert {one.code for one in certificate.assumptions} == RESTS_ON
    assert certificate.holds
    planned = learner.plan(np.ones((4, 2))).certificate  # a plan goes by the rows, and says so
    assert AssumptionCode.SEPARATION in {one.code for one in planned.assumptions}


def test_rows_that_are_refuted_do_not_matter_and_leaving_the_model_counts_for_the_worst():
    case = random_case(2)
    learner = s2r.Learner(case.problem, Trial(POLICY))
    learner.evidence.belief.refuted[:] = True
    assert learner.evidence.is_refuted
    assert learner.propose().reason is Reason.MIXTURE
    assert learner.propose().certificate.holds
    before = learner.evidence.returns.episodes
    learner.leave_model([0], [1], of_candidate=True)
    learner.cut_short([0, 1], [1], "cable", of_candidate=True)
    learner.cut_short([], [], "cable", of_candidate=True)
    learner.lose()
    learner.leave_model([0], [0], of_baseline=True)
    assert learner.evidence.returns.episodes == before + 4
    seen = case.problem.simulator.utilities[0][0, 0, 1]
    assert learner.evidence.returns.bounds[0].total == pytest.approx(seen)  # of one step, all that anybody saw
    assert learner.propose().reason is Reason.MIXTURE
    assert AssumptionCode.FAULTS not in {one.code for one in learner.propose().certificate.assumptions}


def test_a_refuted_margin_halts():
    problem = three_steps()
    learner = s2r.Learner(problem, Trial(stay(horizon=3)))
    n = 60
    states, actions = np.tile([0, 1, 1, 1], n).astype(np.uint32), np.tile([0, 0, 0], n).astype(np.uint32)
    learner.count(states, actions, 3 * np.arange(n + 1), of_baseline=np.ones(n, np.bool_))
    assert learner.propose().reason is Reason.HALT
    assert not learner.propose().certificate.certified
    with pytest.raises(Halted):
        learner.propose().draw()


def test_the_margin_is_the_stated_one_whatever_the_rows_prove():
    chosen = s2r.Settings(margin=0.5, calibrated_gap=0.0, mismatch_gap=0.8, tolerance=0.1)
    problem = s2r.Problem(tiny(1.5, horizon=3), stay(horizon=3), chosen, known=np.ones((2, 2), np.bool_))
    assert s2r.Learner(problem).evidence.margins == pytest.approx([1.5])  # known rows prove V_c = 3
    learner = s2r.Learner(problem, Trial(stay(horizon=3)))
    assert learner.evidence.margins.tolist() == [0.5]
    assert learner.propose().exploration_weight == pytest.approx(0.5 / 2.0)


def test_the_stop_of_a_trial_proves_nothing_about_plans():
    """With the paper's settings a plan after the stop of Algorithm 1 goes by its Delta; here nothing is known of that."""
    learner = s2r.Learner(three_steps(delta=0.4), Trial(stay(horizon=3), target={"constraint": 0.1}))
    learner.count(np.zeros(4, np.uint32), np.zeros(3, np.uint32), np.array([0, 3]), of_candidate=np.array([True]))
    assert learner.stopped
    reward = np.array([[0.0, 1.0], [1.0, 1.0]])
    planned = learner.plan(reward)
    assert planned.suboptimality == plan(learner.evidence, reward, stopped=False).suboptimality
    assert planned.suboptimality != plan(learner.evidence, reward, stopped=True).suboptimality
    assert planned.certificate.holds


def test_it_stops_at_its_target_and_never_without_one():
    case = random_case(2)
    reward = {"second": np.tile([0.0, 1.0], (4, 1))}
    trial = Trial(POLICY, reward, target={"second": 0.4})
    learner = s2r.Learner(case.problem, trial)
    run = s2r.simulate(learner, case.real, max_rounds=3_000)
    assert run.stopped
    assert learner.floors()["second"] >= 0.4
    assert s2r.evaluate(case.reality, POLICY, reward["second"]) >= learner.floors()["second"]
    assert run.unsafe_share(case.problem.simulator.thresholds) == 0.0
    with pytest.raises(Stopped):
        learner.observe(roll_out(case.reality, POLICY, seed=0, round_number=1))
    assert not s2r.simulate(s2r.Learner(case.problem, Trial(POLICY)), case.real, max_rounds=1_000).stopped


def risky(chance):
    """One state that is safe, one that is not; the candidate's action leads there with some chance, the baseline's never."""
    rows = np.array([[[1.0, 0.0], [1.0 - chance, chance]], [[0.0, 1.0], [0.0, 1.0]]])
    model = s2r.CMDP.of(s2r.Kernel.from_dense(rows), 3, 0, s2r.AtLeast([[1.0, 1.0], [0.0, 0.0]], 2.4))
    return model, s2r.MarkovPolicy.deterministic([1, 1], num_actions=2, horizon=3)


def unsafe_runs(chance, runs, rounds, delta):
    """(how many runs deployed a mixture that misses the limit, exactly evaluated; the largest share in each run).

    The baseline has exactly its margin, so there is no slack: a floor above the policy's real value shows at once.
    """
    model, policy = risky(chance)
    unsafe, shares = 0, []
    for seed in range(runs):
        chosen = settings(margin=0.6, tolerance=0.15, delta=delta, seed=seed)
        problem = s2r.Problem(risky(0.05)[0], stay(horizon=3), chosen)
        run = s2r.simulate(s2r.Learner(problem, Trial(policy)), model.kernel, max_rounds=rounds)
        unsafe += run.unsafe_share(model.thresholds) > 0.0
        shares.append(float(run.exploration_weight.max()))
    return unsafe, shares


@pytest.mark.parametrize(("runs", "rounds"), [(12, 60), pytest.param(100, 400, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("chance", "safe"), [(0.3, False), (0.1, True)])
def test_nothing_unsafe_is_ever_deployed_exactly(chance, safe, runs, rounds):
    model, policy = risky(chance)
    assert bool(constraint_values(model, policy)[0] >= 2.4) == safe  # trusted without proof, the first misses the limit
    unsafe, shares = unsafe_runs(chance, runs, rounds, delta=0.001)
    assert unsafe == 0
    if runs == 12:
        assert 0.22 < np.median(shares) < 0.9  # of 0.2 at first
    else:
        assert (np.median(shares) > 0.9) if safe else (max(shares) < 1.0)


@pytest.mark.slow
def test_unsafe_runs_are_no_more_than_delta_where_there_is_no_slack_at_all():
    unsafe, _ = unsafe_runs(0.3, runs=300, rounds=100, delta=0.05)
    assert unsafe <= 0.05 * 300


def test_a_mixture_is_tried_as_a_whole():
    case = random_case(2)
    mixture = s2r.Mixture.of([0.25, 0.75], [POLICY, OTHER])
    trial = Trial(mixture)
    assert trial.tried is None
    assert Trial(s2r.Mixture.of([1.0], [POLICY])).tried is POLICY
    learner = s2r.Learner(case.problem, trial)
    run = s2r.simulate(learner, case.real, max_rounds=2_000)
    assert run.unsafe_share(case.problem.simulator.thresholds) == 0.0
    proposal = learner.propose()
    weights = proposal.mixture.weights[:2] / proposal.exploration_weight
    assert weights == pytest.approx([0.25, 0.75])
    assert learner.evidence.returns.bounds[0].mean == pytest.approx(constraint_values(case.reality, mixture)[0], abs=0.1)


def test_explore_counts_whose_episode_broke_off():
    case = random_case(2)
    problem = case.problem

    class Machine:
        observation_space, action_space = type("D", (), {"n": 4}), type("D", (), {"n": 2})

        def reset(self, seed):
            return 0, {}

        def step(self, action):
            raise OutsideModel("it went elsewhere")

    learner, whose = s2r.Learner(problem, Trial(POLICY)), []
    for _ in range(9):
        whose.append(learner.propose().draw() is not problem.baseline)
        with pytest.raises(OutsideModel):
            s2r.explore(learner, Machine(), max_rounds=1)
    assert 0 < sum(whose) < 9
    assert learner.evidence.returns.episodes == sum(whose)


def test_what_one_policy_showed_certifies_no_other():
    case, trial = random_case(1), Trial(POLICY)
    learner = s2r.Learner(case.problem, trial)
    s2r.simulate(learner, case.reality.kernel, max_rounds=200)
    before = learner.floors()
    for other in (Trial(OTHER), Trial(OTHER, number=2), Trial(POLICY, number=2), s2r.methods.SimToReal()):
        with pytest.raises(InvalidInput, match="Start a new learner"):
            learner.direct(other)
    with pytest.raises(InvalidInput, match="Start a new learner"):
        s2r.Learner(case.problem).direct(trial)
    with pytest.raises(InvalidInput, match="give one of safe2real"):
        learner.direct("trial")
    learner.direct(trial)  # the very same
    assert learner.method is trial
    assert learner.floors() == before
    assert before["constraint"] > 0.0


def tried(policy=POLICY, *given, **more):
    return Trial(policy, *given, **more).evidence(USUAL)


ONES, USUAL = np.ones((4, 2)), random_case(0).problem


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Trial("policy"), "policy is a str"),
        (lambda: Trial(POLICY, number=0), "number is 0"),
        (lambda: Trial(POLICY, rewards=[1.0]), "rewards is"),
        (lambda: Trial(POLICY, rewards=[]), "rewards is"),
        (lambda: Trial(POLICY, rewards=ONES), "rewards is"),
        (lambda: Trial(POLICY, target=ONES[0]), "target is"),
        (lambda: tried(target={"constraint": 999.0}), "no episode can be worth more"),
        (lambda: tried(POLICY, {"r": ONES}, target={"r": 3.0}), "worth more than 3"),
        (lambda: s2r.Learner(USUAL, Trial(USUAL.baseline)), "is the baseline"),
        (lambda: tried(s2r.Mixture.of([0.5, 0.5], [POLICY, USUAL.baseline])), "or a mixture with it"),
        (lambda: tried(POLICY, {"r": 2.0 * ONES}), "lie in"),
        (lambda: tried(POLICY, {"constraint": ONES}), "both called"),
        (lambda: tried(target={"speed": 1.0}), "target names"),
        (lambda: tried(stay(horizon=3)), "the policy of the trial has shape"),
        (lambda: Trial(POLICY).floors(s2r.Learner(USUAL).evidence), "Trial.evidence"),
    ],
)
def test_what_cannot_be_tried_is_refused(make, message):
    with pytest.raises(InvalidInput, match=message):
        make()


def test_it_is_a_document_and_back():
    case = random_case(1)
    trial = Trial(s2r.Mixture.of([0.25, 0.75], [POLICY, OTHER]), {"r": np.eye(4, 2)}, 2, {"r": 0.5})
    text = to_text(document_of(case.problem, trial))
    problem, again = problem_and_method(text)
    assert isinstance(again, Trial)
    assert to_text(document_of(problem, again)) == text
    assert (again.number, again.target) == (2, {"r": 0.5})
    assert again.rewards["r"].tolist() == np.eye(4, 2).tolist()
    broken = from_text(text, "it")
    broken["settings"][METHOD]["policy"] = {"weights": [1.0]}
    with pytest.raises(InvalidInput, match="policy is"):
        problem_and_method(to_text(broken))


def staying(limit=12.0):
    """Two states; action 1 leads to the second, which costs 1 a step: in 20 steps the trusted policy costs nothing."""
    kernel = s2r.Kernel.from_dense([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]])
    model = s2r.CMDP.of(kernel, 20, 0, s2r.AtMost([0.0, 1.0], limit, "falls"))
    baseline, other = (s2r.MarkovPolicy.deterministic([a, a], num_actions=2, horizon=20) for a in (0, 1))
    settings = s2r.Settings(margin=limit / 2.0, calibrated_gap=0.0, mismatch_gap=0.5, tolerance=0.5)
    return s2r.Problem(model, baseline, settings), other


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


def test_floors_and_plans_have_a_delta_each():
    problem = s2r.Problem(tiny(), stay(), settings(tolerance=1e-3, delta=0.05))
    assert s2r.Learner(problem).failure == pytest.approx(0.05)
    assert s2r.Learner(problem, Trial(stay())).failure == pytest.approx(0.1)


@pytest.mark.parametrize("name", ["", " ", "x\ny", "x\ty", "x" * 101, 3])
def test_names_are_one_line_so_that_none_forges_a_line_of_a_certificate(name):
    reward = np.zeros((2, 2))
    for make in (
        lambda: Trial(stay(), rewards={name: reward}),
        lambda: s2r.methods.ForRewards({name: reward}),
        lambda: TrialTerms(limit=0.4, margin=0.3, high=1.0, name=name),
        lambda: TrialTerms(limit=0.4, margin=0.3, high=1.0, rewards={name: (0.0, 1.0)}),
    ):
        with pytest.raises(InvalidInput, match="printable characters in one line"):
            make()
