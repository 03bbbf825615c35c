"""Ask and tell around a problem, its evidence and a method: `propose()` a mixture, `observe()` its episode."""

from __future__ import annotations

import hashlib
import logging
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from safe2real.errors import Halted, InvalidInput, Stopped
from safe2real.evidence.evidence import Evidence
from safe2real.evidence.mismatch_map import MismatchMap, map_mismatch
from safe2real.evidence.moments import Moment, Moments
from safe2real.exploration.certificate import Certificate, certify
from safe2real.exploration.decision_state import put_decision, put_memory, take_decision, take_memory
from safe2real.exploration.episode_log import ImportedLogs, count_in_order, pairs_of, seen_in
from safe2real.exploration.plan import KeptPlans, Origin, Plan, checked_reward, improved, plan, plan_under_ties
from safe2real.exploration.proposal import HALT_ADVICE, Proposal, coin_of
from safe2real.methods import ALL
from safe2real.methods.base import Decision, Interval, Method, Reason
from safe2real.methods.document import document_of, problem_and_method, settings_of
from safe2real.methods.for_rewards import guess_of, redeclared
from safe2real.methods.sim_to_real import SimToReal
from safe2real.methods.trial import Trial
from safe2real.model.archive import Archive
from safe2real.model.cmdp import CMDP, without_steps
from safe2real.model.constraint_text import count
from safe2real.model.environment_seeds import EnvironmentSeeds, entropy_of, refuse_repeated
from safe2real.model.policy import MarkovPolicy, carried_out
from safe2real.model.serialization import ANY_EPISODE, Extensions, check_keys, named_from_json, named_to_json, to_text
from safe2real.model.trajectory import Trajectory, check_actions, check_trajectory
from safe2real.model.validation import Floats, Indices, checked_name, frozen, positive_integer, seed_number
from safe2real.problem.document import without_words
from safe2real.problem.problem import Problem
from safe2real.problem.settings import Settings
from safe2real.progress import Report, progress_bar
from safe2real.standing import Assumption, AssumptionCode, Doubt, DoubtCode, Standing, standing_of
from safe2real.version import __version__

_KIND, _FORMAT = "learner", 1  # of a file
_LOG = logging.getLogger("safe2real")

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class _EvidenceState(NamedTuple):
    """The evidence on which a cached decision depends: it is valid until one of these changes."""

    episodes: int  # counted
    halted: bool  # the data refute the baseline's margin
    refuted: bool  # the data refute an assumption


