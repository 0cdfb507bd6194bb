"""What servers say of tasks is read strictly, and said in the gateway's own words."""

from typing import Any

import pytest

from gateway.domain.tools import UpstreamId
from gateway.errors import UpstreamFailed
from gateway.wire.tasks import (
    LONGEST_STATUS,
    handle_of,
    id_in,
    is_handle_of,
    read_begun,
    read_seen,
    server_of,
)
from tests.storage.test_late_calls import late

KEY, OTHER = b"k" * 32, b"o" * 32
BEGUN: dict[str, Any] = {"resultType": "task", "taskId": "t1", "status": "working", "ttlMs": None}
SEEN: dict[str, Any] = {"taskId": "theirs-and-nobody-elses", "status": "working"}


@pytest.mark.parametrize(
    "changed",
    [
        {"taskId": 1},
        {"taskId": ""},
        {"taskId": "a b"},
        {"taskId": "é"},
        {"taskId": "x" * 1025},
        {"status": "done"},
        {"status": None},
        {"ttlMs": "60000"},
        {"ttlMs": -1},
        {"ttlMs": True},
        {"ttlMs": 1.5},
        {"ttlMs": 10**15},
        {"pollIntervalMs": None},
        {"pollIntervalMs": -5},
    ],
)
def test_a_beginning_of_another_form_is_none(changed: dict[str, Any]) -> None:
    with pytest.raises(UpstreamFailed):
        read_begun({**BEGUN, **changed})


@pytest.mark.parametrize(
    ("said", "told"),
    [(0, 0.0), (250, 0.25), (61_999, 61.0), (86_400_000, 86_400.0), (131_424_319, 129_600.0)],
)
def test_how_long_it_says_is_whole_seconds_or_hours(said: int, told: float) -> None:
    begun = read_begun({**BEGUN, "ttlMs": said, "pollIntervalMs": said})
    assert (begun.ttl_s, begun.poll_s) == (told, told)


@pytest.mark.parametrize(
    "changed",
    [
        {"taskId": "another"},
        {"status": "finished"},
        {"status": "completed"},
        {"status": "completed", "result": "text"},
        {"status": "failed"},
        {"status": "failed", "error": []},
        {"status": "input_required"},
        {"status": "input_required", "inputRequests": []},
    ],
)
def test_a_look_of_another_form_is_none(changed: dict[str, Any]) -> None:
    with pytest.raises(UpstreamFailed):
        read_seen(late(), {**SEEN, **changed})


def test_a_result_that_ends_a_task_ends_it() -> None:
    inner = {
        "resultType": "input_required",
        "requestState": "s",
        "inputRequests": {"a": {}},
        "content": [],
        "_meta": {"io.modelcontextprotocol/related-task": {"taskId": "t1"}, "x/y": 1},
    }
    seen = read_seen(late(), {**SEEN, "status": "completed", "result": inner, "error": {}})
    assert (seen.result, seen.error) == ({"content": [], "_meta": {"x/y": 1}}, {})


def test_what_a_server_says_of_how_far_it_is_is_cut() -> None:
    seen = read_seen(late(), {**SEEN, "statusMessage": "é" * LONGEST_STATUS})
    assert len(seen.message.encode()) <= LONGEST_STATUS
    assert read_seen(late(), {**SEEN, "statusMessage": ["a"]}).message == ""


def test_a_handle_is_of_one_call_of_one_principal_at_one_endpoint() -> None:
    handle = handle_of(KEY, late())
    assert is_handle_of(KEY, late(), handle)
    assert (server_of(handle), id_in(handle)) == ("desk", "l1")
    for other in (
        late(principal="bob"),
        late(endpoint="/mcp"),
        late("l2"),
        late(server=UpstreamId("files")),
    ):
        assert not is_handle_of(KEY, other, handle)
    assert not is_handle_of(OTHER, late(), handle)


@pytest.mark.parametrize(
    "said", [None, 1, "", "a", "a.b.c.d", "douane-task.desk.l1", "douane-task.desk.l/1.00", "é" * 9]
)
def test_what_is_no_handle_names_nothing(said: object) -> None:
    assert id_in(said) is None
    assert not is_handle_of(KEY, late(), said)
