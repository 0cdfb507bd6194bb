"""Programs in a database: what they may call and have used up, and those that wait; sealed."""

from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from heapq import heapify, heappop, heappush
from typing import Final

import msgspec

from gateway.domain.nodes import marks_in
from gateway.domain.scripts import (
    MOST,
    MOST_OCTETS,
    MOST_OF_ONE,
    SHARE,
    Script,
    ScriptId,
    ended_by,
)
from gateway.errors import RateLimited
from gateway.ports.scripts import Parked
from gateway.ports.secrets import Sealer
from gateway.storage.state import StateWriter, Tables

_ALL: Final = "SELECT id, sealed FROM scripts WHERE NOT ended"
_ONE: Final = f"{_ALL} AND id = ?"
_PARKED: Final = "SELECT script, length(sealed) * 3 / 4 FROM parked_scripts"
"""With about how many bytes each holds."""
_BEGIN: Final = (
    "INSERT INTO scripts (id, principal, most, used, began, expires_at, ended, sealed)"
    " VALUES (?, ?, ?, 0, ?, ?, false, ?)"
)
_LIVE: Final = (
    "SELECT 1 FROM scripts WHERE id = ? AND NOT ended AND expires_at > ?"
    " AND (most IS NULL OR used < most)"
)
_GRANT: Final = "INSERT INTO script_grants (script, place, most, used) VALUES (?, ?, ?, 0)"
_GRANTED: Final = "SELECT 1 FROM script_grants WHERE script = ? AND place = ? AND used < most"
_USE: Final = "UPDATE script_grants SET used = used + 1 WHERE script = ? AND place = ?"
_END: Final = "UPDATE scripts SET ended = true, sealed = '' WHERE id = ? AND NOT ended"
"""What it might do is of no use any more; its number is, to whoever ends it again."""
_OVER: Final = "expires_at <= ? AND NOT ended"
_UNPARK_OVER: Final = (
    f"DELETE FROM parked_scripts WHERE script IN (SELECT id FROM scripts WHERE {_OVER})"  # noqa: S608
)
_END_OVER: Final = f"UPDATE scripts SET ended = true, sealed = '' WHERE {_OVER}"  # noqa: S608
_PARK: Final = (
    "INSERT INTO parked_scripts (script, sealed) SELECT id, ? FROM scripts"
    " WHERE id = ? AND NOT ended ON CONFLICT (script) DO UPDATE SET sealed = excluded.sealed"
)
_TAKEN_OUT: Final = "DELETE FROM parked_scripts WHERE script = ? RETURNING sealed"
_KEEP_S: Final = 24 * 3600.0
"""For how long a program that has run out is kept: who revokes it late is told that it ended."""
_MARK: Final = 64
"""Bytes that a value in memory takes beside its letters."""
_ENDS: Final = 256
"""Of those that have ended before they ran out, so many are kept in the order of what runs out."""


