"""Secrets taken out of a text that is about to be read by a model."""

from collections.abc import Callable, Iterable
from typing import Any, Final

import re2

from gateway.flow.credentials import CREDENTIALS

REPLACED: Final = "[redacted]"
_SHORTEST_HELD: Final = 8
"""Characters: what is shorter stands in any text."""


def _compiled() -> Any:
    """Return all triggers as one automaton: a program's value can have a hundred thousand texts."""
    options = re2.Options()
    options.max_mem = 64 * 1024 * 1024
    found = re2.Set.SearchSet(options)
    for sign in CREDENTIALS:
        found.Add(sign.trigger)
    found.Compile()
    return found


_SET: Final = _compiled()


def redaction(held: Iterable[str] = ()) -> Callable[[str], str]:
    """Return a function that takes out of a text the secrets we hold, and what looks like one.

    `held` are our own, word for word; those of fewer than 8 characters are left alone.
    """
    ours = sorted({one for one in held if len(one) >= _SHORTEST_HELD}, key=len, reverse=True)

    def redact(text: str) -> str:
        for secret in ours:
            text = text.replace(secret, REPLACED)
        octets = text.encode(errors="surrogatepass")
        spans = _spans(octets)
        if not spans:
            return text
        parts, at = [], 0
        for start, end in spans:
            if start >= at:
                parts += [octets[at:start], REPLACED.encode()]
            at = max(at, end)
        return b"".join([*parts, octets[at:]]).decode(errors="surrogatepass")

    return redact


def _spans(octets: bytes) -> list[tuple[int, int]]:
    """Return where what looks like a secret stands, in order."""
    return sorted(
        found.span()
        for sign in (CREDENTIALS[i] for i in _SET.Match(octets) or ())
        for found in sign.pattern.finditer(octets)
        if sign.is_real(found)
    )
