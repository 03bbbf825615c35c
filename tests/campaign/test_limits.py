"""Limits are said before anything is taken: deployments in one ask, bytes of arrays, a worker that is gone."""

import base64
import io
import json
import sqlite3
import subprocess
import sys
import zipfile
import zlib

import numpy as np
import pytest

import safe2real as s2r
from safe2real.campaign.files import whole_file
from safe2real.errors import InvalidInput, StorageFailure
from safe2real.model.encoding import array_from_json, check_unpacked
from safe2real.model.limits import human
from safe2real.preflight.array_files import ArrayFiles
from safe2real.preflight.spec_file import read_spec_file
from safe2real.problem.document import kernel_from_json
from safe2real.report.export import export_csv
from tests.campaign.systems import ROOT, paper_grid, run_rounds, three_states
from tests.cli.driving import campaign as command
from tests.preflight.specs import LAKE, ROWS, TOML, write

SIMULATOR = "transition = [[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]]"


@pytest.fixture
def opened(tmp_path):
    with s2r.Campaign.create(tmp_path / "c.db", three_states().specification) as made:
        yield made


# Deployments


def test_one_ask_hands_out_so_many_and_no_more(opened, monkeypatch):
    with pytest.raises(InvalidInput, match=r"n is 1000000000; .* at most 10000 deployments: ask again.*SAFE2REAL_MAX_ASK"):
        opened.ask_batch(10**9, worker="w")
    assert len(opened.events()) == 1
    monkeypatch.setenv("SAFE2REAL_MAX_ASK", "3")
    assert len(opened.ask_batch(3, worker="w")) == 3
    with pytest.raises(InvalidInput, match="at most 3"):
        opened.ask_batch(4, worker="w")


@pytest.mark.parametrize("value", ["-1", "0", "1.5", "many", "9" * 40])
def test_a_limit_that_is_none_is_said(opened, monkeypatch, value):
    monkeypatch.setenv("SAFE2REAL_MAX_ASK", value)
    with pytest.raises(InvalidInput, match=r"SAFE2REAL_MAX_ASK is .*; give a whole number"):
        opened.ask(worker="w")


def test_everything_that_a_worker_holds_is_given_up_at_once(opened):
    gone, other = opened.ask_batch(3, worker="gone"), opened.ask_batch(2, worker="other")
    assert opened.abandon_all("gone", "the machine burnt down") == [one.id for one in gone]
    assert opened.abandon_all("gone", "again") == []
    status = opened.status(forecast=False)
    assert status.abandoned == 3
    assert [id for id, *_ in status.held] == [one.id for one in other]
    assert opened.verify().holds
    system = three_states()
    assert opened.tell(gone[1].id, system.episode(gone[1])).new  # an episode that turns up is taken


def test_the_command_gives_up_one_or_all(tmp_path):
    place = tmp_path / "c.db"
    s2r.Campaign.create(place, three_states().specification).close()
    command("ask", place, "--worker", "gone", "-n", 2)
    ended = command("abandon", place, "--all", "--worker", "gone", "--reason", "sold")
    assert len(ended.document["ids"]) == 2
    for wrong in (["--all"], ["--worker", "gone"], ["--all", "--worker", "gone", ended.document["ids"][0]], []):
        refused = command("abandon", place, *wrong, "--reason", "r")
        assert (refused.code, "--all with the --worker" in refused.message) == (2, True)


# Leases


