"""What is written of an event, byte by byte, and what is not."""

import hashlib
import hmac
from dataclasses import replace

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.audit.hashing import KeyedHash
from gateway.audit.merkle import leaf_hash
from gateway.audit.record import (
    COLUMNS,
    FIELDS,
    LARGEST_RECORD_BYTES,
    columns_of,
)
from gateway.audit.redaction import Redaction
from gateway.domain.audit import AuditRecord, RecordKind
from tests.audit.encoders import KEY, encoder_of, terms

HASHED = encoder_of()
FULL = encoder_of(Redaction.FULL)


def record(**fields):
    return AuditRecord(kind=RecordKind.OUTCOME, time=1_763_744_000.123456, id="a1", fields=fields)


def hmac_hex(data):
    return hmac.new(KEY, data, hashlib.sha256).hexdigest()


def test_a_record_is_written_in_the_contracts_order():
    entry = HASHED.encode(
        record(run="r_1", verdict="allow", server="mail", target="send", principal="emma")
    )
    assert entry.body == (
        b'{"log_id":"douane/test","id":"a1","time":"2025-11-21T16:53:20.123456Z","kind":"outcome",'
        b'"principal":"emma","server":"mail","target":"send","verdict":"allow","run":"r_1"}'
    )
    assert entry.leaf == leaf_hash(entry.body)


def test_columns_say_what_the_body_says():
    entry = HASHED.encode(
        record(run="r_1", verdict="allow", server="mail", target="send", principal="emma")
    )
    assert dict(zip(COLUMNS, entry.columns, strict=True)) == {
        "id": "a1",
        "time_us": 1_763_744_000_123_456,
        "kind": "outcome",
        "principal": "emma",
        "server": "mail",
        "target": "send",
        "verdict": "allow",
        "code": None,
        "run": "r_1",
        "decision_id": None,
    }
    assert columns_of(entry.body) == entry.columns


def test_times_always_have_six_digits_so_that_they_sort_as_text():
    entry = HASHED.encode(AuditRecord(kind=RecordKind.SYSTEM, time=0.0, id="a1"))
    assert orjson.loads(entry.body)["time"] == "1970-01-01T00:00:00.000000Z"


@pytest.mark.parametrize(
    "name", ["password", "log_id", "leaf_index", "truncated", "id", "time", "kind"]
)
def test_a_field_that_is_not_the_contracts_to_give_is_refused(name):
    with pytest.raises(ValueError, match=f"not a field of an audit record: {name}"):
        HASHED.encode(record(**{name: "x"}))


def test_arguments_are_hashed_and_left_out():
    body = HASHED.encode(record(arguments={"to": ["a@b.c"], "n": 1})).body
    assert b"a@b.c" not in body
    assert orjson.loads(body)["arguments_hmac"] == "h1:" + hmac_hex(b'{"n":1,"to":["a@b.c"]}')
    assert orjson.loads(body)["arguments"] == {
        "to": ["h1:" + hmac_hex(b'"a@b.c"')],
        "n": "h1:" + hmac_hex(b"1"),
    }


def test_clear_arguments_stand_beside_their_hash():
    written = orjson.loads(FULL.encode(record(arguments={"to": "a@b.c"})).body)
    assert written["arguments"] == {"to": "a@b.c"}
    assert written["arguments_hmac"] == "h1:" + hmac_hex(b'{"to":"a@b.c"}')


@pytest.mark.parametrize("encoder", [HASHED, FULL])
def test_results_are_never_written(encoder):
    body = encoder.encode(record(result=b"the secret answer", result_bytes=17)).body
    assert b"secret" not in body
    assert orjson.loads(body)["result_hmac"] == "b1:" + hmac_hex(b"the secret answer")
    assert orjson.loads(body)["result_bytes"] == 17


def test_equal_content_has_equal_hashes_however_it_is_spelled():
    assert KeyedHash(KEY).of({"a": 1, "b": "\u00e9"}) == KeyedHash(KEY).of(
        {"b": "\u00e9", "a": 1.0}
    )
    assert KeyedHash(KEY).of({"a": 1}) != KeyedHash(KEY).of({"a": 2})
    assert KeyedHash(KEY).of({"a": 1}) != KeyedHash(b"x" * 32).of({"a": 1})


