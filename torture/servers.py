"""A PostgreSQL server of our own, and a network in front of it that can die."""

from __future__ import annotations

import glob
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any


class NoServer(Exception):
    """There is no PostgreSQL here that could be started; the message says why."""


class Server:
    """A PostgreSQL server of our own in a temporary folder, with its durability as it comes (fsync on)."""

    def __init__(self, programs: Path, folder: Path, user: str | None) -> None:
        self._programs, self._folder, self._user = programs, folder, user
        self._data, self.port, self._places = folder / "data", 0, 0
        self._call("initdb", "-D", self._data, "-U", "safe2real", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")

    def start(self) -> None:
        for _ in range(5):
            if self.port == 0:
                with socket.socket() as free:
                    free.bind(("127.0.0.1", 0))
                    self.port = free.getsockname()[1]
            options = f"-p {self.port} -c listen_addresses=127.0.0.1 -k {self._folder}"
            try:
                self._call("pg_ctl", "-D", self._data, "-l", self._folder / "log", "-w", "-o", options, "start")
            except subprocess.CalledProcessError:
                self.port = 0  # somebody was faster
            else:
                return
        raise AssertionError((self._folder / "log").read_text())

    def stop(self, mode: str = "fast") -> None:
        """The mode `immediate` is a crash: nothing is written any more, the log is replayed at the next start."""
        self._call("pg_ctl", "-D", self._data, "-w", "-m", mode, "stop")

    def url(self, database: str, **parameters: str) -> str:
        settings = "%20".join(f"-c{name}%3D{value}" for name, value in parameters.items())
        return f"postgresql://safe2real@127.0.0.1:{self.port}/{database}" + (f"?options={settings}" if settings else "")

    def new_database(self) -> str:
        return self._new("DATABASE")

    def new_place(self, **parameters: str) -> str:
        """The URL of an empty schema: a database each would make the server's restarts take several seconds."""
        return self.url("postgres", search_path=self._new("SCHEMA"), **parameters)

    def _new(self, kind: str) -> str:
        self._places += 1
        self.execute("postgres", f"CREATE {kind} campaign{self._places}")
        return f"campaign{self._places}"

    def execute(self, database: str, statement: str) -> list[Any]:
        import psycopg  # here, because there may be none

        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def _call(self, program: str, *arguments: object) -> None:
        command = [str(self._programs / program), *map(str, arguments)]
        # pg_ctl hands its output on to the server, which would keep a pipe open for ever.
        where: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
        if self._user is not None:
            entry = pwd.getpwnam(self._user)
            where |= {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
        environment = {"PATH": os.environ["PATH"], "LC_ALL": "C"}
        subprocess.run(command, check=True, timeout=120, cwd=self._folder, env=environment, **where)


@contextmanager
def running_server() -> Iterator[Server]:
    """A server in a temporary folder, which is gone afterwards."""
    try:
        import psycopg  # noqa: F401
    except ImportError as error:
        raise NoServer("psycopg is not installed: pip install 'safe2real[postgresql]'") from error
    found = [shutil.which("initdb"), *sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"), reverse=True)]
    programs = next((Path(path).resolve().parent for path in found if path), None)
    if programs is None or not (programs / "pg_ctl").exists():
        raise NoServer("no PostgreSQL server is installed here: apt install postgresql")
    user = None
    if os.geteuid() == 0:  # PostgreSQL refuses to run as root
        user = next((name for name in ("postgres", "nobody") if name in {entry.pw_name for entry in pwd.getpwall()}), None)
        if user is None:
            raise NoServer("PostgreSQL does not run as root, and there is no user postgres or nobody")
    folder = Path(tempfile.mkdtemp(prefix="safe2real-postgresql-"))
    try:
        if user is not None:
            shutil.chown(folder, user)
        server = Server(programs, folder, user)
        server.start()
        yield server
        server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Network:
    """A proxy on loopback. When it is `cut`, bytes vanish and nobody is told, as behind a dead router."""

    def __init__(self, port: int) -> None:
        self._target, self._sockets = port, list[socket.socket]()
        self._cut, self._deaf = threading.Event(), threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        self._cut.set()

    def deaf(self) -> None:
        """What the client says still arrives; answers do not."""
        self._deaf.set()

    def mend(self) -> None:
        """For new connections; what was lost stays lost."""
        self._cut.clear()
        self._deaf.clear()

    def close(self) -> None:
        for one in (self._listener, *self._sockets):
            one.close()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
                self._sockets += [client, server]
                dead = threading.Event()
                for source, target in ((client, server), (server, client)):
                    threading.Thread(target=self._forward, args=(source, target, dead), daemon=True).start()

    def _forward(self, source: socket.socket, target: socket.socket, dead: threading.Event) -> None:
        with suppress(OSError):
            while content := source.recv(1 << 16):
                answers = target in self._sockets[::2]
                if self._cut.is_set() or (answers and self._deaf.is_set()):
                    dead.set()
                if not dead.is_set():
                    target.sendall(content)
            if not dead.is_set():  # neither is a goodbye heard any more
                target.close()
