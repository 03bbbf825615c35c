"""Was a recorded deployment allowed? Its certificate, computed again by the method that made it, from the record alone.

The learner holds what was counted before the deployment. The method says what is provable about the candidate
(`Method.recheck`); that the rest of the mixture is the trusted baseline, that the coin shows what was run, and that no more
was claimed than follows, is the same for every method and is looked at here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from safe2real.campaign.events import AskBody
from safe2real.errors import InvalidInput
from safe2real.exploration.coin import drawn
from safe2real.exploration.learner import Learner
from safe2real.methods.base import Reason, Recorded
from safe2real.methods.trial_within import running_trial
from safe2real.model.policy import MarkovPolicy, Mixture
from safe2real.model.validation import Floats

ROUNDING = 1e-9  # what two machines may differ by


@dataclass(frozen=True, slots=True)
class Rechecked:
    """What came of it."""

    doubts: tuple[str, ...] = ()  # what is wrong; empty when the deployment was allowed and claims no more than is provable
    identical: bool = False  # the proposal was reproduced bit for bit
    margin: float = np.inf  # the smallest, of a lower bound as computed here over its threshold
    difference: float | None = None  # of a bound or Delta that would be another one today; None where nothing would be


def recheck(recorded: AskBody, mixture: Mixture, coin: float, learner: Learner) -> Rechecked:
    """Check one deployment of `mixture` against the learner with all counted that came before it."""
    uncertainty = np.inf if recorded.uncertainty is None else recorded.uncertainty
    try:
        check_coin(recorded.drawn, mixture.weights, coin)
        doubts = learner.doubts()
        if recorded.certified and doubts:
            raise InvalidInput(f"the deployment is labelled certified though it was not: {'; '.join(map(str, doubts))}")
        bounds, delta, identical = _provable(recorded, mixture, uncertainty, learner)
    except InvalidInput as error:
        return Rechecked((str(error),))
    thresholds, claimed = learner.simulator.thresholds, np.array(recorded.lower_bounds, dtype=np.float64)
    for found, how in ((claimed, "recorded"), (bounds, "proved")):
        if found.shape != thresholds.shape:
            return Rechecked((f"{found.size} lower bounds are {how} for {thresholds.size} constraints",), identical)
    margin = float(np.min(bounds - thresholds, initial=np.inf))
    wrong = ""
    if not (bounds >= thresholds - ROUNDING).all():
        wrong = f"the certificate does not hold: the data prove {_in_words(learner, bounds)}"
    elif not (claimed <= bounds + ROUNDING).all():
        wrong = (
            f"the recorded lower bounds claim more than the data prove: {_in_words(learner, claimed)}; proved is "
            f"{_in_words(learner, bounds)}"
        )
    elif not (claimed >= thresholds - ROUNDING).all():
        wrong = f"the recorded lower bounds miss what was asked for: {_in_words(learner, claimed)}"
    if wrong:
        return Rechecked((wrong,), identical, margin)
    other = max(float(np.max(bounds - claimed, initial=0.0)), uncertainty - delta if delta < np.inf else 0.0)
    if other > ROUNDING or recorded.certified != (not doubts) or recorded.reason != learner.decide().reason.name:
        return Rechecked((), identical, margin, other if other < np.inf else 0.0)
    return Rechecked((), identical, margin)


def _in_words(learner: Learner, bounds: Floats) -> str:
    """Lower bounds [K] on V_c, and what was asked for, as the user wrote it."""
    pairs = zip(learner.simulator.wordings, bounds, learner.simulator.thresholds, strict=True)
    return ", ".join(
        f"{words.quantity} {words.relation} {words.number(low):.12g} ({words.bound(limit)})" for words, low, limit in pairs
    )


def check_coin(index: int, weights: Floats, coin: float) -> None:
    """Refuse a policy that is not the one which the coin shows."""
    if index != drawn(weights, coin):
        raise InvalidInput("the policy that was run is not the one that the coin of this deployment shows")


def _provable(recorded: AskBody, mixture: Mixture, uncertainty: float, learner: Learner) -> tuple[Floats, float, bool]:
    """The bound on V_c of the recorded mixture, Delta, and whether the mixture is the one that is proposed here."""
    if recorded.tries is not None and recorded.tries != running_trial(learner.method):
        raise InvalidInput(
            f"it is marked as a deployment of trial {recorded.tries}, and no trial of that number was running"
        )
    candidates = recorded.candidates
    baseline = mixture.policies[candidates:]
    if len(baseline) > 1 or any(not _same(policy, learner.baseline) for policy in baseline):
        raise InvalidInput("what the candidate is mixed with is not the trusted baseline")
    alpha = float(mixture.weights[:candidates].sum())
    if abs(alpha - recorded.exploration_weight) > ROUNDING:
        raise InvalidInput(f"the candidate has the weight {alpha:.12g}, not {recorded.exploration_weight:.12g}")
    trusted, now = learner.evidence.trusted, learner.decide()
    if recorded.reason == Reason.BASELINE.name:
        if candidates or uncertainty < np.inf:
            raise InvalidInput("a deployment of the baseline alone names other policies")
        # Release 0.1, which named no bounds, went on with the baseline when its margin was refuted.
        if now.reason is Reason.HALT and recorded.bounds is not None:
            raise InvalidInput("the baseline was handed out though the data had refuted its margin")
        return trusted, np.inf, now.reason is Reason.BASELINE
    if learner.is_refuted or not candidates:
        raise InvalidInput(f"the data did not allow a mixture here: the answer was {now.reason.name}")
    candidate = Mixture.of(mixture.weights[:candidates] / alpha, mixture.policies[:candidates])
    lower = learner.method.recheck(Recorded(candidate, alpha, uncertainty, recorded.tries or 0), learner.evidence, now)
    bounds = np.asarray(alpha * lower + (1.0 - alpha) * trusted)
    return bounds, now.uncertainty, _identical(mixture, now.mixture(learner.baseline))


def _same(one: MarkovPolicy, other: MarkovPolicy) -> bool:
    return one is other or np.array_equal(one.probabilities, other.probabilities)


def _identical(recorded: Mixture, proposed: Mixture | None) -> bool:
    return (
        proposed is not None
        and np.array_equal(recorded.weights, proposed.weights)
        and all(_same(one, other) for one, other in zip(recorded.policies, proposed.policies, strict=True))
    )
