"""The log of a data directory as it is read: beside its writer, or without one."""

from collections.abc import Sequence
from pathlib import Path

from gateway.audit.checkpoint import VerifierKey
from gateway.audit.cosignature import WitnessKey
from gateway.domain.audit import LogEntry
from gateway.storage.answers import Answers
from gateway.storage.bundles import BundleReader
from gateway.storage.connection import open_reader
from gateway.storage.database import DATABASE
from gateway.storage.following import (
    Always,
    CheckpointSource,
    LogSource,
    NewestCheckpointSource,
    reading,
)
from gateway.storage.index import AuditIndex
from gateway.storage.reader import AuditReader
from gateway.storage.verify import Verification, verify


class SqliteLog:
    """Gives connections of their own, each closed by whoever asked for it."""

    def __init__(self, data_dir: Path) -> None:
        """Read what is in `data_dir`; nothing is opened before it is asked for."""
        self._data_dir = data_dir
        self._database = data_dir / DATABASE

    def reader(self) -> AuditReader:
        """Return what finds records and proves them."""
        return AuditReader.open(self._database)

    def records(self) -> LogSource:
        """Return what followers of the records read."""
        return LogSource(self._database)

    def checkpoints(self) -> LogSource:
        """Return what followers of the checkpoints read."""
        return CheckpointSource(self._database)

    def newest_checkpoint(self) -> LogSource:
        """Return the same of the newest one alone."""
        return NewestCheckpointSource(self._database)

    def turn(self) -> Always:
        """Return whose turn it is to follow the log: always this gateway's."""
        return Always()

    def bundles(self) -> BundleReader:
        """Return what exports are made of."""
        return BundleReader(open_reader(self._database))

    def index(self) -> AuditIndex:
        """Return the index by which questions are answered, made where there is none.

        Raises:
            AuditUnavailable: It cannot be made.

        """
        return AuditIndex.open(self._data_dir)

    def answers(self, *, indexed: bool) -> Answers:
        """Return what answers questions; not `indexed`, those that need the index are refused."""
        return Answers.open(self._data_dir, indexed=indexed)

    async def placed(self, entry: LogEntry) -> int:
        """Return where a record stands that was just written: the writer has given it its place."""
        return entry.leaf_index

    def newest(self) -> int:
        """Return the last record's leaf index; -1 if there is none.

        Raises:
            AuditUnavailable: The log cannot be read now; so for `has`.

        """
        with reading(self._database) as reader:
            return reader.newest()

    def has(self, record_id: str) -> bool:
        """Whether there is a record of that id."""
        with reading(self._database) as reader:
            return reader.find(record_id) is not None

    def verify(
        self,
        verifier: VerifierKey,
        *,
        checkpoints: Sequence[tuple[str, str]] = (),
        witnesses: Sequence[WitnessKey] = (),
    ) -> Verification:
        """Compare the log with itself and with every checkpoint there is; see `verify`."""
        return verify(self._data_dir, verifier, checkpoints=checkpoints, witnesses=witnesses)
