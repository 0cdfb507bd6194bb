"""Another program is asked which tools fit: it hears of what it is given, and its word is checked."""

import json
import logging
from typing import Any

import pytest

from gateway.search.subagent import Subagent
from tests.upstream.outside import LOOPBACK, Outside, WebServer, answer, web_server

TOOLS = {"mail__send": "Sends a mail.", "notes__read": "Reads a note. " + "x" * 2_000}


async def chosen(
    reply: bytes, *, limit: int = 5, token: str = "", whole_s: float = 5.0
) -> tuple[Any, WebServer]:
    async with web_server(reply) as server:
        outside = Outside(policy=LOOPBACK, whole_s=whole_s)
        url = f"http://127.0.0.1:{server.port}/choose"
        subagent = Subagent(url, fetcher=outside.fetcher, token=token)
        return await subagent.choose("send it", tools=TOOLS, limit=limit), server


def saying(*names: object) -> bytes:
    return answer(json.dumps({"tools": names}).encode())


async def test_it_is_asked_with_the_request_and_the_tools_and_nothing_else() -> None:
    found, server = await chosen(saying("notes__read", "mail__send"), token="tok")
    assert found == ["notes__read", "mail__send"]
    (request,) = server.requests
    head, _, body = request.partition(b"\r\n\r\n")
    lines = head.decode().lower().split("\r\n")
    assert lines[0] == "post /choose http/1.1"
    assert sorted(line.partition(":")[0] for line in lines[1:]) == [
        "accept",
        "accept-encoding",
        "authorization",
        "connection",
        "content-length",
        "content-type",
        "host",
        "user-agent",
    ]
    assert "authorization: bearer tok" in lines
    assert json.loads(body) == {
        "query": "send it",
        "limit": 5,
        "tools": [
            {"name": "mail__send", "description": "Sends a mail."},
            {"name": "notes__read", "description": TOOLS["notes__read"][:1_000]},
        ],
    }


async def test_without_a_token_none_is_sent() -> None:
    _, server = await chosen(saying())
    assert b"authorization" not in server.requests[0].lower()


async def test_names_that_it_was_not_given_are_left_out() -> None:
    named = ("other__tool", "mail__send", "mail__send", "notes__read")
    assert (await chosen(saying(*named)))[0] == ["mail__send", "notes__read"]
    assert (await chosen(saying(*named), limit=1))[0] == ["mail__send"]
    assert (await chosen(saying()))[0] == []


@pytest.mark.parametrize(
    "reply",
    [
        answer(b"{}", status="500 Oops"),
        answer(json.dumps({"tools": ["mail__send"]}).encode(), status="201 Created"),
        answer(b"{}"),
        answer(b'{"tools": "mail__send"}'),
        answer(b'{"tools": [1]}'),
        answer(b"[]"),
        answer(b"not json"),
        answer(b'{"tools": ["' + b"x" * 2_000 + b'"]}'),
        answer(b"", status="302 Found", headers={"location": "http://127.0.0.1:1/"}),
    ],
    ids=["fails", "created", "nothing", "text", "numbers", "list", "no-json", "large", "elsewhere"],
)
async def test_an_answer_that_is_none_is_told_to_the_operator(
    reply: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    assert (await chosen(reply))[0] is None
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage().startswith("discovery.subagent: ")
    assert "send it" not in record.getMessage()


async def test_one_that_hangs_is_no_answer() -> None:
    hanging = b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{"
    assert (await chosen(hanging, whole_s=0.05))[0] is None
