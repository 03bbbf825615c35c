"""Arrays and policies as JSON and back, exactly: any language can read the documents, and nothing is pickled.

An array is a nested list, or packed: {"dtype": "<f8", "shape": [25, 4], "zlib": "<base64 of the compressed bytes>"}. Both
are read everywhere; large arrays are written packed. JSON keeps a double exactly.
"""

from __future__ import annotations

import base64
import binascii
import difflib
import hashlib
import json
import math
import zlib
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, Field, asdict, fields, is_dataclass
from importlib.metadata import entry_points
from typing import Any, BinaryIO, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from safe2real.errors import InvalidInput
from safe2real.model.policy import MarkovPolicy, Mixture
from safe2real.model.validation import AS_NUMBER, BYTES, check_bytes, human, shown, text_limit

PLAIN_SIZE = 4096  # entries up to which an array is written as a list
_SHORT = 64  # the same where no person reads it
_DTYPES = ("<f8", "<u4", "<u2", "|u1", "|b1", "<i8")


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


def _refuse_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):  # readers differ in which of the two they take
        ((key, _),) = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"the key {shown(key)} is given twice")
    return found


# Made once: a long record is read and written line by line.
_WRITER = json.JSONEncoder(separators=(",", ":"), sort_keys=True, allow_nan=False, ensure_ascii=False)
_READER = json.JSONDecoder(parse_constant=_refuse_constant, object_pairs_hook=_refuse_repetition)


def to_text(document: Any) -> str:
    """Canonical JSON: the same document gives the same text; a number that JSON cannot hold is a mistake."""
    return _WRITER.encode(document)


def from_text(text: str | bytes, what: str) -> Any:
    """Parse JSON; `what` names the document in the error. NaN, Infinity and keys given twice are refused."""
    try:
        return _READER.decode(text.decode() if isinstance(text, bytes) else text)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"{what} is not JSON ({error}); give one JSON document") from error


def bounded(stream: BinaryIO, name: str, limit: int | None = None) -> bytes:
    """Read a stream of text whole; one that is longer than `limit` bytes, or does not end, is refused."""
    limit = text_limit() if limit is None else limit
    content = stream.read(limit + 1)
    if len(content) > limit:
        raise InvalidInput(
            f"{name} is longer than {human(limit)}, which is the limit; give it in parts, or set {BYTES} to more"
        )
    return content


def digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


FINGERPRINTS = 2**53
ANY_EPISODE = FINGERPRINTS - 1  # among the marks of a kernel: of the model of a plan, which does not know its episodes
"""Fingerprints of episodes are below it: whole numbers that JSON keeps exactly in every language."""


def fingerprint(states: ArrayLike, actions: ArrayLike) -> int:
    """Digest of one episode's states and actions, so that the same episode is recognised in another log."""
    content = np.asarray(states, dtype="<u4").tobytes() + np.asarray(actions, dtype="<u4").tobytes()
    return int.from_bytes(hashlib.sha256(content).digest()[:8], "little") % FINGERPRINTS


def is_marked(marks: Container[int], states: ArrayLike, actions: ArrayLike) -> bool:
    """Return whether an episode is, or may be, one of those whose marks a kernel bears."""
    return ANY_EPISODE in marks or fingerprint(states, actions) in marks


def finite_or_none(number: float) -> float | None:
    """JSON has no infinity: an unbounded number is null."""
    return float(number) if math.isfinite(number) else None


def packed(array: NDArray[Any]) -> dict[str, Any]:
    little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    compressed = base64.b64encode(zlib.compress(little.tobytes(), 6)).decode()
    return {"dtype": little.dtype.str, "shape": list(array.shape), "zlib": compressed}


def array_to_json(array: NDArray[Any], plain_size: int = PLAIN_SIZE) -> Any:
    return array.tolist() if array.size <= plain_size else packed(array)


def array_from_json(value: Any, name: str) -> Any:
    """Return a nested list as it is, which the caller checks, or the content of a packed array."""
    if not isinstance(value, Mapping):
        return value
    check_keys(value, name, required=("dtype", "shape", "zlib"))
    shape = value["shape"]
    if value["dtype"] not in _DTYPES:
        raise InvalidInput(f"{name}.dtype is {shown(value['dtype'])}; give one of {', '.join(_DTYPES)}")
    if not isinstance(shape, list) or len(shape) > 4 or not all(type(n) is int and 0 <= n < 2**40 for n in shape):
        raise InvalidInput(f"{name}.shape is {shown(shape)}; give a list of at most 4 whole numbers, like [H, S, A, S]")
    dtype = np.dtype(value["dtype"])
    check_bytes(f"{name}, of shape {shape},", math.prod(shape) * AS_NUMBER)
    size = math.prod(shape) * dtype.itemsize
    if not isinstance(value["zlib"], str):
        raise InvalidInput(f"{name}.zlib is {shown(value['zlib'])}; give the compressed bytes as base64 text")
    try:
        unpacker = zlib.decompressobj()
        # One byte more than the shape needs, so that a longer content shows without being unpacked whole.
        content = unpacker.decompress(base64.b64decode(value["zlib"], validate=True), size + 1)
    except (binascii.Error, ValueError, zlib.error) as error:
        raise InvalidInput(f"{name}.zlib cannot be unpacked ({error}); pack the array again") from error
    if len(content) != size or not unpacker.eof or unpacker.unused_data:
        raise InvalidInput(f"{name}.zlib does not hold the {size} bytes of shape {shape}; pack the array again")
    if dtype.kind == "b" and np.frombuffer(content, dtype=np.uint8).max(initial=0) > 1:
        raise InvalidInput(f"{name}.zlib holds bytes other than 0 and 1, which are no booleans; pack the array again")
    return np.frombuffer(content, dtype=dtype).reshape(shape)


