"""Pages of the site that are not files of docs/: the repository's own pages, the gallery, the reference.

A hook of MkDocs. Nothing is written to docs/, so that the code host shows what people wrote and the site shows the rest.
"""

from __future__ import annotations

import inspect
import os
import pkgutil
import re
import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]

OF_THE_ROOT = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "CITATION.cff": "citing.md",
}


def on_config(config: Any) -> Any:
    """MkDocs begins: the tutorials are run in this process, with this library, and their figures go into the page."""
    sys.path[:0] = [str(ROOT), str(ROOT / "src"), str(ROOT / "docs" / "site")]
    os.environ["MPLBACKEND"] = "module://page_figures"
    from safe2real.version import __version__

    config.copyright = f"safe2real {__version__}, MIT licence"
    return config


def on_files(files: Any, *, config: Any) -> Any:
    """MkDocs asks which files there are: those of docs/, and these."""
    from mkdocs.structure.files import File

    for where, text in (generated_pages() | notebooks()).items():
        files.append(File.generated(config, where, content=text))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """MkDocs is about to read a page of docs/: links that leave docs/ lead to the page of that file."""
    below = page.file.src_uri.count("/")
    notebook = notebook_name(page.file.src_uri)
    if notebook in notebooks():
        title, rest = markdown.split("\n", 1)
        markdown = f"{title}\n\n[This page as a notebook]({Path(notebook).name}){{ .md-button }}\n{rest}"
    return moved_links(markdown, "../" * (below + 1), "../" * below)


def notebook_name(page: str) -> str:
    """Where the notebook of a page is, below docs/."""
    return page.removesuffix(".md") + ".ipynb"


@cache
def notebooks() -> dict[str, str]:
    """Return the notebooks of the tutorials, not executed, by where they go below docs/."""
    from docs.site.notebooks import notebook_of

    folder = ROOT / "docs" / "tutorials"
    return {notebook_name(f"tutorials/{page.name}"): notebook_of(page.read_text()) for page in sorted(folder.glob("*.md"))}


def generated_pages() -> dict[str, str]:
    """Markdown by where it goes below docs/."""
    pages = {
        there: moved_links((ROOT / here).read_text(), "") for here, there in OF_THE_ROOT.items() if here.endswith(".md")
    }
    pages["index.md"] = with_version(pages["index.md"])
    pages["citing.md"] = citing()
    pages["case-studies.md"] = gallery()
    pages["reference/index.md"] = names_page()
    return pages | {f"reference/{package}.md": package_page(package) for package in packages()}


def with_version(front: str) -> str:
    """Return the front page with a line above its first block of code: the version, and where changes and citation are."""
    from safe2real.version import __version__

    line = f"Version {__version__} · [what changed](changelog.md) · [how to cite](citing.md) · [contribute](contributing.md)"
    above, block, below = front.partition("```")
    return f"{above}{line}\n\n{block}{below}"


def moved_links(text: str, to_root: str, to_docs: str = "") -> str:
    """Links of a page from which `to_root` leads to the repository's root and `to_docs` to docs/, as the site has them.

    A link to docs/ loses that folder, one to a page of the root leads to its copy, and one to a file that the site does not
    have becomes its text. Others stay, and MkDocs says what is wrong with them.
    """

    def moved(match: re.Match[str]) -> str:
        before, link = match.groups()
        there = link.removeprefix("docs/") if link.startswith("docs/") else OF_THE_ROOT.get(link)
        return match.group(0) if there is None else f"{before}{to_docs}{there}"

    def unlinked(match: re.Match[str]) -> str:
        label, link = match.groups()
        return (
            label
            if not link.startswith(("docs/", "../")) and link not in OF_THE_ROOT and (ROOT / link).exists()
            else match.group(0)
        )

    root = re.escape(to_root)
    text = re.sub(rf"(?<!!)\[([^\]\[]*)\]\({root}([^)\s#:]+)\)", unlinked, text)
    return re.sub(rf'(\]\(|(?:src|srcset|href)="){root}([^)\s#":]+)', moved, text)


def citing() -> str:
    """Return the page that says how to cite the library and the paper, from CITATION.cff."""
    about = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    paper = about["references"][0]
    names = " and ".join(f"{one['family-names']}, {one['given-names']}" for one in paper["authors"])
    return f"""# Cite safe2real

{about["message"]}

```bibtex
@software{{safe2real,
  title   = {{{about["title"]}}},
  author  = {{{{{about["authors"][0]["name"]}}}}},
  version = {{{about["version"]}}},
  license = {{{about["license"]}}}
}}

@unpublished{{provably-safe-sim-to-real,
  title  = {{{paper["title"]}}},
  author = {{{names}}},
  note   = {{{paper["notes"]}}}
}}
```
"""


