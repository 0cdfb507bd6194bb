"""What is taken from a record."""

import json
from typing import Any

import pytest

from gateway.behaviour.observation import Observation, observed
from gateway.domain.flow import LONGEST_SOURCE, source_name

CALL = {
    "id": "r1",
    "time": "2026-01-05T09:00:00.500000Z",
    "kind": "outcome",
    "principal": "emma",
    "client": "c1",
    "method": "tools/call",
    "server": "mail",
    "target": "send",
    "effect": "egress",
    "verdict": "allow",
}


def seen(**members: Any) -> Observation | None:
    return observed(7, json.dumps({**CALL, **members}, separators=(",", ":")).encode())


def test_a_call_is_seen_as_it_ended() -> None:
    assert seen(destinations=[{"path": "$.to", "value_hmac": "h1:ab"}]) == Observation(
        leaf_index=7,
        record="r1",
        time=1_767_603_600.5,
        principal="emma",
        client="c1",
        server="mail",
        tool="send",
        refused=False,
        destinations=("h1:ab",),
    )


def test_a_name_that_a_caller_chose_is_kept_short() -> None:
    found = seen(target="n" * 8000)
    assert found is not None
    assert found.tool.startswith("nnn")
    assert len(found.tool) <= LONGEST_SOURCE
    assert found.tool != source_name("n" * 7999)


@pytest.mark.parametrize(
    ("verdict", "refused"), [("deny", True), ("ask", True), ("error", False), ("allow", False)]
)
def test_what_the_gateway_says_no_to_is_refused_and_a_fault_is_not(
    verdict: str, refused: bool
) -> None:
    found = seen(verdict=verdict)
    assert found is not None
    assert found.refused is refused


def test_what_was_refused_was_sent_nowhere() -> None:
    found = seen(verdict="deny", destinations=[{"value_hmac": "h1:ab"}])
    assert found is not None
    assert found.destinations == ()


def test_a_hash_is_kept_whole_and_nothing_longer_is() -> None:
    whole = "h12:" + "a" * 64
    found = seen(destinations=[{"value_hmac": whole}, {"value_hmac": "x" * 500}])
    assert found is not None
    assert found.destinations == (whole, "x" * 80)


def test_where_nobody_knows_to_whom_it_goes_to_the_server() -> None:
    found = seen(destinations=[{"path": "$.to"}])
    assert found is not None
    assert found.destinations == ("mail",)
    reads = seen(effect="read")
    assert reads is not None
    assert reads.destinations == ()
