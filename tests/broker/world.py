"""An upstream and its authorization server on loopback, scripted, and a broker in front of them."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

from aiohttp import web

from gateway.broker import CALLBACK_PATH, Broker, Credential, PersonalConnection
from gateway.domain.identity import User
from gateway.oauth.held_keys import HeldKeys
from gateway.storage.identity.store import IdentityStores
from gateway.vault import KeyEncryptionKey, Vault
from tests.broker.fetching import Loopback, loopback
from tests.servers.process import free_port
from tests.storage.identity.identities import NOW, Hand, user
from tests.storage.memory import MemoryAuditLog

PUBLIC_URL = "https://douane.test"
BROWSER = "b" * 64
SOURCE = "192.0.2.7"
KEK = KeyEncryptionKey(named="test", octets=bytes(range(32)))
EMMA = user("emma")
FINN = user("finn")


@dataclass
class Provider:
    """Everything of somebody else's: what it says may be changed at any time."""

    url: str = ""
    challenge: str = ""
    """The upstream's `WWW-Authenticate`; by default its metadata's place."""
    protected: dict[str, Any] = field(default_factory=dict)
    """Members of the protected resource metadata that differ."""
    metadata: dict[str, Any] = field(default_factory=dict)
    """Members of the authorization server metadata that differ; `None` leaves one out."""
    registers: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    gives: Callable[[dict[str, str]], web.Response] | None = None
    """What the token endpoint answers to a form."""
    forms: list[dict[str, str]] = field(default_factory=list)
    """Every form that the token endpoint got."""
    proofs: list[str] = field(default_factory=list)
    """The `Authorization` of each."""
    dpop: list[str] = field(default_factory=list)
    """The `DPoP` of each."""
    registered: list[dict[str, Any]] = field(default_factory=list)
    gone: set[str] = field(default_factory=set)
    """Paths that are not there."""
    paths: list[str] = field(default_factory=list)
    tenant: str = ""
    """The path of the issuer."""
    wait: asyncio.Event | None = None
    """Until it is set, the token endpoint says nothing."""

    @property
    def resource(self) -> str:
        return f"{self.url}/mcp"

    def refreshes(self) -> int:
        return sum(form["grant_type"] == "refresh_token" for form in self.forms)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.paths.append(request.path)
        if request.path in self.gone:
            return web.Response(status=404)
        handler = {
            "/mcp": self._upstream,
            "/.well-known/oauth-protected-resource/mcp": self._protected,
            f"/.well-known/oauth-authorization-server{self.tenant}": self._server,
            "/register": self._register,
            "/token": self._token,
        }.get(request.path)
        return web.Response(status=404) if handler is None else await handler(request)

    async def _upstream(self, _: web.Request) -> web.Response:
        place = f"{self.url}/.well-known/oauth-protected-resource/mcp"
        challenge = self.challenge or f'Bearer resource_metadata="{place}"'
        return web.Response(status=401, headers={"WWW-Authenticate": challenge})

    async def _protected(self, _: web.Request) -> web.Response:
        said = {"resource": self.resource, "authorization_servers": [self.url], **self.protected}
        return web.json_response(said)

    async def _server(self, _: web.Request) -> web.Response:
        return web.json_response(self._metadata())

    def _metadata(self) -> dict[str, Any]:
        said = {
            "issuer": f"{self.url}{self.tenant}",
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "registration_endpoint": f"{self.url}/register",
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
            **self.metadata,
        }
        return {name: content for name, content in said.items() if content is not None}

    async def _register(self, request: web.Request) -> web.Response:
        asked = await request.json()
        self.registered.append(asked)
        count = len(self.registered)
        given = {"client_id": f"client-{count}", "client_secret": f"secret-{count}", **asked}
        return web.json_response(self.registers(given) if self.registers else given, status=201)

    async def _token(self, request: web.Request) -> web.Response:
        form = dict(parse_qsl((await request.read()).decode()))
        self.forms.append(form)
        self.proofs.append(request.headers.get("authorization", ""))
        self.dpop.append(request.headers.get("dpop", ""))
        if self.wait is not None:
            await self.wait.wait()
        if self.gives is not None:
            return self.gives(form)
        return tokens(len(self.forms))


def tokens(number: int, **changes: Any) -> web.Response:
    said = {
        "access_token": f"at-{number}",
        "refresh_token": f"rt-{number}",
        "token_type": "Bearer",
        "expires_in": 3600,
        **changes,
    }
    return web.json_response({name: text for name, text in said.items() if text is not None})


