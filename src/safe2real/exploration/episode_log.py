"""Episodes for a learner, told or imported from logs: their validation, their storage and how they are counted.

An episode is an object {"states": [...], "actions": [...]} that is checked on arrival. Consecutive episodes are counted in
one call. Logs are counted in one step, since their order may depend on their content: no conclusion is drawn between the
first and the last of them. An episode that left the model is recorded as such. An unreported episode of the candidate is
lost: a method that uses returns counts it as the worst case. A campaign's replay and `Learner.import_logs` count with the
same functions.
"""

from __future__ import annotations

import hashlib
from array import array
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, compress
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from safe2real.errors import Conflict, InvalidInput
from safe2real.model.cmdp import CMDP
from safe2real.model.environment_seeds import refuse_repeated
from safe2real.model.kernel import Kernel
from safe2real.model.policy import MarkovPolicy, fitted
from safe2real.model.serialization import ANY_EPISODE, check_keys, digest_of, is_marked, policy_to_bytes, to_text
from safe2real.model.trajectory import Trajectory, check_actions
from safe2real.model.validation import frozen, shown, whole_numbers
from safe2real.problem.problem import Problem
from safe2real.standing import Assumption, AssumptionCode

if TYPE_CHECKING:
    from safe2real.exploration.learner import Learner

_LEFT = '{"states": [...], "actions": [...], "left_model": true}'
_LONGEST_ID = 200


@dataclass(frozen=True, eq=False, slots=True)
class Seen:
    """One episode as it is recorded."""

    path: Trajectory  # states [n + 1] and actions [n]; with `left_model` as many actions as states, possibly none
    left_model: bool = False  # the last action, or the beginning, led where the model has no state
    id: str | None = None  # the episode's name in a log

    @property
    def transitions(self) -> int:
        return max(0, self.path.states.size - 1)

    def to_json(self) -> dict[str, Any]:
        """Return the stored form; the same episode always gives the same text."""
        content: dict[str, Any] = {"states": self.path.states.tolist(), "actions": self.path.actions.tolist()}
        if self.left_model:
            content["left_model"] = True
        return content if self.id is None else {**content, "id": self.id}


def is_pair(value: Any) -> bool:
    """Return whether `value` is a pair, such as (states, actions)."""
    return isinstance(value, tuple) and len(value) == 2


def check_told(value: Any) -> None:
    """Refuse a value that `tell` cannot record; the message is for a worker, which has no model.

    Raises:
        InvalidInput: It is neither a pair nor a `Trajectory` nor an object with states and actions.
    """
    if isinstance(value, dict):
        _check_keys(value, "the episode", {"left_model"})
    elif not isinstance(value, Trajectory) and not is_pair(value):
        kind = f"a tuple of {len(value)}" if isinstance(value, tuple) else f"a {type(value).__name__}"
        raise InvalidInput(
            f"the episode is {kind}; give the pair (states, actions), with one state more than actions, or with as many of "
            'both if it left the model (left_model=True); or an object {"states": [...], "actions": [...]}'
        )


def seen_in(model: CMDP, states: ArrayLike, actions: ArrayLike, *, partial: bool, left_model: bool) -> Seen:
    """Validate a recorded episode against `model`. Any initial state is accepted."""
    try:
        if left_model:
            return Seen(_before_leaving(model, states, actions), True)
        return Seen(Trajectory.of(model, states, actions, partial=partial, any_start=True))
    except InvalidInput as error:
        if not _goes_outside(model, states):
            raise
        cure = f"give the episode up to then as {_LEFT}" if not left_model else "leave that state out: give those before it"
        raise InvalidInput(f"{error}. If the real system went where the model has no state, {cure}") from error


