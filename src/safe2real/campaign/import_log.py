"""Logs that were collected earlier: which of their episodes does the record have already?

Logs overlap: January, then January and February. An episode that is counted twice is worth two where it is worth one. A log
may name its episodes (`id`), and then it is clear which they are. Without names all there is to go by is their content, and
short episodes of small systems are often alike without being the same. So episodes that look like recorded ones are refused
unless someone says what they are: the same (`Overlap.SKIP`), or others (`Overlap.COUNT`). Which of several that look alike
is which does not matter, since a log is counted as a whole.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain
from typing import TYPE_CHECKING, Any

from safe2real.campaign import events as kinds
from safe2real.campaign.deployment import Receipt, id_of
from safe2real.campaign.events import ASK, COUNTED, IMPORT, NO_OVERLAP, SKIPPED, TELL, AskBody, Draft, Event, ImportBody
from safe2real.campaign.history import Episode, episodes_of
from safe2real.errors import Conflict, InvalidInput
from safe2real.exploration.episode_log import (
    PackedEpisodes,
    checked_collector,
    fitted_among,
    fitted_refusal,
    log_digest,
    pack_log,
    refuse_same_ids,
    transitions_in,
)
from safe2real.model.policy import MarkovPolicy, carried_out
from safe2real.model.serialization import digest_of, is_marked, policy_to_bytes, to_text

if TYPE_CHECKING:
    from safe2real.campaign.campaign import Campaign
    from safe2real.campaign.record import Record

_OWN = "this campaign's own deployments"


class Overlap(StrEnum):
    """The treatment of imported episodes that look like recorded ones."""

    REFUSE = "refuse"
    """Refuse the log, and say how many there are."""
    SKIP = "skip"
    """They are the same episodes: leave them out."""
    COUNT = "count"
    """They are other episodes that happen to be alike: count them."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The episodes of a log that are to be recorded."""

    episodes: PackedEpisodes
    overlap: str  # as it is recorded
    alike: int
    skipped: int


_Earlier = list[tuple[str, bool]]  # recorded episodes of one source in order: content, and whether they have an id


@dataclass(slots=True)
class RecordedEpisodes:
    """The recorded episodes by source, and those with an id."""

    _all: dict[tuple[str, str | None], _Earlier] = field(default_factory=dict)  # by source, and policy of told ones
    ids: dict[str, tuple[str, str]] = field(default_factory=dict)  # id -> (source, content)
    out: set[str] = field(default_factory=set)  # ids of deployments that were not told

    def sources(self, policy: str) -> dict[str, _Earlier]:
        """Return the recorded episodes that a log of `policy` (digest) could hold: imported, or told of this policy."""
        return {source: earlier for (source, whose), earlier in self._all.items() if whose in (None, policy)}

    def add(self, source: str, key: str, id: str | None, told_by: str | None = None) -> None:
        """Add an episode; `told_by` is the policy's digest of one that was told to a deployment."""
        self._all.setdefault((source, told_by), []).append((key, id is not None))
        if id is not None:
            self.ids[id] = (source, key)


def key_of(content: dict[str, Any]) -> str:
    """Return the content of an episode without its id, to compare episodes."""
    return to_text({name: value for name, value in content.items() if name != "id"})


def choose(log: PackedEpisodes, policy: str, overlap: Overlap, recorded: RecordedEpisodes, fitted: frozenset[int]) -> Chosen:
    """Which episodes of a log of `policy` (digest) to record, given those that the record has; raises `Conflict`.

    `fitted` are fingerprints of the episodes that the simulator was estimated from.
    """
    sources = recorded.sources(policy)
    fresh = log.where([not _is_known(episode, recorded) for episode in log])
    named = len(log) - len(fresh)
    alike = _alike(fresh, sources)
    known_to_simulator = fitted_among(fresh, fitted)
    total = len(known_to_simulator.union(*alike.values()))
    if overlap is Overlap.REFUSE and known_to_simulator:
        raise Conflict(fitted_refusal(len(known_to_simulator), len(log), fitted))
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
    left = _without_recorded(fresh, sources)
    if known_to_simulator := fitted_among(left, fitted):  # skipped by their looks, the rare ones would be left
        raise Conflict(fitted_refusal(len(known_to_simulator), len(log), fitted))
    return Chosen(left, SKIPPED, len(fresh) - len(left), len(log) - len(left))


