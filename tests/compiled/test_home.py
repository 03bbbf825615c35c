"""Compiled code has one home."""

import ast
from pathlib import Path

import safe2real

SOURCES = Path(safe2real.__file__).parent


def imports_of(path: Path) -> set[str]:
    """The packages that a file imports anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {name.name.split(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found.add(str(node.module).split(".")[0])
    return found


def test_nothing_else_imports_numba():
    having = {path.relative_to(SOURCES).parts[0] for path in SOURCES.rglob("*.py") if "numba" in imports_of(path)}
    assert having == {"_compiled"}
