"""What a specification file may claim: bytes of arrays, files outside its folder, code."""

import base64
import io
import json
import subprocess
import sys
import zipfile
import zlib

import numpy as np
import pytest

from safe2real.errors import InvalidInput
from safe2real.preflight.array_files import ArrayFiles
from safe2real.preflight.spec_file import read_spec_file
from tests.campaign.systems import ROOT, three_states
from tests.cli.commands import campaign as command
from tests.preflight.specs import LAKE, ROWS, TOML, write

SIMULATOR = "transition = [[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]]"


def test_a_horizon_is_weighed_with_its_tables(tmp_path):
    for horizon in (2**28, 2**40):
        with pytest.raises(InvalidInput, match=f"horizon is {horizon}: .*would take .*shorten the horizon"):
            read_spec_file(write(tmp_path, TOML.replace("horizon = 3", f"horizon = {horizon}")))


def bomb(entries):
    """A small archive of very many zeros."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("transition.npy", "w") as member:
        header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({entries},), }}\n".encode()
        member.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
        for _ in range(entries >> 17):
            member.write(bytes(1 << 20))
    return file.getvalue()


def tiny_claim(shape):
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(8)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.npy", lambda: tiny_claim("(10000000000000,)"), "would take 72.76 TiB"),
        ("a.npy", lambda: tiny_claim("(4611686018427387904, 4)"), "would take"),
        ("a.npy", lambda: tiny_claim("(1000000,)"), "cannot be read"),
        ("a.npy", lambda: tiny_claim("(" + "9" * 5000 + ",)"), "not as numpy.save writes it"),
        ("a.npy", lambda: tiny_claim("(" * 400 + ")" * 400), "not as numpy.save writes it"),
        ("a.npy", lambda: tiny_claim("(-1,)"), "has shape (-1,)"),
        ("a.npy", lambda: tiny_claim("(1, ["), "not as numpy.save writes it"),
        ("a.npy", lambda: b"\x93NUMPY\x01\x00\x05\x00{'a'}", "not as numpy.save writes it"),
        ("a.npy", lambda: b"\x93NUMPY\x09\x00\x05\x00{'a'}", "not as numpy.save writes it"),
        ("a.npy", lambda: b"\x93NUMPY\x02\x00\xff\xff\xff\x7f", "not as numpy.save writes it"),
        ("a.npy", lambda: b"", "not as numpy.save writes it"),
        ("a.npz", lambda: b"PK", "cannot be read"),
    ],
)
def test_array_files_that_claim_too_much_or_are_none(tmp_path, name, content, words):
    (tmp_path / name).write_bytes(content())
    with pytest.raises(InvalidInput) as caught:
        read_spec_file(write(tmp_path, TOML.replace(SIMULATOR, f'file = "{name}"')))
    assert f"simulator.file is '{name}'" in str(caught.value)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("entries", "limit", "words"),
    [
        (1 << 18, 1 << 20, "2 MiB, and the limit is 1 MiB"),
        pytest.param(1 << 26, 0, "512 MiB, and the limit is 256 MiB", marks=pytest.mark.slow),
    ],
)
def test_an_archive_is_weighed_before_it_is_unpacked(tmp_path, monkeypatch, entries, limit, words):
    if limit:
        monkeypatch.setenv("SAFE2REAL_MAX_BYTES", str(limit))
    (tmp_path / "a.npz").write_bytes(bomb(entries))
    with pytest.raises(InvalidInput, match=rf"simulator\.file is 'a\.npz'.*would take {words}"):
        read_spec_file(write(tmp_path, TOML.replace(SIMULATOR, 'file = "a.npz"')))


@pytest.mark.parametrize(
    "array",
    [ROWS, ROWS.astype(">f8"), ROWS.astype(np.float32), np.asfortranarray(ROWS), ROWS.astype(bool), ROWS.astype(np.int8)],
)
def test_what_numpy_writes_is_read(tmp_path, array):
    np.save(tmp_path / "a.npy", array)
    np.savez_compressed(tmp_path / "b.npz", transition=array)
    expected = read_spec_file(write(tmp_path)).problem.to_text()
    for name in ("a.npy", "b.npz"):
        assert read_spec_file(write(tmp_path, TOML.replace(SIMULATOR, f'file = "{name}"'))).problem.to_text() == expected


def test_a_file_that_is_named_often_is_weighed_as_often(tmp_path, monkeypatch):
    np.save(tmp_path / "c.npy", np.zeros(500))
    monkeypatch.setenv("SAFE2REAL_MAX_BYTES", str(3 * 4000))
    files = ArrayFiles(tmp_path)
    for _ in range(3):
        files.array("c.npy", "start")
    with pytest.raises(
        InvalidInput, match=r"start is 'c.npy': its array, of shape \(500\), with the arrays before it would take 15.62 KiB"
    ):
        files.array("c.npy", "start")


def test_thousands_of_digits_are_no_toml(tmp_path):
    with pytest.raises(InvalidInput, match=r"spec.toml is not TOML: .*digits"):
        read_spec_file(write(tmp_path, TOML.replace("horizon = 3", "horizon = " + "9" * 5000)))


GREEDY = {
    "claim": lambda folder: _claim(folder, "claim.npy", tiny_claim("(10000000000000,)")),
    "bomb": lambda folder: _claim(folder, "bomb.npz", bomb(1 << 26)),
    "horizon": lambda folder: write(folder, TOML.replace("horizon = 3", f"horizon = {2**28}")),
    "packed": lambda folder: write(folder, json.dumps(_packed(300 << 20)), "packed.json"),
}


def _claim(folder, name, content):
    (folder / name).write_bytes(content)
    return write(folder, TOML.replace(SIMULATOR, f'file = "{name}"'))


def _packed(size):
    document = json.loads(three_states().specification.to_text())
    zeros = base64.b64encode(zlib.compress(bytes(size), 1)).decode()
    return document | {"known": {"dtype": "|b1", "shape": [size], "zlib": zeros}}


@pytest.mark.parametrize("kind", ["claim", *(pytest.param(one, marks=pytest.mark.slow) for one in GREEDY if one != "claim")])
def test_memory_stays_within_a_bound(tmp_path, kind):
    """In a process that may take little more than it has after its imports, and answers in one line."""
    program = (
        "import resource, sys\n"
        "from safe2real.cli import app\n"
        "import safe2real.preflight.spec_file\n"
        "here = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (here + (128 << 20),) * 2)\n"
        "app(prog_name='safe2real')\n"
    )
    arguments = ["campaign", "init", str(tmp_path / "c.db"), str(GREEDY[kind](tmp_path))]
    ended = subprocess.run([sys.executable, "-c", program, *arguments], cwd=ROOT, capture_output=True, check=False)
    assert ended.returncode == 2, ended.stderr[-500:]
    said = json.loads(ended.stderr)
    assert said["error"] == "invalid-input"
    assert "would take" in said["message"], said
    assert not (tmp_path / "c.db").exists()


def test_a_specification_reads_nothing_outside_its_folder(tmp_path):
    inside, outside = tmp_path / "inside", tmp_path / "outside.npy"
    inside.mkdir()
    np.save(outside, ROWS)
    (inside / "link.npy").symlink_to(outside)
    (inside / "here.npy").symlink_to(inside / "rows.npy")
    np.save(inside / "rows.npy", ROWS)
    for named in ("../outside.npy", str(outside), "link.npy"):
        spec = write(inside, TOML.replace(SIMULATOR, f'file = "{named}"'))
        with pytest.raises(InvalidInput, match=r"leads out of the folder of the specification.*--files-anywhere"):
            read_spec_file(spec)
        assert read_spec_file(spec, files_anywhere=True).problem.simulator.num_states == 2
    read_spec_file(write(inside, TOML.replace(SIMULATOR, 'file = "here.npy"')))
    with pytest.raises(InvalidInput, match="leads out of"):
        read_spec_file(write(inside, TOML.replace("actions = [0, 0]", 'policy = "../outside.npy"')))
    with pytest.raises(InvalidInput, match=r"run\.out is '\.\./there', which leads out of"):
        read_spec_file(write(inside, TOML + '\n[run]\nout = "../there"\n'))


def test_code_is_refused_where_it_is_not_allowed(tmp_path):
    marker = tmp_path / "ran"
    (tmp_path / "evil_module.py").write_text(f"open({str(marker)!r}, 'w').close()\n")
    for text in (LAKE, LAKE.replace("FrozenLake-v1", "evil_module:Env-v0")):
        with pytest.raises(InvalidInput, match=r"simulator\.gymnasium is .*: an environment is code"):
            read_spec_file(write(tmp_path, text), allow_code=False)
    refused = command("init", tmp_path / "c.db", write(tmp_path, LAKE), "--no-code")
    assert (refused.code, "an environment is code" in refused.message) == (2, True)
    assert not marker.exists()
    read_spec_file(write(tmp_path), allow_code=False)