def recorded_of(name: str, events: Iterable[Event]) -> RecordedEpisodes:
    """All episodes that were told to campaign `name` or imported."""
    found = RecordedEpisodes()
    asked: dict[int | None, tuple[str, str]] = {}  # number -> policy, id
    for event in events:
        if event.kind == ASK:
            body, id = AskBody.read(event), id_of(name, event)
            asked[event.deployment] = (body.policies[body.drawn], id)
            found.out.add(id)
        elif event.kind == TELL and event.deployment in asked:
            collector, id = asked[event.deployment]
            found.out.discard(id)
            found.ids[id] = (_OWN, event.body)
            found.add(_OWN, event.body, None, collector)
        elif event.kind == IMPORT:
            for content in ImportBody.read(event).episodes:
                found.add(f"the log {event.worker!r}", key_of(content), content.get("id"))
    return found


def _is_known(episode: dict[str, Any], recorded: RecordedEpisodes) -> bool:
    """Return whether this id is recorded; refuse it if it is recorded with other content."""
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


def _matching(fresh: PackedEpisodes, earlier: _Earlier, pick: Callable[[list[str], list[str]], set[int]]) -> set[int]:
    """Which of the fresh ones (indices) could be recorded ones of one source: those whose places `pick` returns.

    `pick` is given the contents of fresh and of recorded ones that are comparable: two that have ids are not.
    """
    unnamed = [key for key, named in earlier if not named]
    groups: list[tuple[Sequence[int], list[str]]] = [(range(len(fresh)), unnamed)]
    if len(unnamed) < len(earlier):
        named = [index for index, episode in enumerate(fresh) if "id" in episode]
        others = sorted(set(range(len(fresh))).difference(named))
        groups = [(others, [key for key, _ in earlier]), (named, unnamed)]
    return {indices[place] for indices, keys in groups for place in pick([key_of(fresh[index]) for index in indices], keys)}


def _alike(fresh: PackedEpisodes, sources: dict[str, _Earlier]) -> dict[str, set[int]]:
    """Which episodes look like one of an earlier source, by its name."""
    found = {name: _matching(fresh, earlier, _first_of) for name, earlier in sources.items()}
    return {name: places for name, places in found.items() if places}


def _without_recorded(fresh: PackedEpisodes, sources: dict[str, _Earlier]) -> PackedEpisodes:
    """Remove the episodes that earlier sources have; refuse a log for which it is ambiguous which ones those are."""
    left = fresh
    for name, earlier in sources.items():
        dropped = _matching(left, earlier, functools.partial(_shared, name))
        left = left.where([index not in dropped for index in range(len(left))])
    return left


def _shared(name: str, mine: Sequence[str], keys: Sequence[str]) -> set[int]:
    """Return the indices in `mine` of the episodes that two overlapping logs share.

    They are determined if one log contains the other, or continues where the other ended. Removing arbitrary episodes of
    equal content would leave the rare ones: a biased sample.
    """
    common = Counter(mine) & Counter(keys)
    if not common or common in (Counter(mine), Counter(keys)):
        return _first_of(mine, common.elements())
    after, before = _overhang(keys, mine), _overhang(mine, keys)
    if max(after, before) == 0:
        raise Conflict(
            f"{common.total()} episodes look like ones of {name}, but neither log holds the other, nor does one go on where "
            "the other ended, so it is not clear which they are: give every episode an `id`, or leave them out yourself and "
            "import the rest with overlap='count' (--overlap count)"
        )
    return set(range(after)) if after >= before else set(range(len(mine) - before, len(mine)))


def _first_of(mine: Sequence[str], keys: Iterable[str]) -> set[int]:
    """Return the indices in `mine` of the first episodes of each content, as often as it occurs in `keys`."""
    missing, places = Counter(keys), set()
    for place, key in enumerate(mine):
        if missing[key] > 0:
            missing[key] -= 1
            places.add(place)
    return places


def _overhang(first: Sequence[str], second: Sequence[str]) -> int:
    """Return the length of the longest suffix of `first` that is a prefix of `second` (Knuth, Morris, Pratt)."""
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


