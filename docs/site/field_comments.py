"""What stands beside a field of a class, as a comment, is what the reference says of it.

A Griffe extension. Classes here say what a field is at its end of the line (`value: float  # lower bound on ...`), which no
tool reads by itself; a docstring of the field's own is kept.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

_COMMENT = re.compile(r"  # (?!type:|noqa|fmt:)(.+)$")


class FieldComments(griffe.Extension):
    """Comments beside the fields of public classes become their docstrings."""

    def on_attribute_instance(self, *, attr: griffe.Attribute, **_: Any) -> None:
        if attr.docstring is not None or attr.name.startswith("_") or not attr.parent or not attr.parent.is_class:
            return
        comment = _COMMENT.search(attr.source.rstrip())
        if comment and attr.lineno is not None:
            attr.docstring = griffe.Docstring(comment.group(1), lineno=attr.lineno, parent=attr)