def seen_from(model: CMDP, value: Any, where: str, *, partial: bool, left_model: bool = False, of_log: bool = False) -> Seen:
    """Return an episode from a `Trajectory`, a pair (states, actions) or an object; objects `of_log` may have an `id`."""
    if isinstance(value, Trajectory):
        return seen_in(model, value.states, value.actions, partial=partial, left_model=left_model)
    if is_pair(value):
        return seen_in(model, *value, partial=partial, left_model=left_model)
    optional = {"left_model", "id"} if of_log else {"left_model"}
    _check_lists(value, where, optional)
    said, id = value.get("left_model", False), value.get("id")
    if type(said) is not bool:
        raise InvalidInput(f"{where}.left_model is {shown(said)}; give true or false")
    if "id" in value and not (isinstance(id, str) and id.isprintable() and id.strip() and len(id) <= _LONGEST_ID):
        raise InvalidInput(f"{where}.id is {shown(id)}; give a text of 1 to {_LONGEST_ID} printable characters")
    try:
        seen = seen_in(model, value["states"], value["actions"], partial=partial, left_model=said or left_model)
    except InvalidInput as error:
        raise InvalidInput(f"{where}: {error}") from error
    return Seen(seen.path, seen.left_model, id)


def episode_from_json(model: CMDP, value: Any, where: str, *, partial: bool) -> Trajectory:
    """Convert {"states": [...], "actions": [...]} to a trajectory of `model` from one of its start states."""
    _check_lists(value, where, set())
    try:
        return Trajectory.of(model, value["states"], value["actions"], partial=partial)
    except InvalidInput as error:
        raise InvalidInput(f"{where}: {error}") from error


def leaves(model: CMDP, content: Any) -> bool:
    """Return whether a recorded episode began or went outside the model."""
    if content.get("left_model", False):
        return True
    first = content["states"][0]
    return not 0 <= first < model.num_states or bool(model.start[first] == 0.0)


def outside_support(support: Kernel, content: Any) -> int:
    """Count the transitions of a recorded episode that a declared support rules out."""
    states, actions, found = content["states"], content["actions"], 0
    for step, (state, action, following) in enumerate(zip(states, actions, states[1:], strict=False)):
        row = (0 if support.is_stationary else step * support.num_states * support.num_actions) + state * support.num_actions
        if 0 <= row + action < support.num_rows:  # else the record was changed, which counting reports
            found += following not in support.row(row + action)[0]
    return found


def transitions_in(content: Any) -> int:
    """Return the number of transitions of a recorded episode."""
    return max(0, len(content["states"]) - 1)


def _before_leaving(model: CMDP, states: ArrayLike, actions: ArrayLike) -> Trajectory:
    visited = whole_numbers("states", states, below=model.num_states, what="states")
    chosen = whole_numbers("actions", actions, below=model.num_actions, what="actions")
    if visited.ndim != 1 or visited.shape != chosen.shape or chosen.size > model.steps:
        raise InvalidInput(
            "an episode that left the model ends with the action whose outcome has no state: as many states as actions, at "
            f"most {model.steps} of each, and none where it began outside; got shapes {visited.shape} and {chosen.shape}"
        )
    return Trajectory(frozen(visited.astype(np.uint32)), frozen(chosen.astype(np.uint32)))


def _goes_outside(model: CMDP, states: Any) -> bool:
    """Return whether one of the states is a whole number that the model does not have."""
    entries = states if isinstance(states, list | tuple) else np.asarray(states).reshape(-1).tolist()
    return any(_is_whole(entry) and not 0 <= entry < model.num_states for entry in entries)


def _is_whole(entry: Any) -> bool:
    """Return whether an entry is a whole number; 1.0 is one, since many languages write 1 like that."""
    return type(entry) is int or (type(entry) is float and entry.is_integer())


def _check_keys(value: Any, where: str, optional: set[str]) -> None:
    if not isinstance(value, dict) or not {"states", "actions"} <= set(value) <= {"states", "actions"} | optional:
        found = f"an object with the keys {shown(list(value))}" if isinstance(value, dict) else shown(value)
        more = f", with {' and '.join(sorted(optional))} if you like" if optional else ""
        raise InvalidInput(f'{where} is {found}; give {{"states": [...], "actions": [...]}}{more}')


def _check_lists(value: Any, where: str, optional: set[str]) -> None:
    _check_keys(value, where, optional)
    for name in ("states", "actions"):
        entries = value[name]
        if not isinstance(entries, list):
            raise InvalidInput(f"{where}.{name} is {shown(entries)}; give a list of whole numbers, one for each step")
        wrong = next((index for index, entry in enumerate(entries) if not _is_whole(entry)), None)
        if wrong is not None:
            raise InvalidInput(f"{where}.{name}[{wrong}] is {shown(entries[wrong])}; give a whole number")


