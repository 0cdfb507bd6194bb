"""The MCP endpoint over the real pipeline: from an HTTP request to its answer, and every way out."""

import asyncio
import gc
import json
import threading
import weakref
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from gateway.domain.calls import Permit, RawAnswer
from gateway.domain.room import Rooms
from gateway.domain.throttle import Throttle
from gateway.domain.tools import Profile
from gateway.web import mcp
from gateway.web.guard import Guarded, guard_for
from gateway.web.mcp import McpEndpoint, Prover
from gateway.web.metrics import Metrics
from gateway.web.peers import client_address
from gateway.wire.jsontext import WireLimits
from gateway.wire.session import seal
from tests.pipeline.house import KEY, MAIL, Events, House, event, noting_whose, result, text
from tests.web.asgi import HOST, Exchange, ask

PATH = "/mcp/mail"
LARGEST_BYTES = 1024
ALICE = (b"authorization", b"Bearer alice")
JSON = (b"content-type", b"application/json")
CALL = json.dumps(
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "search", "arguments": {"q": "x"}},
    }
).encode()
TOO_LARGE = b"x" * (LARGEST_BYTES + 1)
PROGRESS = event({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": 1}})
FINAL = event({"jsonrpc": "2.0", "id": 1, "result": text("hello")})


class Site:
    """A gateway's MCP endpoint in this process."""

    def __init__(self, proven: Prover = lambda *_: None) -> None:
        self.house = House()
        self.metrics = Metrics()
        guard = guard_for("http://127.0.0.1:8080", ("127.0.0.1", 8080), [], LARGEST_BYTES)
        address = client_address(["192.0.2.0/24"])
        self.endpoint = McpEndpoint(
            carrier=self.house.pipeline,
            aggregate=self.house.pipeline,
            servers={"mail"},
            most_bytes=LARGEST_BYTES,
            limits=WireLimits(),
            metrics=self.metrics,
            client_address=address,
            new_id=self.house.new_id,
            proven=proven,
        )
        self.app = Guarded(
            self.endpoint, guard, refused_unread=self.metrics.refused_unread, client_address=address
        )

    async def post(self, body: bytes = CALL, *more: tuple[bytes, bytes]) -> Exchange:
        return await ask(self.app, "POST", PATH, (HOST, ALICE, JSON, *more), body)

    def begin(self, exchange: Exchange) -> "asyncio.Task[Exchange]":
        """Begin a call in the background, as a server does."""
        return asyncio.create_task(exchange.ask(self.app, "POST", PATH, (HOST, ALICE, JSON)))

    def refused(self, code: str) -> float:
        """How many refusals of that code were counted."""
        name = f'douane_refusals_total{{code="{code}"}} '
        lines = self.metrics.page().decode().splitlines()
        return sum(float(line.removeprefix(name)) for line in lines if line.startswith(name))

    @property
    def records(self) -> list[tuple[str, Mapping[str, Any]]]:
        return [(r.kind.value, r.fields) for r in self.house.audit.records if r.kind.value != "pin"]


@pytest.fixture
async def site() -> Site:
    site = Site()
    await site.house.approve_all(Profile.LEGACY)
    return site


async def test_a_call_is_carried_and_answered_whole(site):
    answer = await site.post()
    assert answer.status == 200
    assert answer.headers == {
        "content-type": "application/json",
        "content-length": str(len(answer.body)),
        "cache-control": "no-store",
    }
    assert json.loads(answer.body)["result"] == text("hello")
    (permit,) = site.house.server.saw
    assert permit.call.message.body == CALL
    assert (permit.call.endpoint, permit.call.server) == ("/mcp/mail", "mail")
    assert [kind for kind, _ in site.records] == ["intent", "outcome"]


whose = pytest.fixture(noting_whose)


async def test_a_large_call_takes_the_turns_of_its_person_alone(site, whose, monkeypatch):
    """Not its address's: many stand behind one, and each would have a turn more."""
    monkeypatch.setattr(site.endpoint, "_most_bytes", 10**6)
    large = CALL.replace(b'"x"', b"[%b0]" % (b"0," * 9_000))
    assert (await site.post(large)).status == 200
    assert whose - {"what mail shows"} == {site.house.gate.people["alice"].person}


async def test_a_cancellation_that_is_read_before_its_large_request_counts(site, monkeypatch):
    monkeypatch.setattr(site.endpoint, "_most_bytes", 10**6)
    begun, free = threading.Event(), threading.Event()
    read = mcp.read_posted  # type: ignore[attr-defined]

    def held(pairs, body, limits):
        if len(body) > LARGEST_BYTES:
            begun.set()
            assert free.wait(60)
        return read(pairs, body, limits)

    monkeypatch.setattr(mcp, "read_posted", held)
    sealed = seal(KEY, MAIL, site.house.gate.people["alice"].key, "s1")
    session = (b"mcp-session-id", sealed.encode())
    large = asyncio.create_task(
        site.post(CALL.replace(b'"x"', b"[%b0]" % (b"0," * 9_000)), session)
    )
    await asyncio.to_thread(begun.wait, 60)
    said = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    await site.post(json.dumps(said).encode(), session)
    free.set()
    assert b"the client cancelled the call" in (await large).body
    assert [one.call.message.method for one in site.house.server.saw] == [said["method"]]
    assert (await site.post(CALL, session)).status == 200
    assert [one.call.message.method for one in site.house.server.saw][1:] == ["tools/call"]


async def test_what_comes_by_another_configuration_comes_after_what_came_by_the_one_before():
    """What it cancels is told by that."""
    sites = [Site(), Site()]
    for site, calls in zip(sites, (3, 1), strict=True):
        await site.house.approve_all(Profile.LEGACY)
        for _ in range(calls):
            assert (await site.post()).status == 200
    before, after = [site.house.server.saw[-1].call.arrived for site in sites]
    assert before < after


async def test_a_body_may_come_in_pieces(site):
    pieces = [CALL[:10], b"", CALL[10:50], CALL[50:]]
    answer = await Exchange(chunks=pieces).ask(site.app, "POST", PATH, (HOST, ALICE, JSON))
    assert answer.status == 200
    assert site.house.server.saw[0].call.message.body == CALL


# What is refused before a body is parsed.


@pytest.mark.parametrize(
    ("request_line", "headers", "status", "code"),
    [
        ("POST /mcp/mail", [(b"host", b"evil.example")], 421, "host"),
        ("POST /mcp/mail", [HOST, (b"origin", b"https://evil.example")], 403, "origin"),
        ("POST /mcp/mail", [HOST, (b"content-length", b"1025")], 413, "too_large"),
        ("POST /mcp/mail", [HOST, (b"content-encoding", b"gzip")], 415, "encoding"),
        ("POST /mcp/other", [HOST], 404, "no_endpoint"),
        ("POST /mcp/", [HOST], 404, "no_endpoint"),
        ("POST /mcp/mail/", [HOST], 404, "no_endpoint"),
        ("PUT /mcp/mail", [HOST], 405, "method"),
        ("HEAD /mcp/mail", [HOST], 405, "method"),
        ("OPTIONS /mcp/mail", [HOST], 405, "method"),
    ],
)
async def test_a_request_that_is_not_for_us_is_refused_unread(
    site, request_line, headers, status, code
):
    method, path = request_line.split()
    answer = await ask(site.app, method, path, [*headers, ALICE, JSON], CALL)
    assert (answer.status, answer.received) == (status, 0)
    form = "application/json" if status == 404 else "text/plain; charset=utf-8"
    assert answer.headers["content-type"] == form
    assert answer.headers["content-length"] == str(len(answer.body))
    assert ("connection" in answer.headers) is (status == 413)
    assert site.refused(code) == 1
    assert site.records == []


async def test_a_body_that_is_larger_than_it_may_be_is_refused(site):
    answer = await site.post(TOO_LARGE)
    assert (answer.status, answer.headers["connection"]) == (413, "close")
    assert site.refused("too_large") == 1
    assert site.records == []


async def test_a_body_of_exactly_the_limit_is_read(site):
    assert (await site.post(CALL.ljust(LARGEST_BYTES))).status == 200


async def test_a_body_without_end_is_cut_off_at_the_limit(site):
    chunks = [b"x" * 400] * 100
    answer = await Exchange(chunks=chunks).ask(site.app, "POST", PATH, (HOST, ALICE, JSON))
    assert (answer.status, answer.headers["connection"]) == (413, "close")
    assert answer.received == 3
    assert site.records == []


async def test_a_body_that_does_not_arrive_is_not_waited_for(site, monkeypatch):
    monkeypatch.setattr(mcp, "_BODY_S", 0.01)
    slow = Exchange(chunks=[b"{"], never_ends=True)
    answer = await asyncio.wait_for(slow.ask(site.app, "POST", PATH, (HOST, ALICE, JSON)), 60)
    assert (answer.status, answer.headers["connection"]) == (408, "close")
    assert site.refused("slow_body") == 1
    assert site.records == []


@pytest.mark.parametrize("chunks", [[], [CALL[:10]]])
async def test_a_client_that_goes_away_amid_its_body_has_asked_nothing(site, chunks):
    exchange = Exchange(chunks=chunks, never_ends=True)
    exchange.gone.set()
    answer = await exchange.ask(site.app, "POST", PATH, (HOST, ALICE, JSON))
    assert answer.sent == []
    assert site.records == []


# What cannot be read, and who it is from.


@pytest.mark.parametrize(
    ("body", "headers", "status", "id_"),
    [
        (b"{", [], 400, None),
        (b"[" + CALL + b"]", [], 400, None),
        (CALL.replace(b'"2.0"', b'"1.0"'), [], 400, 1),
        (CALL, [(b"mcp-protocol-version", b"1999-01-01")], 400, 1),
    ],
)
async def test_what_cannot_be_read_is_refused_and_recorded(site, body, headers, status, id_):
    answer = await site.post(body, *headers)
    assert answer.status == status
    assert json.loads(answer.body)["id"] == id_
    ((kind, fields),) = site.records
    assert (kind, fields["verdict"], fields["code"]) == ("outcome", "deny", "protocol_error")
    assert (fields["endpoint"], fields["server"]) == ("/mcp/mail", "mail")
    assert fields["source_ip"] == "192.0.2.7"
    assert site.house.server.saw == []


async def test_a_get_that_cannot_be_read_is_refused_and_recorded(site):
    headers = (HOST, ALICE, (b"mcp-protocol-version", b"2026-07-28"))
    answer = await ask(site.app, "GET", PATH, headers)
    assert (answer.status, answer.headers["allow"]) == (405, "POST")
    assert [fields["code"] for _, fields in site.records] == ["protocol_error"]


@pytest.mark.parametrize("scheme", [b"Bearer", b"bearer", b"BEARER"])
async def test_the_scheme_of_a_credential_is_spelled_in_any_case(site, scheme):
    headers = (HOST, JSON, (b"authorization", scheme + b"  alice "))
    assert (await ask(site.app, "POST", PATH, headers, CALL)).status == 200


@pytest.mark.parametrize(
    "header",
    [
        (b"authorization", b"Basic alice"),
        (b"authorization", b"alice"),
        (b"authorization", b"Bearer mallory"),
        (b"proxy-authorization", b"Bearer alice"),
        (b"cookie", b"access_token=alice"),
    ],
)
async def test_nothing_else_is_a_credential(site, header):
    answer = await ask(site.app, "POST", PATH, (HOST, JSON, header), CALL)
    assert answer.status == 401
    assert answer.headers["www-authenticate"].startswith("Bearer ")
    assert [kind for kind, _ in site.records] == ["auth"]


async def test_the_source_behind_a_trusted_proxy_is_the_one_recorded(site):
    await site.post(CALL, (b"x-forwarded-for", b"203.0.113.9"))
    assert site.records[0][1]["source_ip"] == "203.0.113.9"


async def test_a_delete_ends_the_session_without_a_body(site):
    site.house.server.answer = lambda permit: result(permit, {}, session="s1")
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    sealed = (await site.post(json.dumps(body).encode())).headers["mcp-session-id"]
    headers = (HOST, ALICE, (b"mcp-session-id", sealed.encode()))
    site.house.server.answer = lambda _: RawAnswer(status=204, headers=(), session=None, body=b"")
    answer = await ask(site.app, "DELETE", PATH, headers)
    assert (answer.status, answer.body) == (204, b"")
    permit = site.house.server.saw[-1]
    assert (permit.call.message.method, permit.session) == ("DELETE", "s1")


# Streams, and callers that go away.


async def test_events_are_sent_on_as_they_come(site):
    site.house.server.answer = lambda _: Events([PROGRESS, FINAL]).answer()
    answer = await site.post()
    assert answer.status == 200
    assert answer.headers == {"content-type": "text/event-stream", "cache-control": "no-store"}
    assert answer.parts == [(PROGRESS.raw, True), (FINAL.raw, True), (b"", False)]


async def test_a_stream_whose_head_cannot_be_sent_is_ended_and_recorded(site):
    events = Events([PROGRESS, FINAL])
    site.house.server.answer = lambda _: events.answer()

    class Broken(Exchange):
        async def send(self, message: Mapping[str, Any]) -> None:
            raise OSError("connection lost")

    exchange = Broken(chunks=[CALL])
    with pytest.raises(OSError, match="connection lost"):
        await exchange.ask(site.app, "POST", PATH, (HOST, ALICE, JSON))
    assert events.closed
    assert site.records[-1][1]["code"] == "outcome_unknown"


class Endless(Events):
    """A stream that says one thing and then nothing, for ever."""

    def __init__(self) -> None:
        super().__init__([PROGRESS])
        self.quiet = asyncio.Event()

    async def __anext__(self) -> Any:
        if self.taken == len(self.events):
            self.quiet.set()
            await asyncio.Event().wait()
        return await super().__anext__()


async def test_a_stream_ends_when_its_listener_goes_away(site):
    events = Endless()
    site.house.server.answer = lambda _: events.answer()
    exchange = Exchange(chunks=[CALL])
    task = site.begin(exchange)
    await events.quiet.wait()
    exchange.gone.set()
    ended, _ = await asyncio.wait({task}, timeout=60)
    assert ended == {task}
    assert exchange.parts == [(PROGRESS.raw, True)]
    assert events.closed
    assert site.records[-1][1]["code"] == "outcome_unknown"


async def test_a_stream_that_only_listens_can_be_ended(site):
    for ended_before in (False, True):
        events = Endless()
        site.house.server.answer = lambda _, events=events: events.answer()
        exchange = Exchange()
        task = asyncio.create_task(exchange.ask(site.app, "GET", PATH, (HOST, ALICE)))
        if not ended_before:
            await events.quiet.wait()
            site.endpoint.end_listening()
        await asyncio.wait_for(task, 60)
        assert exchange.status == 200
        assert exchange.parts[-1] == (b"", False)
        assert events.closed
        assert site.records[-1][1]["code"] == "stream_ended"
    assert site.endpoint._listening == set()


async def test_a_call_is_no_listener(site):
    events = Endless()
    site.house.server.answer = lambda _: events.answer()
    exchange = Exchange(chunks=[CALL])
    task = site.begin(exchange)
    await events.quiet.wait()
    site.endpoint.end_listening()
    await asyncio.sleep(0.01)
    assert not task.done()
    exchange.gone.set()
    await asyncio.wait_for(task, 60)


@pytest.fixture
def forever(site) -> asyncio.Event:
    """Make the upstream think for ever; set once a call has reached it."""
    begun = asyncio.Event()

    async def forward(permit: Permit) -> RawAnswer:
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError

    site.house.server.forward = forward
    return begun


async def test_a_call_ends_when_its_caller_goes_away(site, forever):
    exchange = Exchange(chunks=[CALL])
    task = site.begin(exchange)
    await forever.wait()
    exchange.gone.set()
    ended, _ = await asyncio.wait({task}, timeout=60)
    assert ended == {task}
    assert task.cancelling() == 0
    assert exchange.sent == []
    assert site.records[-1][1]["code"] == "client_gone"


async def test_a_gateway_that_stops_ends_its_calls_and_says_so(site, forever):
    task = site.begin(Exchange(chunks=[CALL]))
    await forever.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert site.records[-1][1]["code"] == "client_gone"


async def test_nobody_is_left_watching_when_a_call_is_over(site, monkeypatch):
    monkeypatch.setattr(mcp, "_QUICK_S", 0.0)
    before = asyncio.all_tasks()
    watched: list[int] = []

    async def forward(permit: Permit) -> RawAnswer:
        await asyncio.sleep(0.01)
        watched.append(len(asyncio.all_tasks() - before))
        return result(permit, text("hello"))

    site.house.server.forward = forward
    await site.post()
    await asyncio.sleep(0)
    assert watched == [1]
    assert asyncio.all_tasks() == before


async def test_who_was_watching_is_freed_at_once(site, monkeypatch):
    monkeypatch.setattr(mcp, "_QUICK_S", 0.0)
    made: list[weakref.ref[Any]] = []

    class Noted(mcp._Watch):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            made.append(weakref.ref(self))

    monkeypatch.setattr(mcp, "_Watch", Noted)

    async def forward(permit: Permit) -> RawAnswer:
        await asyncio.sleep(0.01)
        return result(permit, text("hello"))

    site.house.server.forward = forward
    gc.disable()
    try:
        await site.post()
        for _ in range(5):
            await asyncio.sleep(0)
        assert [left() for left in made] == [None]
    finally:
        gc.enable()


async def test_what_else_a_client_sends_meanwhile_is_not_its_farewell(site, monkeypatch):
    monkeypatch.setattr(mcp, "_QUICK_S", 0.0)

    async def forward(permit: Permit) -> RawAnswer:
        await asyncio.sleep(0.05)
        return result(permit, text("hello"))

    site.house.server.forward = forward
    exchange = Exchange(chunks=[CALL])
    task = site.begin(exchange)
    await asyncio.sleep(0)
    exchange._left = [b"", b""]
    await task
    assert exchange.status == 200


async def test_an_address_that_only_gets_refusals_is_refused_unread(site: Site) -> None:
    site.endpoint._failures = Throttle(allowed=2, window_s=60)
    for _ in range(2):
        answer = await ask(site.app, "POST", PATH, (HOST, JSON), CALL)
        assert answer.status == 401
    records = len(site.house.audit.records)
    answer = await site.post()
    assert (answer.status, dict(answer.headers)["retry-after"]) == (429, "60")
    assert len(site.house.audit.records) == records
    assert site.house.server.saw == []


async def test_large_bodies_share_a_room_and_the_next_is_told_to_come_again(site, monkeypatch):
    monkeypatch.setattr("gateway.domain.room.FREE", 100)
    rooms = site.app._app._rooms = Rooms(2 * 600)
    first = Exchange(chunks=[b"x" * 600], never_ends=True)
    holding = asyncio.create_task(first.ask(site.app, "POST", PATH, (HOST, ALICE, JSON)))
    for _ in range(10):
        await asyncio.sleep(0)
    assert rooms.requests.taken == 600
    rooms.requests.take(600, "somebody else")
    for chunks in ([CALL.ljust(600)], [CALL, b" " * 500]):
        answer = await Exchange(chunks=chunks).ask(site.app, "POST", PATH, (HOST, ALICE, JSON))
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        assert answer.headers["connection"] == "close"
    assert site.refused("busy") == 2
    holding.cancel()
    await asyncio.wait([holding])
    assert (await site.post(CALL.ljust(600))).status == 200
    assert rooms.requests.taken == 600


async def test_nobody_takes_all_the_room_for_large_bodies(site, monkeypatch):
    monkeypatch.setattr("gateway.domain.room.FREE", 100)
    rooms = site.app._app._rooms = Rooms(2 * 1000)
    first = Exchange(chunks=[b"x" * 600], never_ends=True)
    holding = asyncio.create_task(first.ask(site.app, "POST", PATH, (HOST, ALICE, JSON)))
    for _ in range(10):
        await asyncio.sleep(0)
    assert (await site.post(CALL.ljust(401))).status == 503
    assert (await site.post(CALL.ljust(400))).status == 200
    people = site.house.gate.people
    people["alice"] = replace(people["alice"], client_id="another of hers")
    assert (await site.post(CALL.ljust(401))).status == 503
    assert rooms.requests.take(1000, "somebody else")
    holding.cancel()
    await asyncio.wait([holding])
