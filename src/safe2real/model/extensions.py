"""Radii and methods by name, as records keep them; those from outside the package are found, never registered.

A record says {"kind": name, parameter: value, ...}. Parameters are the fields of a dataclass; where those are no JSON, the
class says how: `to_parameters()` and the class method `from_parameters(given, place)`. The class of that name is one of this
package, one that the caller gives (`extensions=`), or one that an installed package offers under the entry point group
`safe2real`. A record cannot make a process import anything else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, Field, asdict, fields, is_dataclass
from importlib.metadata import entry_points
from typing import Any, TypeVar

import numpy as np

from safe2real.errors import InvalidInput
from safe2real.model.serialization import array_to_json, check_keys

GROUP = "safe2real"
Extensions = Sequence[type]
_Named = TypeVar("_Named")


def named_to_json(thing: Any) -> dict[str, Any]:
    """{"kind": name} and its parameters, the fields of a dataclass; arrays as JSON that gives them back bit for bit."""
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

    What is left out and has a default has that; records, which are written here, leave nothing out.

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
