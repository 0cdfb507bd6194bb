"""Everything in one data directory, opened and closed together."""

import asyncio
import sqlite3
import time
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from gateway.audit.checkpoint import VerifierKey
from gateway.audit.hashing import hashes_of
from gateway.audit.record import RecordEncoder, Terms
from gateway.audit.redaction import Level, Levels, Redaction
from gateway.domain.epoch import Epoch
from gateway.domain.quotas import Charge
from gateway.errors import AuditUnavailable, ConfigError
from gateway.flow.redaction import RecordScreen
from gateway.ports import Clock
from gateway.ports.board import PolicyBoard
from gateway.storage.choices import DurableChoices
from gateway.storage.connection import Durability, advice_on, open_reader
from gateway.storage.cursors import DurableCursors
from gateway.storage.database import DATABASE, Database
from gateway.storage.debts import DurableDebts
from gateway.storage.disclosures import Disclosures, SqliteDisclosureLedger, kept_rows
from gateway.storage.files import DirectoryLock, private_directory
from gateway.storage.identity.store import IdentityStores
from gateway.storage.keeping import (
    AS_ALWAYS,
    Keeping,
    OpenedLog,
    found_before,
    opened_journal,
)
from gateway.storage.keys import Keys
from gateway.storage.own_sessions import DurableSessionStore
from gateway.storage.pins import DurablePinStore
from gateway.storage.reader import AuditReader
from gateway.storage.record_keys import RecordKeys
from gateway.storage.recovery import wal_tail
from gateway.storage.run_tables import SqliteRunLedger, SqliteRunTable
from gateway.storage.runs import RunLimits, RunNames, Runs
from gateway.storage.spooling import SpoolingLog
from gateway.storage.usage import used
from gateway.storage.writer import Writer, change_nothing
from gateway.turns import Line

_RUN_LIMITS = RunLimits()
_HASHED = Levels(Level(redaction=Redaction.HASHED))


