"""What a check recommends: how to say more of what is known, and which method is expected to be cheaper.

A finding says whether something holds; a recommendation says what to do for fewer episodes, or where there is no separation.
Each names what following it would assume of the real system: nothing here can know whether that is true.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self

from safe2real.problem.conditions import Change


class Advice(StrEnum):
    """What a recommendation is about, with a heading for people."""

    heading: str

    def __new__(cls, code: str, heading: str) -> Self:
        member = str.__new__(cls, code)
        member._value_, member.heading = code, heading
        return member

    NO_SEPARATION = ("no-separation", "no gaps can be stated")
    METHOD = ("method", "with or without the simulator")
    SUPPORT = ("support", "declare what can follow")
    GAPS = ("gaps", "gaps from the accuracy")


@dataclass(frozen=True, slots=True)
class Recommendation:
    """One thing to do. Programs read code, numbers and changes; people read the rest."""

    code: Advice
    what: str  # what was computed, and what follows
    cure: str  # what to do; empty where all is well as it is
    assumes: str = ""  # of the real system, by doing so; empty where nothing new is assumed
    numbers: Mapping[str, Any] = field(default_factory=dict)
    changes: tuple[Change, ...] = ()  # settings to choose, each with a value that it can have

    @property
    def name(self) -> str:
        """A title for people."""
        return self.code.heading

    @property
    def text(self) -> str:
        """All of it in sentences."""
        parts = [self.what]
        parts += [f"Do: {self.cure}"] if self.cure else []
        parts += [f"That assumes: {self.assumes}"] if self.assumes else []
        return ". ".join(parts) + "."

    def __str__(self) -> str:
        return f"ADVICE   {self.name}: {self.text}"

    def to_document(self) -> dict[str, Any]:
        """All of it as JSON can hold it."""
        return {
            "code": self.code.value,
            "name": self.name,
            "what": self.what,
            "cure": self.cure,
            "assumes": self.assumes,
            "numbers": dict(self.numbers),
            "changes": [one.to_document() for one in self.changes],
        }
