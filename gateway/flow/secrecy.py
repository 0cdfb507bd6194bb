"""Secrets that stand in results, by their value: where one is sent, in whatever spelling, is known."""

import base64
import codecs
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from gateway.flow.credentials import CREDENTIALS
from gateway.flow.decoding import decoded_forms
from gateway.flow.folding import folded

_SHORTEST = 5
"""Letters and digits. What has fewer is found in any text."""
_PIECE = 24
"""Letters of a long secret that are as good as all of it."""
_MOST = 64
"""Secrets of one result; whoever lists more has them all found by their first."""
_LONGEST_READ = 64 * 1024


def secrets_in(texts: Iterable[str]) -> frozenset[bytes]:
    """Return the secrets in `texts`, as letters that are compared."""
    found: set[bytes] = set()
    for text in texts:
        for plain in (text, *(form.text for form in decoded_forms(text))):
            octets = plain[:_LONGEST_READ].encode("utf-8", "surrogatepass")
            found.update(islice(_values(octets), _MOST))
    return frozenset(found)


def _values(octets: bytes) -> Iterator[bytes]:
    for sign in CREDENTIALS:
        for match in islice(sign.pattern.finditer(octets), _MOST):
            if sign.is_real(match):
                value = match[sign.pattern.groups] if sign.pattern.groups else match[0]
                letters = folded(value.decode("utf-8", "surrogatepass"))
                if len(letters) >= _SHORTEST:
                    yield letters


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
    for word in islice(text.split(), 256):
        bare = word.strip("\"'.,;:()[]{}<>").rpartition("=")[2] or word
        try:
            octets = base64.b64decode(bare.rstrip("=") + "=" * (-len(bare.rstrip("=")) % 4))
            yield octets.decode()
        except ValueError:
            continue
