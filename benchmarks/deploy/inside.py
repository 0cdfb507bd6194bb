"""Asks the gateway beside it for everything once: `inside.py CONFIG`, with the image's own Python.

It runs where the gateway does, in its container or on its machine. The last line that it prints is
a JSON object: what `/readyz` said, a call through the gateway, a program, and what is wrong.
"""

import asyncio
import json
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import httpx2
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

URL, ADMIN, SERVER = "http://127.0.0.1:8080", "http://127.0.0.1:8081", "notes"
DOUANE = str(Path(sys.executable).parent / "douane")
_PATIENCE_S = 60


def main() -> int:
    config = sys.argv[1]
    found: dict[str, Any] = {"ready": _ready(), "version": _douane(config, "version")}
    _douane(config, "pins", "approve", SERVER, "--all", "--accept-risks", "--note", "a trial")
    text = asyncio.run(_called(config, SERVER, ("tools:call",), "read_note", title="one"))
    found["call"] = text
    if found["ready"].get("programs"):
        wanted = ("tools:call", "code:run")
        found["program"] = asyncio.run(_called(config, "", wanted, "run_code", code="6 * 7"))
    found["log"] = _douane(config, "audit", "verify").splitlines()[0]
    print(json.dumps(found))
    return 0


def _ready() -> Any:
    """Wait until it is ready, and return what it says of itself."""
    until = time.monotonic() + _PATIENCE_S
    while True:
        try:
            with urllib.request.urlopen(f"{ADMIN}/readyz", timeout=5) as answer:
                return json.load(answer)
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.5)


def _douane(config: str, *words: str) -> str:
    done = subprocess.run(
        [DOUANE, "--config", config, *words], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"douane {' '.join(words)}: {done.stderr or done.stdout}")
    return done.stdout.strip()


async def _called(
    config: str, server: str, scopes: tuple[str, ...], tool: str, **arguments: str
) -> str:
    """Call a tool as a client that was registered for it, and return the text of its result."""
    path = f"/mcp/{server}" if server else "/mcp"
    options = [word for scope in ("tools:list", *scopes) for word in ("--scope", scope)]
    made = _douane(
        config, "clients", "add", f"trial-{tool}", "--resource", path, *options, "--json"
    )
    headers = {"Authorization": f"Bearer {_token(json.loads(made), path)}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(f"{URL}{path}", http_client=http)) as client,
    ):
        result = await client.call_tool(tool, arguments)
    return " ".join(part.text for part in result.content if part.type == "text")


def _token(client: dict[str, str], path: str) -> str:
    form = {
        "grant_type": "client_credentials",
        "client_id": client["client_id"],
        "client_secret": client["client_secret"],
        "resource": f"{URL}{path}",
    }
    data = urllib.parse.urlencode(form).encode()
    with urllib.request.urlopen(f"{URL}/oauth/token", data, timeout=60) as answer:
        return str(json.load(answer)["access_token"])


if __name__ == "__main__":
    sys.exit(main())
