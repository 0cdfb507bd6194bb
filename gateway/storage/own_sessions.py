"""Sessions at the endpoint in front of all servers: those that ended, and what the others hear of."""

import hmac
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from itertools import islice
from typing import Final

from gateway.errors import LimitExceeded
from gateway.ports import Clock
from gateway.storage.state import EVERY, StateWriter, Tables
from gateway.wire.own_session import LONGEST_S

MOST_OF_ONE: Final = 200
"""Subscriptions of one session."""
MOST_OF_PERSON: Final = 2_000
"""Subscriptions of all sessions of one person, with whatever clients: those are made at will."""
MOST: Final = 100_000
"""Subscriptions of all sessions, and sessions that are remembered as ended; of these the oldest go."""
MOST_ENDED_OF_PERSON: Final = MOST // 10
"""Sessions of one person that are remembered as ended: of more their own oldest go, and nobody else's."""
MOST_OCTETS: Final = 32 * 1024**2
"""Bytes of all subscriptions' URIs; one person's are an eighth of them at most."""

_OF_PERSON: Final = 16
"""Octets of a hash that are the person's, before as many that are the session's and its principal's."""
_ENDED: Final = "SELECT session FROM front_sessions_ended ORDER BY ended_at"
_FORGET: Final = "DELETE FROM front_sessions_ended WHERE session = ?"
_SUBSCRIBED: Final = "SELECT session, uri FROM front_subscriptions ORDER BY since"
_HAS_ENDED: Final = "SELECT 1 FROM front_sessions_ended WHERE session = ?"
_SUBSCRIBED_BY: Final = (
    "SELECT session, uri FROM front_subscriptions WHERE session = ? ORDER BY since"
)


class MemorySessionStore:
    """A `SessionStore` that forgets at the end. Holds keyed hashes of sessions, never their ids."""

    def __init__(self, key: bytes) -> None:
        self._keyed = hmac.new(key, b"sessions in front\n", digestmod="sha256")
        self._ended: OrderedDict[bytes, None] = OrderedDict()
        self._ended_of: dict[bytes, OrderedDict[bytes, None]] = {}
        """The same by their person, hashed."""
        self._uris: dict[bytes, OrderedDict[str, None]] = {}
        self._held: Counter[bytes] = Counter()
        """Subscriptions by their person, hashed."""
        self._octets: Counter[bytes] = Counter()
        """Bytes of their URIs by their person, hashed."""
        self._filed: dict[bytes, bytes] = {}
        """What is known of a session by its own half: by an earlier version under its client."""

    def has_ended(self, principal: str, session: str) -> bool:
        return self._filed.get(self._named(principal, session)) in self._ended

    def subscribed(self, principal: str, session: str) -> Sequence[str]:
        hashed = self._filed.get(self._named(principal, session), b"")
        return tuple(self._uris.get(hashed, ()))

    async def subscribe(self, principal: str, session: str, uri: str, *, person: str) -> None:
        """Keep a subscription; see `SessionStore`."""
        hashed = self._hashed(principal, session, person)
        self._require_room(hashed, uri)
        self._put(hashed, uri)

    async def unsubscribe(self, principal: str, session: str, uri: str, *, person: str) -> None:
        """Forget a subscription; see `SessionStore`."""
        self._drop(self._hashed(principal, session, person), uri)

    async def end(self, principal: str, session: str, *, person: str) -> None:
        """End a session; see `SessionStore`."""
        self._end(self._hashed(principal, session, person))

    def _hashed(self, principal: str, session: str, person: str) -> bytes:
        named = self._named(principal, session)
        return self._filed.get(named) or self._digest(f"\n{person}")[:_OF_PERSON] + named

    def _named(self, principal: str, session: str) -> bytes:
        # An id has no line feed in it, so no two pairs are one text, and none is a person alone.
        return self._digest(f"{session}\n{principal}")[:_OF_PERSON]

    def _digest(self, text: str) -> bytes:
        keyed = self._keyed.copy()
        keyed.update(text.encode())
        return keyed.digest()

    def _require_room(self, hashed: bytes, uri: str) -> None:
        mine, held = self._uris.get(hashed, ()), self._held[hashed[:_OF_PERSON]]
        full = len(mine) >= MOST_OF_ONE or held >= MOST_OF_PERSON or self._held.total() >= MOST
        octets = _octets(uri)
        full = full or self._octets[hashed[:_OF_PERSON]] + octets > MOST_OCTETS // 8
        full = full or self._octets.total() + octets > MOST_OCTETS
        if full and uri not in mine:
            raise LimitExceeded("too many subscriptions", detail=f"{len(mine)}, {held}")

    def _put(self, hashed: bytes, uri: str) -> None:
        mine = self._uris.setdefault(hashed, OrderedDict())
        if uri not in mine:
            self._held[hashed[:_OF_PERSON]] += 1
            self._octets[hashed[:_OF_PERSON]] += _octets(uri)
        mine[uri] = None
        self._filed[hashed[_OF_PERSON:]] = hashed

    def _drop(self, hashed: bytes, uri: str) -> None:
        mine = self._uris.get(hashed, OrderedDict())
        if uri in mine:
            del mine[uri]
            self._release(hashed, [uri])
        if not mine:
            self._uris.pop(hashed, None)
            if hashed not in self._ended:
                self._filed.pop(hashed[_OF_PERSON:], None)

    def _release(self, hashed: bytes, uris: Collection[str]) -> None:
        person = hashed[:_OF_PERSON]
        self._held[person] -= len(uris)
        self._octets[person] -= sum(map(_octets, uris))
        if not self._held[person]:
            del self._held[person], self._octets[person]

    def _end(self, hashed: bytes) -> None:
        self._release(hashed, self._uris.pop(hashed, ()))
        self._note_ended(hashed)
        for old in self._outgrown(hashed[:_OF_PERSON], MOST_ENDED_OF_PERSON):
            self._forget_ended(old)
        while len(self._ended) > MOST:
            self._forget_ended(next(iter(self._ended)))

    def _note_ended(self, hashed: bytes) -> None:
        self._ended[hashed] = None
        self._filed[hashed[_OF_PERSON:]] = hashed
        self._ended_of.setdefault(hashed[:_OF_PERSON], OrderedDict())[hashed] = None

    def _forget_ended(self, hashed: bytes) -> None:
        self._ended.pop(hashed, None)
        mine = self._ended_of.get(hashed[:_OF_PERSON], OrderedDict())
        mine.pop(hashed, None)
        if not mine:
            self._ended_of.pop(hashed[:_OF_PERSON], None)
        self._filed.pop(hashed[_OF_PERSON:], None)

    def _outgrown(self, person: bytes, most: int) -> list[bytes]:
        """Return which of a person's ended sessions are beyond the newest so many."""
        mine = self._ended_of.get(person, OrderedDict())
        return list(islice(mine, max(0, len(mine) - most)))


