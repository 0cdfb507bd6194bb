"""AuthZEN questions are read strictly where they are read, and not at all elsewhere."""

import json
from typing import Any

import pytest

from gateway.errors import ProtocolError
from gateway.wire.authzen import (
    Answer,
    Semantic,
    read_batch,
    read_evaluation,
    read_search,
    write_answer,
)

DEPTH = 64
WHOLE: dict[str, Any] = {
    "subject": {"type": "user", "id": "alice", "properties": {"roles": ["users"]}},
    "action": {"name": "tools/call", "properties": {"soft": True}},
    "resource": {"type": "tool", "id": "send", "properties": {"server": "m"}},
    "context": {
        "agent": "assistant",
        "arguments": {"to": "bob"},
        "protocol_version": "2025-11-25",
        "unheard": [1],
    },
    "options": {"unheard": 1},
}


def read(content: object) -> Any:
    return read_evaluation(json.dumps(content).encode(), DEPTH)


def test_what_is_read_is_read_and_the_rest_is_ignored() -> None:
    found = read(WHOLE)
    assert (found.subject.id, found.action, found.resource.id) == ("alice", "tools/call", "send")
    assert found.action_properties == {"soft": True}
    assert (found.agent, found.arguments) == ("assistant", {"to": "bob"})
    assert (found.revision, found.reported) == ("2025-11-25", None)


def test_arguments_that_are_not_told_are_not_none_at_all() -> None:
    assert read({**WHOLE, "context": {}}).arguments is None
    assert read({**WHOLE, "context": {"arguments": {}}}).arguments == {}


def test_a_report_says_of_which_decision_it_is() -> None:
    told = {"phase": "result", "decision_id": "d", "result": {"content": []}}
    found = read({**WHOLE, "context": told}).reported
    assert (found.decision, found.member, found.content) == ("d", "result", {"content": []})
    error = {"phase": "result", "decision_id": "d", "error": {"code": 1}}
    assert read({**WHOLE, "context": error}).reported.member == "error"


@pytest.mark.parametrize(
    "context",
    [
        {"phase": "result", "decision_id": "d"},
        {"phase": "result", "decision_id": "d", "result": {}, "error": {}},
        {"phase": "result", "decision_id": "d", "result": []},
        {"phase": "result", "result": {}},
        {"phase": "later"},
        {"phase": 7},
        {"agent": None},
        {"arguments": None},
        {"protocol_version": 7},
        {"task": "mail"},
        {"supported_obligations": "step-up"},
        {"supported_obligations": [7]},
        {"agent": "a" * 10_000},
    ],
)
def test_what_is_read_has_one_type(context: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError) as refused:
        read({**WHOLE, "context": context})
    assert refused.value.status == 400


def test_what_it_meets_is_told_or_not() -> None:
    assert read(WHOLE).supported is None
    none = read({**WHOLE, "context": {"supported_obligations": []}})
    assert none.supported == frozenset()
    some = read(
        {**WHOLE, "context": {"supported_obligations": ["a", "b"], "task": {"prompt": "p"}}}
    )
    assert (some.supported, some.task) == (frozenset({"a", "b"}), {"prompt": "p"})


@pytest.mark.parametrize("name", ["subject", "action", "resource"])
@pytest.mark.parametrize(
    "instead", [..., None, "x", [], {}, {"type": "t"}, {"id": "i"}, {"name": 1}]
)
def test_each_entity_is_whole(name: str, instead: object) -> None:
    content = {key: member for key, member in WHOLE.items() if key != name or instead is not ...}
    if instead is not ...:
        content[name] = instead
    with pytest.raises(ProtocolError):
        read(content)


@pytest.mark.parametrize(
    "body",
    [b"", b"7", b"[]", b"{", b'{"subject":{},"subject":{}}', b"\xff\xfe", b'{"a":NaN}'],
)
def test_what_is_no_object_of_json_is_no_question(body: bytes) -> None:
    with pytest.raises(ProtocolError):
        read_evaluation(body, DEPTH)


def test_a_number_of_a_call_is_exact_and_one_of_a_result_is_the_servers() -> None:
    call = json.dumps({**WHOLE, "context": {"arguments": {"n": 0}}}).replace(": 0}", f": {2**60}}}")
    with pytest.raises(ProtocolError):
        read_evaluation(call.encode(), DEPTH)
    told = {"phase": "result", "decision_id": "d", "result": {"n": 2**60}}
    assert read({**WHOLE, "context": told}).reported.content == {"n": 2**60}


def test_an_answer_is_a_decision_and_its_context() -> None:
    written = write_answer(Answer(decision=False, context={"reason": "closed"}))
    assert json.loads(written) == {"decision": False, "context": {"reason": "closed"}}


def several(content: object, most: int = 3) -> Any:
    return read_batch(json.dumps(content).encode(), DEPTH, most)


def test_an_item_takes_each_entity_whole_from_beside_the_array() -> None:
    resource = {"type": "tool", "id": "other"}
    found = several({**WHOLE, "evaluations": [{}, {"resource": resource}]})
    assert [one.resource.id for one in found.items] == ["send", "other"]
    assert found.items[1].resource.properties == {}
    assert (found.single, found.semantic) == (False, Semantic.ALL)


def test_without_an_array_it_is_one_question() -> None:
    for content in (WHOLE, {**WHOLE, "evaluations": []}):
        found = several(content)
        assert found.single
        assert found.items[0].resource.id == "send"


def test_one_bad_item_spoils_itself_alone() -> None:
    found = several({**WHOLE, "evaluations": [{}, {"resource": {}}, 7]})
    assert isinstance(found.items[1], ProtocolError)
    assert isinstance(found.items[2], ProtocolError)
    assert found.items[0].resource.id == "send"


@pytest.mark.parametrize(
    "change",
    [
        {"evaluations": {}},
        {"evaluations": [{}] * 4},
        {"options": []},
        {"options": {"evaluations_semantic": "some"}},
        {"options": {"evaluations_semantic": 7}},
    ],
)
def test_what_is_no_batch_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError):
        several({**WHOLE, **change})


def test_what_is_searched_for_is_named_by_nobody() -> None:
    content = {**WHOLE, "resource": {"type": "tool"}, "page": {"limit": 1000, "token": "t"}}
    found = read_search(json.dumps(content).encode(), DEPTH, for_actions=False)
    assert (found.asked.resource.type, found.limit, found.after) == ("tool", 100, "t")
    without = {name: member for name, member in WHOLE.items() if name != "action"}
    found = read_search(json.dumps(without).encode(), DEPTH, for_actions=True)
    assert found.asked.resource.id == "send"


@pytest.mark.parametrize("page", [[], {"limit": 0}, {"limit": "1"}, {"limit": True}, {"token": 7}])
def test_a_page_is_a_page(page: Any) -> None:
    with pytest.raises(ProtocolError):
        read_search(json.dumps({**WHOLE, "page": page}).encode(), DEPTH, for_actions=False)
