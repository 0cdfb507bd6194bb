"""Golden vectors: what goes over the wire, and what is read of it, for each family.

A vector of `handshake.json` or `stateless.json` is a request with its method, headers and body, and
either what is read of it or how it is refused. One of `refusals.json` is a refusal and its bytes.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from gateway import errors
from gateway.domain.calls import Form, Message
from gateway.domain.tools import Profile
from gateway.errors import GatewayError, ProtocolError
from gateway.wire.inbound import Inbound
from gateway.wire.jsontext import WireLimits
from gateway.wire.replies import Challenge, refuse
from gateway.wire.revisions import read_delete, read_get, read_post

VECTORS = Path(__file__).parent / "vectors"
CHALLENGE = Challenge(
    resource_metadata="https://gw.example/.well-known/oauth-protected-resource/mcp/mail",
    scopes=("tools:list", "tools:call"),
    token_sent=True,
)


def load(*names: str) -> list[Any]:
    return [
        pytest.param(vector, id=f"{name}: {vector['name']}")
        for name in names
        for vector in json.loads((VECTORS / f"{name}.json").read_text())
    ]


def read(request: dict[str, Any]) -> Inbound:
    headers = [(name, text) for name, text in request["headers"]]
    if request["method"] == "GET":
        return read_get(headers)
    if request["method"] == "DELETE":
        return read_delete(headers)
    return read_post(headers, request["body"].encode(), WireLimits())


def told(inbound: Inbound) -> dict[str, Any]:
    return {
        "form": inbound.message.form,
        "method": inbound.message.method,
        "id": inbound.message.id,
        "params": inbound.message.params,
        "handling": inbound.operation.handling if inbound.operation is not None else None,
        "revision": inbound.revision,
        "profile": inbound.profile,
        "session": inbound.session,
        "headers": [list(pair) for pair in inbound.headers],
        "run_hint": inbound.run_hint,
        "trace_id": "" if inbound.trace is None else inbound.trace.trace_id,
    }


def answer(error: GatewayError, message: Message | None, profile: Profile) -> dict[str, Any]:
    reply = refuse(error, message, profile, CHALLENGE, decision_id="d-1")
    assert isinstance(reply.body, bytes)
    return {
        "status": reply.status,
        "headers": [list(pair) for pair in reply.headers],
        "body": reply.body.decode(),
    }


def refusal(vector: dict[str, Any]) -> GatewayError:
    kind = getattr(errors, vector["error"])
    extra: dict[str, Any] = {}
    if "scopes" in vector:
        extra["scopes"] = vector["scopes"]
    else:
        extra["reasons"] = [tuple(pair) for pair in vector.get("reasons", [])]
    error = kind(vector["public"], **extra)
    assert isinstance(error, GatewayError)
    return error


@pytest.mark.parametrize("vector", load("handshake", "stateless"))
def test_a_request_is_read_as_written_down(vector: dict[str, Any]):
    if "read" in vector:
        assert told(read(vector["request"])) == vector["read"]
        return
    with pytest.raises(ProtocolError) as caught:
        read(vector["request"])
    assert answer(caught.value, None, Profile.MODERN) == vector["refused"]


@pytest.mark.parametrize("vector", load("refusals"))
def test_a_refusal_is_written_as_written_down(vector: dict[str, Any]):
    asked = vector["message"]
    message = None
    if asked is not None:
        message = Message(
            form=Form(asked["form"]), method=asked["method"], id=asked["id"], params={}, body=b""
        )
    assert answer(refusal(vector), message, Profile(vector["profile"])) == vector["answer"]
