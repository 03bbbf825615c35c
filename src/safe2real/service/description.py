"""How an endpoint is described in the OpenAPI document: its parameters, examples of what is sent and answered."""

from __future__ import annotations

import re
from typing import Any

from safe2real.service.problems import MEDIA_TYPE, STATUS, TITLES, Refused, problem_document
from safe2real.service.request import Endpoint

SECURITY = {"token": {"type": "http", "scheme": "bearer", "description": "Made by `safe2real serve token add`."}}
_IN_PATH = {"name": "The campaign's name.", "id": "The deployment's id, of the answer to ask."}
_PROBLEMS = {**STATUS, **{kind.kind: kind.status for kind in Refused.__subclasses__()}}


def described(endpoint: Endpoint, path: str = "") -> dict[str, Any]:
    """What FastAPI is told of a route."""
    more: dict[str, Any] = {"parameters": [*_path_parameters(path), *_query_parameters(endpoint)]}
    if endpoint.body is not None:
        form = ("application/x-ndjson", "string") if endpoint.streamed else ("application/json", "object")
        content = {form[0]: {"schema": {"type": form[1]}, "example": endpoint.body}}
        more["requestBody"] = {"required": bool(endpoint.body), "content": content}
    answer = {"application/json": {"schema": {"type": "object"}, "example": endpoint.answer}}
    return {
        "summary": endpoint.summary,
        "description": f"Roles: {', '.join(sorted(endpoint.roles))}. {endpoint.work.__doc__ or ''}".strip(),
        "openapi_extra": {**more, "security": [{"token": []}]},
        "responses": {200: {"description": "Done.", "content": answer}, **_problems()},
    }


def _path_parameters(path: str) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}, "description": _IN_PATH.get(name, "")}
        for name in re.findall(r"{(\w+)}", path)
    ]


def _query_parameters(endpoint: Endpoint) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "query", "required": False, "schema": {"type": "string"}, "description": meaning}
        for name, meaning in endpoint.query.items()
    ]


def _problems() -> dict[int | str, dict[str, Any]]:
    """One entry for each status; the kinds that share one are named together."""
    found: dict[int | str, dict[str, Any]] = {}
    for kind, status in sorted(_PROBLEMS.items()):
        entry = found.setdefault(status, {"description": "", "content": {MEDIA_TYPE: {"examples": {}}}})
        entry["description"] += f"{'; ' if entry['description'] else ''}{kind}: {TITLES[kind]}"
        example = problem_document(kind, status, "The place, the value, and what helps.")
        entry["content"][MEDIA_TYPE]["examples"][kind] = {"value": example}
    return found
