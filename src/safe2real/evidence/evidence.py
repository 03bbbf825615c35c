"""The data of a run and their consequences: the only part of a run that changes.

`count` and its kin take episodes in; every other method only reads. Evidence is the hybrid model (`hybrid.py`: counts,
radii, suspects) together with the trust in the baseline (`baseline_margin.py`), and what both prove and refute.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safe2real.errors import InvalidInput
from safe2real.evidence.assumptions import assumptions_of, doubts_of
from safe2real.evidence.baseline_margin import BaselineTrust
from safe2real.evidence.hybrid import HybridModel
from safe2real.evidence.mean_bounds import CandidateReturns
from safe2real.evidence.row_rule import StatedRows
from safe2real.model.archive import Archive
from safe2real.model.cmdp import CMDP
from safe2real.model.constraint_text import count
from safe2real.model.policy import Mixture, Policy
from safe2real.model.trajectory import Trajectory, check_episodes_of
from safe2real.model.validation import ROUNDING, Floats, Indices, whole_numbers
from safe2real.planning.evaluate import constraint_values
from safe2real.planning.robust import RowSets
from safe2real.problem.problem import Problem
from safe2real.standing import Assumption, AssumptionCode, Doubt


class Evidence(HybridModel):
    """The counts of one problem, and everything computed from them."""

    def __init__(
        self, problem: Problem, *, reuses_simulator: bool = True, keeps_safe: bool = True, margin_by_sets: bool = True
    ) -> None:
        """Count nothing yet.

        Args:
            problem: the fixed inputs and assumptions.
            reuses_simulator: whether rows are ever cleared.
            keeps_safe: whether margins are tested and used.
            margin_by_sets: whether the confidence sets test the margin and may raise it. Otherwise the returns of the
                baseline alone test it, and the bounds rest on no assumption about rows.
        """
        settings, model = problem.settings, problem.simulator
        stated = StatedRows(problem.known_rows(), problem.support, problem.within_rows())
        super().__init__(model.kernel, model.horizon, settings, stated, reuses_simulator=reuses_simulator)
        self.problem, self.keeps_safe = problem, keeps_safe
        self.stated = problem.margins  # [K]
        self._structured: Any = None  # the last result of `structured`
        self.returns: CandidateReturns | None = None  # of the policy that is on trial, if one is
        self.faults: dict[str, int] = {}  # what cut episodes short, by the user's word: cause -> episodes
        self.trust = BaselineTrust(
            model.with_constraints(self.kept),
            problem.baseline,
            self.stated[: self.kept],
            delta=settings.delta,
            proves=settings.certified and margin_by_sets,
            raises=settings.robust_safety and margin_by_sets,
        )
        if self.trust.due:
            self.trust.look(self)  # declared knowledge may contradict the margin, or prove a larger one, before any data

    def __repr__(self) -> str:
        episodes, samples = count(self.counts.episodes, "episode"), count(self.samples, "sample")
        return f"Evidence({episodes}, {samples}, {count(int(self.suspects.sum()), 'suspect')})"

    # Counting

    def take(
        self,
        trajectory: Trajectory,
        *,
        of_baseline: bool,
        of_candidate: bool = False,
        planned: NDArray[np.int64] | None = None,
    ) -> bool:
        """Count one episode of the policy that was proposed.

        Args:
            trajectory: an episode of the problem's system, checked.
            of_baseline: whether the baseline made it; its return then tests the margin.
            of_candidate: whether the policy made it that is mixed with the baseline.
            planned: [R] visits at the last plan. With them the model is left as it is until a suspect row has been visited
                the fraction `replan_growth` more, an assumption is contradicted, or the baseline is looked at again.

        Returns:
            Whether another plan is due.
        """
        ends, due = np.array([0, trajectory.length]), True
        if planned is None:
            self.observe(trajectory)
        else:
            due = self.record(trajectory, planned, self.problem.settings.replan_growth)
        self.trust.take(trajectory.states, trajectory.actions, ends, np.array([of_baseline]))
        self._notice()
        risen = of_candidate and self.returns is not None and self.returns.take(trajectory.states, trajectory.actions)
        due = due or risen or self.trust.due or self.trust.halted
        if due:
            if planned is not None:
                self.update()
            if self.trust.due:
                self.trust.look(self)
        return due

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
        """Count concatenated episodes, including partial ones.

        Args:
            states: of all episodes; episode i begins at ends[i] + i, and has one state more than actions.
            actions: of all episodes; episode i has actions[ends[i] : ends[i + 1]].
            ends: [episodes + 1] from 0.
            of_baseline: [episodes] which of them the baseline made; their returns test its margin.
            of_candidate: [episodes] which the policy made that is mixed with it: for evidence that goes by their returns.
            at_once: conclude nothing before all are counted: for a log whose order may have been chosen by its content.

        Raises:
            InvalidInput: the arrays are no episodes of the system, or a policy cannot have made one of its episodes; nothing
                is counted.
        """
        model = self.problem.simulator
        whole_numbers("states", states, below=model.num_states, what="states")
        whole_numbers("actions", actions, below=model.num_actions, what="actions")
        lengths = np.diff(ends)
        fits = ends[0] == 0 and ends[-1] == actions.size and states.size == actions.size + lengths.size
        if not fits or (lengths < 1).any() or (lengths > model.steps).any():
            raise InvalidInput(
                f"{states.size} states and {actions.size} actions do not divide into {count(lengths.size, 'episode')} of "
                f"1 to {model.steps} steps; an episode has one state more than actions"
            )
        by_baseline, by_candidate = (
            _one_each(name, given, lengths.size)
            for name, given in (("of_baseline", of_baseline), ("of_candidate", of_candidate))
        )
        check_episodes_of([self.problem.baseline], states, actions, ends, by_baseline)
        if self.returns is not None:
            check_episodes_of(self.returns.policies, states, actions, ends, by_candidate)
        first = 0
        while first < lengths.size:
            # The confidence sets are checked after fixed numbers of samples, independent of the batches.
            last = lengths.size if at_once else first + self.trust.episodes_until_due(ends[first:])
            offset = int(ends[first])
            part = states[offset + first :], actions[offset:], ends[first : last + 1] - offset
            if at_once:
                self.record_all(*part)
                self.trust.take_logs(*part, by_baseline)
            else:
                self.observe_all(*part)
                self.trust.take(*part, by_baseline[first:last])
            self._notice()
            if self.trust.due:
                self.trust.look(self)
            first = last
        if self.returns is not None:
            self.returns.count(states, actions, ends, by_candidate, at_once=at_once)

    def count_prefix(
        self, states: Sequence[int], actions: Sequence[int], *, of_baseline: bool, of_candidate: bool = False
    ) -> None:
        """Count an episode that broke off after n steps; n may be 0.

        Args:
            states: [n + 1] visited.
            actions: [n] taken.
            of_baseline: whether the baseline made it; its return then tests the margin, as if the rest had been perfect.
            of_candidate: whether the candidate made it; its missing steps then count as worth 0.

        Raises:
            InvalidInput: states or actions do not fit the system, or a policy cannot have made the episode.
        """
        if actions:
            seen = np.asarray(states, dtype=np.uint32), np.asarray(actions, dtype=np.uint32)
            ends, by_baseline, by_candidate = np.array([0, len(actions)]), np.array([of_baseline]), np.array([of_candidate])
            self.count(*seen, ends, of_baseline=by_baseline, of_candidate=by_candidate)
        else:  # without it the returns would be a sample chosen by outcome; an unseen episode counts as perfect
            nothing = np.zeros(1, dtype=np.uint32), np.zeros(0, dtype=np.uint32), np.array([0, 0])
            self.trust.take(*nothing, np.array([of_baseline]))
            if of_candidate:
                self.lose()

    def lose(self) -> None:
        """Count an episode of the candidate of which no step was seen: it counts as worth 0, and no row changes."""
        if self.returns is not None:
            self.returns.lose()

    def leave_model(
        self, states: Sequence[int], actions: Sequence[int], *, of_baseline: bool = False, of_candidate: bool = False
    ) -> None:
        """Count an episode that reached a state which the model lacks; from then on nothing is certified.

        Its n transitions are counted, and only the baseline is proposed. Forgetting such episodes instead would leave the
        others a biased sample.

        Args:
            states: [n + 1] visited before it left; empty if it began outside the model.
            actions: [n + 1] taken, the last of which left the model; empty if it began outside.
            of_baseline: whether the baseline made it.
            of_candidate: whether the candidate made it.

        Raises:
            InvalidInput: states or actions do not fit the system, or a policy cannot have made the episode.
        """
        self.count_prefix(states, actions[:-1], of_baseline=of_baseline, of_candidate=of_candidate)
        # An episode that began elsewhere contradicts the start, which has no row: the first one of the start stands for it.
        start = (0, int(np.argmax(self.problem.simulator.start)), 0)
        self.refute(*((len(actions) - 1, states[-1], actions[-1]) if actions else start))
        self.trust.leave()

    def cut_short(
        self,
        states: Sequence[int],
        actions: Sequence[int],
        cause: str,
        *,
        of_baseline: bool = False,
        of_candidate: bool = False,
    ) -> None:
        """Count an episode that was cut short by a fault unrelated to the system.

        Its n transitions are counted. The user states that `cause` is unrelated to the steps that would have followed;
        certificates list that as an assumption.

        Args:
            states: [n + 1] visited.
            actions: [n] taken.
            cause: the fault, in words.
            of_baseline: whether the baseline made it.
            of_candidate: whether the candidate made it.

        Raises:
            InvalidInput: states or actions do not fit the system, or a policy cannot have made the episode.
        """
        self.count_prefix(states, actions, of_baseline=of_baseline, of_candidate=of_candidate)
        self.faults[cause] = self.faults.get(cause, 0) + 1

    def announce(self, *, departures: int, outside_support: int) -> None:
        """Take in refutations by recorded episodes that may not be counted yet.

        For records kept elsewhere, in which an episode may have to wait before it is counted; a refutation does not wait.

        Args:
            departures: episodes of the whole record that left the model.
            outside_support: transitions of the whole record that the declared support rules out.
        """
        if departures:
            self.departed = max(self.departed, departures)
            self.trust.leave()
        self.announced_outside = max(self.announced_outside, outside_support)
        self._notice()

    def take_over(self, episodes: int, *, behind: bool) -> None:
        """Take over episodes that compiled code has counted in this object's arrays.

        Args:
            episodes: how many.
            behind: whether the hybrid model may lack some of them.
        """
        self.counts.episodes += episodes
        self.make_room()
        self.behind = behind

    def _notice(self) -> None:
        """Distrust every bound if a counted or announced episode left the declared support."""
        if self.outside_support or self.announced_outside:
            self.trust.leave()

    # Consequences

    @property
    def runs_compiled(self) -> bool:
        """Whether compiled rounds may run on it; they do not support ties."""
        return True

    @property
    def kept(self) -> int:
        """Number of constraints that must be satisfied: all, or 0 for a method that ignores them."""
        return self.problem.simulator.num_constraints if self.keeps_safe else 0

    @property
    def goes_by_returns(self) -> bool:
        """Whether bounds use the returns of the candidate's episodes; then lost ones must be told too."""
        return self.returns is not None

    @property
    def samples(self) -> int:
        """State-action pairs sampled from the real system so far."""
        return self.counts.samples

    @property
    def is_refuted(self) -> bool:
        """Whether the data contradict an assumption; final. No bound is valid then."""
        if self.trust.left or self.trust.halted:  # whatever the radius is worth
            return True
        return self.problem.settings.certified and bool(self.belief.refuted.any())

    @property
    def margins(self) -> Floats:
        """[K] the baseline's margins as stated, or as proved by the data where that is more and nothing is refuted."""
        return self.trust.margins if self.keeps_safe and not self.is_refuted else self.stated

    @property
    def trusted(self) -> Floats:
        """[K] lower bounds on V_c of the baseline: threshold plus margin; 0 once a margin is refuted."""
        model = self.problem.simulator
        return np.zeros(model.num_constraints) if self.trust.halted else np.asarray(model.thresholds + self.margins)

    @property
    def model(self) -> CMDP:
        """The hybrid model without a copy, until the next episode is counted."""
        return self.problem.simulator.with_kernel(self.view())

    @property
    def sets(self) -> RowSets:
        """The hybrid model with the distances within which the real rows lie, until the next episode is counted."""
        return RowSets(self.model, self.belief.gap, self.reach, self.belief.divergence)

    def settled(self) -> Evidence:
        """Return evidence whose hybrid model includes every counted episode; this object does not change.

        Returns:
            This object if its model is up to date, otherwise an updated copy.
        """
        if not self.behind:
            return self
        other = copy.copy(self)
        other.counts = copy.copy(self.counts)
        other.counts.tally = type(self.counts.tally)(*(array.copy() for array in self.counts.tally))
        other.trust, other.faults = copy.deepcopy(self.trust), dict(self.faults)
        other.belief = type(self.belief)(*(array.copy() for array in self.belief))
        other.update()
        return other

    @property
    def structured(self) -> Evidence:
        """This evidence as if the problem's ties were true: to find plans. Its bounds are invalid if a tie is false.

        Where ties are not stated, or are stated to be exact, it is this evidence itself.
        """
        if self.problem.ties is self.problem.exact_ties:
            return self
        from safe2real.evidence.tied_rows import structured_of

        found: Evidence = structured_of(self, self._structured)
        self._structured = found
        return found

    # Keeping it

    @property
    def follows_from_order(self) -> bool:
        """Whether its state is a function of the counted episodes and their order alone.

        Not so where a test looks at whatever has come in by then: stated ties are looked at after batches. A class, a radius
        or a refinement from outside the package may conclude something else tomorrow.
        """
        settings = self.problem.settings
        return all(map(_is_ours, (self, settings.radius, *settings.refinements)))

    def state(self, *, of_record: bool = False) -> Archive:
        """Return all counts and conclusions; `restore` puts them into fresh evidence of the same problem and method.

        Args:
            of_record: leave out spare room, and results that only a request for plans has computed.

        Returns:
            The archive to save.

        Raises:
            InvalidInput: the evidence is of a class from outside the package, whose state is not known here.
        """
        if not _is_ours(self):
            raise InvalidInput(
                f"the evidence is a {type(self).__name__}, which is not of this package, so its state cannot be saved; "
                "keep the episodes, or run a campaign"
            )
        archive = super().state(of_record=of_record)
        archive.document |= {"kind": type(self).__name__, "faults": self.faults}
        archive.put_part("trust", self.trust.state())
        if self.returns is not None:
            archive.put_part("returns", self.returns.state())
        if not of_record and self._structured is not None:  # it shares counts and trust
            archive.put_part("structured", self._structured.conclusions())
        return archive

    def restore(self, archive: Archive) -> None:
        """Take in the `state` of evidence of the same problem and method; nothing is counted here yet.

        Args:
            archive: as `state` returned it.

        Raises:
            InvalidInput: it is of another kind of evidence, or inconsistent.
        """
        if archive.document.get("kind") != type(self).__name__:
            raise archive.wrong("it is of another kind of evidence")
        self.trust.restore(archive.part("trust"))
        super().restore(archive)
        self.faults = archive.tallies("faults")
        if self.returns is not None:
            self.returns.restore(archive.part("returns"))
        if "structured" in archive.document:
            from safe2real.evidence.tied_rows import structured_from

            self._structured = structured_from(self, archive.part("structured"))

    def estimate(self, policy: Policy) -> Floats:
        """Evaluate a policy on the hybrid model; the values are estimates, not bounds.

        Args:
            policy: of shape (H, S, A).

        Returns:
            [K] V_c of each constraint.

        Raises:
            InvalidInput: the policy was made for another system.
        """
        return constraint_values(self.model, policy)

    def lower_bounds(self, policy: Mixture, uncertainty: float = np.inf) -> Floats:
        """Return lower bounds on the real V_c of a policy.

        Args:
            policy: any mixture of shape (H, S, A).
            uncertainty: Delta, an upper bound on the error of V_c of policies feasible on the model; inf if unknown.

        Returns:
            [K] one bound for each constraint; -inf where nothing is proved.

        Raises:
            InvalidInput: the policy was made for another system.
        """
        estimate = self.estimate(policy)
        feasible = bool((estimate >= self.problem.simulator.thresholds - ROUNDING).all())
        bounds = estimate - uncertainty if feasible else np.full(estimate.shape, -np.inf)
        if self.problem.settings.robust_safety or uncertainty == np.inf:
            bounds = np.maximum(bounds, self.sets.worst_constraints(policy))
        return bounds

    @property
    def support_assumed(self) -> tuple[Assumption, ...]:
        """The assumption about the possible successors of rows."""
        if self.problem.support is None:
            return ()
        text = "every successor of a row is one that its declared support names"
        return (Assumption(AssumptionCode.SUPPORT, text),)

    @property
    def ruled_out(self) -> str:
        """The declaration that rules successors out, as messages about transitions to them say it."""
        return "that the declared support rules out"

    def doubts(self) -> tuple[Doubt, ...]:
        """List the reasons why the results are no guarantee; a refuted assumption is one.

        Returns:
            The reasons, each with a code; empty if the results are a guarantee.
        """
        return doubts_of(self)

    def assumptions(self) -> tuple[Assumption, ...]:
        """List the assumptions that a guarantee rests on.

        Returns:
            The assumptions, each with a code and a sentence.
        """
        return assumptions_of(self)


