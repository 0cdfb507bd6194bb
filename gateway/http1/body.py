"""Where the body of a message ends, and what is in it (RFC 9112 sections 6 and 7). Nothing here waits."""

import re
from collections.abc import Sequence
from enum import Enum
from http import HTTPStatus
from typing import Final, Protocol

from gateway.http1.asked import Asked
from gateway.http1.faults import BadMessage
from gateway.http1.head import Head, read_fields

_LENGTH = re.compile(r"[0-9]{1,18}")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,15})(?:;[\t\x20-\x7e\x80-\xff]*)?")
_MOST_LINE: Final = 1024
"""Of a chunk's size with its extensions, which mean nothing to us."""
_MOST_FRAMING: Final = 256 * 1024
"""Of sizes and extensions, beyond as many bytes as there are of content: what is counted elsewhere is
content, and a chunk costs as much to read as some hundred bytes of it."""
_MOST_TRAILER: Final = 16 * 1024
_ENDS: Final = len(b"\r\n\r\n")
"""Of a chunk's first line, and of the chunk."""
_MOST_STEPS: Final = 1_000
"""In one turn of the loop, of tiny chunks: less than a millisecond, as strangers can send them over many
connections at once. What is left is read in the next one."""
_BODILESS = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED})


class Body(Protocol):
    """Cuts what comes after a head into the body and what is behind it."""

    ended: bool
    """Whether all of it has come."""
    closes: bool
    """Whether it ends with the connection, which therefore is used for nothing else."""
    waits: bool
    """Whether some of what it was fed is left for another turn: it is fed nothing then."""

    def feed(self, data: bytes) -> bytes:
        """Return what `data` adds to the body; once it has ended, `data` is behind it.

        Raises:
            BadMessage: It is not what was announced.

        """
        ...

    @property
    def rest(self) -> bytes:
        """What has come behind it."""
        ...


def body_of(head: Head) -> Body:
    """Return how the body behind `head`, an answer to anything but HEAD and CONNECT, is read.

    Raises:
        BadMessage: It says two things about its end, or what nobody offered to understand.

    """
    fields = head.fields
    codings, lengths = fields.every("transfer-encoding"), fields.every("content-length")
    _require_one_end(codings, lengths, head.minor)
    if head.status in _BODILESS:
        announces = codings or lengths not in ([], ["0"])
        return Sized(0, closes=head.status == HTTPStatus.NO_CONTENT and bool(announces))
    if codings:
        return Chunked()
    return Sized(int(lengths[0])) if lengths else ToTheEnd()


def body_asked(asked: Asked) -> Body:
    """Return how the body behind the head of a request is read: what none is announced for has none.

    Raises:
        BadMessage: As `body_of`.

    """
    codings, lengths = asked.every(b"transfer-encoding"), asked.every(b"content-length")
    _require_one_end(codings, lengths, asked.minor)
    if codings:
        return Chunked()
    return Sized(int(lengths[0]) if lengths else 0)


def _require_one_end(codings: Sequence[str], lengths: Sequence[str], minor: int) -> None:
    """Refuse what two readers could end in two places (RFC 9112 sections 6.1 and 6.3).

    Raises:
        BadMessage: It is that.

    """
    if codings and (lengths or minor == 0):
        raise BadMessage("two ways to tell the end of a body")
    if codings and [coding.lower() for coding in codings] != ["chunked"]:
        raise BadMessage("a transfer coding that nobody offered to read")
    if lengths and (len(lengths) > 1 or _LENGTH.fullmatch(lengths[0]) is None):
        raise BadMessage("no usable length")


class Sized:
    """A body of so many bytes."""

    waits = False

    def __init__(self, size: int, *, closes: bool = False) -> None:
        """Take one that `closes` for the last: it announced more, which could only be behind it."""
        self.closes = closes
        self._missing = size
        self.ended = size == 0
        self.rest = b""

    def feed(self, data: bytes) -> bytes:
        if len(data) > self._missing:
            self.rest += data[self._missing :]
            data = data[: self._missing]
        self._missing -= len(data)
        self.ended = not self._missing
        return data


class ToTheEnd:
    """A body that ends with the connection."""

    closes = True
    ended = False
    waits = False
    rest = b""

    def feed(self, data: bytes) -> bytes:
        return data


class _Line(Enum):
    """What the next line of a chunked body has to be."""

    SIZE = 1
    END_OF_CHUNK = 2
    TRAILER = 3


class Chunked:
    """A body in chunks; extensions and trailers are read, and dropped."""

    closes = False

    def __init__(self) -> None:
        self.ended = False
        self.waits = False
        self._unread = b""
        self._at = 0
        self._missing = 0
        self._expected = _Line.SIZE
        self._spare = _MOST_FRAMING
        self._trailer_bytes = 0

    @property
    def rest(self) -> bytes:
        return self._unread[self._at :] if self.ended else b""

    def feed(self, data: bytes) -> bytes:
        self._unread = self._unread[self._at :] + data
        self._at = 0
        content: list[bytes] = []
        for _ in range(_MOST_STEPS):
            piece = self._next()
            if piece is None:
                self.waits = False
                return b"".join(content)
            content.append(piece)
        self.waits = True
        return b"".join(content)

    def _next(self) -> bytes | None:
        """Return what the next step adds, which may be nothing; `None` until more has come."""
        if self.ended:
            return None
        if self._missing:
            piece = self._unread[self._at : self._at + self._missing]
            self._at += len(piece)
            self._missing -= len(piece)
            return piece or None
        end = self._unread.find(b"\r\n", self._at, self._at + _MOST_LINE)
        if end < 0:
            if len(self._unread) - self._at >= _MOST_LINE:
                raise BadMessage("a line of a chunked body is too long")
            return None
        line = self._unread[self._at : end]
        self._at = end + 2
        self._take(line)
        return b""

    def _take(self, line: bytes) -> None:
        match self._expected:
            case _Line.SIZE:
                self._missing = _size(line)
                self._spare += self._missing - len(line) - _ENDS
                if self._spare < 0:
                    raise BadMessage("more around the chunks than in them")
                self._expected = _Line.END_OF_CHUNK if self._missing else _Line.TRAILER
            case _Line.END_OF_CHUNK:
                if line:
                    raise BadMessage("a chunk is longer than it says")
                self._expected = _Line.SIZE
            case _Line.TRAILER if line:
                read_fields([line])
                self._trailer_bytes += len(line)
                if self._trailer_bytes > _MOST_TRAILER:
                    raise BadMessage("too large a trailer")
            case _Line.TRAILER:
                self.ended = True


def _size(line: bytes) -> int:
    told = _CHUNK.fullmatch(line)
    if told is None:
        raise BadMessage("no size of a chunk")
    return int(told[1], 16)
