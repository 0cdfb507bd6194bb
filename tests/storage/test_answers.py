"""What is asked of the log and its index, and what the answers say."""

from pathlib import Path
from typing import Any

import pytest

from gateway.audit.query import Filter, QueryError, QueryTooLong, compile_filter
from gateway.errors import AuditUnavailable
from gateway.storage import answers as module
from gateway.storage import index
from gateway.storage.answers import Answers
from tests.storage.conftest import Asking
from tests.storage.logged import (
    AFTER_ALL,
    DAY,
    FROM_CRM,
    HOUR,
    NOW,
    TO_OTHERS,
    TO_US,
    Event,
    indexed,
    made,
    refused,
    write,
)


def microseconds(at: float) -> int:
    return round(at * 1e6)


def ids(records: Any) -> list[str]:
    return [record["id"] for record in records]


async def test_who_called_a_tool_is_counted_from_the_hour_on(
    asking: Asking, tmp_path: Path
) -> None:
    await write(
        tmp_path,
        [
            *made("1", NOW - 2 * HOUR),
            *made("2", NOW - HOUR, client="c_2"),
            *made("3"),
            *made("4", target="other"),
            *made("5", server="web"),
            *refused("6", principal="noah"),
        ],
    )
    with asking(tmp_path) as answers:
        told = answers.who_called("mail", "send", microseconds(NOW - HOUR + 5), 10)
        last = {"calls": 1, "refused": 0, "last_us": microseconds(NOW)}
        earlier = {"calls": 1, "refused": 0, "last_us": microseconds(NOW - HOUR)}
        assert sorted(told, key=lambda row: (row["principal"], row["client"])) == [
            {"principal": "emma", "client": "c_1", **last},
            {"principal": "emma", "client": "c_2", **earlier},
            {"principal": "noah", "client": "c_1", **last, "refused": 1},
        ]
        assert [row["calls"] for row in answers.who_called("mail", "send", 0, 1)] == [2]
        assert answers.who_called("mail", "nothing", 0, 10) == []


@pytest.mark.parametrize("hours", [0, 1, 3, 23, 24, 25, 49, 100])
async def test_the_top_is_the_same_by_hours_and_by_days(
    asking: Asking, tmp_path: Path, hours: int
) -> None:
    ages = [0, 1, 2, 3, 22, 23, 24, 25, 47, 48, 49, 72, 99, 101]
    written = [made(str(n), NOW - age * HOUR)[0] for n, age in enumerate(reversed(ages))]
    await write(tmp_path, written)
    with asking(tmp_path) as answers:
        for subject in ("principal", "client", "tool"):
            (row,) = answers.top(subject, microseconds(NOW - hours * HOUR), 10)
            assert row["calls"] == len([age for age in ages if age <= hours])


async def test_the_top_names_tools_by_their_server(asking: Asking, tmp_path: Path) -> None:
    await write(tmp_path, [*made("1"), *made("2"), *made("3", server="web")])
    with asking(tmp_path) as answers:
        told = [(row["server"], row["name"], row["calls"]) for row in answers.top("tool", 0, 10)]
        assert told == [("mail", "send", 2), ("web", "send", 1)]
        assert len(answers.top("tool", 0, 1)) == 1


@pytest.mark.parametrize("hours", [0, 30])
async def test_clients_that_declare_no_task_are_told_with_how_often(
    asking: Asking, tmp_path: Path, hours: int
) -> None:
    counted: dict[str, Any] = {"task": "counted"}
    ignored: dict[str, Any] = {"task": "ignored"}
    await write(
        tmp_path,
        [
            *made("1", NOW - 31 * HOUR, client="old"),
            *made("2", NOW - 29 * HOUR),
            *made("3", **counted),
            *refused("4", NOW + 2),
            *made("5", client="says", **counted),
            *made("6", client="ignored", **ignored),
            *made("7", client="ignored", **counted),
        ],
    )
    with asking(tmp_path) as answers:
        rows = answers.undeclared(microseconds(NOW - hours * HOUR), 10)
        told = [(row["client"], row["calls"], row["undeclared"], row["ignored"]) for row in rows]
        assert sorted(told) == [
            ("c_1", 3 if hours else 2, 2 if hours else 1, 0),
            ("ignored", 2, 0, 1),
        ]
        assert {row["client"]: row["last_us"] for row in rows}["c_1"] == microseconds(NOW + 2)
        assert len(answers.undeclared(0, 1)) == 1
        assert answers.undeclared(0, 10)[0]["client"] == "c_1"


async def test_refusals_are_counted_by_policys_own_code(asking: Asking, tmp_path: Path) -> None:
    failed: Event = ("outcome", NOW, {"verdict": "error", "code": "upstream_failed"})
    answered: Event = ("approval", NOW, {"verdict": "deny", "code": "denied"})
    await write(tmp_path, [*refused("1"), *refused("2"), *made("3"), failed, answered])
    with asking(tmp_path) as answers:
        told = [(r["rule"], r["code"], r["verdict"], r["records"]) for r in answers.refusals(0, 9)]
        assert told == [
            ("rule_a", "denied", "deny", 2),
            ("upstream_failed", "upstream_failed", "error", 1),
        ]


