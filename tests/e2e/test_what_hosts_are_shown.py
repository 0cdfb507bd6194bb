"""Real hosts in front of three hundred tools: what they are shown, how they find the rest, and what is learnt."""

import json
import re
import signal
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from aiohttp import web

from tests.demo.client import connected
from tests.e2e.conftest import policies_in
from tests.e2e.own import edit, own_gateway, soon
from tests.e2e.scripted import FRESH, answer, instead, raw_in_a_thread
from tests.e2e.site import Corridor
from tests.e2e.test_python_clients import MODES, refusal, text_of
from tests.running import ALL

MANY = 300
CORE = ["raw__tool_007", "raw__tool_003"]
SCHEMA = {
    "type": "object",
    "properties": {"ticket": {"type": "string", "description": "Which one."}},
    "required": ["ticket"],
    "additionalProperties": False,
}
TOOLS = [
    {
        "name": f"tool_{number:03}",
        "description": f"Closes the ticket of desk {number:03}, as one of many tools that are alike.",
        "inputSchema": SCHEMA,
        "annotations": {"readOnlyHint": True},
    }
    for number in range(MANY)
]


async def lists_many(request: web.Request) -> web.StreamResponse:
    return answer(json.loads(await request.read()), {"tools": TOOLS, **FRESH})


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Corridor]:
    folder = tmp_path_factory.mktemp("many")
    discovery = {"core": CORE, "clients": {"wide-all": {"defer": "off"}}}
    with raw_in_a_thread() as raw:
        raw.play(instead("tools/list", lists_many))
        with own_gateway(folder, raw, policies_in(folder), discovery=discovery) as gateway:
            raw.play(instead("tools/list", lists_many))
            yield gateway


def own_of(names: list[str]) -> list[str]:
    """Return the gateway's own tools, which come first."""
    return [name for name in names if not name.startswith("raw__")]


def has_a_core_of(gateway: Corridor, tools: int) -> bool:
    return len(gateway.running.rows("discovery", "core")) == tools


def last_of(result: Any) -> str:
    """Return the last text, which is what `/mcp` alone says."""
    found: str = result.content[-1].text
    return found


@pytest.mark.parametrize("mode", MODES)
async def test_a_host_is_shown_the_core_and_finds_the_rest(many: Corridor, mode: str) -> None:
    async with connected(many.endpoint(ALL), many.token(ALL), mode) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        own = own_of(names)
        assert own[:3] == ["search_tools", "get_tool_details", "call_tool"]
        assert names == [*own, *CORE]

        query = {"query": "close the ticket of desk 217", "detail": "name", "limit": 3}
        found = json.loads(text_of(await client.call_tool("search_tools", query)))
        assert found["servers"]["raw"][0] == "raw__tool_217"
        assert found["found"] == MANY
        for name, arguments in (
            ("raw__tool_217", {"ticket": "a"}),
            ("call_tool", {"name": "raw__tool_217", "arguments": {"ticket": "a"}}),
        ):
            answered = await client.call_tool(name, arguments)
            assert (answered.is_error, text_of(answered)) == (False, '{"ticket": "a"}')
        again = [tool.name for tool in (await client.list_tools()).tools]
        assert again == names


@pytest.mark.parametrize("mode", MODES)
async def test_a_host_that_breaks_a_rule_is_right_in_its_next_call(
    many: Corridor, mode: str
) -> None:
    async with connected(many.endpoint(ALL), many.token(ALL), mode) as client:
        guessed = await client.call_tool("tool_217", {"ticket": "a"})
        assert refusal(guessed)["code"] == "unknown_tool"
        meant = re.search(r"(\S+) may be meant", text_of(guessed))
        assert meant is not None
        assert meant[1] == "raw__tool_217"
        mistaken = await client.call_tool("raw__tools_217", {"ticket": "a"})
        assert "raw__tool_217" in last_of(mistaken)
        assert not (await client.call_tool(meant[1], {"ticket": "a"})).is_error

        unseen = await client.call_tool("raw__tool_218", {"desk": 218})
        assert refusal(unseen)["code"] == "denied"
        schema = json.loads(last_of(unseen).removeprefix("Its inputSchema is "))
        assert schema == SCHEMA
        filled = dict.fromkeys(schema["required"], "a")
        assert not (await client.call_tool("raw__tool_218", filled)).is_error


@pytest.mark.parametrize("mode", MODES)
async def test_a_host_that_searches_for_its_model_gets_references_to_what_it_was_listed(
    many: Corridor, mode: str
) -> None:
    token = many.token(ALL, name="wide")
    async with connected(many.endpoint(ALL), token, mode) as client:
        listed = {tool.name for tool in (await client.list_tools()).tools}
        assert {f"raw__{tool['name']}" for tool in TOOLS} <= listed
        asked = {"query": "close the ticket of desk 11", "form": "tool_reference", "limit": 2}
        answered: Any = await client.call_tool("search_tools", asked)
        references = answered.structured_content["content"]
        assert {one["type"] for one in references} == {"tool_reference"}
        assert {one["tool_name"] for one in references} <= listed
        assert len(references) == 2


async def test_what_was_called_becomes_the_core(many: Corridor) -> None:
    async with connected(many.endpoint(ALL), many.token(ALL)) as client:
        for _ in range(40):
            await client.call_tool("raw__tool_111", {"ticket": "a"})
        rows = many.running.rows("discovery", "core", "--suggest", "--cover", "50")
        assert [row["name"] for row in rows] == ["raw__tool_111"]
        (tokens,) = many.running.rows("discovery", "tokens")
        assert (tokens["server"], tokens["tools"]) == ("raw", MANY)
        assert tokens["tokens"] > MANY * 50
        assert [row["status"] for row in many.running.rows("discovery", "core")] == ["approved"] * 2

    def add(content: dict[str, Any]) -> None:
        content["discovery"]["core"] = [*CORE, "raw__tool_111"]
        content["servers"]["raw"]["portable_schemas"] = ["gemini"]

    def remove(content: dict[str, Any]) -> None:
        content["discovery"]["core"] = CORE
        content["servers"]["raw"]["portable_schemas"] = []

    for change, core in ((add, [*CORE, "raw__tool_111"]), (remove, CORE)):
        edit(many, change)
        many.running.process.send_signal(signal.SIGHUP)
        assert await soon(partial(has_a_core_of, many, len(core)))
        async with connected(many.endpoint(ALL), many.token(ALL)) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            assert names == [*own_of(names), *core]
        for endpoint in (ALL, "raw"):
            async with connected(many.endpoint(endpoint), many.token(endpoint)) as client:
                tools = (await client.list_tools()).tools
            narrow = {
                "additionalProperties" in one.input_schema for one in tools if "tool_0" in one.name
            }
            assert narrow == {change is remove}
