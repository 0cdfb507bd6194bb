"""Which revision a request is in, and what it may say there."""

import base64
import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.domain.calls import Form, Message
from gateway.domain.tools import Profile
from gateway.domain.tracing import TraceContext
from gateway.errors import ProtocolError
from gateway.wire.headers import read_headers
from gateway.wire.inbound import MODERN_CAPABILITIES_KEY, MODERN_VERSION_KEY, Inbound
from gateway.wire.jsontext import WireLimits
from gateway.wire.operations import Sender, find
from gateway.wire.revisions import read_delete, read_get, read_post
from tests.wire.posts import LEGACY, META, MODERN, Pairs, body, headers, modern_headers

LIMITS = WireLimits()
CALL = {"name": "allowed", "arguments": {}}
MODERN_CALL = CALL | {"_meta": META}
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
TRACEPARENT = f"00-{TRACE}-00f067aa0ba902b7-01"


def post(pairs: Pairs, content: bytes) -> Inbound:
    return read_post(pairs, content, LIMITS)


def refused(pairs: Pairs, content: bytes) -> tuple[int, int, str | int | None]:
    with pytest.raises(ProtocolError) as caught:
        post(pairs, content)
    return caught.value.status, caught.value.rpc_code, caught.value.rpc_id


def without(pairs: Pairs, name: str) -> Pairs:
    return [(found, text) for found, text in pairs if found.lower() != name]


def test_a_legacy_call_keeps_its_session_and_sends_no_credential_on():
    content = body("tools/call", CALL)
    assert post(headers(mcp_protocol_version=LEGACY, mcp_session_id="s.1"), content) == Inbound(
        message=Message(form=Form.REQUEST, method="tools/call", id=1, params=CALL, body=content),
        operation=find(Sender.CLIENT, "tools/call"),
        revision=LEGACY,
        profile=Profile.LEGACY,
        session="s.1",
        headers=(
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
            ("mcp-protocol-version", LEGACY),
        ),
        run_hint=None,
        trace=None,
    )


def test_a_modern_call_keeps_its_mirrors_and_leaves_a_session_behind():
    content = body("tools/call", MODERN_CALL)
    pairs = modern_headers(
        "tools/call", "allowed", mcp_session_id="s.1", mcp_param_region="eu", last_event_id="4"
    )
    assert post(pairs, content) == Inbound(
        message=Message(
            form=Form.REQUEST, method="tools/call", id=1, params=MODERN_CALL, body=content
        ),
        operation=find(Sender.CLIENT, "tools/call"),
        revision=MODERN,
        profile=Profile.MODERN,
        session=None,
        headers=(
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
            ("mcp-protocol-version", MODERN),
            ("mcp-method", "tools/call"),
            ("mcp-name", "allowed"),
            ("mcp-param-region", "eu"),
        ),
        run_hint=None,
        trace=None,
    )


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_each_legacy_revision_is_known_by_its_header(version: str):
    found = post(headers(mcp_protocol_version=version), body("tools/list"))
    assert (found.revision, found.profile) == (version, Profile.LEGACY)


def test_no_version_header_is_2025_03_26():
    found = post(headers(), body("tools/list"))
    assert (found.revision, found.profile) == ("2025-03-26", Profile.LEGACY)


def test_an_initialize_is_of_the_revision_it_proposes():
    content = body("initialize", {"protocolVersion": "2025-06-18"})
    assert post(headers(), content).revision == "2025-06-18"


@pytest.mark.parametrize("proposed", [None, 3, "", "x" * 33, "2025-06-1\u0668"])
def test_an_initialize_proposes_a_version(proposed: Any):
    assert refused(headers(), body("initialize", {"protocolVersion": proposed})) == (400, -32602, 1)


