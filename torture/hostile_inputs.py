"""The inputs of `hostile`: array files, packed arrays, documents, command lines and databases, made from sound ones."""

from __future__ import annotations

import base64
import io
import json
import random
import shutil
import sqlite3
import sys
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, cycle
from pathlib import Path
from typing import Any

import numpy as np

import safe2real as s2r
from safe2real.campaign.events import Event
from safe2real.exploration import roll_out

SECRET = "hunter2x@tr0ub4dor"  # what is before and after the @ is looked for as well
_BOMB = 600 << 20  # bytes: more than the limit, and than a command may take twice

ROWS = np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]])
SAFE = np.array([[1.0, 1.0], [0.0, 0.0]])
TOML = """
horizon = 3
[simulator]
{simulator}
[[constraints]]
name = "upright"
utility = {utility}
threshold = 1.5
[baseline]
{baseline}
[settings]
margin = 1.0
calibrated_gap = 0.0
mismatch_gap = 0.5
tolerance = 0.25
delta = 0.1
"""
PLAIN = {"simulator": f"transition = {ROWS.tolist()}", "utility": str(SAFE.tolist()), "baseline": "actions = [0, 0]"}


@dataclass(frozen=True, slots=True)
class Hostile:
    """One command line."""

    kind: str
    arguments: Sequence[str | Path]
    stdin: bytes = b""
    environment: dict[str, str] = field(default_factory=dict)
    holds_secret: bool = False
    writes: tuple[Path, ...] = ()  # where the command may have left something


def hostile_inputs(folder: Path, attempts: int, seed: int) -> Iterator[Hostile]:
    """`attempts` inputs, of every kind in turn; the same for the same seed."""
    rng = random.Random(seed)
    makers = [_array_files(folder, rng), _archives(folder, rng), _packed(rng), _documents(rng), _toml(folder, rng),
              _places(folder, rng), _damaged(folder, rng), _forged(folder, rng), _episodes(folder, rng)]  # fmt: skip
    for number, maker in zip(range(attempts), cycle(makers), strict=False):
        yield _at(next(maker), folder / f"{number}.db")


def _at(one: Hostile, place: Path) -> Hostile:
    """The input with a place of its own for the campaign, where it has none."""
    return replace(one, arguments=[place if part == "PLACE" else part for part in one.arguments])


def specification() -> s2r.Problem:
    """A system of two states: action 1 leads from the safe one to the unsafe one, for good."""
    model = s2r.CMDP.of(s2r.Kernel.from_dense(ROWS), 3, 0, s2r.AtLeast(SAFE, 1.5, "upright"))
    baseline = s2r.MarkovPolicy.deterministic([0, 0], num_actions=2, horizon=3)
    settings = s2r.Settings(margin=1.0, calibrated_gap=0.0, mismatch_gap=0.5, tolerance=0.25, delta=0.1)
    return s2r.Problem(model, baseline, settings)


def warm_up(folder: Path) -> None:
    """Everything that a command imports and compiles, once."""
    from safe2real.preflight.spec_file import read_spec_file
    from safe2real.report.campaign_report import write_campaign_report

    place = _campaign(folder / "warm.db")
    with s2r.Campaign.open(place) as campaign:
        campaign.status()
        campaign.verify()
        campaign.plan(SAFE)
        write_campaign_report(campaign, folder / "page.html")
    (folder / "warm.toml").write_text(_spec())
    read_spec_file(folder / "warm.toml")


def _spec(**changed: str) -> str:
    return TOML.format(**(PLAIN | changed))


def _campaign(place: Path, rounds: int = 6) -> Path:
    given = specification()
    with s2r.Campaign.create(place, given) as campaign:
        for _ in range(rounds):
            deployment = campaign.ask(worker="=cell()")
            episode = roll_out(given.simulator, deployment.policy, seed=1, round_number=deployment.number)
            campaign.tell(deployment.id, episode)
        campaign.ask(worker="other")
    return place


# Array files


