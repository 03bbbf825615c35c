"""Several simulators, one of which is right: domain randomisation, or parameters that somebody is to identify."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from safe2real.errors import InvalidInput
from safe2real.model.kernel import Kernel
from safe2real.model.validation import boolean, shown


@dataclass(frozen=True, eq=False, slots=True)
class Alternatives:
    """The real system is one of these `simulators`.

    Unless that is said to be `exact`, certificates never rest on it: it is used to find plans, and a trial has to certify
    them. What the data prove, and how "none of these" is found out, is in docs/structure.md.
    """

    simulators: tuple[Kernel, ...]  # [M]
    exact: bool = False  # the user's word that it is one of them
    names: tuple[str, ...] = ()  # [M] for messages and pages

    def __post_init__(self) -> None:
        if isinstance(self.simulators, Kernel) or not all(isinstance(one, Kernel) for one in self.simulators):
            raise InvalidInput(f"alternatives.simulators is {shown(self.simulators)}; give a list of kernels")
        object.__setattr__(self, "simulators", tuple(self.simulators))
        if len(self.simulators) < 2:
            raise InvalidInput(
                f"alternatives.simulators holds {len(self.simulators)} kernels; give at least two, of which one is right"
            )
        boolean("alternatives.exact", self.exact)
        names = tuple(self.names)
        if isinstance(self.names, str) or not all(isinstance(one, str) and one.isprintable() for one in names):
            raise InvalidInput(f"alternatives.names is {shown(self.names)}; give a list of texts of printable characters")
        if len(names) not in (0, len(self.simulators)) or len(set(names)) != len(names):
            raise InvalidInput(
                f"alternatives.names has {len(names)} entries; give {len(self.simulators)} different names, or none"
            )
        object.__setattr__(self, "names", names)

    def name(self, number: int) -> str:
        """What the simulator of this number is called."""
        return self.names[number] if self.names else f"simulator {number}"


def check_alternatives(alternatives: Alternatives, kernel: Kernel) -> None:
    """Refuse simulators that are not of the same states and actions."""
    if not isinstance(alternatives, Alternatives):
        raise InvalidInput(
            f"alternatives is a {type(alternatives).__name__}; give Alternatives((kernel, kernel, ...), exact=...)"
        )
    for number, one in enumerate(alternatives.simulators):
        if one.shape != kernel.shape:
            raise InvalidInput(
                f"alternatives.simulators[{number}] has rows of shape {one.shape} and the simulator {kernel.shape}; give "
                "kernels of the simulator's shape"
            )


def check_names(given: Any) -> tuple[str, ...]:
    """Names as a document has them."""
    if not isinstance(given, (list, tuple)):
        raise InvalidInput(f"alternatives.names is {shown(given)}; give a list of texts")
    return tuple(given)
