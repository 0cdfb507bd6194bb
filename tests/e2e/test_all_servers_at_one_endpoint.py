"""Real clients at `/mcp`, in front of four real servers and one that hangs."""

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.cases import sampled
from tests.demo.client import connected
from tests.e2e.conftest import policies_in
from tests.e2e.own import until
from tests.e2e.posting import Poster
from tests.e2e.scripted import Raw, instead, opened
from tests.e2e.site import SERVERS, Corridor
from tests.e2e.test_local_servers_behind_it import servers_in
from tests.e2e.test_node_clients import INSPECTOR, SCRIPTS, refusal, run, seen_by
from tests.e2e.test_python_clients import MODES, NEGOTIATED, text_of
from tests.e2e.test_python_clients import refusal as refused_as
from tests.running import ALL, running_gateway
from tests.servers.process import RunningServer

LOCAL = ("files",)
ALL_OF_THEM = ("everything", "notes", "filesystem", "raw", *LOCAL)


@pytest.fixture(scope="module")
def front(
    tmp_path_factory: pytest.TempPathFactory,
    everything: RunningServer,
    notes: RunningServer,
    filesystem: RunningServer,
    session_raw: Raw,
) -> Iterator[Corridor]:
    folder = tmp_path_factory.mktemp("front")
    urls = {
        "everything": everything.url,
        "notes": notes.url,
        "filesystem": filesystem.url,
        "raw": session_raw.url,
    }
    local = servers_in(folder)
    servers = {name: {"url": urls[name], **SERVERS[name]} for name in urls}
    with running_gateway(
        folder / "gateway",
        {**servers, **{name: local[name] for name in LOCAL}},
        policies=policies_in(folder),
        limits={"calls_per_minute": 100_000},
        pins={"recheck": "1h", "fresh": "1h"},
        discovery={"defer": "off"},
    ) as running:
        # It is started here, which takes its time.
        until(lambda: running.rows("pins", "list", "--server", *LOCAL))
        for name in (*urls, *LOCAL):
            running.approve_all(name)
        yield Corridor(running)


@pytest.fixture(autouse=True)
def raw(session_raw: Raw, front: Corridor) -> Raw:
    session_raw.forget()
    return session_raw


async def names_of_all(client: Any) -> list[str]:
    """What is listed once every server has come up: one that takes its time is left out until then."""
    async with asyncio.timeout(90):
        while True:
            names = [tool.name for tool in (await client.list_tools()).tools]
            if {name.split("__")[0] for name in names if "__" in name} >= {*ALL_OF_THEM}:
                return names


@pytest.mark.parametrize("mode", MODES)
async def test_the_python_sdk_uses_every_server(front: Corridor, mode: str) -> None:
    async with connected(front.endpoint(ALL), front.token(ALL), mode) as client:
        assert client.protocol_version == NEGOTIATED[mode]
        names = await names_of_all(client)
        assert names[:3] == ["search_tools", "get_tool_details", "call_tool"]
        names = [name for name in names if "__" in name]  # of tools of our own none has that
        assert names == sorted(names)
        assert {name.split("__")[0] for name in names} == {*ALL_OF_THEM}
        assert not {"everything__get-env", "notes__always_fails", "raw__hidden"} & set(names)

        said = {
            "everything__echo": ({"message": "hi"}, "Echo: hi"),
            "notes__read_note": ({"name": "welcome"}, "This is your first note."),
            "files__read_text_file": ({"path": "note.txt"}, "a note"),
            "raw__allowed": ({"text": "x"}, '"x"'),
        }
        for name, (arguments, words) in said.items():
            answered = await client.call_tool(name, arguments)
            assert not answered.is_error, answered
            assert words in text_of(answered)
        folder = text_of(await client.call_tool("filesystem__list_allowed_directories", {}))
        path = f"{folder.splitlines()[-1]}/hello.txt"
        read = await client.call_tool("filesystem__read_text_file", {"path": path})
        assert text_of(read) == "hello from a file"

        denied = await client.call_tool("notes__delete_note", {"name": "welcome"})
        assert refused_as(denied)["code"] == "denied"
        for name in ("notes__always_fails", "notes__nope", "nope", "read_note"):
            hidden = await client.call_tool(name, {})
            assert (hidden.is_error, refused_as(hidden)["code"]) == (True, "unknown_tool")