_KEYS = {"states", "actions", "left_model", "id"}
_NUMBER = "I"  # uint32, as everywhere
_PLACE = "q"


class PackedEpisodes(Sequence[Any]):
    """A read-only list of episode objects, stored as arrays; each access makes a new object."""

    __slots__ = ("_action_ends", "_actions", "_ids", "_left", "_state_ends", "_states")

    def __init__(self, episodes: Iterable[Any] = ()) -> None:
        """Pack episode objects, such as `Seen.to_json` gives.

        Raises:
            TypeError: an object has other keys, or something else than whole numbers.
            OverflowError: a number is not from 0 to 2^32 - 1.
        """
        self._states, self._actions = array(_NUMBER), array(_NUMBER)
        self._state_ends, self._action_ends = array(_PLACE, [0]), array(_PLACE, [0])
        self._left: set[int] = set()  # places of those that left the model
        self._ids: dict[int, str] = {}  # by place
        for episode in episodes:
            self._add(episode)

    def _add(self, episode: Any) -> None:
        if not isinstance(episode, dict) or not {"states", "actions"} <= episode.keys() <= _KEYS:
            raise TypeError("an episode object has states and actions, and may have left_model and id")
        place, left, id = len(self), episode.get("left_model", False), episode.get("id")
        if not isinstance(left, bool) or not isinstance(id, str | None):
            raise TypeError("left_model is true or false, and id a text")
        self._states.extend(array(_NUMBER, episode["states"]))
        self._actions.extend(array(_NUMBER, episode["actions"]))
        self._state_ends.append(len(self._states))
        self._action_ends.append(len(self._actions))
        if left:
            self._left.add(place)
        if id is not None:
            self._ids[place] = id

    def __repr__(self) -> str:
        return f"PackedEpisodes({list(self)!r})"

    def __len__(self) -> int:
        return len(self._state_ends) - 1

    @overload
    def __getitem__(self, place: int) -> Any: ...
    @overload
    def __getitem__(self, place: slice) -> list[Any]: ...
    def __getitem__(self, place: int | slice) -> Any:
        if isinstance(place, slice):
            return [self[i] for i in range(*place.indices(len(self)))]
        i = range(len(self))[place]
        found: dict[str, Any] = {
            "states": self._states[self._state_ends[i] : self._state_ends[i + 1]].tolist(),
            "actions": self._actions[self._action_ends[i] : self._action_ends[i + 1]].tolist(),
        }
        if i in self._left:
            found["left_model"] = True
        if i in self._ids:
            found["id"] = self._ids[i]
        return found

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def where(self, wanted: Sequence[bool]) -> PackedEpisodes:
        """Return the episodes whose entry in `wanted` [n] is true; itself if all are."""
        return self if all(wanted) else PackedEpisodes(compress(self, wanted))

    @property
    def ids(self) -> Sequence[str]:
        """The ids of the episodes that have one."""
        return list(self._ids.values())

    @property
    def first_states(self) -> NDArray[np.uint32]:
        """[n] first state of each episode; 0 for an episode without a state."""
        numbers = np.frombuffer(self._states, dtype=np.uint32) if self._states else np.zeros(0, dtype=np.uint32)
        begins, ends = (np.array(self._state_ends)[place] for place in (slice(None, -1), slice(1, None)))
        found = np.zeros(len(self), dtype=np.uint32)
        found[ends > begins] = numbers[begins[ends > begins]]
        return found

    @property
    def left_model(self) -> NDArray[np.bool_]:
        """[n] whether each episode is recorded as having left the model."""
        found = np.zeros(len(self), dtype=np.bool_)
        found[list(self._left)] = True
        return found

    def laid_out(self) -> tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.int64]]:
        """Return (states, actions, number of actions of each episode [n]) without copying."""
        states, actions = (np.frombuffer(one or b"", dtype=np.uint32) for one in (self._states, self._actions))
        return states, actions, np.diff(np.array(self._action_ends))


def packed(episodes: list[Any]) -> Sequence[Any]:
    """Return the episodes packed into arrays; unchanged if a tampered record holds other values."""
    try:
        return PackedEpisodes(episodes)
    except (TypeError, OverflowError):
        return episodes


