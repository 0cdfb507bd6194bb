"""Requests that two readers could read differently; the ids are those of known attacks.

Each is refused, and the server behind saw nothing of it.
"""

import json

import pytest

from tests.e2e.posting import LEGACY, META, MODERN, Poster, body_of, mirrored, modern_params
from tests.e2e.scripted import Raw
from tests.e2e.sockets import Pairs, exchange, head, replies

META_TEXT = json.dumps(META)
ALLOWED: Pairs = mirrored("tools/call", {"name": "allowed"})


def text(params: str, more: str = "") -> bytes:
    """A tools/call of the stateless revision whose params are spelt by the test."""
    spelt = f'{{"jsonrpc":"2.0","id":1,"method":"tools/call"{more},"params":{{{params},'
    return (spelt + f'"_meta":{META_TEXT}}}}}').encode()


AMBIGUOUS = {
    "P01-name-by-case": (text('"name":"allowed","Name":"denied","arguments":{}'), -32600),
    "P01-arguments-by-case": (text('"name":"allowed","Arguments":{"text":"x"}'), -32600),
    "P01-method-by-case": (text('"name":"allowed"', ',"Method":"tools/list"'), -32600),
    "P02-params-with-long-s": (text('"name":"allowed"', ',"param\\u017f":{"name":"denied"}'), -32600),
    "P02-arguments-with-long-s": (text('"name":"allowed","argument\\u017f":{}'), -32600),
    "P02-kelvin-sign": (text('"name":"allowed","tas\\u212a":{}'), -32600),
    "P02-cyrillic-a": (text('"name":"allowed","n\\u0430me":"denied"'), -32600),
    "P03-name-twice": (text('"name":"allowed","name":"denied"'), -32700),
    "P03-name-twice-escaped": (text('"name":"allowed","n\\u0061me":"denied"'), -32700),
    "P03-method-twice": (text('"name":"allowed"', ',"method":"tools/list"'), -32700),
    "P03-params-twice": (text('"name":"allowed"', ',"params":{"name":"denied"}'), -32700),
    "P03-argument-twice": (text('"name":"allowed","arguments":{"a":1,"a":2}'), -32700),
    "P04-beyond-two-to-53": (
        text('"name":"amounts","arguments":{"amount":9007199254740993}'),
        -32700,
    ),
    "P04-beyond-two-to-53-as-a-fraction": (
        text('"name":"amounts","arguments":{"amount":9007199254740993.0}'),
        -32700,
    ),
    "P04-no-number": (text('"name":"amounts","arguments":{"amount":NaN}'), -32700),
    "P04-infinite": (text('"name":"amounts","arguments":{"amount":1e400}'), -32700),
    "P11-lone-surrogate": (text('"name":"\\ud800"'), -32700),
    "P11-lone-surrogate-in-a-member": (text('"name":"allowed","\\udc00":1'), -32700),
    "P11-invalid-utf-8": (text('"name":"allowed","arguments":{"text":"@"}').replace(b"@", b"\xff"), -32700),
    "P11-overlong-utf-8": (
        text('"name":"allowed","arguments":{"text":"@"}').replace(b"@", b"\xc0\xaf"),
        -32700,
    ),
    "P11-utf-16": (text('"name":"allowed"').decode().encode("utf-16"), -32700),
    "P11-byte-order-mark": (b"\xef\xbb\xbf" + text('"name":"allowed"'), -32700),
    "batch": (b"[" + text('"name":"allowed"') + b"]", -32600),
    "two-messages": (text('"name":"allowed"') * 2, -32700),
    "id-null": (text('"name":"allowed"').replace(b'"id":1', b'"id":null'), -32600),
    "id-fraction": (text('"name":"allowed"').replace(b'"id":1', b'"id":1.5'), -32600),
}  # fmt: skip


@pytest.mark.parametrize("case", AMBIGUOUS)
def test_an_ambiguous_body_is_refused(either: Poster, raw: Raw, case: str) -> None:
    body, code = AMBIGUOUS[case]
    answered = either.post(body, *ALLOWED)
    assert (answered.status, answered.error_code) == (400, code)
    assert raw.seen == []


@pytest.mark.parametrize("case", [name for name in AMBIGUOUS if name.startswith("P0")])
def test_an_ambiguous_body_is_refused_in_a_session_too(either: Poster, raw: Raw, case: str) -> None:
    body, code = AMBIGUOUS[case]
    session = either.session()
    raw.forget()
    in_session = body.replace(f',"_meta":{META_TEXT}'.encode(), b"")
    answered = either.post(
        in_session, ("MCP-Protocol-Version", LEGACY), ("Mcp-Session-Id", session)
    )
    assert (answered.status, answered.error_code) == (400, code)
    assert raw.seen == []


def test_p04_policy_sees_the_very_number(poster: Poster, raw: Raw) -> None:
    assert poster.call("amounts", {"amount": 2**53 - 1}).refusal == "denied"
    assert raw.seen == []
    assert poster.call("amounts", {"amount": 2**53 - 2}).json["result"].get("isError") is None
    assert raw.seen[0].json["params"]["arguments"] == {"amount": 2**53 - 2}


