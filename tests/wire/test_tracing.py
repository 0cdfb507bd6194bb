"""The trace of a call: what of a client's is taken for one, and what its server is told."""

import json
from dataclasses import replace
from typing import Any

import pytest

from gateway.domain.calls import Call, CallId, Form, Message
from gateway.domain.tools import OWN, Profile, UpstreamId
from gateway.domain.tracing import TraceContext, client_span, server_span
from gateway.wire.jsontext import WireLimits
from gateway.wire.revisions import read_post
from gateway.wire.tracing import trace_headers, under_our_span
from tests.wire.posts import META, Pairs, body, headers, modern_headers

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
OTHER = "a" * 32
SPAN = "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE}-{SPAN}-01"
JOINED = TraceContext(trace_id=TRACE, span_id=SPAN, flags=1)
DECISION = "d_1"
SENT_ON = f"00-{TRACE}-{client_span(DECISION)}-01"


def read(pairs: Pairs, meta: dict[str, Any] | None = None) -> TraceContext | None:
    content = body("tools/list", {} if meta is None else {"_meta": meta})
    return read_post(headers() + pairs, content, WireLimits()).trace


@pytest.mark.parametrize(
    ("parent", "expected"),
    [
        (TRACEPARENT, JOINED),
        (f"00-{TRACE}-{SPAN}-00", replace(JOINED, flags=0)),
        (f"00-{TRACE}-{SPAN}-ff", replace(JOINED, flags=3)),
        (f"01-{TRACE}-{SPAN}-01", JOINED),
        (f"ff-{TRACE}-{SPAN}-01", None),
        (f"00-{'0' * 32}-{SPAN}-01", None),
        (f"00-{TRACE}-{'0' * 16}-01", None),
        (f"{TRACEPARENT}-anything", None),
        (f"01-{TRACE}-{SPAN}-01-anything", None),
        (TRACEPARENT.upper(), None),
        ("nonsense", None),
        ("", None),
    ],
)
def test_a_well_formed_trace_is_joined(parent: str, expected: TraceContext | None) -> None:
    assert read([("traceparent", parent)]) == expected
    assert read([], {"traceparent": parent}) == expected
    pairs = [*modern_headers("tools/list"), ("traceparent", parent)]
    content = body("tools/list", {"_meta": META})
    assert read_post(pairs, content, WireLimits()).trace == expected


@pytest.mark.parametrize("odd", ["nonsense", 3, None, {}, TRACEPARENT.replace(TRACE, "0" * 32)])
def test_what_the_body_says_is_first_where_it_says_a_trace(odd: Any) -> None:
    header = [("traceparent", TRACEPARENT), ("tracestate", "a=1")]
    other = {"traceparent": TRACEPARENT.replace(TRACE, OTHER), "tracestate": "b=2"}
    assert read(header, other) == replace(JOINED, trace_id=OTHER, state="b=2")
    assert read(header, {"traceparent": odd}) == replace(JOINED, state="a=1")
    assert read([], {"traceparent": odd}) is None


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("vendor=some value", "vendor=some value"),
        ("a=1,b@c=2", "a=1,b@c=2"),
        (" a=1 ,\t, b=2,", "a=1,b=2"),
        ("0_*-/x=~!", "0_*-/x=~!"),
        ("A=1", ""),
        ("a", ""),
        ("a=1=2", ""),
        ("a=", ""),
        ("a@b@c=1", ""),
        ("a=1,nonsense", ""),
        (",".join(f"k{number}=1" for number in range(32)),) * 2,
        (",".join(f"k{number}=1" for number in range(33)), ""),
        (f"{'a' * 256}=1",) * 2,
        (f"{'a' * 257}=1", ""),
        (f"a={'x' * 256}",) * 2,
        (f"a={'x' * 257}", ""),
        (f"a={'x' * 250},b={'x' * 257}", ""),
        (f"a={'x' * 250},b={'x' * 250}",) * 2,
        (f"a={'x' * 250},b={'x' * 250},c={'x' * 10}", ""),
    ],
)
def test_a_well_formed_state_goes_with_it(state: str, expected: str) -> None:
    assert read([("traceparent", TRACEPARENT), ("tracestate", state)]) == replace(
        JOINED, state=expected
    )
    assert read([("tracestate", state)]) is None
    assert read([], {"traceparent": TRACEPARENT, "tracestate": state}) == replace(
        JOINED, state=expected
    )


def test_a_state_may_come_in_several_lines() -> None:
    lines = [("traceparent", TRACEPARENT), ("tracestate", "a=1"), ("TraceState", "b=2")]
    assert read(lines) == replace(JOINED, state="a=1,b=2")


def test_a_state_that_is_no_text_is_none() -> None:
    assert read([], {"traceparent": TRACEPARENT, "tracestate": ["a=1"]}) == JOINED


def call(
    meta: dict[str, Any] | None = None,
    *,
    trace: TraceContext | None = JOINED,
    form: Form = Form.REQUEST,
    server: str = "mail",
) -> Call:
    params = {"name": "send", "arguments": {"traceparent": TRACEPARENT}}
    params |= {} if meta is None else {"_meta": meta}
    content = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    return Call(
        id=CallId("c_1"),
        endpoint="/mcp/mail",
        server=UpstreamId(server),
        message=Message(form=form, method="tools/call", id=1, params=params, body=content.encode()),
        revision="2026-07-28",
        profile=Profile.MODERN,
        headers=(("accept", "*/*"),),
        credential=None,
        session=None,
        source_ip="192.0.2.1",
        trace=trace,
    )


def test_a_server_is_told_our_span_and_not_the_callers() -> None:
    meta = {"traceparent": TRACEPARENT, "tracestate": "a=1", "progressToken": 1}
    sent = under_our_span(call(meta, trace=replace(JOINED, state="a=1")), DECISION)
    assert sent.headers == (("accept", "*/*"), ("traceparent", SENT_ON), ("tracestate", "a=1"))
    params = {
        "name": "send",
        "arguments": {"traceparent": TRACEPARENT},
        "_meta": {**meta, "traceparent": SENT_ON},
    }
    assert sent.message.params == params
    assert json.loads(sent.message.body) == {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": params,
    }
    assert trace_headers(sent) == (("traceparent", SENT_ON), ("tracestate", "a=1"))
    assert client_span(DECISION) not in {SPAN, server_span(DECISION)}


@pytest.mark.parametrize("meta", [None, {}, {"progressToken": 1}])
def test_where_the_body_says_nothing_of_it_its_bytes_stay(meta: dict[str, Any] | None) -> None:
    asked = call(meta)
    sent = under_our_span(asked, DECISION)
    assert sent.message is asked.message
    assert sent.headers == (("accept", "*/*"), ("traceparent", SENT_ON))


def test_an_answer_keeps_its_bytes() -> None:
    asked = call({"traceparent": TRACEPARENT}, form=Form.RESPONSE)
    assert under_our_span(asked, DECISION).message is asked.message


@pytest.mark.parametrize("asked", [call(trace=None), call(server=OWN)], ids=["untraced", "ours"])
def test_what_is_in_no_trace_or_goes_nowhere_stays_as_it_is(asked: Call) -> None:
    assert under_our_span(asked, DECISION) is asked


def test_the_parts_of_a_traceparent_are_those_of_the_standard() -> None:
    """W3C Trace Context level 2, section 3.2.3: version, trace, parent and flags in two digits."""
    assert JOINED.below("b7ad6b7169203331") == f"00-{TRACE}-b7ad6b7169203331-01"
    assert replace(JOINED, flags=0).below(SPAN) == f"00-{TRACE}-{SPAN}-00"
