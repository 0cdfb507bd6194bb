"""The filter language: what it selects, and what it refuses."""

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.audit.query import Filter, QueryError, compile_filter
from gateway.audit.record import COLUMNS
from gateway.domain.audit import AuditRecord, RecordKind
from tests.audit.encoders import encoder_of

NOW = 1_800_000_000.0
HOUR = 3600
EVENTS: dict[str, tuple[float, dict[str, object]]] = {
    "a": (NOW - 3 * HOUR, {"server": "mail", "target": "send", "principal": "emma", "run": "r_1",
                           "verdict": "allow", "duration_us": 900, "upstream_status": 200,
                           "label_after": {"integrity": "untrusted"}}),
    "b": (NOW - 2 * HOUR, {"server": "mail", "target": "Send", "principal": "noah", "run": "r_2",
                           "verdict": "deny", "code": "denied", "duration_us": 90}),
    "c": (NOW - 1 * HOUR, {"server": "web", "target": "fetch", "principal": "emma", "run": "r_1",
                           "verdict": "ask", "code": "approval_required",
                           "reasons": [{"code": "x", "message": "it's \"new\""}]}),
    "d": (NOW - 1, {"method": "ping"}),
}  # fmt: skip


@pytest.fixture(scope="module")
def log():
    """The events above, in a table of the log's columns."""
    connection = sqlite3.connect(":memory:")
    columns = f"leaf_index, {', '.join(COLUMNS)}, leaf_hash, body"
    connection.execute(f"CREATE TABLE audit ({columns})")
    encoder = encoder_of()
    for index, (name, (time, fields)) in enumerate(EVENTS.items()):
        entry = encoder.encode(
            AuditRecord(kind=RecordKind.OUTCOME, time=time, id=name, fields=fields)
        )
        connection.execute(
            f"INSERT INTO audit VALUES ({', '.join('?' * 13)})",
            (index, *entry.columns, entry.leaf, entry.body.decode()),
        )
    yield connection
    connection.close()


def selected(log, **asked):
    statement = compile_filter(Filter(**asked), now=NOW)
    rows = log.execute(statement.sql, statement.parameters)
    return "".join(list(EVENTS)[row[0]] for row in rows)


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({}, "dcba"),
        ({"limit": 2}, "dc"),
        ({"server": "mail"}, "ba"),
        ({"server": "mail", "tool": "send"}, "a"),
        ({"server": "mail", "tool": "Send"}, "b"),
        ({"principal": "emma"}, "ca"),
        ({"verdict": "allow"}, "a"),
        ({"verdict": "deny"}, "b"),
        ({"code": "approval_required"}, "c"),
        ({"run": "r_1"}, "ca"),
        ({"since": "90m"}, "dc"),
        ({"until": "90m"}, "ba"),
        ({"since": "2h", "until": "1h"}, "b"),
        ({"since": "2027-01-15T07:00:00Z"}, "dc"),
        ({"since": "2027-01-15T08:00:00+01:00"}, "dc"),
        ({"since": "2027-01-15T07:00:00"}, "dc"),
        ({"server": "mail' OR 1 --"}, ""),
    ],
)
def test_options_select(log, asked, found):
    assert selected(log, **asked) == found


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ("server = mail", "ba"),
        ("server != mail", "dc"),
        ("not server = mail", "dc"),
        ("not not server = mail", "ba"),
        ("server = mail and principal = emma", "a"),
        ("server = web or principal = noah", "cb"),
        ("server = web or server = mail and principal = emma", "ca"),
        ("(server = web or server = mail) and principal = emma", "ca"),
        ("not (server = web or principal = noah)", "da"),
        ("server = web OR server = x", "c"),
        ("target ~ end", "ba"),
        ("target ~ End", ""),
        ("not target ~ end", "dc"),
        ("duration_us > 100", "a"),
        ("duration_us >= 90 and duration_us <= 90", "b"),
        ("not duration_us > 100", "dcb"),
        ("duration_us < 1e3", "ba"),
        ("upstream_status = 200", "a"),
        ("server = null", "d"),
        ("server != null", "cba"),
        ('server = "null"', ""),
        ("label_after ~ untrusted", "a"),
        ("label_after = null", "dcb"),
        ('reasons ~ "it\'s"', "c"),
        ("reasons ~ 'it''s'", "c"),
        ("method = ping", "d"),
        ("time > 90m", "dc"),
        ("time < 2027-01-15T07:00:00Z", "ba"),
        ("leaf_index > 1", "dc"),
        ("log_id = douane/test and id = a", "a"),
        ("principal > f", "b"),
        ("kind = outcome", "dcba"),
        ("server='mail'and principal=emma", "a"),
        ("server = 'x'' OR 1=1 --'", ""),
    ],
)
def test_expressions_select(log, where, found):
    assert selected(log, where=where) == found


