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
"""Bytes of those that one principal may hold."""
MOST_ENDED: Final = 1_000
"""Ended ones of one principal: of more its oldest are forgotten."""

_ALL: Final = "SELECT id, progress, sealed FROM late_calls ORDER BY expires_at"
_ONE: Final = "SELECT id, progress, sealed FROM late_calls WHERE id = ?"
_BEGIN: Final = (
    "INSERT INTO late_calls (id, decision_id, expires_at, progress, sealed) VALUES (?, ?, ?, ?, ?)"
)
_FORGET: Final = "DELETE FROM late_calls WHERE id = ?"


class _Held:
    """What one principal has of them."""

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

    def surplus(self, octets: int) -> list[LateCall]:
        """Return the oldest ended ones that make way for one of `octets` bytes."""
        over = sorted(
            (one for one in self.calls.values() if one.progress.recorded),
            key=lambda one: one.began,
        )
        number, beyond = len(over) + 1 - MOST_ENDED, self.octets + octets - SHARE
        gone: list[LateCall] = []
        for one in over:
            if len(gone) >= number and beyond <= 0:
                break
            gone.append(one)
            beyond -= one.weight
        return gone


class LateBook:
    """What of late calls is in memory, and how many there may be."""

    def __init__(self, most_open: Callable[[], int]) -> None:
        """`most_open` gives how many of one principal's may be open."""
        self._most_open = most_open
        self._calls: dict[LateId, LateCall] = {}
        self._held: dict[str, _Held] = {}
        self._octets = 0

    def find(self, id_: LateId) -> LateCall | None:
        return self._calls.get(id_)

    def ids(self) -> Sequence[LateId]:
        return list(self._calls)

    def has_room(self, principal: str, octets: int) -> bool:
        """Whether one more of this principal's can be kept, of `octets` bytes."""
        held = self._held.get(principal, _Held())
        if held.open >= self._most_open() or held.octets - held.over + octets > SHARE:
            return False
        if len(self._calls) < MOST and self._octets + octets <= MOST_OCTETS:
            return True
        gone = held.surplus(octets)
        freed = sum(one.weight for one in gone)
        return len(self._calls) - len(gone) < MOST and self._octets - freed + octets <= MOST_OCTETS

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
        """Return the oldest ended ones of its principal, which make way for `late`."""
        held = self._held.get(late.principal)
        return [] if held is None else [one.id for one in held.surplus(late.weight)]

    def require_room(self, late: LateCall) -> None:
        """Return if `late` can be kept.

        Raises:
            LimitExceeded: It cannot.

        """
        if not self.has_room(late.principal, late.weight):
            raise LimitExceeded("too many tasks are open: wait until one has ended, or cancel one")

    def keep(self, late: LateCall) -> None:
        self.drop([late.id])
        self._calls[late.id] = late
        held = self._held.setdefault(late.principal, _Held())
        held.calls[late.id] = late
        held.count(late, 1)
        self._octets += late.weight

    def drop(self, ids: Iterable[LateId]) -> None:
        for id_ in ids:
            late = self._calls.pop(id_, None)
            if late is None:
                continue
            held = self._held[late.principal]
            del held.calls[id_]
            held.count(late, -1)
            self._octets -= late.weight
            if not held.calls:
                del self._held[late.principal]


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
            found = tables.execute(
                "SELECT progress FROM late_calls WHERE id = ?", (id_,)
            ).fetchone()
            if found is None:
                return None
            before = _progress(found[0])
            after = step(before)
            tables.execute(
                "UPDATE late_calls SET progress = ? WHERE id = ?", (_spelled_progress(after), id_)
            )
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
            "server": UpstreamId(content["server"]),
            "run": RunId(content["run"]),
            "record": str(content["record"]),  # an earlier version noted where it stands
            "restored": tuple(map(tuple, content.get("restored", ()))),  # and of tokens nothing
        }
    )


def _spelled_progress(progress: Progress) -> str:
    return msgspec.json.encode(progress).decode()


def _progress(spelled: str) -> Progress:
    return msgspec.json.decode(spelled, type=Progress)
