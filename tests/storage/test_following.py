"""What followers read is the log as it lies there, also after the file was away."""

from pathlib import Path

import pytest

from gateway.audit.checkpoint import open_checkpoint
from gateway.errors import AuditUnavailable
from gateway.storage.database import DATABASE
from gateway.storage.following import CheckpointSource, LogSource
from gateway.storage.store import Store
from tests.storage.logged import NOW, made, write


async def test_records_come_in_order_and_after_a_place(tmp_path: Path) -> None:
    await write(tmp_path, [*made("1"), *made("2")])
    source = LogSource(tmp_path / DATABASE)
    assert [one.leaf_index for one in source.stored_after(-1, 3)] == [0, 1, 2]
    assert [one.leaf_index for one in source.stored_after(2, 10)] == [3]
    assert source.stored_after(3, 10) == []
    source.close()


async def test_checkpoints_come_in_order_with_their_notes(tmp_path: Path) -> None:
    await write(tmp_path, made("1"))
    await write(tmp_path, made("2"), begin=2)
    store = await Store.open(tmp_path, clock=lambda: NOW)
    source = CheckpointSource(tmp_path / DATABASE)
    try:
        first, second = source.stored_after(-1, 10)
        sizes = [open_checkpoint(one.body.decode(), store.verifier).size for one in (first, second)]
        assert (sizes, first.leaf_index, second.leaf_index) == ([2, 4], 1, 3)
        assert source.stored_after(1, 10) == [second]
        assert source.stored_after(3, 10) == []
    finally:
        source.close()
        await store.close()


async def test_a_log_that_is_away_is_waited_for(tmp_path: Path) -> None:
    source = LogSource(tmp_path / DATABASE)
    with pytest.raises(AuditUnavailable):
        source.stored_after(-1, 10)
    await write(tmp_path, made("1"))
    assert len(source.stored_after(-1, 10)) == 2
    source.close()
