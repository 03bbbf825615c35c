"""What happened, in order: the only thing a campaign stores that changes. Everything else is computed from it.

An event carries the digest of the one before it, so a changed, missing or inserted event shows. The bodies are JSON:

| kind | deployment, worker | body |
| --- | --- | --- |
| create | | campaign, specification (digest), version, method, bounds (revisions); `trust_margin` and `lease` where stated |
| ask | number, who asked | the mixture, which of its policies was drawn, and the certificate (`AskBody`) |
| tell | number, who told | states, actions; `left_model` where the last action led where the model has no state |
| abandon | number, who abandoned | reason |
| withdraw | number, who held it | cause ("refuted", "halted", "lease expired"), reason: it must not be run any more |
| import | , source | policy (digest), episodes, and the place in the order in which they are counted (`ImportBody`) |
| branch | , who said so | reason: the record was restored from a copy, and goes on from here; what came after is lost |
| force | , who did it | deployment, holder, reason: another than the holder tells or abandons this deployment, next |
| declare | , who did it | method: the rewards that are explored for from here on |

Who asked is the worker that the deployment is for; `by` in the body is the person or program that called. The others name
that one in the column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from typing import Any

from safe2real.errors import InvalidInput
from safe2real.model.serialization import check_keys, digest_of, from_text, to_text
from safe2real.model.validation import shown
from safe2real.problem.settings import Settings

CREATE, ASK, TELL, ABANDON, WITHDRAW = "create", "ask", "tell", "abandon", "withdraw"
IMPORT, BRANCH, FORCE, DECLARE = "import", "branch", "force", "declare"
REFUTED, HALTED = "refuted", "halted"  # why a deployment is withdrawn
NO_OVERLAP, SKIPPED, COUNTED = "none", "skip", "count"  # what became of episodes that look like recorded ones
IMPORT_SIZE = 5_000  # episodes in one event
_MANY = 10**12  # more than there will ever be of anything
BEFORE_THE_FIRST = ""


@dataclass(frozen=True, slots=True)
class Event:
    """One row of the record."""

    sequence: int  # 1, 2, 3, ... without gaps
    kind: str
    deployment: int | None
    worker: str | None  # who the deployment is for; the source of an import; else who did it (None for the first event)
    at: str  # UTC, ISO 8601
    body: str  # JSON
    digest: str  # of all of the above and of the event before

    @property
    def is_well_typed(self) -> bool:
        """Whether the columns have the types of written events; another journal may return any."""
        texts, optional = (self.kind, self.at, self.body, self.digest), ((self.deployment, int), (self.worker, str))
        return (
            type(self.sequence) is int
            and all(isinstance(text, str) for text in texts)
            and all(value is None or type(value) is kind for value, kind in optional)
        )

    def digest_after(self, previous: str) -> str:
        """Return the digest of this event if the event before has the digest `previous`.

        SHA-256 of the columns one after the other, texts as "length:text" so that nothing can move from one to the next,
        and no deployment or worker as "None", which differs from an empty one.
        """
        worker = None if self.worker is None else f"{len(self.worker)}:{self.worker}"
        framed = (
            f"{previous},{self.sequence},{len(self.kind)}:{self.kind},{self.deployment!r},{worker},"
            f"{len(self.at)}:{self.at},{self.body}"
        )
        return digest_of(framed.encode("utf-8", "surrogatepass"))


@dataclass(frozen=True, slots=True)
class Draft:
    """An event that has no place in the record yet."""

    kind: str
    body: Any
    deployment: int | None = None
    worker: str | None = None


def by_field(one: Event | AskBody | ImportBody) -> dict[str, Any]:
    """Return the values of an event or a body by name; unlike `asdict`, without copies."""
    return {field.name: getattr(one, field.name) for field in fields(one)}


def now() -> str:
    """Return the present time, as events state it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def event_after(sequence: int, previous: str, draft: Draft) -> Event:
    """The event that follows number `sequence` with digest `previous`, dated now."""
    event = Event(sequence + 1, draft.kind, draft.deployment, draft.worker, now(), to_text(draft.body), "")
    return replace(event, digest=event.digest_after(previous))


def chained(events: Sequence[Event]) -> int:
    """Return the number of events, from the first, whose digests form a chain: these are proved to be unchanged."""
    previous = BEFORE_THE_FIRST
    for index, event in enumerate(events):
        if event.sequence != index + 1 or event.digest != event.digest_after(previous):
            return index
        previous = event.digest
    return len(events)


@dataclass(frozen=True, slots=True)
class AskBody:
    """Why a policy was handed out: all that `verify` needs to compute the certificate again."""

    reason: str  # BASELINE or MIXTURE
    weights: list[float]  # of the mixture
    policies: list[str]  # their digests
    candidates: int  # how many of them, from the first, make up the candidate; the rest is the baseline
    drawn: int  # which of them this deployment runs
    exploration_weight: float  # alpha
    uncertainty: float | None  # Delta; null where it is unbounded
    lower_bounds: list[float]  # [K] on V_c of the mixture
    certified: bool
    episodes_counted: int  # what the model had seen
    bounds: dict[str, str]  # the revision of every bound that was used
    by: str  # who asked

    @classmethod
    def read(cls, event: Event) -> AskBody:
        """The body of an ask; refuses one that is not as it was written."""
        where = f"event {event.sequence}"
        body = cls(**_given(cls, event, where))
        numbers = [*_list(body.weights), body.exploration_weight, *_list(body.lower_bounds)]
        whole = (body.candidates, body.drawn, body.episodes_counted)
        if (
            not all(_is_number(number) for number in numbers)
            or not all(type(number) is int and number >= 0 for number in whole)
            or not all(isinstance(digest, str) for digest in _list(body.policies))
            or not (body.uncertainty is None or _is_number(body.uncertainty))
            or type(body.certified) is not bool
            or body.reason not in ("BASELINE", "MIXTURE")
            or len(body.weights) != len(body.policies)
            or not max(body.drawn, body.candidates - 1) < len(body.policies)
            or not (isinstance(body.bounds, dict) and all(isinstance(revision, str) for revision in body.bounds.values()))
            or not isinstance(body.by, str)
        ):
            raise InvalidInput(f"{where} is not a deployment as it was recorded")
        return body


