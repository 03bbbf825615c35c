"""What to deploy next: Algorithm 1 of the paper, and Algorithms 2 and 3 as its two variations.

Problem: choose, episode after episode, a policy that meets every constraint on a real system that differs from the
simulator in an unknown region, and stop when a near-optimal plan for any reward is possible. Algorithm: keep a hybrid
model; if the baseline does not look safe on it, deploy the baseline (Line 5); otherwise find the policy that would be
most uncertain among those feasible on the model (Line 8), and deploy it mixed with the baseline so that the baseline's
margin pays for the uncertainty (Line 13). Stopping rule: that largest uncertainty, Delta, is at most the tolerance (Line
10).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import ArrayLike, NDArray

from safe2real._compiled import draws
from safe2real._compiled import rounds as _kernels
from safe2real.errors import Halted, InvalidInput, Stopped
from safe2real.evidence.hybrid import HybridModel, Separation
from safe2real.evidence.trust import BaselineTrust
from safe2real.exploration.certificate import Certificate
from safe2real.exploration.plan import Plan, best_certified
from safe2real.exploration.settings import Settings, check_settings
from safe2real.exploration.statements import assumptions_of, doubts_of, faults_assumed
from safe2real.model.checks import Floats, Indices, bare, finite_floats, step_utilities, whole_numbers
from safe2real.model.cmdp import CMDP
from safe2real.model.kernel import Kernel
from safe2real.model.policy import MarkovPolicy, Mixture, Policy, check_policy
from safe2real.model.trajectory import Trajectory, check_trajectory
from safe2real.planning.evaluate import constraint_values
from safe2real.planning.robust import TVBalls
from safe2real.planning.solve import slots_for, solve
from safe2real.standing import Assumption, Doubt, DoubtCode, Standing, standing_of
from safe2real.theory.conditions import accuracy_of


class Reason(Enum):
    """Why a round proposes what it does."""

    BASELINE = _kernels.BASELINE
    """Line 5: on the current estimate the baseline does not look safe enough to mix; deploy it alone."""
    MIXTURE = _kernels.MIXTURE
    """Line 13: deploy the candidate mixed with the baseline."""
    STOP = _kernels.STOP
    """Line 10: the model is accurate enough; nothing more to deploy."""
    HALT = _kernels.HALT
    """The data refute the margin of the baseline itself: nothing is trusted any more. Stop the machine."""


@dataclass(frozen=True, eq=False, slots=True)
class Proposal:
    """One round's answer. After the stop nothing is deployed: `mixture` and `certificate` are None (a plan has its own).

    After a halt nothing is deployed either; the certificate is there, and says what is refuted.
    """

    round: int
    reason: Reason
    mixture: Mixture | None
    exploration_weight: float  # alpha: share of the candidate
    uncertainty: float  # Delta; inf in rounds of Line 5, which do not plan
    certificate: Certificate | None
    coin: float  # uniform in [0, 1), a function of (seed, round)

    @property
    def drawn(self) -> int:
        """Which policy of the mixture to run this episode: fixed by (seed, round), so asking twice gives the same one."""
        if self.reason is Reason.HALT:
            raise Halted(HALT_ADVICE)
        if self.mixture is None:
            raise Stopped("the run has stopped: there is nothing left to deploy; call plan(reward)")
        return drawn(self.mixture.weights, self.coin)

    def draw(self) -> MarkovPolicy:
        """The policy to run this episode."""
        index = self.drawn  # raises after the stop
        return self.mixture.policies[index]  # type: ignore[union-attr]


HALT_ADVICE = (
    "the data refute the margin of the baseline, so nothing is handed out any more, the baseline included: stop the "
    "machine. To go on, state a margin that is there (estimate_margin) in a new run, and count these episodes in it"
)
_ROUNDING = 1e-9
_NO_PLAN = (-1, 0.0, 0.0)  # (reason, Delta, alpha) before a plan


def coin_of(seed: int, round_number: int) -> float:
    """The coin of a round, uniform in [0, 1)."""
    return float(draws.draw(np.uint64(seed), round_number, 0))


def drawn(weights: Floats, coin: float) -> int:
    """The component of a mixture that a coin shows; never one of weight 0."""
    return int(draws.pick(bare(weights), coin))


class Learner:
    """Algorithm 1 as ask and tell: `propose()` what to deploy, `observe()` what happened; `plan(reward)` after the stop.

    Guarantee (Theorem 1, literal constants): under Slater's condition with `margin` and the separation condition with the
    two gaps, with probability at least 1 - delta every proposed mixture meets every constraint on the real system, and
    after the stop every plan is feasible and within 2 H tau / xi + 2 tau of the optimum, for every reward.
    """

    def __init__(
        self,
        simulator: CMDP,
        baseline: MarkovPolicy,
        settings: Settings,
        *,
        known: ArrayLike | None = None,
        support: Kernel | None = None,
        assumed: Sequence[Assumption] = (),
        doubted: Sequence[Doubt] = (),
        warm_start: bool = True,
    ) -> None:
        """`simulator` carries the constraints; `baseline` is the trusted policy; `known` marks exact rows.

        `support` is a kernel of the simulator's shape whose successors are the ones the real system can have (its
        probabilities do not matter): declare it where you know it, e.g. the neighbours of a cell, and radii shrink.
        `assumed` is what the inputs rest on themselves, e.g. a simulator that was estimated; certificates name it.
        `doubted` is why they may be worth less than certified.
        A `warm_start` plans each round from the policies of the last, which is faster; without it a proposal is a function
        of the data alone, bit for bit, whatever was proposed on the way.
        """
        if not isinstance(baseline, MarkovPolicy):
            raise InvalidInput(f"baseline is a {type(baseline).__name__}; give one MarkovPolicy whose margin you know")
        check_policy(baseline, simulator, "baseline")
        self.simulator = simulator
        self.baseline = baseline
        self.settings = settings
        self.margins = check_settings(settings, simulator)
        self.assumed, self.doubted = tuple(assumed), tuple(doubted)
        self.warm_start = warm_start
        self.round = 1
        self.hybrid = HybridModel(
            simulator.kernel,
            simulator.horizon,
            separation=Separation(settings.calibrated_gap, settings.mismatch_gap)
            if settings.algorithm.reuses_simulator
            else None,
            radius=settings.radius,
            delta=settings.delta,
            bonus_scale=settings.bonus_scale,
            known=_known_rows(known, simulator),
            support=support,
        )
        horizon = simulator.horizon
        spans = (horizon - 1.0 - np.arange(horizon)) / horizon if settings.span_bonus else np.ones(1)
        kept = simulator.num_constraints if settings.algorithm.keeps_safe else 0
        self.trust = BaselineTrust(
            simulator.with_constraints(kept),
            baseline,
            self.margins[:kept],
            delta=settings.delta,
            proves=settings.certified,
            raises=settings.robust_safety,
        )
        slots = slots_for(kept)
        self._terms = _kernels.Terms(
            start=simulator.start.copy(),
            utilities=simulator.utilities[:kept].copy(),
            thresholds=simulator.thresholds[:kept].copy(),
            margins=self.margins[:kept].copy(),
            baseline=baseline.probabilities.copy(),
            tolerance=float(settings.tolerance),
            spans=spans,
            robust=settings.robust_safety,
            certified=settings.certified,
            H=simulator.horizon,
        )
        self._candidate = _kernels.Candidate(
            actions=np.zeros((slots, simulator.horizon, simulator.num_states), dtype=np.uint32),
            lines=np.zeros((slots, 1 + kept)),
            weights=np.zeros(slots),
            multipliers=np.zeros(kept),
            lower=np.zeros(kept),
            baseline_values=np.zeros(kept),
        )
        self._warm = 0
        self._plan = _NO_PLAN
        self._refuted = False  # whether the plan that stands knew that an assumption is refuted
        self._planned = np.zeros_like(self.hybrid.counts.tally.visits)  # visits at the last plan
        self._proposal: Proposal | None = None
        self._faults: dict[str, int] = {}  # what cut episodes short, by the user's word: cause -> episodes
        if self.trust.due:
            self.trust.look(self.hybrid)  # what is known before any data may contradict the margin, or prove more

    @property
    def samples(self) -> int:
        """State-action pairs sampled from the real system so far."""
        return self.hybrid.counts.samples

    @property
    def stopped(self) -> bool:
        return self.propose().reason is Reason.STOP

    def propose(self) -> Proposal:
        """What to deploy in this round; asking again before `observe` gives the same object, unless data refute it."""
        self._notice_refutation()
        if self._proposal is None:
            if self._plan[0] < 0:
                tally, hybrid = self.hybrid.counts.tally, self.hybrid
                warm = self._warm if self.warm_start else 0
                belief, trust = hybrid.belief, self.trust.state
                reason, delta, alpha, self._warm = _kernels.propose(
                    *_kernels.searches(self._terms), hybrid.rows, hybrid.reach, belief.gap, belief.bonus, belief.refuted,
                    trust.flags, trust.margins, self._terms, self._candidate, warm,
                )  # fmt: skip
                self._plan = (reason, delta, alpha)
                self._planned[:] = tally.visits
            reason, delta, alpha = self._plan
            self._proposal = self._as_proposal(Reason(reason), delta, alpha)
        return self._proposal

    def observe(self, trajectory: Trajectory) -> None:
        """Take in one episode of the proposed mixture and move to the next round. A refused episode changes nothing."""
        checked = check_trajectory(self.simulator, trajectory)
        proposal = self.propose()
        if proposal.reason is Reason.STOP:
            raise Stopped("the run has stopped; no further episode is expected. Start a new learner to explore on")
        if proposal.reason is Reason.HALT:
            raise Halted(HALT_ADVICE)
        growth, ends = self.settings.replan_growth, np.array([0, checked.length])
        if growth > 0.0:
            due = self.hybrid.record(checked, self._planned, growth)
        else:
            self.hybrid.observe(checked)
            due = True
        self.trust.take(checked.states, checked.actions, ends, np.array([proposal.draw() is self.baseline]))
        self._notice_support()
        if due or self.trust.due or self.trust.halted:
            if growth > 0.0:
                self.hybrid.update()
            if self.trust.due:
                self.trust.look(self.hybrid)
            self._plan = _NO_PLAN
        self.round += 1
        self._proposal = None

    def count(
        self,
        states: Indices,
        actions: Indices,
        ends: NDArray[np.int64],
        *,
        of_baseline: NDArray[np.bool_] | None = None,
        at_once: bool = False,
    ) -> None:
        """Take in episodes laid end to end, cut short ones too, also after the stop; see `HybridModel.observe_all`.

        The round stays, and so does the coin of `propose()`: this is for records kept elsewhere, whose episodes were checked
        one by one when they arrived and whose coins are drawn by `coin_of(seed, number)`. `of_baseline` [episodes] says
        which of them the baseline made; their returns test its margin. With `at_once` nothing is concluded before all of
        them are counted: for a log whose order may have been chosen by its content.
        """
        whole_numbers("states", states, below=self.simulator.num_states, what="states")
        whole_numbers("actions", actions, below=self.simulator.num_actions, what="actions")
        lengths = np.diff(ends)
        fits = ends[0] == 0 and ends[-1] == actions.size and states.size == actions.size + lengths.size
        if not fits or (lengths < 1).any() or (lengths > self.simulator.horizon).any():
            raise InvalidInput(
                f"{states.size} states and {actions.size} actions do not divide into {lengths.size} episodes of "
                f"1 to {self.simulator.horizon} steps; an episode has one state more than actions"
            )
        whose = np.zeros(lengths.size, dtype=np.bool_) if of_baseline is None else np.asarray(of_baseline)
        if whose.shape != lengths.shape or whose.dtype != np.bool_:
            raise InvalidInput(
                f"of_baseline has shape {whose.shape}; give one truth value for each of {lengths.size} episodes"
            )
        first = 0
        while first < lengths.size:
            # The confidence sets are looked at after fixed numbers of samples, whatever the batches in which these come.
            last = lengths.size if at_once else first + self.trust.episodes_until_due(ends[first:])
            offset = int(ends[first])
            part = states[offset + first :], actions[offset:], ends[first : last + 1] - offset
            if at_once:
                self.hybrid.record_all(*part)
            else:
                self.hybrid.observe_all(*part)
            if at_once and whose.all():
                self.trust.take_log(*part)
            else:
                self.trust.take(*part, whose[first:last])
            self._notice_support()
            if self.trust.due:
                self.trust.look(self.hybrid)
            first = last
        self._plan, self._proposal = _NO_PLAN, None

    def leave_model(self, states: Sequence[int], actions: Sequence[int], *, of_baseline: bool = False) -> None:
        """An episode went where the model has no state: after `states` [n + 1] and `actions` [n + 1], if it began at all.

        Its n transitions are counted and the round is over. The model is wrong there, so nothing is certified from now on
        and only the baseline is proposed; forgetting such episodes instead would leave the others a biased sample.
        """
        self._count_prefix(states, actions[:-1], of_baseline)
        # An episode that began elsewhere contradicts the start, which has no row: the first one of the start stands for it.
        begun = (len(actions) - 1, states[-1], actions[-1]) if actions else (0, int(np.argmax(self.simulator.start)), 0)
        self.hybrid.refute(*begun)
        self.trust.leave()
        self.round += 1
        self._plan, self._proposal = _NO_PLAN, None

    def announce_departures(self, episodes: int) -> None:
        """So many `episodes` are known to have left the model, counted or not: what they refute does not wait for its turn.

        For records kept elsewhere, in which an episode may have to wait before it is counted.
        """
        if episodes:
            self.hybrid.departed = max(self.hybrid.departed, episodes)
            self.trust.leave()

    def cut_short(self, states: Sequence[int], actions: Sequence[int], cause: str, *, of_baseline: bool = False) -> None:
        """An episode was cut short after `states` [n + 1] and `actions` [n] by a fault that says nothing about the system.

        Its n transitions are counted and the round is over. That `cause` had nothing to do with what would have happened
        next is the user's word: certificates name it as an assumption.
        """
        self._count_prefix(states, actions, of_baseline)
        self._faults[cause] = self._faults.get(cause, 0) + 1
        self.round += 1
        self._plan, self._proposal = _NO_PLAN, None

    def _count_prefix(self, states: Sequence[int], actions: Sequence[int], of_baseline: bool) -> None:
        if actions:
            seen = np.asarray(states, dtype=np.uint32), np.asarray(actions, dtype=np.uint32)
            self.count(*seen, np.array([0, len(actions)]), of_baseline=np.array([of_baseline]))
        else:  # left out of the returns, it would make them a sample chosen by outcome: all that nobody saw was perfect
            nothing = np.zeros(1, dtype=np.uint32), np.zeros(0, dtype=np.uint32), np.array([0, 0])
            self.trust.take(*nothing, np.array([of_baseline]))

    @property
    def trusted(self) -> Floats:
        """[K] what the baseline's V_c is at least: the threshold and the margin, as stated or as proved by the data.

        Once a margin is refuted nothing is certain of it.
        """
        if self.trust.halted:
            return np.zeros(self.simulator.num_constraints)
        return np.asarray(self.simulator.thresholds + self.usable_margins)

    @property
    def usable_margins(self) -> Floats:
        """[K] the margins as stated, or as proved by the data where that is more and nothing is refuted."""
        is_tested = self.settings.algorithm.keeps_safe and not self._is_refuted()
        return self.trust.margins if is_tested else self.margins

    @property
    def pending(self) -> tuple[int, float, float]:
        """(reason, Delta, alpha) of the plan that stands, for compiled code; (-1, 0, 0) when another is due."""
        self._notice_refutation()
        return self._plan

    def advance(self, rounds: int, plan: tuple[int, float, float]) -> None:
        """Take over `rounds` rounds that compiled code has run on this learner's own state, and the plan that stands."""
        self.hybrid.counts.episodes += rounds
        self.hybrid.make_room()
        self._refuted = self._is_refuted()  # compiled code plans anew when it sees that
        self.round += rounds
        self._plan, self._proposal = plan, None

    def _is_refuted(self) -> bool:
        if self.trust.left or self.trust.halted:  # whatever the radius is worth
            return True
        return self.settings.certified and bool(self.hybrid.belief.refuted.any())

    def _notice_support(self) -> None:
        if self.hybrid.outside_support:
            self.trust.leave()

    def _notice_refutation(self) -> None:
        """Whatever refuted an assumption, and wherever it was counted: no plan made before that is handed out after it."""
        if not self._refuted and self._is_refuted():
            self._plan, self._proposal, self._refuted = _NO_PLAN, None, True

    def estimate(self, policy: Policy) -> Floats:
        """V_c [K] of a policy on the current hybrid model."""
        return constraint_values(self.simulator.with_kernel(self.hybrid.view()), policy)

    @property
    def spans(self) -> Floats:
        """What the bonus is multiplied by at each step [H], or [1] where that is 1 at all of them."""
        return np.asarray(self._terms.spans)

    @property
    def balls(self) -> TVBalls:
        """The hybrid model with the distances within which the real rows lie, until the next episode is counted."""
        hybrid = self.hybrid
        return TVBalls(self.simulator.with_kernel(hybrid.view()), hybrid.belief.gap, hybrid.reach)

    def lower_bounds(self, policy: Mixture, uncertainty: float) -> Floats:
        """What is certain of V_c [K] of a policy; Delta, the `uncertainty`, speaks of policies feasible on the model."""
        estimate = self.estimate(policy)
        feasible = bool((estimate >= self.simulator.thresholds - _ROUNDING).all())
        bounds = estimate - uncertainty if feasible else np.full(estimate.shape, -np.inf)
        return np.maximum(bounds, self.balls.worst_constraints(policy)) if self.settings.robust_safety else bounds

    def plan(self, reward: ArrayLike) -> Plan:
        """A policy for `reward` in [0, 1], certified feasible, with a bound on what it may miss: at any round.

        After the stop of a run with the paper's settings it is pi^out: thresholds raised by tau (Line 17), within
        2 H tau / xi + 2 tau of the best. Otherwise it is the best of several by its worst case (`best_certified`).
        """
        rewards = step_utilities(
            "reward",
            finite_floats("reward", reward),
            horizon=self.simulator.horizon,
            num_states=self.simulator.num_states,
            num_actions=self.simulator.num_actions,
            unit_interval=True,
        )
        if self.settings.replan_growth > 0.0:
            before = int(self.hybrid.belief.suspect.sum())
            self.hybrid.update()  # episodes may have been counted since the last plan
            if int(self.hybrid.belief.suspect.sum()) != before:
                # A cleared row can no longer grow, so the next round must not wait for it.
                self._plan, self._proposal = _NO_PLAN, None
        if self._is_refuted():
            return self._baseline_plan()
        stopped = self.propose().reason is Reason.STOP
        if stopped and not self.settings.robust_safety:
            return self._paper_plan(rewards)
        tau = self.settings.tolerance
        balls = self.balls
        best, upper = best_certified(balls, rewards, baseline=self.baseline, margins=self.usable_margins, tolerance=tau)
        return Plan(
            solution=best.solution,
            policy=best.policy,
            value=best.value,
            bound=max(upper, best.value),
            suboptimality=max(0.0, upper - best.value),
            certificate=self.certify(best.lower_bounds, self.simulator.thresholds),
        )

    def _baseline_plan(self) -> Plan:
        """When an assumption is refuted the balls are worth nothing; the baseline rests on its margin alone."""
        horizon = float(self.simulator.horizon)
        return Plan(
            solution=None,
            policy=Mixture.of([1.0], [self.baseline]),
            value=0.0,
            bound=horizon,
            suboptimality=horizon,
            certificate=self.certify(self.trusted, self.simulator.thresholds),
        )

    def _paper_plan(self, rewards: Floats) -> Plan:
        tau, horizon = self.settings.tolerance, self.simulator.horizon
        objective = rewards[0] if len(rewards) == 1 else rewards
        tightened = np.minimum(self.simulator.thresholds + tau, horizon)
        solution = solve(self.simulator.with_kernel(self.hybrid.to_kernel()).with_thresholds(tightened), objective)
        margin = float(self.margins.min(initial=float(horizon)))
        feasible = solution.is_feasible
        text = "no policy meets the tightened thresholds on the learnt model"
        doubts = [] if feasible else [Doubt(DoubtCode.NO_FEASIBLE_PLAN, text)]
        bounded = feasible and tau <= margin / 4.0
        missed = accuracy_of(tau, horizon, margin) + max(0.0, solution.bound - solution.value) if bounded else np.inf
        value = max(0.0, solution.value - tau)
        return Plan(
            solution=solution,
            policy=solution.policy,
            value=value,
            bound=min(float(horizon), value + missed),
            suboptimality=missed,
            certificate=self.certify(solution.constraint_values - tau, self.simulator.thresholds, doubts),
        )

    def _as_proposal(self, reason: Reason, delta: float, alpha: float) -> Proposal:
        settings, thresholds = self.settings, self._terms.thresholds
        used = np.flatnonzero(self._candidate.weights > 0.0) if reason is Reason.MIXTURE else np.empty(0, dtype=np.int64)
        parts = [
            MarkovPolicy.deterministic(self._candidate.actions[j], num_actions=self.simulator.num_actions) for j in used
        ]
        weights = [alpha * float(self._candidate.weights[j]) for j in used]
        bounds = self.trusted[: thresholds.size]
        if reason is Reason.MIXTURE:
            bounds = alpha * self._candidate.lower + (1.0 - alpha) * bounds
        text = "the exploration ignores the constraints (Algorithm 3)"
        doubts = [] if settings.algorithm.keeps_safe else [Doubt(DoubtCode.CONSTRAINTS_IGNORED, text)]
        nothing = reason in (Reason.STOP, Reason.HALT)
        return Proposal(
            round=self.round,
            reason=reason,
            mixture=None if nothing else Mixture.of([*weights, max(0.0, 1.0 - sum(weights))], [*parts, self.baseline]),
            exploration_weight=alpha,
            uncertainty=delta,
            certificate=None if reason is Reason.STOP else self.certify(bounds, thresholds, doubts),
            coin=coin_of(settings.seed, self.round),
        )

    @property
    def standing(self) -> Standing:
        """What everything that is proposed and planned now is worth."""
        return standing_of(self.doubts())

    def doubts(self) -> tuple[Doubt, ...]:
        """Why nothing here is a guarantee; empty when it is one. Data that refute an assumption are a reason too."""
        return (*self.doubted, *doubts_of(self.settings, self.hybrid, self.trust, self.simulator.labels))

    def assumptions(self) -> tuple[Assumption, ...]:
        """All that this run's guarantee rests on."""
        faults = faults_assumed(self._faults)
        return (*assumptions_of(self.settings, self.hybrid, self.simulator, self.margins), *faults, *self.assumed)

    def certify(self, bounds: Floats, thresholds: Floats, doubts: Sequence[Doubt] = ()) -> Certificate:
        """Lower bounds [K] on V_c with all that this run assumes, and with the reasons why it is no guarantee, if any."""
        return Certificate(
            lower_bounds=np.array(bounds),
            thresholds=np.array(thresholds),
            assumptions=self.assumptions(),
            doubts=(*doubts, *self.doubts()),
        )


def _known_rows(known: ArrayLike | None, simulator: CMDP) -> NDArray[np.bool_]:
    kernel = simulator.kernel
    shape = (kernel.num_states, kernel.num_actions)
    shape = shape if kernel.horizon is None else (kernel.horizon, *shape)  # type: ignore[assignment]
    given = np.zeros(shape, dtype=np.bool_) if known is None else np.asarray(known)
    if given.shape != shape or given.dtype != np.bool_:
        raise InvalidInput(f"known has shape {given.shape} and type {given.dtype}; give booleans of shape {shape}")
    return given.reshape(-1).copy()
