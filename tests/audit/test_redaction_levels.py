"""What of a call's arguments a record holds, by level, and what it never holds."""

import hashlib
import hmac
import re
from dataclasses import replace

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.audit.hashing import KeyedHash, hashes_of
from gateway.audit.record import RecordEncoder
from gateway.audit.redaction import (
    MOST_HASHED,
    MOST_IN_ONE,
    MOST_QUOTED,
    Level,
    Levels,
    Redaction,
    ServerLevels,
    quoted_source,
    unquoted_source,
)
from gateway.domain.audit import AuditRecord, RecordKind
from gateway.domain.paths import parse_path
from gateway.flow.redaction import RecordScreen
from tests.audit.encoders import KEY, encoder_of, terms

GITHUB = "ghp_" + "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY1zA2"
OURS = "Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5MEFCQ0RFRkdISUo"
HELD = 'correct "horse" battery'
SECRETS = {
    "issuer's form": GITHUB,
    "in a text": f"use {GITHUB} for it",
    "held": HELD,
    "held in a text": f"say {HELD} now",
    "ours": OURS,
    "header": "Authorization: Bearer abcdefgh12345678",
    "cookie": "Cookie: __Host-session=abcdef99",
    "assigned": "password=hunter2hunter2!",
    "in a URL": "https://alice:hunter2hunter2@example.org/x",
    "code": "https://client.example/cb?code=SplxlOBeZQQYbYS6WxSb1A&state=1",
}


def written(level, *, server="mail", target="send", kind="tool", held=(HELD,), **fields):
    encoder = encoder_of(level, held=held)
    told = {"server": server, "target": target, "method": "tools/call", **fields}
    tool = target if kind == "tool" else ""
    record = AuditRecord(kind=RecordKind.INTENT, time=1.0, id="a1", fields=told, tool=tool)
    return orjson.loads(encoder.encode(record).body)


def of(content):
    return KeyedHash(KEY).of(content)


def selected(*paths):
    return Levels(
        Level(redaction=Redaction.SELECTED, clear=tuple(parse_path(path) for path in paths))
    )


ARGUMENTS = {
    "to": ["bob@example.com", "eve@example.com"],
    "n": 5,
    "x": 1.5,
    "urgent": True,
    "cc": None,
    "meta": {"topic": "plans"},
}


def test_nothing_of_the_arguments_is_there_where_nothing_may_be():
    found = written(Redaction.NONE, arguments=ARGUMENTS)
    assert found.keys() == {"log_id", "id", "time", "kind", "method", "server", "target"}


def test_hashed_keeps_the_shape_and_a_hash_in_place_of_every_string_and_number():
    found = written(Redaction.HASHED, arguments=ARGUMENTS)
    assert found["arguments_hmac"] == of(ARGUMENTS)
    assert found["arguments"] == {
        "to": [of("bob@example.com"), of("eve@example.com")],
        "n": of(5),
        "x": of(1.5),
        "urgent": True,
        "cc": None,
        "meta": {"topic": of("plans")},
    }


def test_what_the_paths_select_is_clear_and_nothing_else():
    found = written(selected("$.to[0]", "$.meta", "$.n"), arguments=ARGUMENTS)
    assert found["arguments"] == {
        "to": ["bob@example.com", of("eve@example.com")],
        "n": 5,
        "x": of(1.5),
        "urgent": True,
        "cc": None,
        "meta": {"topic": "plans"},
    }
    every = written(selected("$.to[*]"), arguments=ARGUMENTS)
    assert every["arguments"]["to"] == ARGUMENTS["to"]
    assert every["arguments"]["n"] == of(5)


def test_full_is_in_clear():
    assert written(Redaction.FULL, arguments=ARGUMENTS)["arguments"] == ARGUMENTS


@pytest.mark.parametrize("secret", list(SECRETS.values()), ids=list(SECRETS))
@pytest.mark.parametrize("level", [Redaction.FULL, selected("$.note", "$.deep")])
def test_what_looks_like_a_secret_is_hashed_at_every_level(level, secret):
    arguments = {"note": secret, "deep": [{"x": ["fine", secret]}]}
    found = written(level, arguments=arguments)
    assert found["arguments"] == {"note": of(secret), "deep": [{"x": ["fine", of(secret)]}]}


