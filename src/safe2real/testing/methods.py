"""The contract of a method, on random systems with exact values.

It refuses mistakes and known cheats. It is no proof: a method that is wrong only where nothing is tried passes. So a
certificate of a method from outside the package names that method among its assumptions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import product
from typing import ClassVar

import numpy as np

from safe2real.campaign.campaign import Campaign
from safe2real.campaign.journal.memory import MemoryJournal
from safe2real.errors import InvalidInput
from safe2real.evidence.evidence import Evidence
from safe2real.exploration.learner import Learner
from safe2real.exploration.simulate import collect, simulate
from safe2real.methods.base import Decision, Method, Reason, Recorded
from safe2real.methods.sim_to_real import SimToReal
from safe2real.model.policy import MarkovPolicy, Mixture
from safe2real.model.validation import ROUNDING, Floats
from safe2real.planning.evaluate import constraint_values
from safe2real.standing import AssumptionCode
from safe2real.testing.systems import Case, check_named, random_case, refused, run_rounds

_SEEDS = range(6)
_ROUNDS = 150
_MANY = 10**6  # episodes


class MethodContract(ABC):
    """Subclass it, say how to make a method, and let pytest find the tests."""

    sizes: ClassVar[tuple[int, ...]] = (4, 7, 12, 20)
    """States of the systems; for a method that is made for one size (rewards, a policy), say that one."""

    @abstractmethod
    def make(self) -> Method:
        """Return a new instance of the method under test.

        Returns:
            The method.
        """

    def cases(self) -> Iterator[Case]:
        """Yield systems on which every assumption is true; override it where these do not fit the method.

        Yields:
            Problems with their real systems.
        """
        for seed in _SEEDS:
            growth = 0.1 * (seed % 3 == 2)
            yield random_case(seed, constraints=1 + seed % 2, replan_growth=growth, states=self.sizes[0])

    def provable(self, case: Case, evidence: Evidence, candidate: Mixture) -> Floats:
        """Return the best lower bounds on V_c that can be computed here, independently of the method.

        Override it for a method that goes by something else than the confidence sets.

        Args:
            case: the system.
            evidence: all that was counted.
            candidate: the mixture that is deployed beside the baseline.

        Returns:
            [K].
        """
        return _provable(case, evidence, candidate)

    def test_it_says_what_it_is(self) -> None:
        method = self.make()
        assert isinstance(method, Method), "a method is a subclass of safe2real.methods.Method"
        check_named(method)

    def test_it_is_a_function_of_its_arguments(self) -> None:
        for case, learner in self._runs():
            before = _fingerprint(learner.evidence)
            first, second = (self._decide(case, learner) for _ in range(2))
            assert _fingerprint(learner.evidence) == before, "proposing changed the evidence"
            assert first.reason is second.reason, "it wavers"
            assert first.exploration_weight == second.exploration_weight, "it wavers"
            assert _same(first.mixture(case.problem.baseline), second.mixture(case.problem.baseline)), "it wavers"

    def test_every_proposal_is_covered_by_what_the_data_prove(self) -> None:
        """Its bounds may not exceed those computed here, and every deployment must reach every threshold."""
        if not self.make().keeps_safe:
            return
        for case in self.cases():
            learner = Learner(case.problem, self.make(), trust_margin=True)
            for _ in range(12):
                self._check_covered(case, learner.evidence, self._decide(case, learner))
                remembered = learner.decide()  # with its memory of earlier rounds
                if np.array_equal(learner.hand_over()[2], learner.evidence.counts.tally.visits):
                    # One that has stood for a while was certified by the data of then, and may not be by those of now.
                    self._check_covered(case, learner.evidence, remembered)
                if learner.propose().is_last:
                    break
                simulate(learner, case.real, max_rounds=_ROUNDS // 12)

    def _check_covered(self, case: Case, evidence: Evidence, decision: Decision) -> None:
        if decision.reason is not Reason.MIXTURE:
            return
        alpha, thresholds = decision.exploration_weight, case.problem.simulator.thresholds
        assert 0.0 <= alpha <= 1.0 + ROUNDING, f"the candidate's share is {alpha}"
        assert abs(sum(decision.weights) - 1.0) <= 1e-6, "the weights of the candidate do not sum to 1"
        provable = self.provable(case, evidence, Mixture.of(decision.weights, decision.policies))
        excess = decision.lower_bounds - provable
        assert (excess <= ROUNDING).all(), f"it claims {decision.lower_bounds}, and {provable} is provable"
        deployed = alpha * provable + (1.0 - alpha) * evidence.trusted
        assert (deployed >= thresholds - ROUNDING).all(), f"V_c >= {deployed} is provable, below {thresholds}"

    def test_what_it_deploys_is_safe(self) -> None:
        """Exact values on the real system, which is known here."""
        if not self.make().keeps_safe:
            return
        for case in self.cases():
            run = simulate(Learner(case.problem, self.make(), trust_margin=True), case.real, max_rounds=_ROUNDS)
            thresholds = case.problem.simulator.thresholds
            assert run.unsafe_share(thresholds) == 0.0, f"unsafe in {run.unsafe_share(thresholds):.1%} of the rounds"

    def test_much_data_and_more_states_change_nothing(self) -> None:
        """Repeat the tests with three million samples in batches that double, and on systems of every size in `sizes`."""
        if not self.make().keeps_safe:
            return
        for seed, states in product(range(2), self.sizes):
            case = random_case(seed, constraints=1 + seed, states=states)
            learner = Learner(case.problem, self.make(), trust_margin=True)
            if type(learner.evidence) is Evidence:
                self._check_batches(case, learner)
            else:  # it needs single episodes, which take longer to make
                run = simulate(learner, case.real, max_rounds=600)
                assert run.unsafe_share(case.problem.simulator.thresholds) == 0.0, f"unsafe with {states} states"
                self._check_covered(case, learner.evidence, self._decide(case, learner))

    def _check_batches(self, case: Case, learner: Learner) -> None:
        """Each decision is deployed as often as there were episodes before it, and its exact value is looked at."""
        reality, evidence, counts = case.reality, learner.evidence, learner.evidence.counts
        while counts.episodes < _MANY:
            decision = self._decide(case, learner, counts.episodes + 1)
            self._check_covered(case, evidence, decision)
            mixture = decision.mixture(case.problem.baseline)
            if mixture is None:
                return
            values, thresholds = constraint_values(reality, mixture), reality.thresholds
            assert (values >= thresholds - ROUNDING).all(), f"V_c = {values} is deployed, below {thresholds}"
            rng = np.random.default_rng([1, counts.episodes])
            shares = rng.multinomial(max(1, counts.episodes), mixture.weights / mixture.weights.sum())
            for policy, episodes in zip(mixture.policies, shares.tolist(), strict=True):
                if episodes:
                    collect(reality, policy, counts, episodes=episodes, seed=1)
            evidence.update()

    def test_it_stops_only_with_a_claim(self) -> None:
        for case, learner in self._runs():
            decision = learner.decide()
            if decision.reason is Reason.STOP:
                assert decision.uncertainty < np.inf, "it stopped without a finite uncertainty"
                plan = learner.plan(np.ones((learner.simulator.num_states, learner.simulator.num_actions)))
                assert plan.bound >= plan.value, "after its stop there is no plan"
                real = constraint_values(case.reality, plan.policy)
                assert (real >= plan.certificate.lower_bounds - ROUNDING).all(), "after its stop plans are not safe"

    def test_refuted_assumptions_leave_the_baseline_and_a_refuted_margin_leaves_nothing(self) -> None:
        for case, learner in self._runs():
            if learner.is_refuted or not learner.method.keeps_safe:
                continue
            learner.leave_model([], [])
            codes = {one.code for one in learner.method.assumptions(learner.evidence)}
            reason = self._decide(case, learner).reason
            relies = AssumptionCode.COMPLETE in codes  # which the last episode refutes
            assert reason is Reason.BASELINE or not relies, "a candidate is mixed in on refuted assumptions"
            bad = case.problem.simulator.horizon
            for _ in range(3_000):  # of the baseline, with the least return there is
                worst = np.zeros(bad + 1, dtype=np.uint32), np.zeros(bad, dtype=np.uint32)
                learner.evidence.trust.take(*worst, np.array([0, bad]), np.array([True]))
                if learner.evidence.trust.halted:
                    break
            if learner.evidence.trust.halted:
                assert self._decide(case, learner).reason is Reason.HALT, "it deploys after the margin was refuted"

    def test_its_record_can_be_checked_again(self) -> None:
        """`recheck` proves the claimed bounds from the evidence alone, and no more than can be computed here."""
        method = self.make()
        if not method.can_be_rechecked:
            return  # it explores, and no campaign deploys it
        for case, learner in self._runs():
            decision = self._decide(case, learner)
            if decision.reason is not Reason.MIXTURE:
                continue
            candidate = Mixture.of(decision.weights, decision.policies)
            recorded = Recorded(candidate, decision.exploration_weight, decision.uncertainty)
            found = method.recheck(recorded, learner.evidence, decision)
            assert (found >= decision.lower_bounds - ROUNDING).all(), "recheck proves less than was claimed"
            self._check_honest(case, learner, recorded, decision)
            model = learner.simulator
            for action in range(model.num_actions):  # a forged record may name anything
                always, sizes = [action] * model.num_states, {"num_actions": model.num_actions, "horizon": model.horizon}
                alone = Mixture.of([1.0], [MarkovPolicy.deterministic(always, **sizes)])
                self._check_honest(case, learner, Recorded(alone, recorded.exploration_weight, np.inf), decision)
                self._check_honest(case, learner, Recorded(alone, 1.0, recorded.uncertainty), decision)

    def _check_honest(self, case: Case, learner: Learner, recorded: Recorded, now: Decision) -> None:
        try:
            found = self.make().recheck(recorded, learner.evidence, now)
        except InvalidInput:
            return
        provable = self.provable(case, learner.evidence, recorded.candidate)
        assert (found <= provable + ROUNDING).all(), f"recheck vouches for {found}, and {provable} is provable"

    def test_a_campaign_of_it_verifies(self) -> None:
        method = self.make()
        case = random_case(3, states=self.sizes[0])
        if not method.can_be_rechecked:
            with refused(InvalidInput, "a campaign of a method whose record proves nothing"):
                Campaign.create(MemoryJournal(), case.problem, method=method, trust_margin=True)
            return
        journal = MemoryJournal()
        with Campaign.create(journal, case.problem, method=method, trust_margin=True) as campaign:
            run_rounds(campaign, case, 24)
            ledger = campaign.verify()
            assert ledger.holds, ledger.describe()
        with Campaign.open(journal, extensions=(type(method),)) as again:
            assert again.verify().holds, "opened again, the record does not verify"

    def _runs(self) -> Iterator[tuple[Case, Learner]]:
        """A learner at the beginning, on its way, and later, on every case."""
        for case in self.cases():
            learner = Learner(case.problem, self.make(), trust_margin=True)
            for rounds in (0, 20, _ROUNDS):
                if rounds and not learner.propose().is_last:
                    simulate(learner, case.real, max_rounds=rounds)
                yield case, learner

    def _decide(self, case: Case, learner: Learner, round_number: int | None = None) -> Decision:
        """Return the decision of a new method of this kind, without memory."""
        seed, number = case.problem.settings.coin_seed, learner.round if round_number is None else round_number
        return self.make().propose(case.problem, learner.evidence, seed=seed, round_number=number)


def _provable(case: Case, evidence: Evidence, candidate: Mixture) -> Floats:
    """The best that is known here: the worst case over the confidence sets, and Delta on the same evidence."""
    everything = SimToReal().propose(case.problem, evidence, seed=0, round_number=0)
    delta = everything.uncertainty if everything.reason in (Reason.MIXTURE, Reason.STOP) else np.inf
    return np.maximum(evidence.lower_bounds(candidate, delta), evidence.lower_bounds(candidate))


def _fingerprint(evidence: Evidence) -> bytes:
    tally, belief, trust = evidence.counts.tally, evidence.belief, evidence.trust.compiled
    arrays = [*tally, *belief, trust.margins, trust.wealth, trust.counters, trust.flags, trust.ceiling]
    return b"".join(np.asarray(array).tobytes() for array in arrays)


def _same(one: Mixture | None, other: Mixture | None) -> bool:
    if one is None or other is None:
        return one is other
    return np.array_equal(one.weights, other.weights) and all(
        np.array_equal(left.probabilities, right.probabilities)
        for left, right in zip(one.policies, other.policies, strict=True)
    )
