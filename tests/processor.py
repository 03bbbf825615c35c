"""What the processor, or the older one that NUMBA_CPU_NAME names, can do: it decides about the last bit of a sum."""

import re
from functools import cache
from itertools import zip_longest

from numba import njit

_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")


@njit(fastmath={"contract"}, error_model="numpy")
def _product_and_sum(a: float, b: float, c: float) -> float:
    return a * b + c


@cache
def fuses() -> bool:
    """Whether compiled code rounds a product and its sum once (fused multiply-add), as the kernels of a GPU always do.

    Without it the values of the CPU and of these kernels differ by rounding, and tests compare them to 1e-9.
    """
    return bool(_product_and_sum(1.0 + 2.0**-30, 1.0 - 2.0**-30, -1.0) != 0.0)


def unlike(shown: str, stated: str, *, within: float = 0.1, counts: int = 3) -> list[tuple[str, str]]:
    """Return where two texts of one run differ: in a word, or in a number by more than a share or, if whole, by `counts`.

    On another processor the last bit of a sum may decide between two policies that are worth the same; later episodes
    differ. What a run prints is compared to a tenth; that a page quotes the file of its measurement is compared exactly.
    """
    words = list(zip_longest(_NUMBER.sub("#", shown).split(), _NUMBER.sub("#", stated).split(), fillvalue=""))
    numbers = zip_longest(_NUMBER.findall(shown), _NUMBER.findall(stated), fillvalue="nan")
    return [pair for pair in words if pair[0] != pair[1]] + [
        pair for pair in numbers if not _near(*(float(one.replace(",", "")) for one in pair), within, counts)
    ]


def _near(one: float, other: float, within: float, counts: int) -> bool:
    whole = one.is_integer() and other.is_integer()
    return abs(one - other) <= max(within * abs(other), counts if whole else 0.0)
