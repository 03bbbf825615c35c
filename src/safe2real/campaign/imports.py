"""Logs that were collected earlier: which of their episodes does the record have already?

Logs overlap: January, then January and February. An episode that is counted twice is worth two where it is worth one. A log
may name its episodes (`id`), and then it is clear which they are. Without names all there is to go by is their content, and
short episodes of small systems are often alike without being the same. So episodes that look like recorded ones are refused
unless someone says what they are: the same (`Overlap.SKIP`), or others (`Overlap.COUNT`). Which of several that look alike
is which does not matter, since a log is counted as a whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from safe2real.campaign.deployment import id_of
from safe2real.campaign.events import ASK, COUNTED, IMPORT, NO_OVERLAP, SKIPPED, TELL, AskBody, Event, ImportBody
from safe2real.errors import Conflict
from safe2real.exploration.logs import fitted_among, fitted_refusal
from safe2real.exploration.packed_episodes import PackedEpisodes
from safe2real.model.serialization import to_text

_OWN = "this campaign's own deployments"


class Overlap(StrEnum):
    """What to do with episodes of a log that look like recorded ones."""

    REFUSE = "refuse"
    """Refuse the log, and say how many there are."""
    SKIP = "skip"
    """They are the same episodes: leave them out."""
    COUNT = "count"
    """They are other episodes that happen to be alike: count them."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """What is left of a log to be recorded."""

    episodes: PackedEpisodes
    overlap: str  # as it is recorded
    alike: int
    skipped: int


_Earlier = list[tuple[str, bool]]  # recorded episodes of one source in order: content, and whether they have an id


@dataclass(slots=True)
class Recorded:
    """All episodes that are in the record and could be of one policy, and those that have names."""

    sources: dict[str, _Earlier] = field(default_factory=dict)
    ids: dict[str, tuple[str, str]] = field(default_factory=dict)  # id -> (source, content)
    out: set[str] = field(default_factory=set)  # ids of deployments that were not told

    def add(self, source: str, key: str, id: str | None) -> None:
        self.sources.setdefault(source, []).append((key, id is not None))
        if id is not None:
            self.ids[id] = (source, key)


def key_of(content: dict[str, Any]) -> str:
    """What two episodes have in common that look alike: all but their names."""
    return to_text({name: value for name, value in content.items() if name != "id"})


def choose(log: PackedEpisodes, overlap: Overlap, recorded: Recorded, fitted: frozenset[int]) -> Chosen:
    """Which episodes of a log to record, given those that the record has; raises `Conflict`.

    `fitted` are fingerprints of the episodes that the simulator was estimated from.
    """
    fresh = log.where([not _is_known(episode, recorded) for episode in log])
    named = len(log) - len(fresh)
    alike = _alike(fresh, recorded)
    known_to_simulator = fitted_among(_paths(fresh), fitted)
    total = len(known_to_simulator.union(*alike.values()))
    if overlap is Overlap.REFUSE and known_to_simulator:
        raise Conflict(fitted_refusal(len(known_to_simulator), len(log)))
    if overlap is Overlap.REFUSE and (named or total):
        raise Conflict(_refusal(len(log), named, total, {name: len(places) for name, places in alike.items()}))
    if overlap is Overlap.COUNT and named:
        raise Conflict(
            f"{named} of the {len(log)} episodes have the id of a recorded one, so they are the same and cannot count "
            "as others; leave them out with overlap='skip' (--overlap skip)"
        )
    if not total:
        return Chosen(fresh, NO_OVERLAP, 0, named)
    if overlap is Overlap.COUNT:
        return Chosen(fresh, COUNTED, total, 0)
    left = _without_recorded(fresh, recorded)
    if known_to_simulator := fitted_among(_paths(left), fitted):  # skipped by their looks, the rare ones would be left
        raise Conflict(fitted_refusal(len(known_to_simulator), len(log)))
    return Chosen(left, SKIPPED, len(fresh) - len(left), len(log) - len(left))


def recorded_of(name: str, policy: str, events: Iterable[Event]) -> Recorded:
    """Imported episodes of any policy, and told ones of `policy` (digest): a log of it can hold no others."""
    found = Recorded()
    asked: dict[int | None, tuple[str, list[str]]] = {}  # number -> policy, ids
    for event in events:
        if event.kind == ASK:
            body = AskBody.read(event)
            ids = [id_of(name, event)] if body.by else [id_of(name, event), f"{name}-{event.deployment}"]  # of release 0.1
            asked[event.deployment] = (body.policies[body.drawn], ids)
            found.out.update(ids)
        elif event.kind == TELL and event.deployment in asked:
            collector, ids = asked[event.deployment]
            found.out.difference_update(ids)
            found.ids.update(dict.fromkeys(ids, (_OWN, event.body)))
            if collector == policy:
                found.add(_OWN, event.body, None)
        elif event.kind == IMPORT:
            for content in ImportBody.read(event).episodes:
                found.add(f"the log {event.worker!r}", key_of(content), content.get("id"))
    return found


def _paths(episodes: PackedEpisodes) -> Iterator[tuple[list[int], list[int]]]:
    return ((episode["states"], episode["actions"]) for episode in episodes)


def _is_known(episode: dict[str, Any], recorded: Recorded) -> bool:
    """Whether the record has an episode of this id; an id that names another one there is a mistake in the log."""
    id = episode.get("id")
    if id is None:
        return False
    if id in recorded.out:
        raise Conflict(f"the episode {id!r} is a deployment of this campaign that was not told; tell it instead")
    if id not in recorded.ids:
        return False
    source, key = recorded.ids[id]
    if key != key_of(episode):
        raise Conflict(f"the id {id!r} names another episode in {source}; an id names one episode, whatever the log")
    return True


def _comparable(fresh: PackedEpisodes, earlier: _Earlier) -> Iterator[tuple[list[int], list[str]]]:
    """Which of the fresh ones (indices) could be which of the recorded ones (contents): two that have ids are not."""
    unnamed = [key for key, named in earlier if not named]
    if len(unnamed) == len(earlier):
        yield list(range(len(fresh))), unnamed
        return
    yield [index for index, episode in enumerate(fresh) if "id" not in episode], [key for key, _ in earlier]
    yield [index for index, episode in enumerate(fresh) if "id" in episode], unnamed


def _alike(fresh: PackedEpisodes, recorded: Recorded) -> dict[str, set[int]]:
    """Which episodes look like one of an earlier source, by its name."""
    found: dict[str, set[int]] = {}
    for name, earlier in recorded.sources.items():
        for indices, keys in _comparable(fresh, earlier):
            mine = [key_of(fresh[index]) for index in indices]
            found.setdefault(name, set()).update(indices[place] for place in _first_of(mine, Counter(keys)))
    return {name: places for name, places in found.items() if places}


def _without_recorded(fresh: PackedEpisodes, recorded: Recorded) -> PackedEpisodes:
    """What is left when the episodes of earlier sources are taken out; refuses where it is not clear which those are."""
    left = fresh
    for name, earlier in recorded.sources.items():
        dropped: set[int] = set()
        for indices, keys in _comparable(left, earlier):
            mine = [key_of(left[index]) for index in indices]
            dropped |= {indices[place] for place in _shared(mine, keys, name)}
        left = left.where([index not in dropped for index in range(len(left))])
    return left


def _shared(mine: Sequence[str], keys: Sequence[str], name: str) -> set[int]:
    """The places in `mine` of the episodes that two overlapping logs have in common.

    It is clear which those are where one log holds the other whole, and where one goes on where the other ended. To take out
    just any that look alike would leave the rare ones: a biased sample.
    """
    common = Counter(mine) & Counter(keys)
    if not common or common in (Counter(mine), Counter(keys)):
        return _first_of(mine, common)
    after, before = _overhang(keys, mine), _overhang(mine, keys)
    if max(after, before) == 0:
        raise Conflict(
            f"{common.total()} episodes look like ones of {name}, but neither log holds the other, nor does one go on where "
            "the other ended, so it is not clear which they are: give every episode an `id`, or leave them out yourself and "
            "import the rest with overlap='count' (--overlap count)"
        )
    return set(range(after)) if after >= before else set(range(len(mine) - before, len(mine)))


def _first_of(mine: Sequence[str], common: Counter[str]) -> set[int]:
    """The places of the first so many of each."""
    missing, places = Counter(common), set()
    for place, key in enumerate(mine):
        if missing[key] > 0:
            missing[key] -= 1
            places.add(place)
    return places


def _overhang(first: Sequence[str], second: Sequence[str]) -> int:
    """How many entries at the end of `first` are those at the beginning of `second`: the most (Knuth, Morris, Pratt)."""
    border = [0] * len(second)
    for place in range(1, len(second)):
        border[place] = _extended(border, second, border[place - 1], second[place])
    matched = 0
    for entry in first:
        matched = _extended(border, second, border[matched - 1] if matched == len(second) else matched, entry)
    return matched


def _extended(border: Sequence[int], pattern: Sequence[str], matched: int, entry: str) -> int:
    while matched and pattern[matched] != entry:
        matched = border[matched - 1]
    return matched + (pattern[matched] == entry)


def _refusal(episodes: int, known: int, alike: int, sources: dict[str, int]) -> str:
    where = ", ".join(f"{count} in {name}" for name, count in sources.items())
    by_id = f"{known} of the {episodes} episodes have the id of a recorded one" if known else ""
    if not alike:
        return f"{by_id}; leave them out with overlap='skip' (--overlap skip)"
    by_content = f"{alike} of the {episodes} episodes look like recorded ones ({where})"
    return (
        f"{' and '.join(filter(None, (by_id, by_content)))}. If the logs overlap, import with overlap='skip' (--overlap "
        "skip). If these are other episodes, as is usual where episodes are short and states few, with overlap='count' "
        "(--overlap count), which is recorded as an assumption. An `id` for every episode would have settled it"
    )


def parts_of(chosen: Sequence[tuple[str, Chosen]], whole: ImportBody, size: int) -> Iterator[ImportBody]:
    """The events of an import of logs, each with its policy (digest), `size` episodes or fewer each, one after the other.

    `whole` says what is the same in all of them.
    """
    pieces = [(policy, log, first) for policy, log in chosen for first in range(0, len(log.episodes), size)]
    overlap = next((log.overlap for _, log in chosen if log.alike), NO_OVERLAP)
    alike, skipped = sum(log.alike for _, log in chosen), sum(log.skipped for _, log in chosen)
    whole = replace(whole, parts=len(pieces), overlap=overlap, alike=alike, skipped=skipped)
    for number, (policy, log, first) in enumerate(pieces, 1):
        yield replace(whole, policy=policy, episodes=log.episodes[first : first + size], part=number)
