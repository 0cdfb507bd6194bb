"""A real client's model reads a text for a program: on the stream of a session, and without one."""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp.client import Client
from mcp_types import CreateMessageRequestParams, CreateMessageResult, TextContent

from tests.demo.client import connected
from tests.e2e.conftest import policies_in
from tests.e2e.site import SERVERS, Corridor
from tests.e2e.test_python_clients import text_of
from tests.running import ALL, EVERY_SCOPE, running_gateway
from tests.servers.process import RunningServer

SCOPES = (*EVERY_SCOPE, "code:run")
CODE = """\
from tools import Client, notes

note = await notes.read_note(name='welcome')
schema = {'type': 'object', 'properties': {'words': {'type': 'integer'}}, 'required': ['words']}
found = await Client.extract(value=note, schema=schema)
await notes.write_note(name='counted', text=str(found['words']))
found['words'] + 1
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, notes: RunningServer) -> Iterator[Corridor]:
    folder = tmp_path_factory.mktemp("extracts")
    with running_gateway(
        folder / "gateway",
        {"notes": {"url": notes.url, **SERVERS["notes"]}},
        policies=policies_in(folder),
        limits={"calls_per_minute": 100_000},
        code={"enabled": True, "extract": "client"},
    ) as running:
        running.approve_all("notes")
        yield Corridor(running)


@asynccontextmanager
async def reader(site: Corridor, mode: str, answer: str, asked: list[str]) -> AsyncIterator[Client]:
    async def reads(_: Any, params: CreateMessageRequestParams) -> CreateMessageResult:
        (message,) = params.messages
        assert isinstance(message.content, TextContent)
        asked.append(message.content.text)
        content = TextContent(type="text", text=answer)
        return CreateMessageResult(role="assistant", content=content, model="m")

    token = site.token(ALL, name="reader", scopes=SCOPES)
    async with connected(site.endpoint(ALL), token, mode, sampling_callback=reads) as client:
        yield client


async def ran(client: Client) -> Any:
    return json.loads(text_of(await client.call_tool("run_code", {"code": CODE})))


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_the_model_of_a_real_client_reads_a_text_for_a_program(
    site: Corridor, mode: str
) -> None:
    asked: list[str] = []
    async with reader(site, mode, '{"words": 4}', asked) as client:
        found = await ran(client)
    assert (found["status"], found["value"]) == ("ok", 5)
    assert [call["tool"] for call in found["calls"]] == [
        "notes.read_note",
        "Client.extract",
        "notes.write_note",
    ]
    (question,) = asked
    assert json.loads(question)["schema"]["required"] == ["words"]
    rows = site.running.rows("audit", "query", "--where", "target = sampling/createMessage")
    assert rows[0]["verdict"] == "allow"


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_an_answer_of_another_form_is_an_error_of_the_program(
    site: Corridor, mode: str
) -> None:
    async with reader(site, mode, "four, I think", []) as client:
        found = await ran(client)
    assert found["status"] == "error"
    assert "ToolError[invalid_result] Client.extract" in found["error"]
