"""What is assumed and doubted is named by codes, and carried on every certificate."""

from dataclasses import replace

import numpy as np
import pytest

import safe2real as s2r
from safe2real.problem import Ties
from safe2real.standing import AssumptionCode, DoubtCode, Standing
from tests.evidence.small_learners import coarse, forked_learner
from tests.evidence.tied_systems import CLASSES, LEADS, ROWS, chain


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


def test_equal_gaps_assume_nothing_of_the_simulator():
    problem = forked_learner(0.0).problem
    for gaps, assumed in (((0.0, 0.5), True), ((0.0, 0.0), False), ((0.2, 0.2), False)):
        settings = replace(problem.settings, calibrated_gap=gaps[0], mismatch_gap=gaps[1])
        codes = [one.code for one in s2r.Learner(replace(problem, settings=settings)).propose().certificate.assumptions]
        assert (AssumptionCode.SEPARATION in codes) is assumed, gaps


def test_what_may_fail_is_added_up():
    learner = forked_learner(0.0)
    estimated = coarse(learner)
    problem = replace(learner.problem, estimated=estimated)
    assert learner.failure == learner.settings.delta
    assert s2r.Learner(problem).failure == pytest.approx(learner.settings.delta + estimated.delta)
    assert s2r.Learner(problem, s2r.methods.RewardFree()).failure == learner.settings.delta  # which reuses none of its rows
    tried = s2r.Learner(learner.problem, s2r.methods.Trial(s2r.MarkovPolicy.uniform(horizon=3, num_states=3, num_actions=2)))
    assert tried.failure == 2 * learner.settings.delta  # floors by returns, plans by rows


def test_a_simulator_that_was_estimated_too_coarsely_is_doubted():
    learner = forked_learner(0.0)
    other = s2r.Learner(replace(learner.problem, estimated=coarse(learner)))
    assert [one.code for one in other.doubts()] == [DoubtCode.GAP_NOT_COVERED]
    assert other.standing is Standing.INCOMPLETE
    assert not other.propose().certificate.holds


def test_what_rows_were_stated_to_be_within_is_assumed_first_and_its_refutation_says_so():
    within = np.array([[0.1], [1.0], [0.05]])
    problem = chain(within=within, known=np.array([[False], [False], [True]]))
    assumed = s2r.Learner(problem).propose().certificate.assumptions
    assert assumed[0].code is AssumptionCode.WITHIN
    assert "1 row, at most 0.1 in TV distance" in assumed[0].text  # nothing is said of one row, and one is exact anyway
    tied = s2r.Learner(chain(Ties(CLASSES, LEADS, exact=True), within=within)).propose().certificate.assumptions
    assert [one.code for one in tied[:2]] == [AssumptionCode.TIES, AssumptionCode.WITHIN]
    nothing = s2r.Learner(chain(within=np.ones((3, 1)))).propose().certificate.assumptions
    assert AssumptionCode.WITHIN not in [one.code for one in nothing]

    learner = s2r.Learner(problem)
    learner.evidence.count(np.zeros(4 * 200, np.uint32), np.zeros(3 * 200, np.uint32), np.arange(0, 601, 3))
    (doubt,) = [one for one in learner.doubts() if one.code is DoubtCode.ROWS_CONTRADICTED]
    assert "about 1 row, of which 1 were stated to be within a distance of the simulator's (`within`)" in doubt.text
    other = s2r.Learner(chain(known=np.ones((3, 1), dtype=bool)))
    other.evidence.count(np.zeros(4 * 200, np.uint32), np.zeros(3 * 200, np.uint32), np.arange(0, 601, 3))
    assert not any("within" in one.text for one in other.doubts())


def test_where_ties_rule_a_successor_out_no_declared_support_is_spoken_of():
    ties = Ties(CLASSES, LEADS, exact=True)
    for support, said in ((None, 1), (s2r.Kernel.from_dense(ROWS), 2)):
        learner = s2r.Learner(chain(ties, support=support))
        assumed = [one for one in learner.propose().certificate.assumptions if one.code is AssumptionCode.SUPPORT]
        assert len(assumed) == said
        assert assumed[-1].text == "no tied row goes to a state to which no label of the ties leads"
        assert ("declared support" in assumed[0].text) is (said == 2)
        learner.evidence.count(np.array([0, 2], np.uint32), np.array([0], np.uint32), np.array([0, 1]))
        (doubt,) = [one for one in learner.doubts() if one.code is DoubtCode.LEFT_SUPPORT]
        assert doubt.text.startswith("the data hold 1 transition to states to which no label of the ties leads")
        assert ("declared support" in doubt.text) is (said == 2)
    alone = s2r.Learner(chain(support=s2r.Kernel.from_dense(ROWS)))
    (assumed,) = [one for one in alone.propose().certificate.assumptions if one.code is AssumptionCode.SUPPORT]
    assert assumed.text == "every successor of a row is one that its declared support names"
