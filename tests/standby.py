"""A real primary of PostgreSQL with a real standby that streams from it, and what happens between them."""

import contextlib
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from tests.postgres import Postgres, own, standing_by

PATIENCE_S = 60.0
_END_WAITING = (
    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
)
_STREAMS = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'"


class Replicated:
    """A primary, its standby, and an address that finds whichever of them takes writes."""

    def __init__(self, primary: Postgres, standby: Postgres) -> None:
        self.primary, self.standby = primary, standby

    def address(self, database: str) -> str:
        return (
            f"postgresql://postgres@/{database}?host={self.primary.folder},{self.standby.folder}"
            "&connect_timeout=2"
        )

    def names(self, said: str) -> None:
        """Have commits wait for these standbys; for none, if none is named."""
        self.primary.run(f"ALTER SYSTEM SET synchronous_standby_names = '{said}'")
        self.primary.run("SELECT pg_reload_conf()")
        _until(lambda: self._asked("SHOW synchronous_standby_names") == said)

    @contextmanager
    def cut(self) -> Iterator[None]:
        """Have the primary send nothing to the standby meanwhile."""
        with psycopg.connect(self.primary.address("postgres"), autocommit=True) as connection:
            rows = connection.execute("SELECT pid FROM pg_stat_replication").fetchall()
        for (pid,) in rows:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for (pid,) in rows:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def ended_waiting(self) -> bool:
        """End whoever waits for the standby's word, and say whether anybody did."""
        return bool(self._asked(_END_WAITING))

    def fail_over(self) -> None:
        """End the primary without warning, and have the standby take its place, with what it has."""
        self.primary.control("stop", "-m", "immediate")
        self.standby.control("promote")

    def streams(self) -> None:
        """Return once the standby has all that the primary has."""
        _until(lambda: self._asked(_STREAMS) == 1)

    def _asked(self, statement: str) -> object:
        with psycopg.connect(self.primary.address("postgres"), autocommit=True) as connection:
            row = connection.execute(statement.encode()).fetchone()
        return row and row[0]


@contextmanager
def replicated() -> Iterator[Replicated]:
    """Run both until the end of the block; commits wait for no standby yet."""
    with (
        own({}) as primary,
        tempfile.TemporaryDirectory(prefix="douane-standby-") as folder,
        standing_by(primary, Path(folder), {"hot_standby": "on"}) as standby,
    ):
        found = Replicated(primary, standby)
        found.streams()
        yield found


def _until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)
