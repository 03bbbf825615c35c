"""Ties and copies: what fits a simulator is kept to the last bit, what does not is said with its place and cure."""

import json

import numpy as np
import pytest

import safe2real as s2r
from safe2real.errors import InvalidInput
from safe2real.problem import Problem, Ties
from safe2real.problem.ties import laws_of, tells_apart
from tests.evidence.tied_systems import CLASSES, LEADS, ROWS, chain
from tests.preflight.specs import tiny
from tests.refusals import assert_helpful


def test_the_law_of_a_class_is_what_a_row_shows_that_tells_its_labels_apart():
    kernel = s2r.Kernel.from_dense(ROWS)
    np.testing.assert_allclose(laws_of(Ties(CLASSES, LEADS), kernel), [[0.7, 0.3]])
    np.testing.assert_array_equal(tells_apart(LEADS[:, 0]), [True, True, False])
    np.testing.assert_array_equal(tells_apart(np.array([[-1, -1, 2], [-1, 2, 2]])), [True, False])
    # Where no row does, nothing is known of it unless it is said.
    only = np.array([[-1], [-1], [0]])
    assert np.isnan(laws_of(Ties(only, LEADS), kernel)).all()
    np.testing.assert_array_equal(laws_of(Ties(only, LEADS, laws=[[0.2, 0.8]]), kernel), [[0.2, 0.8]])


def test_steps_are_tied_to_one_another_unless_the_ties_have_steps_themselves():
    kernel = s2r.Kernel.from_dense(ROWS).repeated(3)
    classes, successors = Ties(CLASSES, LEADS).flat(kernel)
    assert classes.tolist() == [0] * 9
    np.testing.assert_array_equal(successors, np.tile(LEADS[:, 0], (3, 1)))
    steps = np.arange(3)[:, None, None] * np.ones((1, 3, 1), dtype=int)
    apart, _ = Ties(steps, np.broadcast_to(LEADS, (3, 3, 1, 2))).flat(kernel)
    assert apart.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]


def test_documents_keep_structure_to_the_last_bit_and_have_none_where_there_is_none():
    ties = Ties(CLASSES, LEADS, exact=True, laws=[[0.7, 0.3]], class_names=("ground",), label_names=("moves", "stays"))
    both = chain(ties=ties, copies=[0, 1, 2])
    read = Problem.from_text(both.to_text())
    assert read.to_text() == both.to_text()
    np.testing.assert_array_equal(read.ties.successors, LEADS)
    assert (read.ties.exact, read.ties.class_names, read.ties.label_names) == (True, ("ground",), ("moves", "stays"))
    reported = Problem.from_text(chain(ties=Ties(CLASSES, LEADS, reported=True)).to_text())
    assert (reported.ties.reported, reported.ties.exact, reported.ties.laws) == (True, False, None)
    assert {"ties", "copies"}.isdisjoint(json.loads(tiny().to_text()))


def moved(array, at, value):
    changed = np.array(array)
    changed[at] = value
    return changed


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"classes": CLASSES[:, 0]}, r"ties.classes has shape \(3,\) and ties.successors \(3, 1, 2\)"),
        ({"classes": np.full((3, 1), -1)}, "ties.classes is -1 everywhere"),
        ({"classes": moved(CLASSES, 0, -2)}, "ties.classes is .*; classes are whole numbers from 0"),
        ({"classes": CLASSES + 0.5}, "ties.classes has entries of type float64"),
        ({"successors": LEADS[:, :, :0]}, "at least one label"),
        ({"successors": moved(LEADS, (1, 0, 1), -1)}, r"ties.successors\[\d, 0, 1\] says that label 1 can"),
        ({"successors": np.full(LEADS.shape, -1)}, r"ties.successors\[0, 0\] allows no label at all"),
        ({"successors": moved(LEADS, (1, 0, 1), 7)}, r"ties.successors\[1, 0\] leads to state 7 by label 1; states run"),
        ({"successors": moved(LEADS, (1, 0, 0), 0)}, r"ties.successors\[1, 0\]: the simulator goes to state \d with prob"),
        ({"laws": [[0.6, 0.4]]}, r"ties.successors\[0, 0\]: .*probability 0.[37], and the law of class 0 says 0.[46]"),
        ({"laws": [[0.6, 0.3]]}, r"ties.laws\[0\] sums to 0.9"),
        ({"laws": [[0.6, 0.3, 0.1]]}, r"ties.laws has shape \(1, 3\); .*\(1, 2\)"),
        ({"exact": 1}, "ties.exact is 1; give true or false"),
        ({"class_names": ("a", "b")}, "ties.class_names has 2 entries; give 1 different names"),
        ({"label_names": ("a", "a")}, "ties.label_names has 2 entries; give 2 different names"),
        ({"label_names": "ab"}, "ties.label_names is 'ab'; give a list"),
    ],
)
def test_ties_that_do_not_fit_are_refused_by_place_value_and_cure(given, words):
    with pytest.raises(InvalidInput) as caught:
        chain(ties=Ties(**({"classes": CLASSES, "successors": LEADS} | given)))
    assert_helpful(caught.value, words)


