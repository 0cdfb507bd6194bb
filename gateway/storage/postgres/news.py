"""What other replicas have committed since a replica looked last."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from gateway.storage.postgres.clock import Told, untold
from gateway.storage.postgres.connection import Connection
from gateway.storage.postgres.jobs import COMMIT, LOOK
from gateway.storage.postgres.spelling import SpelledStatements, stored
from gateway.storage.state import Remembering

_KNOWN_S: Final = 30 * 60.0
"""Of a longer time nobody says what was new: it is half of what `forget_news_1` leaves."""
_FORGOTTEN_EVERY_S: Final = 600.0
_NOW: Final = b"SELECT pg_current_snapshot()::text"
_SERVER: Final = b", life_1(), extract(epoch FROM clock_timestamp())::double precision"
"""By what the server is known, and its clock: it says what is forgotten, and a machine may stand still."""
_OF_OTHERS: Final = b"""
FROM state_news AS n WHERE n.by_transaction >= pg_snapshot_xmin(%(seen)s::pg_snapshot)
    AND NOT pg_visible_in_snapshot(n.by_transaction, %(seen)s::pg_snapshot)
    AND n.by_transaction::text <> ALL (%(ours)s)
"""
_ANY: Final = _NOW + _SERVER + b", EXISTS (SELECT " + _OF_OTHERS + b")"
_NEW: Final = b"SELECT n.kept_in, n.key " + _OF_OTHERS

Shown = Sequence[Callable[[], object]]
"""What has memories show what was found, on the event loop."""


class News:
    """Of one replica; used by one thread at a time.

    What was seen is a snapshot of the server's, so a change is new until a look has it in sight, in
    whatever order changes were committed. Our own are not: memory has had them from whoever made them.
    """

    def __init__(self, told: Told = untold) -> None:
        """`told` is told what the server's clock says, at each look."""
        self._told = told
        self._seen = ""
        self._server = ""
        self._seen_at = 0.0
        """When that was, by the server's clock."""
        self._ours: set[str] = set()
        self._forgotten_at = time.monotonic()
        self.looked_at = time.monotonic()
        """When all that was committed was known, by `time.monotonic`."""

    def begin(self, connection: Connection) -> None:
        """Know what is committed by now: whoever is filled after it lacks nothing before it."""
        began = time.monotonic()
        ((self._seen, self._server, self._seen_at),) = connection.execute(_NOW + _SERVER).fetchall()
        self._told(self._seen_at, began, time.monotonic())
        self.looked_at = began

    def made(self, transaction: str) -> None:
        """Take note of a change of our own."""
        self._ours.add(transaction)

    def look(self, connection: Connection, followed: Sequence[Remembering]) -> Shown:
        """Return what memories are to be shown of what others have committed: nothing, mostly."""
        began = time.monotonic()
        ((seen, server, seen_at, is_any),) = connection.execute(_ANY, self._given).fetchall()
        self._told(seen_at, began, time.monotonic())
        shown: Shown = ()
        # Numbers of transactions are one server's; after its crash it gives some of them again.
        if server != self._server or seen_at - self._seen_at > _KNOWN_S:
            seen, shown = self._read(connection, followed, whole=True)
        elif is_any:
            seen, shown = self._read(connection, followed, whole=False)
        self._seen, self._server, self._seen_at, self.looked_at = seen, server, seen_at, began
        self._ours.clear()
        if began - self._forgotten_at > _FORGOTTEN_EVERY_S:
            self._forgotten_at = began
            connection.execute(b"SELECT forget_news_1()")
        return shown

    def _read(
        self, connection: Connection, followed: Sequence[Remembering], *, whole: bool
    ) -> tuple[str, Shown]:
        connection.execute(LOOK)
        ((seen,),) = connection.execute(_NOW).fetchall()
        changed = {} if whole else self._changed(connection)
        tables = SpelledStatements(connection)
        shown = []
        for one in followed:
            keys = {key for name in one.kept_in for key in changed.get(name, ())}
            if whole or keys:
                shown.append(one.look(tables, None if whole else keys))
        connection.execute(COMMIT)
        return seen, shown

    def _changed(self, connection: Connection) -> Mapping[str, Collection[str]]:
        changed: dict[str, set[str]] = {}
        rows = connection.execute(_NEW, self._given).fetchall()
        for kept_in, key in map(stored, rows):
            changed.setdefault(kept_in, set()).add(key)
        return changed

    @property
    def _given(self) -> Mapping[str, object]:
        return {"seen": self._seen, "ours": [*self._ours]}
