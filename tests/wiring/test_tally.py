"""Requests that are refused unread: counted, on record, and not a record each."""

from typing import Any

import orjson

from gateway.domain.audit import RecordKind
from gateway.wiring.tally import MOST_APART, RefusalTally
from tests.storage.memory import MemoryAuditLog


class Counted:
    def __init__(self) -> None:
        self.log = MemoryAuditLog()
        self.now = 1_700_000_000.0
        self.ids = 0
        self.tally = RefusalTally(self.log, clock=lambda: self.now, new_id=self.new_id)

    def new_id(self) -> str:
        self.ids += 1
        return f"r{self.ids}"

    def refuse(self, code: str, source_ip: str, times: int = 1) -> None:
        for _ in range(times):
            self.tally(code, source_ip)
            self.now += 1

    @property
    def written(self) -> list[dict[str, Any]]:
        return [orjson.loads(entry.body) for entry in self.log.entries]


async def test_the_same_is_one_record_with_how_often_and_from_when_to_when() -> None:
    counted = Counted()
    counted.refuse("throttled", "192.0.2.1", 500)
    counted.refuse("origin", "192.0.2.1", 2)
    counted.refuse("throttled", "192.0.2.2")
    await counted.tally.write()
    assert [
        (one["code"], one["source_ip"], one["evidence"]["count"]) for one in counted.written
    ] == [
        ("throttled", "192.0.2.1", 500),
        ("origin", "192.0.2.1", 2),
        ("throttled", "192.0.2.2", 1),
    ]
    first = counted.written[0]
    assert (first["kind"], first["verdict"], first["method"]) == (
        RecordKind.AUTH.value,
        "deny",
        "http",
    )
    assert first["evidence"] == {
        "count": 500,
        "first": "2023-11-14T22:13:20.000Z",
        "last": "2023-11-14T22:21:39.000Z",
    }
    await counted.tally.write()
    assert len(counted.written) == 3


async def test_more_addresses_than_can_be_told_apart_count_all_the_same() -> None:
    counted = Counted()
    for n in range(MOST_APART + 50):
        counted.refuse("throttled", f"192.0.2.{n}")
    await counted.tally.write()
    assert len(counted.written) == MOST_APART + 1
    assert sum(one["evidence"]["count"] for one in counted.written) == MOST_APART + 50
    assert "source_ip" not in counted.written[-1]


async def test_what_cannot_be_recorded_now_is_counted_on() -> None:
    counted = Counted()
    counted.refuse("throttled", "192.0.2.1", 3)
    counted.log.failure = "the disk is full"
    await counted.tally.write()
    counted.refuse("throttled", "192.0.2.1", 4)
    counted.log.failure = ""
    await counted.tally.write()
    (one,) = counted.written
    assert one["evidence"]["count"] == 7
    assert one["evidence"]["first"] == "2023-11-14T22:13:20.000Z"
    assert one["evidence"]["last"] == "2023-11-14T22:13:26.000Z"


async def test_what_is_counted_at_the_end_is_written() -> None:
    counted = Counted()
    async with counted.tally.running():
        counted.refuse("host", "192.0.2.1")
    assert [one["code"] for one in counted.written] == ["host"]
