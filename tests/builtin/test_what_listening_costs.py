"""What whoever listens at `/mcp`, and whatever servers say meanwhile, may cost everybody else."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest

from gateway.builtin import notices
from gateway.domain.audit import RecordKind
from gateway.domain.calls import Form, Permit
from gateway.domain.decisions import Verdict
from gateway.domain.tools import Kind, Profile
from gateway.errors import AuditUnavailable, PolicyUnavailable
from gateway.pipeline.labels import Labeller
from gateway.upstream import own_subscriptions
from tests.builtin.front import NOTES, Site, methods, tool
from tests.builtin.listening import (
    LEGACY,
    SESSION,
    Feed,
    Listener,
    follows,
    listening,
    settled,
    subscribing,
    tells,
    told,
)
from tests.pipeline.house import ALICE, MAIL, whole

TOOLS_CHANGED = "notifications/tools/list_changed"
RESOURCES_CHANGED = "notifications/resources/list_changed"
LISTS = {"toolsListChanged": True, "resourcesListChanged": True}
BOB = replace(ALICE, subject="bob", client_id="other", token_id="t2")


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    made = await Site().furnish()
    made.house.gate.people["bob"] = BOB
    yield made
    await made.aclose()


def named(server: str, count: int) -> list[str]:
    return [f"douane://{server}/{server}://{number}" for number in range(count)]


def codes(site: Site) -> Counter[str | None]:
    """Return how often each refusal stands in the log."""
    return Counter(one.fields["code"] for one in site.house.audit.records if "code" in one.fields)


async def test_a_stream_that_is_refused_does_not_fill_the_log(site: Site) -> None:
    site.house.rule.says = lambda question: (
        Verdict.DENY if question["target"]["kind"] == "resource" else Verdict.ALLOW
    )
    wanted = {"notifications": {"resourceSubscriptions": named("notes", 100)}}
    seen = await site.ask("subscriptions/listen", wanted)
    assert seen.reply.code == "unknown_tool"
    assert 1 <= codes(site)["unknown_tool"] <= 8


async def test_of_a_server_that_hangs_not_every_resource_is_waited_for(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.builtin.follows._PATIENCE_S", 0.05)
    hung, feeds = Feed(), list[Feed]()
    for server in (MAIL, NOTES):
        site.spoken[server] = frozenset({Profile.MODERN})
    site.servers[MAIL].answer = lambda permit: hung.answer()
    site.servers[NOTES].answer = follows(feeds)
    wanted = [*named("mail", 50), *named("notes", 1)]
    async with subscribing(site, {"resourceSubscriptions": wanted}) as one:
        (acknowledged,) = one.heard
        assert acknowledged["params"]["notifications"] == {
            "resourceSubscriptions": named("notes", 1)
        }
    asked = [one for one in site.house.audit.records if "mail://" in one.fields.get("target", "")]
    assert Counter(one.kind for one in asked)[RecordKind.INTENT] <= 8


async def test_whoever_comes_back_with_a_token_that_holds_is_told_again(site: Site) -> None:
    people = site.house.gate.people
    async with listening(site) as one:
        alice = people.pop("alice")
        await site.show(NOTES, tool("another"))
        await told(site)
        assert (one.ended.is_set(), one.heard) == (True, [])
        people["alice"] = alice
    async with listening(site) as again:
        await told(site)
        assert again.methods == [TOOLS_CHANGED]
        await site.show(NOTES, tool("one_more"))
        await told(site)
        assert (again.methods, again.ended.is_set()) == ([TOOLS_CHANGED] * 2, False)


async def test_a_stream_ends_with_its_token_also_where_nothing_changes(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with listening(site) as one, listening(site, who="bob") as other:
        del site.house.gate.people["alice"]
        await told(site)
        assert not one.ended.is_set()
        monkeypatch.setattr(notices, "_RECHECK_S", 0.0)
        await told(site)
        assert (one.ended.is_set(), other.ended.is_set()) == (True, False)


async def test_a_stream_that_has_taken_anothers_place_does_not_end_with_it(site: Site) -> None:
    async with listening(site) as one:
        (first,) = site.notices._streams.items()
        async with listening(site) as two:
            site.notices._cut(*first)
            await settled()
            assert (one.ended.is_set(), two.ended.is_set()) == (True, False)


async def test_what_a_server_says_to_one_is_no_work_for_anybody_else(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[tuple[str, Kind]] = []
    shown = site.notices._shown

    async def noted(permit: Permit, kind: Kind) -> Iterable[str]:
        looked.append((permit.principal.subject, kind))
        return await shown(permit, kind)

    async with listening(site), listening(site, who="bob"):
        monkeypatch.setattr(site.notices, "_shown", noted)
        await told(site)
        assert looked == []
        site.followers.relisted(NOTES, ALICE.key)
        await told(site)
        assert looked == [("alice", Kind.RESOURCE)]
        site.followers.relisted(NOTES, "")
        await told(site)
        assert looked[1:] == [("alice", Kind.RESOURCE), ("bob", Kind.RESOURCE)]


async def test_a_server_that_says_so_without_end_is_not_looked_at_each_time(site: Site) -> None:
    site.followers.news.clear()
    site.followers.relisted(NOTES, "")
    assert not site.followers.news.is_set()


async def test_callers_do_not_wait_until_all_streams_are_told(site: Site) -> None:
    turns = 0

    async def call() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async with AsyncExitStack() as stack:
        for number in range(5):
            await stack.enter_async_context(listening(site, session=f"e.{number}"))
        await site.show(NOTES, tool("another"))
        await settled()
        calling = asyncio.create_task(call())
        await site.notices.look()
        calling.cancel()
    assert turns >= 4


async def test_a_principal_has_so_many_streams_and_takes_no_others(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notices, "_MOST_STREAMS", 1)
    async with listening(site), listening(site), listening(site, who="bob") as other:
        call = site.call("GET", form=Form.STREAM, id_=None, session="e.2", **LEGACY)
        assert (await site.aggregate.handle(call)).code == "limit_exceeded"
        async with subscribing(site, LISTS) as one:
            assert [one["error"]["message"] for one in one.heard] == ["too many streams are open"]
        assert not other.ended.is_set()


def shown_later(site: Site) -> asyncio.Event:
    """Let nobody know what a client may be told until what is returned is set."""
    shown, free = site.notices._shown, asyncio.Event()

    async def later(permit: Permit, kind: Kind) -> Iterable[str]:
        await free.wait()
        return await shown(permit, kind)

    site.notices._shown = later
    return free


async def test_of_many_streams_that_are_opened_at_once_so_many_are(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While nobody knows yet what the first are to be told."""
    monkeypatch.setattr(notices, "_MOST_STREAMS", 2)
    free = shown_later(site)
    opening = [
        site.aggregate.handle(
            site.call("GET", form=Form.STREAM, id_=None, session=f"e.{number}", **LEGACY)
        )
        for number in range(1, 6)
    ]
    replies = await asyncio.gather(*opening)
    begun = [reply for reply in replies if not isinstance(reply.body, bytes)]
    assert len(begun) == 2
    assert {reply.code for reply in replies if reply not in begun} == {"limit_exceeded"}
    free.set()
    for reply in begun:
        assert not isinstance(reply.body, bytes)
        await anext(reply.body)
        await reply.body.aclose()
    assert not site.notices._streams


