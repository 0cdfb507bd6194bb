"""What the text of a result raises by itself, whatever its tool is labelled: it can only raise."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from gateway.domain.labels import BOTTOM, STRICTEST_DEFAULT, Confidentiality, Integrity, Label
from gateway.domain.rewriting import is_media
from gateway.flow.credentials import CREDENTIALS
from gateway.flow.decoding import decoded_forms
from gateway.flow.folding import hides_text, is_suspicious, revealed
from gateway.flow.instructions import INSTRUCTIONS
from gateway.flow.personal import PERSONAL
from gateway.flow.signs import Sign, Triggers

LONGEST_READ = 1024 * 1024
"""Characters of one result. What a longer one says is not known, and labelled so."""

_PIECE = 128 * 1024
"""Characters that are looked at in one go: while it lasts, nobody else has the interpreter."""
_OVERLAP = 4 * 1024
"""Of two pieces, so that what stands over their edge stands whole in one of them."""
_LONGEST_TOKEN = 128 * 1024
"""What is encoded is cut nowhere: of a longer one nobody knows what it says."""
_EDGE = re.compile(r"[\s,;:\"'<>(){}\[\]|]")
"""Between any two of these stands what may be encoded."""

_MOST_DECODED_FORMS = 32

SAID: Mapping[str, str] = {
    "secret_in_result": "a secret that gives access stands in it",
    "personal_data_in_result": "personal data stand in it",
    "instructions_in_result": "it speaks to the model, or hides text",
    "unread_result": "it is too long to be read whole",
}
"""What each code says, in words for people. Never what was found."""

_RAISES: Mapping[str, Label] = {
    "secret_in_result": Label(integrity=BOTTOM.integrity, confidentiality=Confidentiality.SECRET),
    "personal_data_in_result": Label(
        integrity=BOTTOM.integrity, confidentiality=Confidentiality.PRIVATE
    ),
    "instructions_in_result": Label(
        integrity=Integrity.UNTRUSTED, confidentiality=BOTTOM.confidentiality
    ),
    "unread_result": STRICTEST_DEFAULT,
}

_CLASSES: tuple[tuple[str, tuple[Sign, ...]], ...] = (
    ("secret_in_result", CREDENTIALS),
    ("personal_data_in_result", PERSONAL),
    ("instructions_in_result", INSTRUCTIONS),
)
_UNNAMED = frozenset({"", "text"})

_ENCODED = (
    r"[A-Za-z0-9+/_-]{24}",
    r"(?:%[0-9A-Fa-f]{2}){3}",
    r"(?:&#x?[0-9A-Fa-f]{2,6};){3}",
    r"(?:\\u[0-9A-Fa-f]{4}){3}",
    r"(?:(?:0x|\\x)?[0-9A-Fa-f]{2}[ :,;-]{1,2}){12}",
)


_SIGNS: tuple[tuple[str, Sign], ...] = tuple(
    (code, sign) for code, signs in _CLASSES for sign in signs
)
_TRIGGERS = Triggers((sign.trigger for _, sign in _SIGNS), _ENCODED)

Text: TypeAlias = tuple[str, bool]
"""All that a content says, and whether that is all of it."""


def content_label(content: Any, told: Text | None = None) -> tuple[Label, tuple[str, ...]]:
    """Return what `content` raises, which is all that is `told`, and codes that say why.

    It is the `result` or the `error` of a response, or the `params` of a message. Secrets make it
    secret, personal data private, and text that speaks to a model untrusted; what is longer than
    `LONGEST_READ` is untrusted and private, for nobody has read its end. Linear in the text.
    """
    text, whole = told or text_of(content)
    codes: set[str] = set()
    for start, end in pieces(text):
        codes.update(_codes_in(text[start:end]))
        whole = whole and ends_whole(text, end)
    if not whole:
        codes.add("unread_result")
    label = BOTTOM
    for code in codes:
        label = label.join(_RAISES[code])
    return label, tuple(code for code in _RAISES if code in codes)


def text_of(content: Any) -> Text:
    """Return all that is said, a line each, member names before their values, and if that is all.

    A name whose value is no text and no number is a line by itself, once.
    """
    lines: list[str] = []
    left = LONGEST_READ
    alone = {""}
    waiting: list[tuple[str, Any]] = [("", content)]
    while waiting:
        name, node = waiting.pop()
        line = name
        if isinstance(node, dict):
            if "data" in node and is_media(node):
                node = {key: member for key, member in node.items() if key != "data"}
            waiting += reversed(node.items())
        elif isinstance(node, list):
            waiting += [(name, item) for item in reversed(node)]
        elif node is not None and not isinstance(node, bool):
            line = node if name in _UNNAMED and isinstance(node, str) else f"{name}: {node}"
        if line is name:
            if name in alone:
                continue
            alone.add(name)
        lines.append(line[:left])
        left -= len(line)
        if left < 0:  # a long name stands before each item of its list
            return "\n".join(lines), False
    return "\n".join(lines), True


def pieces(text: str) -> Iterator[tuple[int, int]]:
    """Yield where the pieces of `text` begin and end, each between two words and over the one before."""
    start = 0
    while len(text) - start > _PIECE:
        end = _edge(text, start + _PIECE)
        yield start, end
        start = max(_edge(text, end - _OVERLAP), start + 1)
    yield start, len(text)


def ends_whole(text: str, end: int) -> bool:
    """Whether a piece that ends there cuts nothing that may be encoded."""
    return end == len(text) or _EDGE.match(text, end - 1) is not None


def _edge(text: str, at: int) -> int:
    """Return where the token ends in which `at` is, or where it is too long to be looked at whole."""
    found = _EDGE.search(text, at, at + _LONGEST_TOKEN)
    return found.end() if found else min(len(text), at + _LONGEST_TOKEN)


def _codes_in(text: str, *, depth: int = 0) -> Iterator[str]:
    if is_suspicious(text):
        # Read as whoever is not fooled reads it; what hides is told by itself besides.
        if hides_text(text):
            yield "instructions_in_result"
        text = revealed(text)
    octets = text.encode("utf-8", "surrogatepass")
    found = _TRIGGERS.hits(octets)
    for code, sign in (_SIGNS[hit] for hit in found if hit < len(_SIGNS)):
        if sign.stands_in(octets):
            yield code
    if depth == 0 and found and found[-1] >= len(_SIGNS):
        for number, form in enumerate(decoded_forms(text)):
            if number == _MOST_DECODED_FORMS:
                return
            yield from _codes_in(form.text, depth=1)
