"""Recorded episodes into a learner: what counts together, what counts as a whole, and what refutes.

An episode is an object {"states": [...], "actions": [...]} that was checked when it came (`episodes.py`). Episodes that
follow each other are counted in one call. Logs are counted in one step, since their order may have been chosen by their
content: nothing is concluded between the first and the last of them. An episode that left the model is told as such; and one
of the candidate's that nobody saw is lost, which a method that goes by returns takes for the worst. A campaign's replay and
`Learner.import_logs` count by the same functions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, compress
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from safe2real.errors import InvalidInput
from safe2real.exploration.episodes import leaves
from safe2real.exploration.packed_episodes import PackedEpisodes
from safe2real.model.cmdp import CMDP
from safe2real.model.validation import frozen

if TYPE_CHECKING:
    from safe2real.exploration.told import Telling


@dataclass(frozen=True, slots=True)
class Episodes:
    """Of one policy: one episode or a whole log; without content, one that nobody saw."""

    contents: Sequence[Any]
    of_baseline: bool
    of_candidate: bool = False


Step = Episodes | list[Episodes]
"""What is counted in one step: an episode, or several logs."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One call of `Learner.count`; or of `leave_model`, with one episode and no ends; or of `lose`, with nothing at all."""

    states: NDArray[np.uint32]
    actions: NDArray[np.uint32]
    ends: NDArray[np.int64] | None
    of_baseline: NDArray[np.bool_]
    of_candidate: NDArray[np.bool_]
    at_once: bool  # logs: counted as a whole, so never joined with others
    lost: bool = False


def entry_of(
    states: Any,
    actions: Any,
    ends: Any,
    of_baseline: Any,
    of_candidate: Any = False,
    *,
    at_once: bool = False,
    lost: bool = False,
) -> Entry:
    """Numbers that were checked to be in range; `ends` is None for an episode that left the model."""
    return Entry(
        np.asarray(states, dtype=np.uint32),
        np.asarray(actions, dtype=np.uint32),
        None if ends is None else np.asarray(ends, dtype=np.int64),
        np.atleast_1d(np.asarray(of_baseline, dtype=np.bool_)),
        np.atleast_1d(np.asarray(of_candidate, dtype=np.bool_)),
        at_once,
        lost,
    )


def play(learner: Telling, entry: Entry) -> None:
    """Count one entry into a learner."""
    if entry.lost:
        learner.lose()
    elif entry.ends is None:
        whose = {"of_baseline": bool(entry.of_baseline[0]), "of_candidate": bool(entry.of_candidate[0])}
        learner.leave_model(entry.states.tolist(), entry.actions.tolist(), **whose)
    else:
        learner.count(
            frozen(entry.states),
            frozen(entry.actions),
            entry.ends,
            of_baseline=entry.of_baseline,
            of_candidate=entry.of_candidate,
            at_once=entry.at_once,
        )


def entries_of(model: CMDP, ready: Sequence[Step]) -> Iterator[Entry]:
    """The entries of episodes and logs in the order in which they count.

    Raises:
        InvalidInput: an episode has states or actions that `model` has not.
    """
    run: list[Episodes] = []
    for one in ready:
        if isinstance(one, Episodes) and one.contents and not leaves(model, one.contents[0]):
            run.append(one)
            continue
        yield from _together(model, run)
        if isinstance(one, list):
            yield from _at_once(model, one)
        elif one.contents:
            yield from _outside(model, one.contents[0], one.of_baseline, one.of_candidate)
        else:
            yield entry_of([], [], None, one.of_baseline, one.of_candidate, lost=True)
        run = []
    yield from _together(model, run)


def _at_once(model: CMDP, logs: list[Episodes]) -> Iterator[Entry]:
    """Logs in one step; what left the model in any of them comes after the rest."""
    away = [_leaving(model, log.contents) for log in logs]
    outside = [(content, log) for log, left in zip(logs, away, strict=True) for content in compress(log.contents, left)]
    # Those of the candidate are lost before its others count: without them the others would be chosen by content.
    yield from (entry_of([], [], None, False, True, lost=True) for _, log in outside if log.of_candidate)
    inside = [replace(log, contents=_where(log.contents, ~left)) for log, left in zip(logs, away, strict=True)]
    yield from _together(model, [log for log in inside if log.contents], at_once=True)
    for content, log in outside:
        yield from _outside(model, content, log.of_baseline, False)


def _outside(model: CMDP, content: Any, of_baseline: bool, of_candidate: bool) -> Iterator[Entry]:
    """An episode that left the model, which refutes."""
    states, actions = content["states"], content["actions"]
    _check_range(model, np.array(states, dtype=np.int64), np.array(actions, dtype=np.int64))
    if content.get("left_model", False):
        yield entry_of(states, actions, None, of_baseline, of_candidate)
    else:  # it began where no episode does; what it saw from then on is as good as any
        yield from _together(model, [Episodes([content], False)])
        yield entry_of([], [], None, of_baseline, of_candidate)


def _together(model: CMDP, run: Sequence[Episodes], *, at_once: bool = False) -> Iterator[Entry]:
    if not run:
        return
    laid = [_laid_out(one.contents) for one in run]
    states, actions, lengths = (np.concatenate(one) for one in zip(*laid, strict=True))
    ends = np.concatenate([[0], np.cumsum(lengths)])
    sizes = [len(one.contents) for one in run]
    of_baseline = np.repeat([one.of_baseline for one in run], sizes)
    of_candidate = np.repeat([one.of_candidate for one in run], sizes)
    _check_range(model, states, actions)
    yield entry_of(states, actions, ends, of_baseline, of_candidate, at_once=at_once)


def _leaving(model: CMDP, contents: Sequence[Any]) -> NDArray[np.bool_]:
    """[n] which episodes were somewhere that the model does not have; see `leaves`."""
    if not isinstance(contents, PackedEpisodes):
        return np.array([leaves(model, content) for content in contents], dtype=np.bool_)
    first = contents.first_states
    known = first < model.num_states
    begins = np.zeros(first.size, dtype=np.bool_)
    begins[known] = model.start[first[known]] > 0.0
    return contents.left_model | ~begins


def _where(contents: Sequence[Any], wanted: NDArray[np.bool_]) -> Sequence[Any]:
    chosen = wanted.tolist()
    return contents.where(chosen) if isinstance(contents, PackedEpisodes) else list(compress(contents, chosen))


def _laid_out(contents: Sequence[Any]) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.int64]]:
    """(states, actions, number of actions of each episode)."""
    if isinstance(contents, PackedEpisodes):
        return contents.laid_out()
    states = np.fromiter(chain.from_iterable(e["states"] for e in contents), dtype=np.int64)
    actions = np.fromiter(chain.from_iterable(e["actions"] for e in contents), dtype=np.int64)
    return states, actions, np.fromiter((len(e["actions"]) for e in contents), dtype=np.int64)


def _check_range(model: CMDP, states: NDArray[Any], actions: NDArray[Any]) -> None:
    """A record that was changed could say anything."""
    for numbers, below in ((states, model.num_states), (actions, model.num_actions)):
        if numbers.min(initial=0) < 0 or numbers.max(initial=0) >= below:
            raise InvalidInput("it has states or actions that this system has not")
