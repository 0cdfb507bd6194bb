"""Records of every kind, as the log holds them."""

from typing import Any

import orjson

from gateway.audit.forms import Stored
from gateway.audit.merkle import leaf_hash

LOG_ID = "douane/0123456789abcdef"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
CALLER = "00f067aa0ba902b7"

_CALL: dict[str, Any] = {
    "principal": "emma@example.com",
    "client": "client-1",
    "endpoint": "/mcp/mail",
    "revision": "2025-11-25",
    "method": "tools/call",
    "server": "mail",
    "target": "send_email",
    "effect": "egress",
    "pin_digest": "sha256:aa",
    "roles": ["user", "auditor"],
    "source_ip": "192.0.2.7",
    "policy_digest": "sha256:bb",
    "decision_id": "d1",
    "run": "r1",
    "trace_id": TRACE,
    "parent_span": CALLER,
}
MEMBERS: dict[str, dict[str, Any]] = {
    "intent": {"kind": "intent", **_CALL, "verdict": "allow"},
    "outcome": {
        "kind": "outcome",
        **_CALL,
        "verdict": "allow",
        "upstream_status": 200,
        "result_bytes": 12,
        "duration_us": 1500,
    },
    "refusal": {
        "kind": "outcome",
        **_CALL,
        "decision_id": "d2",
        "verdict": "deny",
        "code": "denied",
        "reasons": [{"code": "private_data_leaves", "message": "a | b = c\\d\nnext\r\u2028line"}],
        "source_ip": "2001:db8::1",
    },
    "held": {"kind": "outcome", **_CALL, "verdict": "ask", "code": "approval_required"},
    "list": {"kind": "list", "method": "tools/list", "server": "mail", "verdict": "allow"},
    "read": {"kind": "outcome", "method": "resources/read", "target": "a://b", "effect": "read"},
    "prompt": {"kind": "outcome", "method": "prompts/get", "target": "hello", "decision_id": "d9"},
    "bare": {"kind": "outcome"},
    "sign-in": {"kind": "auth", "method": "sign-in", "principal": "emma", "source_ip": "::1"},
    "provider": {"kind": "auth", "method": "sign-in/google", "code": "ended", "verdict": "deny"},
    "sign-out": {"kind": "auth", "method": "sign-out", "principal": "emma"},
    "no token": {"kind": "auth", "verdict": "deny", "code": "unauthenticated"},
    "token": {"kind": "token", "method": "oauth/token", "client": "client-1", "code": "issued"},
    "client": {"kind": "token", "method": "oauth/register", "code": "registered"},
    "pin": {"kind": "pin", "method": "pins.approve", "server": "mail", "target": "send_email",
            "pin_digest": "sha256:aa", "principal": "user:emma", "code": "approved"},
    "drift": {"kind": "pin", "method": "tool", "server": "mail", "target": "send_email",
              "pin_digest": "sha256:cc", "verdict": "hold", "code": "changed",
              "reasons": [{"code": "tier_T3", "message": "tier T3; description"}]},
    "policy": {"kind": "policy", "policy_digest": "sha256:bb", "code": "activated"},
    "config": {"kind": "config", "code": "reloaded"},
    "approval": {"kind": "approval", "approval_id": "a1", "principal": "user:emma"},
    "admin": {"kind": "admin", "method": "users.add", "principal": "os:root"},
    "started": {"kind": "system", "code": "started", "reasons": [{"code": "started"}]},
    "stopped": {"kind": "system", "code": "stopped"},
    "unusual": {"kind": "system", "code": "unusual_rate", "principal": "emma",
                "evidence": {"seen": 100}},
    "lookalike": {"kind": "system", "code": "lookalike_names", "server": "mail"},
    "egress": {"kind": "system", "code": "egress_refused", "server": "mail", "verdict": "deny"},
    "run": {"kind": "run", "method": "runs.end", "run": "r1", "principal": "emma"},
    "gap": {"kind": "gap", "code": "gap", "truncated": ["reasons"]},
    "formula": {"kind": "admin", "method": "=cmd()", "principal": "@emma", "target": "-1"},
    "odd": {"kind": "outcome", "method": "x" * 3000, "reasons": "none", "roles": "x",
            "verdict": {"no": 1}, "duration_us": "1", "source_ip": "no address"},
}  # fmt: skip


def stored(members: dict[str, Any], index: int = 0) -> Stored:
    body = orjson.dumps(
        {
            "log_id": LOG_ID,
            "id": f"{index:032x}",
            "time": "2026-11-22T05:49:19.000123Z",
            **members,
        }
    )
    return Stored(leaf_index=index, leaf_hash=leaf_hash(body), body=body)


def every_record() -> dict[str, Stored]:
    return {name: stored(members, index) for index, (name, members) in enumerate(MEMBERS.items())}
