"""Pins that replicas share keep to the suite."""

from collections.abc import AsyncIterator
from types import SimpleNamespace

import pytest

from gateway.storage.pin_rows import PinRows
from tests.postgres import Postgres
from tests.storage.placed import emptied, shared
from tests.storage.postgres.replicas import Stores
from tests.storage.suite import PinStoreSuite, manifest, sighting, target


@pytest.fixture
async def stores(postgres: Postgres) -> AsyncIterator[SimpleNamespace]:
    async with shared(emptied(postgres)) as state:
        yield SimpleNamespace(pins=Stores(state).pins, state=state)


class TestSharedPinStore(PinStoreSuite):
    async def test_another_replica_reads_what_was_written(self, stores: SimpleNamespace) -> None:
        await stores.pins.observe([sighting(target()), sighting(target("other"), "two")])
        expected = str(manifest(target()).digest)
        approve = stores.pins.approve
        for person in ("ada", "bob"):
            await approve(
                target(),
                sighting(target()).manifest.profile,
                expected=expected,
                by=person,
                note="n",
                user_id=f"u_{person}",
                people=2,
                counts=lambda _: True,
                expires_at=2e9,
            )
        await stores.pins.keep_body(target(), sighting(target()).manifest.profile, "sha256:1")
        with stores.state.reading() as tables:
            found = PinRows(compared=True).all(tables)
        assert {pin.target.name: pin for pin in found} == {
            pin.target.name: pin for pin in stores.pins.all()
        }
