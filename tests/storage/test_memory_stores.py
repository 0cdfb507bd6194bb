"""The forgetting stores keep to the suite, so that tests on them mean something."""

from types import SimpleNamespace

import pytest

from gateway.errors import AuditUnavailable
from tests.storage.memory import MemoryAuditLog, MemoryPinStore, MemoryRunStore
from tests.storage.memory_people import MemoryClientStore
from tests.storage.suite import (
    NOW,
    RUN_LIMITS,
    AuditLogSuite,
    ClientStoreSuite,
    Elapsed,
    PinStoreSuite,
    RunStoreSuite,
    client,
    event,
    pending,
    target,
)


@pytest.fixture
def stores():
    elapsed = Elapsed()
    return SimpleNamespace(
        elapsed=elapsed,
        audit=MemoryAuditLog(),
        pins=MemoryPinStore(clock=lambda: NOW),
        runs=MemoryRunStore(limits=RUN_LIMITS, elapsed=elapsed),
        clients=MemoryClientStore(),
    )


class TestMemoryAuditLog(AuditLogSuite):
    async def test_records_can_be_looked_at(self, stores):
        await stores.audit.append(event("e", server="mail"))
        assert stores.audit.records == [event("e", server="mail")]
        assert b'"server":"mail"' in stores.audit.entries[0].body

    async def test_it_fails_when_it_is_told_to(self, stores):
        stores.audit.failure = "disk full"
        with pytest.raises(AuditUnavailable):
            await stores.audit.append(event("e"))
        assert stores.audit.records == []


class TestMemoryPinStore(PinStoreSuite):
    def test_it_can_begin_with_pins(self):
        assert MemoryPinStore(clock=lambda: NOW, pins=[pending(target())]).all() == [
            pending(target())
        ]


class TestMemoryRunStore(RunStoreSuite):
    pass


class TestMemoryClientStore(ClientStoreSuite):
    def test_it_can_begin_with_clients(self):
        assert MemoryClientStore([client()]).find("c_1") == client()