def test_a_record_is_found_by_the_hex_of_its_leaf_hash(log):
    (leaf,) = log.execute("SELECT lower(hex(leaf_hash)) FROM audit WHERE id = 'b'").fetchone()
    assert selected(log, where=f"leaf_hash = {leaf}") == "b"


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"where": "sever = mail"}, "no field 'sever' (fields: approval_id, arguments,"),
        ({"where": "body ~ x"}, "no field 'body'"),
        (
            {"where": "server"},
            "at character 7: expected one of = != < <= > >= ~ in match, found the end",
        ),
        ({"where": "server = "}, "expected a value, found the end (fields: "),
        ({"where": ""}, "expected a field, found the end"),
        ({"where": "server = mail principal = x"}, "at character 15: expected and, or, or the end"),
        ({"where": "(server = mail"}, "expected a closing bracket, found the end"),
        ({"where": "server = mail)"}, "found ')'"),
        ({"where": "server = 'mail"}, "at character 9: cannot read"),
        ({"where": "server == mail"}, "expected a value, found '='"),
        ({"where": "and = mail"}, "expected a field, found 'and'"),
        ({"where": "server = and"}, "expected a value, found 'and'"),
        ({"where": "duration_us = fast"}, "duration_us is a number, not 'fast'"),
        ({"where": "time > soon"}, "not a time: 'soon'; write 90s, 15m, 24h"),
        ({"where": "arguments = x"}, "arguments is not one value"),
        ({"where": "server > null"}, "server: null is compared by = or !="),
        ({"where": "(" * 60 + "server = a" + ")" * 60}, "nested deeper than 50"),
        ({"where": "not " * 60 + "server = a"}, "nested deeper than 50"),
        ({"where": "server = " + "a" * 5000}, "longer than 4096 characters"),
        ({"since": "yesterday"}, "not a time: 'yesterday'"),
        ({"until": "7 d"}, "not a time: '7 d'"),
        ({"since": "999999999w"}, "not within the years 1 to 9999"),
        ({"where": "time > 999999999w"}, "not within the years 1 to 9999"),
        ({"until": "9999-12-31T23:59:59-14:00"}, "not within the years 1 to 9999"),
        ({"since": "0001-01-01T00:00:00+14:00"}, "not within the years 1 to 9999"),
        ({"limit": 10_001}, "the limit is 1 to 10000"),
        ({"limit": 1 << 70}, "the limit is 1 to 10000"),
        ({"limit": 0}, "the limit is 1 to 10000"),
    ],
)
def test_what_cannot_be_meant_is_refused_and_explained(asked, says):
    with pytest.raises(QueryError) as refused:
        compile_filter(Filter(**asked), now=NOW)
    assert says in str(refused.value)


words = st.text(st.characters(codec="utf-8"), max_size=12)


@given(words, words, words)
def test_no_text_becomes_sql(log, field, operator, operand):
    try:
        statement = compile_filter(Filter(where=f"{field} {operator} {operand}"), now=NOW)
    except QueryError:
        return
    log.execute(statement.sql, statement.parameters).fetchall()


@given(words)
def test_quoted_text_is_only_ever_a_value(log, operand):
    quoted = operand.replace("'", "''")
    statement = compile_filter(Filter(where=f"server = '{quoted}'"), now=NOW)
    assert statement.where == "(server IS ?)"
    assert statement.parameters == (operand,)
