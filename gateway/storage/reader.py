"""Reading the audit log: queries, exports and proofs, beside the writer or without one."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import orjson

from gateway.audit.proofs import consistency_path, inclusion_path
from gateway.audit.query import Statement
from gateway.domain._value import value
from gateway.ports.following import StoredRecord
from gateway.storage.connection import Readable, open_reader
from gateway.storage.tree import root_of

_ROW = "SELECT leaf_index, leaf_hash, CAST(body AS BLOB) FROM audit"
_PAGE = 1000
_LEAF = re.compile(r"[0-9]{1,15}", re.ASCII)


@value
class InclusionProof:
    """Shows that a record is in the log that a checkpoint vouches for (RFC 9162, 2.1.3)."""

    leaf_index: int
    body: bytes
    """The record's exact bytes; the leaf is their hash."""
    size: int
    """The checkpoint's."""
    path: tuple[bytes, ...]
    checkpoint: str

    @property
    def members(self) -> dict[str, Any]:
        """The proof as a JSON object."""
        return {
            "leaf_index": self.leaf_index,
            "body": self.body.decode(),
            "size": self.size,
            "path": [node.hex() for node in self.path],
            "checkpoint": self.checkpoint,
        }


@value
class LogStatistics:
    """What is in the log, counted."""

    records: int
    first_time_us: int | None
    last_time_us: int | None
    signed: int
    """How many records the newest checkpoint vouches for."""
    kinds: dict[str, int]
    verdicts: dict[str, int]
    codes: dict[str, int]
    outcome_unknown: int
    """Intents without an outcome: calls under way, and those that an end cut short."""


class LogReader:
    """Records as they lie in the log, and proofs; wherever it lies."""

    def __init__(self, connection: Readable) -> None:
        self._connection = connection

    @property
    def log_id(self) -> str:
        """The log's name, which its checkpoints carry."""
        found = self._connection.execute("SELECT value FROM meta WHERE key = 'log_id'").fetchone()
        return "" if found is None else str(found[0])

    def close(self) -> None:
        self._connection.close()

    def find(self, record_id: str) -> dict[str, Any] | None:
        """Return the record of that id, or else of that leaf index."""
        row = self._connection.execute(f"{_ROW} WHERE id = ?", (record_id,)).fetchone()
        if row is None and _LEAF.fullmatch(record_id):
            found = (int(record_id),)
            row = self._connection.execute(f"{_ROW} WHERE leaf_index = ?", found).fetchone()
        return None if row is None else record_of(*row)

    def after(self, leaf_index: int, limit: int = _PAGE) -> list[dict[str, Any]]:
        """Return the records after that of `leaf_index`, oldest first; -1 is before all."""
        rows = self._connection.execute(
            f"{_ROW} WHERE leaf_index > ? ORDER BY leaf_index LIMIT ?", (leaf_index, limit)
        )
        return [record_of(*row) for row in rows.fetchall()]

    def stored_after(self, leaf_index: int, limit: int) -> list[StoredRecord]:
        """Return the same as they lie in the log, with their exact bytes."""
        rows = self._connection.execute(
            f"{_ROW} WHERE leaf_index > ? ORDER BY leaf_index LIMIT ?", (leaf_index, limit)
        )
        return [
            StoredRecord(leaf_index=index, leaf_hash=leaf, body=body)
            for index, leaf, body in rows.fetchall()
        ]

    def export(self) -> Iterator[dict[str, Any]]:
        """Yield every record that is there, oldest first."""
        last = -1
        while page := self.after(last):
            yield from page
            last = page[-1]["leaf_index"]

    def waits(self, record_id: str) -> bool:  # noqa: ARG002 - for logs that many write
        """Say whether that record is durable, and has no place in the log yet."""
        return False

    def lag_s(self) -> float:
        """Return for how long the oldest record has waited that is durable and has no place yet."""
        return 0.0

    def newest(self) -> int:
        """Return the last record's leaf index; -1 if there is none."""
        (last,) = self._connection.execute("SELECT max(leaf_index) FROM audit").fetchone()
        return -1 if last is None else int(last)

    def first_since(self, time_us: int) -> int:
        """Return the leaf index of the first record of that time or later, or of the next one."""
        (first,) = self._connection.execute(
            "SELECT min(leaf_index) FROM audit WHERE time_us >= ?", (time_us,)
        ).fetchone()
        return self.newest() + 1 if first is None else int(first)

    def checkpoint(self) -> tuple[int, str] | None:
        """Return the size and the note of the newest signed checkpoint."""
        found: tuple[int, str] | None = self._connection.execute(
            "SELECT size, note FROM checkpoints ORDER BY size DESC LIMIT 1"
        ).fetchone()
        return found

    def inclusion(self, record_id: str) -> InclusionProof:
        """Prove that a record is in the signed log.

        Raises:
            LookupError: There is no such record, or no checkpoint vouches for it yet.
            ConfigError: The log is damaged.

        """
        row = self._connection.execute(f"{_ROW} WHERE id = ?", (record_id,)).fetchone()
        if row is None and self.waits(record_id):
            raise LookupError(f"record {record_id} has no place yet; it will within a second")
        if row is None:
            raise LookupError(f"no record {record_id}")
        index, _, body = row
        size, note = self.checkpoint() or (0, "")
        if index >= size:
            raise LookupError(f"record {record_id} is not signed yet; it will be within a second")
        path = tuple(root_of(self._connection, part) for part in inclusion_path(index, size))
        return InclusionProof(leaf_index=index, body=body, size=size, path=path, checkpoint=note)

    def consistency(self, old: int, new: int) -> tuple[bytes, ...]:
        """Prove that the log of `new` records extends the one of `old`.

        Raises:
            ValueError: There are no such two sizes.
            ConfigError: The log is damaged.

        """
        if new > self.newest() + 1:
            raise ValueError(f"the log has fewer than {new} records")
        return tuple(root_of(self._connection, part) for part in consistency_path(old, new))


