"""Logs that were collected earlier by a known policy, read episode by episode and checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from safe2real.errors import Conflict, InvalidInput
from safe2real.exploration.counting import Entry, Episodes, entries_of
from safe2real.exploration.episodes import Seen, check_actions, seen_from
from safe2real.model.cmdp import CMDP
from safe2real.model.encoding import digest_of, policy_to_bytes, to_text
from safe2real.model.policy import MarkovPolicy, check_policy
from safe2real.problem.problem import Problem
from safe2real.standing import Assumption, AssumptionCode

LOGS_ASSUMED = Assumption(
    AssumptionCode.LOGS,
    "every imported log is complete and was not chosen by its content, and its policy is the one that is named",
)
"""What counts an imported log as if it had been collected in the run."""


def check_collector(policy: MarkovPolicy, model: CMDP) -> None:
    """Refuse what cannot have collected a log of `model`."""
    if not isinstance(policy, MarkovPolicy):
        raise InvalidInput(f"policy is a {type(policy).__name__}; give the Markov policy that collected the log")
    check_policy(policy, model)


def read_log(model: CMDP, policy: MarkovPolicy, episodes: Iterable[Any], *, partial: bool) -> list[Seen]:
    """The episodes of a log, checked one by one."""
    found: list[Seen] = []
    for index, episode in enumerate(episodes):
        where = f"episodes[{index}]"
        seen = seen_from(model, episode, where, partial=partial, of_log=True)
        check_actions(policy, seen.path, where)
        found.append(seen)
    if not found:
        raise InvalidInput("the log holds no episode; give at least one")
    twice = [id for id, count in Counter(seen.id for seen in found if seen.id is not None).items() if count > 1]
    if twice:
        raise InvalidInput(f"{len(twice)} ids are there twice, the first is {twice[0]!r}; an id names one episode")
    return found


def log_digest(log: Sequence[Seen]) -> str:
    """Of all episodes of a log as they were given: the same log has the same."""
    return digest_of(to_text([seen.to_json() for seen in log]).encode())


class ImportedLogs:
    """The logs that one learner has counted: none of them counts twice."""

    def __init__(self) -> None:
        self._digests: set[str] = set()
        self._ids: set[str] = set()  # of episodes that have one

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """What certificates rest on because of them."""
        return (LOGS_ASSUMED,) if self._digests else ()

    def read(
        self, problem: Problem, tried: MarkovPolicy | None, policy: MarkovPolicy, episodes: Iterable[Any], *, partial: bool
    ) -> tuple[list[Entry], int]:
        """(what to count, how many episodes) of a log of `policy`; see `Learner.import_episodes`.

        `tried` is the policy on trial, if there is one: a log of it says something about it.
        """
        check_collector(policy, problem.simulator)
        log = read_log(problem.simulator, policy, episodes, partial=partial)
        digest, ids = log_digest(log), {seen.id for seen in log if seen.id is not None}
        known = sorted(ids & self._ids)
        if digest in self._digests or known:
            which = f"episodes with the ids {known[:3]} were" if known else "the same log was"
            raise Conflict(f"{which} imported before, and an episode counts once; leave out what is there already")
        encoded = policy_to_bytes(policy)
        whose = encoded == policy_to_bytes(problem.baseline), tried is not None and encoded == policy_to_bytes(tried)
        content = Episodes([seen.to_json() for seen in log], whose[0], True, whose[1])
        entries = list(entries_of(problem.simulator, [content]))
        self._digests.add(digest)
        self._ids |= ids
        return entries, len(log)
