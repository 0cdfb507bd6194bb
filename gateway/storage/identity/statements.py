"""What the jobs of the identity stores ask of a database, whichever it is.

Their statements are what SQLite and PostgreSQL both understand, with `?` or `:name` where a value
goes. A job may run twice: another's commit can end the first try, of which nothing is left.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

from gateway.domain._value import value
from gateway.domain.epoch import Epoch
from gateway.errors import IdentityUnavailable
from gateway.storage.identity.remembered import Row

T = TypeVar("T")

Parameters = Sequence[object] | Mapping[str, object]


class Refused(Exception):
    """The tables take no such row: a name in it is taken, or nobody has it. The job ends with it."""


def unavailable(error: Exception) -> IdentityUnavailable:
    """Return what is raised where the database does not do what it is asked for."""
    return IdentityUnavailable("sign-in is not available at the moment", detail=str(error))


@value
class Result:
    """What a statement did."""

    rows: tuple[Row, ...]
    rowcount: int
    """How many rows it changed."""

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def fetchall(self) -> Sequence[Row]:
        return self.rows

    def fetchone(self) -> Row | None:
        return self.rows[0] if self.rows else None


class Statements(Protocol):
    """A database, in a transaction of a job's own."""

    def execute(self, statement: str, parameters: Parameters = (), /) -> Result:
        """Run a statement.

        Raises:
            Refused: A constraint is in its way.
            IdentityUnavailable: It cannot be run now.

        """
        ...

    def executemany(self, statement: str, rows: Iterable[Sequence[object]], /) -> None:
        """Run it for each of `rows`; likewise."""
        ...


class IdentityDatabase(Protocol):
    """What people, clients, grants and sealed secrets are kept in, by one process or by several.

    Whatever must happen once is a conditional write inside of one job, never a look into memory.
    """

    @property
    def epoch(self) -> Epoch:
        """Turned once any memory may hold something else: after every change, whoever made it."""
        ...

    @property
    def people(self) -> int:
        """How often rights of anybody had ended by what memories hold, or fewer, but never more.

        Whoever looks something up reads it before.
        """
        ...

    def remembers(self, load: Callable[[Statements], None], *, ours: bool = False) -> None:
        """Fill a memory now, and again whenever another process has changed the database.

        With `ours` also after each change of this one: for what a trigger may have changed. Such a
        memory's `load` never fails.

        Raises:
            IdentityUnavailable: The database cannot be read now.

        """
        ...

    def write(
        self, job: Callable[[Statements], T], *, committed: Callable[[T], None] | None = None
    ) -> T:
        """Return what `job` returns once its changes are durable; if it raises, none is made.

        What it reads stays true until then. `committed` is called with the result before any other
        transaction of this process: memory follows the database, in its order.

        Raises:
            IdentityUnavailable: The database cannot be written now.

        """
        ...

    def read(self, job: Callable[[Statements], T]) -> T:
        """Return what `job` reads.

        Raises:
            IdentityUnavailable: The database cannot be read now.

        """
        ...

    def follow(self) -> bool:
        """Fill the memories anew if another process has committed; say whether it has.

        Raises:
            IdentityUnavailable: The database cannot be read now.

        """
        ...

    def close(self) -> None: ...
