"""What lists have shown of which nobody approved a word: whoever calls may have it from there."""

import re
from binascii import a2b_base64
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from threading import Lock
from typing import Any, Final
from weakref import ref

import orjson
import re2

from gateway.domain.bounded import digest_of
from gateway.domain.document import plain
from gateway.flow.carried import Carried, Search
from gateway.flow.results import said_in

_MOST: Final = 4096
_MOST_OCTETS: Final = 256 * 1024
"""Of different items, as JSON; beyond them of no value is it known that no list showed it."""
_LETTERS: Final = 512 * 1024
"""Bytes, in every spelling."""
_READ: Final = 4
"""How many times its bytes an item takes, read or not; its letters are counted besides."""
_ENTRY: Final = 400
"""Bytes of an item beside these."""
_MOST_TOLD: Final = 4096
"""Values of which it is known whether one of so many items showed them."""
_TIME: Final = re.compile(
    r"(?:19|20)[0-9]{2}-(?:0[1-9]|1[0-2])-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]"
    r"(?::[0-5][0-9](?:\.[0-9]{1,3})?)?(?:Z|[+-][01][0-9]:?[0-5][0-9])"
)
"""One that a clock shows: any other digits may be somebody's number."""
_PICTURE: Final = re.compile(
    r"data:image/(?:png;base64,iVBORw0KGgo|jpe?g;base64,/9j/|gif;base64,R0lGOD|webp;base64,UklGR)"
    r"[A-Za-z0-9+/]*={0,2}"
)
"""One that begins as pictures of its kind do; not SVG, which is a text."""
_IN_BASE64: Final = re2.compile(rb"[0-9]{6,}|[A-Z0-9]{10,}|[a-z0-9]{10,}")
_IN_PIXELS: Final = re2.compile(rb"[!-~]{8,}")
"""What reads as a word there, which pixels do rarely."""
_LARGEST: Final = 10_000_000
_TELLING: Final = 10_000
"""Sizes: a number that is longer than the first says what its item is, and one of the second may be somebody's too."""


class Listed:
    """The items of lists that a whole run was shown: all of its parts see them.

    Hosts ask for lists whenever they connect, so an item that comes again costs next to nothing, and
    any other one is read when something is asked first. None is forgotten.
    """

    def __init__(self) -> None:
        self.count = 0
        """How many were shown by now; with it `had` tells what was shown before."""
        self.is_complete = True
        """Whether all of them are known here."""
        self._known: set[bytes] = set()
        self._waiting: deque[tuple[Mapping[str, Any], int]] = deque()
        self._noted = 0
        """Bytes of the items, and of those among them that were read."""
        self._looked = 0
        self._shown = Carried(most=_LETTERS, joins=False)
        self._lengths: list[int] = []
        """How much each item and those before it carried."""
        self._told: dict[tuple[bytes, int], bool] = {}
        self._adding = Lock()
        self._reading = Lock()
        self._holder: Callable[[], object | None] = lambda: None

    def is_counted_with(self, holder: object) -> bool:
        """Whether what it takes is counted with `holder`: one of those that share it and are there."""
        if self._holder() is None:
            self._holder = ref(holder)
        return self._holder() is holder

    @property
    def unread(self) -> int:
        """How many bytes are looked at when something is asked next."""
        return self._noted - self._looked

    @property
    def octets(self) -> int:
        """How many bytes this takes at most."""
        return _READ * (self._noted + self._shown.length) + _ENTRY * len(self._known)

    def add(self, items: Iterable[Mapping[str, Any]]) -> None:
        """Note that `items` were shown; they are kept, and nobody may change them."""
        with self._adding:
            for lasting in (part for item in items for part in _lasting(item)):
                if not self.is_complete:
                    return
                text = _spelled(lasting)
                name = digest_of(text)
                if name in self._known:
                    continue
                if self.count >= _MOST or self._noted + len(text) > _MOST_OCTETS:
                    self.is_complete = False
                    return
                self._known.add(name)
                self._noted += len(text)
                self._waiting.append((lasting, len(text)))
                self.count += 1

    def give_up(self) -> None:
        """Know from now on that not all of them are known here."""
        self.is_complete = False

    def had(self, text: str, count: int, search: Search | None = None) -> bool:
        """Tell whether one of the first `count` items may have shown `text`, in whatever spelling."""
        if count == 0:
            return False
        key = digest_of(text), count
        with self._reading:
            if key not in self._told:
                self._look()
                search = search or Search()
                had = self._shown.has(text, self._lengths[count - 1], search)
                if search.is_over:
                    return had  # nobody knows
                if len(self._told) >= _MOST_TOLD:
                    self._told.clear()
                self._told[key] = had
            return self._told[key]

    def look(self) -> None:
        """Read what was not read yet."""
        with self._reading:
            self._look()

    def _look(self) -> None:
        while self._waiting:
            item, octets = self._waiting.popleft()
            self._shown.add(said_in(item))
            self._lengths.append(self._shown.length)
            self._looked += octets


def _spelled(item: Mapping[str, Any]) -> bytes:
    try:
        return orjson.dumps(item, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # an integer beyond 64 bits
        return plain(item)


def _lasting(item: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield what an item says, without what changes by the hour or is drawn: its times, pixels; its size apart."""
    notes, icons = item.get("annotations"), item.get("icons")
    left = {name: told for name, told in item.items() if name not in ("size", "icons")}
    size = item.get("size", 0)
    if not (isinstance(size, int) and 0 <= size < _LARGEST):
        left["size"] = size
    elif size >= _TELLING:
        yield {"size": size}
    if isinstance(notes, dict) and _TIME.fullmatch(str(notes.get("lastModified"))):
        left["annotations"] = {n: told for n, told in notes.items() if n != "lastModified"}
    if isinstance(icons, list):
        left["icons"] = [_without_pixels(icon) for icon in icons]
    yield left


def _without_pixels(icon: Any) -> Any:
    """Return what an icon says: of one that is a picture itself all but its pixels, and words among these."""
    src = icon.get("src") if isinstance(icon, dict) else None
    found = _PICTURE.fullmatch(src) if isinstance(src, str) else None
    if found is None:
        return icon
    head, _, encoded = found[0].partition(",")
    octets = a2b_base64(encoded[: len(encoded) // 4 * 4])
    words = (*_IN_BASE64.findall(encoded.encode()), *_IN_PIXELS.findall(octets))
    return {**icon, "src": f"{head}," + b" ".join(words).decode()}
