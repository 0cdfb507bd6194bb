"""Whoever has no key takes nobody's place, is read nothing of, and locks nobody out."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from gateway.domain.planes import Plane
from gateway.planes import doorman, ext_authz, ext_mcp, ext_proc, server
from gateway.planes.exchange import ATTRIBUTES, ROUTE
from gateway.planes.server import Listening, listening
from gateway.planes.stubs import envoy_pb2
from tests.pipeline.house import House
from tests.planes.asking import (
    CLAIMED,
    KEY,
    PLANE,
    SILENT,
    answered,
    call,
    claimed,
    headers,
    in_force,
    lease,
    mirrored,
    on_record,
    opened_house,
)
from tests.planes.test_grpc_listener import AGENT, AUTH, asked, checked, method, status_of

house = pytest.fixture(opened_house)

WRONG = (("authorization", "Bearer nobody"),)
OTHER = "o" * 40


class Unread(list[tuple[str, str]]):
    """Codes and addresses of what is refused unread."""

    def __call__(self, code: str, address: str) -> None:
        self.append((code, address))


@asynccontextmanager
async def planes(
    house: House, folder: Path, *them: Plane, unread: Unread | None = None
) -> AsyncIterator[grpc.aio.Channel]:
    """Serve several planes, or count what is refused unread, and connect."""
    address = f"unix:{folder / 'p.sock'}"
    force = replace(
        in_force(house),
        planes={plane.name: plane for plane in them},
        refused_unread=unread if unread is not None else Unread(),
    )
    where = Listening(address=address, tls=None, most_bytes=1 << 20, drain_s=1.0)
    async with (
        listening(where, partial(lease, force)),
        grpc.aio.insecure_channel(address) as channel,
    ):
        yield channel


@pytest.fixture
def held(house: House, monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Until it is set, no refusal is put on record."""
    free, refuse = asyncio.Event(), house.traffic.refuse

    async def waits(*args: Any, **more: Any) -> Any:
        async with asyncio.timeout(60):
            await free.wait()
        return await refuse(*args, **more)

    monkeypatch.setattr(house.traffic, "refuse", waits)
    return free


async def test_nobody_may_watch_whether_it_serves(house: House, tmp_path: Path) -> None:
    async with asked(house, SILENT, tmp_path) as channel:
        watching = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await anext(aiter(watching))
        assert raised.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_nobody_keeps_a_place_by_asking_for_health_without_a_word(
    house: House, tmp_path: Path
) -> None:
    async with asked(house, SILENT, tmp_path) as channel:
        asks: Any = channel.stream_unary(
            "/grpc.health.v1.Health/Check",
            response_deserializer=health_pb2.HealthCheckResponse.FromString,
        )
        async with asyncio.timeout(60):
            assert (await asks()).status == health_pb2.HealthCheckResponse.SERVING


@pytest.mark.parametrize(
    "path",
    [f"/{ext_authz.SERVICE}/Check", f"/{ext_mcp.SERVICE}/CheckRequest"],
)
@pytest.mark.parametrize("message", [b"\xff\xff", b"x" * (3 << 20)])
async def test_nothing_of_a_strangers_message_is_read(
    house: House, tmp_path: Path, path: str, message: bytes
) -> None:
    async with asked(house, AGENT, tmp_path) as channel:
        asks: Any = channel.unary_unary(path)
        assert await status_of(asks(message, metadata=WRONG)) is grpc.StatusCode.UNAUTHENTICATED


async def test_no_message_is_no_question(house: House, tmp_path: Path) -> None:
    unread = Unread()
    async with planes(house, tmp_path, SILENT, unread=unread) as channel:
        asks: Any = channel.stream_unary(f"/{ext_authz.SERVICE}/Check")
        nothing: Sequence[bytes] = ()
        asking = asks(iter(nothing), metadata=AUTH)
        assert await status_of(asking) is grpc.StatusCode.INVALID_ARGUMENT
    assert unread == [("protocol_error", "127.0.0.1")]


