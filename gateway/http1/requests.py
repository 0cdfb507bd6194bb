"""The bytes of a request: only what was decided on goes into its head."""

import re
from collections.abc import Iterable

_SPLITS = re.compile("[\r\n\0]")
_BODILESS = frozenset({"GET", "DELETE"})


def common_head(target: str, host: str, fields: Iterable[tuple[str, str]]) -> bytes:
    """Return what all requests to one place have in common, behind the verb.

    Raises:
        ValueError: As `request`.

    """
    return _line(f" {target} HTTP/1.1") + _lines([("host", host), *fields])


def request(verb: str, common: bytes, fields: Iterable[tuple[str, str]], body: bytes) -> bytes:
    """Return a request whole, its length told unless it is of a kind that has no body.

    Raises:
        ValueError: A field would be another line for the server, or cannot be written.

    """
    if body or verb not in _BODILESS:
        fields = [*fields, ("content-length", str(len(body)))]
    return b"%b%b%b\r\n%b" % (verb.encode("ascii"), common, _lines(fields), body)


def _lines(fields: Iterable[tuple[str, str]]) -> bytes:
    return b"".join([_line(f"{name}: {text}") for name, text in fields])


def _line(text: str) -> bytes:
    if _SPLITS.search(text):
        raise ValueError("a line of a head that is more than one")
    return text.encode("latin-1") + b"\r\n"
