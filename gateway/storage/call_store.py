"""What calls rest on and are recorded by, in one data directory, opened and closed together."""

import sqlite3
import time
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import Self

from gateway.audit.checkpoint import VerifierKey
from gateway.audit.record import RecordEncoder, Terms
from gateway.audit.redaction import Level, Levels, Redaction
from gateway.domain.epoch import Epoch
from gateway.domain.quotas import Charge
from gateway.errors import AuditUnavailable, ConfigError
from gateway.flow.redaction import RecordScreen
from gateway.ports import Clock
from gateway.ports.secrets import Sealer
from gateway.storage.approvals import DurableApprovalStore
from gateway.storage.claims import ProcessClaims
from gateway.storage.connection import Durability, advice_on, open_reader
from gateway.storage.database import DATABASE, Database
from gateway.storage.disclosures import Disclosures, SqliteDisclosureLedger, kept_rows
from gateway.storage.encoding import Encoding
from gateway.storage.files import DirectoryLock, private_directory
from gateway.storage.identity.call_identity import CallIdentity
from gateway.storage.identity.standing import StandingAnswerTable
from gateway.storage.keeping import (
    AS_ALWAYS,
    Keeping,
    OpenedLog,
    found_before,
    opened_journal,
)
from gateway.storage.keys import Keys
from gateway.storage.late_calls import DurableLateCalls
from gateway.storage.ledger import KnownPolicy, Memory, SqliteLedger
from gateway.storage.moving.mark import mark_in, require_serving
from gateway.storage.own_sessions import DurableSessionStore
from gateway.storage.pins import DurablePinStore
from gateway.storage.record_keys import RecordKeys
from gateway.storage.recovery import wal_tail
from gateway.storage.run_tables import SqliteRunLedger, SqliteRunTable
from gateway.storage.runs import RunLimits, RunNames, Runs
from gateway.storage.scripts import DurableScriptStore
from gateway.storage.spooling import SpoolingLog
from gateway.storage.stop import Stop
from gateway.storage.unsealed import Bounds, Named, Unsealed, readable
from gateway.storage.usage import used
from gateway.storage.writer import Writer, change_nothing

_RUN_LIMITS = RunLimits()
_HASHED = Levels(Level(redaction=Redaction.HASHED))


class CallStore(Encoding):
    """What of a `Store` is on the way of a call. One process has a data directory open at a time."""

    board: None = None
    """Where many gateways agree on a policy: there is one."""
    allowance: None = None
    """Where they count together."""

    def __init__(
        self,
        *,
        data_dir: Path,
        opened: AsyncExitStack,
        keys: Keys,
        record_keys: RecordKeys,
        identity: CallIdentity,
        writer: Writer,
        encoder: RecordEncoder,
        log: OpenedLog,
        clock: Clock,
        runs: RunLimits,
        elapsed: Clock,
    ) -> None:
        """Wire the stores to an open writer; `opened` is what `close` ends. See `open`."""
        super().__init__(encoder, record_keys)
        self.data_dir = data_dir
        self.keys = keys
        self._identity = identity
        self.epoch = Epoch()
        """Turned by every change of what calls are prepared by: of pins, and by the policy's holder."""
        self.log_id = encoder.log_id
        self.writer = writer
        self._clock = clock
        self._opened = opened
        self.claims = ProcessClaims(clock=clock)
        self.audit = log.audit
        self.found = log.found
        """What the log was like when it was opened."""
        with closing(open_reader(data_dir / DATABASE)) as connection:
            self.pins = DurablePinStore(writer, connection, clock=clock, epoch=self.epoch)
            self.disclosures = Disclosures(
                SqliteDisclosureLedger(writer), keys.hmac, rows=kept_rows(connection)
            )
            self.sessions = DurableSessionStore(writer, connection, key=keys.hmac, clock=clock)
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
            ConfigError: Another process has it, it was moved, a key is readable by others, or its audit
                log is not what was signed.

        """
        data_dir = private_directory(data_dir)
        opened = AsyncExitStack()
        try:
            opened.callback(DirectoryLock(data_dir).release)
            require_serving(mark_in(data_dir), str(data_dir))
            keys = Keys.open(data_dir)
            record_keys = RecordKeys.open(data_dir, keys.hmac)
            # Before the audit log's database: this one takes over what that one then drops.
            identity = cls._identity_in(data_dir, clock)
            opened.callback(identity.close)

            def database() -> Database:
                return Database.open(
                    data_dir, durability=durability, wait_s=deadline_s, key=keys.audit
                )

            tail = wal_tail(data_dir / DATABASE)
            first = database()
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
            encoder = RecordEncoder(log_id=first.log_id, terms=terms)
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

    @classmethod
    def _identity_in(cls, data_dir: Path, clock: Clock) -> CallIdentity:
        """Open the identity database, which may have more in it than a call asks for."""
        return CallIdentity.open(data_dir, clock=clock)

    def usage(self) -> Sequence[Charge]:
        """Return what is used of quotas now, by what the log has. It reads from the disk."""
        with closing(open_reader(self.data_dir / DATABASE)) as connection:
            return used(connection)

    @property
    def verifier(self) -> VerifierKey:
        """Who signs this log, to be published."""
        return VerifierKey.of(self.log_id, self.keys.audit)

    def unsealed(self, sealer: Sealer, bounds: Bounds) -> Unsealed:
        """Return what `sealer` opens.

        Raises:
            ConfigError: It was sealed with another key.

        """
        standing = StandingAnswerTable(self._identity.database, sealer)
        with closing(open_reader(self.data_dir / DATABASE)) as connection:
            with readable(f"the questions to people in {self.data_dir}"):
                approvals = DurableApprovalStore(self.writer, connection, sealer, bounds.approvals)
            with readable(f"the programs that are kept in {self.data_dir}"):
                scripts = DurableScriptStore(self.writer, connection, sealer)
            with readable(f"the tasks that are kept in {self.data_dir}"):
                late = DurableLateCalls(self.writer, connection, sealer, bounds.tasks)

        def ledger(policy: KnownPolicy, _: Named) -> SqliteLedger:
            memory = Memory(
                runs=self.runs,
                pins=self.pins,
                answers=approvals,
                standing=standing,
                policy=policy,
                people=lambda: self._identity.people,
                clock=self._clock,
            )
            return SqliteLedger(self.audit, memory, approvals)

        return Unsealed(
            approvals=approvals, standing=standing, scripts=scripts, late=late, ledger=ledger
        )

    def stop(self) -> Stop:
        """Return what says whether everything is refused."""
        return Stop(self.data_dir)

    @property
    def recorded(self) -> int:
        """How many records there are."""
        return self.writer.recorded

    @property
    def spool(self) -> SpoolingLog | None:
        """Where records wait that the database does not take, if there is such a place."""
        return self.audit if isinstance(self.audit, SpoolingLog) else None

    async def sign(self) -> None:
        """Have a checkpoint vouch for all that is durable now; see `Writer.sign`."""
        await self.writer.sign()

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