def check_unpacked(document: Any, name: str) -> None:
    """Refuse a document whose packed arrays, all together, would take more than the limit; said before one is unpacked."""
    total, largest = 0, (0, name)
    parts: list[tuple[str, Any]] = [("", document)]
    while parts:
        place, one = parts.pop()
        if isinstance(one, Mapping):
            size = _claimed(one)
            total, largest = total + size, max(largest, (size, place.removeprefix(".")))
            parts.extend((f"{place}.{str(key)[:40]}", entry) for key, entry in one.items())
        elif isinstance(one, list):
            parts.extend((f"{place}[{i}]", entry) for i, entry in enumerate(one) if isinstance(entry, (list, Mapping)))
    check_bytes(f"{name} holds packed arrays that written out, the largest of them {largest[1]},", total)


def _claimed(value: Mapping[str, Any]) -> int:
    """Return the bytes that a packed array claims; 0 for a value that is no array, which its reader will refuse."""
    shape, dtype = value.get("shape"), value.get("dtype")
    if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape) or dtype not in _DTYPES:
        return 0
    return math.prod(shape[:4]) * AS_NUMBER


def numbers_from_json(value: Any, name: str) -> NDArray[Any]:
    """Return an array of numbers or booleans; the caller checks its shape and range."""
    try:
        array = np.asarray(array_from_json(value, name))
    except ValueError as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"{name} is ragged: {shown(value)}; give rows of one length") from error
    if array.dtype.kind not in "iufb":
        raise InvalidInput(f"{name} has entries of type {array.dtype}; give numbers")
    return array


@contextmanager
def within(name: str) -> Iterator[None]:
    """Prefix the messages of input that is refused in this block with `name`."""
    try:
        yield
    except InvalidInput as error:
        raise InvalidInput(f"{name}: {error}") from error


def check_keys(value: Any, name: str, *, required: tuple[str, ...], optional: tuple[str, ...] = ()) -> dict[str, Any]:
    """`value` as a JSON object with exactly these keys; an unknown key is answered with the nearest known one."""
    if not isinstance(value, Mapping):
        raise InvalidInput(f"{name} is {shown(value)}; give an object with {', '.join(required)}")
    for key in value:
        if key not in required + optional:
            found = difflib.get_close_matches(str(key)[:100], required + optional, 1)
            near = f" (did you mean {found[0]!r}?)" if found else ""
            raise InvalidInput(
                f"{name} has an unknown key {str(key)[:40]!r}{near}; known are {', '.join(required + optional)}"
            )
    for key in required:
        if key not in value:
            raise InvalidInput(f"{name} lacks {key!r}; it needs {', '.join(required)}")
    return dict(value)


def policy_to_json(policy: MarkovPolicy, *, plain: bool = False, plain_size: int = PLAIN_SIZE) -> dict[str, Any]:
    """A policy as an object; `plain` writes nested lists whatever their size, else only up to `plain_size` entries."""

    def write(array: NDArray[Any]) -> Any:
        return array.tolist() if plain else array_to_json(array, plain_size)

    if policy.actions is not None:
        kind = np.min_scalar_type(policy.num_actions - 1)
        return {"kind": "deterministic", "num_actions": policy.num_actions, "actions": write(policy.actions.astype(kind))}
    return {"kind": "stochastic", "probabilities": write(policy.probabilities)}


def policy_from_json(value: Any, name: str, *, horizon: int | None = None, num_states: int | None = None) -> MarkovPolicy:
    """`horizon` allows actions [S] and probabilities [S, A] that are the same at every step; they are `num_states` long."""
    if not isinstance(value, Mapping) or value.get("kind") not in ("deterministic", "stochastic"):
        raise InvalidInput(
            f'{name} is {shown(value)}; give {{"kind": "deterministic", "num_actions": A, "actions": [H][S]}} or '
            '{"kind": "stochastic", "probabilities": [H][S][A]}'
        )
    if value["kind"] == "deterministic":
        check_keys(value, name, required=("kind", "num_actions", "actions"))
        actions = numbers_from_json(value["actions"], f"{name}.actions")
        repeat = horizon if _is_for_every_step(actions, 1, f"{name}.actions", num_states) else None
        with within(name):
            return MarkovPolicy.deterministic(actions, num_actions=value["num_actions"], horizon=repeat)
    check_keys(value, name, required=("kind", "probabilities"))
    table = numbers_from_json(value["probabilities"], f"{name}.probabilities")
    repeat = horizon if _is_for_every_step(table, 2, f"{name}.probabilities", num_states) else None
    with within(name):
        return MarkovPolicy.stochastic(table, horizon=repeat)


