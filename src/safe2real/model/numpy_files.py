"""Arrays out of .npy and .npz files that anybody may have written: sizes are read and weighed before memory is taken.

Numpy's own reader believes the header: it takes memory for the shape that is claimed there, and evaluates the header as
Python. Here the header must be as `numpy.save` writes it for numbers, the content must be as long as the header says, and
a member of an archive is unpacked only as far as that. Nothing is ever unpickled.
"""

from __future__ import annotations

import math
import re
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from safe2real.errors import InvalidInput
from safe2real.model.limits import AS_NUMBER

_MAGIC = b"\x93NUMPY"
_LONGEST_HEADER = 1 << 16
_MOST_MEMBERS = 1000
_HEADER = re.compile(
    r"\{'descr': ?(?P<descr>'[^']*'|\[.*\]), ?'fortran_order': ?(?P<fortran>True|False), ?"
    r"'shape': ?\((?P<shape>(?:\d{1,19}, ?)*(?:\d{1,19})?)\),? ?\}\s*"
)
_NUMBER = re.compile(r"'([<>|=]?[biuf](?:1|2|4|8|16))'")
# What zipfile and zlib raise over archives that are not as they should be.
_BROKEN = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, ValueError, OverflowError, NotImplementedError)
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_CHUNK = 1 << 20

Weigh = Callable[[str, int], None]  # (what, bytes): refuses what is too large


def read_npy(path: Path, weigh: Weigh) -> NDArray[Any]:
    """The array of an .npy file; `weigh` is asked before memory is taken."""
    with path.open("rb") as file:
        return _array(file, "its array", weigh)


def read_npz(path: Path, weigh: Weigh, only: str | None = None) -> dict[str, NDArray[Any]]:
    """The arrays of an .npz file by name, or the one that is called `only` if it is there."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            if len(members) > _MOST_MEMBERS:
                raise InvalidInput(f"the archive has {len(members)} members; at most {_MOST_MEMBERS} are read")
            named = {member.filename.removesuffix(".npy"): member for member in members}
            if len(named) < len(members):
                raise InvalidInput("the archive has two members of one name; save the arrays again")
            chosen = {name: one for name, one in named.items() if only is None or name == only}
            return {name: _member(archive, one, f"its array {name[:60]!r}", weigh) for name, one in chosen.items()}
    except InvalidInput:
        raise
    except _BROKEN as error:
        raise InvalidInput(f"the archive cannot be read ({error}); save the arrays again with numpy.savez") from error


def names_in(path: Path) -> list[str]:
    """The names of the arrays in an .npz file, without reading one."""
    try:
        with zipfile.ZipFile(path) as archive:
            return [name.removesuffix(".npy") for name in archive.namelist()[:_MOST_MEMBERS]]
    except _BROKEN as error:
        raise InvalidInput(f"the archive cannot be read ({error}); save the arrays again with numpy.savez") from error


def _member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, what: str, weigh: Weigh) -> NDArray[Any]:
    if member.flag_bits & 0x1:
        raise InvalidInput(f"{what} is encrypted; save the arrays again with numpy.savez")
    if member.compress_type not in _METHODS:
        raise InvalidInput(f"{what} is compressed in a way numpy does not write; save the arrays again with numpy.savez")
    with archive.open(member) as file:
        return _array(file, what, weigh)


def _array(file: IO[bytes], what: str, weigh: Weigh) -> NDArray[Any]:
    dtype, fortran, shape = _header(file, what)
    entries = math.prod(shape)
    weigh(f"{what}, of shape {_shown(shape)},", entries * max(AS_NUMBER, dtype.itemsize))
    size = entries * dtype.itemsize
    content = bytearray()
    while len(content) < size:  # in chunks: a file that is shorter than it claims costs no more than it has
        chunk = file.read(min(_CHUNK, size - len(content)))
        if not chunk:
            raise InvalidInput(
                f"{what} is cut short: its header claims {size} bytes, there are {len(content)}; save it again"
            )
        content += chunk
    if file.read(1):
        raise InvalidInput(f"{what} goes on after the {size} bytes that its header claims; save it again")
    if dtype.kind == "b" and np.frombuffer(content, dtype=np.uint8).max(initial=0) > 1:
        raise InvalidInput(f"{what} holds bytes other than 0 and 1, which are no booleans; save it again")
    return np.frombuffer(content, dtype=dtype).reshape(shape, order="F" if fortran else "C")


def _header(file: IO[bytes], what: str) -> tuple[np.dtype[Any], bool, tuple[int, ...]]:
    """(dtype, whether in Fortran's order, shape) as `numpy.save` writes them."""
    start = file.read(8)
    if start[:6] != _MAGIC:
        raise InvalidInput(f"{what} is not as numpy.save writes it; Python objects are never unpickled: save numbers")
    width = {1: 2, 2: 4, 3: 4}.get(start[6] if len(start) == 8 else 0)
    if width is None:
        raise InvalidInput(f"{what} has a version of numpy's format that is not known; save it again")
    length = int.from_bytes(file.read(width), "little")
    if length > _LONGEST_HEADER:
        raise InvalidInput(f"{what} has a header of {length} bytes; numbers need some hundred: save it again")
    text = file.read(length)
    found = _HEADER.fullmatch(text.decode("latin-1"))
    if found is None or len(text) != length:
        raise InvalidInput(f"{what} has a header that numpy.save does not write for numbers; save it again")
    number = _NUMBER.fullmatch(found["descr"])
    if number is None:
        objects = "Python objects, which are never unpickled, " if "O" in found["descr"] else ""
        kind = found["descr"].strip("'")[:40]
        raise InvalidInput(f"{what} has {objects}entries of type {kind}; save numbers or booleans")
    shape = tuple(int(part) for part in found["shape"].replace(" ", "").split(",") if part)
    if len(shape) > 8:
        raise InvalidInput(f"{what} has {len(shape)} axes; at most 4 are used: give (H, S, A, S) or fewer")
    try:
        return np.dtype(number[1]), found["fortran"] == "True", shape
    except TypeError as error:  # such as a float of one byte
        raise InvalidInput(f"{what} has entries of type {number[1]}, which numpy does not know; save it again") from error


def _shown(shape: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, shape))})"
