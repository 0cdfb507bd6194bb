"""What a gateway keeps, as whoever wires it asks for it; wherever that lies."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

from gateway.admin.archive import Answers, Index
from gateway.admin.audit import AuditReader
from gateway.admin.exporting import BundleReader, Cursors
from gateway.admin.keeping import Retention
from gateway.admin.replay import Reader
from gateway.admin.stop import Stopping
from gateway.audit.bundle import BundleVerification
from gateway.audit.checkpoint import VerifierKey
from gateway.audit.cosignature import WitnessKey
from gateway.audit.redaction import Levels
from gateway.domain.audit import LogEntry
from gateway.domain.epoch import Epoch
from gateway.domain.quotas import Charge
from gateway.domain.tools import Pin
from gateway.export.witness import Shown
from gateway.ports import AuditLog, PinStore
from gateway.ports.allowance import SharedCounts, UsedProofs
from gateway.ports.behaviour import BaselineStore
from gateway.ports.board import PolicyBoard
from gateway.ports.buckets import Portions, SharedThrottle
from gateway.ports.claims import Claims
from gateway.ports.debts import DebtStore
from gateway.ports.descriptions import DisclosureStore
from gateway.ports.following import CursorStore, RecordSource, Turn
from gateway.ports.front import SessionStore
from gateway.ports.secrets import Sealer
from gateway.ports.selection import ChoiceStore
from gateway.storage.audit_log import Waited
from gateway.storage.identity.store import IdentityStores
from gateway.storage.keys import Keys
from gateway.storage.recovery import Found
from gateway.storage.retention import Record
from gateway.storage.runs import Runs
from gateway.storage.spooling import SpoolingLog
from gateway.storage.unsealed import Bounds, Unsealed
from gateway.storage.verify import Verification


class Closing(Protocol):
    """What is open until it is closed."""

    def close(self) -> None: ...


class Log(AuditLog, Protocol):
    """Where records go."""

    waited: Waited


class LogReader(AuditReader, Reader, Closing, Protocol):
    """What finds records and proves them."""


class Source(RecordSource, Closing, Protocol):
    """What a follower reads."""


class Bundles(BundleReader, Closing, Protocol):
    """What exports are made of."""


class OpenIndex(Index, Closing, Protocol):
    """What questions are answered by."""


class OpenAnswers(Answers, Closing, Protocol):
    """What answers them."""


class AllCursors(CursorStore, Cursors, Protocol):
    """How far each follower has come."""


class Switch(Stopping, Protocol):
    """Whether everything is refused."""

    def require_none(self) -> None:
        """Return if calls are carried.

        Raises:
            Stopped: They are not.

        """
        ...


class Together(Portions, SharedCounts, SharedThrottle, UsedProofs, Protocol):
    """What gateways count together."""


class LogViews(Protocol):
    """The log as it is read. What is given is closed by whoever asked for it; see `SqliteLog`."""

    def reader(self) -> LogReader: ...
    def records(self) -> Source: ...
    def checkpoints(self) -> Source: ...
    def newest_checkpoint(self) -> Source: ...
    def turn(self) -> Turn: ...
    def bundles(self) -> Bundles: ...
    def index(self) -> OpenIndex: ...
    def answers(self, *, indexed: bool) -> OpenAnswers: ...
    async def placed(self, entry: LogEntry) -> int: ...
    def newest(self) -> int: ...
    def has(self, record_id: str) -> bool: ...
    def verify(
        self,
        verifier: VerifierKey,
        *,
        checkpoints: Sequence[tuple[str, str]] = (),
        witnesses: Sequence[WitnessKey] = (),
    ) -> Verification: ...


class Beside(Protocol):
    """What is looked up without a gateway's stores, also while it runs; see `SqliteBeside`."""

    def verify(
        self, *, checkpoints: Sequence[tuple[str, str]], witnesses: Sequence[WitnessKey]
    ) -> Verification: ...
    def segment_verified(self, path: Path) -> BundleVerification: ...
    def waiting(self) -> int: ...
    def pins(self) -> Sequence[Pin]: ...


class Stores(Protocol):
    """The stores of a running gateway, opened and closed together; see `Store`."""

    @property
    def data_dir(self) -> Path: ...
    @property
    def keys(self) -> Keys: ...
    @property
    def verifier(self) -> VerifierKey: ...
    @property
    def identity(self) -> IdentityStores: ...
    @property
    def epoch(self) -> Epoch: ...

    # The log.
    @property
    def audit(self) -> Log: ...
    @property
    def log(self) -> LogViews: ...
    @property
    def found(self) -> Found: ...
    @property
    def recorded(self) -> int: ...
    @property
    def spool(self) -> SpoolingLog | None: ...
    @property
    def cursors(self) -> AllCursors: ...
    def baselines(self) -> BaselineStore: ...
    def cosignatures(self) -> Shown: ...
    def retention(self, *, archive: Path, record: Record) -> Retention: ...
    async def sign(self) -> None: ...
    async def problem(self) -> str: ...

    # What calls rest on.
    @property
    def pins(self) -> PinStore: ...
    @property
    def runs(self) -> Runs: ...
    @property
    def disclosures(self) -> DisclosureStore: ...
    @property
    def choices(self) -> ChoiceStore: ...
    @property
    def sessions(self) -> SessionStore: ...
    @property
    def debts(self) -> DebtStore: ...
    @property
    def used(self) -> Sequence[Charge]: ...
    def usage(self) -> Sequence[Charge]: ...
    @property
    def board(self) -> PolicyBoard | None: ...
    @property
    def allowance(self) -> Together | None: ...
    @property
    def claims(self) -> Claims: ...
    def unsealed(self, sealer: Sealer, bounds: Bounds) -> Unsealed: ...
    def stop(self) -> Switch: ...

    # How records are written.
    def record_by(self, levels: Levels, held: Iterable[str]) -> None: ...
    async def rotate_record_hash(self) -> int: ...
    @property
    def record_hash_keys(self) -> int: ...
    def hashes_of(self, content: Any) -> Sequence[str]: ...

    async def close(self) -> None: ...