def later(monkeypatch, seconds):
    """The clock of everything that is written from now on."""
    from datetime import UTC, datetime, timedelta

    moment = (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat(timespec="milliseconds")
    for module in ("events", "status"):
        monkeypatch.setattr(f"safe2real.campaign.{module}.now", lambda: moment)


def test_what_is_out_for_longer_than_its_lease_is_named(tmp_path, monkeypatch):
    with s2r.Campaign.create(tmp_path / "c.db", three_states().specification, lease=60) as made:
        held = made.ask(worker="gone")
        assert (made.status(forecast=False).lease, made.status(forecast=False).overdue) == (60.0, ())
        later(monkeypatch, 61)
        assert made.status(forecast=False).overdue == (held.id,)
        made.ask(worker="other")
        assert made.status(forecast=False).withdrawn == 0  # not created so
        assert not any(one.subject == "lease" for one in made.assurance().assumptions)
        assert made.verify().holds


def test_what_is_overdue_is_withdrawn_where_the_campaign_was_created_so(tmp_path, monkeypatch):
    system, place = three_states(), tmp_path / "c.db"
    with s2r.Campaign.create(place, system.specification, lease=60, withdraw_overdue=True) as made:
        gone = made.ask(worker="gone")
        other = made.ask(worker="other")
        made.tell(other.id, system.episode(other))
        assert made.status(forecast=False).episodes_waiting == 1
        (lasting,) = [one.text for one in made.assurance().assumptions if one.subject == "lease"]
        assert lasting == "no deployment outlasts its lease of 60 s because of what happens in its episode"
    later(monkeypatch, 61)
    with s2r.Campaign.open(place) as made:
        next_one = made.ask(worker="other")
        status = made.status(forecast=False)
        assert (status.withdrawn, status.episodes_waiting) == (1, 0)
        assert [id for id, *_ in status.held] == [next_one.id]
        (event,) = [one for one in made.events() if one.kind == "withdraw"]
        assert (event.deployment, event.worker, json.loads(event.body)["reason"]) == (gone.number, "gone", "lease expired")
        assert made.verify().holds
        assert made.tell(gone.id, system.episode(gone)).new  # it turns up
        assert made.verify().holds
        again = made.ask(worker="gone")
        assert again.id != gone.id


def test_a_withdrawal_before_its_time_does_not_verify(tmp_path, monkeypatch):
    from safe2real.campaign.events import Draft

    for name, options in (("a", {"lease": 60, "withdraw_overdue": True}), ("b", {"lease": 60}), ("c", {})):
        with s2r.Campaign.create(tmp_path / name, three_states().specification, **options) as made:
            made.ask(worker="w")
            later(monkeypatch, 59 if name == "a" else 61)
            body = {"cause": "lease expired", "reason": "lease expired"}
            with made.journal.writing() as transaction:
                transaction.append([Draft("withdraw", body, 1, "w")])
            (problem,) = made.verify().problems
            assert "withdrawn for its lease, which was not over, or takes nothing back" in problem.what
            monkeypatch.undo()


@pytest.mark.parametrize("lease", [0, -1, float("inf"), 1e12, "60", True])
def test_leases_that_are_none(tmp_path, lease):
    with pytest.raises(InvalidInput, match="lease"):
        s2r.Campaign.create(tmp_path / "c.db", three_states().specification, lease=lease)
    assert not (tmp_path / "c.db").exists()


def test_a_withdrawal_needs_a_lease(tmp_path):
    with pytest.raises(InvalidInput, match="withdraw_overdue is set without a lease"):
        s2r.Campaign.create(tmp_path / "c.db", three_states().specification, withdraw_overdue=True)


# The record


def test_a_campaign_without_events_does_not_begin_again(tmp_path):
    place = tmp_path / "c.db"
    system = three_states()
    with s2r.Campaign.create(place, system.specification) as made:
        run_rounds(made, system, 2)
        last = f"{made.name}-2"
    with sqlite3.connect(place) as connection:
        connection.execute("DELETE FROM safe2real_event")
    connection.close()
    with s2r.Campaign.open(place) as emptied:
        for call in (
            lambda: emptied.ask(worker="w"),
            lambda: emptied.status(forecast=False),
            lambda: emptied.tell_json(last, {"states": [0] * 5, "actions": [0] * 4}),
            lambda: emptied.import_log("log", system.specification.baseline, [{"states": [0] * 5, "actions": [0] * 4}]),
            emptied.migrate,
        ):
            with pytest.raises(StorageFailure, match="events are gone"):
                call()
        assert not emptied.verify().holds


def test_a_body_that_is_none_is_damage_not_a_mistake_of_ours(tmp_path):
    """Digests that fit can be computed by anybody who writes to the file."""
    from torture.hostile_inputs import chain

    for number, body in enumerate(("[]", '{"states": 1, "actions": {}}', '{"states": ["a", "b"], "actions": ["c"]}', "7")):
        place = tmp_path / f"{number}.db"
        with s2r.Campaign.create(place, three_states().specification) as made:
            run_rounds(made, three_states(), 2)
        with sqlite3.connect(place) as connection:
            connection.execute("UPDATE safe2real_event SET body = ? WHERE kind = 'tell' AND deployment = 1", (body,))
            chain(connection)
        connection.close()
        with s2r.Campaign.open(place) as forged:
            with pytest.raises(StorageFailure, match="run verify"):
                forged.ask(worker="w")
            assert not forged.verify().holds


# Arrays


def test_packed_arrays_are_weighed_together_before_one_is_unpacked(monkeypatch):
    monkeypatch.setenv("SAFE2REAL_MAX_BYTES", "8000")
    small = {"dtype": "|u1", "shape": [400], "zlib": "never read"}
    check_unpacked({"constraints": [{"utility": small}, [small]]}, "the specification")  # 2 x 400 numbers of 8 bytes
    with pytest.raises(
        InvalidInput, match=r"largest of them constraints\[\d\]\.utility, would take 9.375 KiB, and the limit is"
    ):
        check_unpacked({"constraints": [{"utility": small}] * 3}, "the specification")
    with pytest.raises(InvalidInput, match=r"start, of shape \[1001\], would take .* set SAFE2REAL_MAX_BYTES to more"):
        array_from_json({"dtype": "|b1", "shape": [1001], "zlib": ""}, "start")


def test_a_horizon_is_weighed_with_its_tables(tmp_path):
    for horizon in (2**28, 2**40):
        with pytest.raises(InvalidInput, match=f"horizon is {horizon}: .*would take .*shorten the horizon"):
            read_spec_file(write(tmp_path, TOML.replace("horizon = 3", f"horizon = {horizon}")))


def test_a_dense_array_is_weighed_as_what_is_kept_of_it(monkeypatch):
    monkeypatch.setenv("SAFE2REAL_MAX_BYTES", "200")
    kernel_from_json({"transition": ROWS}, "simulator")  # 4 transitions of 4 columns: 128 bytes
    with pytest.raises(InvalidInput, match=r"simulator\.transition, kept as its 8 transitions, would take 256 bytes"):
        kernel_from_json({"transition": np.full((2, 2, 2), 0.5)}, "simulator")


def test_a_policy_that_is_a_number_is_damage(tmp_path):
    """`bytes` of a large number would be as many zeros."""
    place = tmp_path / "c.db"
    with s2r.Campaign.create(place, three_states().specification) as made:
        run_rounds(made, three_states(), 1)
        made.ask(worker="w")
    with sqlite3.connect(place) as connection:
        connection.execute("UPDATE safe2real_policy SET content = 1000000000000")
    connection.close()
    with s2r.Campaign.open(place) as damaged:
        for call in (lambda: damaged.ask(worker="w"), damaged.stored_policies, damaged.verify):
            with pytest.raises(StorageFailure, match=r"the policy [0-9a-f]{12} cannot be read"):
                call()


def test_sizes_for_people():
    assert [human(size) for size in (0, 1023, 1536, 2**30)] == ["0 bytes", "1023 bytes", "1.5 KiB", "1 GiB"]
    assert human(10**9000) == "more than 2^80 bytes"


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
        ("a.npy", lambda: tiny_claim("(1000000,)"), "is cut short: its header claims 8000000 bytes, there are 8"),
        ("a.npy", lambda: tiny_claim("()") + b"x", "goes on after the 8 bytes"),
        ("a.npy", lambda: tiny_claim("(" + "9" * 5000 + ",)"), "a header that numpy.save does not write"),
        ("a.npy", lambda: b"\x93NUMPY\x01\x00\x05\x00{'a'}", "a header that numpy.save does not write"),
        ("a.npy", lambda: b"\x93NUMPY\x09\x00\x05\x00{'a'}", "a version of numpy's format that is not known"),
        ("a.npy", lambda: b"\x93NUMPY\x02\x00\xff\xff\xff\x7f", "a header of 2147483647 bytes"),
        ("a.npy", lambda: b"", "not as numpy.save writes it"),
        ("a.npz", lambda: bomb(1 << 26), "would take 512 MiB, and the limit is 256 MiB"),
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
        InvalidInput, match=r"start is 'c.npy': its array, of shape \(500\), with what .* would take 15.62 KiB"
    ):
        files.array("c.npy", "start")


