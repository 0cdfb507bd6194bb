"""What policy was asked, kept in a record and built again from it."""

import copy
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.audit.question import kept
from gateway.audit.rebuilt import NEVER, rebuilt
from gateway.flow.redaction import REPLACED

LABELS = st.fixed_dictionaries({
    "integrity": st.sampled_from(["trusted", "untrusted"]),
    "confidentiality": st.sampled_from(["public", "internal", "private", "secret"]),
})  # fmt: skip
WORDS = st.text(max_size=8)
SOURCES = st.fixed_dictionaries(
    {"server": WORDS, "tool": WORDS, "record": st.integers(0, 9).map(str), "label": LABELS}
)
ORIGINS = st.none() | st.fixed_dictionaries({
    "server": WORDS, "tool": WORDS, "record": st.integers(0, 9).map(str), "minted": st.booleans(),
})  # fmt: skip
USED = st.fixed_dictionaries({"quota": WORDS, "left": st.integers(0, 3)})
PLACES = st.fixed_dictionaries({
    "path": st.sampled_from(["$.to", "$.to[0]", "$.cc['a b']"]),
    "value": WORDS,
    "form": st.sampled_from(["email", "url", "account", "name"]),
    "proof": st.sampled_from(["tenant", "task", "typed", "trusted_result", "none"]),
    "integrity": st.sampled_from(["trusted", "untrusted"]),
    "by": st.sampled_from(["tenant", "picked", "own_id", "nobody"]),
    "from": ORIGINS,
})  # fmt: skip
MATCHES = st.fixed_dictionaries({
    "record": st.integers(0, 9).map(str), "kind": st.sampled_from(["exact", "fragment", "link"]),
    "bytes": st.integers(0, 99), "decoded": st.sampled_from(["", "base64"]),
    "confidentiality": st.sampled_from(["internal", "private"]),
})  # fmt: skip
QUESTIONS = st.fixed_dictionaries({
    "version": st.just(1),
    "phase": st.just("call"),
    "method": st.sampled_from(["tools/call", "prompts/get", "sampling/createMessage"]),
    "principal": st.fixed_dictionaries({
        "sub": WORDS, "iss": WORDS, "groups": st.lists(WORDS, max_size=3),
        "scopes": st.lists(WORDS, max_size=3),
        "client": st.fixed_dictionaries({"id": WORDS, "name": WORDS}),
    }),
    "origin": st.fixed_dictionaries({
        "kind": st.sampled_from(["direct", "meta_tool", "sandbox", "host_sandbox"]),
        "run": WORDS, "parent": st.none() | WORDS, "seq": st.integers(0, 9).map(str),
        "script_sha256": st.none() | WORDS,
        "grants": st.lists(st.fixed_dictionaries({"tool": WORDS, "arguments": st.just({"to": "secret place"})}), max_size=2),
    }),
    "target": st.fixed_dictionaries({
        "server": WORDS, "kind": st.sampled_from(["tool", "prompt", "server_request"]),
        "name": WORDS, "effect": st.sampled_from(["", "read", "egress"]),
        "annotations": st.dictionaries(WORDS, st.booleans() | WORDS, max_size=2),
        "pin": st.fixed_dictionaries({
            "digest": WORDS, "status": st.sampled_from(["approved", "pending"]), "approved_by": WORDS,
        }),
    }),
    "arguments": st.dictionaries(WORDS, st.just("secret words"), max_size=2),
    "flow": st.fixed_dictionaries({
        "label": LABELS, "sources": st.lists(SOURCES, max_size=3),
        "destinations": st.lists(PLACES, max_size=3), "names_where": st.booleans(),
        "payload": st.lists(st.fixed_dictionaries({"path": st.just("$.body"), "said": st.sampled_from(["", "outsider"]), "matches": st.lists(MATCHES, max_size=2)}), max_size=2),
        "links": st.lists(PLACES, max_size=2), "asked_for": st.none() | st.booleans(),
        "left_open": st.booleans(),
        "violations": st.lists(st.fixed_dictionaries({"code": WORDS, "message": WORDS}), max_size=2),
    }),
    "dlp": st.fixed_dictionaries({
        "arguments": st.lists(st.fixed_dictionaries({
            "class": WORDS, "group": WORDS, "path": st.just("$.body"), "count": st.integers(1, 9), "given": WORDS,
        }), max_size=2),
        "result": st.just([]),
    }),
    "usage": st.fixed_dictionaries({
        "over": st.lists(USED, max_size=1), "counts": st.lists(USED, max_size=2),
    }),
    "task": st.fixed_dictionaries({
        "prompt": st.none() | st.just("secret wish"), "tools": st.none() | st.lists(WORDS, max_size=2),
    }),
    "approval": st.none() | st.fixed_dictionaries({
        "id": WORDS, "by": WORDS, "span": st.sampled_from(["once", "run"]), "note": st.just("secret note"),
    }),
    "context": st.fixed_dictionaries({"time": st.just("2026-01-31T12:00:00.000001Z"), "ip": WORDS, "revision": WORDS, "endpoint": WORDS}),
    "result": st.none(),
})  # fmt: skip

