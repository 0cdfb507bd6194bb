"""A host in which an agent works: an ordinary MCP client of as many servers as its task needs."""

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import aiohttp

from benchmarks.flow.traces import Step
from tests.running import endpoint_of

HANDSHAKE, STATELESS = "2025-11-25", "2026-07-28"
"""The revisions that it can speak: with a session for each server, and with none."""

_ACCEPT = "application/json, text/event-stream"
_WAITS_S = (0.0, 0.5, 2.0, 8.0)
"""Before each try to open a session: a gateway that is under load refuses some."""
_SHOWN = 300
"""Bytes of a refusal that are told."""
_ABOUT = {"name": "flow-report", "version": "1"}


class RefusedStepError(Exception):
    """A step that every conversation begins with was refused; the text says which, and why."""


class Host:
    """One conversation of one client: it signs in at each server, and opens its session, once."""

    def __init__(
        self,
        http: aiohttp.ClientSession,
        url: str,
        client: Mapping[str, Any],
        *,
        sessions: bool = True,
        by: str = "",
    ) -> None:
        """`client` is what `clients add` printed; without `sessions` it speaks `STATELESS`.

        `by` is the URL of whatever carries its calls, if that is not the gateway at `url`.
        """
        self._http = http
        self._url = url
        self._by = by or url
        self._client = client
        self._sessions = sessions
        self._headers: dict[str, dict[str, str]] = {}

    async def call(self, step: Step, id_: str, meta: Mapping[str, Any]) -> Mapping[str, Any]:
        """Make the call of `step` and return the JSON-RPC message that answers it.

        Raises:
            aiohttp.ClientError: There is none, but an HTTP error.
            TimeoutError: There is none in time.
            RefusedStepError: The session that it needs was not opened.

        """
        headers = self._headers.get(step.server)
        if headers is None:
            headers = self._headers[step.server] = await self._begin(step.server)
        own = {**meta, **({} if self._sessions else _stateless_meta())}
        params: dict[str, Any] = {"name": step.tool, "arguments": step.arguments}
        if own:
            params["_meta"] = own
        message = {"jsonrpc": "2.0", "id": id_, "method": "tools/call", "params": params}
        named = headers if self._sessions else {**headers, **_names(step)}
        _, body = await self._post(step.server, message, named)
        answer: Mapping[str, Any] = json.loads(body)
        return answer

    async def end(self) -> None:
        """End every session; one that cannot be ended ends by itself."""
        if not self._sessions:
            return
        for server, headers in self._headers.items():
            with suppress(aiohttp.ClientError, TimeoutError):
                async with self._http.delete(self._carrier(server), headers=headers) as answer:
                    answer.raise_for_status()

    async def _begin(self, server: str) -> dict[str, str]:
        """Return the headers that every call of this conversation to `server` carries."""
        headers = {"Authorization": f"Bearer {await self._token(server)}", "Accept": _ACCEPT}
        if not self._sessions:
            return headers | {"MCP-Protocol-Version": STATELESS}
        params = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": _ABOUT}
        initialize = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
        answered = await self._session(server, initialize, headers)
        headers["MCP-Protocol-Version"] = HANDSHAKE
        headers["Mcp-Session-Id"] = answered
        await self._post(server, {"jsonrpc": "2.0", "method": "notifications/initialized"}, headers)
        return headers

    async def _session(
        self, server: str, initialize: Mapping[str, Any], headers: Mapping[str, str]
    ) -> str:
        """Return the id of the session that `initialize` opens, asking again while it is refused.

        Raises:
            RefusedStepError: It was refused each time.

        """
        body = b""
        for wait in _WAITS_S:
            await asyncio.sleep(wait)
            answered, body = await self._post(server, initialize, headers)
            if (session := answered.get("Mcp-Session-Id")) is not None:
                return session
        said = body[:_SHOWN].decode(errors="replace")
        raise RefusedStepError(f"{server}: initialize was refused: {said}")

    async def _token(self, server: str) -> str:
        """Ask for a token (RFC 6749 section 4.4, RFC 8707)."""
        form = {
            "grant_type": "client_credentials",
            "client_id": self._client["client_id"],
            "client_secret": self._client["client_secret"],
            "resource": self._at(server),
        }
        async with self._http.post(f"{self._url}/oauth/token", data=form) as answer:
            answer.raise_for_status()
            token: str = (await answer.json())["access_token"]
        return token

    async def _post(
        self, server: str, message: Mapping[str, Any], headers: Mapping[str, str]
    ) -> tuple[Mapping[str, str], bytes]:
        async with self._http.post(self._carrier(server), json=message, headers=headers) as answer:
            answer.raise_for_status()
            return answer.headers, await answer.read()

    def _at(self, server: str) -> str:
        return self._url + endpoint_of(server)

    def _carrier(self, server: str) -> str:
        return self._by + endpoint_of(server)


def _stateless_meta() -> dict[str, Any]:
    key = "io.modelcontextprotocol"
    return {
        f"{key}/protocolVersion": STATELESS,
        f"{key}/clientInfo": _ABOUT,
        f"{key}/clientCapabilities": {},
    }


def _names(step: Step) -> dict[str, str]:
    return {"Mcp-Method": "tools/call", "Mcp-Name": step.tool}
