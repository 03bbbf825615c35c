"""What a review of the ties found: supports that settle nothing, labels that got lost, more labels than states."""

import numpy as np

import safe2real as s2r
from safe2real.evidence.tied_rows import TiedEvidence
from safe2real.problem.ties import Ties
from safe2real.standing import DoubtCode, Standing


def many_values(count: int) -> s2r.systems.Dynamics:
    """Three states and more values of the noise than states; what was drawn is reported."""
    return s2r.from_dynamics(
        range(3),
        (0, 1),
        lambda state, action, value: state if action == 0 else value % 3,
        s2r.Noise(range(count), np.full(count, 1.0 / count), exact=True, reported=True),
        4,
        s2r.SystemDescription(start=0, cost=lambda state, action: state == 2, limit=2.5),
    )


def problem_of(made: s2r.systems.Dynamics) -> s2r.Problem:
    baseline = s2r.MarkovPolicy.deterministic([0] * 3, num_actions=2, horizon=4)
    settings = s2r.Settings(margin=1.0, calibrated_gap=0.0, mismatch_gap=0.4, tolerance=0.25)
    return s2r.Problem(made.model, baseline, settings, ties=made.ties)


def test_a_class_may_have_more_labels_than_there_are_states() -> None:
    """Working space was for as many as states: memory behind it was written to."""
    learner = s2r.Learner(problem_of(many_values(64)))
    model = learner.simulator
    for n in range(60):
        label = n % 64
        states = [0, label % 3, label % 3, label % 3, label % 3]
        learner.evidence.take(s2r.Trajectory.of(model, states, [1, 0, 0, 0], labels=[label, 0, 0, 0]), of_baseline=False)
    plan = learner.plan(np.ones((3, 2)))
    assert plan.certificate.holds
    assert learner.evidence.rows.length.max() == 64
    policy = s2r.MarkovPolicy.deterministic([1] * 3, num_actions=2, horizon=4)
    low = learner.evidence.sets.worst_constraints(policy)[0]
    assert 0.0 <= low <= 4.0 - 3.0 / 3.0 + 1e-9  # a third of the time in state 2 from the second step on


def test_labels_that_get_lost_on_the_way_void_the_ties() -> None:
    learner = s2r.Learner(problem_of(many_values(6)))
    model = learner.simulator
    learner.evidence.take(s2r.Trajectory.of(model, [0, 0, 0, 0, 0], [0, 0, 0, 0], labels=[0, 0, 0, 0]), of_baseline=False)
    assert learner.standing is Standing.CERTIFIED
    learner.cut_short([0, 0], [0], "breaker", of_baseline=False, of_candidate=False)
    assert learner.standing is Standing.REFUTED
    assert learner.doubts()[0].code is DoubtCode.STRUCTURE_REFUTED
    assert learner.propose().reason is s2r.methods.Reason.BASELINE


def test_labels_that_were_never_there_are_not_listened_to() -> None:
    learner = s2r.Learner(problem_of(many_values(6)))
    model = learner.simulator
    learner.cut_short([0, 0], [0], "breaker", of_baseline=False, of_candidate=False)
    assert learner.standing is Standing.CERTIFIED
    before = learner.evidence.unit_model.counts.samples
    learner.evidence.take(s2r.Trajectory.of(model, [0, 1, 1, 1, 1], [1, 0, 0, 0], labels=[1, 0, 0, 0]), of_baseline=False)
    assert learner.evidence.unit_model.counts.samples == before + 4  # the rows themselves, and no label of theirs


def test_a_support_that_leaves_one_state_says_nothing_about_the_simulator() -> None:
    """Two labels that look alike in a row, and a support that rules one of its states out: q knows nothing of it."""
    table = np.zeros((3, 2, 3))
    table[:, 0] = np.eye(3)
    table[:, 1] = [0.0, 0.5, 0.5]
    successors = np.full((3, 2, 3), -1)
    successors[:, 1] = [1, 1, 2]  # labels 0 and 1 lead to one state
    classes = np.where(np.arange(2) == 1, 0, -1) * np.ones((3, 1), dtype=int)
    successors[1, 1] = [0, 1, 2]  # one row tells them apart
    table[1, 1] = [0.25, 0.25, 0.5]
    allowed = np.ones((3, 2, 3))
    allowed[0, 1] = [0.0, 1.0, 0.0]
    support = s2r.Kernel.from_dense(allowed / allowed.sum(axis=-1, keepdims=True))
    model = s2r.CMDP.of(s2r.Kernel.from_dense(table), 3, 0, s2r.AtLeast(np.ones((3, 2)) * [[1.0], [0.2], [1.0]], 1.0))
    baseline = s2r.MarkovPolicy.deterministic([0] * 3, num_actions=2, horizon=3)
    settings = s2r.Settings(margin=1.0, calibrated_gap=0.0, mismatch_gap=0.5, tolerance=0.25)
    problem = s2r.Problem(model, baseline, settings, ties=Ties(classes, successors, exact=True), support=support)
    evidence = TiedEvidence(problem)
    row = 1  # state 0, action 1: the support leaves state 1 alone
    policy = s2r.MarkovPolicy.deterministic([1, 0, 0], num_actions=2, horizon=3)
    assert not evidence.belief.known[row]
    assert evidence.sets.worst_constraints(policy)[0] <= 1.0 + 2 * 0.2 + 1e-9  # it goes to state 1 for sure
