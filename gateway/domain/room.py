"""How many bytes of messages may be under way at once, over all requests and answers."""

from collections import Counter, deque
from collections.abc import Callable, Hashable
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

    def add(self, entry: Entry) -> None:
        principals = self._servers.setdefault(entry.whose.server, {})
        principals.setdefault(entry.whose.principal, deque()).append(entry)

    def first(self, may: Callable[[Entry], bool]) -> Entry | None:
        """Return whose turn it is of those that `may` have one; `None` for nobody's."""
        for principals in self._servers.values():
            for entries in principals.values():
                if may(entries[0]):
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
    """So many bytes, handed out and given back; whoever has some of them has half at most. One event loop's.

    Who is slow to take what is here keeps it for as long as they like to be waited for.
    """

    def __init__(self, octets: int = UNDER_WAY) -> None:
        self._octets = octets
        self._taken = 0
        self._taken_by: Counter[str] = Counter()
        self._line = Line()

    @property
    def taken(self) -> int:
        """Bytes that are not given back."""
        return self._taken

    def take(self, octets: int, who: str = "") -> bool:
        """Take `octets` for `who` at once if they are there; one alone may be larger than all the room."""
        if self._next() is not None or not (self._has(octets) and self._may(octets, who)):
            return False
        self._take(octets, who)
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

    def give(self, octets: int, who: str = "") -> None:
        """Give bytes of `who` back; whoever waits is served."""
        self._take(-octets, who)
        if not self._taken_by[who]:
            del self._taken_by[who]
        self._serve()

    def _has(self, octets: int) -> bool:
        return not self._taken or self._taken + octets <= self._octets

    def _may(self, octets: int, who: str) -> bool:
        """Whether so many more are no more than one may have; nobody's are nobody's share."""
        of_one = self._taken_by[who] if who else 0
        return not of_one or of_one + octets <= self._octets // 2

    def _next(self) -> Entry | None:
        """Return what is served next: who has their half waits for themselves, and keeps nobody waiting."""
        return self._line.first(lambda entry: self._may(entry.octets, entry.whose.principal))

    def _take(self, octets: int, who: str) -> None:
        self._taken += octets
        self._taken_by[who] += octets

    def _serve(self) -> None:
        while (entry := self._next()) is not None and self._has(entry.octets):
            self._line.serve(entry)
            self._take(entry.octets, entry.whose.principal)
            entry.taken()


class Rooms:
    """Room for requests, and room for answers.

    They are apart, lest large requests keep each other's answers waiting: whoever waits for an answer
    holds no room for one.
    """

    def __init__(self, octets: int = UNDER_WAY, *, largest: int = 0) -> None:
        """There is room for two requests of `largest` bytes, also if that is more than `octets`."""
        self.requests = Room(max(octets, 2 * largest))
        self.answers = Room(octets)


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
        self.waiting = 0
        """Answers of it that wait for room."""
        self._holders = 1
        self._taken = 0
        self._held = 0

    def covers(self, octets: int) -> bool:
        """Whether there is room for a message of which `octets` are here; they are taken if so."""
        lacking = octets - self._taken
        if octets <= FREE or lacking <= 0:
            return True
        if not self._rooms.requests.take(lacking, self.who):
            return False
        self._taken += lacking
        return True

    def hold(self, octets: int) -> None:
        """Answer for `octets` of an answer, taken already, unless another of the same waits, or it has ended."""
        if self.over or self.waiting:
            self.answers.give(octets, self.who)
        else:
            self._held += octets

    def let_go(self) -> None:
        """Give back what earlier answers hold: the next one is about to be waited for."""
        if self._held:
            self.answers.give(self._held, self.who)
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
            self._rooms.requests.give(self._taken, self.who)
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
