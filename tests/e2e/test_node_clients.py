"""Clients that people write in TypeScript, and the tools around them, through the gateway."""

import asyncio
import json
import os
import shutil
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from gateway.processes import ended
from tests.cases import sampled
from tests.e2e.site import Corridor
from tests.servers.process import MODULES, ROOT, RunningServer

SCRIPTS = ROOT / "tests" / "node"
INSPECTOR = MODULES / "@modelcontextprotocol/inspector/clients/cli/build/index.js"
REMOTE = MODULES / "mcp-remote/dist/proxy.js"

CALLS: Mapping[str, list[tuple[str, dict[str, Any]]]] = {
    "notes": [("read_note", {"name": "welcome"}), ("delete_note", {"name": "welcome"})],
    "everything": [("echo", {"message": "hello"}), ("get-sum", {"a": 1, "b": 2})],
}
"""One that is allowed and one that is denied."""
SAID = {"This is your first note.", "Echo: hello"}


def node() -> str:
    """The newer Node that some of them need, from the package that brings it along."""
    brought = [MODULES / f"node-linux-{kind}" / "bin" / "node" for kind in ("x64", "arm64")]
    found = next((str(path) for path in brought if path.exists()), shutil.which("node"))
    assert found is not None
    return found


async def run(*arguments: str, environment: Mapping[str, str] | None = None) -> tuple[int, str]:
    """Run Node with `arguments`; return its status and what it printed."""
    process = await asyncio.create_subprocess_exec(
        node(),
        *arguments,
        cwd=SCRIPTS,
        env={**os.environ, **(environment or {})},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        printed, errors = await asyncio.wait_for(process.communicate(), 60)
    finally:
        await ended(process)
    return process.returncode or 0, printed.decode() or errors.decode()


async def seen_by(*arguments: str) -> Any:
    status, printed = await run(*arguments)
    assert status == 0, printed
    return json.loads(printed)


def refusal(result: Mapping[str, Any]) -> str | None:
    found: str | None = result.get("_meta", {}).get("douane/refusal", {}).get("code")
    return found


async def test_the_typescript_sdk_v1_sees_through_the_gateway_what_it_sees_directly(
    gateway: Corridor, everything: RunningServer
) -> None:
    script = str(SCRIPTS / "sdk-v1.mjs")
    direct, through = await asyncio.gather(
        seen_by(script, everything.url),
        seen_by(script, gateway.endpoint("everything"), gateway.token("everything")),
    )
    refused = through.pop("refused")
    assert "isError" not in direct.pop("refused")
    assert (refused["isError"], refusal(refused)) == (True, "denied")
    for name in ("get-env", "simulate-research-query"):  # the second one answers by a task alone
        direct["tools"].remove(name)
    for seen in (direct, through):
        # Whose question comes first, and whether roots are asked for again, is up to the server.
        seen["asked"] = {json.dumps(question) for question in seen["asked"]}
    assert through == direct
    kinds = {json.loads(question)[0] for question in through["asked"]}
    assert kinds == {"sampling", "elicitation", "roots"}
    assert through["progress"]


@pytest.mark.parametrize(
    ("mode", "server", "revision"),
    [
        ("auto", "notes", "2026-07-28"),
        ("default", "notes", "2025-11-25"),
        ("auto", "everything", "2025-11-25"),
    ],
)
async def test_the_typescript_sdk_v2_calls_and_is_refused(
    gateway: Corridor, mode: str, server: str, revision: str
) -> None:
    calls = CALLS[server]
    arguments = (gateway.endpoint(server), gateway.token(server), mode, json.dumps(calls))
    seen = await seen_by(str(SCRIPTS / "sdk-v2.mjs"), *arguments)
    assert seen["revision"] == revision
    assert calls[0][0] in seen["tools"]
    assert not {"get-env", "always_fails"} & set(seen["tools"])
    allowed, denied = seen["answered"]
    assert allowed["content"][0]["text"] in SAID
    assert (denied["isError"], refusal(denied)) == (True, "denied")


@pytest.mark.parametrize("mode", ["auto", "default"])
async def test_the_typescript_sdk_v2_learns_which_scopes_are_missing(
    gateway: Corridor, mode: str
) -> None:
    token = gateway.token("notes", name="reader", scopes=("tools:list", "tools:call"))
    calls = [["read_note", {"name": "todo"}], ["write_note", {"name": "x", "text": "y"}]]
    arguments = (gateway.endpoint("notes"), token, mode, json.dumps(calls))
    seen = await seen_by(str(SCRIPTS / "sdk-v2.mjs"), *arguments)
    allowed, missing = seen["answered"]
    assert allowed["content"][0]["text"] == "Buy milk."
    assert missing["error"] == "InsufficientScopeError"
    assert set(missing["requiredScope"].split()) == {"tools:call", "tools:write"}
    where = f"{gateway.url}/.well-known/oauth-protected-resource/mcp/notes"
    assert missing["resourceMetadataUrl"] == where


@pytest.mark.parametrize(
    ("era", "server"),
    sampled([("legacy", "everything"), ("auto", "notes")], {("legacy", "everything")}.__contains__),
)
async def test_the_inspector_lists_calls_and_is_refused(
    gateway: Corridor, tmp_path: Path, era: str, server: str
) -> None:
    async def inspect(*arguments: str) -> tuple[int, Any]:
        authorization = f"Authorization: Bearer {gateway.token(server)}"
        # Three at once: each its own, as what they keep there is not made for that.
        home = str(tmp_path / uuid.uuid4().hex)
        status, printed = await run(
            *(str(INSPECTOR), gateway.endpoint(server), "--transport", "http"),
            *("--protocol-era", era),
            *("--header", authorization, "--format", "json", "-q", *arguments),
            environment={"MCP_CATALOG_PATH": f"{home}/mcp.json", "HOME": home},
        )
        try:
            return status, json.loads(printed)
        except ValueError:
            pytest.fail(f"{arguments} ended with {status} and printed {printed!r}")

    (allowed, given), (denied, others) = (
        (tool, [f"{name}={word}" for name, word in arguments.items()])
        for tool, arguments in CALLS[server]
    )
    (_, listed), (ok, called), (status, refused) = await asyncio.gather(
        inspect("--method", "tools/list"),
        inspect("--method", "tools/call", "--tool-name", allowed, "--tool-arg", *given),
        inspect("--method", "tools/call", "--tool-name", denied, "--tool-arg", *others),
    )
    assert allowed in {tool["name"] for tool in _result(listed)["tools"]}
    assert ok == 0
    assert _result(called)["content"][0]["text"] in SAID
    assert status != 0
    assert (_result(refused)["isError"], refusal(_result(refused))) == (True, "denied")


def _result(printed: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = printed.get("result", printed)
    return found


@asynccontextmanager
async def bridged(gateway: Corridor, server: str, home: Path) -> AsyncIterator[Client]:
    """Connect as a host does that speaks stdio only."""
    parameters = StdioServerParameters(
        command=node(),
        args=[
            *(str(REMOTE), gateway.endpoint(server)),
            *("--header", f"Authorization: Bearer {gateway.token(server)}"),
            *("--allow-http", "--transport", "http-only"),
        ],
        env={"MCP_REMOTE_CONFIG_DIR": str(home), "HOME": str(home), "PATH": os.environ["PATH"]},
    )
    with (home / "mcp-remote.log").open("w") as log:
        async with Client(stdio_client(parameters, errlog=log)) as client:
            yield client


@pytest.mark.parametrize(
    ("server", "revision"), [("everything", "2025-11-25"), ("notes", "2026-07-28")]
)
async def test_a_stdio_host_reaches_the_gateway_over_mcp_remote(
    gateway: Corridor, tmp_path: Path, server: str, revision: str
) -> None:
    allowed, denied = CALLS[server]
    async with bridged(gateway, server, tmp_path) as client:
        assert client.protocol_version == revision
        assert allowed[0] in {tool.name for tool in (await client.list_tools()).tools}
        called: Any = await client.call_tool(*allowed)
        assert called.content[0].text in SAID
        refused = await client.call_tool(*denied)
        assert refused.is_error
        assert (refused.meta or {})["douane/refusal"]["code"] == "denied"
