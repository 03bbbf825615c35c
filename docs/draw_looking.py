"""`python docs/draw_looking.py`: the pictures of docs/looking.md, by the code that is shown there."""

from __future__ import annotations

import re
import shutil
import tempfile
from contextlib import chdir
from pathlib import Path

HERE = Path(__file__).resolve().parent
PICTURES = ("system", "matrix", "learner", "plan", "table", "rewards", "trial")


def draw(folder: Path) -> None:
    """Run the page's blocks one after the other, as a reader would, and keep the pictures that they make."""
    blocks = re.findall(r"```python\n(.*?)```", (HERE / "looking.md").read_text(), flags=re.DOTALL)
    with tempfile.TemporaryDirectory() as scratch, chdir(scratch):
        exec("\n".join(blocks), {})
        for name in PICTURES:
            shutil.copy(f"{name}.png", folder / f"looking-{name}.png")


if __name__ == "__main__":
    draw(HERE / "img")
