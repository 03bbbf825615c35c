"""What is not installed is named with its cure, and the core works without all of it."""

import json
import subprocess
import sys

HIDDEN = ("sqlalchemy", "typer", "rich", "matplotlib", "jinja2", "distributed", "ray", "pandas")
CORE = "import safe2real, safe2real.exploration, safe2real.systems, safe2real.preflight"


def without(hidden, code):
    """Run code where some packages are not installed, as far as it can tell."""
    hide = f"import sys; sys.modules.update(dict.fromkeys({hidden!r}))"
    return subprocess.run([sys.executable, "-c", f"{hide}\n{code}"], capture_output=True, text=True, check=False)


MISSING = [
    (
        "sqlalchemy",
        "from safe2real import Campaign; Campaign.open('campaign.db')",
        "campaigns in a database need the package sqlalchemy,{}[campaign]'",
    ),
    ("fastapi", "import safe2real.service.storage", "services need the package fastapi,{}[service]'"),
    ("typer", "from safe2real.cli import app", "commands need the package typer,{}[campaign]'"),
    ("matplotlib", "import safe2real.report.campaign_report", "figures need the package matplotlib,{}[report]'"),
    ("matplotlib", "import safe2real.plots.policy", "figures need the package matplotlib,{}[report]'"),
    ("matplotlib", "import safe2real.report.preflight_report", "figures need the package matplotlib,{}[report]'"),
    ("jinja2", "from safe2real.report.page import render; render('')", "pages need the package jinja2,{}[report]'"),
    ("pandas", "from safe2real.tables import to_pandas; to_pandas([])", "data frames need the package pandas,{}[tables]'"),
    (
        "distributed",
        "from safe2real.parallel import workers; workers('dask').__enter__()",
        "Dask clusters need the package distributed,{}[dask]'",
    ),
    (
        "ray",
        "from safe2real.parallel import workers; workers('ray').__enter__()",
        "Ray clusters need the package ray,{}[ray]'",
    ),
]

# Each in a fork of a process that has imported the core: what one of them imports, the next has not.
FORKS = """
import json, os, sys
import safe2real.systems, safe2real.preflight
for package, code, _ in json.load(sys.stdin):
    sys.stdout.flush()
    if os.fork() == 0:
        sys.modules[package] = None
        try:
            exec(code)
            said = "nothing was missed"
        except Exception as error:
            said = f"{type(error).__module__}.{type(error).__qualname__}: {error}"
        print(said, flush=True)
        os._exit(0)
    os.wait()
"""


def test_a_missing_extra_is_named_with_its_cure():
    given = json.dumps(MISSING)
    done = subprocess.run([sys.executable, "-c", FORKS], input=given, capture_output=True, text=True, check=True)
    cure = " which is not installed; get it with: pip install 'safe2real"
    assert done.stdout.splitlines() == [f"safe2real.errors.MissingExtra: {message.format(cure)}" for *_, message in MISSING]


def test_the_core_needs_none_of_the_extras():
    done = without(HIDDEN, CORE)
    assert done.returncode == 0, done.stderr


def test_a_mistake_of_this_package_is_no_missing_extra():
    done = without([], "from safe2real.errors import needed_for\nwith needed_for('x', 'y'):\n    import safe2real.nowhere")
    assert done.stderr.splitlines()[-1] == "ModuleNotFoundError: No module named 'safe2real.nowhere'"
