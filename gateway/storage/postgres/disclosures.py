"""Which descriptions were told to whom, at whichever replica."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

from gateway.errors import AuditUnavailable, IdentityUnavailable
from gateway.storage.disclosures import MOST_OF_ONE, Change
from gateway.storage.identity.statements import IdentityDatabase, Statements

_KEEP: Final = (
    "INSERT INTO disclosures (owner, key, used) VALUES (?, ?, ?) ON CONFLICT (owner, key)"
    " DO UPDATE SET used = excluded.used WHERE disclosures.used < excluded.used"
)
_DROP: Final = "DELETE FROM disclosures WHERE owner = ? AND key = ?"
_FORGET: Final = "DELETE FROM disclosures WHERE used < ?"
# What another replica has kept of a principal counts as well.
_TRIM: Final = (
    "DELETE FROM disclosures WHERE owner = ? AND key IN"
    " (SELECT key FROM disclosures WHERE owner = ? ORDER BY used DESC, key OFFSET ?)"
)
_LOOK: Final = "SELECT used FROM disclosures WHERE owner = ? AND key = ?"


class SharedDisclosureLedger:
    """A `DisclosureLedger` of many replicas: each has its own memory, and looks before it says no."""

    def __init__(self, database: IdentityDatabase, *, most_of_one: int = MOST_OF_ONE) -> None:
        self._database = database
        self._most_of_one = most_of_one

    async def make(self, change: Change, committed: Callable[[Change], None]) -> None:
        """Make `change` in one transaction; see `DisclosureLedger`."""
        loop = asyncio.get_running_loop()

        def told(_: None) -> None:
            # Memory is the loop's alone; it hears in the order of the commits.
            loop.call_soon_threadsafe(committed, change)

        try:
            await asyncio.to_thread(
                partial(self._database.write, partial(self._made, change), committed=told)
            )
        except IdentityUnavailable as error:
            raise AuditUnavailable(
                "it cannot be kept now what was read", detail=error.detail
            ) from error

    async def look(self, owner: bytes, key: bytes) -> float | None:
        """Return when it was last used, at whichever replica; see `DisclosureLedger`."""
        try:
            found = await asyncio.to_thread(
                self._database.read, lambda of: of.execute(_LOOK, (owner, key)).fetchone()
            )
        except IdentityUnavailable as error:
            raise AuditUnavailable(
                "it is not known now what was read", detail=error.detail
            ) from error
        return None if found is None else float(found[0])

    def _made(self, change: Change, to: Statements) -> None:
        if change.before == float("inf"):
            to.executemany(_DROP, change.gone)
        else:
            # Also what only replicas held that are gone by now.
            to.execute(_FORGET, (change.before,))
        to.executemany(_KEEP, change.kept)
        for owner in dict.fromkeys(owner for owner, _, _ in change.kept):
            to.execute(_TRIM, (owner, owner, self._most_of_one))
