"""One log in SQLite and in PostgreSQL: whatever is asked of it, both say the same."""

import asyncio
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gateway.audit.query import Filter, Order, compile_filter, cursor_of
from gateway.storage.answers import Answers
from gateway.storage.database import DATABASE
from gateway.storage.postgres.answers import PostgresAnswers, PostgresIndex
from gateway.storage.postgres.connection import connect
from gateway.storage.postgres.log_views import PostgresLog
from gateway.storage.postgres.terms import NUL, filed
from gateway.storage.reader import AuditReader
from tests.storage.copied import indexed_there
from tests.storage.logged import AFTER_ALL, DAY, HOUR, NOW, Event, indexed, remove_before, write

CALLS = 1200
_SERVERS = ("mail", "crm", "web", "")
_TOOLS = ("send", "read", "Ärger", "x" * 600, "nul\0l", "it's")
_PEOPLE = ("user:emma", "user:noah", "p" * 530, "client:c_1")
_WORDS = (
    "private data",
    "Outside_Hours",
    "ÉTÉ",
    "budget",
    "a.b/c",
    "labels-allow",
    "it''s",
    "9lives",
)
_ASKS = ("deny", "ask", "error")


def _events(seed: int = 1) -> list[Event]:
    """Calls of every kind, some unfinished, some refused, not quite in the order of their times."""
    dice = random.Random(seed)
    events: list[Event] = [("system", NOW - 40 * DAY, {"code": "opened"})]
    for number in range(CALLS):
        at = NOW - dice.choice((0, HOUR, 5 * HOUR, DAY, 3 * DAY, 30 * DAY)) + number / 7
        call = _call(dice, number)
        if dice.random() < 0.3:
            events.append(("outcome", at, call | _refusal(dice)))
            continue
        events.append(("intent", at, call))
        if dice.random() < 0.9:
            events.append(
                ("outcome", at + 1, call | {"duration_us": dice.randrange(10**6), "result": number})
            )
        if dice.random() < 0.1:
            events.append(
                (
                    "approval",
                    at,
                    {"approval_id": f"a_{number}", "verdict": "deny", "code": "denied"},
                )
            )
    return events


def _call(dice: random.Random, number: int) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "principal": dice.choice(_PEOPLE),
        "client": f"c_{dice.randrange(3)}",
        "server": dice.choice(_SERVERS),
        "target": dice.choice(_TOOLS),
        "method": dice.choice(("tools/call", "prompts/get")),
        "effect": dice.choice(("read", "write", "egress", "")),
        "verdict": "allow",
        "run": f"r_{dice.randrange(20)}",
        "decision_id": f"d_{number:0>30}",
        "arguments": {
            "to": dice.choice(["a@x", ["a@x", "b@y"]]),
            "deep": {"n": dice.randrange(5), "is": True},
        },
        "reasons": [{"code": "allowed", "message": dice.choice(_WORDS)}],
    }
    if dice.random() < 0.5:
        fields["task"] = dice.choice(("counted", "ignored"))
    if dice.random() < 0.6:
        fields["sources"] = [
            {"server": dice.choice(_SERVERS), "tool": "t", "record": "r3"}
            for _ in range(dice.randrange(3))
        ]
    if dice.random() < 0.6:
        fields["destinations"] = [
            {"path": "$.to", "proof": dice.choice(("none", "tenant", "typed")), "value": "a@x"}
            for _ in range(dice.randrange(3))
        ]
    return fields


def _refusal(dice: random.Random) -> dict[str, Any]:
    said = " ".join(dice.sample(_WORDS, 2))
    reasons = [{"code": dice.choice(("denied", "rule_a", "rule_b")), "message": said}]
    return {"verdict": dice.choice(_ASKS), "code": "denied", "reasons": reasons}


class Both:
    """The same log, twice."""

    def __init__(
        self, file: Answers, server: PostgresAnswers, here: AuditReader, log: PostgresLog
    ) -> None:
        self.file, self.server, self.here, self.log = file, server, here, log


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory, copies: str) -> Iterator[Both]:
    folder = tmp_path_factory.mktemp("same") / "var"
    asyncio.run(write(folder, _events()))
    with (
        indexed(folder) as file,
        indexed_there(copies, folder) as server,
        closing(AuditReader.open(folder / DATABASE)) as here,
        closing(PostgresLog(copies)) as log,
    ):
        yield Both(file, server, here, log)


