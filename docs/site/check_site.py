"""The built site: every link leads to a file and its anchor, nothing is loaded from elsewhere, every public name is there.

    python docs/site/check_site.py out/site

MkDocs looks at links between pages; this looks at what browsers get: HTML in pages, pictures, scripts, the reference.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

# What a browser fetches by itself.
_LOADS = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "srcset"}


class Page(HTMLParser):
    """Anchors, links, and what is loaded, of one page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value for name, value in attrs if value}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag in _LOADS and _LOADS[tag] in given and given.get("rel") != "canonical":
            self.loads.append(given[_LOADS[tag]])


def problems_of(site: Path, public: dict[str, list[str]]) -> list[str]:
    """Everything that is wrong with a site, in words; `public` has the dotted names that each package's page must show."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    problems = [
        f"{path.relative_to(site)}: {problem}"
        for path, page in pages.items()
        if path.name != "404.html"  # which is served from any place, so that its links begin at the root
        for problem in _problems_of(path, page, pages)
    ]
    for package, names in public.items():
        shown = pages.get(site / "reference" / f"{package}.html")
        missing = names if shown is None else [name for name in names if name not in shown.anchors]
        problems += [f"reference/{package}.html: {name} is public and not there" for name in missing]
    return problems


def _problems_of(path: Path, page: Page, pages: dict[Path, Page]) -> list[str]:
    problems = [f"loads {url} from elsewhere" for url in page.loads if url.startswith(("http:", "https:", "//"))]
    for link in [*page.links, *page.loads]:
        if link.startswith(("http:", "https:", "//", "mailto:", "data:", "javascript:")):
            continue
        name, anchor = urldefrag(unquote(link))
        target = (path.parent / name).resolve() if name else path
        target = target / "index.html" if target.is_dir() else target
        if not target.exists():
            problems.append(f"{link} leads nowhere")
        elif anchor and target in pages and anchor not in pages[target].anchors:
            problems.append(f"{link}: the page has no such anchor")
    return problems


def main() -> int:
    here, site = Path(__file__).resolve().parent, Path(sys.argv[1]).resolve()
    sys.path[:0] = [str(here.parents[1] / "src"), str(here)]
    from pages import public_names

    problems = problems_of(site, public_names())
    print("\n".join([*problems, f"{len(list(site.rglob('*.html')))} pages of the site checked, {len(problems)} problems"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
