"""HTML pages from Jinja templates: inserted values are escaped, and an undefined name is an error."""

from __future__ import annotations

import base64
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safe2real.errors import needed_for
from safe2real.model.constraint_text import count

if TYPE_CHECKING:
    from jinja2 import Environment

_TEMPLATES = Path(__file__).parent / "templates"


@cache
def environment(folder: Path = _TEMPLATES) -> Environment:
    """Return a Jinja environment for the templates in `folder`, which may extend those of the package."""
    with needed_for("pages", "report"):
        from jinja2 import Environment, FileSystemLoader, StrictUndefined

    loader = FileSystemLoader([folder, _TEMPLATES])
    made = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )  # fmt: skip
    made.filters |= {
        "base64": lambda content: base64.b64encode(content).decode(),
        "commas": lambda number: f"{number:,}",
        "counted": count,
        "moment": moment,
    }
    return made


def render(template: str, *, folder: Path = _TEMPLATES, **data: Any) -> str:
    """Return the page that `template`, a file in `folder`, makes of `data`."""
    return environment(folder).get_template(template).render(data)


def moment(at: str) -> str:
    """Return a recorded time, to the second."""
    return f"{datetime.fromisoformat(at):%Y-%m-%d %H:%M:%S}"


def since(at: str, now: datetime) -> str:
    """Return the time from `at` to `now`, in words."""
    seconds = max(0.0, (now - datetime.fromisoformat(at)).total_seconds())
    for size, unit in ((86_400.0, "days"), (3_600.0, "hours"), (60.0, "minutes")):
        if seconds >= 2.0 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} seconds"
