"""What people do about the log's age: put old records into files, remove them, hold them."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from gateway.admin.journal import Change, Journal
from gateway.admin.person import Person, Role
from gateway.admin.rows import Row, Rows
from gateway.audit.query import QueryError, time_us
from gateway.domain.audit import RecordKind
from gateway.errors import BadCommand, ConfigError
from gateway.ports import Clock

T = TypeVar("T")


class Segment(Protocol):
    """A file of archived records."""

    @property
    def members(self) -> Mapping[str, Any]: ...


class Removed(Protocol):
    """What has left the log."""

    @property
    def first(self) -> int: ...
    @property
    def stop(self) -> int: ...
    @property
    def root(self) -> bytes: ...


class Retention(Protocol):
    """See `gateway.storage.retention.Retention`."""

    async def archive(self, before_us: int) -> Sequence[Segment]: ...
    async def prune(self, before_us: int) -> Removed: ...
    async def hold(self, since_us: int | None) -> int | None: ...


class KeepingDesk:
    """Use cases for admins. Each is on record before it happens."""

    def __init__(self, retention: Retention, journal: Journal, *, clock: Clock) -> None:
        self._retention = retention
        self._journal = journal
        self._clock = clock

    async def archive(self, person: Person, *, before: str) -> Rows:
        """Write what is older into files that prove themselves; return the new ones.

        Raises:
            Forbidden: The person is no admin; so for all of these.
            BadCommand: The time cannot be read.
            BadCommand: It could not be written; what was is told.

        """
        limit = self._time(person, before)
        made = await self._made(
            person, "archive", f"before {before}", lambda: self._retention.archive(limit)
        )
        return [dict(one.members) for one in made]

    async def prune(self, person: Person, *, before: str) -> Row:
        """Remove from the log what is older, archived, signed, and followed by all.

        Raises:
            BadCommand: Not all of it is; nothing was removed.

        """
        limit = self._time(person, before)
        removed = await self._made(
            person, "prune", f"before {before}", lambda: self._retention.prune(limit)
        )
        return {"from": removed.first, "to": removed.stop, "root": removed.root.hex()}

    async def hold(self, person: Person, *, since: str | None = None) -> Row:
        """Let nothing leave the log that is of `since` or later; without, end that."""
        limit = None if since is None else self._time(person, since)
        person.need(Role.ADMIN)
        subject = "nothing" if since is None else f"since {since}"
        held = await self._made(person, "hold", subject, lambda: self._retention.hold(limit))
        return {"held_from": held}

    def _time(self, person: Person, text: str) -> int:
        person.need(Role.ADMIN)
        try:
            return time_us(text, self._clock())
        except QueryError as error:
            raise BadCommand(str(error)) from error

    async def _made(
        self, person: Person, what: str, subject: str, act: Callable[[], Awaitable[T]]
    ) -> T:
        async def acted() -> T:
            try:
                return await act()
            except (ValueError, OSError, ConfigError) as error:
                raise BadCommand(f"the log stays as it is: {error}") from error

        change = Change(
            kind=RecordKind.ADMIN,
            method=f"audit.{what}",
            code=what,
            subject=subject,
            fields={},
        )
        return await self._journal.make(person, change, acted)