@pytest.mark.parametrize(
    "spelt",
    ["Application/JSON ; charset=utf-8", "APPLICATION/JSON", 'application/json;charset="UTF-8"'],
)
def test_p06_a_content_type_in_other_letters_is_json_and_is_decided_on(
    poster: Poster, raw: Raw, spelt: str
) -> None:
    params = {"name": "denied", "arguments": {}}
    body = body_of("tools/call", modern_params(params))
    answered = poster.post(body, *mirrored("tools/call", params), content_type=spelt)
    assert (answered.status, answered.refusal) == (200, "denied")
    assert raw.seen == []


@pytest.mark.parametrize(
    "spelt",
    [None, "", "text/plain", "application/json; charset=utf-7", "application/x-ndjson"],
)
def test_p06_any_other_content_type_is_refused(poster: Poster, raw: Raw, spelt: str | None) -> None:
    params = {"name": "allowed", "arguments": {}}
    body = body_of("tools/call", modern_params(params))
    assert poster.post(body, *mirrored("tools/call", params), content_type=spelt).status == 415
    assert raw.seen == []


VERSION = ("MCP-Protocol-Version", MODERN)
UNLIKE_THE_BODY: dict[str, Pairs] = {
    "P12-method": [VERSION, ("Mcp-Method", "tools/list"), ("Mcp-Name", "allowed")],
    "P12-method-by-case": [VERSION, ("Mcp-Method", "Tools/Call"), ("Mcp-Name", "allowed")],
    "P12-name": [VERSION, ("Mcp-Method", "tools/call"), ("Mcp-Name", "denied")],
    "P12-no-method": [VERSION, ("Mcp-Name", "allowed")],
    "P12-no-name": [VERSION, ("Mcp-Method", "tools/call")],
    "P12-name-in-base64": [VERSION, ("Mcp-Method", "tools/call"), ("Mcp-Name", "=?base64?ZGVuaWVk?=")],
    "P12-version-of-sessions": [("MCP-Protocol-Version", LEGACY), ("Mcp-Method", "tools/list")],
    "P12-no-version": [("Mcp-Method", "tools/call"), ("Mcp-Name", "allowed")],
    "P12-name-twice": [*ALLOWED, ("Mcp-Name", "denied")],
    "P12-name-twice-alike": [*ALLOWED, ("mcp-name", "allowed")],
    "P12-method-twice": [*ALLOWED, ("MCP-METHOD", "tools/list")],
    "P12-version-twice": [*ALLOWED, ("mcp-protocol-version", LEGACY)],
}  # fmt: skip


@pytest.mark.parametrize("case", UNLIKE_THE_BODY)
def test_headers_that_differ_from_the_body_are_refused(poster: Poster, raw: Raw, case: str) -> None:
    answered = poster.post(text('"name":"allowed"'), *UNLIKE_THE_BODY[case])
    assert (answered.status, answered.error_code) == (400, -32020)
    assert raw.seen == []


@pytest.mark.parametrize(
    ("case", "sent"),
    [
        ("P13-differs", [("Mcp-Param-Region", "eu-west-1")]),
        ("P13-missing", []),
        ("P13-twice", [("Mcp-Param-Region", "us-east-1"), ("Mcp-Param-Region", "eu-west-1")]),
        ("P13-control-character", [("Mcp-Param-Region", "us-east-1\x0b")]),
        ("P13-bare-line-feed", [("Mcp-Param-Region", "us-east-1\nMcp-Param-Other: 1")]),
        ("P13-bare-carriage-return", [("Mcp-Param-Region", "us-east-1\rX-Other: 1")]),
        ("P13-folded-line", [("Mcp-Param-Region", "us-east-1\r\n eu-west-1")]),
        ("P13-another-one-after-a-line-end", [("Mcp-Param-Region", "us-east-1\r\nMcp-Param-Region: 1")]),
    ],
)  # fmt: skip
def test_a_mirrored_argument_that_differs_is_refused(
    poster: Poster, raw: Raw, case: str, sent: Pairs
) -> None:
    params = {"name": "located", "arguments": {"region": "us-east-1"}}
    body = body_of("tools/call", modern_params(params))
    answered = poster.post(body, *mirrored("tools/call", params), *sent)
    assert answered.status == 400, case
    assert raw.seen == []


def test_p13_a_mirrored_argument_that_agrees_arrives(poster: Poster, raw: Raw) -> None:
    params = {"name": "located", "arguments": {"region": "us-east-1"}}
    answered = poster.modern("tools/call", params, ("Mcp-Param-Region", "us-east-1"))
    assert (answered.status, answered.refusal) == (200, None)
    assert raw.seen[0].headers["mcp-param-region"] == "us-east-1"


# Framing (RFC 9112 section 6.3): where one ends, two readers must agree as well.


def framed(poster: Poster, body: bytes, *framing: tuple[str, str]) -> bytes:
    fields = [*poster.fields, ("Content-Type", "application/json"), *ALLOWED, *framing]
    return head("POST", poster.path, fields) + body


