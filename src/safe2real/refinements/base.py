"""What a refinement is: a name for records, a revision that changes with its numbers, and its share of delta."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TypeVar

_Kind = TypeVar("_Kind", bound="Refinement")


class Refinement:
    """One way to learn more from the same data; a frozen dataclass, whose fields are its parameters.

    The events of all that are used, and that of the radius, hold together with probability at least 1 - delta: each has the
    `share` of delta that it states, the radius has the rest.
    """

    name: ClassVar[str]
    revision: ClassVar[int] = 1
    share: ClassVar[float] = 0.0


def find(used: Sequence[Refinement], kind: type[_Kind]) -> _Kind | None:
    """The one of this kind among those used, if there is one."""
    return next((one for one in used if isinstance(one, kind)), None)
