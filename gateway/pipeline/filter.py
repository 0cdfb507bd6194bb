"""Meeting a decision's obligations on a result (pure)."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import re2

from gateway.domain.decisions import Duty, Obligation
from gateway.domain.paths import Path, parse_path, selected

REDACTED = "[redacted]"
_SHORTEST_LITERAL = 4
"""A shorter value stands in too many places by chance."""


def meet(obligations: Iterable[Obligation], result: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return `result` as the obligations want it; the very same object if they want no change.

    Works on the `result` member of an answer, on its `error` member and on the `params` of a
    notification alike: whatever carries an upstream's content.
    """
    for obligation in obligations:
        match obligation.duty:
            case Duty.REDACT:
                result = _redacted(obligation.detail, result)
            case Duty.TRUNCATE:
                result = _truncated(obligation.detail["bytes"], result)
            case Duty.DROP_STRUCTURED:
                result = {k: v for k, v in result.items() if k != "structuredContent"}
            case Duty.RATE_LIMIT | Duty.REQUIRE_STEP_UP | Duty.LABEL:
                pass  # met before forwarding, and when the result was labelled
    return result


def _redacted(detail: Mapping[str, Any], result: Mapping[str, Any]) -> Mapping[str, Any]:
    changed: dict[str, Any] = json.loads(json.dumps(result))
    hidden: set[str] = set()
    for text in detail.get("paths", ()):
        hidden |= _blank(changed, parse_path(text))
    # The same value usually stands once more in the text content; a path names one place, the
    # obligation means the value.
    literals = sorted(
        (word for word in hidden if len(word) >= _SHORTEST_LITERAL), key=len, reverse=True
    )
    patterns = [re2.compile(text) for text in detail.get("patterns", ())]
    cleaned: dict[str, Any] = _map_strings(changed, lambda text: _blot(text, literals, patterns))
    return cleaned


def _blank(document: Any, path: Path) -> set[str]:
    """Replace what `path` selects, and return the strings and numbers that stood there."""
    hidden: set[str] = set()
    for parent, key in selected(document, path):
        hidden |= set(_leaves(parent[key]))
        parent[key] = REDACTED
    return hidden


def _leaves(node: Any) -> Iterable[str]:
    if isinstance(node, dict):
        for inner in node.values():
            yield from _leaves(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from _leaves(inner)
    elif isinstance(node, str):
        yield node
    elif isinstance(node, int | float) and not isinstance(node, bool):
        yield json.dumps(node)


def _blot(text: str, literals: list[str], patterns: list[Any]) -> str:
    for literal in literals:
        text = text.replace(literal, REDACTED)
    for pattern in patterns:
        text = pattern.sub(REDACTED, text)
    return text


def _map_strings(node: Any, change: Any) -> Any:
    if isinstance(node, dict):
        return {key: _map_strings(inner, change) for key, inner in node.items()}
    if isinstance(node, list):
        return [_map_strings(inner, change) for inner in node]
    return change(node) if isinstance(node, str) else node


def _truncated(limit_bytes: int, result: Mapping[str, Any]) -> Mapping[str, Any]:
    """Keep the first `limit_bytes` bytes of text content; what has no text is left out.

    Structured content and binary content cannot be cut without changing what they are.
    """
    if isinstance(result.get("message"), str):
        # An error, whose other text stands wherever it likes.
        message = result["message"].encode(errors="replace")[:limit_bytes]
        slim = {k: v for k, v in result.items() if k != "data"}
        return {**slim, "message": message.decode(errors="ignore")}
    left = limit_bytes
    kept: list[Any] = []
    for block in result.get("content", ()):
        if not isinstance(block, dict) or not isinstance(block.get("text"), str) or left <= 0:
            continue
        octets = block["text"].encode(errors="replace")
        text = octets[:left].decode(errors="ignore")
        left -= len(octets)
        kept.append({**block, "text": text})
    slim = {
        k: v for k, v in result.items() if k not in ("structuredContent", "contents", "messages")
    }
    return {**slim, "content": kept}
