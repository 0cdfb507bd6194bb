"""Where a body ends is said in one way, and read in one way (RFC 9112 sections 6 and 7)."""

import pytest

from gateway.http1.body import Body, Chunked, body_of
from gateway.http1.faults import BadMessage
from gateway.http1.head import read_head

CHUNKED = b'3\r\nabc\r\n00A;name="x"\r\n0123456789\r\n1;;;\r\n!\r\n0\r\nTrailer: dropped\r\n\r\n'
CONTENT = b"abc0123456789!"


def body_with(*fields: bytes, status: bytes = b"200", version: bytes = b"1.1") -> Body:
    return body_of(read_head(b"\r\n".join([b"HTTP/" + version + b" " + status + b" x", *fields])))


def fed(body: Body, *pieces: bytes) -> bytes:
    found = []
    for piece in pieces:
        found.append(body.feed(piece))
        while body.waits:
            found.append(body.feed(b""))
    return b"".join(found)


def is_read(*pieces: bytes) -> bool:
    try:
        fed(Chunked(), *pieces)
    except BadMessage:
        return False
    return True


def test_a_length_ends_a_body():
    body = body_with(b"Content-Length: 5")
    assert (fed(body, b"ab", b"cd"), body.ended) == (b"abcd", False)
    assert (fed(body, b"e"), body.ended, body.rest, body.closes) == (b"e", True, b"", False)


def test_what_comes_behind_a_body_is_no_part_of_it():
    body = body_with(b"Content-Length: 2")
    assert (fed(body, b"abHTTP/1.1 200 OK"), body.ended, body.rest) == (
        b"ab",
        True,
        b"HTTP/1.1 200 OK",
    )
    chunked = body_with(b"Transfer-Encoding: chunked")
    assert fed(chunked, CHUNKED + b"HTTP/1.1 200 OK") == CONTENT
    assert (chunked.ended, chunked.rest) == (True, b"HTTP/1.1 200 OK")


def test_without_either_the_connections_end_ends_it():
    body = body_with()
    assert (fed(body, b"ab"), body.ended, body.closes) == (b"ab", False, True)


def test_where_nothing_can_come_what_is_announced_leaves_no_usable_connection():
    odd = (b"Content-Length: 5", b"Transfer-Encoding: chunked")
    assert [body_with(field, status=b"204").closes for field in odd] == [True, True]
    # What has not changed is as long as it was (RFC 9110 section 15.4.5).
    assert [body_with(field, status=b"304").closes for field in odd] == [False, False]
    assert not body_with(b"Content-Length: 0", status=b"204").closes


@pytest.mark.parametrize("status", [b"204", b"304"])
@pytest.mark.parametrize("field", [b"Content-Length: 5", b"Transfer-Encoding: chunked", b"X: y"])
def test_some_answers_have_no_body_whatever_they_say(status: bytes, field: bytes):
    body = body_with(field, status=status)
    assert body.ended
    fed(body, b"5\r\n")
    assert body.rest == b"5\r\n"


def test_a_chunked_body_is_the_same_however_it_is_cut():
    for first in range(len(CHUNKED) + 1):
        for second in range(first, len(CHUNKED) + 1, 7):
            body = Chunked()
            found = fed(body, CHUNKED[:first], CHUNKED[first:second], CHUNKED[second:])
            assert (found, body.ended, body.rest) == (CONTENT, True, b""), (first, second)
    body = Chunked()
    assert fed(body, *(bytes([byte]) for byte in CHUNKED)) == CONTENT
    assert body.ended


@pytest.mark.parametrize(
    "fields",
    [
        (b"Content-Length: 5", b"Content-Length: 5"),
        (b"Content-Length: 5", b"Content-Length: 6"),
        (b"Content-Length: 5, 5",),
        (b"Content-Length: +5",),
        (b"Content-Length: -1",),
        (b"Content-Length: 0x5",),
        (b"Content-Length: 5 5",),
        (b"Content-Length: 1_0",),
        (b"Content-Length: ",),
        (b"Content-Length: \xb2",),
        (b"Content-Length: 9999999999999999999",),
        (b"Content-Length: 5", b"Transfer-Encoding: chunked"),
        (b"Transfer-Encoding: chunked", b"Content-Length: 5"),
        (b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked"),
        (b"Transfer-Encoding: chunked, chunked",),
        (b"Transfer-Encoding: gzip, chunked",),
        (b"Transfer-Encoding: gzip",),
        (b"Transfer-Encoding: identity",),
        (b"Transfer-Encoding: chunked, identity",),
        (b"Transfer-Encoding: xchunked",),
        (b'Transfer-Encoding: "chunked"',),
        (b"Transfer-Encoding: chunked;q=1",),
        (b"Transfer-Encoding: ",),
    ],
)
def test_two_ways_to_tell_the_end_are_none(fields: tuple[bytes, ...]):
    with pytest.raises(BadMessage):
        body_with(*fields)


def test_chunks_are_nothing_that_http_1_0_knows():
    with pytest.raises(BadMessage):
        body_with(b"Transfer-Encoding: chunked", version=b"1.0")


BAD_CHUNKS = [
    b"\r\n",
    b"g\r\n",
    b"-1\r\n",
    b"+1\r\na\r\n",
    b"0x1\r\na\r\n",
    b"1_0\r\n",
    b" 1\r\na\r\n",
    b"1 \r\na\r\n",
    b"1\t;a\r\na\r\n",
    b"1\na\r\n",
    b"1\r\r\na\r\n",
    b"1;a\rb\r\na\r\n",
    b"1;a\nb\r\na\r\n",
    b"1;a\x00b\r\na\r\n",
    b"1\r\nab\r\n",
    b"1\r\nab0\r\n\r\n",
    b"2\r\na\r\n0\r\n\r\n",
    b"1\r\na\n0\r\n\r\n",
    b"1\r\na0\r\n\r\n",
    b"10000000000000000\r\n",
    b"0\r\nno trailer\r\n\r\n",
    b"0\r\n folded: x\r\n\r\n",
    b"0\r\na: b\x00\r\n\r\n",
    b"0\r\na: b\nc: d\r\n\r\n",
    b"1;" + b"x" * 2000 + b"\r\na\r\n",
    b"1" * 2000,
    b"0\r\n" + (b"a: " + b"b" * 500 + b"\r\n") * 40,
]


def test_chunks_that_some_reader_cuts_elsewhere_are_refused():
    wholes = [*BAD_CHUNKS, *(b"3\r\nabc\r\n" + bad for bad in BAD_CHUNKS)]
    assert [whole for whole in wholes if is_read(whole)] == []
    assert [whole for whole in wholes if is_read(*(bytes([byte]) for byte in whole))] == []


def test_tiny_chunks_are_read_in_turns():
    body = Chunked()
    first = body.feed(b"1\r\nx\r\n" * 40_000 + b"0\r\n\r\n")
    assert body.waits
    assert 0 < len(first) <= 2_000
    assert first + fed(body, b"") == b"x" * 40_000
    assert body.ended


WASTEFUL = {
    "one byte each": (b"1\r\nx\r\n", 100_000),
    "long extensions": (b"10;" + b"e" * 1000 + b"\r\n" + b"x" * 16 + b"\r\n", 400),
}


@pytest.mark.parametrize(("chunk", "times"), WASTEFUL.values(), ids=WASTEFUL)
def test_more_around_the_chunks_than_in_them_is_refused(chunk: bytes, times: int):
    assert fed(Chunked(), chunk * (times // 10))
    assert not is_read(chunk * times)
    assert is_read(b"5\r\nabcde\r\n" * 100_000)