@pytest.mark.parametrize(
    ("header", "goes_on"), [("2025-06-18", True), (LEGACY, False), ("2024-11-05", False)]
)
def test_what_is_left_in_a_header_of_an_earlier_session_does_not_go_on(
    header: str, *, goes_on: bool
):
    pairs = [*without(headers(), "mcp-protocol-version"), ("MCP-Protocol-Version", header)]
    found = post(pairs, body("initialize", {"protocolVersion": "2025-06-18"}))
    assert ("mcp-protocol-version" in dict(found.headers)) is goes_on


@pytest.mark.parametrize("version", ["2031-12-24", LEGACY, ["2026-07-28"], None])
def test_a_notification_is_of_the_revision_that_its_header_says(version: Any):
    content = {"requestId": 1, "_meta": {MODERN_VERSION_KEY: version}}
    told = json.dumps(
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": content}
    ).encode()
    pairs = modern_headers("notifications/cancelled")
    assert refused(pairs, told) == (400, -32020, None)
    assert isinstance(
        post(pairs, told.replace(json.dumps(version).encode(), b'"2026-07-28"')), Inbound
    )


def test_s08_an_initialize_sheds_an_old_session():
    content = body("initialize", {"protocolVersion": LEGACY})
    found = post(headers(mcp_session_id="old.seal"), content)
    assert (found.session, "old.seal" in str(found.headers)) == (None, False)


def test_s09_an_initialize_cannot_choose_its_session():
    content = body("initialize", {"protocolVersion": LEGACY})
    assert post(headers(mcp_session_id="chosen-by-attacker"), content).session is None


@pytest.mark.parametrize(
    ("method", "name"),
    [("tools/list", None), ("tools/call", "denied"), (None, "allowed"), (None, None)],
)
def test_p12_mirrors_that_differ_from_the_body_or_lack_are_refused(
    method: str | None, name: str | None
):
    mirrors = {"mcp_method": method, "mcp_name": name}
    sent = {header: text for header, text in mirrors.items() if text is not None}
    pairs = headers(mcp_protocol_version=MODERN, **sent)
    assert refused(pairs, body("tools/call", MODERN_CALL)) == (400, -32020, 1)


def test_p12_a_missing_name_is_refused():
    assert refused(modern_headers("tools/call"), body("tools/call", MODERN_CALL)) == (
        400,
        -32020,
        1,
    )


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("prompts/get", {"name": "allowed"}),
        ("resources/read", {"uri": "allowed"}),
        ("tools/call", {"name": "allowed"}),
    ],
)
def test_p12_each_method_that_names_its_target_mirrors_the_name(
    method: str, params: dict[str, Any]
):
    content = body(method, params | {"_meta": META})
    assert ("mcp-name", "allowed") in post(modern_headers(method, "allowed"), content).headers
    assert refused(modern_headers(method, "denied"), content) == (400, -32020, 1)


@pytest.mark.parametrize("name", ["resources/subscribe", "resources/unsubscribe"])
def test_a_method_that_is_gone_is_not_found_whatever_its_mirrors_say(name: str):
    assert refused(modern_headers(name), body(name, {"_meta": META})) == (404, -32601, 1)


def test_blanks_around_a_header_are_no_part_of_it():
    pairs = modern_headers("tools/call", " \tallowed  ")
    assert ("mcp-name", "allowed") in post(pairs, body("tools/call", MODERN_CALL)).headers


@pytest.mark.parametrize("version", [None, LEGACY])
def test_p12_a_legacy_call_is_judged_by_its_body_and_sends_no_mirrors_on(version: str | None):
    pairs = headers(mcp_method="tools/list", mcp_name="allowed", mcp_param_a="b")
    if version is not None:
        pairs.append(("MCP-Protocol-Version", version))
    found = post(pairs, body("tools/call", {"name": "denied"}))
    assert (found.message.method, found.message.params) == ("tools/call", {"name": "denied"})
    assert not {name for name, _ in found.headers} & {"mcp-method", "mcp-name", "mcp-param-a"}


@pytest.mark.parametrize("name", ["naïve", "a\nb", " padded ", "=?base64?eA==?="])
def test_a_name_that_is_no_header_text_comes_as_base64(name: str):
    mirror = f"=?base64?{base64.b64encode(name.encode()).decode()}?="
    content = body("tools/call", {"name": name, "_meta": META})
    assert ("mcp-name", mirror) in post(modern_headers("tools/call", mirror), content).headers


@pytest.mark.parametrize(
    "mirror",
    ["=?base64?eQ?=", "=?base64?eB==?=", "=?base64?*?=", "=?base64?/w==?=", "=?base64?eQ==?="],
)
def test_a_base64_name_has_one_spelling(mirror: str):
    content = body("tools/call", {"name": "x", "_meta": META})
    assert refused(modern_headers("tools/call", mirror), content) == (400, -32020, 1)


def test_a_name_that_looks_like_base64_is_read_as_base64():
    name = "=?base64?eA==?="
    content = body("tools/call", {"name": name, "_meta": META})
    assert refused(modern_headers("tools/call", name), content) == (400, -32020, 1)


@pytest.mark.parametrize("value", ["a\r\nMcp-Name: denied", "a\x00", "\x7f", "\xe9"])
def test_p13_a_header_that_is_sent_on_holds_printable_ascii(value: str):
    pairs = [*modern_headers("tools/call", "allowed"), ("Mcp-Param-Region", value)]
    assert refused(pairs, body("tools/call", MODERN_CALL)) == (400, -32020, None)


@pytest.mark.parametrize(
    "name",
    [
        "Mcp-Method", "mcp-name", "MCP-Protocol-Version", "Mcp-Session-Id", "Mcp-Param-Region",
        "Authorization", "Host", "Content-Type", "Origin", "Last-Event-ID", "Traceparent",
    ],
)  # fmt: skip
def test_a_header_that_says_who_or_what_is_there_once(name: str):
    pairs = without(modern_headers("tools/call", "allowed"), name.lower())
    pairs += [(name, "application/json"), (name.upper(), "application/json")]
    status, _, rpc_id = refused(pairs, body("tools/call", MODERN_CALL))
    assert (status, rpc_id) == (400, None)


def test_accept_may_come_in_lines():
    pairs = [*without(headers(), "accept"), ("Accept", "application/json"), ("accept", "*/*")]
    assert ("accept", "application/json, */*") in post(pairs, body("tools/list")).headers


def test_a_request_without_accept_is_left_to_the_upstream():
    found = post(without(headers(), "accept"), body("tools/list"))
    assert found.headers == (("content-type", "application/json"),)


@pytest.mark.parametrize(
    "media_type",
    [
        "Application/JSON ; charset=utf-8",
        "application/json;charset=UTF-8",
        'application/json; charset="utf-8"; x=y',
        "APPLICATION/JSON",
    ],
)
def test_p06_json_by_any_spelling_is_json(media_type: str):
    pairs = [*without(headers(), "content-type"), ("Content-Type", media_type)]
    found = post(pairs, body("tools/call", CALL))
    assert found.message.method == "tools/call"
    assert ("content-type", "application/json") in found.headers


@pytest.mark.parametrize(
    "media_type",
    [None, "", "text/plain", "application/jsonp", "application/json, text/plain",
     "application/json; charset=utf-16", "application/json; charset=latin1"],
)  # fmt: skip
def test_p06_a_body_that_is_not_said_to_be_json_is_refused(media_type: str | None):
    pairs = without(headers(), "content-type")
    if media_type is not None:
        pairs.append(("Content-Type", media_type))
    assert refused(pairs, body("tools/call", CALL)) == (415, -32600, None)


@pytest.mark.parametrize("key", [MODERN_VERSION_KEY, MODERN_CAPABILITIES_KEY])
def test_a_modern_request_carries_its_envelope(key: str):
    meta = {found: content for found, content in META.items() if found != key}
    content = body("tools/call", CALL | {"_meta": meta})
    assert refused(modern_headers("tools/call", "allowed"), content) == (400, -32602, 1)