@pytest.mark.parametrize(
    "name",
    ["password", "client_secret", "API-Key", "accessToken", "Authorization", "set_cookie", "otp"],
)
def test_what_is_named_as_a_secret_is_hashed_as_a_whole(name):
    found = written(Redaction.FULL, arguments={name: "x", "in": {name: {"a": ["y"]}}})
    assert found["arguments"] == {name: of("x"), "in": {name: of({"a": ["y"]})}}
    nothing = written(Redaction.FULL, arguments={name: None, "in": {name: False}})
    assert nothing["arguments"] == {name: None, "in": {name: False}}


@pytest.mark.parametrize("level", [Redaction.HASHED, Redaction.FULL])
def test_a_name_that_is_a_secret_is_hashed_too(level):
    found = written(level, arguments={GITHUB: True, "in": {f"k {GITHUB}": None}})
    assert found["arguments"] == {of(GITHUB): True, "in": {of(f"k {GITHUB}"): None}}


def test_a_name_that_may_be_data_itself_is_hashed_unless_it_may_be_read():
    arguments = {"roles": {"bob@example.com": "owner"}}
    hashed = {"roles": {of("bob@example.com"): of("owner")}}
    assert written(Redaction.HASHED, arguments=arguments)["arguments"] == hashed
    assert written(selected("$.other"), arguments=arguments)["arguments"] == hashed
    assert written(selected("$.roles"), arguments=arguments)["arguments"] == arguments
    assert written(selected("$.roles[*]"), arguments=arguments)["arguments"] == arguments
    assert written(Redaction.FULL, arguments=arguments)["arguments"] == arguments


def test_a_long_list_and_a_long_record_are_cut_and_say_so():
    found = written(Redaction.HASHED, arguments={"ids": list(range(100))})["arguments"]["ids"]
    assert len(found) == MOST_IN_ONE + 1
    assert (found[:2], found[-1]) == ([of(0), of(1)], "\u2026 36 more")
    members = written(Redaction.HASHED, arguments={f"m{i}": i for i in range(MOST_IN_ONE + 5)})[
        "arguments"
    ]
    assert (len(members), members["\u2026"]) == (MOST_IN_ONE + 1, "5 more")
    many = written(Redaction.HASHED, arguments={f"l{i}": list(range(60)) for i in range(10)})
    assert len(re.findall(r"h1:", orjson.dumps(many["arguments"]).decode())) == MOST_HASHED


def test_what_is_deep_is_hashed_as_one():
    deep: object = "x"
    for _ in range(40):
        deep = {"a": deep}
    text = orjson.dumps(written(Redaction.HASHED, arguments=deep)["arguments"]).decode()
    assert text.count('{"a":') == 32
    assert text.count("h1:") == 1


# Whose level it is.


LEVELS = Levels(
    Level(redaction=Redaction.HASHED),
    {
        "mail": ServerLevels(
            level=Level(redaction=Redaction.FULL),
            tools={"send": Level(redaction=Redaction.NONE)},
        ),
        "notes": ServerLevels(tools={"read": Level(redaction=Redaction.FULL)}),
    },
)


@pytest.mark.parametrize(
    ("server", "target", "kind", "found"),
    [
        ("mail", "send", "tool", None),
        ("mail", "search", "tool", {"a": "b"}),
        ("notes", "read", "tool", {"a": "b"}),
        ("notes", "write", "tool", {"a": of("b")}),
        ("web", "read", "tool", {"a": of("b")}),
        # What is no tool has its server's level, whatever it is called.
        ("notes", "read", "prompt", {"a": of("b")}),
        ("mail", "send", "server_request", {"a": "b"}),
        # Our own tools carry the arguments of others: the strictest level of all holds.
        ("", "call_tool", "tool", None),
        ("", "run_code", "tool", None),
    ],
)
@pytest.mark.parametrize("method", ["tools/call", "tasks/update", "x/y"])
def test_a_tools_own_level_goes_before_its_servers_and_that_before_everybodys(
    server, target, kind, found, method
):
    about = {"server": server, "target": target, "kind": kind, "method": method}
    record = written(LEVELS, **about, arguments={"a": "b"})
    assert record.get("arguments") == found
    assert ("arguments_hmac" in record) is (found is not None)