FILTERS: Sequence[Mapping[str, Any]] = (
    {},
    {"server": "mail"},
    {"server": "mail", "tool": "send"},
    {"tool": "x" * 600},
    {"tool": "x" * 599},
    {"tool": "nul\0l"},
    {"principal": "p" * 530},
    {"principal": "p" * 512},
    {"verdict": "deny"},
    {"verdict": "allow", "since": "24h"},
    {"code": "denied", "until": "3d"},
    {"run": "r_7"},
    {"since": "5d", "until": "2h", "order": Order.OLDEST},
    {"before_leaf": 500},
    *(
        {"where": where}
        for where in (
            "server = mail and not (target = send or target = read)",
            "server != mail",
            "code = null",
            "task != null",
            "task = null",
            "kind in (intent, outcome) and verdict = allow",
            'target in (send, "it\'s")',
            "target > s",
            "target <= Ärger",
            "target <= " + "x" * 512,
            "target > " + "x" * 599,
            "target >= " + "x" * 601,
            "target < " + "x" * 511,
            "principal > " + "p" * 520 + "q",
            "target ~ ger",
            "target ~ xxxxx",
            "principal ~ " + "p" * 520,
            "duration_us > 500000",
            "duration_us = null",
            "duration_us <= 1000.5",
            "leaf_index >= 100 and leaf_index < 120",
            "leaf_index = 7",
            "time < 2027-01-01T00:00:00Z",
            "arguments ~ deep",
            "arguments ~ a@",
            "reasons ~ budget",
            "reasons ~ ÉTÉ",
            "sources.server = crm",
            "sources.server in (crm, web)",
            "destinations.proof = tenant",
            "not destinations.proof = tenant",
            "destinations.proof != tenant",
            "destinations.proof = null",
            "arguments.deep.n >= 3",
            "arguments.deep.n = 3",
            "arguments.deep.is = 1",
            "arguments.nothing = null",
            "method = tools/call and effect = egress",
            "leaf_hash ~ abc",
            "reasons match private",
            "reasons match 'PRIVATE data'",
            "reasons match outside_hours",
            "reasons match hours",
            "reasons match hou*",
            "reasons match hou",
            "reasons match ete",
            "reasons match 'a.b/c'",
            "reasons match 9lives",
            "reasons match '-- budget'",
            "reasons match '--'",
            "reasons match budget and verdict = deny",
            "reasons match budget or server = crm",
            "not reasons match private and verdict = deny",
        )
    ),
)


def test_every_filter_selects_the_same(both: Both) -> None:
    for asked in FILTERS:
        statement = compile_filter(Filter(**{"limit": 5000, **asked}), now=NOW)
        assert both.server.page(statement) == both.file.page(statement), asked


@pytest.mark.parametrize("order", Order)
@pytest.mark.parametrize("where", [None, "reasons match budget"])
def test_pages_follow_each_other_alike(both: Both, order: Order, where: str | None) -> None:
    after, ends = None, 0
    while ends < 4:
        statement = compile_filter(Filter(where=where, order=order, limit=37, after=after), now=NOW)
        page = both.file.page(statement)
        assert both.server.page(statement) == page
        ends += 1
        after = cursor_of(page[-1], order)


