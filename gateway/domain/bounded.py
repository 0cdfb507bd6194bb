"""A memory of what others choose: bounded in entries and in bytes, its keys digests.

Whoever chooses what is remembered chooses how much it takes. So nothing that is keyed or filled by
callers or servers is a plain dictionary: what was used longest ago is forgotten first.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from functools import wraps
from hashlib import blake2b
from threading import Lock
from typing import Final, Generic, ParamSpec, TypeVar

Owner = TypeVar("Owner", bound=Hashable)
Key = TypeVar("Key", bound=Hashable)
Kept = TypeVar("Kept")

ENTRY: Final = 256
"""Bytes that an entry takes by itself: its place in the table, a key of digests, a small value."""
_OWNER: Final = 4 * ENTRY
"""Bytes that an owner takes among others, whatever is kept of theirs."""
_LEAST: Final = _OWNER + 8 * ENTRY
"""Bytes that an owner may hold at least, however many they are."""


class Bounded(Generic[Key, Kept]):
    """At most `most` entries and `octets` bytes; the least recently used goes first.

    Threads may share one: what takes long is done beside the event loop.
    """

    def __init__(self, *, most: int, octets: int) -> None:
        self._most = most
        self._octets = octets
        self._held = 0
        self._entries: OrderedDict[Key, tuple[Kept, int]] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: Key) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[Key]:
        """Iterate over the keys, least recently used first."""
        return iter(self._entries)

    @property
    def octets(self) -> int:
        """How many bytes are accounted for."""
        return self._held

    def get(self, key: Key) -> Kept | None:
        """Return what is kept under `key`, which is used by that."""
        # No lock: each of the two steps is one of the interpreter's, and what was taken out by
        # another thread between them was there when it was asked for.
        found = self._entries.get(key)
        if found is None:
            return None
        try:  # noqa: SIM105 - a context manager would take longer than all the rest
            self._entries.move_to_end(key)
        except KeyError:
            pass
        return found[0]

    def put(self, key: Key, kept: Kept, octets: int = 0, *, again: bool = False) -> int:
        """Keep `kept`, which holds `octets` bytes beside its entry's own; forget what is too much.

        `again`: only if that very one is kept.

        What is larger than the whole bound is not kept, and neither is what it would replace. Return by
        how many bytes more is held.
        """
        weight = ENTRY + octets
        with self._lock:
            before = self._held
            found = self._entries.get(key)
            if again and (found is None or found[0] is not kept):
                return 0
            self._entries.pop(key, None)
            if found is not None:
                self._held -= found[1]
            if weight > self._octets:
                return self._held - before
            self._entries[key] = (kept, weight)
            self._held += weight
            while len(self._entries) > self._most or self._held > self._octets:
                self._held -= self._entries.popitem(last=False)[1][1]
            return self._held - before

    def pop(self, key: Key) -> Kept | None:
        """Forget what is kept under `key`, and return it."""
        with self._lock:
            found = self._entries.pop(key, None)
            if found is None:
                return None
            self._held -= found[1]
            return found[0]

    def shrink(self, octets: int) -> None:
        """Forget what was used longest ago, until no more than `octets` bytes are held."""
        with self._lock:
            while self._held > octets:
                self._held -= self._entries.popitem(last=False)[1][1]

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._entries.clear()
            self._held = 0


class Shared(Generic[Owner, Key, Kept]):
    """At most `octets` bytes of many owners: where they are full, whoever holds most forgets the oldest.

    So nobody who fills it has another one's forgotten who holds little. Threads may share one.
    """

    def __init__(self, *, octets: int) -> None:
        self._octets = octets
        self._held = 0
        self._of: OrderedDict[Owner, Bounded[Key, Kept]] = OrderedDict()
        """Whoever put something last stands last."""
        self._lock = Lock()

    @property
    def octets(self) -> int:
        """How many bytes are accounted for."""
        return self._held

    def get(self, owner: Owner, key: Key) -> Kept | None:
        """Return what `owner` keeps under `key`, which is used by that."""
        own = self._of.get(owner)
        return None if own is None else own.get(key)

    def put(
        self, owner: Owner, key: Key, kept: Kept, octets: int = 0, *, again: bool = False
    ) -> None:
        """Have `owner` keep `kept`, which holds `octets` bytes beside its entry's own; `again` as `Bounded.put`."""
        with self._lock:
            own = self._of.get(owner)
            if own is None:
                own = self._of[owner] = Bounded(most=self._octets // ENTRY, octets=self._octets)
                self._held += _OWNER
            self._of.move_to_end(owner)
            self._held += own.put(key, kept, octets, again=again)
            if self._held > self._octets:
                self._make_room()

    def pop(self, owner: Owner, key: Key) -> Kept | None:
        """Forget what `owner` keeps under `key`, and return it."""
        with self._lock:
            own = self._of.get(owner)
            if own is None:
                return None
            self._held -= own.octets
            found = own.pop(key)
            self._held += own.octets
            return found

    def _make_room(self) -> None:
        """Have an eighth free. Who holds less than each may forgets nothing."""
        most = self._octets * 7 // 8
        each = self._each(most)
        if each >= _LEAST:
            for own in self._of.values():
                own.shrink(each - _OWNER)
            self._held = sum(own.octets + _OWNER for own in self._of.values())
            return
        # So many that next to nothing would be left of any.
        while self._held > most:
            own = self._of.pop(next(iter(self._of)))
            self._held -= own.octets + _OWNER

    def _each(self, most: int) -> int:
        """Return how many bytes each may hold, so that all together hold `most`."""
        left = len(self._of)
        for held in sorted(own.octets + _OWNER for own in self._of.values()):
            if held * left > most:
                return most // left
            most, left = most - held, left - 1
        return self._octets


class ByIdentity(Generic[Kept]):
    """What is known of values that never change, by which ones they are: nothing of them is compared.

    It refers to them, so that no other value has their place meanwhile.
    """

    def __init__(self, *, most: int, octets: int) -> None:
        self._kept: Bounded[tuple[int, ...], tuple[tuple[object, ...], Kept]] = Bounded(
            most=most, octets=octets
        )

    def get(self, *values: object) -> Kept | None:
        """Return what is known of just these `values`, in this order."""
        found = self._kept.get(tuple(map(id, values)))
        return None if found is None else found[1]

    def put(self, kept: Kept, *values: object, octets: int) -> None:
        """Keep what is known of `values`, which hold `octets` bytes together with it."""
        self._kept.put(tuple(map(id, values)), (values, kept), octets)


def octets_of(kept: object) -> int:
    """Return about how many bytes a value of texts takes: twice those of what it is printed as."""
    return 2 * len(repr(kept))


def digest_of(*parts: str | bytes | int | None) -> bytes:
    """Return 32 bytes that stand for `parts`: no two sequences of parts have the same ones."""
    spelled = []
    for part in parts:
        if type(part) is str:
            spelled.append(f"s{len(part)}:{part}")
        elif type(part) is bytes:
            # One character an octet, so that all parts are one text, which is encoded once.
            spelled.append(f"b{len(part)}:{part.decode('latin-1')}")
        else:
            text = str(part)
            spelled.append(f"{type(part).__name__[0]}{len(text)}:{text}")
    return blake2b("".join(spelled).encode("utf-8", "surrogatepass"), digest_size=32).digest()


Parts = ParamSpec("Parts")
Made = TypeVar("Made")


def remembered(
    *, most: int, octets: int, key: Callable[Parts, Hashable], weigh: Callable[[Made], int]
) -> Callable[[Callable[Parts, Made]], Callable[Parts, Made]]:
    """Remember what a function makes of its arguments, by `key` of them, within a bound.

    `weigh` says how many bytes a result holds. A function that returns nothing is not remembered.
    """

    def of(make: Callable[Parts, Made]) -> Callable[Parts, Made]:
        kept: Bounded[Hashable, Made] = Bounded(most=most, octets=octets)

        @wraps(make)
        def made(*args: Parts.args, **kwargs: Parts.kwargs) -> Made:
            name = key(*args, **kwargs)
            found = kept.get(name)
            if found is None:
                found = make(*args, **kwargs)
                if found is not None:
                    kept.put(name, found, weigh(found))
            return found

        return made

    return of
