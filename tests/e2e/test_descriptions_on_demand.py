"""Real clients at `/mcp` where lists are brief: they read how a tool is called, and then call it."""

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client

from tests.demo.client import connected
from tests.e2e.conftest import policies_in
from tests.e2e.own import edit, own_gateway, until
from tests.e2e.posting import Poster
from tests.e2e.scripted import Raw, raw_in_a_thread
from tests.e2e.site import SERVERS, Corridor
from tests.e2e.test_python_clients import MODES, NEGOTIATED, refusal, text_of
from tests.running import ALL, running_gateway
from tests.servers.process import RunningServer, free_ports

URI = "resource:///tool_descriptions"
USAGE = "Ask for the welcome note first."


@pytest.fixture(scope="module")
def brief(
    tmp_path_factory: pytest.TempPathFactory, notes: RunningServer, everything: RunningServer
) -> Iterator[Corridor]:
    folder = tmp_path_factory.mktemp("brief")
    urls = {"notes": notes.url, "everything": everything.url}
    servers: dict[str, Any] = {name: {**SERVERS[name], "url": urls[name]} for name in urls}
    guided = {"read_note": {"guidance": {"usage": USAGE, "examples": [{"name": "welcome"}]}}}
    servers["notes"] = {**servers["notes"], "tools": {**servers["notes"]["tools"], **guided}}
    with running_gateway(
        folder / "gateway",
        servers,
        policies=policies_in(folder),
        limits={"calls_per_minute": 100_000},
        pins={"recheck": "1h", "fresh": "1h"},
        discovery={
            "core": ["everything__get-sum"],
            "descriptions": {"mode": "on"},
            "clients": {f"whole-{ALL}": {"descriptions": "off"}},
        },
    ) as running:
        for name in urls:
            running.approve_all(name)
        yield Corridor(running)


async def described(client: Client, *names: str) -> Any:
    read = await client.read_resource(f"{URI}?tools={','.join(names)}")
    return json.loads(text_of(read))


@pytest.mark.parametrize("mode", MODES)
async def test_the_python_sdk_reads_a_description_and_calls_the_tool(
    brief: Corridor, mode: str
) -> None:
    token = brief.token(ALL, name=f"reader-{mode}")
    async with connected(brief.endpoint(ALL), token, mode) as client:
        assert client.protocol_version == NEGOTIATED[mode]
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        for name, tool in tools.items():
            core = "__" not in name or name == "everything__get-sum"
            permissive = tool.input_schema == {"type": "object", "additionalProperties": True}
            assert permissive is not core, name
            assert core or len(tool.description or "") <= 120
        first = (await client.list_resources()).resources[0]
        assert (str(first.uri), first.mime_type) == (URI, "application/json")
        templates = (await client.list_resource_templates()).resource_templates
        assert templates[0].uri_template == f"{URI}{{?tools}}"

        refused = await client.call_tool("notes__read_note", {"name": "welcome"})
        assert (refused.is_error, refusal(refused)["code"]) == (True, "description_required")
        error = refused.structured_content["error"]
        assert error["code"] == "TOOL_DESCRIPTION_REQUIRED"
        assert json.loads(text_of(refused)) == refused.structured_content

        read = json.loads(text_of(await client.read_resource(error["resource_uri"])))
        assert read["notes__read_note"]["inputSchema"]["required"] == ["name"]
        assert read["notes__read_note"]["usage_guidance"] == USAGE
        assert read["notes__read_note"]["examples"] == [{"name": "welcome"}]
        called = await client.call_tool("notes__read_note", {"name": "welcome"})
        assert (called.is_error, text_of(called)) == (False, "This is your first note.")

        hidden = await described(client, "notes__always_fails", "notes__nope")
        assert "not found" in hidden["notes__always_fails"]["error"]
        assert "notes__always_fails" not in hidden["notes__nope"]["available_tools"]
        answered = json.loads(text_of(await client.read_resource(URI)))
        assert answered["error"]["code"] == "MISSING_TOOL_SELECTION"

        wrong = await client.call_tool("notes__read_note", {"nonsense": 1})
        assert refusal(wrong)["code"] == "denied"
        denied = await client.call_tool("notes__delete_note", {"name": "welcome"})
        assert refusal(denied)["code"] == "description_required"
        await described(client, "notes__delete_note")
        denied = await client.call_tool("notes__delete_note", {"name": "welcome"})
        assert refusal(denied)["code"] == "denied"