def parts_of(chosen: Sequence[tuple[str, Chosen]], digest: str, *, after: int, by: str) -> Iterator[ImportBody]:
    """Return the events of an import of logs, each with its policy (digest), `IMPORT_SIZE` episodes or fewer in each."""
    size = kinds.IMPORT_SIZE
    pieces = [(policy, log, first) for policy, log in chosen for first in range(0, len(log.episodes), size)]
    overlap = next((log.overlap for _, log in chosen if log.alike), NO_OVERLAP)
    alike, skipped = sum(log.alike for _, log in chosen), sum(log.skipped for _, log in chosen)
    for number, (policy, log, first) in enumerate(pieces, 1):
        episodes = log.episodes[first : first + size]
        yield ImportBody(policy, digest, episodes, number, len(pieces), after, overlap, alike, skipped, by)


_SAME_IMPORT = "another log of the same import"
Log = tuple[MarkovPolicy, Iterable[Any], Overlap | str]
"""A policy, the episodes that it collected, and what to do with those that look like recorded ones."""


def import_logs(record: Record, source: str, logs: Sequence[Log], *, partial: bool) -> Receipt:
    """Record logs that are counted in one step; see `Campaign.import_logs`.

    Their `overlap` may not be "skip" for some and "count" for others: one of the two is recorded.
    """
    added, receipt = _append(record, source, logs, partial=partial)  # of which the events alone are kept
    if added:
        record.take(added)
        record.keep_snapshot()  # of a long log, which the next process would have to count first
    return receipt


def _append(record: Record, source: str, logs: Sequence[Log], *, partial: bool) -> tuple[list[Event], Receipt]:
    """(the events that were added, what to answer)."""
    model = record.problem.simulator
    for _, _, overlap in logs:
        if overlap not in list(Overlap):
            raise InvalidInput(f"overlap is {overlap!r}; give one of {', '.join(Overlap)}")
    collectors = [checked_collector(policy, model) for policy, _, _ in logs]
    seeds = set[int]()
    read = [
        pack_log(model, policy, episodes, partial=partial, seeds=seeds)
        for policy, (_, episodes, _) in zip(collectors, logs, strict=True)
    ]
    refuse_same_ids(chain(*(log.ids for log in read)))
    encoded = list(map(policy_to_bytes, collectors))
    digests = list(map(digest_of, encoded))
    whole = log_digest(chain(*read))
    with record.writing() as transaction:
        imports = list(transaction.events_of_kind(IMPORT))
        earlier = [event for event in imports if event.worker == source]
        if earlier:
            first = ImportBody.read(earlier[0])
            if first.log != whole:
                raise Conflict(f"another log was imported as {source!r} at {earlier[0].at}; give this one a name of its own")
            return [], Receipt(earlier[-1].sequence, False, sum(map(transitions_in, chain(*read))), first.skipped)
        twin = next((event for event in imports if f'"log":"{whole}"' in event.body), None)
        if twin is not None and any(overlap == Overlap.REFUSE for _, _, overlap in logs):
            raise Conflict(f"the same log was imported as {twin.worker!r} at {twin.at}; it counts once, under one name")
        fitted, chosen = record.problem.fitted_episodes(), []
        recorded = recorded_of(record.name, transaction.events())
        for place, (log, digest, (_, _, overlap)) in enumerate(zip(read, digests, logs, strict=True)):
            for episode in read[place - 1] if place else ():
                recorded.add(_SAME_IMPORT, key_of(episode), episode.get("id"))
            chosen.append(choose(log, digest, Overlap(overlap), recorded, fitted))
        skipped, samples = sum(one.skipped for one in chosen), sum(transitions_in(e) for one in chosen for e in one.episodes)
        if not any(len(one.episodes) for one in chosen):
            return [], Receipt(transaction.last()[0], False, 0, skipped)
        transaction.add_policies([content for content, one in zip(encoded, chosen, strict=True) if len(one.episodes)])
        parts = parts_of(list(zip(digests, chosen, strict=True)), whole, after=record.replay.deployments, by=record.by)
        added = transaction.append(Draft(IMPORT, kinds.by_field(part), worker=source) for part in parts)
    return added, Receipt(added[-1].sequence, True, samples, skipped)


# The episodes of one campaign for another: after a refutation they need not be rolled out again.
#
# Problem: a campaign whose margin, support or gap was refuted is over, and what it collected was expensive. A new campaign
# with other assumptions takes all of it in as logs, one for each policy that was run, in one step: which policies were run
# and how often followed from earlier episodes, so the logs of only some of them are a biased sample. What was abandoned was
# seen by no worker and is no part of them: certificates of the new campaign assume that it was not given up because of what
# happened.


