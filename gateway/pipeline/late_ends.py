"""The end of a late call: its one outcome, on record however late."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from gateway.domain.audit import AuditRecord, RecordKind
from gateway.domain.late import LateCall, LateId, Stage, ended
from gateway.errors import GatewayError
from gateway.pipeline.trail import Trail
from gateway.ports import AuditLog, Clock
from gateway.ports.claims import Claims
from gateway.ports.late import LateCalls

GRACE_S: Final = 3600.0
"""Seconds for which one is known after its time: who is late learns that by the same answer."""
_EVERY_S: Final = 60.0
_WHY: Final = {
    Stage.COMPLETED: "its answer had come, and its record had not",
    Stage.FAILED: "its answer had come, and its record had not",
    Stage.CANCELLED: "it was cancelled, and that was not on record",
    Stage.WITHHELD: "its answer is withheld, and that was not on record",
    Stage.LOST: "its server knew it no more, and that was not on record",
    Stage.EXPIRED: "its time has passed, and nobody had asked for its answer",
}

logger = logging.getLogger(__name__)


class LateEnds:
    """Ends late calls, each once, and sees to those that nobody asks for."""

    def __init__(
        self,
        *,
        store: LateCalls,
        audit: AuditLog,
        claims: Claims,
        clock: Clock,
        new_id: Callable[[], str],
    ) -> None:
        """By `claims` one gateway records an end: all that share the store find it."""
        self._store = store
        self._audit = audit
        self._claims = claims
        self._clock = clock
        self._new_id = new_id

    async def end(
        self, late: LateCall, stage: Stage, about: Trail, *, answer: str = "", code: str = ""
    ) -> None:
        """End `late` with the outcome that `about` is the trail of, unless it has ended before.

        Raises:
            AuditUnavailable: The end, or its record, is not durable.

        """
        async with self._claims.taken(_end_of(late)) as ours:
            before = await self._store.change(
                late.id, lambda now: ended(now, stage, answer=answer, code=code)
            )
            if before is None or before.has_ended:
                return
            about.ended_late(code or f"task_{stage.value}")
            if ours:  # else it is being settled just now, and whoever does so finds how it ended
                await self._recorded(late, about.outcome())

    async def settle(self) -> None:
        """Put on record what has ended without it, and forget what is long over.

        Raises:
            AuditUnavailable: It is not durable.

        """
        now = self._clock()
        for late in self._store.unsettled(now=now):
            async with self._claims.taken(_end_of(late)) as ours:
                if ours:
                    await self._settle(late.id, now)
        await self._store.forget(before=now - GRACE_S)

    async def _settle(self, id_: LateId, now: float) -> None:
        await self._store.change(id_, lambda before: ended(before, Stage.EXPIRED))
        found = self._store.find(id_)
        if found is not None and not found.progress.recorded:
            await self._recorded(found, self._record(found, now))

    async def _recorded(self, late: LateCall, record: AuditRecord) -> None:
        await self._audit.append(record)
        await self._store.change(late.id, lambda now: replace(now, recorded=True))

    def _record(self, late: LateCall, now: float) -> AuditRecord:
        stage = late.progress.stage
        code = late.progress.code or f"task_{stage.value}"
        fields = {
            **late.joined,
            "method": "tools/call",
            "decision_id": late.decision["id"],
            "verdict": "deny" if stage is Stage.WITHHELD else "allow",
            "code": code,
            "reasons": [{"code": code, "message": _WHY[stage]}],
            "duration_us": max(0, round((now - late.began) * 1e6)),
        }
        return AuditRecord(
            kind=RecordKind.OUTCOME, time=now, id=self._new_id(), fields=fields, tool=late.target
        )


def _end_of(late: LateCall) -> str:
    return f"the end of the late call {late.id}"


async def settled(ends: LateEnds) -> None:
    """Settle, until cancelled, what nobody asks for."""
    while True:
        try:
            await ends.settle()
        except GatewayError as error:
            logger.warning("the end of a task could not be recorded: %s", error.detail)
        await asyncio.sleep(_EVERY_S)