@dataclass(frozen=True, slots=True)
class Episodes:
    """An episode or a whole log of one policy; an empty one is a lost episode."""

    contents: Sequence[Any]
    of_baseline: bool
    of_candidate: bool = False


Step = Episodes | list[Episodes]
"""The unit of counting: an episode, or several logs."""


def count_in_order(learner: Learner, steps: Iterable[Step]) -> None:
    """Count episodes and logs into a learner, one after the other; episodes that follow each other in one call.

    Args:
        learner: it is changed.
        steps: in the order in which they count.

    Raises:
        InvalidInput: an episode has states or actions that the learner's system has not.
    """
    run: list[Episodes] = []
    for one in steps:
        if isinstance(one, Episodes) and one.contents and not leaves(learner.simulator, one.contents[0]):
            run.append(one)
            continue
        _count_together(learner, run)
        run = []
        if isinstance(one, list):
            _count_logs(learner, one)
        elif one.contents:
            _count_outside(learner, one.contents[0], one)
        else:
            learner.lose()
    _count_together(learner, run)


def _count_logs(learner: Learner, logs: list[Episodes]) -> None:
    """Count logs in one step; episodes that left the model come last."""
    away = [_leaving(learner.simulator, log.contents) for log in logs]
    outside = [(content, log) for log, left in zip(logs, away, strict=True) for content in compress(log.contents, left)]
    for _, log in outside:  # lose the candidate's first: counting only the others would be a selection by content
        if log.of_candidate:
            learner.lose()
    inside = [replace(log, contents=_where(log.contents, ~left)) for log, left in zip(logs, away, strict=True)]
    _count_together(learner, [log for log in inside if log.contents], at_once=True)
    for content, log in outside:
        _count_outside(learner, content, replace(log, of_candidate=False))


def _count_outside(learner: Learner, content: Any, of: Episodes) -> None:
    """Count an episode that left the model; this refutes."""
    states, actions = content["states"], content["actions"]
    _check_range(learner.simulator, np.array(states, dtype=np.int64), np.array(actions, dtype=np.int64))
    whose = {"of_baseline": of.of_baseline, "of_candidate": of.of_candidate}
    if content.get("left_model", False):
        learner.leave_model(states, actions, **whose)
    else:  # it began outside the start states; its transitions are still valid data
        _count_together(learner, [Episodes([content], False)])
        learner.leave_model([], [], **whose)


def _count_together(learner: Learner, run: Sequence[Episodes], *, at_once: bool = False) -> None:
    if not run:
        return
    states, actions, lengths = (np.concatenate(one) for one in zip(*(_laid_out(one.contents) for one in run), strict=True))
    _check_range(learner.simulator, states, actions)
    sizes = [len(one.contents) for one in run]
    learner.count(
        frozen(states.astype(np.uint32)),
        frozen(actions.astype(np.uint32)),
        np.concatenate([[0], np.cumsum(lengths)]),
        of_baseline=np.repeat([one.of_baseline for one in run], sizes),
        of_candidate=np.repeat([one.of_candidate for one in run], sizes),
        at_once=at_once,
    )


def _leaving(model: CMDP, contents: Sequence[Any]) -> NDArray[np.bool_]:
    """Return [n] which episodes began or went outside the model; see `leaves`."""
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
    """Return (states, actions, number of actions of each episode)."""
    if isinstance(contents, PackedEpisodes):
        return contents.laid_out()
    states = np.fromiter(chain.from_iterable(e["states"] for e in contents), dtype=np.int64)
    actions = np.fromiter(chain.from_iterable(e["actions"] for e in contents), dtype=np.int64)
    return states, actions, np.fromiter((len(e["actions"]) for e in contents), dtype=np.int64)


def _check_range(model: CMDP, states: NDArray[Any], actions: NDArray[Any]) -> None:
    """Refuse numbers out of range, as a tampered record may hold."""
    for numbers, below in ((states, model.num_states), (actions, model.num_actions)):
        if numbers.min(initial=0) < 0 or numbers.max(initial=0) >= below:
            raise InvalidInput("it has states or actions that this system has not")


