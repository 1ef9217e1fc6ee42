"""PostgreSQL as Debian packages it, in a cluster of its own; and PgBouncer before it, in transaction mode.

It does what a server does that loses nothing (`fsync`, `synchronous_commit` and `full_page_writes` are on).
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import ClassVar

from tests.servers.server import Server, program

USER = "postgres"
"""Neither of the two programs runs as root."""


def unprivileged(folder: Path) -> list[str]:
    """The words that run a command as somebody else, if need be; what is in the folder is then theirs."""
    if os.getuid():
        return []
    for path in (folder, *folder.rglob("*")):
        shutil.chown(path, USER, USER)
    return ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--init-groups"]


class PostgresServer(Server):
    """A cluster with one database, "perdure", which everybody on this machine may use."""

    name: ClassVar[str] = "PostgreSQL"
    package: ClassVar[str] = "apt-get install postgresql"
    settings: ClassVar[tuple[str, ...]] = (
        "fsync=on",
        "synchronous_commit=on",
        "full_page_writes=on",
        "max_connections=200",
        "shared_buffers=32MB",
        "logging_collector=off",
        "dynamic_shared_memory_type=mmap",  # in its folder: nothing is left elsewhere when it is killed
    )

    def prepare(self) -> None:
        initdb = self._program("initdb")
        command = [initdb, "--pgdata", self._data, "--username=perdure", "--auth=trust", "--encoding=UTF8"]
        command += ["--locale=C", "--no-sync", "--no-instructions"]
        subprocess.run([*unprivileged(self.folder), *command], check=True, stdout=subprocess.DEVNULL, cwd=self.folder)
        with (self._data / "pg_hba.conf").open("a") as rights:
            rights.write("host all all samenet trust\n")

    def _program(self, name: str) -> str:
        folders = sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin")), reverse=True)
        return program(PostgresServer, name, *folders)

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def command(self) -> list[str]:
        settings = [*self.settings, f"listen_addresses={self.host}", f"unix_socket_directories={self.folder}"]
        words = [word for setting in settings for word in ("-c", setting)]
        return [
            *unprivileged(self.folder),
            *(self._program("postgres"), "-D", str(self._data), "-p", str(self.port)),
            *words,
        ]

    def answers(self) -> bool:
        made = self.sql("SELECT 1 FROM pg_database WHERE datname = 'perdure'", database="postgres")
        return made == "1" or self.sql("CREATE DATABASE perdure", database="postgres") is not None

    def sql(self, statement: str, *, database: str = "perdure") -> str | None:
        """The first column of the first row as text; None: the server does not answer."""
        place = ["-h", str(self.folder), "-p", str(self.port), "-U", "perdure", "-d", database]
        command = [self._program("psql"), "-XqAt", "-v", "ON_ERROR_STOP=1", *place, "-c", statement]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return None if done.returncode else done.stdout.strip()

    def url(self, name: str, *, port: int | None = None) -> str:
        return f"postgresql://perdure@{self.host}:{port or self.port}/perdure?schema={name}"


class PoolerServer(Server):
    """PgBouncer: each transaction may run on another connection of the server than the one before."""

    name: ClassVar[str] = "PgBouncer"
    package: ClassVar[str] = "apt-get install pgbouncer"

    def __init__(self, server: PostgresServer) -> None:
        self.server = server
        super().__init__()

    def prepare(self) -> None:
        program(PoolerServer, "pgbouncer")
        (self.folder / "users.txt").write_text('"perdure" ""\n')
        (self.folder / "pgbouncer.ini").write_text(
            f"[databases]\n* = host={self.server.host} port={self.server.port}\n"
            f"[pgbouncer]\nlisten_addr = {self.host}\nlisten_port = {self.port}\nunix_socket_dir =\n"
            f"auth_type = trust\nauth_file = {self.folder}/users.txt\n"
            "pool_mode = transaction\ndefault_pool_size = 10\nmax_client_conn = 500\n"
        )

    def command(self) -> list[str]:
        return [*unprivileged(self.folder), program(PoolerServer, "pgbouncer"), str(self.folder / "pgbouncer.ini")]

    def answers(self) -> bool:
        place = ["-h", self.host, "-p", str(self.port), "-U", "perdure", "-d", "perdure"]
        command = [program(PoolerServer, "psql"), "-XqAt", *place, "-c", "SELECT 1"]
        return not subprocess.run(command, capture_output=True, check=False).returncode

    def url(self, name: str, *, port: int | None = None) -> str:
        return self.server.url(name, port=port or self.port)
