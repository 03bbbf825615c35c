"""A problem and its method as one JSON document, which a campaign stores, and back."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

from safe2real.errors import InvalidInput
from safe2real.methods import ALL
from safe2real.methods.base import Method
from safe2real.methods.sim_to_real import SimToReal
from safe2real.model.serialization import Extensions, from_text, named_from_json, named_to_json
from safe2real.model.validation import shown
from safe2real.problem.document import METHOD, settings_to_json, to_document
from safe2real.problem.problem import Problem


def document_of(problem: Problem, method: Method) -> dict[str, Any]:
    """Return the JSON document of the problem with the method in its settings; a campaign stores it."""
    return {**to_document(problem), "settings": settings_of(problem, method)}


def settings_of(problem: Problem, method: Method) -> dict[str, Any]:
    """Return the settings of that document alone."""
    named = named_to_json(method) if is_dataclass(method) and fields(method) else method.name
    return {**settings_to_json(problem.settings), METHOD: named}


def problem_and_method(text: str | bytes, extensions: Extensions = ()) -> tuple[Problem, Method]:
    """Read the problem and the method of a stored document; `extensions` are the user's classes that it may name."""
    document = from_text(text, "the specification")
    return Problem.from_document(document, extensions=extensions), method_in(document, extensions)


def extensions_of(problem: Problem, method: Method) -> Extensions:
    """Return the classes that a document of this problem and method names."""
    settings = getattr(problem, "settings", None)
    return (type(method), type(getattr(settings, "radius", None)))


def method_in(document: Any, extensions: Extensions = ()) -> Method:
    """Return the method that a document names, `SimToReal()` by default; `extensions` are the user's classes."""
    settings = document.get("settings") if isinstance(document, dict) else None
    if not isinstance(settings, dict) or METHOD not in settings:
        return SimToReal()
    given = settings[METHOD]
    plain = {"kind": given} if isinstance(given, str) else given
    method = named_from_json(plain, f"settings.{METHOD}", Method, ALL, extensions)
    if method is None:
        known = ", ".join(kind.name for kind in ALL)
        raise InvalidInput(f"settings.{METHOD} is {shown(given)}; give one of {known}")
    return method