class CountingReader(LogReader):
    """The same, with what a filter selects and what is counted."""

    # Only an intent says that a call went out; what is looked up in its body comes last.
    _calls = (
        "SELECT server, target, count(*) FROM audit WHERE leaf_index >= ? AND leaf_index < ?"
        " AND kind = 'intent' AND verdict = 'allow' AND server <> '' AND target IS NOT NULL"
        " AND json_extract(body, '$.method') = 'tools/call' GROUP BY server, target"
    )

    def query(self, statement: Statement) -> list[dict[str, Any]]:
        """Return the records that a compiled filter selects, newest first, as the contract's."""
        rows = self._connection.execute(statement.sql, statement.parameters)
        return [record_of(*row) for row in rows.fetchall()]

    def calls(self, first: int, end: int) -> dict[tuple[str, str], int]:
        """Count the calls of tools that were let through, by server and tool.

        Of the records from leaf index `first` up to `end`, which is not among them.
        """
        rows = self._connection.execute(self._calls, (first, end))
        return {(server, tool): count for server, tool, count in rows.fetchall()}

    def statistics(self) -> LogStatistics:
        """Count everything; reads the whole log."""
        records, first, last = self._connection.execute(
            "SELECT count(*), min(time_us), max(time_us) FROM audit"
        ).fetchone()
        (unknown,) = self._connection.execute(
            f"SELECT count(*) FROM audit WHERE {self._open()}"  # noqa: S608 - fixed text
        ).fetchone()
        checkpoint = self.checkpoint()
        return LogStatistics(
            records=records,
            first_time_us=first,
            last_time_us=last,
            signed=0 if checkpoint is None else checkpoint[0],
            kinds=self._counts("kind"),
            verdicts=self._counts("verdict"),
            codes=self._counts("code"),
            outcome_unknown=unknown,
        )

    def outcome_unknown(self, limit: int = _PAGE) -> list[dict[str, Any]]:
        """Return the newest intents without an outcome."""
        rows = self._connection.execute(
            f"{_ROW} WHERE {self._open()} ORDER BY leaf_index DESC LIMIT ?", (limit,)
        )
        return [record_of(*row) for row in rows.fetchall()]

    def _open(self) -> str:
        """Return the condition of intents without an outcome."""
        return _OUTCOME_UNKNOWN

    def _counts(self, column: str) -> dict[str, int]:
        rows = self._connection.execute(
            f"SELECT {column}, count(*) FROM audit WHERE {column} IS NOT NULL"  # noqa: S608 - ours
            f" GROUP BY {column} ORDER BY {column}"
        )
        return dict(rows.fetchall())


class AuditReader(CountingReader):
    """A log in SQLite. Every read is short, so that the writer's log file never waits for a reader."""

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open the database for reading.

        Raises:
            ConfigError: There is none.

        """
        return cls(open_reader(path))


# An intent and its outcome share their decision_id; that of a list is recorded as one.
_OUTCOME_UNKNOWN = (
    "kind = 'intent' AND (decision_id IS NULL OR decision_id NOT IN"
    " (SELECT decision_id FROM audit WHERE kind IN ('outcome', 'list')"
    " AND decision_id IS NOT NULL) AND decision_id NOT IN (SELECT decision_id FROM late_calls))"
)


def record_of(leaf_index: int, leaf: bytes, body: bytes) -> dict[str, Any]:
    """Return a row of the log as the contract's record."""
    record: dict[str, Any] = orjson.loads(body)
    record["leaf_index"] = leaf_index
    record["leaf_hash"] = leaf.hex()
    return record
