"""A head that is said again on a connection is read as it would be read for the first time."""

import random
from typing import Any

import pytest

from gateway.http1 import BadMessage, body_asked, read_asked
from gateway.web.guard import Guarded, guard_for
from gateway.web.heads import Heads
from gateway.web.scopes import FOUND, found_in, of_request
from tests.http1.test_asked_as_others_do import damaged, made
from tests.web.asgi import Exchange

COMMON: dict[str, Any] = {"type": "http", "client": ("192.0.2.7", 1), "root_path": ""}
_TRIES = 3_000


def post(
    length: bytes = b"2", *, host: bytes = b"127.0.0.1:8080", name: bytes = b"content-length: "
) -> bytes:
    return b"POST /mcp/mail HTTP/1.1\r\nhost: " + host + b"\r\n" + name + length + b"\r\nx: y"


def said(heads: Heads, data: bytes) -> Any:
    """Return all that follows from `data`, as one connection reads it."""
    try:
        head, digits = heads.read(data)
    except BadMessage:
        return None
    body, scope = head.body(digits), head.scope(digits)
    scope["extensions"] = {k: v for k, v in scope["extensions"].items() if k != FOUND}
    return scope, type(body), vars(body), head.minor, head.keeps, head.waits_for_leave


def anew(data: bytes) -> Any:
    """Return the same of a head that nobody said before."""
    try:
        asked = read_asked(data)
        body = body_asked(asked)
    except BadMessage:
        return None
    scope = of_request(COMMON, asked)
    scope["extensions"] = {k: v for k, v in scope["extensions"].items() if k != FOUND}
    keeps = asked.minor > 0 and not asked.has_option(b"connection", "close")
    waits = asked.minor > 0 and asked.has_option(b"expect", "100-continue")
    return scope, type(body), vars(body), asked.minor, keeps, waits


def heads_of(dice: random.Random) -> list[bytes]:
    """Return heads of which many differ in little: a length, how it is written, a field more."""
    head = made(dice).partition(b"\r\n\r\n")[0]
    name = dice.choice(
        [b"content-length: ", b"Content-Length:", b"CONTENT-LENGTH: ", b"content-length:\t"]
    )
    lengths = [b"%d" % dice.choice([0, 1, 9, 10, 10**17]) for _ in range(3)]
    alike = [head + b"\r\n" + name + each for each in lengths]
    alike += [one + b"\r\nx: y" for one in alike]
    return dice.choices([head, *alike, damaged(dice, dice.choice(alike))], k=12)


def test_whatever_was_said_before_a_head_is_read_as_what_it_is() -> None:
    dice = random.Random(1)
    for _ in range(_TRIES // 12):
        heads = Heads(COMMON, {})
        for data in heads_of(dice):
            assert said(heads, data) == anew(data), data


def test_only_a_head_that_says_the_same_is_known_again() -> None:
    heads = Heads(COMMON, {})
    first, _ = heads.read(post(b"10"))
    assert heads.read(post(b"9")) == (first, b"9")
    assert heads.read(post(b"10")) == (first, b"10")
    assert heads.read(post(b"10", host=b"evil"))[0] is not first


def test_a_longer_body_than_any_that_was_let_pass_is_looked_at() -> None:
    heads = Heads(COMMON, {})
    first, _ = heads.read(post(b"10"))
    second, _ = heads.read(post(b"11"))
    assert second is not first
    assert second.scope(b"11")["extensions"][FOUND].passed_by is None
    assert heads.read(post(b"11"))[0] is second


@pytest.mark.parametrize("more", [b"z" * 2048, b"\r\na: b" * 32])
def test_a_large_head_is_not_kept(more: bytes) -> None:
    keeping: dict[Heads, None] = {}
    heads = Heads(COMMON, keeping)
    heads.read(post())
    large = post() + more
    assert heads.read(large)[0] is not heads.read(large)[0]
    assert not keeping


def test_of_many_connections_the_last_ones_keep_their_heads() -> None:
    keeping: dict[Heads, None] = {}
    connections = [Heads(COMMON, keeping) for _ in range(3_000)]
    first = [each.read(post())[0] for each in connections]
    assert len(keeping) == 1_000
    assert [each.read(post())[0] for each in connections[2_000:]] == first[2_000:]
    assert connections[0].read(post())[0] is not first[0]


def test_who_has_gone_keeps_nothing() -> None:
    keeping: dict[Heads, None] = {}
    heads = Heads(COMMON, keeping)
    heads.read(post())
    heads.forget()
    heads.forget()
    assert not keeping


def test_what_is_told_of_a_request_is_its_own() -> None:
    heads = Heads(COMMON, {})
    for digits in (b"2", b"1"):
        head, _ = heads.read(post(digits))
        scope = head.scope(digits)
        assert (b"content-length", digits) in scope["headers"]
        scope["headers"].append((b"evil", b"1"))
        scope["evil"] = True
    again = heads.read(post())[0].scope(b"2")
    assert (b"evil", b"1") not in again["headers"]
    assert "evil" not in again
    assert ("content-length", "2") not in found_in(again).pairs


@pytest.mark.parametrize("second", ["http://127.0.0.1:8080", "http://elsewhere.example"])
async def test_what_one_guard_has_let_pass_another_one_looks_at(second: str) -> None:
    """The configuration is another one by now, and the connection the same."""
    heads, statuses = Heads(COMMON, {}), []

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body"})

    for url in ("http://127.0.0.1:8080", second):
        app: Any = Guarded(
            answer,
            guard_for(url, ("192.0.2.1", 8080), [], 1024),
            refused_unread=lambda code, source_ip: None,
            client_address=lambda scope: "",
        )
        for _ in range(2):
            head, digits = heads.read(post())
            exchange = Exchange()
            await app(head.scope(digits), exchange.receive, exchange.send)
            statuses.append(exchange.status)
    again = [200, 200] if second.endswith("8080") else [421, 421]
    assert statuses == [200, 200, *again]