def _is_for_every_step(array: NDArray[Any], ndim: int, name: str, num_states: int | None) -> bool:
    """Return whether the axis of steps is left out; a wrong length is refused before it is repeated for every step."""
    if array.ndim == ndim and num_states is not None and len(array) != num_states:
        raise InvalidInput(f"{name} has shape {array.shape}; give one entry for each of the {num_states} states")
    return array.ndim == ndim


def policy_to_bytes(policy: MarkovPolicy) -> bytes:
    """Return the bytes of a policy, which are stored once, under their digest."""
    return to_text(policy_to_json(policy)).encode()


def policy_from_bytes(content: bytes) -> MarkovPolicy:
    return policy_from_json(from_text(content.decode("utf-8", "replace"), "the stored policy"), "the stored policy")


def mixture_from_json(value: Any, name: str) -> Mixture:
    """Read a mixture as `mixture_to_json` writes it, or a single policy as `policy_from_json` reads it."""
    if not isinstance(value, Mapping) or "policies" not in value:
        return Mixture.of([1.0], [policy_from_json(value, name)])
    given = check_keys(value, name, required=("weights", "policies"))
    if not isinstance(given["policies"], list):
        raise InvalidInput(f"{name}.policies is {shown(given['policies'])}; give a list of policies")
    parts = [policy_from_json(one, f"{name}.policies[{i}]") for i, one in enumerate(given["policies"])]
    with within(name):
        return Mixture.of(numbers_from_json(given["weights"], f"{name}.weights"), parts)


def mixture_to_json(mixture: Mixture, *, plain: bool = True) -> dict[str, Any]:
    """A mixture as an object; without `plain` it is short to send and quick to read, for programs."""
    return {
        "weights": mixture.weights.tolist(),
        "policies": [policy_to_json(policy, plain=plain, plain_size=_SHORT) for policy in mixture.policies],
    }


# Radii and methods by name, as records keep them; those from outside the package are found, never registered.
#
# A record says {"kind": name, parameter: value, ...}. Parameters are the fields of a dataclass; where those are no JSON,
# the class says how: `to_parameters()` and the class method `from_parameters(given, place)`. The class of that name is one
# of this package, one that the caller gives (`extensions=`), or one that an installed package offers under the entry point
# group `safe2real`. A record cannot make a process import anything else.

GROUP = "safe2real"
Extensions = Sequence[type]
_Named = TypeVar("_Named")


def named_to_json(thing: Any) -> dict[str, Any]:
    """Return a plug-in as JSON: its name under "kind", then `to_parameters`, or else its fields. Arrays keep every bit."""
    if hasattr(thing, "to_parameters"):
        return {"kind": thing.name, **thing.to_parameters()}
    given = asdict(thing) if is_dataclass(thing) and not isinstance(thing, type) else {}
    return {"kind": thing.name, **{name: _plain(value) for name, value in given.items()}}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    return array_to_json(value) if isinstance(value, np.ndarray) else value


def named_from_json(
    value: Any, place: str, base: Any, own: Sequence[type[_Named]], extensions: Extensions = ()
) -> _Named | None:
    """The radius or method that `value` names; None where nothing of that name is known.

    A parameter that is left out takes its default; records name every parameter.

    Raises:
        InvalidInput: if a parameter is missing, or not one.
    """
    if isinstance(value, base):
        return value  # type: ignore[no-any-return]
    name = value.get("kind") if isinstance(value, dict) else None
    kind = _kind_of(name, base, own, extensions) if isinstance(name, str) else None
    if kind is None:
        return None
    own_form = hasattr(kind, "from_parameters")  # which reads every one of them
    listed = fields(kind) if is_dataclass(kind) else ()
    optional = () if own_form else tuple(field.name for field in listed if _has_default(field))
    required = tuple(field.name for field in listed if field.name not in optional)
    given = check_keys(value, place, required=("kind", *required), optional=optional)
    if own_form:
        return kind.from_parameters(given, place)  # type: ignore[no-any-return]
    return kind(**{name: one for name, one in given.items() if name != "kind"})  # type: ignore[no-any-return]


def _has_default(field: Field[Any]) -> bool:
    return field.default is not MISSING or field.default_factory is not MISSING


def _kind_of(name: str, base: type, own: Sequence[type], extensions: Extensions) -> Any:
    for kind in (*own, *extensions):
        if issubclass(kind, base) and getattr(kind, "name", None) == name:
            return kind
    for entry in entry_points(group=GROUP, name=name):
        found = entry.load()
        if not (isinstance(found, type) and issubclass(found, base) and getattr(found, "name", None) == name):
            raise InvalidInput(f"the entry point {name!r} leads to {found!r}, which is no {base.__name__} of that name")
        return found
    return None
