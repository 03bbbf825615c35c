"""Rows that are learnt together: counts by hand, what is counted and what never, sets that hold, and what refutes them."""

import numpy as np
import pytest

import safe2real as s2r
from safe2real.errors import InvalidInput
from safe2real.evidence.evidence import Evidence, evidence_for
from safe2real.evidence.mismatch_map import Verdict, map_mismatch
from safe2real.evidence.tied_rows import TiedEvidence, UnitModel
from safe2real.problem import Ties
from safe2real.standing import AssumptionCode, DoubtCode, Standing
from tests.evidence.tied_systems import CLASSES, LEADS, ROWS, chain, ledge, ledge_problem

EXACT = Ties(CLASSES, LEADS, exact=True)


def told(problem, *episodes, labels=None, clears=True):
    """Evidence after episodes given as states; the only action is 0."""
    evidence = evidence_for(problem, reuses_simulator=clears, keeps_safe=True)
    for number, states in enumerate(episodes):
        drawn = None if labels is None else labels[number]
        episode = s2r.Trajectory.of(problem.simulator, states, np.zeros(len(states) - 1, dtype=int), labels=drawn)
        evidence.take(episode, of_baseline=True)
    return evidence


def counted(evidence):
    """Visits that are counted for the class."""
    (unit,) = np.flatnonzero(evidence.pooling.classes >= 0)
    return int(evidence.unit_model.counts.tally.visits[unit])


def law_of(evidence, row=0):
    kernel = evidence.view()
    first, count = int(kernel.compiled_rows.begin[row]), int(kernel.compiled_rows.length[row])
    at = slice(first, first + count)
    return kernel.compiled_rows.successor[at].tolist(), kernel.compiled_rows.probability[at].tolist()


def test_counts_of_a_class_are_those_of_its_rows_that_tell_labels_apart():
    evidence = told(chain(EXACT), [0, 0, 1, 2], [0, 1, 1, 1])
    # moves: 0-1, 1-2, 0-1; stays: 0-0, 1-1, 1-1. Nobody was in state 2 before the end.
    assert counted(evidence) == 6
    assert evidence.unit_model.counts.empirical_row(0).tolist() == [0.5, 0.5, 0.0]
    assert law_of(evidence, 0) == ([1, 0], [0.5, 0.5])
    assert law_of(evidence, 1) == ([2, 1], [0.5, 0.5])
    assert law_of(evidence, 2) == ([2], [1.0])  # both labels stay: nothing to learn
    assert (evidence.belief.gap[2], evidence.suspects[2, 0], evidence.known[2, 0]) == (0.0, False, False)
    assert evidence.visits.reshape(-1).tolist() == [6, 6, 0]
    assert evidence.counts.visits.reshape(-1).tolist() == [3, 3, 0]
    np.testing.assert_allclose(evidence.to_kernel().to_dense()[:, 0], [[0.5, 0.5, 0], [0, 0.5, 0.5], [0, 0, 1.0]])


def test_a_visit_that_does_not_show_its_label_is_not_counted_whatever_came_of_it():
    # Three cells in which labels 1 and 2 look alike, and one in which none do: only that one counts for the class.
    leads = np.array([[[0, 1, 1]], [[0, 1, 2]], [[0, 1, 1]]])
    law = np.array([0.5, 0.3, 0.2])
    rows = np.array([[[0.5, 0.5, 0.0]], [[0.5, 0.3, 0.2]], [[0.5, 0.5, 0.0]]])
    model = s2r.CMDP.of(s2r.Kernel.from_dense(rows), 4, 0, s2r.AtLeast(np.ones((3, 1)), 1.0))
    problem = s2r.Problem(model, chain(horizon=4).baseline, chain().settings, ties=Ties(CLASSES, leads, exact=True))
    evidence = told(problem, [0, 0, 0, 1, 2], *[[0, 0, 0, 0, 0]] * 9, clears=False)
    assert evidence.counts.visits.reshape(-1).tolist() == [39, 1, 0]
    assert counted(evidence) == 1
    # Row 0 is learnt by itself, as its own visits say more of it than the one of the class.
    assert sorted(zip(*law_of(evidence, 0), strict=True)) == [(0, 38 / 39), (1, 1 / 39)]
    assert law_of(evidence, 1) == ([0, 1, 2], [0.0, 0.0, 1.0])
    assert law_of(evidence, 2) == ([0, 1, 1], [0.0, 0.0, 1.0])
    # By outcome instead, "0 was drawn" from every row and the rest from row 1 alone, label 0 would come out too often.
    rng = np.random.default_rng(0)
    where, drawn = rng.integers(0, 3, 30_000), rng.choice(3, 30_000, p=law)
    by_outcome = np.bincount(drawn[(drawn == 0) | (where == 1)], minlength=3)
    by_row = np.bincount(drawn[where == 1], minlength=3)
    assert abs(by_row[0] / by_row.sum() - law[0]) < 0.02
    assert by_outcome[0] / by_outcome.sum() > law[0] + 0.2


