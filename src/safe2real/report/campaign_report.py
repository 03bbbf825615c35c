"""The HTML report of a campaign: standing, warnings, figures and tables."""

from __future__ import annotations

import io
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from safe2real.campaign.campaign import Campaign
from safe2real.campaign.events import Event
from safe2real.campaign.files import whole_file
from safe2real.campaign.history import ABANDONED, LEFT_MODEL, OUT, WITHDRAWN, Entry, entries_of
from safe2real.campaign.replay import Replay
from safe2real.campaign.status import CampaignStatus, RewardStatus, status_of
from safe2real.evidence.mismatch_map import MismatchMap, Verdict, map_mismatch
from safe2real.exploration.forecast import Forecast
from safe2real.exploration.forecast import forecast as rehearsed
from safe2real.exploration.learner import Learner
from safe2real.methods.base import Reason
from safe2real.model.constraint_text import bound_words, count, roughly, rounded_down, rounded_up
from safe2real.model.validation import ROUNDING, Floats
from safe2real.plots.course import Course, draw_certificate, draw_safety
from safe2real.plots.map import draw_mismatch, draw_visits_needed
from safe2real.plots.rewards import Known, draw_rewards
from safe2real.problem.problem import Problem
from safe2real.report.page import moment, render, since
from safe2real.standing import Doubt, DoubtCode, Standing, standing_of
from safe2real.version import __version__

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_GIVEN_UP = {
    ABANDONED: "The guarantee assumes that this had nothing to do with what happened in them.",
    WITHDRAWN: "Episodes that have run can still be told.",
}


def warnings_of(status: CampaignStatus, entries: Sequence[Entry], course: Course) -> list[str]:
    """Return the campaign's problems, one text each, the gravest first; what is refuted is among the doubts of the page."""
    warnings = []
    broken = course.numbers[(course.margins < -ROUNDING).any(axis=1)]
    if len(broken):
        named = _few([f"{number:,}" for number in broken])
        warnings.append(
            f"{count(len(broken), 'deployment')} recorded with a bound that misses its constraint ({named}): this program "
            "hands out no such policy; run verify."
        )
    left = [entry.id for entry in entries if entry.outcome == LEFT_MODEL]
    if left:
        went = f"{count(len(left), 'deployment')} went where the model has no state ({_few(left)})"
        warnings.append(f"{went}: add that state, and start a campaign with it.")
    for outcome, consequence in _GIVEN_UP.items():
        given_up = [entry for entry in entries if entry.outcome == outcome]
        if given_up:
            reasons = _few(sorted({entry.why_given_up[:80] for entry in given_up}), "; ", most=5)
            warnings.append(f"{count(len(given_up), 'deployment')} {outcome} ({reasons}). {consequence}")
    return [*warnings, *status.notices]


def _few(texts: Sequence[str], between: str = ", ", most: int = 10) -> str:
    return between.join(texts[:most]) + (f"{between}…" if len(texts) > most else "")


_LOOKS = 200  # moments at which the suspects are counted
_MOMENTS = 30  # moments at which the intervals of declared rewards are computed
_LAST = 20  # deployments in the last table
_LONGEST_TABLE = 200  # rows


