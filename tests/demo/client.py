"""An ordinary MCP client for `make run`: `python -m tests.demo.client SERVER TOOL ARGUMENTS`.

SERVER may be `all`: the endpoint in front of all of them. It is registered and acts for itself; with `--sign-in` before SERVER nobody has registered it, and it
asks you to sign in with a browser.
"""

import asyncio
import json
import sys
import urllib.error
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from tests.demo.run import FOLDER
from tests.demo.sign_in import call_after_sign_in
from tests.running import endpoint_of, fetch_token


@asynccontextmanager
async def connected(
    url: str, token: str, mode: str = "auto", **options: Any
) -> AsyncIterator[Client]:
    """Connect to an MCP endpoint, as any program on the SDK would; `options` are the SDK's."""
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode, **options) as client,
    ):
        yield client


async def call(
    url: str, token: str, tool: str, arguments: dict[str, Any], mode: str = "auto"
) -> Any:
    """Call one tool at an MCP endpoint."""
    async with connected(url, token, mode) as client:
        return await client.call_tool(tool, arguments)


def main() -> int:
    """Print the result; return 1 if it is an error, or if there is none and why."""
    try:
        return _called()
    except Exception as error:  # noqa: BLE001 - whatever it is, a person reads it
        print(f"no result: {words_of(error)}", file=sys.stderr)
        return 1


def words_of(error: BaseException) -> str:
    """Return what went wrong, as a person would say it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, urllib.error.HTTPError):
        said = error.read().decode(errors="replace").strip()
        return f"the gateway refused ({error.code}): {said or error.reason}"
    if isinstance(error, urllib.error.URLError | ConnectionError):
        return f"the gateway does not answer ({error}); is `make run` still running?"
    return f"{type(error).__name__}: {error}"


def _called() -> int:
    words = sys.argv[1:]
    asks = words[:1] == ["--sign-in"]
    if len(words) - asks not in (2, 3):
        print(__doc__, file=sys.stderr)
        return 2
    server, tool, *given = words[asks:]
    arguments = json.loads(given[0]) if given else {}
    url = json.loads((FOLDER / "douane.yaml").read_text())["public_url"]
    endpoint = url + endpoint_of(server)
    if asks:
        return shown(asyncio.run(call_after_sign_in(endpoint, tool, arguments)))
    client = json.loads((FOLDER / f"agent-{server}.json").read_text())
    token = fetch_token(url, server, client)
    return shown(asyncio.run(call(endpoint, token, tool, arguments)))


def shown(result: Any) -> int:
    """Print a tool's result and return the exit status: 1 if it is an error."""
    for block in result.content:
        print(getattr(block, "text", block))
    return 1 if result.is_error else 0


if __name__ == "__main__":
    sys.exit(main())
