"""Tests of the baseline's stated margin by the data of the run.

Problem: the baseline's margin pays for every deployment, so an overstated margin makes mixtures unsafe. Two tests watch it
(`_compiled/margin.py`; docs/evidence.md has the proofs in "The margin, by the confidence sets" and "The margin, by
returns"): the confidence sets of the certificates, and the returns of the baseline's own episodes. A refutation is final;
if the sets prove a larger margin than stated, the larger one is used.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from safe2real._compiled import margin as compiled_margin
from safe2real.evidence.counts import places_of
from safe2real.evidence.hybrid import HybridModel
from safe2real.model.archive import Archive
from safe2real.model.cmdp import CMDP
from safe2real.model.policy import MarkovPolicy
from safe2real.model.validation import Floats, Indices
from safe2real.planning.threads import threads_for

RETURNS_SHARE = 0.1
"""The returns of a baseline that has its margin refute it with probability at most this share of delta: a false alarm."""
_LEARNT = ("margins", "ceiling", "wealth", "refuted", "counters", "flags")  # what data change
_BETS = 12  # 1/2, 1/4, ... of the largest stake that cannot lose everything


class BaselineTrust:
    """The data's statements about the baseline's V_c, for each constraint."""

    def __init__(
        self, model: CMDP, baseline: MarkovPolicy, margins: Floats, *, delta: float, proves: bool, raises: bool
    ) -> None:
        """`model` has the constraints that are kept, `margins` [K] are the stated ones.

        `proves` says whether the confidence sets are certified, `raises` whether a larger margin that they prove is used.
        """
        constraints, horizon = model.num_constraints, model.horizon
        # The return is at most H: a stake s on "below threshold + margin" loses at most s times this share of H.
        most_lost = np.maximum(1.0 - (model.thresholds + margins) / horizon, 2.0**-10)
        self.compiled = compiled_margin.Trust(
            utilities=np.array(model.utilities),
            thresholds=np.array(model.thresholds),
            stated=margins.copy(),
            baseline=np.array(baseline.probabilities),
            start=np.array(model.start),
            bets=0.5 ** np.arange(1, _BETS + 1) / most_lost[:, None],
            alarm=max(1, constraints) / (RETURNS_SHARE * delta),
            raises=raises,
            counts_end=model.counts_end,
            margins=margins.copy(),
            ceiling=np.full(constraints, float(horizon)),
            wealth=np.ones((constraints, _BETS)),
            refuted=np.zeros(constraints, dtype=np.bool_),
            # Confidence sets of a heuristic radius are never used.
            counters=np.array([0, 0 if proves and constraints else np.iinfo(np.int64).max, 0], dtype=np.int64),
            flags=np.zeros(2, dtype=np.bool_),
        )

    @property
    def halted(self) -> bool:
        """Whether the margin of a constraint is refuted: final."""
        return bool(self.compiled.flags[compiled_margin.HALTED])

    @property
    def left(self) -> bool:
        """Whether an episode left the model or its declared support: final, whatever the radius is worth."""
        return bool(self.compiled.flags[compiled_margin.LEFT])

    def leave(self) -> None:
        """Note that an episode left the model or its declared support."""
        self.compiled.flags[compiled_margin.LEFT] = True

    @property
    def refuted(self) -> NDArray[np.bool_]:
        """[K] whether each margin is refuted."""
        return np.array(self.compiled.refuted)

    @property
    def margins(self) -> Floats:
        """[K] the larger of the stated margin and the one that the data prove."""
        return np.array(self.compiled.margins)

    @property
    def episodes(self) -> int:
        """Number of tested episodes of the baseline."""
        return int(self.compiled.counters[compiled_margin.EPISODES])

    @property
    def due(self) -> bool:
        """Whether a check by the confidence sets is due: a function of the samples counted only."""
        return bool(self.compiled.counters[compiled_margin.SAMPLES] >= self.compiled.counters[compiled_margin.NEXT])

    def episodes_until_due(self, ends: NDArray[np.int64]) -> int:
        """Return how many of the episodes with these `ends` to count until the next check is due."""
        missing = int(self.compiled.counters[compiled_margin.NEXT] - self.compiled.counters[compiled_margin.SAMPLES])
        return min(len(ends) - 1, int(np.searchsorted(ends, ends[0] + max(1, missing))))

    def take(self, states: Indices, actions: Indices, ends: NDArray[np.int64], of_baseline: NDArray[np.bool_]) -> None:
        """Test the margins by the returns of those `of_baseline`, among episodes as in `HybridModel.observe_all`."""
        trust = self.compiled
        for short in self._shortfalls(states, actions, ends, of_baseline):
            if self.halted:
                break
            trust.counters[compiled_margin.EPISODES] += 1
            trust.wealth[:] *= 1.0 + trust.bets * short[:, None]
            self._refute_by_wealth()
        trust.counters[compiled_margin.SAMPLES] += ends[-1] - ends[0]

    def take_logs(self, states: Indices, actions: Indices, ends: NDArray[np.int64], of_baseline: NDArray[np.bool_]) -> None:
        """Test the margins like `take` on a log whose order may depend on its content: decide only after the last episode.

        The product of a bettor's gains does not depend on the order. It is formed from logarithms, since on the way the
        wealth may leave the range of doubles.
        """
        trust = self.compiled
        short = self._shortfalls(states, actions, ends, of_baseline)
        trust.counters[compiled_margin.EPISODES] += len(short)
        trust.counters[compiled_margin.SAMPLES] += ends[-1] - ends[0]
        if len(short):
            gains = np.add.accumulate(np.log1p(trust.bets * short[:, :, None]), axis=0)[-1]
            poor = trust.wealth == 0.0  # stays so, also where the log's product is beyond numbers
            with np.errstate(over="ignore"):
                trust.wealth[:] *= np.where(poor, 0.0, np.exp(gains))
            self._refute_by_wealth()

    def _shortfalls(
        self, states: Indices, actions: Indices, ends: NDArray[np.int64], of_baseline: NDArray[np.bool_]
    ) -> Floats:
        """[n, K] by which share of H the return of each of the baseline's episodes misses threshold + margin."""
        trust, horizon = self.compiled, len(self.compiled.baseline)
        which = np.flatnonzero(of_baseline)
        lengths = np.diff(ends)[which]
        total = np.repeat((horizon - lengths)[:, None].astype(np.float64), trust.thresholds.size, axis=1)
        at, owner = places_of(ends[which], lengths), np.repeat(np.arange(which.size), lengths)
        step = at - ends[which][owner] if trust.utilities.shape[1] > 1 else 0
        earned = trust.utilities[:, step, states[at + which[owner]], actions[at]]
        np.add.at(total, owner, earned.T)  # step after step, as compiled rounds add them up
        if trust.counts_end and len(which):  # a whole episode also collects where it ends: the same for all actions there
            whole = np.flatnonzero(lengths == horizon - 1)
            last = states[ends[which[whole] + 1] + which[whole]]
            total[whole] += trust.utilities[:, -1, last, 0].T - 1.0
        return np.asarray((trust.thresholds + trust.stated - total) / horizon)

    def _refute_by_wealth(self) -> None:
        trust = self.compiled
        rich = np.add.accumulate(trust.wealth, axis=1)[:, -1] >= trust.alarm * trust.bets.shape[1]
        trust.refuted[rich] = True
        trust.flags[compiled_margin.HALTED] |= rich.any()

    def state(self) -> Archive:
        """Return the results of both tests; `restore` puts them into the trust in the same baseline."""
        archive = Archive("trust")
        for field in _LEARNT:
            archive.put(field, getattr(self.compiled, field))
        return archive

    def restore(self, archive: Archive) -> None:
        """Take in the `state` of the trust in the same baseline.

        Raises:
            InvalidInput: no data can have led to this state.
        """
        trust = self.compiled
        for field in _LEARNT:
            archive.fill(field, getattr(trust, field))
        numbers = np.isfinite(trust.margins).all() and np.isfinite(trust.ceiling).all()
        if not numbers or not (trust.margins >= trust.stated).all() or not (trust.wealth >= 0.0).all():
            raise archive.wrong("a margin is below the stated one, or no number")

    def look(self, hybrid: HybridModel) -> None:
        """Hold the baseline against the confidence sets as they are."""
        threads = threads_for(hybrid.counts.simulator, hybrid.counts.horizon, None)
        compiled_margin.look(self.compiled, hybrid.row_sets, hybrid.belief.refuted, threads)
