"""The tokens that people hold for upstreams: read, and renewed once however many need them."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from functools import partial
from typing import Final

from gateway.broker.possession import Holds, Proofs
from gateway.broker.records import Records
from gateway.broker.registration import Registrations
from gateway.broker.sealing import Secrets
from gateway.broker.settings import PersonalConnection
from gateway.broker.token_request import TokenRefused, Tokens, request_tokens
from gateway.domain._value import value
from gateway.domain.bounded import Bounded
from gateway.domain.secrets import StoredConnection
from gateway.errors import Unsealable
from gateway.ports import Clock
from gateway.ports.egress import Fetcher
from gateway.ports.sealed import ConnectionStore
from gateway.ports.secrets import Sealer

_SEEN_S: Final = 0.5
"""How long what was read is believed: another process may end a connection meanwhile."""
_LEASE_S: Final = 60.0
"""Longer than any token request may take; then another process may try."""
_POLL_S: Final = 0.05
_EARLY_S: Final = 30.0
"""How long before its end a token is renewed, so that it does not end on its way."""
_MOST: Final = 10_000
_OCTETS: Final = 32 * 1024**2
_OPENED: Final = 4
"""How many times its sealed size a connection takes, sealed and opened."""

_ENDED: Final = frozenset({"invalid_grant", "invalid_client", "unauthorized_client"})
"""Refusals after which the same refresh token will never do (RFC 6749 section 5.2)."""

Key = tuple[str, str]
"""A person's id and a server's."""


class NotConnected(Exception):
    """There is nothing to show to the upstream, and nothing to get it with; the text says why."""


@value
class Held:
    """A connection, opened."""

    stored: StoredConnection
    secrets: Secrets = field(repr=False)

    @property
    def due_at(self) -> float | None:
        """When to renew the token, in seconds since the epoch; `None` for not before it fails."""
        if self.stored.expires_at is None:
            return None
        began = self.stored.refreshed_at or self.stored.connected_at
        return self.stored.expires_at - min(_EARLY_S, (self.stored.expires_at - began) / 2)


class HeldTokens:
    """Keeps to what the operator says now: a token goes to the endpoint that it was given for."""

    def __init__(
        self,
        servers: Mapping[str, PersonalConnection],
        *,
        connections: ConnectionStore,
        sealer: Sealer,
        fetcher: Fetcher,
        registrations: Registrations,
        records: Records,
        proofs: Proofs,
        clock: Clock,
        new_id: Callable[[], str],
    ) -> None:
        self._servers = servers
        self._connections = connections
        self._sealer = sealer
        self._fetcher = fetcher
        self._registrations = registrations
        self._records = records
        self._proofs = proofs
        self._clock = clock
        self._new_id = new_id
        self._seen: Bounded[Key, tuple[Held, float]] = Bounded(most=_MOST, octets=_OCTETS)
        self._renewals: dict[Key, asyncio.Task[Held]] = {}

    async def current(self, key: Key) -> Held:
        """Return the person's connection, its token good for a while yet.

        Raises:
            NotConnected: There is none, or it has ended.
            UpstreamFailed: Its authorization server gave no usable answer.
            AuditUnavailable: That it has ended could not be recorded.

        """
        now = self._clock()
        held, seen_at = self._seen.get(key) or (None, 0.0)
        if held is None or not 0 <= now - seen_at < _SEEN_S:
            held = await self.read(key)
        due_at = held.due_at
        return held if due_at is None or now < due_at else await self.renewed(key, held)

    async def read(self, key: Key) -> Held:
        """Return the person's connection as it is stored now.

        Raises:
            NotConnected: There is none, or it cannot be opened.

        """
        self._seen.pop(key)
        stored = await asyncio.to_thread(self._connections.connection, *key)
        if stored is None:
            raise NotConnected("not connected")
        try:
            secrets = Secrets.opened(self._sealer, stored.sealed, *key)
        except Unsealable as error:
            raise NotConnected("the stored connection cannot be opened") from error
        settings = self._servers[stored.server]
        is_other = secrets.url != settings.url or bool(secrets.key) is not settings.is_bound
        if is_other or settings.issuer not in {"", stored.issuer}:
            raise NotConnected("the connection was made for another configuration")
        return self._noted(key, Held(stored=stored, secrets=secrets))

    async def renewed(self, key: Key, old: Held) -> Held:
        """Return a newer token than `old`: from whoever is renewing it, or by doing so.

        What is under way goes on if the caller goes away: a refresh token that was shown and whose
        successor nobody kept would be lost.

        Raises:
            NotConnected: There is no newer one, and there will be none.
            UpstreamFailed: The authorization server gave no usable answer.
            AuditUnavailable: That the connection has ended could not be recorded.

        """
        task = self._renewals.get(key)
        if task is None:
            task = self._renewals[key] = asyncio.create_task(self._renew(key, old.stored.version))
            task.add_done_callback(lambda done: self._settled(key, done))
        return await asyncio.shield(task)

    async def aclose(self) -> None:
        """Wait for the renewals under way, so that what they give is kept."""
        await asyncio.gather(*self._renewals.values(), return_exceptions=True)

    def _settled(self, key: Key, done: "asyncio.Task[Held]") -> None:
        del self._renewals[key]
        if not done.cancelled():
            done.exception()  # whoever waits gets it; perhaps nobody does any more

    def _noted(self, key: Key, held: Held) -> Held:
        self._seen.put(key, (held, self._clock()), _OPENED * len(held.stored.sealed))
        return held

    async def _renew(self, key: Key, version: int) -> Held:
        """Take the lease and renew, or wait until another process has."""
        by = self._new_id()
        while True:
            held = await self.read(key)
            if held.stored.version != version:
                return held
            if not held.secrets.refresh_token:
                raise NotConnected("the token has ended and cannot be renewed")
            now = self._clock()
            if await asyncio.to_thread(
                self._connections.lease, *key, by=by, now=now, until=now + _LEASE_S
            ):
                return await self._leased(key, version, by)
            await asyncio.sleep(_POLL_S)

    async def _leased(self, key: Key, version: int, by: str) -> Held:
        """Renew under the lease `by`, which ends whatever happens."""
        try:
            # Read again: the one who had the lease before may have renewed it in between.
            held = await self.read(key)
            if held.stored.version != version:
                return held
            try:
                tokens = await self._refresh(held)
            except TokenRefused as error:
                if error.error in _ENDED:
                    await self._end(held, error)
                raise NotConnected(error.detail) from error
            new = self._successor(held, tokens)
            if await asyncio.to_thread(self._connections.replace, new.stored, by=by):
                return self._noted(key, new)
            return await self.read(key)  # connected anew meanwhile: that counts
        finally:
            await asyncio.to_thread(self._connections.release, *key, by=by)

    async def _refresh(self, held: Held) -> Tokens:
        secrets, settings = held.secrets, self._servers[held.stored.server]
        client = secrets.client
        if client.id == settings.client_id:
            client = replace(client, secret=settings.client_secret)  # it may have been renewed
        form = {"grant_type": "refresh_token", "refresh_token": secrets.refresh_token}
        if secrets.resource:
            form["resource"] = secrets.resource
        holds = Holds(proofs=self._proofs, key=secrets.key) if secrets.key else None
        return await request_tokens(
            self._fetcher, secrets.token_endpoint, client, form, who=settings.server, holds=holds
        )

    def _successor(self, held: Held, tokens: Tokens) -> Held:
        now = self._clock()
        old = held.stored
        secrets = replace(
            held.secrets,
            access_token=tokens.access_token,
            refresh_token=tokens.refresh_token or held.secrets.refresh_token,
        )
        lifetime_s = tokens.lifetime_s
        stored = replace(
            old,
            sealed=secrets.sealed(self._sealer, old.user_id, old.server),
            scopes=tokens.scopes or old.scopes,
            expires_at=None if lifetime_s is None else now + lifetime_s,
            version=old.version + 1,
            refreshed_at=now,
        )
        return Held(stored=stored, secrets=secrets)

    async def _end(self, held: Held, error: TokenRefused) -> None:
        """Forget what will never do again, our registration too if it is that."""
        stored = held.stored
        await self._records.ended(stored.server, stored.user_id, error.detail)
        self._seen.pop((stored.user_id, stored.server))
        ended = await asyncio.to_thread(
            partial(
                self._connections.disconnect, stored.user_id, stored.server, version=stored.version
            )
        )
        if not ended:
            return  # the person has connected anew meanwhile: that one is another
        if error.error != "invalid_grant":
            await asyncio.to_thread(self._registrations.forget, stored.server, stored.issuer)
