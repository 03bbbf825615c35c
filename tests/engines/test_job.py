"""What workers do first: compiled code is made once for a machine, and other sources are refused."""

import os

import pytest

from safe2real.engines import Job, opened
from safe2real.engines.cores import cores
from safe2real.engines.job import digest_of_package
from safe2real.errors import InvalidInput
from tests.engines import tasks


def test_workers_prepare_once_each_and_one_after_the_other(tmp_path, monkeypatch):
    monkeypatch.setenv("SAFE2REAL_TEST_NOTES", str(tmp_path / "notes"))
    with opened(jobs=2) as engine:
        processes = {one for _, one in engine.run(Job(tasks.process, tasks.noted_preparation), range(12))}
    notes = [line.split() for line in (tmp_path / "notes").read_text().splitlines()]
    begun, ended = notes[::2], notes[1::2]
    assert [word for word, _ in begun] == ["begin"] * len(begun)  # nobody begins before the one before has ended
    assert ended == [["end", process] for _, process in begun]
    assert {int(process) for _, process in begun} >= processes
    assert len({process for _, process in begun}) == len(begun) == 2


def test_a_task_has_one_core_and_what_follows_all():
    before = cores()
    assert Job(tasks.available)(0) == 1
    assert cores() == before


def test_other_sources_are_refused():
    with pytest.raises(InvalidInput, match="has other sources of safe2real"):
        Job(tasks.square, digest="0123")(3)
    assert Job(tasks.square)(3) == 9
    assert len(digest_of_package()) == 16


@pytest.mark.slow
@pytest.mark.parametrize("name", ["local", "dask", "ray"])
def test_compiled_code_is_made_once_for_a_machine(name, tmp_path, monkeypatch):
    """Nothing is kept there before; of two workers one compiles, the other waits and loads."""
    pytest.importorskip({"dask": "distributed", "local": "os"}.get(name, name))
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    with opened(name, jobs=2) as engine:
        seen = {one for _, one in engine.run(Job(tasks.compilations, tasks.compile_a_little), range(4))}
    assert len({process for process, *_ in seen} - {os.getpid()}) == 2
    made = sorted((compiled, loaded) for _, compiled, loaded in seen)
    assert made[0][0] == 0 < made[0][1]  # one has loaded everything
    assert made[-1][0] > 0  # the other has made it
