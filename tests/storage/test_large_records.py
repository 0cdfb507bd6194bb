"""A record of much is encoded beside the event loop, and any other at once."""

import threading
from typing import Any

import pytest

from gateway.audit.record import RecordEncoder
from gateway.domain.audit import AuditRecord, RecordKind
from gateway.storage.audit_log import encoded
from tests.audit.encoders import terms


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
    ],
)
async def test_a_large_record_is_encoded_beside_the_loop(fields: Any, is_large: bool):
    encoder = Noting(log_id="log", terms=terms())
    entry = await encoded(encoder, record(**fields))
    assert (encoder.thread != threading.get_ident()) is is_large
    assert entry == RecordEncoder(log_id="log", terms=terms()).encode(record(**fields))
