"""People: who may sign in, what they belong to, and the link with which they choose a password."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Protocol, TypeVar

from gateway.admin.journal import Change, Journal, require_told
from gateway.admin.people import People
from gateway.admin.person import Person, Role
from gateway.admin.rows import Row, Rows, rfc3339
from gateway.domain.audit import RecordKind
from gateway.domain.identity import User
from gateway.errors import BadCommand, NotFound
from gateway.ports import Clock
from gateway.ports.identity import UserStore

T = TypeVar("T")

_NAME = re.compile(r"[a-z0-9][a-z0-9._@-]{0,63}", re.ASCII)
_OS_USER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}", re.ASCII)
_LONGEST_GROUP = 512


class SetupLinks(Protocol):
    """One-time links with which people choose a password. Both wait for the disk."""

    def for_new(self, user: User) -> str:
        """Store a new person and return their link.

        Raises:
            ValueError: The subject or the operating system's user is taken.

        """
        ...

    def another(self, user_id: str) -> str:
        """Return a new link; older ones end.

        Raises:
            LookupError: There is no such person.

        """
        ...


class UserDesk:
    """Use cases over a `UserStore`. Results are plain JSON.

    People who sign in at a provider appear with their first sign-in; only those who have a password
    here are added by an administrator.
    """

    def __init__(
        self,
        users: UserStore,
        people: People,
        journal: Journal,
        *,
        issuer: str,
        links: SetupLinks | None,
        clock: Clock,
        new_id: Callable[[], str],
    ) -> None:
        """Take our own `issuer`, and `links`, which there are none of if passwords are elsewhere."""
        self._users = users
        self._people = people
        self._journal = journal
        self._issuer = issuer
        self._links = links
        self._clock = clock
        self._new_id = new_id

    async def whoami(self, person: Person) -> Row:
        """Return who the gateway takes the asking person for; everybody may ask."""
        return {
            "name": person.name,
            "roles": sorted(role.value for role in person.roles),
            "user_id": person.user_id or None,
            "how": person.how.value,
        }

    async def list(self, person: Person) -> Rows:
        """Return one row a person, by name."""
        person.need(Role.ADMIN, Role.AUDITOR)
        return [self._row(user) for user in self._users.all()]

    async def add(
        self,
        person: Person,
        *,
        name: str,
        groups: Sequence[str] = ("users",),
        os_user: str = "",
        display_name: str = "",
    ) -> Row:
        """Add a person who will have a password here; `setup_url` of the result is shown once.

        Raises:
            Forbidden: The person is no admin.
            BadCommand: The name or the operating system's user is taken, or cannot be one; or
                people do not have passwords here.

        """
        person.need(Role.ADMIN)
        links = self._passwords_here()
        if not _NAME.fullmatch(name):
            raise BadCommand("a user's name is 1 to 64 of a-z, 0-9, `.`, `_`, `@`, `-`")
        _check(groups, os_user)
        user = User(
            id=self._new_id(),
            issuer=self._issuer,
            subject=name,
            name=_shown(display_name or name),
            groups=frozenset(groups),
            os_user=os_user,
            created_at=self._clock(),
            created_by=person.name,
        )
        add, note = partial(links.for_new, user), _what(groups, os_user)
        url = await self._make(person, user, "users.add", "added", _taken(add), note=note)
        return {**self._row(user), "setup_url": url}

    async def change(
        self,
        person: Person,
        *,
        user: str,
        groups: Sequence[str] | None = None,
        os_user: str | None = None,
    ) -> Row:
        """Put a person into exactly these groups, or make them an operating system's user.

        Raises:
            Forbidden: The person is no admin.
            NotFound: There is no such user.
            BadCommand: Nothing is to change; the operating system's user is somebody else's; or the
                groups are the identity provider's to say.

        """
        person.need(Role.ADMIN)
        found = self._find(user)
        if groups is None and os_user is None:
            raise BadCommand("nothing is to change; give groups, or an operating system's user")
        if groups is not None and found.issuer != self._issuer:
            raise BadCommand(
                f"the groups of this user are what {found.issuer} says; change them there"
            )
        _check(groups or (), os_user or "")
        change = partial(
            self._users.change,
            found.id,
            groups=None if groups is None else frozenset(groups),
            os_user=os_user,
            at=self._clock(),
        )
        note = _what(groups, os_user)
        return self._row(
            await self._make(person, found, "users.change", "changed", _taken(change), note=note)
        )

    async def disable(self, person: Person, *, user: str) -> Row:
        """Let a person do nothing more: sessions end, and every token they granted is worthless.

        Raises:
            Forbidden: The person is no admin.
            NotFound: There is no such user.
            BadCommand: It is the person's own.

        """
        return await self._set_disabled(person, user, disabled=True)

    async def enable(self, person: Person, *, user: str) -> Row:
        """Let a person who was disabled sign in again; what was revoked stays so.

        Raises:
            Forbidden: The person is no admin.
            NotFound: There is no such user.

        """
        return await self._set_disabled(person, user, disabled=False)

    async def remove(self, person: Person, *, user: str) -> Row:
        """Forget a person, with sessions, consents and connections, and revoke their grants.

        Raises:
            Forbidden: The person is no admin.
            NotFound: There is no such user.
            BadCommand: It is the person's own.

        """
        person.need(Role.ADMIN)
        found = self._find(user)
        _not_oneself(person, found)
        remove = partial(self._users.remove, found.id, at=self._clock())
        return self._row(await self._make(person, found, "users.remove", "removed", _there(remove)))

    async def link(self, person: Person, *, user: str) -> Row:
        """Make a new one-time link for a person; older ones end, the password stays until then.

        Raises:
            Forbidden: The person is no admin.
            NotFound: There is no such user.
            BadCommand: They have no password here, or are disabled.

        """
        person.need(Role.ADMIN)
        found = self._find(user)
        if found.issuer != self._issuer:
            raise BadCommand(f"this user signs in at {found.issuer} and has no password here")
        if found.disabled:
            raise BadCommand("this user is disabled; enable them first")
        another = partial(self._passwords_here().another, found.id)
        url = await self._make(person, found, "users.link", "linked", _there(another))
        return {**self._row(found), "setup_url": url}

    async def _set_disabled(self, person: Person, named: str, *, disabled: bool) -> Row:
        person.need(Role.ADMIN)
        user = self._find(named)
        if disabled:
            _not_oneself(person, user)
        change = partial(self._users.change, user.id, disabled=disabled, at=self._clock())
        method, code = ("users.disable", "disabled") if disabled else ("users.enable", "enabled")
        return self._row(await self._make(person, user, method, code, _there(change)))

    async def _make(
        self,
        person: Person,
        user: User,
        method: str,
        code: str,
        act: Callable[[], Awaitable[T]],
        *,
        note: str = "",
    ) -> T:
        change = Change(
            kind=RecordKind.ADMIN,
            method=method,
            code=code,
            subject=f"{self._people.name_of(user)} ({user.id})",
            fields={"target": user.id},
            note=note,
        )
        if note:
            require_told(change)
        return await self._journal.make(person, change, act)

    def _passwords_here(self) -> SetupLinks:
        if self._links is None:
            raise BadCommand("people sign in elsewhere (`auth.mode`) and have no password here")
        return self._links

    def _find(self, named: str) -> User:
        return find_user(self._users, named, self._issuer)

    def _row(self, user: User) -> Row:
        return {
            "user_id": user.id,
            "user": self._people.name_of(user).removeprefix("user:"),
            "name": user.name,
            "groups": sorted(user.groups),
            "roles": sorted(role.value for role in self._people.roles_of(user)),
            "os_user": user.os_user or None,
            "disabled": user.disabled,
            "created_at": rfc3339(user.created_at),
            "created_by": user.created_by,
        }


def find_user(users: UserStore, named: str, issuer: str) -> User:
    """Return the user of that id, of that name here, or of that `ISSUER|SUBJECT`.

    Raises:
        NotFound: There is none.

    """
    elsewhere = named.partition("|")
    found = (
        users.find(named)
        or users.by_subject(issuer, named)
        or users.by_subject(elsewhere[0], elsewhere[2])
    )
    if found is None:
        raise NotFound("no such user; `douane users list` lists them")
    return found


def _taken(act: Callable[[], T]) -> Callable[[], Awaitable[T]]:
    async def do() -> T:
        try:
            return await _there(act)()
        except ValueError as error:
            raise BadCommand("that name or operating system's user is somebody else's") from error

    return do


def _there(act: Callable[[], T]) -> Callable[[], Awaitable[T]]:
    async def do() -> T:
        try:
            return await asyncio.to_thread(act)
        except LookupError as error:
            raise NotFound("no such user any more") from error

    return do


def _not_oneself(person: Person, user: User) -> None:
    # A last administrator who locks themselves out would need the machine's root.
    if person.user_id == user.id:
        raise BadCommand("this is yourself; another administrator can do it")


def _check(groups: Sequence[str], os_user: str) -> None:
    for group in groups:
        if not 0 < len(group) <= _LONGEST_GROUP or not group.isprintable():
            raise BadCommand(f"a group's name is 1 to {_LONGEST_GROUP} printable characters")
    if os_user and not _OS_USER.fullmatch(os_user):
        raise BadCommand("that cannot be the name of an operating system's user")


def _shown(name: str) -> str:
    if len(name) > _LONGEST_GROUP or not name.isprintable() or name != name.strip():
        raise BadCommand("a display name is printable text without spaces around it")
    return name


def _what(groups: Sequence[str] | None, os_user: str | None) -> str:
    parts = []
    if groups is not None:
        parts.append(f"groups {', '.join(sorted(groups)) or 'none'}")
    if os_user:
        parts.append(f"operating system's user {os_user}")
    elif os_user == "" and groups is None:
        parts.append("no operating system's user")
    return "; ".join(parts)
