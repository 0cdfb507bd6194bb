"""Which storage the gateways of tests stand on: SQLite, or PostgreSQL with `DOUANE_TEST_STORAGE=postgres`.

Each gateway gets a database of its own in the PostgreSQL of the run, a copy of one whose tables are made
once; the next gateway in its folder goes on with it. What is about SQLite itself is left out there, and
what is refused over PostgreSQL: each by a reason of `MOST`, which says how many tests may have it.
"""

import contextlib
import functools
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest
from psycopg.errors import DuplicateObject, UniqueViolation

from gateway.ports import Clock
from gateway.storage.beside import waiting_in
from gateway.storage.database import DATABASE
from gateway.storage.identity.store import IdentityStores
from gateway.storage.kek import new_key
from gateway.storage.postgres.base import made
from gateway.storage.postgres.identity import open_identity
from gateway.storage.postgres.reading import PostgresLogReader
from gateway.storage.reader import AuditReader, CountingReader
from tests.postgres import shared

SHARED: Final = os.environ.get("DOUANE_TEST_STORAGE") == "postgres"
LEFT_OUT: Final = "not over PostgreSQL: "
FILES: Final = "it is about files of SQLite's"
PLANES: Final = "planes are refused there"
SPOOL: Final = "a spool is refused there"
COMMANDS: Final = "servers with a `command` are refused there"
CLOCK: Final = "the time is PostgreSQL's there, and cannot be moved"
ROAD: Final = "what a call passes through is counted over SQLite"
MOST: Final[Mapping[str, int]] = {
    FILES: 40,
    PLANES: 400,
    SPOOL: 12,
    COMMANDS: 40,
    CLOCK: 4,
    ROAD: 4,
}
"""For each reason, how many tests may be left out by it: a bound, so that no change leaves out the rest."""

_ADDRESS: Final = "database"
_ROLE: Final = "douane_gateway"
"""Whom gateways connect as: not who owns the tables."""
_AS_GATEWAY: Final = "database_of_gateway"
_KEY: Final = "kek"
_copied: dict[Path, str] = {}
"""By folder, the databases that this process has made."""


def only(reason: str) -> pytest.MarkDecorator:
    """Mark a test, or with `pytestmark` a module, that is about SQLite alone."""
    assert reason in MOST
    return pytest.mark.skipif(SHARED, reason=LEFT_OUT + reason)


def left_out_if_shared(reason: str) -> None:
    """End a test, or the fixture of several, that cannot be over PostgreSQL."""
    if SHARED:
        pytest.skip(LEFT_OUT + reason)


def chosen(
    folder: Path, servers: Mapping[str, Mapping[str, Any]], given: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the settings of a gateway in `folder`, over the storage that the tests stand on.

    What cannot be had there leaves the test out.
    """
    if not SHARED or "storage" in given:
        return given
    audit = dict(given.get("audit", {}))
    refused = {
        PLANES: "planes" in given,
        SPOOL: audit.get("on_failure") == "spool",
        COMMANDS: any("command" in server for server in servers.values()),
    }
    for reason in (one for one, is_so in refused.items() if is_so):
        left_out_if_shared(reason)
    database_of(folder)
    storage = {"kind": "postgres", "url": f"file:{folder / _AS_GATEWAY}"}
    if "durability" in audit:
        storage["durability"] = audit.pop("durability")
    key = {"key_encryption_key": f"file:{folder / _KEY}"}
    return {**given, "storage": storage, "audit": audit, "auth": {**key, **given.get("auth", {})}}


def database_of(folder: Path) -> str:
    """Return the address of the database of the gateway in `folder`, which is made at first."""
    written = folder / _ADDRESS
    if not written.exists():
        _forget_what_is_over()
        address = shared().fresh(template=_template())
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute(
                "UPDATE meta SET value = 'douane/' || left(md5(random()::text), 16)"
                " WHERE key = 'log_id'"
            )
        own = address.replace("//postgres@", f"//{_ROLE}@")
        files = ((folder / _KEY, new_key()), (folder / _AS_GATEWAY, own), (written, address))
        for path, text in files:
            path.touch(mode=0o600)
            path.write_text(text)
        _copied[folder] = address
    return written.read_text()


@contextmanager
def log_in(folder: Path) -> Iterator[CountingReader]:
    """Read the log of the gateway in `folder`, whichever storage it has."""
    with closing(_reader(folder)) as reader:
        yield reader


def taken_up(folder: Path) -> bool:
    """Say whether all that was acknowledged there is in the log."""
    if not (folder / _ADDRESS).exists():
        return not waiting_in(folder / "data")
    with psycopg.connect(database_of(folder), autocommit=True) as connection:
        return connection.execute("SELECT lag_1()").fetchone() == (0.0,)


def identity_in(folder: Path, *, clock: Clock) -> IdentityStores:
    """Open the people and clients of the gateway in `folder`, beside it."""
    if not SHARED:
        return IdentityStores.open(folder / "data", clock=clock)
    return open_identity(database_of(folder), clock=clock)


def _reader(folder: Path) -> CountingReader:
    if not (folder / _ADDRESS).exists():
        return AuditReader.open(folder / "data" / DATABASE)

    return PostgresLogReader.open(database_of(folder))


@functools.cache
def _template() -> str:
    address = shared().fresh()
    with contextlib.suppress(DuplicateObject, UniqueViolation):  # another worker was first
        shared().run(f"CREATE ROLE {_ROLE} LOGIN")
    made(address, admit=_ROLE, keeps=True)
    return address.partition("@/")[2].partition("?")[0]


def _forget_what_is_over() -> None:
    """Drop the databases of tests that have passed: their folders are gone."""
    for folder in [one for one in _copied if not one.exists()]:
        name = _copied.pop(folder).partition("@/")[2].partition("?")[0]
        shared().run(f'DROP DATABASE "{name}" WITH (FORCE)')


class Counted:
    """Counts what a run leaves out, by reason; the run fails if that is more than `MOST` says."""

    def __init__(self) -> None:
        self.left_out: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        told = report.longrepr
        if report.skipped and isinstance(told, tuple) and LEFT_OUT in told[2]:
            self.left_out[told[2].partition(LEFT_OUT)[2]] += 1

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.problems:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for reason, number in sorted(self.left_out.items()):
            terminalreporter.write_line(f"left out, {LEFT_OUT}{reason}: {number}")
        for problem in self.problems:
            terminalreporter.write_line(problem, red=True)

    @property
    def problems(self) -> list[str]:
        """Say where more is left out than may be."""
        return [
            f"{number} tests are left out as {reason}: at most {MOST.get(reason, 0)} may be"
            for reason, number in self.left_out.items()
            if number > MOST.get(reason, 0)
        ]
