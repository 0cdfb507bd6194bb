"""Logs and spans are messages of OTLP, under the names of the conventions."""

import base64
from typing import Any

import orjson
import pytest
from google.protobuf import json_format  # type: ignore[import-untyped]  # without stubs
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from gateway.audit.otel import Tracer, logs_request
from tests.audit.some_records import LOG_ID, TRACE, every_record, stored

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
    document = tracer.request(RECORDS[name].members for name in names)
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
    assert (client.parent_span_id, server.parent_span_id) == (server.span_id, b"")
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
