"""The head of a response, read strictly: what two readers could read in two ways is refused."""

import re
from collections.abc import Iterator
from typing import Final

from gateway.domain._value import value
from gateway.http1.faults import BadMessage

MOST_HEAD_BYTES: Final = 64 * 1024
_MOST_FIELDS: Final = 256

END_OF_HEAD: Final = b"\r\n\r\n"
_STATUS = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9]{2})(?: [\t\x20-\x7e\x80-\xff]*)?")
_TOKEN = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
"""A bare CR or LF is one: some readers take it for the end of a line (RFC 9112 section 2.2)."""

Pairs = tuple[tuple[str, str], ...]


class Fields:
    """Header fields in their order, with lower-case names."""

    __slots__ = ("_first", "pairs")

    def __init__(self, pairs: Pairs) -> None:
        self.pairs = pairs
        self._first = dict(reversed(pairs))

    def __contains__(self, name: str) -> bool:
        return name in self._first

    def get(self, name: str) -> str | None:
        """Return the first field of lower-case `name`."""
        return self._first.get(name)

    def every(self, name: str) -> list[str]:
        """Return all fields of lower-case `name`, in their order."""
        return [text for found, text in self.pairs if found == name]

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self.pairs)


@value
class Head:
    """Status line and fields of a response."""

    status: int
    minor: int
    """Of the version: 1, or 0 for a peer that knows no HTTP/1.1."""
    fields: Fields


def read_head(data: bytes) -> Head:
    """Return what `data` says: a head without the empty line that ends it.

    Folded lines, blanks before a colon, names that are no tokens and control characters, also a CR
    or LF by itself, are refused (RFC 9112 sections 2.2, 5.1 and 5.2).

    Raises:
        BadMessage: It is none.

    """
    lines = data.split(b"\r\n")
    if len(lines) > _MOST_FIELDS:
        raise BadMessage("too many header fields")
    status = _STATUS.fullmatch(lines[0])
    if status is None:
        raise BadMessage("no status line")
    fields = Fields(tuple(read_field(line) for line in lines[1:]))
    return Head(status=int(status[2]), minor=int(status[1]), fields=fields)


def read_field(line: bytes) -> tuple[str, str]:
    """Return name, in lower case, and text of a field.

    Raises:
        BadMessage: It is none.

    """
    name, colon, text = line.partition(b":")
    if not colon or _TOKEN.fullmatch(name) is None or _CONTROL.search(text):
        raise BadMessage("no header field")
    return name.decode("ascii").lower(), text.strip(b" \t").decode("latin-1")
