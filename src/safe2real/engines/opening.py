"""An engine by its name."""

from __future__ import annotations

from contextlib import AbstractContextManager

from safe2real.engines.base import Engine
from safe2real.errors import InvalidInput

ENGINES = ("local", "dask", "ray")
"""The names of engines."""


def opened(
    name: str = "local", *, jobs: int = -1, address: str | None = None, compiled: bool = False
) -> AbstractContextManager[Engine]:
    """An engine to run many tasks with, until it is left.

    Args:
        name: "local" for processes of this machine, "dask" or "ray" for a cluster (extras of the same names).
        jobs: how many processes are started here; -1 for one per core; for 1, "local" stays in this process. A script that
            starts processes needs the usual guard, `if __name__ == "__main__":`.
        address: of a cluster that runs already. It has its own number of workers.
        compiled: tasks are nearly all compiled code, as `simulate` with `methods.SimToReal` is: "local" runs up to four of
            them at a time by threads of this process, which is ready at once.

    Raises:
        InvalidInput: there is no such engine, or the arguments do not fit it.
        MissingExtra: its package is not installed.

    Example:
        >>> with opened("dask", address="tcp://head:8786") as engine:
        ...     for number, result in engine.run(function, tasks): ...
    """
    if name not in ENGINES:
        raise InvalidInput(f"engine is {name!r}; choose one of {', '.join(ENGINES)}")
    if isinstance(jobs, bool) or not isinstance(jobs, int) or (jobs < 1 and jobs != -1):
        raise InvalidInput(f"jobs is {jobs!r}; give a number of processes, or -1 for one per core")
    if address is not None and (name == "local" or jobs != -1):
        cure = (
            "leave it out, or choose dask or ray" if name == "local" else "leave jobs out: the cluster has its own workers"
        )
        raise InvalidInput(f"address is {address!r} with engine {name!r} and jobs {jobs}; {cure}")
    if name == "local":
        from safe2real.engines.local import local

        return local(jobs, compiled=compiled)
    if name == "dask":
        from safe2real.engines.dask import dask

        return dask(jobs, address)
    from safe2real.engines.ray import ray

    return ray(jobs, address)
