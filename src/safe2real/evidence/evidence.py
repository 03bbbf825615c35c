"""All that the data of a run say about its problem: the only thing in a run that changes.

`count` and its kin take episodes in; everything else is a question. Evidence is the hybrid model (`hybrid.py`: counts,
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
from safe2real.evidence.row_rule import Separation, StatedRows
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
    """Counts and what follows from them, for one problem."""

    def __init__(
        self, problem: Problem, *, reuses_simulator: bool = True, keeps_safe: bool = True, margin_by_sets: bool = True
    ) -> None:
        """Count nothing yet.

        Args:
            problem: what is given and assumed.
            reuses_simulator: whether rows are ever cleared.
            keeps_safe: whether margins are tested and used.
            margin_by_sets: whether the confidence sets test the margin and may raise it. Otherwise the returns of the
                baseline alone test it, and what is proved rests on nothing that is assumed of the rows.
        """
        settings, model = problem.settings, problem.simulator
        gaps = Separation(settings.calibrated_gap, settings.mismatch_gap) if reuses_simulator else None
        super().__init__(
            model.kernel,
            model.horizon,
            separation=gaps,
            radius=settings.radius,
            delta=settings.delta,
            bonus_scale=settings.bonus_scale,
            refinements=settings.refinements,
            stated=StatedRows(problem.known_rows(), problem.support, problem.within_rows()),
        )
        self.problem, self.keeps_safe = problem, keeps_safe
        self.stated = problem.margins  # [K]
        self._structured: Any = None  # what `structured` was when it was last asked for
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
            self.trust.look(self)  # what is known before any data may contradict the margin, or prove more

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
        """Count episodes laid end to end, those that were cut short too.

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
        nobody = np.zeros(lengths.size, dtype=np.bool_)
        whose, tried = (nobody if given is None else np.asarray(given) for given in (of_baseline, of_candidate))
        for name, given in (("of_baseline", whose), ("of_candidate", tried)):
            if given.shape != lengths.shape or given.dtype != np.bool_:
                raise InvalidInput(
                    f"{name} has shape {given.shape}; give one truth value for each of {lengths.size} episodes"
                )
        check_episodes_of([self.problem.baseline], states, actions, ends, whose)
        if self.returns is not None:
            check_episodes_of(self.returns.policies, states, actions, ends, tried)
        first = 0
        while first < lengths.size:
            # The confidence sets are looked at after fixed numbers of samples, whatever the batches in which these come.
            last = lengths.size if at_once else first + self.trust.episodes_until_due(ends[first:])
            offset = int(ends[first])
            part = states[offset + first :], actions[offset:], ends[first : last + 1] - offset
            if at_once:
                self.record_all(*part)
            else:
                self.observe_all(*part)
            if at_once:
                self.trust.take_logs(*part, whose)
            else:
                self.trust.take(*part, whose[first:last])
            self._notice()
            if self.trust.due:
                self.trust.look(self)
            first = last
        if self.returns is not None:
            self.returns.count(states, actions, ends, tried, at_once=at_once)

    def count_prefix(
        self, states: Sequence[int], actions: Sequence[int], *, of_baseline: bool, of_candidate: bool = False
    ) -> None:
        """The `states` [n + 1] and `actions` [n] of an episode that broke off; n may be 0."""
        if actions:
            seen = np.asarray(states, dtype=np.uint32), np.asarray(actions, dtype=np.uint32)
            whose = np.array([of_baseline]), np.array([of_candidate])
            self.count(*seen, np.array([0, len(actions)]), of_baseline=whose[0], of_candidate=whose[1])
        else:  # left out of the returns, it would make them a sample chosen by outcome: all that nobody saw was perfect
            nothing = np.zeros(1, dtype=np.uint32), np.zeros(0, dtype=np.uint32), np.array([0, 0])
            self.trust.take(*nothing, np.array([of_baseline]))
            if of_candidate:
                self.lose()

    def lose(self) -> None:
        """An episode of the candidate was handed out and nobody saw anything of it; the rows have nothing to learn."""
        if self.returns is not None:
            self.returns.lose()

    def leave_model(
        self, states: Sequence[int], actions: Sequence[int], *, of_baseline: bool = False, of_candidate: bool = False
    ) -> None:
        """An episode went where the model has no state: after `states` [n + 1] and `actions` [n + 1], if it began at all.

        Its n transitions are counted. The model is wrong there, so nothing is certified from now on and only the baseline is
        proposed; forgetting such episodes instead would leave the others a biased sample.
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
        """An episode was cut short after `states` [n + 1] and `actions` [n] by a fault that says nothing about the system.

        Its n transitions are counted. That `cause` had nothing to do with what would have happened next is the user's word:
        certificates name it as an assumption.
        """
        self.count_prefix(states, actions, of_baseline=of_baseline, of_candidate=of_candidate)
        self.faults[cause] = self.faults.get(cause, 0) + 1

    def announce(self, *, departures: int, outside_support: int) -> None:
        """What is known and may not be counted yet: what refutes does not wait for its turn.

        For records kept elsewhere, in which an episode may have to wait before it is counted. `departures` are episodes that
        left the model, `outside_support` transitions that the declared support rules out; both of the whole record.
        """
        if departures:
            self.departed = max(self.departed, departures)
            self.trust.leave()
        self.announced_outside = max(self.announced_outside, outside_support)
        self._notice()

    def take_over(self, episodes: int, *, behind: bool) -> None:
        """So many episodes were counted by compiled code on this very state; whether the model may be `behind` them."""
        self.counts.episodes += episodes
        self.make_room()
        self.behind = behind

    def _notice(self) -> None:
        """What was counted or announced may rule a declaration out."""
        if self.outside_support or self.announced_outside:
            self.trust.leave()

    # What follows

    @property
    def runs_compiled(self) -> bool:
        """Whether compiled rounds may be run on it: they know of no structure."""
        return True

    @property
    def kept(self) -> int:
        """How many constraints are kept to: all of them, or none."""
        return self.problem.simulator.num_constraints if self.keeps_safe else 0

    @property
    def goes_by_returns(self) -> bool:
        """Whether the returns of the candidate's own episodes are kept; then those that nobody saw have to be told."""
        return self.returns is not None

    @property
    def samples(self) -> int:
        """State-action pairs sampled from the real system so far."""
        return self.counts.samples

    @property
    def is_refuted(self) -> bool:
        """Whether the data contradict an assumption: final, and nothing that was computed can be relied on."""
        if self.trust.left or self.trust.halted:  # whatever the radius is worth
            return True
        return self.problem.settings.certified and bool(self.belief.refuted.any())

    @property
    def margins(self) -> Floats:
        """[K] the baseline's margins as stated, or as proved by the data where that is more and nothing is refuted."""
        return self.trust.margins if self.keeps_safe and not self.is_refuted else self.stated

    @property
    def trusted(self) -> Floats:
        """[K] what the baseline's V_c is at least: threshold and margin. Once a margin is refuted nothing is certain."""
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
        """This, with every counted episode in the model: itself, or a copy where the model is behind; nothing is changed."""
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
        """This, as if the problem's ties were true: to find plans with. What it proves is worth nothing if they are not.

        Where ties are not stated, or are stated to be exact, it is this evidence itself.
        """
        ties = self.problem.ties
        if ties is None or ties.exact:
            return self
        from safe2real.evidence.tied_rows import structured_of

        found: Evidence = structured_of(self, self._structured)
        self._structured = found
        return found

    # Keeping it

    @property
    def follows_from_order(self) -> bool:
        """Whether all that is kept of it is a function of the episodes counted and their order.

        Not so where a test looks at whatever has come in by then: stated ties are looked at after batches. A class, a radius
        or a refinement from outside the package may conclude something else tomorrow.
        """
        settings = self.problem.settings
        return all(map(_is_ours, (self, settings.radius, *settings.refinements)))

    def state(self, *, of_record: bool = False) -> Archive:
        """Return all that was counted and concluded; `restore` puts it into fresh evidence of the same problem and method.

        Args:
            of_record: leave out spare room, and what was only computed because somebody asked for plans.

        Raises:
            InvalidInput: it is of a class from outside the package, whose state is not known here.
        """
        if not _is_ours(self):
            raise InvalidInput(
                f"the evidence is a {type(self).__name__}, which is not of this package, so what it knows cannot be kept; "
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

        Raises:
            InvalidInput: it is of another kind of evidence, or cannot be.
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
        """Return V_c [K] of a policy on the hybrid model; no bound."""
        return constraint_values(self.model, policy)

    def lower_bounds(self, policy: Mixture, uncertainty: float = np.inf) -> Floats:
        """Return lower bounds on V_c [K] of a policy on the real system.

        Args:
            policy: any mixture.
            uncertainty: Delta, by how much V_c of a policy feasible on the model can be off; inf where it is unknown.
        """
        estimate = self.estimate(policy)
        feasible = bool((estimate >= self.problem.simulator.thresholds - ROUNDING).all())
        bounds = estimate - uncertainty if feasible else np.full(estimate.shape, -np.inf)
        if self.problem.settings.robust_safety or uncertainty == np.inf:
            bounds = np.maximum(bounds, self.sets.worst_constraints(policy))
        return bounds

    @property
    def support_assumed(self) -> tuple[Assumption, ...]:
        """What is assumed of the successors that rows can have."""
        if self.problem.support is None:
            return ()
        text = "every successor of a row is one that its declared support names"
        return (Assumption(AssumptionCode.SUPPORT, text),)

    @property
    def ruled_out(self) -> str:
        """What rules successors out, to say of transitions to them."""
        return "that the declared support rules out"

    def doubts(self) -> tuple[Doubt, ...]:
        """Why nothing here is a guarantee; empty when it is one. Data that refute an assumption are a reason too."""
        return doubts_of(self)

    def assumptions(self) -> tuple[Assumption, ...]:
        """All that a guarantee rests on here."""
        return assumptions_of(self)


def evidence_for(problem: Problem, *, reuses_simulator: bool, keeps_safe: bool) -> Evidence:
    """Return evidence in which nothing is counted; rows are learnt together where that is certain.

    Args:
        problem: rows are known to be alike by construction (`copies`), or by the user's word (exact `ties`).
        reuses_simulator: whether rows are ever cleared.
        keeps_safe: whether margins are tested and used.
    """
    together = problem.copies is not None or (problem.ties is not None and problem.ties.exact)
    if not together:
        return Evidence(problem, reuses_simulator=reuses_simulator, keeps_safe=keeps_safe)
    from safe2real.evidence.tied_rows import TiedEvidence  # which is evidence

    return TiedEvidence(problem, reuses_simulator=reuses_simulator, keeps_safe=keeps_safe)


def _is_ours(thing: object) -> bool:
    """Whether its class is of this package."""
    return type(thing).__module__.startswith("safe2real.")
