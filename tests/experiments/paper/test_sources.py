"""Kept runs are served only while all they import is as it was: the digest follows imports, and nothing else."""

import shutil
import sys
from pathlib import Path

import pytest

import experiments
import safe2real
from experiments.paper.inferred import INFERRED
from experiments.paper.runs import explore_task
from experiments.sources import digest_of_sources, sources_of
from safe2real import methods
from tests.cases import sampled

HERE = Path(safe2real.__file__).parent
UNRELATED = (
    "experiments/paper/table1.py",
    "experiments/paper/printed.py",
    "safe2real/cli/run.py",
    "safe2real/report/page.py",
    "safe2real/campaign/verify.py",
)
EXPLORE, CERTIFIED = "experiments.paper.runs", "experiments.studies.certified_runs"


@pytest.fixture
def copy(tmp_path):
    """The folder of both packages' sources, to be changed."""
    for package in (HERE, Path(experiments.__file__).parent):
        shutil.copytree(package, tmp_path / package.name, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def change(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


@sampled(
    ("module", "file", "old", "new"),
    [
        (EXPLORE, "experiments/paper/inferred.py", "INSTANCE_SEED = 3", "INSTANCE_SEED = 4"),
        (EXPLORE, "safe2real/systems/windy_grid.py", '"""', '"""A word more. '),
        (EXPLORE, "safe2real/version.py", '"""', '"""A word more. '),
        (CERTIFIED, "experiments/studies/certified_runs.py", "NOISE, DELTA = 10.8, 0.1", "NOISE, DELTA = 10.8, 0.2"),
    ],
    keep=(0, -1),
)
def test_what_a_run_imports_invalidates_it(copy, module, file, old, new):
    before = digest_of_sources(module, copy)
    change(copy / file, old, new)
    assert digest_of_sources(module, copy) != before


def test_what_a_run_does_not_import_leaves_it(copy):
    before = digest_of_sources(EXPLORE, copy), digest_of_sources(CERTIFIED, copy)
    for file in UNRELATED:
        change(copy / file, '"""', '"""A word more. ')
    templates = list((copy / "safe2real" / "report" / "templates").iterdir())
    assert templates
    for template in templates:
        template.write_text("another page")
    assert (digest_of_sources(EXPLORE, copy), digest_of_sources(CERTIFIED, copy)) == before


def test_late_imports_count_and_those_for_type_checkers_do_not(tmp_path):
    package = tmp_path / "safe2real"
    (package / "part").mkdir(parents=True)
    for name, text in {
        "__init__.py": "import safe2real.never",
        "never.py": "",
        "part/__init__.py": "from safe2real.part.inner import one",
        "part/inner.py": "one = 1",
        "part/late.py": "def f():\n    from safe2real.part import one",
        "typed.py": "",
        "top.py": "if TYPE_CHECKING:\n    import safe2real.typed\ndef f():\n    from safe2real.part import late",
    }.items():
        (package / name).write_text(text)
    assert list(sources_of("safe2real.top", tmp_path)) == [
        "safe2real.part", "safe2real.part.inner", "safe2real.part.late", "safe2real.top",
    ]  # fmt: skip


def test_nothing_that_a_run_calls_is_forgotten():
    """Watch a run: every function of the package that it calls is in a source that is digested."""
    called = set()
    task = explore_task(seed=0, constants=INFERRED, method=methods.Unconstrained(), rewards=2)
    task.run(task.settings)  # imports and compilation are not part of it
    sys.setprofile(lambda frame, event, _: called.add(frame.f_code.co_filename))
    try:
        task.run(task.settings)
    finally:
        sys.setprofile(None)
    own = {Path(name) for name in called if Path(name).is_relative_to(HERE)}
    assert own
    assert own <= set(sources_of(task.run.__module__).values())