def write_campaign_report(campaign: Campaign, path: Path, *, forecast: bool = True, broken: Sequence[Doubt] = ()) -> Path:
    """Write the report; everything in it is recomputed from the recorded events.

    Args:
        campaign: an open one.
        path: of the HTML file; an existing one is replaced once the new one is complete.
        forecast: whether to rehearse the rest of the campaign, which takes long for large systems.
        broken: assumptions that are known to be false, e.g. in a rehearsal: no guarantee holds then.

    Returns:
        `path`.
    """
    problem, events = campaign.problem, campaign.events()
    replay, looks, moments = _replayed(campaign, events)
    learner, model = replay.learner, problem.simulator
    entries = entries_of(campaign.name, events, model)
    status = status_of(campaign.name, replay, rehearsed(learner) if forecast else None)
    found = map_mismatch(learner.evidence)
    stop = (status.rounds, status.uncertainty) if status.stopped else None
    course = _course(entries, model.thresholds, looks, stop)
    now, standing = datetime.now(UTC), standing_of((*broken, *learner.doubts()))
    certificate = replay.in_the_field(learner.certify(model.thresholds, broken))
    smallest = float(course.margins.min(initial=np.inf))
    page = render(
        "campaign.html.jinja",
        title=f"safe2real: campaign {campaign.name}",
        version=__version__,
        now=f"{now:%Y-%m-%d %H:%M:%S}",
        status=status,
        standing=standing,
        halted_because=_halted_because(status, learner),
        labels=_labels(standing, found, broken),
        numbers=_numbers(status),
        warnings=warnings_of(status, entries, course),
        forecast_caution="" if status.forecast is None or not status.forecast.rounds else status.forecast.caution,
        certificate=certificate,
        sure=rounded_down(1.0 - learner.failure),
        constraints=[words.requirement(one) for words, one in zip(model.wordings, model.thresholds, strict=True)],
        num_constraints=model.num_constraints,
        bound_word=bound_words(model.wordings),
        pictures=_pictures(course, problem, learner, found, moments),
        bounds_hold=smallest >= -ROUNDING,
        smallest=f"{max(0.0, smallest) if smallest >= -ROUNDING else -smallest:.3g}",
        reuses_simulator=learner.evidence.reuses_simulator,
        never_cleared=int(((found.verdict == Verdict.OPEN) & np.isinf(found.visits_needed)).sum()),
        wrong_rows=[_rows(found, Verdict.CONTRADICTED, "Contradicted rows"), _rows(found, Verdict.WRONG, "Wrong rows")],
        longest=_LONGEST_TABLE,
        out=[_handed_out(entry, since(entry.asked_at, now)) for entry in entries if entry.outcome == OUT],
        entries=len(entries),
        last=[_last_row(entry, model.thresholds) for entry in reversed(entries[-_LAST:])],
    )
    with whole_file(path) as file:
        file.write(page)
    return path


