"""The contract of engines: tasks in, the result of each exactly once out.

A worker may be lost at any moment: killed, out of memory, its machine switched off. What it was doing is done again by
another, so a task may run more than once; its result is handed out once. Tasks must be functions of their arguments alone.
A task that raises is a mistake, not a loss: its exception ends the run. Tasks are taken only a few ahead of the workers, so
that there may be endlessly many, and so that a lost driver has lost little.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice
from typing import Any, ClassVar, TypeVar

from safe2real.errors import InvalidInput

LIVES = 5
"""How often the worker of a task may be lost before the task itself is suspected."""
_AHEAD = 2  # tasks per worker that are handed out: one to work on, one to go on with
Task = TypeVar("Task")
Result = TypeVar("Result")
Handle = Any  # of a task that was handed out: what the engine's own library calls a future


class LostTask(InvalidInput):
    """Every worker that was given this task was lost: it needs more memory than there is, or ends its process."""


class Lost:
    """In the place of a result: the worker was lost."""


LOST = Lost()


class Engine(ABC):
    """Where tasks are run. Open one with `opened`.

    An engine of another kind implements `submit`, `finished`, `cancel` and `workers`; the loop, its count of lost workers
    and its order are here, the same for all.
    """

    name: ClassVar[str]

    def run(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[tuple[int, Result]]:
        """(number, result) of every task as it ends, in any order, each number once.

        Args:
            function: from a task to its result, found by its name on every worker; a `Job` where workers prepare first.
            tasks: taken as workers become free; what they hold travels by the engine's own means.

        Raises:
            LostTask: the worker of one task was lost time and again.
            Exception: whatever a task raised. Tasks that wait are cancelled.
        """
        numbered = enumerate(tasks)
        waiting: dict[Handle, tuple[int, Task]] = {}
        losses: dict[int, int] = {}
        try:
            while True:
                free = max(0, _AHEAD * max(1, self.workers) - len(waiting))
                for number, task in islice(numbered, free):
                    waiting[self.submit(function, task)] = number, task
                if not waiting:
                    return
                for handle, result in self.finished(waiting):
                    number, task = waiting.pop(handle)
                    if not isinstance(result, Lost):
                        yield number, result
                        continue
                    losses[number] = losses.get(number, 0) + 1
                    if losses[number] == LIVES:
                        raise LostTask(
                            f"task {number} has lost its worker {LIVES} times on engine {self.name!r}, by itself or by one "
                            f"that ran beside it: {repr(task)[:200]}; give workers more memory, or run it alone to see why"
                        )
                    waiting[self.submit(function, task)] = number, task
        finally:
            self.cancel(waiting)

    @property
    @abstractmethod
    def workers(self) -> int:
        """How many tasks can be done at once now; 0 where all are lost and others are to come."""

    @abstractmethod
    def submit(self, function: Callable[[Any], Any], task: Any) -> Handle:
        """Hand one task out."""

    @abstractmethod
    def finished(self, handles: Collection[Handle]) -> list[tuple[Handle, Any]]:
        """Wait until at least one has ended: those that have, with their results, or `LOST` in their places.

        Raises:
            Exception: whatever a task raised.
        """

    @abstractmethod
    def cancel(self, handles: Collection[Handle]) -> None:
        """Nobody waits for these any more."""


def in_order(ended: Iterable[tuple[int, Result]]) -> Iterator[Result]:
    """The results in the order of their tasks; those that ended early are kept until it is their turn."""
    early: dict[int, Result] = {}
    following = 0
    for number, result in ended:
        early[number] = result
        while following in early:
            yield early.pop(following)
            following += 1
