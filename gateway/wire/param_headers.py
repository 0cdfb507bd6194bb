"""`Mcp-Param-*` headers against the arguments that they mirror (2026-07-28, transports)."""

from collections.abc import Mapping, Sequence
from typing import Any

from mcp.shared.inbound import (
    mcp_param_headers,
    validate_mcp_param_headers,
    x_mcp_header_map,
)

from gateway.domain.document import Document
from gateway.errors import ProtocolError
from gateway.wire.jsonrpc import HEADER_MISMATCH

_ANNOTATION = b'"x-mcp-header"'


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
    if _ANNOTATION not in definition.canonical:
        return  # nearly every tool, at the price of one search
    rejection = validate_mcp_param_headers(
        definition.content.get("inputSchema"), arguments, dict(headers)
    )
    if rejection is not None:
        raise ProtocolError(rejection.message, rpc_code=HEADER_MISMATCH, rpc_id=rpc_id)


def params_mirrored(
    arguments: Mapping[str, Any], definition: Document
) -> tuple[tuple[str, str], ...]:
    """Return the headers that a client sends which knows the pinned `definition`."""
    if _ANNOTATION in definition.canonical:
        mirrored = mcp_param_headers(
            x_mcp_header_map(definition.content.get("inputSchema")), arguments
        )
        return tuple((name.lower(), text) for name, text in mirrored.items())
    return ()
