"""The audit log that is durable before anything it records has consequences."""

import sqlite3
import time
from collections.abc import Callable
from typing import Any, Protocol

from gateway.audit.record import Entry, RecordEncoder
from gateway.domain.audit import AuditRecord, LogEntry, RecordKind
from gateway.domain.nodes import amount
from gateway.storage.writer import Writer
from gateway.turns import QUICK_NODES, finished

_LARGE = ("arguments", "result")
"""Fields that are as large as callers and servers like."""

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


async def encoded(encoder: RecordEncoder, record: AuditRecord) -> Entry:
    """Return `record` as it will be stored. What is large is hashed beside the event loop.

    Raises:
        ValueError: As `RecordEncoder.encode`.

    """
    new = (name for name in _LARGE if name in record.fields and name not in record.stands)
    nodes = sum(amount(record.fields[name], QUICK_NODES) for name in new)
    if nodes <= QUICK_NODES:
        return encoder.encode(record)
    who = str(record.fields.get("principal", ""))
    return await finished(who, nodes, encoder.encode, record)


class SqliteAuditLog:
    """An `AuditLog` in one SQLite file: encoded here, stored by the writer."""

    def __init__(self, writer: Writer, encoder: RecordEncoder) -> None:
        self._writer = writer
        self._encoder = encoder
        self.waited: Waited = nobody

    async def append(self, record: AuditRecord) -> LogEntry:
        """Return only once `record` is durable.

        Raises:
            AuditUnavailable: It is not, or not known to be, within the deadline. It may still
                come to be in the log.
            ValueError: A field is not one of the contract's.

        """
        began = time.perf_counter()
        entry = await self._writer.append(
            await encoded(self._encoder, record), may_lag=record.kind in OF_CALLS
        )
        self.waited("log", time.perf_counter() - began)
        return entry

    async def put(self, record: AuditRecord, terms: Terms) -> LogEntry:
        """Return only once `record` is durable, which it is only on these `terms`.

        Raises:
            Changed: They are not met.
            AuditUnavailable: As `append`.

        """
        began = time.perf_counter()
        entry = await put_on(self._writer, await encoded(self._encoder, record), terms)
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