def test_a_class_whose_rows_are_not_one_law_is_refused_by_the_row_that_differs():
    with pytest.raises(InvalidInput, match=r"\[1, 0\]: the simulator goes to state 1 with probability 0.4, and the law"):
        chain(rows=moved(ROWS, (1, 0), [0.0, 0.4, 0.6]), ties=Ties(CLASSES, LEADS))
    with pytest.raises(InvalidInput, match=r"ties.classes has shape"):
        chain(ties=Ties(np.zeros((2, 1), dtype=int), LEADS[:2] * 0))
    with pytest.raises(InvalidInput, match=r"ties is a dict; give Ties\(classes"):
        chain(ties={"classes": CLASSES})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"copies": [0, 1]}, r"copies has shape \(2,\)"),
        ({"copies": [0, 1, 3]}, r"copies\[2\] is 3; states run"),
        ({"copies": [1, 2, 2]}, r"copies\[0\] is 1, which is itself a copy of 2"),
        ({"copies": [1, 1, 2]}, r"copies\[0\] is 1, but the simulator's rows of action 0 differ"),
    ],
)
def test_copies_that_do_not_fit_are_refused(given, words):
    with pytest.raises(InvalidInput) as caught:
        chain(**given)
    assert_helpful(caught.value, words)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        ({"ties": 3}, "ties is 3; give an object"),
        ({"ties": {"classes": [[0]]}}, "ties lacks 'successors'"),
        ({"ties": {"classes": [[0]], "successors": [[[0]]], "exakt": True}}, "did you mean 'exact'"),
        ({"ties": {"classes": [[0]], "successors": [[[0]]], "label_names": 3}}, "ties.label_names is 3"),
        ({"copies": "all"}, "copies"),
    ],
)
def test_damaged_documents_are_refused_by_name(damage, words):
    document = json.loads(chain().to_text()) | damage
    with pytest.raises(InvalidInput, match=words):
        Problem.from_text(json.dumps(document))


@pytest.mark.parametrize("names", [3, "ab", {"a": 1}, [3]])
def test_names_that_are_no_list_of_texts_are_refused(names):
    with pytest.raises(InvalidInput, match=r"ties\.class_names is .*; give a list of texts"):
        Ties(CLASSES, LEADS, class_names=names)


def test_stated_distances_without_a_number_are_refused():
    with pytest.raises(InvalidInput, match=r"within has shape \(0,\) and no values; give TV distances from 0 to 1"):
        s2r.Learner(chain(within=[]))


def test_what_is_certainly_alike_and_what_no_check_can_prove():
    plain, loose = chain(), chain(Ties(CLASSES, LEADS, reported=True))
    exact = chain(Ties(CLASSES, LEADS, exact=True), within=np.full((3, 1), 0.5), known=np.zeros((3, 1), dtype=bool))
    copied = chain(copies=[0, 1, 2])
    assert [one.rows_alike for one in (plain, loose, exact, copied)] == [False, False, True, True]
    assert [one.exact_ties is one.ties for one in (plain, loose, exact)] == [True, False, True]
    assert [one.reports_labels for one in (plain, loose, exact)] == [False, True, False]
    assert plain.unproved() == loose.unproved() == ["the margin", "the gaps"]
    assert exact.unproved()[2:] == ["the exact ties", "the distances that `within` states"]
    assert plain.within_rows().tolist() == [1.0] * 3