BODY = text('"name":"allowed"')
CHUNKED = f"{len(BODY):x}\r\n".encode() + BODY + b"\r\n0\r\n\r\n"
LENGTH = ("Content-Length", str(len(BODY)))
FRAMED: dict[str, tuple[bytes, Pairs]] = {
    "length-and-chunks": (CHUNKED, [LENGTH, ("Transfer-Encoding", "chunked")]),
    "chunks-and-length": (CHUNKED, [("Transfer-Encoding", "chunked"), LENGTH]),
    "two-lengths": (BODY, [LENGTH, ("Content-Length", "3")]),
    "a-length-with-a-sign": (BODY, [("Content-Length", f"+{len(BODY)}")]),
    "a-list-of-lengths": (BODY, [("Content-Length", f"{len(BODY)}, {len(BODY)}")]),
    "an-unknown-coding": (CHUNKED, [("Transfer-Encoding", "xchunked")]),
    "chunked-not-last": (CHUNKED, [("Transfer-Encoding", "chunked, identity")]),
    "a-coding-hidden-by-a-tab": (CHUNKED, [LENGTH, ("Transfer-Encoding", "\tchunked")]),
    "a-space-before-the-colon": (BODY, [("Content-Length ", str(len(BODY)))]),
}


@pytest.mark.parametrize("case", FRAMED)
def test_a_body_whose_end_is_in_doubt_is_refused(poster: Poster, raw: Raw, case: str) -> None:
    body, framing = FRAMED[case]
    answered = exchange(poster.url, framed(poster, body, *framing))
    assert answered.status == 400
    assert raw.seen == []


def test_what_follows_a_body_in_doubt_is_no_request(poster: Poster, raw: Raw) -> None:
    inner = framed(poster, BODY, LENGTH)
    smuggled = b"0\r\n\r\n" + inner
    framing = [("Content-Length", str(len(smuggled))), ("Transfer-Encoding", "chunked")]
    assert replies(poster.url, framed(poster, smuggled, *framing)) == [400]
    assert raw.seen == []


def test_what_a_trailer_says_is_no_header(poster: Poster, raw: Raw) -> None:
    fields = [*poster.fields, ("Content-Type", "application/json"), *ALLOWED]
    token = next(pair for pair in fields if pair[0] == "Authorization")
    named = "\r\n".join(f"{name}: {text}" for name, text in [token]).encode()
    body = CHUNKED[:-2] + named + b"\r\n\r\n"
    chunked = ("Transfer-Encoding", "chunked")
    without = [pair for pair in fields if pair != token]
    assert exchange(poster.url, head("POST", poster.path, [*without, chunked]) + body).status == 401
    assert raw.seen == []
    assert exchange(poster.url, head("POST", poster.path, [*fields, chunked]) + body).status == 200
    assert "authorization" not in raw.seen[0].headers


@pytest.mark.parametrize(
    ("case", "twice"),
    [
        ("authorization", ("Authorization", "Bearer other")),
        ("content-type", ("Content-Type", "text/plain")),
        ("session", ("Mcp-Session-Id", "a")),
    ],
)
def test_a_header_that_counts_is_there_once(
    poster: Poster, raw: Raw, case: str, twice: tuple[str, str]
) -> None:
    answered = poster.post(text('"name":"allowed"'), *ALLOWED, ("Mcp-Session-Id", "b"), twice)
    assert answered.status == 400, case
    assert raw.seen == []


@pytest.mark.parametrize("hosts", [[], ["evil.example"], ["127.0.0.1", "evil.example"]])
def test_another_host_is_misdirected(poster: Poster, raw: Raw, hosts: list[str]) -> None:
    pairs = [pair for pair in poster.fields if pair[0] != "Host"]
    pairs += [("Host", host) for host in hosts]
    octets = head("POST", poster.path, [*pairs, *ALLOWED, LENGTH]) + BODY
    assert exchange(poster.url, octets).status in {400, 421}
    assert raw.seen == []


def test_a_page_of_another_origin_is_forbidden(poster: Poster, raw: Raw) -> None:
    for origin in ("https://evil.example", "null", poster.gateway.url + ".evil.example"):
        assert poster.post(BODY, *ALLOWED, ("Origin", origin)).status == 403
    assert raw.seen == []


def test_a_call_without_an_id_does_not_happen(either: Poster, raw: Raw) -> None:
    params = {"name": "allowed", "arguments": {}}
    answered = either.post(
        body_of("tools/call", modern_params(params), id=None), *mirrored("tools/call", params)
    )
    assert answered.status == 400
    assert raw.seen == []


def test_an_honest_call_arrives_byte_for_byte(poster: Poster, raw: Raw) -> None:
    body = text('"arguments" : {"text":"\\u00fc","n":[1e3, 0.10]}, "name":"allowed"')
    assert poster.post(body, *ALLOWED).refusal is None
    assert [one.body for one in raw.seen] == [body]
