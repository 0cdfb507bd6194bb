"""What is counted, and that no caller can invent a series."""

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import Any

import pytest

from gateway.domain.calls import Call, Form, Permit, RawAnswer, Reply
from gateway.domain.identity import Credential, Principal
from gateway.domain.tools import Kind, Profile, Target, UpstreamId
from gateway.errors import Denied, GatewayError, UpstreamFailed
from gateway.web import call_metrics as measured
from gateway.web.call_metrics import Metered, MeteredUpstream
from gateway.web.metrics import Metrics
from gateway.web.registry import Registry
from tests.pipeline.house import ALICE, MAIL, House, Server, event, result, text


class Scripted:
    """A carrier that answers everything alike."""

    def __init__(self, reply: Reply) -> None:
        self.reply = reply

    async def handle(self, call: Call) -> Reply:
        return self.reply

    async def known(self, credential: Credential, endpoint: str) -> Principal:
        return ALICE

    async def refuse(self, call: Call, error: GatewayError) -> Reply:
        return replace(self.reply, code=error.code)


def reply(status: int = 200, code: str | None = None, body: Any = b"") -> Reply:
    return Reply(status=status, headers=(), body=body, code=code)


async def stream(*parts: bytes) -> AsyncGenerator[bytes, None]:
    yield b""
    for part in parts:
        yield part


async def read(answer: Reply) -> list[bytes]:
    assert not isinstance(answer.body, bytes)
    return [part async for part in answer.body]


def response(**members: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, **members}).encode()


def tool_calls(metrics: Metrics) -> dict[tuple[str, str, str], float]:
    """Return the counted calls of tools by server, tool and outcome."""
    metrics.add_up()
    return {
        (sample.labels["server"], sample.labels["tool"], sample.labels["outcome"]): sample.value
        for family in metrics.tool_calls.collect()
        for sample in family.samples
        if sample.name.endswith("_total")
    }


FAILS = {"content": [], "isError": True}
NO = {"content": [], "isError": True, "_meta": {"douane/refusal": {"code": "denied"}}}


def series(metrics: Metrics) -> dict[str, float]:
    """Return the counted series that are not zero; neither buckets nor times of creation."""
    found = {}
    for line in metrics.page().decode().splitlines():
        name, _, count = line.rpartition(" ")
        if not line.startswith("#") and "_bucket" not in name and "_created" not in name:
            found[name] = float(count)
    return {name: count for name, count in found.items() if count and "_sum" not in name}


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


async def test_a_carried_call_is_counted_and_timed(metrics):
    call = House().call()
    answer = reply()
    assert await Metered(Scripted(answer), metrics).handle(call) is answer
    assert series(metrics) == {
        'douane_requests_total{method="tools/call",outcome="ok",server="mail"}': 1,
        'douane_request_duration_seconds_count{method="tools/call",server="mail"}': 1,
        'douane_tool_calls_total{outcome="ok",server="mail",tool=""}': 1,
        'douane_tool_call_duration_seconds_count{server="mail"}': 1,
    }


async def test_a_refusal_is_counted_by_its_code(metrics):
    refused = await Metered(Scripted(reply()), metrics).refuse(House().call(), Denied("no"))
    assert refused.code == "denied"
    assert series(metrics) == {
        'douane_requests_total{method="tools/call",outcome="denied",server="mail"}': 1,
        'douane_request_duration_seconds_count{method="tools/call",server="mail"}': 1,
        'douane_refusals_total{code="denied"}': 1,
    }


async def test_an_error_of_the_upstreams_is_no_refusal_of_ours(metrics):
    await Metered(Scripted(reply(404)), metrics).handle(House().call())
    assert 'douane_requests_total{method="tools/call",outcome="upstream_error",server="mail"}' in (
        series(metrics)
    )
    assert not any("refusals" in name for name in series(metrics))


@pytest.mark.parametrize(
    ("code", "method", "result"),
    [(None, "initialize", "success"), ("denied", "server/discover", "failure")],
)
async def test_a_handshake_is_counted_by_its_result(metrics, code, method, result):
    await Metered(Scripted(reply(code=code)), metrics).handle(House().request(method))
    name = f'douane_session_initializations_total{{result="{result}",server="mail"}}'
    assert series(metrics)[name] == 1