def _named(folder: Path, content: bytes, name: str, rng: random.Random) -> Hostile:
    file = folder / name
    file.write_bytes(content)
    changed = rng.choice(({"simulator": f'file = "{name}"'}, {"utility": f'"{name}"'}, {"baseline": f'policy = "{name}"'}))
    spec = folder / f"{name}.toml"
    spec.write_text(_spec(**changed))
    return Hostile("array files" if name.endswith("npy") else "archives", ["campaign", "init", "PLACE", spec])


def npy(header: str | bytes, body: bytes = b"", version: int = 1, length: int | None = None) -> bytes:
    text = header.encode("latin-1") if isinstance(header, str) else header
    width = 2 if version == 1 else 4
    size = len(text) if length is None else length
    return b"\x93NUMPY" + bytes((version, 0)) + (size % 2 ** (8 * width)).to_bytes(width, "little") + text + body


def _array_files(folder: Path, rng: random.Random) -> Iterator[Hostile]:
    header = "{{'descr': {}, 'fortran_order': {}, 'shape': {}, }}\n"
    file = io.BytesIO()
    np.save(file, ROWS)
    sound, kinds = file.getvalue(), ("'<f3'", "'<U9'", "'V8'", "'<M8[s]'", "[('a', '<f8')]")
    makers = (
        lambda: npy(header.format("'<f8'", False, f"({10 ** rng.randint(5, 19)},)"), b"\0" * 16),
        lambda: npy(header.format("'<f8'", False, f"({2**32}, {2**32})")),
        lambda: npy(header.format("'<f8'", False, f"({'9' * rng.choice((20, 400, 6000))},)")),
        lambda: npy(header.format("'<f8'", False, "(-1,)"), b"\0" * 8),
        lambda: npy(header.format("'|O'", False, "(1,)"), b"cos\nsystem\n(S'true'\ntR."),
        lambda: npy(header.format(rng.choice(kinds), False, "(1,)")),
        lambda: npy(header.format("__import__('os').system('true')", False, "(1,)")),
        lambda: npy("(" * rng.choice((10, 5000, 60000))),
        lambda: npy(b"\xff" * rng.choice((0, 1, 100))),
        lambda: npy(header.format("'<f8'", False, "(1,)"), length=rng.choice((0, 1, 2**16 - 1))),
        lambda: npy(header.format("'<f8'", True, "(2, 2, 2)"), ROWS.tobytes(), version=rng.choice((2, 3, 4, 9, 255))),
        lambda: npy(header.format("'<f8'", False, f"({'1, ' * rng.choice((9, 33, 5000))})"), b"\0" * 8),
        lambda: _changed(sound, rng),
        lambda: sound[: rng.randrange(len(sound))],
        lambda: sound + b"\0",
        lambda: b"",
    )
    for number in count(1):
        yield _named(folder, rng.choice(makers)(), f"{number}.npy", rng)


def _archives(folder: Path, rng: random.Random) -> Iterator[Hostile]:
    sound, large, many = (_archive({"transition": ROWS}), _bomb(), _archive({str(i): SAFE for i in range(1200)}))
    makers = (
        lambda: large,
        lambda: many,
        lambda: _changed(sound, rng),
        lambda: _changed(sound, rng, among=range(len(sound) - 120, len(sound))),
        lambda: sound[: rng.randrange(len(sound))],
        lambda: sound.replace(b"\x00\x00\x08\x00", b"\x01\x00\x08\x00"),  # says it is encrypted
        lambda: sound.replace(b"PK\x01\x02", b"PK\x01\x03"),
        lambda: _archive({"transition": ROWS, "other": ROWS}),
        lambda: _archive({"../../escape": ROWS}),
        lambda: _lying(rng),
        lambda: b"PK\x05\x06" + b"\0" * 18,
        lambda: b"PK",
    )
    for number in count(1):
        yield _named(folder, rng.choice(makers)(), f"{number}.npz", rng)