async def test_the_trend_of_a_rule_adds_up_to_its_records(asking: Asking, tmp_path: Path) -> None:
    hour = 3600.0
    await write(
        tmp_path, [*refused("1", NOW - 5 * hour), *refused("2", NOW - 5 * hour), *refused("3")]
    )
    with asking(tmp_path) as answers:
        since = microseconds(NOW - 24 * hour)
        (row,) = answers.refusals(since, 9, microseconds(NOW))
        assert (len(row["trend"]), sum(row["trend"]), row["records"]) == (25, 3, 3)
        assert (row["trend"][24], row["trend"][19]) == (1, 2)
        assert "trend" not in answers.refusals(since, 9)[0]


async def test_refusals_come_newest_first_page_by_page(asking: Asking, tmp_path: Path) -> None:
    asked: Event = ("outcome", NOW + 2, {"verdict": "ask", "code": "approval_required"})
    events = [*refused("1", NOW), *made("2", NOW + 1), asked, *refused("3", NOW + 3)]
    await write(tmp_path, events)
    with asking(tmp_path) as answers:
        assert ids(answers.refused(0, AFTER_ALL, 10)) == ["r4", "r3", "r0"]
        first = answers.refused(0, AFTER_ALL, 2)
        assert ids(first) == ["r4", "r3"]
        before = (microseconds(NOW + 2), first[-1]["leaf_index"])
        assert ids(answers.refused(0, before, 2)) == ["r0"]
        assert ids(answers.refused(microseconds(NOW + 1), AFTER_ALL, 10)) == ["r4", "r3"]


TYPED = ({"path": "$.to", "proof": "typed", "integrity": "trusted"},)
CASES: dict[str, tuple[dict[str, Any], bool]] = {
    "sent to others": ({"destinations": TO_OTHERS}, True),
    "sent to us": ({"destinations": TO_US}, False),
    "sent to what a result names": ({"destinations": TYPED}, True),
    "sent to both": ({"destinations": (*TO_US, *TO_OTHERS)}, True),
    "nobody knows to whom": ({}, True),
    "no destination": ({"destinations": ()}, True),
    "written elsewhere": ({"effect": "write", "server": "tickets"}, True),
    "only read elsewhere": ({"effect": "read", "server": "web"}, False),
    "written where it came from": ({"effect": "write", "server": "crm"}, False),
    "sent by where it came from": ({"server": "crm", "destinations": TO_OTHERS}, True),
    "of another server": ({"sources": ({"server": "web", "tool": "t", "record": "r1"},)}, False),
    "of nothing": ({"sources": ()}, False),
}


@pytest.mark.parametrize("case", CASES)
async def test_what_was_sent_outside(asking: Asking, tmp_path: Path, case: str) -> None:
    fields, outside = CASES[case]
    await write(tmp_path, made("1", **({"sources": FROM_CRM} | fields)))
    with asking(tmp_path) as answers:
        assert ids(answers.outside("crm", 0, AFTER_ALL, None, 9)) == ["r0"] * outside


async def test_what_was_to_be_sent_is_told_from_what_was(asking: Asking, tmp_path: Path) -> None:
    seen: dict[str, Any] = {"sources": FROM_CRM, "destinations": TO_OTHERS}
    await write(tmp_path, [*made("1", NOW, **seen), *refused("2", NOW + 5, **seen)])
    with asking(tmp_path) as answers:
        assert ids(answers.outside("crm", 0, AFTER_ALL, None, 9)) == ["r2", "r0"]
        assert ids(answers.outside("crm", 0, AFTER_ALL, True, 9)) == ["r0"]
        assert ids(answers.outside("crm", 0, AFTER_ALL, False, 9)) == ["r2"]
        assert ids(answers.outside("crm", microseconds(NOW + 1), AFTER_ALL, None, 9)) == ["r2"]
        before = (microseconds(NOW + 5), 2)
        assert ids(answers.outside("crm", 0, before, None, 9)) == ["r0"]


async def test_flows_are_counted_by_tool_and_by_where_they_may_go(
    asking: Asking, tmp_path: Path
) -> None:
    ours: dict[str, Any] = {"sources": FROM_CRM, "destinations": TO_US}
    others: dict[str, Any] = {"sources": FROM_CRM, "destinations": TO_OTHERS}
    ticket: dict[str, Any] = {
        "sources": FROM_CRM,
        "server": "tickets",
        "target": "add",
        "effect": "write",
    }
    events = [
        *made("1", **ours),
        *made("2", **others),
        *refused("3", **others),
        *made("4", **ticket),
    ]
    await write(tmp_path, events)
    with asking(tmp_path) as answers:
        columns = ("server", "tool", "effect", "calls", "refused", "outside")

        def told(server: str | None, since_us: int = 0) -> list[tuple[Any, ...]]:
            rows = answers.flows("crm", server, since_us, 10)
            return [tuple(row[name] for name in columns) for row in rows]

        mail = ("mail", "send", "egress", 3, 1, 2)
        tickets = ("tickets", "add", "write", 1, 0, 1)
        assert told(None) == [mail, tickets]
        assert told("tickets") == [tickets]
        assert told("mail", microseconds(NOW + DAY)) == []
        assert answers.flows("web", None, 0, 10) == []


