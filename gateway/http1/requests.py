"""The bytes of a request: only what was decided on goes into its head."""

import re
from collections.abc import Iterable

from gateway.http1.faults import BadMessage
from gateway.http1.head import require_fields

_TARGET = re.compile(r"/[!-~]*")
_BODILESS = frozenset({"GET", "DELETE"})


def common_head(target: str, host: str, fields: Iterable[tuple[str, str]]) -> bytes:
    """Return what all requests to one place have in common, behind the verb.

    Raises:
        ValueError: As `request`.

    """
    if _TARGET.fullmatch(target) is None:
        raise ValueError("no path to ask for")
    return f" {target} HTTP/1.1\r\n".encode("ascii") + _lines([("host", host), *fields])


def request(verb: str, common: bytes, fields: Iterable[tuple[str, str]], body: bytes) -> bytes:
    """Return a request whole, its length told unless it is of a kind that has no body.

    Raises:
        ValueError: A field is none, or would be another one for the server.

    """
    if body or verb not in _BODILESS:
        fields = [*fields, ("content-length", str(len(body)))]
    return b"%b%b%b\r\n%b" % (verb.encode("ascii"), common, _lines(fields), body)


def _lines(fields: Iterable[tuple[str, str]]) -> bytes:
    try:
        pairs = [(name.encode("latin-1"), text.encode("latin-1")) for name, text in fields]
        require_fields(pairs)
    except (BadMessage, UnicodeEncodeError) as error:
        raise ValueError("no line of a head") from error
    return b"".join([b"%b: %b\r\n" % pair for pair in pairs])
