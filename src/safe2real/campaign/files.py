"""Files that are there when they are complete, or not at all; never over a database."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from safe2real.campaign.journal.sqlite_pages import belongs_to_a_database
from safe2real.errors import InvalidInput, StorageFailure
from safe2real.model.archive import complete_file


def write_document(path: Path, document: Any) -> None:
    """A document for people and programs, indented."""
    with whole_file(path) as file:
        json.dump(document, file, indent=2, allow_nan=False)


@contextmanager
def whole_file(path: Path) -> Iterator[TextIO]:
    """A text file that appears under its name when it is complete and on disk, or not at all; never over a database."""
    try:
        there = belongs_to_a_database(path.resolve())
    except OSError as error:
        raise StorageFailure(f"{path} could not be written ({error}); check the folder and the space on its disk") from error
    if there:
        raise InvalidInput(f"{path} is an SQLite database or belongs to one, perhaps a campaign; give another place")
    with complete_file(path) as file:
        yield file
