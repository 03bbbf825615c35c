"""A cure that is a number: the setting, a value that it may have, and the sentence that proposes it.

A cure is worth giving only if the value can be typed in: whoever makes one looks first whether it lies in the setting's
range. Programs read name and value; the sentence is for people, and shows the same number. A margin or a gap is a claim
about the real system: what mends a condition need not be true, so such a change says that it is one to make only if it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_CLAIMS = ("margin", "calibrated_gap", "mismatch_gap")
_ONLY_IF_TRUE = " (claims about the real system only if they are true)"


@dataclass(frozen=True, slots=True)
class Change:
    """One setting to choose anew."""

    name: str
    """The setting: margin, calibrated_gap, mismatch_gap, tolerance, delta, epsilon, limit, threshold, protection."""
    value: float
    """One that would do; others on the same side of the number in the text would too."""
    text: str

    @property
    def only_if_true(self) -> bool:
        """Whether the setting is a claim about the real system, which must not be chosen for what it would mend."""
        return self.name in _CLAIMS

    def to_document(self) -> dict[str, object]:
        said = one_of((self,))
        return {"setting": self.name, "value": self.value, "text": said, "only_if_true": self.only_if_true}


def change(name: str, shown: str | float, text: str) -> Change:
    """The change to the value that was `shown` to people, which stands for {} in `text`."""
    return Change(name, float(shown), text.format(shown))


def one_of(changes: Sequence[Change], *others: str) -> str:
    """The changes, those of claims with a caveat, and what else would help, in one sentence."""
    proposed = ", or ".join(one.text for one in changes)
    proposed += _ONLY_IF_TRUE if any(one.only_if_true for one in changes) else ""
    return ", or ".join(text for text in (proposed, *others) if text)
