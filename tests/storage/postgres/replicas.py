"""Replicas with all that they hold, over one database: for tests of what they do to each other."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager

from gateway.domain.epoch import Epoch
from gateway.domain.premises import Premise
from gateway.storage.choices import DurableChoices
from gateway.storage.late_calls import DurableLateCalls
from gateway.storage.own_sessions import DurableSessionStore
from gateway.storage.pin_rows import PinRows
from gateway.storage.pins import DurablePinStore
from gateway.storage.postgres.approvals import SharedApprovalStore
from gateway.storage.postgres.connection import connect
from gateway.storage.postgres.ledger import PostgresLedger
from gateway.storage.postgres.state import SharedState
from gateway.storage.scripts import DurableScriptStore
from tests.audit.encoders import encoder_of
from tests.storage.placed import shared
from tests.storage.postgres.shared import Replica, replica
from tests.storage.suite import NOW
from tests.storage.test_approval_stores import RULES, Envelope


class Stores:
    """All that one replica holds of state."""

    def __init__(self, state: SharedState) -> None:
        self.state = state
        self.epoch = Epoch()
        with state.reading() as tables:
            rows = PinRows(compared=True)
            self.pins = DurablePinStore(
                state, tables, clock=lambda: NOW, epoch=self.epoch, rows=rows
            )
            self.approvals = SharedApprovalStore(state, tables, Envelope(), lambda: RULES)
            self.scripts = DurableScriptStore(state, tables, Envelope())
            self.late = DurableLateCalls(state, tables, Envelope(), lambda: 5)
            self.choices = DurableChoices(state, tables, principals=2)
            self.sessions = DurableSessionStore(state, tables, key=b"k" * 32, clock=lambda: NOW)
        followed = (self.pins, self.approvals, self.scripts, self.late, self.choices)
        for one in (*followed, self.sessions):
            state.follows(one)


class Gateway(Stores):
    """One with its end of the log, too."""

    def __init__(self, state: SharedState, made: Replica) -> None:
        super().__init__(state)
        self.runs = made.runs
        memories = dict.fromkeys((Premise.PIN, Premise.APPROVAL, Premise.BUDGET), state.caught_up)
        self.ledger = PostgresLedger(
            made.lanes,
            encoder_of(),
            runs=made.runs,
            begin=made.runs.join,
            memories=memories,
            others=state.caught_up,
        )


@asynccontextmanager
async def gateway(address: str, name: str = "one") -> AsyncIterator[Gateway]:
    async with shared(address) as state, replica(address, name) as made:
        yield Gateway(state, made)


@contextmanager
def news_held(address: str) -> Iterator[None]:
    """Let no job come to its end, after it has read and written."""
    with closing(connect(address, application="test holds")) as holder, holder.transaction():
        holder.execute("LOCK TABLE state_news IN SHARE MODE")
        yield