@pytest.mark.parametrize("mode", MODES)
async def test_a_host_that_reads_no_resources_gets_there_as_well(
    brief: Corridor, mode: str
) -> None:
    token = brief.token(ALL, name=f"asker-{mode}")
    async with connected(brief.endpoint(ALL), token, mode) as client:
        call: dict[str, Any] = {"name": "everything__echo", "arguments": {"message": "hi"}}
        refused = await client.call_tool("call_tool", call)
        assert refusal(refused)["code"] == "description_required"
        await client.call_tool("get_tool_details", {"names": ["everything__echo"]})
        assert "Echo: hi" in text_of(await client.call_tool("call_tool", call))
        assert "Echo: hi" in text_of(await client.call_tool(call["name"], call["arguments"]))


async def test_sessions_and_clients_are_apart(brief: Corridor) -> None:
    url, arguments = brief.endpoint(ALL), {"message": "hi"}
    mine, other = (brief.token(ALL, name=name) for name in ("apart", "another"))
    async with connected(url, mine, "legacy") as first, connected(url, mine, "legacy") as second:
        await described(first, "everything__echo")
        assert not (await first.call_tool("everything__echo", arguments)).is_error
        assert (await second.call_tool("everything__echo", arguments)).is_error
    async with connected(url, mine) as client:
        assert (await client.call_tool("everything__echo", arguments)).is_error
        await described(client, "everything__echo")
    async with connected(url, mine) as again, connected(url, other) as stranger:
        assert not (await again.call_tool("everything__echo", arguments)).is_error
        assert (await stranger.call_tool("everything__echo", arguments)).is_error


async def test_a_client_that_the_operator_names_gets_whole_lists(brief: Corridor) -> None:
    token = brief.token(ALL, name="whole")
    async with connected(brief.endpoint(ALL), token) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert tools["notes__read_note"].input_schema["required"] == ["name"]
        read = await client.call_tool("notes__read_note", {"name": "welcome"})
        assert text_of(read) == "This is your first note."


def test_reads_and_refusals_are_in_the_audit_log(brief: Corridor) -> None:
    poster = Poster(brief, ALL, name="recorded")
    assert poster.call("notes__read_note", {"name": "welcome"}).refusal == "description_required"
    query = ("audit", "query", "--code", "description_required", "--limit", "1")
    (row,) = brief.running.rows(*query)
    assert (row["server"], row["target"], row["verdict"]) == ("notes", "read_note", "deny")
    poster.modern("resources/read", {"uri": f"{URI}?tools=notes__read_note"})
    rows = brief.running.rows("audit", "query", "--where", "kind = list", "--limit", "5")
    assert URI in {row.get("target") for row in rows}
    assert poster.call("notes__read_note", {"name": "welcome"}).refusal is None


@pytest.fixture(scope="module")
def module_raw() -> Iterator[Raw]:
    with raw_in_a_thread() as raw:
        yield raw


def test_what_was_read_survives_a_restart_and_ends_with_other_guidance(
    tmp_path: Path, policies: Path, module_raw: Raw
) -> None:
    settings: dict[str, Any] = {
        "discovery": {"descriptions": {"mode": "on"}},
        "ports": free_ports(),  # who vouches for its clients is its address
    }
    with own_gateway(tmp_path / "g", module_raw, policies, **settings) as gateway:
        poster = Poster(gateway, ALL)
        assert poster.call("raw__allowed").refusal == "description_required"
        poster.modern("resources/read", {"uri": f"{URI}?tools=raw__allowed"})
        assert poster.call("raw__allowed").refusal is None
    with own_gateway(tmp_path / "g", module_raw, policies, **settings) as gateway:
        poster = Poster(gateway, ALL)
        assert poster.call("raw__allowed").refusal is None
        assert poster.call("raw__slow").refusal == "description_required"

        def reload(change: Callable[[dict[str, Any]], object]) -> None:
            reloads = len(gateway.running.rows("audit", "query", "--code", "reloaded"))
            edit(gateway, change)
            gateway.running.process.send_signal(signal.SIGHUP)
            query = ("audit", "query", "--code", "reloaded")
            until(lambda: len(gateway.running.rows(*query)) > reloads)

        allowed = SERVERS["raw"]["tools"]["allowed"]
        guided = {**allowed, "guidance": {"usage": "With care."}}
        reload(lambda content: content["servers"]["raw"]["tools"].update(allowed=guided))
        assert poster.call("raw__allowed").refusal == "description_required"
        reload(lambda content: content["discovery"].clear())
        assert poster.call("raw__slow", {"text": "x"}).refusal is None
