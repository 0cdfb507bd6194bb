"""A way out that leads to this machine only."""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from gateway.errors import EgressRefused, UpstreamFailed

LOOPBACK = frozenset({"127.0.0.1", "localhost"})


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Mapping[str, Any]:
        try:
            found = json.loads(self.body)
        except ValueError as error:
            raise UpstreamFailed("no JSON") from error
        if not isinstance(found, dict):
            raise UpstreamFailed("no JSON object")
        return found


@dataclass
class Loopback:
    """A `Fetcher` that refuses what is not on loopback, and remembers where it was sent."""

    session: aiohttp.ClientSession
    asked: list[tuple[str, str]] = field(default_factory=list)
    """Method and URL, also of what was refused."""
    named_by: list[str] = field(default_factory=list)
    """On whose word each was asked."""
    before: Callable[[str], None] = lambda _: None
    """Called with the URL before each request."""

    async def get(
        self, url: str, *, headers: Mapping[str, str] | None = None, who: str = ""
    ) -> Answer:
        self.named_by.append(who)
        return await self._send("GET", url, headers=headers)

    async def post(
        self,
        url: str,
        *,
        form: Mapping[str, str] | None = None,
        json: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        who: str = "",
    ) -> Answer:
        self.named_by.append(who)
        return await self._send("POST", url, data=form, json=json, headers=headers)

    async def _send(self, method: str, url: str, **more: Any) -> Answer:
        self.asked.append((method, url))
        if urlsplit(url).hostname not in LOOPBACK:
            raise EgressRefused("not allowed", detail=url)
        self.before(url)
        try:
            async with self.session.request(method, url, allow_redirects=False, **more) as answer:
                names = {name.lower(): text for name, text in answer.headers.items()}
                return Answer(answer.status, names, await answer.read())
        except aiohttp.ClientError as error:
            raise UpstreamFailed("no answer", detail=str(error)) from error


@asynccontextmanager
async def loopback() -> AsyncIterator[Loopback]:
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session:
        yield Loopback(session)