@pytest.mark.parametrize("meta", [None, [], "x"])
def test_a_modern_envelope_is_an_object(meta: Any):
    content = body("tools/call", CALL | {"_meta": meta})
    assert refused(modern_headers("tools/call", "allowed"), content) == (400, -32602, 1)


def test_client_capabilities_are_an_object():
    content = body("tools/call", CALL | {"_meta": META | {MODERN_CAPABILITIES_KEY: None}})
    assert refused(modern_headers("tools/call", "allowed"), content) == (400, -32602, 1)


@pytest.mark.parametrize("version", [LEGACY, "2027-01-01", None, 3])
def test_a_modern_header_and_body_name_one_version(version: Any):
    content = body("tools/call", CALL | {"_meta": META | {MODERN_VERSION_KEY: version}})
    assert refused(modern_headers("tools/call", "allowed"), content) == (400, -32020, 1)


@pytest.mark.parametrize("version", [None, LEGACY])
def test_a_modern_body_needs_a_modern_header(version: str | None):
    pairs = headers(mcp_method="tools/call", mcp_name="allowed")
    if version is not None:
        pairs.append(("Mcp-Protocol-Version", version))
    assert refused(pairs, body("tools/call", MODERN_CALL)) == (400, -32020, 1)


def test_a_null_version_does_not_equal_a_missing_header():
    content = body("tools/list", {"_meta": META | {MODERN_VERSION_KEY: None}})
    assert refused(headers(mcp_method="tools/list"), content) == (400, -32020, 1)


@pytest.mark.parametrize("form", ["request", "notification"])
def test_an_unknown_version_is_told_what_is_supported(form: str):
    version = "2099-01-01"
    pairs = headers(mcp_protocol_version=version, mcp_method="tools/list")
    content = body("tools/list", {"_meta": META | {MODERN_VERSION_KEY: version}})
    if form == "notification":
        pairs = headers(mcp_protocol_version=version)
        content = body("notifications/cancelled", id=...)
    with pytest.raises(ProtocolError) as caught:
        post(pairs, content)
    error = caught.value
    assert (error.status, error.rpc_code, error.rpc_id) == (
        400,
        -32022,
        1 if form == "request" else None,
    )
    assert error.data == {"supported": [MODERN], "requested": version}


def test_a_list_of_versions_is_no_version():
    pairs = headers(mcp_protocol_version=f"{LEGACY}, {MODERN}")
    assert refused(pairs, body("tools/call", CALL)) == (400, -32602, 1)


def test_a_modern_client_answers_no_requests():
    content = b'{"jsonrpc":"2.0","id":5,"result":{}}'
    assert refused(headers(mcp_protocol_version=MODERN), content) == (400, -32600, None)


def test_a_legacy_client_answers_requests():
    content = b'{"jsonrpc":"2.0","id":5,"result":{"action":"accept"}}'
    found = post(headers(mcp_protocol_version=LEGACY, mcp_session_id="s.1"), content)
    assert (found.message.form, found.operation, found.session) == (Form.RESPONSE, None, "s.1")
    assert found.message.params == {"action": "accept"}


def test_a_modern_notification_needs_no_mirrors_but_true_ones():
    content = body("notifications/cancelled", {"requestId": 1}, id=...)
    assert post(headers(mcp_protocol_version=MODERN), content).message.form is Form.NOTIFICATION
    assert refused(modern_headers("tools/list"), content) == (400, -32020, None)


@pytest.mark.parametrize("version", [LEGACY, MODERN])
def test_a_batch_is_refused_in_every_revision(version: str):
    pairs = headers(mcp_protocol_version=version)
    assert refused(pairs, b"[" + body("tools/call", CALL) + b"]") == (400, -32600, None)


