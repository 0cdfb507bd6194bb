"""A server that fails is left alone and tried again, at every endpoint; the others notice nothing."""

import asyncio
import json
import re
import signal
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import web

from tests.e2e.posting import LEGACY, Poster, body_of
from tests.e2e.scripted import Raw, behaves, instead, raw_in_a_thread
from tests.e2e.site import SERVERS, Corridor
from tests.e2e.sockets import Answered
from tests.faults.scene import eventually
from tests.running import ALL, running_gateway
from tests.servers.raw import STREAM, hangs, streams

LIMITS = {
    "calls_per_minute": 100_000,
    "upstream_idle": "2s",
    "upstream_failures": 3,
    "upstream_rest": "5s",
    "upstream_ping": "200ms",
}
ALLOWED = {"name": "raw__allowed", "arguments": {"text": "x"}}


@pytest.fixture(scope="module")
def well() -> Iterator[Raw]:
    with raw_in_a_thread() as other:
        yield other


@pytest.fixture(scope="module")
def failing() -> Iterator[Raw]:
    with raw_in_a_thread() as other:
        yield other


@pytest.fixture
def front(tmp_path: Path, well: Raw, failing: Raw) -> Iterator[Corridor]:
    failing.forget()
    servers = {"raw": {"url": failing.url}, "other": {"url": well.url}}
    told = {name: {**SERVERS["raw"], **server} for name, server in servers.items()}
    pins = {"recheck": "1h", "fresh": "1h"}
    with running_gateway(tmp_path, told, limits=LIMITS, pins=pins) as running:
        for name in servers:
            running.approve_all(name)
        yield Corridor(running)


def failures(front: Corridor, server: str) -> float:
    with urllib.request.urlopen(f"{front.running.admin_url}/metrics", timeout=60) as page:
        text = page.read().decode()
    found = re.search(rf'douane_upstream_failures{{server="{server}"}} (\S+)', text)
    assert found is not None
    return float(found[1])


def ended(raw: Raw) -> list[str]:
    """The sessions of which somebody took leave."""
    return [one.headers["mcp-session-id"] for one in raw.seen if one.method == "DELETE"]


def said(answered: Answered) -> str:
    text: str = answered.messages[-1]["result"]["content"][0]["text"]
    return text


def require_left_alone(poster: Poster, tool: str, failing: Raw) -> None:
    """A call is refused at once, and nothing is sent."""
    seen = len(failing.seen)
    refused = poster.call(tool, {"text": "x"})
    assert refused.refusal == "upstream_failed"
    assert re.search(
        r"failed \d times in a row .* tried again in \d s\. Nothing was called", said(refused)
    )
    assert len(failing.seen) == seen


def test_a_server_that_hangs_is_left_alone_until_it_answers_again(
    front: Corridor, failing: Raw
) -> None:
    failing.play(instead("tools/call", hangs))
    everywhere, alone = Poster(front, ALL), Poster(front, "raw")
    for _ in range(3):
        answered = everywhere.modern("tools/call", ALLOWED)
        assert (answered.refusal, "in time" in said(answered)) == ("upstream_failed", True)
    require_left_alone(everywhere, "raw__allowed", failing)
    assert (failures(front, "raw"), failures(front, "other")) == (3, 0)
    assert alone.call("allowed").refusal == "upstream_failed"  # it finds out for itself
    require_left_alone(alone, "allowed", failing)
    other = everywhere.modern("tools/call", {**ALLOWED, "name": "other__allowed"})
    assert json.loads(said(other)) == {"text": "x"}

    failing.play(behaves)
    assert eventually(lambda: everywhere.modern("tools/call", ALLOWED).refusal is None, 30)
    assert alone.call("allowed").refusal is None
    assert failures(front, "raw") == 0


def test_an_answer_that_breaks_off_is_fetched_to_its_end(front: Corridor, failing: Raw) -> None:
    ids: list[object] = []

    async def breaks(request: web.Request) -> web.StreamResponse:
        ids.append(json.loads(await request.read())["id"])
        await asyncio.sleep(0.2)  # what came with the end of a connection may go down with it
        assert request.transport is not None
        request.transport.close()
        return request[STREAM]

    async def rest(request: web.Request) -> web.StreamResponse:
        last = request.headers.get("Last-Event-ID")
        if last is None:
            return web.Response(status=405)
        result = {"content": [{"type": "text", "text": f"behind {last}"}]}
        message = {"jsonrpc": "2.0", "id": ids[0], "result": result}
        return await streams(f"data: {json.dumps(message)}\n\n".encode())(request)

    broken = instead("tools/call", streams(b"id: e7\nretry: 10\ndata: \n\n", then=breaks))

    async def script(request: web.Request) -> web.StreamResponse:
        return await (rest if request.method == "GET" else broken)(request)

    failing.play(script)
    poster = Poster(front, ALL)
    session = poster.session()
    answered = poster.legacy("tools/call", ALLOWED, ("Mcp-Session-Id", session))
    assert said(answered) == "behind e7"
    assert len(ids) == 1
    assert failures(front, "raw") == 0


def test_sessions_are_pinged_and_ended_when_their_server_goes(
    front: Corridor, failing: Raw
) -> None:
    config = front.running.config
    poster = Poster(front, ALL)
    called = poster.post(
        body_of("tools/call", ALLOWED),
        ("MCP-Protocol-Version", LEGACY),
        ("Mcp-Session-Id", poster.session()),
    )
    assert called.refusal is None
    assert eventually(lambda: failing.methods.count("ping") >= 2)
    pings = [one for one in failing.seen if b'"ping"' in one.body]
    (session,) = {one.headers["mcp-session-id"] for one in pings}
    assert session not in ended(failing)
    content = json.loads(config.read_text())
    del content["servers"]["raw"]
    config.write_text(json.dumps(content))
    front.running.process.send_signal(signal.SIGHUP)
    assert eventually(lambda: session in ended(failing))
