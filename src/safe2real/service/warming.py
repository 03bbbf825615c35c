"""Compile what the service runs before anybody asks: machine code is kept on disk (see `_compiled.cache`).

The first ask of a fresh installation would take a minute. A container's build or a unit's start does it once instead.
"""

from __future__ import annotations

import numpy as np

from safe2real.campaign.campaign import Campaign
from safe2real.campaign.journal import MemoryJournal
from safe2real.exploration.simulate import roll_out
from safe2real.model.cmdp import CMDP, AtLeast
from safe2real.model.kernel import Kernel
from safe2real.model.policy import MarkovPolicy
from safe2real.problem.problem import Problem
from safe2real.problem.settings import Settings

_STEPS, _ROUNDS = 4, 3


def warm() -> None:
    """Drive small campaigns in memory through all that the service does, with one constraint and with two."""
    for constraints in (1, 2):
        problem = _small(constraints)
        with Campaign.create(MemoryJournal(), problem) as campaign:
            for _ in range(_ROUNDS):
                deployment = campaign.ask(worker="warm")
                episode = roll_out(problem.simulator, deployment.policy, seed=0, round_number=deployment.number)
                campaign.tell(deployment.id, episode)
            campaign.status()
            campaign.plan(np.full((3, 2), 0.5))
            campaign.mismatch_map()
            campaign.verify()


def _small(constraints: int) -> Problem:
    """Three states, of which the last is to be avoided, and a simulator that is right."""
    rows = [[[0.9, 0.1, 0.0], [0.3, 0.6, 0.1]], [[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]], [[0.2, 0.0, 0.8], [0.0, 0.0, 1.0]]]
    upright = np.array([[1.0, 1.0], [1.0, 1.0], [0.0, 0.0]])
    asked = [AtLeast(upright, 1.5, f"upright {number}") for number in range(constraints)]
    model = CMDP.of(Kernel.from_dense(np.array(rows)), _STEPS, 0, asked)
    baseline = MarkovPolicy.deterministic([0, 0, 0], num_actions=2, horizon=_STEPS)
    settings = Settings(margin=(1.5,) * constraints, calibrated_gap=0.0, mismatch_gap=0.5, tolerance=0.3)
    return Problem(model, baseline, settings)
