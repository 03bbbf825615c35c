"""What the documentation shows runs, and its links lead somewhere."""

import inspect
import re
import subprocess
import sys
from functools import reduce
from pathlib import Path

import pytest

import safe2real as s2r
from docs.check import PAGES, broken_links
from safe2real.campaign import Campaign
from safe2real.planning.solve import solve

ROOT = Path(__file__).resolve().parent.parent


def test_links_lead_somewhere():
    assert len(PAGES) > 10
    for page in PAGES:
        assert broken_links(page) == [], page


def test_parameters_that_pages_name_are_there():
    elsewhere = {"Campaign": Campaign, "Trial": s2r.methods.Trial, "solve": solve, "CMDP": s2r.CMDP}
    named = [found for page in PAGES for found in re.findall(r"`([A-Za-z_.]+)\(\.\.\., ([a-z_]+)=", page.read_text())]
    assert len(named) > 20
    for name, parameter in named:
        first, *rest = name.split(".")
        called = reduce(getattr, rest, elsewhere.get(first) or getattr(s2r, first))
        assert parameter in inspect.signature(called).parameters, f"{name}(..., {parameter}=)"


@pytest.mark.slow
def test_documentation_runs():
    done = subprocess.run([sys.executable, str(ROOT / "docs" / "check.py")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_first_certified_plan_is_short_and_as_promised(tmp_path):
    """README's first block: from an environment to a certified plan in at most 25 lines, with the numbers it states."""
    text = (ROOT / "README.md").read_text()
    block = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)[0]
    assert len(block.splitlines()) <= 25
    done = subprocess.run([sys.executable, "-c", block], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Certified: expected steps under water <= 0.7 (limit 0.7)" in done.stdout
    assert "contradicted" not in done.stdout  # of what was promised, by what was seen
    reached, best = re.search(r"probability ([\d.]+); no safe policy does better than ([\d.]+)", done.stdout).groups()
    assert f"It ends with {reached} and {best}, after 981 episodes" in text
