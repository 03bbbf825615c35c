"""The conditions safe2real raises. Every message carries the place, the value and the cure."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar


class Safe2RealError(Exception):
    """Base of every error this package raises on purpose."""

    kind: ClassVar[str] = "internal"
    """Code for programs: the same word on the command line and in answers of the service."""


class InvalidInput(Safe2RealError, ValueError):
    """An argument is invalid; nothing was changed or recorded."""

    kind = "invalid-input"


class OutsideModel(InvalidInput):
    """The real system reached a state that the model does not have: the model is wrong there."""


class StepLimit(InvalidInput):
    """The environment's step limit is below the horizon: a fault of the environment, not of the system."""


class OutOfOrder(Safe2RealError):
    """A call that is only possible before the stop, or without a preceding `ask`."""

    kind = "stopped"


class Stopped(OutOfOrder):
    """The model is accurate enough: no further deployment is needed."""


class Halted(Safe2RealError):
    """The data refute the baseline's margin: no policy is deployed any more, and the machine should be stopped."""

    kind = "halted"


class Conflict(Safe2RealError):
    """A contradiction to the record: another episode for the same deployment, or a campaign that exists."""

    kind = "conflict"


class StorageFailure(Safe2RealError):
    """The database cannot be read or written; earlier records are intact."""

    kind = "storage"


class MissingExtra(InvalidInput, ImportError):
    """A package that an optional feature needs is not installed."""


@contextmanager
def needed_for(what: str, extra: str) -> Iterator[None]:
    """Turn a failed import within the context into an error that names the missing extra.

    Args:
        what: the features that need the import, in the plural; for the message.
        extra: as in ``pip install 'safe2real[extra]'``.

    Returns:
        A context manager for the imports.

    Raises:
        MissingExtra: a package is not installed; errors within this package are raised unchanged.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("", __name__.partition(".")[0]):
            raise
        raise MissingExtra(
            f"{what} need the package {package}, which is not installed; get it with: pip install 'safe2real[{extra}]'"
        ) from error
