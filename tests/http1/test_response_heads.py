"""A head is read in one way, or not at all (RFC 9112)."""

import pytest

from gateway.http1.faults import BadMessage
from gateway.http1.head import read_head

OK = b"HTTP/1.1 200 OK"


def is_read(head: bytes) -> bool:
    try:
        read_head(head)
    except BadMessage:
        return False
    return True


def test_status_version_and_fields_are_what_they_say():
    head = read_head(OK + b"\r\nContent-Type:\t text/plain \r\nSet-Cookie: a\r\nset-cookie: b=\xe9")
    assert (head.status, head.minor) == (200, 1)
    assert head.fields.first.get("content-type") == "text/plain"
    assert head.fields.every("set-cookie") == ["a", "b=\xe9"]
    assert (head.fields.first.get("set-cookie"), head.fields.first.get("cookie")) == ("a", None)
    assert "set-cookie" in head.fields
    assert next(iter(head.fields)) == ("content-type", "text/plain")


@pytest.mark.parametrize(
    ("line", "status", "minor"),
    [
        (b"HTTP/1.1 404 Not Found", 404, 1),
        (b"HTTP/1.0 200 OK", 200, 0),
        (b"HTTP/1.1 599 ", 599, 1),
        (b"HTTP/1.1 200", 200, 1),
        (b"HTTP/1.1 200 \xc3\xbc\tx", 200, 1),
    ],
)
def test_a_status_line_may_have_a_reason_or_none(line: bytes, status: int, minor: int):
    head = read_head(line)
    assert (head.status, head.minor, list(head.fields)) == (status, minor, [])


STATUS_LINES = [
    b"",
    b"HTTP/1.1",
    b"HTTP/1.1 20",
    b"HTTP/1.1 2000 OK",
    b"HTTP/1.1 600 OK",
    b"HTTP/1.1 099 OK",
    b"HTTP/1.1 2x0 OK",
    b"HTTP/1.1  200 OK",
    b" HTTP/1.1 200 OK",
    b"HTTP/2.0 200 OK",
    b"HTTP/1.2 200 OK",
    b"http/1.1 200 OK",
    b"HTTP/1.1 200\tOK",
    b"HTTP/1.1 200 O\x00K",
    b"HTTP/1.1 200 O\nK",
    b"HTTP/1.1 200 OK\r",
    b"ICY 200 OK",
    b"GET / HTTP/1.1",
    b"\xef\xbc\x91HTTP/1.1 200 OK",
    b"HTTP/1.1 \xd9\xa2\xd9\xa0\xd9\xa0 OK",
]
FIELDS = [
    b"",
    b": nameless",
    b"no colon",
    b"a : blank before the colon",
    b"a\t: tab before the colon",
    b" folded: into the line before",
    b"\tfolded",
    b"a: b\x00c",
    b"a: b\rc: d",
    b"a: b\nc: d",
    b"a: b\x7f",
    b"a: b\x0b",
    b"a: \x1b[0m",
    b"a(b): c",
    b"a\x00: b",
    b"\xc3\xbc: b",
    b"a b: c",
]


def test_what_some_reader_takes_for_something_else_is_refused():
    heads = STATUS_LINES + [OK + b"\r\n" + field for field in FIELDS]
    heads += [OK + b"\r\nx: y\r\n" + field + b"\r\nx: z" for field in FIELDS]
    assert [head for head in heads if is_read(head)] == []


def test_a_head_has_so_many_fields_and_no_more():
    assert len(list(read_head(OK + b"\r\na: b" * 255).fields)) == 255
    with pytest.raises(BadMessage):
        read_head(OK + b"\r\na: b" * 256)


def test_what_is_wrong_is_said_without_a_word_of_the_peers():
    for wrong in (b"HTTP/1.1 2xx secret", OK + b"\r\nsecret\x00: x", OK + b"\r\na: secret\x00"):
        with pytest.raises(BadMessage) as told:
            read_head(wrong)
        assert "secret" not in str(told.value)
