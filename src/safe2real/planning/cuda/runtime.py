"""CuPy and the GPU behind it, or a mistake with its cure; and the kernels of `sweeps.cu`, compiled for a kind of problem."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module, resources
from typing import Any

import numpy as np

from safe2real.errors import InvalidInput

THREADS = 256  # per block
# Every sum as the CPU forms it: fused where the source says so and nowhere else, and nothing that is called fast.
OPTIONS = ("--std=c++17", "--fmad=false")

CURE = "leave `device` out to plan on the CPU"


def find_cupy() -> Any:
    """The module `cupy`, with a GPU that it can use.

    Raises:
        InvalidInput: CuPy is not installed, it was installed for another CUDA, or there is no GPU.
    """
    try:
        cupy = import_module("cupy")
    except ImportError as error:
        raise InvalidInput(
            f'device is "cuda", and CuPy cannot be imported ({error}); install safe2real[gpu] (it is for CUDA 12; for '
            f"CUDA 13 install cupy-cuda13x instead), or {CURE}"
        ) from error
    try:
        count = int(cupy.cuda.runtime.getDeviceCount())
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise InvalidInput(f'device is "cuda", and CuPy finds no GPU ({error}); look at nvidia-smi, or {CURE}') from error
    if count == 0:
        raise InvalidInput(f'device is "cuda", and CuPy finds no GPU; look at nvidia-smi, or {CURE}')
    return cupy


def check_memory(cupy: Any, needed: int, what: str) -> None:
    """Refuse an input that does not fit, before anything is copied; `needed` is in bytes."""
    free, total = (int(number) for number in cupy.cuda.runtime.memGetInfo())
    free += int(cupy.get_default_memory_pool().free_bytes())  # kept from earlier plans, and given out again
    if needed > free:
        raise InvalidInput(
            f"{what} need {needed / 2**30:.1f} GiB on the GPU, of whose {total / 2**30:.1f} GiB {free / 2**30:.1f} are free;"
            f" give fewer systems at once, merge states, or {CURE}"
        )


class Kernels:
    """The functions of `sweeps.cu` for one kind of problem, launched with one thread per item."""

    def __init__(self, cupy: Any, *, parts: int, lanes: int, group: int, width: int, action_bytes: int) -> None:
        source = resources.files("safe2real.planning.cuda").joinpath("sweeps.cu").read_text(encoding="utf-8")
        defined = (f"-DPARTS={parts}", f"-DLANES={lanes}", f"-DGROUP={group}", f"-DWIDTH={width}", f"-DBYTES={action_bytes}")
        module = cupy.RawModule(code=source, options=(*OPTIONS, *defined))
        names = ["greedy", "follow", "fold", "pack"] + (["safest"] if parts == 2 else [])
        # Fetched before any launch is recorded, because loading machine code is nothing that can be recorded.
        self._functions: dict[str, Callable[..., None]] = {name: module.get_function(name) for name in names}

    def launch(self, name: str, items: int, *arguments: Any) -> None:
        """Call kernel `name` for `items` items on the current stream. Python's numbers become 64 bits wide."""
        given = [np.int64(one) if type(one) is int else one for one in arguments]
        self._functions[name]((max(1, -(-items // THREADS)),), (THREADS,), tuple(given))


@cache
def kernels(parts: int, lanes: int, group: int, width: int, action_bytes: int) -> Kernels:
    """Compiled once per process and kind; CuPy keeps machine code on disk between processes."""
    return Kernels(find_cupy(), parts=parts, lanes=lanes, group=group, width=width, action_bytes=action_bytes)
