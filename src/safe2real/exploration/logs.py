"""Logs that were collected earlier by a known policy, read episode by episode and checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from safe2real.errors import InvalidInput
from safe2real.exploration.episodes import Seen, check_actions, seen_from
from safe2real.model.cmdp import CMDP
from safe2real.model.encoding import digest_of, to_text
from safe2real.model.policy import MarkovPolicy, check_policy
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
