"""A server's document written anew: its texts, numbers, names of members, and text in base64 (pure)."""

import base64
import json
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from itertools import accumulate
from typing import Any, AnyStr, Final

from gateway.domain.vocabulary import WORDS

REDACTED: Final = "[redacted]"
RUNNING: Final = ("data", "message")
"""Of log messages and of progress: what clients show one after the other."""
_SYMBOLS: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
NO_SYMBOL: Final = bytes(frozenset(range(256)).difference(_SYMBOLS + b"-_"))
"""What careless readers of base64 skip: taken out in one quick step, however long a text is."""
_URL_SAFE: Final = bytes.maketrans(b"-_", b"+/")
_MEDIA: Final = (
    b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a", b"RIFF", b"OggS", b"ID3", b"\xff\xfb",
    b"\xff\xf3", b"\xff\xfa", b"\xff\xf2", b"\xff\xf1", b"\xff\xf9", b"fLaC", b"\x1aE\xdf\xa3", b"FORM",
    b"BM", b"II*\0", b"MM\0*",
)  # fmt: skip
"""How pictures and sounds begin, which hold no text but what stands in them in the clear."""
_BOX: Final = b"ftyp"
"""What stands behind the length of the first box of MP4, M4A, AVIF and HEIC (ISO/IEC 14496-12)."""
_BLOCKS: Final = ("image", "audio")


def is_media(holder: Mapping[str, Any]) -> bool:
    """Tell whether the `data` of `holder` is a picture or a sound in proper base64: nothing to be read.

    It says so itself, and begins as one. What only says so may be read as what it is by whoever gets it.
    """
    text, kind = holder.get("data"), holder.get("type")
    if kind not in _BLOCKS or not isinstance(text, str):
        return False
    octets = octets_in(text + "=" * (-len(text) % 4))  # some leave out its end
    if octets is None:
        return False
    begins = octets.startswith(_MEDIA) or octets.startswith(_BOX, 4)
    return begins and _text_in(octets) is None


def octets_in(text: str) -> bytes | None:
    """Return what `text` is in proper base64; `None` where it is in none."""
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return None


def _text_in(octets: bytes) -> str | None:
    try:
        return None if b"\0" in octets else octets.decode()
    except UnicodeDecodeError:
        return None


def spellings(number: float) -> tuple[str, ...]:
    """Return how readers may write a number: as it is, in full, and without a useless fraction."""
    written = json.dumps(number)
    full = format(Decimal(written), "f")
    short = full.rstrip("0").rstrip(".") if "." in full else full
    return tuple(dict.fromkeys((written, full, short)))


def texts_of_blocks(items: Sequence[Any]) -> list[str]:
    """Return the texts of the blocks in `items` that are texts, in order: readers put them together."""
    return [item["text"] for item in items if _is_text_block(item)]


def _is_text_block(item: Any) -> bool:
    return isinstance(item, dict) and isinstance(item.get("text"), str)


def cut_over_edges(
    parts: Sequence[AnyStr], spans: Iterable[tuple[int, int, AnyStr]]
) -> list[AnyStr]:
    """Return `parts` without what stands in two of them: its mark is at each of its ends.

    `spans` are of all parts together, each with its mark; those that stand over an edge do not overlap.
    """
    starts = [0, *accumulate(map(len, parts))]
    kept = list(parts)
    # From the last on: what stands before in the same part keeps its place.
    for begin, end, mark in sorted(spans, reverse=True):
        first, last = bisect_right(starts, begin) - 1, bisect_left(starts, end)
        for index in range(first, last if last - first > 1 else first):
            a, b = (min(max(at - starts[index], 0), len(parts[index])) for at in (begin, end))
            if a < b:
                kept[index] = kept[index][:a] + mark + kept[index][b:]
    return kept


class Rewriter:
    """What becomes of each text decides what becomes of a document."""

    mark: str = REDACTED
    """What stands for what cannot be written anew in part."""

    def text(self, text: str, name: str = "") -> str:
        """Return what is to stand in place of `text`, the value of the member `name`."""
        raise NotImplementedError

    def shows(self, text: str, name: str = "") -> bool:
        """Tell whether `text` shows what must not stand there."""
        raise NotImplementedError

    def joined(self, texts: Sequence[str]) -> Sequence[str]:
        """Return what is to stand in place of `texts`, which readers put together."""
        return texts

    def gone_on(self, before: str, content: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the params of a notification without the rest of what began in the text `before` it."""
        for name in RUNNING:
            if before and isinstance(text := content.get(name), str):
                return {**content, name: self.joined([before, text])[1]}
        return content

    def of(self, node: Any, name: str = "") -> Any:
        """Return `node`, the value of the member `name`, written anew."""
        match node:
            case dict():
                return self._members(node)
            case list():
                return [self.of(inner, name) for inner in self._put_together(node)]
            case str():
                return self.text(node, name)
            case bool() | None:
                return node
            case _:
                shown = any(self.shows(spelled, name) for spelled in spellings(node))
                return self.mark if shown else node

    def _put_together(self, items: list[Any]) -> list[Any]:
        texts = texts_of_blocks(items)
        if len(texts) < 2:  # noqa: PLR2004 - nothing to put together
            return items
        told = iter(self.joined(texts))
        return [{**i, "text": next(told)} if _is_text_block(i) else i for i in items]

    def _members(self, node: dict[str, Any]) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        times = Counter[str]()
        for name, inner in node.items():
            plain = _unused(name if name in WORDS else self.text(name), kept, times)
            if isinstance(inner, str) and _is_encoded(node, name):
                kept[plain] = self._encoded(inner)
            else:
                kept[plain] = self.of(inner, name)
        return kept

    def _encoded(self, text: str) -> str:
        """Return base64 text written anew: a text is changed, a picture passes, all else is withheld.

        What is in no proper base64 is a text; some readers decode it nevertheless. What shows something
        as it stands there may be no base64 to whoever wrote it, whatever it decodes to.
        """
        octets = octets_in(text)
        if octets is None:
            return _encode(self.mark) if self._in_clear(_decoded(text)) else self.text(text)
        if (told := _text_in(octets)) is not None:
            anew = _encode(self.text(told))
        else:
            clear = octets.startswith(_MEDIA) and not self._in_clear(octets)
            anew = text if clear else _encode(self.mark)
        return _encode(self.mark) if self.shows(anew) else anew

    def _in_clear(self, octets: bytes) -> bool:
        return self.shows(octets.decode("latin-1"))


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
    plain = text.encode("utf-8", "surrogatepass").translate(_URL_SAFE, NO_SYMBOL)
    return base64.b64decode(plain[: len(plain) // 4 * 4])


def _is_encoded(holder: Mapping[str, Any], name: str) -> bool:
    if name == "blob":
        return True
    return name == "data" and ("mimeType" in holder or holder.get("type") in _BLOCKS)


def _encode(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
