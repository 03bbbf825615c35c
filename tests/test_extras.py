"""What is not installed is named with its cure, and the core works without all of it."""

import subprocess
import sys

from tests.cases import each

HIDDEN = ("sqlalchemy", "typer", "rich", "matplotlib", "jinja2", "joblib")
CORE = "import safe2real, safe2real.exploration, safe2real.theory.bounds, safe2real.systems, safe2real.preflight"


def without(hidden, code):
    """Run code where some packages are not installed, as far as it can tell."""
    hide = f"import sys; sys.modules.update(dict.fromkeys({hidden!r}))"
    return subprocess.run([sys.executable, "-c", f"{hide}\n{code}"], capture_output=True, text=True, check=False)


@each(
    ("package", "code", "message"),
    [
        (
            "sqlalchemy",
            "from safe2real import Campaign; Campaign.open('campaign.db')",
            "campaigns in a database need the package sqlalchemy,{}[campaign]'",
        ),
        ("typer", "import safe2real.cli", "commands need the package typer,{}[campaign]'"),
        ("matplotlib", "import safe2real.report.campaign", "figures need the package matplotlib,{}[report]'"),
        ("matplotlib", "import safe2real.report.preflight_figures", "figures need the package matplotlib,{}[report]'"),
        ("jinja2", "from safe2real.report.page import render; render('')", "pages need the package jinja2,{}[report]'"),
        ("joblib", "import safe2real.paper.engine", "runs of the paper need the package joblib,{}[paper]'"),
        (
            "matplotlib",
            "from safe2real.systems import WindyGridEnv; e = WindyGridEnv(render_mode='rgb_array'); e.reset(); e.render()",
            "pictures need the package matplotlib,{}[report]'",
        ),
    ],
)
def test_a_missing_extra_is_named_with_its_cure(package, code, message):
    done = without([package], code)
    assert done.returncode == 1
    cure = " which is not installed; get it with: pip install 'safe2real"
    assert done.stderr.splitlines()[-1] == f"safe2real.errors.MissingExtra: {message.format(cure)}"


def test_the_core_needs_none_of_the_extras():
    done = without(HIDDEN, CORE)
    assert done.returncode == 0, done.stderr


def test_a_mistake_of_this_package_is_no_missing_extra():
    done = without([], "from safe2real.errors import needed_for\nwith needed_for('x', 'y'):\n    import safe2real.nowhere")
    assert done.stderr.splitlines()[-1] == "ModuleNotFoundError: No module named 'safe2real.nowhere'"
