"""The mailboxes of one process: who listens, or has just stopped to. A reload leaves them be."""

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from gateway.builtin.mailbox import Mailbox

_MOST: Final = 10_000
_MOST_OF_ONE: Final = 256
"""Of one principal, some 16 MiB at most: of more its own go, and nobody else's."""

Key: TypeAlias = tuple[str, str]
"""A principal's key, and its session or the call that listens."""


class Mailboxes:
    """Those that are listened to are as many as there are connections; of others some are kept."""

    def __init__(self, *, new_nonce: Callable[[], str], most: int = _MOST) -> None:
        self._new_nonce = new_nonce
        self._most = most
        self._boxes: dict[Key, Mailbox] = {}
        self._of: dict[str, dict[Key, Mailbox]] = {}
        """The same by their principal."""

    def find(self, key: Key) -> Mailbox | None:
        return self._boxes.get(key)

    def of(self, key: Key, *, resumable: bool) -> Mailbox:
        """Return the mailbox of `key`, made where there is none."""
        box = self._boxes.get(key)
        if box is None:
            box = self._boxes[key] = Mailbox(self._new_nonce(), resumable=resumable)
            self._of.setdefault(key[0], {})[key] = box
        return box

    def remove(self, key: Key) -> None:
        """End what streams there are of `key`, and forget what they would have been told."""
        box = self._boxes.pop(key, None)
        if box is not None:
            del self._of[key[0]][key]
            if not self._of[key[0]]:
                del self._of[key[0]]
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

    def excess(self, principal: str) -> Key | None:
        """Return whose mailbox has to go before the principal has another one; `None` if there is room."""
        boxes = self._of.get(principal, {})
        if len(boxes) < _MOST_OF_ONE:
            if len(self._boxes) < self._most:
                return None
            boxes = self._boxes
        left = {box.left_at: key for key, box in boxes.items() if box.left_at is not None}
        return left[min(left)] if left else None
