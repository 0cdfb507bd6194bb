"""Which descriptions were told to whom, at whichever replica."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

from gateway.errors import AuditUnavailable, IdentityUnavailable
from gateway.storage.disclosures import MOST_OF_ALL, MOST_OF_ONE, PART, Change
from gateway.storage.identity.statements import IdentityDatabase, Statements

_KEEP: Final = (
    "INSERT INTO disclosures (owner, key, used) VALUES (?, ?, ?) ON CONFLICT (owner, key)"
    " DO UPDATE SET used = excluded.used WHERE disclosures.used < excluded.used"
)
_DROP: Final = "DELETE FROM disclosures WHERE owner = ? AND key = ?"
_FORGET: Final = (
    "DELETE FROM disclosures WHERE (owner, key) IN"
    " (SELECT owner, key FROM disclosures WHERE used < ? LIMIT ?)"
)
# Whoever has most has most that is beyond the newest so many of each.
_LEVEL: Final = (
    "DELETE FROM disclosures WHERE (SELECT count(*) FROM disclosures) > ? AND (owner, key) IN"
    " (SELECT owner, key FROM (SELECT owner, key,"
    " row_number() OVER (PARTITION BY owner ORDER BY used DESC, key) AS place FROM disclosures) AS each"
    " ORDER BY place, key OFFSET ?)"
)
# What another replica has kept of a person counts as well.
_TRIM: Final = (
    "DELETE FROM disclosures WHERE owner = ? AND key IN"
    " (SELECT key FROM disclosures WHERE owner = ? ORDER BY used DESC, key OFFSET ?)"
)
_LOOK: Final = "SELECT max(used) FROM disclosures WHERE owner IN (?, ?) AND key = ?"


class SharedDisclosureLedger:
    """A `DisclosureLedger` of many replicas: each has its own memory, and looks before it says no."""

    def __init__(
        self,
        database: IdentityDatabase,
        *,
        most_of_one: int = MOST_OF_ONE,
        most_of_all: int = MOST_OF_ALL,
    ) -> None:
        self._database = database
        self._most_of_one = most_of_one
        self._most_of_all = most_of_all

    async def make(self, change: Change, committed: Callable[[Change], None]) -> None:
        """Make `change` in one transaction; see `DisclosureLedger`."""
        loop = asyncio.get_running_loop()

        def told(_: None) -> None:
            # Memory is the loop's alone; it hears in the order of the commits.
            loop.call_soon_threadsafe(committed, change)

        def made() -> None:
            # Also what only replicas held that are gone by now, some at a time.
            while change.before < float("inf") and self._database.write(self._forgotten(change)):
                pass
            self._database.write(partial(self._made, change), committed=told)

        try:
            await asyncio.to_thread(made)
        except IdentityUnavailable as error:
            raise AuditUnavailable(
                "it cannot be kept now what was read", detail=error.detail
            ) from error

    async def look(self, owners: tuple[bytes, bytes], key: bytes) -> float | None:
        """Return when it was last used, at whichever replica; see `DisclosureLedger`."""
        try:
            found = await asyncio.to_thread(
                self._database.read, lambda of: of.execute(_LOOK, (*owners, key)).fetchone()
            )
        except IdentityUnavailable as error:
            raise AuditUnavailable(
                "it is not known now what was read", detail=error.detail
            ) from error
        return None if found is None or found[0] is None else float(found[0])

    def _forgotten(self, change: Change) -> Callable[[Statements], bool]:
        """Return what forgets as many as may be at once, and says whether there may be more."""
        return lambda to: to.execute(_FORGET, (change.before, PART)).rowcount >= PART

    def _made(self, change: Change, to: Statements) -> None:
        if change.before == float("inf"):
            to.executemany(_DROP, change.gone)
        else:
            to.execute(_LEVEL, (self._most_of_all, self._most_of_all))
        to.executemany(_KEEP, change.kept)
        for owner in dict.fromkeys(owner for owner, _, _ in change.kept):
            to.execute(_TRIM, (owner, owner, self._most_of_one))
