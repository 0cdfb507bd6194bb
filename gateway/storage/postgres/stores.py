"""The stores of one gateway of many that share a PostgreSQL."""

import asyncio
import math
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, Self

import psycopg

from gateway.audit.checkpoint import VerifierKey
from gateway.domain.epoch import Epoch
from gateway.domain.premises import Premise
from gateway.domain.quotas import Charge
from gateway.errors import ConfigError, GatewayError, IdentityUnavailable
from gateway.ports import Clock
from gateway.ports.secrets import Sealer
from gateway.storage.baselines import DurableBaselines
from gateway.storage.choices import DurableChoices
from gateway.storage.claims import ProcessClaims
from gateway.storage.cosignatures import DurableCosignatures
from gateway.storage.cursors import DurableCursors
from gateway.storage.debts import DurableDebts
from gateway.storage.disclosures import Disclosures
from gateway.storage.encoding import Encoding
from gateway.storage.identity.standing import StandingAnswerTable
from gateway.storage.identity.statements import Statements
from gateway.storage.late_calls import DurableLateCalls
from gateway.storage.own_sessions import DurableSessionStore
from gateway.storage.pin_rows import PinRows
from gateway.storage.pins import DurablePinStore
from gateway.storage.postgres.approvals import SharedApprovalStore
from gateway.storage.postgres.base import Base, Setting, Unlock
from gateway.storage.postgres.coverage import covered
from gateway.storage.postgres.disclosures import SharedDisclosureLedger
from gateway.storage.postgres.ledger import Look, PostgresLedger
from gateway.storage.postgres.policed import PolicedLedger
from gateway.storage.postgres.run_table import PostgresRunLedger
from gateway.storage.postgres.shared_runs import SharedRuns
from gateway.storage.postgres.stop import PostgresStop
from gateway.storage.recovery import Found
from gateway.storage.retention import LogRetention, Record
from gateway.storage.runs import RunNames
from gateway.storage.scripts import DurableScriptStore
from gateway.storage.unsealed import Bounds, Unsealed, readable
from gateway.turns import Line

_SIGNED_S: Final = 10.0
"""How long a checkpoint is waited for, which comes in a second where the log is ordered."""
_LONGEST_BEHIND_S: Final = 5.0
_TIDY_S: Final = 60.0
_LATELY_S: Final = 1.0
"""So long a no may rest on what was not shown yet: it is asked again."""


