"""The two decorators of compiled functions, and where their machine code is kept between processes.

numba's own cache looks at the file of a function and not at the functions that it calls in others, so that a changed callee
is served stale; and two processes that compile one function for different types at once can mix their files up. Here a file
holds one function for one signature, under a name that only these two determine, and begins with a seal: the digest of
ALL compiled sources, of numba's version, of the signature and of the content. What does not bear its seal (older sources, a
torn or damaged file) is compiled again and replaced in one step. Nothing is ever deleted.

Where: the folder that numba would choose, that is NUMBA_CACHE_DIR, or `__pycache__` here, or a folder of the user's where
the installation is read-only. Where there is none at all, code is compiled in every process.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import pickle
import sys
import uuid
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core import caching, compiler, serialize
from numba.core.runtime.nrt import rtsys

_SEAL = hashlib.sha256().digest_size


def compiled(function: Any) -> Any:
    """A function that Python calls. Division by zero gives inf or NaN, as in numpy: a check would be code at every one."""
    return _jit(function)


def released(function: Any) -> Any:
    """As `compiled`; the name says that several threads of Python's are in it at once, without the interpreter's lock."""
    return _jit(function)


def inner(function: Any) -> Any:
    """A function that only compiled functions call: without the code that takes Python's arguments apart."""
    return _jit(function, no_cpython_wrapper=True)


def _jit(function: Any, **options: bool) -> Any:
    njit: Any = numba.njit
    # Without the lock of the interpreter: other threads of a process go on while one plans. No two share what is written.
    dispatcher = njit(error_model="numpy", no_cfunc_wrapper=True, nogil=True, **options)(function)
    dispatcher._cache = SourceCache(function)
    return dispatcher


def _digest_of_sources() -> bytes:
    """Of all that decides about the machine code of a signature, besides the machine."""
    digest = hashlib.sha256(f"{numba.__version__} {sys.version}".encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.digest()


@cache
def folder() -> Path | None:
    """Where machine code is kept; None where nothing can be written."""
    try:
        return Path(caching.CompileResultCacheImpl(_seal).locator.get_cache_path())
    except RuntimeError:  # numba has found no place
        return None


class SourceCache(caching._Cache):
    """The machine code of one function, one file per signature."""

    def __init__(self, function: Any) -> None:
        self._function = function
        self._enabled = True
        source = Path(inspect.getfile(function))
        # Functions of this package are sealed with its sources; others may call these, and functions of their own file.
        self._outside = b"" if source.parent == Path(__file__).parent else source.read_bytes()

    @property
    def cache_path(self) -> str:
        return str(folder())

    def enable(self) -> None:
        self._enabled = True

    def disable(self) -> None:
        self._enabled = False

    def flush(self) -> None:
        """Nothing to do: a file without its seal is as good as none."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """What numba compiled for the signature `sig` in some process, or None.

        numba's own cache refreshes the context here, which imports all that compiling could need, and SciPy with it: half a
        second that code which is compiled already does not need. What it needs is the runtime, for its arrays.
        """
        rtsys.initialize(target_context)
        path, key = self._place(sig, target_context.codegen())
        if path is None:
            return None
        try:
            content = path.read_bytes()
        except OSError:
            return None
        if content[:_SEAL] != _seal(key, content[_SEAL:]):
            return None
        return compiler.CompileResult._rebuild(target_context, *pickle.loads(content[_SEAL:]))

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep it for other processes, if that is possible: a full disk is no reason not to compute."""
        path, key = self._place(sig, data.codegen)
        if path is None:
            return
        content = serialize.dumps(data._reduce())
        draft = path.with_name(f"{path.name}.{uuid.uuid4().hex[:12]}")
        with contextlib.suppress(OSError):
            try:
                draft.write_bytes(_seal(key, content) + content)
                draft.replace(path)
            finally:
                draft.unlink(missing_ok=True)

    def _place(self, sig: Any, codegen: Any) -> tuple[Path | None, bytes]:
        """The file of a signature on this kind of processor, and what identifies both."""
        where, function = folder() if self._enabled else None, self._function
        key = repr((function.__module__, function.__qualname__, sig, codegen.magic_tuple())).encode() + self._outside
        name = f"{Path(inspect.getfile(function)).stem}.{function.__qualname__}.{sys.implementation.cache_tag}"
        return where and where / f"{name}.{hashlib.sha256(key).hexdigest()[:16]}.nbc", key


def _seal(key: bytes, content: bytes) -> bytes:
    return hashlib.sha256(_SOURCES + hashlib.sha256(key).digest() + content).digest()


_SOURCES = _digest_of_sources()  # now, when they are imported: they may change while this process lives