@pytest.mark.parametrize(
    ("form", "told"),
    [(Form.REQUEST, "other"), (Form.NOTIFICATION, "notification"), (Form.STREAM, "stream")],
)
async def test_a_method_that_a_caller_invented_is_no_series_of_its_own(metrics, form, told):
    await Metered(Scripted(reply()), metrics).handle(House().request("evil/method", form=form))
    assert f'douane_requests_total{{method="{told}",outcome="ok",server="mail"}}' in series(metrics)
    assert "evil" not in metrics.page().decode()


async def test_no_argument_tool_or_person_is_in_a_label(metrics):
    await Metered(Scripted(reply()), metrics).handle(House().call("secret_tool", {"to": "eve"}))
    page = metrics.page().decode()
    assert not [word for word in ("secret_tool", "eve", "alice") if word in page]


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (reply(body=response(result=text("hello"))), "ok"),
        (reply(body=response(result={**text("hello"), "isError": False})), "ok"),
        (reply(body=response(result=text('"isError": true'))), "ok"),
        (reply(body=response(result={**text("x"), "structuredContent": {"isError": True}})), "ok"),
        (reply(body=response(result=FAILS)), "failed"),
        (reply(body=response(error={"code": -32603, "message": "no"})), "failed"),
        (reply(body=response(error={"code": 1, "message": "no", "data": "x"})), "failed"),
        (reply(body=response(result={**FAILS, "_meta": ["x"]})), "failed"),
        (reply(body=response(result={**FAILS, "_meta": "x"})), "failed"),
        (reply(body=response(error="no")), "failed"),
        (reply(body=response(error=[{"data": {"decision_id": "d_1"}}])), "failed"),
        (reply(status=502), "failed"),
        (reply(code="upstream_failed"), "failed"),
        (reply(code="denied"), "refused"),
        (reply(status=429, code="rate_limited"), "refused"),
    ],
)
async def test_a_call_of_a_tool_counts_by_how_it_ended(metrics, answer, outcome):
    assert await Metered(Scripted(answer), metrics).handle(House().call()) is answer
    assert tool_calls(metrics) == {("mail", "", outcome): 1}


@pytest.mark.parametrize(
    ("last", "outcome"),
    [
        (event(json.loads(response(result=text("hello")))).raw, "ok"),
        (event(json.loads(response(result=FAILS))).raw, "failed"),
        (event(json.loads(response(result=NO))).raw, "refused"),
        (event(json.loads(response(error={"code": -32603, "message": "no"}))).raw, "failed"),
        (
            event(json.loads(response(error={"code": 1, "data": {"decision_id": "d_1"}}))).raw,
            "refused",
        ),
        (event({"jsonrpc": "2.0", "method": "notifications/message"}).raw, "failed"),
        (b": ping\n\n", "failed"),
        (b'data: {"jsonrpc":"2.0",\ndata: "result":{}}\n\n', "ok"),
    ],
)
async def test_a_streamed_call_counts_at_its_end_by_the_last_that_was_said(metrics, last, outcome):
    carrier = Scripted(reply(body=stream(b": one\n\n", last)))
    answer = await Metered(carrier, metrics).handle(House().call())
    assert tool_calls(metrics) == {}
    assert await read(answer) == [b"", b": one\n\n", last]
    assert tool_calls(metrics) == {("mail", "", outcome): 1}


async def test_a_stream_that_is_left_early_is_closed_and_counts(metrics):
    closed = []

    async def parts():
        try:
            yield b""
            yield b": one\n\n"
        finally:
            closed.append(True)

    answer = await Metered(Scripted(reply(body=parts())), metrics).handle(House().call())
    assert not isinstance(answer.body, bytes)
    async with aclosing(answer.body) as body:
        await anext(body)
    assert closed == [True]
    assert tool_calls(metrics) == {("mail", "", "failed"): 1}


