"""What a person decides about a campaign on its way: what it explores for, what is on trial, its format."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from numpy.typing import ArrayLike

from safe2real.campaign.deployment import Receipt
from safe2real.campaign.directives import begin_trial, declare, end_trial
from safe2real.campaign.events import MIGRATE, Draft
from safe2real.campaign.journal import FORMAT
from safe2real.campaign.record import Record
from safe2real.model.policy import Policy
from safe2real.version import __version__


class Directed:
    """Directions are events like all others: every process that reads the record follows them, and `verify` too."""

    _record: Record

    def declare(self, rewards: Mapping[str, ArrayLike] | None = None, *, drop: Iterable[str] = ()) -> Receipt:
        """Add rewards to those that the campaign explores for, or drop some; only with `methods.ForRewards`.

        Recorded, all or nothing. What is out stays out: its certificate does not depend on rewards. After a stop the
        campaign goes on if a reward is not accurate yet.
        """
        return declare(self._record, rewards, drop)

    def begin_trial(
        self,
        policy: Policy,
        *,
        delta: float,
        rewards: Mapping[str, ArrayLike] | None = None,
        target: Mapping[str, float] | None = None,
    ) -> Receipt:
        """Put one policy on trial within this campaign, from the next deployment on; see `Learner.begin_trial`. Recorded."""
        return begin_trial(self._record, policy, delta, rewards, target)

    def end_trial(self) -> Receipt:
        """End the trial, and go on with the campaign's method; what the trial has shown stays true. Recorded."""
        return end_trial(self._record)

    def migrate(self) -> bool:
        """Bring the record to the format of this release, so that older programs refuse it; False if it has it already.

        No event is changed. A campaign of an older format works here as it is; but a program of the older release would go
        on in it without knowing of withdrawals and halts.
        """
        with self._record.writing() as transaction:
            header = transaction.header()
            if header is None or header.format == FORMAT:
                return False
            transaction.append([Draft(MIGRATE, {"from": header.format, "to": FORMAT, "version": __version__})])
            transaction.put_header(replace(header, format=FORMAT))
        self._record.format = FORMAT
        return True
