"""Resources that clients of `/mcp` follow, at servers of either family of revisions."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from gateway.domain.calls import Form, Permit
from gateway.domain.decisions import Verdict
from gateway.domain.tools import OWN, Profile
from gateway.errors import UpstreamFailed
from gateway.storage import own_sessions
from gateway.upstream import own_sessions as upstream_sessions
from gateway.upstream import own_subscriptions
from tests.builtin.front import NOTES, Site, methods
from tests.builtin.listening import (
    ACKNOWLEDGED,
    LEGACY,
    SESSION,
    UPDATED,
    Feed,
    follows,
    listening,
    settled,
    subscribing,
    tells,
    told,
)
from tests.pipeline.house import ALICE, MAIL, result, text, whole

NOTE, OTHER = "notes://one", "notes://two"
NAMED = f"douane://notes/{NOTE}"
WANTED = {"resourceSubscriptions": [NAMED]}
BOB = replace(ALICE, subject="bob", client_id="other", token_id="t2")


@pytest.fixture
async def site(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Site]:
    monkeypatch.setattr(own_subscriptions, "_AGAIN_S", 0.0)
    made = await Site().furnish()
    made.house.gate.people["bob"] = BOB
    yield made
    await made.aclose()


@pytest.fixture
def old(site: Site) -> Feed:
    """Let `notes` speak the older revisions, and return the stream of its session."""
    feed = Feed()
    site.spoken[NOTES] = frozenset({Profile.LEGACY})
    site.servers[NOTES].answer = tells(feed)
    return feed


@pytest.fixture
def new(site: Site) -> list[Feed]:
    """Let `notes` speak the stateless revision, and return the streams that it opens."""
    feeds: list[Feed] = []
    site.spoken[NOTES] = frozenset({Profile.MODERN})
    site.servers[NOTES].answer = follows(feeds)
    return feeds


async def ask(site: Site, method: str = "resources/subscribe", **more: Any) -> Any:
    params = {"uri": more.pop("uri", NAMED)}
    return await site.ask(method, params, **{"session": SESSION, **LEGACY, **more})


def asked(site: Site, method: str) -> list[str]:
    """Return the resources of all requests of `method` that reached `notes`."""
    return [
        permit.call.message.params["uri"]
        for permit in site.servers[NOTES].saw
        if permit.call.message.method == method
    ]


def update(uri: str = NAMED) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": UPDATED, "params": {"uri": uri}}


async def test_a_session_is_told_of_what_it_follows(site: Site, old: Feed) -> None:
    async with listening(site) as one:
        assert (await ask(site)).json["result"] == {}
        assert asked(site, "resources/subscribe") == [NOTE]
        old.update(NOTE)
        await told(site)
        assert one.heard == [update()]
        old.update(OTHER)
        old.update("notes://one/below")
        await told(site)
        assert len(one.heard) == 1


@pytest.mark.parametrize("era", ["old", "new"])
async def test_the_call_is_recorded_under_its_servers_name(
    site: Site, era: str, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue(era)
    await ask(site)
    both = [r for r in site.house.audit.records if r.fields.get("target") == f"['{NOTE}']"]
    assert [one.kind.value for one in both] == ["intent", "outcome"]
    last = both[-1].fields
    # Nobody gave it out: it is on record as what a caller said.
    named = f"['{NOTE}']"
    assert (last["server"], last["target"], last["endpoint"]) == ("notes", named, "/mcp")
    assert (last["method"], last["verdict"]) == ("resources/subscribe", "allow")


@pytest.mark.parametrize("era", ["old", "new"])
@pytest.mark.parametrize(
    "uri", [NAMED, "douane://notes/nope://", "douane://nowhere/x", "notes://one", "x"]
)
async def test_what_is_hidden_or_unknown_nobody_follows(
    site: Site, era: str, uri: str, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue(era)
    site.house.rule.says = lambda question: (
        Verdict.DENY if question["phase"] == "list" else Verdict.ALLOW
    )
    assert (await ask(site, uri=uri)).reply.code == "unknown_tool"
    wanted = {"notifications": {"resourceSubscriptions": [uri]}}
    assert (await site.ask("subscriptions/listen", wanted)).reply.code == "unknown_tool"
    assert site.servers[NOTES].saw == []


@pytest.mark.parametrize("era", ["old", "new"])
async def test_what_may_not_be_followed_is_refused(
    site: Site, era: str, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue(era)
    site.house.rule.says = lambda question: (
        Verdict.DENY if question["phase"] == "call" else Verdict.ALLOW
    )
    assert (await ask(site)).reply.code == "denied"
    seen = await site.ask("subscriptions/listen", {"notifications": WANTED})
    assert (seen.reply.code, site.servers[NOTES].saw) == ("denied", [])
    assert site.boxes.left_before(2e9) is not None


@pytest.mark.parametrize("era", ["old", "new"])
async def test_to_follow_no_more_is_asked_about_as_that(
    site: Site, era: str, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue(era)
    await ask(site)
    site.house.rule.says = lambda question: (
        Verdict.DENY if question["method"] == "resources/subscribe" else Verdict.ALLOW
    )
    assert (await ask(site, "resources/unsubscribe")).reply.code is None


async def test_a_token_without_the_scope_follows_nothing(site: Site, new: list[Feed]) -> None:
    site.house.gate.people["alice"] = replace(ALICE, scopes=frozenset({"tools:call"}))
    assert (await ask(site)).reply.code == "insufficient_scope"
    seen = await site.ask("subscriptions/listen", {"notifications": WANTED})
    assert (seen.reply.code, new) == ("insufficient_scope", [])


async def test_a_token_that_has_lost_the_scope_is_told_nothing_more(site: Site, old: Feed) -> None:
    async with listening(site) as one:
        await ask(site)
        site.house.gate.people["alice"] = replace(ALICE, scopes=frozenset({"tools:call"}))
        old.update(NOTE)
        await told(site)
        assert one.heard == []


async def test_without_a_session_there_is_nobody_to_tell(site: Site, old: Feed) -> None:
    assert (await ask(site, session=None)).reply.code == "protocol_error"
    assert asked(site, "resources/subscribe") == []


async def test_a_client_without_sessions_follows_a_server_with_sessions(
    site: Site, old: Feed
) -> None:
    async with subscribing(site, {**WANTED, "toolsListChanged": True}) as one:
        (acknowledged,) = one.heard
        assert acknowledged["params"]["notifications"] == {**WANTED, "toolsListChanged": True}
        old.update(NOTE)
        await told(site)
        assert (one.heard[1]["method"], one.heard[1]["params"]["uri"]) == (UPDATED, NAMED)
    assert asked(site, "resources/unsubscribe") == [NOTE]


async def test_a_client_without_sessions_follows_a_server_without(
    site: Site, new: list[Feed]
) -> None:
    async with subscribing(site, WANTED) as one:
        (feed,) = new
        feed.update(NOTE)
        await told(site)
        assert one.methods == [ACKNOWLEDGED, UPDATED]
    assert feed.closed


async def test_a_session_follows_a_server_without_sessions(site: Site, new: list[Feed]) -> None:
    async with listening(site) as one:
        assert "result" in (await ask(site)).json
        assert "result" in (await ask(site, uri=f"douane://notes/{OTHER}")).json
        first, second = new
        await settled()
        assert (first.closed, second.closed) == (True, False)
        second.update(OTHER)
        await told(site)
        assert one.heard == [update(f"douane://notes/{OTHER}")]
        assert "result" in (await ask(site, "resources/unsubscribe")).json
        sent = json.loads(site.servers[NOTES].saw[-1].call.message.body)
        assert sent["params"]["notifications"] == {"resourceSubscriptions": [OTHER]}
        new[-1].update(NOTE)
        await told(site)
        assert len(one.heard) == 1


async def test_what_a_server_does_not_follow_is_not_said_to_be_followed(site: Site) -> None:
    feeds: list[Feed] = []
    site.spoken[NOTES] = frozenset({Profile.MODERN})
    site.servers[NOTES].answer = follows(feeds, lambda uris: [])
    assert (await ask(site)).reply.code == "upstream_failed"
    assert feeds[0].closed
    async with subscribing(site, {**WANTED, "toolsListChanged": True}) as one:
        assert one.heard[0]["params"]["notifications"] == {"toolsListChanged": True}
    assert site.sessions.subscribed(ALICE.key, SESSION) == ()


async def test_nobody_else_is_told(site: Site, old: Feed) -> None:
    async with (
        listening(site) as mine,
        listening(site, session="e.2") as mine_too,
        listening(site, session="e.2", who="bob") as theirs,
    ):
        await ask(site)
        await ask(site, uri=f"douane://notes/{OTHER}", session="e.2", who="bob")
        old.update(NOTE)
        await told(site)
        assert (mine.heard, mine_too.heard, theirs.heard) == ([update()], [], [])


async def test_two_sessions_of_a_principal_share_one_subscription(site: Site, old: Feed) -> None:
    async with listening(site) as one, listening(site, session="e.2") as two:
        await ask(site)
        await ask(site, session="e.2")
        assert asked(site, "resources/subscribe") == [NOTE]
        old.update(NOTE)
        await told(site)
        assert (one.heard, two.heard) == ([update()], [update()])
        await ask(site, "resources/unsubscribe")
        assert asked(site, "resources/unsubscribe") == []
        old.update(NOTE)
        await told(site)
        assert (len(one.heard), len(two.heard)) == (1, 2)
        await ask(site, "resources/unsubscribe", session="e.2")
        assert asked(site, "resources/unsubscribe") == [NOTE]


async def test_what_is_hidden_by_now_is_not_told_any_more(site: Site, old: Feed) -> None:
    async with listening(site) as one:
        await ask(site)
        site.house.rule.digest = "sha256:other"
        site.house.rule.says = lambda question: (
            Verdict.DENY if question["target"]["name"] == NOTE else Verdict.ALLOW
        )
        old.update(NOTE)
        await told(site)
        assert one.heard == []


async def test_a_server_that_was_withdrawn_tells_nobody(site: Site, old: Feed) -> None:
    async with listening(site) as one:
        await ask(site)
        site.house.identities[NOTES] = "https://elsewhere.example:443/mcp"
        old.update(NOTE)
        await told(site)
        assert UPDATED not in one.methods


async def test_a_session_that_ends_follows_nothing(site: Site, old: Feed) -> None:
    async with listening(site):
        await ask(site)
        await site.ask("DELETE", form=Form.END, id_=None, session=SESSION, **LEGACY)
        await settled()
    assert asked(site, "resources/unsubscribe") == [NOTE]
    assert site.sessions.subscribed(ALICE.key, SESSION) == ()


async def test_a_session_that_nobody_listens_to_follows_nothing_for_ever(
    site: Site, old: Feed
) -> None:
    await ask(site)
    await told(site)
    assert asked(site, "resources/unsubscribe") == []
    site.notices._idle_s = -1.0
    await told(site)
    assert asked(site, "resources/unsubscribe") == [NOTE]
    assert site.sessions.subscribed(ALICE.key, SESSION) == (NAMED,)
    async with listening(site) as one:
        await settled()
        assert asked(site, "resources/subscribe") == [NOTE, NOTE]
        old.update(NOTE)
        await told(site)
        assert one.heard == [update()]


async def test_what_was_followed_before_a_restart_is_judged_and_followed_again(
    site: Site, old: Feed
) -> None:
    other = f"douane://notes/{OTHER}"
    for uri in (NAMED, other, "douane://gone/x"):
        await site.sessions.subscribe(ALICE.key, SESSION, uri, person=ALICE.person)
    site.house.rule.says = lambda question: (
        Verdict.DENY if question["target"]["name"] == OTHER else Verdict.ALLOW
    )
    async with listening(site) as one:
        await settled()
        assert asked(site, "resources/subscribe") == [NOTE]
        old.update(NOTE)
        await told(site)
        assert one.heard == [update()]
        async with asyncio.timeout(60):
            while "unknown_tool" not in {r.fields.get("code") for r in site.house.audit.records}:
                await asyncio.sleep(0.01)


async def test_what_happened_while_nobody_listened_is_told_at_once(site: Site, old: Feed) -> None:
    await ask(site)
    old.update(NOTE)
    old.update(NOTE)
    await told(site)
    async with listening(site) as one:
        await told(site)
        assert one.heard == [update()]


async def test_a_server_that_has_forgotten_is_asked_again(site: Site, old: Feed) -> None:
    async with listening(site) as one:
        await ask(site)
        after = Feed()
        site.servers[NOTES].answer = tells(after, session="s2", yes=_only_in("s2"))
        old.end()
        (session,) = [s.result() for s in site.clients[NOTES]._sessions._open.values()]
        assert session.listening is not None
        session.listening.cancel()
        for _ in range(20):
            await settled()
        assert methods(site.servers[NOTES]).count("initialize") == 2
        after.update(NOTE)
        await told(site)
        assert one.heard == [update()]


def _only_in(session: str) -> Any:
    def answered(permit: Permit) -> Any:
        return result(permit, {}) if permit.session == session else whole(b"", status=404)

    return answered


async def test_a_stream_of_a_server_that_ends_is_opened_again(site: Site, new: list[Feed]) -> None:
    async with listening(site) as one:
        await ask(site)
        new[0].end()
        await settled()
        assert len(new) == 2
        new[1].update(NOTE)
        await told(site)
        assert one.heard == [update()]


async def test_what_comes_on_the_stream_of_a_call_is_for_whoever_follows_it(
    site: Site, old: Feed
) -> None:
    def answers(permit: Permit) -> Any:
        if permit.call.message.method != "tools/call":
            return result(permit, {})
        feed = Feed()
        feed.update(NOTE)
        feed.say({"id": permit.call.message.id, "result": text("done")})
        return feed.answer()

    site.servers[NOTES].answer = tells(old, yes=answers)
    async with listening(site) as one, listening(site, session="e.2") as other:
        await ask(site)
        params = {"name": "notes__read", "arguments": {}}
        seen = await site.ask("tools/call", params, session="e.2", **LEGACY)
        assert [message.get("method") for message in seen.messages] == [None]
        await told(site)
        assert (one.heard, other.heard) == ([update()], [])


async def test_an_error_of_a_servers_is_no_subscription(site: Site, old: Feed) -> None:
    def refuses(permit: Permit) -> Any:
        error = {"code": -32002, "message": "no"}
        body = {"jsonrpc": "2.0", "id": permit.call.message.id, "error": error}
        return whole(json.dumps(body).encode())

    site.servers[NOTES].answer = tells(old, yes=refuses)
    assert (await ask(site)).reply.code == "upstream_failed"
    assert site.sessions.subscribed(ALICE.key, SESSION) == ()


async def test_a_session_follows_so_many_and_no_more(
    site: Site, old: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_sessions, "MOST_OF_ONE", 1)
    await ask(site)
    seen = await ask(site, uri=f"douane://notes/{OTHER}")
    assert seen.reply.code == "limit_exceeded"
    assert asked(site, "resources/unsubscribe") == [OTHER]
    assert (await ask(site)).reply.code is None


async def test_what_is_followed_ends_for_no_other_session_of_its_person(
    site: Site, old: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upstream_sessions, "_MOST_OF_ONE", 1)
    async with listening(site) as one:
        await ask(site)
        assert (await ask(site, session="u.1")).reply.code == "upstream_failed"
        called = {"name": "notes__read", "arguments": {}}
        seen = await site.ask("tools/call", called, session="u.1", **LEGACY)
        assert seen.reply.code == "upstream_failed"
        await settled()
        assert methods(site.servers[NOTES]).count("initialize") == 1
        old.update(NOTE)
        await told(site)
        assert one.heard == [update()]
        await ask(site, "resources/unsubscribe")
    assert (await ask(site, session="u.1")).reply.code is None


async def test_what_is_followed_anew_ends_no_session(
    site: Site, old: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upstream_sessions, "_MOST_OF_ONE", 1)
    monkeypatch.setattr(own_subscriptions, "_AGAIN_S", 60.0)
    await ask(site)
    following = site.clients[NOTES]._subscriptions
    (line,) = following._lines.values()
    assert line.session is not None
    following._sessions.forget(line.session)
    called = {"name": "notes__read", "arguments": {}}
    await site.ask("tools/call", called, session="u.1", **LEGACY)
    with pytest.raises(UpstreamFailed):
        await following._renew(line)
    assert "DELETE" not in methods(site.servers[NOTES])
    (key,) = following._sessions._open
    following._sessions._end_soon(key)
    await following._renew(line)
    assert asked(site, "resources/subscribe") == [NOTE, NOTE]


async def test_a_server_that_hangs_holds_up_no_other_that_is_followed(
    site: Site, old: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.builtin.follows._PATIENCE_S", 1.0)
    mail = Feed()
    site.spoken[MAIL] = frozenset({Profile.MODERN})
    site.servers[MAIL].answer = lambda permit: mail.answer()
    wanted = {"resourceSubscriptions": ["douane://mail/mail://x", NAMED]}
    call = site.call("subscriptions/listen", {"notifications": wanted}, id_=7)
    reply = await site.aggregate.handle(call)
    assert not isinstance(reply.body, bytes)
    async for part in reply.body:
        if part:
            assert b"mail://x" not in part
            assert NAMED.encode() in part
            break
    await reply.body.aclose()
    await settled()
    assert (mail.closed, site.house.last["server"]) == (True, "")
    assert OWN not in site.clients