@pytest.mark.parametrize(
    ("target", "found"), [("send", {"path": "$.a"}), ("search", {"path": "$.a", "value": "b"})]
)
def test_where_data_went_is_told_by_the_same_level(target, found):
    places = [{"path": "$.a", "value": "b"}]
    method = "tasks/update"
    record = written(
        LEVELS, target=target, method=method, arguments={"a": "b"}, destinations=places
    )
    (told,) = record["destinations"]
    assert {name: inner for name, inner in told.items() if name != "value_hmac"} == found
    assert ("value_hmac" in told) is (target == "search")


# Where data went.


def test_a_destination_can_be_found_by_its_hash_and_read_where_it_may_be():
    place = {"path": "$.to[0]", "value": "bob@example.com", "proof": "none"}
    hashed = {"path": "$.to[0]", "proof": "none", "value_hmac": of("bob@example.com")}
    none = {"path": "$.to[0]", "proof": "none"}
    told = {**hashed, "value": "bob@example.com"}
    for level, found in (
        (Redaction.NONE, none),
        (Redaction.HASHED, hashed),
        (Redaction.SELECTED, hashed),
        (selected("$.to[1]"), hashed),
        (selected("$.to"), told),
        (selected("$.to[*]"), told),
        (Redaction.FULL, told),
    ):
        arguments = {"to": ["bob@example.com"]}
        record = written(level, destinations=[place], arguments=arguments)
        assert record["destinations"] == [found]
        # Where the arguments are not told, neither is this.
        bare = written(level, destinations=[place])
        assert bare["destinations"] == [none if level is Redaction.NONE else hashed]


@pytest.mark.parametrize(
    ("path", "content", "leaf"),
    [
        ("$.url", SECRETS["code"], SECRETS["code"]),
        ("$.webhook_url", "https://a.example/x", "https://a.example/x"),
        ("$.url", "bob:hunter2hunter2@db.example", "https://bob:hunter2hunter2@db.example/x"),
        ("$.url[0]", "a.example", ["b.example"] * 0),
        ("$.url.x", "a.example", "a.example"),
        ("$['a'b']", "a.example", "a.example"),
    ],
)
def test_a_destination_whose_argument_is_hidden_is_hashed_at_every_level(path, content, leaf):
    place = {"path": path, "value": content}
    arguments = {path.strip("$.").partition("[")[0].partition(".")[0]: leaf}
    (found,) = written(Redaction.FULL, destinations=[place], arguments=arguments)["destinations"]
    assert found == {"path": path, "value_hmac": of(content)}


@pytest.mark.parametrize("secret", list(SECRETS.values()), ids=list(SECRETS))
def test_what_was_read_is_named_without_secrets(secret):
    sources = [{"server": "notes", "tool": secret, "record": "r3"}, {"odd": [secret]}, secret]
    text = orjson.dumps(written(Redaction.FULL, sources=sources)["sources"]).decode()
    assert secret not in text
    assert '"record":"r3"' in text
    place = {"path": "$.to", "value": "x", "from": sources[0]}
    for level in Redaction:
        text = orjson.dumps(written(level, destinations=[place], arguments={"to": "x"})).decode()
        assert secret not in text
    plain = [{"server": "notes", "tool": "read", "record": "r3"}]
    assert written(Redaction.HASHED, sources=plain)["sources"] == plain


def test_a_name_in_a_path_is_hashed_wherever_the_path_is_told():
    path = "$.roles['bob@example.com']"
    hashed = f"$.roles['{of('bob@example.com')}']"
    reasons = [{"code": "c", "message": f"nothing shows that {path} is meant"}]
    place = {"path": path, "value": "bob@example.com"}
    found = written(Redaction.HASHED, destinations=[place], reasons=reasons)
    assert found["destinations"][0]["path"] == hashed
    assert found["reasons"][0]["message"] == f"nothing shows that {hashed} is meant"
    none = written(Redaction.NONE, destinations=[place], reasons=reasons)
    assert none["destinations"] == [{"path": "$.roles['...']"}]
    assert none["reasons"][0]["message"] == "nothing shows that $.roles['...'] is meant"
    full = written(Redaction.FULL, destinations=[place], reasons=reasons)
    assert (full["destinations"][0]["path"], full["reasons"]) == (path, reasons)
    arguments = {"roles": {"bob@example.com": "owner"}}
    full = written(Redaction.FULL, destinations=[place], arguments=arguments)
    assert full["destinations"][0]["value"] == "bob@example.com"


