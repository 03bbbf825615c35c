"""What happened, in order: the only thing a campaign stores that changes. Everything else is computed from it.

An event carries the digest of the one before it, so a changed, missing or inserted event shows. The bodies are JSON:

| kind | deployment, worker | body |
| --- | --- | --- |
| create | | campaign, specification (digest), version |
| ask | number, who asked | the mixture, which of its policies was drawn, and the certificate (`AskBody`) |
| tell | number | states, actions |
| abandon | number | reason |
| import | , source | policy (digest), episodes: a list of states and actions, part, digest of the whole source |
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from typing import Any

from safe2real.campaign.encoding import check_keys, digest_of, from_text, to_text
from safe2real.errors import InvalidInput

CREATE, ASK, TELL, ABANDON, IMPORT = "create", "ask", "tell", "abandon", "import"
BEFORE_THE_FIRST = ""


@dataclass(frozen=True, slots=True)
class Event:
    """One row of the record."""

    sequence: int  # 1, 2, 3, ... without gaps
    kind: str
    deployment: int | None
    worker: str | None  # who asked; the source of an import
    at: str  # UTC, ISO 8601
    body: str  # JSON
    digest: str  # of all of the above and of the event before

    def digest_after(self, previous: str) -> str:
        """What `digest` must be when the event before has the digest `previous`.

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


def event_after(sequence: int, previous: str, draft: Draft) -> Event:
    """The event that follows number `sequence` with digest `previous`, dated now."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    event = Event(sequence + 1, draft.kind, draft.deployment, draft.worker, now, to_text(draft.body), "")
    return replace(event, digest=event.digest_after(previous))


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

    @classmethod
    def read(cls, event: Event) -> AskBody:
        """The body of an ask; refuses one that is not as it was written."""
        where = f"event {event.sequence}"
        given = check_keys(from_text(event.body, where), where, required=tuple(field.name for field in fields(cls)))
        body = cls(**given)
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
        ):
            raise InvalidInput(f"{where} is not a deployment as it was recorded")
        return body


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) < 1e300  # a whole number may be too large to compute with


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [None]
