"""Calls whose answer is late: in a database, read from memory; what they were called with is sealed."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any, Final

import msgspec
import orjson

from gateway.domain.flow import RunId
from gateway.domain.late import LateCall, LateId, Progress
from gateway.domain.tools import UpstreamId
from gateway.errors import LimitExceeded
from gateway.ports.secrets import Sealer
from gateway.storage.state import StateWriter, Tables

MOST: Final = 20_000
"""Late calls of everybody, open or ended, that are kept."""
MOST_OCTETS: Final = 64 * 1024**2
"""Bytes of what they were all called with, and of the names of what they were asked."""
SHARE: Final = 4 * 1024**2
"""Bytes of those that one person may hold, with whatever clients: those are made at will."""
MOST_ENDED: Final = 1_000
"""Ended ones of one person: of more their oldest are forgotten."""

_ALL: Final = "SELECT id, progress, sealed FROM late_calls ORDER BY expires_at"
_ONE: Final = "SELECT id, progress, sealed FROM late_calls WHERE id = ?"
_BEGIN: Final = (
    "INSERT INTO late_calls (id, decision_id, expires_at, progress, sealed) VALUES (?, ?, ?, ?, ?)"
)
_FORGET: Final = "DELETE FROM late_calls WHERE id = ?"
_READ: Final = "SELECT progress FROM late_calls WHERE id = ?"
_CHANGE: Final = "UPDATE late_calls SET progress = ? WHERE id = ?"
_progress: Final = msgspec.json.Decoder(Progress).decode


class _Held:
    """What one person has of them."""

    def __init__(self) -> None:
        self.calls: dict[LateId, LateCall] = {}
        self.open = 0
        self.octets = 0
        self.over = 0
        """Bytes of those that have ended, and are on record: they make way for others."""

    def count(self, late: LateCall, sign: int) -> None:
        octets = late.weight
        self.octets += sign * octets
        self.open += sign * (not late.progress.has_ended)
        self.over += sign * octets * late.progress.recorded

    def size(self) -> int:
        """Return how much of the whole room is theirs, in bytes: small ones take room, too."""
        return self.octets + MOST_OCTETS // MOST * len(self.calls)

    @property
    def ended(self) -> list[LateCall]:
        """Those that make way for others, oldest first."""
        over = (one for one in self.calls.values() if one.progress.recorded)
        return sorted(over, key=lambda one: one.began)

    def surplus(self, octets: int) -> list[LateCall]:
        """Return those that make way for one of `octets` bytes within its share."""
        ended = self.ended
        return _oldest(ended, len(ended) + 1 - MOST_ENDED, self.octets + octets - SHARE)


def _oldest(ended: Iterable[LateCall], number: int, octets: int) -> list[LateCall]:
    """Return the first of `ended`: at least so many, of at least so many bytes, if there are."""
    gone: list[LateCall] = []
    for one in ended:
        if len(gone) >= number and octets <= 0:
            break
        gone.append(one)
        octets -= one.weight
    return gone


class LateBook:
    """What of late calls is in memory, and how many there may be."""

    def __init__(self, most_open: Callable[[], int]) -> None:
        """`most_open` gives how many of one person's may be open."""
        self._most_open = most_open
        self._calls: dict[LateId, LateCall] = {}
        self.find = self._calls.get
        self._held: dict[str, _Held] = {}
        self._octets = 0

    def ids(self) -> Sequence[LateId]:
        return list(self._calls)

    def has_room(self, person: str, octets: int) -> bool:
        """Whether one more of this person's can be kept, with whatever client, of `octets` bytes."""
        held = self._held.get(person, _Held())
        if held.open >= self._most_open() or held.octets - held.over + octets > SHARE:
            return False
        is_full = max(self._lacking((), octets)) > 0
        return not is_full or max(self._lacking(self._leaving(person, octets), octets)) <= 0

    def _lacking(self, gone: Collection[LateCall], octets: int) -> tuple[int, int]:
        """Return how many too many there would be without `gone`, and how many bytes of them."""
        freed = sum(one.weight for one in gone)
        return len(self._calls) - len(gone) + 1 - MOST, self._octets - freed + octets - MOST_OCTETS

    def _leaving(self, person: str, octets: int) -> list[LateCall]:
        """Return those that make way for one of `person`'s: theirs, then of whoever holds most."""
        gone = self._held.get(person, _Held()).surplus(octets)
        number, beyond = self._lacking(gone, octets)
        if max(number, beyond) > 0:
            left = {one.id for one in gone}
            most = sorted(self._held.values(), key=_Held.size, reverse=True)
            ended = (one for held in most for one in held.ended if one.id not in left)
            gone += _oldest(ended, number, beyond)
        return gone

    def unsettled(self, *, now: float) -> Sequence[LateCall]:
        """Return those whose time has passed and whose end nobody saw, or has on record."""
        return [
            one
            for one in self._calls.values()
            if (one.progress.has_ended and not one.progress.recorded)
            or (not one.progress.has_ended and one.expires_at <= now)
        ]

    def outlived(self, before: float) -> list[LateId]:
        """Return those that ran out before then, and are on record."""
        return [
            one.id
            for one in self._calls.values()
            if one.expires_at < before and one.progress.recorded
        ]

    def surplus(self, late: LateCall) -> list[LateId]:
        """Return the ended ones that make way for `late`."""
        return [one.id for one in self._leaving(late.person, late.weight)]

    def require_room(self, late: LateCall) -> None:
        """Return if `late` can be kept.

        Raises:
            LimitExceeded: It cannot.

        """
        if not self.has_room(late.person, late.weight):
            raise LimitExceeded("too many tasks are open: wait until one has ended, or cancel one")

    def keep(self, late: LateCall) -> None:
        self.drop([late.id])
        self._calls[late.id] = late
        held = self._held.setdefault(late.person, _Held())
        held.calls[late.id] = late
        held.count(late, 1)
        self._octets += late.weight

    def drop(self, ids: Iterable[LateId]) -> None:
        for id_ in ids:
            late = self._calls.pop(id_, None)
            if late is None:
                continue
            held = self._held[late.person]
            del held.calls[id_]
            held.count(late, -1)
            self._octets -= late.weight
            if not held.calls:
                del self._held[late.person]