async def test_a_message_that_does_not_come_gives_its_place_back(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doorman, "_MESSAGE_S", 0.01)
    unread = Unread()
    async with planes(house, tmp_path, SILENT, unread=unread) as channel:
        asks: Any = channel.stream_unary(f"/{ext_authz.SERVICE}/Check")
        assert await status_of(asks(metadata=AUTH)) is grpc.StatusCode.DEADLINE_EXCEEDED
    assert unread == [("slow_body", "127.0.0.1")]


def head() -> envoy_pb2.ProcessingRequest:
    """Return the head of a POST, as Envoy shows it."""
    kind = ("content-type", "application/json")
    pairs = [(":method", "POST"), (":path", "/mcp/gh"), kind, *mirrored(call())]
    request = envoy_pb2.ProcessingRequest(
        request_headers=envoy_pb2.HttpHeaders(headers=headers(pairs)),
        metadata_context=claimed(CLAIMED),
    )
    request.protocol_config.request_body_mode = envoy_pb2.BodySendMode.BUFFERED
    request.protocol_config.response_body_mode = envoy_pb2.BodySendMode.BUFFERED
    request.attributes[ATTRIBUTES].update({ROUTE: "gh"})
    return request


def impatient(monkeypatch: pytest.MonkeyPatch, at: int) -> list[int]:
    """Have the wait of this number, of those that have an end, be over at once; return all of them."""
    waits: list[int] = []

    async def waited(*args: Any) -> Any:
        waits.append(len(waits) + 1)
        monkeypatch.setattr(doorman, "_MESSAGE_S", 0.01 if waits[-1] == at else 60.0)
        return await doorman.in_good_time(*args)

    monkeypatch.setattr(ext_proc, "in_good_time", waited)
    return waits


