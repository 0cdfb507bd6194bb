"""What a no looks like to HTTP, to JSON-RPC and to a model."""

import json
from dataclasses import replace
from typing import Any

import pytest

from gateway import errors
from gateway.domain.calls import Form, Message, Reply
from gateway.domain.tools import Profile
from gateway.errors import (
    ApprovalRequired,
    AuditUnavailable,
    CredentialRequired,
    Denied,
    DescriptionRequired,
    GatewayError,
    IdentityUnavailable,
    InsufficientScope,
    Limit,
    LimitExceeded,
    PinDrift,
    PinPending,
    PinRevoked,
    PolicyUnavailable,
    ProofRefused,
    ProtocolError,
    RateLimited,
    Unauthenticated,
    UnknownTool,
    UpstreamFailed,
    UpstreamResting,
)
from gateway.wire.jsontext import WireLimits
from gateway.wire.replies import CODES, Challenge, refusal_body, refusal_event, refuse, reject
from gateway.wire.server_message import read_server_message

CONTRACT_CODES = {
    "denied", "approval_required", "pin_pending", "pin_drift", "pin_revoked", "unknown_tool",
    "policy_unavailable", "audit_unavailable", "upstream_failed", "credential_required",
    "rate_limited", "limit_exceeded",
}  # fmt: skip
REFUSED: list[GatewayError] = [
    kind("No", detail="SECRET", reasons=[("r1", "Because")])
    for kind in (
        Denied, ApprovalRequired, PinPending, PinDrift, PinRevoked, UnknownTool, PolicyUnavailable,
        AuditUnavailable, UpstreamFailed, CredentialRequired, RateLimited, LimitExceeded,
    )
]  # fmt: skip
URL = "https://gw.example/.well-known/oauth-protected-resource/mcp/mail"
CHALLENGE = Challenge(resource_metadata=URL, scopes=("tools:list",), token_sent=True)
JSON = ("content-type", "application/json")


def message(method: str = "tools/call", form: Form = Form.REQUEST) -> Message:
    return Message(
        form=form, method=method, id=7 if form is Form.REQUEST else None, params={}, body=b""
    )


def answered(error: GatewayError, asked: Message | None, **more: Any) -> Reply:
    return refuse(error, asked, Profile.LEGACY, CHALLENGE, **more)


def content(reply: Reply) -> Any:
    assert isinstance(reply.body, bytes)
    return json.loads(reply.body)


def test_every_code_of_the_contract_is_told():
    assert {error.code for error in REFUSED} == CONTRACT_CODES
    assert set(CODES) == CONTRACT_CODES | {
        "description_required",
        "insufficient_scope",
        "unauthenticated",
        "identity_unavailable",
        "policy_stopped",
        "state_changed",
    }
    assert len({told.rpc_code for told in CODES.values()}) == len(CODES)


def test_our_error_codes_stay_off_the_protocols():
    assert all(told.rpc_code > 0 for told in CODES.values())


def test_no_refusal_looks_like_the_end_of_a_session():
    assert 404 not in {told.status for told in CODES.values()}


@pytest.mark.parametrize("error", REFUSED, ids=lambda error: error.code)
def test_a_refused_tool_call_is_a_result_that_a_model_can_act_on(error: GatewayError):
    reply = answered(error, message(), decision_id="d1")
    assert (reply.status, reply.headers, reply.code) == (200, (JSON,), error.code)
    assert content(reply) == {
        "jsonrpc": "2.0",
        "id": 7,
        "result": {
            "content": [{"type": "text", "text": f"No. Because. {CODES[error.code].advice}"}],
            "isError": True,
            "_meta": {
                "douane/refusal": {
                    "code": error.code,
                    "decision_id": "d1",
                    "reasons": [{"code": "r1", "message": "Because"}],
                }
            },
        },
    }


def test_a_call_that_was_not_sent_is_told_apart_from_one_that_may_have_taken_effect():
    sent, not_sent = (
        content(answered(kind("No"), message()))["result"]["content"][0]["text"]
        for kind in (UpstreamFailed, UpstreamResting)
    )
    assert "Check whether the call took effect" in sent
    assert not_sent == "No. Nothing was called. Go on without it, or call it again by then."


@pytest.mark.parametrize("profile", Profile)
def test_what_has_to_be_read_first_is_told_as_text_and_as_an_object(profile: Profile):
    told = {"error": {"code": "TOOL_DESCRIPTION_REQUIRED", "resource_uri": "resource:///x"}}
    body = refusal_body(DescriptionRequired("No", told=told), message(), profile, decision_id="d1")
    result = json.loads(body)["result"]
    assert (result["isError"], result["structuredContent"]) == (True, told)
    (block,) = result["content"]
    assert json.loads(block["text"]) == told
    assert result["_meta"]["douane/refusal"] == {
        "code": "description_required",
        "decision_id": "d1",
        "reasons": [],
    }


