"""Secrets taken out of a text that is about to be read by a model."""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from gateway.flow.credentials import CREDENTIALS, SHOWN_ONCE
from gateway.flow.signs import Sign, Triggers

REPLACED: Final = "[redacted]"
_SHORT: Final = (rb"\b", rb"\f", rb"\n", rb"\r", rb"\t")
_ESCAPED: Final = (
    *_SHORT,
    *sorted({form % code for code in range(32) for form in (b"\\u%04x", b"\\u%04X")}),
)
"""A control character as JSON spells it: of a text that is no letter before a secret."""
_SHORTEST_HELD: Final = 8
"""Characters: what is shorter stands in any text."""
_TRIGGERS: Final = Triggers(sign.trigger for sign in CREDENTIALS)
_WRITTEN: Final = (*CREDENTIALS, *SHOWN_ONCE)
_WRITTEN_TRIGGERS: Final = Triggers(
    (sign.trigger for sign in CREDENTIALS), (sign.trigger for sign in SHOWN_ONCE)
)


def redaction(held: Iterable[str] = ()) -> Callable[[str], str]:
    """Return a function that takes out of a text the secrets we hold, and what looks like one.

    `held` are our own, word for word; those of fewer than 8 characters are left alone.
    """
    ours = _longest_first(held)
    return lambda text: _redacted(text, ours, CREDENTIALS, _TRIGGERS)


class RecordScreen:
    """Knows what must not be written down: `redaction`'s, and what is shown once and then is gone.

    A record is no answer to anybody, so here one harmless text too many may be left out.
    """

    def __init__(self, held: Iterable[str] = ()) -> None:
        self._ours = _longest_first(held)
        spelled = {form for secret in self._ours for form in _forms(secret)}
        self._needles = [form.encode(errors="surrogatepass") for form in sorted(spelled)]

    def suspects(self, octets: bytes) -> bool:
        """Say quickly whether a secret may be in `octets`, UTF-8 or JSON; a no is certain."""
        if any(needle in octets for needle in self._needles):
            return True
        if _WRITTEN_TRIGGERS.any_in(octets):
            return True
        if b"\\" not in octets:
            return False
        # One expression would find each by itself, in one call that keeps the interpreter.
        for escaped in _ESCAPED if rb"\u00" in octets else _SHORT:
            octets = octets.replace(escaped, b"\n")
        return _WRITTEN_TRIGGERS.any_in(octets)

    def screened(self, text: str) -> str:
        """Return `text` with a mark in place of every secret."""
        return _redacted(text, self._ours, _WRITTEN, _WRITTEN_TRIGGERS)


def _forms(secret: str) -> tuple[str, ...]:
    """Return how a secret stands in a text, and in JSON of either spelling."""
    return secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]


def _longest_first(held: Iterable[str]) -> list[str]:
    return sorted({one for one in held if len(one) >= _SHORTEST_HELD}, key=len, reverse=True)


def _redacted(text: str, ours: Iterable[str], signs: Sequence[Sign], triggers: Triggers) -> str:
    for secret in ours:
        text = text.replace(secret, REPLACED)
    octets = text.encode(errors="surrogatepass")
    spans = _spans(octets, signs, triggers)
    if not spans:
        return text
    parts, at = [], 0
    for start, end in spans:
        if start >= at:
            parts += [octets[at:start], REPLACED.encode()]
        at = max(at, end)
    return b"".join([*parts, octets[at:]]).decode(errors="surrogatepass")


def _spans(octets: bytes, signs: Sequence[Sign], triggers: Triggers) -> list[tuple[int, int]]:
    """Return where what looks like a secret stands, in order."""
    return sorted(
        found.span()
        for sign in (signs[i] for i in triggers.hits(octets))
        for found in sign.pattern.finditer(octets)
        if sign.is_real(found)
    )