def test_the_union_bound_is_over_units():
    tied, plain = told(chain(EXACT)), Evidence(chain())
    assert tied.rule.constant[:2].tolist() == pytest.approx([np.log(1 / (0.3 * 0.05))] * 2)
    assert plain.rule.constant.tolist() == pytest.approx([np.log(3 / (0.3 * 0.05))] * 3)
    assert tied.rule.size.tolist() == [2, 2, 1]


def test_episodes_count_alike_one_by_one_and_laid_end_to_end():
    episodes = [[0, 0, 1, 2], [0, 1, 1, 1], [0, 1, 2, 2]]
    one_by_one = told(chain(EXACT), *episodes)
    together, at_once = told(chain(EXACT)), told(chain(EXACT))
    states, actions = np.concatenate(episodes).astype(np.uint32), np.zeros(9, dtype=np.uint32)
    together.count(states, actions, np.array([0, 3, 6, 9]))
    at_once.count(states, actions, np.array([0, 3, 6, 9]), at_once=True)
    for other in (together, at_once):
        assert law_of(other) == law_of(one_by_one) == ([1, 0], [5 / 8, 3 / 8])
        np.testing.assert_array_equal(other.belief.gap, one_by_one.belief.gap)
        assert other.samples == one_by_one.samples == 9


def test_without_the_users_word_evidence_is_as_if_nothing_were_tied():
    episodes = [[0, 0, 1, 2], [0, 1, 1, 1]]
    loose, plain, exact = (
        told(chain(Ties(CLASSES, LEADS)), *episodes),
        told(chain(), *episodes),
        told(chain(EXACT), *episodes),
    )
    assert type(loose) is Evidence
    for one, other in zip(loose.belief, plain.belief, strict=True):
        np.testing.assert_array_equal(one, other)
    assert loose.assumptions() == plain.assumptions()
    structured = loose.structured
    assert law_of(structured) == law_of(exact)
    np.testing.assert_array_equal(structured.belief.gap, exact.belief.gap)
    loose.take(s2r.Trajectory.of(loose.problem.simulator, [0, 1, 2, 2], [0, 0, 0]), of_baseline=True)
    assert loose.structured is structured  # goes on from where it was
    assert counted(structured) == 8
    assert plain.structured is plain
    assert exact.structured is exact


def test_untied_rows_beside_exact_ties_are_counted_whether_or_not_a_support_is_declared():
    # The last row is untied and no support is declared: nothing limits its successors, and nothing is stored for it.
    ties = Ties([[0], [0], [-1]], LEADS, exact=True)
    support = s2r.Kernel.uniform_over(np.array([[[1, 1, 0]], [[0, 1, 1]], [[1, 1, 1]]], dtype=bool))
    episodes = [[0, 1, 2, 2], [0, 0, 1, 2], [0, 1, 2, 0]]
    bare, declared = told(chain(ties), *episodes), told(chain(ties, support=support), *episodes)
    plain = told(chain(Ties(ties.classes, LEADS)), *episodes)
    for evidence in (bare, declared):
        assert evidence.outside_support == evidence.unit_model.outside_support == 0
        assert not evidence.refuted.any()
        assert counted(evidence) == 7
        assert evidence.visits.reshape(-1).tolist() == [7, 7, 2]
        np.testing.assert_array_equal(evidence.counts.visits, plain.counts.visits)
        assert law_of(evidence, 0) == ([1, 0], [6 / 7, 1 / 7])
        np.testing.assert_array_equal(evidence.counts.empirical_row(2), plain.counts.empirical_row(2))
        np.testing.assert_array_equal(evidence.unit_model.counts.empirical_row(1)[:3], [0.5, 0.0, 0.5])
    assert (bare.unit_model.belief.gap[0], bare.samples) == (declared.unit_model.belief.gap[0], declared.samples)


