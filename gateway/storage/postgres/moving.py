"""A database of PostgreSQL as an end of a move."""

import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from typing import Any, Final, Self

import orjson
import psycopg

from gateway.audit.checkpoint import VerifierKey
from gateway.audit.record import COLUMNS, columns_of
from gateway.domain.secrets import DataKey
from gateway.errors import ConfigError, Unsealable
from gateway.ports.secrets import Sealer
from gateway.storage.moving.mark import Moved
from gateway.storage.moving.marking import reopened
from gateway.storage.moving.sides import Contents, Row, Rows
from gateway.storage.moving.tables import (
    BEFORE_THE_FRONT,
    DATA_KEYS,
    GROWING,
    IDENTITY,
    PINS,
    RECORDS,
    STATE,
    WHOLE,
    Column,
    Form,
    Kept,
)
from gateway.storage.pin_rows import digest_in
from gateway.storage.postgres.base import TABLES, made
from gateway.storage.postgres.connection import Connection, connect, require_sessions
from gateway.storage.postgres.keys import key_row
from gateway.storage.postgres.locks import Lock
from gateway.storage.postgres.mark import forget_mark, is_served, keep_mark, mark_of, place_of
from gateway.storage.postgres.migrations import newer_than
from gateway.storage.postgres.reading import verify_log
from gateway.storage.postgres.spelling import stored, written
from gateway.storage.postgres.terms import filed
from gateway.storage.state import Given, given
from gateway.storage.verify import Verification

_PATIENCE_S: Final = 86_400.0
"""A log of millions of records takes its time."""
_SETTINGS: Final[Mapping[str, str]] = {
    "statement_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
}
_CHUNK: Final = 500
_BESIDE: Final = (
    "SELECT m.value, t.size, f.first, i.stopped FROM meta AS m, tree AS t, log_front AS f, in_force AS i"
    " WHERE m.key = 'log_id'"
)
_WAITS: Final = (
    "SELECT EXISTS (SELECT FROM tray AS t JOIN lanes AS l USING (lane) WHERE t.n > l.taken)"
)
_KEY: Final = "INSERT INTO keys (name, sealed, made_at) VALUES (%s, %s, extract(epoch FROM clock_timestamp()))"


class _Database:
    """What is read of a database, whichever end it is."""

    def __init__(self, connection: Connection, held: ExitStack, *, conninfo: str) -> None:
        """Take over what `open` has opened."""
        self.place = place_of(connection)
        self._conninfo = conninfo
        self._connection = connection
        self._held = held

    @classmethod
    def open(cls, conninfo: str) -> Self:
        """Hold a database until `close`.

        Raises:
            ConfigError: It cannot be used, is of a newer version, or somebody else moves it.

        """
        with ExitStack() as held, _usable():
            require_sessions(conninfo)
            connection = connect(
                conninfo, application="douane move", patience_s=_PATIENCE_S, settings=_SETTINGS
            )
            held.callback(connection.let_go)
            got = connection.execute("SELECT pg_try_advisory_lock(%s, 0)", (Lock.MOVE,))
            if got.fetchone() != (True,):
                raise ConfigError(f"{place_of(connection)} is being moved by somebody else")
            if newer := newer_than(connection, *TABLES):
                raise ConfigError(
                    "the database is newer than this version; use the newer version", problems=newer
                )
            return cls(connection, held.pop_all(), conninfo=conninfo)

    def close(self) -> None:
        """Let others have it."""
        self._held.close()

    def mark(self) -> Moved | None:
        """Return why nobody may join; see `Side`."""
        with _usable():
            return mark_of(self._connection)

    def data_keys(self) -> Sequence[DataKey]:
        """Return the wrapped keys; see `Side`."""
        return [
            DataKey(id=name, wrapped=wrapped, kek_id=kek, created_at=at)
            for name, wrapped, kek, at in sorted(self.rows(DATA_KEYS))
        ]

    def contents(self, sealer: Sealer) -> Contents:
        """Return what is beside the tables; see `Side`."""
        with _usable():
            ((log_id, size, front, stopped),) = self._connection.execute(_BESIDE).fetchall()
            keys = self._connection.execute("SELECT name, sealed FROM keys").fetchall()
        return Contents(
            log_id=log_id,
            size=size,
            front=front,
            stopped=stopped,
            data_keys=tuple(self.data_keys()),
            secrets={name: _opened(sealer, name, sealed) for name, sealed in keys},
        )

    def rows(self, kept: Kept, *, after: int | None = None) -> Iterator[Row]:
        """Yield a table's rows; see `Side`."""
        read = [_READ[column.form] for column in kept.columns]
        # A named cursor: rows are fetched as they are read, and not all at once.
        with (
            _usable(),
            self._connection.transaction(),
            self._connection.cursor("moving") as cursor,
        ):
            cursor.itersize = _CHUNK
            cursor.execute(_selected(kept, after), None if after is None else (after,))
            for row in cursor:
                yield tuple(one(said) for one, said in zip(read, row, strict=True))

    def verified(self, verifier: VerifierKey) -> Verification:
        """Compare the log; see `Side`."""
        with _usable():
            return verify_log(self._connection, verifier)

    def reopen(self) -> Moved:
        """Let gateways join again; return where everything had gone.

        Raises:
            ConfigError: It was not moved, or what is there is not whole.

        """
        with _usable():
            moved = reopened(mark_of(self._connection), self.place)
            forget_mark(self._connection)
            return moved

    def _require_nobody(self) -> None:
        if is_served(self._connection):
            raise ConfigError(f"a gateway is on {self.place}: stop every one of them first")