ABSENT = (
    ("arguments",),
    ("task", "prompt"),
    ("task", "tools"),
    ("approval", "note"),
    (
        "origin",
        "grants",
    ),
)


def record_of(asked: dict[str, Any], *, elsewhere: bool = False) -> dict[str, Any]:
    """Return what the trail writes of a call, with its question; `elsewhere` says other things."""
    flow = asked["flow"]
    fields: dict[str, Any] = {
        "principal": asked["principal"]["sub"],
        "client": asked["principal"]["client"]["id"],
        "method": asked["method"],
        "origin": asked["origin"]["kind"],
        "run": asked["origin"]["run"],
        "server": asked["target"]["server"],
        "target": asked["target"]["name"],
        "pin_digest": asked["target"]["pin"]["digest"],
        "label_before": flow["label"],
        "source_ip": asked["context"]["ip"],
        "revision": asked["context"]["revision"],
        "endpoint": asked["context"]["endpoint"],
    }
    if flow["sources"]:
        fields["sources"] = [
            {k: s[k] for k in ("server", "tool", "record")} for s in flow["sources"]
        ]
    if flow["destinations"]:
        fields["destinations"] = [
            {k: d[k] for k in ("path", "proof", "integrity", "from") if d[k] is not None}
            for d in flow["destinations"]
        ]
    if asked["target"]["effect"]:
        fields["effect"] = asked["target"]["effect"]
    if elsewhere:
        fields |= {"effect": "pay", "parent": "p", "seq": 7, "label_before": {}, "sources": [{}]}
        del fields["server"]
    return {**fields, "question": kept(asked, fields)}


def without(asked: dict[str, Any], unknown: frozenset[tuple[str, ...]]) -> dict[str, Any]:
    """Return `asked` without what is `unknown`, and without what no record says."""
    left = copy.deepcopy(asked)
    for name in ("destinations", "links"):
        for place in left["flow"][name]:
            if place["value"]:
                del place["value"]
    for path in unknown & set(ABSENT):
        node = left
        for step in path[:-1]:
            node = node[step]
        del node[path[-1]]
    return left


@given(QUESTIONS, st.booleans())
def test_a_question_is_built_again_from_its_record_but_for_what_is_named(
    asked: dict[str, Any], elsewhere: bool
) -> None:
    record = orjson.loads(orjson.dumps(record_of(asked, elsewhere=elsewhere)))
    found = rebuilt(record)
    assert found is not None
    assert found.question == without(asked, found.unknown)
    expected = {
        ("arguments",),
        *(path for path in ABSENT[1:3] if asked["task"][path[1]] is not None),
        *([("approval", "note")] if asked["approval"] else []),
        *([("origin", "grants")] if asked["origin"]["grants"] else []),
        *(
            ("flow", name, "*", "value")
            for name in ("destinations", "links")
            if any(place["value"] for place in asked["flow"][name])
        ),
    }
    assert found.unknown == expected
    assert found.unknown <= NEVER | set(ABSENT)


@given(QUESTIONS)
def test_nothing_of_what_somebody_wrote_is_kept(asked: dict[str, Any]) -> None:
    for place in (*asked["flow"]["destinations"], *asked["flow"]["links"]):
        place["value"] = "secret address"
    assert b"secret" not in orjson.dumps(record_of(asked)["question"]).replace(b'"secret"', b"")


