"""Which family of revisions a request is in, and what it is there: the door to this room."""

from collections.abc import Sequence

from gateway.domain.calls import Form
from gateway.errors import ProtocolError
from gateway.wire import headers as names
from gateway.wire import rev_handshake, rev_stateless
from gateway.wire.headers import Headers, read_headers
from gateway.wire.inbound import MODERN_VERSION_KEY, Inbound, meta_of
from gateway.wire.jsonrpc import read_message
from gateway.wire.jsontext import WireLimits

_READ_POST = {
    **dict.fromkeys(rev_handshake.REVISIONS, rev_handshake.read_post),
    **dict.fromkeys(rev_stateless.REVISIONS, rev_stateless.read_post),
}
_READ_STREAM = {
    **dict.fromkeys(rev_handshake.REVISIONS, rev_handshake.read_stream),
    **dict.fromkeys(rev_stateless.REVISIONS, rev_stateless.read_stream),
}
REVISIONS = tuple(_READ_POST)
"""Every revision we know, oldest first."""


def read_post(headers: Sequence[tuple[str, str]], body: bytes, limits: WireLimits) -> Inbound:
    """Return what a POST is, from its raw header pairs and its body; see `read_posted`.

    Raises:
        ProtocolError: It is not one well-formed message of a revision we know.

    """
    return read_posted(read_headers(headers), body, limits)


def read_posted(headers: Headers, body: bytes, limits: WireLimits) -> Inbound:
    """Return what a POST is, from what its headers say and its body.

    The version header decides between the families, as servers do; without one the body may still
    say that it is of a stateless revision, and is then held to it. What `Accept` names of the
    protocol's own forms is sent on and judged by the upstream: a request without one accepts anything
    (RFC 9110 section 12.5.1), and servers differ in what they ask for.

    Raises:
        ProtocolError: It is not one well-formed message of a revision we know.

    """
    if not headers.is_json:
        raise ProtocolError("Content-Type must be application/json in UTF-8", status=415)
    message = read_message(body, limits)
    version = headers.fields.get(names.VERSION)
    if version is None and MODERN_VERSION_KEY not in meta_of(message):
        version = rev_handshake.ASSUMED
    # A version that nobody knows, or none beside a stateless body, fails on the stateless ladder.
    return _READ_POST.get(version or "", rev_stateless.read_post)(headers, message)


def read_get(headers: Sequence[tuple[str, str]]) -> Inbound:
    """Return what a GET is: the stream of a session, in revisions that have sessions.

    Raises:
        ProtocolError: With status 405 in a revision without; otherwise as `read_post`.

    """
    return _read_stream(headers, Form.STREAM)


def read_delete(headers: Sequence[tuple[str, str]]) -> Inbound:
    """Return what a DELETE is: the end of a session, in revisions that have sessions.

    Raises:
        ProtocolError: With status 405 in a revision without; otherwise as `read_post`.

    """
    return _read_stream(headers, Form.END)


def _read_stream(headers: Sequence[tuple[str, str]], form: Form) -> Inbound:
    fields = read_headers(headers)
    version = fields.fields.get(names.VERSION)
    read = _READ_STREAM.get(rev_handshake.ASSUMED if version is None else version)
    if read is None:
        raise rev_stateless.unsupported(version or "", None)
    return read(fields, form)
