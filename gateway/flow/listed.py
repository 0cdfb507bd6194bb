"""What lists have shown of which nobody approved a word: whoever calls may have it from there."""

import json
import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from threading import Lock
from typing import Any, Final
from weakref import ref

from gateway.domain.bounded import digest_of
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
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?(?:Z|[+-][0-9]{2}:?[0-9]{2})"
)
_PICTURE: Final = re.compile(r"data:image/(?:png|jpe?g|gif|webp)[;,]")
"""Not SVG, which is a text."""
_LARGEST: Final = 10_000_000
"""A size: a number that is longer may be one of somebody's."""


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
            for item in items:
                if not self.is_complete:
                    return
                lasting = _lasting(item)
                text = json.dumps(lasting, sort_keys=True)
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


def _lasting(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what an item says, without what changes by the hour or is drawn: its size, its times, its pictures."""
    notes, icons = item.get("annotations"), item.get("icons")
    left = {name: told for name, told in item.items() if name not in ("size", "icons")}
    size = item.get("size", 0)
    if not (isinstance(size, int) and 0 <= size < _LARGEST):
        left["size"] = size
    if isinstance(notes, dict) and _TIME.fullmatch(str(notes.get("lastModified"))):
        left["annotations"] = {n: told for n, told in notes.items() if n != "lastModified"}
    if isinstance(icons, list):
        left["icons"] = [icon for icon in icons if not _is_picture(icon)]
    return left


def _is_picture(icon: Any) -> bool:
    """Whether an icon is there as a picture itself, and not as a link to one."""
    src = icon.get("src") if isinstance(icon, dict) else None
    return isinstance(src, str) and _PICTURE.match(src) is not None