LOGS_ASSUMED = Assumption(
    AssumptionCode.LOGS,
    "every imported log is complete and was not chosen by its content, its policy is the one that is named, and logs "
    "that were imported one after the other were collected in this order, or without looking at each other",
)
"""Assumption under which an imported log counts like episodes of the run."""


def pairs_of(logs: Any) -> list[tuple[MarkovPolicy, Any]]:
    """Return (policy, episodes) pairs; their contents are checked elsewhere."""
    listed = list(logs) if isinstance(logs, Iterable) else [logs]
    for place, one in enumerate(listed):
        if not isinstance(one, tuple | list) or len(one) != 2:
            raise InvalidInput(f"logs[{place}] is {shown(one)}; give pairs (policy, episodes of this policy)")
    return [(policy, log) for policy, log in listed]


def checked_collector(policy: MarkovPolicy, model: CMDP) -> MarkovPolicy:
    """Return the policy fitted to `model`; refuse one that cannot have collected its logs."""
    if not isinstance(policy, MarkovPolicy):
        raise InvalidInput(f"policy is a {type(policy).__name__}; give the Markov policy that collected the log")
    return fitted(policy, model)


def pack_log(
    model: CMDP, policy: MarkovPolicy, episodes: Iterable[Any], *, partial: bool, seeds: set[int] | None = None
) -> PackedEpisodes:
    """Return a log's episodes in their stored form, checked one by one; `episodes` may be lazy.

    Environment seeds of trajectories are added to `seeds`; one that is there already, or twice in the log, is refused.
    """
    used = set[int]() if seeds is None else seeds
    found = PackedEpisodes(seen.to_json() for seen in _checked(model, policy, episodes, used, partial=partial))
    refuse_same_ids(found.ids)
    return found


def refuse_same_ids(ids: Iterable[str | None]) -> None:
    """Refuse ids that are there twice; None is no id."""
    twice = [id for id, count in Counter(id for id in ids if id is not None).items() if count > 1]
    if twice:
        raise InvalidInput(f"{len(twice)} ids are there twice, the first is {twice[0]!r}; an id names one episode")


def _checked(
    model: CMDP, policy: MarkovPolicy, episodes: Iterable[Any], seeds: set[int], *, partial: bool
) -> Iterator[Seen]:
    if not isinstance(episodes, Iterable):
        raise InvalidInput(f"episodes is {shown(episodes)}; give trajectories, or objects {{'states': ..., 'actions': ...}}")
    index = -1
    for index, episode in enumerate(episodes):
        where = f"episodes[{index}]"
        seen = seen_from(model, episode, where, partial=partial, of_log=True)
        check_actions(policy, seen.path, where)
        if isinstance(episode, Trajectory):
            seeds.update(refuse_repeated([episode.seed], seeds))
        yield seen
    if index < 0:
        raise InvalidInput("the log holds no episode; give at least one")


def log_digest(episodes: Iterable[Any]) -> str:
    """Digest the text of all episodes of a log in their stored form."""
    found, before = hashlib.sha256(), b"["
    for episode in episodes:
        found.update(before + to_text(episode).encode())
        before = b","
    found.update(b"[]" if before == b"[" else b"]")
    return found.hexdigest()


def fitted_among(episodes: Iterable[Any], fitted: frozenset[int]) -> set[int]:
    """Return the indices of episodes that equal ones from which the simulator was estimated."""
    if not fitted:
        return set()
    return {i for i, one in enumerate(episodes) if is_marked(fitted, one["states"], one["actions"])}


def fitted_refusal(
    alike: int,
    episodes: int,
    fitted: Container[int],
    fix: str = "Split the log: estimate_from_log(log[::2], ...), and import log[1::2]",
) -> str:
    """Return the message that refuses a log from which the simulator, with the marks `fitted`, was estimated."""
    looks = f"{alike} of the {episodes} episodes look like ones that the simulator was estimated from"
    if ANY_EPISODE in fitted:
        looks = "the simulator is the model of a plan, which holds what a learner's episodes showed, and maybe these"
        fix = "Take the simulator of that learner"
    return (
        f"{looks}, and the bounds are "
        f"proved for a simulator that was fixed before the counted episodes. {fix}. If these are other episodes that happen "
        "to look alike, import them with overlap='count' (--overlap count), which is recorded as an assumption"
    )


