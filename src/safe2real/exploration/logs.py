"""Logs that were collected earlier by a known policy, read episode by episode and checked."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from numpy.typing import ArrayLike

from safe2real.errors import Conflict, InvalidInput
from safe2real.exploration.counting import Entry, Episodes, entries_of
from safe2real.exploration.episodes import Seen, seen_from
from safe2real.exploration.packed_episodes import PackedEpisodes
from safe2real.model.cmdp import CMDP
from safe2real.model.policy import MarkovPolicy, fitted
from safe2real.model.serialization import digest_of, fingerprint, policy_to_bytes, to_text
from safe2real.model.trajectory import check_actions
from safe2real.model.validation import shown
from safe2real.problem.problem import Problem
from safe2real.standing import Assumption, AssumptionCode

LOGS_ASSUMED = Assumption(
    AssumptionCode.LOGS,
    "every imported log is complete and was not chosen by its content, its policy is the one that is named, and logs "
    "that were imported one after the other were collected in this order, or without looking at each other",
)
"""What counts an imported log as if it had been collected in the run."""


def pairs_of(logs: Any) -> list[tuple[MarkovPolicy, Any]]:
    """(policy, episodes) pairs; what a policy and its episodes must be is checked elsewhere."""
    listed = list(logs) if isinstance(logs, Iterable) else [logs]
    for place, one in enumerate(listed):
        if not isinstance(one, tuple | list) or len(one) != 2:
            raise InvalidInput(f"logs[{place}] is {shown(one)}; give pairs (policy, episodes of this policy)")
    return [(policy, log) for policy, log in listed]


def checked_collector(policy: MarkovPolicy, model: CMDP) -> MarkovPolicy:
    """As `model` takes it; refuses what cannot have collected a log of `model`."""
    if not isinstance(policy, MarkovPolicy):
        raise InvalidInput(f"policy is a {type(policy).__name__}; give the Markov policy that collected the log")
    return fitted(policy, model)


def read_log(model: CMDP, policy: MarkovPolicy, episodes: Iterable[Any], *, partial: bool) -> list[Seen]:
    """The episodes of a log, checked one by one."""
    found = list(_checked(model, policy, episodes, partial=partial))
    refuse_same_ids(seen.id for seen in found)
    return found


def pack_log(model: CMDP, policy: MarkovPolicy, episodes: Iterable[Any], *, partial: bool) -> PackedEpisodes:
    """The same as they are recorded, in as little memory as that takes: `episodes` may be read as they are needed."""
    found = PackedEpisodes.of(seen.to_json() for seen in _checked(model, policy, episodes, partial=partial))
    refuse_same_ids(found.ids)
    return found


def refuse_same_ids(ids: Iterable[str | None]) -> None:
    """Refuse ids that are there twice; None is no id."""
    twice = [id for id, count in Counter(id for id in ids if id is not None).items() if count > 1]
    if twice:
        raise InvalidInput(f"{len(twice)} ids are there twice, the first is {twice[0]!r}; an id names one episode")


def _checked(model: CMDP, policy: MarkovPolicy, episodes: Iterable[Any], *, partial: bool) -> Iterator[Seen]:
    if not isinstance(episodes, Iterable):
        raise InvalidInput(f"episodes is {shown(episodes)}; give trajectories, or objects {{'states': ..., 'actions': ...}}")
    index = -1
    for index, episode in enumerate(episodes):
        where = f"episodes[{index}]"
        seen = seen_from(model, episode, where, partial=partial, of_log=True)
        check_actions(policy, seen.path, where)
        yield seen
    if index < 0:
        raise InvalidInput("the log holds no episode; give at least one")


def log_digest(episodes: Iterable[Any]) -> str:
    """Of all episodes of a log as they are recorded, the digest of the text of their list: the same log has the same."""
    found, before = hashlib.sha256(), b"["
    for episode in episodes:
        found.update(before + to_text(episode).encode())
        before = b","
    found.update(b"[]" if before == b"[" else b"]")
    return found.hexdigest()


def fitted_among(paths: Iterable[tuple[ArrayLike, ArrayLike]], fitted: frozenset[int]) -> set[int]:
    """Which paths (states, actions) of a log, by place, look like ones that the simulator was estimated from."""
    if not fitted:
        return set()
    return {i for i, (states, actions) in enumerate(paths) if fingerprint(states, actions) in fitted}


def fitted_refusal(
    alike: int, episodes: int, fix: str = "Split the log: estimate_model(log[::2], ...), and import log[1::2]"
) -> str:
    """Why a log from which the simulator was estimated cannot be imported, and what to do instead."""
    return (
        f"{alike} of the {episodes} episodes look like ones that the simulator was estimated from, and the bounds are "
        f"proved for a simulator that was fixed before the counted episodes. {fix}. If these are other episodes that happen "
        "to look alike, import them with overlap='count' (--overlap count), which is recorded as an assumption"
    )


REFUSE, COUNT = "refuse", "count"
"""What to do with episodes that look like ones that were imported before; a campaign has the same words, and "skip"."""


class ImportedLogs:
    """The logs that one learner has counted: no episode of them counts twice unless somebody says that it is another.

    Two episodes that both have an `id` are the same when it is the same. Otherwise all there is to go by is what was seen.
    """

    def __init__(self) -> None:
        self._ids: set[str] = set()  # of episodes that have one
        self._named: set[str] = set()  # what was seen in those, by digest
        self._unnamed: set[str] = set()  # and in those that have none
        self._alike = 0  # episodes that somebody said are others

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """What certificates rest on because of them."""
        if not self._named | self._unnamed:
            return ()
        if not self._alike:
            return (LOGS_ASSUMED,)
        text = (
            f"the {self._alike} imported episodes that look like ones imported before or ones that the simulator was "
            "estimated from are other episodes"
        )
        return (LOGS_ASSUMED, Assumption(AssumptionCode.LOGS, text, COUNT))

    def read(
        self,
        problem: Problem,
        tried: MarkovPolicy | None,
        logs: Sequence[tuple[MarkovPolicy, Iterable[Any]]],
        *,
        partial: bool,
        overlap: str = REFUSE,
    ) -> tuple[list[Entry], int]:
        """(what to count, how many episodes) of logs that are counted in one step; see `Learner.import_logs`.

        `tried` is the policy on trial, if there is one: a log of it says something about it.
        """
        model = problem.simulator
        if overlap not in (REFUSE, COUNT):
            raise InvalidInput(f"overlap is {shown(overlap)}; give {REFUSE!r}, or {COUNT!r} for episodes that are others")
        collectors = [checked_collector(policy, model) for policy, _ in logs]
        read = [
            read_log(model, policy, episodes, partial=partial)
            for policy, (_, episodes) in zip(collectors, logs, strict=True)
        ]
        number, of_simulator, alike = sum(map(len, read)), 0, 0
        ids, named, unnamed = set(self._ids), set(self._named), set(self._unnamed)
        for log in read:
            paths = ((seen.path.states, seen.path.actions) for seen in log)
            fitted_to, keys = fitted_among(paths, problem.fitted_episodes()), [_seen_key(seen) for seen in log]
            of_simulator += len(fitted_to)
            for i, (seen, key) in enumerate(zip(log, keys, strict=True)):
                if seen.id in ids:
                    raise Conflict(
                        f"an episode with the id {seen.id!r} was imported before, and an episode counts once; leave it out"
                    )
                alike += key in unnamed or (seen.id is None and key in named) or i in fitted_to
            unnamed.update(key for seen, key in zip(log, keys, strict=True) if seen.id is None)
            named.update(key for seen, key in zip(log, keys, strict=True) if seen.id is not None)
            ids.update(seen.id for seen in log if seen.id is not None)
        if of_simulator and overlap == REFUSE:
            raise Conflict(fitted_refusal(of_simulator, number))
        if alike and overlap == REFUSE:
            raise Conflict(_refusal(alike, number))
        baseline = policy_to_bytes(problem.baseline)
        on_trial = None if tried is None else policy_to_bytes(fitted(tried, model))
        step = [
            Episodes([seen.to_json() for seen in log], encoded == baseline, encoded == on_trial)
            for log, encoded in zip(read, map(policy_to_bytes, collectors), strict=True)
        ]
        entries = list(entries_of(model, [step]))
        self._ids, self._named, self._unnamed = ids, named, unnamed
        self._alike += alike
        return entries, number


def _seen_key(seen: Seen) -> str:
    """What two episodes have in common that look alike: all but their names."""
    return digest_of(to_text(Seen(seen.path, seen.left_model).to_json()).encode())


def _refusal(alike: int, episodes: int) -> str:
    return (
        f"{alike} of the {episodes} episodes look like ones that were imported before, and an episode counts once. If the "
        "logs overlap, import only what is new, by its place in the log and not by its looks. If these are others, as "
        "is usual where episodes are short and states few, import them with overlap='count', which certificates say. An "
        "`id` for every episode would have settled it"
    )
