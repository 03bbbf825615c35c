"""The files that a specification names: arrays in .npy and .npz files.

A specification may be untrusted. Files outside its own folder, links followed, are refused unless that is allowed. One
limit covers the bytes of all arrays together; a file counts each time it is named.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from safe2real.errors import InvalidInput
from safe2real.model.archive import names_in, read_npy, read_npz
from safe2real.model.serialization import within
from safe2real.model.validation import check_bytes

_SUFFIXES = (".npy", ".npz")
_LISTED = 12  # names in a message
_OF_NPY = "transition"  # the name of the one array of an .npy file, as a kernel's is called


@dataclass(slots=True)
class ArrayFiles:
    """Reads the files that are named relative to `folder`, each for the `key` of the specification that names it."""

    folder: Path
    anywhere: bool = False
    _taken: int = field(default=0, init=False)  # bytes, of all arrays read so far

    def array(self, named: str, key: str) -> NDArray[Any]:
        """Return the array behind "file.npy", "file.npz:name", or "file.npz" with one array in it."""
        file, _, name = named.partition(".npz:")
        path = self._checked(f"{file}.npz" if name else named, key)
        names = self._names(path, key)
        if not name and len(names) != 1:
            example = f"{named}:{next(iter(names), 'name')}"
            raise InvalidInput(f"{key} is {named!r}, which holds {_some(names)}; say which one, like {example!r}")
        arrays = self._read(path, key, only=name or names[0])
        if name not in ("", *arrays):
            raise InvalidInput(f"{key} is {named!r}, but that file has no array {name!r}; it has {_some(names)}")
        return arrays[name or names[0]]

    def arrays(self, named: str, key: str, *, among: Iterable[str]) -> dict[str, NDArray[Any]]:
        """Return all arrays of a file by name, if all the names are `among` these, else the only one as "transition"."""
        if ".npz:" not in named:
            path = self._checked(named, key)
            if set(self._names(path, key)) <= set(among):
                return self._read(path, key)
        return {_OF_NPY: self.array(named, key)}

    def place(self, named: str, key: str) -> Path:
        """Return where a name leads; not out of the folder unless that is allowed."""
        if "\0" in named or not named:
            raise InvalidInput(
                f"{key} is {named!r}, which names no file; give a name relative to the specification's folder"
            )
        path = self.folder / named
        try:
            inside = self.anywhere or path.resolve().is_relative_to(self.folder.resolve())
        except (OSError, RuntimeError) as error:  # links that lead in a circle, a name that is too long
            raise InvalidInput(f"{key} is {named[:100]!r}, which leads nowhere ({error}); mend the name") from error
        if not inside:
            raise InvalidInput(
                f"{key} is {named!r}, which leads out of the folder of the specification; put the file there, or, if you "
                "trust the specification, allow files anywhere: --files-anywhere, or files_anywhere=True"
            )
        return path

    def _checked(self, named: str, key: str) -> Path:
        path = self.place(named, key)
        if path.suffix not in _SUFFIXES:
            raise InvalidInput(
                f"{key} is {named!r}; arrays are in .npy files (numpy.save) or .npz files (numpy.savez): "
                "save it as one, or write the numbers here as nested lists"
            )
        _must_exist(path, named, key)
        return path

    def _names(self, path: Path, key: str) -> list[str]:
        with _reading(path, key):
            return [_OF_NPY] if path.suffix == ".npy" else names_in(path)

    def _read(self, path: Path, key: str, only: str | None = None) -> dict[str, NDArray[Any]]:
        with _reading(path, key):
            return {_OF_NPY: read_npy(path, self._weigh)} if path.suffix == ".npy" else read_npz(path, self._weigh, only)

    def _weigh(self, what: str, size: int) -> None:
        check_bytes(f"{what} with the arrays before it" if self._taken else what, self._taken + size)
        self._taken += size


@contextmanager
def _reading(path: Path, key: str) -> Iterator[None]:
    with within(f"{key} is {path.name!r}"):
        try:
            yield
        except OSError as error:
            raise InvalidInput(f"the file cannot be read ({error.strerror}); check the permissions") from error


def _must_exist(path: Path, named: str, key: str) -> None:
    if path.is_file():
        return
    beside = sorted(file for file in path.parent.iterdir() if file.is_file()) if path.parent.is_dir() else []
    by_stem = {file.stem: file.name for file in beside}  # endings are alike: only the names before them are compared
    near = difflib.get_close_matches(path.stem, by_stem, 1, cutoff=0.7)
    hint = f" (did you mean {by_stem[near[0]]!r}?)" if near else ""
    raise InvalidInput(
        f"{key} is {named!r}, a file that is not there{hint}; looked for {path}. Put it there, or mend the name: names "
        "are relative to the specification's folder"
    )


def _some(names: Iterable[str]) -> str:
    listed = sorted(names)
    return ", ".join(listed[:_LISTED]) + (", ..." if len(listed) > _LISTED else "") if listed else "no array at all"
