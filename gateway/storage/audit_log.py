"""The audit log that is durable before anything it records has consequences."""

import asyncio
import sqlite3
import time
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from gateway.audit.record import Entry, RecordEncoder
from gateway.domain.audit import AuditRecord, LogEntry, RecordKind
from gateway.domain.nodes import amount
from gateway.storage.writer import Writer
from gateway.turns import QUICK_NODES, finished

T = TypeVar("T")

_LARGE = ("arguments", "result", "reasons", "evidence")
"""Fields that are as large as callers, servers and rules like."""

OF_CALLS = frozenset({RecordKind.INTENT, RecordKind.OUTCOME})
"""Kinds that a call waits for: they may be durable before they have a place in the log."""


class Terms(Protocol):
    """On what terms a call's record is written."""

    @property
    def uses_up(self) -> bool:
        """Whether something is used up with it, which only a transaction can."""
        ...

    def require_in_memory(self) -> None:
        """Return if what the call was decided on holds, as far as anybody was told.

        Raises:
            Changed: It does not.

        """
        ...

    def meet(self, connection: sqlite3.Connection) -> Any:
        """Use up what is used, in the transaction that writes the record.

        Raises:
            Changed: It is used already, or what the call was decided on does not hold.

        """
        ...

    def remember(self, met: Any) -> None:
        """Take in what `meet` returned, once that is committed."""
        ...


Waited = Callable[[str, float], None]
"""Hears of each durable record where it is (`log`, `spool`) and how many seconds that took."""


def nobody(place: str, seconds: float) -> None:
    """Hear nothing."""


async def to_its_end(appending: Coroutine[Any, Any, T]) -> T:
    """Return what comes of `appending`, which goes on where whoever waits for it goes.

    What somebody did who did not wait to be told is on record all the same.
    """
    return await asyncio.shield(asyncio.create_task(appending))


def is_large(record: AuditRecord) -> bool:
    """Say whether there is so much to hash of `record` that it is done beside the event loop."""
    fields, stands = record.fields, record.stands
    new = [fields[name] for name in _LARGE if name in fields and name not in stands]
    return amount(new, QUICK_NODES) > QUICK_NODES


async def encoded(encoder: RecordEncoder, record: AuditRecord) -> Entry:
    """Return `record` as it will be stored.

    Raises:
        ValueError: As `RecordEncoder.encode`.

    """
    if not is_large(record):
        return encoder.encode(record)
    return await finished(record.whose, QUICK_NODES + 1, encoder.encode, record)


class SqliteAuditLog:
    """An `AuditLog` in one SQLite file: encoded here, stored by the writer."""

    def __init__(self, writer: Writer, encoder: RecordEncoder) -> None:
        self._writer = writer
        self._encoder = encoder
        self.waited: Waited = nobody

    async def append(self, record: AuditRecord) -> LogEntry:
        """Return only once `record` is durable; see `AuditLog`.

        Raises:
            AuditUnavailable: It is not, or not known to be, within the deadline. It may still
                come to be in the log.
            ValueError: A field is not one of the contract's.

        """
        if is_large(record):
            return await to_its_end(self._large(record))
        # It is with the writer, who waits for nobody, before anything is awaited.
        began = time.perf_counter()
        entry = await self._writer.append(
            self._encoder.encode(record), may_lag=record.kind in OF_CALLS
        )
        self.waited("log", time.perf_counter() - began)
        return entry

    async def _large(self, record: AuditRecord) -> LogEntry:
        began = time.perf_counter()
        encoding = encoded(self._encoder, record)
        entry = await self._writer.append(await encoding, may_lag=record.kind in OF_CALLS)
        self.waited("log", time.perf_counter() - began)
        return entry

    async def put(self, record: AuditRecord, terms: Terms) -> LogEntry:
        """Return only once `record` is durable, which it is only on these `terms`.

        Raises:
            Changed: They are not met.
            AuditUnavailable: As `append`.

        """
        began = time.perf_counter()
        small = None if is_large(record) else self._encoder.encode(record)
        entry = await put_on(self._writer, small or await encoded(self._encoder, record), terms)
        self.waited("log", time.perf_counter() - began)
        return entry


async def put_on(writer: Writer, entry: Entry, terms: Terms) -> LogEntry:
    """Have `writer` write `entry` on these `terms`; see `Writer.append`."""
    return await writer.append(
        entry,
        if_holds=terms.require_in_memory,
        job=terms.meet,
        committed=terms.remember,
        may_lag=not terms.uses_up,
    )