async def furnished(*names: str) -> tuple[House, Registry]:
    house = House()
    await house.show(*({"name": name, "inputSchema": {"type": "object"}} for name in names))
    return house, Registry(house.pins, lambda: [MAIL])


async def call_all(house: House, metrics: Metrics, names: Sequence[str]) -> None:
    for name in names:
        await Metered(Scripted(reply()), metrics).handle(house.call(name))


async def test_only_tools_that_somebody_approved_count_by_name(metrics):
    house, registry = await furnished("search", "pending")
    await house.approve(Kind.TOOL, "search")
    metrics.tell_tools_apart(registry)
    await call_all(house, metrics, ["search", "pending", "invented", "search"])
    assert tool_calls(metrics) == {("mail", "search", "ok"): 2, ("mail", "", "ok"): 2}


async def test_our_own_tools_count_by_name_where_they_are_ours(metrics):
    call = House().call("search_tools")
    own = replace(call, server=UpstreamId(""))
    for one in (own, replace(own, message=House().call("invented").message), call):
        await Metered(Scripted(reply()), metrics).handle(one)
    assert tool_calls(metrics) == {
        ("", "search_tools", "ok"): 1,
        ("", "", "ok"): 1,
        ("mail", "", "ok"): 1,
    }


async def test_after_so_many_tools_the_others_count_together(metrics, monkeypatch):
    monkeypatch.setattr(measured, "_MOST_TOOLS", 2)
    names = ["a", "b", "c", "d"]
    house, registry = await furnished(*names)
    for name in names:
        await house.approve(Kind.TOOL, name)
    metrics.tell_tools_apart(registry)
    await call_all(house, metrics, [*names, *names])
    assert tool_calls(metrics) == {
        ("mail", "a", "ok"): 2,
        ("mail", "b", "ok"): 2,
        ("mail", "", "ok"): 4,
    }


async def test_the_size_of_the_registry_follows_the_approvals(metrics):
    house, registry = await furnished("search")
    metrics.tell_tools_apart(registry)
    assert "douane_registry_tools" not in " ".join(series(metrics))
    await house.approve(Kind.TOOL, "search")
    told = series(metrics)
    assert told['douane_registry_tools{server="mail"}'] == 1
    assert told['douane_registry_tokens{server="mail"}'] == registry.sizes()[MAIL].cost > 0
    target = Target(server=MAIL, kind=Kind.TOOL, name="search")
    await house.pins.revoke(target, Profile.MODERN, by="bob", note="")
    assert "douane_registry_tools" not in " ".join(series(metrics))


async def test_refused_calls_do_not_count_as_quick_ones(metrics):
    await Metered(Scripted(reply(code="denied")), metrics).handle(House().call())
    assert "douane_tool_call_duration_seconds_count" not in " ".join(series(metrics))


async def permitted(method: str) -> Permit:
    """Return leave for a request, as the one path gives it."""
    house = House()
    await house.approve_all()
    await house.pipeline.handle(house.request(method))
    return house.server.saw[-1]


async def handshakes(metrics: Metrics, method: str, server: Server) -> dict[str, float]:
    permit = await permitted("server/discover")
    call = replace(permit.call, message=replace(permit.call.message, method=method))
    upstream = MeteredUpstream(MAIL, server, metrics)
    with suppress(UpstreamFailed):
        await upstream.forward(replace(permit, call=call))
    await upstream.reject(permit, b"{}")
    assert len(server.rejected) == 1
    return {name: count for name, count in series(metrics).items() if "upstream_sessions" in name}


def fails(permit: Permit) -> RawAnswer:
    raise UpstreamFailed("it is gone")


@pytest.mark.parametrize(
    ("server", "told"),
    [
        (Server(), "success"),
        (Server(answer=lambda permit: result(permit, {}, status=503)), "failure"),
        (Server(answer=fails), "failure"),
    ],
    ids=["answered", "503", "gone"],
)
async def test_handshakes_with_servers_count_by_their_result(metrics, server, told):
    name = f'douane_upstream_sessions_total{{result="{told}",server="mail"}}'
    assert await handshakes(metrics, "initialize", server) == {name: 1}


