"""What people do with programs that run, wait or hold a token: see which there are, and end one."""

from collections.abc import Sequence
from typing import Protocol

from gateway.admin.journal import Change, Journal
from gateway.admin.person import Person, Role
from gateway.admin.rows import Row, Rows
from gateway.domain.audit import RecordKind
from gateway.domain.scripts import Script, ScriptId
from gateway.errors import Denied, NotFound
from gateway.ports import Clock

_READERS = (Role.APPROVER, Role.ADMIN, Role.AUDITOR)
_ENDERS = (Role.APPROVER, Role.ADMIN)


class Scripts(Protocol):
    """Programs that may still call tools."""

    def live(self, *, now: float) -> Sequence[Script]:
        """Return them, oldest first."""
        ...

    def waits(self, id_: ScriptId) -> bool:
        """Whether one waits for a person."""
        ...

    async def end(self, id_: ScriptId) -> bool: ...


class ScriptDesk:
    def __init__(self, scripts: Scripts, journal: Journal, *, clock: Clock) -> None:
        self._scripts = scripts
        self._journal = journal
        self._clock = clock

    async def list(self, person: Person) -> Rows:
        """Return one row a program that may still call tools, oldest first; nothing of its text.

        Raises:
            Forbidden: The person is neither approver, admin nor auditor.

        """
        person.need(*_READERS)
        now = self._clock()
        return [self._row(script, now) for script in self._scripts.live(now=now)]

    async def revoke(self, person: Person, *, script: str, note: str = "") -> Row:
        """End a program, at once and for good: it is stopped, and its token and grants are void.

        What it has under way is cut off, and recorded as such; of a host's program it comes to its end.

        Raises:
            Forbidden: The person is neither approver nor admin.
            NotFound: There is no such program, or it has ended.

        """
        person.need(*_ENDERS)
        id_ = ScriptId(script)
        live = self._scripts.live(now=self._clock())
        found = next((one for one in live if one.id == id_), None)
        if found is None:
            raise NotFound("no such program, or it has ended; `douane runs programs` lists them")

        async def end() -> None:
            if not await self._scripts.end(id_):
                raise Denied("the program has ended already")

        fields = {
            "run": found.run,
            "parent": found.parent,
            "script_sha256": found.sha256,
        }
        change = Change(
            kind=RecordKind.RUN,
            method="runs.revoke",
            code="revoked",
            subject=script,
            fields={name: said for name, said in fields.items() if said},
            note=note,
        )
        await self._journal.make(person, change, end)
        return {"script": script, "revoked": True}

    def _row(self, script: Script, now: float) -> Row:
        return {
            "script": script.id,
            "principal": script.principal,
            "run": script.run,
            "sha256": script.sha256,
            "waits": self._scripts.waits(script.id),
            "grants": None if script.grants is None else len(script.grants),
            "age_s": round(now - script.began),
            "ends_in_s": round(script.expires_at - now),
        }
