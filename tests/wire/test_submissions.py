"""What a submission says is what was refused, by the profile's own digest."""

import base64
import hashlib
import json
from typing import Any

import pytest

from gateway.errors import AccessRequestRefused, ProtocolError
from gateway.wire.access_requests import (
    Status,
    Task,
    bound,
    moment,
    read_submission,
    write_task,
)
from gateway.wire.authzen import read_evaluation

ASKED: dict[str, Any] = {
    "subject": {"type": "user", "id": "alice", "properties": {"roles": ["users"]}},
    "action": {"name": "tools/call"},
    "resource": {"type": "tool", "id": "send", "properties": {"server": "m"}},
    "context": {"arguments": {"to": "bob", "n": 1.0}, "agent": "assistant", "time": "now"},
}
DENIAL = {"binding_token": "a.b.c", "expires_at": "2027-01-15T08:00:00Z"}


def digest(content: object) -> str:
    return bound(read_evaluation(json.dumps(content).encode(), 64))


def read(**change: Any) -> Any:
    return read_submission(json.dumps({**ASKED, "denial": DENIAL, **change}).encode(), 64)


def test_the_digest_is_the_one_of_the_profile() -> None:
    # RFC 8785: members in their order, no spaces, 1.0 as 1.
    spelled = (
        '{"action":{"name":"tools/call"},'
        '"context":{"agent":"assistant","arguments":{"n":1,"to":"bob"}},'
        '"resource":{"id":"send","properties":{"server":"m"},"type":"tool"},'
        '"subject":{"id":"alice","properties":{"roles":["users"]},"type":"user"}}'
    )
    expected = base64.urlsafe_b64encode(hashlib.sha256(spelled.encode()).digest())
    assert digest(ASKED) == expected.rstrip(b"=").decode()


def test_the_actor_may_be_told_elsewhere_and_nothing_else() -> None:
    subject = ASKED["subject"]
    acting = {**subject, "properties": {**subject["properties"], "act": {"sub": "agent"}}}
    assert digest({**ASKED, "subject": acting}) == digest(ASKED)
    other = {**subject, "properties": {"roles": ["admins"]}}
    assert digest({**ASKED, "subject": other}) != digest(ASKED)
    unsaid = {name: each for name, each in ASKED["context"].items() if name != "agent"}
    assert digest({**ASKED, "context": unsaid}) != digest(ASKED)
    later = {**ASKED["context"], "time": "later", "justification": "because"}
    assert digest({**ASKED, "context": later}) == digest(ASKED)


def test_a_submission_is_the_same_if_its_body_says_the_same() -> None:
    assert read().body == read(denial=dict(reversed(DENIAL.items()))).body
    assert read().body != read(requested_access={"emergency": True}).body
    assert read().expires_at == 1_800_000_000


@pytest.mark.parametrize(
    "change",
    [
        {"client": []},
        {"client": {"actor": {"id": "another"}}},
        {"client": {"actor": {"id": "assistant", "act": {"sub": "x", "iss": "y"}}}},
        {"denial": []},
        {"denial": {**DENIAL, "expires_at": "2027-01-15T08:00:00"}},
        {"denial": {**DENIAL, "expires_at": 7}},
        {"denial": {**DENIAL, "evaluation_id": 7}},
        {"context": {"phase": "result", "decision_id": "d", "result": {}}},
        {"callback": {}},
    ],
)
def test_what_is_no_submission_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError):
        read(**change)


def test_who_acts_may_be_said_once_more() -> None:
    assert read(client={"id": "edge", "actor": {"id": "assistant"}}).asked.agent == "assistant"


@pytest.mark.parametrize(
    "change", [{"denial": {}}, {"items": [{}]}, {"denial": {**DENIAL, "binding_token": "x" * 9000}}]
)
def test_a_submission_names_one_refusal(change: dict[str, Any]) -> None:
    with pytest.raises(AccessRequestRefused):
        read(**change)


@pytest.mark.parametrize("status", Status)
def test_only_what_was_approved_has_a_result_and_what_waits_can_be_cancelled(
    status: Status,
) -> None:
    task = Task(id="t.1", status=status, expires_at=1_800_000_000.0, approved_at=1_799_999_999.0)
    told = json.loads(write_task(task, "https://here.example/requests"))
    assert told["task"]["status"] == status.value
    assert ("result" in told) is (status is Status.APPROVED)
    assert ("links" in told["task"]) is (status is Status.PENDING)
    if status is Status.APPROVED:
        assert told["result"] == {
            "mode": "reevaluate",
            "approval": {
                "id": "t.1",
                "approved_at": "2027-01-15T07:59:59Z",
                "approved_until": moment(1_800_000_000),
            },
        }
    assert "review" not in json.dumps(told)
