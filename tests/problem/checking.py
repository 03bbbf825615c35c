"""What the tests of Theorem 1's numbers share: wrong values for every argument, and what each function must do."""

import dataclasses
import math
import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from safe2real.errors import InvalidInput

Setting = dict[str, Any]

UP, DOWN = 1, -1
WRONG: dict[str, tuple[Any, ...]] = {
    "epsilon": (0.0, -1.0, math.nan, math.inf),
    "tolerance": (0.0, -1.0, math.nan, 0.2501),
    "margin": (0.0, -1.0, 100.0, math.nan),
    "calibrated_gap": (-0.1, 1.0005, math.nan),
    "mismatch_gap": (-0.1, 1.0005, math.nan),
    "delta": (0.0, 1.0, -0.1, math.nan),
    "horizon": (0, 1.5, True),
    "num_states": (0, 1.5),
    "num_actions": (0, 1.5),
    "mismatch_size": (-1, 1201, 1.5, True, None),
    "reachability": (0.0, 1.1, -0.1),
    "return_dimension": (0, 1.5),
    "n": (-1, math.nan),
    "z": (-1, math.inf),
}


def wrong_uses(*uses: tuple[Callable[..., Any], Setting]) -> list[tuple[Callable[..., Any], Setting, str, Any]]:
    """Every function with its working arguments, the argument to spoil, and the value to spoil it with."""
    return [(function, setting, name, value) for function, setting in uses for name in setting for value in WRONG[name]]


def assert_refused(function: Callable[..., Any], setting: Setting, argument: str, value: Any) -> None:
    """The function works as set, and with one value spoilt says which argument it was and what it got."""
    function(**setting)
    number = isinstance(value, float) and math.isfinite(value) and argument != "mismatch_size"
    shown = f"{value:g}" if number else repr(value)
    with pytest.raises(InvalidInput, match=rf"^{argument} is {re.escape(shown)}.*; .*"):
        function(**{**setting, argument: value})


def assert_frozen(value: Any) -> None:
    field = dataclasses.fields(value)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(value, field, None)
    assert not hasattr(value, "__dict__")


def assert_monotone(function: Callable[..., Any], setting: Setting, argument: str, values: Any, direction: int) -> None:
    results = [function(**{**setting, argument: value}) for value in values]
    assert all((after - before) * direction > 0.0 for before, after in pairwise(results))