def test_no_other_refusal_has_structured_content():
    for error in REFUSED:
        body = json.loads(refusal_body(error, message(), Profile.LEGACY))
        assert "structuredContent" not in body["result"]


def test_a_modern_tool_result_says_that_it_is_complete():
    body = refusal_body(Denied("No"), message(), Profile.MODERN)
    assert json.loads(body)["result"]["resultType"] == "complete"


@pytest.mark.parametrize("error", REFUSED, ids=lambda error: error.code)
def test_any_other_refused_request_is_an_error_with_the_same_data(error: GatewayError):
    reply = answered(error, message("resources/read"), decision_id="d1")
    assert (reply.status, reply.headers, reply.code) == (200, (JSON,), error.code)
    assert content(reply) == {
        "jsonrpc": "2.0",
        "id": 7,
        "error": {
            "code": CODES[error.code].rpc_code,
            "message": "No",
            "data": {
                "code": error.code,
                "decision_id": "d1",
                "reasons": [{"code": "r1", "message": "Because"}],
            },
        },
    }


@pytest.mark.parametrize("form", [Form.NOTIFICATION, Form.RESPONSE, Form.STREAM, Form.END])
@pytest.mark.parametrize("error", REFUSED, ids=lambda error: error.code)
def test_what_has_no_answer_is_refused_by_http(error: GatewayError, form: Form):
    reply = answered(error, message("tools/call", form))
    assert reply.status == CODES[error.code].status
    assert 400 <= reply.status < 600
    assert content(reply)["id"] is None
    assert content(reply)["error"]["code"] == CODES[error.code].rpc_code


def test_no_detail_leaves_the_house():
    forms = (message(), message("ping"), message(form=Form.NOTIFICATION), None)
    private: list[GatewayError] = [
        *REFUSED,
        Unauthenticated("No", detail="SECRET"),
        InsufficientScope("No", scopes=["x"], detail="SECRET"),
        ProtocolError("No", detail="SECRET"),
    ]
    for error in private:
        assert not any("SECRET" in str(answered(error, asked)) for asked in forms)


def test_a_protocol_error_keeps_its_status_code_id_and_data():
    error = ProtocolError("Odd", status=400, rpc_code=-32022, rpc_id="a", data={"supported": []})
    reply = answered(error, None)
    assert (reply.status, reply.headers, reply.code) == (400, (JSON,), "protocol_error")
    assert content(reply) == {
        "jsonrpc": "2.0",
        "id": "a",
        "error": {"code": -32022, "message": "Odd", "data": {"supported": []}},
    }


def test_a_protocol_error_about_a_tool_call_is_no_tool_result():
    reply = answered(ProtocolError("Odd", rpc_code=-32020), message())
    assert reply.status == 400
    assert content(reply) == {
        "jsonrpc": "2.0",
        "id": 7,
        "error": {"code": -32020, "message": "Odd"},
    }


def test_405_says_what_is_allowed():
    reply = answered(ProtocolError("Only POST", status=405), None)
    assert reply.headers == (JSON, ("allow", "POST"))


@pytest.mark.parametrize("asked", [None, message(), message("ping"), message(form=Form.STREAM)])
def test_who_is_unknown_is_challenged_on_every_kind_of_request(asked: Message | None):
    reply = answered(Unauthenticated("Sign in"), asked)
    expected = f'Bearer error="invalid_token", scope="tools:list", resource_metadata="{URL}"'
    assert (reply.status, reply.headers) == (401, (JSON, ("www-authenticate", expected)))
    assert content(reply)["error"]["code"] == 40101


@pytest.mark.parametrize("asked", [message(), message("tools/list"), None])
def test_that_who_it_is_cannot_be_told_now_signs_nobody_out(asked: Message | None):
    reply = answered(IdentityUnavailable("not available at the moment"), asked)
    assert (reply.status, reply.headers) == (503, (JSON, ("retry-after", "5")))
    assert content(reply)["error"]["code"] == 50303


def test_without_a_token_nothing_is_called_invalid():
    challenge = Challenge(resource_metadata=URL, scopes=("a", "b"), token_sent=False)
    reply = refuse(Unauthenticated("Sign in"), None, Profile.LEGACY, challenge)
    assert reply.headers[1][1] == f'Bearer scope="a b", resource_metadata="{URL}"'


def test_a_challenge_without_scopes_names_none():
    challenge = Challenge(resource_metadata=URL, scopes=(), token_sent=False)
    reply = refuse(Unauthenticated("Sign in"), None, Profile.LEGACY, challenge)
    assert reply.headers[1][1] == f'Bearer resource_metadata="{URL}"'


