"""The heads that come on one connection: whoever says the same again is not read again."""

import re
from typing import Any, Final

from gateway.http1 import Asked, Body, Chunked, Sized, body_asked, read_asked
from gateway.web.scopes import of_request

_LENGTH: Final = re.compile(rb"\r\ncontent-length: ?([0-9]{1,18})(?=\r\n|\Z)", re.IGNORECASE)
"""A field as nearly everybody writes it; whoever writes it otherwise is read each time it differs."""
_FIELD: Final = b"content-length"
_MOST_BYTES: Final = 2048
_MOST_FIELDS: Final = 32
"""Of a head that is kept: with what is found in it, it takes 16 KiB at most."""
_MOST_KEPT: Final = 1_000
"""Heads of one listener: anybody can open connections, and send one on each."""


class Head:
    """A head as it was read: whatever else it says, it may be said again with a smaller length."""

    __slots__ = ("_at", "_is_chunked", "_scope", "_size", "keeps", "minor", "waits_for_leave")

    def __init__(self, asked: Asked, common: dict[str, Any]) -> None:
        """Take what was `asked` on a connection of which all requests have `common`.

        Raises:
            BadMessage: It says two things about the end of its body.

        """
        body = body_asked(asked)
        self._is_chunked = isinstance(body, Chunked)
        names = [name for name, _ in asked.fields]
        self._at = names.index(_FIELD) if _FIELD in names else -1
        self._size = int(asked.fields[self._at][1]) if self._at >= 0 else 0
        self._scope = of_request(common, asked)
        self.minor: Final = asked.minor
        self.keeps: Final = asked.minor > 0 and not asked.has_option(b"connection", "close")
        self.waits_for_leave: Final = asked.minor > 0 and asked.has_option(
            b"expect", "100-continue"
        )

    def covers(self, digits: bytes) -> bool:
        """Whether what was found of it holds with this length too: what let it pass lets less pass."""
        return not digits or int(digits) <= self._size

    def body(self, digits: bytes) -> Body:
        """Return how the body behind it is read, of this length where one is told."""
        return Chunked() if self._is_chunked else Sized(int(digits) if digits else self._size)

    def scope(self, digits: bytes) -> dict[str, Any]:
        """Return what an application is told of a request that says so, with this length."""
        scope = self._scope.copy()
        if digits:
            scope["headers"] = fields = self._scope["headers"].copy()
            fields[self._at] = (_FIELD, digits)
        return scope


class Heads:
    """Reads the heads of one connection, and keeps the last one."""

    def __init__(self, common: dict[str, Any], keeping: "dict[Heads, None]") -> None:
        """Read what is asked on a connection of which all requests have `common`.

        `keeping` are those of the same listener that keep one, which are so many and no more.
        """
        self._common = common
        self._keeping = keeping
        self._around: list[bytes] = []
        """The last head without its length."""
        self._last: Head | None = None

    def read(self, data: bytes) -> tuple[Head, bytes]:
        """Return what `data` says, a head without the empty line that ends it, and the digits of its length.

        There are none where it tells no length, or writes it in a way of its own: then it is the head's.

        Raises:
            BadMessage: It is no head, or says two things about the end of its body.

        """
        told = _LENGTH.split(data, 1)
        digits = told[1] if len(told) > 1 else b""
        around = told[::2]
        head = self._last
        if head is not None and around == self._around and head.covers(digits):
            return head, digits
        asked = read_asked(data)
        head = Head(asked, self._common)
        self.forget()
        if len(data) <= _MOST_BYTES and len(asked.fields) <= _MOST_FIELDS:
            self._last, self._around = head, around
            self._keeping[self] = None
            if len(self._keeping) > _MOST_KEPT:
                next(iter(self._keeping)).forget()
        return head, digits

    def forget(self) -> None:
        """Keep nothing: the connection is gone, or others have come since."""
        self._last, self._around = None, []
        self._keeping.pop(self, None)
