"""The parts of a specification file that state structure: rows that behave alike, and several simulators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from safe2real.errors import InvalidInput
from safe2real.model.kernel import Kernel
from safe2real.model.serialization import check_keys
from safe2real.model.validation import shown
from safe2real.preflight.array_files import ArrayFiles
from safe2real.problem.alternatives import Alternatives, check_names
from safe2real.problem.ties import Ties, ties_from_json

_ARRAYS = ("classes", "successors", "laws")


def ties_of(given: dict[str, Any], files: ArrayFiles) -> Ties | None:
    """[ties], its arrays read from files; None where the file has none."""
    value = given.get("ties")
    if isinstance(value, dict):
        value = {key: files.maybe(one, f"ties.{key}") if key in _ARRAYS else one for key, one in value.items()}
    return ties_from_json(value) if "ties" in given else None


def alternatives_of(given: dict[str, Any], kernel_of: Callable[[Any, str], Kernel]) -> Alternatives | None:
    """[alternatives], each of its simulators read by `kernel_of(value, its place)`; None where the file has none."""
    if "alternatives" not in given:
        return None
    value = check_keys(given["alternatives"], "alternatives", required=("simulators",), optional=("exact", "names"))
    listed = value["simulators"]
    if not isinstance(listed, list):
        raise InvalidInput(f"alternatives.simulators is {shown(listed)}; write each one as [[alternatives.simulators]]")
    kernels = [kernel_of(one, f"alternatives.simulators[{j}]") for j, one in enumerate(listed)]
    return Alternatives(tuple(kernels), exact=value.get("exact", False), names=check_names(value.get("names", [])))
