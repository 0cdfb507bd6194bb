"""What the gateway makes of each call of a program, with a function of the test's in the program's place."""

import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, cast

import pytest

from gateway import turns
from gateway.builtin import broker as broker_module
from gateway.domain.approvals import Span
from gateway.domain.audit import AuditRecord, LogEntry
from gateway.domain.calls import Form, Permit, RawAnswer
from gateway.domain.decisions import Decision, Verdict
from gateway.domain.programs import Program, ProgramResult, ProgramStatus
from gateway.domain.quotas import Count, Per, Quota
from gateway.domain.scripts import ScriptId
from gateway.domain.tools import Profile
from gateway.domain.tracing import TraceContext, client_span
from gateway.errors import (
    AuditUnavailable,
    CredentialRequired,
    EgressRefused,
    GatewayError,
    LimitExceeded,
    RateLimited,
    UpstreamFailed,
    UpstreamResting,
)
from gateway.pipeline.quotas import Quotas
from gateway.ports.sandbox import Broker, Engine, NeedsApproval, ToolRefused
from gateway.wire.inbound import meta_of
from gateway.wire.own_abilities import session_for
from gateway.wire.tracing import trace_headers
from tests.builtin.front import Site, speaks
from tests.pipeline.house import ALICE, MAIL, Events, Seen, decision, event, result, text, whole

CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"


async def search(broker: Broker) -> Any:
    return await broker.call("mail", "search", {"q": "x"}, seq=1)


async def send(broker: Broker) -> Any:
    return await broker.call("mail", "send", {"to": "bob"}, seq=1)


class Played:
    """An engine that hands the program's broker to a function."""

    def __init__(self) -> None:
        self.play: Callable[[Broker], Awaitable[Any]] = search
        self.said: Any = None

    async def run(self, program: Program, broker: Broker, **_: Any) -> ProgramResult:
        try:
            self.said = await self.play(broker)
        except (ToolRefused, NeedsApproval) as error:
            self.said = error
        return ProgramResult(status=ProgramStatus.OK, sha256=program.sha256)


@pytest.fixture
def played() -> Played:
    return Played()


@pytest.fixture
async def site(played: Played) -> AsyncIterator[Site]:
    made = await Site(engine=cast("Engine", played)).furnish()
    made.house.gate.people["alice"] = replace(
        ALICE, scopes=ALICE.scopes | {"code:run"}, user_id="u_alice"
    )
    yield made
    await made.aclose()


async def run(site: Site, meta: Mapping[str, Any] | None = None, **arguments: Any) -> Seen:
    params = {"name": "run_code", "arguments": {"code": "1", **arguments}}
    return await site.ask("tools/call", {**params, **({"_meta": meta} if meta else {})})


def script_of(seen: Seen) -> ScriptId:
    told = seen.json["result"]["content"][0]["text"]
    return ScriptId(told.partition('"run":"')[2].partition('"')[0])


async def test_policy_is_told_which_program_makes_a_call(site: Site) -> None:
    await run(site)
    (outer, *_) = [
        one.fields for one in site.house.audit.records if one.fields.get("target") == "run_code"
    ]
    (origin,) = [
        one["origin"]
        for one in site.house.rule.asked
        if one["phase"] == "call" and one["target"]["name"] == "search"
    ]
    told = {"kind": "sandbox", "parent": outer["decision_id"], "seq": 1}
    assert {name: origin[name] for name in told} == told
    assert origin["script_sha256"] == outer["script_sha256"]


async def test_what_the_author_did_not_see_is_not_called(site: Site, played: Played) -> None:
    played.play = lambda broker: broker.call("mail", "nope", {}, seq=1)
    await run(site)
    assert (played.said.code, site.house.server.saw) == ("unknown_tool", [])


async def test_a_call_inside_is_not_told_what_only_the_outer_one_can_use(
    site: Site, played: Played
) -> None:
    """Neither whom its client could ask, nor how it would hear of progress."""
    abilities: dict[str, Any] = {"elicitation": {"form": {}}, "sampling": {}}
    await run(site, {CAPABILITIES: abilities, "progressToken": 5, "traceparent": "00-1-1-01"})
    (permit,) = site.house.server.saw
    meta = meta_of(permit.call.message)
    assert meta[CAPABILITIES] == {}
    assert "progressToken" not in meta
    assert meta["traceparent"] == "00-1-1-01"
    assert played.said == "hello"


