"""Clients that call tools at gateways over HTTP and remember what came of each call."""

import asyncio
import random
import secrets
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import aiohttp

from benchmarks.replicas.commands import Refused, done
from benchmarks.replicas.history import NOTHING, RESULT, Call, History
from benchmarks.replicas.members import SERVER, Member
from tests.e2e.posting import body_of, mirrored, modern_params
from tests.e2e.sockets import refusal_in
from tests.running import EVERY_SCOPE, endpoint_of

CARRIED, PINNED, RULED, PRIVATE, ASKED = "allowed", "amounts", "slow", "page", "located"
"""Tools of the server: one that is always carried; one whose definition is revoked at times; one that
a policy at times denies; one whose result is private; one that needs a person's yes each time."""
_OFTEN = (CARRIED, CARRIED, CARRIED, PINNED, RULED)
PATIENCE_S = 10.0
"""So long a client waits for an answer."""
_UNAUTHORIZED = 401
_REFUSED_PAUSE_S = 0.1

Http = aiohttp.ClientSession


class Caller:
    """One client, with a token of each gateway's own: their clocks may differ."""

    def __init__(self, name: str, http: Http, members: Sequence[Member], history: History) -> None:
        self.name = f"{name}-{secrets.token_hex(4)}"
        self._http = http
        self._members = members
        self._history = history
        self._client: dict[str, Any] = {}
        self._tokens: dict[int, str] = {}

    async def register(self) -> None:
        """Become known, at whichever gateway takes it.

        Raises:
            NotDone: None does.

        """
        while not self._client:
            with suppress(
                Refused
            ):  # it was registered by this name, and nobody was told its secret
                self._client = await done(
                    [member.socket for member in self._members],
                    "clients.add",
                    settled=["bad_command"],
                    name=f"{self.name}-{secrets.token_hex(4)}",
                    grants=["client_credentials"],
                    resources=[endpoint_of(SERVER)],
                    scopes=list(EVERY_SCOPE),
                )

    async def call(self, tool: str, at: int, *, text: str = "") -> tuple[Call, Any]:
        """Call `tool` at a gateway; return what is remembered of it, and the message that came."""
        trace, began = secrets.token_hex(16), time.monotonic()
        params = {"name": tool, "arguments": {"text": text or trace}}
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "traceparent": f"00-{trace}-{'1' * 16}-01",
            **dict(mirrored("tools/call", params)),
        }
        body = body_of("tools/call", modern_params(params))
        answer, message = NOTHING, None
        try:
            async with asyncio.timeout(PATIENCE_S):
                headers["Authorization"] = f"Bearer {await self._token(at)}"
                url = self._members[at].url + endpoint_of(SERVER)
                began = time.monotonic()
                async with self._http.post(url, data=body, headers=headers) as response:
                    message = await response.json(content_type=None)
                    answer = _answer(response.status, message)
        except (aiohttp.ClientError, TimeoutError, ValueError, KeyError):
            pass
        if answer == "unauthenticated":
            self._tokens.pop(at, None)
        call = Call(
            trace=trace,
            client=self.name,
            tool=tool,
            at=at,
            begun_s=began,
            ended_s=time.monotonic(),
            answer=answer,
        )
        self._history.calls.append(call)
        return call, message

    async def _token(self, at: int) -> str:
        if at not in self._tokens:
            form = {
                "grant_type": "client_credentials",
                "client_id": self._client["client_id"],
                "client_secret": self._client["client_secret"],
                "resource": self._members[0].url + endpoint_of(SERVER),
            }
            async with self._http.post(f"{self._members[at].url}/oauth/token", data=form) as told:
                self._tokens[at] = (await told.json())["access_token"]
        return self._tokens[at]


async def calling(
    caller: Caller, home: int, dice: random.Random, *, gateways: int, pause_s: float
) -> None:
    """Make one call after the other until cancelled: most of them at `home`, some anywhere."""
    while True:
        at = home if dice.random() < 0.8 else dice.randrange(gateways)  # noqa: PLR2004 - a share
        call, _ = await caller.call(dice.choice(_OFTEN), at)
        await asyncio.sleep(pause_s if call.answer == RESULT else max(pause_s, _REFUSED_PAUSE_S))


def question_of(message: Any) -> str:
    """Return the id of the question that a refusal tells of; empty if none was filed."""
    refusal = message["result"]["_meta"]["douane/refusal"]
    return str(refusal.get("approval_id", ""))


def _answer(status: int, message: Any) -> str:
    if status == _UNAUTHORIZED:
        return "unauthenticated"
    refused = refusal_in(message)
    if refused is not None:
        return refused
    return RESULT if "content" in message.get("result", {}) else f"HTTP {status}"
