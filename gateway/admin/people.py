"""From what a door knows of a visitor to the person who acts: nobody ever types who they are."""

from collections.abc import Callable
from dataclasses import replace

from gateway.admin.journal import Journal
from gateway.admin.person import EVERY_ROLE, How, Person, Role
from gateway.domain.identity import PROGRAM, BearerToken, Credential, Principal, User
from gateway.errors import (
    AuditUnavailable,
    Forbidden,
    GatewayError,
    InsufficientScope,
    Unauthenticated,
)
from gateway.ports import Authenticator
from gateway.ports.identity import UserStore

ENDPOINT = "/api/v1"
"""The admin API as a resource (RFC 8707); also where it is served."""
SCOPE = "admin"
_LONGEST_COMMAND = 64

RolesOf = Callable[[frozenset[str]], frozenset[str]]
"""The names of the roles that a member of these groups has now."""


class People:
    """Names the person behind an operating system's user or an access token."""

    def __init__(
        self,
        users: UserStore,
        authenticator: Authenticator,
        journal: Journal,
        *,
        roles_of: RolesOf,
        issuer: str,
    ) -> None:
        """Take our own `issuer`: the one of people who have a password here."""
        self._users = users
        self._authenticator = authenticator
        self._journal = journal
        self._roles_of = roles_of
        self._issuer = issuer

    def by_os_user(self, name: str | None, *, owns_data: bool) -> Person:
        """Return who the operating system's user `name` is; `None` is one nobody can name.

        Who has become a person of `users` has that person's roles and no others. Without one,
        whoever owns the data directory has every role, for they could read and write everything in
        it anyway; everybody else has none.
        """
        if name is None:
            return Person(name="os:unknown", roles=frozenset())
        user = self._users.by_os_user(name)
        if user is not None:
            return self._person(user, How.SOCKET)
        return Person(name=f"os:{name}", roles=EVERY_ROLE if owns_data else frozenset())

    async def by_token(self, token: str, *, source_ip: str = "") -> Person:
        """Return who holds an access token for the admin API. A refusal is recorded.

        Raises:
            Unauthenticated: It is no such token, or its person is disabled or gone.
            InsufficientScope: It is not for administration.
            IdentityUnavailable: It cannot be told now.
            AuditUnavailable: A refusal could not be recorded.

        """
        return await self.by_credential(BearerToken(text=token), source_ip=source_ip)

    async def by_credential(self, credential: Credential, *, source_ip: str = "") -> Person:
        """Return who holds what a request showed; as `by_token`."""
        try:
            return replace(await self._holder(credential), source_ip=source_ip)
        except (Unauthenticated, InsufficientScope) as error:
            await self.unknown(error, source_ip=source_ip)
            raise

    async def unknown(self, error: GatewayError, *, source_ip: str) -> None:
        """Record that somebody showed a credential that is none.

        Raises:
            AuditUnavailable: It could not be recorded.

        """
        await self._journal.refused(error, endpoint=ENDPOINT, source_ip=source_ip)

    async def refused(self, person: Person, command: str, error: GatewayError) -> None:
        """Record that somebody was refused what they asked for, unless that is on record.

        Raises:
            AuditUnavailable: It could not be recorded.

        """
        if not error.recorded and not isinstance(error, AuditUnavailable):
            await self._journal.forbidden(person, command[:_LONGEST_COMMAND], error)

    async def did(self, person: Person, command: str, code: str, what: str) -> None:
        """Record what somebody did beside the log, before it was opened.

        Raises:
            AuditUnavailable: It could not be recorded.

        """
        await self._journal.did(person, command, code, what)

    async def forbidden(self, person: Person, command: str, error: Forbidden) -> None:
        """Record that somebody wanted to do what their roles do not let them.

        Raises:
            AuditUnavailable: It could not be recorded.

        """
        await self._journal.forbidden(person, command, error)

    async def _holder(self, credential: Credential) -> Person:
        principal = await self._authenticator.authenticate(credential, ENDPOINT)
        if SCOPE not in principal.scopes:
            raise InsufficientScope("this token is not for administration", scopes=[SCOPE])
        token_id = principal.token_id
        if not principal.user_id:
            return Person(
                name=_name(principal),
                roles=self._roles(principal.groups),
                how=How.TOKEN,
                token_id=token_id,
            )
        user = self._users.find(principal.user_id)
        if user is None or user.disabled:
            raise Unauthenticated("this person may not sign in")
        return replace(self._person(user, How.TOKEN), token_id=token_id)

    def name_of(self, user: User) -> str:
        """Return a user's name as the audit log shows it; never the one they gave themselves."""
        return name_of(user, issuer=self._issuer)

    def roles_of(self, user: User) -> frozenset[Role]:
        """Return what they may do now; nothing while they are disabled."""
        return _roles_now(user, self._roles_of)

    def may_approve(self, user_id: str) -> bool:
        """Whether this is somebody who may approve definitions now; from memory."""
        user = self._users.find(user_id)
        return user is not None and not self.roles_of(user).isdisjoint({Role.APPROVER, Role.ADMIN})

    def _person(self, user: User, how: How) -> Person:
        return person_of(user, how, issuer=self._issuer, roles_of=self._roles_of)

    def _roles(self, groups: frozenset[str]) -> frozenset[Role]:
        return frozenset(map(Role, self._roles_of(groups)))


def person_of(user: User, how: How, *, issuer: str, roles_of: RolesOf) -> Person:
    """Return who a user is here, with the roles of now: none while they are disabled."""
    return Person(
        name=name_of(user, issuer=issuer),
        roles=_roles_now(user, roles_of),
        user_id=user.id,
        os_user=user.os_user,
        how=how,
    )


def _roles_now(user: User, roles_of: RolesOf) -> frozenset[Role]:
    return frozenset() if user.disabled else frozenset(map(Role, roles_of(user.groups)))


def name_of(user: User, *, issuer: str) -> str:
    """Return a user's name as the audit log shows it; `issuer` is our own."""
    if user.issuer == issuer:
        return f"user:{user.subject}"
    return f"user:{user.issuer}|{user.subject}"


def _name(principal: Principal) -> str:
    """Return the name of a client that acts for itself, or of an unregistered person."""
    if principal.subject == principal.client_id:
        return f"{PROGRAM}{principal.client_id}"
    return f"user:{principal.issuer}|{principal.subject}"