async def test_a_traced_program_calls_from_its_own_span(site: Site) -> None:
    trace = TraceContext(trace_id="a" * 32, span_id="b" * 16, flags=1)
    meta = {"traceparent": trace.below(trace.span_id)}
    params = {"name": "run_code", "arguments": {"code": "1"}, "_meta": meta}
    call = replace(site.call("tools/call", params), trace=trace)
    await Seen.of(await site.aggregate.handle(call))
    (permit,) = site.house.server.saw
    parent = trace.below(client_span(permit.decision.id))
    assert trace_headers(permit.call) == (("traceparent", parent),)
    assert meta_of(permit.call.message)["traceparent"] == parent
    records = [one.fields for one in site.house.audit.records if "trace_id" in one.fields]
    outer = [one for one in records if one["origin"] != "sandbox"]
    inner = [one for one in records if one["origin"] == "sandbox"]
    assert {(one["trace_id"], one["parent_span"]) for one in outer} == {("a" * 32, "b" * 16)}
    above = {(one["trace_id"], one.get("parent_span"), one["parent"]) for one in inner}
    assert above == {("a" * 32, None, outer[0]["decision_id"])}


async def test_a_tool_that_wants_to_ask_its_user_is_no_result(site: Site, played: Played) -> None:
    asks = {"resultType": "input_required", "inputRequests": {}, "requestState": "theirs"}
    site.house.server.answer = lambda permit: result(permit, asks)
    await run(site)
    assert isinstance(played.said, ToolRefused)
    assert (played.said.code, played.said.reached) == ("input_required", True)


async def test_a_server_that_asks_is_told_that_a_program_cannot_be_asked(
    site: Site, played: Played
) -> None:
    def asks(permit: Permit) -> RawAnswer:
        question = {"mode": "form", "message": "Who?", "requestedSchema": {"type": "object"}}
        asked = {"jsonrpc": "2.0", "id": "q1", "method": "elicitation/create", "params": question}
        answer = {"jsonrpc": "2.0", "id": permit.call.message.id, "result": text("nobody")}
        headers = (("content-type", "text/event-stream"),)
        stream = Events([event(asked), event(answer)])
        return RawAnswer(status=200, headers=headers, session=None, body=stream)

    site.house.server.answer = speaks(asks)
    params = {"name": "run_code", "arguments": {"code": "1"}}
    session = session_for({"elicitation": {}}, "n1", site.house.now)
    await site.ask("tools/call", params, profile=Profile.LEGACY, session=session)
    answers = [
        json.loads(one.call.message.body)
        for one in site.house.server.saw
        if one.call.message.form is Form.RESPONSE
    ]
    assert [one["error"]["message"] for one in answers] == ["a program cannot be asked anything"]
    assert played.said == "nobody"


