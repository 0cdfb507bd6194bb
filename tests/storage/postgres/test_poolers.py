"""A pooler between gateways and PostgreSQL: by session it is one more hop, and any other is refused at once."""

import asyncio
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gateway.errors import ConfigError
from gateway.storage.postgres import connection
from gateway.storage.postgres.base import joinable
from gateway.storage.postgres.checking import findings
from gateway.storage.postgres.connection import Connection
from gateway.storage.postgres.moving import PostgresSource
from tests.postgres import Postgres, as_owner, give_to_owner
from tests.storage.postgres.shared import PATIENCE_S, record
from tests.storage.postgres.test_joining import joined

PROGRAM = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
INI = """
[databases]
* = host={server} user=postgres pool_mode={mode}
[pgbouncer]
listen_port = 6432
listen_addr =
unix_socket_dir = {folder}
auth_type = any
pool_mode = session
default_pool_size = 50
max_client_conn = 200
"""
installed = pytest.mark.skipif(PROGRAM is None, reason="PgBouncer is not installed")


@contextmanager
def pooling(server: Postgres, mode: str) -> Iterator[Path]:
    """Run a PgBouncer in front of a server; its folder is that of its socket."""
    with tempfile.TemporaryDirectory(prefix="douane-pooler-") as name:
        folder = Path(name)
        give_to_owner(folder)
        ini = folder / "pgbouncer.ini"
        ini.write_text(INI.format(server=server.folder, folder=folder, mode=mode))
        give_to_owner(ini)
        with subprocess.Popen(
            [str(PROGRAM), "--quiet", str(ini)], stdin=subprocess.DEVNULL, **as_owner()
        ) as pooler:
            try:
                _until_it_listens(folder / ".s.PGSQL.6432")
                yield folder
            finally:
                pooler.terminate()


def _until_it_listens(path: Path) -> None:
    patience = time.monotonic() + PATIENCE_S
    while True:
        with socket.socket(socket.AF_UNIX) as asked:
            if asked.connect_ex(str(path)) == 0:
                return
        assert time.monotonic() < patience
        time.sleep(0.01)


def through(folder: Path, server: Postgres) -> str:
    """Return the address of a new database, by way of a pooler."""
    address = server.fresh()
    return address.replace(f"host={server.folder}", f"host={folder}&port=6432")


@installed
async def test_by_session_gateways_and_their_log_are_as_without_it(
    postgres: Postgres, tmp_path: Path
) -> None:
    with pooling(postgres, "session") as folder:
        address = through(folder, postgres)
        async with joined(address, tmp_path / "a") as one, joined(address, tmp_path / "b") as other:
            for n in range(20):
                await (one, other)[n % 2].audit.append(record(f"e{n}"))
            await one.sign()
            assert one.log.verify(one.verifier).size == 20
        found = await asyncio.to_thread(lambda: list(findings(address)))
        assert [told.text for told in found if "pooler" in told.text] == []


@installed
@pytest.mark.parametrize("mode", ["transaction", "statement"])
def test_by_transaction_or_statement_nothing_begins(postgres: Postgres, mode: str) -> None:
    with pooling(postgres, mode) as folder:
        address = through(folder, postgres)
        with pytest.raises(ConfigError, match="a pool by session"):
            joinable(address)
        with pytest.raises(ConfigError, match="a pool by session"):
            PostgresSource.open(address)
        assert [told.text for told in findings(address) if "a pool by session" in told.text]


class Lent:
    """A connection whose statements are run by those sessions, one after the other."""

    def __init__(self, *pids: int) -> None:
        self._pids = iter(pids)

    def execute(self, _statement: bytes) -> Any:
        return SimpleNamespace(fetchall=lambda: [(next(self._pids),)])

    def transaction(self) -> AbstractContextManager[None]:
        return nullcontext()


def lent(one: Lent, other: Lent) -> bool:
    return connection._is_lent(cast("Connection", one), cast("Connection", other))


def test_one_session_for_two_connections_is_lent_out() -> None:
    assert lent(Lent(1, 1, 1), Lent(1))
    assert not lent(Lent(1, 1, 1), Lent(2))


def test_a_session_that_is_another_one_by_the_next_statement_is_lent_out() -> None:
    """As a pooler does that goes around; or that waits until one is free, while a transaction is open."""
    assert lent(Lent(1, 2, 1), Lent(3))
    assert lent(Lent(1, 1, 2), Lent(3))
