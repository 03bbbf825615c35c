"""Every relative link in the documentation leads somewhere, also to its heading, and every Python block runs.

Numbers that pages quote are those of docs/measured (docs/measure.py).

Tutorials are run when the site is built; the site itself is looked at by docs/site/check_site.py.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from docs.measure import stale_numbers  # noqa: E402

WRITTEN = sorted((ROOT / "docs").rglob("*.md"))
PAGES = [*(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")), *WRITTEN]
_CODE = re.compile(r"```.*?```", re.DOTALL)


def broken_links(page: Path) -> list[str]:
    """Links of a page to files that are not there, or to headings that their pages do not have."""
    broken = []
    for link, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)", _CODE.sub("", page.read_text())):
        target = page.parent / link if link else page
        if "://" in link or link.startswith("mailto:"):
            continue
        if not target.exists():
            broken.append(link)
        elif anchor and target.suffix == ".md" and anchor not in headings(target):
            broken.append(f"{link}#{anchor}")
    return broken


def headings(page: Path) -> set[str]:
    """The anchors of a page, as the site and the code host make them from its headings."""
    titles = re.findall(r"^#+ (.+)$", _CODE.sub("", page.read_text()), flags=re.MULTILINE)
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower()) for title in titles}


def failing_blocks(page: Path) -> list[str]:
    """Blocks of one page run one after the other in one process, as a reader would type them."""
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)
    if not blocks or page.name == "CONTRIBUTING.md":  # whose blocks are outlines
        return []
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", "\n".join(blocks)], cwd=folder, capture_output=True, text=True, check=False
        )
    return [] if done.returncode == 0 else [done.stderr.strip().splitlines()[-1]]


def main() -> int:
    problems = 0
    for page in PAGES:
        links = [f"broken link: {link}" for link in broken_links(page)]
        for problem in links + stale_numbers(page) + failing_blocks(page):
            print(f"{page.relative_to(ROOT)}: {problem}")
            problems += 1
    print(f"{len(PAGES)} pages checked, {problems} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
