"""The gateway's half towards upstreams, as the client under test of the public conformance suite.

Run by the suite with the URL of its server as the last argument. A person who agrees to everything
is played here; what is tested is `HttpUpstream` with the `Broker`.
"""

import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import SplitResult, parse_qs, urlsplit

import aiohttp

from gateway.broker import Broker, PersonalConnection, registration
from gateway.domain.calls import Form, RawAnswer
from gateway.domain.identity import User
from gateway.domain.tools import Profile, UpstreamId
from gateway.errors import CredentialRequired, GatewayError
from gateway.oauth.held_keys import HeldKeys
from gateway.storage.identity.store import IdentityStores
from gateway.upstream.http import HttpUpstream
from gateway.upstream.settings import UpstreamSettings
from gateway.upstream.stream import EventStream
from gateway.vault import KeyEncryptionKey, Vault
from tests.broker.fetching import loopback
from tests.storage.memory import MemoryAuditLog
from tests.upstream.permits import SENT_ON, permit_for

PUBLIC_URL = "https://conformance-test.local"
SERVER = UpstreamId("raw")
BROWSER = "a-browser"
MOST_CONNECTIONS = 3
"""How often a person would connect one server for one call."""

EMMA = User(
    id="u_emma",
    issuer=PUBLIC_URL,
    subject="emma",
    name="Emma",
    groups=frozenset(),
    created_at=0.0,
    created_by="root",
)


class Unused:
    def sign(self, claims: Mapping[str, Any]) -> str:
        raise NotImplementedError


class Person:
    """Calls one server, and connects whenever that is asked for."""

    def __init__(self, upstream: HttpUpstream, broker: Broker, revision: str) -> None:
        self._upstream = upstream
        self._broker = broker
        self._revision = revision
        self._modern = revision >= "2026-07-28"
        self._session: str | None = None
        self._connected = 0

    async def use(self) -> None:
        if not self._modern:
            await self._call("initialize", self._handshake())
            await self._call("notifications/initialized", {}, form=Form.NOTIFICATION)
        await self._call("tools/list", {})
        await self._call("tools/call", {"name": "test-tool", "arguments": {}})

    def _handshake(self) -> dict[str, Any]:
        info = {"name": "douane", "version": "1"}
        return {"protocolVersion": self._revision, "capabilities": {}, "clientInfo": info}

    async def _call(
        self, method: str, params: dict[str, Any], *, form: Form = Form.REQUEST
    ) -> None:
        while True:
            try:
                answer = await self._forward(method, params, form)
            except CredentialRequired as required:
                await self._connect(required)
            else:
                self._session = answer.session or self._session
                print(method, answer.status)
                return

    async def _forward(self, method: str, params: dict[str, Any], form: Form) -> RawAnswer:
        headers = [*SENT_ON]
        if method != "initialize":
            headers.append(("mcp-protocol-version", self._revision))
        if self._modern:
            headers.append(("mcp-method", method))
            if "name" in params:
                headers.append(("mcp-name", params["name"]))
            meta = {
                "io.modelcontextprotocol/protocolVersion": self._revision,
                "io.modelcontextprotocol/clientCapabilities": {},
                "io.modelcontextprotocol/clientInfo": {"name": "douane", "version": "1"},
            }
            params = {**params, "_meta": meta}
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
        if form is Form.REQUEST:
            message["id"] = f"{method}-1"
        permit = permit_for(
            method,
            form=form,
            profile=Profile.MODERN if self._modern else Profile.LEGACY,
            rpc_id=message.get("id"),
            params=params,
            headers=tuple(headers),
            session=self._session,
            body=json.dumps(message).encode(),
        )
        principal = replace(permit.principal, user_id=EMMA.id)
        answer = await self._upstream.forward(replace(permit, principal=principal))
        if isinstance(answer.body, EventStream):
            async for _ in answer.body:
                pass
        return answer

    async def _connect(self, required: CredentialRequired) -> None:
        """Do what a person does at the URL of the fault."""
        self._connected += 1
        if self._connected > MOST_CONNECTIONS or not required.url:
            raise required
        asked = parse_qs(urlsplit(required.url).query)
        scopes = tuple(asked.get("scope", [""])[0].split())
        connecting = self._broker.connecting
        prospect = await connecting.prospect(SERVER, EMMA.id, scopes=scopes)
        location = await connecting.begin(
            prospect,
            EMMA.id,
            scopes=scopes,
            browser_hash=BROWSER,
            source_ip="127.0.0.1",
        )
        back = await _consent(location)
        await connecting.finish(
            back.query.encode(),
            EMMA.id,
            path=back.path,
            browser_hash=BROWSER,
            source_ip="127.0.0.1",
        )


async def _consent(location: str) -> SplitResult:
    """Agree at the authorization server; return the address that it sends the browser back to."""
    async with (
        aiohttp.ClientSession() as session,
        session.get(location, allow_redirects=False) as answer,
    ):
        back = answer.headers["location"]
    if not back.startswith(f"{PUBLIC_URL}{registration.CALLBACK_PATH}"):
        raise RuntimeError(back)
    return urlsplit(back)


async def run(url: str, revision: str, context: Mapping[str, Any]) -> None:
    settings = PersonalConnection(
        server=SERVER,
        url=url,
        issuer=context.get("issuer", ""),
        client_id=context.get("client_id", ""),
        client_secret=context.get("client_secret", ""),
        is_bound=os.environ.get("MCP_CONFORMANCE_SCENARIO", "").startswith("auth/dpop"),
    )
    with tempfile.TemporaryDirectory() as folder:
        stores = IdentityStores.open(Path(folder), clock=time.time)
        stores.users.add(EMMA)
        kek = KeyEncryptionKey(named="test", octets=os.urandom(32))
        async with loopback() as fetcher:
            broker = Broker(
                {SERVER: settings},
                connections=stores.connections,
                transactions=stores.browsers,
                users=stores.users,
                sealer=Vault.unlock(stores.data_keys, [kek], random=os.urandom, clock=time.time),
                fetcher=fetcher,
                signer=Unused(),
                audit=MemoryAuditLog(),
                clock=time.time,
                random=os.urandom,
                new_id=lambda: os.urandom(16).hex(),
                public_url=PUBLIC_URL,
                keys=HeldKeys(),
            )
            upstream = HttpUpstream(
                UpstreamSettings(server=SERVER, url=url, per_person=True), broker
            )
            try:
                await Person(upstream, broker, revision).use()
            finally:
                await upstream.aclose()
                await broker.aclose()
                stores.close()


def main() -> int:
    revision = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", "2025-11-25")
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    try:
        # The suite knows one client by the URL of its metadata document.
        with patch.object(registration, "DOCUMENT_PATH", "/client-metadata.json"):
            asyncio.run(run(sys.argv[-1], revision, context))
    except GatewayError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