class DurableSessionStore(MemorySessionStore):
    """A `SessionStore`. Memory holds what is committed, and nothing else.

    What is older than a session can be is pruned on the way: its session is over in any case.
    """

    kept_in = ("front_sessions_ended", "front_subscriptions")

    def __init__(self, writer: StateWriter, tables: Tables, *, key: bytes, clock: Clock) -> None:
        """Load everything through `tables`, which are not needed afterwards."""
        super().__init__(key)
        self._writer = writer
        self._clock = clock
        self.look(tables, None)()

    def look(self, tables: Tables, keys: Collection[str] | None) -> Callable[[], object]:
        """Show sessions that have ended elsewhere, and what others follow; see `Remembering`."""
        if keys is None:
            ended = [hashed for (hashed,) in tables.execute(_ENDED)]
            return partial(self._take_in, None, ended, tables.execute(_SUBSCRIBED).fetchall())
        mine = [bytes.fromhex(key) for key in sorted(keys)]
        ended = [one for one in mine if tables.execute(_HAS_ENDED, (one,)).fetchone()]
        followed = [row for one in mine for row in tables.execute(_SUBSCRIBED_BY, (one,))]
        return partial(self._take_in, mine, ended, followed)

    def _take_in(
        self,
        keys: Iterable[bytes] | None,
        ended: Iterable[bytes],
        followed: Iterable[tuple[bytes, str]],
    ) -> None:
        for hashed in [*self._ended, *self._uris] if keys is None else keys:
            self._release(hashed, self._uris.pop(hashed, ()))
            self._forget_ended(hashed)
        for hashed in ended:
            self._note_ended(hashed)
        for hashed, uri in followed:
            self._put(hashed, uri)

    async def subscribe(self, principal: str, session: str, uri: str, *, person: str) -> None:
        """Keep a subscription, durable on return; see `SessionStore`."""
        hashed = self._hashed(principal, session, person)
        self._require_room(hashed, uri)
        now = self._clock()

        def job(tables: Tables) -> Sequence[tuple[bytes, str]]:
            tables.execute(
                "INSERT INTO front_subscriptions (session, uri, since) VALUES (?, ?, ?)"
                " ON CONFLICT DO NOTHING",
                (hashed, uri, now),
            )
            return tables.execute(
                "DELETE FROM front_subscriptions WHERE since < ? RETURNING session, uri",
                (now - LONGEST_S,),
            ).fetchall()

        def committed(outlived: Iterable[tuple[bytes, str]]) -> None:
            self._put(hashed, uri)
            for old in outlived:
                self._drop(*old)

        await self._writer.run(job, committed=committed)

    async def unsubscribe(self, principal: str, session: str, uri: str, *, person: str) -> None:
        """Forget a subscription, durably; see `SessionStore`."""
        hashed = self._hashed(principal, session, person)

        def job(tables: Tables) -> None:
            tables.execute(
                "DELETE FROM front_subscriptions WHERE session = ? AND uri = ?", (hashed, uri)
            )

        await self._writer.run(job, committed=lambda _: self._drop(hashed, uri))

    async def end(self, principal: str, session: str, *, person: str) -> None:
        """End a session, durable on return; see `SessionStore`."""
        hashed = self._hashed(principal, session, person)
        now = self._clock()
        gone = self._outgrown(hashed[:_OF_PERSON], MOST_ENDED_OF_PERSON - 1)

        def job(tables: Tables) -> Sequence[tuple[bytes]]:
            tables.executemany(_FORGET, [(old,) for old in gone])
            tables.execute("DELETE FROM front_subscriptions WHERE session = ?", (hashed,))
            tables.execute(
                "INSERT INTO front_sessions_ended (session, ended_at) VALUES (?, ?)"
                " ON CONFLICT DO NOTHING",
                (hashed, now),
            )
            return tables.execute(
                "DELETE FROM front_sessions_ended WHERE ended_at < ? OR session IN (SELECT session"  # noqa: S608
                f" FROM front_sessions_ended ORDER BY ended_at DESC LIMIT {EVERY} OFFSET ?)"
                " RETURNING session",
                (now - LONGEST_S, MOST),
            ).fetchall()

        def committed(outlived: Iterable[tuple[bytes]]) -> None:
            self._end(hashed)
            for (old,) in outlived:
                self._forget_ended(old)

        await self._writer.run(job, committed=committed)


def _octets(uri: str) -> int:
    return len(uri.encode("utf-8", "surrogatepass"))
