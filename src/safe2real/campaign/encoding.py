"""Arrays and policies as JSON and back, exactly: what is stored is readable in any language, and nothing is pickled.

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
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safe2real.errors import InvalidInput
from safe2real.model.policy import MarkovPolicy, Mixture

PLAIN_SIZE = 4096  # entries up to which an array is written as a list
_MAX_BYTES = 1 << 33  # what a packed array may claim to unpack to
_DTYPES = ("<f8", "<u4", "<u2", "|u1", "|b1", "<i8")


def to_text(document: Any) -> str:
    """Canonical JSON: the same document gives the same text; a number that JSON cannot hold is a mistake."""
    return json.dumps(document, separators=(",", ":"), sort_keys=True, allow_nan=False, ensure_ascii=False)


def from_text(text: str, what: str) -> Any:
    """Parse JSON; `what` names the document in the error. NaN and Infinity are refused."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{what} is not JSON ({error}); give one JSON document") from error


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


def digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def finite_or_none(number: float) -> float | None:
    """JSON has no infinity: an unbounded number is null."""
    return float(number) if math.isfinite(number) else None


def packed(array: NDArray[Any]) -> dict[str, Any]:
    little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    compressed = base64.b64encode(zlib.compress(little.tobytes(), 6)).decode()
    return {"dtype": little.dtype.str, "shape": list(array.shape), "zlib": compressed}


def array_to_json(array: NDArray[Any]) -> Any:
    return array.tolist() if array.size <= PLAIN_SIZE else packed(array)


def array_from_json(value: Any, name: str) -> Any:
    """The nested list as it is (its user validates it), or the packed array written out."""
    if not isinstance(value, Mapping):
        return value
    check_keys(value, name, required=("dtype", "shape", "zlib"))
    shape = value["shape"]
    if value["dtype"] not in _DTYPES:
        raise InvalidInput(f"{name}.dtype is {value['dtype']!r}; give one of {', '.join(_DTYPES)}")
    if not isinstance(shape, list) or not all(type(n) is int and 0 <= n < 2**40 for n in shape):
        raise InvalidInput(f"{name}.shape is {shape!r}; give a list of whole numbers")
    dtype = np.dtype(value["dtype"])
    size = math.prod(shape) * dtype.itemsize
    if size > _MAX_BYTES or not isinstance(value["zlib"], str):
        raise InvalidInput(
            f"{name}.shape is {shape}: {size} bytes; at most {_MAX_BYTES} bytes of base64 text can be unpacked"
        )
    try:
        unpacker = zlib.decompressobj()
        # One byte more than the shape needs, so that a longer content shows without being unpacked whole.
        content = unpacker.decompress(base64.b64decode(value["zlib"], validate=True), size + 1)
    except (binascii.Error, ValueError, zlib.error) as error:
        raise InvalidInput(f"{name}.zlib cannot be unpacked ({error}); pack the array again") from error
    if len(content) != size or not unpacker.eof:
        raise InvalidInput(f"{name}.zlib does not hold the {size} bytes of shape {shape}; pack the array again")
    return np.frombuffer(content, dtype=dtype).reshape(shape)


def check_keys(value: Any, name: str, *, required: tuple[str, ...], optional: tuple[str, ...] = ()) -> dict[str, Any]:
    """`value` as a JSON object with exactly these keys; an unknown key is answered with the nearest known one."""
    if not isinstance(value, Mapping):
        raise InvalidInput(f"{name} is {_short(value)}; give an object with {', '.join(required)}")
    for key in value:
        if key not in required + optional:
            found = difflib.get_close_matches(str(key), required + optional, 1)
            near = f" (did you mean {found[0]!r}?)" if found else ""
            raise InvalidInput(
                f"{name} has an unknown key {str(key)[:40]!r}{near}; known are {', '.join(required + optional)}"
            )
    for key in required:
        if key not in value:
            raise InvalidInput(f"{name} lacks {key!r}; it needs {', '.join(required)}")
    return dict(value)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def policy_to_json(policy: MarkovPolicy, *, plain: bool = False) -> dict[str, Any]:
    """A policy as an object; `plain` writes nested lists whatever their size."""
    write = (lambda array: array.tolist()) if plain else array_to_json
    if policy.actions is not None:
        kind = np.min_scalar_type(policy.num_actions - 1)
        return {
            "kind": "deterministic",
            "num_actions": policy.num_actions,
            "actions": write(policy.actions.astype(kind)),
        }
    return {"kind": "stochastic", "probabilities": write(policy.probabilities)}


def policy_from_json(value: Any, name: str, *, horizon: int | None = None) -> MarkovPolicy:
    """`horizon` allows actions [S] and probabilities [S, A] that are the same at every step."""
    if not isinstance(value, Mapping) or value.get("kind") not in ("deterministic", "stochastic"):
        raise InvalidInput(
            f'{name} is {_short(value)}; give {{"kind": "deterministic", "num_actions": A, "actions": [H][S]}} or '
            '{"kind": "stochastic", "probabilities": [H][S][A]}'
        )
    if value["kind"] == "deterministic":
        check_keys(value, name, required=("kind", "num_actions", "actions"))
        actions = array_from_json(value["actions"], f"{name}.actions")
        repeat = horizon if np.ndim(_plain(actions, f"{name}.actions")) == 1 else None
        return MarkovPolicy.deterministic(actions, num_actions=value["num_actions"], horizon=repeat)
    check_keys(value, name, required=("kind", "probabilities"))
    table = array_from_json(value["probabilities"], f"{name}.probabilities")
    repeat = horizon if np.ndim(_plain(table, f"{name}.probabilities")) == 2 else None
    return MarkovPolicy.stochastic(table, horizon=repeat)


def _plain(value: Any, name: str) -> NDArray[Any]:
    try:
        return np.asarray(value)
    except ValueError as error:
        raise InvalidInput(f"{name} is ragged ({error}); give rows of one length") from error


def policy_to_bytes(policy: MarkovPolicy) -> bytes:
    """What is stored once for each policy, under the digest of these bytes."""
    return to_text(policy_to_json(policy)).encode()


def policy_from_bytes(content: bytes) -> MarkovPolicy:
    return policy_from_json(from_text(content.decode("utf-8", "replace"), "the stored policy"), "the stored policy")


def mixture_to_json(mixture: Mixture) -> dict[str, Any]:
    return {
        "weights": mixture.weights.tolist(),
        "policies": [policy_to_json(policy, plain=True) for policy in mixture.policies],
    }
