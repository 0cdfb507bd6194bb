"""Sessions, ids and tokens of the gateway's own, questions of servers, and calls that are cancelled."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from gateway.domain.calls import Call, Form, OriginKind, Permit, RawAnswer, ServerEvent
from gateway.domain.decisions import Verdict
from gateway.domain.tools import Profile
from gateway.domain.tracing import TraceContext, client_span
from gateway.errors import UpstreamFailed, UpstreamResting
from gateway.upstream import own_sessions
from gateway.upstream.own_sessions import Sessions
from gateway.wire.jsontext import WireLimits
from gateway.wire.tracing import trace_headers
from tests.builtin.front import Site, methods, sent, speaks
from tests.pipeline.house import ALICE, MAIL, Events, Seen, event, result, text, whole

OLD: dict[str, Any] = {"profile": Profile.LEGACY, "session": "esr.1"}
CALL = {"name": "mail__search", "arguments": {}}
HANDSHAKE = ["initialize", "notifications/initialized", "GET"]


@pytest.fixture
async def site() -> Any:
    site = await Site(spoken=frozenset({Profile.LEGACY})).furnish()
    site.servers[MAIL].answer = speaks()
    yield site
    await site.aclose()


def streams(*messages: Any) -> Callable[[Permit], RawAnswer]:
    """Answer with a stream of these messages and the response."""

    def answered(permit: Permit) -> RawAnswer:
        final = {"jsonrpc": "2.0", "id": permit.call.message.id, "result": text("hello")}
        made = [m(permit) if callable(m) else m for m in messages]
        return Events([event(one) for one in (*made, final)]).answer()

    return answered


async def test_a_session_is_begun_when_it_is_needed_and_kept(site: Site) -> None:
    assert methods(site.servers[MAIL]) == []
    for _ in range(2):
        assert (await site.ask("tools/call", CALL, **OLD)).code is None
    assert methods(site.servers[MAIL]) == [*HANDSHAKE, "tools/call", "tools/call"]
    assert [permit.session for permit in site.servers[MAIL].saw] == [None, *["s1"] * 4]


async def test_the_trace_of_a_call_goes_with_it_and_with_nothing_later(site: Site) -> None:
    trace = TraceContext(trace_id="a" * 32, span_id="b" * 16, flags=1, state="v=1")
    call = site.call("tools/call", CALL, **OLD)
    await site.aggregate.handle(replace(call, trace=trace))
    begins, greeting, listening, made = site.servers[MAIL].saw
    parent = trace.below(client_span(made.decision.id))
    told = (("traceparent", parent), ("tracestate", "v=1"))
    traced = [trace_headers(one.call) for one in (begins, greeting, listening, made)]
    assert traced == [told, told, (), told]
    await site.ask("tools/call", CALL, **OLD)
    assert trace_headers(site.servers[MAIL].saw[-1].call) == ()


async def test_of_many_calls_at_once_one_begins_the_session(site: Site) -> None:
    seen = await asyncio.gather(*(site.ask("tools/call", CALL, **OLD) for _ in range(5)))
    assert [one.code for one in seen] == [None] * 5
    assert methods(site.servers[MAIL]).count("initialize") == 1


async def test_principals_and_abilities_share_no_session(site: Site) -> None:
    site.house.gate.people["bob"] = replace(ALICE, subject="bob")
    await site.ask("tools/call", CALL, **OLD)
    await site.ask("tools/call", CALL, **OLD, who="bob")
    await site.ask("tools/call", CALL, profile=Profile.LEGACY, session="u.2")
    await site.ask("tools/call", CALL, profile=Profile.LEGACY, session="esr.3")
    declared = [
        sent(permit)["params"]["capabilities"]
        for permit in site.servers[MAIL].saw
        if permit.call.message.method == "initialize"
    ]
    all_of_it: dict[str, Any] = {"elicitation": {"form": {}}, "sampling": {}, "roots": {}}
    assert declared == [all_of_it, all_of_it, {"elicitation": {"url": {}}}]


async def test_a_session_that_the_server_forgot_is_begun_again_once(site: Site) -> None:
    sessions = iter(["s1", "s2", "s3"])

    def forgets(permit: Permit) -> RawAnswer:
        if permit.call.message.method == "initialize":
            return speaks(session=next(sessions))(permit)
        if permit.call.message.form is Form.REQUEST and permit.session == "s1":
            return whole(b"", status=404)
        return speaks()(permit)

    site.servers[MAIL].answer = forgets
    assert (await site.ask("tools/call", CALL, **OLD)).code is None
    assert methods(site.servers[MAIL]) == [*HANDSHAKE, "tools/call"] * 2
    assert site.house.kinds() == ["intent", "outcome"]
    assert (await site.ask("tools/call", CALL, **OLD)).code is None
    assert site.servers[MAIL].saw[-1].session == "s2"


async def test_a_server_that_always_forgets_is_asked_twice_and_no_more(site: Site) -> None:
    site.servers[MAIL].answer = speaks(lambda _: whole(b"", status=404))
    assert (await site.ask("tools/call", CALL, **OLD)).code == "upstream_failed"
    assert methods(site.servers[MAIL]).count("tools/call") == 2


@pytest.mark.parametrize("revision", ["2024-11-05", "2026-07-28", None])
async def test_a_server_that_speaks_nothing_we_know_gets_no_call(
    site: Site, revision: str | None
) -> None:
    site.servers[MAIL].answer = lambda permit: result(permit, {"protocolVersion": revision})
    for _ in range(2):
        assert (await site.ask("tools/call", CALL, **OLD)).code == "upstream_failed"
    assert methods(site.servers[MAIL]) == ["initialize", "initialize"]


async def test_clients_count_alike_and_are_told_apart(site: Site) -> None:
    """Two clients of one principal, the same id and token: each gets its own progress and answer."""

    def progress(permit: Permit) -> Any:
        token = permit.call.message.params["_meta"]["progressToken"]
        params = {"progressToken": token, "progress": 1}
        return {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}

    foreign = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 5}}
    site.servers[MAIL].answer = speaks(streams(progress, foreign))
    params = {**CALL, "_meta": {"progressToken": 5}}
    calls = (site.ask("tools/call", params, **{**OLD, "session": f"esr.{n}"}) for n in range(2))
    for seen in await asyncio.gather(*calls):
        told, final = seen.messages
        assert (told["params"]["progressToken"], final["id"]) == (5, 1)
    ids = [sent(p)["id"] for p in site.servers[MAIL].saw if p.call.message.method == "tools/call"]
    tokens = [
        sent(p)["params"]["_meta"]["progressToken"]
        for p in site.servers[MAIL].saw
        if p.call.message.method == "tools/call"
    ]
    assert len(set(ids)) == 2
    assert tokens == ids


async def test_an_answer_to_another_request_is_none(site: Site) -> None:
    site.servers[MAIL].answer = speaks(
        lambda _: whole(json.dumps({"jsonrpc": "2.0", "id": "x", "result": {}}).encode())
    )
    assert (await site.ask("tools/call", CALL, **OLD)).code == "upstream_failed"


@pytest.mark.parametrize("id_", [1, "1", "front-x", 1.0])
async def test_an_answer_under_the_clients_own_id_is_none(site: Site, id_: object) -> None:
    """The server was never told that one: what is worded for it under another is not read again."""
    told = {"jsonrpc": "2.0", "id": id_, "result": text("evil")}
    site.servers[MAIL].answer = speaks(lambda _: whole(json.dumps(told).encode()))
    seen = await site.ask("tools/call", CALL, id_=1, **OLD)
    assert (seen.code, b"evil" in seen.bytes) == ("upstream_failed", False)


@pytest.mark.parametrize("id_", [None, "server-error"])
async def test_an_error_about_a_message_that_could_not_be_read_is_the_calls(
    site: Site, id_: str | None
) -> None:
    error = {"jsonrpc": "2.0", "id": id_, "error": {"code": -32700, "message": "no"}}
    site.servers[MAIL].answer = speaks(lambda _: whole(json.dumps(error).encode(), status=400))
    seen = await site.ask("tools/call", CALL, id_=9, **OLD)
    assert (seen.json["id"], seen.json["error"]["code"]) == (9, -32700)


async def test_ids_of_events_that_nobody_can_come_back_with_are_not_given_out(site: Site) -> None:
    def numbered(permit: Permit) -> RawAnswer:
        final = {"jsonrpc": "2.0", "id": permit.call.message.id, "result": text("hello")}
        plain = event(final)
        raw = b"id: 7\nretry: 1\n" + plain.raw
        return Events([ServerEvent(raw=raw, data=plain.data)]).answer()

    site.servers[MAIL].answer = speaks(numbered)
    seen = await site.ask("tools/call", CALL, **OLD)
    assert b"id: 7" not in seen.bytes
    assert seen.messages[0]["result"] == text("hello")


QUESTIONS = {
    "elicitation/create": "e",
    "sampling/createMessage": "s",
    "roots/list": "r",
}


@pytest.mark.parametrize("method", QUESTIONS)
@pytest.mark.parametrize("able", [True, False])
async def test_a_question_reaches_the_client_that_can_answer_it(
    site: Site, method: str, able: bool
) -> None:
    asked = {"jsonrpc": "2.0", "id": 0, "method": method, "params": {}}
    site.servers[MAIL].answer = speaks(streams(asked))
    session = {**OLD, "session": f"{QUESTIONS[method] if able else 'u'}.1"}
    seen = await site.ask("tools/call", CALL, **session)
    if not able:
        assert [one.get("method") for one in seen.messages] == [None]
        (no,) = site.servers[MAIL].rejected
        assert (no["id"], no["error"]["code"]) == (0, -32601)
        return
    question = seen.messages[0]
    assert (question["method"], question["id"]) == (method, "mail/1")
    answered = await Seen.of(await site.aggregate.handle(answer_to(site, "mail/1", **session)))
    assert (answered.reply.status, answered.bytes) == (202, b"")
    assert sent(site.servers[MAIL].saw[-1]) == {"jsonrpc": "2.0", "id": 0, "result": {"x": 1}}
    assert site.servers[MAIL].saw[-1].session == "s1"
    again = await site.aggregate.handle(answer_to(site, "mail/1", **session))
    assert again.code == "protocol_error"


async def test_a_question_whose_answer_was_not_sent_can_be_answered_again(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def busy(permit: Permit) -> RawAnswer:
        raise UpstreamResting("too many calls are under way")

    site.servers[MAIL].answer = speaks(streams({"jsonrpc": "2.0", "id": 0, "method": "roots/list"}))
    await site.ask("tools/call", CALL, **OLD)
    with monkeypatch.context() as now:
        now.setattr(site.servers[MAIL], "forward", busy)
        refused = await site.aggregate.handle(answer_to(site, "mail/1", **OLD))
        assert refused.code == "upstream_failed"
    assert (await site.aggregate.handle(answer_to(site, "mail/1", **OLD))).status == 202
    assert sent(site.servers[MAIL].saw[-1]) == {"jsonrpc": "2.0", "id": 0, "result": {"x": 1}}
    again = await site.aggregate.handle(answer_to(site, "mail/1", **OLD))
    assert again.code == "protocol_error"


@pytest.mark.parametrize("id_", ["mail/1", "mail/9", "notes/1", "x", 1])
async def test_an_answer_to_a_question_that_was_not_asked_here_goes_nowhere(
    site: Site, id_: str | int
) -> None:
    asked = {"jsonrpc": "2.0", "id": 0, "method": "roots/list"}
    site.servers[MAIL].answer = speaks(streams(asked))
    await site.ask("tools/call", CALL, **OLD)
    before = len(site.servers[MAIL].saw)
    reply = await site.aggregate.handle(answer_to(site, id_, **{**OLD, "session": "esr.other"}))
    assert reply.code == "protocol_error"
    assert len(site.servers[MAIL].saw) == before


def answer_to(site: Site, id_: str | int, **more: Any) -> Call:
    """Make a response as the web does."""
    call = site.call("", {"x": 1}, id_=id_, form=Form.RESPONSE, **more)
    body = json.dumps({"jsonrpc": "2.0", "id": id_, "result": {"x": 1}}).encode()
    return replace(call, message=replace(call.message, body=body))


async def test_a_question_that_policy_refuses_is_answered_with_its_own_id(site: Site) -> None:
    site.house.rule.says = lambda question: (
        Verdict.DENY if question["target"]["kind"] == "server_request" else Verdict.ALLOW
    )
    asked = {"jsonrpc": "2.0", "id": 0, "method": "roots/list"}
    site.servers[MAIL].answer = speaks(streams(asked))
    seen = await site.ask("tools/call", CALL, **OLD)
    assert [one.get("method") for one in seen.messages] == [None]
    (no,) = site.servers[MAIL].rejected
    assert (no["id"], no["error"]["data"]["code"]) == (0, "denied")


async def test_what_outlives_a_call_keeps_nothing_of_it_in_memory(site: Site) -> None:
    roots = {"jsonrpc": "2.0", "id": 0, "method": "roots/list"}
    site.servers[MAIL].answer = speaks(streams(roots))
    large = {**CALL, "arguments": {"q": "x" * 1000}}
    assert len((await site.ask("tools/call", large, **OLD)).messages) == 2
    asked = site.clients[MAIL]._asked
    (found,) = [one.get(id_) for one in asked._of.values() for id_ in one]
    assert found is not None
    _, answering = found
    (session,) = site.clients[MAIL]._sessions._open.values()
    assert "xxx" not in repr((answering, (await session).begun_by))


@pytest.mark.parametrize("other", ["esr.1", "esr.2"])
async def test_on_one_line_for_all_a_question_is_nobodys_if_it_could_be_two_clients(
    other: str,
) -> None:
    site = await Site(spoken=frozenset({Profile.LEGACY}), apart=False).furnish()
    roots = {"jsonrpc": "2.0", "id": 0, "method": "roots/list"}
    log = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "x"}}
    site.servers[MAIL].answer = speaks(streams(log, roots))
    waiting = await site.aggregate.handle(site.call("tools/call", CALL, **OLD, id_=1))
    assert not isinstance(waiting.body, bytes)
    assert await anext(waiting.body) == b""
    seen = await site.ask("tools/call", CALL, **{**OLD, "session": other}, id_=2)
    told = [one.get("method") for one in seen.messages]
    rejected = [(no["id"], no["error"]["message"]) for no in site.servers[MAIL].rejected]
    if other == OLD["session"]:
        assert (told, rejected) == (["notifications/message", "roots/list", None], [])
    else:
        # The first call goes on as well, read or not, and whose question that is nobody knows either.
        assert (told, set(rejected)) == ([None], {(0, "there is nobody to ask")})
    await waiting.body.aclose()
    await site.aclose()


async def test_a_ping_is_answered_here(site: Site) -> None:
    site.servers[MAIL].answer = speaks(streams({"jsonrpc": "2.0", "id": 3, "method": "ping"}))
    assert len((await site.ask("tools/call", CALL, **OLD)).messages) == 1
    assert site.servers[MAIL].rejected == [{"jsonrpc": "2.0", "id": 3, "result": {}}]


class Slow:
    """A server that answers a call when it is let go."""

    def __init__(self, site: Site, *, stream: bool = False) -> None:
        self.reached, self.free = asyncio.Event(), asyncio.Event()
        self.closed = False
        self._forward = site.servers[MAIL].forward
        self._stream = stream

    async def forward(self, permit: Permit) -> RawAnswer:
        answer = await self._forward(permit)
        if permit.call.message.method == "tools/call":
            if self._stream:
                headers = (("content-type", "text/event-stream"),)
                return RawAnswer(status=200, headers=headers, session=None, body=self._events())
            self.reached.set()
            await self.free.wait()
        return answer

    async def _events(self) -> Any:
        self.reached.set()
        try:
            await self.free.wait()
            yield event({"jsonrpc": "2.0", "method": "notifications/message", "params": {}})
        finally:
            self.closed = True


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_cancels_its_call(
    site: Site, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    slow = Slow(site, stream=stream)
    monkeypatch.setattr(site.servers[MAIL], "forward", slow.forward)
    calling = asyncio.create_task(site.ask("tools/call", CALL, id_=4, **OLD))
    await slow.reached.wait()
    cancel: dict[str, Any] = {"form": Form.NOTIFICATION, "id_": None, **OLD}
    for session in ("esr.other", "esr.1"):
        params = {"requestId": 4, "reason": "enough"}
        reply = await site.ask("notifications/cancelled", params, **{**cancel, "session": session})
        assert reply.reply.status == 202
    seen = await calling
    code = seen.messages[-1]["result"]["_meta"]["douane/refusal"]["code"] if stream else seen.code
    assert code == "upstream_failed"
    told = [p for p in site.servers[MAIL].saw if p.call.message.method == "notifications/cancelled"]
    (call,) = (p for p in site.servers[MAIL].saw if p.call.message.method == "tools/call")
    # What a caller says of its reasons goes nowhere: it is text, and could be anybody's.
    told_why = {"requestId": sent(call)["id"], "reason": "nobody waits any more"}
    assert [sent(one)["params"] for one in told] == [told_why]
    assert told[0].session == "s1"
    assert slow.closed is stream


@pytest.mark.parametrize("client", list(Profile))
async def test_a_stateless_client_that_goes_away_cancels_its_call(
    site: Site, monkeypatch: pytest.MonkeyPatch, client: Profile
) -> None:
    slow = Slow(site)
    monkeypatch.setattr(site.servers[MAIL], "forward", slow.forward)
    more = OLD if client is Profile.LEGACY else {}
    calling = asyncio.create_task(site.ask("tools/call", CALL, **more))
    await slow.reached.wait()
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    await asyncio.sleep(0)
    cancelled = "notifications/cancelled" in methods(site.servers[MAIL])
    assert cancelled is (client is Profile.MODERN)
    assert site.house.last["code"] == "client_gone"


@pytest.mark.parametrize("client", list(Profile))
async def test_a_program_that_waits_no_more_cancels_its_call_in_either_family(
    site: Site, monkeypatch: pytest.MonkeyPatch, client: Profile
) -> None:
    """Its client has gone nowhere: it is the program that was ended."""
    slow = Slow(site)
    monkeypatch.setattr(site.servers[MAIL], "forward", slow.forward)
    more = OLD if client is Profile.LEGACY else {}
    call = replace(site.call("tools/call", CALL, **more), origin=OriginKind.SANDBOX)
    calling = asyncio.create_task(site.aggregate.handle(call))
    await slow.reached.wait()
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    await asyncio.sleep(0)
    assert "notifications/cancelled" in methods(site.servers[MAIL])


async def test_a_caller_who_goes_away_ends_the_beginning_for_nobody_else(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = asyncio.Event()
    forward = site.servers[MAIL].forward

    async def late(permit: Permit) -> RawAnswer:
        if permit.call.message.method == "initialize":
            await begun.wait()
        return await forward(permit)

    monkeypatch.setattr(site.servers[MAIL], "forward", late)
    first = asyncio.create_task(site.ask("tools/call", CALL, **OLD))
    await asyncio.sleep(0.01)
    second = asyncio.create_task(site.ask("tools/call", CALL, **OLD))
    await asyncio.sleep(0.01)
    first.cancel()
    begun.set()
    assert (await second).code is None
    assert methods(site.servers[MAIL]) == [*HANDSHAKE, "tools/call"]


async def test_a_level_is_told_to_servers_that_log(site: Site) -> None:
    site.servers[MAIL].answer = speaks(capabilities={"logging": {}})
    await site.ask("logging/setLevel", {"level": "debug"}, **OLD)
    for _ in range(2):
        await site.ask("tools/call", CALL, **OLD)
    assert methods(site.servers[MAIL]) == [
        *HANDSHAKE,
        "logging/setLevel",
        "tools/call",
        "tools/call",
    ]


async def unheard(session: object, data: bytes) -> None:
    raise AssertionError(data)


async def test_a_server_that_fails_to_take_a_level_is_called_all_the_same(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.servers[MAIL].answer = speaks(capabilities={"logging": {}})
    forward = site.servers[MAIL].forward

    async def fails(permit: Permit) -> RawAnswer:
        if permit.call.message.method == "logging/setLevel":
            raise UpstreamFailed("it is busy")
        return await forward(permit)

    monkeypatch.setattr(site.servers[MAIL], "forward", fails)
    await site.ask("logging/setLevel", {"level": "debug"}, **OLD)
    assert (await site.ask("tools/call", CALL, **OLD)).code is None


def sessions_of(site: Site, *, idle_s: float = 900.0, most: int = 1000) -> Sessions:
    return Sessions(site.servers[MAIL], heard=unheard, wire=WireLimits(), idle_s=idle_s, most=most)


async def permit_of(site: Site, who: str = "alice") -> Permit:
    """Return a permit as the pipeline makes one."""
    await site.ask("tools/call", CALL, **OLD, who=who)
    return site.servers[MAIL].saw[-1]


async def test_a_session_that_nobody_uses_is_ended_and_one_in_use_is_not(site: Site) -> None:
    permit = await permit_of(site)
    sessions = sessions_of(site, idle_s=0.02)
    used = await sessions.of(permit)
    used.under_way = 1
    await asyncio.sleep(0.1)
    assert "DELETE" not in methods(site.servers[MAIL])
    used.under_way = 0
    while "DELETE" not in methods(site.servers[MAIL]):
        await asyncio.sleep(0.01)
    assert (await sessions.of(permit)) is not used
    await sessions.aclose()


async def test_there_is_a_bound_to_sessions_and_the_oldest_goes_first(site: Site) -> None:
    first = await permit_of(site)
    second = replace(first, principal=replace(ALICE, subject="bob"))
    sessions = sessions_of(site, most=1)
    one = await sessions.of(first)
    two = await sessions.of(second)
    two.under_way = 1
    assert one is not two
    with pytest.raises(UpstreamFailed):
        await sessions.of(first)
    await sessions.aclose()
    assert methods(site.servers[MAIL]).count("DELETE") == 2


def of(permit: Permit, person: str, client: int = 0) -> Permit:
    who = replace(ALICE, subject=person, client_id=f"c{client}")
    return replace(permit, principal=who)


async def test_a_person_has_so_many_sessions_with_whatever_clients(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_sessions, "_MOST_OF_ONE", 2)
    permit = await permit_of(site)
    sessions = sessions_of(site)
    victims = await sessions.of(of(permit, "bob"))
    others = [await sessions.of(of(permit, "mallory", number)) for number in range(3)]
    assert await sessions.of(of(permit, "bob")) is victims
    assert [sessions._has(one) for one in others] == [False, True, True]
    for one in others[1:]:
        one.under_way = 1
    with pytest.raises(UpstreamFailed):
        await sessions.of(of(permit, "mallory", 3))
    await sessions.of(of(permit, "carol"))
    await sessions.aclose()


async def test_where_there_is_no_room_whoever_has_most_sessions_makes_it(site: Site) -> None:
    permit = await permit_of(site)
    sessions = sessions_of(site, most=4)
    victims = await sessions.of(of(permit, "bob"))
    others = [await sessions.of(of(permit, "mallory", number)) for number in range(3)]
    await sessions.of(of(permit, "carol"))
    assert await sessions.of(of(permit, "bob")) is victims
    assert [sessions._has(one) for one in others] == [False, True, True]
    await sessions.aclose()
