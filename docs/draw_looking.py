"""Pictures of docs/looking.md, by the code that is shown there: `python docs/draw_looking.py [FOLDER]`, docs/img if none."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from docs.measure import LOOKING
from docs.page_code import blocks, run


def main(folder: Path) -> None:
    """Run the page's blocks one after the other, as a reader would, and keep the pictures that they make."""
    pictures = {name.removeprefix("looking-"): folder / name for name, _ in LOOKING}
    _, said = run("\n".join(blocks("looking.md")), pictures=pictures)
    print(said, end="")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/img").resolve())
