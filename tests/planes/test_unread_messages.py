"""What a message of a plane's tells beside its body is bounded before anything is made of it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message

from gateway.domain.planes import Plane
from gateway.planes import ext_authz, ext_mcp, ext_proc
from gateway.planes.structs import Unexpected
from gateway.planes.stubs import envoy_pb2, ext_mcp_pb2
from gateway.planes.unread import MOST_BESIDE, reading
from tests.pipeline.house import House
from tests.planes.asking import PLANE, SILENT, call, opened_house
from tests.planes.test_grpc_listener import AGENT, AUTH, status_of
from tests.planes.test_strangers_by_grpc import Unread, head, planes

house = pytest.fixture(opened_house)


def number(value: int) -> bytes:
    octets = bytearray()
    while value > 127:
        octets.append(value & 127 | 128)
        value >>= 7
    return bytes([*octets, value])


def field(at: int, content: bytes) -> bytes:
    """Return a field that says its length, as it is written."""
    return number(at << 3 | 2) + number(len(content)) + content


CHECK = f"/{ext_authz.SERVICE}/Check"
PROCESS = f"/{ext_proc.SERVICE}/Process"
ASKED = f"/{ext_mcp.SERVICE}/CheckRequest"
GIVEN = f"/{ext_mcp.SERVICE}/CheckResponse"
EMPTY = MOST_BESIDE // 64 + 1
"""Fields that hold nothing, and are one more than there is room for."""
MANY = MOST_BESIDE // 2
"""Such as stand in another one."""


def in_http(content: bytes) -> bytes:
    """Return what `ext_authz` shows of a request by HTTP."""
    return field(1, field(4, field(2, content)))


def struct(content: bytes) -> bytes:
    return field(1, field(1, b"a") + field(2, field(6, content)))


HEAVY = [
    (SILENT, CHECK, in_http(field(13, field(1, b"") * MANY))),
    (PLANE, PROCESS, field(9, b"") * EMPTY),
    (AGENT, ASKED, field(5, b"") * EMPTY),
    (AGENT, GIVEN, field(3, struct(field(1, b"") * MANY))),
]


def asked(channel: grpc.aio.Channel, path: str, message: bytes) -> Any:
    """Return a call of a method with what is no message of any stub."""
    if path == PROCESS:
        stream: Any = channel.stream_unary(path)
        return stream(iter([message]), metadata=AUTH)
    call: Any = channel.unary_unary(path)
    return call(message, metadata=AUTH)


@pytest.mark.parametrize(("plane", "path", "message"), HEAVY)
async def test_what_tells_too_much_beside_its_body_is_counted_and_not_read(
    house: House, tmp_path: Path, plane: Plane, path: str, message: bytes
) -> None:
    unread = Unread()
    async with planes(house, tmp_path, plane, unread=unread) as channel:
        with pytest.raises(grpc.aio.AioRpcError, match="more than 256 KiB") as raised:
            await asked(channel, path, message)
        assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert unread == [("protocol_error", "127.0.0.1")]


@pytest.mark.parametrize(
    ("plane", "path"), [(SILENT, CHECK), (PLANE, PROCESS), (AGENT, ASKED), (AGENT, GIVEN)]
)
async def test_what_is_no_message_is_counted(
    house: House, tmp_path: Path, plane: Plane, path: str
) -> None:
    unread = Unread()
    async with planes(house, tmp_path, plane, unread=unread) as channel:
        assert await status_of(asked(channel, path, b"\xff\xff")) is (
            grpc.StatusCode.INVALID_ARGUMENT
        )
    assert unread == [("protocol_error", "127.0.0.1")]


async def test_an_answer_that_is_not_read_is_none(house: House, tmp_path: Path) -> None:
    unread = Unread()
    async with planes(house, tmp_path, PLANE, unread=unread) as channel:
        asks: Any = channel.stream_stream(PROCESS)
        stream = asks(metadata=AUTH)
        await stream.write(head().SerializeToString())
        await stream.read()
        body = envoy_pb2.HttpBody(body=call(), end_of_stream=True)
        await stream.write(envoy_pb2.ProcessingRequest(request_body=body).SerializeToString())
        await stream.read()
        await stream.write(field(9, b"") * EMPTY)
        assert await stream.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert unread == [("protocol_error", "127.0.0.1")]


OF_CHECKS = reading(
    envoy_pb2.CheckRequest, "attributes.request.http.body", "attributes.request.http.raw_body"
)
OF_EXCHANGES = reading(envoy_pb2.ProcessingRequest, "request_body.body", "response_body.body")
OF_CALLS = reading(ext_mcp_pb2.McpRequest, "mcp_request")
BODY = b"x" * (4 * MOST_BESIDE)
ENDLESS = field(1, b"")[:1]
"""What no message ends with: whoever made one of it would find that."""


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (OF_CHECKS, in_http(field(3, b"") * EMPTY)),
        (OF_CHECKS, in_http(field(3, b"")) * EMPTY),
        (OF_CHECKS, in_http(field(12, b"") * EMPTY)),
        (OF_CHECKS, in_http(field(13, BODY))),
        (OF_CHECKS, field(1, field(11, b"") * EMPTY)),
        (OF_CHECKS, field(12, BODY)),
        (OF_EXCHANGES, field(2, field(1, field(1, b"") * MANY))),
        (OF_EXCHANGES, field(2, field(1, BODY))),
        (OF_EXCHANGES, field(4, field(3, b"") * EMPTY)),
        (OF_EXCHANGES, field(5, b"") * EMPTY),
        (OF_CALLS, field(4, b"") * EMPTY),
        (OF_CALLS, (number(99 << 3) + number(1)) * EMPTY),
        (OF_CALLS, (number(99 << 3 | 1) + bytes(8)) * EMPTY),
        (OF_CALLS, (number(99 << 3 | 5) + bytes(4)) * EMPTY),
    ],
)
def test_nothing_is_made_of_what_tells_too_much(
    read: Callable[[bytes], Any], message: bytes
) -> None:
    with pytest.raises(Unexpected, match="more than 256 KiB"):
        read(message + ENDLESS)


@pytest.mark.parametrize(
    "message",
    [
        ENDLESS,
        b"\xff" * 11,
        field(1, b"a")[:-1],
        number(4 << 3 | 2) + number(1 << 63),
        number(99 << 3 | 1) + bytes(7),
        number(99 << 3 | 5) + bytes(3),
        number(99 << 3 | 3) + field(1, b"a") * 4 + number(99 << 3 | 4),
        number(99 << 3 | 7),
        field(2, b"\xff"),
    ],
)
def test_what_cannot_be_read_is_no_message(message: bytes) -> None:
    with pytest.raises(Unexpected, match="no message"):
        OF_CALLS(message)


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (
            OF_CHECKS,
            envoy_pb2.CheckRequest(
                attributes=envoy_pb2.AttributeContext(
                    request=envoy_pb2.Request(http=envoy_pb2.HttpRequest(path="/", raw_body=BODY))
                )
            ),
        ),
        (
            OF_CHECKS,
            envoy_pb2.CheckRequest(
                attributes=envoy_pb2.AttributeContext(
                    request=envoy_pb2.Request(http=envoy_pb2.HttpRequest(body=BODY.decode()))
                )
            ),
        ),
        (
            OF_EXCHANGES,
            envoy_pb2.ProcessingRequest(request_body=envoy_pb2.HttpBody(body=BODY)),
        ),
        (
            OF_EXCHANGES,
            envoy_pb2.ProcessingRequest(
                response_body=envoy_pb2.HttpBody(body=BODY, end_of_stream=True)
            ),
        ),
        (OF_CALLS, ext_mcp_pb2.McpRequest(method="tools/call", mcp_request=BODY)),
        (OF_CALLS, ext_mcp_pb2.McpRequest()),
    ],
)
def test_a_body_has_all_the_room_there_is(read: Callable[[bytes], Any], message: Message) -> None:
    assert read(message.SerializeToString()) == message


def test_what_a_newer_plane_tells_besides_is_passed_over() -> None:
    shown = ext_mcp_pb2.McpRequest(method="tools/call", mcp_request=b"{}")
    more = field(99, b"new") + number(98 << 3 | 1) + bytes(8) + number(97 << 3 | 5) + bytes(4)
    assert OF_CALLS(more + number(96 << 3) + number(1 << 63) + shown.SerializeToString()).method