def test_what_it_rests_on_is_said_first():
    learner = s2r.Learner(chain(EXACT))
    certificate = learner.propose().certificate
    assert certificate.assumptions[0].code is AssumptionCode.TIES
    assert "the 3 rows that were tied behave as 1 do" in certificate.describe().splitlines()[1]
    loose = s2r.Learner(chain(Ties(CLASSES, LEADS))).propose().certificate
    assert AssumptionCode.TIES not in {one.code for one in loose.assumptions}


def test_a_successor_that_no_label_has_refutes():
    evidence = told(chain(EXACT), [0, 2, 2, 2])
    assert evidence.is_refuted
    assert {doubt.code for doubt in evidence.doubts()} >= {DoubtCode.LEFT_SUPPORT}
    assert counted(evidence) == 0
    evidence = told(chain(EXACT))
    evidence.leave_model([0, 1], [0, 0])
    assert evidence.is_refuted
    assert evidence.refuted.all()  # all rows of the class


def test_known_rows_need_no_class_and_a_class_that_nothing_shows_is_learnt_row_by_row():
    known = np.array([[True], [False], [False]])
    evidence = told(chain(EXACT, known=known), [0, 0, 1, 2])
    assert evidence.pooling.tied.tolist() == [False, True, True]
    assert counted(evidence) == 1
    assert evidence.visits.reshape(-1).tolist() == [2, 1, 0]
    hidden = Ties([[-1], [-1], [0]], LEADS, exact=True)
    assert not told(chain(hidden)).pooling.tied.any()
    shown = Ties([[-1], [-1], [0]], LEADS, exact=True, reported=True, laws=[[0.7, 0.3]])
    assert told(chain(shown)).pooling.tied.tolist() == [False, False, True]


def test_reported_labels_count_where_successors_do_not_tell_and_are_held_against_them():
    reported = Ties(CLASSES, LEADS, exact=True, reported=True)
    evidence = told(chain(reported), [0, 1, 2, 2], labels=[[0, 0, 1]])
    assert counted(evidence) == 3
    assert law_of(evidence, 0)[1] == [2 / 3, 1 / 3]
    for labels, words in [
        (None, "every episode reports its labels, and this one has none"),
        ([0, 0, 2], r"labels\[2\] is 2 where the episode goes to state 2; labels run from 0 to 1"),
        ([0, 1, 1], r"labels\[1\] is 1 where the episode goes to state 2; that leads to state 1"),
    ]:
        before = evidence.counts.samples, evidence.counts.episodes
        episode = s2r.Trajectory.of(evidence.problem.simulator, [0, 1, 2, 2], [0, 0, 0], labels=labels)
        with pytest.raises(InvalidInput, match=words):
            evidence.take(episode, of_baseline=True)
        assert (evidence.counts.samples, evidence.counts.episodes) == before
    with pytest.raises(InvalidInput, match=r"labels has shape \(2,\); give one for each of the 3 steps"):
        s2r.Trajectory.of(evidence.problem.simulator, [0, 1, 2, 2], [0, 0, 0], labels=[0, 0])


def test_copies_are_one_row_without_any_assumption():
    rows = np.array([[[0.5, 0.25, 0.25]], [[0.0, 1.0, 0.0]], [[0.5, 0.25, 0.25]]])
    model = s2r.CMDP.of(s2r.Kernel.from_dense(rows), 3, 0, s2r.AtLeast(np.ones((3, 1)), 1.0))
    problem = s2r.Problem(model, chain().baseline, chain().settings, copies=[0, 1, 0])
    evidence = told(problem, [0, 2, 0, 2], [0, 2, 2, 1])
    assert isinstance(evidence, TiedEvidence)
    assert evidence.pooling.unit.tolist() == [0, 1, 0]
    assert evidence.visits.reshape(-1).tolist() == [6, 0, 6]
    assert sorted(zip(*law_of(evidence, 2), strict=True)) == sorted(zip(*law_of(evidence, 0), strict=True))
    assert AssumptionCode.TIES not in {one.code for one in evidence.assumptions()}
    evidence, plain = (
        told(one, *[[0, 2, 0, 2], [0, 2, 2, 1]] * 20)
        for one in (problem, s2r.Problem(model, problem.baseline, problem.settings))
    )
    assert evidence.belief.gap[0] < plain.belief.gap[0]


