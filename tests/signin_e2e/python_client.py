"""A program on the Python SDK that signs its user in: registered on the fly, or by a document."""

import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
from mcp.client import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)
from pydantic import AnyUrl

from tests.signin_e2e.browser import Person
from tests.signin_e2e.callback import callback
from tests.signin_e2e.desk import Desk, desk
from tests.signin_e2e.journeys import CONSENTS, SIGNS_IN, Call, Journey, Site


@dataclass
class Kept:
    """What the program remembers between its calls."""

    tokens: OAuthToken | None = None
    client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


@dataclass(frozen=True, kw_only=True)
class Program:
    """The program, connected."""

    client: Client
    provider: OAuthClientProvider
    kept: Kept
    desk: Desk

    async def call(self, call: Call) -> bool:
        """Whether the call succeeded."""
        result = await self.client.call_tool(call[0], dict(call[1]))
        return not result.is_error

    def age(self) -> None:
        """Make the access token as old as it gets."""
        self.provider.context.token_expiry_time = time.time() - 1

    @property
    def refresh_token(self) -> str:
        """The one that it would use next."""
        assert self.kept.tokens is not None
        return self.kept.tokens.refresh_token or ""


@asynccontextmanager
async def program(
    site: Site, person: Person, folder: Path, *, document: str | None = None
) -> AsyncIterator[Program]:
    """Connect, with `person` in front of the browser; `document` is the name of one to publish."""
    kept = Kept()
    async with AsyncExitStack() as stack:
        listener = await stack.enter_async_context(callback())
        made = await stack.enter_async_context(desk(person, folder))

        async def redirect(url: str) -> None:
            await made.visit(url)

        async def answered() -> AuthorizationCodeResult:
            answer = await listener.answer()
            return AuthorizationCodeResult(
                code=answer.get("code", ""), state=answer.get("state"), iss=answer.get("iss")
            )

        provider = OAuthClientProvider(
            site.endpoint,
            OAuthClientMetadata(
                client_name="A program in Python", redirect_uris=[AnyUrl(listener.uri)]
            ),
            kept,
            redirect,
            answered,
            client_metadata_url=document and site.documents.publish(document, [listener.uri]),
        )
        options: dict[str, Any] = {"verify": site.trust()} if site.trust else {}
        http = await stack.enter_async_context(
            httpx2.AsyncClient(auth=provider, timeout=60, **options)
        )
        client = await stack.enter_async_context(
            Client(streamable_http_client(site.endpoint, http_client=http))
        )
        yield Program(client=client, provider=provider, kept=kept, desk=made)


async def journey(
    site: Site, person: Person, folder: Path, *, document: str | None = None
) -> Journey:
    """Go the whole way with one program."""
    async with program(site, person, folder, document=document) as made:
        read = await made.call(site.read)
        signed_in = read and await made.desk.visits() == (SIGNS_IN,)
        before = made.refresh_token
        made.age()
        again = await made.call(site.read)
        refreshed = again and len(await made.desk.visits()) == 1 and before != made.refresh_token
        written = await made.call(site.write)
        stepped_up = written and await made.desk.visits() == (SIGNS_IN, CONSENTS)
    return Journey(signed_in=signed_in, refreshed=refreshed, stepped_up=stepped_up)


async def by_registration(site: Site, person: Person, folder: Path) -> Journey:
    """Let it register itself (RFC 7591)."""
    return await journey(site, person, folder)


async def by_document(site: Site, person: Person, folder: Path) -> Journey:
    """Let it name itself by the URL of a document."""
    made = await journey(site, person, folder, document="python")
    assert "/python.json" in site.documents.fetched
    return made
