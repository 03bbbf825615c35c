"""Where the tests of the GPU run: on one, if there is one, and always on a CPU that runs the same kernels, if it can."""

import sys
from importlib.util import find_spec

import pytest

from safe2real.planning.cuda import runtime
from safe2real.planning.cuda import solve as device_solve
from tests.planning.cuda import emulated


def has_gpu() -> bool:
    if find_spec("cupy") is None:
        return False
    import cupy

    try:
        return cupy.cuda.runtime.getDeviceCount() > 0
    except cupy.cuda.runtime.CUDARuntimeError:
        return False


@pytest.fixture(params=["kernels on the CPU", "GPU"])
def cupy(request, monkeypatch):
    """CuPy, or what stands for it."""
    if request.param == "GPU":
        if not has_gpu():
            pytest.skip("no GPU, or no CuPy")
    else:
        if emulated.COMPILER is None:
            pytest.skip("no C++ compiler")
        monkeypatch.setitem(sys.modules, "cupy", emulated)
    forget()
    yield runtime.find_cupy()
    forget()


def forget() -> None:
    runtime.kernels.cache_clear()
    device_solve._stream.cache_clear()
