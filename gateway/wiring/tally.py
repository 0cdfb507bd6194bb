"""Requests that were refused before they were read, counted into records that cannot fill the log."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from gateway.admin.rows import rfc3339
from gateway.domain.audit import AuditRecord, RecordKind
from gateway.errors import AuditUnavailable
from gateway.ports import AuditLog, Clock
from gateway.wiring.background import begun, ended
from gateway.wiring.foundation import new_id, now

logger = logging.getLogger(__name__)

WRITTEN_EVERY_S = 10.0
MOST_APART = 256
"""Addresses and codes that are told apart within that time; those beyond count by code alone."""


class _Count:
    """How often the same was refused, and from when to when."""

    def __init__(self, first: float) -> None:
        self.first = self.last = first
        self.times = 0


class RefusalTally:
    """One record for all refusals of one code and one address within some seconds.

    Whoever is refused unread costs us nothing, and is to cost us no record each; but that they
    were there is on record, and how often.
    """

    def __init__(
        self, audit: AuditLog, *, clock: Clock = now, new_id: Callable[[], str] = new_id
    ) -> None:
        self._audit = audit
        self._clock = clock
        self._new_id = new_id
        self._counts: dict[tuple[str, str], _Count] = {}

    def __call__(self, code: str, source_ip: str) -> None:
        """Count one refusal."""
        key = (code, source_ip)
        if key not in self._counts and len(self._counts) >= MOST_APART:
            key = (code, "")
        count = self._counts.setdefault(key, _Count(self._clock()))
        count.last = self._clock()
        count.times += 1

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Write what is counted from time to time, and all of it at the end."""
        writing = begun(self._write_on(), "counting refusals")
        try:
            yield
        finally:
            await ended(writing)
            await self.write()

    async def write(self) -> None:
        """Put a record for each count into the log. What cannot be recorded now is counted on."""
        for key, count in list(self._counts.items()):
            del self._counts[key]
            try:
                await self._audit.append(self._record(*key, count))
            except AuditUnavailable as error:
                logger.warning("counted refusals wait for the audit log: %s", error.detail)
                self._put_back(key, count)
                return

    def _put_back(self, key: tuple[str, str], count: _Count) -> None:
        since = self._counts.get(key)
        if since is not None:
            count.times += since.times
            count.last = since.last
        self._counts[key] = count

    async def _write_on(self) -> None:
        while True:
            await asyncio.sleep(WRITTEN_EVERY_S)
            await self.write()

    def _record(self, code: str, source_ip: str, count: _Count) -> AuditRecord:
        message = f"{count.times} requests were refused before they were read"
        fields = {
            "method": "http",
            "verdict": "deny",
            "code": code,
            "reasons": [{"code": code, "message": message}],
            "evidence": {
                "count": count.times,
                "first": rfc3339(count.first),
                "last": rfc3339(count.last),
            },
            **({"source_ip": source_ip} if source_ip else {}),
        }
        return AuditRecord(
            kind=RecordKind.AUTH, time=self._clock(), id=self._new_id(), fields=fields
        )
