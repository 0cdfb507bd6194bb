"""Blotting out what a `redact` duty names: in texts, numbers, names and what base64 holds (pure)."""

import base64
import html
import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from decimal import Decimal
from typing import Any, Final
from urllib.parse import quote, quote_plus

import re2

from gateway.domain.paths import Path, parse_path, selected
from gateway.domain.vocabulary import WORDS
from gateway.errors import Denied
from gateway.flow.folding import revealed
from gateway.flow.spellings import unescaped
from gateway.pins.members import astray
from gateway.pipeline.literals import SHORTEST, Literals

REDACTED: Final = "[redacted]"
_NO_BASE64: Final = re.compile("[^A-Za-z0-9+/]")
_URL_SAFE: Final = str.maketrans("-_", "+/")
_MEDIA: Final = (
    b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a", b"RIFF", b"OggS", b"ID3", b"\xff\xfb",
    b"fLaC",
)  # fmt: skip
"""How pictures and sounds begin, which hold no text but what stands in them in the clear."""


def redacted(detail: Mapping[str, Any], content: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return `content` without what the duty's paths select and its patterns match.

    A path names one place, the duty means the value: it is blotted out wherever else it stands.

    Raises:
        Denied: A path's place stands there under a second name that looks like its own, or what is
            hidden would take too long to be looked for.

    """
    changed: dict[str, Any] = json.loads(json.dumps(content))
    hidden: set[str] = set()
    for text in detail.get("paths", ()):
        path = parse_path(text)
        if astray(changed, path) is not None:
            raise Denied("what policy wants hidden stands there under two names")
        hidden |= _blank(changed, path)
    words = {word for word in hidden if len(word) >= SHORTEST}
    blot = _Blot(
        {one for word in words for one in _written(word)},
        [re2.compile(text) for text in detail.get("patterns", ())],
    )
    cleaned: dict[str, Any] = blot.of(changed)
    return cleaned


def spellings(number: float) -> tuple[str, ...]:
    """Return how readers may write a number: as it is, in full, and without a useless fraction."""
    written = json.dumps(number)
    full = format(Decimal(written), "f")
    short = full.rstrip("0").rstrip(".") if "." in full else full
    return tuple(dict.fromkeys((written, full, short)))


def _written(word: str) -> tuple[str, ...]:
    """Return how others write `word` within a JSON text, a page and a URI."""
    return (
        word,
        json.dumps(word)[1:-1],
        json.dumps(word, ensure_ascii=False)[1:-1],
        html.escape(word),
        quote(word),
        quote(word, safe=""),
        quote_plus(word),
    )


class _Blot:
    """What is to be blotted out, applied to a whole document."""

    def __init__(self, literals: Collection[str], patterns: list[Any]) -> None:
        self._literals = Literals(literals)
        self._shown = Literals({*literals, *map(revealed, literals)})
        self._patterns = patterns

    def of(self, node: Any) -> Any:
        """Return `node` without it."""
        match node:
            case dict():
                return self._members(node)
            case list():
                return [self.of(inner) for inner in node]
            case str():
                return self._text(node)
            case bool() | None:
                return node
            case _:
                return REDACTED if any(map(self._changes, spellings(node))) else node

    def _members(self, node: dict[str, Any]) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        times = Counter[str]()
        for name, inner in node.items():
            plain = _unused(name if name in WORDS else self._text(name), kept, times)
            if isinstance(inner, str) and _is_encoded(node, name):
                kept[plain] = self._encoded(inner)
            else:
                kept[plain] = self.of(inner)
        return kept

    def _text(self, text: str) -> str:
        text = self._literals.blotted(text, REDACTED)
        for pattern in self._patterns:
            text = pattern.sub(REDACTED, text)
        # Full-width digits, or such with nothing visible between them, are read as what they show;
        # and what is escaped is read by whoever reads what it is escaped for.
        plain = unescaped(text)
        for shown in (revealed(text), plain, revealed(plain)):
            if shown != text and self._changes(shown):
                return REDACTED
        return text

    def _changes(self, text: str) -> bool:
        return self._shown.stand_in(text) or any(pattern.search(text) for pattern in self._patterns)

    def _encoded(self, text: str) -> str:
        """Return base64 text without it: a text is changed, a picture passes, all else is withheld.

        What is in no proper base64 is a text; some readers decode it nevertheless.
        """
        try:
            octets = base64.b64decode(text, validate=True)
        except ValueError:
            return _encode(REDACTED) if self._shows(_decoded(text)) else self._text(text)
        with suppress(UnicodeDecodeError):
            if b"\0" not in octets:
                return _encode(self._text(octets.decode())) if octets else text
        clear = octets.startswith(_MEDIA) and not self._shows(octets)
        return text if clear else _encode(REDACTED)

    def _shows(self, octets: bytes) -> bool:
        return self._changes(octets.decode("latin-1"))


def _unused(name: str, taken: Mapping[str, Any], times: Counter[str]) -> str:
    """Return `name`, or with a number behind it where it is taken: many names may become one.

    `times` is how often each was given out, so that none of its numbers is tried twice.
    """
    found = name
    while found in taken:
        times[name] += 1
        found = f"{name} {times[name] + 1}"
    return found


def _decoded(text: str) -> bytes:
    """Decode as the most careless reader does, who skips what is no base64."""
    plain = _NO_BASE64.sub("", text.translate(_URL_SAFE))
    return base64.b64decode(plain[: len(plain) // 4 * 4])


def _is_encoded(holder: Mapping[str, Any], name: str) -> bool:
    if name == "blob":
        return True
    return name == "data" and ("mimeType" in holder or holder.get("type") in ("image", "audio"))


def _encode(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _blank(document: Any, path: Path) -> set[str]:
    """Replace what `path` selects, and return the texts and numbers that stood there."""
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
        yield from spellings(node)
