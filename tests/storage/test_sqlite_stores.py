"""The durable stores keep to the suite, and remember."""

import asyncio

import pytest

from gateway.domain.labels import STRICTEST_DEFAULT
from gateway.domain.tools import Profile
from gateway.storage.runs import RunNames
from gateway.storage.store import Store
from tests.storage.suite import (
    NOW,
    AuditLogSuite,
    PinStoreSuite,
    RunStoreSuite,
    event,
    manifest,
    principal,
    sighting,
    source,
    target,
)


@pytest.fixture
async def stores(tmp_path):
    store = await Store.open(tmp_path / "var", clock=lambda: NOW)
    yield store
    await store.close()


@pytest.fixture
def reopened(tmp_path, stores):
    async def reopen():
        await stores.close()
        return await Store.open(tmp_path / "var", clock=lambda: NOW)

    return reopen


async def batches(stores):
    """How many transactions were ever committed."""
    return await stores.writer.run(
        lambda connection: int(
            connection.execute("SELECT value FROM meta WHERE key = 'batch'").fetchone()[0]
        )
    )


class TestSqliteAuditLog(AuditLogSuite):
    async def test_a_restart_goes_on_where_it_ended(self, stores, reopened):
        for n in range(300):
            await stores.audit.append(event(f"e{n}"))
        again = await reopened()
        entry = await again.audit.append(event("after"))
        await again.close()
        assert entry.leaf_index == 300
        assert again.log_id == stores.log_id

    async def test_neither_arguments_nor_results_reach_the_disk(self, stores):
        await stores.audit.append(
            event("e", arguments={"text": "canary-in-arguments"}, result=b"canary-in-result")
        )
        written = b"".join(path.read_bytes() for path in stores.data_dir.iterdir())
        assert b"arguments_hmac" in written
        assert b"canary" not in written


class TestSqlitePinStore(PinStoreSuite):
    async def test_a_restart_remembers_pins(self, stores, reopened):
        await stores.pins.observe([sighting(target()), sighting(target("other"))])
        digest = str(manifest(target()).digest)
        given = {"expected": digest, "by": "emma", "note": "n", "user_id": "u_emma"}
        await stores.pins.approve(target(), Profile.LEGACY, **given, expires_at=NOW + 1)
        await stores.pins.keep_body(target(), Profile.LEGACY, "sha256:1")
        other = {**given, "expected": str(manifest(target("other")).digest)}
        await stores.pins.approve(target("other"), Profile.LEGACY, **other, people=2)
        before = stores.pins.all()
        assert [(len(pin.approvals), len(pin.filed)) for pin in before] == [(0, 1), (1, 0)]
        again = await reopened()
        assert again.pins.all() == before
        await again.close()

    async def test_looking_again_writes_nothing(self, stores):
        await stores.pins.observe([sighting(target())])
        before = await batches(stores)
        await stores.pins.observe([sighting(target())])
        assert await batches(stores) == before + 1


class TestSqliteRunStore(RunStoreSuite):
    async def test_a_restart_remembers_labels(self, stores, reopened):
        run = await stores.runs.open(principal(), "session")
        raised = await stores.runs.raise_label(run.id, STRICTEST_DEFAULT, source())
        again = await reopened()
        assert await again.runs.of(principal(), "session") == raised
        await again.close()

    async def test_opening_at_the_same_moment_sheds_nothing(self, stores):
        name = RunNames(stores.keys.hmac).of_session(principal(), "session")
        await asyncio.gather(
            stores.runs.open(principal(), "session"),
            stores.runs.raise_label(name, STRICTEST_DEFAULT, None),
            stores.runs.open(principal(), "session"),
        )
        assert (await stores.runs.of(principal(), "session")).label == STRICTEST_DEFAULT

    async def test_a_label_that_is_high_enough_writes_nothing(self, stores):
        run = await stores.runs.open(principal(), "session")
        await stores.runs.raise_label(run.id, STRICTEST_DEFAULT, source(record=1))
        before = await batches(stores)
        await stores.runs.raise_label(run.id, STRICTEST_DEFAULT, source(record=2))
        assert await batches(stores) == before + 1