@pytest.mark.parametrize("mode", MODES)
async def test_the_python_sdk_finds_a_tool_looks_at_it_and_calls_it(
    front: Corridor, mode: str
) -> None:
    async with connected(front.endpoint(ALL), front.token(ALL), mode) as client:

        async def ask(name: str, arguments: dict[str, Any]) -> Any:
            return json.loads(text_of(await client.call_tool(name, arguments)))

        query = {"query": "read one of my notes", "detail": "name", "limit": 3}
        found = await ask("search_tools", query)
        assert found["answered_by"] == "keyword"
        assert "notes__read_note" in found["servers"]["notes"]
        secret = {"query": "get-env|always_fails|hidden", "strategy": "regex", "detail": "name"}
        names = [n for of in (await ask("search_tools", secret))["servers"].values() for n in of]
        assert not {"everything__get-env", "notes__always_fails", "raw__hidden"} & set(names)

        wanted = {"names": ["notes__read_note", "notes__always_fails", "nope"]}
        details = await ask("get_tool_details", wanted)
        (read,) = details["tools"]
        assert details["unknown"] == ["notes__always_fails", "nope"]
        assert read["definition"]["inputSchema"]["required"] == ["name"]

        arguments = {"name": "notes__read_note", "arguments": {"name": "welcome"}}
        stale = {**arguments, "definition_hash": "sha256:0"}
        assert refused_as(await client.call_tool("call_tool", stale))["code"] == "pin_drift"
        seen = {**arguments, "definition_hash": read["definition_hash"]}
        answered = await client.call_tool("call_tool", seen)
        assert text_of(answered) == "This is your first note."
        hidden = await client.call_tool("call_tool", {"name": "notes__always_fails"})
        assert refused_as(hidden)["code"] == "unknown_tool"
    rows = front.running.rows("audit", "query", "--server", "notes", "--tool", "read_note")
    assert "meta_tool" in {row.get("origin") for row in rows}


@pytest.mark.parametrize("mode", MODES)
async def test_the_python_sdk_reads_prompts_resources_and_completions(
    front: Corridor, mode: str
) -> None:
    async with connected(front.endpoint(ALL), front.token(ALL), mode) as client:
        prompts = {prompt.name for prompt in (await client.list_prompts()).prompts}
        assert {"notes__summarize", "everything__simple-prompt", "raw__greeting"} <= prompts
        assert "raw__hidden" not in prompts
        got = await client.get_prompt("raw__greeting")
        assert text_of(got.messages[0]) == "prompt greeting"
        uris = [str(one.uri) for one in (await client.list_resources()).resources]
        assert "douane://raw/raw://page" in uris
        assert "douane://raw/raw://hidden" not in uris
        for uri in uris:
            read = await client.read_resource(uri)
            assert str(read.contents[0].uri) == uri


async def test_the_typescript_sdk_v1_sees_in_front_what_it_sees_directly(
    front: Corridor, everything: RunningServer
) -> None:
    """Sampling, elicitation, roots, progress: all that its server says in the course of a call."""
    script = str(SCRIPTS / "sdk-v1.mjs")
    direct, through = await asyncio.gather(
        seen_by(script, everything.url),
        seen_by(script, front.endpoint(ALL), front.token(ALL), "everything__"),
    )
    assert (through.pop("server"), direct.pop("server")) == ("douane", "mcp-servers/everything")
    refused = through.pop("refused")
    assert "isError" not in direct.pop("refused")
    assert (refused["isError"], refusal(refused)) == (True, "denied")
    del through["logged"], direct["logged"]  # what is logged while no call is under way
    for name in ("get-env", "simulate-research-query"):  # the second one answers by a task alone
        direct["tools"].remove(name)
    # Tools that a server shows only to clients that can do something are pinned all the same.
    through["tools"] = [name for name in through["tools"] if name in direct["tools"]]
    for seen in (direct, through):
        seen["asked"] = {json.dumps(question) for question in seen["asked"]}
    assert through == direct
    assert {json.loads(question)[0] for question in through["asked"]} == {
        "sampling",
        "elicitation",
        "roots",
    }
    assert through["progress"]


