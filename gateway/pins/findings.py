"""Hints for the person who approves: what in a definition's text looks like an attack.

A hint and never a control: whoever writes around these expressions is not found, and what is
found may be harmless. The control is that a person approves.
"""

import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from typing import Any

import orjson

from gateway.domain._value import value
from gateway.domain.document import leaves
from gateway.domain.nodes import objects_in
from gateway.domain.normal import normal
from gateway.domain.tools import MAPPING
from gateway.pins.names import by_folding, folded
from gateway.pins.phrases import BYPASS_PARAMETER, EXFIL_PARAMETER, HARD, PADDING, SOFT
from gateway.pins.visible import visible

_LONGEST_EXCERPT = 120
_MOST_OF_A_CLASS = 20
"""Hints of one class in one text; more tell a person nothing new."""

_MOST_TEXT = 32 * 1024
"""Characters of a definition in which phrases are looked for; twice the longest honest one."""

HARD_CODES = frozenset({"hidden_characters", *HARD})
"""Classes for which an ordinary definition has no reason; all others are soft."""


@value
class Finding:
    """One hint: what was found, where, and the text that shows it."""

    code: str
    path: str
    excerpt: str
    """Made visible: safe to print."""

    @property
    def hard(self) -> bool:
        """Whether ordinary definitions have no reason for it; if not, some do."""
        return self.code in HARD_CODES


_HIDDEN_CATEGORIES = frozenset({"Cf", "Cc", "Co", "Cn", "Zl", "Zp"})
_LAYOUT = frozenset("\n\r\t")
"""Controls of ordinary text."""
_EMOJI = "\u2190-\u2bff\U0001f000-\U0001faff"
_ORDINARY = re.compile(
    "^\ufeff"  # the mark at the start of some files
    f"|(?<=[{_EMOJI}\ufe0f])\u200d(?=[{_EMOJI}])"  # one picture of several
    "|(?<=[\u0600-\u0dff])[\u200c\u200d](?=[\u0600-\u0dff])"  # shapes of Arabic and Indic letters
    f"|(?<=[#*0-9\u00a9\u00ae\u203c\u2049\u2122\u2139{_EMOJI}])[\ufe0e\ufe0f]"  # a picture, or not
)
"""Invisible characters where honest texts have them: one each, beside what they change."""
_UNUSUAL = re.compile("[^ -~\n\r\t]")
_AT_ONCE = 64 * 1024
"""Characters that an expression goes through in one step, in which nothing else has a turn."""
PHRASES_AT_ONCE = 1024
_LONGEST_PHRASE = 512
"""Characters in which phrases are looked for in one step: that takes microseconds for each."""
_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Marks and letters by category, and nothing to see: a row of them spells anything at all."""

_PHRASES: Mapping[str, re.Pattern[str]] = HARD | SOFT
_ICON = re.compile(r"\$(?:\.serverInfo)?\.icons\[[0-9]+\]\.src")
"""An image, long and in no language; which ones are taken at all is the catalog's to say."""

_IDENTIFIER = re.compile(r"(?<![A-Za-z0-9])[A-Za-z][A-Za-z0-9]*(?:[_.-][A-Za-z0-9]+)+")
"""A name that is no ordinary word of a text. Tried where a word begins: linear in the text."""


def findings_of(
    definition: dict[str, Any], *, elsewhere: Collection[str] = ()
) -> tuple[Finding, ...]:
    """Return the hints in `definition`; those of its texts come first, by path.

    `elsewhere` are the names of tools that other servers have, and its own server has not: what
    speaks of one of them, or is called nearly like one, is pointed out.
    """
    texts = [(path, leaf) for path, leaf in leaves(definition) if isinstance(leaf, str)]
    found = list(_in_texts(texts))
    found += _in_parameters(definition)
    found += _twin_keys(definition)
    found += _of_other_servers(texts, definition.get("name"), elsewhere)
    return tuple(found)


def _in_texts(texts: Collection[tuple[str, str]]) -> Iterator[Finding]:
    left = _MOST_TEXT
    for path, text in texts:
        if _ICON.fullmatch(path):
            continue
        if hidden := _hidden(text):
            yield Finding(code="hidden_characters", path=path, excerpt=_excerpt(hidden))
        # What is longer is told of as such.
        if padding := PADDING.search(text[: 4 * _MOST_TEXT]):
            yield Finding(code="padding", path=path, excerpt=_excerpt(padding[0]))
        plain = _plain(text, max(left, 0) + _LONGEST_EXCERPT)
        yield from _phrases_in(path, plain[: max(left, 0)])
        if 0 <= left < len(plain):
            # Whoever wants to keep us busy, or to hide in a crowd, is told on once.
            yield Finding(code="long_text", path=path, excerpt=_excerpt(plain[left:]))
        left -= len(plain)