@pytest.mark.parametrize("runs", [60, pytest.param(2_000, marks=pytest.mark.slow)])
def test_the_sets_of_a_class_hold_at_all_times(runs):
    """The law of the class is not the simulator's: its row never is, and every ball around what was seen contains it."""
    problem = chain(EXACT)
    law, outside = np.array([0.2, 0.8]), 0
    rng = np.random.default_rng(1)
    for _ in range(runs):
        evidence = told(problem)
        units, missed = evidence.unit_model, False
        for _ in range(40):
            labels = rng.choice(2, size=3, p=law)
            units.visit(np.zeros(3, dtype=np.int64), labels)
            centre = units.counts.empirical_row(0)[:2] if units.belief.suspect[0] else np.array([0.7, 0.3])
            missed |= bool(0.5 * np.abs(centre - law).sum() > units.belief.gap[0] + 1e-12)
        outside += missed
    assert outside <= 0.05 * runs + 2.0 * np.sqrt(0.05 * runs)


def test_worst_cases_are_those_of_the_law_pushed_through_the_map():
    evidence = told(chain(EXACT), [0, 0, 1, 2], [0, 1, 1, 1], [0, 1, 2, 2])
    value = np.array([0.1, 0.9, 0.4])
    gap, (successors, law) = evidence.belief.gap[0], law_of(evidence, 0)
    worst = min(
        p * value[successors[0]] + (1 - p) * value[successors[1]]
        for p in np.clip(np.linspace(law[0] - gap, law[0] + gap, 2001), 0, 1)
    )
    from safe2real.planning.robust import RowSets

    model = evidence.model.with_constraints(0)
    sets = RowSets(model, evidence.belief.gap, evidence.reach)
    utility = np.zeros((3, 3, 1))
    utility[1, :, 0] = value
    assert sets.worst(evidence.problem.baseline, utility) == pytest.approx(worst, abs=1e-9)


# False ties


def drawn_from(laws, rng, visits):
    """Evidence of a chain whose rows 0 and 1 have laws of their own."""
    evidence = told(chain(EXACT))
    for _ in range(visits):
        first = 1 if rng.random() < laws[0] else 0
        states = [0, first]
        while len(states) < 4:
            here = states[-1]
            states.append(here + int(here < 2 and rng.random() < laws[here]))
        episode = s2r.Trajectory.of(evidence.problem.simulator, states, [0, 0, 0])
        evidence.take(episode, of_baseline=True)
        if evidence.test.is_refuted:
            break
    return evidence


def test_a_row_that_differs_from_the_rest_of_its_class_refutes_the_ties_for_good():
    evidence = drawn_from((0.95, 0.2), np.random.default_rng(0), 100)
    assert evidence.test.is_refuted
    assert evidence.is_refuted
    doubts = evidence.doubts()
    assert doubts[0].code is DoubtCode.STRUCTURE_REFUTED
    assert doubts[0].standing is Standing.REFUTED
    assert "the rows of class 0 are not alike" in doubts[0].text
    for _ in range(5):  # a contradiction is final
        evidence.take(s2r.Trajectory.of(evidence.problem.simulator, [0, 1, 1, 1], [0, 0, 0]), of_baseline=True)
    assert evidence.is_refuted
    assert map_mismatch(evidence).count(Verdict.CONTRADICTED) == 3


def test_true_ties_are_hardly_ever_refuted():
    rng = np.random.default_rng(3)
    assert sum(drawn_from((0.6, 0.6), rng, 60).test.is_refuted for _ in range(8)) == 0


def test_all_of_a_class_is_held_against_the_best_single_law():
    evidence = told(chain(EXACT), [0, 0, 1, 2], [0, 1, 1, 1])  # row 0: 2 moves, 1 stays; row 1: 1 and 2
    kt = np.log(1 / 2 * 3 / 4 * 1 / 6)  # of two of one kind and one of the other
    np.testing.assert_allclose(evidence.test.evidence(evidence.counts), 2 * kt - 6 * np.log(1 / 2))


def test_the_rest_of_a_class_is_without_the_row_itself():
    evidence = told(chain(EXACT), [0, 0, 1, 2], [0, 1, 1, 1])
    own, rest = evidence.test.observed(evidence.counts)
    assert own.tolist() == [[2, 1], [1, 2], [0, 0]]
    assert rest.tolist() == [[1, 2], [2, 1], [3, 3]]
    radii = evidence.test.radii(np.array([[2, 1], [1_000, 500], [0, 0]]))
    assert radii[2] == 1.0
    assert radii[1] < 0.1 < radii[0]


