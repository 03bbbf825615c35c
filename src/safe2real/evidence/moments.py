"""The course of a run at a limited number of moments: for pictures, never for a decision."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

_MOST = 1_000  # moments; a picture has not many more columns


@dataclass(frozen=True, slots=True)
class Bounds:
    """A value with certified bounds `lower` and `upper`; it is accurate if they are at most `allowed` apart."""

    name: str
    lower: float
    upper: float
    allowed: float

    @property
    def is_accurate(self) -> bool:
        return self.upper - self.lower <= self.allowed


@dataclass(frozen=True, slots=True)
class Moment:
    """The state of knowledge after a number of samples."""

    samples: int
    uncertainty: float  # inf where nothing bounds it
    suspects: int  # rows that may still be wrong
    intervals: tuple[Bounds, ...] = ()  # of declared rewards
    floors: Mapping[str, float] = field(default_factory=dict)  # of a policy on trial


class Moments:
    """Moments in the order of their samples: the last one, and evenly spaced earlier ones, at most `_MOST`."""

    def __init__(self) -> None:
        self._kept: list[Moment] = []
        self._noted, self._every = 0, 1  # one of every `_every` is kept
        self._passing = False  # whether the last one goes when another comes

    def note(self, moment: Moment) -> None:
        """Keep one; of two after the same samples the later."""
        if self._kept and (self._passing or self._kept[-1].samples >= moment.samples):
            self._kept.pop()
        self._kept.append(moment)
        self._passing = self._noted % self._every != 0
        self._noted += 1
        if len(self._kept) > _MOST:
            del self._kept[1::2]
            self._every *= 2

    def __iter__(self) -> Iterator[Moment]:
        return iter(self._kept)

    def __len__(self) -> int:
        return len(self._kept)
