"""The related systems keep the contract of a method; what they promise is computed here once more, in plain loops."""

import numpy as np
import pytest

from experiments import related
from safe2real import Learner
from safe2real.model.policy import Mixture
from safe2real.planning import constraint_values
from safe2real.standing import AssumptionCode, DoubtCode, Standing
from safe2real.testing import MethodContract
from safe2real.testing.systems import random_case

pytestmark = pytest.mark.slow  # what each paper says of its method is looked at by default, in test_invariants.py

REWARD = np.random.default_rng(5).random((4, 2))
K = 3_000


def rows_of(evidence):
    """(P_hat [S, A, S], visits [S, A]) by the counts alone."""
    rows, successors, counts = evidence.counts.transitions()
    seen = np.zeros((8, 4))
    np.add.at(seen, (rows, successors), counts)
    visits = seen.sum(axis=1)
    return np.where(visits[:, None] > 0, seen / np.maximum(visits, 1)[:, None], 0.25).reshape(4, 2, 4), visits.reshape(4, 2)


def value_of(P, utility, policy, start):
    """V of a utility [S, A] or [3, S, A] under a Markov policy."""
    u, V = np.broadcast_to(utility, (3, 4, 2)), np.zeros(4)
    for h in (2, 1, 0):
        V = (policy.probabilities[h] * (u[h] + P @ V)).sum(axis=1)
    return start @ V


def pessimistic(case, evidence, candidate: Mixture, penalty):
    """[K] on the empirical rows, each utility less the penalty."""
    P, _ = rows_of(evidence)
    model = case.problem.simulator
    parts = list(zip(candidate.weights, candidate.policies, strict=True))
    return np.array([sum(w * value_of(P, c[0] - penalty, p, model.start) for w, p in parts) for c in model.utilities])


def clipped(case, evidence, policy):
    """3 e sqrt(W) + W of RF-Express for one policy."""
    P, visits = rows_of(evidence)
    level = np.log(3 * 4 * 2 * 3 / 0.05) + 4 * np.log(8 * np.e * (visits + 1))
    with np.errstate(divide="ignore"):
        bonus = 15 * 9 * level / visits
    W = np.zeros(4)
    for h in (2, 1, 0):
        W = (policy.probabilities[h] * np.minimum(3.0, bonus + (4 / 3) * P @ W)).sum(axis=1)
    value = case.problem.simulator.start @ W
    return 3 * np.e * np.sqrt(value) + value


class Contract(MethodContract):
    """One case with two constraints; the others are slow."""

    sizes = (4,)  # the reward's

    def cases(self):
        yield random_case(5, constraints=2)


class Unsafe(Contract):
    """Nothing is claimed of what it deploys."""

    def test_what_it_deploys_is_labelled_by_data(self):
        case = random_case(1)
        proposal = Learner(case.problem, self.make()).propose()
        assert DoubtCode.CONSTRAINTS_IGNORED in {doubt.code for doubt in proposal.certificate.doubts}
        assert proposal.certificate.standing is not Standing.CERTIFIED


class TestRFExpress(Unsafe):
    def make(self):
        return related.RFExpress(epsilon=0.5)


class TestRFExpressStructure(Unsafe):
    def make(self):
        return related.RFExpress(epsilon=1.0, ours=True)


class TestVIZero(Unsafe):
    def make(self):
        return related.VIZero(episodes=100)


class TestHySRL(Unsafe):
    def make(self):
        return related.HySRL(REWARD, reachability=0.3)


class TestHySRLStructure(Unsafe):
    def make(self):
        return related.HySRL(REWARD, reachability=0.9, epsilon=2.0, ours=True)


class TestOptPess(Contract):
    def make(self):
        return related.OptPess(REWARD, episodes=K)

    def provable(self, case, evidence, candidate):
        _, visits = rows_of(evidence)
        beta = np.sqrt(np.log(16 * 16 * 2 * 3 * K / 0.05) / np.maximum(visits, 1))
        return pessimistic(case, evidence, candidate, 4 * 3 * beta)


class TestOptPessStructure(Contract):
    """With our radius its bounds follow from the confidence sets."""

    def make(self):
        return related.OptPess(REWARD, episodes=140, ours=True)


