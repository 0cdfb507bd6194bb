"""Clients that people write in Python, through the gateway to real servers."""

from typing import Any

import httpx2
import pytest
from fastmcp import Client as FastMCPClient
from fastmcp.client.transports import StreamableHttpTransport
from mcp.shared.exceptions import MCPError

from tests.demo.client import connected
from tests.e2e.site import Corridor

MODES = ("auto", "legacy", "2026-07-28")
NEGOTIATED = {"auto": "2026-07-28", "legacy": "2025-11-25", "2026-07-28": "2026-07-28"}


def text_of(answered: Any) -> str:
    """The text of a tool's result, of a prompt's message, or of a resource."""
    content = getattr(answered, "contents", None) or answered.content
    block = content[0] if isinstance(content, list) else content
    found: str = block.text
    return found


def refusal(result: Any) -> dict[str, Any]:
    found: dict[str, Any] = (result.meta or {})["douane/refusal"]
    return found


@pytest.mark.parametrize("mode", MODES)
async def test_the_python_sdk_reads_writes_and_is_refused(gateway: Corridor, mode: str) -> None:
    url, token = gateway.endpoint("notes"), gateway.token("notes")
    async with connected(url, token, mode) as client:
        assert client.protocol_version == NEGOTIATED[mode]
        tools = {tool.name for tool in (await client.list_tools()).tools}
        assert {"read_note", "delete_note"} <= tools
        assert "always_fails" not in tools

        read = await client.call_tool("read_note", {"name": "welcome"})
        assert (read.is_error, text_of(read)) == (False, "This is your first note.")
        assert read.structured_content == {"result": "This is your first note."}
        failed = await client.call_tool("read_note", {"name": "nothing"})
        assert failed.is_error
        assert "douane/refusal" not in (failed.meta or {})

        denied = await client.call_tool("delete_note", {"name": "welcome"})
        assert denied.is_error
        assert "this tool is closed" in text_of(denied)
        assert refusal(denied)["code"] == "denied"
        assert {"code": "closed", "message": "this tool is closed"} in refusal(denied)["reasons"]
        for name in ("always_fails", "no_such_tool"):
            hidden = await client.call_tool(name, {})
            assert (hidden.is_error, refusal(hidden)["code"]) == (True, "unknown_tool")
        still_there = await client.call_tool("read_note", {"name": "welcome"})
        assert not still_there.is_error


@pytest.mark.parametrize("mode", MODES)
async def test_the_python_sdk_reads_prompts_and_resources(gateway: Corridor, mode: str) -> None:
    url, token = gateway.endpoint("notes"), gateway.token("notes")
    async with connected(url, token, mode) as client:
        assert [prompt.name for prompt in (await client.list_prompts()).prompts] == ["summarize"]
        prompt = await client.get_prompt("summarize", {"name": "todo"})
        assert "Buy milk." in text_of(prompt.messages[0])
        resources = (await client.list_resources()).resources
        assert [str(resource.uri) for resource in resources] == ["notes://all"]
        whole = await client.read_resource("notes://all")
        assert "Buy milk." in text_of(whole)


async def test_the_python_sdk_sees_a_refusal_that_is_no_tool_result(gateway: Corridor) -> None:
    url, token = gateway.endpoint("notes"), gateway.token("notes")
    for mode in ("legacy", "2026-07-28"):
        async with connected(url, token, mode) as client:
            with pytest.raises(MCPError) as raised:
                await client.get_prompt("no_such_prompt", {})
            assert raised.value.error.code == 40401
            assert raised.value.error.data["code"] == "unknown_tool"


async def test_the_python_sdk_steps_back_to_a_session_for_a_server_of_the_old_kind(
    gateway: Corridor,
) -> None:
    async with connected(gateway.endpoint("everything"), gateway.token("everything")) as client:
        assert client.protocol_version == "2025-11-25"
        echo = await client.call_tool("echo", {"message": "hello"})
        assert text_of(echo) == "Echo: hello"
        refused = await client.call_tool("get-sum", {"a": 1, "b": 2})
        assert refusal(refused)["code"] == "denied"


async def test_the_python_sdk_reads_files_of_a_server_behind_a_bridge(
    gateway: Corridor,
) -> None:
    async with connected(gateway.endpoint("filesystem"), gateway.token("filesystem")) as client:
        tools = {tool.name for tool in (await client.list_tools()).tools}
        assert "read_text_file" in tools
        assert "move_file" not in tools
        allowed = await client.call_tool("list_allowed_directories", {})
        # No label says what it does, but its approved definition says that it only reads.
        folder = text_of(allowed).splitlines()[-1]
        read = await client.call_tool("read_text_file", {"path": f"{folder}/hello.txt"})
        assert text_of(read) == "hello from a file"
        new = {"path": f"{folder}/new.txt", "content": "x"}
        assert refusal(await client.call_tool("write_file", new))["code"] == "denied"
        listed = await client.call_tool("list_directory", {"path": folder})
        assert "new.txt" not in text_of(listed)


async def test_the_fastmcp_client_reads_and_is_refused(gateway: Corridor) -> None:
    transport = StreamableHttpTransport(gateway.endpoint("notes"), auth=gateway.token("notes"))
    async with FastMCPClient(transport) as client:
        assert "read_note" in {tool.name for tool in await client.list_tools()}
        read = await client.call_tool("read_note", {"name": "welcome"})
        assert read.data == "This is your first note."
        denied = await client.call_tool("delete_note", {"name": "welcome"}, raise_on_error=False)
        assert denied.is_error
        assert refusal(denied)["code"] == "denied"


async def test_without_a_token_a_client_is_told_where_to_get_one(gateway: Corridor) -> None:
    async with httpx2.AsyncClient() as http:
        answered = await http.post(gateway.endpoint("notes"), json={})
        assert answered.status_code in {400, 401}
        probe = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
        answered = await http.post(gateway.endpoint("notes"), json=probe)
        assert answered.status_code == 401
        challenge = answered.headers["www-authenticate"]
        url = f"{gateway.url}/.well-known/oauth-protected-resource/mcp/notes"
        assert f'resource_metadata="{url}"' in challenge
        assert "error=" not in challenge
        metadata = (await http.get(url)).json()
        assert metadata["resource"] == gateway.endpoint("notes")
