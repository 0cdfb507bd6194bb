"""A person signs in for a program: discovery, registration, a browser, consent, a token."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

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

from tests.signin.browser import Browser, Page, over_http

Answer = Mapping[str, str]
"""The parameters with which the browser comes back to the program."""

_DONE = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n"
    b"Done. Go back to the terminal."
)


@dataclass
class Kept:
    """What the program remembers: who it is to the gateway, and its tokens."""

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


@asynccontextmanager
async def signed_in(
    url: str, redirect_uri: str, visit: Callable[[str], Awaitable[Answer]]
) -> AsyncIterator[Client]:
    """Connect to an MCP endpoint as a program that knows nothing but its URL.

    `visit` sends somebody to an address and returns what their browser brings back.
    """
    answers: list[Answer] = []

    async def redirect(address: str) -> None:
        answers.append(await visit(address))

    async def answered() -> AuthorizationCodeResult:
        answer = answers.pop()
        if "error" in answer:
            raise RuntimeError(f"the answer is no: {answer['error']}")
        return AuthorizationCodeResult(
            code=answer["code"], state=answer.get("state"), iss=answer.get("iss")
        )

    metadata = OAuthClientMetadata(
        client_name="A program in Python", redirect_uris=[AnyUrl(redirect_uri)]
    )
    provider = OAuthClientProvider(url, metadata, Kept(), redirect, answered)
    async with (
        httpx2.AsyncClient(auth=provider, timeout=300) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        yield client


@dataclass
class Person:
    """Somebody with a browser that fills in forms, and notes what it showed."""

    gateway: str
    name: str
    password: str = field(repr=False)
    consented: list[Page] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._browser = Browser(over_http(), reaches=lambda url: url.startswith(self.gateway))

    async def choose_password(self, link: str) -> bool:
        """Open a setup link; whether it is good, and the password was taken."""
        page = await self._browser.get(link)
        if not page.shows("setup"):
            return False
        chosen = {"username": self.name, "password": self.password, "repeated": self.password}
        page = await self._browser.submit(page.form("setup"), page, **chosen)
        return page.status == 200

    async def visit(self, address: str) -> Answer:
        """Sign in where that is asked for, say yes, and return what the program gets."""
        page = await self._browser.get(address)
        if page.shows("sign-in"):
            known = {"username": self.name, "password": self.password}
            page = await self._browser.submit(page.form("sign-in"), page, **known)
        if page.shows("consent"):
            self.consented.append(page)
            page = await self._browser.submit(page.form("consent"), page, action="approve")
        if not page.leaves_for:
            raise RuntimeError(f"{page.url} says: {page.text}")
        return dict(parse_qsl(urlsplit(page.leaves_for).query))


async def call_as(person: Person, url: str, tool: str, arguments: dict[str, Any]) -> Any:
    """Let a program that nobody registered call one tool, for `person`."""
    # Nothing listens there: this browser hands over what it would have brought.
    async with signed_in(url, "http://127.0.0.1:41999/callback", person.visit) as client:
        return await client.call_tool(tool, arguments)


async def call_after_sign_in(url: str, tool: str, arguments: dict[str, Any]) -> Any:
    """Say where to sign in, wait for whoever does, and call one tool for them."""
    answers: asyncio.Queue[Answer] = asyncio.Queue()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            target = urlsplit(head.split(b" ")[1].decode("ascii"))
            if target.path == "/callback":
                answers.put_nowait(dict(parse_qsl(target.query)))
            writer.write(_DONE)
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # browsers open connections that they do not use
        finally:
            writer.close()

    async def visit(address: str) -> Answer:
        print(f"open this in a browser:\n\n  {address}\n", flush=True)
        return await answers.get()

    async with await asyncio.start_server(accept, "127.0.0.1", 0) as listener:
        port = listener.sockets[0].getsockname()[1]
        async with signed_in(url, f"http://127.0.0.1:{port}/callback", visit) as client:
            return await client.call_tool(tool, arguments)
