"""Every change that a person makes is in the audit log before it happens."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from gateway.admin.person import Person
from gateway.domain._value import value
from gateway.domain.audit import AuditRecord, LogEntry, RecordKind
from gateway.errors import BadCommand, GatewayError
from gateway.ports import AuditLog, Clock

T = TypeVar("T")


@value
class Change:
    """What is about to be done, in the words of the audit record."""

    kind: RecordKind
    method: str
    """The command: `pins.approve`."""
    code: str
    """What was done: `approved`."""
    subject: str
    """What it was done to, for people: `mail/tool/send_email (modern)`."""
    fields: Mapping[str, Any]
    note: str = ""
    evidence: tuple[tuple[str, str], ...] = ()
    """What it rests on: codes and messages of further reasons."""


_MOST_TOLD = 8 * 1024
"""Bytes of what a change is of: a record holds that many whatever becomes of them on their way into it.

And characters of each message: what people and servers say at length is not gone through at length.
"""


def require_told(change: Change) -> None:
    """Go on only if a record holds all of what is given to whom: it names no group that is cut out.

    Raises:
        BadCommand: It does not.

    """
    if len(f"{change.subject}{change.note}".encode(errors="replace")) > _MOST_TOLD:
        raise BadCommand("this is more than a record can say; give fewer or shorter names")


async def _its_own(entry: LogEntry) -> int:
    return entry.leaf_index


class Journal:
    """Writes changes down, then makes them."""

    def __init__(
        self,
        log: AuditLog,
        *,
        clock: Clock,
        new_id: Callable[[], str],
        place: Callable[[LogEntry], Awaitable[int]] = _its_own,
    ) -> None:
        """Write to `log`; `place` waits for where a record stands, in a log that many write."""
        self._log = log
        self._place = place
        self._clock = clock
        self._new_id = new_id

    async def make(self, person: Person, change: Change, act: Callable[[], Awaitable[T]]) -> T:
        """Record `change`, then do it. If `act` then refuses, that is recorded as well.

        Raises:
            AuditUnavailable: It could not be recorded, and nothing was changed.

        """
        await self._write(person, change, verdict="allow", code=change.code)
        try:
            return await act()
        except GatewayError as error:
            await self._write(person, change, verdict="deny", code=error.code)
            error.recorded = True
            raise

    async def happened(self, change: Change) -> None:
        """Record what came about by itself, as nobody's act.

        Raises:
            AuditUnavailable: It could not be recorded.

        """
        fields = {
            "method": change.method,
            **change.fields,
            "verdict": "allow",
            "code": change.code,
            "reasons": _reasons(change, change.code),
        }
        await self._append(change.kind, fields)

    async def read(self, person: Person, method: str, what: str) -> LogEntry:
        """Record that somebody is about to read the log; return the record, and where it stands.

        What was durable before it stands before it. In a log that is late it may come to stand later.

        `what` says what they look for, and holds no value of a call but its hash.

        Raises:
            AuditUnavailable: It could not be recorded, so nothing is to be read.

        """
        entry = await self._told(person, method, "read", what)
        return replace(entry, leaf_index=await self._place(entry))

    async def found(self, person: Person, method: str, code: str, what: str) -> None:
        """Record what somebody has found by a use case that changes nothing.

        Raises:
            AuditUnavailable: It could not be recorded.

        """
        await self._told(person, method, code, what)

    async def did(self, person: Person, method: str, code: str, what: str) -> None:
        """Record what somebody has done already, where no log could take it before.

        Raises:
            AuditUnavailable: It could not be recorded.

        """
        await self._told(person, method, code, what)

    async def _told(self, person: Person, method: str, code: str, what: str) -> LogEntry:
        fields = {
            **person.told,
            "method": method,
            "verdict": "allow",
            "code": code,
            "reasons": [{"code": code, "message": what}],
        }
        return await self._append(RecordKind.ADMIN, fields)

    async def refused(self, error: GatewayError, *, endpoint: str, source_ip: str) -> None:
        """Record that somebody showed a credential that is none.

        Raises:
            AuditUnavailable: It could not be recorded.

        """
        fields = {
            "endpoint": endpoint,
            "method": "authenticate",
            "source_ip": source_ip,
            "verdict": "deny",
            "code": error.code,
            "reasons": [{"code": error.code, "message": error.detail or error.public}],
        }
        await self._append(RecordKind.AUTH, fields)
        error.recorded = True

    async def forbidden(self, person: Person, command: str, error: GatewayError) -> None:
        """Record that a person was refused `command`: by their roles, or by what it says.

        Raises:
            AuditUnavailable: It could not be recorded.

        """
        fields = {
            **person.told,
            "method": command,
            "verdict": "deny",
            "code": error.code,
            "reasons": [{"code": error.code, "message": error.detail or error.public}],
        }
        await self._append(RecordKind.ADMIN, fields)
        error.recorded = True

    async def _write(self, person: Person, change: Change, *, verdict: str, code: str) -> None:
        fields = {
            **person.told,
            "method": change.method,
            **change.fields,
            "verdict": verdict,
            "code": code,
            "reasons": _reasons(change, code),
        }
        await self._append(change.kind, fields)

    async def _append(self, kind: RecordKind, fields: Mapping[str, Any]) -> LogEntry:
        reasons = [{**one, "message": _cut(one["message"])} for one in fields["reasons"]]
        fields = {**fields, "reasons": reasons}
        return await self._log.append(
            AuditRecord(kind=kind, time=self._clock(), id=self._new_id(), fields=fields)
        )


def _cut(message: str) -> str:
    if len(message) <= _MOST_TOLD:
        return message
    # At the end of a word: a part of a secret looks like none. No word is as long as half of it.
    kept = message[: _MOST_TOLD - 1]
    end = max(kept.rfind(blank) for blank in " \n\r\t\u3000")
    return f"{kept[:end] if end > _MOST_TOLD // 2 else kept}\u2026"


def _reasons(change: Change, code: str) -> list[Mapping[str, str]]:
    told = [(code, change.subject), *([("note", change.note)] if change.note else [])]
    return [{"code": name, "message": text} for name, text in (*told, *change.evidence)]
