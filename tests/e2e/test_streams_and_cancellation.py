"""What streams, streams at once; and what becomes of a call that nobody waits for any more."""

import asyncio
import json
import threading
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from aiohttp import web

from tests.e2e.own import soon
from tests.e2e.posting import LEGACY, META, Poster, mirrored
from tests.e2e.scripted import Raw, behaves, instead, opened, released, told
from tests.e2e.site import Corridor
from tests.e2e.sockets import refusal_in
from tests.servers.process import RunningServer
from tests.servers.raw import Script


@asynccontextmanager
async def calling(
    poster: Poster, era: str, tool: str, arguments: dict[str, Any], id_: int = 5
) -> AsyncIterator[httpx2.Response]:
    """Begin a call and give its answer's head; leaving ends the connection."""
    params: dict[str, Any] = {"name": tool, "arguments": arguments, "_meta": {"progressToken": "p"}}
    headers = {name: text for name, text in poster.fields if name != "Connection"}
    if era == "modern":
        params["_meta"] |= META
        headers |= dict(mirrored("tools/call", params))
    else:
        session = await asyncio.to_thread(poster.session)
        headers |= {"MCP-Protocol-Version": LEGACY, "Mcp-Session-Id": session}
    message = {"jsonrpc": "2.0", "id": id_, "method": "tools/call", "params": params}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        http.stream("POST", poster.url, json=message) as response,
    ):
        yield response


async def events(response: httpx2.Response) -> AsyncIterator[dict[str, Any]]:
    async for line in response.aiter_lines():
        if line.startswith("data:") and (text := line.removeprefix("data:").strip()):
            yield json.loads(text)


def step(number: int) -> dict[str, Any]:
    params = {"progressToken": "p", "progress": number, "total": 3}
    return {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}


def in_steps(gates: list[threading.Event]) -> Script:
    """Report progress, wait for a gate, and so on; the result comes after the last gate."""

    async def script(request: web.Request) -> web.StreamResponse:
        message = json.loads(await request.read())
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for number, gate in enumerate(gates):
            await response.write(b"data: " + json.dumps(step(number)).encode() + b"\n\n")
            await opened(gate)
        result = {"jsonrpc": "2.0", "id": message["id"], "result": told("done")}
        await response.write(b"data: " + json.dumps(result).encode() + b"\n\n")
        return response

    return script


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_progress_arrives_before_the_tool_goes_on(poster: Poster, raw: Raw, era: str) -> None:
    gates = [threading.Event() for _ in range(3)]
    raw.play(instead("tools/call", in_steps(gates)))
    async with (
        released(gates[0]), released(gates[1]), released(gates[2]),
        calling(poster, era, "slow", {}) as response,
    ):  # fmt: skip
        coming = events(response)
        for number, gate in enumerate(gates):
            async with asyncio.timeout(60):
                assert await anext(coming) == step(number)
            gate.set()  # only now can the tool go on
        last = await anext(coming)
        assert last["result"]["content"][0]["text"] == "done"


def counted(notes: RunningServer) -> dict[str, int]:
    with urllib.request.urlopen(f"{notes.origin}/admin", timeout=60) as answered:
        found: dict[str, int] = json.load(answered)["slow"]
    return found


async def leave_in_the_middle(gateway: Corridor, notes: RunningServer, era: str) -> dict[str, int]:
    """Begin to count, leave, and return what the server had counted until then."""
    before = counted(notes)
    arguments = {"steps": 10, "pause_s": 0.15}
    async with calling(Poster(gateway, "notes"), era, "count_slowly", arguments) as response:
        await soon(lambda: counted(notes)["begun"] > before["begun"])
        await anext(events(response))
    return before


async def test_whoever_leaves_cancels_the_call_in_the_stateless_revision(
    gateway: Corridor, notes: RunningServer
) -> None:
    before = await leave_in_the_middle(gateway, notes, "modern")
    await soon(lambda: counted(notes)["cancelled"] == before["cancelled"] + 1)
    assert counted(notes)["finished"] == before["finished"]


async def test_whoever_leaves_a_session_leaves_the_call_running(
    gateway: Corridor, notes: RunningServer
) -> None:
    before = await leave_in_the_middle(gateway, notes, "legacy")
    await soon(lambda: counted(notes)["finished"] == before["finished"] + 1)
    assert counted(notes)["cancelled"] == before["cancelled"]


def stalls(gate: threading.Event) -> Script:
    """Accept the call and say nothing until the gate opens."""

    async def script(request: web.Request) -> web.StreamResponse:
        await opened(gate)
        return await behaves(request)

    return script


async def test_a_call_whose_caller_left_before_the_answer_is_recorded_as_unknown(
    gateway: Corridor, poster: Poster, raw: Raw
) -> None:
    gate = threading.Event()
    raw.play(instead("tools/call", stalls(gate)))

    async def call() -> None:
        async with calling(poster, "modern", "slow", {"text": "x"}):
            pass

    async with released(gate):
        task = asyncio.create_task(call())
        await raw.until("tools/call")
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await soon(lambda: raw.client_left)
    query = ("audit", "query", "--server", "raw", "--tool", "slow", "--code", "client_gone")
    (record, *_) = await soon(lambda: gateway.running.rows(*query, "--limit", "1"))
    decision = record["decision_id"]
    *whole, again = gateway.running.rows("policy", "explain", decision)
    assert [one["kind"] for one in whole] == ["intent", "outcome"]
    assert again["reevaluation"]["finding"] == "same"


async def test_a_stream_that_breaks_off_is_recorded_as_unknown(
    gateway: Corridor, poster: Poster, raw: Raw
) -> None:
    seen = threading.Event()

    async def breaks(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b"data: " + json.dumps(step(0)).encode() + b"\n\n")
        await opened(seen)  # a reset takes along what was not read yet
        assert request.transport is not None
        request.transport.abort()
        return response

    raw.play(instead("tools/call", breaks))
    async with released(seen), calling(poster, "modern", "slow", {}) as response:
        coming = events(response)
        assert await anext(coming) == step(0)
        seen.set()
        (last,) = [event async for event in coming]
    assert refusal_in(last) == "upstream_failed"
    query = ("audit", "query", "--server", "raw", "--tool", "slow", "--limit", "1")
    (record,) = gateway.running.rows(*query)
    assert (record["kind"], record["code"]) == ("outcome", "upstream_failed")