class Store:
    """The stores of a running gateway. One process has a data directory open at a time."""

    board: PolicyBoard | None = None
    """Where many gateways agree on a policy: there is one."""

    def __init__(
        self,
        *,
        data_dir: Path,
        opened: AsyncExitStack,
        keys: Keys,
        record_keys: RecordKeys,
        identity: IdentityStores,
        writer: Writer,
        encoder: RecordEncoder,
        log: OpenedLog,
        clock: Clock,
        runs: RunLimits,
        elapsed: Clock,
    ) -> None:
        """Wire the stores to an open writer; `opened` is what `close` ends. See `open`."""
        self.data_dir = data_dir
        self.keys = keys
        self.identity = identity
        self.epoch = Epoch()
        """Turned by every change of what calls are prepared by: of pins, and by the policy's holder."""
        self.log_id = encoder.log_id
        self._record_keys = record_keys
        self._encoder = encoder
        self._rotating = Line()
        self.writer = writer
        self._opened = opened
        self.audit = log.audit
        self.found = log.found
        """What the log was like when it was opened."""
        self.cursors = DurableCursors(writer)
        self.aging = Line()
        """Held by whoever archives or removes records."""
        connection = open_reader(data_dir / DATABASE)
        try:
            self.pins = DurablePinStore(writer, connection, clock=clock, epoch=self.epoch)
            self.disclosures = Disclosures(
                SqliteDisclosureLedger(writer), keys.hmac, rows=kept_rows(connection)
            )
            self.choices = DurableChoices(writer, connection)
            self.sessions = DurableSessionStore(writer, connection, key=keys.hmac, clock=clock)
            self.debts = DurableDebts(writer, connection)
            self.used = used(connection)
            """What was used of quotas when it was opened."""
            table = SqliteRunTable(connection)
            self.runs = Runs(
                SqliteRunLedger(writer),
                RunNames(keys.hmac, by_person=runs.by_person),
                limits=runs,
                elapsed=elapsed,
                kept=table.all(),
                belonging=table.belonging(),
            )
        finally:
            connection.close()

    @classmethod
    async def open(
        cls,
        data_dir: Path,
        *,
        durability: Durability = Durability.POWER,
        deadline_s: float = 60.0,
        levels: Levels = _HASHED,
        held: Iterable[str] = (),
        clock: Clock,
        runs: RunLimits = _RUN_LIMITS,
        elapsed: Clock = time.monotonic,
        keeping: Keeping = AS_ALWAYS,
    ) -> Self:
        """Open `data_dir`, made where there is none, for this event loop.

        `held` are the operator's secrets, which no record may hold, wherever they come from.
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
            record_keys = RecordKeys.open(data_dir, keys.hmac)
            # Before the audit log's database: this one takes over what that one then drops.
            identity = IdentityStores.open(data_dir, clock=clock)
            opened.callback(identity.close)

            def database() -> Database:
                return Database.open(
                    data_dir, durability=durability, wait_s=deadline_s, key=keys.audit
                )

            tail = wal_tail(data_dir / DATABASE)
            first = database()
            log_id = first.log_id
            journal, journaled = opened_journal(first, data_dir, key=keys.audit)
            found = found_before(first, data_dir, tail, journaled, now=clock())
            writer = Writer(
                first,
                reopen=database,
                deadline_s=deadline_s,
                signing=keeping.signing,
                journal=journal,
                durability=durability,
            )
            opened.push_async_callback(writer.close)
            terms = Terms(keys=record_keys.all, levels=levels, screen=RecordScreen(held))
            encoder = RecordEncoder(log_id=log_id, terms=terms)
            log = await OpenedLog.of(
                writer,
                encoder,
                found,
                keeping,
                data_dir=data_dir,
                key=keys.audit,
                deadline_s=deadline_s,
                clock=clock,
                opened=opened,
            )
            return cls(
                data_dir=data_dir,
                opened=opened,
                keys=keys,
                record_keys=record_keys,
                identity=identity,
                writer=writer,
                encoder=encoder,
                log=log,
                clock=clock,
                runs=runs,
                elapsed=elapsed,
            )
        except BaseException as error:
            await opened.aclose()
            if isinstance(error, ValueError | sqlite3.Error):
                told = f"{error}{advice_on(error)}"
                raise ConfigError(f"{data_dir / DATABASE} cannot be read: {told}") from error
            raise

    def usage(self) -> Sequence[Charge]:
        """Return what is used of quotas now, by what the log has. It reads from the disk."""
        with closing(open_reader(self.data_dir / DATABASE)) as connection:
            return used(connection)

    @property
    def verifier(self) -> VerifierKey:
        """Who signs this log, to be published."""
        return VerifierKey.of(self.log_id, self.keys.audit)

    def record_by(self, levels: Levels, held: Iterable[str]) -> None:
        """Write every further record by these levels, and without these secrets."""
        screen = RecordScreen(held)
        self._encoder.keep_to(replace(self._encoder.terms, levels=levels, screen=screen))

    async def rotate_record_hash(self) -> int:
        """Hash with a new key from now on, and return its number. The older ones are kept."""
        return await self._rotating.take(self._with_new_key)

    async def _with_new_key(self) -> int:
        keys = await asyncio.to_thread(self._record_keys.add)
        self._encoder.keep_to(replace(self._encoder.terms, keys=keys))
        return len(keys)

    @property
    def record_hash_keys(self) -> int:
        """How many keys of the hash in records there are; the last one is in use."""
        return len(self._record_keys.all)

    def hashes_of(self, content: Any) -> Sequence[str]:
        """Return what may stand in records for a JSON value, or for bytes, newest key first."""
        return hashes_of(self._record_keys.all, content)

    def reader(self) -> AuditReader:
        """Open the audit log for reading; the caller closes it.

        What calls have in the journal alone comes a moment later; `caught_up` waits for it.
        """
        return AuditReader.open(self.data_dir / DATABASE)

    async def caught_up(self) -> None:
        """Return once the database has every record that is durable now.

        Raises:
            AuditUnavailable: It has not, within the deadline.

        """
        await self.writer.run(change_nothing)

    async def problem(self) -> str:
        """Return why nothing can be recorded now; empty if an empty write just succeeded.

        That a write failed earlier says nothing about now, and where no call is let through
        because of it, no other write would ever find out. With a spool it is only a problem if
        that could take nothing either.
        """
        try:
            await self.writer.run(change_nothing)
        except AuditUnavailable as error:
            wrong = self.writer.problem or error.detail
        else:
            wrong = self.writer.problem
        if not isinstance(self.audit, SpoolingLog):
            return wrong
        failing = self.audit.problem
        return f"{wrong}; {failing}" if wrong and failing else failing

    async def close(self) -> None:
        """Write what is waiting, sign the log, and let another process have the directory."""
        await self._opened.aclose()
