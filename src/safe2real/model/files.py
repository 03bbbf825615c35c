"""Text files that are there when they are complete and on disk, or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from safe2real.errors import StorageFailure


@contextmanager
def complete_file(path: Path) -> Iterator[TextIO]:
    """A file that appears under its name, over an older one, when all of it is written; else the older one stays.

    Raises:
        StorageFailure: it cannot be written.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with draft.open("w", encoding="utf-8", newline="") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        raise StorageFailure(f"{path} could not be written ({error}); check the folder and the space on its disk") from error
    finally:
        draft.unlink(missing_ok=True)
