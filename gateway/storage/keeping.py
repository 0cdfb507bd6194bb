"""Opening the log for its writer: what it is found like, and where its records go."""

from contextlib import AsyncExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Self

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gateway.audit.record import RecordEncoder
from gateway.domain._value import value
from gateway.ports import Clock
from gateway.storage.audit_log import SqliteAuditLog
from gateway.storage.connection import open_reader
from gateway.storage.database import DATABASE, Database
from gateway.storage.recovery import Found, WalTail, found_in
from gateway.storage.spool import Spool
from gateway.storage.spooling import SpoolingLog, SpoolSettings, absorbed_of
from gateway.storage.writer import EVERY_SECOND, Signing, Writer


@value
class Keeping:
    """How the log is kept."""

    signing: Signing = EVERY_SECOND
    spool: SpoolSettings | None = None
    """Where records go that the database does not take; without, they are refused."""


AS_ALWAYS = Keeping()


@value
class OpenedLog:
    """The log with its encoder, as it takes records."""

    audit: SqliteAuditLog | SpoolingLog
    found: Found

    @classmethod
    async def of(
        cls,
        writer: Writer,
        encoder: RecordEncoder,
        found: Found,
        keeping: Keeping,
        *,
        data_dir: Path,
        key: Ed25519PrivateKey,
        deadline_s: float,
        clock: Clock,
        opened: AsyncExitStack,
    ) -> Self:
        """Open the spool, if there is to be one, and bring what is left in it into the log.

        Raises:
            ConfigError: It cannot be used.

        """
        if keeping.spool is None:
            return cls(audit=SqliteAuditLog(writer, encoder), found=found)
        with closing(open_reader(data_dir / DATABASE)) as connection:
            absorbed = absorbed_of(connection)
        kept, left = Spool.open(
            keeping.spool.path,
            capacity=keeping.spool.capacity,
            log_id=encoder.log_id,
            secret=key.private_bytes_raw(),
        )
        audit = SpoolingLog(
            writer, encoder, kept, deadline_s=deadline_s, clock=clock, absorbed=absorbed
        )
        opened.push_async_callback(audit.close)
        spooled = await audit.begin(left)
        return cls(
            audit=audit,
            found=replace(found, spooled=spooled, spool_unreadable_bytes=left.damaged),
        )


def found_before(database: Database, data_dir: Path, tail: WalTail, *, now: float) -> Found:
    """Return what the log was like when `database` was opened, before anything is added to it."""
    with closing(open_reader(data_dir / DATABASE)) as connection:
        return found_in(
            connection,
            size=database.tree.size,
            signed=database.signed_size,
            tail=tail,
            now=now,
        )
