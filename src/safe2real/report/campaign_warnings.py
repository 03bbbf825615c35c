"""What somebody has to do, or to know, about a campaign: broken assumptions, what is out, waiting, lost or withdrawn."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from safe2real.campaign.history import ABANDONED, LEFT_MODEL, OUT, WITHDRAWN, Entry
from safe2real.campaign.leases import EXPIRED
from safe2real.campaign.status import CampaignStatus
from safe2real.evidence.mismatch_map import MismatchMap, Verdict
from safe2real.figures.course import ROUNDING, Course
from safe2real.model.shown import count
from safe2real.report.page import since

_BY_CHANCE = "The guarantee assumes that this had nothing to do with what happened in them."


def warnings_of(
    status: CampaignStatus, found: MismatchMap, entries: Sequence[Entry], course: Course, now: datetime
) -> list[str]:
    """One text for each thing, the gravest first."""
    warnings = []
    refuted = found.count(Verdict.CONTRADICTED)
    if refuted:
        how = "The data" if found.certified else "With the heuristic radius, which proves nothing, the data"
        consequence = "The guarantee does not hold for this system; start" if found.certified else "Consider"
        warnings.append(
            f"{how} contradict an assumption in {count(refuted, 'row')} (named below): a known or cleared row is farther "
            "from the simulator than it may be, or a row lies strictly between the two gaps. "
            f"{consequence} a campaign with other gaps or fewer known rows."
        )
    if status.left_model:
        told = [entry.id for entry in entries if entry.outcome == LEFT_MODEL]
        logged = status.left_model - len(told)
        where = " and ".join(filter(None, (_few(told), count(logged, "imported one") if logged else "")))
        warnings.append(
            f"{count(status.left_model, 'episode')} went where the model has no state ({where}): the model lacks something "
            "that the real system has. Nothing is certified any more; add that state, and start a campaign with it."
        )
    broken = course.numbers[(course.margins < -ROUNDING).any(axis=1)]
    if len(broken):
        named = _few([f"{number:,}" for number in broken])
        warnings.append(
            f"{count(len(broken), 'deployment')} recorded with a lower bound below a threshold ({named}): this program "
            "hands out no such policy; run verify."
        )
    out = [entry for entry in entries if entry.outcome == OUT]
    if out:
        oldest = min(out, key=lambda entry: entry.asked_at)
        verb = "is" if len(out) == 1 else "are"
        warnings.append(
            f"{count(len(out), 'deployment')} {verb} out; the oldest is {oldest.id} with {oldest.worker}, for "
            f"{since(oldest.asked_at, now)}. Tell each one, or abandon it."
        )
    if status.episodes_waiting:
        warnings.append(
            f"{count(status.episodes_waiting, 'episode')} recorded and not counted yet: waiting for {status.waiting_for}, "
            "which was handed out earlier."
        )
    lost = [entry for entry in entries if entry.outcome == ABANDONED]
    if lost:
        reasons = sorted({entry.why_given_up for entry in lost})
        few = "; ".join(reason[:80] for reason in reasons[:5]) + ("; …" if len(reasons) > 5 else "")
        warnings.append(f"{count(len(lost), 'deployment')} abandoned ({few}). {_BY_CHANCE}")
    expired = [entry for entry in entries if entry.outcome == WITHDRAWN and entry.why_given_up == EXPIRED]
    if expired:
        warnings.append(f"{count(len(expired), 'deployment')} withdrawn because the lease was over. {_BY_CHANCE}")
    withdrawn = [entry for entry in entries if entry.outcome == WITHDRAWN and entry not in expired]
    if withdrawn:
        named = _few([entry.id for entry in withdrawn])
        warnings.append(
            f"{count(len(withdrawn), 'deployment')} withdrawn ({named}), because the data refute what they rested on. What "
            "has run of them can still be told."
        )
    return warnings


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:10]) + ("…" if len(names) > 10 else "")
