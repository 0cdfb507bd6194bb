"""A record of much is encoded beside the event loop, and any other at once."""

import asyncio
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.audit.record import RecordEncoder
from gateway.domain.audit import AuditRecord, RecordKind
from gateway.pipeline.trail import Trail
from gateway.storage.audit_log import encoded
from gateway.storage.store import Store
from tests.audit.encoders import terms
from tests.pipeline.house import ALICE, House, noting_whose


class Noting(RecordEncoder):
    """Notes in which thread it encodes."""

    def encode(self, record: AuditRecord) -> Any:
        self.thread = threading.get_ident()
        return super().encode(record)


def record(**fields: Any) -> AuditRecord:
    fields = {"principal": "alice", **fields}
    return AuditRecord(kind=RecordKind.INTENT, time=1.0, id="r1", fields=fields)


@pytest.mark.parametrize(
    ("fields", "is_large"),
    [
        ({"arguments": {"a": 1}, "result": b"{}"}, False),
        ({"arguments": {"a": [{}] * 5_000}}, True),
        ({"arguments": {"a": "x" * 1_000_000}}, True),
        ({"result": b"x" * 1_000_000}, True),
        ({"reasons": [{"code": "a", "message": "x"}], "evidence": {"a": "x"}}, False),
        ({"reasons": [{"code": "a", "message": "x" * 1_000_000}]}, True),
        ({"evidence": {"a": "x" * 1_000_000}}, True),
    ],
)
async def test_a_large_record_is_encoded_beside_the_loop(fields: Any, is_large: bool):
    encoder = Noting(log_id="log", terms=terms())
    entry = await encoded(encoder, record(**fields))
    assert (encoder.thread != threading.get_ident()) is is_large
    assert entry == RecordEncoder(log_id="log", terms=terms()).encode(record(**fields))


whose = pytest.fixture(noting_whose)


async def test_a_large_record_of_a_call_takes_the_turn_of_whose_call_it_is(whose: set[str]):
    """Not of whom it names: records name a person otherwise than turns do."""
    ours = replace(ALICE, issuer="https://elsewhere.example", named="https://elsewhere.example|al")
    trail = Trail(House().call(), clock=lambda: 1.0, new_id=lambda: "r1")
    trail.principal(ours, ())
    trail.arguments = {"a": [{}] * 5_000}
    await encoded(RecordEncoder(log_id="log", terms=terms()), trail.intent())
    assert whose == {ours.person}


@pytest.mark.parametrize("is_large", [False, True])
async def test_it_is_on_record_also_where_whoever_waits_goes(
    tmp_path: Path, is_large: bool
) -> None:
    store = await Store.open(tmp_path, clock=lambda: 1.0)
    try:
        one = record(arguments={"a": [{}] * (5_000 if is_large else 1)})
        task = asyncio.create_task(store.audit.append(one))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(60):
            while not list(store.log.reader().export()):
                await asyncio.sleep(0.02)
    finally:
        await store.close()