def refused(error: str, status: int = 400) -> web.Response:
    return web.json_response({"error": error}, status=status)


@dataclass
class Signer:
    signed: list[Mapping[str, Any]] = field(default_factory=list)

    def sign(self, claims: Mapping[str, Any]) -> str:
        self.signed.append(claims)
        return f"assertion-{len(self.signed)}"


@dataclass
class World:
    provider: Provider
    stores: IdentityStores
    clock: Hand
    fetcher: Loopback
    audit: MemoryAuditLog
    signer: Signer
    numbers: int = 0
    brokers: list[Broker] = field(default_factory=list)

    def random(self, octets: int) -> bytes:
        self.numbers += 1
        return self.numbers.to_bytes(octets, "big")

    def new_id(self) -> str:
        return self.random(16).hex()

    def settings(self, server: str = "mail", **changes: Any) -> PersonalConnection:
        return PersonalConnection(server=server, url=self.provider.resource, **changes)

    def broker(
        self,
        *credentials: Credential,
        stores: IdentityStores | None = None,
        public_url: str = PUBLIC_URL,
    ) -> Broker:
        """Return a broker for these servers, by default for `mail`; `stores` are another process's."""
        kept = stores or self.stores
        known = credentials or (self.settings(),)
        broker = Broker(
            {one.server: one for one in known},
            connections=kept.connections,
            transactions=kept.browsers,
            users=kept.users,
            sealer=Vault.unlock(kept.data_keys, [KEK], random=self.random, clock=self.clock),
            fetcher=self.fetcher,
            signer=self.signer,
            audit=self.audit,
            clock=self.clock,
            random=self.random,
            new_id=self.new_id,
            public_url=public_url,
            keys=HeldKeys(),
        )
        self.brokers.append(broker)
        return broker

    async def begun(
        self, broker: Broker, server: str = "mail", *, person: User = EMMA, scope: str = ""
    ) -> dict[str, str]:
        """Send Emma's browser off; return the parameters that it takes to the authorization server."""
        scopes = tuple(scope.split())
        location = await broker.connecting.begin(
            await broker.connecting.prospect(server, person.id, scopes=scopes),
            person.id,
            scopes=scopes,
            browser_hash=BROWSER,
            source_ip=SOURCE,
        )
        assert location.startswith(f"{self.provider.url}/authorize?")
        return {name: text for name, (text,) in parse_qs(urlsplit(location).query).items()}

    async def finished(self, broker: Broker, **changes: Any) -> None:
        """Bring an answer back; a parameter that is `None` is left out."""
        person = changes.pop("person", EMMA)
        browser = changes.pop("browser", BROWSER)
        path = changes.pop("path", CALLBACK_PATH)
        answer = {"code": "c0de", "iss": self.provider.url, **changes}
        query = urlencode({name: text for name, text in answer.items() if text is not None})
        await broker.connecting.finish(
            query.encode(), person.id, path=path, browser_hash=browser, source_ip=SOURCE
        )

    async def connected(
        self, broker: Broker, server: str = "mail", *, person: User = EMMA, scope: str = ""
    ) -> None:
        begun = await self.begun(broker, server, person=person, scope=scope)
        await self.finished(broker, state=begun["state"], person=person)

    async def token(self, broker: Broker, server: str = "mail", person: User = EMMA) -> str:
        """Return what is shown to the upstream."""
        ((name, text),) = await broker.headers(server, person.id, "key")
        assert name == "authorization"
        return text.removeprefix("Bearer ")

    def told(self) -> list[tuple[str, str]]:
        """Return verdict and code of everything that was recorded."""
        return [(r.fields["verdict"], r.fields["code"]) for r in self.audit.records]

    def recorded(self) -> str:
        return json.dumps([dict(record.fields) for record in self.audit.records])


@asynccontextmanager
async def a_world(folder: Path) -> AsyncIterator[World]:
    provider, clock = Provider(), Hand(NOW)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", provider.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
    await runner.setup()
    port = free_port()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    provider.url = f"http://127.0.0.1:{port}"
    stores = IdentityStores.open(folder, clock=clock)
    for person in (EMMA, FINN):
        stores.users.add(person)
    try:
        async with loopback() as fetcher:
            world = World(provider, stores, clock, fetcher, MemoryAuditLog(), Signer())
            yield world
            for broker in world.brokers:
                await broker.aclose()
    finally:
        stores.close()
        await runner.cleanup()