class PostgresStores(Encoding):
    """The stores of one gateway of many; see `open`."""

    def __init__(
        self,
        setting: Setting,
        base: Base,
        opened: AsyncExitStack,
        *,
        clock: Clock,
        elapsed: Clock,
    ) -> None:
        """Fill memories from what is there; `opened` is what `close` ends. See `open`."""
        super().__init__(base.encoder, base.secrets.record_keys)
        self.data_dir = setting.data_dir
        self.identity = base.identity
        self.keys = base.secrets.keys
        self.log = base.log
        self.epoch = Epoch()
        """Turned by every change of what calls are prepared by: of pins, and by the policy's holder."""
        self.spool = None
        self.board = base.board
        self.allowance = base.allowance
        self.claims = ProcessClaims(clock=clock, elsewhere=base.allowance.claim)
        self._setting = setting
        self._base = base
        self._opened = opened
        self._aging = Line()
        self.found = Found(records=base.log.newest() + 1)
        self.cursors = DurableCursors(base.state)
        with base.state.reading() as tables:
            self.pins = DurablePinStore(
                base.state, tables, clock=clock, epoch=self.epoch, rows=PinRows(compared=True)
            )
            self.choices = DurableChoices(base.state, tables)
            self.sessions = DurableSessionStore(base.state, tables, key=self.keys.hmac, clock=clock)
            self.debts = DurableDebts(base.state, tables)
        for one in (self.pins, self.choices, self.sessions):
            base.state.follows(one)
        self.used = self.usage()
        """What was used of quotas when it was opened."""
        self.disclosures = Disclosures(
            SharedDisclosureLedger(self.identity.database), self.keys.hmac
        )
        self.runs = _runs(setting, base, elapsed=elapsed)
        base.state.follows(self.runs)
        self.audit = PostgresLedger(
            base.lanes,
            base.encoder,
            runs=self.runs,
            begin=self.runs.join,
            memories=_memories(base),
            others=_Others(base),
        )
        self.identity.database.remembers(self._hash_with_the_newest)

    @classmethod
    async def open(
        cls, setting: Setting, *, unlock: Unlock, clock: Clock, elapsed: Clock = time.monotonic
    ) -> Self:
        """Join the gateways that share the database of `setting`, for this event loop.

        Whoever is first makes the tables and the keys. `elapsed` is what idle time is measured with.

        Raises:
            ConfigError: The database cannot be used, or another process has the folder.

        """
        opened = AsyncExitStack()
        try:
            base = await Base.open(setting, opened, unlock=unlock, clock=clock)
            stores = cls(setting, base, opened, clock=clock, elapsed=elapsed)
            base.state.start()
            tidying = asyncio.create_task(_tidied(base, clock))
            opened.push_async_callback(_ended, tidying)
        except BaseException as error:
            await opened.aclose()
            if isinstance(error, psycopg.Error | GatewayError) and not isinstance(
                error, ConfigError
            ):
                raise ConfigError(f"PostgreSQL cannot be used: {error}") from error
            raise
        return stores

    def unsealed(self, sealer: Sealer, bounds: Bounds) -> Unsealed:
        """Return what `sealer` opens.

        Raises:
            ConfigError: It was sealed with another key.

        """
        state = self._base.state
        standing = StandingAnswerTable(self.identity.database, sealer)
        with state.reading() as tables:
            with readable("the questions to people in PostgreSQL"):
                approvals = SharedApprovalStore(state, tables, sealer, bounds.approvals)
            with readable("the programs that are kept in PostgreSQL"):
                scripts = DurableScriptStore(state, tables, sealer)
            with readable("the tasks that are kept in PostgreSQL"):
                late = DurableLateCalls(state, tables, sealer, bounds.tasks)
        for one in (approvals, scripts, late):
            state.follows(one)
        return Unsealed(
            approvals=approvals,
            standing=standing,
            scripts=scripts,
            late=late,
            ledger=lambda policy, named: PolicedLedger(self.audit, policy, named=named),
        )

    def usage(self) -> Sequence[Charge]:
        """Return what is used of quotas now, at all gateways together. It asks the database."""
        return self._base.allowance.kept()

    def baselines(self) -> DurableBaselines:
        """Return where is kept what is usual for whom."""
        return DurableBaselines(self._base.state)

    def cosignatures(self) -> DurableCosignatures:
        """Return what witnesses are shown, and where is kept what they have said."""
        return DurableCosignatures(self._base.state, self.log.reading)

    def retention(self, *, archive: Path, record: Record) -> LogRetention:
        """Return what archives old records into that folder, and removes them; it says so by `record`."""
        return self.log.retention(
            verifier=self.verifier,
            key=self.keys.audit,
            archive=archive,
            record=record,
            turn=self._aging,
        )

    def stop(self) -> PostgresStop:
        """Return what says whether everything is refused, everywhere."""
        return PostgresStop(self._base.board)

    @property
    def verifier(self) -> VerifierKey:
        """Who signs this log, to be published."""
        return VerifierKey.of(self._base.log_id, self.keys.audit)

    @property
    def recorded(self) -> int:
        """How many records this gateway has put."""
        return self._base.lanes.kept

    async def sign(self) -> None:
        """Return once a checkpoint covers all that is durable by now, whoever has put it."""
        await covered(self._base.session, within_s=_SIGNED_S)

    async def problem(self) -> str:
        """Return why nothing can be recorded now; empty if the database was asked and answers.

        People and clients are followed on the way: on memory of them that is old, calls are refused.
        """
        try:
            await asyncio.to_thread(self._base.session.use, lambda one: one.execute(b"SELECT 1"))
            await asyncio.to_thread(self.identity.follow)
        except psycopg.Error as error:
            return f"PostgreSQL does not answer: {error}".strip()
        except IdentityUnavailable as error:
            return f"people and clients cannot be read: {error.detail}".strip()
        if self._base.state.behind_s > _LONGEST_BEHIND_S:
            return "what other gateways change is not known here"
        return self._base.lanes.problem

    async def close(self) -> None:
        """Put what is waiting, and let the others go on."""
        await self._opened.aclose()

    def _hash_with_the_newest(self, _: Statements) -> None:
        """Hash with the key that another gateway has made, from the moment on that it is known."""
        self._encoder.keep_to(replace(self._encoder.terms, keys=self._keys.all))


async def _tidied(base: Base, clock: Clock) -> None:
    """Forget what counts no more, where this gateway orders the log, until cancelled."""
    while True:
        await asyncio.sleep(_TIDY_S)
        if base.sequencer.leads:
            with suppress(GatewayError):  # there is another minute
                await asyncio.to_thread(partial(base.allowance.forget, now=clock()))


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])


def _memories(base: Base) -> Mapping[Premise, Look]:
    """Return for each kind of premise how that which it was read from is read anew."""
    state = base.state.caught_up
    people = partial(asyncio.to_thread, base.identity.follow)
    return {
        Premise.PEOPLE: people,
        Premise.STANDING: people,
        Premise.PIN: state,
        Premise.APPROVAL: state,
        Premise.BUDGET: state,
        Premise.POLICY: base.board.look_again,
    }


class _Others:
    """Has every memory show what other gateways have changed."""

    def __init__(self, base: Base) -> None:
        self._state = base.state
        self._identity = base.identity
        self._epoch = self._identity.epoch.now
        self._turned_at = -math.inf

    async def __call__(self) -> bool:
        """Say whether any lacked some, now or while a call may have been decided on it."""
        await self._state.caught_up()
        await asyncio.to_thread(self._identity.follow)
        now, epoch = time.monotonic(), self._identity.epoch.now
        if epoch != self._epoch:
            self._epoch, self._turned_at = epoch, now
        return now - max(self._state.shown_at, self._turned_at) < _LATELY_S


def _runs(setting: Setting, base: Base, *, elapsed: Clock) -> SharedRuns:
    ledger = PostgresRunLedger(base.session, setting.replica)
    kept, belonging = ledger.all()
    return SharedRuns(
        ledger,
        RunNames(base.secrets.keys.hmac, by_person=setting.runs.by_person),
        limits=setting.runs,
        elapsed=elapsed,
        kept=kept,
        belonging=belonging,
    )
