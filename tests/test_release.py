"""The version is the same wherever it is written down."""

import re
from pathlib import Path

from safe2real.version import __version__

ROOT = Path(__file__).resolve().parent.parent


def test_the_changelog_and_the_citation_are_of_this_version():
    assert re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)[1] == __version__
    assert re.search(r"^version: (\S+)", (ROOT / "CITATION.cff").read_text(), flags=re.MULTILINE)[1] == __version__
