"""Secrets that stand in results, by their value: where one is sent, in whatever spelling, is known."""

import base64
import codecs
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

from gateway.flow.content import ends_whole, pieces, text_of
from gateway.flow.credentials import CREDENTIALS
from gateway.flow.decoding import MOST_DECODED, decoded_forms
from gateway.flow.folding import folded, revealed
from gateway.flow.signs import Triggers

_SHORTEST = 5
"""Letters and digits. What has fewer is found in any text."""
_PIECE = 24
"""Letters of a long secret that are as good as all of it."""
MOST: Final = 1024
"""Secrets that are kept apart; of whoever has seen more it is not known what they are."""
_UNDONE: Final = 16
"""How many times its own length of a text is decoded, in every way and one within the other."""
_MOST_WORDS: Final = 256
_TRIGGERS: Final = Triggers(sign.trigger for sign in CREDENTIALS)


def secrets_in(content: Any) -> tuple[frozenset[bytes], bool]:
    """Return the secrets in `content`, as letters that are compared, and whether these are all.

    They are not where there are very many, or where not all was read: nobody can tell then what another
    one is, whoever wrote what stands before it.
    """
    text, whole = text_of(content)
    found: set[bytes] = set()
    for start, end in pieces(text):
        whole = _look(text[start:end], found) and ends_whole(text, end) and whole
        if len(found) > MOST:
            return frozenset(found), False
    return frozenset(found), whole


def _look(text: str, found: set[bytes]) -> bool:
    """Have the secrets of a piece of text among those `found`, and tell whether it was read whole."""
    plain = revealed(text)
    found.update(_values(plain))
    forms = decoded_forms(plain, len(plain), max(MOST_DECODED, _UNDONE * len(plain)))
    while len(found) <= MOST:
        try:
            form = next(forms)
        except StopIteration as end:
            return bool(end.value)
        found.update(_values(revealed(form.text)))
    return False


def _values(text: str) -> Iterator[bytes]:
    octets = text.encode("utf-8", "surrogatepass")
    values = (
        match[sign.pattern.groups] if sign.pattern.groups else match[0]
        for sign in (CREDENTIALS[hit] for hit in _TRIGGERS.hits(octets))
        for match in sign.pattern.finditer(octets)
        if sign.is_real(match)
    )
    letters = (folded(value.decode("utf-8", "surrogatepass")) for value in values)
    return islice((one for one in letters if len(one) >= _SHORTEST), MOST + 1)


def spellings(secret: bytes) -> Iterator[bytes]:
    """Yield how a secret looks that somebody encodes by hand, as letters that are compared."""
    for piece in {secret, secret[:_PIECE], secret[-_PIECE:]}:
        yield piece
        yield piece[::-1]
        yield piece.hex().encode()
        yield codecs.encode(piece.decode("utf-8", "replace"), "rot13").encode()


def carried_secrets(texts: Iterable[str], known: Mapping[bytes, str]) -> Iterator[str]:
    """Yield the records of the `known` secrets that stand in `texts`, plain or encoded."""
    joined = "\n".join(texts)
    shown = [joined, *(form.text for form in decoded_forms(joined)), *_runs(joined)]
    letters = [folded(text) for text in shown]
    for secret, record in known.items():
        if any(spelled in text for spelled in spellings(secret) for text in letters):
            yield record


def _runs(text: str) -> Iterator[str]:
    """Yield what words decode to that are too short to be looked for elsewhere."""
    for word in text.split(None, _MOST_WORDS)[:_MOST_WORDS]:
        bare = word.strip("\"'.,;:()[]{}<>").rpartition("=")[2] or word
        try:
            octets = base64.b64decode(bare.rstrip("=") + "=" * (-len(bare.rstrip("=")) % 4))
            yield octets.decode()
        except ValueError:
            continue