def test_a_name_that_was_cut_is_hashed_too():
    for end in ("bob@exam", "bob@exam\u2026", "bob\\'s", "bob\\"):
        reasons = [{"code": "c", "message": f"by $['a'] and $['{end}"}]
        found = written(Redaction.HASHED, reasons=reasons)["reasons"][0]["message"]
        assert "bob" not in found
        assert found.startswith(f"by $['{of('a')}'] and $['h1:")


def test_of_many_names_no_more_are_hashed_than_a_record_holds(monkeypatch):
    hashed = []

    def of(_: KeyedHash, name: object) -> str:
        hashed.append(name)
        return "h1:" + "0" * 64

    monkeypatch.setattr(KeyedHash, "of", of)
    names = [f"['{at}']" for at in range(5_000)]
    found = written(Redaction.HASHED, reasons=[{"code": "c", "message": "".join(names)}])
    assert found["truncated"] == ["reasons"]
    assert found["reasons"][0]["message"] == (f"['h1:{'0' * 64}']" * 4)[:240]
    assert hashed == [str(at) for at in range(MOST_QUOTED)]
    whole = "".join(names[:800])
    assert "truncated" not in written(Redaction.HASHED, reasons=[{"code": "c", "message": whole}])


# Everything else that a record holds.


@pytest.mark.parametrize("level", list(Redaction))
@pytest.mark.parametrize(
    "fields",
    [
        {"reasons": [{"code": "upstream_failed", "message": "PLANTED"}]},
        {"target": "PLANTED"},
        {"method": "PLANTED"},
        {"server": "PLANTED"},
        {"client": "PLANTED"},
        {"endpoint": "/mcp/PLANTED"},
        {"code": "PLANTED"},
        {"question": {"phase": "call", "flow": {"PLANTED": ["PLANTED"]}}},
        {"candidate": {"reasons": ["PLANTED"]}},
        {"evidence": {"usual": [{"tool": "PLANTED"}]}},
        {"obligations": [{"duty": "redact", "patterns": ["PLANTED"]}]},
        {"destinations": [{"path": "$['PLANTED']", "value": "PLANTED"}]},
        {"destinations": ["PLANTED"]},
        {"arguments": "PLANTED"},
        {"arguments": {"a": {"b": ["PLANTED"]}}},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_no_secret_is_in_any_member_of_a_record(level, fields):
    encoder = encoder_of(level, held=(HELD,))
    pieces = (
        GITHUB,
        HELD,
        OURS,
        "abcdefgh12345678",
        "hunter2hunter2",
        "SplxlOBeZQQYbYS6W",
        "abcdef99",
    )
    for secret in SECRETS.values():
        text = orjson.dumps(fields).decode().replace("PLANTED", orjson.dumps(secret).decode()[1:-1])
        told = {"server": "mail", **orjson.loads(text)}
        record = AuditRecord(kind=RecordKind.OUTCOME, time=1.0, id="a1", fields=told)
        body = encoder.encode(record).body
        for piece in pieces:
            assert piece.encode() not in body, secret
            assert orjson.dumps(piece)[1:-1] not in body, secret


@pytest.mark.parametrize("before", ["\n", "\t", "\r\n", "\x01", "\\", '"', "\u00e9"])
def test_no_secret_is_hidden_by_how_json_spells_what_stands_before_it(before):
    screen = terms(held=(HELD,)).screen
    for secret in SECRETS.values():
        text = f"{before}{secret}\n"
        suspected = screen.suspects(orjson.dumps({"message": text}))
        assert (screen.screened(text) != text) <= suspected, secret


def test_a_secret_of_ours_is_found_in_either_spelling_of_json():
    secret = 'p\u00e4ss "word" 9'
    record = written(Redaction.FULL, held=(secret,), reasons=[{"code": "x", "message": secret}])
    assert record["reasons"] == [{"code": "x", "message": "[redacted]"}]


def test_a_secret_is_taken_out_before_a_long_text_is_cut():
    message = "x" * 240 + " " + GITHUB + " " + "y" * 70_000
    found = written(
        Redaction.HASHED, reasons=[{"code": "c", "message": "z" * 70_000}], method=message
    )
    assert "ghp_" not in found["method"]


def test_the_name_of_a_person_elsewhere_is_no_secret_of_ours():
    assert written(Redaction.HASHED, principal=OURS, token_id=OURS)["principal"] == OURS


def test_what_only_mentions_secrets_is_left_as_it_is():
    reasons = [
        {"code": "c", "message": "a bearer token and a password are needed; see ?code=<code>"}
    ]
    assert written(Redaction.HASHED, reasons=reasons)["reasons"] == reasons


# Keys.


@given(st.binary(max_size=200), st.binary(min_size=1, max_size=100))
def test_the_keyed_hash_is_hmac_sha256(content, key):
    assert KeyedHash(key).of(content) == "b1:" + hmac.digest(key, content, hashlib.sha256).hex()


def test_after_a_rotation_values_name_their_key_and_all_keys_find_them():
    keys = (KEY, b"n" * 32)
    encoder = encoder_of()
    encoder.keep_to(terms(keys=keys))
    record = AuditRecord(
        kind=RecordKind.INTENT, time=1.0, id="a1", fields={"arguments": {"a": "x"}, "result": b"y"}
    )
    found = orjson.loads(encoder.encode(record).body)
    second, first = hashes_of(keys, "x")
    assert (second, first) == (KeyedHash(keys[1], 2).of("x"), of("x"))
    assert found["arguments"] == {"a": second}
    assert (second[:3], found["arguments_hmac"][:3], found["result_hmac"][:3]) == (
        "h2:",
        "h2:",
        "b2:",
    )


def test_neither_keys_nor_levels_are_shown():
    assert "kkk" not in repr(terms())


def test_what_was_harmless_once_is_looked_at_again_where_it_says_something_else():
    encoder = encoder_of(held=(HELD,))
    kept = []
    for number, message in enumerate(["fine", "fine", HELD, "fine", HELD]):
        question = {"context": {"time": f"2026-11-27T10:00:0{number}.000000Z"}}
        fields = {"reasons": [{"code": "x", "message": message}], "question": question}
        record = AuditRecord(kind=RecordKind.OUTCOME, time=1.0, id="a1", fields=fields)
        kept.append(orjson.loads(encoder.encode(record).body)["reasons"][0]["message"])
    assert kept == ["fine", "fine", "[redacted]", "fine", "[redacted]"]


@pytest.mark.parametrize("member", ["request_id", "parent"])
def test_what_a_plane_or_a_host_calls_its_own_is_looked_at_by_itself(member):
    looked: list[bytes] = []

    class Watching(RecordScreen):
        def suspects(self, octets: bytes) -> bool:
            looked.append(octets)
            return super().suspects(octets)

    watched = replace(terms(), screen=Watching(held=(HELD,)))
    encoder = RecordEncoder(log_id="douane/test", terms=watched)
    kept = []
    for name in ("q1", "q2", HELD, GITHUB, "q3"):
        fields = {member: name, "reasons": [{"code": "x", "message": "fine"}]}
        record = AuditRecord(kind=RecordKind.OUTCOME, time=1.0, id="a1", fields=fields)
        kept.append(orjson.loads(encoder.encode(record).body)[member])
    assert kept == ["q1", "q2", "[redacted]", "[redacted]", "q3"]
    # All else of these records is the same, and was looked at once.
    assert sum(b"fine" in octets for octets in looked if b"q" not in octets) == 1


def test_a_time_that_is_none_of_ours_is_looked_at():
    encoder = encoder_of()
    for time in ("2026-11-27T10:00:00Z", f"2026-11-27T10:00:00Z {GITHUB}", GITHUB):
        fields = {"question": {"context": {"time": time}}}
        record = AuditRecord(kind=RecordKind.OUTCOME, time=1.0, id="a1", fields=fields)
        assert GITHUB.encode() not in encoder.encode(record).body


def test_what_is_harmless_at_one_level_is_looked_at_again_at_another():
    levels = Levels(
        Level(redaction=Redaction.FULL),
        {"mail": ServerLevels(level=Level(redaction=Redaction.HASHED), tools={})},
    )
    encoder = encoder_of(levels)
    kept = []
    for server in ("notes", "mail"):
        fields = {"server": server, "reasons": [{"code": "x", "message": "of ['alice']"}]}
        record = AuditRecord(kind=RecordKind.OUTCOME, time=1.0, id="a1", fields=fields)
        kept.append(b"alice" in encoder.encode(record).body)
    assert kept == [True, False]


@pytest.mark.parametrize("name", ["read", "by/one", "['by/one']", "memo:one", "['a b']", "a 'b"])
def test_what_was_quoted_is_read_as_it_was(name: str) -> None:
    told = {"server": "notes", "tool": name, "record": "r3"}
    assert unquoted_source(quoted_source(told)) == told