@pytest.mark.parametrize("fresh", [1, 3, 1000])
async def test_an_identifier_is_found_before_and_after_it_is_put_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh: int
) -> None:
    monkeypatch.setattr(index, "_MOST_FRESH_MARKS", fresh)
    monkeypatch.setattr(index, "_FEWEST", 3)
    monkeypatch.setattr(index, "_MOST", 3)
    questions: list[dict[str, Any]] = [{"approval_id": "a_7"}, {"approval_id": "a_17"}]
    events = [*made("1"), *made("2", **questions[0]), *made("3", **questions[1]), *made("4")]
    await write(tmp_path, events)
    with indexed(tmp_path) as answers:
        found = [answers.marked(f"d_{n:0>30}") for n in range(1, 6)]
        assert found == [[1, 0], [3, 2], [5, 4], [7, 6], []]
        assert answers.marked("a_7") == [3, 2]
        assert answers.marked(f"d_{2:0>30}", 1) == [3]


async def test_values_are_found_by_their_hashes_in_arguments_and_destinations(
    asking: Asking,
    tmp_path: Path,
) -> None:
    kept = f"h1:{'c' * 64}"
    arguments = {"to": ["emma@example.com"], "deep": {"er": "text"}}
    destinations = ({"path": "$.to", "proof": "none", "value": kept},)
    await write(tmp_path, made("1", arguments=arguments, destinations=destinations))
    with asking(tmp_path) as answers:
        (record,) = answers.records([0])
        hashed = record["arguments"]
        for one in (hashed["to"][0], hashed["deep"]["er"], kept, record["arguments_hmac"]):
            assert answers.marked(one)[-1:] == [0], one
        assert answers.marked(f"h1:{'d' * 64}") == []


async def test_reasons_are_searched_by_their_words(asking: Asking, tmp_path: Path) -> None:
    other = [{"code": "outside_hours", "message": "it is late"}]
    await write(tmp_path, [*refused("1"), *refused("2", reasons=other), *made("3")])
    found = {
        "private": ["r0"],
        "PRIVATE data": ["r0"],
        "data private": ["r0"],
        "outside_hours": ["r1"],
        "hours": ["r1"],
        "hou*": ["r1"],
        "hou": [],
        'late" OR "private': [],
        "leave": ["r0"],
    }
    with asking(tmp_path) as answers:
        for words, expected in found.items():
            statement = compile_filter(Filter(where=f"reasons match '{words}'"), now=NOW)
            assert ids(answers.page(statement)) == expected, words


async def test_a_condition_that_sqlite_cannot_read_is_said_to_be_one(tmp_path: Path) -> None:
    await write(tmp_path, made("1"))
    where = "(seq = 1 or seq = 2 and " * 40 + "seq = 3" + ")" * 40
    with indexed(tmp_path) as answers, pytest.raises(QueryError, match="nest less"):
        answers.page(compile_filter(Filter(where=where), now=NOW))


async def test_words_are_found_where_the_index_has_not_come_to_yet(tmp_path: Path) -> None:
    await write(tmp_path, refused("1"))
    with indexed(tmp_path) as answers:
        await write(tmp_path, [*refused("2"), *made("3")], begin=1)
        statement = compile_filter(Filter(where="reasons match 'PRIVATE data'"), now=NOW)
        assert ids(answers.page(statement)) == ["r1", "r0"]


@pytest.mark.parametrize("where", ["target ~ sen", "not reasons match private"])
async def test_a_read_that_takes_too_long_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    await write(tmp_path, [*made("1"), *made("2"), *made("3")])
    with indexed(tmp_path) as answers:
        statement = compile_filter(Filter(where=where), now=NOW)
        with monkeypatch.context() as patch:
            patch.setattr(module, "LONGEST_READ_S", -1.0)
            patch.setattr(module, "_OPERATIONS", 1)
            with pytest.raises(QueryTooLong, match="narrow it by --since"):
                answers.page(statement)
        assert len(answers.page(statement)) == 6


async def test_no_read_stays_open(tmp_path: Path) -> None:
    await write(tmp_path, made("1"))
    with indexed(tmp_path) as answers:
        answers.page(compile_filter(Filter(limit=1), now=NOW))
        assert not answers._connection.in_transaction
        with pytest.raises(AuditUnavailable):
            answers._rows("DELETE FROM audit", ())


async def test_without_an_index_there_are_no_answers(tmp_path: Path) -> None:
    await write(tmp_path, made("1"))
    with pytest.raises(AuditUnavailable):
        Answers.open(tmp_path)


async def test_what_is_signed_is_told(asking: Asking, tmp_path: Path) -> None:
    await write(tmp_path, made("1"))
    with asking(tmp_path) as answers:
        assert answers.signed() == 2
