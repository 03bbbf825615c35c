"""Connections to a PostgreSQL server that may be slow, gone, or on the far side of a network that has died.

Every wait has an end. The server ends a transaction that holds the campaign's lock and does nothing (its process was
stopped, or its machine is gone), so the others wait for a bounded time. A client whose packets vanish gives up by itself:
the kernel's timers see a dead peer, and every wait for an answer has an end of its own, for the case that something in
between still acknowledges packets. Times that the user gives are kept: in the URL (`?connect_timeout=5`,
`?options=-cstatement_timeout%3D10s`) or in the server's settings.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any

import sqlalchemy as sql
from sqlalchemy.exc import DisconnectionError

from safe2real.errors import InvalidInput

# In seconds. A lock is waited for longer than an idle holder keeps it, and an answer longer than any statement may take.
HOLDER_IDLE = 40.0
STATEMENT = 70.0
ANSWER = 80.0
SIGN_OF_LIFE = 10.0  # of a connection that was idle, before it is used
# Of the kernel and the driver; parameters of libpq, tcp_user_timeout in milliseconds.
CONNECTION = {
    "connect_timeout": 10,
    "keepalives": 1,
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}


def postgresql_engine(url: sql.URL, place: str, *, lock_patience: float) -> sql.Engine:
    """`lock_patience` is how many seconds to wait for another writer."""
    given = {name: value for name, value in CONNECTION.items() if name not in url.query}
    try:
        # READ COMMITTED, whatever the server's default: a writer must see what was written while it waited for the
        # lock.
        engine = sql.create_engine(url, isolation_level="READ COMMITTED", connect_args=given)
    except ImportError as error:
        raise InvalidInput(
            f"{place} needs the driver of PostgreSQL ({error}): pip install 'safe2real[postgresql]'"
        ) from error

    @sql.event.listens_for(engine, "do_connect")
    def _connect(dialect: Any, _: Any, arguments: Any, parameters: Any) -> Any:
        return _bounded_connection(dialect.dbapi).connect(*arguments, **parameters)

    @sql.event.listens_for(engine, "connect")
    def _prepare(connection: Any, _: Any) -> None:
        # Idle readers block no other process; for writers see `bound_idleness`.
        with connection.cursor() as cursor:
            for name, seconds in (("lock_timeout", lock_patience), ("statement_timeout", STATEMENT)):
                cursor.execute("SELECT current_setting(%s)", (name,))
                if cursor.fetchone() == ("0",):
                    cursor.execute(f"SET {name} = '{seconds * 1000:.0f}ms'")
            # Off, the server would answer before a write is on its disk. All other values wait for it, and stay.
            cursor.execute("SELECT current_setting('synchronous_commit')")
            if cursor.fetchone() == ("off",):
                cursor.execute("SET synchronous_commit = on")
        connection.commit()

    @sql.event.listens_for(engine, "checkout")
    def _try(connection: Any, _: Any, __: Any) -> None:
        """Connections are tried before they are used, so a campaign outlives a restart of the server."""
        connection.patience = SIGN_OF_LIFE
        try:
            connection.execute("SELECT 1")
            connection.rollback()
        except connection.driver.Error as error:
            raise DisconnectionError from error  # the pool makes a new one
        connection.patience = None

    return engine


def bound_idleness(connection: sql.Connection) -> None:
    """For the transaction that is to hold the campaign's lock: it may not sit on it."""
    (given,) = connection.exec_driver_sql("SELECT current_setting('idle_in_transaction_session_timeout')").one()
    if given == "0":
        connection.exec_driver_sql(f"SET LOCAL idle_in_transaction_session_timeout = '{HOLDER_IDLE * 1000:.0f}ms'")


def _bounded_connection(driver: Any) -> Any:
    """The driver's connection, whose waits for an answer end after ANSWER seconds."""

    class Bounded(driver.Connection):  # type: ignore[misc]
        patience: float | None = None  # seconds; ANSWER if None

        def wait(self, generator: Any, *arguments: Any, **named: Any) -> Any:
            return super().wait(self._bounded(generator), *arguments, **named)

        def _bounded(self, generator: Any) -> Generator[Any, Any, Any]:
            """The driver's generator, which is also resumed while nothing comes, with an end."""
            seconds = ANSWER if self.patience is None else self.patience
            deadline = time.monotonic() + seconds
            try:
                wanted = next(generator)
                while True:
                    ready = yield wanted
                    if not ready and time.monotonic() > deadline:
                        self.pgconn.finish()  # so that no later call waits on it, not even a rollback
                        raise driver.OperationalError(f"no answer on this connection for {seconds:.0f} s")
                    wanted = generator.send(ready)
            except StopIteration as end:
                return end.value

    Bounded.driver = driver
    return Bounded