class DurableLateCalls:
    """A `LateCalls`. Memory holds what is committed, and nothing else."""

    kept_in = ("late_calls",)

    def __init__(
        self,
        writer: StateWriter,
        tables: Tables,
        sealer: Sealer,
        most_open: Callable[[], int],
    ) -> None:
        """Load every late call through `tables`, which are not needed afterwards.

        Raises:
            Unsealable: One was sealed by another key.

        """
        self._writer = writer
        self._sealer = sealer
        self._book = LateBook(most_open)
        self.find = self._book.find
        self.has_room = self._book.has_room
        self.unsettled = self._book.unsettled
        self.look(tables, None)()

    def look(self, tables: Tables, keys: Collection[str] | None) -> Callable[[], object]:
        """Show calls that others have begun, changed or forgotten; see `Remembering`."""
        if keys is None:
            found = [self._opened(row) for row in tables.execute(_ALL)]
            return partial(self._take_in, None, found)
        found = [self._opened(row) for key in sorted(keys) for row in tables.execute(_ONE, (key,))]
        return partial(self._take_in, frozenset(keys), found)

    async def begin(self, late: LateCall) -> None:
        """Keep a call whose answer is late, durable on return; see `LateCalls`."""
        self._book.require_room(late)
        gone = self._book.surplus(late)
        sealed = self._sealer.seal(_spelled(late), _row(late.id))
        decision, progress = late.decision["id"], _spelled_progress(late.progress)

        def job(tables: Tables) -> None:
            tables.executemany(_FORGET, [(id_,) for id_ in gone])
            tables.execute(_BEGIN, (late.id, decision, late.expires_at, progress, sealed))

        def committed(_: None) -> None:
            self._book.drop(gone)
            self._book.keep(late)

        await self._writer.run(job, committed=committed)

    async def change(self, id_: LateId, step: Callable[[Progress], Progress]) -> Progress | None:
        """Make `step` of what became of it, durable on return; see `LateCalls`."""
        late = self._book.find(id_)
        if late is None or step(late.progress) == late.progress:
            return None if late is None else late.progress

        def job(tables: Tables) -> tuple[Progress, Progress] | None:
            # What memory shows may be changed already by a change whose commit is under way.
            found = tables.execute(_READ, (id_,)).fetchone()
            if found is None:
                return None
            before = _progress(found[0])
            after = step(before)
            tables.execute(_CHANGE, (_spelled_progress(after), id_))
            return before, after

        def committed(changed: tuple[Progress, Progress] | None) -> None:
            known = self._book.find(id_)
            if changed is not None and known is not None:
                self._book.keep(replace(known, progress=changed[1]))

        changed = await self._writer.run(job, committed=committed)
        return None if changed is None else changed[0]

    async def forget(self, *, before: float) -> int:
        """Forget what ran out before then, durable on return; see `LateCalls`."""
        gone = self._book.outlived(before)
        if not gone:
            return 0

        def job(tables: Tables) -> None:
            tables.executemany(_FORGET, [(id_,) for id_ in gone])

        await self._writer.run(job, committed=lambda _: self._book.drop(gone))
        return len(gone)

    def _opened(self, row: tuple[str, str, str]) -> LateCall:
        id_, progress, sealed = row
        late = _late(self._sealer.open(sealed, _row(id_)))
        return replace(late, progress=_progress(progress))

    def _take_in(self, keys: Collection[str] | None, found: Iterable[LateCall]) -> None:
        self._book.drop(self._book.ids() if keys is None else map(LateId, keys))
        for late in found:
            self._book.keep(late)


def _row(id_: str) -> str:
    return f"late_calls:{id_}:sealed"


def _spelled(late: LateCall) -> bytes:
    kept = {name: inner for name, inner in asdict(late).items() if name != "progress"}
    return orjson.dumps(kept)


def _late(spelled: bytes) -> LateCall:
    content: dict[str, Any] = orjson.loads(spelled)
    return LateCall(
        **{
            **content,
            "id": LateId(content["id"]),
            "person": content.get("person", content["principal"]),  # an earlier version had none
            "server": UpstreamId(content["server"]),
            "run": RunId(content["run"]),
            "record": str(content["record"]),  # an earlier version noted where it stands
            "restored": tuple(map(tuple, content.get("restored", ()))),  # and of tokens nothing
        }
    )


def _spelled_progress(progress: Progress) -> str:
    return msgspec.json.encode(progress).decode()