def test_a_run_with_ties_maps_forecasts_and_plans_like_any_other():
    simulated, real = ledge((0.05, 0.05), exact=True), ledge((0.05, 0.05))
    learner = s2r.Learner(ledge_problem(simulated, simulated.ties))
    run = s2r.simulate(learner, real.model.kernel, max_rounds=60)
    assert run.unsafe_share(learner.simulator.thresholds) == 0.0
    found = map_mismatch(learner.evidence)
    assert found.visits.shape == (9, 4)
    assert (found.visits[:4, 1:] == found.visits[0, 1]).all()  # a move up from there shows nothing
    assert not learner.evidence.suspects[:4].any()  # one class, and it is right
    assert learner.evidence.suspects[4:8].any()
    made = learner.plan(simulated.system.reward)
    assert made.certificate.holds
    from safe2real.exploration.forecast import forecast

    assert forecast(learner).rounds is not None
    lazy = s2r.Learner(
        s2r.Problem(simulated.model, learner.baseline, s2r.Settings(
            margin=0.3, calibrated_gap=0.0, mismatch_gap=0.2, tolerance=0.07, replan_growth=0.2), ties=simulated.ties)
    )  # fmt: skip
    done = s2r.simulate(lazy, real.model.kernel, max_rounds=60)
    assert len(done.deployed) < 60
    assert done.rounds == 60 or done.stopped


def test_units_keep_the_near_sets_of_rows_that_are_on_their_own():
    problem = chain(copies=[0, 1, 2])
    pooled = TiedEvidence(problem)
    plain = Evidence(problem)
    for name in ("near_begin", "near_length", "near_profile", "constant", "size"):
        np.testing.assert_array_equal(getattr(pooled.rule, name), getattr(plain.rule, name))
    assert isinstance(pooled.unit_model, UnitModel)
    assert ROWS.shape == (3, 1, 3)


# Rows in which labels look alike

HIDDEN = np.array([[[0, 1, 1]], [[0, 1, 2]], [[2, 2, 2]]])  # in row 0 the last two labels do, in row 2 all of them
HIDDEN_ROWS = np.array([[[0.5, 0.5, 0.0]], [[0.5, 0.3, 0.2]], [[0.0, 0.0, 1.0]]])


def hidden(**counts):
    """Evidence after rows were visited with these successors, in no order that is known."""
    model = s2r.CMDP.of(s2r.Kernel.from_dense(HIDDEN_ROWS), 3, 0, s2r.AtLeast(np.ones((3, 1)), 1.0))
    problem = s2r.Problem(model, chain().baseline, chain().settings, ties=Ties(CLASSES, HIDDEN))
    evidence = Evidence(problem)
    for name, often in counts.items():
        successors = np.flatnonzero(often)
        row = np.full(successors.size, int(name.removeprefix("row")))
        evidence.counts.add(row, successors, np.array(often)[successors])
    evidence.update()
    return evidence


def test_such_a_row_is_never_cleared_by_itself_because_its_class_can_be_wrong_all_the_same():
    evidence = hidden(row0=[500, 500, 0]).structured
    assert evidence.suspects[0, 0]
    assert 0.0 < evidence.belief.gap[0] < 0.2  # and yet it is learnt
    assert not hidden(row0=[500, 500, 0]).suspects[0, 0]
    both = hidden(row0=[500, 500, 0], row1=[50, 30, 20]).structured
    assert not both.suspects[0, 0]  # with its class it is
    assert both.belief.gap[0] == 0.0


def test_such_a_row_is_held_against_its_class_too():
    evidence = hidden(row0=[190, 10, 0], row1=[100, 60, 40]).structured
    assert evidence.test.refuted_classes == [0]
    assert evidence.is_refuted
    assert not hidden(row0=[95, 105, 0], row1=[100, 60, 40]).structured.is_refuted


def test_what_is_refuted_of_such_a_row_is_refuted_of_its_class():
    evidence = told(chain(EXACT))
    evidence.leave_model([0, 1, 2], [0, 0, 0])
    assert evidence.refuted.all()


def test_a_visit_bears_on_all_rows_that_it_is_counted_for_and_on_none_that_it_is_not():
    evidence = told(chain(EXACT))
    assert evidence.credit(np.array([1.0, 2.0, 4.0])).tolist() == [3.0, 3.0, 4.0]
    unseen = hidden().structured  # row 0 is shown as its class, and a visit to it counts for the row alone
    assert unseen.credit(np.array([1.0, 2.0, 4.0])).tolist() == [1.0, 3.0, 4.0]
    assert Evidence(chain()).credit(np.array([1.0, 2.0, 4.0])).tolist() == [1.0, 2.0, 4.0]