class Learner:
    """Holds a problem, its evidence and a method; decides nothing itself.

    One round is `propose`, an episode of `propose().draw()` on the real system, and `observe`. Episodes enter by two doors:
    `observe`, `cut_short` and `leave_model` count the episode of this round, and `episode_log.count_in_order` counts
    records, for the imports here as for a campaign's replay.

    Guarantee: that of the method; for the default, with probability at least 1 - delta every proposed mixture meets every
    constraint on the real system, and every plan is certified feasible, for every reward, at any time.

    Example:
        >>> learner = s2r.Learner(s2r.Problem(system.model, baseline, settings))
        >>> policy = learner.propose().draw()  # run it on the real system, then
        >>> learner.observe(s2r.Trajectory.of(system.model, states, actions))
        >>> learner.plan(reward).certificate.describe()
    """

    def __init__(
        self, problem: Problem, method: Method | None = None, *, warm_start: bool = True, trust_margin: bool = False
    ) -> None:
        """Begin a run without data; refuse problems for which no guarantee can hold.

        Args:
            problem: simulator, baseline, settings and assumptions.
            method: chooses the deployments; `methods.SimToReal()` by default.
            warm_start: plan each round from the policies of the last, which is faster; without it a proposal is a function
                of the data alone, bit for bit, and not of earlier proposals.
            trust_margin: whether the baseline's margin stands though the simulator does not show it. The margin is a claim
                about the real system, which may be better than the simulator: say so if rollouts show it. Without it a
                baseline that misses its stated margin on the simulator is refused, as `Campaign.create` does. A method that
                ignores the constraints needs no margin.

        Raises:
            InvalidInput: with the place, the value and the cure.
        """
        if not isinstance(problem, Problem):
            raise InvalidInput(f"problem is a {type(problem).__name__}; give Problem(simulator, baseline, settings)")
        method = SimToReal() if method is None else _checked_method(method)
        if method.keeps_safe and not trust_margin:
            problem.refuse_lost_margin()
        self._problem, self.method, self.warm_start = problem, method, warm_start
        self.evidence: Evidence = method.evidence(problem)
        stated = (problem, method.reuses_simulator, method.keeps_safe)
        if (self.evidence.problem, self.evidence.reuses_simulator, self.evidence.keeps_safe) != stated:
            raise InvalidInput(f"the evidence of the method {method.name!r} is of another problem, or not as it states")
        self.round = 1
        # Of the environments that `explore` runs in. Every problem and method has a stream of its own: a simulator may have
        # been fitted to another learner's episodes, and the policy of a trial may know other trials.
        self.seeds = EnvironmentSeeds(entropy_of(problem.settings.seed), lambda: _stated_in(problem, method))
        self._decision: Decision | None = None  # the one that stands
        self._decided_on = self._evidence_state()  # when it was made or confirmed
        self._planned = np.zeros_like(self.evidence.counts.tally.visits)  # visits when it was made
        self._memory: Any = None  # of the last decision
        self._proposal: Proposal | None = None  # the decision as a proposal of this round
        self._out: Proposal | None = None  # the last proposal that this round handed out
        self._kept = KeptPlans()  # earlier certified plans; proposals do not use them
        self._imported = ImportedLogs()
        self.moments = Moments()  # uncertainty and suspects at each decision: for pictures

    @property
    def problem(self) -> Problem:
        """Simulator, baseline, settings and assumptions; fixed for the learner's lifetime."""
        return self._problem

    @property
    def settings(self) -> Settings:
        """The problem's settings."""
        return self.problem.settings

    @property
    def simulator(self) -> CMDP:
        """The problem's simulator, with its constraints."""
        return self.problem.simulator

    @property
    def baseline(self) -> MarkovPolicy:
        """The problem's trusted policy."""
        return self.problem.baseline

    @property
    def samples(self) -> int:
        """State-action pairs sampled from the real system so far."""
        return self.evidence.samples

    def __repr__(self) -> str:
        seed = f", environment seed {self.seeds.entropy}" if self.seeds.used else ""
        return f"Learner({self.method}, round {self.round}, {count(self.samples, 'sample')}, {self.standing}{seed})"

    # Asking

    def propose(self) -> Proposal:
        """Return the proposal of this round.

        Returns:
            The mixture with its certificate; before `observe` the same object again, unless data refute it meanwhile.

        Raises:
            InvalidInput: the method proposes what its own bounds do not cover.
        """
        decision = self.decide()
        if self._proposal is None:
            self._proposal = self._as_proposal(decision)
        self._out = self._proposal
        return self._proposal

    def decide(self) -> Decision:
        """Return the method's decision on the present evidence.

        Returns:
            The decision; the same until the evidence changes.
        """
        self._drop_outdated()
        if self._decision is None:
            self._decision = self._decided_anew()
        return self._decision

    def _decided_anew(self) -> Decision:
        """Return the method's decision; once an assumption is refuted, its bounds are invalid and it is not asked."""
        if self._decided_on.halted or self._decided_on.refuted:
            return Decision(Reason.HALT if self._decided_on.halted else Reason.BASELINE)
        memory = self._memory if self.warm_start else None
        decision = self.method.propose(
            self.problem, self.evidence, seed=self.settings.coin_seed, round_number=self.round, memory=memory
        )
        checked, self._memory = self._checked(decision), decision.memory
        self._planned[:] = self.evidence.counts.tally.visits
        self.moments.note(self._moment(decision.uncertainty, decision.intervals))
        if decision.notice:
            _LOG.warning("after %d samples: %s", self.samples, decision.notice)
        if decision.reason is Reason.STOP:
            _LOG.info("stopped after %d samples, at the uncertainty %.4g", self.samples, decision.uncertainty)
        return checked

    def _checked(self, decision: Decision) -> Decision:
        """Check a method's decision; a mixture without a share of the candidate is the baseline alone."""
        if decision.reason is not Reason.MIXTURE:
            return decision
        if decision.lower_bounds.shape != (self.evidence.kept,) or any(one is self.baseline for one in decision.policies):
            raise InvalidInput(
                f"the method {self.method.name!r} gives {decision.lower_bounds.size} lower bounds for {self.evidence.kept} "
                "constraints, or the baseline as a part of its candidate; give one for each, and leave the baseline out: "
                "its share is 1 - exploration_weight"
            )
        nothing = decision.exploration_weight == 0.0  # of the candidate is paid for: the baseline alone
        kept = ("uncertainty", "memory", "intervals", "notice")
        return Decision(Reason.BASELINE, **{name: getattr(decision, name) for name in kept}) if nothing else decision

    @property
    def stopped(self) -> bool:
        """Whether the method has reached its goal."""
        return self.decide().reason is Reason.STOP

    def _as_proposal(self, decision: Decision) -> Proposal:
        alpha, kept, evidence = decision.exploration_weight, self.evidence.kept, self.evidence
        bounds = evidence.trusted[:kept]
        if decision.reason is Reason.MIXTURE:
            bounds = alpha * decision.lower_bounds + (1.0 - alpha) * bounds
        certificate = None
        if decision.reason is not Reason.STOP:
            thresholds = self.simulator.thresholds[:kept]
            certificate = self.certify(bounds, thresholds=thresholds)
        if decision.reason is Reason.MIXTURE and certificate is not None and not certificate.reaches:
            raise InvalidInput(
                f"the method {self.method.name!r} proposes a mixture that its own bounds do not cover, so it is not handed "
                f"out: {certificate.describe(width=None)}"
            )
        return Proposal(
            round=self.round,
            reason=decision.reason,
            mixture=decision.mixture(self.baseline),
            exploration_weight=alpha,
            uncertainty=decision.uncertainty,
            certificate=certificate,
            coin=coin_of(self.settings.coin_seed, self.round),
            intervals=decision.intervals,
            stops_at=self.method.stops_at(self.problem) if self.method.tried is None else math.nan,
        )

    # Counting the episode of this round: whole, cut short, gone where the model has no state, or not run

    def observe(self, trajectory: Trajectory) -> None:
        """Count one episode of the drawn policy, `propose().draw()`, and move to the next round.

        Args:
            trajectory: `model.steps` actions and one state more, as `Trajectory.of` makes it. It is checked here.

        Raises:
            InvalidInput: the episode is not of this system, or the drawn policy cannot have made it; nothing is changed.
            Conflict: another counted episode had the environment seed of this one; nothing is changed.
            Stopped: the run has stopped.
            Halted: the data refute the baseline's margin.
        """
        checked = check_trajectory(self.simulator, trajectory)
        proposal = self._out or self.propose()  # also if the method was changed since
        if proposal.reason is Reason.STOP:
            raise Stopped("the run has stopped; no further episode is expected. Start a new learner to explore on")
        if proposal.reason is Reason.HALT:
            raise Halted(HALT_ADVICE)
        own = self.method.schedules  # such a method decides itself when to plan again
        planned = self._planned if self.settings.replan_growth > 0.0 and not own else None
        self.seeds.refuse_used(checked.seed)
        due = self.evidence.take(checked, **self._whose(checked), planned=planned)
        self.seeds.note(checked.seed)
        state = self._evidence_state()
        if own and not state.refuted:
            due = self.method.is_due(self.evidence, self._planned, self._memory)
        if due or state.refuted:
            self._drop_decision(state)
        else:
            self._decided_on = state  # the decision stands
        self._end_round()

    def cut_short(
        self,
        states: Sequence[int],
        actions: Sequence[int],
        cause: str,
        *,
        of_baseline: bool | None = None,
        of_candidate: bool | None = None,
    ) -> None:
        """Count an episode that was cut short by a fault, and move to the next round.

        Args:
            states: [n + 1] that were seen.
            actions: [n]; n may be 0.
            cause: of the fault. Certificates then assume that it is independent of the episode's continuation.
            of_baseline: whether the baseline made it; as `propose()` says if None.
            of_candidate: whether the other policy of the mixture did; as `propose()` says if None.

        Raises:
            InvalidInput: the states or actions are not of this system, or the drawn policy cannot have made them.
        """
        model, begun = self.problem.simulator, len(actions) > 0
        path = seen_in(model, states, actions, partial=True, left_model=False).path if begun else None
        checked_name("cause", cause, 200)
        self.evidence.cut_short(states, actions, cause, **self._whose(path, of_baseline, of_candidate))
        self.skip_round()

    def leave_model(
        self,
        states: Sequence[int],
        actions: Sequence[int],
        *,
        of_baseline: bool | None = None,
        of_candidate: bool | None = None,
    ) -> None:
        """Count an episode that went where the model has no state, and move to the next round; this refutes for good.

        Args:
            states: [n + 1] before it left; none if it began outside.
            actions: [n + 1], the last of which led outside.
            of_baseline: whether the baseline made it; as `propose()` says if None.
            of_candidate: whether the other policy of the mixture did; as `propose()` says if None.

        Raises:
            InvalidInput: the states or actions are not of this system, or the drawn policy cannot have made them.
        """
        path = seen_in(self.problem.simulator, states, actions, partial=True, left_model=True).path
        self.evidence.leave_model(states, actions, **self._whose(path, of_baseline, of_candidate))
        self.skip_round()

    def skip_round(self) -> None:
        """Move to the next round without an episode: the proposal did not run on the system."""
        self._drop_decision()
        self._end_round()

    def _whose(
        self, path: Trajectory | None, of_baseline: bool | None = None, of_candidate: bool | None = None
    ) -> dict[str, bool]:
        """Return whose episode this is, the baseline's or the candidate's; dropping it would bias that sample's mean return.

        Arguments that are None follow from the last proposal, also after a declaration or an import. Refuses a `path` that
        the drawn policy never takes.
        """
        if of_baseline is None or of_candidate is None:
            proposal = self._out or self.propose()
            drawn = None if proposal.mixture is None else proposal.draw()
            if drawn is not None and path is not None and of_baseline is None and of_candidate is None:
                check_actions(drawn, path, f"round {self.round}", _OTHER_POLICY)
            if of_baseline is None:
                of_baseline = drawn is self.problem.baseline and not of_candidate
            if of_candidate is None:
                of_candidate = drawn is not None and not of_baseline
        return {"of_baseline": of_baseline, "of_candidate": of_candidate}

    def _end_round(self) -> None:
        self.round += 1
        self._proposal = self._out = None

    def _evidence_state(self) -> _EvidenceState:
        return _EvidenceState(self.evidence.counts.episodes, self.evidence.trust.halted, self.is_refuted)

    def _drop_outdated(self) -> None:
        """Drop the decision if the evidence has changed since, by any caller."""
        state = self._evidence_state()
        if state != self._decided_on:
            self._drop_decision(state)

    def _drop_decision(self, state: _EvidenceState | None = None) -> None:
        """Ask the method again for the next proposal; log a refutation if a new `state` of the evidence holds one."""
        self._decision = self._proposal = None
        if state is None:
            return
        if state.refuted and not self._decided_on.refuted:
            doubts = "; ".join(map(str, self.doubts()))
            _LOG.warning("after %d samples nothing is certified any more: %s", self.samples, doubts)
        self._decided_on = state

    # Counting records: logs, and episodes kept elsewhere; the round stays

    def count(
        self,
        states: Indices,
        actions: Indices,
        ends: NDArray[np.int64],
        *,
        of_baseline: NDArray[np.bool_] | None = None,
        of_candidate: NDArray[np.bool_] | None = None,
        at_once: bool = False,
    ) -> None:
        """Count concatenated episodes, including partial ones, also after the stop.

        The round stays, and so does the coin of `propose()`: this is for records kept elsewhere, whose episodes were checked
        one by one when they arrived and whose coins are drawn by `coin_of(seed, number)`.

        Args:
            states: [T + N] of N episodes with T actions in all.
            actions: [T].
            ends: [N + 1] where each episode's actions begin, and T.
            of_baseline: [N] which of them the baseline made; none if None.
            of_candidate: [N] which are of the policy that it is mixed with; none if None.
            at_once: whether their order may have been chosen by their content, as in a log: nothing is concluded before all
                of them are counted.

        Raises:
            InvalidInput: the numbers do not divide into episodes of this system, or a policy cannot have made its episode.
        """
        self.evidence.count(states, actions, ends, of_baseline=of_baseline, of_candidate=of_candidate, at_once=at_once)
        self.seeds.branch(*(hashlib.sha256(np.ascontiguousarray(one).data).digest() for one in (states, actions)))
        self._drop_decision()

    def lose(self) -> None:
        """Count an episode of the candidate without any data as the worst case; the round stays."""
        self.evidence.lose()
        self._drop_decision()

    def import_episodes(
        self, policy: MarkovPolicy, episodes: Iterable[Trajectory | Any], *, partial: bool = False, overlap: str = "refuse"
    ) -> int:
        """Count episodes that were collected earlier by a known Markov policy, all or none; the round stays.

        The log is counted as a whole, since its order may have been chosen by its content. Rollouts of the baseline also
        test its margin; those of the policy of `methods.Trial` also raise its floors. As in a campaign, the guarantee then
        assumes that every imported log is complete, and that logs came in the order in which they were collected;
        certificates say so. Where policies were chosen by the logs of others, `import_logs` takes all of them in one step.

        Args:
            policy: collected all of them; every action must be one that it can take.
            episodes: trajectories, or objects {"states": ..., "actions": ...}, which may say "left_model": true and have an
                "id", any text that names the episode in every log.
            partial: whether episodes may have been cut short.
            overlap: "count" says that episodes which look like ones imported before, or like ones that the simulator was
                estimated from, are others; certificates then say so.
                Episodes that this learner observed itself are not compared: do not import those.

        Returns:
            How many episodes were counted.

        Raises:
            Conflict: the environment had the same seed in other counted episodes; or episodes of the same id, or that look
                the same and do not both have one, were imported before; or the simulator was estimated from episodes that
                look the same.
            InvalidInput: an episode is not of this system, or not of this policy.

        Example:
            >>> learner.import_episodes(problem.baseline, rollouts)
        """
        return self.import_logs([(policy, episodes)], partial=partial, overlap=overlap)

    def import_logs(
        self,
        logs: Iterable[tuple[MarkovPolicy, Iterable[Trajectory | Any]]],
        *,
        partial: bool = False,
        overlap: str = "refuse",
    ) -> int:
        """Count the logs of several policies in one step, all or none; the round stays.

        No conclusion is drawn before all of them are counted. So their order does not matter, nor whether a policy was
        chosen by the content of other logs.

        Args:
            logs: (policy, episodes) pairs, each as in `import_episodes`.
            partial: as in `import_episodes`.
            overlap: as in `import_episodes`; logs of one call are compared with each other, too.

        Returns:
            How many episodes were counted.

        Raises:
            Conflict: as in `import_episodes`.
            InvalidInput: as in `import_episodes`; or `logs` holds something else than pairs.

        Example:
            >>> learner.import_logs([(first, its_rollouts), (second, other_rollouts)])
        """
        # They are read twice.
        given = [(policy, list(log) if isinstance(log, Iterable) else log) for policy, log in pairs_of(logs)]
        listed = [one for _, log in given if isinstance(log, list) for one in log]
        seeds = refuse_repeated((one.seed for one in listed if isinstance(one, Trajectory)), self.seeds.used)
        read = self._imported.read(self.problem, self.method.tried, given, partial=partial, overlap=overlap)
        self.seeds.used.update(seeds)
        here, out = self.round, self._out
        count_in_order(self, [read])
        self.round, self._out = here, out  # an episode that is out belongs to the proposal before the import
        return sum(len(log.contents) for log in read)

    # Reading: nothing below changes proposals

    def intervals(self) -> tuple[Interval, ...]:
        """Return certified bounds on the best value of each declared reward, from all counted data.

        Returns:
            An interval for each reward; empty where none is declared.
        """
        return self.method.intervals(self.problem, self.evidence.settled())

    @property
    def standing(self) -> Standing:
        """Standing of all present proposals and plans."""
        return standing_of(self.doubts())

    def doubts(self) -> tuple[Doubt, ...]:
        """Return why nothing here is a guarantee; data that refute an assumption are a reason too.

        Returns:
            The doubts; empty when everything is certified.
        """
        return (*self._ignored, *self.method.doubts(self.evidence))

    @property
    def _ignored(self) -> tuple[Doubt, ...]:
        """The doubt of a method that does not enforce all constraints, else nothing."""
        if self.evidence.kept == self.problem.simulator.num_constraints:
            return ()
        return (Doubt(DoubtCode.CONSTRAINTS_IGNORED, "the exploration ignores the constraints"),)

    @property
    def failure(self) -> float:
        """Upper bound on the probability that any claim of this run is false, if its assumptions are true.

        It is delta, plus the failure probability of an estimated simulator whose rows are reused. The floors of
        `methods.Trial` have a delta of their own beside that of the rows, on which plans rest: 2 delta together.
        """
        own = (2.0 if isinstance(self.method, Trial) else 1.0) * self.problem.settings.delta
        rows = self.problem.estimated if self.evidence.reuses_simulator else None
        return min(1.0, own + (0.0 if rows is None else rows.delta))

    @property
    def is_refuted(self) -> bool:
        """Whether the data contradict an assumption of the proposals: final."""
        return self.method.is_refuted(self.evidence)

    def floors(self) -> dict[str, float]:
        """Return certified bounds for the method's candidate alone, under the assumptions of this learner's certificates.

        Returns:
            By name a lower bound on an expected utility or reward, an upper bound on an expected cost; empty where the
            method has no one candidate.
        """
        return self.method.floors(self.evidence)

    def certify(self, bounds: Floats, doubts: Sequence[Doubt] = (), *, thresholds: Floats | None = None) -> Certificate:
        """Return lower bounds on V_c as a certificate, with the method's assumptions and doubts.

        Args:
            bounds: [K].
            doubts: reasons besides those of the method.
            thresholds: [K]; those of the problem if None.

        Returns:
            A certificate of any standing.
        """
        doubted, assumed = (*self._ignored, *doubts), self._assumed
        return certify(self.evidence, bounds, doubted, thresholds=thresholds, assumed=assumed, method=self.method)

    @property
    def _assumed(self) -> tuple[Assumption, ...]:
        """Assumptions besides those of the evidence: imported logs, and a method from outside the package."""
        found, method = self._imported.assumptions, self.method
        if type(method) in ALL:
            return found
        text = f"the method {method.name!r}, which is from outside the package, bounds what it proposes as it states"
        return (*found, Assumption(AssumptionCode.EXTENSION, text, method.name))

    def plan(self, reward: ArrayLike, *, progress: Report | bool | None = None) -> Plan:
        """Plan for a reward on the present data; proposals do not change.

        Args:
            reward: [S, A], or [H, S, A] where it changes with the step, in [0, 1].
            progress: shows a bar where it takes longer than a second: True always, False never, None on a terminal; or a
                function that is told (steps done, in all).

        Returns:
            A policy that is certified feasible, with a lower bound on its value and an upper bound on that of every feasible
            one. A plan for the same reward that was certified earlier and is worth more is given again.

        Raises:
            InvalidInput: the reward is not of this system.
        """
        reward = without_steps(checked_reward(self.evidence, reward))
        # Only a method of the package that covers any reward proves the paper's bound by its stop.
        ours = type(self.method) in ALL and self.method.covers_any_reward
        stopped = ours and not self.evidence.is_refuted and self.stopped
        with progress_bar("steps of planning", progress) as report:
            found = plan(self.evidence, reward, stopped=stopped, report=report)
        settled = self.evidence.settled()
        for one in self.method.intervals(self.problem, settled):  # the stop rests on these intervals: keep their policies
            if one.is_about(reward):
                found = improved(settled, found, one)
        found = self._kept.better(settled, reward, found)
        return self._complete(found, reward)

    def plan_with_structure(self, reward: ArrayLike) -> Plan:
        """Return the best plan under the stated ties; it is certified only if they are stated to be exact.

        False ties are believed long before the data can object. So a plan of ties that are not called exact becomes a
        guarantee by a trial of that one policy, which needs no model at all. The ties are tested against the data by it, and
        a refutation of them is final; nothing else changes.

        Args:
            reward: [S, A], or [H, S, A] where it changes with the step, in [0, 1].

        Returns:
            A candidate, with bounds that hold if the ties do. Its certificate has the doubt STRUCTURE_UNTESTED, or
            STRUCTURE_REFUTED where the data contradict the ties: then it is the baseline. If no ties are stated, or all are
            exact, it is the plan itself.

        Raises:
            InvalidInput: the reward is not of this system, or not in [0, 1].
        """
        return self._complete(plan_under_ties(self.evidence, reward), reward)

    def _complete(self, found: Plan, reward: ArrayLike) -> Plan:
        """Add the imported logs' assumptions, the origin and the model."""
        problem = self.problem
        origin = Origin(
            reward=frozen(checked_reward(self.evidence, reward)),
            legend=problem.simulator.legend,
            settings=settings_of(problem, self.method),
            samples=self.evidence.samples,
            version=__version__,
        )
        certificate = found.certificate.assuming(self._imported.assumptions)
        policy = carried_out(found.policy, problem.simulator)
        kept = _kept_model(guess_of(self.evidence)) if self.samples else problem.simulator
        return replace(found, policy=policy, certificate=certificate, origin=origin, model=kept)

    @property
    def mismatch_map(self) -> MismatchMap:
        """Bounds on every row's distance from the simulator."""
        return map_mismatch(self.evidence.settled())

    def plot(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """Draw the certified bounds over samples, above the map of where the simulator is wrong.

        Over samples: for `methods.ForRewards` the interval of each declared reward, for `methods.Trial` the floors of the
        policy (which rest on no row, so there is no map), otherwise the uncertainty on its way to the tolerance, with the
        rows that are in doubt. The standing is written above.

        Args:
            path: where to keep it, e.g. "learner.png"; nowhere if None.

        Returns:
            A matplotlib figure; no display is needed.

        Raises:
            MissingExtra: matplotlib is not installed.
            InvalidInput: the path cannot be written.
        """
        from safe2real.plots.learner import draw_learning
        from safe2real.plots.style import kept

        last = list(self.moments)[-1:]
        uncertainty = last[0].uncertainty if last else float("inf")
        now, method, trial = self._moment(uncertainty, self.intervals()), self.method, isinstance(self.method, Trial)
        figure = draw_learning(
            [*(one for one in self.moments if one.samples < now.samples), now],
            self.problem.simulator,
            standing=self.standing,
            tolerance=method.stops_at(self.problem),
            targets=method.target if isinstance(method, Trial) else None,
            found=None if trial else self.mismatch_map,
            separation=self.evidence.separation if self.evidence.reuses_simulator else None,
        )
        return kept(figure, path)

    def _moment(self, uncertainty: float, intervals: Sequence[Interval]) -> Moment:
        """Return the present uncertainty, suspects and bounds."""
        certain = tuple(one.bounds for one in intervals)
        suspects = int(self.evidence.belief.suspect.sum())
        return Moment(self.evidence.samples, uncertainty, suspects, certain, self.method.floors(self.evidence))

    # Directing

    def direct(self, method: Method) -> None:
        """Continue with another method on the same evidence.

        The returns of one policy say nothing about another, so a trial is never replaced, and never a replacement.

        Args:
            method: it reads the data as the present one does.

        Raises:
            InvalidInput: the method does not fit the problem, reads the data in another way, or is another trial.
        """
        _checked_method(method).check(self.problem)
        stated = (method.reuses_simulator, method.keeps_safe)
        if stated != (self.evidence.reuses_simulator, self.evidence.keeps_safe):
            raise InvalidInput(f"the method {method.name!r} reads the data in another way; start a new learner with it")
        other = method.evidence(self.problem)
        if method is not self.method and (self.evidence.goes_by_returns or other.goes_by_returns):
            raise InvalidInput(
                f"the data of a {self.method.name!r} cannot be gone on with by another {method.name!r}: the returns of one "
                "policy's own episodes say nothing about another. Start a new learner with it, Learner(problem, method); a "
                "second trial that shares delta has number=2"
            )
        if type(other) is not type(self.evidence):
            raise InvalidInput(f"the method {method.name!r} keeps other data; start a new learner with it")
        self.seeds.branch(lambda: to_text(named_to_json(method)).encode())
        self.method, self._memory = method, None
        self._drop_decision()

    def declare(self, rewards: Mapping[str, ArrayLike] | None = None, *, drop: Iterable[str] = ()) -> None:
        """Add rewards to those that are explored for, or drop some; only for `methods.ForRewards`.

        After a stop the run goes on if a reward is not accurate yet.

        Args:
            rewards: [S, A] or [H, S, A] in [0, 1], by name.
            drop: names of declared rewards.

        Raises:
            InvalidInput: the method has no declared rewards, or a reward is not of this system.
        """
        self.direct(redeclared(self.method, rewards, drop))

    # Saving: `state` is the one form, of a file as of a campaign's snapshot

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write its `state` to one file that `load_learner` reads, over an older one; nothing is pickled.

        Args:
            path: of the file, e.g. "tuesday.npz".

        Returns:
            The path.

        Raises:
            InvalidInput: an episode is out that was proposed before the run was directed elsewhere, or the evidence is of a
                class from outside the package.
            StorageFailure: the file cannot be written.
        """
        if self._out is not None and self._out is not self._proposal:
            raise InvalidInput("an episode is out that was proposed before the run was directed elsewhere; tell it first")
        return self.state().save(path, format=_FORMAT)

    def state(self, *, of_record: bool = False) -> Archive:
        """Return the learner's state, for `from_state` or `restore`.

        A campaign's snapshot is the state `of_record`, restored into a fresh learner of the campaign's problem and method.
        It is a function of the episodes and logs counted and of their order: method, evidence and imported logs. It leaves
        out the problem, which the record has, and everything that depends on the times of the calls or on batches: the
        current decision, plans, environment seeds, spare room for rows.

        Args:
            of_record: return only the part that the events of a record determine.

        Returns:
            An archive of the kind "learner"; nothing is changed.

        Raises:
            InvalidInput: the evidence is of a class from outside the package.
        """
        archive = Archive(_KIND)
        archive.document = {"revisions": self._revisions(), "round": self.round, "imported": self._imported.state()}
        archive.put_part("evidence", self.evidence.state(of_record=of_record))
        if of_record:
            archive.document["method"] = named_to_json(self.method)
            return archive
        archive.document |= {
            "specification": document_of(self.problem, self.method),
            "warm_start": self.warm_start,
            "environment": {"entropy": self.seeds.entropy, "stream": self.seeds.stream},
        }
        archive.put("environment.used", np.array(sorted(self.seeds.used), dtype=np.int64))
        archive.put_part("kept", self._kept.state())
        decision, memory, planned = self.hand_over()
        put_decision(archive, decision)
        put_memory(archive, memory)
        archive.put("planned", planned)
        return archive

    @classmethod
    def from_state(cls, archive: Archive, *, extensions: Extensions = ()) -> Learner:
        """Return a learner that continues from a whole `state`.

        Args:
            archive: not the state `of_record`, which has no problem.
            extensions: classes of methods and radii from outside the package that it may name.

        Returns:
            A learner that proposes and plans the same, bit for bit.

        Raises:
            InvalidInput: it is the state of something else, of a newer release, or was concluded by a rule that was
                corrected since.
        """
        problem, method = problem_and_method(to_text(archive.entry("specification", dict)), extensions)
        found = cls(problem, method, warm_start=archive.entry("warm_start", bool), trust_margin=True)
        found.restore(archive)
        return found

    def restore(self, archive: Archive) -> None:
        """Continue from the state of a learner of the same problem, or from its counts if the state is `of_record`.

        Args:
            archive: the `state` of the other; this learner must be without data. The method in the state of a record, such
                as one with rewards declared later, replaces this learner's.

        Raises:
            InvalidInput: it is the state of something else, of a newer release, or was concluded by a rule that was
                corrected since; this learner is of no use then.
        """
        if "method" in archive.document:
            method = named_from_json(
                archive.document["method"], f"{archive.name}, method", Method, ALL, (type(self.method),)
            )
            if method is None:
                raise archive.wrong("it names a method that is not known here")
            if named_to_json(method) != named_to_json(self.method):
                self.direct(method)
        self._check_revisions(archive)
        self.evidence.restore(archive.part("evidence"))
        self.round = positive_integer("round", archive.entry("round", int))
        self._imported = ImportedLogs.from_state(archive.entry("imported", dict))
        self._decision = self._memory = self._proposal = self._out = None
        self._decided_on = self._evidence_state()
        if "specification" in archive.document:
            self._restore_decision(archive)

    def _restore_decision(self, archive: Archive) -> None:
        """Restore the rest of a whole state: seeds, plans and the current decision."""
        said = archive.entry("environment", dict)
        entropy, stream = (seed_number(name, said.get(name)) for name in ("entropy", "stream"))
        self.seeds.resume(entropy, stream, set(archive.array("environment.used", np.int64, (None,)).tolist()))
        self._kept = KeptPlans.from_state(archive.part("kept"), self.simulator)
        self._memory = take_memory(archive, self.problem, self.evidence.kept)
        decision = take_decision(archive, self._memory)
        self._decision = None if decision is None else self._checked(decision)
        self._planned[:] = archive.array("planned", np.int64, self._planned.shape)

    def _revisions(self) -> dict[str, int]:
        """Return the revisions of the method, the radius and the refinements, whose conclusions the state holds."""
        bounds = {f"refinement {one.name}": one.revision for one in self.settings.refinements}
        return {"method": self.method.revision, "radius": self.settings.radius.revision} | bounds

    def _check_revisions(self, archive: Archive) -> None:
        """Refuse a state of a newer release, and conclusions of a rule that was corrected since."""
        known = self._revisions()
        written = check_keys(archive.entry("revisions", dict), f"{archive.name}, revisions", required=tuple(known))
        for what, said in written.items():
            if type(said) is not int or said > known[what]:
                raise archive.wrong(f"the {what} is of revision {said!r}, this release has {known[what]}: upgrade it")
            if said < known[what]:
                raise archive.wrong(
                    f"the {what} is of revision {said}, and concludes something else than revision {known[what]} would: "
                    "count the episodes again in a new learner; a campaign keeps them and does that by itself"
                )

    # Compiled rounds

    def hand_over(self) -> tuple[Decision | None, Any, NDArray[np.int64]]:
        """Return the state from which compiled rounds continue; `take_back` ends them.

        Returns:
            (current decision, memory of the last one, visits [R] when it was made).
        """
        self._drop_outdated()
        return self._decision, self._memory, self._planned

    def take_back(self, rounds: int, decision: Decision | None, memory: Any) -> None:
        """Continue after compiled rounds on this learner's evidence.

        Args:
            rounds: how many.
            decision: the current one after them; they replan when due.
            memory: of the last decision.
        """
        self._decided_on = self._evidence_state()
        self.round += rounds
        self._decision, self._memory, self._proposal, self._out = decision, memory, None, None


def _checked_method(given: Any) -> Method:
    if not isinstance(given, Method):
        raise InvalidInput(f"method is {given!r}; give one of safe2real.methods, e.g. methods.SimToReal()")
    return given


def _stated_in(problem: Problem, method: Method) -> bytes:
    """Return the problem and the method, without words, as bytes that differ where anything stated differs."""
    return to_text(without_words(document_of(problem, method))).encode()


_OTHER_POLICY = (
    " Run the policy of propose().draw() for this round; an episode of another policy is counted with "
    "import_episodes(policy, [episode])"
)


def _kept_model(model: CMDP) -> CMDP:
    """Return the model with rows of its own: those of the evidence change with every episode.

    It is marked as fitted to episodes that it does not know, so that no learner takes it for a simulator and counts them.
    """
    rows, marks = model.kernel.compiled_rows, frozen(np.array([ANY_EPISODE], dtype=np.int64))
    own = replace(model.kernel, compiled_rows=type(rows)(*(array.copy() for array in rows)), fitted_to=marks)
    return model.with_kernel(own)


def load_learner(path: str | os.PathLike[str], *, extensions: Extensions = ()) -> Learner:
    """Read the learner that `Learner.save` wrote: it continues, proposes and plans the same, bit for bit.

    A file is no record: its counts cannot be verified, and later observations are not in it.

    Args:
        path: of the file. Reading it never runs code. The file is not signed: trust its certificates as much as its source.
        extensions: classes of methods and radii from outside the package that it may name.

    Returns:
        A learner of its own; the file stays as it is.

    Raises:
        InvalidInput: the file is damaged, was changed, is of another kind or of a newer release, or names a method or a
            radius that is not known here.

    Example:
        >>> learner.save("tuesday.npz")
        >>> learner = s2r.load_learner("tuesday.npz")
    """
    return Learner.from_state(Archive.load(path, _KIND, format=_FORMAT), extensions=extensions)
