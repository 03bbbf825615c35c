"""A radius from outside: Hoeffding for every subset of successors, every row and every n. And one that cheats."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from safe2real import Campaign, Learner, Standing, simulate
from safe2real.campaign.journal import MemoryJournal
from safe2real.errors import InvalidInput
from safe2real.exploration import roll_out
from safe2real.radii import Radius
from safe2real.testing import RadiusContract
from safe2real.testing.systems import random_case


@dataclass(frozen=True)
class Cautious(Radius):
    """sqrt((m log 2 + log(R n (n + 1) / delta)) / (2 n)); a union bound, so it covers."""

    stretch: float = 1.0
    name: ClassVar[str] = "toy-cautious"
    certified: ClassVar[bool] = True

    def after(self, visits, seen, row):
        level = row.possible * np.log(2.0) + np.log(row.rows * visits * (visits + 1.0) / row.delta)
        return self.stretch * np.minimum.accumulate(np.sqrt(level / (2.0 * visits)))


class TestCautious(RadiusContract):
    def make(self):
        return Cautious()


def test_one_that_shrinks_too_fast_is_refused_by_the_contract():
    class Contract(RadiusContract):
        def make(self):
            return Cautious(stretch=0.25)

    with pytest.raises(AssertionError, match="left a radius that fails 20%"):
        Contract().test_it_covers_at_its_level()


def test_it_runs_through_learner_campaign_and_verify():
    case = random_case(2, radius=Cautious())
    learner = Learner(case.problem)
    assert simulate(learner, case.real, max_rounds=300).unsafe_share(case.problem.simulator.thresholds) == 0.0
    assert learner.standing is Standing.CERTIFIED
    journal = MemoryJournal()
    with Campaign.create(journal, case.problem) as campaign:
        for number in range(1, 30):
            asked = campaign.ask(worker="toy")
            campaign.tell(asked.id, roll_out(case.reality, asked.policy, seed=1, round_number=number))
    with pytest.raises(InvalidInput, match=r"settings\.radius"):
        Campaign.open(journal)  # nobody said what the name means
    with Campaign.open(journal, extensions=(Cautious,)) as campaign:
        assert campaign.verify().holds
