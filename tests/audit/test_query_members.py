"""Members of structures, lists of values, words and pages in the filter language."""

import sqlite3
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.audit.expression import parse, spelled
from gateway.audit.members import steps
from gateway.audit.query import (
    Filter,
    Order,
    QueryError,
    compile_filter,
    cursor_of,
    place_of,
    told,
)
from gateway.audit.record import COLUMNS
from gateway.domain.audit import AuditRecord, RecordKind
from tests.audit.encoders import encoder_of

NOW = 1_800_000_000.0
ENCODER = encoder_of()
EVENTS: dict[str, dict[str, Any]] = {
    "a": {
        "server": "mail",
        "roles": ["user", "admin"],
        "label_after": {"integrity": "untrusted", "confidentiality": "private"},
        "destinations": [
            {
                "path": "$.to[0]",
                "proof": "none",
                "value": "b@example.com",
                "from": {"server": "web"},
            },
            {"path": "$.to[1]", "proof": "tenant"},
        ],
        "evidence": {"count": 12, "deep": {"er": ["x", "y"]}, "many": [{"k": 1}, {"k": 30}]},
    },
    "b": {
        "server": "web",
        "roles": ["user"],
        "destinations": [{"path": "$.to", "proof": "typed"}],
        "reasons": [{"code": "rule_a", "message": "private data"}],
        "evidence": {"count": 5, "yes": True, "gone": None, "text": "12"},
    },
    "c": {"server": "crm", "reasons": [{"code": "rule_b", "message": "Late"}, "odd", 7]},
    "d": {"method": "ping", "sources": [{"server": "crm", "tool": "t", "record": 7}]},
}


INDEXED = 1
"""The last of them whose words are in the index."""


@pytest.fixture(scope="module")
def log():
    """The events above, and an index of words that has come to `INDEXED`."""
    connection = sqlite3.connect(":memory:")
    columns = f"leaf_index, {', '.join(COLUMNS)}, leaf_hash, body"
    connection.execute(f"CREATE TABLE audit ({columns})")
    for index, (name, fields) in enumerate(EVENTS.items()):
        time = NOW + index // 2  # two of each time
        entry = ENCODER.encode(
            AuditRecord(kind=RecordKind.SYSTEM, time=time, id=name, fields=fields)
        )
        connection.execute(
            f"INSERT INTO audit VALUES ({', '.join('?' * 13)})",
            (index, *entry.columns, entry.leaf, entry.body.decode()),
        )
    connection.execute("ATTACH ':memory:' AS words")
    connection.execute("CREATE VIRTUAL TABLE words.reasons USING fts5 (words, content = '')")
    connection.execute("INSERT INTO words.reasons (rowid, words) VALUES (1, 'rule_a private data')")
    yield connection
    connection.close()


def rows(log, **asked):
    statement = compile_filter(
        Filter(**asked), now=NOW, hashes_of=lambda text: ("h7:other", ENCODER._rules._hash.of(text))
    )
    found = [row[0] for row in log.execute(statement.sql, statement.parameters)]
    if statement.unindexed is None:
        return found
    rest = log.execute(statement.unindexed.sql, statement.unindexed.parameters)
    return [row for row in found if row <= INDEXED] + [row for (row, *_) in rest if row > INDEXED]


