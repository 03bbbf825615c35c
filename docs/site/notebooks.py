"""Notebooks of the tutorials: written from the pages when the site is built, and executed by `make docs`.

    python docs/site/notebooks.py out/site/tutorials

A tutorial has one source, its page. The page says at its top where its notebook is.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

_BLOCK = re.compile(r'^```python exec="1"[^\n]*\n(.*?)^```\n', re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!\w+:)[^)]*\)")


def notebook_of(page: str) -> str:
    """Return the notebook of a tutorial, as the JSON of an .ipynb file, not executed.

    Args:
        page: the Markdown of the tutorial; its executed blocks become cells of code. Links to other pages become their
            text, because they lead nowhere from a file on a disk.
    """
    cells: list[dict[str, Any]] = []
    parts = _BLOCK.split(page)
    for number, part in enumerate(parts):
        text = part.strip("\n")
        if not text:
            continue
        common = {"id": f"cell-{number}", "metadata": {}, "source": text.splitlines(keepends=True)}
        if number % 2:
            cells.append({"cell_type": "code", "execution_count": None, "outputs": [], **common})
        else:
            common["source"] = _LINK.sub(r"\1", text).splitlines(keepends=True)
            cells.append({"cell_type": "markdown", **common})
    about = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    return json.dumps({"cells": cells, "metadata": about, "nbformat": 4, "nbformat_minor": 5}, indent=1)


def execute(path: Path) -> int:
    """Execute a notebook in place, so that it holds its outputs.

    Returns:
        The number of its cells of code.

    Raises:
        CellExecutionError: when a cell raises; the error names the cell and shows its traceback.
    """
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
    nbformat.write(notebook, path)
    return sum(cell.cell_type == "code" for cell in notebook.cells)


def main() -> int:
    """Execute every notebook in the folder that is named, and print how many cells each has."""
    os.environ.pop("MPLBACKEND", None)  # figures go into the notebook
    paths = sorted(Path(sys.argv[1]).rglob("*.ipynb"))
    if not paths:
        print(f"{sys.argv[1]} holds no notebook: build the site first")
        return 1
    for path in paths:
        print(f"{path.name}: {execute(path)} cells executed")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
