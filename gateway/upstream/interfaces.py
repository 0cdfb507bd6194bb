"""Reading the interfaces that an upstream's tools name (extension MCP Apps)."""

from collections.abc import Sequence
from typing import Any, Final

from gateway.errors import GatewayError
from gateway.pins.ui import interface_item, named_interfaces
from gateway.upstream.client import Conversation
from gateway.upstream.faults import Challenged

_MOST: Final = 100
"""Interfaces of one server; each is a request at every crawl."""


async def read_interfaces(
    conversation: Conversation, tools: Sequence[Any]
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return what can be pinned of the interfaces that `tools` name, and why others cannot be read.

    Raises:
        Challenged: They are shown to connected people alone.

    """
    uris = named_interfaces(tools)
    items: list[dict[str, Any]] = []
    problems = [f"resources/read: more than {_MOST} interfaces"] if len(uris) > _MOST else []
    for uri in uris[:_MOST]:
        try:
            items.append(
                interface_item(uri, await conversation.request("resources/read", {"uri": uri}))
            )
        except Challenged:
            raise
        except GatewayError as error:
            problems.append(error.detail)
    return items, problems
