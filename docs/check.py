"""`make docs`: every relative link in the documentation leads somewhere, and every Python block runs."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def broken_links(page: Path) -> list[str]:
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text())
    return [link for link in links if "://" not in link and not (page.parent / link).exists()]


def failing_blocks(page: Path) -> list[str]:
    """Blocks of one page run one after the other in one process, as a reader would type them."""
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)
    if not blocks:
        return []
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", "\n".join(blocks)], cwd=folder, capture_output=True, text=True, check=False
        )
    return [] if done.returncode == 0 else [done.stderr.strip().splitlines()[-1]]


def main() -> int:
    problems = 0
    for page in PAGES:
        for problem in [f"broken link: {link}" for link in broken_links(page)] + failing_blocks(page):
            print(f"{page.relative_to(ROOT)}: {problem}")
            problems += 1
    print(f"{len(PAGES)} pages checked, {problems} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
