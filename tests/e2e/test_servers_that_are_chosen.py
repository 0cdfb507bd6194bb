"""Real clients that choose servers, or leave a server's name out; and servers that come meanwhile."""

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import mcp_types as types
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from tests.demo.client import connected
from tests.e2e.conftest import policies_in
from tests.e2e.site import SERVERS, Corridor
from tests.e2e.test_python_clients import refusal, text_of
from tests.running import ALL, EVERY_SCOPE, running_gateway
from tests.servers.process import RunningServer

MANAGES = (*EVERY_SCOPE, "servers:manage")
NOTE = {"name": "welcome"}


@pytest.fixture(scope="module")
def front(
    tmp_path_factory: pytest.TempPathFactory, everything: RunningServer, notes: RunningServer
) -> Iterator[Corridor]:
    folder = tmp_path_factory.mktemp("chosen")
    urls = {"everything": everything.url, "notes": notes.url}
    with running_gateway(
        folder / "gateway",
        {
            name: {"url": url, **SERVERS[name], "always_on": name == "notes"}
            for name, url in urls.items()
        },
        policies=policies_in(folder),
        limits={"calls_per_minute": 100_000},
        pins={"recheck": "1h", "fresh": "1h"},
        egress={"allow": ["127.0.0.0/8", "::1"]},
        discovery={"defer": "off"},
    ) as running:
        for name in urls:
            running.approve_all(name)
        running.rows("servers", "add", "copy", "--url", elsewhere(notes))
        yield Corridor(running)


def elsewhere(notes: RunningServer) -> str:
    """Another address of the same server, and so the same names once more."""
    return notes.url.replace("127.0.0.1", "localhost")


async def servers_seen(client: Client) -> set[str]:
    names = [tool.name for tool in (await client.list_tools()).tools]
    return {name.partition("__")[0] for name in names if "__" in name}


async def ask(client: Client, name: str, arguments: dict[str, Any]) -> Any:
    answered = await client.call_tool(name, arguments)
    assert not answered.is_error, answered
    return json.loads(text_of(answered))


async def test_a_server_that_is_registered_waits_until_it_is_approved(
    front: Corridor, notes: RunningServer
) -> None:
    front.running.rows("servers", "add", "new", "--url", elsewhere(notes))
    (row,) = [one for one in front.running.rows("servers", "list") if one["server"] == "new"]
    assert (row["registered"], row["pins"]["approved"]) == (True, 0)
    assert row["pins"]["pending"] > 0
    async with connected(front.endpoint(ALL), front.token(ALL)) as client:
        before = await servers_seen(client)
        assert before >= {"everything", "notes"}
        assert "new" not in before
        found = await ask(client, "search_available_servers", {"query": "notes"})
        assert "new" not in [one["name"] for one in found["servers"]]
        waits = await client.call_tool("new__read_note", NOTE)
        assert refusal(waits)["code"] == "pin_pending"
    front.running.approve_all("new")
    async with connected(front.endpoint(ALL), front.token(ALL)) as client:
        assert await servers_seen(client) == before | {"new"}
        answered = await client.call_tool("new__read_note", NOTE)
        assert text_of(answered) == "This is your first note."
    records = front.running.rows("audit", "query", "--where", "method = servers.add")
    assert ("config", "registered", "new") in [
        (one["kind"], one["code"], one["server"]) for one in records
    ]
    front.running.rows("servers", "remove", "new")
    taken = front.running.douane("servers", "add", "notes", "--url", notes.url)
    assert taken.returncode == 2
    written = front.running.douane("servers", "remove", "everything")
    assert (written.returncode, "douane.yaml" in written.stderr) == (1, True)


async def test_nobody_registers_servers_over_http_without_a_token_for_it(front: Corridor) -> None:
    body = json.dumps({"name": "evil", "url": "http://127.0.0.1:9/mcp"}).encode()
    for token in ("", front.token(ALL)):
        request = urllib.request.Request(
            f"{front.running.admin_url}/api/v1/servers/add",
            data=body,
            headers={"content-type": "application/json", "authorization": f"Bearer {token}"},
        )
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=60)
        assert refused.value.code == 401
        refused.value.close()
    assert "evil" not in [row["server"] for row in front.running.rows("servers", "list")]


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_what_is_chosen_holds_in_the_conversation_that_asks_and_in_later_ones(
    front: Corridor, mode: str
) -> None:
    token = front.token(ALL, name=f"chooser-{mode}", scopes=MANAGES)
    async with connected(front.endpoint(ALL), token, mode) as client:
        before = await servers_seen(client)
        hidden = await ask(client, "disable_server", {"servers": ["*"]})
        assert hidden["servers"] == ["notes"]
        assert await servers_seen(client) == {"notes"}
        gone = await client.call_tool("everything__echo", {"message": "x"})
        assert refusal(gone)["code"] == "unknown_tool"
        chosen = await ask(client, "enable_server", {"servers": ["everything"]})
        assert chosen["servers"] == ["everything", "notes"]
        assert await servers_seen(client) == {"everything", "notes"}
        assert not (await client.call_tool("everything__echo", {"message": "x"})).is_error
        await ask(client, "disable_server", {"servers": ["everything"]})
        nope = await client.call_tool("disable_server", {"servers": ["nope"]})
        assert nope.is_error
    async with connected(front.endpoint(ALL), token, mode) as client:
        assert await servers_seen(client) == {"notes"}
    async with connected(front.endpoint(ALL), front.token(ALL), mode) as client:
        assert await servers_seen(client) == before
    rows = front.running.rows("audit", "query", "--where", "code = servers_chosen")
    said = [row["reasons"][0]["message"] for row in rows if row["client"] == rows[0]["client"]]
    assert sorted(said) == ["disable *", "disable everything", "enable everything"]