async def test_of_what_goes_to_servers_only_handshakes_count(metrics):
    assert await handshakes(metrics, "tools/call", Server()) == {}


def test_failures_in_a_row_are_told_of_the_servers_there_are():
    metrics = Metrics()
    metrics.count_failures({MAIL: lambda: 1, UpstreamId("gone"): lambda: 2})
    metrics.count_failures({MAIL: lambda: 3})
    lines = metrics.page().decode().splitlines()
    told = [line for line in lines if line.startswith("douane_upstream_failures{")]
    assert told == ['douane_upstream_failures{server="mail"} 3.0']


def test_a_request_that_is_refused_unread_counts_and_is_told_of() -> None:
    metrics = Metrics()
    told: list[tuple[str, str]] = []
    metrics.refused_unread("host", "192.0.2.1")
    metrics.tell_unread(lambda code, source_ip: told.append((code, source_ip)))
    metrics.refused_unread("origin", "192.0.2.1")
    metrics.refused_unread("connections")
    assert told == [("origin", "192.0.2.1"), ("connections", "")]
    page = metrics.page().decode()
    for code in ("host", "origin", "connections"):
        assert f'douane_refusals_total{{code="{code}"}} 1.0' in page


def test_tools_that_search_by_meaning_finds_are_counted_whenever_somebody_looks(metrics):
    placed: list[tuple[int, int] | None] = [None]
    metrics.count_placed(lambda: placed[0])
    for placed[0], told in ((None, (0, 0)), ((2, 5), (2, 5)), ((5, 5), (5, 5))):
        found = series(metrics)
        of = [found.get(f'douane_search_tools{{of="{each}"}}', 0) for each in ("meaning", "all")]
        assert tuple(of) == told


async def test_definitions_are_counted_by_server_and_status(metrics):
    house, registry = await furnished("search", "send")
    metrics.tell_tools_apart(registry)
    await house.approve(Kind.TOOL, "search")
    told = series(metrics)
    found = {
        status: told.get(f'douane_pins{{server="mail",status="{status}"}}', 0)
        for status in ("approved", "pending", "drifted", "revoked")
    }
    assert found == {"approved": 1, "pending": 1, "drifted": 0, "revoked": 0}
    target = Target(server=MAIL, kind=Kind.TOOL, name="search")
    await house.pins.revoke(target, Profile.MODERN, by="bob", note="")
    assert series(metrics)['douane_pins{server="mail",status="revoked"}'] == 1


def test_crawls_are_timed_by_what_became_of_them(metrics):
    metrics.crawled(MAIL, 0.25, failed=False)
    metrics.crawled(MAIL, 3.0, failed=True)
    told = series(metrics)
    assert told['douane_crawl_duration_seconds_count{result="failed",server="mail"}'] == 1
    assert told['douane_crawl_duration_seconds_count{result="ok",server="mail"}'] == 1


def test_a_list_in_front_of_all_counts_for_every_server_in_it(metrics):
    metrics.listed("tools/list", [MAIL, UpstreamId("notes")])
    told = series(metrics)
    for server in ("mail", "notes"):
        labels = f'method="tools/list",outcome="ok",server="{server}"'
        assert told[f"douane_requests_total{{{labels}}}"] == 1


def test_what_was_counted_is_there_whenever_somebody_looks_and_kept_apart_for_a_while_only() -> (
    None
):
    metrics = Metrics()
    for _ in range(5_000):
        metrics.waited_for_record("log", 0.003)
        metrics.carried(UpstreamId("mail"), "tools/call", "ok", 0.2)
    assert max(len(metrics._waits), len(metrics._carried)) < 600
    said = metrics.page().decode().splitlines()
    assert 'douane_audit_wait_seconds_count{place="log"} 5000.0' in said
    counted = 'douane_requests_total{method="tools/call",outcome="ok",server="mail"} 5000.0'
    assert counted in said


def test_records_without_calls_are_added_up_too() -> None:
    metrics = Metrics()
    for _ in range(5_000):
        metrics.waited_for_record("log", 0.003)
    assert len(metrics._waits) < 600
