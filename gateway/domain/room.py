"""How many bytes of messages may be under way at once, over all requests and answers."""

from collections import deque
from collections.abc import Callable, Container, Hashable
from contextvars import ContextVar
from typing import Any, Final, Protocol

from gateway.domain._value import value

FREE: Final = 16 * 1024
"""Bytes of a message that are not counted: what everybody sends is held up by nobody's large bodies."""

UNDER_WAY: Final = 8 * 1024**2
"""Bytes of requests, and as many of answers. What a large message becomes while it is judged takes
several times its size."""


@value
class Whose:
    """Who has a turn of their own: servers among each other, and at one server those who ask it."""

    server: Hashable = None
    principal: str = ""


NOBODYS: Final = Whose()


class Entry:
    """What waits: for how much, and who is told once it is there."""

    __slots__ = ("octets", "taken", "whose")

    def __init__(self, octets: int, taken: Callable[[], object], whose: Whose) -> None:
        self.octets = octets
        self.taken = taken
        self.whose = whose


class Line:
    """Who waits: round robin over servers, and at each over principals, who are served in order.

    However much waits for one, the next has its turn after one message of each.
    """

    def __init__(self) -> None:
        self._servers: dict[Hashable, dict[str, deque[Entry]]] = {}
        """Those whose turn is next stand first."""

    def __bool__(self) -> bool:
        return bool(self._servers)

    def add(self, entry: Entry) -> None:
        principals = self._servers.setdefault(entry.whose.server, {})
        principals.setdefault(entry.whose.principal, deque()).append(entry)

    def first(self, besides: Container[str] = ()) -> Entry | None:
        """Return whose turn it is, passing over the principals `besides`; `None` for nobody's."""
        for principals in self._servers.values():
            for principal, entries in principals.items():
                if principal not in besides:
                    return entries[0]
        return None

    def serve(self, entry: Entry) -> None:
        """Take out the first of its principal's, who stands behind all others then; so does its server."""
        principals = self._servers.pop(entry.whose.server)
        entries = principals.pop(entry.whose.principal)
        entries.popleft()
        if entries:
            principals[entry.whose.principal] = entries
        if principals:
            self._servers[entry.whose.server] = principals

    def leave(self, entry: Entry) -> bool:
        """Take `entry` out, and say whether it was there."""
        principals = self._servers.get(entry.whose.server, {})
        entries = principals.get(entry.whose.principal)
        if entries is None or entry not in entries:
            return False
        entries.remove(entry)
        if not entries:
            del principals[entry.whose.principal]
        if not principals:
            del self._servers[entry.whose.server]
        return True


class Room:
    """So many bytes, handed out and given back. One event loop's."""

    def __init__(self, octets: int = UNDER_WAY) -> None:
        self._octets = octets
        self._taken = 0
        self._line = Line()

    @property
    def taken(self) -> int:
        """Bytes that are not given back."""
        return self._taken

    def take(self, octets: int) -> bool:
        """Take `octets` at once if they are there; one alone may be larger than all the room."""
        if self._line or not self._has(octets):
            return False
        self._taken += octets
        return True

    def wait(
        self, octets: int, taken: Callable[[], object], whose: Whose = NOBODYS
    ) -> Callable[[], None]:
        """Call `taken` once `octets` were taken, in turn; what is returned ends the waiting."""
        entry = Entry(octets, taken, whose)
        self._line.add(entry)
        self._serve()

        def end() -> None:
            if self._line.leave(entry):
                self._serve()

        return end

    def give(self, octets: int) -> None:
        """Give bytes back; whoever waits is served."""
        self._taken -= octets
        self._serve()

    def _has(self, octets: int) -> bool:
        return not self._taken or self._taken + octets <= self._octets

    def _serve(self) -> None:
        while (entry := self._line.first()) is not None and self._has(entry.octets):
            self._line.serve(entry)
            self._taken += entry.octets
            entry.taken()


class Rooms:
    """Room for requests, and room for answers.

    They are apart, lest large requests keep each other's answers waiting: whoever waits for an answer
    holds no room for one.
    """

    def __init__(self, octets: int = UNDER_WAY, *, largest: int = 0) -> None:
        """There is room for two requests of `largest` bytes, also if that is more than `octets`."""
        self._most_of_one = max(octets, 2 * largest) // 2
        self._requests_of: dict[str, int] = {}
        self.requests = Room(2 * self._most_of_one)
        self.answers = Room(octets)

    def enter(self, who: str, octets: int) -> bool:
        """Take room for a request at once, if it is there and `who` has not half of it by then."""
        entered = self._requests_of.get(who, 0) + octets
        if entered > self._most_of_one or not self.requests.take(octets):
            return False
        self._requests_of[who] = entered
        return True

    def leave(self, who: str, octets: int) -> None:
        """Give back what `who` took for a request."""
        self.requests.give(octets)
        self._requests_of[who] -= octets
        if not self._requests_of[who]:
            del self._requests_of[who]


class Share:
    """What one request has taken, with all that it led to; it gives everything back at its end.

    That is once the request has ended and whatever else has joined.
    """

    def __init__(self, rooms: Rooms, who: str = "") -> None:
        """`who` asks."""
        self._rooms = rooms
        self.answers = rooms.answers
        self.who = who
        self.over = False
        self._holders = 1
        self._taken = 0
        self._held = 0

    def covers(self, octets: int) -> bool:
        """Whether there is room for a message of which `octets` are here; they are taken if so."""
        lacking = octets - self._taken
        if octets <= FREE or lacking <= 0:
            return True
        if not self._rooms.enter(self.who, lacking):
            return False
        self._taken += lacking
        return True

    def hold(self, octets: int) -> None:
        """Answer for `octets` of an answer, taken already; after the end they go back at once."""
        if self.over:
            self.answers.give(octets)
        else:
            self._held += octets

    def let_go(self) -> None:
        """Give back what earlier answers hold: the next one is about to be waited for."""
        if self._held:
            self.answers.give(self._held)
            self._held = 0

    def join(self) -> None:
        """Keep what is taken until one more has come to its end: what goes on without whoever asked."""
        self._holders += 1

    def end(self) -> None:
        """Give everything back, if nobody else is at it still."""
        self._holders -= 1
        if self._holders:
            return
        self.over = True
        if self._held:
            self.let_go()
        if self._taken:
            self._rooms.leave(self.who, self._taken)
        self._taken = 0


SHARE: ContextVar[Share | None] = ContextVar("share", default=None)
"""Of the request that is being answered; none where the gateway asks for itself."""


class Ends(Protocol):
    """What goes on and ends, as tasks of an event loop do."""

    def add_done_callback(self, done: Callable[[Any], object], /) -> None: ...


def outlasting(task: Ends) -> None:
    """Have the request that is being answered keep its room until `task` is over, which may know all of it."""
    share = SHARE.get()
    if share is not None:
        share.join()
        task.add_done_callback(lambda _: share.end())
