"""Hints for the person who approves: what in a definition's text looks like an attack.

A hint and never a control: whoever writes around these expressions is not found, and what is
found may be harmless. The control is that a person approves.
"""

import re
import unicodedata
from collections.abc import Iterator
from typing import Any

from gateway.domain._value import value
from gateway.domain.document import leaves
from gateway.pins.visible import visible

_LONGEST_EXCERPT = 120


@value
class Finding:
    """One hint: what was found, where, and the text that shows it."""

    code: str
    path: str
    excerpt: str
    """Made visible: safe to print."""


def _expression(*parts: str) -> re.Pattern[str]:
    return re.compile("|".join(parts), re.IGNORECASE)


_USER = r"(?:the|this to the|to the|your|any)? ?(?:users?|humans?|operators?|customers?)\b"
_IN_TEXT: dict[str, re.Pattern[str]] = {
    "pseudo_tag": _expression(
        r"<\s*/?\s*(?:important|system|secret|critical|instructions?|hidden|admin|override)\s*>",
        r"<\|[a-z_]{2,20}\|>",
        r"\[/?inst\]",
        r"\[\s*(?:important|system|hidden|secret|override)\b[^\]\n]{0,20}\]",
        r"<<sys>>",
        r"^\s*#{2,}\s*(?:system|new) (?:prompt|instructions?)",
    ),
    "override_phrase": _expression(
        r"\b(?:ignore|disregard|forget|override|bypass)\b[^.\n]{0,30}\b(?:previous|prior|above|earlier"
        r"|other|system|existing|all)\b[^.\n]{0,20}\b(?:instructions?|prompts?|rules|directions"
        r"|guidelines|polic(?:y|ies)|restrictions?)\b",
        r"\byou are (?:now|no longer)\b[^.\n]{0,60}\b(?:mode|assistant|restrict|bound|must)",
        r"\bbefore (?:using|calling|invoking|running) (?:this|any other|any|the) tools?\b[^.\n]{0,40}"
        r"\b(?:must|first|read|send|call)\b",
        r"\b(?:ignore|disregard) all other\b",
        r"\b(?:override|system|role) directive\b",
        r"\binstead of (?:using|calling) (?:the )?[\w-]+ tool\b",
    ),
    "concealment": _expression(
        rf"\b(?:do not|don't|never|must not|without) (?:ever )?(?:tell|mention|inform|notify|reveal|show"
        rf"|alert|disclose|telling|mentioning|informing|notifying|alerting)\b[^.\n]{{0,40}}{_USER}",
        r"\b(?:keep|remain) (?:this|it)? ?(?:secret|hidden) from\b",
        r"\b(?:user|human) (?:does not|doesn't|must not|should not) (?:need to )?(?:know|see|notice)\b",
    ),
    "sensitive_read": _expression(
        r"~/\.(?:ssh|aws|gnupg|config|cursor|kube|docker|netrc)\b",
        r"\bid_(?:rsa|ed25519|ecdsa)\b",
        r"/etc/(?:passwd|shadow)\b",
        r"\bmcp\.json\b",
        r"\.aws/credentials\b",
        r"\b(?:read|cat|open|include|send|get|attach)\b[^.\n]{0,40}(?:\s|/)\.env\b",
    ),
    "padding": re.compile(r"\s{40,}"),
}
_EXFIL_PARAMETER = re.compile(
    r"(?:conversation|chat|message|tool|call)_?(?:history|log|transcript)s?|system_?prompts?"
    r"|(?:previous|prior|all)_?(?:messages|tools|prompts)|side_?notes?|chain_?of_?thought"
    r"|(?:full|entire)_?(?:context|conversation|prompt)",
    re.IGNORECASE,
)
_HIDDEN_CATEGORIES = frozenset({"Cf", "Cc", "Co", "Cn", "Zl", "Zp"})
_LAYOUT = frozenset("\n\r\t\u200d\ufeff")
"""Controls of ordinary text; the joiner of emoji; the mark at the start of some files."""


def findings_of(definition: dict[str, Any]) -> tuple[Finding, ...]:
    """Return the hints in `definition`, by path."""
    found = [hint for path, leaf in leaves(definition) for hint in _in_leaf(path, leaf)]
    found += _in_parameters(definition)
    found += _twin_keys(definition)
    return tuple(found)


def _in_leaf(path: str, leaf: Any) -> Iterator[Finding]:
    if not isinstance(leaf, str):
        return
    hidden = _hidden(leaf)
    if hidden:
        yield Finding(code="hidden_characters", path=path, excerpt=_excerpt(hidden))
    for code, expression in _IN_TEXT.items():
        found = expression.search(leaf)
        if found:
            yield Finding(code=code, path=path, excerpt=_excerpt(found[0]))


def _hidden(text: str) -> str:
    if text.isascii() and text.isprintable():
        return ""
    return "".join(
        character
        for character in text
        if character not in _LAYOUT and unicodedata.category(character) in _HIDDEN_CATEGORIES
    )


def _in_parameters(definition: dict[str, Any]) -> Iterator[Finding]:
    schema = definition.get("inputSchema")
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        return
    for name, parameter in properties.items():
        path = f"$.inputSchema.properties.{visible(name)}"
        if _EXFIL_PARAMETER.fullmatch(name):
            yield Finding(code="exfil_parameter", path=path, excerpt=_excerpt(name))
        if isinstance(parameter, dict) and "x-mcp-header" in parameter:
            header = str(parameter["x-mcp-header"])
            yield Finding(code="header_parameter", path=path, excerpt=_excerpt(header))


def _twin_keys(content: Any) -> Iterator[Finding]:
    """Find members that a careless reader takes for one: `description` and `Description`."""
    waiting = [content]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            waiting += node.values()
            seen: dict[str, str] = {}
            for name in node:
                twin = seen.setdefault(unicodedata.normalize("NFKC", name).casefold(), name)
                if twin != name:
                    yield Finding(code="twin_key", path="$", excerpt=_excerpt(f"{twin}, {name}"))
        elif isinstance(node, list):
            waiting += node


def _excerpt(text: str) -> str:
    return visible(text[:_LONGEST_EXCERPT])
