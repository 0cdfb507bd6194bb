"""What a jailed server asks of its proxy, read so strictly that there is one way to understand it."""

import re
from typing import Final

from gateway.domain._value import value
from gateway.errors import EgressRefused, ProtocolError
from gateway.upstream.reach import read_authority
from gateway.upstream.urls import WebUrl, read_url

_LINE: Final = re.compile(r"([A-Z]{1,20}) ([!-~]{1,4096}) HTTP/1\.1", re.ASCII)
_FIELD: Final = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):([\t -~\x80-\xff]*)")
"""RFC 9110 section 5: no blank before the colon, and no line that goes on with the one before."""
_LENGTH: Final = re.compile(r"[0-9]{1,15}", re.ASCII)
_PLAIN: Final = "http://"

_OF_THE_HOP: Final = frozenset(
    {
        *("connection", "proxy-connection", "proxy-authorization", "proxy-authenticate"),
        *("keep-alive", "te", "trailer", "upgrade", "host"),
    }
)
"""What is between a client and its proxy (RFC 9110 section 7.6.1), and `Host`, which is ours to say."""

Fields = list[tuple[str, str]]


@value
class ProxyRequest:
    """Where a jailed server wants to go, and the first that is sent there in its name."""

    url: WebUrl
    tunnel: bool
    """Whether all that follows is between the two ends (CONNECT)."""
    head: bytes = b""
    """Of a plain request, as it is sent on; it asks that no other one follow it."""
    body_bytes: int = 0
    """Of a plain request, how much follows its head."""


def read_request(head: bytes) -> ProxyRequest:
    """Read a request's head, the empty line at its end included.

    Raises:
        ProtocolError: It is none for a proxy, or can be read in two ways.

    """
    first, *lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    line = _LINE.fullmatch(first)
    if line is None:
        raise _wrong("its first line is none of HTTP/1.1")
    fields = _fields(lines)
    method, target = line.groups()
    url = _target(method, target)
    _require_one_host(url, fields)
    if method == "CONNECT":
        return ProxyRequest(url=url, tunnel=True)
    length = _length(fields)
    return ProxyRequest(
        url=url, tunnel=False, head=_sent_on(method, url, fields), body_bytes=length
    )


def _target(method: str, target: str) -> WebUrl:
    try:
        if method == "CONNECT":
            return read_authority(target)
        if target.startswith(_PLAIN):
            return read_url(target)
    except EgressRefused as error:
        raise _wrong(f"its target is {error.detail}") from error
    raise _wrong("its target is neither HOST:PORT of a CONNECT nor a whole URL of plain http")


def _fields(lines: list[str]) -> Fields:
    fields: Fields = []
    for line in lines:
        found = _FIELD.fullmatch(line)
        if found is None:
            raise _wrong("a header is none")
        # Blanks around a value are no part of it (RFC 9110 section 5.5).
        fields.append((found[1], found[2].strip(" \t")))
    return fields


def _all(fields: Fields, name: str) -> list[str]:
    return [content for own, content in fields if own.lower() == name]


def _require_one_host(url: WebUrl, fields: Fields) -> None:
    """Raise if `Host` names another place than the target: somebody is to be misled by one of them.

    A proxy goes by the target (RFC 9112 section 3.2.2), and so do we.
    """
    hosts = _all(fields, "host")
    if len(hosts) > 1:
        raise _wrong("it has more than one Host")
    if hosts and hosts[0].lower() not in (_host(url), f"{_host(url)}:{url.port}"):
        raise _wrong("its Host is not its target's")


def _host(url: WebUrl) -> str:
    return f"[{url.host}]" if ":" in url.host else url.host


def _length(fields: Fields) -> int:
    """Return how long the body is, which is what has to be known to see where a request ends."""
    if _all(fields, "transfer-encoding"):
        raise _wrong("its body comes in chunks; send a Content-Length")
    lengths = _all(fields, "content-length")
    if len(lengths) > 1 or any(not _LENGTH.fullmatch(length) for length in lengths):
        raise _wrong("its Content-Length is none")
    return int(lengths[0]) if lengths else 0


def _sent_on(method: str, url: WebUrl, fields: Fields) -> bytes:
    """Write the head for the server that is meant. It ends the connection after its answer.

    Another request on it might be for another place, and only the first one was judged.
    """
    named = ",".join(_all(fields, "connection")).lower().split(",")
    dropped = (_OF_THE_HOP | {name.strip() for name in named}) - {"content-length"}
    query = f"?{url.query}" if url.query else ""
    lines = [f"{method} {url.path}{query} HTTP/1.1", f"Host: {_host(url)}:{url.port}"]
    lines += [f"{name}: {content}" for name, content in fields if name.lower() not in dropped]
    return "\r\n".join([*lines, "Connection: close", "", ""]).encode("latin-1")


def _wrong(detail: str) -> ProtocolError:
    return ProtocolError("This is no request that the proxy understands.", detail=detail)