def gallery() -> str:
    """Every case study: its picture, its title, how it begins."""
    cards = []
    for page in sorted((ROOT / "docs").glob("case-*.md")):
        title, picture, text = opening(page)
        cards.append(f"-   [![{title}]({picture})]({page.name})\n\n    **[{title}]({page.name})**\n\n    {text}")
    said = "Simulator and reality are both known in these, so that every deployed policy was evaluated exactly."
    head = f"---\nhide: [toc]\n---\n\n# Case studies\n\n{said}\n"
    return head + '\n<div class="grid cards gallery" markdown>\n\n' + "\n\n".join(cards) + "\n\n</div>\n"


def opening(page: Path) -> tuple[str, str, str]:
    """Title, first picture and first paragraph of a case study, with the second where that is short.

    Raises:
        ValueError: when the page lacks one of them; a case study needs a title, a picture and a sentence.
    """
    text = page.read_text()
    title, picture = re.search(r"^# (.+)$", text, re.MULTILINE), re.search(r"!\[[^\]]*\]\(([^)]+)\)", text)
    prose = re.sub(r"^(#.*|!\[.*|\|.*)$", "", re.sub(r"```.*?```", "", text, flags=re.DOTALL), flags=re.MULTILINE)
    paragraphs = [" ".join(part.split()) for part in prose.split("\n\n") if part.strip()]
    if title is None or picture is None or not paragraphs:
        raise ValueError(
            f"docs/{page.name} needs a title (# ...), a picture and a first paragraph for the gallery of case studies"
        )
    short = len(paragraphs[0]) < 150
    return title.group(1), picture.group(1), " ".join(paragraphs[: 2 if short else 1])


def packages() -> tuple[str, ...]:
    """The public packages and modules, by name."""
    import safe2real

    return tuple(safe2real._PACKAGES)


_FOUND_LAST = "---\nsearch:\n  boost: 0.3\n---\n\n"  # who searches for a word wants to read about it first


@cache
def public_names() -> dict[str, list[str]]:
    """Of every public package, its public names, dotted, as the reference shows them.

    A package offers its `__all__`; one without it, and a plain module, offer the classes and functions that they define.
    """
    return {package: _offered(import_module(f"safe2real.{package}")) for package in packages()}


def _offered(module: ModuleType) -> list[str]:
    within = {part.name for part in pkgutil.iter_modules(getattr(module, "__path__", ()))}
    if hasattr(module, "__all__"):  # a function named as its own module is shown from there
        homes = {name: getattr(module, name).__module__ if name in within else module.__name__ for name in module.__all__}
        return [f"{home}.{name}" for name, home in homes.items()]
    parts = [import_module(f"{module.__name__}.{name}") for name in sorted(within)] or [module]
    return [
        f"{part.__name__}.{name}"
        for part in parts
        for name, thing in vars(part).items()
        if not name.startswith("_")
        and (inspect.isclass(thing) or inspect.isroutine(thing))
        and thing.__module__ == part.__name__
    ]


def package_page(package: str) -> str:
    """The reference of one package: what it is for, then every name of it."""
    module = import_module(f"safe2real.{package}")
    names = "\n\n".join(entry(name) for name in _offered(module))
    return f"{_FOUND_LAST}# safe2real.{package}\n\n{inspect.getdoc(module)}\n\n{names}\n"


def entry(name: str) -> str:
    """What mkdocstrings is told about one name: members of a base that has no entry of its own are shown with the class."""
    home, _, short = name.rpartition(".")
    thing = getattr(import_module(home), short)
    public = {name.rpartition(".")[2] for names in public_names().values() for name in names}
    bases = thing.__mro__[1:] if inspect.isclass(thing) else ()
    hidden = any(base.__module__.startswith("safe2real.") and base.__name__ not in public for base in bases)
    return f"::: {name}" + ("\n    options:\n      inherited_members: true" if hidden else "")


def names_page() -> str:
    """What `import safe2real as s2r` offers, each with its first sentence; then the packages."""
    import safe2real

    homes = {name.rpartition(".")[2]: name for names in public_names().values() for name in names}
    rows, shown = [], []
    for name in sorted(safe2real.__all__, key=str.lower):
        if name == "__version__" or name in packages():
            continue
        thing = getattr(safe2real, name)
        home = homes.get(name)
        if home is None:  # not offered by its package, so it is shown here
            home = f"{thing.__module__}.{name}"
            shown.append(f"::: {home}")
        rows.append(f"| [`s2r.{name}`][{home}] | {first_sentence(thing)} |")
    for package in packages():
        module = import_module(f"safe2real.{package}")
        rows.append(f"| [`s2r.{package}`]({package}.md) | {first_sentence(module)} |")
    table = "| name | what it is |\n| --- | --- |\n" + "\n".join(rows)
    return (
        "# Names\n\nWhat most programs need is in `import safe2real as s2r`; the rest is in its packages, listed last. "
        f"`s2r.__version__` is the version.\n\n{table}\n\n" + "\n\n".join(shown) + "\n"
    )


def first_sentence(thing: object) -> str:
    """The first line of a docstring, fit for a table."""
    paragraph = " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split())
    return paragraph.replace("|", "\\|")
