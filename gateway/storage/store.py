"""Everything in one data directory: what calls rest on, and what reads and keeps their records."""

from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from gateway.ports import Clock
from gateway.storage.baselines import DurableBaselines
from gateway.storage.call_store import CallStore
from gateway.storage.choices import DurableChoices
from gateway.storage.connection import open_reader
from gateway.storage.cosignatures import DurableCosignatures
from gateway.storage.cursors import DurableCursors
from gateway.storage.database import DATABASE
from gateway.storage.debts import DurableDebts
from gateway.storage.following import reading
from gateway.storage.identity.store import IdentityStores
from gateway.storage.log_views import SqliteLog
from gateway.storage.retention import Record, Retention
from gateway.turns import Line


class Store(CallStore):
    """The stores of a running gateway. One process has a data directory open at a time."""

    def __init__(self, *, identity: IdentityStores, **parts: Any) -> None:
        """Wire them to what `CallStore` is wired to. See `open`."""
        super().__init__(identity=identity, **parts)
        self.identity = identity
        self.log = SqliteLog(self.data_dir)
        """What is in the log, to be read."""
        self.cursors = DurableCursors(self.writer)
        self.aging = Line()
        """Held by whoever archives or removes records."""
        with closing(open_reader(self.data_dir / DATABASE)) as connection:
            self.choices = DurableChoices(self.writer, connection)
            """What of all servers principals choose to see, which only ever narrows what policy shows them."""
            self.debts = DurableDebts(self.writer, connection)

    @classmethod
    def _identity_in(cls, data_dir: Path, clock: Clock) -> IdentityStores:
        return IdentityStores.open(data_dir, clock=clock)

    def baselines(self) -> DurableBaselines:
        """Return where is kept what is usual for whom."""
        return DurableBaselines(self.writer)

    def cosignatures(self) -> DurableCosignatures:
        """Return what witnesses are shown, and where is kept what they have said."""
        return DurableCosignatures(self.writer, partial(reading, self.data_dir / DATABASE))

    def retention(self, *, archive: Path, record: Record) -> Retention:
        """Return what archives old records into that folder, and removes them; it says so by `record`."""
        return Retention(
            self.data_dir,
            self.writer,
            verifier=self.verifier,
            key=self.keys.audit,
            archive=archive,
            record=record,
            turn=self.aging,
        )
