"""What a person can see and take back of their own: sessions, access, connections."""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from gateway.domain._value import value
from gateway.domain.grants import BrowserSession
from gateway.domain.identity import User
from gateway.domain.secrets import StoredConnection
from gateway.ports import Clock
from gateway.ports.grants import BrowserStore, GrantStore
from gateway.signin.browser import Browser, digest
from gateway.signin.errors import Ended
from gateway.signin.journal import Event, Journal
from gateway.signin.sessions import Sessions


class Connections(Protocol):
    """The part of a `ConnectionStore` that an account shows."""

    def connections(self, user_id: str | None = None) -> Sequence[StoredConnection]: ...

    def disconnect(self, user_id: str, server: str) -> bool: ...


@value
class Access:
    """What one client may do in a person's name."""

    client_id: str
    endpoints: frozenset[str]
    scopes: frozenset[str]
    since: float
    """Seconds since the epoch; the earliest yes that still counts."""


@value
class Overview:
    """Everything that is somebody's."""

    sessions: Sequence[BrowserSession]
    here: str
    """The `id_hash` of the session that asks."""
    access: Sequence[Access]
    connections: Sequence[StoredConnection]


class Account:
    """A person's own records. Whatever is taken back is recorded before it is."""

    def __init__(
        self,
        browsers: BrowserStore,
        grants: GrantStore,
        connections: Connections,
        sessions: Sessions,
        journal: Journal,
        *,
        clock: Clock,
    ) -> None:
        self._browsers = browsers
        self._grants = grants
        self._connections = connections
        self._sessions = sessions
        self._journal = journal
        self._clock = clock

    async def overview(self, user: User, browser: Browser) -> Overview:
        """Return what is `user`'s now."""
        return Overview(
            sessions=await self._sessions.all_of(user),
            here=digest(browser.session),
            access=await asyncio.to_thread(self._access, user),
            connections=await asyncio.to_thread(self._connections.connections, user.id),
        )

    async def end_session(self, user: User, id_hash: str, browser: Browser) -> None:
        """Sign another browser of `user`'s out.

        Raises:
            Ended: It is none of theirs.

        """
        if all(session.id_hash != id_hash for session in await self._sessions.all_of(user)):
            raise Ended("There is no such session any more.")
        await self._record("session_ended", user, browser)
        await asyncio.to_thread(self._browsers.end_session, id_hash)

    async def withdraw(self, user: User, client_id: str, browser: Browser) -> None:
        """Take back what a client may do; its tokens are worth nothing from now on.

        Raises:
            Ended: It may do nothing for them.

        """
        access = await asyncio.to_thread(self._access, user)
        if all(one.client_id != client_id for one in access):
            raise Ended("There is nothing that this client may do.")
        await self._record("consent_withdrawn", user, browser, client=client_id)
        await asyncio.to_thread(self._browsers.withdraw, user.id, client_id, at=self._clock())

    async def disconnect(self, user: User, server: str, browser: Browser) -> None:
        """Forget the tokens that connect `user` to an upstream server.

        Raises:
            Ended: There are none.

        """
        held = await asyncio.to_thread(self._connections.connections, user.id)
        if all(one.server != server for one in held):
            raise Ended("There is no such connection any more.")
        await self._record("disconnected", user, browser, server=server)
        await asyncio.to_thread(self._connections.disconnect, user.id, server)

    def _access(self, user: User) -> Sequence[Access]:
        # Both: a consent may have no grant left, and a grant may come without a remembered consent.
        given = [
            (consent.client_id, consent.endpoint, consent.scopes, consent.given_at)
            for consent in self._browsers.consents(user.id)
        ] + [
            (grant.client_id, grant.endpoint, grant.scopes, grant.created_at)
            for grant in self._grants.grants(user_id=user.id)
        ]
        return [
            Access(
                client_id=client_id,
                endpoints=frozenset(row[1] for row in given if row[0] == client_id),
                scopes=frozenset().union(*(row[2] for row in given if row[0] == client_id)),
                since=min(row[3] for row in given if row[0] == client_id),
            )
            for client_id in sorted({row[0] for row in given})
        ]

    async def _record(
        self, code: str, user: User, browser: Browser, *, client: str = "", server: str = ""
    ) -> None:
        await self._journal.write(
            Event(
                code=code,
                method="account",
                source_ip=browser.source_ip,
                user=user,
                client=client,
                server=server,
            )
        )
