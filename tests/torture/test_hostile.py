"""The program that tortures commands with hostile inputs, in small; and what it would notice."""

import json

from tests.cases import each, sampled
from torture.hostile import Ended, leaks, mistake_of, run
from torture.hostile_inputs import SECRET, Hostile

GOOD = json.dumps({"error": "invalid-input", "message": "x is 1; give 2"}).encode() + b"\n"


@sampled("attempts", [6, 54], keep=[0])
def test_hostile_inputs_are_answered_in_one_line(attempts):
    heard = []
    rows = run(attempts=attempts, seed=3, say=heard.append)
    assert sum(attempted for _, attempted, *_ in rows[:-1]) == attempts
    assert [row for row in rows if row[3]] == [], heard
    assert rows[-1][0] == "secrets kept from all output"
    assert rows[-1][1] > 0


@each(
    ("ended", "wrong"),
    [
        (Ended(2, b"", GOOD, 0), ""),
        (Ended(0, b"{}\n", b"", 0), ""),
        (Ended(1, b"", GOOD, 0), "exit code 1"),
        (Ended(-9, b"", b"", 0), "exit code -9"),
        (Ended(2, b"", b"Traceback (most recent call last)\n", 0), "a traceback"),
        (Ended(2, b"", b"usage\n", 0), "a line that is not JSON"),
        (Ended(2, b"", GOOD + GOOD, 0), "2 lines on standard error"),
        (Ended(0, b"{}\n", b"warning\n", 0), "noise on standard error"),
        (Ended(2, b"", GOOD.replace(b"invalid-input", b"internal"), 0), "an error that nobody foresaw"),
        (Ended(2, b"", GOOD.replace(b"x is 1", b"needs more memory"), 0), "the memory was used up before it was refused"),
    ],
)
def test_what_is_wrong_is_noticed(ended, wrong):
    assert mistake_of(ended) == wrong


def test_a_secret_is_noticed_wherever_it_is(tmp_path):
    one = Hostile("places", [], holds_secret=True, writes=(tmp_path,))
    assert not leaks(Ended(2, b"", GOOD, 0), one)
    half = SECRET.split("@")[1].encode()
    assert leaks(Ended(2, b"", half, 0), one)
    assert leaks(Ended(0, half, b"", 0), one)
    (tmp_path / "page.html").write_bytes(b"<p>" + half)
    assert leaks(Ended(2, b"", GOOD, 0), one)