@pytest.mark.parametrize(("mode", "revision"), [("auto", "2026-07-28"), ("default", "2025-11-25")])
async def test_the_typescript_sdk_v2_calls_servers_of_both_families(
    front: Corridor, mode: str, revision: str
) -> None:
    calls = [
        ("notes__read_note", {"name": "welcome"}),
        ("everything__echo", {"message": "hello"}),
        ("everything__get-sum", {"a": 1, "b": 2}),
    ]
    arguments = (front.endpoint(ALL), front.token(ALL), mode, json.dumps(calls))
    seen = await seen_by(str(SCRIPTS / "sdk-v2.mjs"), *arguments)
    assert seen["revision"] == revision
    read, echoed, denied = seen["answered"]
    assert read["content"][0]["text"] == "This is your first note."
    assert echoed["content"][0]["text"] == "Echo: hello"
    assert (denied["isError"], refusal(denied)) == (True, "denied")


@pytest.mark.parametrize("era", sampled(["legacy", "auto"], {"auto"}.__contains__))
async def test_the_inspector_lists_and_calls(front: Corridor, tmp_path: Path, era: str) -> None:
    async def inspect(*arguments: str) -> tuple[int, Any]:
        authorization = f"Authorization: Bearer {front.token(ALL)}"
        status, printed = await run(
            *(str(INSPECTOR), front.endpoint(ALL), "--transport", "http"),
            *("--protocol-era", era),
            *("--header", authorization, "--format", "json", "-q", *arguments),
            environment={"MCP_CATALOG_PATH": str(tmp_path / "mcp.json"), "HOME": str(tmp_path)},
        )
        return status, json.loads(printed)

    (_, listed), (ok, called) = await asyncio.gather(
        inspect("--method", "tools/list"),
        inspect(
            *("--method", "tools/call", "--tool-name", "files__read_text_file"),
            *("--tool-arg", "path=note.txt"),
        ),
    )
    tools = listed.get("result", listed)["tools"]
    assert "files__read_text_file" in {tool["name"] for tool in tools}
    assert ok == 0
    assert "a note" in called.get("result", called)["content"][0]["text"]


async def test_a_server_that_hangs_holds_up_nobody_else(front: Corridor, raw: Raw) -> None:
    gate = threading.Event()

    async def hangs(_: web.Request) -> web.StreamResponse:
        await opened(gate)
        return web.Response(status=503)

    raw.play(instead("tools/call", hangs))
    async with connected(front.endpoint(ALL), front.token(ALL), "2026-07-28") as client:
        hanging = asyncio.create_task(client.call_tool("raw__allowed", {"text": "x"}))
        await raw.until("tools/call")
        assert (await client.list_tools()).tools
        answered = await client.call_tool("notes__read_note", {"name": "welcome"})
        assert text_of(answered) == "This is your first note."
        assert not hanging.done()
        gate.set()
        assert refused_as(await hanging)["code"] == "upstream_failed"


async def test_the_log_says_which_server_and_where_it_came_in(front: Corridor) -> None:
    async with connected(front.endpoint(ALL), front.token(ALL), "auto") as client:
        await client.call_tool("raw__allowed", {"text": "y"})
    rows = front.running.rows("audit", "query", "--server", "raw", "--tool", "allowed")
    calls = [row for row in rows if row["kind"] in {"intent", "outcome"}]
    assert {row["kind"] for row in calls} == {"intent", "outcome"}
    assert {row["endpoint"] for row in calls} == {"/mcp"}


@pytest.mark.parametrize("server", ["notes", ALL])
def test_a_token_is_for_one_endpoint(front: Corridor, server: str) -> None:
    poster = Poster(front, server)
    poster.token = front.token(ALL if server == "notes" else "notes")
    answered = poster.modern("tools/list", {})
    assert answered.status == 401
    where = f"{front.url}/.well-known/oauth-protected-resource{poster.path}"
    assert f'resource_metadata="{where}"' in answered.headers["www-authenticate"]
