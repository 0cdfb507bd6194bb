"""Stopping everything, and letting it go on."""

from typing import Protocol

from gateway.admin.journal import Change, Journal
from gateway.admin.person import EVERY_ROLE, Person, Role
from gateway.admin.rows import Row, rfc3339
from gateway.domain.audit import RecordKind
from gateway.errors import BadCommand, Denied, NotFound
from gateway.ports import Clock
from gateway.ports.stop import LATER, Standstill


class Stopping(Protocol):
    """See `gateway.storage.stop.Stop`."""

    @property
    def holds(self) -> Standstill | None: ...
    async def put(self, standstill: Standstill) -> None: ...
    async def lift(self, seen: Standstill) -> None:
        """Lift the stop that was `seen`, and no later one, which is `Denied`."""
        ...


class StopDesk:
    """Use cases for whoever may also withdraw an approval. Each is on record before it happens."""

    def __init__(self, stop: Stopping, journal: Journal, *, clock: Clock) -> None:
        self._stop = stop
        self._journal = journal
        self._clock = clock

    async def stop(self, person: Person, *, note: str) -> Row:
        """Refuse every call from now on, also after a restart. A later note takes the place of one.

        Raises:
            Forbidden: The person is neither approver nor admin; so for `go`.
            BadCommand: There is no note; or it holds only until the gateway ends.

        """
        said = _said(person, note)
        standstill = Standstill(by=person.name, at=self._clock(), note=said)
        await self._journal.make(person, _change("stop", said), lambda: self._stop.put(standstill))
        return self.row()

    async def go(self, person: Person, *, standstill: str, note: str) -> Row:
        """Carry calls again, where `standstill` names what holds: the person speaks for no other stop.

        Raises:
            NotFound: Nothing is stopped.
            Denied: It was stopped again since the person looked, and stays so.

        """
        said = _said(person, note)
        held = self._stop.holds
        if held is None:
            raise NotFound("nothing is stopped")

        async def lift() -> None:
            if held.name != standstill:
                raise Denied(LATER)
            await self._stop.lift(held)

        await self._journal.make(person, _change("go", said), lift)
        return self.row()

    async def state(self, person: Person) -> Row:
        """Return who stopped everything, when and why; nothing of it, if calls are carried."""
        person.need(*EVERY_ROLE)
        return self.row()

    def row(self) -> Row:
        """Return `{"stopped", "by", "at", "note", "standstill"}`; the last is what `go` wants to be told."""
        held = self._stop.holds
        if held is None:
            return {"stopped": False, "by": None, "at": None, "note": None, "standstill": None}
        told = {"by": held.by, "at": rfc3339(held.at), "note": held.note, "standstill": held.name}
        return {"stopped": True, **told}


def _said(person: Person, note: str) -> str:
    person.need(Role.APPROVER, Role.ADMIN)
    if not note.strip():
        raise BadCommand("say why, in a note")
    return note


def _change(what: str, note: str) -> Change:
    words = {
        "stop": ("all_stopped", "every call is refused"),
        "go": ("all_go", "calls are carried"),
    }
    code, subject = words[what]
    return Change(
        kind=RecordKind.ADMIN,
        method=f"policy.{what}",
        code=code,
        subject=subject,
        fields={},
        note=note,
    )
