"""Files that are there when they are complete, or not at all; never over a database."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from safe2real.errors import InvalidInput, StorageFailure
from safe2real.model.archive import complete_file

BESIDE_A_DATABASE = ("-wal", "-shm", "-journal")  # files that SQLite keeps beside one, and that belong to it
_MAGIC = b"SQLite format 3\x00"


def write_document(path: Path, document: Any) -> None:
    """A document for people and programs, indented."""
    with whole_file(path) as file:
        json.dump(document, file, indent=2, allow_nan=False)


@contextmanager
def whole_file(path: Path) -> Iterator[TextIO]:
    """A text file that appears under its name when it is complete and on disk, or not at all; never over a database."""
    try:
        there = _belongs_to_a_database(path.resolve())
    except OSError as error:
        raise StorageFailure(f"{path} could not be written ({error}); check the folder and the space on its disk") from error
    if there:
        raise InvalidInput(f"{path} is an SQLite database or belongs to one, perhaps a campaign; give another place")
    with complete_file(path) as file:
        yield file


def _belongs_to_a_database(path: Path) -> bool:
    """Whether a file is an SQLite database, or what SQLite keeps beside one; to write there would destroy it."""
    names = [path.name, *(path.name.removesuffix(ending) for ending in BESIDE_A_DATABASE if path.name.endswith(ending))]
    for name in names:
        one = path.with_name(name)
        if name and one.is_file():
            with one.open("rb") as file:
                if file.read(len(_MAGIC)) == _MAGIC:
                    return True
    return False
