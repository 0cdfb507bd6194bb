"""The one who orders: what lies in the tray comes into the log, the tree grows, checkpoints are signed.

Many may stand ready; who leads has a lease, for liveness alone. What keeps the log right is that each
change is made only where the tree's size and its token are still what the leader read.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, Final

import psycopg
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gateway.audit.checkpoint import BadCheckpoint, VerifierKey, open_checkpoint, sign_checkpoint
from gateway.audit.links import NOTHING, Signed, sign_link
from gateway.audit.tiles import TiledTree
from gateway.domain._value import value
from gateway.domain.trouble import Trouble
from gateway.errors import ConfigError
from gateway.storage.postgres.arrays import Numbers, Octets, use_arrays
from gateway.storage.postgres.connection import Connection, connect
from gateway.storage.postgres.order import Waiting, in_order
from gateway.storage.postgres.reading import Reading
from gateway.storage.reader import LogReader
from gateway.storage.tree import load_tree, tree_at

logger = logging.getLogger(__name__)

_MOST: Final = 2048
"""Records of a lane that are looked at in one step."""

_WAITING: Final = r"""
SELECT l.lane, t.n, t.put_at, sha256('\x00'::bytea || t.body)
FROM lanes AS l CROSS JOIN LATERAL (
    SELECT n, put_at, body FROM tray WHERE lane = l.lane AND n > l.taken ORDER BY n LIMIT %s) AS t
WHERE NOT l.closed
"""
_LAG: Final = """
SELECT coalesce(extract(epoch FROM clock_timestamp() - min(t.put_at)), 0)::double precision
FROM lanes AS l CROSS JOIN LATERAL (
    SELECT put_at FROM tray WHERE lane = l.lane AND n > l.taken ORDER BY n LIMIT 1) AS t
