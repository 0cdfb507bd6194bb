"""A real PostgreSQL, started once for a run of the tests: a database of one's own for whoever asks.

It runs Debian's programs in a temporary folder, over a Unix socket alone, and keeps nothing. Whoever
uses it holds a lock of the kernel on a file of that folder; its keeper ends it as soon as nobody
does, also when a run was cut short. Where PostgreSQL is not installed, tests that want it are skipped;
with `DOUANE_TEST_STORAGE=postgres` they fail.
"""

import contextlib
import fcntl
import itertools
import os
import pwd
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.remembered import KEPT_IN

ROOT = Path(__file__).parent.parent
ABSENT = "PostgreSQL is not installed: apt-get install postgresql"
QUICK: Mapping[str, str] = {"fsync": "off", "full_page_writes": "off"}
"""Settings of a server whose power nobody cuts; `{}` is one that keeps its word."""
PATIENT = "&connect_timeout=30"
"""Many tests at once ask the server that they share, which may be slow to answer and is never gone."""
_NUMBERS = itertools.count()
_USERS = "users"


class Postgres:
    """A running server, and the role of a superuser in it."""

    def __init__(self, folder: Path, *, settings: str = "") -> None:
        self.folder = folder
        self._settings = settings

    def fresh(self, *, template: str = "template1") -> str:
        """Return the address of a new database: empty, or a copy of `template`."""
        name = f"t{os.getpid()}_{next(_NUMBERS)}"
        self.run(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        return self.address(name)

    def run(self, statement: str) -> None:
        with psycopg.connect(self.address("postgres"), autocommit=True) as connection:
            connection.execute(statement.encode())

    def address(self, database: str) -> str:
        return f"postgresql://postgres@/{database}?host={self.folder}{self._settings}"

    def control(self, *words: str | Path) -> None:
        """Ask `pg_ctl` for something, as the user whose server it is, and wait until it is so."""
        ran(program("pg_ctl"), "-D", self.folder / "data", "-w", "-t", "120", *words)


def shared() -> Postgres:
    """Return the server of this run, started by whoever is first, until the end of this process."""
    require()
    told = Path(os.environ[KEPT_IN]) / "postgres"
    with told.with_suffix(".asked").open("wb") as asked:
        fcntl.flock(asked, fcntl.LOCK_EX)
        folder = Path(told.read_text()) if told.exists() else None
        if folder is None or not _used(folder):
            folder = _kept()
            told.write_text(str(folder))
    return Postgres(folder, settings=PATIENT)


@contextlib.contextmanager
def running(folder: Path, settings: Mapping[str, str]) -> Iterator[Postgres]:
    """Run a server in `folder` until the end of the block."""
    give_to_owner(folder)
    _lay_out(folder / "data")
    with started(folder, settings) as server:
        yield server


@contextlib.contextmanager
def standing_by(primary: Postgres, folder: Path, settings: Mapping[str, str]) -> Iterator[Postgres]:
    """Run a standby of `primary` in `folder`."""
    give_to_owner(folder)
    ran(
        *(program("pg_basebackup"), "-D", folder / "data", "-R", "-c", "fast", "-N"),
        *("-h", primary.folder, "-U", "postgres"),
    )
    with started(folder, settings) as server:
        yield server


@contextlib.contextmanager
def started(folder: Path, settings: Mapping[str, str]) -> Iterator[Postgres]:
    """Run a server whose data are in `folder` already."""
    server = Postgres(folder)
    given = {
        "listen_addresses": "",
        "unix_socket_directories": str(folder),
        "unix_socket_permissions": "0700",
        "shared_buffers": "32MB",
        "max_connections": "600",  # some 25 for each gateway, of which each worker shares several
        **settings,
    }
    words = shlex.join(word for name, to in given.items() for word in ("-c", f"{name}={to}"))
    server.control("start", "-l", folder / "log", "-o", words)
    try:
        yield server
    finally:
        if (folder / "data" / "postmaster.pid").exists():  # a test may have ended it
            server.control("stop", "-m", "immediate")


@contextlib.contextmanager
def own(settings: Mapping[str, str]) -> Iterator[Postgres]:
    """Run a server of a test's own, for what would disturb others; it is skipped or fails likewise."""
    require()
    with (
        tempfile.TemporaryDirectory(prefix="douane-postgres-") as folder,
        running(Path(folder), settings) as server,
    ):
        yield server


def give_to_owner(folder: Path) -> None:
    """Let the server's programs write into a folder."""
    owner = _owner()
    os.chown(folder, owner.pw_uid, owner.pw_gid)


def is_installed() -> bool:
    """Whether there is a PostgreSQL to run."""
    return bool(_programs())


def require() -> None:
    """Skip, or fail, where PostgreSQL is not installed."""
    if not is_installed():
        required = os.environ.get("DOUANE_TEST_STORAGE") == "postgres"
        (pytest.fail if required else pytest.skip)(ABSENT)


def as_owner() -> Mapping[str, Any]:
    """Return with what a program is started: none of a server's runs as root."""
    if os.geteuid() != 0:
        return {}
    owner = _owner()
    return {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}


def ran(*words: str | Path) -> None:
    """Run one of its programs."""
    subprocess.run(
        words,
        check=True,
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        **as_owner(),
    )


def _lay_out(data: Path) -> None:
    """Make the files of an empty server: a copy of the first that was made in this run.

    To make them takes a second of a processor, and to copy them a third of it. Outside of a run nothing
    is kept. What is copied has one number of a system, which nobody here goes by.
    """
    if (folder := os.environ.get(KEPT_IN)) is None:
        _make(data)
        return
    made = Path(folder) / "cluster"
    with made.with_suffix(".asked").open("wb") as asked:
        fcntl.flock(asked, fcntl.LOCK_EX)
        if not made.exists():
            _make(data)
            _copy(data, made.with_suffix(".new"))
            made.with_suffix(".new").rename(made)
            return
    _copy(made, data)


def _make(data: Path) -> None:
    words = ("-A", "trust", "-U", "postgres", "--no-locale", "-E", "UTF8", "-N")
    ran(program("initdb"), "-D", data, *words)


def _copy(folder: Path, to: Path) -> None:
    """Copy a folder with whose each file is, and who may read it."""
    subprocess.run(["cp", "-a", folder, to], check=True)


def _owner() -> pwd.struct_passwd:
    return pwd.getpwnam("postgres") if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())


def _programs() -> Sequence[Path]:
    """Return where each installed PostgreSQL has its programs, the newest last."""
    found = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    return sorted((one.parent for one in found), key=lambda at: int(at.parent.name))


def program(name: str) -> Path:
    """Return where one of its programs is."""
    return _programs()[-1] / name


def _used(folder: Path) -> bool:
    """Use the server of `folder` from now on, unless its keeper has ended it or is about to."""
    try:
        users = os.open(folder / _USERS, os.O_RDONLY)  # until this process ends
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(users, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(users)
        return False
    return True


def _kept() -> Path:
    """Start a server with a keeper, and return its folder."""
    folder = Path(tempfile.mkdtemp(prefix="douane-postgres-"))
    (folder / _USERS).touch()
    assert _used(folder)
    keeper: Sequence[str | Path] = [sys.executable, "-m", "tests.postgres", folder]
    # A child of nobody's: it outlives whoever was first, and nobody waits for it.
    with subprocess.Popen(
        ["sh", "-c", '"$@" &', "sh", *keeper],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as begun:
        assert begun.stdout is not None
        assert begun.stdout.readline() == b"ready\n", "PostgreSQL did not start"
    return folder


def _keep(folder: Path) -> None:
    try:
        with running(folder, QUICK), (folder / _USERS).open("rb") as users:
            os.write(1, b"ready\n")
            os.close(1)  # nobody reads on
            fcntl.flock(users, fcntl.LOCK_EX)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    _keep(Path(sys.argv[1]))
