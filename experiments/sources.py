"""Which sources the results of a module rest on: all modules of `experiments` and of the library behind it.

They are read off the sources, so nothing has to be listed by hand and an import inside a function counts too; one for type
checkers alone does not. A package that an import only passes through runs as well, but nothing of it is used: it counts
where its own names are imported.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

_CHECKOUT = Path(__file__).parents[1]
_ROOTS = {"experiments": _CHECKOUT, "safe2real": _CHECKOUT / "src"}  # the folder that holds each package


def sources_of(module: str, root: Path | None = None) -> dict[str, Path]:
    """The files behind `module`, its own among them, by the names of their modules.

    `root` is the folder that holds both packages, where that is not this checkout.
    """
    found: dict[str, Path] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        path = _file_of(name, root)
        if name not in found and path is not None:
            found[name] = path
            waiting += _imports(path.read_bytes(), root)
    return dict(sorted(found.items()))


def digest_of_sources(module: str, root: Path | None = None) -> str:
    """Of the names and contents of all files behind `module`."""
    digest = hashlib.sha256()
    for name, path in sources_of(module, root).items():
        digest.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


@cache  # nearly all modules share nearly all of their sources
def _imports(source: bytes, root: Path | None) -> tuple[str, ...]:
    return tuple(_imported(ast.parse(source), root))


def _imported(node: ast.AST, root: Path | None) -> Iterator[str]:
    """Modules of the package that are imported anywhere below `node`."""
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        return
    if isinstance(node, ast.Import):
        yield from (name.name for name in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module is not None:
        for name in node.names:
            inner = f"{node.module}.{name.name}"
            yield inner if _file_of(inner, root) else node.module
    for child in ast.iter_child_nodes(node):
        yield from _imported(child, root)


def _file_of(module: str, root: Path | None) -> Path | None:
    """The source of a module of either package; None for others."""
    package = module.partition(".")[0]
    if package not in _ROOTS:
        return None
    place = (root or _ROOTS[package]).joinpath(*module.split("."))
    return next((path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file()), None)
