"""Revisions with a handshake and sessions: 2024-11-05 to 2025-11-25.

`Mcp-Method`, `Mcp-Name` and `Mcp-Param-*` mean nothing here: they are used for nothing and are not
sent on, so nobody behind can be made to act on them.
"""

from gateway.domain.calls import Form, Message
from gateway.domain.tools import Profile
from gateway.errors import ProtocolError
from gateway.wire import headers as names
from gateway.wire.headers import Headers
from gateway.wire.inbound import (
    CONTENT_TYPE,
    MODERN_VERSION_KEY,
    Inbound,
    meta_of,
    run_hint,
)
from gateway.wire.jsonrpc import HEADER_MISMATCH, INVALID_PARAMS
from gateway.wire.operations import judge
from gateway.wire.tracing import trace_of

REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""The first was made for another transport; servers that negotiate down to it speak it on this one."""
ASSUMED = "2025-03-26"
"""What a request without a version header speaks (2025-11-25, transports, protocol version header)."""

_REVISION_CHARS = 32


def read_post(headers: Headers, message: Message) -> Inbound:
    """Return what `message` is in a session, or before one.

    Raises:
        ProtocolError: It claims a stateless revision besides, its method is not for clients of
            these revisions, or an initialize proposes no version.

    """
    meta = meta_of(message)
    if MODERN_VERSION_KEY in meta:
        # Servers tell the families apart by the header or by the body; here they would disagree.
        raise ProtocolError(
            f"{names.VERSION} header does not match the body's protocol version",
            rpc_code=HEADER_MISMATCH,
            rpc_id=message.id,
        )
    session = headers.fields.get(names.SESSION)
    revision = headers.fields.get(names.VERSION) or ASSUMED
    said = headers.select("accept", names.VERSION)
    if message.method == "initialize":
        revision = _proposed(message)
        session = None  # a session begins here; one that a client brought along would be fixed
        # What it offers its body says; a header that is left from an earlier session says otherwise.
        said = tuple(pair for pair in said if pair[0] != names.VERSION or pair[1] == revision)
    return Inbound(
        message=message,
        operation=None if message.form is Form.RESPONSE else judge(message, Profile.LEGACY),
        revision=revision,
        profile=Profile.LEGACY,
        session=session,
        headers=(CONTENT_TYPE, *said),
        run_hint=run_hint(meta),
        trace=trace_of(headers, meta),
    )


def read_stream(headers: Headers, form: Form) -> Inbound:
    """Return the GET that opens a session's stream, or the DELETE that ends one.

    Raises:
        ProtocolError: A DELETE names no session, or a GET resumes a stream of none: the id of an
            event alone would let anybody have the rest of anybody's stream.

    """
    session = headers.fields.get(names.SESSION)
    method = "GET" if form is Form.STREAM else "DELETE"
    resumes = headers.fields.get("last-event-id") is not None
    if session is None and (form is Form.END or resumes):
        raise ProtocolError(f"{method} needs an {names.SESSION} header")
    return Inbound(
        message=Message(form=form, method=method, id=None, params={}, body=b""),
        operation=None,
        revision=headers.fields.get(names.VERSION) or ASSUMED,
        profile=Profile.LEGACY,
        session=session,
        headers=headers.select("accept", names.VERSION, "last-event-id"),
        run_hint=None,
        trace=trace_of(headers, {}),
    )


def _proposed(message: Message) -> str:
    revision = message.params.get("protocolVersion")
    if isinstance(revision, str) and revision.isascii() and 0 < len(revision) <= _REVISION_CHARS:
        return revision
    raise ProtocolError(
        "initialize needs a protocolVersion", rpc_code=INVALID_PARAMS, rpc_id=message.id
    )