def _sorted(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what is told in an order of its own: who is counted alike stands in any."""
    return sorted(repr(sorted(row.items())) for row in rows)


QUESTIONS: Mapping[str, Any] = {
    "who called": lambda a, since: a.who_called("mail", "send", since, 500),
    "who called it, though its name is cut": lambda a, since: len(
        a.who_called("mail", "x" * 600, since, 500)
    ),
    "top people": lambda a, since: a.top("principal", since, 500),
    "top clients": lambda a, since: a.top("client", since, 500),
    "undeclared": lambda a, since: a.undeclared(since, 500),
    "refusals": lambda a, since: a.refusals(since, 500),
    "refusals with their trend": lambda a, since: a.refusals(since, 500, round(NOW * 1e6)),
    "flows": lambda a, since: a.flows("crm", "mail", since, 500),
    "all flows": lambda a, since: len(a.flows("crm", None, since, 500)),
    "refused": lambda a, since: a.refused(since, AFTER_ALL, 5000),
    "outside": lambda a, since: a.outside("crm", since, AFTER_ALL, None, 5000),
    "outside, let through": lambda a, since: a.outside("web", since, AFTER_ALL, True, 5000),
    "outside, refused": lambda a, since: a.outside(
        "web", since, (round(NOW * 1e6), 900), False, 5000
    ),
    "a decision": lambda a, _: a.records(a.marked(f"d_{17:0>30}")),
    "an answer": lambda a, _: [a.marked(f"a_{n}") for n in range(100)],
    "the newest of many": lambda a, _: a.marked(f"d_{17:0>30}", 1),
    "what is signed": lambda a, _: a.signed(),
}
_ORDERED = {"refused", "outside", "outside, let through", "outside, refused", "a decision"}


@pytest.mark.parametrize("hours", [0, 30, 24 * 60])
def test_every_question_is_answered_alike(both: Both, hours: int) -> None:
    _answered_alike(both.file, both.server, hours)


def _answered_alike(file: Answers, server: PostgresAnswers, hours: int) -> None:
    since = round((NOW - hours * HOUR) * 1e6)
    for name, ask in QUESTIONS.items():
        expected, found = ask(file, since), ask(server, since)
        if name in _ORDERED or not _is_counted(expected):
            assert found == expected, name
        else:
            assert _shown(_sorted(found)) == _shown(_sorted(expected)), name


def _is_counted(told: Any) -> bool:
    return isinstance(told, list) and bool(told) and isinstance(told[0], dict)


def _shown(rows: list[str]) -> list[str]:
    """Return rows with names as columns have them there: cut, and with a sign for what cannot be."""
    cut = [row.replace("p" * 530, "p" * 512).replace("x" * 600, "x" * 512) for row in rows]
    return sorted(row.replace(r"\x00", NUL) for row in cut)


def test_values_are_found_by_their_hashes_alike(both: Both) -> None:
    for record in both.file.records(range(1, 60)):
        for name in ("arguments_hmac", "result_hmac"):
            if name in record:
                assert both.server.marked(record[name]) == both.file.marked(record[name])


def test_what_is_read_and_proven_is_the_same(both: Both) -> None:
    with closing(both.log.reader()) as there:
        here = both.here
        assert there.newest() == here.newest()
        assert there.find("r17") == here.find("r17")
        assert there.find("17") == here.find("17")
        assert there.find("no\0ne") is None
        assert there.after(100, 50) == here.after(100, 50)
        assert there.stored_after(-1, 20) == here.stored_after(-1, 20)
        assert there.statistics() == here.statistics()
        assert there.outcome_unknown() == here.outcome_unknown()
        told = {tuple(filed(names)): count for names, count in here.calls(0, 900).items()}
        assert there.calls(0, 900) == told
        for leaf in (0, 255, 256, 1000):
            assert there.inclusion(f"r{leaf}") == here.inclusion(f"r{leaf}")
        size = here.newest() + 1
        assert there.consistency(256, size) == here.consistency(256, size)
        for days in (0, 1, 50):
            at = round((NOW - days * DAY) * 1e6)
            assert there.first_since(at) == here.first_since(at)


async def test_what_has_left_the_log_is_forgotten_alike(tmp_path: Path, copies: str) -> None:
    folder = tmp_path / "var"
    await write(folder, _events(2)[:700])
    with indexed(folder):
        pass
    with indexed_there(copies, folder):
        pass
    remove_before(folder, 256)
    with closing(connect(copies, application="test")) as owner, owner.transaction():
        owner.execute("SET LOCAL session_replication_role = replica")
        owner.execute("UPDATE log_front SET first = 256")
        owner.execute("DELETE FROM audit WHERE leaf_index < 256")
    with closing(PostgresIndex(copies)) as index:
        assert index.catch_up(lambda: False).caught_up
    with indexed(folder) as file, closing(PostgresAnswers.open(copies)) as server:
        _answered_alike(file, server, 24 * 60)
        first = file.records([256])[0]["decision_id"]
        assert server.marked(first) == file.marked(first)
        for table in ("marks", "reasons", "flows", "under_way"):
            ((left,),) = server._rows(
                f"SELECT count(*) FROM words.{table} WHERE leaf_index < 256", ()
            )
            assert left == 0, table
