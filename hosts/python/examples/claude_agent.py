"""Claude's Agent SDK, with the gateway as a server in this process."""

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import anyio
from claude_agent_sdk import ClaudeAgentOptions, Transport, query

from douane_host import task
from douane_host.claude import relayed

_RESULT = {
    "type": "result",
    "subtype": "success",
    "duration_ms": 1,
    "duration_api_ms": 1,
    "is_error": False,
    "num_turns": 1,
    "session_id": "s",
}
_CALLS: list[dict[str, Any]] = [
    {
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "claude-code", "version": "1"},
        },
    },
    {"method": "notifications/initialized"},
    {"id": 2, "method": "tools/list"},
    {"id": 3, "method": "tools/call", "params": {"name": "page", "arguments": {}}},
]


class Scripted(Transport):
    """Asks of the SDK what Claude Code asks, and of no model anything."""

    def __init__(self) -> None:
        """Begin with nothing said."""
        self._say, self._said = anyio.create_memory_object_stream[dict[str, Any]](100)
        self._left = list(_CALLS)
        self.answers: list[Any] = []

    async def connect(self) -> None:
        """There is nothing to connect to."""

    async def write(self, data: str) -> None:
        """Hear an answer, and ask the next question."""
        heard = json.loads(data)
        if heard["type"] == "control_request":
            answer = {"subtype": "success", "request_id": heard["request_id"], "response": {}}
            await self._say.send({"type": "control_response", "response": answer})
            return
        if heard["type"] == "control_response":
            self.answers.append(heard["response"])
        if not self._left:
            await self._say.send(_RESULT)
            await self._say.aclose()
            return
        message = {"jsonrpc": "2.0", **self._left.pop(0)}
        request = {"subtype": "mcp_message", "server_name": "mail", "message": message}
        number = str(len(self._left))
        await self._say.send({"type": "control_request", "request_id": number, "request": request})

    async def read_messages(self) -> AsyncIterator[dict[str, Any]]:
        """Say what there is to say."""
        async for message in self._said:
            yield message

    async def close(self) -> None:
        """Say nothing more."""
        await self._say.aclose()

    def is_ready(self) -> bool:
        """Say that it is."""
        return True

    async def end_input(self) -> None:
        """There is no input to end."""


async def host(requests: Sequence[str], url: str, headers: dict[str, str]) -> None:
    """Carry out what a person asks for, one request after the other."""
    for words in requests:
        options = ClaudeAgentOptions(mcp_servers={"mail": relayed("mail", url, headers)})
        transport = Scripted()
        async with task(words):
            async for _ in query(prompt=words, options=options, transport=transport):
                pass
        page = transport.answers[-1]["response"]["mcp_response"]["result"]
        if page.get("isError"):
            raise RuntimeError(page)
