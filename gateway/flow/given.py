"""What servers gave out: a name that goes back to whoever gave it carries nothing new to them."""

import hashlib
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from enum import StrEnum
from threading import Lock
from typing import Any, Final

_MOST_OF_ONE: Final = 20_000
"""Names of one server. What is forgotten was not given, and needs the proof of any other."""
_MOST_BLOCKS: Final = 20_000
_MOST_OF_ALL: Final = 100_000


class Sort(StrEnum):
    """As what a name was given out: as whatever else it is brought back, it was not."""

    RESOURCE = "resource"
    PAGE = "page"
    STATE = "state"
    QUESTION = "question"


class Given:
    """The latest names that each server gave out, as hashes: some 16 MiB of all servers at most.

    Where all together gave out too many, the server that gave out most loses its oldest: none makes
    the gateway forget what another said.
    """

    def __init__(self) -> None:
        self._names: dict[str, OrderedDict[bytes, None]] = {}
        self._total = 0
        self._lock = Lock()

    def add(self, server: str, name: str, to: str = "", *, sort: Sort = Sort.RESOURCE) -> None:
        """Note that `server` gave out `name`, to one principal if it is theirs alone."""
        key = _key(name, to, sort)
        with self._lock:
            names = self._names.setdefault(server, OrderedDict())
            self._total += key not in names
            names[key] = None
            names.move_to_end(key)
            if len(names) > _MOST_OF_ONE or self._total > _MOST_OF_ALL:
                max(self._names.values(), key=len).popitem(last=False)
                self._total -= 1

    def has(self, server: str, name: str, to: str = "", *, sort: Sort = Sort.RESOURCE) -> bool:
        """Tell whether `server` gave out `name` as that, letter for letter, to everybody or `to` this one."""
        names = self._names.get(server, OrderedDict[bytes, None]())
        return _key(name, "", sort) in names or _key(name, to, sort) in names


def _key(name: str, to: str, sort: Sort) -> bytes:
    said = repr((sort.value, to, name)).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(said, digest_size=16).digest()


def resources_in(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield the URIs of the resources that `result` names where the protocol names them.

    What a text mentions was given out by whoever wrote the text.
    """
    messages = _objects(result["messages"]) if "messages" in result else ()
    spoken = [one.get("content") for one in messages]
    for listed in (*(result[name] for name in _LISTED if name in result), *spoken):
        for block in _objects(listed):
            for holder in (block, block.get("resource")):
                if isinstance(holder, dict) and isinstance(uri := holder.get("uri"), str):
                    yield uri


_LISTED: Final = ("resources", "contents", "content")
"""Members of results in which resources stand, or are linked to."""


def _objects(items: Any) -> list[dict[str, Any]]:
    listed = items[:_MOST_BLOCKS] if isinstance(items, list | tuple) else [items]
    return [item for item in listed if isinstance(item, dict)]
