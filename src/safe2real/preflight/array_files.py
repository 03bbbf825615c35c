"""Arrays in files beside a specification: "costs.npy", or "model.npz:transition". Nothing is ever unpickled."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from safe2real.errors import InvalidInput
from safe2real.model.archive import names_in, read_npy, read_npz
from safe2real.model.input_size import check_bytes
from safe2real.model.serialization import bounded, within

_SUFFIXES = (".npy", ".npz")
_LISTED = 12  # names in a message


@dataclass(slots=True)
class ArrayFiles:
    """Reads the files that a specification names; their names are relative to its folder.

    A specification may come from elsewhere: unless `anywhere` is set, it reads nothing outside its own folder, links
    followed. What it makes us read, one file as often as it is named, is weighed together against one limit.
    """

    folder: Path
    anywhere: bool = False
    _taken: int = field(default=0, init=False)  # bytes, of all arrays read so far

    def maybe(self, value: Any, key: str) -> Any:
        """The array of a file where `value` names one; else `value` as it is."""
        return self.array(value, key) if isinstance(value, str) else value

    def array(self, named: str, key: str) -> NDArray[Any]:
        """The array behind "file.npy", "file.npz:name", or "file.npz" with one array in it; `key` is where it was named."""
        file, _, name = named.partition(".npz:")
        if name:
            arrays = self._read(f"{file}.npz", key, only=name)
            if name not in arrays:
                held = _some(self._names(f"{file}.npz", key))
                raise InvalidInput(f"{key} is {named!r}, but that file has no array {name!r}; it has {held}")
            return arrays[name]
        names = self._names(named, key)
        if len(names) != 1:
            raise InvalidInput(
                f"{key} is {named!r}, which holds {_some(names)}; say which one, like "
                f"{named + ':' + next(iter(names), 'name')!r}"
            )
        return next(iter(self._read(named, key).values()))

    def arrays(self, named: str, key: str, *, among: set[str]) -> dict[str, NDArray[Any]]:
        """Every array of an .npz file by its name, if all the names are `among` these, else none of them.

        The one of an .npy file is called "transition", as a kernel's is.
        """
        return self._read(named, key) if set(self._names(named, key)) <= among else {}

    def text(self, named: str, key: str) -> str:
        """A text file, such as episodes as JSON Lines."""
        path = self.place(named, key)
        self._must_exist(path, named, key)
        try:
            with path.open("rb") as file:
                return bounded(file, f"{key}, the file {named!r},").decode("utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidInput(f"{key} is {named!r}, which cannot be read ({error}); give UTF-8 text") from error

    def place(self, named: str, key: str) -> Path:
        """Where a name leads; not out of the specification's folder unless that is allowed."""
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

    def _names(self, named: str, key: str) -> list[str]:
        path = self._checked(named, key)
        if path.suffix == ".npy":
            return ["transition"]
        with within(f"{key} is {named!r}"), _readable():
            return names_in(path)

    def _read(self, named: str, key: str, only: str | None = None) -> dict[str, NDArray[Any]]:
        path = self._checked(named, key)
        with within(f"{key} is {named!r}"), _readable():
            if path.suffix == ".npy":
                return {"transition": read_npy(path, self._weigh)}
            return read_npz(path, self._weigh, only)

    def _weigh(self, what: str, size: int) -> None:
        check_bytes(f"{what} with what was read before it" if self._taken else what, self._taken + size)
        self._taken += size

    def _checked(self, named: str, key: str) -> Path:
        path = self.place(named, key)
        if path.suffix not in _SUFFIXES:
            raise InvalidInput(
                f"{key} is {named!r}; arrays are in .npy files (numpy.save) or .npz files (numpy.savez): "
                "save it as one, or write the numbers here as nested lists"
            )
        self._must_exist(path, named, key)
        return path

    def _must_exist(self, path: Path, named: str, key: str) -> None:
        if path.is_file():
            return
        beside = sorted(file for file in path.parent.iterdir() if file.is_file()) if path.parent.is_dir() else []
        # Endings are alike anyway: only the names before them tell what is meant.
        by_stem = {file.stem: file.name for file in beside}
        near = difflib.get_close_matches(path.stem, by_stem, 1, cutoff=0.7)
        hint = f" (did you mean {by_stem[near[0]]!r}?)" if near else ""
        raise InvalidInput(
            f"{key} is {named!r}, a file that is not there{hint}; looked for {path}. Put it there, or mend the name: names "
            "are relative to the specification's folder"
        )


@contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InvalidInput(f"the file cannot be read ({error.strerror}); check the permissions") from error


def _some(names: Any) -> str:
    listed = sorted(names)
    return ", ".join(listed[:_LISTED]) + (", ..." if len(listed) > _LISTED else "") if listed else "no array at all"
