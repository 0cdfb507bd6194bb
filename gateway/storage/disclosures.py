"""Which descriptions were told to whom, read from memory; in the file are keyed hashes alone."""

import hmac
import sqlite3
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from itertools import islice, takewhile
from typing import Protocol, TypeAlias

from gateway.domain._value import value
from gateway.domain.descriptions import Reader
from gateway.storage.writer import Writer
from gateway.turns import in_steps

MOST_OF_ONE = 20_000
"""Descriptions of one person, in all sessions of whatever clients: those are made at will."""
MOST_OF_ALL = 200_000
PART = 2_000
"""So many at once are forgotten: others have their turn between, also of the log's writer."""
_WRITTEN_EVERY = 10
"""A use is written when a tenth of the idle time has passed since the last one that was."""

_ALL = "SELECT owner, key, used FROM disclosures ORDER BY used, key"
_KEEP = (
    "INSERT INTO disclosures (owner, key, used) VALUES (?, ?, ?)"
    " ON CONFLICT (owner, key) DO UPDATE SET used = max(used, excluded.used)"
)
_FORGET = "DELETE FROM disclosures WHERE owner = ? AND key = ? AND used < ?"

Row: TypeAlias = tuple[bytes, bytes, float]
"""Whose, of what, and when it was last used in seconds since the epoch."""


@value
class Change:
    """What becomes of the rows: `gone` go, then `kept` are there."""

    gone: tuple[tuple[bytes, bytes], ...] = ()
    kept: tuple[Row, ...] = ()
    before: float = float("inf")
    """What goes, goes only if it was last used before then."""


class DisclosureLedger(Protocol):
    """Where changes are made."""

    async def make(self, change: Change, committed: Callable[[Change], None]) -> None:
        """Make `change` atomically; it is durable on return.

        `committed` is called with it in the order of the changes, also if nobody waits any more.
        """
        ...

    async def look(self, owners: tuple[bytes, bytes], key: bytes) -> float | None:
        """Return when one of `owners` last used it, if another process may have kept it and has.

        Raises:
            AuditUnavailable: Nobody knows now.

        """
        ...


