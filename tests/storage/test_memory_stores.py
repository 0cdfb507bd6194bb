"""The forgetting stores keep to the suite, so that tests on them mean something."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from gateway.domain.scripts import ScriptId
from gateway.domain.tools import OWN
from gateway.errors import AuditUnavailable
from gateway.storage.runs import EARLIER
from tests.storage.memory import MemoryAuditLog, MemoryPinStore, MemoryRunStore
from tests.storage.memory_people import MemoryClientStore
from tests.storage.suite import (
    NOTHING,
    NOW,
    PRIVATE,
    RUN_LIMITS,
    AuditLogSuite,
    ClientStoreSuite,
    Elapsed,
    PinStoreSuite,
    RunStoreSuite,
    client,
    event,
    host,
    named,
    pending,
    source,
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
    async def test_that_a_program_has_read_is_known_where_it_is_forgotten_what(self, stores):
        program = replace(host(trusted=False), script=ScriptId("s_1"))
        other = await stores.runs.of(host("noah"), NOTHING)
        for script in (program.script, *(ScriptId(f"o_{number}") for number in range(120))):
            for number in range(64):
                one = source(f"{number:0256}", of=PRIVATE)
                await stores.runs.raise_label(other.id, PRIVATE, one, script)
        handle, _ = await stores.runs.begin(host(), None)
        found = await stores.runs.of(program, named(handle))
        assert found.label == PRIVATE
        (told,) = found.sources
        assert (told.server, told.tool, told.label) == (OWN, EARLIER, PRIVATE)
        assert found.has_read
        assert found.label == (await stores.runs.of(host(), NOTHING)).label


class TestMemoryClientStore(ClientStoreSuite):
    def test_it_can_begin_with_clients(self):
        assert MemoryClientStore([client()]).find("c_1") == client()
