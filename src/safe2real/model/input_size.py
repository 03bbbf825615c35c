"""How much one input may ask for, said before memory is taken for it: one limit in bytes, one in deployments.

A few bytes can describe an array that fills any machine: a compressed run of zeros, a shape in a header, a horizon. Sizes
are computed from what is claimed and compared with the limit first. Whoever needs more says so in the environment.
"""

from __future__ import annotations

import os

from safe2real.errors import InvalidInput

BYTES = "SAFE2REAL_MAX_BYTES"
DEPLOYMENTS = "SAFE2REAL_MAX_ASK"
_DEFAULTS = {
    BYTES: 1 << 28,  # 256 MiB: 33 million numbers in all arrays of one input together
    DEPLOYMENTS: 10_000,  # in one call of ask
}
AS_NUMBER = 8  # bytes of one entry, whatever it is stored as: arrays are computed with as doubles
# A text takes up to some 25 times its length as nested lists, so a text is given a smaller part.
_TEXT_PART = 8


def byte_limit() -> int:
    """Bytes that the arrays of one input may take together."""
    return _limit(BYTES)


def text_limit() -> int:
    """Bytes of a file that is read as text: JSON, TOML, JSON Lines."""
    return _limit(BYTES) // _TEXT_PART


def ask_limit() -> int:
    """Deployments that one call of `ask` may hand out."""
    return _limit(DEPLOYMENTS)


def check_bytes(what: str, size: int, cure: str = "") -> None:
    """Refuse what would take more than the limit; `what` names it, `cure` says what else to do than to raise the limit."""
    limit = byte_limit()
    if size > limit:
        raise InvalidInput(
            f"{what} would take {human(size)}, and the limit is {human(limit)}; {cure + ', or ' if cure else ''}"
            f"set {BYTES} to more if that is meant"
        )


def human(size: int) -> str:
    """Bytes for people: 1536 is 1.5 KiB."""
    if size >= 1 << 80:  # also where a number is too long to be written
        return "more than 2^80 bytes"
    number, unit = float(size), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB"):
        if number < 1024:
            break
        number, unit = number / 1024, larger
    return f"{number:.4g} {unit}"


def _limit(name: str) -> int:
    text = os.environ.get(name, "").strip()
    if not text:
        return _DEFAULTS[name]
    if not (text.isascii() and text.isdigit() and len(text) <= 18 and int(text) > 0):
        raise InvalidInput(f"{name} is {text[:40]!r}; give a whole number of at least 1, or leave it unset")
    return int(text)
