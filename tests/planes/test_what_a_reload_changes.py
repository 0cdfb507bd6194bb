"""Planes ask by gRPC for as long as they like; each part is judged by what is in force when it comes."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import grpc
import pytest

from gateway.domain.planes import Plane
from gateway.errors import PolicyUnavailable
from gateway.planes import ext_authz, ext_mcp
from gateway.planes.in_force import InForce
from gateway.planes.server import Listening, listening
from gateway.planes.stubs import envoy_pb2
from tests.pipeline.house import House
from tests.planes.asking import PLANE, SILENT, answered, call, headers, in_force, opened_house
from tests.planes.test_grpc_listener import AGENT, AUTH, checked, method, request, status_of
from tests.planes.test_strangers_by_grpc import head

house = pytest.fixture(opened_house)


class Leases:
    """What is in force, which a test changes, and how many have it."""

    def __init__(self, force: InForce) -> None:
        self.force = force
        self.held = 0
        self.given_back = asyncio.Event()
        self.cuts: int | None = None
        """Which of them is cut off."""

    @contextmanager
    def __call__(self) -> Iterator[InForce]:
        self.held += 1
        try:
            yield self.force
            if self.cuts is not None:
                self.cuts -= 1
                if not self.cuts:
                    raise PolicyUnavailable("another configuration is in force by now")
        finally:
            self.held -= 1
            self.given_back.set()


@asynccontextmanager
async def asked(house: House, plane: Plane, folder: Path) -> AsyncIterator[tuple[Leases, Any]]:
    address = f"unix:{folder / 'p.sock'}"
    leases = Leases(in_force(house, plane))
    where = Listening(address=address, tls=None, most_bytes=1 << 20, drain_s=1.0)
    async with (
        listening(where, leases),
        grpc.aio.insecure_channel(address) as channel,
    ):
        yield leases, channel


async def sent(stream: Any) -> None:
    """Have a request let through, whose answer is still to come."""
    await stream.write(head())
    await stream.read()
    body = envoy_pb2.HttpBody(body=call(), end_of_stream=True)
    await stream.write(envoy_pb2.ProcessingRequest(request_body=body))
    assert (await stream.read()).HasField("request_body")


async def came_back(stream: Any) -> Any:
    """Tell the answer, and return what of it is given out."""
    pairs = headers([(":status", "200"), ("content-type", "application/json")])
    back = envoy_pb2.HttpHeaders(headers=pairs)
    await stream.write(envoy_pb2.ProcessingRequest(response_headers=back))
    await stream.read()
    body = envoy_pb2.HttpBody(body=answered(), end_of_stream=True)
    await stream.write(envoy_pb2.ProcessingRequest(response_body=body))
    return await stream.read()


async def test_an_answer_is_judged_by_what_is_in_force_when_it_comes(
    house: House, tmp_path: Path
) -> None:
    """A server may take longer than any configuration lasts."""
    other = await opened_house()
    async with asked(house, PLANE, tmp_path) as (leases, channel):
        stream = method(channel, "Process")(metadata=AUTH)
        await sent(stream)
        assert leases.held == 0
        leases.force = in_force(other)  # by which nobody was let through
        assert (await came_back(stream)).HasField("immediate_response")
    assert other.audit.records[-1].fields["reasons"][-1]["code"] == "reported_before"


async def test_an_answer_that_comes_after_a_reload_is_given_out(
    house: House, tmp_path: Path
) -> None:
    async with asked(house, PLANE, tmp_path) as (leases, channel):
        stream = method(channel, "Process")(metadata=AUTH)
        await sent(stream)
        leases.force = in_force(house, replace(PLANE, deadline_s=50.0))
        given = await came_back(stream)
    assert b"found" in given.response_body.response.body_mutation.body


KEY = sha256(b"another").digest()


@pytest.mark.parametrize(
    "now",
    [None, replace(PLANE, key_digest=KEY), replace(PLANE, name="other"), SILENT],
    ids=["removed", "another key", "another name", "another kind"],
)
async def test_what_is_no_plane_any_more_is_told_nothing_further(
    house: House, tmp_path: Path, now: Plane | None
) -> None:
    async with asked(house, PLANE, tmp_path) as (leases, channel):
        stream = method(channel, "Process")(metadata=AUTH)
        await sent(stream)
        planes = {} if now is None else {now.name: now}
        leases.force = replace(leases.force, planes=planes)
        back = envoy_pb2.HttpHeaders(headers=headers([(":status", "200")]))
        await stream.write(envoy_pb2.ProcessingRequest(response_headers=back))
        assert await stream.code() is grpc.StatusCode.UNAUTHENTICATED


@pytest.mark.parametrize(
    ("plane", "path"),
    [
        (SILENT, f"/{ext_authz.SERVICE}/Check"),
        (AGENT, f"/{ext_mcp.SERVICE}/CheckRequest"),
        (AGENT, f"/{ext_mcp.SERVICE}/CheckResponse"),
    ],
)
async def test_nothing_is_kept_of_what_is_in_force_while_a_message_is_on_its_way(
    house: House, tmp_path: Path, plane: Plane, path: str
) -> None:
    async with asked(house, plane, tmp_path) as (leases, channel):
        asks: Any = channel.stream_unary(path)(metadata=AUTH)
        await asyncio.wait_for(leases.given_back.wait(), 60)
        assert leases.held == 0
        asks.cancel()


@pytest.mark.parametrize("door", ["Check", "Process", "CheckRequest"])
async def test_whoever_is_cut_off_is_told(house: House, tmp_path: Path, door: str) -> None:
    """A call that was only cancelled would have its plane wait for nothing."""
    plane = {"Check": SILENT, "Process": PLANE, "CheckRequest": AGENT}[door]
    async with asked(house, plane, tmp_path) as (leases, channel), asyncio.timeout(60):
        leases.cuts = 2  # once it is known who asks
        asks = method(channel, door)
        if door == "CheckRequest":
            assert (await asks(request(), metadata=AUTH)).HasField("error")
        elif door == "Check":
            asking = asks(checked(call()), metadata=AUTH)
            assert await status_of(asking) is grpc.StatusCode.UNAVAILABLE
        else:
            stream = asks(metadata=AUTH)
            await stream.write(head())
            assert (await stream.read()).immediate_response.status.code == 500
            assert await stream.code() is grpc.StatusCode.UNAVAILABLE