def selected(log, **asked):
    return "".join(list(EVENTS)[row] for row in rows(log, order=Order.OLDEST, **asked))


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ("label_after.integrity = untrusted", "a"),
        ("not label_after.integrity = untrusted", "bcd"),
        ("label_after.integrity != untrusted", "bcd"),
        ("label_after.integrity = null", "bcd"),
        ("label_after.integrity != null", "a"),
        ("destinations.proof = none", "a"),
        ("destinations.proof = tenant", "a"),
        ("destinations.proof != none", "bcd"),
        ("destinations.proof in (typed, tenant)", "ab"),
        ("not destinations.proof in (typed, tenant)", "cd"),
        ("destinations.from.server = web", "a"),
        ("destinations.value = b@example.com", "a"),
        ("destinations.value in (x, b@example.com)", "a"),
        ("destinations.value ~ example", ""),
        ("sources.server = crm", "d"),
        ("sources.record = 7", "d"),
        ("reasons.code = rule_a", "b"),
        ("reasons.code in (rule_a, rule_b)", "bc"),
        ("reasons.message ~ data", "b"),
        ("roles = null", "cd"),
        ("evidence.count > 5", "a"),
        ("evidence.count >= 5", "ab"),
        ("evidence.count = 12", "a"),
        ("evidence.text > 1", ""),
        ("evidence.text > '1x'", ""),
        ("evidence.text < z", "b"),
        ("evidence.deep.er = y", "a"),
        ("evidence.deep = y", ""),
        ("evidence.many.k > 20", "a"),
        ("evidence.many.k > 30", ""),
        ("evidence.gone = null", "abcd"),
        ("evidence.yes = 1", "b"),
        ("evidence.count.more = 1", ""),
        ("server in (mail, web)", "ab"),
        ("server in (mail,web)", "ab"),
        ("server in ( mail ,web )", "ab"),
        ('server in ("mail", web)', "ab"),
        ("server in ('mail')", "a"),
        ("not server in (mail, web)", "cd"),
        ("leaf_index in (0, 3)", "ad"),
        ("server in (mail) or server in (crm)", "ac"),
        ("server IN (crm)", "c"),
        ("reasons match private", "b"),
        ("reasons match 'data private'", "b"),
        ("reasons match LATE", "c"),
        ("reasons match lat*", "c"),
        ("not reasons match private", "acd"),
        ("reasons match rule_a or server = mail", "ab"),
    ],
)  # fmt: skip
def test_expressions_select(log, where, found):
    assert selected(log, where=where) == found


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"where": "server.name = x"}, "server has no members"),
        ({"where": "nothing.name = x"}, "no field 'nothing'"),
        ({"where": "arguments. = x"}, "no field 'arguments.'"),
        ({"where": "arguments.a..b = x"}, "not a member's name: ''"),
        ({"where": "arguments.a[0] = x"}, "not a member's name: 'a[0]'"),
        ({"where": "arguments.a.b.c.d.e.f.g = x"}, "at most 6 members"),
        ({"where": "arguments = x"}, "name a member (arguments.NAME)"),
        ({"where": "arguments.to > null"}, "null is compared by = or !="),
        ({"where": "server in mail"}, "expected an opening bracket, found 'mail'"),
        ({"where": "server in ()"}, "expected a value, found ')'"),
        ({"where": "server in (mail,)"}, "expected a value, found ')'"),
        ({"where": "server in (,mail)"}, "expected a value, found ',mail'"),
        ({"where": "server in (a b)"}, "expected a comma, found 'b'"),
        ({"where": "server in (a, b"}, "expected a comma or a closing bracket, found the end"),
        ({"where": "server in (and)"}, "expected a value, found 'and'"),
        ({"where": f"server in ({','.join('a' * 101)})"}, "more than 100 values"),
        ({"where": "duration_us in (1, fast)"}, "duration_us is a number, not 'fast'"),
        ({"where": "server match mail"}, "match searches reasons only"),
        ({"where": "reasons match ''"}, "match needs a word"),
        ({"where": "reasons match null"}, "null is compared by = or !="),
        ({"after": "nonsense"}, "not a cursor"),
        ({"after": "WyJuZXdlc3QiLDFd"}, "not a cursor"),
        ({"after": ""}, "not a cursor"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused_and_explained(asked, says):
    with pytest.raises(QueryError) as refused:
        compile_filter(Filter(**asked), now=NOW)
    assert says in str(refused.value)


names = st.text(st.characters(codec="utf-8"), max_size=8)


@given(names, names)
def test_no_members_name_becomes_sql(log, name, operand):
    quoted = operand.replace('"', '""')
    try:
        statement = compile_filter(Filter(where=f'evidence.{name} = "{quoted}"'), now=NOW)
    except QueryError:
        return
    plain = compile_filter(
        Filter(where="evidence." + ".".join("x" * len(steps(name.strip()))) + " = y"), now=NOW
    )
    assert statement.where == plain.where
    log.execute(statement.sql, statement.parameters).fetchall()


@given(names)
def test_no_words_become_another_search(log, words):
    quoted = words.replace('"', '""')
    try:
        statement = compile_filter(Filter(where=f'reasons match "{quoted}"'), now=NOW)
    except QueryError:
        return
    assert statement.words
    log.execute(statement.sql, statement.parameters).fetchall()


def record(log, index):
    (time_us,) = log.execute("SELECT time_us FROM audit WHERE leaf_index = ?", (index,)).fetchone()
    assert time_us % 1_000_000 == 0
    return {"time": f"2027-01-15T08:00:{time_us // 1_000_000 % 60:02}Z", "leaf_index": index}


@pytest.mark.parametrize("limit", [1, 2, 3])
@pytest.mark.parametrize("order", list(Order))
def test_pages_are_the_whole_in_its_order(log, order, limit):
    found, after = [], None
    while page := rows(log, order=order, limit=limit, after=after):
        found += page
        after = cursor_of(record(log, page[-1]), order)
    assert found == sorted(range(4), reverse=order is Order.NEWEST)


def test_a_cursor_is_of_its_order():
    cursor = cursor_of({"time": "2027-01-15T08:00:00Z", "leaf_index": 3}, Order.NEWEST)
    assert place_of(cursor, Order.NEWEST) == (1_800_000_000_000_000, 3)
    with pytest.raises(QueryError, match="'newest' first"):
        place_of(cursor, Order.OLDEST)


def test_records_from_one_on_can_be_left_out(log):
    assert rows(log, before_leaf=2) == [1, 0]


def test_what_was_asked_is_told_without_the_values_of_calls():
    asked = Filter(
        server="crm",
        since="7d",
        where="arguments.to in (x, y) and not (principal = emma or destinations.value = z)"
        " and run = null and reasons match secret",
        limit=5,
    )
    assert told(asked, lambda text: f"<{text}>") == (
        'server = "crm", since = "7d", (arguments.to in (<x>, <y>) and not (principal = "emma" or'
        ' destinations.value = <z>) and run = null and reasons match "secret"), newest 5'
    )


@given(names)
def test_what_is_told_of_an_expression_can_be_read_again(operand):
    quoted = operand.replace('"', '""')
    expression = parse(f'not (a = "{quoted}" or b in ("{quoted}", c)) and d.e ~ "{quoted}"')
    again = spelled(expression, lambda _, text: '"' + text.replace('"', '""') + '"')
    assert parse(again) == expression