async def test_of_streams_of_the_stateless_revision_that_are_opened_at_once_so_many_are(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notices, "_MOST_STREAMS", 2)
    free = shown_later(site)
    listeners = []
    for number in range(5):
        call = site.call("subscriptions/listen", {"notifications": LISTS}, id_=number)
        listeners.append(Listener(await site.aggregate.handle(call)))
    reading = [asyncio.create_task(one.read()) for one in listeners]
    await settled()
    free.set()
    await settled()
    assert sum(bool(one.heard) and "error" in one.heard[0] for one in listeners) == 3
    for task in reading:
        task.cancel()
    await asyncio.gather(*reading, return_exceptions=True)


async def test_a_stream_that_nobody_begins_to_read_gives_its_place_back(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(*_: object) -> None:
        raise AuditUnavailable("the label cannot be raised")

    monkeypatch.setattr(Labeller, "raise_for_result", fails)
    call = site.call("GET", form=Form.STREAM, id_=None, session=SESSION, **LEGACY)
    assert (await site.aggregate.handle(call)).code == "audit_unavailable"
    assert not site.notices._streams


async def test_a_person_with_many_clients_has_no_more_streams(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notices, "_MOST_STREAMS", 1)
    site.house.gate.people["alice too"] = replace(ALICE, client_id="another", token_id="t3")
    async with listening(site), listening(site, who="bob") as other:
        call = site.call(
            "GET", form=Form.STREAM, id_=None, session="e.2", who="alice too", **LEGACY
        )
        assert (await site.aggregate.handle(call)).code == "limit_exceeded"
        assert not other.ended.is_set()


async def test_a_stream_that_does_not_begin_follows_nothing(site: Site) -> None:
    feeds: list[Feed] = []
    site.spoken[NOTES] = frozenset({Profile.MODERN})
    site.servers[NOTES].answer = follows(feeds)
    shown = site.notices._shown

    async def unknown(permit: Permit, kind: Kind) -> Iterable[str]:
        raise PolicyUnavailable("policy did not answer")

    site.notices._shown = unknown
    wanted = {**LISTS, "resourceSubscriptions": named("notes", 1)}
    async with subscribing(site, wanted) as one:
        assert one.methods == ["response"]
    site.notices._shown = shown
    assert [feed.closed for feed in feeds] == [True]


async def test_a_server_without_a_stream_is_not_asked_for_everything_again_and_again(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_subscriptions, "_AGAIN_S", 0.0)
    site.spoken[NOTES] = frozenset({Profile.LEGACY})
    answered = tells(Feed())
    site.servers[NOTES].answer = lambda permit: (
        whole(b"", status=405) if permit.call.message.form is Form.STREAM else answered(permit)
    )
    one, other = named("notes", 2)
    async with listening(site):
        for uri in (one, other):
            await site.ask("resources/subscribe", {"uri": uri}, session=SESSION, **LEGACY)
        for _ in range(10):
            await settled()
    asked = Counter(
        permit.call.message.params["uri"]
        for permit in site.servers[NOTES].saw
        if permit.call.message.method == "resources/subscribe"
    )
    assert asked["notes://0"] > 2
    assert asked["notes://1"] <= 2


async def test_a_subscription_that_is_not_waited_for_ends_at_the_server(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.spoken[NOTES] = frozenset({Profile.LEGACY})
    site.servers[NOTES].answer = tells(Feed())
    writing = asyncio.Event()

    async def never(*_: object, **__: object) -> None:
        writing.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(site.sessions, "subscribe", never)
    (uri,) = named("notes", 1)
    call = site.call("resources/subscribe", {"uri": uri}, session=SESSION, **LEGACY)
    calling = asyncio.create_task(site.aggregate.handle(call))
    await writing.wait()
    calling.cancel()
    await asyncio.gather(calling, return_exceptions=True)
    await settled()
    assert methods(site.servers[NOTES])[-1] == "resources/unsubscribe"


async def test_what_was_followed_before_a_reload_is_followed_again(site: Site) -> None:
    (uri,) = named("notes", 1)
    after, feed = await Site().furnish(), Feed()
    after.followers._boxes, after.followers.sessions = site.boxes, site.sessions
    for one in (site, after):
        one.spoken[NOTES] = frozenset({Profile.LEGACY})
        one.servers[NOTES].answer = tells(feed)
    async with listening(site):
        await site.ask("resources/subscribe", {"uri": uri}, session=SESSION, **LEGACY)
    await site.aclose()
    async with listening(after) as again:
        await settled()
        assert "resources/subscribe" in methods(after.servers[NOTES])
        feed.update("notes://0")
        await told(after)
        assert again.methods == ["notifications/resources/updated"]
    await after.aclose()


async def test_while_nobody_listens_nothing_is_looked_at(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notices, "_LOOK_S", 0.0)
    look, looked = site.notices.look, asyncio.Event()

    async def looking() -> None:
        looked.set()
        await look()

    monkeypatch.setattr(site.notices, "look", looking)
    running = asyncio.create_task(site.notices.run())
    try:
        for _ in range(20):
            await asyncio.sleep(0)
        assert not looked.is_set()
        async with subscribing(site, {"toolsListChanged": True}), asyncio.timeout(60):
            await looked.wait()
            looked.clear()  # again, though nothing is told
            await looked.wait()
    finally:
        running.cancel()
