"""As much of CuPy as is used, on the CPU: arrays are NumPy's, and a C++ compiler makes functions of the very kernels."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

COMPILER = shutil.which("g++") or shutil.which("clang++")

empty, zeros, asnumpy = np.empty, np.zeros, np.array


def asarray(values: Any) -> Any:
    """A copy, as it is on a device: what is written there must not reach the caller's array."""
    return np.array(values)


@cache
def _library(source: str, defined: tuple[str, ...]) -> ctypes.CDLL:
    folder = Path(tempfile.mkdtemp(prefix="safe2real-kernels-"))
    (folder / "sweeps.cpp").write_text(source)
    command = [
        COMPILER,
        "-std=c++17",
        "-O2",
        "-ffp-contract=off",
        "-shared",
        "-fPIC",
        *defined,
        "sweeps.cpp",
        "-o",
        "sweeps.so",
    ]
    subprocess.run(command, check=True, cwd=folder)
    return ctypes.CDLL(str(folder / "sweeps.so"))


def _as_c(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return ctypes.c_void_p(value.ctypes.data)
    return {np.int64: ctypes.c_longlong, np.int32: ctypes.c_int, np.float64: ctypes.c_double}[type(value)](value)


class RawModule:
    def __init__(self, *, code: str, options: tuple[str, ...]) -> None:
        self._library = _library(code, tuple(option for option in options if option.startswith("-D")))

    def get_function(self, name: str) -> Any:
        function = getattr(self._library, name)

        def launch(grid: tuple[int, ...], block: tuple[int, ...], arguments: tuple[Any, ...]) -> None:
            call = lambda: function(*(_as_c(one) for one in arguments))  # noqa: E731
            if Stream.recording is None:
                call()
            else:
                Stream.recording.append(call)

        return launch


class Graph:
    def __init__(self, calls: list[Any]) -> None:
        self._calls = calls

    def launch(self, stream: Any) -> None:
        for call in self._calls:
            call()


class Stream:
    recording: list[Any] | None = None

    def __init__(self, *, non_blocking: bool = True) -> None:
        pass

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def synchronize(self) -> None:
        pass

    def begin_capture(self) -> None:
        Stream.recording = []

    def end_capture(self) -> Graph:
        calls, Stream.recording = Stream.recording, None
        return Graph(calls or [])


class Pool:
    def free_bytes(self) -> int:
        return 0


def get_default_memory_pool() -> Pool:
    return Pool()


class runtime:  # noqa: N801
    CUDARuntimeError = RuntimeError
    free = 2**40

    @staticmethod
    def getDeviceCount() -> int:  # noqa: N802
        return 1

    @classmethod
    def memGetInfo(cls) -> tuple[int, int]:  # noqa: N802
        return cls.free, 2**41


class cuda:  # noqa: N801
    Stream = Stream
    runtime = runtime

    @staticmethod
    def get_current_stream() -> Stream:
        return Stream()
