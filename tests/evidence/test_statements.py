"""What is assumed and doubted is named by codes, and carried on every certificate."""

from dataclasses import replace

import numpy as np

import safe2real as s2r
from safe2real.standing import AssumptionCode, DoubtCode, Standing
from tests.evidence.small_learners import coarse, forked_learner


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


def test_a_simulator_that_was_estimated_too_coarsely_is_doubted():
    learner = forked_learner(0.0)
    other = s2r.Learner(replace(learner.problem, estimated=coarse(learner)))
    assert [one.code for one in other.doubts()] == [DoubtCode.GAP_NOT_COVERED]
    assert other.standing is Standing.INCOMPLETE
    assert not other.propose().certificate.holds
