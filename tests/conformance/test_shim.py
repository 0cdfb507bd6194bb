"""The proxy of the conformance report adds a token, and is otherwise not there."""

import asyncio
import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

from benchmarks.conformance.renaming import renaming
from benchmarks.conformance.shim import Shim, shim
from tests.servers.process import free_port
from tests.servers.raw import RawUpstream, answers, hangs, raw_upstream, streams

EVENT = b"id: 1\ndata: {}\n\n"


@contextmanager
def in_front_of(upstream: RawUpstream) -> Iterator[Shim]:
    port = urlsplit(upstream.url).port
    assert port is not None
    with shim(free_port(), port) as proxy:
        proxy.token = "t0ken"
        yield proxy


def post(proxy: Shim, path: str, headers: dict[str, str], body: bytes = b"{}") -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=60)
    connection.request("POST", path, body, headers)
    with connection.getresponse() as answer:
        body = answer.read()
    connection.close()
    return body


async def test_what_the_client_wrote_arrives_as_it_is_and_the_token_besides():
    sent = {"Host": "evil.example.com", "Origin": "http://evil.example.com", "Mcp-Name": " a "}
    async with raw_upstream(answers(b"{}")) as upstream:
        with in_front_of(upstream) as proxy:
            assert await asyncio.to_thread(post, proxy, "/mcp/fixture", sent) == b"{}"
    (seen,) = upstream.seen
    assert (seen.headers["host"], seen.headers["origin"]) == (sent["Host"], sent["Origin"])
    assert (seen.headers["authorization"], seen.body) == ("Bearer t0ken", b"{}")


@pytest.mark.parametrize("path", ["/oauth/token", "/mcp", "/"])
async def test_the_token_is_for_mcp_endpoints_only(path: str):
    async with raw_upstream(answers(b"{}")) as upstream:
        with in_front_of(upstream) as proxy:
            await asyncio.to_thread(post, proxy, path, {})
    assert "authorization" not in upstream.seen[0].headers


@pytest.mark.parametrize(
    ("method", "params", "named"),
    [
        ("tools/call", {"name": "a"}, {"name": "fixture__a"}),
        ("resources/read", {"uri": "x://a"}, {"uri": "douane://fixture/x://a"}),
        ("tools/list", {"name": "a"}, {"name": "a"}),
        (
            "subscriptions/listen",
            {"notifications": {"resourceSubscriptions": ["x://a"]}},
            {"notifications": {"resourceSubscriptions": ["douane://fixture/x://a"]}},
        ),
        (
            "completion/complete",
            {"ref": {"type": "ref/prompt", "name": "a"}},
            {"ref": {"type": "ref/prompt", "name": "fixture__a"}},
        ),
    ],
)
async def test_in_front_names_are_put_in_front_and_taken_away_again(
    method: str, params: dict[str, Any], named: dict[str, Any]
):
    answered = b'{"tools": [{"name": "fixture__a"}], "uri": "douane://fixture/x://a"}'
    async with raw_upstream(answers(answered)) as upstream:
        port = urlsplit(upstream.url).port
        assert port is not None
        with renaming(free_port(), port, "fixture") as proxy:
            proxy.token, proxy.front_token = "t0ken", "other"
            body = json.dumps({"method": method, "params": params}).encode()
            back = await asyncio.to_thread(post, proxy, "/mcp", {"Mcp-Name": " a "}, body)
            await asyncio.to_thread(post, proxy, "/mcp/fixture", {"Mcp-Name": "a"}, body)
    assert back == b'{"tools": [{"name": "a"}], "uri": "x://a"}'
    front, relayed = upstream.seen
    assert json.loads(front.body)["params"] == named
    assert front.headers["authorization"] == "Bearer other"
    assert (relayed.body, relayed.headers["authorization"]) == (body, "Bearer t0ken")
    assert relayed.headers["mcp-name"] == "a"


async def test_an_event_arrives_before_the_stream_has_ended():
    async with raw_upstream(streams(EVENT, then=hangs)) as upstream:
        with in_front_of(upstream) as proxy:
            reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
            writer.write(b"GET /mcp/fixture HTTP/1.1\r\nHost: a\r\n\r\n")
            async with asyncio.timeout(60):
                assert EVENT in await reader.readuntil(EVENT)
            writer.close()
            await writer.wait_closed()
            await upstream.until_left()


async def test_what_the_server_ends_is_ended_for_the_client():
    async with raw_upstream(streams(EVENT)) as upstream:
        with in_front_of(upstream) as proxy:
            body = await asyncio.to_thread(post, proxy, "/mcp/fixture", {})
    assert body == EVENT
