"""Meeting a decision's obligations on what an upstream said (pure)."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final

from gateway.domain.decisions import Duty, Obligation
from gateway.domain.document import leaves
from gateway.errors import Denied
from gateway.pipeline.redacting import REDACTED, redacted

_STRUCTURED: Final = "structuredContent"
_ABOUT: Final = frozenset(
    {
        "cacheScope", "code", "isError", "level", "progress", "progressToken", "requestId",
        "resultType", "total", "ttlMs", "uri",
    }
)  # fmt: skip
"""Members that say something about an answer and nothing in it: they pass, however little may."""
_LISTS: Final = frozenset({"content", "contents", "messages"})
_TEXTS: Final = frozenset({"data", "description", "logger", "message"})


class Carrier(StrEnum):
    """What carries an upstream's content."""

    RESULT = "result"
    ERROR = "error"
    NOTIFICATION = "notification"
    REQUEST = "request"
    """Of the server's to its client, on a stream or within a result."""


def meet(
    obligations: Iterable[Obligation],
    content: Mapping[str, Any],
    carrier: Carrier = Carrier.RESULT,
) -> Mapping[str, Any]:
    """Return `content` as the obligations want it; the very same object if they want no change.

    `content` is the `result` member of an answer, its `error` member, or the `params` of a
    notification or of a request.

    Raises:
        Denied: It is nothing on which one of them can be met.

    """
    for obligation in obligations:
        match obligation.duty:
            case Duty.REDACT:
                content = redacted(obligation.detail, content)
            case Duty.TRUNCATE:
                content = _truncated(obligation.detail["bytes"], content, carrier)
            case Duty.DROP_STRUCTURED:
                content = _without_structure(content, carrier)
            case Duty.RATE_LIMIT | Duty.REQUIRE_STEP_UP | Duty.LABEL:
                pass  # met before forwarding, and when what was said was judged
    return content


def _without_structure(content: Mapping[str, Any], carrier: Carrier) -> Mapping[str, Any]:
    """Leave structured content out, wherever it stands; of a text nobody knows what it holds."""
    kept: Mapping[str, Any] = _unstructured(content)
    if carrier in (Carrier.ERROR, Carrier.NOTIFICATION) and not isinstance(
        kept.get("data", ""), str
    ):
        return {**kept, "data": REDACTED}
    return kept


def _unstructured(node: Any) -> Any:
    if isinstance(node, list):
        return [_unstructured(inner) for inner in node]
    if isinstance(node, Mapping):
        return {name: _unstructured(inner) for name, inner in node.items() if name != _STRUCTURED}
    return node


def _truncated(limit_bytes: int, content: Mapping[str, Any], carrier: Carrier) -> Mapping[str, Any]:
    """Keep the first `limit_bytes` bytes of text; what has no text is left out.

    Structured content and binary content cannot be cut without changing what they are, and a
    question not without asking another one.
    """
    if carrier is Carrier.REQUEST or "inputRequests" in content:
        if _size(content) > limit_bytes:
            raise Denied("policy lets less text pass than the server asks with")
        return content
    if carrier is Carrier.NOTIFICATION and _size(content) <= limit_bytes:
        return content
    budget = _Budget(limit_bytes)
    kept: dict[str, Any] = {}
    for name, inner in content.items():
        if name in _ABOUT:
            kept[name] = inner
        elif name in _TEXTS and isinstance(inner, str):
            kept[name] = budget.cut(inner)
        elif name in _LISTS and isinstance(inner, list):
            found = budget.kept(inner)
            if found or name == "content":
                kept[name] = found
        elif name == "completion" and isinstance(inner, dict):
            kept[name] = {**_plain(inner), "values": budget.texts(inner.get("values"))}
    return kept


class _Budget:
    """How many bytes of text may still pass."""

    def __init__(self, octets: int) -> None:
        self._left = octets

    def cut(self, text: str) -> str:
        """Return as much of `text` as may pass."""
        octets = text.encode(errors="replace")
        kept = octets[: max(self._left, 0)].decode(errors="ignore")
        self._left -= len(octets)
        return kept

    def texts(self, texts: Any) -> list[str]:
        """Return those of `texts` that pass, cut."""
        found = texts if isinstance(texts, list) else []
        return [self.cut(text) for text in found if isinstance(text, str) and self._left > 0]

    def kept(self, items: list[Any]) -> list[Any]:
        """Return those of `items`, blocks or messages, that are texts and pass, cut."""
        kept = []
        for item in items:
            if not isinstance(item, dict) or self._left <= 0:
                continue
            if isinstance(item.get("text"), str):
                kept.append({**_plain(item), "text": self.cut(item["text"])})
            elif isinstance(inner := item.get("content"), dict) and "text" in inner:
                kept += [{**_plain(item), "content": one} for one in self.kept([inner])]
        return kept


def _plain(holder: Mapping[str, Any]) -> dict[str, Any]:
    """Return what names an item, without anything that it could carry besides."""
    named = ("type", "role", "uri", "mimeType", "hasMore", "total")
    return {name: holder[name] for name in named if name in holder}


def _size(content: Mapping[str, Any]) -> int:
    texts = (leaf for _, leaf in leaves(content) if isinstance(leaf, str))
    return sum(len(text.encode(errors="replace")) for text in texts)
