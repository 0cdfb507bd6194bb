"""A person connects an upstream: to its authorization server and back (RFC 6749 section 4.1)."""

import asyncio
import base64
import hashlib
from collections.abc import Callable, Mapping
from typing import Any, Final

from gateway.broker.authorization import (
    ANOTHERS,
    NOT_BEGUN_HERE,
    authorization_url,
    read_answer,
    require_issuer,
    wanted_scopes,
)
from gateway.broker.discovery import Discovery, Found
from gateway.broker.possession import Holds, Proofs
from gateway.broker.records import Records
from gateway.broker.registration import Registrations
from gateway.broker.sealing import OurClient, Secrets, seal, unseal
from gateway.broker.settings import PersonalConnection
from gateway.broker.token_request import TokenRefused, Tokens, request_tokens
from gateway.domain._value import value
from gateway.domain.grants import Transaction
from gateway.domain.secrets import StoredConnection
from gateway.errors import Forbidden, GatewayError, NotFound, UpstreamFailed
from gateway.ports import Clock
from gateway.ports.egress import Fetcher
from gateway.ports.grants import BrowserStore
from gateway.ports.sealed import ConnectionStore
from gateway.ports.secrets import Sealer

PURPOSE: Final = "connect"

_TRANSACTION_S: Final = 600.0
_SECRET_OCTETS: Final = 32


@value
class Prospect:
    """What a person is shown before their browser is sent anywhere."""

    server: str
    issuer: str
    resource: str
    scopes: tuple[str, ...]
    """Empty if the authorization server is to choose."""


@value
class Connected:
    """A connection that was just made."""

    server: str
    issuer: str


