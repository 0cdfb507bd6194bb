"""An upstream that breaks costs the caller a refusal with a code, and the log says what it was."""

import asyncio
import gzip
import json
import threading
from functools import partial

import pytest
from aiohttp import web

from tests.e2e.scripted import instead, told
from tests.faults.scene import Scene
from tests.servers.raw import STREAM, Script, answers, hangs, resets, streams

MEBIBYTE_KIB = 1024
LARGE = 200 * 1024 * 1024
NOTE = (
    b'data: {"jsonrpc":"2.0","method":"notifications/message",'
    b'"params":{"level":"info","data":"x"}}\n\n'
)


async def stalls(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    await response.write(b'{"jsonrpc": "2.0", ')
    return await hangs(request)


async def drips(request: web.Request) -> web.StreamResponse:
    while True:
        await request[STREAM].write(NOTE)
        await asyncio.sleep(0.05)


async def floods(request: web.Request) -> web.StreamResponse:
    """Send one line without an end."""
    for _ in range(LARGE // 65536):
        await request[STREAM].write(b"x" * 65536)
    return web.Response()


async def pours(request: web.Request) -> web.StreamResponse:
    """Send a JSON string without an end."""
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    await response.write(b'"')
    for _ in range(LARGE // 65536):
        await response.write(b"x" * 65536)
    return response


async def compresses(request: web.Request) -> web.StreamResponse:
    """Answer rightly, but compressed, which was not asked for."""
    message = json.loads(await request.read())
    body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": told("hello")}).encode()
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    return web.Response(body=gzip.compress(body), headers=headers)


FAULTS: dict[str, tuple[Script, str, str]] = {
    "hangs": (hangs, "upstream_failed", "first byte: no answer within 2 s"),
    "stalls amid a body": (stalls, "upstream_failed", "idle: no byte for 2 s"),
    "stalls amid a stream": (
        streams(NOTE, then=hangs),
        "upstream_failed",
        "idle: no byte for 2 s",
    ),
    "never ends": (streams(NOTE, then=drips), "upstream_failed", "hard maximum: no end within 4 s"),
    "resets": (resets, "upstream_failed", "connection: "),
    "resets amid a stream": (streams(NOTE, then=resets), "upstream_failed", "connection: "),
    "fails": (answers("<html>", status=500, media="text/html"), "upstream_failed", "status 500"),
    "speaks no MCP": (answers("<html>", media="text/html"), "upstream_failed", "media type"),
    "compresses": (compresses, "upstream_failed", ""),
    "pours": (pours, "limit_exceeded", "more than 262144 bytes"),
    "floods without a line break": (streams(NOTE, then=floods), "limit_exceeded", ""),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_the_upstream_is_a_refusal_and_an_outcome(at: Scene, fault: str) -> None:
    script, code, reason = FAULTS[fault]
    at.raw.play(instead("tools/call", script))
    made = at.call()
    assert made.code == code
    assert at.trail(made) == [("intent", None), ("outcome", code)]
    intent, outcome = at.records(made)
    assert outcome["decision_id"] == intent["decision_id"]
    assert outcome["verdict"] in {"error", "deny"}
    assert reason in outcome["reasons"][0]["message"]
    assert at.forwarded(made) == 1  # nothing is sent twice


@pytest.mark.parametrize("fault", ["pours", "floods without a line break"])
def test_200_mb_of_an_upstream_are_not_held_in_memory(at: Scene, fault: str) -> None:
    at.raw.play(instead("tools/call", FAULTS[fault][0]))
    at.forget_peak()
    before = at.memory_kib("VmRSS")
    made = [at.call() for _ in range(5)]
    assert {one.code for one in made} == {"limit_exceeded"}
    assert at.memory_kib() - before < 32 * MEBIBYTE_KIB


def test_a_stream_without_its_response_ends_in_an_unknown_outcome(at: Scene) -> None:
    at.raw.play(instead("tools/call", streams(NOTE)))
    made = at.call()
    assert [one["method"] for one in made.answered.messages] == ["notifications/message"]
    assert at.trail(made) == [("intent", None), ("outcome", "outcome_unknown")]


def test_a_silent_upstream_holds_up_nobody_else(at: Scene) -> None:
    async def silent_for_one(request: web.Request) -> web.StreamResponse:
        message = json.loads(await request.read())
        if message["params"]["arguments"] == {"text": "slow"}:
            return await hangs(request)
        return web.json_response({"jsonrpc": "2.0", "id": message["id"], "result": told("quick")})

    at.raw.play(instead("tools/call", silent_for_one))

    def others_came_first() -> bool:
        slow: list[str | None] = []
        call = partial(at.call, "slow", {"text": "slow"})
        waiting = threading.Thread(target=lambda: slow.append(call().code))
        waiting.start()
        came_first = False
        for _ in range(10):
            assert at.call().text == "quick"
            came_first = came_first or slow == []
        waiting.join()
        assert slow == ["upstream_failed"]
        return came_first

    # On a busy machine a call may take as long as one that is given up.
    assert any(others_came_first() for _ in range(5))
