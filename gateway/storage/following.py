"""What followers read: the log's records, and its signed checkpoints, in their order."""

import asyncio
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from gateway.errors import AuditUnavailable, ConfigError
from gateway.ports.following import StoredRecord
from gateway.storage.connection import open_reader
from gateway.storage.reader import AuditReader

_RECORDS = (
    "SELECT leaf_index, leaf_hash, CAST(body AS BLOB) FROM audit"
    " WHERE leaf_index > ? ORDER BY leaf_index LIMIT ?"
)
_CHECKPOINTS = (
    "SELECT size - 1, x'', CAST(note AS BLOB) FROM checkpoints"
    " WHERE size - 1 > ? ORDER BY size LIMIT ?"
)
_NEWEST_CHECKPOINT = (
    "SELECT size - 1, x'', CAST(note AS BLOB) FROM checkpoints"
    " WHERE size - 1 > ? ORDER BY size DESC LIMIT min(1, ?)"
)


class LogSource:
    """A `RecordSource` with a connection of its own, which it makes anew after a failure."""

    _sql = _RECORDS

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None

    def stored_after(self, leaf_index: int, limit: int) -> Sequence[StoredRecord]:
        """Return the records after that of `leaf_index`, oldest first; -1 is before all.

        Raises:
            AuditUnavailable: They cannot be read now.

        """
        try:
            if self._connection is None:
                self._connection = open_reader(self._path)
            rows = self._connection.execute(self._sql, (leaf_index, limit)).fetchall()
        except (sqlite3.Error, ConfigError) as error:
            self.close()
            raise AuditUnavailable("the audit log cannot be read", detail=str(error)) from error
        return [
            StoredRecord(leaf_index=index, leaf_hash=leaf, body=body) for index, leaf, body in rows
        ]

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class CheckpointSource(LogSource):
    """The same of signed checkpoints: `body` is the note, `leaf_index` that of its last record."""

    _sql = _CHECKPOINTS


class NewestCheckpointSource(LogSource):
    """The same of the newest one alone: what lies between is passed over."""

    _sql = _NEWEST_CHECKPOINT


class Always:
    """A `Turn` of a log that one gateway has to itself."""

    async def taken(self) -> None:
        """Return at once."""

    async def lost(self) -> None:
        """Return never."""
        await asyncio.Event().wait()

    def close(self) -> None:
        """Keep it."""


@contextmanager
def reading(path: Path) -> Iterator[AuditReader]:
    """Open the log for one look of a follower's.

    Raises:
        AuditUnavailable: It cannot be read now.

    """
    try:
        with closing(AuditReader.open(path)) as reader:
            yield reader
    except (sqlite3.Error, ConfigError) as error:
        raise AuditUnavailable("the audit log cannot be read", detail=str(error)) from error