def _archive(arrays: dict[str, Any]) -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def _bomb() -> bytes:
    """Some hundred kilobytes that unpack to more than any limit."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("transition.npy", "w") as member:
        member.write(npy(f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({_BOMB // 8},), }}\n"))
        for _ in range(_BOMB >> 22):
            member.write(bytes(1 << 22))
    return file.getvalue()


def _lying(rng: random.Random) -> bytes:
    """A member whose header claims more, or less, than it has."""
    file = io.BytesIO()
    shape = rng.choice(("(3,)", "(1000000000,)", "(5,)", "()"))
    with zipfile.ZipFile(file, "w", rng.choice((zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA))) as archive:
        archive.writestr("transition.npy", npy(f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}", bytes(32)))
    return file.getvalue()


# Packed arrays and documents


def _packed(rng: random.Random) -> Iterator[Hostile]:
    zeros = _compressed(bytes(_BOMB), 1)
    while True:
        document = json.loads(specification().to_text())
        one: dict[str, Any] = {"dtype": "<f8", "shape": [2, 2], "zlib": _compressed(SAFE.tobytes())}
        changes = (
            lambda: one.update(shape=[_BOMB // 8], zlib=zeros),
            lambda: one.update(zlib=zeros),
            lambda: one.update(dtype="|b1", shape=[_BOMB], zlib=zeros),
            lambda: one.update(shape=rng.choice(([2**39], [2**62, 2**62], [-1], [2.0, 2], "2", [True], [[2]], [1] * 9))),
            lambda: one.update(shape=[10 ** rng.choice((12, 4000)), 2]),
            lambda: one.update(dtype=rng.choice(("<f4", "|O", "<U9", None, ["<f8"], "(1000000000,)f8", "f8,f8"))),
            lambda: one.update(zlib=rng.choice(("", "=", "é", "AAAA", None, one["zlib"][:-6], one["zlib"] * 2))),
            lambda: one.pop(rng.choice(("dtype", "shape", "zlib"))),
            lambda: one.update(more=1),
        )
        rng.choice(changes)()
        if rng.random() < 0.2:  # each below the limit, all together far above it
            small = {"dtype": "|u1", "shape": [16 << 20], "zlib": _compressed(bytes(16 << 20))}
            document["constraints"] = [{"utility": small, "threshold": 1.0} for _ in range(100)]
        else:
            places = (
                lambda: document["constraints"][0].update(utility=one),
                lambda: document.update(start=one),
                lambda: document.update(known=one),
                lambda: document.update(simulator={"transition": one}),
                lambda: document["baseline"].update(actions=one),
            )
            rng.choice(places)()
        yield Hostile("packed arrays", ["campaign", "init", "PLACE", "-"], _text(document))


def _compressed(content: bytes, level: int = -1) -> str:
    return base64.b64encode(zlib.compress(content, level)).decode()


HOSTILE_VALUES: tuple[Any, ...] = (
    2**28, 2**31, 2**63, 2**64, 10**30, 10**4000, -1, 0, 1.5, 1e308, -1e308, 5e-324, True, None, "", "x" * 100_000,
    "\ud800", "\0", "../../etc/passwd", "postgresql://u:p@h/d", [], [[]], [[[[[[1]]]]]], {}, {"": {}}, [None], [1, [2]],
    [[1, 2], [3]], ["1"], {"kind": "deterministic"}, {"dtype": "<f8"}, [0.1] * 7, [10**400], [[True, False], [0, 1]],
    [2**70, 1],
)  # fmt: skip


def _documents(rng: random.Random) -> Iterator[Hostile]:
    while True:
        document = json.loads(specification().to_text())
        choice = rng.random()
        if choice < 0.8:
            for _ in range(rng.choice((1, 1, 1, 3))):
                _set_somewhere(document, rng.choice(HOSTILE_VALUES), rng)
            text = _text(document)
        elif choice < 0.9:
            document.update(horizon=rng.choice((2**24, 2**27, 2**28, 2**32)))
            document["baseline"]["actions"] = rng.choice(([0, 0], [[0, 0]]))
            text = _text(document)
        else:
            whole = _text(document)
            text = rng.choice((
                whole[: rng.randrange(len(whole))], b"[" * 100_000, b'{"a":' * 50_000, b"\xff\xfe" + whole,
                whole.replace(b"1.5", b"NaN"), whole.replace(b"1.5", b"1" * 5000), whole + whole, b"", b"\0" * 1000,
                _changed(whole, rng),
            ))  # fmt: skip
        yield Hostile("documents", ["campaign", "init", "PLACE", "-"], text)


def _set_somewhere(document: Any, value: Any, rng: random.Random) -> None:
    """Replace, add or remove one part, anywhere."""
    holder = document
    while True:
        keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        if not keys:
            return
        key = rng.choice(keys)
        inside = holder[key]
        if isinstance(inside, (dict, list)) and inside and rng.random() < 0.7:
            holder = inside
            continue
        if isinstance(holder, dict) and rng.random() < 0.15:
            del holder[key]
        else:
            holder[key] = value
        return


def _toml(folder: Path, rng: random.Random) -> Iterator[Hostile]:
    sound, outside = _spec(), folder.parent / "outside.npy"
    codes = ("os:system", "antigravity:X-v0", "nosuch.module:Env-v0", "FrozenLake-v9", "a:b:c", ":", "CartPole-v1")
    for number in count(1):
        name = folder / f"spec{number}.toml"
        link = folder / f"link{number}.npy"
        if not link.is_symlink():
            link.symlink_to("/etc/hostname")
        code = rng.choice(codes)
        makers = (
            lambda: sound.replace("horizon = 3", f"horizon = {'9' * 5000}"),
            lambda: sound.replace("horizon = 3", f"horizon = {rng.choice((2**26, 2**28, 2**40))}"),
            lambda: sound.replace("1.5", rng.choice(("nan", "inf", "1e999", "2026-01-01", "0x" + "f" * 9000, '"1.5"'))),
            lambda: f"a = {'[' * 20_000}\n{sound}",
            lambda: f"{'a.' * 3000}b = 1\n{sound}",
            lambda: _spec(simulator=f'file = "{rng.choice(("/dev/zero", "../x.npy", outside, link.name))}"'),
            lambda: _spec(simulator=f'transition = "{link.name}"'),
            lambda: _spec(utility='"\\u0000.npy"'),
            lambda: _spec(utility=f'"{"a" * 5000}.npy"'),
            lambda: _spec(baseline='policy = "/etc/passwd"'),
            lambda: _spec(simulator=f'gymnasium = "{code}"'),
            lambda: sound + f'\n[run]\nout = "{rng.choice(("/etc", "../../x", ""))}"\n',
            lambda: sound + "\n[real]\ntransition = [[[1]]]\n",
            lambda: sound + f"\n[guess]\nrows = {rng.choice((10**18, -1, '[[9, 9]]', '[]'))}\n",
            lambda: _changed(sound.encode(), rng).decode("latin-1"),
        )
        name.write_text(rng.choice(makers)())
        command = rng.choice((["campaign", "init", "PLACE", name], ["check", name, "--json", "--seconds", "0"]))
        yield Hostile("specification files", command)


# Places


def places() -> list[str]:
    """Every way to give a password that is known to go wrong, and some that are right."""
    hard = SECRET.replace("@", "%40")
    return [
        f"postgresql://u@127.0.0.1:1/db?password={hard}", f"postgresql://u@127.0.0.1:1/db?password={SECRET}",
        f"postgresql://u:{hard}@127.0.0.1:1/db", f"postgresql://u:{SECRET}@127.0.0.1:1/db", f"postgresql://u:{hard}@/db",
        f"postgresql://u:{hard}/db", f"postgresql://u:{hard}", f"postgresql:/u:{SECRET}@h/db", f"postgresql:u:{SECRET}@h/db",
        f"postgresql//u:{SECRET}@h/db", f"postgres://u:{SECRET}@h/db", f"POSTGRESQL://u:{SECRET}@h/db",
        f"jdbc:postgresql://h/db?user=u&password={SECRET}", f"host=h user=u password={SECRET}", f"password={SECRET}",
        f"password = '{SECRET}' host=h", f"dbname=x;PASSWORD={SECRET}", f"u:{SECRET}@h/db", f"//u:{SECRET}@h/db",
        f"postgresql://h/db;password={SECRET}", f"postgresql://h/db#password={SECRET}", f"postgresql://h/db&password={SECRET}",
        f"postgresql://u@127.0.0.1:1/db?sslpassword={hard}", f"postgresql://u@127.0.0.1:1/db?pasword={hard}",
        f"postgresql://u@127.0.0.1:1/db?options=-cx.y%3D{hard}", f"postgresql://u:{hard}@127.0.0.1:99999/db",
        f"postgresql://u:{hard}@127.0.0.1:port/db", f"mysql://u:{SECRET}@h/db", f"sqlite://u:{SECRET}@h/db",
        f" postgresql://u:{SECRET}@h/db", f"postgresql ://u:{SECRET}@h/db", f"postgresql://[::1/db:{SECRET}@x",
        f"postgresql+psycopg2://u:{hard}@127.0.0.1:1/db", f"postgresql://u:{hard}@127.0.0.1:1/db?password={hard}",
        f"postgresql://u:{hard}@nosuchhost.invalid/db?connect_timeout=1", f"./password={SECRET}", f"/u:{SECRET}@h/db",
    ]  # fmt: skip


def _places(folder: Path, rng: random.Random) -> Iterator[Hostile]:
    spec = folder / "sound.json"
    spec.write_text(specification().to_text())
    for number, place in enumerate(cycle(places()), start=1):
        out = folder / f"out{number}"
        arguments = rng.choice((
            ["campaign", "init", place, spec], ["campaign", "init", spec, place], ["campaign", "status", place],
            ["campaign", "ask", place, "--worker", "w"], ["campaign", "ask", spec, place, "--worker", "w"],
            ["campaign", "tell", place, "id"], ["campaign", "tell", spec, place], ["campaign", "verify", place],
            ["campaign", "export", place, "--out", out],
            ["campaign", "report", place, "--out", out], ["campaign", "plan", place, place], [place],
            ["campaign", place], ["campaign", "map", place, place], ["check", place], ["run", place, "--json"],
            ["campaign", "abandon", place, place, "--reason", "r"], ["campaign", "ask", place, "-n", place],
            ["campaign", "export", folder / "none.db", "--out", place],
            ["campaign", "import", place, place, "--source", "s"],
        ))  # fmt: skip
        yield Hostile("places", arguments, holds_secret=True, writes=(out,), environment={"PGPASSWORD": SECRET})


# Databases


def _changed(content: bytes, rng: random.Random, among: range | None = None) -> bytes:
    data = bytearray(content)
    for _ in range(rng.choice((1, 2, 10, 100))):
        data[rng.choice(among or range(len(data)))] = rng.randrange(256)
    return bytes(data)


def _commands(place: Path, rng: random.Random) -> list[str | Path]:
    out = place.with_suffix(f".{rng.choice(('json', 'html', 'folder'))}")
    return rng.choice((
        ["campaign", "status", place, "--no-forecast"], ["campaign", "verify", place], ["campaign", "map", place],
        ["campaign", "ask", place, "--worker", "w"],
        ["campaign", "export", place, "--out", out], ["campaign", "export", place, "--out", out, "--format", "csv"],
        ["campaign", "report", place, "--out", out],
    ))  # fmt: skip


def _sound_file(folder: Path) -> Path:
    place = folder / "sound.db"
    if not place.exists():
        _campaign(place)
        with sqlite3.connect(place) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.close()
    return place


def _damaged(folder: Path, rng: random.Random) -> Iterator[Hostile]:
    content = _sound_file(folder).read_bytes()
    makers = (
        lambda: _changed(content, rng, range(100, 4096)),  # the schema
        lambda: _changed(content, rng),
        lambda: content[: rng.randrange(len(content))],
        lambda: content[:100] + b"\0" * 3996 + content[4096:],
    )
    for number in count(1):
        place = folder / f"damaged{number}.db"
        place.write_bytes(rng.choice(makers)())
        if rng.random() < 0.2:
            place.with_name(place.name + "-wal").write_bytes(_changed(content[:8000], rng))
        yield Hostile("damaged databases", _commands(place, rng))


_FORGERIES = (
    None, 10**12, -1, 1.5, b"\xff", "x", "[]", "{}", '{"episodes": 3}', '{"states": [], "actions": []}', "[" * 9000,
    "9" * 6000, '{"states": 1, "actions": {}}', '{"states": [0, 0], "actions": [7]}', '{"reason": 1}', '{"campaign": []}',
    '{"states":["a"],"actions":["b"]}',
)  # fmt: skip
_COLUMNS = (
    *(("safe2real_event", name) for name in ("body", "body", "body", "kind", "deployment", "worker", "at", "digest")),
    *(("safe2real_policy", name) for name in ("content", "digest")),
    *(("safe2real_campaign", name) for name in ("format", "specification", "name")),
)


def _forged(folder: Path, rng: random.Random) -> Iterator[Hostile]:
    """Columns of other types and bodies of other content, with digests that fit: anybody can compute them."""
    sound = _sound_file(folder)
    for number in count(1):
        place = folder / f"forged{number}.db"
        shutil.copy(sound, place)
        connection = sqlite3.connect(place)
        sequence = rng.randint(1, 13)
        value, (table, column) = rng.choice(_FORGERIES), rng.choice(_COLUMNS)
        try:
            where = f"WHERE sequence = {sequence}" if table == "safe2real_event" else ""
            connection.execute("DELETE FROM safe2real_event") if rng.random() < 0.05 else None
            connection.execute(f"UPDATE {table} SET {column} = ? {where}", (value,))
            if rng.random() < 0.3:
                kind = rng.choice(("ask", "tell", "abandon", "import", "create", "nothing", "withdraw"))
                connection.execute("UPDATE safe2real_event SET kind = ? WHERE sequence = ?", (kind, sequence))
            chain(connection)
            connection.commit()
        except sqlite3.Error:  # a rule of the tables refuses it
            connection.rollback()
        finally:
            connection.close()
        yield Hostile("forged databases", _commands(place, rng))


def chain(connection: sqlite3.Connection) -> None:
    """All digests made anew."""
    previous = ""
    for row in connection.execute("SELECT * FROM safe2real_event ORDER BY sequence").fetchall():
        if not all(isinstance(text, str) for text in (row[1], row[4], row[5])) or not isinstance(row[3], str | None):
            return
        previous = Event(*row).digest_after(previous)
        connection.execute("UPDATE safe2real_event SET digest = ? WHERE sequence = ?", (previous, row[0]))


def _episodes(folder: Path, rng: random.Random) -> Iterator[Hostile]:
    """What a controller sends: ids, episodes, rewards, logs, and numbers on the command line."""
    for number in count(1):
        place = folder / f"driven{number}.db"
        shutil.copy(_sound_file(folder), place)
        value = rng.choice(HOSTILE_VALUES)
        given = rng.choice((value, {"states": value, "actions": [0]}, {"states": [0, value], "actions": [0, 0, 0]}))
        with s2r.Campaign.open(place) as campaign:
            id = f"{campaign.name}-7"
        arguments: list[str | Path] = rng.choice((
            ["campaign", "tell", place, id], ["campaign", "tell", place, id, "--partial"],
            ["campaign", "plan", place, "-"], ["campaign", "import", place, "-", "--source", "log"],
            ["campaign", "tell", place, rng.choice(("", "x" * 9999, "-1", f"{id}0", f"{id}\n"))],
            ["campaign", "ask", place, "--worker", "w", "-n", rng.choice(("1000000000", "-1", "9" * 5000, "1e9"))],
            ["campaign", "ask", place, "--worker", rng.choice(("", "\n", "w" * 5000, "\ud800"))],
            ["campaign", "abandon", place, id, "--reason", rng.choice(("", "r" * 20_000))],
            ["campaign", "import", place, "/dev/zero", "--source", "log"],
            ["campaign", "verify", place, "--head", "x" * 9999],
            ["campaign", "export", place, "--out", f"{place}{rng.choice(('', '-wal', '-shm', '-journal'))}"],
            ["campaign", "report", place, "--out", f"{place}-wal"],
            ["campaign", "import", place, "-", "--source", "log", "--policy", "/dev/zero"],
        ))  # fmt: skip
        arguments = [str(part).encode("utf-8", "replace").decode() for part in arguments]
        yield Hostile("controllers", arguments, _text(given))


def _text(document: Any) -> bytes:
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        return json.dumps(document).encode("utf-8", "surrogatepass")
    finally:
        sys.set_int_max_str_digits(limit)