class PostgresSource(_Database):
    """A database that is read."""

    def require_whole(self) -> None:
        """Return if everything is in the log, and nobody serves; see `Source`."""
        with _usable():
            self._require_nobody()
            if self._connection.execute("SELECT to_regclass('tray')").fetchone() == (None,):
                raise ConfigError(f"no gateway has kept anything in {self.place}")
            if self._connection.execute(_WAITS).fetchone() != (False,):
                raise ConfigError(
                    "records are durable, and not in the log yet: start a gateway for a moment, and stop it"
                )

    def part(self, moved: Moved) -> None:
        """Have nobody join any more; see `Source`."""
        with _usable():
            keep_mark(self._connection, moved)
            if is_served(self._connection):  # begun in the same moment
                forget_mark(self._connection)
                self._require_nobody()


class PostgresTarget(_Database):
    """A database that is written into from `begin` on."""

    def require_empty(self) -> None:
        """Return if nothing is there; see `Target`."""
        with _usable():
            self._require_nobody()
            if mark_of(self._connection) is None:
                self._require_nothing()

    def begin(self, moved: Moved) -> None:
        """Make the tables, and the mark; see `Target`."""
        made(self._conninfo)
        with _usable():
            there = mark_of(self._connection)
            keep_mark(self._connection, moved)
            # Whoever came before the mark is seen here; whoever comes now sees the mark.
            if there is None:
                try:
                    self._require_nobody()
                    self._require_nothing()
                except ConfigError:
                    forget_mark(self._connection)
                    raise

    def newest(self, kept: Kept) -> int | None:
        """Return the last number of a table; see `Target`."""
        sql = f"SELECT max({kept.columns[0].there}) FROM {kept.there}"  # noqa: S608 - fixed text
        with _usable():
            row = self._connection.execute(sql.encode()).fetchone()
        return None if row is None or row[0] is None else int(row[0])

    def add(self, kept: Kept, rows: Sequence[Row]) -> None:
        """Have further rows; see `Target`."""
        with _usable(), self._connection.transaction():
            if kept is RECORDS:
                self._make_room(rows[0][0])
                self._make_room(rows[-1][0])
            self._put(kept, iter(rows))

    def keep(self, contents: Contents, rows: Rows, sealer: Sealer) -> None:
        """Have everything but what grows; see `Target`."""
        with _usable(), self._connection.transaction():
            for kept in reversed((*WHOLE, DATA_KEYS)):
                where = f" WHERE {kept.only}" if kept.only else ""
                self._run(f"DELETE FROM {kept.there}{where}")  # noqa: S608 - fixed text
            for kept in BEFORE_THE_FRONT:
                self._put(kept, rows(kept))
            self._run("UPDATE log_front SET first = %s WHERE first < %s", *[contents.front] * 2)
            self._run("DELETE FROM audit WHERE leaf_index < %s", contents.front)
            for kept in (*IDENTITY, *STATE):
                self._put(kept, rows(kept))
            self._put(DATA_KEYS, iter(_rows_of(contents.data_keys)))
            self._run("DELETE FROM keys")
            for name, octets in contents.secrets.items():
                self._run(_KEY, name, sealer.seal(octets, key_row(name)))
            self._run("UPDATE meta SET value = %s WHERE key = 'log_id'", contents.log_id)
            self._run("UPDATE tree SET size = %s", contents.size)
            self._run("UPDATE in_force SET stopped = %s", contents.stopped)
            self._run("SELECT make_room_1()")

    def serve(self) -> None:
        """Let gateways join; see `Target`."""
        with _usable():
            forget_mark(self._connection)
            # What is known of tables is known of empty ones until somebody looks.
            self._connection.execute("ANALYZE")

    def _require_nothing(self) -> None:
        if found := self._found():
            raise ConfigError(
                f"{self.place} is a gateway's already: make a database that nobody has used",
                problems=[f"there are rows in: {', '.join(found)}"],
            )

    def _found(self) -> Sequence[str]:
        """Return which tables have rows already."""
        of = [*(kept.there for kept in (*GROWING, *WHOLE, DATA_KEYS)), "keys", "tray"]
        if self._connection.execute("SELECT to_regclass('tray')").fetchone() == (None,):
            return ()
        asked = [f"SELECT '{name}' WHERE EXISTS (SELECT FROM {name})" for name in of]  # noqa: S608
        rows = self._connection.execute(" UNION ALL ".join(asked).encode()).fetchall()
        return [name for (name,) in rows]

    def _make_room(self, index: int) -> None:
        """Have a partition for that record: they are made by the size of the tree."""
        self._run("UPDATE tree SET size = %s", index)
        self._run("SELECT make_room_1()")

    def _put(self, kept: Kept, rows: Iterator[Row]) -> None:
        names, write = _writing(kept)
        sql = f"COPY {kept.there} ({', '.join(names)}) FROM STDIN"
        with self._connection.cursor() as cursor, cursor.copy(sql.encode()) as copy:
            for row in rows:
                copy.write_row(write(row))

    def _run(self, statement: str, *given: Any) -> None:
        self._connection.execute(statement.encode(), given or None)


