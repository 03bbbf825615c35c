"""Compiled code is kept between processes, and never served when any compiled source has changed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from safe2real._compiled import cache

CALLEE = """
from house.cache import inner

@inner
def grown(x):
    return x + 1
"""
CALLER = """
from house.cache import compiled
from house.callee import grown

@compiled
def doubled(x):
    return 2 * grown(x)
"""
SCRIPT = """
import sys
from house.caller import doubled
value = doubled(float(sys.argv[1]) if "." in sys.argv[1] else int(sys.argv[1]))
print(value, sum(doubled.stats.cache_hits.values()), sum(doubled.stats.cache_misses.values()))
"""


class House:
    """A package with the cache of this one and two functions, one of which calls the other."""

    def __init__(self, folder: Path) -> None:
        self.package = folder / "house"
        self.package.mkdir()
        shutil.copy(cache.__file__, self.package / "cache.py")
        (self.package / "__init__.py").touch()
        (self.package / "callee.py").write_text(CALLEE)
        (self.package / "caller.py").write_text(CALLER)
        self.user = folder / "user"
        kept = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
        self.environment = kept | {
            "PYTHONPATH": str(folder), "XDG_CACHE_HOME": str(self.user), "PYTHONDONTWRITEBYTECODE": "1"
        }  # fmt: skip

    def start(self, argument: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", SCRIPT, argument]
        return subprocess.Popen(command, env=self.environment, stdout=subprocess.PIPE, text=True)

    def run(self, argument: str = "3") -> list[str]:
        """The value, cache hits and cache misses of one process."""
        process = self.start(argument)
        answer = process.communicate()[0].split()
        assert process.returncode == 0
        return answer

    def files(self) -> list[Path]:
        """What is kept in the package itself."""
        return sorted(self.package.glob("__pycache__/*.nbc"))


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def test_a_second_process_compiles_nothing(house: House) -> None:
    assert [house.run(), house.run()] == [["8", "0", "1"], ["8", "1", "0"]]
    assert len(house.files()) == 1  # what only compiled functions call is a part of them


def test_code_for_another_processor_is_not_served(house: House) -> None:
    assert house.run() == ["8", "0", "1"]
    own = house.environment
    house.environment = own | {"NUMBA_CPU_NAME": "generic"}
    assert [house.run(), house.run()] == [["8", "0", "1"], ["8", "1", "0"]]
    house.environment = own
    assert house.run() == ["8", "1", "0"]


def test_a_changed_callee_in_another_file_is_never_served_stale(house: House) -> None:
    assert house.run() == ["8", "0", "1"]
    before = house.files()
    (house.package / "callee.py").write_text(CALLEE.replace("x + 1", "x + 2"))
    assert house.run() == ["10", "0", "1"]
    assert house.run() == ["10", "1", "0"]
    assert house.files() == before  # replaced in their places: nothing piles up, and nothing had to be deleted


def test_a_damaged_file_is_compiled_again(house: House) -> None:
    house.run()
    for path in house.files():
        path.write_bytes(path.read_bytes()[:-1])
    assert house.run() == ["8", "0", "1"]
    assert house.run() == ["8", "1", "0"]


def test_the_folder_that_the_user_names_is_used(house: House, tmp_path: Path) -> None:
    house.environment["NUMBA_CACHE_DIR"] = str(tmp_path / "named")
    assert [house.run(), house.run()] == [["8", "0", "1"], ["8", "1", "0"]]
    assert len(list((tmp_path / "named").glob("*/*.nbc"))) == 1
    assert not house.files()


def test_a_read_only_installation_falls_back_to_a_folder_of_the_user(house: House) -> None:
    (house.package / "__pycache__").touch()  # no folder can be made there, not even by root
    assert [house.run(), house.run()] == [["8", "0", "1"], ["8", "1", "0"]]
    assert len(list(house.user.glob("numba/*/*.nbc"))) == 1


@pytest.mark.slow
def test_without_any_place_to_write_code_is_compiled_every_time(house: House) -> None:
    (house.package / "__pycache__").touch()
    house.user.touch()
    assert [house.run()[0], house.run()[0]] == ["8", "8"]


@pytest.mark.slow
def test_processes_that_compile_at_once_keep_each_others_work(house: House) -> None:
    arguments = ["3", "3.5", "3", "3.5"]
    processes = [house.start(argument) for argument in arguments]
    assert [process.communicate()[0].split()[0] for process in processes] == ["8", "9.0", "8", "9.0"]
    assert [house.run("3"), house.run("3.5")] == [["8", "1", "0"], ["9.0", "1", "0"]]
    assert len(house.files()) == 2  # one function for two types, and no drafts
    assert {path.suffix for path in house.package.glob("__pycache__/*")} == {".nbc"}


def test_on_a_terminal_a_first_use_says_once_that_it_compiles(tmp_path):
    house = House(tmp_path)
    said = []
    for _ in range(2):
        terminal, end = os.openpty()
        command = [sys.executable, "-c", SCRIPT, "3"]
        subprocess.run(command, env=house.environment, stdout=subprocess.PIPE, stderr=end, check=True)
        os.close(end)
        said.append(read_to_the_end(terminal))
    assert said[0].count("compiles its inner loops") == 1  # two functions are compiled
    assert said[1] == ""


def read_to_the_end(terminal: int) -> str:
    text = b""
    try:
        while part := os.read(terminal, 4096):
            text += part
    except OSError:  # Linux ends a pseudo-terminal whose other side is closed with an error
        pass
    os.close(terminal)
    return text.decode()
