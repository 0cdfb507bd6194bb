"""The log in PostgreSQL, read as that in SQLite is: by the same statements and the same code."""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Self, TypeVar

import psycopg
from psycopg.abc import Buffer
from psycopg.pq import Format
from psycopg.types.numeric import NumericBinaryLoader

from gateway.audit.checkpoint import VerifierKey
from gateway.audit.cosignature import WitnessKey
from gateway.audit.query import Statement
from gateway.storage.connection import Rows, Unanswered, columns_in
from gateway.storage.postgres.connection import Connection, Session, connect
from gateway.storage.postgres.dialect import POSTGRES
from gateway.storage.postgres.terms import NUL, filed
from gateway.storage.reader import CountingReader
from gateway.storage.verify import Verification, verify_in

T = TypeVar("T")

READER: Final = "douane reader"
_PATIENCE_S: Final = 12.0


_NUMERIC: Final = 1700
"""The type's number, the same in every PostgreSQL."""


class _Whole(NumericBinaryLoader):
    """Sums of whole numbers, which PostgreSQL gives as `numeric`."""

    def load(self, data: Buffer) -> Any:
        found = super().load(data)
        return int(found) if found == found.to_integral_value() else float(found)


class Reading:
    """A `Readable` over a connection. The tables have SQLite's names, and `blob` is a type of ours."""

    def __init__(self, connection: Connection) -> None:
        if connection.adapters.get_loader(_NUMERIC, Format.BINARY) is not _Whole:
            connection.adapters.register_loader(_NUMERIC, _Whole)
        self._connection = connection

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> Rows:
        """Return the rows that a statement finds; its placeholders are question marks.

        Raises:
            sqlite3.IntegrityError: The tables do not allow it.
            sqlite3.OperationalError: They cannot be read.

        """
        given = [one.replace("\0", NUL) if isinstance(one, str) else one for one in parameters]
        # Octets are twice as many as a text.
        return translated(lambda: self._connection.execute(spelled(sql), given, binary=True))

    def close(self) -> None:
        self._connection.close()


class SharedReading:
    """The same over a connection that many threads share and that comes back by itself."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @classmethod
    def of(cls, conninfo: str, **settings: str) -> Self:
        """Connect at first use, with further settings; nothing can be written by it."""
        only: Mapping[str, str] = {"default_transaction_read_only": "on", **settings}
        return cls(Session(conninfo, application=READER, patience_s=_PATIENCE_S, settings=only))

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> Rows:
        """Return the rows that a statement finds, all of them; see `Reading`."""
        return translated(
            lambda: self._session.use(lambda one: Reading(one).execute(sql, parameters))
        )

    def close(self) -> None:
        self._session.close()


def spelled(sql: str) -> bytes:
    """Return a statement with the placeholders that psycopg knows."""
    return sql.replace("%", "%%").replace("?", "%s").encode()


def translated(read: Callable[[], T]) -> T:
    """Return what `read` does; what PostgreSQL says against it is said as SQLite would.

    Raises:
        sqlite3.IntegrityError: The tables do not allow it.
        sqlite3.OperationalError: They cannot be read, or written; `Unanswered` if nobody could be asked.

    """
    try:
        return read()
    except psycopg.IntegrityError as error:
        raise sqlite3.IntegrityError(error.diag.message_primary or str(error)) from error
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        raise Unanswered(str(error)) from error
    except psycopg.Error as error:
        raise sqlite3.OperationalError(str(error)) from error


class PostgresLogReader(CountingReader):
    """What is in the log: what lies in the tray is not, for a moment."""

    _calls = (
        "SELECT server, target, count(*) FROM audit WHERE leaf_index >= ? AND leaf_index < ?"
        " AND kind = 'intent' AND verdict = 'allow' AND server <> '' AND target IS NOT NULL"
        " AND words.text_1(words.member_1(body, 'method')) = 'tools/call' GROUP BY server, target"
    )

    @classmethod
    def open(cls, conninfo: str) -> Self:
        """Connect for reading.

        Raises:
            psycopg.OperationalError: PostgreSQL cannot be reached.

        """
        return cls(Reading(connect(conninfo, application=READER)))

    def query(self, statement: Statement) -> list[dict[str, Any]]:
        """Return the records that a filter selects; see `CountingReader`."""
        return super().query(statement.spelled(POSTGRES))

    def waits(self, record_id: str) -> bool:
        """Say whether that record is durable, and has no place yet."""
        row = self._connection.execute("SELECT waits_1(?)", (record_id,)).fetchone()
        return bool(row[0])

    def may_remove(self) -> bool:
        """Say whether whoever is connected may archive and remove records."""
        found = self._connection.execute(
            "SELECT has_function_privilege('prune_1(bigint)', 'EXECUTE')"
            " AND has_table_privilege('archives', 'INSERT')"
        ).fetchone()
        return bool(found[0])

    def lag_s(self) -> float:
        """Return for how long the oldest record has waited that is durable and has no place yet."""
        ((waited,),) = self._connection.execute("SELECT lag_1()").fetchall()
        return float(waited)

    def _open(self) -> str:
        late = (
            " AND NOT EXISTS (SELECT FROM late_calls AS l WHERE l.decision_id = audit.decision_id)"
        )
        return _OPEN + late * bool(columns_in(self._connection, "late_calls"))


_OPEN: Final = (
    "kind = 'intent' AND NOT EXISTS (SELECT FROM audit AS o WHERE o.decision_id = audit.decision_id"
    " AND o.kind IN ('outcome', 'list'))"
)


def verify_log(
    connection: Connection,
    verifier: VerifierKey,
    *,
    checkpoints: Sequence[tuple[str, str]] = (),
    witnesses: Sequence[WitnessKey] = (),
) -> Verification:
    """Compare the log with itself and with every checkpoint there is; see `verify`."""
    return verify_in(
        Reading(connection), verifier, checkpoints=checkpoints, witnesses=witnesses, filed=filed
    )
