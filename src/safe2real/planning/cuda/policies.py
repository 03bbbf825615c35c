"""A policy whose actions lie on the device until they are read."""

from __future__ import annotations

from typing import Any

import numpy as np

from safe2real.model.policy import MarkovPolicy
from safe2real.model.validation import Indices, frozen


class DevicePolicy(MarkovPolicy):
    """A deterministic policy found on the device. Its actions are copied to the host when they are first read.

    A GPU holds an action in one byte where there are at most 256; on the host it takes as much as in every policy.
    """

    __slots__ = ("_cupy", "_fetched", "_held")

    def __init__(self, shape: tuple[int, int, int], cupy: Any, held: Any) -> None:
        # The fields of a frozen dataclass; `actions` is a property here.
        for name, value in zip(("horizon", "num_states", "num_actions"), shape, strict=True):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "table", None)
        object.__setattr__(self, "_cupy", cupy)
        object.__setattr__(self, "_held", held)  # [H, S]
        object.__setattr__(self, "_fetched", None)

    @property
    def held(self) -> Any | None:
        """[H, S] on the device, or None when it has been copied to the host and let go."""
        return self._held  # type: ignore[attr-defined]

    @property
    def actions(self) -> Indices:
        """[H, S] on the host."""
        if self._fetched is None:  # type: ignore[attr-defined]
            copied = self._cupy.asnumpy(self._held)  # type: ignore[attr-defined]
            object.__setattr__(self, "_fetched", frozen(copied.astype(np.uint32)))
            object.__setattr__(self, "_held", None)
        return self._fetched  # type: ignore[attr-defined, no-any-return]