REFUSE, COUNT = "refuse", "count"
"""Treatment of episodes that equal imported ones; a campaign also has "skip"."""


class ImportedLogs:
    """The logs that a learner has counted, so that no episode of them counts twice.

    Two episodes with an `id` are the same if the ids are equal. Otherwise they are compared by content; equal ones are
    refused unless the user declares them to be different episodes.
    """

    def __init__(
        self, ids: Iterable[str] = (), named: Iterable[str] = (), unnamed: Iterable[str] = (), alike: int = 0
    ) -> None:
        self._ids = set(ids)  # of episodes that have one
        self._named = set(named)  # digests of their contents
        self._unnamed = set(unnamed)  # digests of episodes without an id
        self._alike = alike  # equal ones that the user declared to be different

    def state(self) -> dict[str, Any]:
        """Return the ids and digests as JSON."""
        return {
            "ids": sorted(self._ids),
            "named": sorted(self._named),
            "unnamed": sorted(self._unnamed),
            "alike": self._alike,
        }

    @classmethod
    def from_state(cls, given: Any) -> ImportedLogs:
        """Return the logs whose `state` this is.

        Raises:
            InvalidInput: it is the state of something else.
        """
        state = check_keys(given, "imported", required=("ids", "named", "unnamed", "alike"))
        alike = state.pop("alike")
        if type(alike) is not int or not all(isinstance(one, list) and all(map(_is_text, one)) for one in state.values()):
            raise InvalidInput(f"imported is {shown(given)}; give lists of texts, and how many episodes look alike")
        return cls(**state, alike=alike)

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """The assumptions that certificates make about imported logs."""
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
    ) -> list[Episodes]:
        """Check logs and return their episodes, to be counted in one step; see `Learner.import_logs`.

        `tried` is the policy on trial, if there is one: its logs count as the candidate's.
        """
        model = problem.simulator
        if overlap not in (REFUSE, COUNT):
            raise InvalidInput(f"overlap is {shown(overlap)}; give {REFUSE!r}, or {COUNT!r} for episodes that are others")
        collectors = [checked_collector(policy, model) for policy, _ in logs]
        read = [pack_log(model, one, log, partial=partial) for one, (_, log) in zip(collectors, logs, strict=True)]
        number, of_simulator, alike = sum(map(len, read)), 0, 0
        ids, named, unnamed = set(self._ids), set(self._named), set(self._unnamed)
        for log in read:
            fitted_to, seen = fitted_among(log, problem.fitted_episodes()), [(one.pop("id", None), one) for one in log]
            keys = [(id, digest_of(to_text(one).encode())) for id, one in seen]
            of_simulator += len(fitted_to)
            for i, (id, key) in enumerate(keys):
                if id in ids:
                    raise Conflict(
                        f"an episode with the id {id!r} was imported before, and an episode counts once; leave it out"
                    )
                alike += key in unnamed or (id is None and key in named) or i in fitted_to
            unnamed.update(key for id, key in keys if id is None)
            named.update(key for id, key in keys if id is not None)
            ids.update(log.ids)
        if of_simulator and overlap == REFUSE:
            raise Conflict(fitted_refusal(of_simulator, number, problem.fitted_episodes()))
        if alike and overlap == REFUSE:
            raise Conflict(
                f"{alike} of the {number} episodes look like ones that were imported before, and an episode counts once. If "
                "the logs overlap, import only what is new, by its place in the log and not by its looks. If these are "
                "others, as is usual where episodes are short and states few, import them with overlap='count', which "
                "certificates say. An `id` for every episode would have settled it"
            )
        self._ids, self._named, self._unnamed, self._alike = ids, named, unnamed, self._alike + alike
        baseline = policy_to_bytes(problem.baseline)
        on_trial = None if tried is None else policy_to_bytes(fitted(tried, model))
        encoded = map(policy_to_bytes, collectors)
        return [Episodes(log, one == baseline, one == on_trial) for log, one in zip(read, encoded, strict=True)]


def _is_text(value: Any) -> bool:
    return isinstance(value, str)
