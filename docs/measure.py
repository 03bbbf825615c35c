"""Measurements that pages quote: each command's output is kept in docs/measured, and pages must agree with it.

    python docs/measure.py                     # list the measurements
    python docs/measure.py inventory warehouse # run these, write docs/measured/*.txt and the pictures in docs/img
    python docs/measure.py --check             # compare the pages with docs/measured; runs nothing

A page marks what it quotes:

    <!-- numbers of: inventory; given: 0.05 -->
    ... text and tables ...
    <!-- end of numbers -->

Between the marks every decimal number of two or more significant digits, and every whole number of three or more, must be a
number of the named outputs, rounded to the decimals that the page shows. Exempt are code, links, and the numbers after
`given`: inputs, and what was measured elsewhere. Code after the words "ends with" must be a line of the outputs.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KEPT, PICTURES = ROOT / "docs" / "measured", ROOT / "docs" / "img"
GRID = "examples/specs/windy_grid.toml"
_NAMES = ("system", "matrix", "learner", "plan", "table", "rewards", "trial")
LOOKING = tuple((f"looking-{name}.png",) * 2 for name in _NAMES)  # pictures of docs/looking.md


@dataclass(frozen=True)
class Measurement:
    """A command, run in the root with this Python; OUT is a folder of its own."""

    command: str
    pictures: tuple[tuple[str, str], ...] = ()  # (file below OUT, name below docs/img)
    quick: bool = False  # at most half a minute of one core: `make slow` runs it again


MEASUREMENTS = {
    "first-plan": Measurement("examples/first_plan.py OUT/first-plan.png", (("first-plan.png",) * 2,), quick=True),
    "inventory": Measurement("examples/inventory.py --out OUT", (("inventory.png",) * 2,), quick=True),
    "inventory-more": Measurement("docs/inventory_numbers.py"),
    "check": Measurement(f"-m safe2real.cli check {GRID} --out OUT", (("preflight.png",) * 2,), quick=True),
    "check-3000": Measurement(f"-m safe2real.cli check {GRID} --max-rounds 3000", quick=True),
    "run": Measurement(f"-m safe2real.cli run {GRID} --out OUT", (("safety.png", "rehearsal-safety.png"),), quick=True),
    "table1": Measurement("-m experiments table1 --jobs 1 --out OUT", quick=True),
    "trial": Measurement("-m trial --deployments 1e9 --jobs 16"),  # 6 minutes on 16 cores
    "pendulum": Measurement("examples/pendulum.py", quick=True),
    "policy-trial": Measurement("examples/policy_trial.py --out OUT", (("policy_trial.png",) * 2,), quick=True),
    "frozen-lake": Measurement("examples/frozen_lake.py --out OUT", (("frozen-lake.png",) * 2,)),
    "warehouse": Measurement(
        "examples/warehouse.py --out OUT", (("warehouse-floor.png",) * 2, ("warehouse-rewards.png",) * 2)
    ),
    "icu-sepsis-trial": Measurement("examples/icu_sepsis_trial.py --seeds 10"),
    "icu-sepsis": Measurement(
        "examples/icu_sepsis.py --out OUT", (("icu-sepsis-safety.png",) * 2, ("icu-sepsis-mismatch.png",) * 2)
    ),
    "mountain-car": Measurement("examples/mountain_car.py --out OUT", (("mountain-car.png",) * 2,)),
    "episodes": Measurement("docs/episode_numbers.py"),
    "end": Measurement("docs/end_numbers.py", quick=True),
    "declared": Measurement("docs/declared_numbers.py"),
    "kinds": Measurement("docs/kinds_numbers.py OUT", (("kinds-machine.png",) * 2, ("kinds-pond.png",) * 2)),
    "tutorials": Measurement("docs/tutorial_numbers.py"),
    "looking": Measurement("docs/draw_looking.py OUT", LOOKING, quick=True),
}

_NUMBER = r"\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?"
_IN_OUTPUT = re.compile(_NUMBER)
_IN_PAGE = re.compile(rf"(?<![\w.,/]){_NUMBER}(?![\w/])")
_REGION = re.compile(r"<!-- numbers of: ([^;>]+?)(?:; given: ([^>]*?))? -->(.*?)<!-- end of numbers -->", re.DOTALL)
_CODE_AND_LINKS = re.compile(r"```.*?```|`[^`]*`|\]\([^)]*\)", re.DOTALL)
_BLOCKS = re.compile(r"```.*?```|`<!--[^`]*-->`", re.DOTALL)
_LINE = re.compile(r"ends with `([^`]+)`")
_OF_THE_CLOCK = re.compile(
    rf"{_NUMBER}\s+(?:ms|s|h)\b|{_NUMBER}\s+times\s+as\s+long|median\s+of\s+\d+\s+measured|/tmp/\S+|\d+:\d\d:\d\d"
)


def output_of(name: str, out: Path) -> str:
    """Run one measurement and return what it prints.

    Raises:
        SystemExit: the command fails; its standard error is shown.
    """
    command = [sys.executable, *(part.replace("OUT", str(out)) for part in shlex.split(MEASUREMENTS[name].command))]
    environment = os.environ | {"COLUMNS": "110", "MPLBACKEND": "Agg", "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{name}: {shlex.join(command)} ended with {done.returncode}:\n{done.stderr}")
    lines = [line.rstrip().replace(str(out), "OUT") for line in done.stdout.splitlines()]
    return "\n".join(line for line in lines if "━━ " not in line).strip() + "\n"  # without progress bars


def measure(name: str) -> None:
    """Run one measurement; keep its output, with its command and the commit, and its pictures."""
    changed = subprocess.run(
        ["git", "status", "--porcelain", "src", "examples"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    if changed:
        raise SystemExit(f"commit first, so that the output can name the commit it was measured at:\n{changed}")
    commit = subprocess.run(
        ["git", "rev-parse", "--short=10", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        output = output_of(name, Path(folder))
        seconds = time.perf_counter() - began
        for there, here in MEASUREMENTS[name].pictures:
            (PICTURES / here).write_bytes((Path(folder) / there).read_bytes())
    head = f"# python {MEASUREMENTS[name].command}\n# commit {commit}, {seconds:.0f} s\n"
    (KEPT / f"{name}.txt").write_text(head + output)


def kept(name: str) -> str:
    """Return the kept output of a measurement, without its two head lines."""
    return "".join((KEPT / f"{name}.txt").read_text().splitlines(keepends=True)[2:])


def without_times(output: str) -> str:
    """Return an output without what the clock or the machine decides."""
    return _OF_THE_CLOCK.sub("TIME", output)


def numbers_of(output: str) -> list[float]:
    """Return all numbers of an output."""
    return [float(text.replace(",", "")) for text in _IN_OUTPUT.findall(output)]


def stale_numbers(page: Path) -> list[str]:
    """Return a sentence for every quoted number of a page that the outputs it names do not have."""
    text, problems = _BLOCKS.sub(" ", page.read_text()), []
    if text.count("<!-- numbers of:") != len(_REGION.findall(text)):
        problems.append("a mark `numbers of` is not closed by `<!-- end of numbers -->`, or has another form")
    for names, given, quoted in _REGION.findall(text):
        sources = [name.strip() for name in names.split(",")]
        missing = [name for name in sources if not (KEPT / f"{name}.txt").exists()]
        if missing:
            problems.append(f"docs/measured has no {', '.join(missing)}: run python docs/measure.py {' '.join(missing)}")
            continue
        found, exempt = [number for name in sources for number in numbers_of(kept(name))], set(given.split())
        outputs = [kept(name).splitlines() for name in sources]
        for line in _LINE.findall(quoted):
            if not any(line in lines for lines in outputs):
                problems.append(f"no output of docs/measured/{', '.join(sources)} has the line {line!r}: measure again")
        for said in _IN_PAGE.findall(_CODE_AND_LINKS.sub(" ", quoted)):
            number = said.rstrip(",")
            if number not in exempt and _is_measured(number) and not _agrees(number, found):
                problems.append(f"{number} is no number of docs/measured/{', '.join(sources)}: measure again, or correct it")
    return problems


def _is_measured(number: str) -> bool:
    digits = number.replace(",", "").split("e")[0]
    if "." in digits:
        return len(digits.replace(".", "").lstrip("0")) >= 2
    return len(digits.rstrip("0")) >= 3


def _agrees(number: str, found: list[float]) -> bool:
    plain = number.replace(",", "")
    mantissa, _, exponent = plain.partition("e")
    unit = 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))
    return any(abs(one - float(plain)) <= 0.5 * unit * (1.0 + 1e-6) for one in found)


def main(arguments: list[str]) -> int:
    if arguments == ["--check"]:
        pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
        problems = [f"{page.relative_to(ROOT)}: {said}" for page in pages for said in stale_numbers(page)]
        print("\n".join([*problems, f"{len(pages)} pages compared with docs/measured, {len(problems)} problems"]))
        return 1 if problems else 0
    unknown = set(arguments) - set(MEASUREMENTS)
    if unknown or not arguments:
        print("\n".join(f"{name:18} python {one.command}" for name, one in MEASUREMENTS.items()))
        return 1 if unknown else 0
    for name in arguments:
        measure(name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
