"""Opening the log for its writer: what it is found like, and where its records go."""

import logging
import os
import secrets
from contextlib import AsyncExitStack, closing, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Self

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gateway.audit.record import RecordEncoder
from gateway.domain._value import value
from gateway.errors import AuditUnavailable, ConfigError
from gateway.ports import Clock
from gateway.storage.audit_log import SqliteAuditLog
from gateway.storage.connection import open_reader
from gateway.storage.database import DATABASE, Database
from gateway.storage.files import rename
from gateway.storage.journal import JOURNAL, Journal, OtherJournal
from gateway.storage.recovery import Found, FromJournal, WalTail, found_in
from gateway.storage.spool import Spool
from gateway.storage.spooling import (
    SpoolingLog,
    SpoolSettings,
    absorbed_of,
    note_place,
    place_of,
    taken_up,
)
from gateway.storage.writer import EVERY_SECOND, Signing, Writer

logger = logging.getLogger(__name__)


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
        with closing(open_reader(data_dir / DATABASE)) as connection:
            absorbed, place = absorbed_of(connection), place_of(connection)
        wanted = "" if keeping.spool is None else _named(keeping.spool.path, data_dir)
        if place != wanted:
            if place:
                need_nothing_in(data_dir / place, absorbed, encoder.log_id, key)
            # Where nothing can be written now, it is noted at the next start.
            with suppress(AuditUnavailable):
                await writer.run(partial(note_place, place=wanted))
        if keeping.spool is None:
            return cls(audit=SqliteAuditLog(writer, encoder), found=found)
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


def _named(path: Path, data_dir: Path) -> str:
    """Return where `path` is, beside `data_dir` or below it: both may be moved together."""
    return os.path.relpath(path, data_dir)


def need_nothing_in(place: Path, absorbed: str, log_id: str, key: Ed25519PrivateKey) -> None:
    """Refuse to go on without what is left in a spool that is configured no more.

    Raises:
        ConfigError: There are records in it, or it cannot be read.

    """
    if not place.exists():
        return
    spool, left = Spool.open(place, capacity=0, log_id=log_id, secret=key.private_bytes_raw())
    spool.close()
    last, _ = taken_up(absorbed, spool.nonce)
    waiting = sum(number > last for number, _ in left.entries)
    if waiting:
        raise ConfigError(
            f"{waiting} records are in the spool {place.resolve()} and not in the log yet: start once with "
            f"audit.on_failure: spool and audit.spool.path: {place.resolve()}, which brings them back, or "
            "move that file away"
        )


def opened_journal(
    database: Database, data_dir: Path, *, key: Ed25519PrivateKey
) -> tuple[Journal, FromJournal]:
    """Open the journal, once what an earlier process left in it is in the log.

    Raises:
        ConfigError: It cannot be used.
        sqlite3.Error: The log does not take what is in it.

    """
    path, secret, set_aside = data_dir / JOURNAL, key.private_bytes_raw(), ""
    try:
        journal, left = Journal.open(path, log_id=database.log_id, secret=secret)
    except OtherJournal:
        kept = path.with_name(f"{JOURNAL}.kept-{secrets.token_hex(4)}")
        rename(path, kept)
        set_aside = kept.name
        logger.warning("the journal was another log's, or its head is damaged; it is %s now", kept)
        journal, left = Journal.open(path, log_id=database.log_id, secret=secret)
    try:
        size = database.tree.size
        entries = left.beyond(size)
        if left.lines:
            # What it has besides may be in the log and on no disk yet: killed between a commit and
            # its sync, a process leaves the journal as the only one that is.
            database.commit([], [], late=entries, settles=True)
        journal.begin()
    except OSError as error:
        journal.close()
        raise ConfigError(f"the journal {path} cannot be used: {error}") from error
    except BaseException:
        journal.close()
        raise
    missing = left.missing_beyond(size)
    return journal, FromJournal(records=len(entries), missing=missing, set_aside=set_aside)


def found_before(
    database: Database, data_dir: Path, tail: WalTail, journaled: FromJournal, *, now: float
) -> Found:
    """Return what the log was like when `database` was opened, before this process adds to it."""
    with closing(open_reader(data_dir / DATABASE)) as connection:
        return found_in(
            connection,
            size=database.tree.size,
            signed=database.signed_size,
            tail=tail,
            journaled=journaled,
            now=now,
        )