class Connecting:
    """Sends people's browsers to authorization servers, and takes what they bring back."""

    def __init__(
        self,
        servers: Mapping[str, PersonalConnection],
        *,
        connections: ConnectionStore,
        transactions: BrowserStore,
        registrations: Registrations,
        discovery: Discovery,
        sealer: Sealer,
        fetcher: Fetcher,
        records: Records,
        proofs: Proofs,
        clock: Clock,
        random: Callable[[int], bytes],
        public_url: str,
    ) -> None:
        self._servers = servers
        self._connections = connections
        self._transactions = transactions
        self._registrations = registrations
        self._discovery = discovery
        self._sealer = sealer
        self._fetcher = fetcher
        self._records = records
        self._proofs = proofs
        self._clock = clock
        self._random = random
        self._public_url = public_url

    def require(self, server: str) -> PersonalConnection:
        """Return what is said of a server that people connect to.

        Raises:
            NotFound: There is none of this name.

        """
        settings = self._servers.get(server)
        if settings is None:
            raise NotFound("There is no such server to connect.", detail=f"server {server[:40]!r}")
        return settings

    async def prospect(self, server: str, user_id: str, *, scopes: tuple[str, ...]) -> Prospect:
        """Return where the person would be sent; `scopes` are wanted besides what they have.

        Raises:
            NotFound: Nobody connects to a server of this name.
            UpstreamFailed: Its authorization server cannot be found out or relied on.
            EgressRefused: It is where the gateway must not go.

        """
        prospect, _ = await self._found(server, user_id, scopes)
        return prospect

    async def decline(
        self,
        server: str,
        user_id: str,
        *,
        scopes: tuple[str, ...],
        issuer: str,
        source_ip: str,
    ) -> None:
        """Have on record that the person said no to what they were shown; nothing was begun.

        Raises:
            AuditUnavailable: It is not.

        """
        await self._records.declined(
            server, user_id, issuer=issuer, scopes=scopes, source_ip=source_ip
        )

    async def begin(
        self,
        shown: Prospect,
        user_id: str,
        *,
        scopes: tuple[str, ...],
        browser_hash: str,
        source_ip: str,
    ) -> str:
        """Return the URL to which the person's browser goes next; a failure is recorded.

        `shown` is what the person was shown and agreed to, where `scopes` were wanted.

        Raises:
            Forbidden: The upstream names another authorization server by now, or asks for something else.
            NotFound, UpstreamFailed, EgressRefused: As `prospect`, and for our registration.

        """
        try:
            return await self._begun(shown, user_id, scopes, browser_hash)
        except GatewayError as error:
            await self._records.refused(shown.server, user_id, error, source_ip=source_ip)
            raise

    async def _begun(
        self, shown: Prospect, user_id: str, scopes: tuple[str, ...], browser_hash: str
    ) -> str:
        server = shown.server
        prospect, found = await self._found(server, user_id, scopes)
        if prospect != shown:
            raise Forbidden(
                "The server names another authorization server now, or asks for something else."
                " Begin anew.",
                detail=f"{_told(shown)} became {_told(prospect)}",
            )
        client = await self._client(self._servers[server], found)
        state, verifier = self._secret(), self._secret()
        await self._remember(
            state,
            prospect=prospect,
            user_id=user_id,
            browser_hash=browser_hash,
            leg={
                "verifier": verifier,
                "issuer": prospect.issuer,
                "names_itself": found.server.names_itself,
                "token_endpoint": found.server.token_endpoint,
                "url": self._servers[server].url,
                "resource": self._resource(server, found),
                "redirect_uri": self._registrations.redirect_uri(server, found.server),
                "scopes": prospect.scopes,
                "client": client.content,
                "key": self._proofs.new_key() if self._servers[server].is_bound else "",
            },
        )
        return self._authorization_url(prospect, found, client, state, verifier)

    async def finish(
        self, query: bytes, user_id: str, *, path: str, browser_hash: str, source_ip: str
    ) -> Connected:
        """Keep what the authorization server gives for its answer `query`, which came to `path`, once.

        Raises:
            Forbidden: It answers nothing that this person began in this browser, or comes from
                another authorization server.
            UpstreamFailed: The authorization server said no, or nothing of use.
            AuditUnavailable: It could not be recorded; nothing was kept.

        """
        server = ""
        try:
            answer = read_answer(query)
            transaction = await self._claimed(answer, user_id, browser_hash)
            server = transaction.detail
            leg = unseal(self._sealer, transaction.secrets, _row(transaction.id))
            self._require_place(path, leg)
            require_issuer(answer, leg["issuer"], names_itself=leg["names_itself"])
            tokens = await self._redeem(server, answer, leg)
        except GatewayError as error:
            await self._records.refused(server, user_id, error, source_ip=source_ip)
            raise
        scopes = tokens.scopes or tuple(leg["scopes"])
        await self._records.connected(
            server, user_id, issuer=leg["issuer"], scopes=scopes, source_ip=source_ip
        )
        await asyncio.to_thread(self._keep, server, user_id, leg, tokens, scopes)
        return Connected(server=server, issuer=leg["issuer"])

    def _require_place(self, path: str, leg: Mapping[str, Any]) -> None:
        """Return if the answer came to where the authorization server that was asked sends its own."""
        if leg.get("redirect_uri") != self._public_url + path:
            raise Forbidden(ANOTHERS, detail="it came to another's address")

    async def _found(
        self, server: str, user_id: str, extra: tuple[str, ...]
    ) -> tuple[Prospect, Found]:
        settings = self.require(server)
        found = await self._discovery.find(settings)
        issuer = found.server.issuer
        old = await asyncio.to_thread(self._connections.connection, user_id, server)
        held = old.scopes if old is not None and old.issuer == issuer else ()
        scopes = settings.scopes or wanted_scopes(found, extra, held)
        return Prospect(server=server, issuer=issuer, resource=found.resource, scopes=scopes), found

    async def _client(self, settings: PersonalConnection, found: Found) -> OurClient:
        server = found.server
        known = await asyncio.to_thread(self._registrations.known, settings, server)
        if known is not None:
            return known
        client, until = await self._registrations.register(server, settings.server)
        await asyncio.to_thread(self._registrations.keep, settings.server, server, client, until)
        return client

    def _resource(self, server: str, found: Found) -> str:
        return found.resource if self._servers[server].sends_resource else ""

    def _secret(self) -> str:
        octets = self._random(_SECRET_OCTETS)
        return base64.urlsafe_b64encode(octets).rstrip(b"=").decode()

    async def _remember(
        self,
        state: str,
        *,
        prospect: Prospect,
        user_id: str,
        browser_hash: str,
        leg: Mapping[str, Any],
    ) -> None:
        now = self._clock()
        transaction_id = _digest(state)
        transaction = Transaction(
            id=transaction_id,
            browser_hash=browser_hash,
            purpose=PURPOSE,
            detail=prospect.server,
            created_at=now,
            expires_at=now + _TRANSACTION_S,
            user_id=user_id,
            secrets=seal(self._sealer, leg, _row(transaction_id)),
        )
        await asyncio.to_thread(self._transactions.begin, transaction)

    def _authorization_url(
        self, prospect: Prospect, found: Found, client: OurClient, state: str, verifier: str
    ) -> str:
        return authorization_url(
            found.server.authorization_endpoint,
            {
                "client_id": client.id,
                "redirect_uri": self._registrations.redirect_uri(prospect.server, found.server),
                "state": state,
                "resource": self._resource(prospect.server, found),
            },
            scopes=prospect.scopes,
            verifier=verifier,
        )

    async def _claimed(
        self, answer: Mapping[str, str], user_id: str, browser_hash: str
    ) -> Transaction:
        """Return what `answer` is the answer to, for the first and only time.

        Looked at before it is used up: nobody can end what another began.
        """
        transaction_id, now = _digest(answer["state"]), self._clock()
        found = await asyncio.to_thread(self._transactions.transaction, transaction_id, now=now)
        if found is None or found.purpose != PURPOSE or found.detail not in self._servers:
            raise Forbidden(NOT_BEGUN_HERE, detail="unknown state")
        if found.browser_hash != browser_hash:
            raise Forbidden(NOT_BEGUN_HERE, detail="another browser")
        if found.user_id != user_id:
            raise Forbidden(NOT_BEGUN_HERE, detail="another person")
        if not await asyncio.to_thread(self._transactions.finish, transaction_id, now=now):
            raise Forbidden(NOT_BEGUN_HERE, detail="used already")
        return found

    async def _redeem(
        self, server: str, answer: Mapping[str, str], leg: Mapping[str, Any]
    ) -> Tokens:
        if answer.get("error") == "access_denied":
            raise Forbidden("The connection was not allowed there.", detail="access_denied")
        if "error" in answer or "code" not in answer:
            raise UpstreamFailed(
                "The authorization server did not grant the connection.", detail="an error, no code"
            )
        form = {
            "grant_type": "authorization_code",
            "code": answer["code"],
            "redirect_uri": leg["redirect_uri"],
            "code_verifier": leg["verifier"],
        }
        if leg["resource"]:
            form["resource"] = leg["resource"]
        client = OurClient(**leg["client"])
        key = leg.get("key", "")
        holds = Holds(proofs=self._proofs, key=key) if key else None
        try:
            return await request_tokens(
                self._fetcher, leg["token_endpoint"], client, form, who=server, holds=holds
            )
        except TokenRefused as error:
            if error.error == "invalid_client" and not self._servers[server].client_id:
                await asyncio.to_thread(self._registrations.forget, server, leg["issuer"])
            raise

    def _keep(
        self,
        server: str,
        user_id: str,
        leg: Mapping[str, Any],
        tokens: Tokens,
        scopes: tuple[str, ...],
    ) -> None:
        now = self._clock()
        secrets = Secrets(
            access_token=tokens.access_token,
            refresh_token=tokens.refresh_token,
            url=leg["url"],
            token_endpoint=leg["token_endpoint"],
            resource=leg["resource"],
            client=OurClient(**leg["client"]),
            key=leg.get("key", ""),
        )
        self._connections.connect(
            StoredConnection(
                user_id=user_id,
                server=server,
                issuer=leg["issuer"],
                sealed=secrets.sealed(self._sealer, user_id, server),
                scopes=scopes,
                expires_at=None if tokens.lifetime_s is None else now + tokens.lifetime_s,
                version=1,  # of an earlier one in its place, the store counts on
                connected_at=now,
            )
        )


def _told(prospect: Prospect) -> str:
    return f"{prospect.issuer} for {prospect.resource}, {len(prospect.scopes)} scopes"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _row(transaction_id: str) -> str:
    return f"transactions:{transaction_id}:secrets"
