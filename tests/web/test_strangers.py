"""Whoever nobody knows: what they send is not read, whatever it is."""

import asyncio
from typing import Any

import pytest

from gateway.domain.identity import Principal
from gateway.domain.throttle import Throttle
from gateway.errors import IdentityUnavailable
from tests.web.asgi import HOST, Exchange, Pairs, ask
from tests.web.test_mcp_endpoint import ALICE, CALL, JSON, PATH, Site

MALLORY = (b"authorization", b"Bearer mallory")
VERSION = (b"mcp-protocol-version", b"2026-07-28")


@pytest.fixture
def site() -> Site:
    return Site()


async def unread(site: Site, method: str, path: str, headers: Pairs) -> Exchange:
    """Return the answer to a request whose body never comes; nobody waits for it."""
    exchange = Exchange(chunks=[], never_ends=True)
    async with asyncio.timeout(60):
        await exchange.ask(site.app, method, path, headers)
    assert exchange.received == 0
    return exchange


@pytest.mark.parametrize("path", [PATH, "/mcp"])
@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
@pytest.mark.parametrize("headers", [(), (MALLORY,), (JSON,), (VERSION,), (MALLORY, MALLORY)])
async def test_a_stranger_is_refused_before_their_body_is_asked_for(site, path, method, headers):
    answer = await unread(site, method, path, (HOST, *headers))
    assert answer.status == 401
    challenge = answer.headers["www-authenticate"]
    assert f'resource_metadata="https://gateway.example/meta{path}"' in challenge
    assert 'scope="tools:call"' in challenge
    assert ("invalid_token" in challenge) is (MALLORY in headers)
    assert "connection" not in answer.headers
    ((kind, fields),) = site.records
    assert (kind, fields["code"], fields["verdict"]) == ("auth", "unauthenticated", "deny")
    assert (fields["endpoint"], fields["source_ip"]) == (path, "192.0.2.7")
    assert site.house.server.saw == []


@pytest.mark.parametrize("body", [b"", b"[" * 100, b"1e22," * 100, b"\xff", CALL])
async def test_what_a_stranger_sends_makes_no_difference(site, body):
    answer = await ask(site.app, "POST", PATH, (HOST, MALLORY), body)
    assert (answer.status, answer.received) == (401, 0)


async def test_strangers_are_throttled(site):
    site.endpoint._failures = Throttle(allowed=2, window_s=60)
    for _ in range(2):
        assert (await unread(site, "POST", PATH, (HOST, JSON))).status == 401
    assert (await unread(site, "POST", PATH, (HOST, JSON))).status == 429
    assert len(site.records) == 2


async def test_nothing_is_read_for_whom_nobody_can_tell_now(site, monkeypatch):
    async def unavailable(*_: Any) -> Principal:
        raise IdentityUnavailable("who you are cannot be told now")

    monkeypatch.setattr(site.house.gate, "authenticate", unavailable)
    assert (await unread(site, "POST", PATH, (HOST, ALICE, JSON))).status == 503
    assert [fields["code"] for _, fields in site.records] == ["identity_unavailable"]


async def test_a_bug_in_the_check_lets_nobody_in(site, monkeypatch):
    async def bug(*_: Any) -> Principal:
        raise ZeroDivisionError

    monkeypatch.setattr(site.house.gate, "authenticate", bug)
    answer = await unread(site, "POST", PATH, (HOST, ALICE, JSON))
    assert b"the gateway failed" in answer.body
    assert [fields["code"] for _, fields in site.records] == ["fault"]


async def test_a_token_that_ends_while_the_body_comes_is_refused(site):
    class Slow(Exchange):
        async def receive(self) -> Any:
            site.house.gate.people.clear()
            return await super().receive()

    answer = await Slow(chunks=[CALL]).ask(site.app, "POST", PATH, (HOST, ALICE, JSON))
    assert answer.status == 401
    assert site.house.server.saw == []


async def test_whoever_has_found_a_bug_before_anybody_is_known_is_throttled(site, monkeypatch):
    async def bug(*_: Any) -> Principal:
        raise ZeroDivisionError

    monkeypatch.setattr(site.house.gate, "authenticate", bug)
    site.endpoint._failures = Throttle(allowed=2, window_s=60)
    for _ in range(2):
        assert b"the gateway failed" in (await unread(site, "POST", PATH, (HOST, MALLORY))).body
    assert (await unread(site, "POST", PATH, (HOST, MALLORY))).status == 429
    assert len(site.records) == 2
