"""What is read here, h11 and llhttp read too, and the same of it: made messages, whole and damaged."""

import random
from dataclasses import dataclass

import h11
import httptools

from gateway.http1.body import body_of
from gateway.http1.faults import BadMessage
from gateway.http1.head import END_OF_HEAD, read_head

_MADE = 4_000
_BITS = (
    b"\r", b"\n", b"\r\n", b" ", b"\t", b"\x00", b":", b";", b",", b"0", b"1", b"5", b"f", b"chunked", b"gzip",
    b"\r\n ", b"Content-Length: 3\r\n", b"Transfer-Encoding: chunked\r\n", b"\xff", b"HTTP/1.1 200 OK\r\n", b"Connection: close\r\n",
)  # fmt: skip


@dataclass(frozen=True)
class Read:
    """What a reader made of the bytes of one connection: one message, and what it leaves behind it."""

    status: int
    fields: tuple[tuple[str, str], ...]
    content: bytes
    rest: bytes | None
    """`None`: the message ends with the connection."""


def ours(data: bytes) -> Read | None:
    head, found, rest = data.partition(END_OF_HEAD)
    if not found:
        return None
    try:
        told = read_head(head)
        body = body_of(told)
        content = body.feed(rest)
    except BadMessage:
        return None
    if not body.ended and not body.closes:
        return None
    pairs = tuple(told.fields)
    left = None if body.closes else _left(rest, content, body.ended)
    return Read(status=told.status, fields=pairs, content=content, rest=left)


def _left(rest: bytes, content: bytes, _: bool) -> bytes | None:
    return rest[len(content) :] if rest.startswith(content) else b""


class Parsed:
    """llhttp, by way of httptools."""

    def __init__(self) -> None:
        self.fields: list[tuple[str, str]] = []
        self.content = b""
        self.is_complete = False
        self.begun = 0

    def on_message_begin(self) -> None:
        self.begun += 1

    def on_header(self, name: bytes, text: bytes) -> None:
        if not self.is_complete and name:
            pair = name.decode("latin-1").lower(), text.decode("latin-1").strip(" \t")
            self.fields.append(pair)

    def on_body(self, data: bytes) -> None:
        if not self.is_complete:
            self.content += data

    def on_message_complete(self) -> None:
        self.is_complete = True


def llhttps(data: bytes, *, closes: bool) -> Parsed | None:
    parsed = Parsed()
    parser = httptools.HttpResponseParser(parsed)
    try:
        parser.feed_data(data)
    except (httptools.HttpParserError, httptools.HttpParserUpgrade):
        if not parsed.is_complete:
            return None
    return parsed if parsed.is_complete or closes else None


def h11s(data: bytes, *, closes: bool) -> tuple[int, list[tuple[str, str]], bytes] | None:
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=1 << 20)
    connection.send(h11.Request(method="POST", target="/", headers=[("host", "x")]))
    connection.send(h11.EndOfMessage())
    status, fields, content = 0, [], b""
    try:
        connection.receive_data(data)
        if closes:
            connection.receive_data(b"")
        while True:
            event = connection.next_event()
            if isinstance(event, h11.InformationalResponse):
                return None
            if isinstance(event, h11.Response):
                status = event.status_code
                fields = [(n.decode(), t.decode("latin-1")) for n, t in event.headers]
            elif isinstance(event, h11.Data):
                content += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                return status, fields, content
            else:
                return None
    except h11.RemoteProtocolError:
        return None


def made(dice: random.Random) -> bytes:
    """Return an answer as a server may send it, and perhaps another behind it."""
    status = dice.choice(
        [b"200 OK", b"202 Accepted", b"404 ", b"500 x y", b"204 No Content", b"304 x"]
    )
    fields = [b"Content-Type: application/json", b"X-A:b", b"Set-Cookie: a=b; c", b"X-Empty:"]
    fields = dice.sample(fields, dice.randrange(len(fields) + 1))
    content = dice.randbytes(dice.randrange(40))
    if status[:3] in {b"204", b"304"}:
        body = b""
    else:
        match dice.randrange(3):
            case 0:
                fields.insert(0, b"Content-Length: %d" % len(content))
                body = content
            case 1:
                fields.append(b"transfer-encoding: Chunked")
                cuts = sorted(dice.randrange(len(content) + 1) for _ in range(3))
                parts = [
                    content[a:b] for a, b in zip([0, *cuts], [*cuts, len(content)], strict=True)
                ]
                chunks = [
                    b"%x%b\r\n%b\r\n" % (len(p), dice.choice([b"", b";a=b"]), p) for p in parts if p
                ]
                body = b"".join(chunks) + b"0\r\n" + dice.choice([b"", b"T: x\r\n"]) + b"\r\n"
            case _:
                body = content
    return b"HTTP/1.1 " + b"\r\n".join([status, *fields]) + END_OF_HEAD + body


def damaged(dice: random.Random, data: bytes) -> bytes:
    for _ in range(dice.randrange(1, 4)):
        at = dice.randrange(len(data) + 1)
        gone = dice.randrange(3)
        data = data[:at] + dice.choice(_BITS) + data[at + gone :]
    return data


def same(data: bytes) -> bool:
    """Whether what we read is what the others read; each of them may refuse more than we do."""
    read = ours(data)
    if read is None:
        return True
    closes = read.rest is None
    theirs = h11s(data, closes=closes)
    parsed = llhttps(data, closes=closes)
    by_h11 = theirs is None or (theirs[0], tuple(theirs[1]), theirs[2]) == (
        read.status, _as_h11(read.fields), read.content
    )  # fmt: skip
    by_llhttp = parsed is None or parsed.content == read.content
    return by_h11 and by_llhttp


def _as_h11(fields: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """Return `fields` as h11 gives them: a coding is in lower case."""
    return tuple(
        (name, text.lower() if name == "transfer-encoding" else text) for name, text in fields
    )


def test_what_servers_send_is_read_by_all_alike():
    dice = random.Random(1)
    for _ in range(_MADE // 4):
        data = made(dice)
        read = ours(data)
        assert read is not None, data
        closes = read.rest is None
        theirs, parsed = h11s(data, closes=closes), llhttps(data, closes=closes)
        assert theirs is not None, data
        assert parsed is not None, data
        assert same(data), data


def test_what_is_damaged_is_read_by_nobody_else_in_another_way():
    dice = random.Random(2)
    unlike = [data for _ in range(_MADE) if not same(data := damaged(dice, made(dice)))]
    assert unlike == []


def test_what_comes_behind_an_answer_is_nobodys_answer():
    dice = random.Random(3)
    for _ in range(_MADE // 8):
        first, second = made(dice), made(dice)
        alone, both = ours(first), ours(first + second)
        assert alone is not None
        if alone.rest is None:
            continue
        assert both is not None
        assert (both.status, both.fields, both.content) == (
            alone.status,
            alone.fields,
            alone.content,
        )