WHERE NOT l.closed
"""


class Fenced(Exception):
    """Somebody else leads by now; nothing was changed."""


@value
class Pace:
    """How often things are done, in seconds."""

    step: float = 0.05
    sign: float = 0.5
    keep: float = 1.0
    """The lease is renewed, and lanes are closed whose connection is gone."""
    lease: float = 3.0
    """After so long without a sign of life of the leader another one leads."""
    stand: float = 0.5
    """Who stands ready waits at the server for so long at a time: it tells at once that nobody leads."""
    again: float = 0.25
    """A server that does not answer is tried again: by every replica, while it recovers."""
    turn: float = 60.0
    """The next part of the tray is filled: longer than anybody waits to learn what is durable."""


class Leader:
    """Leads on a connection of its own, until it is fenced."""

    def __init__(
        self, connection: Connection, token: int, *, key: Ed25519PrivateKey, lease_s: float
    ) -> None:
        """Take up the tree where it is; see `lead`.

        Raises:
            ConfigError: The log does not match its newest checkpoint.

        """
        use_arrays(connection.adapters)
        self._connection = connection
        self._token = token
        self._key = key
        self._lease_s = lease_s
        reading = Reading(connection)
        self._log_id = LogReader(reading).log_id
        self.tree: TiledTree = load_tree(reading)
        self._newest = self._verified()
        self._make_room()

    def step(self) -> int:
        """Take in what is there; return how many records that were.

        Raises:
            Fenced: Somebody else leads.

        """
        rows = self._connection.execute(_WAITING, (_MOST,)).fetchall()
        waiting = [Waiting(lane=lane, n=n, put_at=at, leaf=leaf) for lane, n, at, leaf in rows]
        taken = in_order(waiting, most=_MOST)
        if not taken:
            return 0
        grown, tiles = self.tree.extend([one.leaf for one in taken])
        self._change(
            "SELECT take_in_1(%s::bigint, %s::bigint, %s::integer[], %s, %s)",
            self.tree.size,
            Numbers(one.lane for one in taken),
            Numbers(one.n for one in taken),
            Octets(tiles),
        )
        self.tree = grown
        return len(taken)

    def sign(self) -> None:
        """Sign the tree as it is. What a checkpoint vouches for is flushed with it, or was before.

        Raises:
            Fenced: Somebody else leads.

        """
        if self._newest.size == self.tree.size:
            return
        head = sign_checkpoint(self._log_id, self.tree.size, self.tree.root(), self._key)
        signed = Signed(size=head.size, note=head.note)
        link = sign_link(self._log_id, self._newest, signed, self._key)
        self._change(
            "SELECT sign_1(%s::bigint, %s::bigint, %s, %s::bigint, %s)",
            head.size,
            head.note,
            self._newest.size,
            link,
        )
        self._newest = signed

    def keep(self) -> None:
        """Show that it is alive, and close lanes of which nothing can come any more.

        Raises:
            Fenced: Somebody else leads.

        """
        self._change("SELECT keep_1(%s::bigint, %s)", self._lease_s)
        self._make_room()
        self._connection.execute("SELECT close_lanes_1(%s::bigint)", (self._token,))

    def turn(self) -> bool:
        """Have the next part of the tray filled, if the oldest one can be emptied now."""
        try:
            row = self._connection.execute(
                "SELECT turn_tray_1(%s::bigint)", (self._token,)
            ).fetchone()
        except psycopg.errors.LockNotAvailable:
            return False  # somebody still writes into it: the next time
        return row == (True,)

    def lag_s(self) -> float:
        """Return for how long the oldest record waits that is durable and not in the log."""
        row = self._connection.execute(_LAG).fetchone()
        return 0.0 if row is None else float(row[0])

    def _make_room(self) -> None:
        self._connection.execute("SELECT make_room_1()")

    def _change(self, statement: str, *given: Any) -> None:
        row = self._connection.execute(statement.encode(), (self._token, *given)).fetchone()
        if row != (True,):
            raise Fenced

    def _verified(self) -> Signed:
        """Return the newest checkpoint, once the log is found to be what it vouches for."""
        reading = Reading(self._connection)
        newest = LogReader(reading).checkpoint()
        if newest is None:
            return NOTHING
        size, note = newest
        try:
            head = open_checkpoint(note, VerifierKey.of(self._log_id, self._key))
        except BadCheckpoint as error:
            raise _unlike_its_checkpoint(str(error)) from error
        if size != head.size or size > self.tree.size:
            raise _unlike_its_checkpoint(
                f"{head.size} records were signed, but there are {self.tree.size}"
            )
        if tree_at(reading, size).root() != head.root:
            raise _unlike_its_checkpoint(f"the first {size} records were changed")
        return Signed(size=size, note=note)


def _unlike_its_checkpoint(why: str) -> ConfigError:
    return ConfigError(
        "the audit log in PostgreSQL does not match its own checkpoint, so nothing is added to it",
        problems=[why],
    )


def lead(
    connection: Connection,
    name: str,
    *,
    key: Ed25519PrivateKey,
    lease_s: float,
    wait_s: float = 0.0,
) -> Leader | None:
    """Return the leader that `connection` is from now on; `None` if another one is alive for `wait_s`."""
    given = (name, lease_s, wait_s)
    row = connection.execute(
        "SELECT lead_1(%s, %s::double precision, %s::double precision)", given
    ).fetchone()
    if row is None or row[0] is None:
        return None
    return Leader(connection, row[0], key=key, lease_s=lease_s)


class Sequencer:
    """Stands ready, and leads when nobody else does, in a thread of its own."""

    def __init__(
        self, conninfo: str, name: str, *, key: Ed25519PrivateKey, pace: Pace | None = None
    ) -> None:
        self._conninfo = conninfo
        self._name = name
        self._key = key
        self._pace = pace or Pace()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, name="douane-sequencer", daemon=True)
        self.leads = False
        self.lag_s = 0.0
        """For how long the oldest record waited that was not in the log, when it was last looked at."""
        self.problem = ""
        """Why the last attempt failed; empty if it did not."""
        self._trouble = Trouble()

    def start(self) -> None:
        """Begin to stand ready."""
        self._thread.start()

    def close(self) -> None:
        """Take in and sign what is there, if it leads, and end."""
        self._ended.set()
        self._thread.join()

    def _work(self) -> None:
        while not self._ended.is_set():
            try:
                with connect(self._conninfo, application=f"douane log {self._name}") as connection:
                    self._stand_ready(connection)
            except Fenced:
                logger.info("another replica orders the log from now on")
            except (psycopg.Error, ConfigError) as error:
                self.problem = str(error)
                if self._trouble.is_new(self.problem):
                    logger.warning("the log is not ordered here now: %s", error)
            except Exception as error:
                self.problem = repr(error)
                if self._trouble.is_new(self.problem):
                    logger.exception("ordering the log met a bug")
            self.leads = False
            self._ended.wait(self._pace.again if self.problem else self._pace.step)

    def _stand_ready(self, connection: Connection) -> None:
        while not self._ended.is_set():
            leader = lead(
                connection,
                self._name,
                key=self._key,
                lease_s=self._pace.lease,
                wait_s=self._pace.stand,
            )
            self.problem = ""
            if leader is None:
                self._trouble.is_new("")
            else:
                self._lead(leader)
            self._ended.wait(self._pace.step)

    def _lead(self, leader: Leader) -> None:
        self.leads = True
        due = {"sign": 0.0, "keep": time.monotonic() + self._pace.keep}
        due["turn"] = time.monotonic() + self._pace.turn
        while not self._ended.is_set():
            taken = leader.step()
            self._trouble.is_new("")
            for name, what in self._chores(leader):
                if time.monotonic() >= due[name]:
                    what()
                    due[name] = time.monotonic() + getattr(self._pace, name)
            if taken < _MOST:
                self._ended.wait(self._pace.step)
        leader.step()
        leader.sign()

    def _chores(self, leader: Leader) -> tuple[tuple[str, Callable[[], object]], ...]:
        def keep() -> None:
            leader.keep()
            self.lag_s = leader.lag_s()

        return ("sign", leader.sign), ("keep", keep), ("turn", leader.turn)
