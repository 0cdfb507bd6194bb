"""Every record is a valid event of the OCSF version that it declares."""

import hashlib
from typing import Any

import pytest

from tests.audit import ocsf_events
from tests.audit.ocsf_events import SCHEMA, problems
from tests.audit.some_records import every_record

RECORDS = every_record()


def event_of(name: str) -> dict[str, Any]:
    return ocsf_events.event_of(RECORDS[name])


@pytest.mark.parametrize("name", [name for name in RECORDS if name != "odd"])
def test_every_kind_of_record_is_valid(name: str) -> None:
    event = event_of(name)
    assert problems(event) == []
    assert event["metadata"]["version"] == SCHEMA["version"]


def test_the_schema_refuses_what_is_wrong() -> None:
    event = event_of("outcome")
    changes: tuple[dict[str, object], ...] = (
        {"activity_id": 98},
        {"class_uid": 6002},
        {"made_up": 1},
        {"actor": {}},
        {"api": {}},
        {"time": "now"},
        {"src_endpoint": {"ip": "nowhere"}},
    )
    for change in changes:
        assert problems({**event, **change}), change


CLASSES = {
    "intent": (6003, 99, "Invoke", 1),
    "outcome": (6003, 99, "Invoke", 1),
    "refusal": (6003, 99, "Invoke", 3),
    "held": (6003, 99, "Invoke", 2),
    "list": (6003, 2, "Read", 1),
    "read": (6003, 2, "Read", 1),
    "run": (6003, 99, "Invoke", 1),
    "sign-in": (3002, 1, "Logon", 1),
    "provider": (3002, 1, "Logon", 3),
    "sign-out": (3002, 2, "Logoff", 1),
    "no token": (3002, 99, "auth", 3),
    "token": (3002, 3, "Authentication Ticket", 1),
    "client": (3002, 99, "oauth/register", 1),
    "pin": (3004, 8, "Enable", 1),
    "policy": (3004, 10, "Activate", 1),
    "config": (3004, 3, "Update", 1),
    "approval": (3004, 99, "approval", 1),
    "admin": (3004, 99, "users.add", 1),
    "started": (6002, 3, "Start", 1),
    "stopped": (6002, 4, "Stop", 1),
    "drift": (2004, 1, "Create", 4),
    "unusual": (2004, 1, "Create", 4),
    "lookalike": (2004, 1, "Create", 4),
    "egress": (2004, 1, "Create", 4),
    "gap": (2004, 1, "Create", 4),
}


@pytest.mark.parametrize("name", CLASSES)
def test_a_record_is_of_the_class_that_fits(name: str) -> None:
    event = event_of(name)
    found = [event[key] for key in ("class_uid", "activity_id", "activity_name", "severity_id")]
    assert tuple(found) == CLASSES[name]


def test_a_refused_call_says_who_what_and_why() -> None:
    event, record = event_of("refusal"), RECORDS["refusal"]
    assert {key: event[key] for key in ("action", "disposition", "status", "status_code")} == {
        "action": "Denied",
        "disposition": "Blocked",
        "status": "Failure",
        "status_code": "denied",
    }
    assert event["actor"] == {
        "user": {
            "name": "emma@example.com",
            "uid": "emma@example.com",
            "groups": [{"name": "user"}, {"name": "auditor"}],
        },
        "app_uid": "client-1",
    }
    assert event["api"] == {
        "operation": "tools/call",
        "service": {"name": "mail"},
        "request": {"uid": "d2"},
        "version": "2025-11-25",
    }
    assert event["resources"] == [{"name": "send_email", "type": "tool", "uid": "sha256:aa"}]
    assert event["src_endpoint"] == {"ip": "2001:db8::1"}
    assert event["policy"] == {"name": "policy", "uid": "sha256:bb"}
    assert event["status_detail"].startswith("private_data_leaves: a | b")
    assert event["message"] == (
        "outcome tools/call mail/send_email by emma@example.com: deny, denied"
    )
    assert event["unmapped"] == record.members
    assert event["raw_data_hash"]["value"] == hashlib.sha256(record.body).hexdigest()
    assert event["metadata"]["uid"] == record.members["id"]


def test_odd_members_are_left_out_rather_than_guessed() -> None:
    event = event_of("odd")
    assert event["actor"] == {"user": {"type_id": 0, "type": "Unknown", "name": "unknown"}}
    assert "disposition_id" not in event
    assert "status_detail" not in event
