"""A cure that is a number: the setting, a value that it may have, and the sentence that proposes it.

A cure is worth giving only if the value can be typed in: whoever makes one looks first whether it lies in the setting's
range. Programs read name and value; the sentence is for people, and shows the same number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Change:
    """One setting to choose anew."""

    name: str
    """The setting: margin, calibrated_gap, mismatch_gap, tolerance, delta, epsilon, threshold, protection."""
    value: float
    """One that would do; others on the same side of the number in the text would too."""
    text: str

    def to_document(self) -> dict[str, object]:
        return {"setting": self.name, "value": self.value, "text": self.text}


def change(name: str, shown: str | float, text: str) -> Change:
    """The change to the value that was `shown` to people, which stands for {} in `text`."""
    return Change(name, float(shown), text.format(shown))


def one_of(changes: Sequence[Change], *others: str) -> str:
    """The changes, and what else would help, in one sentence."""
    return ", or ".join([*(one.text for one in changes), *(text for text in others if text)])
