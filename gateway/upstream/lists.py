"""Reading an upstream's lists to their end, or not at all."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from gateway.domain._value import value
from gateway.domain.tools import Kind
from gateway.upstream.client import Conversation, ServerInfo
from gateway.upstream.faults import unusable
from gateway.upstream.replies import ErrorAnswer, Replied
from gateway.wire.bounds import within

_LONGEST_LIFE_MS: Final = 24 * 3600 * 1000
"""No call relies on a list for as long, whatever its server says."""


@value
class ListLimits:
    """How long one list may be. A list that exceeds them is refused as a whole."""

    pages: int = 100
    items: int = 10_000
    list_bytes: int = 16 * 1024 * 1024
    """Of all pages together."""


@value
class Page:
    """One page of a list as it was last read: enough to know it again, unread."""

    print: str
    """Of its bytes."""
    etag: str | None
    cursor: str | None
    ttl_s: float | None


@value
class Listed:
    """All items of a list, in order, as raw JSON."""

    items: list[Any] | None
    """`None` where every page is the known one."""
    ttl_s: float | None
    """For how long its server says that it stays so (MCP 2026-07-28, caching); the shortest of all
    pages, `None` if it does not say."""
    pages: tuple[Page, ...] = ()


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
    conversation: Conversation,
    info: ServerInfo,
    kind: Kind,
    limits: ListLimits,
    *,
    known: Sequence[Page] = (),
) -> Listed:
    """Return a whole list; of one whose pages are all as `known` nothing is read or returned.

    A list is asked for even if the server does not declare it: what it shows to others is to be
    seen. Only then is an error the same as an empty list.

    Raises:
        UpstreamFailed: The list is malformed, endless or too long; nothing of it counts.

    """
    row = LISTS[kind]
    try:
        pages = await _all_pages(conversation, row, limits, known)
        if (
            known
            and any(reply.result is None and not reply.raw for reply, _ in pages)
            and not (_are_known(pages, known))
        ):
            # A part that was not sent again is not at hand, now that another part differs.
            pages = await _all_pages(conversation, row, limits, ())
    except ErrorAnswer as error:
        if row.capability not in info.capabilities and error.means_unknown:
            return Listed(items=[], ttl_s=None)
        raise
    shown = tuple(page for _, page in pages)
    ttl_s = min((page.ttl_s for page in shown if page.ttl_s is not None), default=None)
    if known and _are_known(pages, known):
        return Listed(items=None, ttl_s=ttl_s, pages=shown)
    items: list[Any] = []
    for reply, _ in pages:
        items += _items(await conversation.read(reply, row.method), row)
        if len(items) > limits.items:
            raise unusable(f"{row.method}: more than {limits.items} items")
    return Listed(items=items, ttl_s=ttl_s, pages=shown)


def _are_known(pages: Sequence[tuple[Replied, Page]], known: Sequence[Page]) -> bool:
    return len(pages) == len(known) and all(reply.result is None for reply, _ in pages)


async def _all_pages(
    conversation: Conversation, row: ListMethod, limits: ListLimits, known: Sequence[Page]
) -> list[tuple[Replied, Page]]:
    pages: list[tuple[Replied, Page]] = []
    cursor: str | None = None
    seen: set[str] = set()
    count = 0
    before = conversation.received_bytes
    for place in range(limits.pages):
        last = known[place] if place < len(known) else None
        reply, page = await _page(conversation, row, cursor, last)
        pages.append((reply, page))
        count += 0 if reply.result is None else len(_items(reply.result, row))
        if count > limits.items:
            raise unusable(f"{row.method}: more than {limits.items} items")
        if conversation.received_bytes - before > limits.list_bytes:
            raise unusable(f"{row.method}: more than {limits.list_bytes} bytes")
        cursor = page.cursor
        if cursor is None:
            return pages
        if cursor in seen:
            raise unusable(f"{row.method}: the cursor is malformed or was used before")
        seen.add(cursor)
    raise unusable(f"{row.method}: more than {limits.pages} pages")


async def _page(
    conversation: Conversation, row: ListMethod, cursor: str | None, last: Page | None
) -> tuple[Replied, Page]:
    reply = await conversation.ask(
        row.method,
        {} if cursor is None else {"cursor": cursor},
        known="" if last is None else last.print,
        etag=None if last is None else last.etag,
    )
    if reply.result is None:
        if last is None:
            raise unusable(f"{row.method}: it was not asked whether anything has changed")
        return reply, last
    _items(reply.result, row)
    following = reply.result.get("nextCursor")
    if following is not None and not (isinstance(following, str) and within(following)):
        raise unusable(f"{row.method}: the cursor is malformed or was used before, or is too long")
    page = Page(print=reply.print, etag=reply.etag, cursor=following, ttl_s=_life_s(reply.result))
    return reply, page


def _items(result: Mapping[str, Any], row: ListMethod) -> list[Any]:
    found = result.get(row.member)
    if not isinstance(found, list):
        raise unusable(f"{row.method}: the result has no list {row.member!r}")
    return found


def _life_s(page: Mapping[str, Any]) -> float | None:
    ttl_ms = page.get("ttlMs")
    if type(ttl_ms) is not int or ttl_ms < 0:
        return None
    return min(ttl_ms, _LONGEST_LIFE_MS) / 1000  # JSON has integers beyond a double
