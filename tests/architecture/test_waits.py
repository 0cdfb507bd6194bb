"""A test waits for what it is about, not for a time in which that has usually happened."""

import ast
from collections.abc import Iterator

from tests.servers.process import ROOT

ABSENT = "something must not happen meanwhile; on a slow machine it has less of a chance to"
CLOCK = "something ends or begins by the clock of another process, or of a library"
SLOW = "the test plays one who is slow"
SETTLES = (
    "what it waits for cannot be seen from outside; too short a wait finds less, and fails nobody"
)

TIMED = {
    "broker/test_held_tokens.py::test_a_lease_that_nobody_lets_go_holds_nobody_up_for_ever": ABSENT,
    "broker/test_held_tokens.py::test_two_processes_renew_it_once": ABSENT,
    "builtin/test_cancelled_programs.py::test_nobody_else_cancels_it": ABSENT,
    "builtin/test_revoked_programs.py::test_one_that_only_computes_is_stopped": SETTLES,
    "e2e/test_notices_at_one_endpoint.py::test_a_server_that_is_configured_anew_is_told_to_who_comes_back": SETTLES,
    "faults/test_old_records.py::test_old_records_go_into_files_and_then_out_of_the_log": CLOCK,
    "faults/test_power_and_kills.py::test_a_disk_that_stalls_costs_a_refusal_and_nothing_is_sent": CLOCK,
    "http1/test_exchanges.py::test_a_slow_reader_has_the_server_wait": SLOW,
    "oauth/test_remote_keys.py::test_whoever_wants_the_keys_at_once_waits_for_one_fetch": ABSENT,
    "pipeline/test_every_leg.py::test_the_record_of_an_abandoned_call_is_not_abandoned_too": SETTLES,
    "policy/test_policy_candidate.py::test_one_that_cannot_be_used_is_taken_up_once_it_can": SETTLES,
    "policy/test_policy_candidate.py::test_one_whose_folder_comes_later_is_taken_up": SETTLES,
    "storage/test_writer.py::test_the_deadline_is_each_writes_own": CLOCK,
    "upstream/test_crawler.py::test_a_changed_list_is_read_again_soon_and_once_for_many_announcements": ABSENT,
    "upstream/test_crawler.py::test_other_news_and_streams_that_end_cause_no_crawl": ABSENT,
    "upstream/test_crawler.py::test_the_first_pass_ends_when_all_were_tried": ABSENT,
    "upstream/test_guarded_upstream.py::test_a_caller_who_goes_away_says_nothing_of_it": SETTLES,
    "upstream/test_kept_sessions.py::test_a_server_that_is_left_alone_keeps_its_session": ABSENT,
    "upstream/test_kept_sessions.py::test_a_session_in_use_is_ended_with_the_last_request_in_it": ABSENT,
    "upstream/test_kept_sessions.py::test_a_session_without_an_id_is_not_pinged": ABSENT,
    "upstream/test_kept_sessions.py::test_pings_do_not_keep_a_session_that_nobody_uses": CLOCK,
    "upstream/test_kept_sessions.py::test_while_a_call_is_under_way_nobody_is_pinged": ABSENT,
    "upstream/test_kept_sessions.py::test_without_a_rate_nobody_is_pinged": ABSENT,
    "upstream/test_local_servers.py::test_a_reader_that_is_slow_holds_no_more_than_its_share_in_memory": SLOW,
    "upstream/test_local_servers.py::test_a_session_in_use_does_not_end": ABSENT,
    "upstream/test_own_client.py::test_a_caller_who_goes_away_ends_the_beginning_for_nobody_else": SETTLES,
    "upstream/test_own_client.py::test_a_session_that_nobody_uses_is_ended_and_one_in_use_is_not": ABSENT,
    "upstream/test_resumed_answers.py::test_a_client_that_cancels_is_not_waited_for_any_more": ABSENT,
    "upstream/test_upstream_faults.py::test_a_reader_that_is_cancelled_closes_the_stream": SETTLES,
    "upstream/test_upstream_faults.py::test_no_free_connection_is_a_fault": ABSENT,
    "web/test_mcp_endpoint.py::test_a_call_is_no_listener": ABSENT,
    "wiring/test_background.py::test_nobody_is_told_of_work_that_is_ended": SLOW,
    "web/test_connections.py::test_a_body_may_take_its_time_within_its_limit": SLOW,
    "web/test_connections.py::test_a_head_without_end_is_refused": SLOW,
}  # fmt: skip
"""Tests that let a time go by nevertheless, and why."""


def timed(tree: ast.AST, *, test: str = "", looped: bool = False) -> Iterator[str]:
    """Yield the tests that sleep, but between two looks at something or to let others run."""
    for node in ast.iter_child_nodes(tree):
        inner, around = test, looped
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            inner, around = (node.name if node.name.startswith("test_") else ""), False
        elif isinstance(node, ast.While | ast.For | ast.AsyncFor):
            around = True
        elif _sleeps(node) and test and not looped:
            yield test
        yield from timed(node, test=inner, looped=around)


def _sleeps(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "sleep"
        and [ast.unparse(argument) for argument in node.args] != ["0"]
    )


def test_no_test_waits_for_a_time_but_those_that_say_why() -> None:
    found = {
        f"{path.relative_to(ROOT / 'tests').as_posix()}::{name}"
        for path in (ROOT / "tests").glob("*/**/test_*.py")
        if "node_modules" not in path.parts and "sleep" in (text := path.read_text())
        for name in timed(ast.parse(text))
    }
    assert found == TIMED.keys()


def test_a_time_that_goes_by_is_found_where_it_is() -> None:
    def found(code: str) -> list[str]:
        return list(timed(ast.parse(code)))

    assert found("def test_a():\n    time.sleep(1)") == ["test_a"]
    assert found("async def test_a():\n    with x:\n        await asyncio.sleep(WAIT)") == [
        "test_a"
    ]
    assert found("def test_a():\n    while not seen():\n        time.sleep(1)") == []
    assert found("def test_a():\n    await asyncio.sleep(0)") == []
    assert found("def test_a():\n    async def slow():\n        await asyncio.sleep(3)") == []
