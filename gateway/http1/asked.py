"""The head of a request, read as strictly as that of an answer."""

import re
from typing import Final

from gateway.http1.faults import BadMessage
from gateway.http1.head import RawPairs, read_lines

_LINE = re.compile(
    rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+) (/[!-\"$-~]*|(?i:https?)://[!-\"$-~]+) HTTP/1\.([01])"
)
"""One blank between its parts. A target is a path, or repeats an authority before it: what is asked of a
proxy (`host:port`) or of no path (`*`) is not for us, and a fragment is not sent (RFC 9112 section 3.2)."""


class Asked:
    """Request line and fields, with lower-case names and in their order."""

    __slots__ = ("_named", "fields", "method", "minor", "target")

    def __init__(self, method: str, target: bytes, minor: int, fields: RawPairs) -> None:
        """`minor` is of the version: 1, or 0 for a peer that knows no HTTP/1.1."""
        self.method: Final = method
        self.target: Final = target
        self.minor: Final = minor
        self.fields: Final = fields
        self._named = dict(fields)

    def every(self, name: bytes) -> list[str]:
        """Return all fields of lower-case `name`, in their order."""
        text = self._named.get(name)
        if text is None:
            return []
        if len(self._named) == len(self.fields):  # each is there once
            return [text.decode("latin-1")]
        return [each.decode("latin-1") for found, each in self.fields if found == name]

    def has_option(self, name: bytes, option: str) -> bool:
        """Whether `option`, in lower case, is in the list that the fields of `name` make."""
        if name not in self._named:
            return False
        told = ",".join(self.every(name)).lower()
        return option in told and option in [text.strip(" \t") for text in told.split(",")]


def read_asked(data: bytes) -> Asked:
    """Return what `data` asks for: a head without the empty line that ends it.

    Other versions than HTTP/1.0 and 1.1 are refused, and whatever is refused in the head of an answer.

    Raises:
        BadMessage: It is no such head.

    """
    line, fields = read_lines(data)
    read = _LINE.fullmatch(line)
    if read is None:
        raise BadMessage("no request line")
    return Asked(read[1].decode("ascii"), read[2], int(read[3]), fields)