def test_missing_scopes_are_all_named():
    error = InsufficientScope("More", scopes=["tools:call", "tools:write"])
    reply = answered(error, message())
    expected = (
        f'Bearer error="insufficient_scope", scope="tools:call tools:write", '
        f'resource_metadata="{URL}"'
    )
    assert (reply.status, reply.headers) == (403, (JSON, ("www-authenticate", expected)))
    assert content(reply)["id"] == 7
    assert content(reply)["error"]["data"]["code"] == "insufficient_scope"


BOUND = Challenge(
    resource_metadata=URL,
    scopes=("tools:list",),
    token_sent=True,
    proofs=("ES256", "EdDSA"),
    proven=True,
)
SAID = f'scope="tools:list", resource_metadata="{URL}"'
MORE = f'scope="tools:write", resource_metadata="{URL}"'


@pytest.mark.parametrize(
    ("error", "changes", "bearer", "bound"),
    [
        (Unauthenticated("No"), {"token_sent": False, "proven": False}, "", ""),
        (Unauthenticated("No"), {"proven": False}, "invalid_token", ""),
        (Unauthenticated("No"), {}, "", "invalid_token"),
        (ProofRefused("No"), {"token_sent": False, "proven": False}, "", "invalid_dpop_proof"),
        (ProofRefused("No"), {}, "", "invalid_dpop_proof"),
        (InsufficientScope("More", scopes=["tools:write"]), {}, "", "insufficient_scope"),
        (
            InsufficientScope("More", scopes=["tools:write"]),
            {"proven": False},
            "insufficient_scope",
            "",
        ),
    ],
)
def test_where_bound_tokens_are_taken_each_scheme_has_a_challenge(error, changes, bearer, bound):
    reply = refuse(error, None, Profile.LEGACY, replace(BOUND, **changes))
    said = MORE if isinstance(error, InsufficientScope) else SAID

    def wrong(code: str) -> str:
        return f'error="{code}", ' if code else ""

    assert reply.headers[1:] == (
        ("www-authenticate", f"Bearer {wrong(bearer)}{said}"),
        ("www-authenticate", f'DPoP {wrong(bound)}algs="ES256 EdDSA", {said}'),
    )


def test_a_quoted_string_cannot_be_left():
    challenge = Challenge(resource_metadata='a"b\\c', scopes=(), token_sent=False)
    reply = refuse(Unauthenticated("Sign in"), None, Profile.LEGACY, challenge)
    assert reply.headers[1][1] == 'Bearer resource_metadata="a\\"b\\\\c"'


def test_retry_after_is_said_only_by_http():
    slow = RateLimited("Slow", wait_s=3)
    assert answered(slow, None).headers == (JSON, ("retry-after", "3"))
    assert answered(slow, message()).headers == (JSON,)
    assert answered(RateLimited("Slow"), None).headers == (JSON,)


def test_a_limit_that_was_met_is_told_in_header_fields_and_to_the_model():
    mails = Limit(name="mails", most=200, unit="requests", span_s=86_400, left=0, wait_s=3600)
    size = Limit(name="size", most=9, unit="content-bytes", span_s=60, left=1, wait_s=7)
    busy = Limit(name="busy", most=2, unit="concurrent-requests", span_s=None, left=0, wait_s=1)
    reply = answered(RateLimited("Full", wait_s=3600, limits=[mails, size, busy]), message())
    assert reply.headers[1:] == (
        (
            "ratelimit-policy",
            '"mails";q=200;w=86400, "size";q=9;qu="content-bytes";w=60, "busy";q=2;qu="concurrent-requests"',
        ),
        ("ratelimit", '"mails";r=0;t=3600, "size";r=1;t=7, "busy";r=0;t=1'),
    )
    told = content(reply)["result"]["_meta"]["douane/refusal"]
    assert (told["code"], told["retry_after_s"]) == ("rate_limited", 3600)


def test_a_code_that_is_not_told_is_still_a_no():
    reply = answered(errors.Fault("Broken"), message("ping"))
    assert content(reply)["error"]["code"] == -32603
    assert answered(errors.Fault("Broken"), None).status == 500


def test_on_a_stream_the_refusal_is_one_event():
    event = refusal_event(Denied("No"), message(), Profile.LEGACY, decision_id="d")
    body = refusal_body(Denied("No"), message(), Profile.LEGACY, decision_id="d")
    assert event.raw == b"event: message\ndata: " + body + b"\n\n"
    assert event.data == body


def test_a_servers_request_is_rejected_without_reasons():
    text = b'{"jsonrpc":"2.0","id":"s9","method":"sampling/createMessage"}'
    request = read_server_message(text, WireLimits())
    error = Denied("No", detail="SECRET", reasons=[("r", "PRIVATE")])
    assert json.loads(reject(request, error, decision_id="d")) == {
        "jsonrpc": "2.0",
        "id": "s9",
        "error": {
            "code": 40301,
            "message": "No",
            "data": {"code": "denied", "decision_id": "d", "reasons": []},
        },
    }
