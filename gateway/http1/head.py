"""The head of a response, read strictly: what two readers could read in two ways is refused."""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from gateway.domain._value import value
from gateway.http1.faults import BadMessage

MOST_HEAD_BYTES: Final = 64 * 1024
MOST_FIELDS: Final = 256

END_OF_HEAD: Final = b"\r\n\r\n"
_STATUS = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9]{2})(?: [\t\x20-\x7e\x80-\xff]*)?")
_BREAK: Final = b"\r\n"
_TOKEN_OCTETS: Final = (
    b"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
)
_TEXT_OCTETS: Final = b"\t" + bytes(octet for octet in range(0x20, 0x100) if octet != 0x7F)  # noqa: PLR2004 - DEL
"""No control character: a bare CR or LF is one, and some readers take it for the end of a line
(RFC 9112 section 2.2)."""

RawPairs = list[tuple[bytes, bytes]]
Pairs = tuple[tuple[str, str], ...]


class Fields:
    """Header fields in their order, with lower-case names."""

    __slots__ = ("first", "pairs")

    def __init__(self, pairs: Pairs) -> None:
        self.pairs = pairs
        self.first = dict(reversed(pairs))
        """By name, the first of each."""

    def __contains__(self, name: str) -> bool:
        return name in self.first

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

    Raises:
        BadMessage: It is none, as of `read_lines`.

    """
    line, pairs = read_lines(data)
    status = _STATUS.fullmatch(line)
    if status is None:
        raise BadMessage("no status line")
    told = tuple([(name.decode("ascii"), text.decode("latin-1")) for name, text in pairs])
    return Head(status=int(status[2]), minor=int(status[1]), fields=Fields(told))


def read_lines(data: bytes) -> tuple[bytes, RawPairs]:
    """Return the first line of a head, of a request or an answer, and its fields with lower-case names.

    Folded lines, blanks before a colon, names that are no tokens and control characters, also a CR
    or LF by itself, are refused (RFC 9112 sections 2.2, 5.1 and 5.2).

    Raises:
        BadMessage: There is one of these, or there are too many fields.

    """
    lines = data.split(_BREAK)
    if len(lines) > MOST_FIELDS:
        raise BadMessage("too many header fields")
    return lines.pop(0), read_fields(lines)


def read_fields(lines: Iterable[bytes]) -> RawPairs:
    """Return the fields that stand in `lines`, one each.

    Raises:
        BadMessage: One is none, as of `read_lines`.

    """
    split = [line.split(b":", 1) for line in lines]
    try:
        pairs = [(name.lower(), text.strip(b" \t")) for name, text in split]
    except ValueError as error:
        raise BadMessage("no header field") from error
    require_fields(pairs)
    return pairs


def require_fields(pairs: RawPairs) -> None:
    """Refuse what would be no field, another one, or two, for whoever reads it.

    All are looked at together: one by one, it would cost several times as much.

    Raises:
        BadMessage: There is such a one.

    """
    names = [name for name, _ in pairs]
    if not all(names) or b"".join(names).translate(None, _TOKEN_OCTETS):
        raise BadMessage("no name of a field")
    if b"".join([text for _, text in pairs]).translate(None, _TEXT_OCTETS):
        raise BadMessage("a control character in a field")
