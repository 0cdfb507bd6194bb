"""Server-sent events: a stream of bytes cut into events that still know their exact bytes.

WHATWG HTML section 9.2.5 and 9.2.6.
"""

import re
from collections.abc import Iterator
from dataclasses import replace

from gateway.domain.calls import ServerEvent
from gateway.errors import LimitExceeded
from gateway.wire.jsontext import WireLimits

_BOM = b"\xef\xbb\xbf"
_LINE_END = rb"(?>\r\n|\n|\r)"
_BLANK_FIRST = re.compile(_LINE_END)
_BLANK_NEXT = re.compile(_LINE_END + _LINE_END)
_ID = re.compile(rb"[\x20-\x7e]{0,1024}")
_KEEP_ALIVE = b": still here\n\n"
_SPLITTING = {"\x85": b"\\u0085", "\u2028": b"\\u2028", "\u2029": b"\\u2029"}
"""What ends a line for readers that take more for a line's end than the standard does (section 9.2.6).
In JSON it stands in strings alone, where its escape is the same text."""
MOST_LINES = 10_000
"""Of one event. Each is looked at by itself; a message is one line, or as many as somebody reads."""
_ONE_LINE = bytes.maketrans(b"\r\n", b"  ")
_LONGEST_BLANK = len(b"\r\n\r\n")
_MOST_DIGITS = 9
"""Of a number of milliseconds that means more than for ever."""


class EventReader:
    """Cuts one stream into events, however its bytes are chunked.

    The `raw` of all events, joined, is the stream up to the end of its last complete event.
    """

    def __init__(self, limits: WireLimits) -> None:
        self._limit = limits.event_bytes
        self._rest = bytearray()
        self._searched = 0
        self._first = True

    def feed(self, chunk: bytes) -> Iterator[ServerEvent]:
        """Yield the events that `chunk` completes; it must be exhausted before the next one.

        An event whose last byte is a CR is held until the byte behind it is known.

        Raises:
            LimitExceeded: An event is larger than the limit, complete or not.

        """
        self._rest += chunk
        while (end := self._end()) is not None and not self._may_grow(end):
            yield self._take(end)
        self._check(len(self._rest))

    @property
    def pending(self) -> int:
        """How many bytes of an event are here whose end is not."""
        return len(self._rest)

    def finish(self) -> tuple[tuple[ServerEvent, ...], int]:
        """Return the event that only the end completes, if any, and how many bytes were dropped.

        What is no complete event when the stream ends is not dispatched (section 9.2.6).
        """
        end = self._end()
        events = () if end is None else (self._take(end),)
        dropped = len(self._rest)
        self._rest.clear()
        return events, dropped

    def _end(self) -> int | None:
        """Where the first event in the buffer ends: behind its blank line."""
        start = len(_BOM) if self._first and self._rest.startswith(_BOM) else 0
        found = _BLANK_FIRST.match(self._rest, start) or _BLANK_NEXT.search(
            self._rest, max(start, self._searched)
        )
        if found is None:
            self._searched = max(0, len(self._rest) - _LONGEST_BLANK + 1)
            return None
        return found.end()

    def _may_grow(self, end: int) -> bool:
        return end == len(self._rest) and self._rest.endswith(b"\r")

    def _take(self, end: int) -> ServerEvent:
        self._check(end)
        raw = bytes(self._rest[:end])
        self._check_lines(raw)
        del self._rest[:end]
        event = ServerEvent(raw=raw, data=_data(raw.removeprefix(_BOM) if self._first else raw))
        self._searched = 0
        self._first = False
        return event

    def _check_lines(self, raw: bytes) -> None:
        if _line_ends(raw) > MOST_LINES:
            raise LimitExceeded("An event of the server's has too many lines")

    def _check(self, size: int) -> None:
        if size > self._limit:
            raise LimitExceeded("An event of the server's is too large", detail=f"{size} bytes")


def events_of(part: bytes, limits: WireLimits) -> Iterator[ServerEvent]:
    """Yield the events of `part`, which ends with one: the pipeline gives out whole events.

    How large they may be was said where they came in.
    """
    reader = EventReader(replace(limits, event_bytes=max(len(part), 1)))
    yield from reader.feed(part)
    yield from reader.finish()[0]


def data_event(data: bytes, *, beside: bool = False) -> ServerEvent:
    """Return an event that carries `data`, on an answer's own stream or `beside` that."""
    raw = b"event: message\n" + _data_lines(data) + b"\n"
    return ServerEvent(raw=raw, data=data, beside=beside)


def framed(event: ServerEvent, data: bytes | None = None) -> bytes:
    """Return the bytes of an event that carries JSON `data`, with the id and the retry of `event`.

    Nothing of the upstream's own framing goes on: a client that cuts lines elsewhere than the
    standard does would read events of its making. What says nothing keeps the stream alive.
    """
    fields = []
    if (id_ := _field(event, b"id")) is not None and _ID.fullmatch(id_):
        fields.append(b"id: " + id_)
    if (after := _field(event, b"retry")) and after.isdigit():
        fields.append(b"retry: " + after[:_MOST_DIGITS])
    if data is None and not fields:
        return _KEEP_ALIVE
    head = b"".join(field + b"\n" for field in fields)
    return head + (b"data:\n" if data is None else _data_lines(data)) + b"\n"


def event_id(event: ServerEvent) -> str | None:
    """Return what a reader comes back with after `event`: empty for nothing, `None` if it is unsaid."""
    said = _field(event, b"id")
    # A NUL makes the field none (section 9.2.6).
    return None if said is None or b"\0" in said else said.decode(errors="replace")


def retry_s(event: ServerEvent) -> float | None:
    """Return after how many seconds a reader is asked to come back; `None` if it is unsaid."""
    said = _field(event, b"retry")
    return int(said[:_MOST_DIGITS]) / 1000 if said and said.isdigit() else None


def _field(event: ServerEvent, name: bytes) -> bytes | None:
    """Return what the last line of that name says; `None` without one."""
    said = None
    if name not in event.raw:
        return None
    for line in event.raw.removeprefix(_BOM).splitlines():
        field, _, rest = line.partition(b":")
        if field == name:
            said = rest.removeprefix(b" ")
    return said


def _data_lines(data: bytes) -> bytes:
    if not data.isascii():
        for character, escape in _SPLITTING.items():
            data = data.replace(character.encode(), escape)
    if _line_ends(data) > MOST_LINES:
        # In JSON a line ends between values, where a space says the same.
        data = data.translate(_ONE_LINE)
    return b"".join(b"data: " + line + b"\n" for line in data.splitlines() or [b""])


def _line_ends(raw: bytes) -> int:
    return raw.count(b"\n") + raw.count(b"\r")


def _data(raw: bytes) -> bytes | None:
    lines = [line[5:].removeprefix(b" ") for line in raw.splitlines() if _is_data(line)]
    return b"\n".join(lines) or None


def _is_data(line: bytes) -> bool:
    return line == b"data" or line.startswith(b"data:")
