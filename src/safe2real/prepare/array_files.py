"""Arrays in files beside a specification: "costs.npy", or "model.npz:transition". Nothing is ever unpickled."""

from __future__ import annotations

import difflib
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safe2real.errors import InvalidInput

_SUFFIXES = (".npy", ".npz")
_LISTED = 12  # names in a message


@dataclass(frozen=True, slots=True)
class ArrayFiles:
    """Reads the files that a specification names; their names are relative to its folder."""

    folder: Path

    def maybe(self, value: Any, key: str) -> Any:
        """The array of a file where `value` names one; else `value` as it is."""
        return self.array(value, key) if isinstance(value, str) else value

    def array(self, named: str, key: str) -> NDArray[Any]:
        """The array behind "file.npy", "file.npz:name", or "file.npz" with one array in it; `key` is where it was named."""
        file, _, name = named.partition(".npz:")
        if name:
            arrays = self.arrays(f"{file}.npz", key)
            if name not in arrays:
                raise InvalidInput(f"{key} is {named!r}, but that file has no array {name!r}; it has {_some(arrays)}")
            return arrays[name]
        arrays = self.arrays(named, key)
        if len(arrays) != 1:
            raise InvalidInput(
                f"{key} is {named!r}, which holds {_some(arrays)}; say which one, like "
                f"{named + ':' + next(iter(arrays), 'name')!r}"
            )
        return next(iter(arrays.values()))

    def arrays(self, named: str, key: str) -> dict[str, NDArray[Any]]:
        """Every array of an .npz file by its name; the one of an .npy file is called "transition", as a kernel's is."""
        path = self.folder / named
        if path.suffix not in _SUFFIXES:
            raise InvalidInput(
                f"{key} is {named!r}; arrays are in .npy files (numpy.save) or .npz files (numpy.savez): "
                "save it as one, or write the numbers here as nested lists"
            )
        self._must_exist(path, named, key)
        try:
            # No pickle: a file from elsewhere must not be able to run code.
            # Opened here: numpy leaves a file open that it cannot read.
            with path.open("rb") as file:
                loaded = np.load(file, allow_pickle=False)
                if isinstance(loaded, np.ndarray):
                    return {"transition": _plain(loaded, f"{key} is {named!r}: its array")}
                return {name: _plain(loaded[name], f"{key} is {named!r}: its array {name!r}") for name in loaded.files}
        except (ValueError, EOFError, zipfile.BadZipFile, OSError) as error:
            if isinstance(error, InvalidInput):
                raise
            if "pickle" in str(error):
                raise InvalidInput(
                    f"{key} is {named!r}, which holds Python objects or is no array file; they are never unpickled: save an "
                    "array of numbers with numpy.save or numpy.savez"
                ) from error
            raise InvalidInput(f"{key} is {named!r}, which cannot be read ({error}); save the array again") from error

    def text(self, named: str, key: str) -> str:
        """A text file, such as episodes as JSON Lines."""
        path = self.folder / named
        self._must_exist(path, named, key)
        try:
            return path.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidInput(f"{key} is {named!r}, which cannot be read ({error}); give UTF-8 text") from error

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


def _plain(array: NDArray[Any], what: str) -> NDArray[Any]:
    if array.dtype.kind not in "iufb":
        raise InvalidInput(f"{what} has entries of type {array.dtype}; give numbers or booleans")
    return array


def _some(names: Any) -> str:
    listed = sorted(names)
    return ", ".join(listed[:_LISTED]) + (", ..." if len(listed) > _LISTED else "") if listed else "no array at all"
