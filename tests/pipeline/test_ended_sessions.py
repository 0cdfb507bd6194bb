"""A session that its client has ended is over here, whatever the server thinks of it."""

from dataclasses import replace

import pytest

from gateway.domain.calls import Call, Form
from gateway.domain.tools import OWN, Profile, UpstreamId
from gateway.errors import AuditUnavailable
from gateway.pipeline.sessions import Sessions
from gateway.storage.own_sessions import MemorySessionStore
from tests.pipeline.house import ALICE, KEY, Events, House, event, result, text, whole

GONE = (404, "Session not found")
UPDATED = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}


@pytest.fixture
async def house() -> House:
    house = House()
    await house.approve_all(Profile.LEGACY)
    return house


def asked(house: House, session: str = "s1") -> Call:
    return house.request(
        "tools/call",
        {"name": "search", "arguments": {}},
        profile=Profile.LEGACY,
        session=session,
    )


def bare(house: House, form: Form, session: str | None = "s1") -> Call:
    method = "GET" if form is Form.STREAM else "DELETE"
    return house.request(method, form=form, profile=Profile.LEGACY, session=session, id_=None)


@pytest.mark.parametrize("status", [200, 204, 404, 405, 500])
async def test_what_its_client_has_ended_is_no_session_any_more(house: House, status: int) -> None:
    house.server.answer = lambda permit: whole(b"", status=status)
    ended = await house.handle(bare(house, Form.END))
    assert ended.reply.status == status
    house.server.answer = lambda permit: result(permit, text("still here"))
    house.server.saw.clear()
    for call in (asked(house), bare(house, Form.STREAM), bare(house, Form.END)):
        seen = await house.handle(call)
        assert (seen.reply.status, seen.json["error"]["message"]) == GONE
    assert house.server.saw == []
    assert (await house.handle(asked(house, "s2"))).code is None


async def test_what_cannot_be_kept_as_ended_does_not_end(house: House, monkeypatch) -> None:
    async def unwritten(principal: str, session: str, *, person: str) -> None:
        raise AuditUnavailable("try again later")

    monkeypatch.setattr(house.kept, "end", unwritten)
    seen = await house.handle(bare(house, Form.END))
    assert (seen.reply.status, dict(seen.reply.headers)["retry-after"]) == (503, "5")
    assert house.server.saw == []


async def test_its_stream_says_nothing_more(house: House) -> None:
    one, other = event(UPDATED), event(UPDATED)

    async def meanwhile():
        yield one
        await house.kept.end(ALICE.key, "mail s1", person=ALICE.person)
        yield other

    house.server.answer = lambda permit: replace(Events([]).answer(), body=meanwhile())
    assert (await house.handle(bare(house, Form.STREAM))).parts == (one.raw,)


async def test_a_session_with_another_server_goes_on() -> None:
    kept = MemorySessionStore(KEY)
    sessions = Sessions(kept, is_over=lambda _: False)
    await kept.end("alice", "mail s1", person="alice")
    ended = [
        sessions.have_ended(UpstreamId(server), who, "s1")
        for server, who in (("mail", "alice"), ("web", "alice"), (OWN, "alice"), ("mail", "bob"))
    ]
    assert ended == [True, False, False, False]


async def test_a_session_of_ours_is_over_by_itself() -> None:
    sessions = Sessions(MemorySessionStore(KEY), is_over=lambda session: session == "old")
    assert sessions.have_ended(OWN, "alice", "old")
    assert not sessions.have_ended(OWN, "alice", "new")
    assert not sessions.have_ended(UpstreamId("mail"), "alice", "old")


@pytest.mark.parametrize(
    ("status", "session", "told"),
    [
        (200, "s1", 405),
        (202, "s1", 405),
        (404, None, 405),
        (405, None, 405),
        (404, "s1", 404),
        (500, "s1", 500),
        (503, None, 503),
    ],
)
async def test_a_get_is_a_stream_or_not_allowed(
    house: House, status: int, session: str | None, told: int
) -> None:
    house.server.answer = lambda permit: whole(b"", status=status)
    seen = await house.handle(bare(house, Form.STREAM, session))
    assert seen.reply.status == told
    assert dict(seen.reply.headers).get("allow") == ("POST" if told == 405 else None)


async def test_a_get_that_is_answered_like_a_call_is_not_allowed(house: House) -> None:
    house.server.answer = lambda permit: whole(b'{"jsonrpc":"2.0","id":1,"result":{}}')
    seen = await house.handle(bare(house, Form.STREAM))
    assert (seen.reply.status, seen.bytes) == (405, b"")


async def test_a_session_outlives_the_key_that_sealed_it(house: House) -> None:
    house.server.answer = lambda permit: result(permit, text("found"))
    before = asked(house)
    house.seal_key = b"n" * 32
    house.pipeline = house._wired()
    assert (await house.handle(before)).reply.status == 404
    house.former_seal_key = KEY
    house.pipeline = house._wired()
    assert (await house.handle(before)).reply.status == 200
