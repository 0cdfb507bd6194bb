"""Meeting a decision's obligations on what an upstream said (pure)."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final

from gateway.domain.decisions import Duty, Obligation
from gateway.domain.rewriting import REDACTED, Rewriter
from gateway.errors import Denied
from gateway.pipeline.redacting import redacted
from gateway.wire import jsontext

_STRUCTURED: Final = "structuredContent"
_ABOUT: Final = frozenset(
    {
        "cacheScope", "code", "isError", "level", "progress", "progressToken", "requestId",
        "resultType", "total", "ttlMs", "uri",
    }
)  # fmt: skip
"""Members that say something about an answer and nothing in it: they pass, however little may, if
they are as short as such words are."""
_SHORT: Final = 64
_NOTHING: Final = object()
_OF_VALUES: Final = ("hasMore", "total")
_NAMES: Final = ("type", "role", "uri", "mimeType")
_KINDS: Final = frozenset({"", "assistant", "resource", "text", "user"})
"""What an item with a text is and whose; every other word beside it takes room from the text."""
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
    masker: Rewriter | None = None,
    before: str = "",
) -> Mapping[str, Any]:
    """Return `content` as the obligations want it; the very same object if they want no change.

    `content` is the `result` member of an answer, its `error` member, or the `params` of a
    notification or of a request. `masker` does what the duties on sensitive classes say, all at once.
    `before` is the text on which a notification goes on.

    Raises:
        Denied: It is nothing on which one of them can be met.

    """
    if masker is not None:
        content = masker.of(masker.gone_on(before, content))
    for obligation in obligations:
        match obligation.duty:
            case Duty.MASK | Duty.TOKENIZE | Duty.DROP:
                if masker is None:
                    raise Denied("policy wants something masked where nothing can be")
            case Duty.REDACT:
                content = redacted(obligation.detail, content, before)
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
    question not without asking another one: it passes where it is written in so many.
    """
    if carrier is Carrier.REQUEST or content.get("inputRequests"):
        content = _without_structure(content, carrier) if _STRUCTURED in content else content
        if _size(content) > limit_bytes:
            raise Denied("policy lets less text pass than the server asks with")
        return content
    if carrier is Carrier.NOTIFICATION and _size(content) <= limit_bytes:
        return content
    budget = _Budget(limit_bytes)
    parts = ((name, _part(name, inner, budget)) for name, inner in content.items())
    return {name: kept for name, kept in parts if kept is not _NOTHING}


def _part(name: str, inner: Any, budget: "_Budget") -> Any:
    """Return what passes of one member; `_NOTHING`, where it does not."""
    if name in _ABOUT and _is_short(inner):
        return inner
    if name in _TEXTS and isinstance(inner, str):
        return budget.cut(inner)
    if name in _LISTS and isinstance(inner, list):
        found = budget.kept(inner)
        return found if found or name == "content" else _NOTHING
    if name == "completion" and isinstance(inner, dict):
        about = {each: inner[each] for each in _OF_VALUES if _is_number(inner.get(each))}
        return {**about, "values": budget.texts(inner.get("values"))}
    return _NOTHING


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
            inner = item.get("content")
            is_text, holds = isinstance(item.get("text"), str), _holds_text(inner)
            named = self.named(item) if is_text or holds else None
            if named is None:
                continue
            if is_text:
                kept.append({**named, "text": self.cut(item["text"])})
            else:
                kept += [{**named, "content": one} for one in self.kept([inner])]
        return kept

    def named(self, item: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return what names an item, without anything that it could carry besides; nothing, where
        there is no room for its name.
        """
        found = {name: item[name] for name in _NAMES if name in item}
        if not all(isinstance(word, str) for word in found.values()):
            return None
        room = sum(
            len(word.encode(errors="replace")) for word in found.values() if word not in _KINDS
        )
        if room > self._left:
            return None
        self._left -= room
        return found


def _holds_text(inner: Any) -> bool:
    return isinstance(inner, dict) and "text" in inner


def _is_number(content: Any) -> bool:
    """Whether `content` is a number or a truth that says no more than a short word does."""
    return isinstance(content, bool | int | float) and len(str(content)) <= _SHORT


def _is_short(content: Any) -> bool:
    """Whether `content` is one word about an answer, and as long as such words are."""
    if isinstance(content, str):
        return len(content) <= _SHORT
    return content is None or _is_number(content)


def _size(content: Mapping[str, Any]) -> int:
    """Return how many bytes `content` is written in, names and numbers too."""
    return len(jsontext.write_octets(content))
