"""The stateless revision 2026-07-28: every request says for itself what it is, and says it twice.

`Mcp-Method` and `Mcp-Name` mirror the body for those who route without reading it. They must equal
the body, which alone is decided on.
"""

import re
from collections.abc import Mapping
from typing import Any

from gateway.domain.calls import Form, Message
from gateway.domain.tools import Kind, Profile
from gateway.errors import ProtocolError
from gateway.wire import headers as names
from gateway.wire.headers import Headers
from gateway.wire.inbound import (
    CONTENT_TYPE,
    MODERN_CAPABILITIES_KEY,
    MODERN_VERSION_KEY,
    Inbound,
    meta_of,
    run_hint,
)
from gateway.wire.jsonrpc import HEADER_MISMATCH, INVALID_PARAMS, UNSUPPORTED_VERSION
from gateway.wire.operations import ABOUT_TASKS, Sender, find, judge
from gateway.wire.tracing import trace_of

REVISIONS = ("2026-07-28",)

_LONGEST = 64
_WORD = re.compile(r"[A-Za-z]+(?:/[A-Za-z_]+)*", re.ASCII)
"""What methods look like; anything else may be data, and is repeated to nobody."""
_NAMED = frozenset({Kind.TOOL, Kind.PROMPT, Kind.RESOURCE})


def read_post(headers: Headers, message: Message) -> Inbound:
    """Return what `message` is, its headers equal to its body.

    An `Mcp-Session-Id` means nothing in these revisions and is left behind.

    Raises:
        ProtocolError: The message is a response; an envelope member is missing (-32602); a header
            is missing or differs (-32020); the version is unknown (-32022), with those we know;
            or the method is not for clients of these revisions.

    """
    if message.form is Form.RESPONSE:
        raise ProtocolError("Clients of this revision answer no requests")
    meta = meta_of(message)
    if message.form is Form.REQUEST:
        _require_envelope(message, meta)
    version = headers.fields.get(names.VERSION)
    if meta.get(MODERN_VERSION_KEY, version) != version:
        raise _mismatch(names.VERSION, message)
    mirrored = _require_mirrored(headers, message)
    if version is None:
        raise _mismatch(names.VERSION, message)
    if version not in REVISIONS:
        raise unsupported(version, message.id)
    operation = judge(message, Profile.MODERN)
    return Inbound(
        message=message,
        operation=operation,
        revision=version,
        profile=Profile.MODERN,
        session=None,
        headers=(
            CONTENT_TYPE,
            *headers.select("accept", names.VERSION, *mirrored),
            *(headers.params if operation.kind is Kind.TOOL else ()),
        ),
        run_hint=run_hint(meta),
        trace=trace_of(headers, meta),
    )


def read_stream(_headers: Headers, _form: Form) -> Inbound:
    """Refuse GET and DELETE: these revisions have no session to listen to or to end.

    Raises:
        ProtocolError: Always, with status 405.

    """
    raise ProtocolError("Only POST is allowed in this protocol version", status=405)


def unsupported(requested: str, rpc_id: str | int | None) -> ProtocolError:
    """Return the refusal that tells a client which versions to try."""
    return ProtocolError(
        "Unsupported protocol version",
        rpc_code=UNSUPPORTED_VERSION,
        rpc_id=rpc_id,
        data={"supported": list(REVISIONS), "requested": requested},
    )


def _require_envelope(message: Message, meta: Mapping[str, Any]) -> None:
    for key in (MODERN_VERSION_KEY, MODERN_CAPABILITIES_KEY):
        if key not in meta:
            raise _bad_params(f"params._meta needs the member {key}", message)
    if not isinstance(meta[MODERN_CAPABILITIES_KEY], dict):
        raise _bad_params(f"{MODERN_CAPABILITIES_KEY} must be an object", message)


def _require_mirrored(headers: Headers, message: Message) -> tuple[str, ...]:
    """Return the names of the headers that mirror the body, each equal to it."""
    method = headers.fields.get(names.METHOD)
    if message.form is Form.NOTIFICATION and method is None:
        return ()  # 2026-07-28 leaves open whether a notification carries it
    if method != message.method:
        raise _mismatch(names.METHOD, message, method, message.method)
    row = find(Sender.CLIENT, method)
    if row is None or Profile.MODERN not in row.profiles:
        return (names.METHOD,)  # refused for that, whatever it names
    if row.name_at is None or not (row.kind in _NAMED or method in ABOUT_TASKS):
        return (names.METHOD,)
    name = headers.fields.get(names.NAME)
    if name is None or names.decode(name) != message.params.get(row.name_at):
        raise _mismatch(names.NAME, message)
    return (names.METHOD, names.NAME)


def _quoted(said: str | None) -> str:
    if said is None:
        return "nothing"
    return said if len(said) <= _LONGEST and _WORD.fullmatch(said) else "something else"


def _bad_params(public: str, message: Message) -> ProtocolError:
    return ProtocolError(public, rpc_code=INVALID_PARAMS, rpc_id=message.id)


def _mismatch(header: str, message: Message, *said: str | None) -> ProtocolError:
    """Say that a header and the body differ; with what each of the two `said`, where that is no data."""
    differ = "" if len(said) < 2 else f": {_quoted(said[0])} and {_quoted(said[1])}"  # noqa: PLR2004
    return ProtocolError(
        f"{header} header does not match the request's body{differ}",
        rpc_code=HEADER_MISMATCH,
        rpc_id=message.id,
    )
