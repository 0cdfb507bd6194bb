"""What is read here as a request, h11 and llhttp read too, and the same of it: made messages, whole and damaged."""

import random
from contextlib import suppress
from dataclasses import dataclass

import h11
import httptools

from gateway.http1 import END_OF_HEAD, BadMessage, body_asked, read_asked

_MADE = 4_000
_BITS = (
    b"\r", b"\n", b"\r\n", b" ", b"\t", b"\x00", b":", b";", b",", b"0", b"1", b"5", b"f", b"chunked", b"gzip", b"#", b"/",
    b"\r\n ", b"Content-Length: 3\r\n", b"Transfer-Encoding: chunked\r\n", b"\xff", b"GET / HTTP/1.1\r\n", b"Connection: close\r\n",
    b"Upgrade: h2c\r\nConnection: upgrade\r\n", b"Expect: 100-continue\r\n", b"Host: x\r\n", b"HTTP/1.0", b"\x0b", b"+", b"\r\n\r\n",
)  # fmt: skip

Fields = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Read:
    """One request, as somebody read it."""

    method: str
    target: bytes
    fields: Fields
    content: bytes


def ours(data: bytes) -> tuple[list[Read], bool]:
    """Return the requests that we read, and whether what is behind them is none."""
    requests: list[Read] = []
    while data:
        head, found, rest = data.partition(END_OF_HEAD)
        if not found:
            return requests, False
        try:
            asked = read_asked(head)
            body = body_asked(asked)
            content = body.feed(rest)
        except BadMessage:
            return requests, True
        if not body.ended:
            return requests, False
        fields = tuple((n.decode(), t.decode("latin-1")) for n, t in asked.fields)
        requests.append(Read(asked.method, asked.target, fields, content))
        data = body.rest
    return requests, False


class Parsed:
    """llhttp, by way of httptools; what a trailer says is left out."""

    def __init__(self) -> None:
        self.requests: list[Read] = []
        self._parser = httptools.HttpRequestParser(self)
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._fields: list[tuple[str, str]] = []
        self._target = self._content = b""
        self._is_head = True

    def read(self, data: bytes) -> "Parsed":
        with suppress(httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._parser.feed_data(data)
        return self

    def on_message_begin(self) -> None:
        self._fields, self._target, self._content, self._is_head = [], b"", b"", True

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_header(self, name: bytes, text: bytes) -> None:
        if self._is_head:
            pair = name.decode("latin-1").lower(), text.decode("latin-1").strip(" \t")
            self._fields.append(pair)

    def on_headers_complete(self) -> None:
        self._is_head = False

    def on_body(self, data: bytes) -> None:
        self._content += data

    def on_message_complete(self) -> None:
        method = self._parser.get_method().decode()
        self.requests.append(Read(method, self._target, tuple(self._fields), self._content))


def h11s(data: bytes) -> list[Read]:
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 20)
    connection.receive_data(data)
    requests: list[Read] = []
    asked, content = h11.Request(method="GET", target="/", headers=[("host", "x")]), b""
    try:
        while True:
            event = connection.next_event()
            if isinstance(event, h11.Request):
                asked, content = event, b""
            elif isinstance(event, h11.Data):
                content += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                fields = tuple((n.decode(), t.decode("latin-1")) for n, t in asked.headers)
                requests.append(Read(asked.method.decode(), asked.target, fields, content))
                connection.send(h11.Response(status_code=200, headers=[("content-length", "0")]))
                connection.send(h11.EndOfMessage())
                if connection.our_state is not h11.DONE:
                    return requests
                connection.start_next_cycle()
            else:
                return requests
    except h11.RemoteProtocolError:
        return requests


def made(dice: random.Random) -> bytes:
    """Return a request as a client may send it."""
    method = dice.choice([b"POST", b"GET", b"DELETE", b"OPTIONS", b"PUT"])
    target = dice.choice([b"/", b"/mcp", b"/mcp/a?b=c", b"http://x/mcp", b"/%2f"])
    fields = [b"Content-Type: application/json", b"X-A:b", b"Accept: a,b", b"X-Empty:", b"T: x\ty "]
    fields = [b"Host: x", *dice.sample(fields, dice.randrange(len(fields) + 1))]
    content = dice.randbytes(dice.randrange(40))
    body = b""
    match dice.randrange(3):
        case 0:
            fields.insert(0, b"Content-Length: %d" % len(content))
            body = content
        case 1:
            fields.append(b"transfer-encoding: Chunked")
            cuts = sorted(dice.randrange(len(content) + 1) for _ in range(3))
            parts = [content[a:b] for a, b in zip([0, *cuts], [*cuts, len(content)], strict=True)]
            chunks = [
                b"%x%b\r\n%b\r\n" % (len(p), dice.choice([b"", b";a=b"]), p) for p in parts if p
            ]
            body = b"".join(chunks) + b"0\r\n" + dice.choice([b"", b"Trailer-X: x\r\n"]) + b"\r\n"
        case _:
            pass
    return method + b" " + target + b" HTTP/1.1\r\n" + b"\r\n".join(fields) + END_OF_HEAD + body


def damaged(dice: random.Random, data: bytes) -> bytes:
    for _ in range(dice.randrange(1, 4)):
        at = dice.randrange(len(data) + 1)
        gone = dice.randrange(3)
        data = data[:at] + dice.choice(_BITS) + data[at + gone :]
    return data


def unlike(ours: list[Read], theirs: list[Read]) -> bool:
    """Whether a request is read in two ways; each reader may stop sooner than the other."""
    return any(our != their for our, their in zip(ours, theirs, strict=False))


def as_h11(request: Read) -> Read:
    """Return a request as h11 gives it: a coding is in lower case."""
    fields = tuple((n, t.lower() if n == "transfer-encoding" else t) for n, t in request.fields)
    return Read(request.method, request.target, fields, request.content)


def differs(data: bytes) -> bool:
    read, _ = ours(data)
    upgrades = any(n in {"upgrade", "connection"} for one in read for n, _ in one.fields)
    # Where another protocol is offered, llhttp ends, and we go on as if nothing were.
    by_llhttp = not upgrades and unlike(read, Parsed().read(data).requests)
    return by_llhttp or unlike([as_h11(one) for one in read], h11s(data))


def test_what_clients_send_is_read_by_all_alike():
    dice = random.Random(1)
    for _ in range(_MADE // 8):
        count = dice.randrange(1, 4)
        data = b"".join(made(dice) for _ in range(count))
        read, is_torn = ours(data)
        assert (len(read), is_torn) == (count, False), data
        assert Parsed().read(data).requests == read, data
        assert h11s(data) == [as_h11(one) for one in read], data


def test_what_is_damaged_is_read_by_nobody_else_in_another_way():
    dice = random.Random(2)
    assert [
        data for _ in range(_MADE) if differs(data := damaged(dice, made(dice) + made(dice)))
    ] == []
