"""Real clients at `/mcp` that are told what changes, by real servers of both families of revisions."""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx2
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.subscriptions import ResourceUpdated, ToolsListChanged

from benchmarks.conformance.suite import suite_command
from gateway.processes import ended
from tests.e2e.conftest import policies_in
from tests.e2e.own import edit
from tests.e2e.site import OURS, Corridor
from tests.e2e.test_node_clients import SCRIPTS
from tests.running import ALL, running_gateway
from tests.servers import process
from tests.servers.process import RunningServer

OLD = "douane://everything/demo://resource/static/document/architecture.md"
NEW = "douane://watched/watch://door/front"
OTHER = "douane://watched/watch://door/back"
READ = {"effect": "read", "result": OURS}
TOOLS = {
    "everything": ("echo", "toggle-subscriber-updates"),
    "watched": ("open_door", "relist"),
}
PATIENCE_S = 90

pytestmark = pytest.mark.filterwarnings(
    # It is what the older revisions have.
    "ignore:resources/subscribe is removed:mcp.shared.exceptions.MCPDeprecationWarning"
)


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with process.watched(tmp_path_factory.mktemp("watched")) as server:
        yield server


@pytest.fixture(scope="module")
def front(
    tmp_path_factory: pytest.TempPathFactory, everything: RunningServer, watched: RunningServer
) -> Iterator[Corridor]:
    folder = tmp_path_factory.mktemp("notices")
    urls = {"everything": everything.url, "watched": watched.url}
    servers = {
        name: {"url": url, "defaults": OURS, "tools": dict.fromkeys(TOOLS[name], READ)}
        for name, url in urls.items()
    }
    with running_gateway(
        folder / "gateway",
        servers,
        policies=policies_in(folder),
        limits={"calls_per_minute": 100_000},
        pins={"recheck": "1h", "fresh": "1h"},
    ) as running:
        for name in servers:
            running.approve_all(name)
        yield Corridor(running)


def revoke(front: Corridor, tool: str) -> None:
    done = front.running.douane("pins", "revoke", "everything", tool)
    assert done.returncode == 0, done.stderr


@asynccontextmanager
async def hearing(front: Corridor, name: str) -> AsyncIterator[tuple[Client, "asyncio.Queue[Any]"]]:
    """Connect as a client of the older revisions that listens."""
    heard: asyncio.Queue[Any] = asyncio.Queue()

    async def hear(message: Any) -> None:
        await heard.put(message)

    headers = {"Authorization": f"Bearer {front.running.token(ALL, name=name)}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(
            streamable_http_client(front.endpoint(ALL), http_client=http),
            mode="legacy",
            message_handler=hear,
        ) as client,
    ):
        yield client, heard


async def until(heard: "asyncio.Queue[Any]", method: str) -> Any:
    async with asyncio.timeout(PATIENCE_S):
        while getattr(found := await heard.get(), "method", "") != method:
            pass
    return found


async def test_the_python_sdk_of_the_older_revisions_follows_servers_of_both_families(
    front: Corridor,
) -> None:
    async with hearing(front, "old") as (client, heard):
        assert client.server_capabilities.resources is not None
        assert client.server_capabilities.resources.subscribe
        for uri, tool, arguments in (
            (OLD, "everything__toggle-subscriber-updates", {}),
            (NEW, "watched__open_door", {"name": "front"}),
        ):
            await client.subscribe_resource(uri)
            assert not (await client.call_tool(tool, arguments)).is_error
            told = await until(heard, "notifications/resources/updated")
            assert str(told.params.uri) == uri
        await client.call_tool("everything__toggle-subscriber-updates", {})
        await client.call_tool("watched__open_door", {"name": "back"})
        await client.call_tool("watched__relist", {})
        await until(heard, "notifications/resources/list_changed")
        assert heard.empty()


async def test_the_python_sdk_of_the_stateless_revision_follows_servers_of_both_families(
    front: Corridor,
) -> None:
    headers = {"Authorization": f"Bearer {front.running.token(ALL, name='new')}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(
            streamable_http_client(front.endpoint(ALL), http_client=http), mode="2026-07-28"
        ) as client,
        AsyncExitStack() as stack,
    ):
        # What their servers have given out may go back to them unasked.
        assert {OLD, NEW} <= {str(one.uri) for one in (await client.list_resources()).resources}
        events = await stack.enter_async_context(
            client.listen(tools_list_changed=True, resource_subscriptions=[OLD, NEW])
        )
        assert set(events.honored.resource_subscriptions or ()) == {OLD, NEW}
        await client.call_tool("watched__open_door", {"name": "back"})
        await client.call_tool("watched__open_door", {"name": "front"})
        async with asyncio.timeout(PATIENCE_S):
            assert await anext(events) == ResourceUpdated(uri=NEW)
        await client.call_tool("everything__toggle-subscriber-updates", {})
        async with asyncio.timeout(PATIENCE_S):
            assert await anext(events) == ResourceUpdated(uri=OLD)
        await client.call_tool("everything__toggle-subscriber-updates", {})
        await asyncio.to_thread(revoke, front, "get-tiny-image")
        async with asyncio.timeout(PATIENCE_S):
            while (event := await anext(events)) != ToolsListChanged():
                assert event == ResourceUpdated(uri=OLD)
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert "everything__get-tiny-image" not in names


async def test_what_nobody_may_know_of_nobody_follows(front: Corridor) -> None:
    async with hearing(front, "old") as (client, _):
        for uri in ("douane://nowhere/x", "watch://door/front"):
            with pytest.raises(Exception, match="there is no resource of this name"):
                await client.subscribe_resource(uri)


async def test_the_typescript_sdk_v1_is_told_and_ends_its_session(front: Corridor) -> None:
    node, _ = suite_command()
    done = await asyncio.create_subprocess_exec(
        *(node, str(SCRIPTS / "notices-v1.mjs"), front.endpoint(ALL)),
        *(front.running.token(ALL, name="typescript"), OLD),
        "everything__toggle-subscriber-updates",
        stdout=asyncio.subprocess.PIPE,
        stderr=sys.stderr,
        cwd=SCRIPTS,
    )
    assert done.stdout is not None
    try:
        async with asyncio.timeout(60):
            assert await done.stdout.readline() == b"follows\n"
            await asyncio.to_thread(revoke, front, "get-resource-links")
            seen = json.loads(await done.stdout.readline())
            assert await done.wait() == 0
    finally:
        await ended(done)
    assert seen["declared"]["tools"] == {"listChanged": True}
    assert seen["told"] == OLD
    assert "everything__get-resource-links" not in seen["listed"]
    assert "everything__echo" in seen["listed"]
    assert seen["after"] == 404


async def test_a_server_that_is_configured_anew_is_told_to_who_comes_back(front: Corridor) -> None:
    """A reload ends what only listens; the SDK comes back and hears what it has missed."""
    async with hearing(front, "old") as (client, heard):
        await client.list_tools()
        await asyncio.sleep(1)  # for its stream to be open
        edit(
            front,
            lambda content: content["servers"]["everything"].update(url="http://127.0.0.1:9/mcp"),
        )
        front.running.process.send_signal(signal.SIGHUP)
        await until(heard, "notifications/tools/list_changed")
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert not [name for name in names if name.startswith("everything")]
