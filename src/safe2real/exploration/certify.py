"""Lower bounds with all they rest on: a certificate is a function of the problem and the evidence."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from safe2real.evidence.evidence import Evidence
from safe2real.exploration.certificate import Certificate
from safe2real.methods.base import Method
from safe2real.model.validation import Floats
from safe2real.standing import Assumption, Doubt


def certify(
    evidence: Evidence,
    bounds: Floats,
    doubts: Sequence[Doubt] = (),
    *,
    thresholds: Floats | None = None,
    assumed: Sequence[Assumption] = (),
    method: Method | None = None,
) -> Certificate:
    """Lower `bounds` [K] on V_c with all that they assume, and with the reasons why they are no guarantee, if any.

    The thresholds are the problem's unless others are given (none where constraints are ignored). `assumed` is what the
    bounds rest on besides the evidence. With a `method` they are its own, and what they rest on is what it says; without one
    they are of the model, whose rows are assumed to be as the problem says.
    """
    limits = evidence.problem.simulator.thresholds if thresholds is None else thresholds
    rests_on = evidence.assumptions() if method is None else method.assumptions(evidence)
    doubted = evidence.doubts() if method is None else method.doubts(evidence)
    return Certificate(
        lower_bounds=np.array(bounds),
        thresholds=np.array(limits),
        assumptions=(*rests_on, *assumed),
        doubts=(*doubts, *doubted),
        wordings=evidence.problem.simulator.wordings,
    )
