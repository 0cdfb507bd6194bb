"""What was acknowledged survives a kill and a power cut; an unsafe setting is told apart."""

import asyncio
from pathlib import Path

import pytest

from benchmarks.durability.cuts import cut_power
from benchmarks.durability.kills import kill_under_load
from gateway.domain.audit import RecordKind
from gateway.storage.connection import Durability
from gateway.storage.database import DATABASE
from gateway.storage.store import Store
from gateway.storage.verify import own_verifier, verify
from tests.backends import FILES, only
from tests.pipeline.house import House
from tests.storage.powercut import Kind, Unsupported, recorded

KILLS = 3
CUTS = 24
ROUNDS = 80
DEADLINE_S = 0.3
STALL_S = 0.8


def test_no_answered_call_is_lost_doubled_or_sent_unrecorded_when_the_process_is_killed(
    tmp_path: Path,
) -> None:
    survival = kill_under_load(tmp_path, KILLS)
    assert survival.problems == []
    assert survival.kills == KILLS
    assert len(survival.answered) > KILLS * 10
    assert survival.answered < survival.began  # the kills did interrupt something


@pytest.fixture
def recordable() -> None:
    """Skip where SQLite's file layer is out of reach: in a Python that hides its own SQLite."""
    try:
        with recorded():
            pass
    except Unsupported as error:
        pytest.skip(str(error))


@only(FILES)
@pytest.mark.usefixtures("recordable")
def test_no_acknowledged_record_is_lost_to_a_power_cut(tmp_path: Path) -> None:
    losses = cut_power(Durability.POWER, CUTS, tmp_path, rounds=ROUNDS)
    assert (losses.cuts, losses.losing, losses.broken) == (CUTS, 0, [])


@only(FILES)
@pytest.mark.usefixtures("recordable")
def test_what_survives_the_process_only_is_lost_to_a_power_cut_but_the_log_stays_whole(
    tmp_path: Path,
) -> None:
    losses = cut_power(Durability.PROCESS, CUTS, tmp_path, rounds=ROUNDS)
    assert losses.losing > CUTS / 4
    assert losses.broken == []


@only(FILES)
@pytest.mark.usefixtures("recordable")
async def test_a_disk_that_stalls_costs_a_refusal_and_nothing_is_sent(tmp_path: Path) -> None:
    with recorded() as recording:
        house = House()
        store = await Store.open(tmp_path / "var", deadline_s=DEADLINE_S, clock=house.clock)
        house.audit = store.audit  # type: ignore[assignment]
        house.pipeline = house._wired()
        await house.approve_all()
        assert (await house.handle(house.call())).code is None
        sent = len(house.server.saw)

        recording.sync_takes_s = STALL_S
        stalled = await asyncio.gather(*(house.handle(house.call()) for _ in range(20)))
        assert {one.code for one in stalled} == {"audit_unavailable"}
        assert len(house.server.saw) == sent

        recording.sync_takes_s = 0.0
        await asyncio.sleep(2 * STALL_S)
        assert (await house.handle(house.call())).code is None
        assert await store.problem() == ""
        await store.caught_up()
        reader = store.log.reader()
        kinds = [one["kind"] for one in reader.export() if one["kind"] != RecordKind.PIN]
        # An intent that was refused may still be written down late: its call was never sent.
        assert kinds[:2] == kinds[-2:] == ["intent", "outcome"]
        reader.close()
        await store.close()
    assert verify(tmp_path / "var", own_verifier(tmp_path / "var")).reason == ""
    assert any(
        one.kind is Kind.SYNC and one.name.startswith(DATABASE) for one in recording.operations
    )