@dataclass(frozen=True, slots=True)
class ImportBody:
    """A part of logs that were collected earlier, and the place of them all in the order in which episodes are counted."""

    policy: str  # digest of the one that collected this part; other parts may be of others
    log: str  # digest of all episodes as they were given
    episodes: list[Any]
    part: int  # 1, 2, ... `parts`
    parts: int
    after: int  # counted after this deployment and before the next
    overlap: str  # what became of the episodes that look like recorded ones
    alike: int  # how many of them there are
    skipped: int  # episodes of the logs that are not here: the record had them
    by: str  # who imported it

    @classmethod
    def read(cls, event: Event) -> ImportBody:
        """The body of an import; refuses one that is not as it was written. Its episodes are not looked at."""
        where = f"event {event.sequence}"
        body = cls(**_given(cls, event, where))
        if not isinstance(body.episodes, list) or not body.episodes or not isinstance(body.log, str):
            raise InvalidInput("the import holds no list of episodes, or not the digest of its log")
        placed = (body.part, body.parts, body.after, body.alike, body.skipped)
        if (
            not all(type(number) is int and 0 <= number < _MANY for number in placed)
            or body.overlap not in (NO_OVERLAP, SKIPPED, COUNTED)
            or not 1 <= body.part <= body.parts
            or (body.overlap == NO_OVERLAP) != (body.alike == 0)
            or not isinstance(body.by, str)
        ):
            raise InvalidInput(f"{where} is not an import as it was recorded")
        return body


def _given(kind: type[AskBody] | type[ImportBody], event: Event, where: str) -> dict[str, Any]:
    return check_keys(from_text(event.body, where), where, required=tuple(field.name for field in fields(kind)))


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) < 1e300  # a whole number may be too large to compute with


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [None]


def checked_name(name: str, value: Any) -> str:
    """A name that is recorded from now on: one line, so that no log, metric or alert shows it as something else.

    Raises:
        InvalidInput: It is no text of 1 to 200 printable characters, or has a line break or a tab.
    """
    if isinstance(value, str) and ("\n" in value or "\t" in value):
        raise InvalidInput(f"{name} is {value[:60]!r}, with a line break or a tab; give a name in one line without tabs")
    return checked_text(name, value, 200)


def checked_text(name: str, value: Any, longest: int) -> str:
    """Return a reason, or a name that is recorded already, if it is printable.

    Raises:
        InvalidInput: It is no text of 1 to `longest` printable characters.
    """
    printable = isinstance(value, str) and value.replace("\n", " ").replace("\t", " ").isprintable()
    if not printable or not value.strip() or len(value) > longest:
        raise InvalidInput(f"{name} is {str(value)[:60]!r}; give a text of 1 to {longest} printable characters")
    return str(value)


# Which rules a record was made by: the method, and the revision of every bound.
#
# A release that changes what a bound says raises its revision. A record of an older revision is checked with the bounds of
# today: what was claimed then must still be provable, and may by now be less than could be.

# Of everything beside the radius that goes into a lower bound or decides what is handed out.
_DELTA = "1"  # the uncertainty of policies that are feasible on the model
_ROBUST = "1"  # the worst value over the confidence sets
_MARGIN = "1"  # the tests of the baseline's margin, and the margin that data prove


def bounds_of(settings: Settings) -> dict[str, str]:
    """Every bound that a campaign with these settings rests on, with its revision, like "adaptive/1"."""
    bounds = {
        "radius": f"{settings.radius.name}/{settings.radius.revision}",
        "uncertainty": f"{'span-bonus' if settings.span_bonus else 'bonus'}/{_DELTA}",
        "margin": f"run-tested/{_MARGIN}",
    }
    bounds |= {one.name: f"{one.name}/{one.revision}" for one in settings.refinements}
    return bounds | ({"safety": f"tv-balls/{_ROBUST}"} if settings.robust_safety else {"safety": f"uncertainty/{_DELTA}"})


def check_bounds(recorded: Any, settings: Settings) -> None:
    """Refuse what these settings cannot have been used with, and what only a newer release can check."""
    if not isinstance(recorded, dict) or recorded.keys() != bounds_of(settings).keys():
        raise InvalidInput(f"the bounds are {shown(recorded)}; a campaign names {', '.join(bounds_of(settings))}")
    for what, known in bounds_of(settings).items():
        name, revision = known.split("/")
        said = recorded[what].split("/") if isinstance(recorded[what], str) else []
        if len(said) != 2 or said[0] != name or not said[1].isdecimal():
            raise InvalidInput(f"the {what} is {shown(recorded[what])}; the settings say {name}")
        if int(said[1]) > int(revision):
            raise InvalidInput(f"the {what} is {recorded[what]}, newer than {known} here; upgrade safe2real to check it")
