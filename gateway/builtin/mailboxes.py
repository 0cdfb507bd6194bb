"""The mailboxes of one process: who listens, or has just stopped to. A reload leaves them be."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final, TypeAlias

from gateway.builtin.mailbox import Mailbox

_MOST: Final = 10_000
_MOST_OF_ONE: Final = 256
"""Of one person, with whatever clients: of more their own go, and nobody else's."""
_OCTETS: Final = 32 * 1024**2
"""Of messages in all of them; beyond it those that nobody has listened to for longest are emptied."""
_OCTETS_OF_ONE: Final = _OCTETS // 8
"""Of messages in one person's; beyond it their own are."""

Key: TypeAlias = tuple[str, str]
"""A principal's key, and its session or the call that listens."""


class Mailboxes:
    """Those that are listened to are as many as there are connections; of others some are kept."""

    def __init__(self, *, new_nonce: Callable[[], str], most: int = _MOST) -> None:
        self._new_nonce = new_nonce
        self._most = most
        self._boxes: dict[Key, Mailbox] = {}
        self._of: dict[str, dict[Key, Mailbox]] = {}
        """The same by their person."""
        self._whose: dict[Key, str] = {}
        self._octets: Counter[str] = Counter()
        """Bytes of messages by person."""
        self._all = 0

    def find(self, key: Key) -> Mailbox | None:
        return self._boxes.get(key)

    def of(self, key: Key, person: str, *, resumable: bool) -> Mailbox:
        """Return the mailbox of `key`, a principal of `person`'s, made where there is none."""
        box = self._boxes.get(key)
        if box is None:
            box = Mailbox(self._new_nonce(), resumable=resumable, grown=partial(self._grow, person))
            self._boxes[key] = self._of.setdefault(person, {})[key] = box
            self._whose[key] = person
        return box

    def remove(self, key: Key) -> None:
        """End what streams there are of `key`, and forget what they would have been told."""
        box = self._boxes.pop(key, None)
        if box is not None:
            person = self._whose.pop(key)
            self._grow(person, -box.octets)
            box.grown = _uncounted
            del self._of[person][key]
            if not self._of[person]:
                del self._of[person], self._octets[person]
            box.pending.clear()
            box.close()

    def left_before(self, time: float) -> Iterator[Key]:
        """Yield whose mailbox nobody has listened to since `time`."""
        for key, box in tuple(self._boxes.items()):
            if box.left_at is not None and box.left_at <= time:
                yield key

    def held_by(self, holder: str) -> Iterator[Key]:
        """Yield the key of each mailbox of `holder`, whose principal need not be known."""
        yield from [key for key in self._boxes if key[1] == holder]

    def excess(self, person: str) -> Key | None:
        """Return whose mailbox has to go before `person` has another one; `None` if there is room."""
        boxes = self._of.get(person, {})
        if len(boxes) < _MOST_OF_ONE:
            if len(self._boxes) < self._most:
                return None
            boxes = self._boxes
        left = {box.left_at: key for key, box in boxes.items() if box.left_at is not None}
        return left[min(left)] if left else None

    def _grow(self, person: str, octets: int) -> None:
        """Count what is kept; empty what nobody has listened to for longest where that is too much."""
        self._octets[person] += octets
        self._all += octets
        if octets > 0:
            while self._octets[person] > _OCTETS_OF_ONE:
                _left_first(self._of[person].values()).empty()
            while self._all > _OCTETS:
                _left_first(self._boxes.values()).empty()


def _left_first(boxes: Iterable[Mailbox]) -> Mailbox:
    """Return which of those that keep something was left first; else one that is listened to."""
    holding = (box for box in boxes if box.octets)
    return min(holding, key=lambda box: (box.left_at is None, box.left_at or 0.0))


def _uncounted(_: int) -> None:
    """Count nothing: such a mailbox is nobody's any more."""