@pytest.mark.parametrize(
    "odd", [{"n": 2**53}, {"n": 10**400}, {"s": "\ud800"}, {"n": float("nan")}, {"\udc00": 1}]
)
def test_content_without_a_canonical_form_is_hashed_and_recorded_all_the_same(odd):
    assert KeyedHash(KEY).of(odd).startswith("b1:")
    assert KeyedHash(KEY).of(odd) == KeyedHash(KEY).of(dict(odd))
    assert orjson.loads(FULL.encode(record(arguments=odd)).body)["arguments_hmac"] == KeyedHash(
        KEY
    ).of(odd)


@pytest.mark.parametrize("level", Redaction)
@pytest.mark.parametrize(
    "changed", [{}, {"arguments": {"to": 1.0}}, {"destinations": []}, {"keys": (KEY, b"n" * 32)}]
)
def test_a_later_record_of_a_call_is_what_it_is_by_itself(level, changed):
    place = {"path": "$.to", "value": "a@b.c", "proof": "none"}
    fields = {
        "arguments": {"to": 1},
        "destinations": [place],
        "sources": [{"server": "mail", "tool": "https://b.example/x"}],
    }
    encoder = encoder_of(level)
    first = record(**fields)
    encoder.encode(first)
    if keys := changed.get("keys"):
        encoder.keep_to(terms(level, keys=keys))
    else:
        fields |= changed
    later = replace(first, fields={**fields, "result": b"done"})
    alone = encoder.encode(record(**later.fields))
    assert encoder.encode(later) == alone


def test_odd_text_is_spelled_so_that_it_can_be_written():
    written = orjson.loads(
        HASHED.encode(
            record(
                target="a\ud800b\x00\n\u202e",
                upstream_status=2**70,
                roles=frozenset({"b", "a"}),
                sources=[{"\ud800": object}],
            )
        ).body
    )
    assert written["target"] == "a\\ud800b\x00\n\u202e"
    assert written["upstream_status"] == hex(2**70)
    assert written["roles"] == ["a", "b"]
    assert written["sources"] == [{"\\ud800": "<class 'object'>"}]


def test_nesting_without_end_is_cut_off():
    deep: list[object] = []
    for _ in range(5000):
        deep = [deep]
    body = FULL.encode(record(arguments={"deep": deep})).body
    written = orjson.loads(body)["arguments"]
    assert body.count(b"[") == 31
    assert b'["b1:' in body
    assert list(written) == ["deep"]


def test_arguments_that_are_too_long_are_left_out_and_said_to_be():
    entry = FULL.encode(record(arguments={"a": "x" * LARGEST_RECORD_BYTES}, server="mail"))
    written = orjson.loads(entry.body)
    assert "arguments" not in written
    assert (written["truncated"], written["server"]) == (["arguments"], "mail")
    assert written["arguments_hmac"].startswith("h1:")


def test_what_a_candidate_said_is_left_out_before_anything_that_counts():
    told = {"arguments": {"a": "b"}, "question": {"phase": "call"}, "code": "denied"}
    said = {"verdict": "deny", "reasons": ["x" * LARGEST_RECORD_BYTES]}
    written = orjson.loads(FULL.encode(record(candidate=said, **told)).body)
    assert written["truncated"] == ["candidate"]
    assert {name: written[name] for name in told} == told


def test_any_record_is_cut_to_the_limit_and_says_what_was_cut():
    everything = dict.fromkeys(
        set(FIELDS) - {"log_id", "id", "time", "kind", "truncated"}, "\x00" * 70_000
    )
    entry = FULL.encode(record(**everything))
    written = orjson.loads(entry.body)
    assert len(entry.body) <= LARGEST_RECORD_BYTES
    assert written["target"] == "\x00" * 240
    assert "target" in written["truncated"]
    assert columns_of(entry.body) == entry.columns