def evidence_for(problem: Problem, *, reuses_simulator: bool, keeps_safe: bool) -> Evidence:
    """Create evidence in which nothing is counted; rows are learnt together where they are certainly alike.

    Args:
        problem: rows are certainly alike by construction (`copies`), or by the user's statement (exact `ties`).
        reuses_simulator: whether rows are ever cleared.
        keeps_safe: whether margins are tested and used.

    Returns:
        Evidence without episodes.
    """
    if not problem.rows_alike:
        return Evidence(problem, reuses_simulator=reuses_simulator, keeps_safe=keeps_safe)
    from safe2real.evidence.tied_rows import TiedEvidence  # which is evidence

    return TiedEvidence(problem, reuses_simulator=reuses_simulator, keeps_safe=keeps_safe)


def _one_each(name: str, given: NDArray[np.bool_] | None, episodes: int) -> NDArray[np.bool_]:
    """Return one truth value for each episode, False where none are given."""
    found = np.zeros(episodes, dtype=np.bool_) if given is None else np.asarray(given)
    if found.shape != (episodes,) or found.dtype != np.bool_:
        raise InvalidInput(f"{name} has shape {found.shape}; give one truth value for each of {episodes} episodes")
    return found


def _is_ours(thing: object) -> bool:
    """Whether its class is of this package."""
    return type(thing).__module__.startswith("safe2real.")
