"""One file for numbers and words, in which plans and learners are kept: a NumPy archive (.npz) without pickles.

The arrays are members of their own, with all their bits; the words are a JSON text, the member `document`; the member
`digest` is the SHA-256 of all others. A file that was cut, changed or written by something else is refused. The digest is
no signature: whoever changes a file on purpose can compute it again. Reading runs no code, whatever the file says.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safe2real.errors import InvalidInput
from safe2real.model.checks import frozen, shown
from safe2real.model.encoding import from_text, to_text
from safe2real.model.files import write_complete
from safe2real.model.limits import check_bytes
from safe2real.model.numpy_files import read_npz
from safe2real.model.policy import MarkovPolicy, Mixture
from safe2real.version import __version__

DOCUMENT, DIGEST = "document", "digest"
_KIND, _FORMAT, _VERSION = "safe2real", "format", "version"  # keys of the document


class Archive:
    """Named arrays and a document, on their way to a file or from one; every reading checks type and shape."""

    def __init__(self, kind: str, *, name: str = "the file") -> None:
        """`kind` says what is kept, such as "plan"; `name` is what messages call the file."""
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
        """Deterministic ones as actions [n, H, S], the others as probabilities [m, H, S, A]; `fixed` [n + m] says which."""
        listed = list(policies)
        fixed = [one for one in listed if one.actions is not None]
        tables = [one for one in listed if one.actions is None]
        self.put(f"{name}.fixed", np.array([one.actions is not None for one in listed], dtype=np.bool_))
        self.put(f"{name}.num_actions", np.array([one.num_actions for one in listed[:1]], dtype=np.int64))
        if fixed:
            self.put(f"{name}.actions", np.stack([np.asarray(one.actions) for one in fixed]))
        if tables:
            self.put(f"{name}.probabilities", np.stack([one.probabilities for one in tables]))

    def save(self, path: str | os.PathLike[str], *, format: int) -> Path:
        """Write the file; it is there whole, over an older one, or not at all.

        Raises:
            StorageFailure: it cannot be written.
        """
        head = {_KIND: self.kind, _FORMAT: format, _VERSION: __version__}
        text = np.frombuffer(to_text({**head, **self.document}).encode(), dtype=np.uint8)
        members = {**self.arrays, DOCUMENT: text}
        packed = io.BytesIO()
        np.savez_compressed(packed, **members, **{DIGEST: _digest(members)})  # type: ignore[arg-type]
        write_complete(Path(path), packed.getvalue())
        return Path(path)

    # Taking out

    @classmethod
    def load(cls, path: str | os.PathLike[str], kind: str, *, format: int) -> Archive:
        """Read a file of this kind, of this format or an older one.

        Raises:
            InvalidInput: it is not there, damaged, changed, of another kind, or of a newer release.
        """
        place = Path(path)
        found = cls(kind, name=str(place))
        cure = f"give a file that was saved as a {kind} by safe2real"
        if not place.is_file():
            raise InvalidInput(f"{place} is no file; {cure}")
        total = 0

        def weigh(what: str, size: int) -> None:
            nonlocal total
            total += size
            check_bytes(f"{place}: {what}", total)

        try:
            members: dict[str, NDArray[Any]] = read_npz(place, weigh)
        except OSError as error:
            raise InvalidInput(f"{place} cannot be read ({error.strerror}); check the name and the permissions") from error
        except InvalidInput as error:
            raise InvalidInput(
                f"{place} is no {kind} of safe2real, or damaged: {error}. Save it again, or {cure}"
            ) from error
        if DOCUMENT not in members or DIGEST not in members:
            raise InvalidInput(f"{place} is an archive of something else; {cure}")
        digest = members.pop(DIGEST)
        if not np.array_equal(digest, _digest(members)):
            raise InvalidInput(f"{place} was changed after it was saved: its digest is another; save it again, or {cure}")
        document = from_text(members.pop(DOCUMENT).tobytes(), str(place))
        if not isinstance(document, dict) or document.get(_KIND) != kind:
            other = document.get(_KIND) if isinstance(document, dict) else None
            raise InvalidInput(f"{place} holds a {shown(other)}, not a {kind}; {cure}")
        written = document.get(_FORMAT)
        if type(written) is not int or not 1 <= written <= format:
            raise InvalidInput(
                f"{place} is of format {shown(written)}, written by safe2real {shown(document.get(_VERSION))}; this is "
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
        """What `put_policies` kept, checked."""
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