def test_thousands_of_digits_are_no_toml(tmp_path):
    with pytest.raises(InvalidInput, match=r"spec.toml is not TOML: .*digits"):
        read_spec_file(write(tmp_path, TOML.replace("horizon = 3", "horizon = " + "9" * 5000)))


def test_a_text_without_an_end_is_refused(tmp_path):
    for arguments in (["init", tmp_path / "c.db", "/dev/zero"],):
        ended = command(*arguments)
        assert (ended.code, "is longer than 32 MiB" in ended.message) == (2, True)


def test_memory_stays_within_a_bound(tmp_path):
    """Each in a process that may take little more than it has after its imports, and answers in one line."""
    (tmp_path / "claim.npy").write_bytes(tiny_claim("(10000000000000,)"))
    (tmp_path / "bomb.npz").write_bytes(bomb(1 << 26))
    zeros = base64.b64encode(zlib.compress(bytes(300 << 20), 1)).decode()
    packed = json.loads(three_states().specification.to_text())
    packed["known"] = {"dtype": "|b1", "shape": [300 << 20], "zlib": zeros}
    specs = [
        write(tmp_path, TOML.replace(SIMULATOR, 'file = "claim.npy"'), "claim.toml"),
        write(tmp_path, TOML.replace(SIMULATOR, 'file = "bomb.npz"'), "bomb.toml"),
        write(tmp_path, TOML.replace("horizon = 3", f"horizon = {2**28}"), "horizon.toml"),
        write(tmp_path, json.dumps(packed), "packed.json"),
    ]
    program = (
        "import resource, sys\n"
        "from safe2real.cli import app\n"
        "import safe2real.preflight.spec_file\n"
        "here = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (here + (128 << 20),) * 2)\n"
        "app(prog_name='safe2real')\n"
    )
    for spec in specs:
        arguments = ["campaign", "init", str(tmp_path / "c.db"), str(spec)]
        ended = subprocess.run([sys.executable, "-c", program, *arguments], cwd=ROOT, capture_output=True, check=False)
        assert ended.returncode == 2, (spec, ended.stderr[-500:])
        said = json.loads(ended.stderr)
        assert said["error"] == "invalid-input"
        assert "would take" in said["message"], said
        assert not (tmp_path / "c.db").exists()


