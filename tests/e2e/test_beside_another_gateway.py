"""Between two other gateways of MCP, FastMCP's: one is its client, and one is its server."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport
from fastmcp.server import create_proxy

from benchmarks.latency.fastmcp_proxy import environment
from tests.e2e.site import SERVERS, Corridor
from tests.running import running_gateway
from tests.servers.process import RunningServer, free_port, running


@pytest.fixture
def between(tmp_path: Path, policies: Path, notes: RunningServer) -> Iterator[Corridor]:
    port = free_port()
    behind = [
        sys.executable,
        *("-m", "benchmarks.latency.fastmcp_proxy"),
        "fresh",
        notes.url,
        str(port),
    ]
    with (
        running(behind, environment("fresh"), port, tmp_path / "behind.log") as server,
        running_gateway(
            tmp_path / "own",
            {"notes": {"url": server.url, **SERVERS["notes"]}},
            policies=policies,
        ) as gateway,
    ):
        yield Corridor(gateway)


async def test_between_two_other_gateways_it_pins_decides_and_records(between: Corridor) -> None:
    upstream = StreamableHttpTransport(between.endpoint("notes"), auth=between.token("notes"))
    async with Client(create_proxy(upstream)) as client:
        assert await client.list_tools() == []  # nobody has approved what the other one shows
        between.running.approve_all("notes")
        names = {tool.name for tool in await client.list_tools()}
        assert {"read_note", "delete_note"} <= names
        read = await client.call_tool("read_note", {"name": "welcome"})
        denied = await client.call_tool("delete_note", {"name": "welcome"}, raise_on_error=False)
        assert denied.is_error
        again = await client.call_tool("read_note", {"name": "welcome"})
        assert read.data == again.data == "This is your first note."
    calls = between.running.rows("audit", "query", "--where", "method = tools/call")
    outcomes = [(one["target"], one["verdict"]) for one in calls if one["kind"] == "outcome"]
    assert sorted(outcomes) == [
        ("delete_note", "deny"),
        ("read_note", "allow"),
        ("read_note", "allow"),
    ]