@pytest.mark.parametrize(
    ("version", "pairs", "status"),
    [
        (LEGACY, headers(mcp_protocol_version=LEGACY), 200),
        (MODERN, modern_headers("made/up"), 404),
    ],
)
def test_an_unknown_method_is_not_found(version: str, pairs: Pairs, status: int):
    params = {"_meta": META} if version == MODERN else {}
    assert refused(pairs, body("made/up", params)) == (status, -32601, 1)


@pytest.mark.parametrize("read", [read_get, read_delete])
def test_get_and_delete_end_with_the_sessions(read: Any):
    with pytest.raises(ProtocolError) as caught:
        read(headers(mcp_protocol_version=MODERN))
    assert caught.value.status == 405
    with pytest.raises(ProtocolError) as caught:
        read(headers(mcp_protocol_version="2099-01-01"))
    assert (caught.value.status, caught.value.rpc_code) == (400, -32022)


def test_a_get_opens_the_stream_of_its_session():
    pairs = headers(mcp_protocol_version=LEGACY, mcp_session_id="s.1", last_event_id="9")
    assert read_get([*pairs, ("traceparent", TRACEPARENT)]) == Inbound(
        message=Message(form=Form.STREAM, method="GET", id=None, params={}, body=b""),
        operation=None,
        revision=LEGACY,
        profile=Profile.LEGACY,
        session="s.1",
        headers=(
            ("accept", "application/json, text/event-stream"),
            ("mcp-protocol-version", LEGACY),
            ("last-event-id", "9"),
        ),
        run_hint=None,
        trace=TraceContext(trace_id=TRACE, span_id="00f067aa0ba902b7", flags=1),
    )


def test_a_stream_is_resumed_in_its_session_only():
    with pytest.raises(ProtocolError, match="session") as caught:
        read_get(headers(mcp_protocol_version=LEGACY, last_event_id="9"))
    assert caught.value.status == 400
    assert read_get(headers(mcp_protocol_version=LEGACY)).session is None


def test_a_delete_names_the_session_it_ends():
    found = read_delete(headers(mcp_session_id="s.1"))
    assert (found.message.form, found.message.method, found.session) == (Form.END, "DELETE", "s.1")
    with pytest.raises(ProtocolError) as caught:
        read_delete(headers())
    assert caught.value.status == 400


@pytest.mark.parametrize(
    ("hint", "expected"),
    [("run-1", "run-1"), ("", None), ("x" * 129, None), ("a b", None), ("é", None), (3, None)],
)
def test_a_run_may_be_hinted_at(hint: Any, expected: str | None):
    params = {"_meta": {"douane/run": hint}}
    assert post(headers(), body("tools/list", params)).run_hint == expected


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["mcp-protocol-version", "mcp-method", "mcp-name", "x"]) | st.text(),
            st.sampled_from([LEGACY, MODERN, "tools/call", "allowed"]) | st.text(),
        )
    ),
    st.sampled_from([body("tools/call", CALL), body("tools/call", MODERN_CALL)]) | st.binary(),
)
def test_any_request_is_read_or_a_protocol_error(pairs: Pairs, content: bytes):
    with contextlib.suppress(ProtocolError):
        found = post([("content-type", "application/json"), *pairs], content)
        assert found.message.body == content


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("application/json, text/event-stream", "application/json, text/event-stream"),
        (
            "text/event-stream;q=0.5;x=secret, Application/JSON",
            "application/json, text/event-stream",
        ),
        ("text/*, */*, text/event-stream", "text/event-stream, */*, text/*"),
        ("application/json, application/x.secret", "application/json"),
        ("*/*", "*/*"),
        ("text/html", "application/octet-stream"),
    ],
)
def test_of_what_a_client_accepts_only_the_protocols_forms_go_on(said, told):
    fields = read_headers([("Accept", said)])
    assert fields.select("accept") == (("accept", told),)
