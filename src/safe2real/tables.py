"""Findings, maps, intervals and policies as tables: lists of dicts, or data frames where pandas is installed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Protocol

from safe2real.errors import InvalidInput, needed_for

Row = dict[str, Any]
"""One line of a table, by the names of its columns."""


class HasRow(Protocol):
    """One of several things that make up a table, e.g. `methods.Interval`."""

    def to_row(self) -> Row: ...


class Tabular(ABC):
    """What is a table by itself."""

    __slots__ = ()

    @abstractmethod
    def to_table(self) -> list[Row]:
        """Its lines, as plain values."""

    def to_pandas(self) -> Any:
        """The same as a pandas.DataFrame.

        Raises:
            MissingExtra: pandas is not installed.
        """
        return to_pandas(self)


def to_table(what: Tabular | Iterable[HasRow]) -> list[Row]:
    """A list of dicts, one for each line; of whatever is a table, or of several things that are a line each.

    Example:
        >>> to_table(learner.intervals())
    """
    if isinstance(what, Tabular):
        return what.to_table()
    if not isinstance(what, Iterable):
        raise InvalidInput(f"what is a {type(what).__name__}; give a mismatch map, a plan, a pre-flight check or intervals")
    return [one.to_row() for one in what]


def to_pandas(what: Tabular | Iterable[HasRow]) -> Any:
    """A pandas.DataFrame of `to_table(what)`.

    Raises:
        MissingExtra: pandas is not installed.
    """
    with needed_for("data frames", "tables"):
        from pandas import DataFrame

    return DataFrame(to_table(what))