# Files


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
    for key in ('demonstrations = "../log.jsonl"', 'policy = "../outside.npy"'):
        with pytest.raises(InvalidInput, match="leads out of"):
            read_spec_file(write(inside, TOML.replace("actions = [0, 0]", key)))
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


@pytest.mark.parametrize("ending", ["", "-wal", "-shm", "-journal"])
def test_nothing_is_written_over_a_campaign(tmp_path, ending):
    mine, other = tmp_path / "mine.db", tmp_path / "other.db"
    for place in (mine, other):
        s2r.Campaign.create(place, three_states().specification).close()
    before = other.read_bytes()
    (tmp_path / "link").symlink_to(f"{other}{ending}")
    for out in (f"{mine}{ending}", f"{other}{ending}", tmp_path / "link"):
        for kind in ("export", "report"):
            ended = command(kind, mine, "--out", out)
            assert ended.code == 2, out
            assert "give another place" in ended.message
    assert other.read_bytes() == before
    with s2r.Campaign.open(mine) as opened:
        assert opened.verify().holds
    with whole_file(tmp_path / "plain.txt-wal") as file:  # a name alone is no reason
        file.write("x")


@pytest.mark.parametrize("name", ["=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)", " =1", "\uff1d1"])
def test_names_are_no_formulas_in_csv(tmp_path, name):
    import csv

    with s2r.Campaign.create(tmp_path / "c.db", three_states().specification) as made:
        run_rounds(made, three_states(), 1, worker=name)
        files = export_csv(made, tmp_path)
    cells = [cell for file in files for row in csv.reader(file.open(newline="")) for cell in row]
    assert name not in cells
    assert f"'{name}" in cells
    numbers = [cell for cell in cells if cell.startswith("-")]
    assert numbers == []


def test_a_lower_limit_is_said_and_not_called_a_change(tmp_path, monkeypatch):
    """The record is as it was written; this process may not read that much."""
    grid = paper_grid()
    with s2r.Campaign.create(tmp_path / "c.db", grid.specification) as made:
        run_rounds(made, grid, 1)
    monkeypatch.setenv("SAFE2REAL_MAX_BYTES", "1000")
    with pytest.raises(InvalidInput, match=r"would take .*, and the limit is 1000 bytes; .*SAFE2REAL_MAX_BYTES") as error:
        s2r.Campaign.open(tmp_path / "c.db")
    assert "changed" not in str(error.value)
    monkeypatch.delenv("SAFE2REAL_MAX_BYTES")
    with s2r.Campaign.open(tmp_path / "c.db") as opened:
        assert opened.verify().holds
