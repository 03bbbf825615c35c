"""Hostile inputs: whatever is given, the answer is one JSON line, within the memory that is allowed, without a secret.

Every input is one command line in a process of its own, forked from one that has everything imported, with a limit on its
memory. It survives if the command ends by itself with a documented exit code, says at most one line on standard error, which
is JSON and names no mistake of ours, and if the secret is in no byte of what it printed or wrote.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torture.hostile_inputs import SECRET, Hostile, hostile_inputs
from torture.tally import Bench, Tally

ROOT = Path(__file__).resolve().parents[1]
MEMORY = 2 << 30  # bytes that a command may take beyond what the forked process has
SECONDS = 120.0  # for one command
CODES = frozenset((0, 2, 3, 4, 5, 6, 7, 8))

Row = tuple[str, int, int, int]  # what, attempted, survived, lost


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    code: int  # negative for the signal that ended it
    stdout: bytes
    stderr: bytes
    peak: int  # bytes of memory


def hostile(bench: Bench) -> Tally:
    """All of them, however long it takes: the number is what is asked for."""
    tally, began = Tally("hostile inputs, secrets in their output"), time.monotonic()
    rows = run(bench.folder, seed=bench.seed, say=tally.lost.append)
    tally.attempted = sum(attempted for _, attempted, *_ in rows[:-1])
    tally.seconds = time.monotonic() - began
    return tally


def run(
    folder: Path | None = None,
    *,
    attempts: int = 500,
    seed: int = 0,
    say: Callable[[str], object],
    peaks: list[int] | None = None,
) -> list[Row]:
    """Rows (what, attempted, survived, lost) for every kind of input, and one for the secrets.

    `say` hears of each loss, and `peaks` is given the memory that each command took.
    """
    with tempfile.TemporaryDirectory(dir=folder) as made:
        place = Path(made)
        counted: dict[str, list[int]] = {}
        secrets, server = [0, 0], Server(place)
        try:
            for number, one in enumerate(hostile_inputs(place, attempts, seed)):
                ended = server.command(one)
                if peaks is not None:
                    peaks.append(ended.peak)
                wrong = mistake_of(ended)
                leaked = one.holds_secret and leaks(ended, one)
                row = counted.setdefault(one.kind, [0, 0])
                row[0] += 1
                row[1] += not wrong
                secrets[0] += one.holds_secret
                secrets[1] += one.holds_secret and not leaked
                if wrong or leaked:
                    say(f"{number} {one.kind}: {wrong or 'the secret is shown'}: {shown(one, ended)}")
        finally:
            server.close()
    rows = [(f"hostile {kind}", tried, good, tried - good) for kind, (tried, good) in counted.items()]
    return [*rows, ("secrets kept from all output", secrets[0], secrets[1], secrets[0] - secrets[1])]


def mistake_of(ended: Ended) -> str:
    """What is wrong with an answer, or ""."""
    if ended.code not in CODES:
        return f"exit code {ended.code}"
    if b"Traceback" in ended.stderr or b"Traceback" in ended.stdout:
        return "a traceback"
    lines = ended.stderr.decode("utf-8", "replace").splitlines()
    if ended.code in (0, 6, 7):
        return "" if not lines else "noise on standard error"
    if len(lines) != 1 or ended.stdout:
        return f"{len(lines)} lines on standard error"
    try:
        said = json.loads(lines[0])
    except ValueError:
        return "a line that is not JSON"
    if set(said) != {"error", "message"} or said["error"] == "internal":
        return "an error that nobody foresaw"
    return "the memory was used up before it was refused" if "needs more memory" in said["message"] else ""


def leaks(ended: Ended, one: Hostile) -> bool:
    """Whether the secret, or either half of it, is in what a command printed or wrote."""
    written = [path for folder in one.writes for path in (folder, *folder.rglob("*")) if path.is_file()]
    names = "\n".join(map(str, written)).encode()
    texts = [ended.stdout, ended.stderr, names, *(path.read_bytes() for path in written)]
    return any(part.encode() in text for part in SECRET.split("@") for text in texts)


def shown(one: Hostile, ended: Ended) -> str:
    return f"{' '.join(map(str, one.arguments))[:300]} -> {ended.code} {ended.stderr[-400:]!r}"


class Server:
    """A process that has imported and compiled everything, and forks for each command."""

    def __init__(self, folder: Path) -> None:
        quiet = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "MPLBACKEND": "agg"}
        self._folder = folder
        self._process = subprocess.Popen(
            [sys.executable, "-m", "torture.hostile", "--serve"],
            cwd=ROOT, env=os.environ | quiet, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        if self._process.stdout.readline() != "ready\n":
            raise RuntimeError("the forking process did not start")

    def command(self, one: Hostile) -> Ended:
        out, err, given = (self._folder / name for name in (".stdout", ".stderr", ".stdin"))
        given.write_bytes(one.stdin)
        job = {
            "arguments": list(map(str, one.arguments)), "environment": one.environment,
            "stdin": str(given), "stdout": str(out), "stderr": str(err),
        }  # fmt: skip
        print(json.dumps(job), file=self._process.stdin, flush=True)
        answer = json.loads(self._process.stdout.readline())
        return Ended(answer["code"], out.read_bytes(), err.read_bytes(), answer["peak"])

    def close(self) -> None:
        self._process.communicate()


# In the server


def serve() -> None:
    from safe2real.cli import app
    from torture.hostile_inputs import warm_up

    with tempfile.TemporaryDirectory() as made:
        warm_up(Path(made))
    print("ready", flush=True)
    for line in sys.stdin:
        job = json.loads(line)
        child = os.fork()
        if child == 0:
            _be_command(app, job)
        print(json.dumps(_waited_for(child)), flush=True)


def _be_command(app: Any, job: dict[str, Any]) -> None:
    """Run one command as a fresh process would, and never come back."""
    for number, name, flags in ((0, "stdin", os.O_RDONLY), (1, "stdout", os.O_WRONLY), (2, "stderr", os.O_WRONLY)):
        opened = os.open(job[name], flags if number == 0 else flags | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(opened, number)
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    os.environ.update(job["environment"])
    here = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (here + MEMORY, here + MEMORY))
    sys.argv = ["safe2real", *job["arguments"]]
    code = 1
    try:
        app(prog_name="safe2real")
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 0 if error.code is None else 1
    except BaseException:  # noqa: BLE001 (what Python does with an error that nobody caught)
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _waited_for(child: int) -> dict[str, int]:
    deadline = time.monotonic() + SECONDS
    while True:
        ended, status, used = os.wait4(child, os.WNOHANG)
        if ended:
            return {"code": os.waitstatus_to_exitcode(status), "peak": used.ru_maxrss * 1024}
        if time.monotonic() > deadline:
            os.kill(child, 9)
            deadline = float("inf")
        time.sleep(0.002)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 1 if anything was lost."""
    parser = argparse.ArgumentParser(prog="python -m torture.hostile", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--attempts", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.serve:
        serve()
        return 0
    peaks: list[int] = []
    rows = run(attempts=given.attempts, seed=given.seed, say=print, peaks=peaks)
    print(f"the largest command took {max(peaks, default=0) / 2**20:.0f} MiB")
    for what, attempted, survived, lost in rows:
        print(f"{what:40} {attempted:6} {survived:6} {lost:6}")
    return int(any(lost for *_, lost in rows))


if __name__ == "__main__":
    sys.exit(main())
