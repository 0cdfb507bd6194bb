"""Reading an upstream's lists to their end, or not at all."""

from collections.abc import Mapping
from typing import Any, Final

from gateway.domain._value import value
from gateway.domain.tools import Kind
from gateway.upstream.client import Conversation, ServerInfo
from gateway.upstream.faults import unusable
from gateway.upstream.replies import ErrorAnswer


@value
class ListLimits:
    """How long one list may be. A list that exceeds them is refused as a whole."""

    pages: int = 100
    items: int = 10_000
    list_bytes: int = 16 * 1024 * 1024
    """Of all pages together."""


@value
class Listed:
    """All items of a list, in order, as raw JSON."""

    items: list[Any]
    ttl_s: float | None
    """For how long its server says that it stays so (MCP 2026-07-28, caching); the shortest of all
    pages, `None` if it does not say."""


@value
class ListMethod:
    """How a list is asked for, where it stands in the result, and who offers it."""

    method: str
    member: str
    capability: str


LISTS: Final[Mapping[Kind, ListMethod]] = {
    Kind.TOOL: ListMethod(method="tools/list", member="tools", capability="tools"),
    Kind.PROMPT: ListMethod(method="prompts/list", member="prompts", capability="prompts"),
    Kind.TEMPLATE: ListMethod(
        method="resources/templates/list", member="resourceTemplates", capability="resources"
    ),
}
"""What can be pinned. Resources come and go by themselves; reading one is decided by its URI."""


async def read_list(
    conversation: Conversation, info: ServerInfo, kind: Kind, limits: ListLimits
) -> Listed:
    """Return a whole list.

    A list is asked for even if the server does not declare it: what it shows to others is to be
    seen. Only then is an error the same as an empty list.

    Raises:
        UpstreamFailed: The list is malformed, endless or too long; nothing of it counts.

    """
    row = LISTS[kind]
    try:
        return await _all_pages(conversation, row, limits)
    except ErrorAnswer as error:
        if row.capability not in info.capabilities and error.means_unknown:
            return Listed(items=[], ttl_s=None)
        raise


async def _all_pages(conversation: Conversation, row: ListMethod, limits: ListLimits) -> Listed:
    items: list[Any] = []
    lives_s: list[float] = []
    cursor: str | None = None
    seen: set[str] = set()
    before = conversation.received_bytes
    for _ in range(limits.pages):
        page = await conversation.request(row.method, {} if cursor is None else {"cursor": cursor})
        found = page.get(row.member)
        if not isinstance(found, list):
            raise unusable(f"{row.method}: the result has no list {row.member!r}")
        items += found
        lives_s += _life_s(page)
        if len(items) > limits.items:
            raise unusable(f"{row.method}: more than {limits.items} items")
        if conversation.received_bytes - before > limits.list_bytes:
            raise unusable(f"{row.method}: more than {limits.list_bytes} bytes")
        cursor = page.get("nextCursor")
        if cursor is None:
            return Listed(items=items, ttl_s=min(lives_s, default=None))
        if not isinstance(cursor, str) or cursor in seen:
            raise unusable(f"{row.method}: the cursor is malformed or was used before")
        seen.add(cursor)
    raise unusable(f"{row.method}: more than {limits.pages} pages")


def _life_s(page: Mapping[str, Any]) -> list[float]:
    ttl_ms = page.get("ttlMs")
    return [ttl_ms / 1000] if type(ttl_ms) is int and ttl_ms >= 0 else []
