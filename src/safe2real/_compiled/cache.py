"""The decorators of compiled functions, and where their machine code is kept between processes.

What Python calls is `compiled`, what only compiled functions call is `inner`; `shared` functions are plain Python for Python
and compiled within compiled functions. Every combination of argument types is compiled once more, so all callers give the
same.

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
import logging
import pickle
import sys
import uuid
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numba
from numba import extending
from numba.core import caching, compiler, serialize
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.runtime.nrt import rtsys
from numba.core.typed_passes import NativeLowering

_dynfunc = import_module("numba._dynfunc")
_SEAL = hashlib.sha256().digest_size


def compiled(function: Any) -> Any:
    """Compile a function that Python calls; its machine code is kept on disk."""
    dispatcher = _njit(no_cfunc_wrapper=True)(function)
    dispatcher._cache = SourceCache(function)
    return dispatcher


def inner(function: Any) -> Any:
    """Compile a function that only compiled functions call: its code becomes a part of theirs."""
    return _njit(**_PART)(function)


def borrowing(function: Any) -> Any:
    """Compile like `inner`, without reference counts: for functions that neither make nor return arrays, nor call such ones.

    Counting is an atomic addition for each array of each tuple at each call, which was a third of a simulated round. numba
    refuses to compile a function that makes or returns arrays; one that is returned to it would never be freed.
    """
    return _njit(**_PART | _BORROWING)(function)


def beforehand(function: Any) -> Any:
    """Compile like `inner`, but optimise before inlining: some loops are twice as fast that way."""
    _BEFOREHAND.add(function.__qualname__)
    return borrowing(function)


def shared(function: Any) -> Any:
    """Leave a function as it is for Python, and compile it where a compiled function calls it: the same source for both."""
    return instead_of(function)(function)


def shared_borrowing(function: Any) -> Any:
    """Decorate like `shared`, compiling without reference counts as `borrowing` does."""
    return instead_of(function, borrowing=True)(function)


def instead_of(function: Any, *, borrowing: bool = False) -> Any:
    """Decorate the implementation that compiled code runs when it calls `function`; Python runs `function` itself."""
    options = _OPTIONS | _PART | (_BORROWING if borrowing else {})

    def register(implementation: Any) -> Any:
        for called in {function, implementation}:
            extending.overload(called, jit_options=options, strict=False)(lambda *args: implementation)
        return implementation

    return register


def most_threads() -> int:
    """Return NUMBA_NUM_THREADS, the most threads of this process; by default the number of cores."""
    settings: Any = numba.config
    return int(settings.NUMBA_NUM_THREADS)


def _njit(**options: Any) -> Any:
    njit: Any = numba.njit
    return njit(**_OPTIONS | options)


class _Part(JITCodeLibrary):
    """Code that is linked into its callers' code, and optimised and emitted there alone. numba would do both twice."""

    def finalize(self) -> None:
        self._raise_if_finalized()
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        if self.name in _BEFOREHAND:
            self._optimize_final_module()
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class _PartLowering(NativeLowering):
    """numba's, into a `_Part`. The function that is returned is a key by which callers find the code; it has none."""

    _name = "part_lowering"

    def run_pass(self, state: Any) -> bool:
        state.library = _Part(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = True
        super().run_pass(state)
        lowered = state["cr"]
        found = lowered.fndesc
        key = _dynfunc.make_function(found.lookup_module(), found.qualname, "", 0, lowered.env, (state.library,))
        state.targetctx.insert_user_function(key, found, [state.library])
        state["cr"] = lowered._replace(cfunc=key)
        return True


class _PartCompiler(CompilerBase):
    def define_pipelines(self) -> list[Any]:
        pipeline = PassManager("part")
        for one, text in DefaultPassBuilder.define_nopython_pipeline(self.state).passes:
            pipeline.add_pass(_PartLowering if one is NativeLowering else one, text)
        pipeline.finalize()
        return [pipeline]


_BEFOREHAND: set[str] = set()  # functions that are optimised before they become parts
# Division by zero gives inf or NaN, as in numpy: no checks in the generated code. Without the interpreter's lock: other
# threads of a process go on while one plans, and no two share what is written. With reference counts (`_nrt`), which a
# function would do without where its first caller does.
_OPTIONS: Any = {"error_model": "numpy", "nogil": True, "_nrt": True}
_BORROWING: dict[str, Any] = {"_nrt": False}
_PART = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "pipeline_class": _PartCompiler}


def _digest_of_sources() -> bytes:
    """Return the digest of everything that determines a signature's machine code, except the machine."""
    digest = hashlib.sha256(f"{numba.__version__} {sys.version}".encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.digest()


@cache
def _announce() -> None:
    """Say on a terminal, once in a process, that a pause is compilation."""
    text = "safe2real compiles its inner loops for this processor; this takes some seconds, once"
    logging.getLogger("safe2real").debug(text)
    if sys.stderr is not None and sys.stderr.isatty():
        print(text, file=sys.stderr, flush=True)


@cache
def folder() -> Path | None:
    """Return the folder of cached machine code; None if no folder is writable."""
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
        """Do nothing: a file without its seal is never loaded."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the cached machine code for the signature `sig`, or None.

        numba's own cache refreshes the context here, which imports all that compiling could need, and SciPy with it: half a
        second that code which is compiled already does not need. What it needs is the runtime, for its arrays.
        """
        rtsys.initialize(target_context)
        path, key = self._place(sig, target_context.codegen())
        content = b""
        if path is not None:
            with contextlib.suppress(OSError):
                content = path.read_bytes()
        if not content or content[:_SEAL] != _seal(key, content[_SEAL:]):
            _announce()
            return None
        return compiler.CompileResult._rebuild(target_context, *pickle.loads(content[_SEAL:]))

    def save_overload(self, sig: Any, data: Any) -> None:
        """Store the code for other processes; best effort, skipped for example on a full disk."""
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
