"""Findings, maps, intervals and policies as tables: lists of dicts, or data frames where pandas is installed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Protocol

from safe2real.errors import InvalidInput, needed_for

Row = dict[str, Any]
"""One row of a table, by column name."""
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\uff1d", "\uff0b", "\uff0d", "\uff20")  # the last four: full width


def spreadsheet_safe(cell: Any) -> Any:
    """Return a cell of a CSV file with an apostrophe before a text that a spreadsheet would run as a formula.

    Args:
        cell: a text, or anything else, which is returned as it is.

    Returns:
        The cell.
    """
    formula = isinstance(cell, str) and (cell.startswith(_FORMULA) or cell.lstrip().startswith(_FORMULA))
    return f"'{cell}" if formula else cell


class HasRow(Protocol):
    """An object that is one row of a table, e.g. `methods.Interval`."""

    def to_row(self) -> Row:
        """Return the object as one row.

        Returns:
            Values by column name.
        """
        ...


class Tabular(ABC):
    """Base of objects that are a table."""

    __slots__ = ()

    @abstractmethod
    def to_table(self) -> list[Row]:
        """Return the object as a table of plain values.

        Returns:
            One dict for each row, by column name.
        """

    def to_pandas(self) -> Any:
        """Return the table as a data frame.

        Returns:
            A `pandas.DataFrame`.

        Raises:
            MissingExtra: pandas is not installed.
        """
        return to_pandas(self)


def to_table(what: Tabular | Iterable[HasRow]) -> list[Row]:
    """Return a table as a list of dicts, one for each row.

    Args:
        what: a table (a map, a plan, a pre-flight check), or an iterable of objects that are one row each.

    Returns:
        Values by column name.

    Raises:
        InvalidInput: `what` is neither.

    Example:
        >>> to_table(learner.intervals())
    """
    if isinstance(what, Tabular):
        return what.to_table()
    if not isinstance(what, Iterable):
        raise InvalidInput(f"what is a {type(what).__name__}; give a mismatch map, a plan, a pre-flight check or intervals")
    return [one.to_row() for one in what]


def to_pandas(what: Tabular | Iterable[HasRow]) -> Any:
    """Return `to_table(what)` as a data frame.

    Args:
        what: a table, or an iterable of objects that are one row each.

    Returns:
        A `pandas.DataFrame`.

    Raises:
        InvalidInput: `what` is neither.
        MissingExtra: pandas is not installed.
    """
    with needed_for("data frames", "tables"):
        from pandas import DataFrame

    return DataFrame(to_table(what))
