"""`Mcp-Param-*` headers against the arguments that they mirror (2026-07-28, transports)."""

import functools
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from gateway.domain.document import Document
from gateway.errors import ProtocolError
from gateway.wire.jsonrpc import HEADER_MISMATCH

_ANNOTATION = b'"x-mcp-header"'


@functools.cache
def rules() -> ModuleType:
    """Return the official ones. All types of all revisions come with them, a third of what is loaded."""
    from mcp.shared import inbound  # noqa: PLC0415 - only who serves needs it, and while it waits

    return inbound


def mirrors(definition: Document) -> bool:
    """Whether a tool's `definition` has headers repeat arguments: next to none does."""
    return _ANNOTATION in definition.canonical


def require_params_agree(
    headers: Sequence[tuple[str, str]],
    arguments: Mapping[str, Any],
    definition: Document,
    *,
    rpc_id: str | int | None = None,
) -> None:
    """Hold that each argument which the tool's pinned `definition` mirrors in a header equals it.

    `headers` are an `Inbound`'s. Headers that the definition does not declare say nothing about any
    argument and pass.

    Raises:
        ProtocolError: One of the two is absent or differs (-32020).

    """
    if not mirrors(definition):
        return
    rejection = rules().validate_mcp_param_headers(
        definition.content.get("inputSchema"), arguments, dict(headers)
    )
    if rejection is not None:
        raise ProtocolError(rejection.message, rpc_code=HEADER_MISMATCH, rpc_id=rpc_id)


def params_mirrored(
    arguments: Mapping[str, Any], definition: Document
) -> tuple[tuple[str, str], ...]:
    """Return the headers that a client sends which knows the pinned `definition`."""
    if mirrors(definition):
        declared = rules().x_mcp_header_map(definition.content.get("inputSchema"))
        mirrored = rules().mcp_param_headers(declared, arguments)
        return tuple((name.lower(), text) for name, text in mirrored.items())
    return ()
