"""A data directory as an end of a move: two files of SQLite, and keys in files beside them."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, Final, Self

from gateway.audit.checkpoint import VerifierKey
from gateway.audit.record import COLUMNS, columns_of
from gateway.domain.secrets import DataKey
from gateway.errors import ConfigError
from gateway.ports.secrets import Sealer
from gateway.storage.beside import waiting_in
from gateway.storage.connection import Durability, open_reader, open_writer
from gateway.storage.database import CHECKPOINT, DATABASE
from gateway.storage.earlier_key import SIGNING_KEY
from gateway.storage.files import (
    DirectoryLock,
    create_private,
    private_directory,
    remove,
    write_atomically,
)
from gateway.storage.identity.database import DATABASE as IDENTITY_DATABASE
from gateway.storage.keeping import need_nothing_in
from gateway.storage.keys import audit_key
from gateway.storage.moving import key_files
from gateway.storage.moving.mark import Moved, mark_in
from gateway.storage.moving.marking import forget_mark, keep_mark
from gateway.storage.moving.sides import Contents, Row, Rows
from gateway.storage.moving.tables import (
    BEFORE_THE_FRONT,
    DATA_KEYS,
    IDENTITY,
    RECORDS,
    STATE,
    Column,
    Form,
    Kept,
)
from gateway.storage.schema import IDENTITY as IDENTITY_TABLES
from gateway.storage.schema import LOG, is_current, migrate
from gateway.storage.spooling import absorbed_of, place_of
from gateway.storage.stop import STOP
from gateway.storage.tree import front_of
from gateway.storage.verify import Verification, verify_in

_WAIT_S: Final = 5.0
_LONGEST_INDEXED: Final = 2_000
"""Bytes, of the 2,704 that PostgreSQL has for all columns of a key."""
_SHOWN: Final = "\u2400"
_START_ONCE: Final = "start the gateway on it once with `storage.kind: sqlite`, and stop it"
_SIZE: Final = "SELECT coalesce(max(leaf_index) + 1, (SELECT count(*) FROM tiles) * 256) FROM audit"


class _Files:
    """What is read of a directory, whichever end it is. Its connections are opened by `_open`."""

    _log: sqlite3.Connection
    _identity: sqlite3.Connection

    def __init__(self, data_dir: Path) -> None:
        """Open nothing yet."""
        self.place = str(data_dir)
        self._data_dir = data_dir
        self._held = ExitStack()

    def close(self) -> None:
        """Let others have it."""
        self._held.close()

    def mark(self) -> Moved | None:
        """Return why nothing is served from it; see `Side`."""
        return mark_in(self._data_dir)

    def data_keys(self) -> Sequence[DataKey]:
        """Return the wrapped keys; see `Side`."""
        return [
            DataKey(id=name, wrapped=wrapped, kek_id=kek, created_at=at)
            for name, wrapped, kek, at in sorted(self.rows(DATA_KEYS))
        ]

    def contents(self, sealer: Sealer) -> Contents:  # noqa: ARG002 - here keys are files
        """Return what is beside the tables; see `Side`."""
        (size,) = self._log.execute(_SIZE).fetchone()
        return Contents(
            log_id=self._log_id(),
            size=size,
            front=front_of(self._log),
            stopped=_stopped(self._data_dir / STOP),
            data_keys=tuple(self.data_keys()),
            secrets=key_files.found(self._data_dir),
        )

    def rows(self, kept: Kept, *, after: int | None = None) -> Iterator[Row]:
        """Yield a table's rows; see `Side`."""
        columns = ", ".join(map(_read, kept.columns))
        terms = [f"length(CAST({kept.fits} AS BLOB)) <= {_LONGEST_INDEXED}"] if kept.fits else []
        if after is not None:
            terms.append(f"{kept.columns[0].name} > ?")
        where = f" WHERE {' AND '.join(terms)}" if terms else ""
        order = "" if kept.order is None else f" ORDER BY {kept.order[0]}"
        sql = f"SELECT {columns} FROM {kept.name}{where}{order}"  # noqa: S608 - fixed text
        shown = [column.form is Form.SHOWN for column in kept.columns]
        for row in self._of(kept).execute(sql, () if after is None else (after,)):
            yield tuple(map(_shown, row, shown)) if any(shown) else row

    def verified(self, verifier: VerifierKey) -> Verification:
        """Compare the log; see `Side`."""
        newest = self._data_dir / CHECKPOINT
        given = [(str(newest), newest.read_text("utf-8", "replace"))] if newest.exists() else []
        return verify_in(self._log, verifier, checkpoints=given)

    def _of(self, kept: Kept) -> sqlite3.Connection:
        return self._identity if kept.identity else self._log

    def _log_id(self) -> str:
        row = self._log.execute("SELECT value FROM meta WHERE key = 'log_id'").fetchone()
        return "" if row is None else str(row[0])


class FilesSource(_Files):
    """A directory that is read as it is at one moment; nothing in it is changed but by `part`."""

    @classmethod
    def open(cls, data_dir: Path) -> Self:
        """Hold a directory until `close`.

        Raises:
            ConfigError: There is no gateway's, or somebody serves from it.

        """
        for path in _databases(data_dir):
            if not path.is_file():
                raise ConfigError(f"{path} is not there: no gateway has kept anything here")
        opened = cls(data_dir)
        with _held_by(opened, data_dir) as held:
            readers = [
                held.enter_context(closing(open_reader(path))) for path in _databases(data_dir)
            ]
            for one in readers:
                one.execute("BEGIN")
            opened._log, opened._identity = readers
        return opened

    def require_whole(self) -> None:
        """Return if everything is in the tables; see `Source`."""
        if not (is_current(self._log, LOG) and is_current(self._identity, IDENTITY_TABLES)):
            raise ConfigError(f"{self.place} is another version's: {_START_ONCE}")
        if (self._data_dir / SIGNING_KEY).exists():
            raise ConfigError(f"{self._data_dir / SIGNING_KEY} is not sealed yet: {_START_ONCE}")
        waiting = waiting_in(self._data_dir)
        if waiting:
            raise ConfigError(
                f"{waiting} records are in the journal, and not in the log yet: {_START_ONCE}"
            )
        if place := place_of(self._log):
            key = audit_key(self._data_dir)
            spool = self._data_dir / place
            need_nothing_in(spool, absorbed_of(self._log), self._log_id(), key)

    def part(self, moved: Moved) -> None:
        """Have nothing served from here; see `Source`."""
        keep_mark(self._data_dir, moved)


class FilesTarget(_Files):
    """A directory that is written into from `begin` on, and not touched before."""

    def require_empty(self) -> None:
        """Return if nothing is there; see `Target`."""
        if mark_in(self._data_dir) is None and any(map(_has_tables, _databases(self._data_dir))):
            raise ConfigError(
                f"{self.place} is a gateway's already: name a folder that is not there"
            )

    def begin(self, moved: Moved) -> None:
        """Make the tables, behind the mark; see `Target`."""
        private_directory(self._data_dir)
        with _held_by(self, self._data_dir) as held:
            self.require_empty()
            there = mark_in(self._data_dir)
            if there is not None and there.move != moved.move:
                raise ConfigError(f"{self.place} is another move's")
            keep_mark(self._data_dir, moved)
            self._log, self._identity = (
                _opened_for_writing(path, held) for path in _databases(self._data_dir)
            )
            self._identity.execute("PRAGMA foreign_keys = 1")
            migrate(self._log, LOG)
            migrate(self._identity, IDENTITY_TABLES)

    def newest(self, kept: Kept) -> int | None:
        """Return the last number of a table; see `Target`."""
        sql = f"SELECT max({kept.columns[0].name}) FROM {kept.name}"  # noqa: S608 - fixed text
        (found,) = self._log.execute(sql).fetchone()
        return None if found is None else int(found)

    def add(self, kept: Kept, rows: Sequence[Row]) -> None:
        """Have further rows; see `Target`."""
        with _transaction(self._log):
            self._put(kept, iter(rows))

    def keep(self, contents: Contents, rows: Rows, sealer: Sealer) -> None:  # noqa: ARG002 - files
        """Have everything but what grows; see `Target`."""
        with _transaction(self._identity):
            self._clear((*IDENTITY, DATA_KEYS))
            self._put(DATA_KEYS, iter(_rows_of(contents.data_keys)))
            for kept in IDENTITY:
                self._put(kept, rows(kept))
        with _transaction(self._log):
            self._clear((*BEFORE_THE_FRONT, *STATE))
            for kept in BEFORE_THE_FRONT:
                self._put(kept, rows(kept))
            self._move_front(contents.front)
            for kept in STATE:
                self._put(kept, rows(kept))
            meta = [("log_id", contents.log_id), ("batch", "0")]
            self._log.executemany("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", meta)
        key_files.keep(self._data_dir, contents.secrets)
        self._keep_beside(contents)

    def serve(self) -> None:
        """Let a gateway serve from it; see `Target`."""
        forget_mark(self._data_dir)

    def _clear(self, tables: Sequence[Kept]) -> None:
        for kept in reversed(tables):
            self._of(kept).execute(f"DELETE FROM {kept.name}")  # noqa: S608 - fixed text

    def _move_front(self, front: int) -> None:
        self._log.execute("UPDATE log_front SET first = ? WHERE first < ?", (front, front))
        self._log.execute("DELETE FROM audit WHERE leaf_index < ?", (front,))

    def _put(self, kept: Kept, rows: Iterator[Row]) -> None:
        names = [column.name for column in kept.columns]
        if kept is RECORDS:
            names += COLUMNS
            rows = ((index, leaf, body.decode(), *columns_of(body)) for index, leaf, body in rows)
        places = ", ".join("?" * len(names))
        sql = f"INSERT INTO {kept.name} ({', '.join(names)}) VALUES ({places})"  # noqa: S608 - fixed
        self._of(kept).executemany(sql, rows)

    def _keep_beside(self, contents: Contents) -> None:
        newest = self._log.execute(
            "SELECT note FROM checkpoints ORDER BY size DESC LIMIT 1"
        ).fetchone()
        if newest is not None:
            write_atomically(self._data_dir / CHECKPOINT, newest[0].encode())
        if contents.stopped is None:
            remove(self._data_dir / STOP)
        else:
            write_atomically(self._data_dir / STOP, contents.stopped.encode())


def _databases(data_dir: Path) -> tuple[Path, Path]:
    return data_dir / DATABASE, data_dir / IDENTITY_DATABASE


def _has_tables(path: Path) -> bool:
    if not path.exists():
        return False
    with closing(open_reader(path)) as connection:
        (count,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        return bool(count)


@contextmanager
def _held_by(side: _Files, data_dir: Path) -> Iterator[ExitStack]:
    """Give what is let go of with `side`, or at once where something fails: the directory's lock first."""
    with ExitStack() as held:
        held.callback(DirectoryLock(data_dir).release)
        try:
            yield held
        except sqlite3.Error as error:
            raise ConfigError(f"{data_dir} cannot be used: {error}") from error
        side._held = held.pop_all()  # noqa: SLF001 - it is this file's


def _opened_for_writing(path: Path, held: ExitStack) -> sqlite3.Connection:
    create_private(path)
    opened = open_writer(path, durability=Durability.POWER, wait_s=_WAIT_S)
    return held.enter_context(closing(opened))


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _read(column: Column) -> str:
    return "CAST(body AS BLOB)" if column.name == "body" else column.name


def _shown(said: Any, is_shown: bool) -> Any:
    return said.replace("\0", _SHOWN) if is_shown and isinstance(said, str) else said


def _stopped(path: Path) -> str | None:
    """Return what was written there. What cannot be read stops everything as well, wherever it is."""
    if not path.exists():
        return None
    return path.read_text("utf-8", "replace").replace("\0", "?")


def _rows_of(keys: Sequence[DataKey]) -> Sequence[Row]:
    return [(key.id, key.wrapped, key.kek_id, key.created_at) for key in keys]
