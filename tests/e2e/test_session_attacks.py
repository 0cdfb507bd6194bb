"""One principal with the session, the ids or the leftovers of another; ids of known attacks."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import httpx2
import pytest
from aiohttp import web

from tests.e2e.posting import LEGACY, META, Poster, body_of, mirrored
from tests.e2e.scripted import Raw, answer, instead, told
from tests.e2e.site import Corridor
from tests.e2e.sockets import exchange, head, refusal_in
from tests.servers.raw import streams

ROUNDS = 200
TOGETHER = 20


@pytest.fixture
def alice(gateway: Corridor) -> Poster:
    return Poster(gateway, "raw", name="alice")


@pytest.fixture
def bob(gateway: Corridor) -> Poster:
    return Poster(gateway, "raw", name="bob")


async def at_its_own_pace(request: web.Request) -> web.StreamResponse:
    message = json.loads(await request.read())
    params = message["params"]
    await asyncio.sleep(0.02 if params["name"] == "slow" else 0)
    return answer(message, told(params["arguments"]["text"]))


@asynccontextmanager
async def caller(poster: Poster, session: str | None) -> AsyncIterator[httpx2.AsyncClient]:
    headers = dict(poster.fields)
    del headers["Connection"]
    if session is not None:
        headers |= {"MCP-Protocol-Version": LEGACY, "Mcp-Session-Id": session}
    limits = httpx2.Limits(max_connections=TOGETHER)
    async with httpx2.AsyncClient(headers=headers, limits=limits, timeout=60) as http:
        yield http


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_s03_every_response_goes_to_whoever_asked(
    gateway: Corridor, carriers: Mapping[str, str], raw: Raw, era: str
) -> None:
    names = ("carol", "dave") if carriers else ("alice", "bob")
    alice, bob = (Poster(gateway, "raw", name=name, **carriers) for name in names)
    raw.play(instead("tools/call", at_its_own_pace))
    sessions = [p.session() if era == "legacy" else None for p in (alice, bob)]
    free = asyncio.Semaphore(TOGETHER)

    async def ask(http: httpx2.AsyncClient, tool: str, text: str) -> str:
        params = {"name": tool, "arguments": {"text": text}}
        headers: dict[str, str] = {}
        if era == "modern":
            params |= {"_meta": META}
            headers = dict(mirrored("tools/call", params))
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        async with free:
            answered = await http.post(alice.url, json=message, headers=headers)
        assert answered.json()["id"] == 1
        found: str = answered.json()["result"]["content"][0]["text"]
        return found

    async with caller(alice, sessions[0]) as one, caller(bob, sessions[1]) as other:
        asked = [
            (http, tool, f"{who}-{tool}-{i}")
            for i in range(ROUNDS)
            for http, who, tool in (
                (one, "alice", "slow" if i % 2 else "allowed"),
                (other, "bob", "allowed" if i % 2 else "slow"),
            )
        ]
        got = await asyncio.gather(*(ask(*each) for each in asked))
    assert got == [text for _, _, text in asked]


def test_s04_the_session_of_another_is_not_found(alice: Poster, bob: Poster, raw: Raw) -> None:
    session = alice.session()
    raw.forget()
    answered = bob.legacy(
        "tools/call", {"name": "allowed", "arguments": {}}, ("Mcp-Session-Id", session)
    )
    assert answered.status == 404
    deleting = [*bob.fields, ("MCP-Protocol-Version", LEGACY), ("Mcp-Session-Id", session)]
    assert exchange(bob.url, head("DELETE", bob.path, deleting)).status == 404
    assert bob.get(("Mcp-Session-Id", session)).status == 404
    assert raw.seen == []
    answered = alice.legacy(
        "tools/call", {"name": "allowed", "arguments": {}}, ("Mcp-Session-Id", session)
    )
    assert (answered.status, answered.refusal) == (200, None)


def test_s04_a_session_id_that_was_not_sealed_here_is_not_found(alice: Poster, raw: Raw) -> None:
    session = alice.session()
    text, _, seal = session.partition(".")
    upstreams_own = raw.seen[-1].headers["mcp-session-id"]
    raw.forget()
    for forged in (
        upstreams_own,
        text,
        f"{text}.",
        f"{text}.{seal[:-1]}",
        f"{text}.{seal.upper()}",
        f"{text}=.{seal}",
        f"{text}.{'0' * len(seal)}",
        session + session,
    ):
        answered = alice.legacy("ping", None, ("Mcp-Session-Id", forged))
        assert answered.status == 404, forged
    assert raw.seen == []


@pytest.mark.parametrize("method", ["tasks/get", "tasks/result", "tasks/cancel", "tasks/list"])
def test_s04_there_are_no_tasks_of_anybody(bob: Poster, raw: Raw, method: str) -> None:
    session = bob.session()
    raw.forget()
    answered = bob.legacy(method, {"taskId": "alices"}, ("Mcp-Session-Id", session))
    assert answered.error_code == -32601
    assert bob.modern(method, {"taskId": "alices"}, ("Mcp-Name", "alices")).error_code == -32601
    assert raw.seen == []
    as_task = {"name": "allowed", "arguments": {}, "task": {"ttl": 60}}
    answered = bob.legacy("tools/call", as_task, ("Mcp-Session-Id", session))
    assert (answered.status, answered.refusal) == (200, None)
    assert "content" in answered.messages[0]["result"]
    assert json.loads(raw.seen[-1].body)["params"] == {"name": "allowed", "arguments": {}}


def test_s04_what_another_was_asked_cannot_be_answered(
    alice: Poster, bob: Poster, raw: Raw
) -> None:
    question = {"jsonrpc": "2.0", "id": 99, "method": "roots/list"}
    session = alice.session()
    raw.play(instead("GET", streams(b"data: " + json.dumps(question).encode() + b"\n\n")))
    asked = alice.get(("Mcp-Session-Id", session))
    assert asked.messages == [question]
    bobs = bob.session()
    raw.forget()
    reply = json.dumps({"jsonrpc": "2.0", "id": 99, "result": {"roots": []}}).encode()
    version = ("MCP-Protocol-Version", LEGACY)
    assert bob.post(reply, version, ("Mcp-Session-Id", session)).status == 404
    assert bob.post(reply, version, ("Mcp-Session-Id", bobs)).status == 400
    assert bob.post(reply, version).status == 400
    assert raw.seen == []
    assert alice.post(reply, version, ("Mcp-Session-Id", session)).status == 202
    assert raw.seen[0].body == reply
    assert alice.post(reply, version, ("Mcp-Session-Id", session)).status == 400


def test_r07_the_stream_of_another_cannot_be_resumed(alice: Poster, bob: Poster, raw: Raw) -> None:
    session = alice.session()
    raw.forget()
    event = ("Last-Event-ID", "stream-of-alice_7")
    assert bob.get(event, ("Mcp-Session-Id", session)).status == 404
    assert bob.get(event).status == 400
    assert raw.seen == []


def test_r07_a_server_that_replays_to_anybody_replays_no_result(bob: Poster, raw: Raw) -> None:
    alices = {"jsonrpc": "2.0", "id": 7, "result": told("for alice only")}
    replay = b"id: stream-of-alice_8\ndata: " + json.dumps(alices).encode() + b"\n\n"
    session = bob.session()
    raw.play(instead("GET", streams(replay)))
    answered = bob.get(("Last-Event-ID", "stream-of-alice_7"), ("Mcp-Session-Id", session))
    assert raw.methods[-1] == "GET"
    assert (answered.status, answered.body) == (200, b"")


@pytest.mark.parametrize("chosen", ["an-old-one", "0" * 32, "of-the-server"])
def test_s08_s09_a_session_that_begins_is_nobody_elses(
    alice: Poster, raw: Raw, chosen: str
) -> None:
    if chosen == "of-the-server":
        chosen = alice.session()
        raw.forget()
    params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "t"}}
    answered = alice.post(body_of("initialize", params), ("Mcp-Session-Id", chosen))
    minted = answered.headers["mcp-session-id"]
    assert answered.status == 200
    assert chosen not in minted
    assert len(minted.partition(".")[2]) * 4 >= 128
    assert "mcp-session-id" not in raw.seen[0].headers


def test_s08_the_stateless_revision_has_no_session(alice: Poster, raw: Raw) -> None:
    params = {"name": "allowed", "arguments": {}}
    answered = alice.modern("tools/call", params, ("Mcp-Session-Id", "anything"))
    assert answered.status == 200
    assert "mcp-session-id" not in raw.seen[0].headers
    assert alice.get(version="2026-07-28").status == 405


def test_a_session_that_the_server_has_ended_is_not_found(alice: Poster, raw: Raw) -> None:
    session = alice.session()

    async def gone(request: web.Request) -> web.StreamResponse:
        return web.json_response(
            {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "no session"}},
            status=404,
        )

    raw.play(gone)
    answered = alice.legacy(
        "tools/call", {"name": "allowed", "arguments": {}}, ("Mcp-Session-Id", session)
    )
    assert answered.status == 404
    assert refusal_in(answered.json) is None