class Disclosures:
    """A `DisclosureStore`. Memory holds what is committed, and when it was used since."""

    def __init__(
        self,
        ledger: DisclosureLedger,
        key: bytes,
        *,
        rows: Iterable[Row] = (),
        most_of_one: int = MOST_OF_ONE,
    ) -> None:
        """`key` is what names are hashed with; `rows` are kept already, first used first."""
        self._ledger = ledger
        self._keyed = hmac.new(key, digestmod="sha256")
        self._most_of_one = most_of_one
        self._used: dict[bytes, OrderedDict[bytes, float]] = {}
        self._written: dict[tuple[bytes, bytes], float] = {}
        self._put(Change(kept=tuple(rows)))

    async def disclose(self, reader: Reader, described: Collection[str], *, now: float) -> None:
        """Keep that `reader` was told these descriptions; see `DisclosureStore`."""
        owner = self._owner(reader)
        keys = dict.fromkeys(self._key(reader, one) for one in described)
        if not keys:
            return
        kept = tuple((owner, key, now) for key in keys)
        await self._ledger.make(Change(gone=self._leaving(owner, keys), kept=kept), self._put)

    async def use(self, reader: Reader, described: str, *, now: float, idle_s: float) -> bool:
        """Return whether it was told and is in use; see `DisclosureStore`."""
        owner, key = self._owner(reader), self._key(reader, described)
        mine = self._used.get(owner, OrderedDict())
        used = mine.get(key)
        if used is None or now - used > idle_s:
            # Who was told at one gateway may call at another.
            used = await self._kept(owner, self._name("reader", reader.principal), key)
            if used is None or now - used > idle_s:
                return False
            mine = self._heard(owner, key, used)
        mine[key] = max(used, now)
        mine.move_to_end(key)
        if now - self._written[owner, key] > idle_s / _WRITTEN_EVERY:
            self._written[owner, key] = now  # of many calls at once, one writes
            await self._ledger.make(Change(kept=((owner, key, now),)), self._put)
        return True

    async def forget(self, *, before: float) -> int:
        """Forget what was last used before then, some at a time; see `DisclosureStore`."""
        forgotten = 0
        async for owners in in_steps(tuple(self._used)):
            found = ((one, key) for one in owners for key in self._outlived(one, before))
            while gone := tuple(islice(found, PART)):
                await self._ledger.make(Change(gone=gone, before=before), self._put)
                forgotten += len(gone)
        await self._ledger.make(Change(before=before), self._put)  # what others have kept, too
        return forgotten

    def _outlived(self, owner: bytes, before: float) -> list[bytes]:
        mine = self._used.get(owner, OrderedDict())
        return [key for key, _ in takewhile(lambda one: one[1] < before, mine.items())]

    def _leaving(self, owner: bytes, keys: Collection[bytes]) -> tuple[tuple[bytes, bytes], ...]:
        """Return what makes way for these of `owner`'s: its own, then of whoever has most."""
        mine = self._used.get(owner, OrderedDict())
        old = [key for key in mine if key not in keys]
        gone = [(owner, key) for key in old[: max(0, len(old) + len(keys) - self._most_of_one)]]
        new = len(old) + len(keys) - len(mine) - len(gone)
        if (surplus := len(self._written) + new - MOST_OF_ALL) > 0:
            most = max(self._used, key=lambda one: len(self._used[one]))
            gone += [(most, key) for key in islice(self._used[most], surplus)]
        return tuple(gone)

    async def _kept(self, owner: bytes, earlier: bytes, key: bytes) -> float | None:
        """Return what is kept beside memory's own: earlier versions filed it under the client."""
        used = self._used.get(earlier, OrderedDict()).get(key)
        return used if used is not None else await self._ledger.look((owner, earlier), key)

    def _heard(self, owner: bytes, key: bytes, used: float) -> OrderedDict[bytes, float]:
        """Hold what another process has kept; return what is held of its person."""
        self._put(Change(gone=self._leaving(owner, {key}), kept=((owner, key, used),)))
        return self._used[owner]

    def _put(self, change: Change) -> None:
        for owner, key in change.gone:
            mine = self._used.get(owner, OrderedDict())
            # One that was told again meanwhile stays.
            if mine.get(key, change.before) < change.before:
                del mine[key], self._written[owner, key]
            if not mine:
                self._used.pop(owner, None)
        for owner, key, used in change.kept:
            mine = self._used.setdefault(owner, OrderedDict())
            mine[key] = max(used, mine.get(key, used))
            mine.move_to_end(key)
            self._written[owner, key] = used

    def _owner(self, reader: Reader) -> bytes:
        return self._name("reader", reader.person)

    def _key(self, reader: Reader, described: str) -> bytes:
        return self._name("described", reader.principal, reader.session, described)

    def _name(self, *parts: str) -> bytes:
        # Lengths keep ("a", "bc") and ("ab", "c") apart.
        octets = [part.encode("utf-8", "surrogatepass") for part in parts]
        keyed = self._keyed.copy()
        keyed.update(b"".join(len(part).to_bytes(8, "big") + part for part in octets))
        return keyed.digest()


class SqliteDisclosureLedger:
    """A `DisclosureLedger` in the table `disclosures`."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    async def make(self, change: Change, committed: Callable[[Change], None]) -> None:
        """Make `change` in one transaction; see `DisclosureLedger`."""

        def job(connection: sqlite3.Connection) -> Change:
            rows = [(owner, key, change.before) for owner, key in change.gone]
            connection.executemany(_FORGET, rows)
            connection.executemany(_KEEP, change.kept)
            return change

        await self._writer.run(job, committed=committed)

    async def look(self, _owners: tuple[bytes, bytes], _key: bytes) -> float | None:
        """Return nothing: memory holds what is in the table, which is this process's own."""
        return None


def kept_rows(connection: sqlite3.Connection) -> list[Row]:
    """Return what is in the table, first used first."""
    return connection.execute(_ALL).fetchall()
