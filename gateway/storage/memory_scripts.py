"""Programs and their budgets in memory."""

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from gateway.domain.scripts import Script, ScriptId, ended_by
from gateway.ports.scripts import Parked
from gateway.storage.script_watch import ScriptWatch


class MemoryScriptStore:
    """A `ScriptStore`."""

    def __init__(self) -> None:
        self._live: dict[ScriptId, Script] = {}
        self._parked: dict[ScriptId, Parked] = {}
        self._watch = ScriptWatch()
        self._used: Counter[tuple[ScriptId, int | None]] = Counter()

    async def begin(self, script: Script) -> None:
        """File a program."""
        self._live[script.id] = script

    def find(self, id_: ScriptId, *, now: float) -> Script | None:
        script = self._live.get(id_)
        return script if script is not None and now < script.expires_at else None

    def live(self, *, now: float) -> Sequence[Script]:
        found = [one for one in self._live.values() if now < one.expires_at]
        return sorted(found, key=lambda one: one.began)

    def waits(self, id_: ScriptId) -> bool:
        return id_ in self._parked

    def watched(self, id_: ScriptId, ended: Callable[[], object]) -> AbstractContextManager[None]:
        return self._watch.of(id_, ended)

    async def take(self, id_: ScriptId, grant: int | None, *, now: float) -> bool:
        """Use up one call, of the program and of its grant; see `ScriptStore`."""
        script = self.find(id_, now=now)
        if script is None or (script.most is not None and self._used[id_, None] >= script.most):
            return False
        if grant is not None:
            grants = script.grants or ()
            if grant >= len(grants) or self._used[id_, grant] >= grants[grant].most:
                return False
            self._used[id_, grant] += 1
        self._used[id_, None] += 1
        return True

    async def end(self, id_: ScriptId) -> bool:
        """End a program; see `ScriptStore`."""
        self._parked.pop(id_, None)
        self._watch.tell(id_)
        return self._live.pop(id_, None) is not None

    async def park(self, parked: Parked) -> None:
        """Keep a program until a person has answered; see `ScriptStore`."""
        if parked.script.id not in self._live:
            return
        for id_ in ended_by(parked.script, (one.script for one in self._parked.values())):
            await self.end(id_)
        self._parked[parked.script.id] = parked

    async def unpark(self, id_: ScriptId, principal: str, *, now: float) -> Parked | None:
        """Take a waiting program out again, once; see `ScriptStore`."""
        found = self._parked.get(id_)
        if found is None or found.script.principal != principal:
            return None
        return self._parked.pop(id_) if now < found.script.expires_at else None