def call(**changes: Any) -> dict[str, Any]:
    """A record of a call, with the arguments and places that redaction left."""
    asked = {
        "version": 1, "phase": "call", "method": "tools/call",
        "principal": {"sub": "a", "iss": "i", "groups": ["users"], "scopes": ["tools:call"], "client": {"id": "c", "name": "C"}},
        "origin": {"kind": "direct", "run": "r", "parent": None, "seq": 0, "script_sha256": None, "grants": []},
        "target": {"server": "mail", "kind": "tool", "name": "send", "effect": "egress", "annotations": {}, "pin": {"digest": "d", "status": "approved", "approved_by": "user:emma"}},
        "arguments": {"to": "a@b.example"},
        "flow": {
            "label": {"integrity": "trusted", "confidentiality": "public"}, "sources": [],
            "destinations": [{"path": "$.to", "value": "a@b.example", "form": "email", "proof": "none", "integrity": "untrusted", "from": None}],
            "names_where": True, "payload": [], "links": [], "asked_for": None, "violations": [],
        },
        "task": {"prompt": None, "tools": None}, "approval": None,
        "context": {"time": "2026-01-31T12:00:00Z", "ip": "127.0.0.1", "revision": "2026-07-28", "endpoint": "/mcp/mail"},
        "result": None,
    }  # fmt: skip
    return {**record_of(asked), **changes}


@pytest.mark.parametrize(
    ("changes", "unknown"),
    [
        ({"target": "file:///x?key=[redacted]"}, ("target", "name")),
        ({"target": "x['h1:00']"}, ("target", "name")),
        (
            {"sources": [{"server": "s", "tool": "['...']", "record": "r1"}]},
            ("flow", "sources", "*", "tool"),
        ),
    ],
)
def test_a_name_out_of_which_something_was_taken_is_not_known(
    changes: dict[str, Any], unknown: tuple[str, ...]
) -> None:
    record = call(**changes)
    record["question"].get("flow", {}).pop("sources", None)
    found = rebuilt(record)
    assert found is not None
    assert unknown in found.unknown
    assert "name" not in found.question["target"] or unknown != ("target", "name")


def test_the_mark_of_a_secret_is_the_one_that_records_have() -> None:
    found = rebuilt(call(target=REPLACED))
    assert found is not None
    assert ("target", "name") in found.unknown


VALUE = ("flow", "destinations", "*", "value")
HASH = "h1:" + "0" * 64


@pytest.mark.parametrize(
    ("arguments", "shown", "unknown"),
    [
        pytest.param({"to": "x", "n": 1}, {"to": "x", "n": 1}, set(), id="in clear"),
        pytest.param({"to": HASH, "n": 1}, {"n": 1}, {("arguments", "to")}, id="one hashed"),
        pytest.param({"to": HASH.replace("h1", "b12")}, {}, {("arguments", "to")}, id="other key"),
        pytest.param(
            {"to": ["x", HASH]}, {"to": ["x", None]}, {("arguments", "to", "*")}, id="an item"
        ),
        pytest.param(
            {"a": {HASH: 1}, "b": 2}, {"b": 2}, {("arguments", "a")}, id="a name is hashed"
        ),
        pytest.param({"a": ["x", "\u2026 9 more"]}, {}, {("arguments", "a")}, id="items cut"),
        pytest.param({"\u2026": "9 more"}, None, {("arguments",)}, id="members cut"),
        pytest.param(None, None, {("arguments",)}, id="none at all"),
    ],
)
def test_arguments_are_used_as_far_as_they_are_in_clear(
    arguments: Any, shown: Any, unknown: set[tuple[str, ...]]
) -> None:
    found = rebuilt(call(arguments=arguments))
    assert found is not None
    assert found.question.get("arguments") == shown
    assert found.unknown == unknown | {VALUE}


def test_a_value_of_a_place_is_used_where_it_is_in_clear() -> None:
    place = {"path": "$.to", "proof": "none", "integrity": "untrusted", "value_hmac": HASH}
    found = rebuilt(call(destinations=[{**place, "value": "a@b.example"}]))
    assert found is not None
    assert found.question["flow"]["destinations"][0]["value"] == "a@b.example"
    assert found.unknown == {("arguments",)}
    hidden = rebuilt(call(destinations=[place]))
    assert hidden is not None
    assert VALUE in hidden.unknown


def test_a_path_with_a_hashed_name_in_it_is_not_known() -> None:
    place = {"path": f"$.to['{HASH}']", "proof": "none", "integrity": "untrusted"}
    found = rebuilt(call(destinations=[place]))
    assert found is not None
    assert ("flow", "destinations", "*", "path") in found.unknown


def test_a_record_without_a_question_has_none() -> None:
    assert rebuilt({"kind": "admin"}) is None
    assert rebuilt({"kind": "intent", "truncated": ["question"]}) is None


def test_an_ordinary_question_is_a_few_hundred_bytes() -> None:
    assert len(orjson.dumps(call()["question"])) < 600