class DurableScriptStore:
    """A `ScriptStore`. Memory holds who may still call; the counts are the database's alone.

    So is what programs hold that wait: it can be large.
    """

    kept_in = ("scripts", "parked_scripts")

    def __init__(self, writer: StateWriter, tables: Tables, sealer: Sealer) -> None:
        """Load every program that has not ended through `tables`, not needed afterwards.

        Raises:
            Unsealable: One was sealed by another key.

        """
        self._writer = writer
        self._sealer = sealer
        self._watch = ScriptWatch()
        self._live: OrderedDict[ScriptId, Script] = OrderedDict()
        self._weights: dict[ScriptId, int] = {}
        """About how many bytes each of them takes."""
        self._of_person: Counter[str] = Counter()
        """How many of them each has."""
        self._octets_of: Counter[str] = Counter()
        """How many bytes they take together."""
        self._octets = 0
        self._ends: list[tuple[float, ScriptId]] = []
        """When they run out, first ones first: also of some that have ended before."""
        self._waiting: dict[ScriptId, int] = {}
        """Those that wait, and about how many bytes they hold."""
        self.look(tables, None)()

    def look(self, tables: Tables, keys: Collection[str] | None) -> Callable[[], object]:
        """Show programs that others have begun, parked or ended; see `Remembering`."""
        if keys is None:
            return partial(self._only, *self._read(tables))
        live, waiting = list[Script](), dict[str, int]()
        for key in sorted(keys):
            live += [self._opened(row) for row in tables.execute(_ONE, (key,))]
            waiting |= dict(tables.execute(f"{_PARKED} WHERE script = ?", (key,)))
        return partial(self._take_in, frozenset(keys), live, waiting)

    async def begin(self, script: Script) -> None:
        """File a program, durable on return; what has run out is ended, and long after it forgotten.

        Raises:
            RateLimited: There are too many, or they take too much.

        """
        granted = [(script.id, place, one.most) for place, one in enumerate(script.grants or ())]
        self._run_out(script.began)
        self._require_room(script.whose, _weight(script))

        def job(tables: Tables) -> None:
            # In the writer's thread, as what waits is.
            sealed = self._sealer.seal(msgspec.json.encode(script), _row(script.id))
            stale = (script.began - _KEEP_S,)
            tables.execute("DELETE FROM scripts WHERE expires_at <= ?", stale)
            # By time: what was dropped for a program that was refused then, or not written, is not forgotten.
            tables.execute(_UNPARK_OVER, (script.began,))
            tables.execute(_END_OVER, (script.began,))
            id_, until = script.id, script.expires_at
            row = (id_, script.principal, script.most, script.began, until, sealed)
            tables.execute(_BEGIN, row)
            tables.executemany(_GRANT, granted)

        await self._writer.run(job, committed=lambda _: self._keep(script))

    def find(self, id_: ScriptId, *, now: float) -> Script | None:
        script = self._live.get(id_)
        return script if script is not None and now < script.expires_at else None

    def live(self, *, now: float) -> Sequence[Script]:
        found = [one for one in self._live.values() if now < one.expires_at]
        return sorted(found, key=lambda one: one.began)

    def waits(self, id_: ScriptId) -> bool:
        return id_ in self._waiting

    def watched(self, id_: ScriptId, ended: Callable[[], object]) -> AbstractContextManager[None]:
        return self._watch.of(id_, ended)

    async def take(self, id_: ScriptId, grant: int | None, *, now: float) -> bool:
        """Use up one call, of the program and of its grant; see `ScriptStore`."""
        return await self._writer.run(partial(taken, id_=id_, grant=grant, now=now))

    async def end(self, id_: ScriptId) -> bool:
        """End a program, durable on return; see `ScriptStore`."""

        def job(tables: Tables) -> bool:
            return _ended(tables, id_)

        def committed(_: bool) -> None:
            self._drop(id_)
            self._watch.tell(id_)

        return await self._writer.run(job, committed=committed)

    async def park(self, parked: Parked) -> None:
        """Keep a program until a person has answered, durable on return; see `ScriptStore`."""
        id_ = parked.script.id
        live, octets = self._live, len(parked.snapshot)
        waiting = [(live[one], held) for one, held in self._waiting.items() if one in live]
        over = ended_by(parked.script, octets, waiting)

        def job(tables: Tables) -> bool:
            # In the writer's thread, as opening is: it can be much.
            sealed = self._sealer.seal(parked.snapshot, _parked_row(id_))
            if tables.execute(_PARK, (sealed, id_)).rowcount < 1:
                return False
            for one in over:
                _ended(tables, one)
            return True

        def committed(waits: bool) -> None:
            if not waits:
                return
            for one in over:
                self._drop(one)
            self._waiting[id_] = octets

        await self._writer.run(job, committed=committed)

    async def unpark(self, id_: ScriptId, principal: str, *, now: float) -> Parked | None:
        """Take a waiting program out again, once; see `ScriptStore`.

        Raises:
            Unsealable: What it holds was sealed by another key.

        """
        script = self.find(id_, now=now)
        if script is None or script.principal != principal:
            return None

        def job(tables: Tables) -> bytes | None:
            found = tables.execute(_TAKEN_OUT, (id_,)).fetchone()
            return None if found is None else self._sealer.open(found[0], _parked_row(id_))

        def committed(_: bytes | None) -> None:
            self._waiting.pop(id_, None)

        snapshot = await self._writer.run(job, committed=committed)
        return None if snapshot is None else Parked(script=script, snapshot=snapshot)

    def _read(self, tables: Tables) -> tuple[list[Script], Mapping[str, int]]:
        live = [self._opened(row) for row in tables.execute(_ALL)]
        return live, dict(tables.execute(_PARKED))

    def _opened(self, row: tuple[str, str]) -> Script:
        id_, sealed = row
        return msgspec.json.decode(self._sealer.open(sealed, _row(id_)), type=Script)

    def _only(self, live: Sequence[Script], waiting: Mapping[str, int]) -> None:
        self._take_in(frozenset(self._live), live, waiting)

    def _take_in(
        self, keys: Collection[str], live: Sequence[Script], waiting: Mapping[str, int]
    ) -> None:
        found = {one.id: one for one in live}
        for id_ in map(ScriptId, keys):
            if self._drop(id_) and id_ not in found:
                self._watch.tell(id_)
        for one in live:
            self._keep(one)
        self._waiting |= {id_: waiting[id_] for id_ in found if id_ in waiting}

    def _keep(self, script: Script) -> None:
        # What others have changed is kept once more.
        if script.id not in self._live:
            self._weights[script.id] = octets = _weight(script)
            self._count(script.whose, 1, octets)
            heappush(self._ends, (script.expires_at, script.id))
        self._live[script.id] = script

    def _drop(self, id_: ScriptId) -> bool:
        self._waiting.pop(id_, None)
        script = self._live.pop(id_, None)
        if script is None:
            return False
        self._count(script.whose, -1, -self._weights.pop(id_))
        if len(self._ends) > 2 * len(self._live) + _ENDS:
            self._ends = [(one.expires_at, one.id) for one in self._live.values()]
            heapify(self._ends)
        return True

    def _count(self, whose: str, number: int, octets: int) -> None:
        self._octets += octets
        self._octets_of[whose] += octets
        self._of_person[whose] += number
        if not self._of_person[whose]:
            del self._of_person[whose], self._octets_of[whose]

    def _run_out(self, now: float) -> None:
        """Drop what has run out by `now`."""
        while self._ends and self._ends[0][0] <= now:
            self._drop(heappop(self._ends)[1])

    def _require_room(self, whose: str, octets: int) -> None:
        """Return if one more of `whose` can be kept, of `octets` bytes.

        Raises:
            RateLimited: It cannot.

        """
        own = self._of_person[whose] >= MOST_OF_ONE or self._octets_of[whose] + octets > SHARE
        if own or len(self._live) >= MOST or self._octets + octets > MOST_OCTETS:
            raise RateLimited(
                "too many programs run or wait: end one, or revoke its token, or wait"
            )


