"""One self-contained page about a campaign: where it stands, what was deployed and why, where the simulator is wrong."""

from __future__ import annotations

import io
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from safe2real.campaign.campaign import Campaign
from safe2real.campaign.deployment import in_the_field
from safe2real.campaign.events import Event
from safe2real.campaign.files import whole_file
from safe2real.campaign.history import ABANDONED, LEFT_MODEL, OUT, WITHDRAWN, Entry, entries_of
from safe2real.campaign.leases import EXPIRED
from safe2real.campaign.replay import Replay
from safe2real.campaign.status import CampaignStatus, Forecast, forecast_of, status_of
from safe2real.evidence.mismatch_map import MismatchMap, Verdict, map_mismatch
from safe2real.exploration.learner import Learner, Reason
from safe2real.exploration.problem import Problem
from safe2real.model.checks import Floats
from safe2real.report.campaign_figures import (
    ROUNDING,
    Course,
    draw_certificate,
    draw_mismatch,
    draw_safety,
    draw_visits_needed,
    row_name,
)
from safe2real.report.page import Html, document, escaped, label, picture, table
from safe2real.standing import Doubt, DoubtCode, Standing, standing_of
from safe2real.version import __version__

_LOOKS = 200  # moments at which the suspects are counted
_LAST = 20  # deployments in the table
_LONGEST_TABLE = 200
_ALPHA = Html("&alpha;")


def write_campaign_report(campaign: Campaign, path: Path, *, forecast: bool = True, broken: Sequence[Doubt] = ()) -> Path:
    """Write the page; `forecast` rehearses the rest of the campaign, which takes long for large systems.

    Everything on it is computed anew from the events that are recorded now. `broken` are assumptions that are known to be
    false, as they can be in a rehearsal: nothing on the page is a guarantee then.
    """
    problem, events = campaign.specification, campaign.events()
    replay, looked_at, suspects = _replayed(problem, events)
    learner = replay.learner
    entries = entries_of(campaign.name, events, problem.simulator)
    status = status_of(campaign.name, replay, forecast_of(problem, learner) if forecast else None)
    found = map_mismatch(learner.hybrid)
    stop = (status.rounds, status.uncertainty) if status.stopped else None
    course = _course(entries, problem.simulator.thresholds, looked_at, suspects, stop)
    now, standing = datetime.now(UTC), standing_of((*broken, *learner.doubts()))
    body = "".join(
        (
            _banner(status, learner),
            _headline(status, standing, found, now, broken),
            _warnings(status, found, entries, course, now),
            _guarantee(replay, broken),
            _deployed(course, problem, standing),
            _simulator(learner, found),
            _tables(entries, problem.simulator.thresholds, now),
        )
    )
    with whole_file(path) as file:
        file.write(document(f"safe2real: campaign {campaign.name}", body))
    return path


