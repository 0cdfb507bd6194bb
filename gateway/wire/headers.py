"""The headers of a request that mean something to MCP; all others end here."""

import base64
import binascii
import re
from collections.abc import Mapping, Sequence

from gateway.domain._value import value
from gateway.errors import ProtocolError
from gateway.wire.bounds import LONGEST_NAME
from gateway.wire.jsonrpc import HEADER_MISMATCH, INVALID_REQUEST

VERSION = "mcp-protocol-version"
METHOD = "mcp-method"
NAME = "mcp-name"
SESSION = "mcp-session-id"
PARAM_PREFIX = "mcp-param-"
ACCEPT = "accept"

_SINGLE = frozenset(
    {"authorization", "content-type", "host", "last-event-id", "origin", "traceparent"}
)
"""Beside every `Mcp-*` header: two of them, and two readers would see two requests."""
_KEPT = frozenset({"accept", "content-type", "last-event-id", "traceparent", "tracestate"})
_JOINED = frozenset({"accept", "tracestate"})
"""Lists: their lines are one (RFC 9110 section 5.3)."""

_ENCODED = LONGEST_NAME * 2
"""Bytes of a header that mirrors a name: base64 of it, and its frame."""

_MEDIA = ("application/json", "text/event-stream", "*/*", "application/*", "text/*")
"""What may be accepted, in the order in which it goes on: anything else would be a word of the caller's
to the server."""
_NOTHING = "application/octet-stream"
"""What no answer of the protocol's is, for whoever accepts none of its forms."""

_PRINTABLE = re.compile(r"[\t\x20-\x7e]*")
_JSON = "application/json"
_CHARSETS = frozenset({"utf-8", "utf8"})
_SENTINEL = re.compile(r"=\?base64\?(.*)\?=")
_VERBATIM = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")


@value
class Headers:
    """What a request says in its headers, by lower-case name; no credential among it."""

    fields: Mapping[str, str]
    """`Mcp-*` and `_KEPT`; printable ASCII, each given once (lines of `_JOINED` are one).

    Of `Accept` it is which of the protocol's own forms of an answer it names.
    """
    is_json: bool
    """Whether the body is said to be JSON in UTF-8 (RFC 9110 section 8.3.1: case is no matter)."""
    params: tuple[tuple[str, str], ...]
    """All `Mcp-Param-*`, recognised or not (2026-07-28, transports: they are passed on)."""

    def select(self, *names: str) -> tuple[tuple[str, str], ...]:
        """Return those of `names` that were sent, ready to be sent on."""
        fields = self.fields
        return tuple([(name, fields[name]) for name in names if name in fields])


def read_headers(headers: Sequence[tuple[str, str]]) -> Headers:
    """Return what MCP uses of `headers`, raw pairs as they came off the wire.

    Blanks around a value are no part of it (RFC 9110 section 5.5), and parsers differ in whether
    they leave them.

    Raises:
        ProtocolError: One that may be there once is there twice, or one that would be sent on
            holds anything but printable ASCII (RFC 9110 section 5.5), or is a name that is too long.

    """
    fields: dict[str, str] = {}
    seen: set[str] = set()
    for raw_name, content in headers:
        name = raw_name.lower()
        kept = name in _KEPT or name.startswith("mcp-")
        if kept or name in _SINGLE:
            if name in seen and name not in _JOINED:
                raise _refused(name, "appears more than once")
            seen.add(name)
        if kept:
            if not _PRINTABLE.fullmatch(content):
                raise _refused(name, "holds a character that no header may")
            text = content.strip(" \t")
            if len(text) > (_ENCODED if name == NAME else LONGEST_NAME) and _is_name(name):
                raise _refused(name, f"is longer than {LONGEST_NAME} bytes")
            fields[name] = f"{fields[name]}, {text}" if name in fields else text
    if ACCEPT in fields:
        fields[ACCEPT] = _accepted(fields[ACCEPT])
    params = tuple(pair for pair in fields.items() if pair[0].startswith(PARAM_PREFIX))
    return Headers(fields=fields, is_json=_is_json(fields.get("content-type", "")), params=params)


def _accepted(said: str) -> str:
    ranges = {one.partition(";")[0].strip().lower() for one in said.split(",")}
    return ", ".join(one for one in _MEDIA if one in ranges) or _NOTHING


def _is_name(header: str) -> bool:
    # What mirrors an argument is a value, and is held to equal it.
    return not header.startswith(PARAM_PREFIX)


def _refused(name: str, public: str) -> ProtocolError:
    code = HEADER_MISMATCH if name.startswith("mcp-") else INVALID_REQUEST
    return ProtocolError(f"The header {name} {public}", rpc_code=code)


def _is_json(content_type: str) -> bool:
    media_type, *parameters = content_type.lower().split(";")
    if media_type.strip() != _JSON:
        return False
    for parameter in parameters:
        name, _, setting = parameter.partition("=")
        if name.strip() == "charset" and setting.strip().strip('"') not in _CHARSETS:
            return False
    return True


def decode(content: str) -> str | None:
    """Return what a mirrored header says, its `=?base64?...?=` form undone; `None` if malformed."""
    found = _SENTINEL.fullmatch(content)
    if found is None:
        return content
    try:
        decoded = base64.b64decode(found[1], validate=True)
        text = decoded.decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
    # Two spellings of one value would be two values to whoever compares the header's text.
    return text if base64.b64encode(decoded).decode() == found[1] else None


def encode(text: str) -> str:
    """Return `text` as a mirrored header says it: `decode` gives it back."""
    if _VERBATIM.fullmatch(text) and _SENTINEL.fullmatch(text) is None:
        return text
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="
