"""The Python of a page: run as it is, or with some of its words replaced, for numbers that the page's text quotes."""

from __future__ import annotations

import contextlib
import io
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent


def blocks(page: str, heading: str | None = None) -> list[str]:
    """Return the Python blocks of docs/`page`, or of the section below one heading of it.

    Args:
        page: a file name below docs.
        heading: the text of a `##` heading.

    Returns:
        The code of each block, in the order of the page; blocks of tutorials (`python exec=...`) too.

    Raises:
        ValueError: the page has no such heading.
    """
    text = (DOCS / page).read_text()
    if heading is not None:
        section = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", text, flags=re.DOTALL | re.MULTILINE)
        if section is None:
            raise ValueError(f"docs/{page} has no heading {heading!r}; name one that it has")
        text = section.group(1)
    return re.findall(r"```python[^\n]*\n(.*?)```", text, flags=re.DOTALL)


def replaced(code: str, changes: Mapping[str, str]) -> str:
    """Return code with every key of `changes` replaced by its value.

    Raises:
        ValueError: the code does not contain a key, so that the variant would be the page's own run.
    """
    for old, new in changes.items():
        if old not in code:
            raise ValueError(f"the page's code has no {old!r} any more; correct the variant that replaces it")
        code = code.replace(old, new)
    return code


def run(
    code: str, names: dict[str, Any] | None = None, *, pictures: Mapping[str, Path] | None = None
) -> tuple[dict[str, Any], str]:
    """Run code in a folder of its own, as a reader would.

    Args:
        code: of one or several blocks.
        names: what earlier blocks have defined; changed in place.
        pictures: where to keep files that the code writes, by their names.

    Returns:
        All names that the code defines, and what it prints.
    """
    names, said = {} if names is None else names, io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), contextlib.redirect_stdout(said):
        exec(code, names)
        for name, kept in (pictures or {}).items():
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_bytes(Path(name).read_bytes())
    return names, said.getvalue()
