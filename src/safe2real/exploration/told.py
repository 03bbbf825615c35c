"""What a learner can be told besides whole episodes of the round: batches, faults, losses, logs."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safe2real.exploration.episode_log import pairs_of, play, seen_in
from safe2real.exploration.looking import Looking
from safe2real.exploration.proposal import Proposal
from safe2real.methods.base import Decision
from safe2real.methods.trial_within import running_trial
from safe2real.model.environment_seeds import EnvironmentSeeds, refuse_repeated
from safe2real.model.policy import MarkovPolicy
from safe2real.model.trajectory import Trajectory, check_actions
from safe2real.model.validation import Indices

_OTHER_POLICY = (
    " Run the policy of propose().draw() for this round; an episode of another policy is counted with "
    "import_episodes(policy, [episode])"
)


class Telling(Looking):
    """Everything here counts; what it counts for is decided by whose episode it was."""

    round: int
    seeds: EnvironmentSeeds
    _decision: Decision | None
    _proposal: Proposal | None
    _out: tuple[Proposal, int] | None  # what was handed out last in this round, and the number of its trial

    @abstractmethod
    def propose(self) -> Proposal:
        """What to deploy in this round."""

    @abstractmethod
    def decide(self) -> Decision:
        """What the method decides on the evidence as it is."""

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
        """Take in episodes laid end to end, cut short ones too, also after the stop; see `Evidence.count`.

        The round stays, and so does the coin of `propose()`: this is for records kept elsewhere, whose episodes were checked
        one by one when they arrived and whose coins are drawn by `coin_of(seed, number)`.
        """
        self.evidence.count(states, actions, ends, of_baseline=of_baseline, of_candidate=of_candidate, at_once=at_once)
        self.seeds.branch(*(hashlib.sha256(np.ascontiguousarray(one).data).digest() for one in (states, actions)))
        self._decision = self._proposal = None

    def leave_model(
        self,
        states: Sequence[int],
        actions: Sequence[int],
        *,
        of_baseline: bool | None = None,
        of_candidate: bool | None = None,
    ) -> None:
        """An episode went where the model has no state, and the round is over; see `Evidence.leave_model`.

        Whose it was is known from `propose()`, unless that is said.
        """
        path = seen_in(self.problem.simulator, states, actions, partial=True, left_model=True).path
        self.evidence.leave_model(states, actions, **self._whose(path, of_baseline, of_candidate))
        self._next_round()

    def cut_short(
        self,
        states: Sequence[int],
        actions: Sequence[int],
        cause: str,
        *,
        of_baseline: bool | None = None,
        of_candidate: bool | None = None,
    ) -> None:
        """An episode was cut short by a fault, and the round is over; see `Evidence.cut_short`.

        Whose it was is known from `propose()`, unless that is said.
        """
        model, begun = self.problem.simulator, len(actions) > 0
        path = seen_in(model, states, actions, partial=True, left_model=False).path if begun else None
        self.evidence.cut_short(states, actions, cause, **self._whose(path, of_baseline, of_candidate))
        self._next_round()

    def skip_round(self) -> None:
        """Draw anew: what was handed out ran in something else than the system, and nothing of it counts."""
        self._next_round()

    def lose(self) -> None:
        """An episode of the candidate was handed out and nobody saw anything of it; see `Evidence.lose`. The round stays."""
        self.evidence.lose()
        self._decision = self._proposal = None

    def import_episodes(
        self, policy: MarkovPolicy, episodes: Iterable[Trajectory | Any], *, partial: bool = False, overlap: str = "refuse"
    ) -> int:
        """Add episodes that were collected earlier by a known Markov policy, all or none; the round stays.

        The log is counted as a whole, since its order may have been chosen by its content. Rollouts of the baseline also
        test its margin; those of the policy of `methods.Trial` also raise its floors (a log of a policy that is on trial
        within a run counts for the rows alone). As in a campaign, the guarantee assumes from now on that every imported log
        is complete, and that logs came in the order in which they were collected; certificates say so. Where policies were
        chosen by the logs of others, `import_logs` takes all of them in one step.

        Args:
            policy: what collected all of them; every action must be one that it can take.
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
        """Add the logs of several policies in one step, all or none; the round stays.

        Nothing is concluded before all of them are counted. So it does not matter in which order they were collected, nor
        whether a policy was chosen by what the logs of others showed.

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
        entries, number = self._imported.read(self.problem, self.method.tried, given, partial=partial, overlap=overlap)
        self.seeds.used.update(seeds)
        here, out = self.round, self._out
        for entry in entries:
            play(self, entry)
        self.round, self._out = here, out  # an episode that is out is of what was handed out before the log came
        return number

    def _whose(
        self, path: Trajectory | None, of_baseline: bool | None = None, of_candidate: bool | None = None
    ) -> dict[str, bool]:
        """The episode of this round is the baseline's or the candidate's: left out of either, returns would be chosen.

        What is not said follows from what was handed out, whatever was begun, ended or imported since; for the trial that is
        running counts what was handed out for it, and nothing else. Refuses a `path` that the drawn policy never takes.
        """
        if of_baseline is None or of_candidate is None:
            if self._out is None:
                self.propose()
            proposal, tries = self._out if self._out is not None else (None, 0)
            drawn = None if proposal is None or proposal.mixture is None else proposal.draw()
            if drawn is not None and path is not None and of_baseline is None and of_candidate is None:
                check_actions(drawn, path, f"round {self.round}", _OTHER_POLICY)
            if of_baseline is None:
                of_baseline = drawn is self.problem.baseline and not of_candidate
            if of_candidate is None:
                of_candidate = drawn is not None and not of_baseline and tries == (running_trial(self.method) or 0)
        return {"of_baseline": of_baseline, "of_candidate": of_candidate}

    def _next_round(self) -> None:
        self.round += 1
        self._decision = self._proposal = self._out = None
