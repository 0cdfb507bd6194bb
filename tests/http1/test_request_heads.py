"""The head of a request: what some reader takes for something else is no head."""

import pytest

from gateway.http1 import BadMessage, body_asked, read_asked
from gateway.http1.body import Chunked, Sized
from gateway.http1.head import MOST_FIELDS

LINE = b"POST /mcp HTTP/1.1"


def with_fields(*fields: bytes) -> bytes:
    return b"\r\n".join([LINE, *fields])


def test_line_and_fields_are_read_in_their_order():
    asked = read_asked(with_fields(b"Host: x", b"X-A:\tb c ", b"x-a:", b"T: \xff:\ty"))
    assert (asked.method, asked.target, asked.minor) == ("POST", b"/mcp", 1)
    assert asked.fields == [(b"host", b"x"), (b"x-a", b"b c"), (b"x-a", b""), (b"t", b"\xff:\ty")]
    assert asked.every(b"x-a") == ["b c", ""]
    assert (asked.every(b"host"), asked.every(b"none")) == (["x"], [])
    assert read_asked(LINE.replace(b"1.1", b"1.0")).minor == 0


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"POST /mcp",
        b"POST  /mcp HTTP/1.1",
        b"POST /mcp  HTTP/1.1",
        b" POST /mcp HTTP/1.1",
        b"POST /mcp HTTP/1.1 ",
        b"POST\t/mcp HTTP/1.1",
        b"PO(ST /mcp HTTP/1.1",
        b"POST /m\xffcp HTTP/1.1",
        b"POST /mcp#a HTTP/1.1",
        b"POST mcp HTTP/1.1",
        b"POST * HTTP/1.1",
        b"CONNECT x:443 HTTP/1.1",
        b"POST ftp://x/mcp HTTP/1.1",
        b"POST http:// HTTP/1.1",
        b"POST /mcp HTTP/1.2",
        b"POST /mcp HTTP/2.0",
        b"POST /mcp http/1.1",
        b"POST /mcp HTTP/1.10",
        b"POST /mcp ICE/1.0",
    ],
)
def test_a_line_has_one_spelling(line: bytes):
    with pytest.raises(BadMessage):
        read_asked(line + b"\r\nhost: x")


@pytest.mark.parametrize(
    "field",
    [
        b"host : x",
        b" host: x",
        b": x",
        b"host",
        b"",
        b"h\xfcst: x",
        b"ho st: x",
        b"host: x\ny: z",
        b"host: x\ry: z",
        b"host: x\r",
        b"host: \x00",
        b"host: \x0bx",
        b"host: \x7f",
        b"host: a\rb\nc",
    ],
)
def test_what_some_reader_takes_for_another_field_is_refused(field: bytes):
    for fields in ((field,), (b"a: b", field), (field, b"a: b"), (b"a: b", field, b"c: d")):
        with pytest.raises(BadMessage):
            read_asked(with_fields(*fields))


def test_a_request_has_so_many_fields_and_no_more():
    fields = [b"x: y"] * (MOST_FIELDS - 1)
    assert len(read_asked(with_fields(*fields)).fields) == MOST_FIELDS - 1
    with pytest.raises(BadMessage):
        read_asked(with_fields(*fields, b"x: y"))


@pytest.mark.parametrize(
    ("fields", "has"),
    [
        ([], False),
        ([b"Connection: close"], True),
        ([b"Connection: keep-alive, Close"], True),
        ([b"Connection: a", b"X: y", b"Connection: close"], True),
        ([b"Connection: disclose"], False),
        ([b"Connection: close;q"], False),
    ],
)
def test_an_option_is_looked_for_in_the_whole_list(fields: list[bytes], has: bool):
    assert read_asked(with_fields(*fields)).has_option(b"connection", "close") is has


def test_where_nothing_is_announced_there_is_no_body():
    assert body_asked(read_asked(LINE)).ended
    assert body_asked(read_asked(with_fields(b"Content-Length: 0"))).ended
    sized = body_asked(read_asked(with_fields(b"Content-Length: 2 ")))
    assert isinstance(sized, Sized)
    assert (sized.feed(b"abc"), sized.ended, sized.rest) == (b"ab", True, b"c")
    chunked = body_asked(read_asked(with_fields(b"Transfer-Encoding: CHUNKED")))
    assert isinstance(chunked, Chunked)


@pytest.mark.parametrize(
    "fields",
    [
        [b"Content-Length: 1", b"Transfer-Encoding: chunked"],
        [b"Content-Length: 1", b"Content-Length: 1"],
        [b"Content-Length: 1, 1"],
        [b"Content-Length: +1"],
        [b"Content-Length: 0x1"],
        [b"Content-Length:"],
        [b"Content-Length: " + b"1" * 19],
        [b"Transfer-Encoding: gzip, chunked"],
        [b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked"],
        [b"Transfer-Encoding: identity"],
        [b"Transfer-Encoding:"],
    ],
)
def test_a_request_ends_in_one_place(fields: list[bytes]):
    with pytest.raises(BadMessage):
        body_asked(read_asked(with_fields(*fields)))


def test_chunks_are_nothing_that_a_client_of_http_1_0_knows():
    old = with_fields(b"Transfer-Encoding: chunked").replace(b"1.1", b"1.0")
    with pytest.raises(BadMessage):
        body_asked(read_asked(old))
