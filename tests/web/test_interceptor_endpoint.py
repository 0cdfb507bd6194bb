"""What a registered host asks its interceptors: whatever is refused is on record."""

import json
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest

from gateway.errors import AuditUnavailable, Fault, GatewayError
from gateway.pipeline.interceptions import Interceptions
from gateway.web.interceptors import InterceptorEndpoint
from gateway.wire.jsontext import WireLimits
from tests.pipeline.test_late_interceptions import HOST, PLANE, Decisions

KEY = "k" * 40
KNOWN = replace(HOST, plane=replace(PLANE, key_digest=sha256(KEY.encode()).digest()))
LOOKED_AT = {"name": "douane/decide", "event": "tools/call", "phase": "request"}


CALLED = {"name": "read", "arguments": {}}
VERSION = "io.modelcontextprotocol/protocolVersion"
CLIENT = "io.modelcontextprotocol/clientInfo"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
MORE: list[dict[str, Any]] = [
    {"note": "psst"},
    {"Name": "write"},
    {"task": {"ttl": 1}},
    {"inputResponses": {}},
    {"requestState": "psst"},
    {"uri": "file://a"},
    {"_meta": "psst"},
    {"_meta": {"com.example/note": "psst"}},
    {"_meta": {"progressToken": "p" * 300}},
    {"_meta": {VERSION: "2031-12-24"}},
    {"_meta": {CLIENT: {"name": "a", "version": "1", "note": "psst"}}},
    {"_meta": {CAPABILITIES: {"note": {}}}},
]


class Recording(Decisions):
    """Keeps what was refused, as long as there is room."""

    def __init__(self) -> None:
        super().__init__()
        self.refused: list[str] = []
        self.is_full = False

    async def refuse(self, error: GatewayError, **asking: Any) -> None:
        if self.is_full:
            raise AuditUnavailable("the record cannot be written")
        assert asking == {"source_ip": "192.0.2.1", "request_id": "r", "plane": KNOWN.plane}
        self.refused.append(error.code)
        error.recorded = True


@pytest.fixture
def decisions() -> Recording:
    return Recording()


async def asked(decisions: Recording, method: str, params: Any) -> Any:
    nobody: Any = None
    one: Any = decisions
    endpoint = InterceptorEndpoint(
        {"host": KNOWN},
        Interceptions(one, admission=nobody, runs=nobody, seal_key=b"k" * 32, clock=lambda: 1.0),
        one,
        most_bytes=10_000,
        limits=WireLimits(),
        client_address=lambda _: "192.0.2.1",
        refused_unread=lambda _code, _address: None,
        new_id=lambda: "r",
    )
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    headers = [(b"authorization", f"Bearer {KEY}".encode()), (b"content-type", b"application/json")]
    told: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        told.append(message)

    scope = {"type": "http", "method": "POST", "path": "/interceptors", "headers": headers}
    await endpoint(scope, receive, send)
    assert told[0]["status"] == 200
    return json.loads(told[1]["body"])


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("interceptor/executeChain", {}, -32601),
        ("tools/call", {"name": "read"}, -32601),
        ("interceptor/invoke", {}, -32602),
        ("interceptor/invoke", {**LOOKED_AT, "name": "another"}, -32602),
        ("interceptor/invoke", {**LOOKED_AT, "payload": {"name": "read", "arguments": []}}, -32602),
        *(
            ("interceptor/invoke", {**LOOKED_AT, "payload": {**CALLED, **one}}, -32602)
            for one in MORE
        ),
    ],
)
async def test_what_is_nothing_is_refused_on_record(
    decisions: Recording, method: str, params: Any, code: int
) -> None:
    assert (await asked(decisions, method, params))["error"]["code"] == code
    assert decisions.refused == ["protocol_error"]
    decisions.is_full = True
    assert (await asked(decisions, method, params))["error"]["code"] == -32603


async def test_what_the_protocol_knows_about_a_request_may_be_said(decisions: Recording) -> None:
    about = {
        "progressToken": 1,
        VERSION: "2026-07-28",
        CLIENT: {"name": "a", "version": "1"},
        CAPABILITIES: {"elicitation": {}},
    }
    for said in (None, {}, about):
        looked_at = {**LOOKED_AT, "payload": {**CALLED, "_meta": said}}
        assert (await asked(decisions, "interceptor/invoke", looked_at))["result"]["valid"] is True
    assert (decisions.asked, decisions.refused) == (3, [])


async def test_whoever_cannot_be_told_is_on_record_wherever_that_came_up(
    decisions: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(*_: Any) -> None:
        raise Fault("runs cannot be read now")

    monkeypatch.setattr(Interceptions, "_placed", fails)
    params = {**LOOKED_AT, "payload": {"name": "read", "arguments": {}}}
    assert (await asked(decisions, "interceptor/invoke", params))["error"]["code"] == -32603
    assert decisions.refused == ["fault"]


@pytest.mark.parametrize("method", ["initialize", "ping", "interceptors/list"])
async def test_what_is_asked_of_the_endpoint_itself_is_answered(
    decisions: Recording, method: str
) -> None:
    assert "result" in await asked(decisions, method, {})
    assert decisions.refused == []
