"""Tells the audit log of destinations that local servers were refused."""

import asyncio
import logging

from gateway.domain.audit import AuditRecord, RecordKind
from gateway.domain.tools import UpstreamId
from gateway.errors import AuditUnavailable, EgressRefused
from gateway.ports import AuditLog
from gateway.wiring.foundation import new_id, now

logger = logging.getLogger(__name__)


class RefusedEgressReporter:
    """A `Tell` of the upstream room. The refusal does not wait for its record: nothing was sent."""

    def __init__(self, audit: AuditLog) -> None:
        self._audit = audit
        self._recording: set[asyncio.Task[None]] = set()

    def __call__(self, server: UpstreamId, destination: str, why: str) -> None:
        recording = asyncio.create_task(self._record(server, destination, why))
        self._recording.add(recording)
        recording.add_done_callback(self._recording.discard)

    async def settle(self) -> None:
        """Return once every refusal so far is recorded, or known not to be."""
        await asyncio.gather(*self._recording)

    async def _record(self, server: UpstreamId, destination: str, why: str) -> None:
        code = EgressRefused.code
        fields = {
            "server": server,
            "verdict": "deny",
            "code": code,
            "reasons": [{"code": code, "message": f"{destination}: {why}"}],
        }
        record = AuditRecord(kind=RecordKind.SYSTEM, time=now(), id=new_id(), fields=fields)
        try:
            await self._audit.append(record)
        except AuditUnavailable as error:
            told = error.detail or error.public
            logger.error("a refused destination of %s could not be recorded: %s", server, told)  # noqa: TRY400 - no bug, no traceback
