"""The documentation's site: every page has its place, every public name its entry, and nothing is loaded from elsewhere.

Nothing is built here but by the slow test; `make docs` builds.
"""

import json
import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import yaml

import safe2real
from docs.check import PAGES, WRITTEN, broken_links, headings
from docs.site.check_site import problems_of
from docs.site.notebooks import notebook_of
from docs.site.pages import OF_THE_ROOT, gallery, generated_pages, moved_links, notebooks, opening

ROOT = Path(__file__).resolve().parent.parent
SETTINGS = yaml.safe_load((ROOT / "mkdocs.yml").read_text())


@pytest.fixture(scope="module")
def generated():
    return generated_pages()


def in_navigation(entries):
    for entry in entries:
        for where in entry.values() if isinstance(entry, dict) else [entry]:
            yield from in_navigation(where) if isinstance(where, list) else [where]


def test_every_page_has_one_line_in_the_navigation(generated):
    listed = list(in_navigation(SETTINGS["nav"]))
    assert len(listed) == len(set(listed))
    written = {page.relative_to(ROOT / "docs").as_posix() for page in WRITTEN}
    assert sorted(written | set(generated)) == sorted(listed), "add the page to `nav` in mkdocs.yml: one line"


def test_every_public_name_has_an_entry_in_the_reference(generated):
    for name in set(safe2real.__all__) - {"__version__"}:
        assert f"| [`s2r.{name}`]" in generated["reference/index.md"], name
    for package in safe2real._PACKAGES:
        module, page = import_module(f"safe2real.{package}"), generated[f"reference/{package}.md"].splitlines()
        shown = [line.rpartition(".")[2] for line in page if line.startswith("::: ")]
        assert shown, package
        assert set(getattr(module, "__all__", ())) <= set(shown), package
    assert "::: safe2real.planning.solve.solve" in generated["reference/planning.md"]  # not the module of that name


def test_the_front_page_has_version_changes_and_citation(generated):
    first = generated["index.md"].partition("```")[0]
    assert f"Version {safe2real.__version__} · [what changed](changelog.md) · [how to cite](citing.md)" in first


def test_every_name_of_the_reference_can_be_imported(generated):
    shown = {name for page in generated.values() for name in re.findall(r"^::: (\S+)$", page, re.MULTILINE)}
    assert len(shown) > 150
    for name in shown:
        home, _, short = name.rpartition(".")
        assert hasattr(import_module(home), short), name


def test_names_in_prose_are_there():
    said = re.compile(r"`(?:s2r|safe2real)((?:\.\w+)+)(?=[(`])")
    for page in PAGES:
        if page.name == "CHANGELOG.md":  # which names what was removed
            continue
        for dotted in said.findall(page.read_text()):
            thing = safe2real
            for part in dotted[1:].split("."):
                inner = getattr(thing, part, None)
                thing = import_module(f"{thing.__name__}.{part}") if inner is None else inner


def test_a_class_is_shown_with_what_it_has_from_bases_that_are_not(generated):
    shown = "\n".join(text for name, text in generated.items() if name.startswith("reference/"))
    assert "\n    options:\n      inherited_members: true" in shown
    assert "::: safe2real.radii.KL\n\n" in generated["reference/radii.md"]


def test_every_case_study_is_in_the_gallery(tmp_path):
    shown = gallery()
    for page in (ROOT / "docs").glob("case-*.md"):
        title, picture, text = opening(page)
        assert f"[![{title}]({picture})]({page.name})" in shown
        assert len(text) > 40
    bare = tmp_path / "case-bare.md"
    bare.write_text("# A case\n\nWithout a picture.\n")
    with pytest.raises(ValueError, match=r"docs/case-bare\.md needs a title"):
        opening(bare)


def test_links_from_the_root_lead_to_the_pages_of_the_site(generated):
    assert moved_links("[a](docs/b.md#c), ![d](docs/img/e.png)", "") == "[a](b.md#c), ![d](img/e.png)"
    assert moved_links("[![a](docs/img/b.png)](docs/c.md)", "") == "[![a](img/b.png)](c.md)"
    assert moved_links('<img src="docs/img/a.gif">', "") == '<img src="img/a.gif">'
    assert moved_links("[a](CONTRIBUTING.md)", "") == "[a](contributing.md)"
    assert moved_links("see [the licence](LICENSE), [it](nowhere.md)", "") == "see the licence, [it](nowhere.md)"
    assert moved_links("[a](../README.md), [b](radii.md)", "../") == "[a](index.md), [b](radii.md)"
    assert moved_links("[a](../../README.md), [b](../radii.md)", "../../", "../") == "[a](../index.md), [b](../radii.md)"
    assert "](docs/" not in "".join(generated[page] for page in OF_THE_ROOT.values())


def test_a_link_to_a_heading_that_is_not_there_is_broken(tmp_path):
    page = tmp_path / "page.md"
    links = "[a](#a-title-and-more) [b](page.md#no-heading) [c](gone.md)"
    page.write_text(f"# A `title`, and more\n\n```\n# no heading\n```\n\n{links}\n")
    assert headings(page) == {"a-title-and-more"}
    assert broken_links(page) == ["page.md#no-heading", "gone.md"]


def test_the_built_site_is_refused_for_what_is_missing_or_elsewhere(tmp_path):
    (tmp_path / "reference").mkdir()
    (tmp_path / "reference" / "radii.html").write_text('<h2 id="safe2real.radii.KL">KL</h2>')
    (tmp_path / "index.html").write_text(
        '<a href="reference/radii.html#safe2real.radii.KL">KL</a> <a href="#gone">x</a> <a href="no.html">y</a>'
        '<a href="https://example.org">links may leave</a> <script src="https://example.org/x.js"></script>'
    )
    assert problems_of(tmp_path, {"radii": ["safe2real.radii.KL", "safe2real.radii.Union"]}) == [
        "index.html: loads https://example.org/x.js from elsewhere",
        "index.html: #gone: the page has no such anchor",
        "index.html: no.html leads nowhere",
        "reference/radii.html: safe2real.radii.Union is public and not there",
    ]


def test_warnings_are_errors_and_fonts_are_at_home():
    assert set(SETTINGS["validation"]["links"].values()) | set(SETTINGS["validation"]["nav"].values()) == {"warn"}
    assert SETTINGS["theme"]["font"] is False
    assert all((ROOT / "docs" / script).exists() for script in SETTINGS["extra"]["polyfills"])


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(tmp_path):
    pytest.importorskip("mkdocs")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(build, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    check = [sys.executable, str(ROOT / "docs" / "site" / "check_site.py"), str(tmp_path)]
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_a_tutorial_is_a_notebook_too():
    page = (
        'Read [that](other.md#there) or [this](https://example.org).\n\n```python exec="1" session="a"\nx = 1\n```\n\nEnd.\n'
    )
    cells = json.loads(notebook_of(page))["cells"]
    assert [cell["cell_type"] for cell in cells] == ["markdown", "code", "markdown"]
    assert "".join(cells[0]["source"]) == "Read that or [this](https://example.org)."
    assert "".join(cells[1]["source"]) == "x = 1"
    for where, text in notebooks().items():
        code = ["".join(cell["source"]) for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
        blocks = (ROOT / "docs" / where).with_suffix(".md").read_text().count("```python exec")
        assert len(code) == blocks > 3
        compile("\n".join(code), where, "exec")
