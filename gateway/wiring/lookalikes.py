"""Tells the operator of names that may be taken for each other, in the log and in the audit log."""

import asyncio
import logging
from collections.abc import Sequence

from gateway.domain.audit import AuditRecord, RecordKind
from gateway.errors import AuditUnavailable
from gateway.ports import AuditLog
from gateway.wiring.foundation import new_id, now

logger = logging.getLogger(__name__)

_MOST_NAMED = 10


class LookalikeReporter:
    """An `Alarm`. The list in which the names were seen does not wait for the record."""

    def __init__(self, audit: AuditLog) -> None:
        self._audit = audit
        self._recording: set[asyncio.Task[None]] = set()

    def __call__(self, names: Sequence[str]) -> None:
        told = ", ".join(names[:_MOST_NAMED])
        logger.warning("these names look alike at /mcp: %s", told)
        recording = asyncio.create_task(self._record(told))
        self._recording.add(recording)
        recording.add_done_callback(self._recording.discard)

    async def settle(self) -> None:
        """Return once every alarm so far is recorded, or known not to be."""
        await asyncio.gather(*self._recording)

    async def _record(self, told: str) -> None:
        code = "lookalike_names"
        reasons = [{"code": code, "message": f"these names look alike at /mcp: {told}"}]
        fields = {"endpoint": "/mcp", "code": code, "reasons": reasons}
        record = AuditRecord(kind=RecordKind.SYSTEM, time=now(), id=new_id(), fields=fields)
        try:
            await self._audit.append(record)
        except AuditUnavailable as error:
            told = error.detail or error.public
            logger.error("names that look alike could not be recorded: %s", told)  # noqa: TRY400 - no bug, no traceback
