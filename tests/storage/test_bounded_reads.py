"""Whatever a page of the desk asks of the log is found by an index, in its order, and ends with the page."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from gateway.audit.query import Filter, compile_filter
from gateway.storage.answers import Answers
from tests.storage.logged import AFTER_ALL, FROM_CRM, NOW, TO_OTHERS, indexed, made, refused, write

DAY_AGO = round((NOW - 86_400) * 1e6)
Ask = Callable[[Answers], Any]


def search(**asked: Any) -> Ask:
    return lambda answers: answers.page(compile_filter(Filter(**asked, limit=50), now=NOW))


PAGES: Mapping[str, Ask] = {
    "record": search(),
    "record, a day": search(since="24h"),
    "record, older": search(until="1h"),
    "record, refused": search(verdict="deny"),
    "record, held, a day": search(verdict="ask", since="24h"),
    "record, a rule of Now": search(verdict="deny", since="24h", where='reasons.code = "rule_a"'),
    "record, a server": search(server="mail"),
    "record, a tool": search(server="mail", tool="send"),
    "record, a person": search(principal="user:emma"),
    "record, a code": search(code="denied"),
    "record, a run": search(run="r_1"),
    "now, the last verification": search(code="log_intact"),
    "a record, its decision": lambda answers: answers.records(answers.marked("d" + "0" * 30, 500)),
    "timeline": search(principal="user:emma", since="7d"),
    "denied": lambda answers: answers.refused(DAY_AGO, AFTER_ALL, 50),
    "denied by rule": lambda answers: answers.refusals(DAY_AGO, 50, round(NOW * 1e6)),
    "top": lambda answers: answers.top("tool", DAY_AGO, 50),
    "who called": lambda answers: answers.who_called("mail", "send", DAY_AGO, 50),
    "undeclared": lambda answers: answers.undeclared(DAY_AGO, 50),
    "flows": lambda answers: answers.flows("crm", None, DAY_AGO, 50),
    "sent outside": lambda answers: answers.outside("crm", DAY_AGO, AFTER_ALL, None, 50),
    "where went": lambda answers: [
        answers.records(answers.marked(one, 50)) for one in ("d1", "hmac-sha256:" + "0" * 64)
    ],
}


@pytest.mark.parametrize("page", PAGES)
async def test_a_page_reads_by_an_index_and_sorts_no_log(tmp_path: Path, page: str) -> None:
    sent: Any = {"sources": FROM_CRM, "destinations": TO_OTHERS, "run": "r_1"}
    await write(tmp_path, [*made("1", principal="user:emma", **sent), *refused("2")])
    with indexed(tmp_path) as answers:
        said: list[str] = []
        answers._connection.set_trace_callback(said.append)
        PAGES[page](answers)
        answers._connection.set_trace_callback(None)
        asked = [one for one in said if one.lstrip().upper().startswith(("SELECT", "WITH"))]
        assert asked
        plans = [plan for one in asked for plan in _plan(answers, one)]
    scans = [plan for plan in plans if plan.startswith("SCAN audit") and "INDEX" not in plan]
    assert scans == []
    # Counts are sorted once they are counted, and of several reads that end by themselves what is left.
    if not any("GROUP BY" in one or "UNION ALL" in one for one in asked):
        assert [plan for plan in plans if "TEMP B-TREE" in plan and "ORDER BY" in plan] == []


def _plan(answers: Answers, sql: str) -> list[str]:
    rows = answers._connection.execute(f"EXPLAIN QUERY PLAN {sql}").fetchall()
    return [str(row[3]) for row in rows]