def _phrases_in(path: str, plain: str) -> Iterator[Finding]:
    for code, expression in _PHRASES.items():
        # All of them: a hint that was approved must not hide another one of its class.
        matches = islice(_found(expression, plain), _MOST_OF_A_CLASS)
        for excerpt in dict.fromkeys(_excerpt(found) for found in matches):
            yield Finding(code=code, path=path, excerpt=excerpt)


def _found(expression: re.Pattern[str], plain: str) -> Iterator[str]:
    """Yield what `expression` finds, looked for piece by piece; what stands in two pieces comes twice."""
    for start in range(0, len(plain), PHRASES_AT_ONCE):
        end = start + PHRASES_AT_ONCE + _LONGEST_PHRASE
        yield from (found[0] for found in expression.finditer(plain, start, end))


def _plain(text: str, most: int) -> str:
    """Return `text` as a reader who is not fooled takes it: nothing hidden, one blank a gap.

    Only the beginning, if there are more than `most` characters of it.
    """
    pieces: list[str] = []
    length, gap = 0, False
    for start in range(0, len(text), _AT_ONCE):
        shown = _shown(text[start : start + _AT_ONCE])
        words = " ".join(shown.split())
        if words:
            joint = " " if pieces and (gap or shown[0].isspace()) else ""
            pieces.append(joint + words)
            length += len(pieces[-1])
        gap = shown[-1:].isspace() or (gap and not words)
        if length > most:
            break
    return "".join(pieces)


def _shown(text: str) -> str:
    if not text.isascii():
        text = normal("NFKC", text)
        hidden = _HIDDEN_CATEGORIES - {"Zl", "Zp"}
        text = "".join(
            c
            for c in text
            if c in "\n\r\t" or not (unicodedata.category(c) in hidden or _BLANK.fullmatch(c))
        )
    return text.replace("\u2019", "'")


def _hidden(text: str) -> str:
    if text.isascii() and text.isprintable():
        return ""
    found: list[str] = []
    for start in range(0, len(text), _AT_ONCE):
        end = start + _AT_ONCE
        # With the character behind it, which may make the last one ordinary.
        ordinary = {one.start() for one in _ORDINARY.finditer(text, start, end + 1)}
        unusual = (
            one for one in _UNUSUAL.finditer(text, start, end) if one.start() not in ordinary
        )
        found += [one[0] for one in unusual if _is_hidden(one[0])]
    return "".join(found)


def _is_hidden(character: str) -> bool:
    if character in _LAYOUT:
        return False
    category = unicodedata.category(character)
    return category in _HIDDEN_CATEGORIES or _BLANK.fullmatch(character) is not None


def _in_parameters(definition: dict[str, Any]) -> Iterator[Finding]:
    schema = definition.get("inputSchema")
    if isinstance(schema, dict) and MAPPING in schema:
        told = orjson.dumps(schema[MAPPING]).decode()
        yield Finding(
            code="authzen_mapping", path=f"$.inputSchema.{MAPPING}", excerpt=_excerpt(told)
        )
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        return
    for name, parameter in properties.items():
        path = f"$.inputSchema.properties.{visible(name)}"
        if EXFIL_PARAMETER.fullmatch(name):
            yield Finding(code="exfil_parameter", path=path, excerpt=_excerpt(name))
        if BYPASS_PARAMETER.fullmatch(name):
            yield Finding(code="bypass_parameter", path=path, excerpt=_excerpt(name))
        if isinstance(parameter, dict) and "x-mcp-header" in parameter:
            header = str(parameter["x-mcp-header"])
            yield Finding(code="header_parameter", path=path, excerpt=_excerpt(header))


def _twin_keys(content: Any) -> Iterator[Finding]:
    """Find members that a careless reader takes for one: `description` and `Description`."""
    for node in objects_in(content):
        seen: dict[str, str] = {}
        for name in node:
            twin = seen.setdefault(normal("NFKC", name).casefold(), name)
            if twin != name:
                yield Finding(code="twin_key", path="$", excerpt=_excerpt(f"{twin}, {name}"))


def _of_other_servers(
    texts: Collection[tuple[str, str]], own: Any, elsewhere: Collection[str]
) -> Iterator[Finding]:
    """Find names of other servers' tools in `texts`, and the one that `own` looks like.

    Two servers may have tools of the very same name: the gateway keeps them apart by server.
    """
    if not elsewhere:
        return
    others = frozenset(elsewhere)
    for path, text in texts:
        for name in dict.fromkeys(_IDENTIFIER.findall(text)):
            if name in others and name != own:
                yield Finding(code="foreign_tool", path=path, excerpt=_excerpt(name))
    if isinstance(own, str):
        twin = by_folding(others - {own} if own in others else others).get(folded(own))
        if twin is not None:
            yield Finding(code="lookalike_name", path="$.name", excerpt=_excerpt(twin))


def _excerpt(text: str) -> str:
    return visible(text[:_LONGEST_EXCERPT])
