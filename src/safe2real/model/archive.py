"""Archives: files that appear under their name only when they are complete, and hold JSON beside checked numpy arrays.

No pickle is read or written, and a file that would unpack to more than the stated limits is refused before it does.
"""

from __future__ import annotations

import hashlib
import io
import math
import os
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any, TextIO

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from safe2real.errors import InvalidInput, StorageFailure
from safe2real.model.policy import MarkovPolicy, Mixture
from safe2real.model.serialization import from_text, to_text
from safe2real.model.validation import AS_NUMBER, check_bytes, frozen, shown
from safe2real.version import __version__


@contextmanager
def complete_file(path: Path) -> Iterator[TextIO]:
    """Open a text file that replaces an older one only when all of it is written.

    Raises:
        StorageFailure: it cannot be written.
    """
    with _complete(path, {"mode": "w", "encoding": "utf-8", "newline": ""}) as file:
        yield file


def write_complete(path: Path, content: bytes) -> None:
    """Write a file of bytes, whole or not at all.

    Raises:
        StorageFailure: it cannot be written.
    """
    with _complete(path, {"mode": "wb"}) as file:
        file.write(content)


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Hold an advisory lock on a folder: one process at a time. Without effect where the system or the disk has no locks."""
    with ExitStack() as held:
        with suppress(ModuleNotFoundError, OSError):
            import fcntl  # not on every operating system

            handle = os.open(folder, os.O_RDONLY)
            held.callback(os.close, handle)
            fcntl.flock(handle, fcntl.LOCK_EX)  # until it is closed, also by the end of the process
        yield


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


# Arrays in .npy and .npz files from anywhere: the headers are read and the sizes weighed before memory is taken, then numpy
# reads the arrays. Nothing is ever unpickled.

_LONGEST_HEADER = 1_000  # bytes; numpy.save writes some hundred for numbers
_VERSION_OF_NUMBERS = (1, 0)  # of numpy's format; later ones have headers of up to 4 GiB, which numbers never need
_MOST_MEMBERS, _MOST_AXES = 1000, 8
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
# What zipfile, zlib and numpy raise over files that are not as they should be.
_BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    ValueError,
    OverflowError,
    NotImplementedError,
    SyntaxError,
    TokenError,
)

Weigh = Callable[[str, int], None]  # (name, bytes): refuses an array that is too large


def read_npy(path: Path, weigh: Weigh) -> NDArray[Any]:
    """Read the array of an .npy file; `weigh` is asked before memory is taken.

    Raises:
        InvalidInput: the file is not as numpy.save writes it for numbers, or what `weigh` refuses.
    """
    with path.open("rb") as file:
        _weigh_header(file, "its array", weigh)
        with _whole("its array", "numpy.save"):
            return _numbers("its array", npy.read_array(file, allow_pickle=False, max_header_size=_LONGEST_HEADER))


def read_npz(file: Path | IO[bytes], weigh: Weigh, only: str | None = None) -> dict[str, NDArray[Any]]:
    """Read the arrays of an .npz file by name, or the one that is called `only` if it is there; all are weighed first.

    Raises:
        InvalidInput: the file is not as numpy.savez writes it for numbers, or what `weigh` refuses.
    """
    with _whole("the archive", "numpy.savez"), zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        named = {member.filename.removesuffix(".npy"): member for member in members}
        if len(named) < len(members) or len(members) > _MOST_MEMBERS:
            raise InvalidInput(
                f"the archive has two members of one name, or more than {_MOST_MEMBERS}; save the arrays again"
            )
        chosen = {name: one for name, one in named.items() if only is None or name == only}
        for name, member in chosen.items():
            what = f"its array {name[:60]!r}"
            if member.flag_bits & 0x1 or member.compress_type not in _METHODS:
                raise InvalidInput(f"{what} is encrypted, or packed in a way numpy does not write; save it with numpy.savez")
            with archive.open(member) as stream:
                _weigh_header(stream, what, weigh)
        found = {}
        for name, member in chosen.items():
            with archive.open(member) as stream:
                array = npy.read_array(stream, allow_pickle=False, max_header_size=_LONGEST_HEADER)
                found[name] = _numbers(f"its array {name[:60]!r}", array)
        return found


def names_in(path: Path) -> list[str]:
    """The names of the arrays in an .npz file, without reading one."""
    with _whole("the archive", "numpy.savez"), zipfile.ZipFile(path) as archive:
        return [name.removesuffix(".npy") for name in archive.namelist()[:_MOST_MEMBERS]]


def _weigh_header(file: IO[bytes], what: str, weigh: Weigh) -> None:
    """Refuse an array that is too large, or none of numbers, by its header alone; the file is at its beginning again."""
    try:
        if npy.read_magic(file) != _VERSION_OF_NUMBERS:
            raise ValueError("another version of the format")
        shape, _, dtype = npy.read_array_header_1_0(file, max_header_size=_LONGEST_HEADER)
    except _BROKEN as error:
        raise InvalidInput(
            f"{what} is not as numpy.save writes it for numbers, and objects are never unpickled; save it again"
        ) from error
    if dtype.kind not in "biuf":
        raise InvalidInput(f"{what} has entries of type {dtype}, and objects are never unpickled; save numbers or booleans")
    if len(shape) > _MOST_AXES or min(shape, default=0) < 0:
        raise InvalidInput(f"{what} has shape {shape}; give (H, S, A, S) or fewer axes")
    weigh(f"{what}, of shape ({', '.join(map(str, shape))}),", math.prod(shape) * max(AS_NUMBER, dtype.itemsize))
    file.seek(0)


def _numbers(what: str, array: NDArray[Any]) -> NDArray[Any]:
    if array.dtype.kind == "b" and array.view(np.uint8).max(initial=0) > 1:
        raise InvalidInput(f"{what} holds bytes other than 0 and 1, which are no booleans; save it again")
    return array


@contextmanager
def _whole(what: str, writer: str) -> Iterator[None]:
    """Refuse a file that is cut short or damaged."""
    try:
        yield
    except InvalidInput:
        raise
    except _BROKEN as error:
        raise InvalidInput(f"{what} cannot be read ({error}); save it again with {writer}") from error


# One file for numbers and words, in which plans and learners are kept: a NumPy archive (.npz) without pickles.
#
# The arrays are members of their own, with all their bits; the words are a JSON text, the member `document`; the member
# `digest` is the SHA-256 of all others. A file that was cut, changed or written by something else is refused. The digest
# is no signature: a deliberate change of a file can come with a new digest. Reading runs no code, whatever the file says.

DOCUMENT, DIGEST = "document", "digest"
_KIND, _FORMAT, _VERSION = "safe2real", "format", "version"  # keys of the document


class Archive:
    """Named arrays and a document, on their way to a file or from one; every reading checks type and shape."""

    def __init__(self, kind: str, *, name: str = "the file") -> None:
        """`kind` is the kind of content, such as "plan"; messages call the file `name`."""
        self.kind, self.name = kind, name
        self.document: dict[str, Any] = {}
        self.arrays: dict[str, NDArray[Any]] = {}

    # Putting in

    def put(self, name: str, array: NDArray[Any]) -> None:
        self.arrays[name] = np.ascontiguousarray(array)

    def put_mixture(self, name: str, mixture: Mixture) -> None:
        self.put(f"{name}.weights", mixture.weights)
        self.put_policies(name, mixture.policies)

    def put_policies(self, name: str, policies: tuple[MarkovPolicy, ...] | list[MarkovPolicy]) -> None:
        """Store policies: deterministic ones as actions [n, H, S], stochastic ones as probabilities [m, H, S, A].

        `fixed` [n + m] marks the deterministic ones.
        """
        listed = list(policies)
        fixed = [one for one in listed if one.actions is not None]
        tables = [one for one in listed if one.actions is None]
        self.put(f"{name}.fixed", np.array([one.actions is not None for one in listed], dtype=np.bool_))
        self.put(f"{name}.num_actions", np.array([one.num_actions for one in listed[:1]], dtype=np.int64))
        if fixed:
            self.put(f"{name}.actions", np.stack([np.asarray(one.actions) for one in fixed]))
        if tables:
            self.put(f"{name}.probabilities", np.stack([one.probabilities for one in tables]))

    def put_part(self, name: str, part: Archive) -> None:
        """Store the archive of a part under a name."""
        self.document[name] = part.document
        for key, array in part.arrays.items():
            self.arrays[f"{name}.{key}"] = array

    def save(self, path: str | os.PathLike[str], *, format: int) -> Path:
        """Write the file; it is there whole, over an older one, or not at all.

        Raises:
            StorageFailure: it cannot be written.
        """
        write_complete(Path(path), self.to_bytes(format=format))
        return Path(path)

    def to_bytes(self, *, format: int) -> bytes:
        """Return what `save` writes; `from_bytes` reads it."""
        head = {_KIND: self.kind, _FORMAT: format, _VERSION: __version__}
        text = np.frombuffer(to_text({**head, **self.document}).encode(), dtype=np.uint8)
        members = {**self.arrays, DOCUMENT: text}
        packed = io.BytesIO()
        np.savez_compressed(packed, **members, **{DIGEST: _digest(members)})  # type: ignore[arg-type]
        return packed.getvalue()

    # Taking out

    @classmethod
    def load(cls, path: str | os.PathLike[str], kind: str, *, format: int) -> Archive:
        """Read a file of this kind, of this format or an older one.

        Raises:
            InvalidInput: it is not there, damaged, changed, of another kind, or of a newer release.
        """
        if not Path(path).is_file():
            raise InvalidInput(f"{path} is no file; give a file that was saved as a {kind} by safe2real")
        return cls._read(Path(path), str(path), kind, format)

    @classmethod
    def from_bytes(cls, content: bytes, kind: str, *, format: int, name: str) -> Archive:
        """Read what `to_bytes` gave; `name` is what messages call it.

        Raises:
            InvalidInput: as `load`.
        """
        return cls._read(io.BytesIO(content), name, kind, format)

    @classmethod
    def _read(cls, place: Path | IO[bytes], name: str, kind: str, format: int) -> Archive:
        found = cls(kind, name=name)
        cure = f"give a file that was saved as a {kind} by safe2real"
        total = 0

        def weigh(what: str, size: int) -> None:
            nonlocal total
            total += size
            check_bytes(f"{name}: {what}", total)

        try:
            members: dict[str, NDArray[Any]] = read_npz(place, weigh)
        except OSError as error:
            raise InvalidInput(f"{name} cannot be read ({error.strerror}); check the name and the permissions") from error
        except InvalidInput as error:
            raise InvalidInput(f"{name} is no {kind} of safe2real, or damaged: {error}. Save it again, or {cure}") from error
        if DOCUMENT not in members or DIGEST not in members:
            raise InvalidInput(f"{name} is an archive of something else; {cure}")
        digest = members.pop(DIGEST)
        if not np.array_equal(digest, _digest(members)):
            raise InvalidInput(f"{name} was changed after it was saved: its digest is another; save it again, or {cure}")
        document = from_text(members.pop(DOCUMENT).tobytes(), name)
        if not isinstance(document, dict) or document.get(_KIND) != kind:
            other = document.get(_KIND) if isinstance(document, dict) else None
            raise InvalidInput(f"{name} holds a {shown(other)}, not a {kind}; {cure}")
        written = document.get(_FORMAT)
        if type(written) is not int or not 1 <= written <= format:
            raise InvalidInput(
                f"{name} is of format {shown(written)}, written by safe2real {shown(document.get(_VERSION))}; this is "
                f"safe2real {__version__}, which reads up to format {format}: upgrade it"
            )
        found.document, found.arrays = document, members
        return found

    def wrong(self, what: str) -> InvalidInput:
        """The error for a content that cannot be: `what` says where and why."""
        return InvalidInput(f"{self.name}: {what}; the file is damaged or was made by hand: save it again")

    def entry(self, name: str, kind: type | tuple[type, ...]) -> Any:
        """An entry of the document."""
        value = self.document.get(name)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise self.wrong(f"{name} is {shown(value)}")
        return value

    def whole(self, name: str) -> int:
        """Return an integer >= 0 of the document."""
        value = self.document.get(name)
        if type(value) is not int or value < 0:
            raise self.wrong(f"{name} is {shown(value)}")
        return value

    def tallies(self, name: str) -> dict[str, int]:
        """Return a table of positive counts by name."""
        value = self.document.get(name)
        if not isinstance(value, dict) or not all(type(one) is int and one > 0 for one in value.values()):
            raise self.wrong(f"{name} is {shown(value)}")
        return dict(value)

    def fill(self, name: str, target: NDArray[Any]) -> None:
        """Put an array into `target` of the same type and shape, which compiled code knows."""
        target[...] = self.array(name, target.dtype, target.shape)

    def part(self, name: str) -> Archive:
        """Return the part that `put_part` stored under a name."""
        found = Archive(self.kind, name=f"{self.name}, {name}")
        found.document = self.entry(name, dict)
        found.arrays = {key.removeprefix(f"{name}."): one for key, one in self.arrays.items() if key.startswith(f"{name}.")}
        return found

    def has(self, name: str) -> bool:
        return name in self.arrays

    def array(self, name: str, dtype: Any, shape: tuple[int | None, ...]) -> NDArray[Any]:
        """A copy of an array of this type and shape, None for any length."""
        found = self.arrays.get(name)
        if found is None:
            raise self.wrong(f"{name} is missing")
        same = len(found.shape) == len(shape)
        fits = same and all(want in (None, have) for want, have in zip(shape, found.shape, strict=True))
        if found.dtype != np.dtype(dtype) or not fits:
            raise self.wrong(f"{name} has type {found.dtype} and shape {found.shape}, not {np.dtype(dtype)} and {shape}")
        return np.array(found, order="C")

    def mixture(self, name: str) -> Mixture:
        policies = self.policies(name)
        weights = self.array(f"{name}.weights", np.float64, (len(policies),))
        if not (weights > 0.0).all():
            raise self.wrong(f"{name}.weights has one that is not positive")  # `of` would drop it, and not its policy's
        checked = Mixture.of(weights, policies)
        return Mixture(frozen(weights), checked.policies)  # bit for bit, where `of` would mend the last ones

    def policies(self, name: str) -> list[MarkovPolicy]:
        """Return the policies that `put_policies` stored, validated."""
        fixed = self.array(f"{name}.fixed", np.bool_, (None,))
        if not fixed.size:
            return []
        (num_actions,) = self.array(f"{name}.num_actions", np.int64, (1,)).tolist()
        counts = int(fixed.sum()), int((~fixed).sum())
        actions = self.array(f"{name}.actions", np.uint32, (counts[0], None, None)) if counts[0] else ()
        tables = self.array(f"{name}.probabilities", np.float64, (counts[1], None, None, num_actions)) if counts[1] else ()
        chosen, likely = iter(actions), iter(tables)
        return [
            MarkovPolicy.deterministic(next(chosen), num_actions=num_actions)
            if one
            else MarkovPolicy.stochastic(next(likely))
            for one in fixed.tolist()
        ]


def _digest(members: Mapping[str, NDArray[Any]]) -> NDArray[np.uint8]:
    """Of names, types, shapes and contents."""
    found = hashlib.sha256()
    for name in sorted(members):
        array = members[name]
        head = to_text([name, array.dtype.str, list(array.shape)]).encode()
        found.update(len(head).to_bytes(8, "little") + head + array.tobytes())
    return np.frombuffer(found.digest(), dtype=np.uint8)
