"""Files that are there when they are complete, or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from safe2real.campaign.journal.sqlite_pages import belongs_to_a_database
from safe2real.errors import InvalidInput, StorageFailure


def write_document(path: Path, document: Any) -> None:
    """A document for people and programs, indented."""
    with whole_file(path) as file:
        json.dump(document, file, indent=2, allow_nan=False)


@contextmanager
def whole_file(path: Path) -> Iterator[TextIO]:
    """A text file that appears under its name when it is complete and on disk, or not at all; never over a database."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        if belongs_to_a_database(path.resolve()):
            raise InvalidInput(f"{path} is an SQLite database or belongs to one, perhaps a campaign; give another place")
        with draft.open("w", encoding="utf-8", newline="") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        raise StorageFailure(f"{path} could not be written ({error}); check the folder and the space on its disk") from error
    finally:
        draft.unlink(missing_ok=True)
