"""What people do about the log's age: put old records into files, remove them, hold them."""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import count
from typing import Any, Protocol, TypeVar

from gateway.admin.archive import unusable
from gateway.admin.journal import Change, Journal
from gateway.admin.person import Person, Role
from gateway.admin.rows import Row, Rows
from gateway.audit.query import QueryError, time_us
from gateway.domain.audit import RecordKind
from gateway.errors import BadCommand, ConfigError
from gateway.ports import Clock

T = TypeVar("T")

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}", re.ASCII)


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


class Held(Protocol):
    """What must not leave the log, and by which name."""

    @property
    def name(self) -> str: ...
    @property
    def first(self) -> int: ...


class Retention(Protocol):
    """See `gateway.storage.retention.Retention`."""

    async def archive(self, before_us: int) -> Sequence[Segment]: ...
    async def prune(self, before_us: int) -> Removed: ...
    async def hold(self, name: str, since_us: int) -> int: ...
    async def release(self, name: str) -> None: ...
    async def holds(self) -> Sequence[Held]: ...


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

    async def hold(self, person: Person, *, since: str, name: str | None = None) -> Row:
        """Let nothing leave the log that is of `since` or later, until that hold is released.

        It stands beside every other one. Without a name it gets one.

        Raises:
            BadCommand: There is a hold of that name, or nothing can be named so.

        """
        limit = self._time(person, since)
        called = await self._free() if name is None else name
        if not _NAME.fullmatch(called):
            raise BadCommand("a hold's name is 1 to 64 of A-Z, a-z, 0-9, `_`, `.`, `-`")
        first = await self._made(
            person, "hold", f"{called}: since {since}", lambda: self._retention.hold(called, limit)
        )
        return {"name": called, "held_from": first}

    async def release(self, person: Person, *, name: str | None = None) -> Row:
        """End one hold; the others stay. Without a name, the only one that there is.

        Raises:
            BadCommand: There is none of that name, or it is not said which.

        """
        person.need(Role.ADMIN)
        known = [one.name for one in await self._retention.holds()]
        if name is None and len(known) != 1:
            raise BadCommand(f"say which hold: {', '.join(known) or 'there is none'}")
        which = known[0] if name is None else name
        if which not in known:
            raise BadCommand("there is no hold of that name")
        await self._made(person, "release", which, lambda: self._retention.release(which))
        return {"name": which, "held_from": None}

    async def holds(self, person: Person) -> Rows:
        """Return every hold: its name, and the leaf index of the first record that it holds."""
        person.need(Role.ADMIN, Role.AUDITOR)
        return [{"name": one.name, "held_from": one.first} for one in await self._retention.holds()]

    async def _free(self) -> str:
        taken = {one.name for one in await self._retention.holds()}
        return next(name for n in count(1) if (name := f"hold-{n}") not in taken)

    def _time(self, person: Person, text: str) -> int:
        person.need(Role.ADMIN)
        try:
            return time_us(text, self._clock())
        except QueryError as error:
            raise unusable(error) from error

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
