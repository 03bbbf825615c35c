"""Datasets where they are kept: files of arrays, and Minari's."""

from __future__ import annotations

import re
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from safe2real.errors import InvalidInput

READABLE = (
    "a Minari dataset or its id (like D4RL/door/human-v2), a mapping or a file (.hdf5, .h5, .npz) of OSRL's arrays, or a "
    "list of (states, actions, terminated)"
)
_MINARI_ID = re.compile(r"([\w:.-]+/)*[\w:.-]+-v\d+")
_NO_PACKAGE = (
    "reading {what} needs the package {package}, which is not installed; get it with: pip install 'safe2real[minari]'"
)


def arrays_of(path: Path) -> dict[str, Any]:
    """All arrays of an .npz or HDF5 file; nothing is unpickled."""
    if not path.is_file():
        raise InvalidInput(f"there is no file {path}; give the path of a dataset")
    try:
        if path.suffix.lower() == ".npz":
            with path.open("rb") as file:  # opened here: numpy leaves a file open that it cannot read
                stored = np.load(file, allow_pickle=False)
                if isinstance(stored, np.ndarray):
                    raise InvalidInput(f"{path} holds a single array; save all of them: numpy.savez(path, observations=...)")
                return {key: stored[key] for key in stored.files}
        try:
            import h5py
        except ImportError as error:
            raise InvalidInput(_NO_PACKAGE.format(what=path.name, package="h5py")) from error
        with h5py.File(path, "r") as stored:
            return {key: stored[key][()] for key in stored if isinstance(stored[key], h5py.Dataset)}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"{path} cannot be read as a dataset ({error}); give an .hdf5 or .npz file of arrays") from error


def load_minari(dataset_id: str) -> Any:
    """The dataset of that id, as Minari keeps it on this machine."""
    if not _MINARI_ID.fullmatch(dataset_id):
        raise InvalidInput(f"{dataset_id!r} is neither a file that can be read nor the id of a dataset; give {READABLE}")
    try:
        import h5py  # noqa: F401 (how Minari keeps a dataset; it does not say when it is missing)
        import minari
    except ImportError as error:
        raise InvalidInput(_NO_PACKAGE.format(what=f"the Minari dataset {dataset_id}", package="minari")) from error
    try:
        return minari.load_dataset(dataset_id)
    except (FileNotFoundError, ValueError) as error:
        raise InvalidInput(
            f"there is no Minari dataset {dataset_id!r} here ({error}); get it with: minari download {dataset_id}, or set "
            "MINARI_DATASETS_PATH to where it is"
        ) from error
