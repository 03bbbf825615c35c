"""Checks of problems with structure: guesses keep to it, and a reality that does not is named."""

import numpy as np

import safe2real as s2r
from safe2real.preflight.findings import Code, Level
from safe2real.preflight.hypothetical_reality import Guess, guess_reality
from safe2real.problem import Ties
from safe2real.problem.ties import laws_of
from tests.evidence.tied_systems import ledge, ledge_problem
from tests.preflight.specs import look


def found(problem, reality, code):
    check = look(problem, reality, max_rounds=5)
    (finding,) = [one for one in check.findings if one.code is code]
    return finding, check


def test_guesses_keep_to_exact_ties():
    simulated = ledge((0.05, 0.1), exact=True)
    problem = ledge_problem(simulated, simulated.ties)
    for seed in range(2):
        guess = guess_reality(problem, Guess(seed=seed))
        laws = laws_of(Ties(simulated.ties.classes, simulated.ties.successors), guess.kernel)
        apart = 0.5 * np.abs(laws - np.asarray(simulated.ties.laws)).sum(axis=1)
        assert np.isclose(np.sort(apart), [0.0, 0.2]).all()  # one class is wrong, by the mismatch gap
        assert guess.wrong.any()
    finding, check = found(problem, None, Code.TIES)
    assert finding.level is Level.OK
    assert len(check.rehearsals) == 1
    (separation,) = [one for one in check.findings if one.code is Code.SEPARATION]
    assert separation.level is Level.OK
    edge = np.zeros((9, 4), dtype=bool)
    edge[5, 1] = True
    given = guess_reality(problem, Guess(rows=edge))
    np.testing.assert_array_equal(given.wrong.reshape(9, 4)[4:8].all(axis=1), True)
    assert not given.wrong.reshape(9, 4)[:4].any()


def test_guesses_leave_classes_alone_of_which_a_smaller_distance_is_stated():
    simulated = ledge((0.05, 0.1), exact=True)
    within = np.ones((9, 4))
    within[5] = 0.1  # one cell of the lower row, whose class has all of it
    problem = ledge_problem(simulated, simulated.ties, within=within)
    for seed in range(3):
        wrong = guess_reality(problem, Guess(seed=seed)).wrong.reshape(9, 4)
        assert wrong.any()
        assert not wrong[4:8].any()
    assert found(problem, None, Code.WITHIN)[0].level is Level.OK


def test_a_reality_that_breaks_the_ties_is_named():
    alike = {"classes": lambda cell, action: "anywhere", "law": {"anywhere": [0.95, 0.05]}}
    real = ledge((0.05, 0.45)).model.kernel
    for exact, level in ((True, Level.FAILURE), (False, Level.WARNING)):
        simulated = ledge((0.05, 0.05), exact=exact, **alike)
        finding, check = found(ledge_problem(simulated, simulated.ties), real, Code.TIES)
        assert finding.level is level
        assert "rows that are tied are not alike in this reality: ties.successors[" in finding.what
        assert bool(check.rehearsals) is not exact


def test_copies_are_moved_together():
    rows = np.array([[[0.5, 0.25, 0.25]], [[0.0, 1.0, 0.0]], [[0.5, 0.25, 0.25]]])
    model = s2r.CMDP.of(s2r.Kernel.from_dense(rows), 3, 0, s2r.AtLeast(np.ones((3, 1)), 1.0))
    settings = s2r.Settings(margin=1.0, calibrated_gap=0.0, mismatch_gap=0.3, tolerance=0.25)
    baseline = s2r.MarkovPolicy.deterministic([0, 0, 0], num_actions=1, horizon=3)
    guess = guess_reality(s2r.Problem(model, baseline, settings, copies=[0, 1, 0]), Guess(rows=1, seed=1))
    dense = guess.kernel.to_dense()
    np.testing.assert_array_equal(dense[0], dense[2])
    assert guess.wrong.any()