def taken(tables: Tables, id_: ScriptId, grant: int | None, *, now: float) -> bool:
    """Use up one call of a program and of its grant within a transaction, if there is one left."""
    if tables.execute(_LIVE, (id_, now)).fetchone() is None:
        return False
    if grant is not None:
        if tables.execute(_GRANTED, (id_, grant)).fetchone() is None:
            return False
        tables.execute(_USE, (id_, grant))
    tables.execute("UPDATE scripts SET used = used + 1 WHERE id = ?", (id_,))
    return True


def _ended(tables: Tables, id_: ScriptId) -> bool:
    tables.execute("DELETE FROM parked_scripts WHERE script = ?", (id_,))
    return tables.execute(_END, (id_,)).rowcount > 0


def _weight(script: Script) -> int:
    """Return about how many bytes are kept of it: what its grants say is most of that."""
    spelled = msgspec.json.encode(script)
    return len(spelled) + _MARK * marks_in(spelled)


def _row(id_: str) -> str:
    return f"scripts:{id_}:sealed"


def _parked_row(id_: str) -> str:
    return f"parked_scripts:{id_}:sealed"


class ScriptWatch:
    """Calls whoever runs a program when somebody ends it. Of one event loop."""

    def __init__(self) -> None:
        self._ended: dict[ScriptId, Callable[[], object]] = {}

    @contextmanager
    def of(self, id_: ScriptId, ended: Callable[[], object]) -> Iterator[None]:
        """Have `ended` called for as long as the context lasts."""
        self._ended[id_] = ended
        try:
            yield
        finally:
            del self._ended[id_]

    def tell(self, id_: ScriptId) -> None:
        """Say that a program was ended."""
        ended = self._ended.get(id_)
        if ended is not None:
            ended()
