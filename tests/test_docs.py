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
from docs.measure import KEPT, MEASUREMENTS, _agrees, kept, numbers_of, output_of, stale_numbers, without_times
from docs.page_code import blocks, replaced
from safe2real.campaign import Campaign
from safe2real.planning.solve import solve
from tests.processor import unlike

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


def test_readme_s_example_is_short_and_prints_what_readme_says(tmp_path):
    text = (ROOT / "README.md").read_text()
    block = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)[0]
    assert len(block.splitlines()) <= 12
    assert len(text.splitlines()) <= 90
    done = subprocess.run([sys.executable, "-c", block], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    first, *rest = done.stdout.splitlines()
    (stated,) = re.findall(r"It prints `(.+?)`", text)
    assert unlike(first, stated) == []
    assert set(numbers_of(stated)) <= set(numbers_of(kept("first-plan")))
    assert "Certified: expected steps under water <= 0.7 (limit 0.7)" in rest[0]
    assert "contradicted" not in done.stdout  # what was observed of what was certified


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_quoted_numbers_are_those_that_were_measured(page):
    assert stale_numbers(page) == []


def test_a_number_that_was_not_measured_is_found(tmp_path):
    assert len(numbers_of(kept("first-plan"))) > 10
    page = tmp_path / "page.md"
    marked = "<!-- numbers of: first-plan; given: 77.7 -->\nafter {} episodes, 77.7, `0.123`\n<!-- end of numbers -->\n0.456"
    (measured,) = re.findall(r"of ([\d,]+) deployed policies", kept("first-plan"))
    page.write_text(marked.format(measured))
    assert stale_numbers(page) == []
    page.write_text(marked.format(int(measured) + 1))
    (said,) = stale_numbers(page)
    assert said.startswith(f"{int(measured) + 1} is no number of docs/measured/first-plan")
    page.write_text(marked.format(measured).replace("first-plan", "never-run"))
    assert "python docs/measure.py never-run" in stale_numbers(page)[0]
    page.write_text(marked.format(measured).replace("end of numbers", "end"))
    assert "is not closed" in stale_numbers(page)[0]


def test_a_line_that_was_not_printed_is_found(tmp_path):
    page, mark = tmp_path / "page.md", "<!-- numbers of: kinds -->\nIt ends with `{}`.\n<!-- end of numbers -->"
    page.write_text(mark.format(kept("kinds").splitlines()[1]))
    assert stale_numbers(page) == []
    page.write_text(mark.format("0 episodes: output at least 99"))
    assert stale_numbers(page)[0].startswith("no output of docs/measured/kinds has the line")


def test_a_variant_of_a_page_s_script_names_what_it_replaces():
    (code,) = blocks("which-are-you.md", "Let it act")
    assert "range(3)" in replaced(code, {"range(12)": "range(3)"})
    with pytest.raises(ValueError, match="no 'nowhere' any more"):
        replaced(code, {"nowhere": ""})
    with pytest.raises(ValueError, match="no heading 'Nothing'"):
        blocks("which-are-you.md", "Nothing")


@pytest.mark.parametrize(
    ("shown", "value", "agrees"),
    [("0.85", 0.8462, True), ("0.85", 0.8449, False), ("4.1e8", 413_000_000.0, True), ("4.1e8", 4.2e8, False)],
)
def test_a_number_is_compared_in_the_digits_that_are_shown(shown, value, agrees):
    assert _agrees(shown, [value]) is agrees


def test_what_a_run_prints_is_compared_in_its_words_and_to_a_tenth_in_its_numbers():
    stated = "288 episodes: at least 0.851 of 1,200, violated in 9 of 20"
    assert unlike("296 episodes: at least 0.848 of 1,250, violated in 8 of 20", stated) == []
    assert unlike("288 episodes: at most 0.851 of 1,200, violated in 9 of 20", stated) != []
    assert unlike("288 episodes: at least 0.751 of 1,200, violated in 9 of 20", stated) == [("0.751", "0.851")]
    assert unlike("330 episodes: at least 0.851 of 1,200, violated in 4 of 20", stated) == [("330", "288"), ("4", "9")]
    assert unlike("288 episodes: at least 0.851 of 1,200", stated) != []


def test_every_measurement_is_kept_with_its_command_and_commit():
    assert {path.stem for path in KEPT.iterdir()} == set(MEASUREMENTS)
    for name, one in MEASUREMENTS.items():
        first, second = (KEPT / f"{name}.txt").read_text().splitlines()[:2]
        assert first == f"# python {one.command}"
        assert re.match(r"# commit [0-9a-f]{7,}, \d+ s$", second)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, one in MEASUREMENTS.items() if one.quick])
def test_what_was_measured_is_measured_again(name, tmp_path):
    assert unlike(without_times(output_of(name, tmp_path)), without_times(kept(name)), within=0.25) == []


def test_readme_says_how_far_table_1_is_off():
    ratios = [float(one) for one in re.findall(r"samples\s.*?│ (\d\.\d{3}) │", kept("table1"))]
    assert len(ratios) == 3
    assert f"samples within {100 * max(abs(1 - one) for one in ratios):.1f} % of Table 1" in (ROOT / "README.md").read_text()
