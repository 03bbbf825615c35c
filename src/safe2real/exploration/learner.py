"""Ask and tell around a problem, its evidence and a method: `propose()` what to deploy, `observe()` what happened."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from safe2real.errors import Halted, InvalidInput, Stopped
from safe2real.evidence.evidence import Evidence
from safe2real.exploration.episode_log import ImportedLogs
from safe2real.exploration.plan_cache import KeptPlans
from safe2real.exploration.proposal import HALT_ADVICE, Proposal
from safe2real.exploration.randomness import coin_of
from safe2real.exploration.told import Telling
from safe2real.figures.history import Moments
from safe2real.methods.base import Decision, Method, Reason
from safe2real.methods.for_rewards import redeclared
from safe2real.methods.sim_to_real import SimToReal
from safe2real.methods.trial import Trial
from safe2real.methods.trial_within import PastTrial, TrialWithin, refuse_within_trial, without_baseline
from safe2real.model.cmdp import CMDP
from safe2real.model.constraint_text import count
from safe2real.model.environment_seeds import EnvironmentSeeds, entropy_of
from safe2real.model.policy import MarkovPolicy, Policy, fitted
from safe2real.model.serialization import to_text
from safe2real.model.trajectory import Trajectory, check_trajectory
from safe2real.model.validation import positive_integer
from safe2real.problem.problem import Problem
from safe2real.problem.settings import Settings

_LOG = logging.getLogger("safe2real")


class Learner(Telling):
    """Holds a problem, its evidence and a method; decides nothing itself.

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
        """Refuses what no guarantee can hold for.

        Args:
            problem: what is given and assumed.
            method: decides what to deploy; `methods.SimToReal()` unless another is given.
            warm_start: plan each round from the policies of the last, which is faster; without it a proposal is a function
                of the data alone, bit for bit, whatever was proposed on the way.
            trust_margin: whether the baseline's margin stands though the simulator does not show it. The margin is a claim
                about the real system, which may be better than the simulator: say so if rollouts show it. Without it a
                baseline that misses its stated margin on the simulator is refused, as `Campaign.create` does. A method that
                ignores the constraints needs no margin.

        Raises:
            InvalidInput: with the place, the value and the cure.
        """
        if not isinstance(problem, Problem):
            raise InvalidInput(f"problem is a {type(problem).__name__}; give Problem(simulator, baseline, settings)")
        method = SimToReal() if method is None else method
        if not isinstance(method, Method):
            raise InvalidInput(f"method is {method!r}; give one of safe2real.methods, e.g. methods.SimToReal()")
        if isinstance(method, TrialWithin):
            raise InvalidInput("a trial within a run begins with begin_trial(policy, delta=...); give its base method here")
        problem.check()
        if method.keeps_safe and not trust_margin:
            problem.refuse_lost_margin()
        self._problem, self.method, self.warm_start = problem, method, warm_start
        self.evidence: Evidence = method.evidence(problem)
        stated = (problem, method.reuses_simulator, method.keeps_safe)
        if (self.evidence.problem, self.evidence.reuses_simulator, self.evidence.keeps_safe) != stated:
            raise InvalidInput(f"the evidence of the method {method.name!r} is of another problem, or not as it states")
        self.round = 1
        # Of the environments that `explore` runs in. A trial has a stream of its own: its policy may know other trials.
        beside = (to_text(method.to_parameters()).encode(),) if isinstance(method, Trial) else ()
        self.seeds = EnvironmentSeeds(entropy_of(problem.settings.seed), *beside)
        self._decision: Decision | None = None  # the one that stands
        self._memory: Any = None  # of the last one
        self._proposal: Proposal | None = None
        self._out: tuple[Proposal, int] | None = None  # what was handed out last in this round, and for which trial
        self._kept = KeptPlans()  # what was planned and certified before; proposals do not look at it
        self._knew = self._state()  # of the evidence, when the decision that stands was made or left standing
        self._planned = np.zeros_like(self.evidence.counts.tally.visits)  # visits when it was made
        self._imported = ImportedLogs()
        self.moments = Moments()  # what was known when decisions were made: for pictures
        self.trials: tuple[PastTrial, ...] = ()  # within this run, the running one last

    @property
    def problem(self) -> Problem:
        """What is given and assumed; another one needs a new learner."""
        return self._problem

    @property
    def settings(self) -> Settings:
        """Those of its problem."""
        return self.problem.settings

    @property
    def simulator(self) -> CMDP:
        """That of its problem."""
        return self.problem.simulator

    @property
    def baseline(self) -> MarkovPolicy:
        """That of its problem."""
        return self.problem.baseline

    @property
    def samples(self) -> int:
        """State-action pairs sampled from the real system so far."""
        return self.evidence.samples

    # Asking

    def propose(self) -> Proposal:
        """What to deploy in this round; asking again before `observe` gives the same object, unless data refute it."""
        self._notice()
        if self._proposal is None:
            self._proposal = self._as_proposal(self.decide())
        self._out = self._proposal, self.decide().tries
        return self._proposal

    def decide(self) -> Decision:
        """What the method decides on the evidence as it is; the same until that changes."""
        self._notice()
        if self._decision is None:
            self._decision = self._over()  # once what its bounds rest on is refuted no method is asked
        if self._decision is None:
            memory = self._memory if self.warm_start else None
            decision = self.method.propose(
                self.problem, self.evidence, seed=self.settings.coin_seed, round_number=self.round, memory=memory
            )
            self._decision = self._checked(decision)
            self._memory = decision.memory
            self._planned[:] = self.evidence.counts.tally.visits
            self.moments.note(self._moment(decision.uncertainty, decision.intervals))
            if decision.notice:
                _LOG.warning("after %d samples: %s", self.samples, decision.notice)
            if self._decision.reason is Reason.STOP:
                _LOG.info("stopped after %d samples, at the uncertainty %.4g", self.samples, self._decision.uncertainty)
        return self._decision

    def _over(self) -> Decision | None:
        """What is left to deploy once the data refute an assumption: nothing at all, or the baseline alone."""
        if self.evidence.trust.halted:
            return Decision(Reason.HALT)
        return Decision(Reason.BASELINE) if self.is_refuted else None

    def _checked(self, decision: Decision) -> Decision:
        """What a method gives, as this learner can deploy it."""
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
        """Whether the method has what it was after."""
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
        )

    # Telling

    def observe(self, trajectory: Trajectory) -> None:
        """Take in one episode of the drawn policy, `propose().draw()`, and move to the next round.

        Raises:
            InvalidInput: the episode is not of this system, or the drawn policy cannot have made it; nothing is changed.
            Conflict: another counted episode had the environment seed of this one; nothing is changed.
            Stopped: the run has stopped.
            Halted: the data refute the baseline's margin.
        """
        checked = check_trajectory(self.simulator, trajectory)
        proposal = self.propose() if self._out is None else self._out[0]  # whatever was directed since it was handed out
        if proposal.reason is Reason.STOP:
            raise Stopped("the run has stopped; no further episode is expected. Start a new learner to explore on")
        if proposal.reason is Reason.HALT:
            raise Halted(HALT_ADVICE)
        own = self.method.schedules  # it says itself when it is to be asked again
        planned = self._planned if self.settings.replan_growth > 0.0 and not own else None
        self.seeds.refuse_used(checked.seed)
        due = self.evidence.take(checked, **self._whose(checked), planned=planned)
        self.seeds.note(checked.seed)
        if own and not self.is_refuted:
            due = self.method.is_due(self.evidence, self._planned, self._memory)
        if due:
            self._notice()
            self._decision = None
        elif not self.is_refuted:
            self._knew = self._state()  # the plan stands
        self.round += 1
        self._proposal = self._out = None

    def _state(self) -> tuple[int, bool, bool]:
        """What a decision is made on: (episodes counted, whether the margin is refuted, whether any assumption is)."""
        return self.evidence.counts.episodes, self.evidence.trust.halted, self.is_refuted

    def _notice(self) -> None:
        """Whatever was counted, and by whom: no decision made before it stands after it."""
        state = self._state()
        if state == self._knew:
            return
        if state[2] and not self._knew[2]:
            doubts = "; ".join(map(str, self.doubts()))
            _LOG.warning("after %d samples nothing is certified any more: %s", self.samples, doubts)
        self._decision, self._proposal, self._knew = None, None, state

    # Compiled rounds

    def hand_over(self) -> tuple[Decision | None, Any, NDArray[np.int64]]:
        """(the decision that stands, the memory of the last one, visits when it was made) for rounds that run elsewhere."""
        self._notice()
        return self._decision, self._memory, self._planned

    def take_back(self, rounds: int, decision: Decision | None, memory: Any) -> None:
        """Go on after `rounds` rounds that were run elsewhere on this learner's own evidence."""
        self._knew = self._state()  # whoever ran them plans anew when that is due
        self.round += rounds
        self._decision, self._memory, self._proposal, self._out = decision, memory, None, None

    # Keeping

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write all that it holds to one file that `load_learner` reads; nothing is pickled, and nothing is changed."""
        from safe2real.exploration.learner_files import save_learner  # which makes learners

        if self._out is not None and self._out[0] is not self._proposal:
            raise InvalidInput("an episode is out that was proposed before the run was directed elsewhere; tell it first")

        return save_learner(self, path)

    def resume(self, round_number: int, decision: Decision | None, memory: Any, planned: NDArray[np.int64]) -> None:
        """Stand where another has stood, whose evidence this is: in its round, with its decision, if one stood."""
        self.round = positive_integer("round", round_number)
        self._decision, self._memory, self._proposal = None if decision is None else self._checked(decision), memory, None
        self._planned[:] = planned
        self._knew = self._state()

    # Directing

    def direct(self, method: Method) -> None:
        """Go on with another method on the same evidence: what was learnt stays, what is proposed next may be another.

        What was kept of the returns of one policy says nothing about another, so a trial is never directed, nor directed to.

        Raises:
            InvalidInput: the method does not fit the problem, reads the data in another way, or is another trial.
        """
        if not isinstance(method, Method):
            raise InvalidInput(f"method is {method!r}; give one of safe2real.methods, e.g. methods.SimToReal()")
        refuse_within_trial(self.method)
        method.check(self.problem)
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
        self.method, self._memory = method, None
        self._decision = self._proposal = None

    def declare(self, rewards: Mapping[str, ArrayLike] | None = None, *, drop: Iterable[str] = ()) -> None:
        """Add rewards to those that are explored for, or drop some; only for `methods.ForRewards`.

        After a stop the run goes on if a reward is not accurate yet.
        """
        refuse_within_trial(self.method)
        self.direct(redeclared(self.method, rewards, drop))

    # Trials within the run

    def begin_trial(
        self,
        policy: Policy,
        *,
        delta: float,
        rewards: Mapping[str, ArrayLike] | None = None,
        target: Mapping[str, float] | None = None,
    ) -> None:
        """Put one policy on trial within this run: from now on it is what is proposed, as far as its own returns allow.

        Once the floors reach their targets the method goes on; `end_trial` ends it in any case, and has to be called before
        another begins. Its episodes count for the rows as all others do. An episode that is out stays what it was proposed
        for. `floors` says what is certain of the policy.

        Args:
            policy: a Markov policy or a mixture, such as `plan.policy`; a share of the baseline in it is left out.
            delta: how likely a floor may ever be false, IN ADDITION to the problem's delta.
            rewards: [S, A] or [H, S, A] in [0, 1] by name; each gets a floor of its own.
            target: by the name of a constraint or reward the floor at which the trial is over.

        Raises:
            InvalidInput: the method is a trial itself or ignores constraints, another trial runs, or something does not fit.
        """
        trial = Trial(without_baseline(fitted(policy, self.simulator), self.baseline), rewards, len(self.trials) + 1, target)
        self.try_out(TrialWithin(self.method, trial, delta))

    def try_out(self, within: TrialWithin) -> None:
        """Begin a trial that was put together; see `begin_trial`."""
        if within.base is not self.method:
            raise InvalidInput(f"the trial is within {within.base.name!r}, and this run goes by {self.method.name!r}")
        if within.trial.number != len(self.trials) + 1:
            raise InvalidInput(f"the trial has the number {within.trial.number}; the next here is {len(self.trials) + 1}")
        returns = within.returns(self.problem)
        self.method, self.evidence.returns, self._memory = within, returns, None
        self.trials = (*self.trials, PastTrial(within, returns))
        self._decision = self._proposal = None

    def end_trial(self) -> dict[str, float]:
        """Go on with the method; returns the floors of the trial, which stay true.

        Raises:
            InvalidInput: no trial runs within this run.
        """
        if not isinstance(self.method, TrialWithin):
            raise InvalidInput("no trial is running within this run; begin one with begin_trial(policy, delta=...)")
        self.method, self.evidence.returns, self._memory = self.method.base, None, None
        self._decision = self._proposal = None
        return self.trials[-1].returns.floors

    def __repr__(self) -> str:
        seed = f", environment seed {self.seeds.entropy}" if self.seeds.used else ""
        return f"Learner({self.method}, round {self.round}, {count(self.samples, 'sample')}, {self.standing}{seed})"
