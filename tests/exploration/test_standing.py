"""The standing of a learner is what its method promises and its data allow, wherever it is shown."""

import numpy as np
import pytest

import safe2real as s2r
from experiments import related
from safe2real import Learner, methods
from safe2real.preflight import Effort, check_problem
from safe2real.problem.theorem import Guarantee
from safe2real.standing import DoubtCode, Standing
from safe2real.testing.systems import random_case

REWARD = np.random.default_rng(5).random((4, 2))


class Silent(methods.Unconstrained):
    """It ignores the constraints and says nothing of it."""

    name = "silent"

    def doubts(self, evidence):
        return ()


@pytest.mark.parametrize(
    "method",
    [
        methods.Unconstrained(),
        Silent(),
        related.RFExpress(epsilon=0.5),
        related.VIZero(episodes=100),
        related.HySRL(REWARD, reachability=0.3),
        related.ExplorationTransfer(REWARD, episodes=120),
    ],
)
def test_a_method_that_ignores_the_constraints_is_certified_nowhere(method):
    learner = Learner(random_case(1).problem, method)
    assert learner.standing is Standing.INCOMPLETE
    assert [doubt.code for doubt in learner.doubts()] == [DoubtCode.CONSTRAINTS_IGNORED]
    assert "incomplete" in repr(learner)
    assert "certified" not in repr(learner)
    assert [doubt.code for doubt in learner.propose().certificate.doubts] == [DoubtCode.CONSTRAINTS_IGNORED]
    assert not learner.certify(np.zeros(1)).certified
    assert "Incomplete: no guarantee" in {text.get_text() for text in learner.plot().texts}


def test_where_there_are_no_constraints_none_are_ignored():
    problem = random_case(1).problem
    free = s2r.Problem(problem.simulator.with_constraints(0), problem.baseline, problem.settings)
    assert Learner(free, methods.Unconstrained()).standing is Standing.CERTIFIED


def test_the_check_before_a_run_promises_nothing_for_it_either():
    case = random_case(1)
    effort = Effort(runs=1, max_rounds=50, compare=False)
    found = check_problem(case.problem, method=methods.Unconstrained(), reality=case.real, effort=effort)
    assert found.standing is Standing.INCOMPLETE
    assert "INCOMPLETE, nothing is guaranteed" in found.verdict()
    assert found.guarantees[Guarantee.SAFETY] == "the method ignores the constraints"
    assert "(certified)" not in found.describe()
