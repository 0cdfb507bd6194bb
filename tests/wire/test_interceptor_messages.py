"""Interceptors speak as the draft's conformance suite wants: what is the default is left out."""

import json
from typing import Any

import pytest

from gateway.errors import ProtocolError
from gateway.wire.interceptors import (
    DECIDE,
    EVENTS,
    REDACT,
    Phase,
    described,
    interceptors,
    mutation,
    read_asked,
    read_invocation,
    validation,
)
from gateway.wire.jsontext import WireLimits

INVOKED: dict[str, Any] = {
    "name": DECIDE,
    "event": "tools/call",
    "phase": "request",
    "payload": {"name": "echo", "arguments": {"note": "hi"}},
    "config": {"server": "m"},
    "context": {"sessionId": "s", "traceId": "t", "spanId": "1", "principal": {"id": "alice"}},
}


def test_a_descriptor_has_a_hook_for_each_phase() -> None:
    assert described("a", "validation", events=["tools/call"], phases=["request", "response"]) == {
        "name": "a",
        "type": "validation",
        "hooks": [
            {"events": ["tools/call"], "phase": "request"},
            {"events": ["tools/call"], "phase": "response"},
        ],
    }
    listed = interceptors("prompts/get")["interceptors"]
    assert [one["name"] for one in listed] == [DECIDE, REDACT]
    assert not any({"mode", "failOpen"} & one.keys() for one in listed)
    assert interceptors("prompts/list") == {"interceptors": []}


def test_what_passes_has_no_severity_and_what_does_not_an_error() -> None:
    passed = {"interceptor": "a", "type": "validation", "phase": "request", "valid": True}
    assert validation("a", Phase.REQUEST, ()) == passed
    assert validation("a", "request", ["denied by policy"]) == {
        **passed,
        "valid": False,
        "severity": "error",
        "messages": [{"message": "denied by policy", "severity": "error"}],
    }
    assert mutation("a", "response", {"b": 1}, modified=False) == {
        "interceptor": "a",
        "type": "mutation",
        "phase": "response",
        "modified": False,
        "payload": {"b": 1},
    }


def test_an_invocation_says_what_where_and_whose() -> None:
    seen = read_invocation(INVOKED)
    assert (seen.server, seen.session, seen.principal) == ("m", "s", {"id": "alice"})
    assert (
        seen.span
        != read_invocation({**INVOKED, "context": {**INVOKED["context"], "spanId": "2"}}).span
    )
    whole = {**INVOKED, "payload": {"method": "tools/call", "params": INVOKED["payload"]}}
    assert read_invocation(whole).payload == seen.payload
    answered = {**INVOKED, "phase": "response", "payload": {"method": "tools/call"}}
    assert read_invocation(answered).payload == {"method": "tools/call"}


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize(
    ("name", "phase"), [(DECIDE, "request"), (DECIDE, "response"), (REDACT, "response")]
)
def test_each_interceptor_looks_at_what_it_says(event: str, name: str, phase: str) -> None:
    assert (
        read_invocation({"name": name, "event": event, "phase": phase, "payload": {}}).event
        == event
    )


@pytest.mark.parametrize(
    "change",
    [
        {"name": "conf/does-not-exist"},
        {"name": REDACT},
        {"name": 7},
        {"event": "tools/list"},
        {"phase": "both"},
        {"payload": []},
        {"payload": {"method": "tools/list"}},
        {"config": []},
        {"config": {"server": 7}},
        {"context": []},
        {"context": {"sessionId": 7}},
        {"context": {"principal": "alice"}},
    ],
)
def test_what_is_no_invocation_is_invalid_params(change: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError) as refused:
        read_invocation({**INVOKED, **change})
    assert refused.value.rpc_code == -32602


BEYOND = 2**53 + 1


def message(
    payload: Any, *, phase: str = "response", method: str = "interceptor/invoke", id_: int = 1
) -> bytes:
    params = {**INVOKED, "phase": phase, "payload": payload}
    return json.dumps({"jsonrpc": "2.0", "id": id_, "method": method, "params": params}).encode()


def test_a_result_may_have_the_integers_that_its_server_wrote() -> None:
    found = read_asked(message({"structuredContent": {"id": BEYOND}}), WireLimits())
    assert read_invocation(found.params).payload == {"structuredContent": {"id": BEYOND}}


@pytest.mark.parametrize(
    "body",
    [
        message({"name": "echo", "arguments": {"id": BEYOND}}, phase="request"),
        message({"id": BEYOND}, phase="both"),
        message({"id": BEYOND}, method="interceptors/list"),
        message({"a": BEYOND}, id_=BEYOND),
        message({"a": 1})[:-2] + b',"payload":{"a":%d}}}' % BEYOND,
        message({"a": 1}).replace(b'"a": 1', b'"a": 1e999'),
    ],
)
def test_nothing_else_may(body: bytes) -> None:
    with pytest.raises(ProtocolError):
        read_asked(body, WireLimits())
