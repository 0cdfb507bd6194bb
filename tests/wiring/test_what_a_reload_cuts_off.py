"""What an earlier configuration still carries ends in its time: none goes on by what nobody follows."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest

from gateway.domain.identity import Principal
from gateway.errors import PolicyUnavailable
from gateway.oauth.gate import TokenGate
from gateway.policy import reload
from gateway.storage.store import Store
from gateway.wiring import tenure
from gateway.wiring.front import telling
from gateway.wiring.gateway import Gateway
from tests.policy.test_policy_saved_meanwhile import nothing_is_told
from tests.storage.suite import principal
from tests.wiring.test_saved_while_a_reload_builds import GOOD, Place, running

_EVERYTHING: Final = frozenset({"tools:list", "tools:call", "tools:write"})
_ALL: Final = (
    'package douane\n\ndecision := {"verdict": "allow", "reasons": [], "obligations": []}\n'
)


class Slow:
    """A server whose tool answers when it is told to."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.go = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                fields = {
                    name.lower(): text.strip()
                    for name, _, text in (line.partition(":") for line in head[1:])
                }
                body = await reader.readexactly(int(fields.get("content-length", "0")))
                status, said = await self._answer(head[0].split()[0], body)
                data = b"" if said is None else json.dumps(said).encode()
                writer.write(
                    b"HTTP/1.1 %d X\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
                    % (status, len(data))
                    + data
                )
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer(self, verb: str, body: bytes) -> tuple[int, Mapping[str, Any] | None]:
        if verb != "POST":
            return 405, None
        message = json.loads(body)
        match message["method"]:
            case "initialize":
                result: Any = {
                    "protocolVersion": "2025-11-25",
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "mail", "version": "1"},
                }
            case "tools/list":
                result = {"tools": [{"name": "good", "inputSchema": {"type": "object"}}]}
            case "tools/call":
                self.asked.set()
                await self.go.wait()
                result = {"content": [{"type": "text", "text": "what was read"}]}
            case _ if "id" not in message:
                return 202, None
            case _:
                error = {"code": -32601, "message": "no"}
                return 200, {"jsonrpc": "2.0", "id": message["id"], "error": error}
        return 200, {"jsonrpc": "2.0", "id": message["id"], "result": result}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setattr(reload, "awatch", nothing_is_told)
    monkeypatch.setattr(tenure, "DRAIN_S", 0.2)
    made = Place(tmp_path)
    made.rule.write_text(_ALL)
    return made


@asynccontextmanager
async def called(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[Gateway, Slow, Callable[[], Any]]]:
    """Yield a gateway with a slow server behind it, and how its tool is called."""

    emma: Principal = replace(principal(), scopes=_EVERYTHING, expires_at=9e12, people=None)

    async def somebody(*_: object) -> Principal:
        return emma

    monkeypatch.setattr(TokenGate, "authenticate", somebody)
    slow = Slow()
    upstream = await asyncio.start_server(slow.serve, "127.0.0.1", 0)
    port = upstream.sockets[0].getsockname()[1]
    place.write(servers={"mail": {"url": f"http://127.0.0.1:{port}/mcp"}})
    try:
        async with running(place) as gateway:
            pins = gateway._store.pins
            for pin in pins.all():
                digest = str(pin.observed.digest)
                await pins.approve(pin.target, pin.profile, expected=digest, by="me", note="")
            yield gateway, slow, lambda: _call(gateway)
    finally:
        upstream.close()


async def _call(gateway: Gateway) -> list[Any]:
    """Call the tool; return what was sent back, once the gateway is done with it."""
    params = {"name": "good", "arguments": {}}
    content = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    body = json.dumps(content).encode()
    fields = {
        "host": "127.0.0.1:8080",
        "authorization": "Bearer x",
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2025-11-25",
        "content-length": str(len(body)),
    }
    scope: dict[str, Any] = {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/mcp/mail",
        "raw_path": b"/mcp/mail",
        "query_string": b"",
        "headers": [(name.encode(), text.encode()) for name, text in fields.items()],
        "client": ("127.0.0.1", 5),
        "server": ("127.0.0.1", 8080),
        "root_path": "",
    }
    arriving, sent = [body], list[Any]()

    async def receive() -> Mapping[str, Any]:
        if not arriving:  # the client stays
            await asyncio.Event().wait()
        return {"type": "http.request", "body": arriving.pop(), "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    try:
        await gateway.serve(scope, cast("Any", receive), send)
    except asyncio.CancelledError:
        sent.append("cut off")
    return sent


async def ended(gateway: Gateway) -> None:
    """Return once no earlier configuration is there any more."""
    async with asyncio.timeout(30):
        await asyncio.gather(*gateway._ending)


async def outcome(gateway: Gateway) -> Mapping[str, Any]:
    """Return the record of what came of the one call, which is in the log a moment later."""
    assert isinstance(gateway._store, Store)
    async with asyncio.timeout(30):
        while True:
            with closing(gateway._store.log.reader()) as reader:
                for one in reader.export():
                    if one["kind"] == "outcome":
                        return one
            await asyncio.sleep(0.05)


async def test_a_call_that_goes_on_too_long_after_a_reload_is_cut_off_on_record(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its server stays as it is, so nothing else would end it."""
    async with called(place, monkeypatch) as (gateway, slow, call):
        calling = asyncio.create_task(call())
        await asyncio.wait_for(slow.asked.wait(), 60)
        before = gateway._tenure
        place.write(tenant={"domains": ["second.example"]})
        await gateway.take_up()
        assert gateway._tenure is not before
        await ended(gateway)
        assert calling.done()
        assert await calling == ["cut off"]
        slow.go.set()
        assert (await outcome(gateway))["code"] == "client_gone"


async def test_a_call_that_is_done_in_time_is_not_cut_off(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tenure, "DRAIN_S", 60)
    async with called(place, monkeypatch) as (gateway, slow, call):
        calling = asyncio.create_task(call())
        await asyncio.wait_for(slow.asked.wait(), 60)
        place.write(tenant={"domains": ["second.example"]})
        await gateway.take_up()
        slow.go.set()
        start, end = await asyncio.wait_for(calling, 30)
        assert (start["status"], b"what was read" in end["body"]) == (200, True)
        await ended(gateway)


async def test_a_plane_keeps_what_was_in_force_no_longer_than_a_call_does(place: Place) -> None:
    async with running(place) as gateway:
        held = asyncio.Event()

        async def asks() -> None:
            with gateway.for_planes():
                held.set()
                await asyncio.Event().wait()

        asking = asyncio.create_task(asks())
        await held.wait()
        place.write(tenant={"domains": ["second.example"]})
        await gateway.take_up()
        await ended(gateway)
        with pytest.raises(PolicyUnavailable):  # which it can tell its plane
            await asyncio.wait_for(asking, 1)


async def test_nothing_is_decided_by_what_was_in_force(place: Place) -> None:
    """Whatever outlives it all the same has nobody to ask."""
    async with running(place) as gateway:
        before = gateway._tenure.runtime
        place.write(tenant={"domains": ["second.example"]})
        await gateway.take_up()
        await ended(gateway)
        with pytest.raises(PolicyUnavailable):
            await before.policy.evaluate(GOOD)


async def test_the_streams_that_are_kept_of_its_calls_end_with_a_configuration() -> None:
    cut: list[object] = []

    async def end(of: object) -> None:
        cut.append(of)

    notices: Any = SimpleNamespace(
        run=asyncio.Event().wait, here=object(), calls=SimpleNamespace(cut=end)
    )
    async with telling(notices):
        assert cut == []
    assert cut == [notices.here]