@pytest.mark.parametrize(("size", "leaves"), [(1, False), (5_000, True)])
@pytest.mark.parametrize("streamed", [False, True])
async def test_what_a_program_is_answered_is_read_beside_the_loop(
    site: Site,
    played: Played,
    monkeypatch: pytest.MonkeyPatch,
    *,
    streamed: bool,
    size: int,
    leaves: bool,
) -> None:
    ran: dict[str, set[bool]] = {}
    loop = threading.get_ident()

    def noting(name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def note() -> None:
            ran.setdefault(name, set()).add(threading.get_ident() != loop)

        def done(*args: Any) -> Any:
            note()
            return work(*args)

        def yielded(*args: Any) -> Any:
            for one in work(*args):
                note()
                yield one

        return yielded if name == "events_of" else done

    for name in ("read_server_message", "events_of", "_content"):
        monkeypatch.setattr(broker_module, name, noting(name, getattr(broker_module, name)))
    said = {"content": [], "structuredContent": {"a": [0] * size}}

    def answer(permit: Permit) -> RawAnswer:
        final = {"jsonrpc": "2.0", "id": permit.call.message.id, "result": said}
        return Events([event(final)]).answer() if streamed else result(permit, said)

    site.house.server.answer = answer
    await run(site)
    assert played.said == said["structuredContent"]
    does = {"read_server_message", "_content"} | ({"events_of"} if streamed else set())
    assert ran == {name: {leaves} for name in does}


async def test_what_a_program_is_answered_is_read_however_much_waits(
    site: Site, played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = {"content": [], "structuredContent": {"a": [0] * 5_000}}

    def answer(permit: Permit) -> RawAnswer:
        monkeypatch.setattr(turns, "_TURNS", turns.Turns(most_waiting=0))
        return result(permit, said)

    site.house.server.answer = answer
    await run(site)
    assert played.said == said["structuredContent"]


async def test_an_answer_that_is_none_may_have_been_carried_out(site: Site, played: Played) -> None:
    def breaks(_: Any) -> RawAnswer:
        return whole(b"", status=502)

    site.house.server.answer = breaks
    played.play = send
    await run(site)
    assert (played.said.unknown, played.said.reached) == (True, False)


async def test_an_error_of_the_servers_is_one_of_the_tool(site: Site, played: Played) -> None:
    error = {"code": -32000, "message": "no such folder"}

    def fails(permit: Permit) -> RawAnswer:
        body = {"jsonrpc": "2.0", "id": permit.call.message.id, "error": error}
        return whole(json.dumps(body).encode())

    site.house.server.answer = fails
    await run(site)
    assert (played.said.code, played.said.text) == ("failed", "no such folder")
    assert played.said.reached


async def test_a_program_that_has_ended_calls_nothing_more(site: Site, played: Played) -> None:
    kept: list[Broker] = []

    async def keep(broker: Broker) -> None:
        kept.append(broker)

    played.play = keep
    script = script_of(await run(site))
    assert site.house.scripts.find(script, now=site.house.now) is None
    with pytest.raises(ToolRefused, match="denied"):
        await search(kept[0])
    assert site.house.server.saw == []


async def test_a_program_that_could_not_be_run_is_over(site: Site, played: Played) -> None:
    kept: list[Broker] = []

    async def full(broker: Broker) -> None:
        kept.append(broker)
        raise RateLimited("too many programs run at once; try again later")

    played.play = full
    assert (await run(site)).code == "rate_limited"
    with pytest.raises(ToolRefused, match="denied"):
        await search(kept[0])


async def test_a_yes_to_a_program_is_one_to_the_grants_that_asked_for_it(
    site: Site, played: Played
) -> None:
    def says(question: Mapping[str, Any]) -> Verdict | Decision:
        if question["phase"] != "call" or isinstance(question["approval"], dict):
            return Verdict.ALLOW
        asked = question["target"]["name"] in {"run_code", "send"}
        return decision(Verdict.ASK, "look_first") if asked else Verdict.ALLOW

    site.house.rule.says = says
    played.play = send
    plain = {"tool": "mail__send", "max_calls": 1, "arguments": {"to": "bob"}}
    assert (await run(site, grants=[plain])).code == "approval_required"
    (waiting,) = site.house.approvals.all(now=site.house.now)
    await site.house.approvals.answer(
        waiting.request.id,
        allow=True,
        span=Span.ONCE,
        by="user:bob",
        by_user_id="u_bob",
        note="",
        now=site.house.now,
    )
    assert (await run(site, grants=[plain])).code is None
    assert isinstance(played.said, NeedsApproval)
    assert site.house.server.saw == []


@pytest.mark.parametrize(
    ("error", "unknown"),
    [
        (UpstreamFailed("it broke"), True),
        (LimitExceeded("its answer is too large"), True),
        (UpstreamResting("it has failed too often"), False),
        (CredentialRequired("connect it first"), False),
        (EgressRefused("not there"), False),
    ],
    ids=["failed", "too large", "resting", "not connected", "not reachable"],
)
async def test_whether_a_refused_call_may_have_been_carried_out_is_told_as_it_is(
    site: Site, played: Played, error: GatewayError, unknown: bool
) -> None:
    def refuses(_: Permit) -> RawAnswer:
        raise error

    site.house.server.answer = refuses
    played.play = send
    await run(site)
    assert (played.said.code, played.said.unknown) == (error.code, unknown)


async def test_what_could_not_be_recorded_before_was_not_made(
    site: Site, played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = site.house.audit.append

    async def full(record: AuditRecord) -> LogEntry:
        if record.kind.value == "intent" and record.fields.get("target") == "send":
            raise AuditUnavailable("the log is full")
        return await append(record)

    monkeypatch.setattr(site.house.audit, "append", full)
    played.play = send
    await run(site)
    assert (played.said.code, played.said.unknown) == ("audit_unavailable", False)
    assert site.house.server.saw == []


async def test_a_quota_counts_what_a_program_calls_as_the_tool_that_it_calls(
    site: Site, played: Played
) -> None:
    quota = Quota(name="found", count=Count.CALLS, most=2, per=Per.DAY, tools=frozenset({"search"}))
    quotas = Quotas([quota], prices={}, clock=site.house.clock)
    site.house.pipeline._admission._quotas = quotas

    async def often(broker: Broker) -> Any:
        return [await broker.call("mail", "search", {"q": "x"}, seq=each) for each in range(1, 4)]

    played.play = often
    await run(site)
    assert isinstance(played.said, ToolRefused)
    assert played.said.code == "rate_limited"
    # Neither the program itself nor what was refused counts.
    assert [each() for each in quotas.fullest().values()] == [1.0]
    assert len(site.servers[MAIL].saw) == 2
