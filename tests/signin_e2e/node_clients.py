"""Programs on the TypeScript SDKs, the Inspector and mcp-remote, each signing its user in."""

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from tests.servers.process import MODULES, ROOT, free_port
from tests.signin_e2e.browser import Person
from tests.signin_e2e.desk import Desk, desk
from tests.signin_e2e.journeys import CONSENTS, SIGNS_IN, Call, Journey, Site

SCRIPTS = ROOT / "tests" / "node"
INSPECTOR = MODULES / "@modelcontextprotocol/inspector/clients/cli/build/index.js"
REMOTE = MODULES / "mcp-remote/dist/proxy.js"
_PATIENCE_S = 90.0
_CATALOG = "mcp.json"


class ClientFailed(Exception):
    """A client ended with an error; the text is what it printed."""


def node() -> str:
    """Return the newer Node that some of them need, from the package that brings it along."""
    brought = [MODULES / f"node-linux-{kind}" / "bin" / "node" for kind in ("x64", "arm64")]
    found = next((str(path) for path in brought if path.exists()), shutil.which("node"))
    assert found is not None
    return found


async def _run(
    *arguments: str, environment: Mapping[str, str], said: bytes = b""
) -> "tuple[int, str, str]":
    """Run Node with `arguments`; return its status, what it printed and what it complained of."""
    process = await asyncio.create_subprocess_exec(
        node(),
        *arguments,
        cwd=SCRIPTS,
        env=dict(environment),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        printed, errors = await asyncio.wait_for(process.communicate(said), _PATIENCE_S)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode or 0, printed.decode(), errors.decode()


def _environment(site: Site, made: Desk, home: Path, **more: str) -> Mapping[str, str]:
    trusted = {"NODE_EXTRA_CA_CERTS": site.authority} if site.authority else {}
    return {**made.environment, "HOME": str(home), **trusted, **more}


async def _script(
    site: Site, person: Person, folder: Path, *arguments: str
) -> tuple[Journey, Mapping[str, Any]]:
    """Run a program of ours; return how far it came, and everything that it told."""
    name, *rest = arguments
    calls = json.dumps({"read": site.read, "write": site.write})
    async with desk(person, folder) as made:
        status, printed, errors = await _run(
            *(str(SCRIPTS / name), site.endpoint, calls, *rest),
            environment=_environment(site, made, folder),
        )
    if status != 0:
        raise ClientFailed(errors or printed)
    found = json.loads(printed)
    made_it = Journey(
        signed_in=found["signedIn"] and (await made.visits())[:1] == (SIGNS_IN,),
        refreshed=found["refreshed"],
        stepped_up=found["steppedUp"] and (await made.visits())[1:] == (CONSENTS,),
    )
    return made_it, found


async def typescript_v1(site: Site, person: Person, folder: Path) -> Journey:
    """Let a program on SDK v1 go the whole way."""
    return (await _script(site, person, folder, "signin-v1.mjs"))[0]


async def typescript_v2(site: Site, person: Person, folder: Path) -> Journey:
    """Let a program on SDK v2 go the whole way."""
    return (await _script(site, person, folder, "signin-v2.mjs"))[0]


async def typescript_that_holds_a_key(
    site: Site, person: Person, folder: Path
) -> tuple[Journey, Mapping[str, Any]]:
    """Let a program on SDK v2 go the whole way with bound tokens; return what they are worth, too."""
    return await _script(site, person, folder, "signin-dpop.mjs")


async def inspector_by_registration(site: Site, person: Person, folder: Path) -> Journey:
    """Let the Inspector register itself (RFC 7591).

    Its catalog names the scopes to begin with: only where something is said of OAuth does it answer
    a 403 by asking for more; else it refreshes, and gives up.
    """
    notes = {
        "type": "streamable-http",
        "url": site.endpoint,
        "oauth": {"scopes": "tools:list tools:call"},
    }
    catalog = json.dumps({"mcpServers": {"notes": notes}})
    await asyncio.to_thread((folder / _CATALOG).write_text, catalog)
    return await _inspector(site, person, folder, _redirect_uri(), "--server", "notes")


async def inspector_by_document(site: Site, person: Person, folder: Path) -> Journey:
    """Let the Inspector name itself by the URL of a document."""
    redirect_uri = _redirect_uri()
    url = site.documents.publish("inspector", [redirect_uri])
    options = (site.endpoint, "--transport", "http", "--client-metadata-url", url)
    made = await _inspector(site, person, folder, redirect_uri, *options)
    assert "/inspector.json" in site.documents.fetched
    return made


def _redirect_uri() -> str:
    return f"http://127.0.0.1:{free_port()}/oauth/callback"


async def _inspector(
    site: Site, person: Person, folder: Path, redirect_uri: str, *options: str
) -> Journey:
    """Run the Inspector three times: each run goes on with what the one before has kept."""
    complaints: list[str] = []
    async with desk(person, folder) as made:
        environment = _environment(
            *(site, made, folder),
            MCP_AUTO_OPEN_ENABLED="true",
            MCP_CATALOG_PATH=str(folder / _CATALOG),
            MCP_STORAGE_DIR=str(folder),
            MCP_INSPECTOR_SECRET_STORE="file",
        )

        async def call(call: Call) -> bool:
            status, printed, errors = await _run(
                *(str(INSPECTOR), *options, "--callback-url", redirect_uri),
                *("--protocol-era", "auto", "--connect-timeout", "60000"),
                *("--method", "tools/call", "--tool-name", call[0]),
                *("--tool-args-json", json.dumps(call[1]), "--format", "json"),
                environment=environment,
                said=b"y\n",
            )
            complaints.append(errors)
            return status == 0 and not _result(printed).get("isError", False)

        signed_in = await call(site.read) and await made.visits() == (SIGNS_IN,)
        before = _spoil(folder / "secrets.json", _every_access_token)
        again = await call(site.read)
        after = (folder / "secrets.json").read_text()
        refreshed = again and len(await made.visits()) == 1 and before != after
        stepped_up = await call(site.write) and (await made.visits())[1:] == (CONSENTS,)
    await asyncio.to_thread((folder / "inspector.log").write_text, "\n".join(complaints))
    return Journey(signed_in=signed_in, refreshed=refreshed, stepped_up=stepped_up)


def _result(printed: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(printed)
    result: dict[str, Any] = found.get("result", found)
    return result


def _spoil(path: Path, change: Callable[[Any], Any]) -> str:
    """Rewrite a JSON file with `change`; return its new text."""
    text = json.dumps(change(json.loads(path.read_text())))
    path.write_text(text)
    return text


def _every_access_token(content: Any) -> Any:
    """Return `content` with every access token in it made worthless, also where JSON holds JSON."""
    if isinstance(content, dict):
        return {
            name: f"{held}x" if name == "access_token" else _every_access_token(held)
            for name, held in content.items()
        }
    if isinstance(content, list):
        return [_every_access_token(held) for held in content]
    if isinstance(content, str) and content.startswith("{"):
        return json.dumps(_every_access_token(json.loads(content)))
    return content


async def mcp_remote(site: Site, person: Person, folder: Path) -> Journey:
    """Let a host that speaks stdio only go the whole way behind mcp-remote."""
    port = free_port()
    async with desk(person, folder) as made:
        environment = _environment(site, made, folder, MCP_REMOTE_CONFIG_DIR=str(folder))
        async with _bridged(site, environment, port, folder) as client:
            signed_in = await _call(client, site.read) and await made.visits() == (SIGNS_IN,)
        (tokens,) = folder.glob("mcp-remote-v*/*_tokens.json")
        _spoil(tokens, _every_access_token)
        before = json.loads(tokens.read_text())["refresh_token"]
        async with _bridged(site, environment, port, folder) as client:
            again = await _call(client, site.read)
            after = json.loads(tokens.read_text())["refresh_token"]
            refreshed = again and len(await made.visits()) == 1 and before != after
            stepped_up = await _call(client, site.write) and (await made.visits())[1:] == (
                CONSENTS,
            )
    return Journey(signed_in=signed_in, refreshed=refreshed, stepped_up=stepped_up)


async def _call(client: Client, call: Call) -> bool:
    return not (await client.call_tool(call[0], dict(call[1]))).is_error


@asynccontextmanager
async def _bridged(
    site: Site, environment: Mapping[str, str], port: int, folder: Path
) -> AsyncIterator[Client]:
    parameters = StdioServerParameters(
        command=node(),
        args=[str(REMOTE), site.endpoint, str(port), "--transport", "http-only"],
        env={**os.environ, **environment},
    )
    with (folder / "mcp-remote.log").open("a") as log:
        async with Client(stdio_client(parameters, errlog=log)) as client:
            yield client
