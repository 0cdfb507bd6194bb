"""What people have open: browsers, consents, grants and connections, to look at and to end."""

import asyncio
from collections.abc import Callable
from functools import partial

from gateway.admin.clients import find_client
from gateway.admin.journal import Change, Journal
from gateway.admin.people import People
from gateway.admin.person import Person, Role
from gateway.admin.rows import Row, Rows, rfc3339
from gateway.admin.users import find_user
from gateway.domain.audit import RecordKind
from gateway.domain.grants import BrowserSession, Consent, Grant
from gateway.domain.identity import User
from gateway.domain.secrets import StoredConnection
from gateway.errors import BadCommand, NotFound
from gateway.ports import Clock
from gateway.ports.grants import BrowserStore, GrantStore
from gateway.ports.identity import ClientStore, UserStore
from gateway.ports.sealed import ConnectionStore


class AccessDesk:
    """Use cases over what one person let one client, browser or server do."""

    def __init__(
        self,
        *,
        users: UserStore,
        clients: ClientStore,
        browsers: BrowserStore,
        grants: GrantStore,
        connections: ConnectionStore,
        people: People,
        journal: Journal,
        issuer: str,
        clock: Clock,
    ) -> None:
        self._users = users
        self._clients = clients
        self._browsers = browsers
        self._grants = grants
        self._connections = connections
        self._people = people
        self._journal = journal
        self._issuer = issuer
        self._clock = clock

    async def sessions(self, person: Person, *, user: str | None = None) -> Rows:
        """Return one row a signed-in browser."""
        _need_auditor(person)
        found = await asyncio.to_thread(self._browsers.sessions, self._id_of(user))
        return [self._session_row(each) for each in found if each.expires_at > self._clock()]

    async def end_sessions(
        self, person: Person, *, session: str | None = None, user: str | None = None
    ) -> Row:
        """Sign one browser out, or every browser of a user; what they granted to clients stays.

        Raises:
            Forbidden: The person is no admin.
            BadCommand: Neither is given, or both are.
            NotFound: There is no such session or user.

        """
        person.need(Role.ADMIN)
        if (session is None) is (user is None):
            raise BadCommand("give either a session or a user")
        if user is not None:
            found = self._user(user)
            end_all = partial(self._browsers.end_sessions, found.id)
            subject = f"every session of {self._people.name_of(found)}"
            return {"ended": await self._make(person, "sessions.end", "ended", subject, end_all)}
        end = partial(self._browsers.end_session, str(session))
        subject, none = (
            f"session {session}",
            "no such session; `douane users sessions list` lists them",
        )
        ended = await self._make(person, "sessions.end", "ended", subject, end, none=none)
        return {"ended": int(ended)}

    async def consents(self, person: Person, *, user: str | None = None) -> Rows:
        """Return one row for each of people's remembered answers."""
        _need_auditor(person)
        found = await asyncio.to_thread(self._browsers.consents, self._id_of(user))
        return [self._consent_row(each) for each in found]

    async def withdraw(self, person: Person, *, user: str, client: str) -> Row:
        """Forget what a user consented to a client, and revoke what it got by that; count both.

        Raises:
            Forbidden: The person is no admin.
            NotFound: There is no such user, or no such consent.

        """
        person.need(Role.ADMIN)
        found, client_id = self._user(user), self._client_id(client)
        withdraw = partial(self._browsers.withdraw, found.id, client_id, at=self._clock())
        subject = f"consents of {self._people.name_of(found)} to {self._client_name(client_id)}"
        none = "no such consent; `douane users consents list` lists them"
        count = await self._make(
            person, "consents.withdraw", "withdrawn", subject, withdraw, none=none, client=client_id
        )
        return {"withdrawn": count}

    async def grants(
        self, person: Person, *, user: str | None = None, client: str | None = None
    ) -> Rows:
        """Return one row a grant that is in force, newest first."""
        _need_auditor(person)
        client_id = None if client is None else self._client_id(client)
        find = partial(self._grants.grants, user_id=self._id_of(user), client_id=client_id)
        found = await asyncio.to_thread(find)
        return [self._grant_row(each) for each in found if each.expires_at > self._clock()]

    async def revoke(self, person: Person, *, grant: str) -> Row:
        """Make every token of a grant worthless, at once.

        Raises:
            Forbidden: The person is no admin.
            NotFound: There is no such grant, or it is revoked.

        """
        person.need(Role.ADMIN)
        found = await asyncio.to_thread(self._grants.grant, grant)
        if found is None:
            raise NotFound("no such grant; `douane users grants list` lists them")
        reason = f"revoked by {person.name}"
        revoke = partial(self._grants.revoke_grant, found.id, reason, at=self._clock())
        subject = f"grant {found.id} of {self._shown(found.user_id)}"
        fields = {"client": found.client_id}
        none = "that grant is revoked already"
        await self._make(person, "grants.revoke", "revoked", subject, revoke, none=none, **fields)
        return self._grant_row(found)

    async def connections(self, person: Person, *, user: str | None = None) -> Rows:
        """Return one row for each connection of people to upstream servers, without its tokens."""
        _need_auditor(person)
        found = await asyncio.to_thread(self._connections.connections, self._id_of(user))
        return [self._connection_row(each) for each in found]

    async def disconnect(self, person: Person, *, user: str, server: str) -> Row:
        """Forget a user's tokens for an upstream server; they can connect again.

        Raises:
            Forbidden: The person is no admin.
            NotFound: There is no such user or connection.

        """
        person.need(Role.ADMIN)
        found = self._user(user)
        held = await asyncio.to_thread(self._connections.connection, found.id, server)
        if held is None:
            raise NotFound("no such connection; `douane users connections list` lists them")
        disconnect = partial(self._connections.disconnect, found.id, server)
        subject = f"connection of {self._people.name_of(found)} to {server}"
        none = "no such connection any more"
        await self._make(
            person,
            "connections.disconnect",
            "disconnected",
            subject,
            disconnect,
            none=none,
            server=server,
        )
        return self._connection_row(held)

    async def _make(
        self,
        person: Person,
        method: str,
        code: str,
        subject: str,
        act: Callable[[], int],
        *,
        none: str = "",
        **fields: str,
    ) -> int:
        """Record and do `act`; with `none`, its zero means that there was nothing to do it to."""

        async def do() -> int:
            count = await asyncio.to_thread(act)
            if none and not count:
                raise NotFound(none)
            return count

        change = Change(
            kind=RecordKind.ADMIN, method=method, code=code, subject=subject, fields=fields
        )
        return await self._journal.make(person, change, do)

    def _user(self, named: str) -> User:
        return find_user(self._users, named, self._issuer)

    def _id_of(self, named: str | None) -> str | None:
        return None if named is None else self._user(named).id

    def _shown(self, user_id: str) -> str | None:
        user = self._users.find(user_id)
        return self._people.name_of(user).removeprefix("user:") if user else user_id or None

    def _client_id(self, named: str) -> str:
        """Return the id of the client of that id or name; one that is built in has just an id."""
        try:
            return find_client(self._clients, named).id
        except NotFound:
            return named

    def _client_name(self, client_id: str) -> str:
        client = self._clients.find(client_id)
        return client.name if client else client_id

    def _session_row(self, session: BrowserSession) -> Row:
        return {
            "session": session.id_hash,
            "user": self._shown(session.user_id),
            "created_at": rfc3339(session.created_at),
            "expires_at": rfc3339(session.expires_at),
            "source_ip": session.source_ip,
            "user_agent": session.user_agent,
        }

    def _consent_row(self, consent: Consent) -> Row:
        return {
            "user": self._shown(consent.user_id),
            "client_id": consent.client_id,
            "client": self._client_name(consent.client_id),
            "resource": consent.endpoint,
            "scopes": sorted(consent.scopes),
            "redirect_uri": consent.redirect_uri,
            "given_at": rfc3339(consent.given_at),
        }

    def _grant_row(self, grant: Grant) -> Row:
        return {
            "grant": grant.id,
            "user": self._shown(grant.user_id),
            "client_id": grant.client_id,
            "client": self._client_name(grant.client_id),
            "resource": grant.endpoint,
            "scopes": sorted(grant.scopes),
            "created_at": rfc3339(grant.created_at),
            "expires_at": rfc3339(grant.expires_at),
        }

    def _connection_row(self, connection: StoredConnection) -> Row:
        return {
            "user": self._shown(connection.user_id),
            "server": connection.server,
            "issuer": connection.issuer,
            "scopes": list(connection.scopes),
            "expires_at": rfc3339(connection.expires_at),
            "connected_at": rfc3339(connection.connected_at),
            "refreshed_at": rfc3339(connection.refreshed_at),
        }


def _need_auditor(person: Person) -> None:
    person.need(Role.AUDITOR, Role.ADMIN)