@dataclass(frozen=True, slots=True)
class CarriedOver:
    """The episodes that a campaign took over from another."""

    campaign: str  # the name of the other
    policies: int  # logs, one for each policy that was run there
    episodes: int  # that were not taken in before
    samples: int


def carry_over(into: Campaign, earlier: Campaign, *, overlap: Overlap | str = Overlap.REFUSE) -> CarriedOver:
    """Import every episode that was told to, or imported into, `earlier`; done again, it adds what has come since.

    Both campaigns must be about one real system in one numbering. Episodes keep the ids of their deployments, so none is
    counted twice. It is all or none, and counted in one step.

    Args:
        into: the campaign that goes on.
        earlier: the one whose episodes are taken; it is only read.
        overlap: "count" says that episodes which look like ones that the simulator of `into` was estimated from, or that
            have no id and look like recorded ones, are others; certificates then say so.

    Returns:
        How much there was.

    Raises:
        InvalidInput: the two are not about systems of one size, or are one and the same; or `overlap` is "skip".
        Conflict: an episode is a deployment of `into` itself, or its id names another one there; or the simulator of `into`
            was estimated from episodes that look like these.
    """
    here, there = into.problem.simulator, earlier.problem.simulator
    if overlap not in (Overlap.REFUSE, Overlap.COUNT):
        raise InvalidInput(f"overlap is {overlap!r}; give 'refuse' or 'count': what is here already is left out")
    if into.name == earlier.name:
        raise InvalidInput(f"{into.name} is the campaign itself; give another one, whose episodes are to be taken over")
    sizes = [(model.steps, model.num_states, model.num_actions) for model in (here, there)]
    if sizes[0] != sizes[1]:
        raise InvalidInput(
            f"episodes of {earlier.name} have (steps, states, actions) = {sizes[1]}, those of {into.name} {sizes[0]}; only "
            "episodes of the same system can be taken over"
        )
    had = {episode.deployment or episode.id for episode in episodes_of(into.name, into.events(), here)}
    logs: dict[tuple[str, bool], list[Episode]] = {}  # by policy, and whether they have ids
    for episode in episodes_of(earlier.name, earlier.events(), there):
        if _id_of(earlier, episode) not in had:
            named = bool(episode.deployment or episode.id)
            logs.setdefault((episode.policy, named), []).append(episode)
    if overlap != Overlap.COUNT:
        _refuse_fitted(into, [episode for log in logs.values() for episode in log])
    if not logs:
        return CarriedOver(earlier.name, 0, 0, 0)
    policies, numbers = earlier.stored_policies(), [episode.number for log in logs.values() for episode in log]
    given = [
        (
            carried_out(policies[digest], there),  # either of the two may count its end
            [_content(earlier, episode) for episode in log],
            # By their ids they are other episodes than those that were told here, however alike they look. Of a log without
            # ids it is unknown whether it was imported into both.
            Overlap.COUNT if named else overlap,
        )
        for (digest, named), log in logs.items()
    ]
    receipt = import_logs(into.record, f"{earlier.name}/{min(numbers)}-{max(numbers)}", given, partial=True)
    return CarriedOver(earlier.name, len({policy for policy, _ in logs}), len(numbers), receipt.samples)


def _refuse_fitted(into: Campaign, episodes: list[Episode]) -> None:
    """Refuse episodes from which the simulator of `into` was estimated, before the first log is imported."""
    fitted = into.problem.fitted_episodes()
    alike = sum(is_marked(fitted, one.states, one.actions) for one in episodes) if fitted else 0
    if alike:
        fix = "Create the new campaign with the earlier simulator, or with one that was not estimated from these episodes"
        raise Conflict(fitted_refusal(alike, len(episodes), fitted, fix))


def _id_of(earlier: Campaign, episode: Episode) -> str:
    """That of its deployment, wherever it was told first; an imported one without an id is named by its place."""
    return episode.deployment or episode.id or f"{earlier.name}, episode {episode.number}"


def _content(earlier: Campaign, episode: Episode) -> dict[str, Any]:
    left = {"left_model": True} if episode.left_model else {}
    return {"states": list(episode.states), "actions": list(episode.actions), "id": _id_of(earlier, episode), **left}
