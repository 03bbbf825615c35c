"""A Gymnasium transition table `P[s][a] = [(probability, next state, reward, terminated), ...]` as checked columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safe2real.errors import InvalidInput
from safe2real.model.checks import Floats, finite_number, positive_integer, shown, whole_numbers

TransitionTable = Mapping[int, Mapping[int, Sequence[Any]]]
"""P[s][a] = [(probability, next state, reward, terminated), ...]"""


@dataclass(frozen=True, eq=False, slots=True)
class Table:
    """N listed outcomes, in the order (state, action); outcomes of probability 0 are left out."""

    num_states: int
    num_actions: int
    states: NDArray[np.int64]  # [N]
    actions: NDArray[np.int64]  # [N]
    successors: NDArray[np.int64]  # [N]
    probabilities: Floats  # [N]
    rewards: Floats  # [N]
    terminated: NDArray[np.bool_]  # [N]


def read_table(table: TransitionTable) -> Table:
    """Every entry looked at once; whether rows sum to 1 is for `Kernel` to say."""
    table = {s: _indexed(f"P[{s}]", row) for s, row in _indexed("P", table).items()}
    num_states = positive_integer("the number of states in the table", len(table))
    num_actions = positive_integer("the number of actions of state 0", len(table[0]) if 0 in table else 0)
    listed = []
    for s in range(num_states):
        if s not in table or sorted(table[s]) != list(range(num_actions)):
            raise InvalidInput(f"P[{s}] must list the actions 0 to {num_actions - 1}, like every other state")
        for a in range(num_actions):
            for k, entry in enumerate(table[s][a]):
                outcome = _outcome(f"P[{s}][{a}][{k}]", entry, num_states)
                if outcome[1] != 0.0:
                    listed.append((s, a, *outcome))
    if not listed:
        raise InvalidInput("the table lists no outcome at all; P[s][a] needs (probability, next state, reward, terminated)")
    return Table(num_states, num_actions, *map(np.array, zip(*listed, strict=True)))


def _indexed(name: str, value: Any) -> Mapping[int, Any]:
    """A mapping as it is, a list as one from its positions."""
    if isinstance(value, Mapping):
        return value
    if isinstance(value, (list, tuple)):
        return dict(enumerate(value))
    raise InvalidInput(
        f"{name} is a {type(value).__name__}; a table is P[s][a] = [(probability, next state, reward, terminated), ...], of "
        "dictionaries or lists; arrays [S, A, S] are for Kernel.from_dense"
    )


def _outcome(name: str, entry: Any, num_states: int) -> tuple[int, float, float, bool]:
    if not isinstance(entry, Sequence) or len(entry) != 4:
        raise InvalidInput(f"{name} is {shown(entry)}; give (probability, next state, reward, terminated)")
    (successor,) = whole_numbers(f"{name}, the next state,", [entry[1]], below=num_states, what="states")
    probability = finite_number(f"{name}, the probability,", entry[0])
    return int(successor), probability, finite_number(f"{name}, the reward,", entry[2]), bool(entry[3])


def terminal_states(table: Table, start: Sequence[int], *, entered: bool) -> set[int]:
    """States in which episodes end, of those that can follow `start`; `entered` says that episodes do begin there."""
    outcomes: list[list[tuple[int, bool]]] = [[] for _ in range(table.num_states)]  # [S] of (successor, terminated)
    for s, t, ended in zip(table.states, table.successors, table.terminated, strict=True):
        outcomes[s].append((int(t), bool(ended)))
    terminal: set[int] = set()
    seen, waiting = set(start), list(start)
    alive = set(start) if entered else set()
    while waiting:
        s = waiting.pop()
        ways_out = any(t != s for t, _ in outcomes[s])
        for t, ends in outcomes[s]:
            if ends and t == s and ways_out:
                raise InvalidInput(
                    f"P[{s}] ends the episode in state {s} itself but also has ways out of it; "
                    "add a separate absorbing state for the end of the episode"
                )
            if t != s:
                (terminal if ends else alive).add(t)
                if not ends and t not in seen:
                    seen.add(t)
                    waiting.append(t)
    both = sorted(terminal & alive)
    if both:
        raise InvalidInput(
            f"state {both[0]} is entered both with and without `terminated`; add a separate absorbing state for the end of "
            "the episode, give the states where episodes `start` if the table lists states that none of them reaches, or "
            "let safe2real.from_gymnasium add the states that are needed"
        )
    return terminal
