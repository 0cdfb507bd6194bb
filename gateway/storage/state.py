"""What the stores of a gateway's state ask of a database, whichever it is.

Their statements are what SQLite and PostgreSQL both understand, with `?` where a value goes. A job may
run twice: another's commit can end the first try, of which nothing is left.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, Final, Protocol, TypeVar

T = TypeVar("T")

EVERY: Final = 1_000_000_000
"""As a `LIMIT` no bound: SQLite has no `OFFSET` without one, and PostgreSQL none that is negative."""


class Found(Protocol):
    """What a statement did."""

    @property
    def rowcount(self) -> int:
        """How many rows it changed."""
        ...

    def fetchone(self) -> Any: ...
    def fetchall(self) -> Sequence[Any]: ...
    def __iter__(self) -> Iterator[Any]: ...


class Tables(Protocol):
    """The tables, in a transaction of a job's own: SQLite's connection, or what answers as that does."""

    def execute(self, sql: str, parameters: Sequence[Any] = ..., /) -> Found: ...
    def executemany(self, sql: str, rows: Iterable[Sequence[Any]], /) -> object:
        """Run a statement for each of `rows`."""
        ...


class StateWriter(Protocol):
    """Where changes of state become durable."""

    async def run(
        self, job: Callable[[Tables], T], *, committed: Callable[[T], None] | None = None
    ) -> T:
        """Return what `job` returns, once its changes are durable; its own errors are raised.

        What it reads stays true until then. `committed` is called with the result on the event loop,
        in the order of the commits, even if nobody waits for the result any more: memory follows the
        database.

        Raises:
            AuditUnavailable: The change did not happen, or is not known to have, in time.

        """
        ...


class Remembering(Protocol):
    """A store whose memory shows what others have committed as well."""

    @property
    def kept_in(self) -> Collection[str]:
        """The tables that it is about."""
        ...

    def look(self, tables: Tables, keys: Collection[str] | None) -> Callable[[], object]:
        """Return what has memory show the rows under `keys` as they are, on the event loop.

        Of a key without a row nothing is shown any more. `None` are all there are: then nothing else
        is shown.
        """
        ...


class Given(str):
    """A text that somebody else has given a name by: it may hold what a text of a database cannot."""

    __slots__ = ()


def given(column: "str | bytes") -> str:
    """Return what was written as `Given`."""
    return column if isinstance(column, str) else column.decode("utf-8", "surrogatepass")
