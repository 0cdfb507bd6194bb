"""Everything in one data directory, opened and closed together."""

import sqlite3
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Self

from gateway.audit.checkpoint import VerifierKey
from gateway.audit.record import RecordEncoder, Redaction
from gateway.errors import AuditUnavailable, ConfigError
from gateway.ports import Clock
from gateway.storage.audit_log import SqliteAuditLog
from gateway.storage.choices import SqliteChoices
from gateway.storage.connection import Durability, open_reader
from gateway.storage.cursors import SqliteCursors
from gateway.storage.database import DATABASE, Database
from gateway.storage.disclosures import Disclosures, SqliteDisclosureLedger, kept_rows
from gateway.storage.files import DirectoryLock, private_directory
from gateway.storage.identity.store import IdentityStores
from gateway.storage.keys import Keys
from gateway.storage.own_sessions import SqliteSessionStore
from gateway.storage.pins import SqlitePinStore
from gateway.storage.reader import AuditReader
from gateway.storage.run_tables import SqliteRunLedger, SqliteRunTable
from gateway.storage.runs import RunLimits, RunNames, Runs
from gateway.storage.writer import Writer

_RUN_LIMITS = RunLimits()


class Store:
    """The stores of a running gateway. One process has a data directory open at a time."""

    def __init__(
        self,
        *,
        data_dir: Path,
        opened: AsyncExitStack,
        keys: Keys,
        identity: IdentityStores,
        writer: Writer,
        encoder: RecordEncoder,
        clock: Clock,
        runs: RunLimits,
        elapsed: Clock,
    ) -> None:
        """Wire the stores to an open writer; `opened` is what `close` ends. See `open`."""
        self.data_dir = data_dir
        self.keys = keys
        self.identity = identity
        self.log_id = encoder.log_id
        self.writer = writer
        self._opened = opened
        self.audit = SqliteAuditLog(writer, encoder)
        self.cursors = SqliteCursors(writer)
        connection = open_reader(data_dir / DATABASE)
        try:
            self.pins = SqlitePinStore(writer, connection, clock=clock)
            self.disclosures = Disclosures(
                SqliteDisclosureLedger(writer), keys.hmac, rows=kept_rows(connection)
            )
            self.choices = SqliteChoices(writer, connection)
            self.sessions = SqliteSessionStore(writer, connection, key=keys.hmac, clock=clock)
            table = SqliteRunTable(connection)
            self.runs = Runs(
                SqliteRunLedger(writer),
                RunNames(keys.hmac),
                limits=runs,
                elapsed=elapsed,
                kept=table.all(),
                bindings=table.bindings(),
            )
        finally:
            connection.close()

    @classmethod
    async def open(
        cls,
        data_dir: Path,
        *,
        durability: Durability = Durability.POWER,
        deadline_s: float = 2.0,
        redaction: Redaction = Redaction.HASHED,
        clock: Clock,
        runs: RunLimits = _RUN_LIMITS,
        elapsed: Clock = time.monotonic,
    ) -> Self:
        """Open `data_dir`, made where there is none, for this event loop.

        `elapsed` is what idle time is measured with: unlike `clock`, nobody can set it.

        Raises:
            ConfigError: Another process has it, a key is readable by others, or its audit log is
                not what was signed.

        """
        data_dir = private_directory(data_dir)
        opened = AsyncExitStack()
        try:
            opened.callback(DirectoryLock(data_dir).release)
            keys = Keys.open(data_dir)
            # Before the audit log's database: this one takes over what that one then drops.
            identity = IdentityStores.open(data_dir, clock=clock)
            opened.callback(identity.close)

            def database() -> Database:
                return Database.open(
                    data_dir, durability=durability, wait_s=deadline_s, key=keys.audit
                )

            first = database()
            log_id = first.log_id
            writer = Writer(first, reopen=database, deadline_s=deadline_s)
            opened.push_async_callback(writer.close)
            encoder = RecordEncoder(log_id=log_id, hmac_key=keys.hmac, redaction=redaction)
            return cls(
                data_dir=data_dir,
                opened=opened,
                keys=keys,
                identity=identity,
                writer=writer,
                encoder=encoder,
                clock=clock,
                runs=runs,
                elapsed=elapsed,
            )
        except BaseException as error:
            await opened.aclose()
            if isinstance(error, ValueError):
                raise ConfigError(f"{data_dir / DATABASE} cannot be read: {error}") from error
            raise

    @property
    def verifier(self) -> VerifierKey:
        """Who signs this log, to be published."""
        return VerifierKey.of(self.log_id, self.keys.audit)

    def reader(self) -> AuditReader:
        """Open the audit log for reading; the caller closes it."""
        return AuditReader.open(self.data_dir / DATABASE)

    async def problem(self) -> str:
        """Return why nothing can be recorded now; empty if an empty write just succeeded.

        That a write failed earlier says nothing about now, and where no call is let through
        because of it, no other write would ever find out.
        """
        try:
            await self.writer.run(_write_nothing)
        except AuditUnavailable as error:
            return self.writer.problem or error.detail
        return self.writer.problem

    async def close(self) -> None:
        """Write what is waiting, sign the log, and let another process have the directory."""
        await self._opened.aclose()


def _write_nothing(_: sqlite3.Connection) -> None:
    """Leave all to the batch, which counts itself, durably."""
