"""What the processor, or the older one that NUMBA_CPU_NAME names, can do: it decides about the last bit of a sum."""

from functools import cache

from numba import njit


@njit(fastmath={"contract"}, error_model="numpy")
def _product_and_sum(a: float, b: float, c: float) -> float:
    return a * b + c


@cache
def fuses() -> bool:
    """Whether compiled code rounds a product and its sum once (fused multiply-add), as the kernels of a GPU always do.

    Without it the values of the CPU and of these kernels differ by rounding, and tests compare them to 1e-9.
    """
    return bool(_product_and_sum(1.0 + 2.0**-30, 1.0 - 2.0**-30, -1.0) != 0.0)
