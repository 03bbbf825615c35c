"""The conditions safe2real raises. Every message carries the place, the value and the cure."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar


class Safe2RealError(Exception):
    """Base of every error this package raises on purpose."""

    kind: ClassVar[str] = "internal"
    """What programs are told: the same word on the command line and in answers of the service."""


class InvalidInput(Safe2RealError, ValueError):
    """An argument cannot be what it was given as; nothing was changed or recorded."""

    kind = "invalid-input"


class OutsideModel(InvalidInput):
    """The real system did what the model has no state for: the model is wrong there, whatever else was assumed."""


class StepLimit(InvalidInput):
    """The environment has a limit of steps below the horizon: its fault, and nothing that the system did."""


class OutOfOrder(Safe2RealError):
    """Asked for what there is only before the stop: another deployment, another episode."""

    kind = "stopped"


class Stopped(OutOfOrder):
    """The model is accurate enough: there is nothing left to deploy."""


class Halted(Safe2RealError):
    """The data refute the baseline's margin: nothing is handed out any more, and the machine should be stopped."""

    kind = "halted"


class Conflict(Safe2RealError):
    """The record says otherwise already: an episode told again with other content, or a campaign that exists."""

    kind = "conflict"


class StorageFailure(Safe2RealError):
    """The database cannot be read or written as it should; what was told before is still there."""

    kind = "storage"


class MissingExtra(InvalidInput, ImportError):
    """A package is not installed that an optional part of this one needs."""


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