@pytest.mark.parametrize("at", [1, 2])
async def test_a_request_of_which_the_rest_does_not_come_is_judged_by_nothing_later(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    impatient(monkeypatch, at)
    unread = Unread()
    async with planes(house, tmp_path, PLANE, unread=unread) as channel:
        stream = method(channel, "Process")(metadata=AUTH)
        if at > 1:
            await stream.write(head())
            assert (await stream.read()).HasField("request_headers")
        async with asyncio.timeout(20):
            assert await stream.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert unread == [("slow_body", "127.0.0.1")]
    assert on_record(house) == []


async def test_how_long_a_server_has_for_its_answer_is_for_envoy_to_say(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = impatient(monkeypatch, 3)
    unread = Unread()
    async with planes(house, tmp_path, PLANE, unread=unread) as channel:
        stream = method(channel, "Process")(metadata=AUTH)
        await stream.write(head())
        await stream.read()
        body = envoy_pb2.HttpBody(body=call(), end_of_stream=True)
        await stream.write(envoy_pb2.ProcessingRequest(request_body=body))
        sent = (await stream.read()).request_body.response.body_mutation.body or call()
        pairs = headers([(":status", "200"), ("content-type", "application/json")])
        back = envoy_pb2.HttpHeaders(headers=pairs)
        await stream.write(envoy_pb2.ProcessingRequest(response_headers=back))
        await stream.read()
        body = envoy_pb2.HttpBody(body=answered(id_=json.loads(sent)["id"]), end_of_stream=True)
        await stream.write(envoy_pb2.ProcessingRequest(response_body=body))
        assert b"found" in (await stream.read()).response_body.response.body_mutation.body
        await stream.done_writing()
        assert await stream.code() is grpc.StatusCode.OK
    assert (waits, unread) == ([1, 2], [])


async def test_strangers_take_no_place_of_a_planes(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: asyncio.Event
) -> None:
    monkeypatch.setattr("gateway.planes.server.MOST_AT_ONCE", 1)
    async with asked(house, SILENT, tmp_path) as channel:
        check = method(channel, "Check")
        strangers = [check(checked(call()), metadata=WRONG) for _ in range(8)]
        assert (await check(checked(call()), metadata=AUTH)).HasField("ok_response")
        held.set()
        for stranger in strangers:
            assert await status_of(stranger) is grpc.StatusCode.UNAUTHENTICATED


async def test_a_plane_leaves_places_to_others(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each plane has three quarters of the places at most."""
    monkeypatch.setattr("gateway.planes.server.MOST_AT_ONCE", 4)
    other = replace(SILENT, name="other", key_digest=sha256(OTHER.encode()).digest())
    unread = Unread()
    async with planes(house, tmp_path, PLANE, other, unread=unread) as channel:
        streams = [method(channel, "Process")(metadata=AUTH) for _ in range(4)]
        codes = {asyncio.ensure_future(stream.code()) for stream in streams}
        (refused,), _ = await asyncio.wait(codes, return_when=asyncio.FIRST_COMPLETED)
        assert refused.result() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert unread == [("busy", "127.0.0.1")]
        asking = method(channel, "Check")(
            checked(call()), metadata=(("authorization", f"Bearer {OTHER}"),)
        )
        assert (await asking).HasField("ok_response")
        for stream in streams:
            stream.cancel()


async def test_wrong_keys_are_bounded_and_lock_no_good_one_out(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doorman, "_MOST_FAILURES", 3)
    unread = Unread()
    async with planes(house, tmp_path, SILENT, unread=unread) as channel:
        check = method(channel, "Check")
        found = [await status_of(check(checked(call()), metadata=WRONG)) for _ in range(5)]
        assert (
            found
            == [grpc.StatusCode.UNAUTHENTICATED] * 3 + [grpc.StatusCode.RESOURCE_EXHAUSTED] * 2
        )
        assert len(on_record(house)) == 3
        assert unread == [("throttled", "127.0.0.1")] * 2
        assert (await check(checked(call()), metadata=AUTH)).HasField("ok_response")


async def test_only_so_many_refusals_wait_for_their_record(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: asyncio.Event
) -> None:
    monkeypatch.setattr(doorman, "_MOST_STRANGERS", 1)
    async with asked(house, SILENT, tmp_path) as channel:
        check = method(channel, "Check")
        both = {
            asyncio.ensure_future(status_of(check(checked(call()), metadata=WRONG))) for _ in "ab"
        }
        (first,), (last,) = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        assert first.result() is grpc.StatusCode.RESOURCE_EXHAUSTED
        held.set()
        assert await last is grpc.StatusCode.UNAUTHENTICATED


def test_a_key_is_told_from_others_by_all_of_it() -> None:
    force = replace(in_force(House()), planes={"edge": PLANE})
    assert doorman._holder(force, KEY) is PLANE
    assert doorman._holder(force, KEY + "k") is None
    assert doorman._holder(force, "") is None


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04\x00" + bytes(4)
"""What an HTTP/2 client says first (RFC 9113 section 3.4), with no settings of its own."""


@pytest.mark.parametrize(("bound", "says"), [("_HANDSHAKE_MS", b""), ("_IDLE_MS", PREFACE)])
async def test_a_connection_on_which_nobody_asks_ends(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str, says: bytes
) -> None:
    for each in ("_HANDSHAKE_MS", "_IDLE_MS"):
        monkeypatch.setattr(server, each, 50 if each == bound else 600_000)
    async with asked(house, SILENT, tmp_path), asyncio.timeout(30):
        reader, writer = await asyncio.open_unix_connection(tmp_path / "p.sock")
        with closing(writer):
            writer.write(says)
            with suppress(ConnectionResetError):  # the end too, where something of it was not read
                await reader.read()


async def test_only_so_many_connect(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_MOST_CONNECTIONS", 1)
    async with asked(house, SILENT, tmp_path) as channel:
        check = method(channel, "Check")
        assert (await check(checked(call()), metadata=AUTH)).HasField("ok_response")
        async with asyncio.timeout(30):
            reader, writer = await asyncio.open_unix_connection(tmp_path / "p.sock")
            with closing(writer):
                assert await reader.read() == b""
