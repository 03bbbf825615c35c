"""Files that are there when they are complete and on disk, or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
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
