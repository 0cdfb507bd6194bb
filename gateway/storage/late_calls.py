"""Calls whose answer is late: in SQLite, read from memory; what they were called with is sealed."""

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from typing import Any, Final

import orjson

from gateway.domain.flow import RunId
from gateway.domain.late import LateCall, LateId, Progress, Stage
from gateway.domain.tools import UpstreamId
from gateway.errors import LimitExceeded
from gateway.ports.secrets import Sealer
from gateway.storage.writer import Writer

MOST: Final = 20_000
"""Late calls of everybody, open or ended, that are kept."""
MOST_OCTETS: Final = 64 * 1024**2
"""Bytes of what they were all called with."""
MOST_ENDED: Final = 1_000
"""Ended ones of one principal: of more its oldest are forgotten."""

_ALL: Final = "SELECT id, progress, sealed FROM late_calls ORDER BY expires_at"
_BEGIN: Final = (
    "INSERT INTO late_calls (id, decision_id, expires_at, progress, sealed) VALUES (?, ?, ?, ?, ?)"
)
_FORGET: Final = "DELETE FROM late_calls WHERE id = ?"


class LateBook:
    """What of late calls is in memory, and how many there may be."""

    def __init__(self, most_open: Callable[[], int]) -> None:
        """`most_open` gives how many of one principal's may be open."""
        self._most_open = most_open
        self._calls: dict[LateId, LateCall] = {}
        self._open: Counter[str] = Counter()
        self._octets = 0

    def find(self, id_: LateId) -> LateCall | None:
        return self._calls.get(id_)

    def has_room(self, principal: str) -> bool:
        """Whether one more of this principal's can be kept."""
        full = len(self._calls) >= MOST or self._octets >= MOST_OCTETS
        return not full and self._open[principal] < self._most_open()

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

    def surplus(self, principal: str) -> list[LateId]:
        """Return the oldest ended ones of a principal who has very many."""
        mine = [
            one
            for one in self._calls.values()
            if one.principal == principal and one.progress.recorded
        ]
        mine.sort(key=lambda one: one.began)
        return [one.id for one in mine[: max(0, len(mine) + 1 - MOST_ENDED)]]

    def require_room(self, late: LateCall) -> None:
        """Return if `late` can be kept.

        Raises:
            LimitExceeded: It cannot.

        """
        if not self.has_room(late.principal) or self._octets + late.octets > MOST_OCTETS:
            raise LimitExceeded("too many tasks are open: wait until one has ended, or cancel one")

    def keep(self, late: LateCall) -> None:
        self.drop([late.id])
        self._calls[late.id] = late
        self._octets += late.octets
        if not late.progress.has_ended:
            self._open[late.principal] += 1

    def drop(self, ids: Iterable[LateId]) -> None:
        for id_ in ids:
            late = self._calls.pop(id_, None)
            if late is None:
                continue
            self._octets -= late.octets
            if not late.progress.has_ended:
                self._open[late.principal] -= 1
                if not self._open[late.principal]:
                    del self._open[late.principal]


class MemoryLateCalls:
    """A `LateCalls` that forgets at the end."""

    def __init__(self, most_open: int = 100) -> None:
        self._book = LateBook(lambda: most_open)
        self.find = self._book.find
        self.has_room = self._book.has_room
        self.unsettled = self._book.unsettled

    async def begin(self, late: LateCall) -> None:
        """Keep a call whose answer is late; see `LateCalls`."""
        self._book.require_room(late)
        self._book.drop(self._book.surplus(late.principal))
        self._book.keep(late)

    async def change(self, id_: LateId, step: Callable[[Progress], Progress]) -> Progress | None:
        """Make `step` of what became of it; see `LateCalls`."""
        late = self._book.find(id_)
        if late is None:
            return None
        self._book.keep(replace(late, progress=step(late.progress)))
        return late.progress

    async def forget(self, *, before: float) -> int:
        """Forget what ran out before then; see `LateCalls`."""
        gone = self._book.outlived(before)
        self._book.drop(gone)
        return len(gone)


class SqliteLateCalls:
    """A `LateCalls`. Memory holds what is committed, and nothing else."""

    def __init__(
        self,
        writer: Writer,
        connection: sqlite3.Connection,
        sealer: Sealer,
        most_open: Callable[[], int],
    ) -> None:
        """Load every late call through `connection`, which is not needed afterwards.

        Raises:
            Unsealable: One was sealed by another key.

        """
        self._writer = writer
        self._sealer = sealer
        self._book = LateBook(most_open)
        self.find = self._book.find
        self.has_room = self._book.has_room
        self.unsettled = self._book.unsettled
        for id_, progress, sealed in connection.execute(_ALL):
            late = _late(sealer.open(sealed, _row(id_)))
            self._book.keep(replace(late, progress=_progress(progress)))

    async def begin(self, late: LateCall) -> None:
        """Keep a call whose answer is late, durable on return; see `LateCalls`."""
        self._book.require_room(late)
        gone = self._book.surplus(late.principal)
        sealed = self._sealer.seal(_spelled(late), _row(late.id))
        decision, progress = late.decision["id"], _spelled_progress(late.progress)

        def job(connection: sqlite3.Connection) -> None:
            connection.executemany(_FORGET, [(id_,) for id_ in gone])
            connection.execute(_BEGIN, (late.id, decision, late.expires_at, progress, sealed))

        def committed(_: None) -> None:
            self._book.drop(gone)
            self._book.keep(late)

        await self._writer.run(job, committed=committed)

    async def change(self, id_: LateId, step: Callable[[Progress], Progress]) -> Progress | None:
        """Make `step` of what became of it, durable on return; see `LateCalls`."""
        late = self._book.find(id_)
        if late is None or step(late.progress) == late.progress:
            return None if late is None else late.progress

        def job(connection: sqlite3.Connection) -> tuple[Progress, Progress] | None:
            # What memory shows may be changed already by a change whose commit is under way.
            found = connection.execute(
                "SELECT progress FROM late_calls WHERE id = ?", (id_,)
            ).fetchone()
            if found is None:
                return None
            before = _progress(found[0])
            after = step(before)
            connection.execute(
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

        def job(connection: sqlite3.Connection) -> None:
            connection.executemany(_FORGET, [(id_,) for id_ in gone])

        await self._writer.run(job, committed=lambda _: self._book.drop(gone))
        return len(gone)


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
        }
    )


def _spelled_progress(progress: Progress) -> str:
    return orjson.dumps(asdict(progress)).decode()


def _progress(spelled: str) -> Progress:
    content: dict[str, Any] = orjson.loads(spelled)
    return Progress(
        **{
            **content,
            "stage": Stage(content["stage"]),
            "asked": tuple(content["asked"]),
            "answered": tuple(content["answered"]),
        }
    )
