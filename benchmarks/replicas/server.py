"""A PostgreSQL that is killed and comes back, and what it is asked of the log."""

import os
import signal
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import psycopg

from benchmarks.replicas.history import Log, Recorded
from gateway.storage.postgres.connection import connect
from tests import postgres
from tests.postgres import Postgres

DATABASE = "shared"
PATIENCE_S = 120.0
_SOCKET = ".s.PGSQL.5432"
_PPID = 1
_LEADER = (
    "SELECT a.usename FROM pg_stat_activity AS a JOIN tree AS t"
    " ON a.application_name = 'douane log ' || t.leader"
)
_LANES = "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'douane lane%' ORDER BY pid"
_LEFT = "SELECT count(*) FROM tray AS t JOIN lanes AS l USING (lane) WHERE t.n > l.taken"
_RECORDS = "SELECT leaf_index, body FROM audit ORDER BY leaf_index"
_SIGNED = "SELECT t.size, coalesce((SELECT max(size) FROM checkpoints), 0) FROM tree AS t"

Rows = Sequence[tuple[Any, ...]]


@dataclass(frozen=True, kw_only=True)
class Tree:
    """The log at one moment."""

    token: int = -1
    """Raised by whoever takes the lead."""
    size: int = -1


class Server:
    """One server of the report's own; each gateway has a user in it, by which its sessions are known."""

    def __init__(self, running: Postgres) -> None:
        self._running = running
        self.socket = running.folder / _SOCKET

    @property
    def address(self) -> str:
        return self._running.address(DATABASE)

    def fresh(self) -> str:
        """Return the address of another database, which is empty."""
        return self._running.fresh()

    def prepare(self, gateways: int) -> None:
        self._running.run(f'CREATE DATABASE "{DATABASE}"')
        for number in range(gateways):
            self._running.run(f"CREATE ROLE {user(number)} SUPERUSER LOGIN")

    def address_by(self, port: int, number: int) -> str:
        """Return the address that gateway `number` has, by way of its relay at `port`."""
        return f"postgresql://{user(number)}@127.0.0.1:{port}/{DATABASE}"

    @property
    def pid(self) -> int:
        lines = (self._running.folder / "data" / "postmaster.pid").read_text().splitlines()
        return int(lines[0])

    def kill(self) -> None:
        """Kill every process of it at once, as the end of its machine would, but for the disk."""
        root = self.pid
        os.kill(root, signal.SIGSTOP)  # it begins no more
        pids = (*_children(root), root)
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        patience = time.monotonic() + PATIENCE_S
        while any(map(_lives, pids)) and time.monotonic() < patience:
            time.sleep(0.01)
        # A process that is dead and was not waited for yet would be taken for one that lives.
        (self._running.folder / "data" / "postmaster.pid").unlink()
        (self._running.folder / f"{_SOCKET}.lock").unlink()

    def start(self) -> None:
        """Have it recover, and return once it answers."""
        self._running.control("restart", "-l", self._running.folder / "log")

    def kill_lane(self, choice: int) -> None:
        """Kill the process of one lane: the server ends all others, and recovers."""
        lanes = self.rows(_LANES)
        if lanes:
            with suppress(ProcessLookupError):
                os.kill(lanes[choice % len(lanes)][0], signal.SIGKILL)

    def leader(self) -> int | None:
        """Return the number of the gateway that orders the log; `None` if nobody does just now."""
        rows = self.rows(_LEADER)
        return int(rows[0][0].removeprefix("gateway")) if rows else None

    def tree(self) -> Tree:
        """Return what the log has grown to, and by whom; nothing, while nobody can say."""
        rows = self.rows("SELECT token, size FROM tree")
        return Tree(token=rows[0][0], size=rows[0][1]) if rows else Tree()

    def rows(self, statement: str) -> Rows:
        """Return what it says; nothing, while it does not answer."""
        try:
            with closing(connect(self.address, application="faults")) as asked:
                return asked.execute(statement.encode()).fetchall()
        except psycopg.Error:
            return ()

    def log(self) -> Log:
        """Return what it holds once all of it is in the tree and signed, or else after a while.

        Gateways that live record something by themselves now and then.
        """
        patience = time.monotonic() + PATIENCE_S
        while True:
            found = self._log()
            if (found.signed, found.left) == (found.size, 0) or time.monotonic() > patience:
                return found
            time.sleep(0.1)

    def _log(self) -> Log:
        """Return what it holds at one moment."""
        with closing(connect(self.address, application="faults")) as asked:
            asked.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            ((size, signed),) = asked.execute(_SIGNED).fetchall()
            ((left,),) = asked.execute(_LEFT).fetchall()
            rows = asked.execute(_RECORDS).fetchall()
        records = [_recorded(index, orjson.loads(bytes(body))) for index, body in rows]
        return Log(records=records, size=size, signed=signed, left=left)


def user(number: int) -> str:
    return f"gateway{number}"


@contextmanager
def server(gateways: int) -> Iterator[Server]:
    """Run one that keeps its word, in a folder of its own, until the end of the block."""
    postgres.require()
    settings = {"max_connections": str(40 + 25 * gateways)}
    with (
        tempfile.TemporaryDirectory(prefix="douane-faults-") as folder,
        postgres.running(Path(folder), settings) as one,
    ):
        made = Server(one)
        made.prepare(gateways)
        yield made


def _recorded(index: int, body: dict[str, Any]) -> Recorded:
    return Recorded(
        id=body["id"],
        kind=body["kind"],
        trace=body.get("trace_id") or "",
        decision=body.get("decision_id") or "",
        approval=body.get("approval_id") or "",
        code=body.get("code") or "",
        leaf_index=index,
    )


def _children(root: int) -> list[int]:
    pids = [int(one.name) for one in Path("/proc").iterdir() if one.name.isdecimal()]
    return [pid for pid in pids if _fields(pid)[_PPID : _PPID + 1] == [str(root)]]


def _lives(pid: int) -> bool:
    return _fields(pid)[:1] not in ([], ["Z"])


def _fields(pid: int) -> list[str]:
    """Return state, parent and what follows of a process (proc_pid_stat(5)); nothing once it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []
