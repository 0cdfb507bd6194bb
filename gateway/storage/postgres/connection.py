"""Connections to PostgreSQL: what holds for each of them, and one that comes back by itself."""

import threading
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from functools import partial
from typing import Any, Final, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from gateway.errors import ConfigError

T = TypeVar("T")

RV = TypeVar("RV")

_LOOKS_S: Final = 0.1
"""How often somebody who waits sees whether they were interrupted."""

_OF_THE_WIRE: Final[Mapping[str, str]] = {
    "connect_timeout": "2",
    "keepalives_idle": "3",
    "keepalives_interval": "1",
    "keepalives_count": "3",
    "tcp_user_timeout": "3000",
}
"""Unless an operator says otherwise: a machine that is silent is noticed before a call gives up."""

_OF_THE_SESSION: Final[Mapping[str, str]] = {
    "timezone": "UTC",
    "default_transaction_isolation": "read committed",
    # What was confirmed is on the disk, whatever a role or a database has as its default.
    "synchronous_commit": "on",
    # Plans are made for what is there, and compiling them takes longer than running them.
    "jit": "off",
    "client_min_messages": "warning",
    # A replica that is stopped in a transaction does not hold its locks against the others.
    "idle_in_transaction_session_timeout": "2s",
    "lock_timeout": "3s",
    "statement_timeout": "10s",
    # Nor does one whose machine is gone without a word: the server looks for it, as it looks for the server.
    "tcp_keepalives_idle": "3",
    "tcp_keepalives_interval": "1",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "3000",
}
_ROUNDS: Final = 3
_POOLED: Final = (
    "storage.url: between here and PostgreSQL is a pooler that lends sessions out by transaction or by "
    "statement, and locks, settings and prepared statements are a session's: give gateways a pool by session "
    "(`pool_mode=session` for their database in PgBouncer), or the server's own address"
)
_URIS: Final = ("postgresql", "postgres")
_AS_ALWAYS: Final[Mapping[str, str]] = {}


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that does not wait for ever: a server that is stopped keeps its sockets open."""

    patience_s = 12.0
    """How long a statement may take: longer than the server lets it, if the server does anything."""

    def wait(self, gen: PQGen[RV], interval: float = _LOOKS_S, timeout: float | None = None) -> RV:
        """Wait for the server.

        Raises:
            psycopg.OperationalError: It does not answer. The connection is of no use any more.

        """
        try:
            return super().wait(gen, interval, self.patience_s if timeout is None else timeout)
        except psycopg.errors._WaitTimeout as error:  # noqa: SLF001 - it has no other name
            self.pgconn.finish()
            raise psycopg.OperationalError("the server does not answer") from error

    def let_go(self) -> None:
        """Close it, and what its session has locked is free: a server at work notices late who has gone."""
        with closing(self), suppress(psycopg.Error):
            self.execute("SELECT pg_advisory_unlock_all()")


def addressed(conninfo: str) -> str:
    """Return `conninfo` with what holds for every connection of ours: only ever to a primary.

    What a standby holds is behind what was confirmed, also where it is synchronous.

    Raises:
        ConfigError: It is no connection string of libpq, or libpq takes a password for something else.

    """
    if _is_misread(conninfo):
        raise ConfigError(
            "the password in the address of PostgreSQL is not spelled as in a URI: write `%40` for `@` "
            "and `%2F` for `/`, or put it into a `passfile`"
        )
    try:
        given = conninfo_to_dict(conninfo)
    except psycopg.ProgrammingError as error:
        # libpq's words may quote the string, and with it a password.
        raise ConfigError("the address of PostgreSQL is no connection string of libpq") from error
    found: dict[str, Any] = {**_OF_THE_WIRE, **given, "target_session_attrs": "read-write"}
    return make_conninfo(**found)


def _is_misread(conninfo: str) -> bool:
    """Say whether libpq finds a part of the password in the host, port or database, which it tells."""
    scheme, _, rest = conninfo.partition("://")
    if scheme not in _URIS:
        return False
    # For libpq credentials end with the first `@`, if no `/` comes before.
    credentials, found, place = rest.partition("@")
    if not found or "/" in credentials:
        place = rest
    return "@" in place.partition("?")[0]


def connect(
    conninfo: str,
    *,
    application: str,
    patience_s: float = Connection.patience_s,
    settings: Mapping[str, str] = _AS_ALWAYS,
) -> Connection:
    """Return a new connection, in which each statement is a transaction unless one is begun.

    `settings` are the session's, beside and before those of every one.

    Raises:
        psycopg.OperationalError: There is none to be had now.

    """
    connection = Connection.connect(
        addressed(conninfo), autocommit=True, application_name=application
    )
    connection.patience_s = patience_s
    try:
        connection.execute(session_settings(settings))
    except BaseException:
        connection.close()
        raise
    return connection


def session_settings(more: Mapping[str, str] = _AS_ALWAYS) -> bytes:
    """Return the statement that makes a session one of ours: also behind PgBouncer, by session."""
    settings = {**_OF_THE_SESSION, **more}
    said = ", ".join(f"set_config('{name}', '{to}', false)" for name, to in settings.items())
    return f"SELECT {said}".encode()


def require_sessions(conninfo: str) -> None:
    """Return if a connection has one session of the server's, as long as it is open.

    Locks, settings and prepared statements are a session's. A pooler that gives each transaction whichever
    is free takes it away between two statements, and gives another connection that of the first.

    Raises:
        ConfigError: It does so, or the address is none.
        psycopg.Error: There is no connection to be had.

    """
    if wrong := pooled(conninfo):
        raise ConfigError(wrong)


def pooled(conninfo: str) -> str:
    """Return what is wrong where a connection does not have a session of its own; see `require_sessions`."""
    with closing(_bare(conninfo)) as one, closing(_bare(conninfo)) as other:
        return _POOLED if any(_is_lent(one, other) for _ in range(_ROUNDS)) else ""


def _bare(conninfo: str) -> Connection:
    """Connect, and set nothing: it would be set for whoever is given that session next."""
    return Connection.connect(
        addressed(conninfo), autocommit=True, application_name="douane sessions"
    )


def _is_lent(one: Connection, other: Connection) -> bool:
    found = [_backend(one), _backend(one)]
    try:
        with other.transaction():  # whatever is free is not from here on
            taken = _backend(other)
            return {*found, _backend(one)} != {found[0]} or taken == found[0]
    except psycopg.errors.ProtocolViolation:  # no transactions: each statement is given any session
        return True


def _backend(connection: Connection) -> int:
    ((pid,),) = connection.execute(b"SELECT pg_backend_pid()").fetchall()
    return int(pid)


class Session:
    """One connection for many threads, one at a time; a lost one is made anew when it is needed."""

    def __init__(
        self,
        conninfo: str,
        *,
        application: str,
        patience_s: float,
        settings: Mapping[str, str] = _AS_ALWAYS,
    ) -> None:
        """Connect at first use: nothing is asked of the server before."""
        self._connect = partial(
            connect,
            conninfo,
            application=application,
            patience_s=patience_s,
            settings=settings,
        )
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        self._closed = False

    def use(self, job: Callable[[Connection], T]) -> T:
        """Return what `job` returns, which leaves no transaction open.

        Raises:
            psycopg.Error: What the server or the way to it says; whether a change that was under way
                was made is not known then.

        """
        with self._lock:
            connection = self._live()
            try:
                return job(connection)
            except BaseException:
                _settle(connection)
                raise

    def close(self) -> None:
        """Let go of it for good."""
        with self._lock:
            self._closed = True
            if self._connection is not None:
                self._connection.close()

    def _live(self) -> Connection:
        if self._closed:
            raise psycopg.OperationalError("the session is closed")
        if self._connection is not None and not self._connection.closed:
            try:
                # A server that was restarted meanwhile is noticed before anything is asked of it.
                self._connection.execute(b"")
            except psycopg.OperationalError:
                self._connection.close()
        if self._connection is None or self._connection.closed:
            self._connection = self._connect()
        return self._connection


def _settle(connection: Connection) -> None:
    """Leave no transaction open; a connection that cannot be told so is given up."""
    try:
        connection.rollback()
    except psycopg.Error:
        connection.close()
