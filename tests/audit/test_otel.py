"""Logs and spans are messages of OTLP, under the names of the conventions."""

import base64
from collections.abc import Mapping
from typing import Any

import orjson
import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from gateway.audit.otel import Tracer, logs_request
from gateway.domain.tools import OWN
from gateway.domain.tracing import client_span, server_span
from tests.audit.some_records import CALLER, LOG_ID, TRACE, every_record, stored

RECORDS = every_record()
NANOSECONDS = 1795326559000123000


def with_bytes(document: Any) -> Any:
    """Return OTLP's JSON as protobuf's: there ids are base64, not hex (OTLP 1.x, JSON encoding)."""
    if isinstance(document, list):
        return [with_bytes(one) for one in document]
    if not isinstance(document, dict):
        return document
    return {
        name: base64.b64encode(bytes.fromhex(content)).decode()
        if name in {"traceId", "spanId", "parentSpanId"}
        else with_bytes(content)
        for name, content in document.items()
    }


def attributes(message: Any) -> dict[str, Any]:
    return {
        one.key: one.value.string_value
        or one.value.int_value
        or [inner.string_value for inner in one.value.array_value.values]
        for one in message.attributes
    }


def traced(tracer: Tracer, *names: str) -> list[Any]:
    return spans(tracer, *(RECORDS[name].members for name in names))