def _replayed(campaign: Campaign, events: Sequence[Event]) -> tuple[Replay, list[tuple[int, int]], list[Known]]:
    """Return the state after all events, and the course of (deployments, suspects) and (deployments, rewards)."""
    replay, every = Replay(campaign.fresh_learner()), max(1, len(events) // _LOOKS)
    rarely, moments = max(1, len(events) // _MOMENTS), list[Known]()
    looks = [(0, int(replay.learner.evidence.belief.suspect.sum()))]
    for index, event in enumerate(events):
        replay.apply(event)
        if index % every == 0 or index == len(events) - 1:
            looks.append((replay.deployments, int(replay.learner.evidence.belief.suspect.sum())))
        if index % rarely == 0 or index == len(events) - 1:
            moments.append((replay.deployments, [one.bounds for one in replay.learner.intervals()]))
    return replay, looks, moments


def _course(
    entries: Sequence[Entry], thresholds: Floats, looks: list[tuple[int, int]], stop: tuple[int, float] | None
) -> Course:
    bodies = [entry.body for entry in entries]
    bounds = np.array([body.lower_bounds for body in bodies], dtype=np.float64).reshape(len(bodies), len(thresholds))
    looked_at, suspects = np.array(looks, dtype=np.int64).T
    return Course(
        numbers=np.array([entry.number for entry in entries], dtype=np.int64),
        baseline=np.array([body.reason == Reason.BASELINE.name for body in bodies], dtype=np.bool_),
        uncertainty=np.array([np.nan if body.uncertainty is None else body.uncertainty for body in bodies]),
        exploration_weight=np.array([body.exploration_weight for body in bodies]),
        margins=bounds - thresholds,
        looked_at=looked_at,
        suspects=suspects,
        stop=stop,
    )


# Parts of the page


def _halted_because(status: CampaignStatus, learner: Learner) -> str | None:
    """Return the reason for a halt, shown first on the page; None without one."""
    refuted = [str(doubt) for doubt in learner.doubts() if doubt.code is DoubtCode.MARGIN_REFUTED]
    return "; ".join(refuted) if status.halted else None


def _labels(standing: Standing, found: MismatchMap, broken: Sequence[Doubt]) -> list[tuple[str, str]]:
    """Return the labels of the campaign's standing: (text, certified for green or refuted for red)."""
    if broken:
        return [("AN ASSUMPTION IS FALSE: no guarantee", "refuted")]
    if standing is Standing.CERTIFIED:
        return [("certified", "certified")]
    if standing is Standing.REFUTED:
        constants = "certified constants" if found.certified else "heuristic constants"
        return [(constants, ""), ("AN ASSUMPTION IS REFUTED: no guarantee", "refuted")]
    looks_wrong = [("an assumption looks wrong", "")] if found.count(Verdict.CONTRADICTED) else []
    return [("HEURISTIC, not a guarantee", ""), *looks_wrong]


def _numbers(status: CampaignStatus) -> dict[str, str]:
    uncertainty = rounded_up(status.uncertainty) if np.isfinite(status.uncertainty) else "unbounded"
    relation = "≤" if status.stopped else ">"
    return {
        "state": _state(status),
        "rounds handed out": f"{status.rounds:,}",
        "samples recorded": f"{status.samples:,}",
        "uncertainty against tolerance": f"{uncertainty} {relation} {rounded_up(status.tolerance)}",
        "suspect rows left": f"{status.suspects:,} of {status.rows:,}",
        "expected until the stop (no promise)": _forecast_in_words(status.forecast),
    } | {f"best safe value of {one.name}": _reward_in_words(one) for one in status.rewards}


def _reward_in_words(reward: RewardStatus) -> str:
    near = "accurate" if reward.accurate else f"not within {reward.allowed:.4g} yet"
    return f"between {rounded_down(reward.lower)} and {rounded_up(reward.upper)}, {near}"


def _state(status: CampaignStatus) -> str:
    if status.halted:
        return "HALTED: stop the machine"
    return "stopped: plan now" if status.stopped else f"next: {status.next_reason.lower()}"


def _forecast_in_words(forecast: Forecast | None) -> str:
    if forecast is None:
        return "not computed"
    if forecast.rounds is None or forecast.samples is None:
        return "not reached in a rehearsal"
    if not forecast.rounds:
        return "nothing more"
    early = ", or several times that" if 2 * forecast.undecided > forecast.rows else ""
    return f"{roughly(forecast.rounds, 'round')}, {roughly(forecast.samples, 'sample')}{early}"


def _pictures(
    course: Course, problem: Problem, learner: Learner, found: MismatchMap, moments: Sequence[Known]
) -> dict[str, bytes | None]:
    model, hybrid = problem.simulator, learner.evidence
    any_yet = len(course.numbers) > 0
    needed = draw_visits_needed(found)
    return {
        "certificate": _png(draw_certificate(course, learner.method.stops_at(problem), model.horizon)) if any_yet else None,
        "safety": _png(draw_safety(course, model.wordings, model.thresholds)) if any_yet and model.num_constraints else None,
        "rewards": _png(draw_rewards(moments)) if any_yet and moments and moments[-1][1] else None,
        "mismatch": _png(draw_mismatch(found, hybrid.separation if hybrid.reuses_simulator else None)),
        "visits_needed": None if needed is None else _png(needed),
    }


def _rows(found: MismatchMap, kind: Verdict, title: str) -> dict[str, Any]:
    """Return the rows of a verdict, the farthest from the simulator first."""
    indices = np.argwhere(found.verdict == kind)
    order = np.argsort(-found.distance[found.verdict == kind], kind="stable")[:_LONGEST_TABLE]
    rows = []
    for index in indices[order]:
        place = tuple(index.tolist())
        low, high = float(rounded_down(found.lower[place], 4)), float(rounded_up(found.upper[place], 4))
        interval = f"{low:.4f} to {high:.4f}"
        rows.append((found.row_name(place), f"{found.distance[place]:.4f}", interval, f"{int(found.visits[place]):,}"))
    return {"title": title, "total": len(indices), "rows": rows}


def _handed_out(entry: Entry, *since_then: str) -> tuple[str, ...]:
    return (entry.id, entry.worker, moment(entry.asked_at), *since_then, entry.body.reason.lower())


def _last_row(entry: Entry, thresholds: Floats) -> tuple[str, ...]:
    body = entry.body
    margin = np.min(np.array(body.lower_bounds) - thresholds, initial=np.inf)
    return (
        *_handed_out(entry),
        f"{body.exploration_weight:.4f}",
        "-" if body.uncertainty is None else rounded_up(body.uncertainty),
        "-" if np.isinf(margin) else "0" if abs(margin) <= ROUNDING else rounded_down(margin),
        entry.policy[:8],
        entry.outcome,
        moment(entry.closed_at) if entry.closed_at else "-",
        f"{entry.samples}" if entry.samples else "-",
    )


def _png(figure: Figure) -> bytes:
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=110)
    return content.getvalue()
