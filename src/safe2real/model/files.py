"""Files that are there when they are complete and on disk, or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

from safe2real.errors import StorageFailure


@contextmanager
def complete_file(path: Path) -> Iterator[TextIO]:
    """A text file that appears under its name, over an older one, when all of it is written; else the older one stays.

    Raises:
        StorageFailure: it cannot be written.
    """
    with _complete(path, {"mode": "w", "encoding": "utf-8", "newline": ""}) as file:
        yield file


def write_complete(path: Path, content: bytes) -> None:
    """The same for bytes.

    Raises:
        StorageFailure: it cannot be written.
    """
    with _complete(path, {"mode": "wb"}) as file:
        file.write(content)


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Hold an advisory lock on a folder: one process at a time. Without effect where the system or the disk has no locks."""
    with ExitStack() as held:
        with suppress(ModuleNotFoundError, OSError):
            import fcntl  # not on every operating system

            handle = os.open(folder, os.O_RDONLY)
            held.callback(os.close, handle)
            fcntl.flock(handle, fcntl.LOCK_EX)  # until it is closed, also by the end of the process
        yield


@contextmanager
def _complete(path: Path, opened: dict[str, str]) -> Iterator[Any]:
    draft = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with draft.open(**opened) as file:  # type: ignore[call-overload]
            yield file
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        raise StorageFailure(f"{path} could not be written ({error}); check the folder and the space on its disk") from error
    finally:
        draft.unlink(missing_ok=True)
