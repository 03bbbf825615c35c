"""Print what the tutorials and bring-your-own-system.md print, so that their prose can be held against it.

python docs/tutorial_numbers.py [PAGE ...]    # below docs; these three without a name
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ.setdefault("MPLBACKEND", "Agg")

from docs.page_code import blocks, run

PAGES = ("tutorials/first-plan.md", "tutorials/reward-and-trial.md", "bring-your-own-system.md")


def main() -> None:
    for page in sys.argv[1:] or PAGES:
        _, said = run("\n".join(blocks(page)))
        print(f"{page}:\n{said}", flush=True)


if __name__ == "__main__":
    main()
