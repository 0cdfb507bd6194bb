"""Statements of both databases as PostgreSQL wants them: what differs between the two is spelled here."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final

from gateway.storage.identity.remembered import Row
from gateway.storage.identity.statements import Parameters, Result
from gateway.storage.postgres.connection import Connection
from gateway.storage.state import Given

_ESCAPE: Final = "\x10"
_ESCAPED: Final = re.compile(f"{_ESCAPE}([{_ESCAPE}0])")
_VALUE: Final = re.compile(r"\?|:([a-z_]+)|%")


class SpelledStatements:
    """Runs statements with `?` or `:name` where a value goes. What the server says is raised as it is."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def execute(self, statement: str, parameters: Parameters = (), /) -> Result:
        """Run a statement.

        Raises:
            psycopg.Error: What the server or the way to it says.

        """
        cursor = self._connection.execute(_spelled(statement), _storable(parameters))
        rows = cursor if cursor.description is not None else ()
        return Result(rows=tuple(map(stored, rows)), rowcount=cursor.rowcount)

    def executemany(self, statement: str, rows: Iterable[Sequence[object]], /) -> None:
        """Run it for each of `rows`; likewise."""
        with self._connection.cursor() as cursor:
            cursor.executemany(_spelled(statement), [[*map(written, row)] for row in rows])


@lru_cache(maxsize=512)
def _spelled(statement: str) -> bytes:
    """Return a statement of both databases as psycopg wants it. The texts are ours, and few."""

    def value(found: re.Match[str]) -> str:
        if found[0] == "%":
            return "%%"
        return f"%({found[1]})s" if found[1] else "%s"

    return _VALUE.sub(value, statement).encode()


def _storable(parameters: Parameters) -> Parameters | None:
    """Return values as a column takes them: a text of PostgreSQL has no NUL, one of SQLite may."""
    if isinstance(parameters, Mapping):
        return {name: written(one) for name, one in parameters.items()}
    return [*map(written, parameters)] or None


def written(one: object) -> object:
    """Return a value as a column takes it; `stored` gives it back."""
    if isinstance(one, Given):
        # Kept as octets, by which calls are compared.
        return one.encode("utf-8", "surrogatepass")
    if isinstance(one, str) and ("\0" in one or _ESCAPE in one):
        return one.replace(_ESCAPE, _ESCAPE * 2).replace("\0", f"{_ESCAPE}0")
    return one


def stored(row: Row) -> Row:
    """Return what was written into the columns of a row."""
    return tuple(
        _ESCAPED.sub(lambda found: found[1].replace("0", "\0"), one)
        if isinstance(one, str) and _ESCAPE in one
        else one
        for one in row
    )