def _replayed(problem: Problem, events: Sequence[Event]) -> tuple[Replay, list[int], list[int]]:
    """The state after all events, and how many rows were suspect on the way."""
    replay, looked_at, suspects = Replay(problem), [0], []
    suspects.append(int(replay.learner.hybrid.belief.suspect.sum()))
    every = max(1, len(events) // _LOOKS)
    for index, event in enumerate(events):
        replay.apply(event)
        if index % every == 0 or index == len(events) - 1:
            looked_at.append(replay.deployments)
            suspects.append(int(replay.learner.hybrid.belief.suspect.sum()))
    return replay, looked_at, suspects


def _course(
    entries: Sequence[Entry], thresholds: Floats, looked_at: list[int], suspects: list[int], stop: tuple[int, float] | None
) -> Course:
    bodies = [entry.body for entry in entries]
    bounds = np.array([body.lower_bounds for body in bodies], dtype=np.float64).reshape(len(bodies), len(thresholds))
    return Course(
        numbers=np.array([entry.number for entry in entries], dtype=np.int64),
        baseline=np.array([body.reason == Reason.BASELINE.name for body in bodies], dtype=np.bool_),
        uncertainty=np.array([np.nan if body.uncertainty is None else body.uncertainty for body in bodies]),
        exploration_weight=np.array([body.exploration_weight for body in bodies]),
        margins=bounds - thresholds,
        looked_at=np.array(looked_at, dtype=np.int64),
        suspects=np.array(suspects, dtype=np.int64),
        stop=stop,
    )


# The parts of the page


def _banner(status: CampaignStatus, learner: Learner) -> str:
    """What must be seen before anything else."""
    if not status.halted:
        return ""
    doubts = "; ".join(str(doubt) for doubt in learner.doubts() if doubt.code is DoubtCode.MARGIN_REFUTED)
    return (
        f"<div class='stop'><b>STOP THE MACHINE.</b> The baseline itself is not as safe as was stated: {escaped(doubts)}. "
        "Nothing is handed out any more. Tell what is still out; then find a margin that is there, state it in a new "
        "campaign, and import this record into it.</div>"
    )


def _headline(status: CampaignStatus, standing: Standing, found: MismatchMap, now: datetime, broken: Sequence[Doubt]) -> str:
    if broken:
        labels = label("AN ASSUMPTION IS FALSE: no guarantee", "refuted")
    elif standing is Standing.CERTIFIED:
        labels = label("certified", "certified")
    elif standing is Standing.REFUTED:
        constants = label("certified constants" if found.certified else "heuristic constants")
        labels = Html(constants + label("AN ASSUMPTION IS REFUTED: no guarantee", "refuted"))
    else:
        looks_wrong = label("an assumption looks wrong") if found.count(Verdict.CONTRADICTED) else ""
        labels = Html(label("HEURISTIC, not a guarantee") + looks_wrong)
    delta = f"{status.uncertainty:.4g}" if np.isfinite(status.uncertainty) else "unbounded"
    relation = "≤" if status.stopped else ">"
    numbers = {
        "state": _state(status),
        "rounds handed out": f"{status.rounds:,}",
        "samples recorded": f"{status.samples:,}",
        "certificate Δ against tolerance τ": f"{delta} {relation} {status.tolerance:.4g}",
        "suspect rows left": f"{status.suspects:,} of {status.rows:,}",
        "expected until the stop (no promise)": _forecast_in_words(status.forecast),
    }
    boxes = "".join(f"<div><b>{escaped(value)}</b>{escaped(name)}</div>" for name, value in numbers.items())
    imported = f" and {status.imported:,} imported" if status.imported else ""
    return (
        f"<h1>Campaign {escaped(status.name)}{labels}</h1><div class='numbers'>{boxes}</div>"
        f"<p class='remark'>As of {now:%Y-%m-%d %H:%M:%S} UTC: {status.events:,} events, {status.told:,} episodes told"
        f"{imported} ({status.cut_short:,} cut short). Safe2real {__version__}. Note the digest of the last event "
        f"elsewhere, and give it to <code>verify</code> later: <code>{escaped(status.head)}</code></p>"
    )


def _state(status: CampaignStatus) -> str:
    if status.halted:
        return "HALTED: stop the machine"
    return "stopped: plan now" if status.stopped else f"next: {status.next_reason.lower()}"


def _forecast_in_words(forecast: Forecast | None) -> str:
    if forecast is None:
        return "not computed"
    if forecast.rounds is None or forecast.samples is None:
        return "not reached in a rehearsal"
    return f"{forecast.rounds:,} rounds, {forecast.samples:,} samples" if forecast.rounds else "nothing more"


def _warnings(status: CampaignStatus, found: MismatchMap, entries: Sequence[Entry], course: Course, now: datetime) -> str:
    warnings = []
    refuted = found.count(Verdict.CONTRADICTED)
    if refuted:
        how = "The data" if found.certified else "With the heuristic radius, which proves nothing, the data"
        consequence = "The guarantee does not hold for this system; start" if found.certified else "Consider"
        warnings.append(
            f"{how} contradict an assumption in {_count(refuted, 'row')} (named below): a known or cleared row is farther "
            "from the simulator than it may be, or a row lies strictly between the two gaps. "
            f"{consequence} a campaign with other gaps or fewer known rows."
        )
    if status.left_model:
        told = [entry.id for entry in entries if entry.outcome == LEFT_MODEL]
        named = ", ".join(told[:10]) + ("…" if len(told) > 10 else "")
        logged = status.left_model - len(told)
        where = " and ".join(filter(None, (named, f"{_count(logged, 'imported one')}" if logged else "")))
        warnings.append(
            f"{_count(status.left_model, 'episode')} went where the model has no state ({where}): the model lacks something "
            "that the real system has. Nothing is certified any more; add that state, and start a campaign with it."
        )
    broken = course.numbers[(course.margins < -ROUNDING).any(axis=1)]
    if len(broken):
        named = ", ".join(f"{number:,}" for number in broken[:10]) + ("…" if len(broken) > 10 else "")
        warnings.append(
            f"{_count(len(broken), 'deployment')} recorded with a lower bound below a threshold ({named}): this program "
            "hands out no such policy; run verify."
        )
    out = [entry for entry in entries if entry.outcome == OUT]
    if out:
        oldest = min(out, key=lambda entry: entry.asked_at)
        verb = "is" if len(out) == 1 else "are"
        warnings.append(
            f"{_count(len(out), 'deployment')} {verb} out; the oldest is {oldest.id} with {oldest.worker}, for "
            f"{_since(oldest.asked_at, now)}. Tell each one, or abandon it."
        )
    if status.episodes_waiting:
        warnings.append(
            f"{_count(status.episodes_waiting, 'episode')} recorded and not counted yet: waiting for {status.waiting_for}, "
            "which was handed out earlier."
        )
    lost = [entry for entry in entries if entry.outcome == ABANDONED]
    if lost:
        reasons = sorted({entry.why_given_up for entry in lost})
        few = "; ".join(reason[:80] for reason in reasons[:5]) + ("; …" if len(reasons) > 5 else "")
        warnings.append(
            f"{_count(len(lost), 'deployment')} abandoned ({few}). The guarantee assumes that this had nothing to do with "
            "what happened in them."
        )
    expired = [entry for entry in entries if entry.outcome == WITHDRAWN and entry.why_given_up == EXPIRED]
    if expired:
        warnings.append(
            f"{_count(len(expired), 'deployment')} withdrawn because the lease was over. The guarantee assumes that this "
            "had nothing to do with what happened in them."
        )
    withdrawn = [entry for entry in entries if entry.outcome == WITHDRAWN and entry not in expired]
    if withdrawn:
        named = ", ".join(entry.id for entry in withdrawn[:10]) + ("…" if len(withdrawn) > 10 else "")
        warnings.append(
            f"{_count(len(withdrawn), 'deployment')} withdrawn ({named}), because the data refute what they rested on. What "
            "has run of them can still be told."
        )
    return "".join(f"<p class='warning'>{escaped(warning)}</p>" for warning in warnings)


def _guarantee(replay: Replay, broken: Sequence[Doubt]) -> str:
    learner, thresholds = replay.learner, replay.learner.simulator.thresholds
    certificate = learner.certify(thresholds, thresholds, broken)
    if not certificate.certified:
        reasons = "".join(f"<li>{escaped(reason)}</li>" for reason in map(str, certificate.doubts))
        return f"<h2>No guarantee</h2><p>Nothing on this page is a guarantee:</p><ul>{reasons}</ul>"
    settings = learner.settings
    assumed = in_the_field(certificate, replay.said_of_logs).assumptions
    assumptions = "".join(f"<li>{escaped(str(one))}</li>" for one in assumed)
    constraints = "".join(
        f"<li>{escaped(name)}: the expected sum over an episode is at least {threshold:.6g}</li>"
        for name, threshold in zip(learner.simulator.labels, thresholds, strict=True)
    )
    met = (
        f"every mixture that is handed out meets every constraint on the real system:</p><ul>{constraints}</ul><p>"
        if constraints
        else "the certificate below is right (there is no safety constraint). "
    )
    return (
        f"<h2>The guarantee</h2><p>With probability at least {1.0 - settings.delta:g} over the whole campaign, {met}"
        f"Every plan meets them too, and is within its printed bound of the best. It is a guarantee in expectation, "
        f"over the coin of the mixture too, and it rests on all of these assumptions:</p><ul>{assumptions}</ul>"
    )


def _deployed(course: Course, problem: Problem, standing: Standing) -> str:
    if len(course.numbers) == 0:
        return "<h2>Deployments</h2><p>None has been handed out yet.</p>"
    model = problem.simulator
    certificate = draw_certificate(course, problem.settings.tolerance, model.horizon)
    parts = [
        "<h2>Certificate</h2>",
        picture(_png(certificate), "the certificate over time", whole=True),
        f"<p class='remark'>Δ bounds how wrong the value of any policy that is feasible on the learnt model can be; the "
        f"campaign stops when it reaches τ. {_ALPHA} is the share of the exploring candidate in the mixture; suspects are "
        "rows that are still learnt from real data.</p>",
        "<h2>Safety of each deployment</h2>",
    ]
    if model.num_constraints == 0:
        return "".join(parts) + "<p>This system has no safety constraint.</p>"
    safety = draw_safety(course, model.labels, model.thresholds)
    smallest = course.margins.min()
    parts += [
        picture(_png(safety), "lower bounds minus thresholds of each deployment", whole=True),
        f"<p class='remark'>The {standing} lower bound on V<sub>c</sub> of the mixture that was handed out, on the real "
        f"system, as recorded. The smallest is {max(0.0, smallest):.3g} above its threshold; {_ALPHA} is chosen so that a "
        "mixture uses its margin up, so 0 is usual.</p>"
        if smallest >= -ROUNDING
        else f"<p class='no'>The smallest bound is {-smallest:.3g} below its threshold.</p>",
    ]
    return "".join(parts)


def _simulator(learner: Learner, found: MismatchMap) -> str:
    hybrid = learner.hybrid
    parts = [
        "<h2>Where the simulator is wrong</h2>",
        picture(
            _png(draw_mismatch(found, hybrid.separation if hybrid.reuses_simulator else None)), "mismatch map", whole=True
        ),
    ]
    needed = draw_visits_needed(found)
    if needed is not None:
        parts.append(picture(_png(needed), "visits that open rows need", whole=True))
    never = int(((found.verdict == Verdict.OPEN) & np.isinf(found.visits_needed)).sum())
    if not hybrid.reuses_simulator:
        parts.append("<p class='remark'>This campaign never trusts the simulator (Algorithm 2): no row is ever cleared.</p>")
    elif never:
        parts.append(
            f"<p class='remark'>{_count(never, 'open row')} would not be cleared by any number of visits if the present "
            "estimate stays: too far from the simulator.</p>"
        )
    for kind, title in ((Verdict.CONTRADICTED, "Contradicted rows"), (Verdict.WRONG, "Wrong rows")):
        parts.append(_rows(found, kind, title))
    return "".join(parts)


def _rows(found: MismatchMap, kind: Verdict, title: str) -> str:
    indices = np.argwhere(found.verdict == kind)
    if len(indices) == 0:
        return ""
    order = np.argsort(-found.distance[found.verdict == kind], kind="stable")[:_LONGEST_TABLE]
    rows = []
    for index in indices[order]:
        place = tuple(index.tolist())
        interval = f"{found.lower[place]:.4f} to {found.upper[place]:.4f}"
        rows.append((row_name(place), f"{found.distance[place]:.4f}", interval, f"{int(found.visits[place]):,}"))
    shown = "" if len(rows) == len(indices) else f", the {len(rows)} farthest of them"
    return f"<h3>{title}: {len(indices):,}{shown}</h3>" + table(("row", "estimated TV distance", "interval", "visits"), rows)


def _tables(entries: Sequence[Entry], thresholds: Floats, now: datetime) -> str:
    if not entries:
        return ""
    parts = []
    out = [entry for entry in entries if entry.outcome == OUT]
    if out:
        rows = [
            (one.id, one.worker, _moment(one.asked_at), _since(one.asked_at, now), one.body.reason.lower()) for one in out
        ]
        more = "" if len(rows) <= _LONGEST_TABLE else f", the oldest {_LONGEST_TABLE}"
        parts.append(f"<h2>Deployments that are out: {len(out):,}{more}</h2>")
        parts.append(table(("deployment", "worker", "handed out (UTC)", "out for", "reason"), rows[:_LONGEST_TABLE]))
    parts.append(f"<h2>The last {min(_LAST, len(entries))} deployments</h2>")
    header = (
        "deployment", "worker", "handed out (UTC)", "reason", _ALPHA, "Δ", "bound - threshold", "policy", "outcome",
        "closed (UTC)", "steps",
    )  # fmt: skip
    parts.append(table(header, [_last_row(entry, thresholds) for entry in reversed(entries[-_LAST:])]))
    if len(thresholds) > 1:
        parts.append("<p class='remark'>The bound is that of the constraint with the smallest margin.</p>")
    return "".join(parts)


def _last_row(entry: Entry, thresholds: Floats) -> tuple[str, ...]:
    body = entry.body
    margin = np.min(np.array(body.lower_bounds) - thresholds, initial=np.inf)
    return (
        entry.id,
        entry.worker,
        _moment(entry.asked_at),
        body.reason.lower(),
        f"{body.exploration_weight:.4f}",
        "-" if body.uncertainty is None else f"{body.uncertainty:.4g}",
        "-" if np.isinf(margin) else "0" if abs(margin) <= ROUNDING else f"{margin:.3g}",
        entry.policy[:8],
        entry.outcome,
        _moment(entry.closed_at) if entry.closed_at else "-",
        f"{entry.samples}" if entry.samples else "-",
    )


# Words


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def _moment(at: str) -> str:
    return f"{datetime.fromisoformat(at):%Y-%m-%d %H:%M:%S}"


def _since(at: str, now: datetime) -> str:
    """For how long, in words."""
    seconds = max(0.0, (now - datetime.fromisoformat(at)).total_seconds())
    for size, unit in ((86_400.0, "days"), (3_600.0, "hours"), (60.0, "minutes")):
        if seconds >= 2.0 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} seconds"


def _png(figure: Figure) -> bytes:
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=110)
    return content.getvalue()