def test_large_structures_are_left_out_where_arguments_are_not_the_reason():
    entry = HASHED.encode(record(evidence=[{"server": "x" * 100}] * 1000, code="denied"))
    written = orjson.loads(entry.body)
    assert "evidence" not in written
    assert (written["truncated"], written["code"]) == (["evidence"], "denied")


def test_a_cut_record_says_first_what_it_says_first():
    told = [
        {"code": "changed", "message": "user:emma (u_1)"},
        {"code": "note", "message": "groups security, " + "x" * LARGEST_RECORD_BYTES},
        *({"code": "more", "message": "y" * 300} for _ in range(10)),
    ]
    written = orjson.loads(HASHED.encode(record(reasons=told, code="changed")).body)
    assert written["truncated"] == ["reasons"]
    assert written["reasons"][0] == told[0]
    assert written["reasons"][1] == {"code": "note", "message": told[1]["message"][:240]}
    assert len(written["reasons"]) == 4
    whole = {"code": "changed", "message": "z" * 200}
    written = orjson.loads(HASHED.encode(record(reasons=[whole], target="x" * 70_000)).body)
    assert (written["reasons"], written["truncated"]) == ([whole], ["target"])


def test_a_question_is_left_out_before_what_says_where_data_came_from_and_went():
    told = {"sources": [{"server": "crm", "tool": "read" * 9, "record": "r3"}], "code": "denied"}
    entry = HASHED.encode(record(question={"a": "x" * LARGEST_RECORD_BYTES}, **told))
    written = orjson.loads(entry.body)
    assert written["truncated"] == ["question"]
    assert {name: written[name] for name in told} == told


def test_whose_data_a_call_moves_stands_in_a_record_however_it_is_filled():
    sources = [
        {"server": f"s{n % 128}", "tool": "\x00" * 300, "record": f"{n:032x}"} for n in range(500)
    ]
    places = [{"path": f"$.to[{n}]", "value": "x", "proof": "none"} for n in range(1000)]
    filled = dict.fromkeys(("target", "principal", "client", "code", "token_id"), "\x00" * 70_000)
    entry = HASHED.encode(record(sources=sources, destinations=places, **filled))
    written = orjson.loads(entry.body)
    assert len(entry.body) <= LARGEST_RECORD_BYTES
    assert {one["server"] for one in written["sources"]} == {f"s{n}" for n in range(128)}
    fifth = written["sources"][5]
    # No tool has such a name, so it may be a caller's and is kept as arguments are.
    assert (fifth["server"], fifth["record"], fifth["tool"][:5]) == ("s5", f"{5:032x}", "['h1:")
    assert len(fifth["tool"]) == 16
    assert {"sources", "destinations"} <= set(written["truncated"])


@pytest.mark.parametrize(
    ("named", "kept"),
    [("01a2", "01a2"), (7, 7), ("x" * 33, None), ("\x00", None), (True, None), ([], None)],
)
def test_a_source_of_a_cut_record_keeps_what_names_its_record(named, kept):
    sources = [{"server": "crm", "tool": "read", "record": named}] * 2000
    written = orjson.loads(HASHED.encode(record(sources=sources)).body)
    (short,) = written["sources"]
    assert short.get("record") == kept


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=())),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(st.characters(exclude_categories=()), max_size=5), inner, max_size=4
        )
    ),
    max_leaves=10,
)


@given(
    st.dictionaries(
        st.sampled_from(sorted(set(FIELDS) - {"log_id", "id", "time", "kind", "truncated"})),
        json_values,
    )
)
def test_no_value_keeps_a_record_from_being_written(fields):
    for encoder in (HASHED, FULL):
        entry = encoder.encode(record(**fields))
        assert columns_of(entry.body) == entry.columns
        assert len(entry.body) <= LARGEST_RECORD_BYTES


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"time":1}', b'{"time":"x"}', b"null"])
def test_what_is_no_record_has_no_columns(body):
    with pytest.raises(ValueError, match=r"."):
        columns_of(body)