async def test_an_open_session_is_told_that_its_lists_have_changed(front: Corridor) -> None:
    token = front.token(ALL, name="listener", scopes=MANAGES)
    told = asyncio.Event()

    async def heard(message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            told.set()

    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(
            streamable_http_client(front.endpoint(ALL), http_client=http),
            mode="legacy",
            message_handler=heard,
        ) as client,
    ):
        await ask(client, "disable_server", {"servers": ["everything"]})
        async with asyncio.timeout(60):
            await told.wait()


async def test_a_client_without_the_scope_is_sent_for_it(front: Corridor) -> None:
    request = urllib.request.Request(
        front.endpoint(ALL),
        data=json.dumps(
            {
                "jsonrpc": "2.0",
                "id": 1,
                "method": "tools/call",
                "params": {"name": "enable_server", "arguments": {"servers": ["notes"]}},
            }
        ).encode(),
        headers={
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": "2025-11-25",
            "authorization": f"Bearer {front.token(ALL)}",
        },
    )
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=60)
    assert refused.value.code == 403
    assert 'scope="servers:manage"' in refused.value.headers["www-authenticate"]
    refused.value.close()


@asynccontextmanager
async def choosing(
    front: Corridor, mode: str, name: str
) -> AsyncIterator[tuple[Client, list[Any]]]:
    """Connect a client whose user chooses `name` whenever they are asked."""
    asked: list[Any] = []

    async def choose(context: Any, params: Any) -> types.ElicitResult:
        asked.append(params.requested_schema["properties"]["name"]["enum"])
        return types.ElicitResult(action="accept", content={"name": name})

    headers = {"Authorization": f"Bearer {front.token(ALL)}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(
            streamable_http_client(front.endpoint(ALL), http_client=http),
            mode=mode,
            elicitation_callback=choose,
        ) as client,
    ):
        yield client, asked


def approve_the_copy(front: Corridor) -> None:
    """Approve it, unless the test about that has: which tests a gateway has seen differs."""
    (row,) = [one for one in front.running.rows("servers", "list") if one["server"] == "copy"]
    if not row["pins"]["approved"]:
        front.running.approve_all("copy")


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_name_that_two_servers_have_is_asked_about(front: Corridor, mode: str) -> None:
    approve_the_copy(front)
    async with choosing(front, mode, "copy__read_note") as (client, asked):
        answered = await client.call_tool("read_note", NOTE)
        assert text_of(answered) == "This is your first note."
        assert asked == [["copy__read_note", "notes__read_note"]]
    rows = front.running.rows("audit", "query", "--server", "copy", "--tool", "read_note")
    assert {row["endpoint"] for row in rows if row["kind"] == "intent"} == {"/mcp"}
    async with choosing(front, mode, "everything__echo") as (client, _):
        other = await client.call_tool("read_note", NOTE)
        assert refusal(other)["code"] == "unknown_tool"
    async with connected(front.endpoint(ALL), front.token(ALL), mode) as client:
        told = await client.call_tool("read_note", NOTE)
        assert refusal(told)["code"] == "unknown_tool"
        assert "notes__read_note may be meant" in text_of(told)


async def test_a_server_that_is_removed_is_gone(front: Corridor, notes: RunningServer) -> None:
    front.running.rows("servers", "add", "old", "--url", elsewhere(notes))
    front.running.approve_all("old")
    async with connected(front.endpoint(ALL), front.token(ALL)) as client:
        assert "old" in await servers_seen(client)
    front.running.rows("servers", "remove", "old")
    async with connected(front.endpoint(ALL), front.token(ALL)) as client:
        assert "old" not in await servers_seen(client)
        gone = await client.call_tool("old__read_note", NOTE)
        assert refusal(gone)["code"] == "unknown_tool"
