"""A call in a client's trace: on record is whose child it is, and its server is told ours."""

from dataclasses import replace

import pytest

from gateway.domain.calls import OriginKind
from gateway.domain.decisions import Verdict
from gateway.domain.tools import Profile
from gateway.domain.tracing import TraceContext, client_span
from gateway.wire.tracing import trace_headers
from tests.pipeline.house import House

TRACE = TraceContext(
    trace_id="4bf92f3577b34da6a3ce929d0e0e4736", span_id="00f067aa0ba902b7", flags=1
)


@pytest.fixture
async def house() -> House:
    built = House()
    await built.approve_all()
    built.audit.records.clear()
    return built


async def test_the_span_that_a_server_is_told_follows_from_the_decision_on_record(
    house: House,
) -> None:
    await house.handle(replace(house.call(), trace=TRACE))
    intent, outcome = house.audit.records
    for record in (intent, outcome):
        told = (record.fields["trace_id"], record.fields["parent_span"])
        assert told == (TRACE.trace_id, TRACE.span_id)
    decision = intent.fields["decision_id"]
    assert outcome.fields["decision_id"] == decision
    (permit,) = house.server.saw
    assert permit.decision.id == decision
    parent = TRACE.below(client_span(decision))
    assert trace_headers(permit.call) == (("traceparent", parent),)


async def test_of_a_message_of_the_protocol_too(house: House) -> None:
    await house.handle(replace(house.request("ping", profile=Profile.LEGACY), trace=TRACE))
    (permit,) = house.server.saw
    decision = house.audit.records[0].fields["decision_id"]
    assert trace_headers(permit.call) == (("traceparent", TRACE.below(client_span(decision))),)


async def test_what_policy_is_asked_about_is_the_message_as_it_came(house: House) -> None:
    traced = {"traceparent": TRACE.below(TRACE.span_id)}
    call = replace(house.call(arguments={"q": "x"}, _meta=traced), trace=TRACE)
    await house.handle(call)
    (permit,) = house.server.saw
    assert permit.access is not None
    assert permit.access.call.message is call.message
    sent = permit.call.message.params
    parent = TRACE.below(client_span(permit.decision.id))
    assert sent == {**call.message.params, "_meta": {"traceparent": parent}}


async def test_a_refused_call_is_on_record_under_its_callers_span(house: House) -> None:
    house.rule.says = lambda _: Verdict.DENY
    await house.handle(replace(house.call(), trace=TRACE))
    (refusal,) = house.audit.records
    assert refusal.fields["parent_span"] == TRACE.span_id
    assert house.server.saw == []


async def test_a_programs_call_has_no_other_caller_than_the_program(house: House) -> None:
    await house.handle(replace(house.call(), trace=TRACE, origin=OriginKind.SANDBOX))
    for record in house.audit.records:
        assert record.fields["trace_id"] == TRACE.trace_id
        assert "parent_span" not in record.fields


async def test_a_call_in_no_trace_begins_none(house: House) -> None:
    await house.handle(house.call())
    (permit,) = house.server.saw
    assert trace_headers(permit.call) == ()
    for record in house.audit.records:
        assert not {"trace_id", "parent_span"} & record.fields.keys()
