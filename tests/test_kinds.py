"""A script for each kind of user: short, whole, and worth what its page says; each ends with a policy that acts."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processor import unlike

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "which-are-you.md").read_text()
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, flags=re.DOTALL | re.MULTILINE))
KINDS = [
    pytest.param("An exact table"),
    pytest.param("A sampled simulator", marks=pytest.mark.slow),
    pytest.param("Logs of the real system", marks=pytest.mark.slow),
    pytest.param("Physics with unknown noise", marks=pytest.mark.slow),
    pytest.param("A continuous system", marks=pytest.mark.slow),
]


@pytest.mark.parametrize("kind", KINDS)
def test_a_script_ends_with_a_policy_that_acts_and_a_figure(kind, tmp_path):
    (script,) = re.findall(r"```python\n(.*?)```", SECTIONS[kind], flags=re.DOTALL)
    assert len(script.splitlines()) <= 30
    assert max(map(len, script.splitlines())) <= 125
    environment = os.environ | {"MPLBACKEND": "Agg"}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (stated,) = re.findall(r"It ends with `(.+?)`", SECTIONS[kind])
    assert unlike(done.stdout.splitlines()[0], stated) == []  # the page is regenerated, not remembered
    assert "500 episodes of this environment" in done.stdout
    assert "contradicted" not in done.stdout
    (figure,) = tmp_path.iterdir()
    assert figure.read_bytes().startswith(b"\x89PNG")


def test_every_kind_is_in_the_table():
    table = re.findall(r"\]\(#([a-z-]+)\) \|$", PAGE, flags=re.MULTILINE)
    assert table == [kind.values[0].lower().replace(" ", "-") for kind in KINDS]