class TestDopeStructure(Contract):
    def make(self):
        return related.Dope(REWARD, episodes=140, warm_up=0, ours=True)


class TestDope(Contract):
    def make(self):
        return related.Dope(REWARD, episodes=K, warm_up=0)

    def provable(self, case, evidence, candidate):
        """The least V_c over the boxes, by the largest transfer of mass in every row."""
        P, visits = rows_of(evidence)
        level, n = np.log(2 * 4 * 2 * 3 * K / 0.05), np.maximum(visits, 1)[..., None]
        wide = np.sqrt(4 * level * P * (1 - P) / n) + 14 * level / (3 * n)
        low, high = np.maximum(P - wide, 0), np.minimum(P + wide, 1)
        model, found = case.problem.simulator, []
        for utility in model.utilities:
            total = 0.0
            for weight, policy in zip(candidate.weights, candidate.policies, strict=True):
                V = np.zeros(4)
                for h in (2, 1, 0):
                    rows = low.copy()
                    left = 1 - rows.sum(axis=-1)
                    for s in np.argsort(V):
                        moved = np.minimum(left, high[..., s] - low[..., s])
                        rows[..., s] += moved
                        left -= moved
                    V = (policy.probabilities[h] * (utility[0] + rows @ V)).sum(axis=1)
                total += weight * model.start @ V
            found.append(total)
        return np.array(found)


class TestSweet(Contract):
    def make(self):
        return related.Sweet(epsilon=0.5)

    def provable(self, case, evidence, candidate):
        bounds = 0.0
        for weight, policy in zip(candidate.weights, candidate.policies, strict=True):
            alone = pessimistic(case, evidence, Mixture.of([1.0], [policy]), 0.0)
            bounds = bounds + weight * (alone - clipped(case, evidence, policy))
        return bounds


class TestSweetStructure(Contract):
    def make(self):
        return related.Sweet(epsilon=0.5, ours=True)


class TestLogBarrier(Contract):
    def make(self):
        return related.LogBarrier(REWARD, batch=40, eta=0.2)

    def provable(self, case, evidence, candidate):
        """What is true: its bounds are by returns, and nothing that is true may be below them."""
        return constraint_values(case.reality, candidate)


class TestTransfer(Unsafe):
    def make(self):
        return related.ExplorationTransfer(REWARD, episodes=120)


CONTRACTS = [kind for kind in (*Contract.__subclasses__(), *Unsafe.__subclasses__()) if kind is not Unsafe]


@pytest.mark.slow
@pytest.mark.parametrize("kind", CONTRACTS, ids=lambda kind: kind.__name__)
def test_the_contract_on_all_cases(kind):
    contract = type(kind.__name__, (kind,), {"cases": MethodContract.cases})()
    for promise in [name for name in dir(contract) if name.startswith("test_")]:
        getattr(contract, promise)()


def test_every_system_has_a_contract():
    assert {type(kind().make()) for kind in CONTRACTS} == set(related.ALL)


@pytest.mark.parametrize("kind", related.ALL, ids=lambda kind: kind.__name__)
def test_facts_are_as_the_class_behaves(kind):
    facts = kind.facts
    assert facts.safe == kind.keeps_safe
    assert facts.uses_simulator == kind.reuses_simulator
    assert (facts.fidelity is related.Fidelity.EXACT) == (facts.label == facts.system)
    assert facts.system in facts.structure
    assert facts.citation
    assert facts.told


def test_a_safe_one_says_whose_proof_it_rests_on():
    case = random_case(1)
    learner = Learner(case.problem, related.OptPess(REWARD, episodes=K))
    ours = Learner(case.problem, related.OptPess(REWARD, episodes=K, ours=True))
    proofs = []
    for one in (learner, ours):  # both are methods from outside the package; one has bounds of its own as well
        extensions = [a for a in one.propose().certificate.assumptions if a.code is AssumptionCode.EXTENSION]
        proofs.append(sum(related.OptPess.facts.citation in assumption.text for assumption in extensions))
        assert any("from outside the package" in assumption.text for assumption in extensions)
    assert proofs == [1, 0]
