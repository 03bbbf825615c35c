"""What a worker does before its first task: is it the same code, and is compiled code ready?

Results are equal bit for bit only if the sources are, so a worker with other ones refuses. Compiled code is kept in one
folder for each machine (`_compiled.cache`), or in one for all where NUMBA_CACHE_DIR is on a shared disk. The first worker
that comes there compiles; the others wait for it and load what it made.
"""

from __future__ import annotations

import contextlib
import hashlib
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from safe2real.engines.cores import on_one_core
from safe2real.errors import InvalidInput

Prepare = Callable[[], Any]
_LOCK = "safe2real-compiling.lock"


@cache
def digest_of_package() -> str:
    """Of all sources of this package that are installed here."""
    here, digest = Path(__file__).parents[1], hashlib.sha256()
    for path in sorted(here.rglob("*.py")):
        digest.update(path.relative_to(here).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Job:
    """A function for an engine, with what its workers need first.

    `function` and `prepare` are functions of modules, so that any machine finds them by their names. `prepare` is called
    once in each process, and by one process at a time on a machine.
    """

    function: Callable[[Any], Any]
    prepare: Prepare | None = None
    digest: str = field(default_factory=digest_of_package)  # of the sources of whoever asks

    def __call__(self, task: Any) -> Any:
        """Done on a worker."""
        if self.digest != digest_of_package():
            raise InvalidInput(
                f"the worker on {socket.gethostname()} has other sources of safe2real ({digest_of_package()}) than whoever "
                f"asks ({self.digest}); install the same on all machines"
            )
        if self.prepare is not None:
            _prepared(self.prepare)
        with on_one_core():
            return self.function(task)


@cache
def _prepared(prepare: Prepare) -> None:
    with one_at_a_time():
        prepare()


@contextlib.contextmanager
def one_at_a_time() -> Iterator[None]:
    """Held by one process of all that share a folder of compiled code; where there is no such folder, by everybody."""
    from safe2real._compiled.cache import folder  # numba takes a second to import

    try:
        import fcntl
    except ModuleNotFoundError:  # not on this operating system: everybody compiles, and nothing worse
        yield
        return
    where = folder()
    if where is None:
        yield
        return
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError):  # a disk that knows no locks
            where.mkdir(parents=True, exist_ok=True)
            file = held.enter_context((where / _LOCK).open("ab"))
            fcntl.flock(file, fcntl.LOCK_EX)  # until the file is closed, also by the end of the process
        yield
