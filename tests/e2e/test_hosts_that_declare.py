"""Hosts on `douane_host` declare their users' tasks, by the record of a real gateway."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastmcp import Client as FastMCPClient
from fastmcp.client.transports import StreamableHttpTransport
from mcp.client import Client
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.client.streamable_http import streamable_http_client

from douane_host import conversation, declaring, http_client, task
from douane_host.claude import relayed
from tests.e2e.hosts import CLEAN, Host
from tests.e2e.site import Corridor
from tests.e2e.test_node_clients import run
from tests.servers.process import MODULES, ROOT
from tests.web.test_oauth import Shelf

WORDS = "Tell me what the note welcome says."
READ = ("read_note", {"name": "welcome"})
Connect = Callable[[str, Mapping[str, str]], AbstractAsyncContextManager[Any]]


@asynccontextmanager
async def sdk(url: str, headers: Mapping[str, str], mode: str = "auto") -> AsyncIterator[Client]:
    async with (
        declaring(httpx2.AsyncClient(headers=headers, timeout=60)) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        yield client


@asynccontextmanager
async def sdk_in_a_session(url: str, headers: Mapping[str, str]) -> AsyncIterator[Client]:
    async with sdk(url, headers, "legacy") as client:
        yield client


@asynccontextmanager
async def fastmcp(url: str, headers: Mapping[str, str]) -> AsyncIterator[Any]:
    transport = StreamableHttpTransport(
        url, headers=dict(headers), httpx_client_factory=http_client
    )
    async with FastMCPClient(transport) as client:
        yield client


EVERY = pytest.mark.parametrize("connect", [sdk, sdk_in_a_session, fastmcp])


@EVERY
async def test_each_task_is_declared_in_a_run_that_has_seen_nothing_else(
    gateway: Corridor, connect: Connect
) -> None:
    host = Host(gateway, f"each-{connect.__name__}", "--trusted-host")
    async with connect(*host.at("raw")) as client:
        async with task(WORDS):
            await client.call_tool("page", {})
            await client.call_tool("allowed", {})
        async with task(WORDS):
            await client.call_tool("allowed", {})
        await client.call_tool("allowed", {})
    assert host.told == [
        ("begun", "counted", 0),
        ("page", "counted", 0),
        ("allowed", "counted", 0),
        ("ended", "counted", 0),
        ("begun", "counted", 1),
        ("allowed", "counted", 1),
        ("ended", "counted", 1),
        ("allowed", None, 2),
    ]
    before = [row["label_before"] for row in host.record() if row.get("target") == "allowed"]
    assert [label["integrity"] for label in before] == ["untrusted", "trusted", "untrusted"]
    assert before[1] == CLEAN


@EVERY
async def test_tasks_at_once_through_one_client_are_told_apart(
    gateway: Corridor, connect: Connect
) -> None:
    host = Host(gateway, f"apart-{connect.__name__}", "--trusted-host")
    async with connect(*host.at("raw")) as client:
        reads = asyncio.Event()

        async def read() -> None:
            async with task("read it"):
                await client.call_tool("page", {})
                reads.set()
                await client.call_tool("page", {})

        async def write() -> None:
            async with task("remove it", tools=["raw/remove"]):
                await reads.wait()
                await client.call_tool("remove", {})

        await asyncio.gather(read(), write())
    runs = {(row["target"], row["run"]) for row in host.record() if row["kind"] == "intent"}
    assert {target for target, _ in runs} == {"page", "remove"}
    assert len(runs) == 2
    (removed,) = (row for row in host.record() if row.get("target") == "remove")
    assert removed["label_before"] == CLEAN


async def test_one_run_knows_all_that_is_read_at_every_endpoint(gateway: Corridor) -> None:
    host = Host(gateway, "endpoints", "--trusted-host")
    async with sdk(*host.at("raw")) as raw, sdk(*host.at("notes")) as notes, task(WORDS):
        await raw.get_prompt("greeting")
        await raw.read_resource("raw://page")
        await raw.call_tool("page", {})
        await notes.call_tool(*READ)
    begun, *calls, ended = host.record()
    asked = ["prompts/get", "resources/read", "tools/call", "tools/call"]
    assert [call["method"] for call in calls] == asked
    assert {call["task"] for call in calls} == {"counted"}
    assert {row["run"] for row in (begun, *calls, ended)} == {begun["run"]}
    assert calls[-1]["label_before"]["integrity"] == "untrusted"


async def test_a_client_that_signs_in_by_itself_declares_with_every_token(
    gateway: Corridor,
) -> None:
    host = Host(gateway, "signs-in", "--trusted-host", endpoints=("raw",))
    url, _ = host.at("raw")
    provider = ClientCredentialsOAuthProvider(
        server_url=url,
        storage=Shelf(),
        client_id=host.client["client_id"],
        client_secret=host.client["client_secret"],
        issuer=gateway.url,
    )
    async with (
        http_client(auth=provider) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        for _ in range(2):
            async with task(WORDS):
                await client.call_tool("page", {})
            tokens = provider.context.current_tokens
            assert tokens is not None
            tokens.access_token = "which nobody knows"
    assert host.told == [
        (what, "counted", number) for number in (0, 1) for what in ("begun", "page", "ended")
    ]


async def test_a_server_of_claudes_agent_sdk_passes_on_and_declares(gateway: Corridor) -> None:
    host = Host(gateway, "claude", "--trusted-host")
    server = relayed("raw", *host.at("raw"))
    assert (server["type"], server["name"]) == ("sdk", "raw")
    async with task(WORDS), Client(server["instance"], mode="legacy") as claude:
        assert "page" in {tool.name for tool in (await claude.list_tools()).tools}
        assert [prompt.name for prompt in (await claude.list_prompts()).prompts] == ["greeting"]
        await claude.list_resources()
        await claude.list_resource_templates()
        await claude.get_prompt("greeting")
        await claude.read_resource("raw://page")
        refused = await claude.call_tool("denied", {"text": "x"})
        await claude.call_tool("page", {})
    assert (refused.meta or {})["douane/refusal"]["code"] == "denied"
    told = [(row["method"], row["task"]) for row in host.record()]
    methods = ["douane/run/begin", "prompts/get", "resources/read", "tools/call", "douane/run/end"]
    assert told == [(method, "counted") for method in methods]


async def test_the_words_and_the_tools_are_in_force(gateway: Corridor) -> None:
    host = Host(gateway, "grant", "--trusted-host")
    async with sdk(*host.at("notes")) as client, task(WORDS, tools=["notes/list_notes"]):
        listed = await client.call_tool("list_notes", {})
        refused = await client.call_tool(*READ)
    assert not listed.is_error
    reasons = (refused.meta or {})["douane/refusal"]["reasons"]
    assert "not_in_task" in {reason["code"] for reason in reasons}


async def test_a_conversation_is_one_run_whose_words_grow(gateway: Corridor) -> None:
    host = Host(gateway, "talk", "--trusted-host")
    arguments = {"name": "minutes", "text": "all of it"}
    async with sdk(*host.at("notes")) as client, conversation() as talk:
        talk.says("What is there?")
        await client.call_tool(*READ)
        talk.says("Write a note called minutes.")
        written = await client.call_tool("write_note", arguments)
    assert not written.is_error
    assert host.told == [
        ("begun", None, 0),
        ("read_note", "counted", 0),
        ("write_note", "counted", 0),
        ("ended", None, 0),
    ]


async def test_what_a_client_says_that_nobody_trusts_is_recorded_and_ignored(
    gateway: Corridor, caplog: pytest.LogCaptureFixture
) -> None:
    host = Host(gateway, "unknown")
    async with sdk(*host.at("notes")) as client, task(WORDS):
        assert not (await client.call_tool(*READ)).is_error
        assert not (await client.call_tool(*READ)).is_error
    assert [told[:2] for told in host.told] == [("read_note", "ignored")] * 2
    (warned,) = (r for r in caplog.records if r.name == "douane_host")
    assert "begins no run" in warned.getMessage()


@pytest.mark.parametrize(
    ("example", "mode"), [("sdk", "auto"), ("sdk", "legacy"), ("sdk-v1", "legacy")]
)
async def test_the_typescript_sdk_declares_each_task_in_a_run_of_its_own(
    gateway: Corridor, tmp_path: Path, example: str, mode: str
) -> None:
    host = Host(gateway, f"typescript-{example}-{mode}", "--trusted-host")
    modules = tmp_path / "node_modules"
    modules.mkdir()
    (modules / "@modelcontextprotocol").symlink_to(MODULES / "@modelcontextprotocol")
    (modules / "douane-host").symlink_to(ROOT / "hosts" / "typescript")
    program = tmp_path / f"{example}.mjs"
    shutil.copy(ROOT / "hosts" / "typescript" / "examples" / program.name, program)
    url, headers = host.at("raw")
    token = headers["Authorization"].removeprefix("Bearer ")
    status, printed = await run(str(program), url, token, mode, "first", "second")
    assert status == 0, printed
    assert host.told == [
        (what, "counted", number) for number in (0, 1) for what in ("begun", "page", "ended")
    ]
    before = [row["label_before"] for row in host.record() if row["kind"] == "intent"]
    assert before == [CLEAN, CLEAN]