def reopen(conninfo: str) -> tuple[Moved, str]:
    """Let gateways join a database again that was moved away; return where to, and what it is called.

    Raises:
        ConfigError: It was not, cannot be used, or somebody moves it just now.

    """
    with closing(_Database.open(conninfo)) as database:
        return database.reopen(), database.place


def _selected(kept: Kept, after: int | None) -> bytes:
    columns = ", ".join(column.there for column in kept.columns)
    terms = [kept.only] if kept.only else []
    if after is not None:
        terms.append(f"{kept.columns[0].there} > %s")
    where = f" WHERE {' AND '.join(terms)}" if terms else ""
    order = "" if kept.order is None else f" ORDER BY {kept.order[1]}"
    return f"SELECT {columns} FROM {kept.there}{where}{order}".encode()  # noqa: S608 - fixed text


def _writing(kept: Kept) -> tuple[Sequence[str], Callable[[Row], Sequence[Any]]]:
    """Return the columns of a table here, and what makes a row of them."""
    forms = [_WRITE[column.form] for column in kept.columns]
    more = [name for name, _ in kept.fixed]
    same = [content for _, content in kept.fixed]
    extra: Callable[[Row], Sequence[Any]] = _nothing
    if kept is RECORDS:
        more, extra = [*COLUMNS, "lane", "n"], _columns_of_record
    elif kept is PINS:
        more, extra = ["approved"], lambda row: (digest_in(row),)

    def write(row: Row) -> Sequence[Any]:
        said = [one(each) for one, each in zip(forms, row, strict=True)]
        return (*said, *same, *extra(row))

    return [*map(_there, kept.columns), *more], write


def _there(column: Column) -> str:
    return column.there


def _nothing(_: Row) -> Sequence[Any]:
    return ()


def _columns_of_record(row: Row) -> Sequence[Any]:
    """Return what is searched by, and a lane that nobody ever had."""
    index, _, body = row
    return (*filed(columns_of(body)), 0, index)


def _opened(sealer: Sealer, name: str, sealed: str) -> bytes:
    try:
        return sealer.open(sealed, key_row(name))
    except Unsealable as error:
        raise ConfigError(f"the key {name} in the database cannot be opened") from error


def _rows_of(keys: Sequence[DataKey]) -> Sequence[Row]:
    return [(key.id, key.wrapped, key.kek_id, key.created_at) for key in keys]


def _same(said: Any) -> Any:
    return said


def _stored(said: Any) -> Any:
    (found,) = stored((said,))
    return found


def _list(said: str) -> bytes:
    return json.dumps(orjson.loads(said)).encode()


def _as_list(said: bytes) -> str:
    return orjson.dumps(json.loads(said)).decode()


_WRITE: Final[Mapping[Form, Callable[[Any], Any]]] = {
    Form.SAME: written,
    Form.SHOWN: _same,
    Form.GIVEN: lambda said: written(Given(said)),
    Form.FLAG: bool,
    Form.LIST: _list,
}
_READ: Final[Mapping[Form, Callable[[Any], Any]]] = {
    Form.SAME: _stored,
    Form.SHOWN: _same,
    Form.GIVEN: given,
    Form.FLAG: int,
    Form.LIST: _as_list,
}


@contextmanager
def _usable() -> Iterator[None]:
    try:
        yield
    except (psycopg.Error, sqlite3.Error) as error:  # the log is read as SQLite's is
        raise ConfigError(f"PostgreSQL cannot be used: {str(error).strip()}") from error
