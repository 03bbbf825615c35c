"""Campaigns of problems with structure: told, opened again, verified; what no label explains refutes before its turn."""

import numpy as np

import safe2real as s2r
from safe2real.campaign.journal import MemoryJournal
from safe2real.exploration.simulate import roll_out
from safe2real.problem import Problem, Ties
from safe2real.standing import AssumptionCode, Standing
from tests.evidence.tied_systems import CLASSES, LEADS, chain, ledge, ledge_problem

REAL = ledge((0.05, 0.3))


def told(journal, problem, real, rounds=12):
    with s2r.Campaign.create(journal, problem) as campaign:
        for number in range(rounds):
            deployment = campaign.ask(worker="one")
            campaign.tell(deployment.id, roll_out(real, deployment.policy, seed=3, round_number=number + 1))


def test_a_record_with_ties_is_opened_continued_and_verified():
    simulated = ledge((0.05, 0.1), exact=True)
    problem, journal = ledge_problem(simulated, simulated.ties, copies=np.arange(9)), MemoryJournal()
    told(journal, problem, REAL.model)
    with s2r.Campaign.open(journal) as campaign:
        assert campaign.verify().holds
        assert campaign.plan(REAL.system.reward).certificate.assumptions[0].code is AssumptionCode.TIES
        found = campaign.mismatch_map()
        assert found.visits[0, 1] == found.visits[1, 2] > 50
        deployment = campaign.ask(worker="two")
        campaign.tell(deployment.id, roll_out(REAL.model, deployment.policy, seed=4, round_number=1))
        assert campaign.verify().holds


def test_what_no_label_explains_refutes_while_it_waits_to_be_counted():
    problem, journal = chain(Ties(CLASSES, LEADS, exact=True)), MemoryJournal()
    with s2r.Campaign.create(journal, problem) as campaign:
        campaign.ask(worker="slow")  # whose episode has to be counted first
        second = campaign.ask(worker="quick")
        campaign.tell(second.id, s2r.Trajectory.of(problem.simulator, [0, 2, 2, 2], [0, 0, 0]))  # 0 to 2 in one step
        assert campaign.status(forecast=False).standing is Standing.REFUTED


def test_ties_that_are_not_exact_leave_every_deployment_as_it_was():
    simulated = ledge((0.05, 0.1))
    loose, plain = ledge_problem(simulated, simulated.ties), ledge_problem(simulated, None)
    learners = [s2r.Learner(one) for one in (loose, plain)]
    for number in range(25):
        first, second = (learner.propose() for learner in learners)
        assert first.exploration_weight == second.exploration_weight
        episode = roll_out(REAL.model, first.draw(), seed=1, round_number=number)
        for learner in learners:
            learner.observe(episode)
    assert isinstance(loose, Problem)