def spans(tracer: Tracer, *records: Mapping[str, Any]) -> list[Any]:
    document = tracer.request(records)
    document = orjson.loads(orjson.dumps(document))
    message = json_format.ParseDict(with_bytes(document), ExportTraceServiceRequest())
    return [
        span
        for resource in message.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def test_every_record_is_a_log_record_with_its_exact_body() -> None:
    records = [(record.body, record.members) for record in RECORDS.values()]
    document = orjson.loads(orjson.dumps(logs_request(records, version="1.2.3")))
    message = json_format.ParseDict(with_bytes(document), ExportLogsServiceRequest())
    (resource,) = message.resource_logs
    assert attributes(resource.resource) == {
        "service.name": "douane",
        "service.version": "1.2.3",
        "service.instance.id": LOG_ID,
    }
    (scope,) = resource.scope_logs
    assert [one.body.string_value.encode() for one in scope.log_records] == [
        record.body for record in RECORDS.values()
    ]
    outcome = scope.log_records[1]
    assert (outcome.time_unix_nano, outcome.event_name) == (NANOSECONDS, "douane.audit.outcome")
    assert outcome.trace_id.hex() == TRACE
    severities = [scope.log_records[number].severity_text for number in (1, 2, 3)]
    assert severities == ["INFO", "WARN", "WARN"]


def test_a_call_is_two_spans_of_one_trace() -> None:
    server, client = traced(Tracer(version="1"), "intent", "outcome")
    assert (server.name, server.kind, client.kind) == ("tools/call send_email", 2, 3)
    assert (server.trace_id.hex(), client.trace_id.hex()) == (TRACE, TRACE)
    assert (server.span_id.hex(), client.span_id.hex()) == (server_span("d1"), client_span("d1"))
    assert client.parent_span_id == server.span_id
    assert server.parent_span_id.hex() == CALLER
    assert server.end_time_unix_nano - server.start_time_unix_nano == 1_500_000
    assert client.start_time_unix_nano == NANOSECONDS
    named = attributes(server)
    assert {
        name: named[name]
        for name in (
            "mcp.method.name",
            "mcp.protocol.version",
            "gen_ai.tool.name",
            "gen_ai.operation.name",
            "client.address",
            "http.response.status_code",
            "user.roles",
        )
    } == {
        "mcp.method.name": "tools/call",
        "mcp.protocol.version": "2025-11-25",
        "gen_ai.tool.name": "send_email",
        "gen_ai.operation.name": "execute_tool",
        "client.address": "192.0.2.7",
        "http.response.status_code": 200,
        "user.roles": ["user", "auditor"],
    }
    assert (server.status.code, "error.type" in named) == (0, False)


def test_a_refusal_is_an_error_and_went_nowhere() -> None:
    (span,) = traced(Tracer(version="1"), "refusal")
    assert (span.kind, span.status.code, span.status.message) == (2, 2, "denied")
    assert attributes(span)["error.type"] == "denied"


def test_a_span_that_is_sent_again_is_the_same() -> None:
    first = traced(Tracer(version="1"), "intent", "outcome", "prompt")
    again = traced(Tracer(version="1"), "intent", "outcome", "prompt")
    assert [one.SerializeToString() for one in again] == [one.SerializeToString() for one in first]
    assert first[2].name == "prompts/get hello"
    assert len(first[2].trace_id) == 16


@pytest.mark.parametrize("name", ["intent", "bare", "sign-in", "started", "list"])
def test_what_is_no_end_of_a_call_has_no_span(name: str) -> None:
    assert Tracer(version="1").request([RECORDS[name].members]) == {"resourceSpans": []}


def test_calls_under_way_that_are_remembered_are_bounded() -> None:
    tracer = Tracer(version="1")
    for number in range(10_002):
        tracer.request([stored({"kind": "intent", "decision_id": str(number)}).members])
    kinds = [
        [
            span["kind"]
            for resource in tracer.request([stored(members).members])["resourceSpans"]
            for span in resource["scopeSpans"][0]["spans"]
        ]
        for members in (
            {"kind": "outcome", "decision_id": "1"},
            {"kind": "outcome", "decision_id": "2"},
        )
    ]
    assert kinds == [[2], [2, 3]]


def made(decision: str, *kinds: str, **fields: Any) -> list[Mapping[str, Any]]:
    """The records of one call."""
    told = {"method": "tools/call", "server": "mail", "decision_id": decision, **fields}
    return [stored({"kind": kind, **told}).members for kind in kinds]


def placed(found: list[Any]) -> list[tuple[str, str, str, int]]:
    """Where each span stands: its trace, the span above it, itself, its kind."""
    return [
        (one.trace_id.hex(), one.parent_span_id.hex(), one.span_id.hex(), one.kind) for one in found
    ]


@pytest.mark.parametrize("trace", [TRACE, None])
def test_what_a_program_calls_is_below_the_call_that_runs_it(trace: str | None) -> None:
    traced = {} if trace is None else {"trace_id": trace}
    program = {"parent": "d_1", "origin": "sandbox", **traced}
    found = spans(
        Tracer(version="1"),
        *made("d_1", "intent", server=OWN, **traced),
        *made("d_2", "intent", "outcome", **program),
        *made("d_1", "outcome", server=OWN, **traced),
    )
    whole = found[-1].trace_id.hex()
    assert trace in {whole, None}
    assert placed(found) == [
        (whole, server_span("d_1"), server_span("d_2"), 2),
        (whole, server_span("d_2"), client_span("d_2"), 3),
        (whole, "", server_span("d_1"), 2),
    ]


@pytest.mark.parametrize("trace", [TRACE, None])
def test_what_a_server_asks_is_below_our_wait_for_its_answer(trace: str | None) -> None:
    traced = {} if trace is None else {"trace_id": trace}
    asked = {"method": "sampling/createMessage", "parent": "d_2", "parent_span": CALLER}
    program = {"parent": "d_1", "origin": "sandbox"}
    tracer = Tracer(version="1")
    spans(tracer, *made("d_1", "intent", server=OWN, **traced))
    spans(tracer, *made("d_2", "intent", **program, **traced))
    (found,) = spans(tracer, *made("d_3", "outcome", **asked, **traced))
    (run,) = spans(tracer, *made("d_1", "outcome", server=OWN, **traced))
    whole = run.trace_id.hex()
    assert placed([found]) == [(whole, client_span("d_2"), server_span("d_3"), 2)]


def test_a_call_that_began_before_is_below_the_call_that_led_to_it_all_the_same() -> None:
    program = {"parent": "d_1", "origin": "sandbox"}
    (inner,) = spans(Tracer(version="1"), *made("d_2", "outcome", **program))
    (outer,) = spans(Tracer(version="1"), *made("d_1", "outcome"))
    assert inner.trace_id == outer.trace_id
    assert inner.parent_span_id == outer.span_id


def test_a_program_of_a_hosts_own_says_itself_below_what_it_calls() -> None:
    """What a host writes into a token as the parent names no call of ours."""
    fields = {"parent": "d_1", "origin": "host_sandbox", "parent_span": CALLER, "trace_id": TRACE}
    (found,) = spans(Tracer(version="1"), *made("d_2", "outcome", **fields))
    assert placed([found]) == [(TRACE, CALLER, server_span("d_2"), 2)]


@pytest.mark.parametrize("parent", ["01a201ee25a625bbb1950adf0000002a", 7])
def test_a_parent_that_is_no_decision_has_no_span(parent: Any) -> None:
    fields = {"parent": parent, "parent_span": CALLER, "trace_id": TRACE}
    (found,) = spans(Tracer(version="1"), *made("d_2", "outcome", **fields))
    assert placed([found]) == [(TRACE, CALLER, server_span("d_2"), 2)]
    (found,) = spans(Tracer(version="1"), *made("d_2", "outcome", parent=parent, parent_span=3))
    assert found.parent_span_id == b""
