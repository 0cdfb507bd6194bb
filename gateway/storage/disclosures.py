"""Which descriptions were told to whom, read from memory; in the file are keyed hashes alone."""

import hmac
import sqlite3
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from typing import Protocol, TypeAlias

from gateway.domain._value import value
from gateway.domain.descriptions import Reader
from gateway.storage.writer import Writer

MOST_OF_ONE = 20_000
"""Descriptions of one principal, in all of its sessions."""
_WRITTEN_EVERY = 10
"""A use is written when a tenth of the idle time has passed since the last one that was."""

_ALL = "SELECT owner, key, used FROM disclosures ORDER BY used, key"
_KEEP = (
    "INSERT INTO disclosures (owner, key, used) VALUES (?, ?, ?)"
    " ON CONFLICT (owner, key) DO UPDATE SET used = max(used, excluded.used)"
)
_FORGET = "DELETE FROM disclosures WHERE owner = ? AND key = ? AND used < ?"
_DROP = "DELETE FROM disclosures WHERE owner = ? AND key = ?"

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

    async def look(self, owner: bytes, key: bytes) -> float | None:
        """Return when it was last used, if another process may have kept it and has.

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
        mine = self._used.get(owner, OrderedDict())
        old = [key for key in mine if key not in keys]
        surplus = max(0, len(old) + len(keys) - self._most_of_one)
        gone = tuple((owner, key) for key in old[:surplus])
        kept = tuple((owner, key, now) for key in keys)
        await self._ledger.make(Change(gone=gone, kept=kept), self._put)

    async def use(self, reader: Reader, described: str, *, now: float, idle_s: float) -> bool:
        """Return whether it was told and is in use; see `DisclosureStore`."""
        owner, key = self._owner(reader), self._key(reader, described)
        mine = self._used.get(owner, OrderedDict())
        used = mine.get(key)
        if used is None or now - used > idle_s:
            # Who was told at one gateway may call at another.
            used = await self._ledger.look(owner, key)
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
        """Forget what was last used before then; see `DisclosureStore`."""
        gone = tuple(
            (owner, key)
            for owner, mine in self._used.items()
            for key, used in mine.items()
            if used < before
        )
        await self._ledger.make(Change(gone=gone, before=before), self._put)
        return len(gone)

    def _heard(self, owner: bytes, key: bytes, used: float) -> OrderedDict[bytes, float]:
        """Hold what another process has kept; return what is held of its principal."""
        self._put(Change(kept=((owner, key, used),)))
        mine = self._used[owner]
        while len(mine) > self._most_of_one:
            oldest, _ = mine.popitem(last=False)
            del self._written[owner, oldest]
        return mine

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
        return self._name("reader", reader.principal)

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
            if change.before == float("inf"):
                connection.executemany(_DROP, change.gone)
            else:
                rows = [(owner, key, change.before) for owner, key in change.gone]
                connection.executemany(_FORGET, rows)
            connection.executemany(_KEEP, change.kept)
            return change

        await self._writer.run(job, committed=committed)

    async def look(self, _owner: bytes, _key: bytes) -> float | None:
        """Return nothing: memory holds what is in the table, which is this process's own."""
        return None


def kept_rows(connection: sqlite3.Connection) -> list[Row]:
    """Return what is in the table, first used first."""
    return connection.execute(_ALL).fetchall()
