"""A collector gets every record once it takes them, and none is left out where it does not."""

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from gateway.audit.forms import Form, Written, written_as
from gateway.errors import EgressRefused, UpstreamFailed
from gateway.export.collector import Collector, CollectorSink
from gateway.export.follower import Follower
from gateway.ports.following import NotDelivered, StoredRecord
from tests.export.test_follower import Cursors, Log, _Enough

JSONL = written_as(Form.JSONL, version="1")


@dataclass
class Answer:
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


class Poster:
    """Answers what is queued, and then yes."""

    def __init__(self, *answers: Answer | Exception) -> None:
        self.answers = list(answers)
        self.sent: list[tuple[str, bytes, Mapping[str, str]]] = []

    async def upload(self, url: str, body: bytes, *, headers: Mapping[str, str]) -> Answer:
        self.sent.append((url, body, headers))
        answer = self.answers.pop(0) if self.answers else Answer()
        if isinstance(answer, Exception):
            raise answer
        return answer

    @property
    def indexes(self) -> list[list[int]]:
        return [
            [json.loads(line)["leaf_index"] for line in body.splitlines()]
            for _, body, _ in self.sent
        ]


def record(index: int, padding: int = 0) -> StoredRecord:
    body = json.dumps({"id": str(index), "padding": "x" * padding}).encode()
    return StoredRecord(leaf_index=index, leaf_hash=b"\0" * 32, body=body)


def sink(poster: Poster, written: Written = JSONL) -> tuple[CollectorSink, list[int]]:
    rejected: list[int] = []
    to = Collector(url="https://siem.example/in", headers={"Authorization": "Bearer x"})
    return CollectorSink(
        "siem", to, written, poster=poster, rejected=rejected.append, clock=lambda: 1_800_000_000.0
    ), rejected


async def test_a_batch_is_one_request_with_the_headers_of_the_configuration() -> None:
    poster = Poster()
    await sink(poster)[0].deliver([record(0), record(1)])
    ((url, _, headers),) = poster.sent
    assert url == "https://siem.example/in"
    assert headers == {"Authorization": "Bearer x", "content-type": "application/x-ndjson"}
    assert poster.indexes == [[0, 1]]


@pytest.mark.parametrize("status", [199, 301, 302, 400, 401, 404, 413, 429, 500, 503])
async def test_whatever_is_no_yes_is_tried_again(status: int) -> None:
    with pytest.raises(NotDelivered, match=f"it answers with status {status}"):
        await sink(Poster(Answer(status)))[0].deliver([record(0)])


@pytest.mark.parametrize("error", [UpstreamFailed, EgressRefused])
async def test_no_answer_is_no_yes(error: type[UpstreamFailed | EgressRefused]) -> None:
    with pytest.raises(NotDelivered, match="nobody there"):
        await sink(Poster(error("public", detail="nobody there")))[0].deliver([record(0)])


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("17", 17.0), ("Fri, 15 Jan 2027 08:02:00 GMT", 120.0), ("", 0.0), ("soon", 0.0)],
)
async def test_a_collector_says_how_long_to_wait(text: str, seconds: float) -> None:
    poster = Poster(Answer(429, {"retry-after": text}))
    with pytest.raises(NotDelivered) as told:
        await sink(poster)[0].deliver([record(0)])
    assert told.value.retry_after_s == seconds


async def test_a_follower_waits_as_long_as_it_is_asked_to_and_no_longer() -> None:
    taken: list[float] = []

    async def pause(seconds: float) -> None:
        taken.append(seconds)
        if len(taken) > 4:
            raise _Enough

    poster = Poster(
        Answer(429, {"retry-after": "17"}), Answer(503), Answer(429, {"retry-after": "99999"})
    )
    follower = Follower("siem", source=Log(1), cursors=Cursors(), sink=sink(poster)[0], pause=pause)
    with pytest.raises(_Enough):
        await follower.run()
    assert taken == [17.0, 2.0, 600.0, 0.5, 0.5]


async def test_what_was_taken_before_a_failure_is_not_sent_again() -> None:
    records = [record(index, 600_000) for index in range(3)]
    poster = Poster(Answer(), Answer(503))
    one, _ = sink(poster)
    with pytest.raises(NotDelivered):
        await one.deliver(records)
    await one.deliver(records)
    assert poster.indexes == [[0], [1], [1], [2]]


async def test_a_batch_that_is_too_large_is_halved() -> None:
    poster = Poster(Answer(413), Answer(413), Answer(), Answer(), Answer())
    await sink(poster)[0].deliver([record(index) for index in range(4)])
    assert poster.indexes == [[0, 1, 2, 3], [0, 1], [0], [1], [2, 3]]


def partly(**members: Any) -> Answer:
    return Answer(body=json.dumps({"partialSuccess": members}).encode())


@pytest.mark.parametrize(
    ("answer", "rejected"),
    [
        (partly(rejectedLogRecords="3", errorMessage="too old"), [3]),
        (partly(rejectedSpans=2), [2]),
        (partly(errorMessage="a warning"), []),
        (partly(rejectedLogRecords="0"), []),
        (Answer(body=b"{}"), []),
        (Answer(body=b"ok"), []),
        (Answer(body=b"[]"), []),
        (Answer(body=b'{"partialSuccess":7}'), []),
        (Answer(body=b"[" * 100_000), []),
        (Answer(body=b'{"partialSuccess":{"rejectedSpans":1e999}}'), []),
    ],
    ids=range(10),
)
async def test_what_is_taken_in_part_is_counted_and_not_sent_again(
    answer: Answer, rejected: list[int]
) -> None:
    poster = Poster(answer)
    one, counted = sink(poster, written_as(Form.JSONL, version="1"))
    await one.deliver([record(0)])
    assert (counted, len(poster.sent)) == (rejected, 1)


async def test_where_there_is_nothing_to_say_nothing_is_sent() -> None:
    poster = Poster()
    one, _ = sink(poster, Written(media="x", of=lambda _: b""))
    await one.deliver([record(0)])
    assert poster.sent == []


def test_a_collector_shows_nobody_its_headers() -> None:
    assert "Bearer" not in repr(Collector(url="https://a", headers={"A": "Bearer x"}))


async def test_calls_do_not_wait_while_a_batch_is_put_into_its_form() -> None:
    threads: list[int] = []

    def of(_: object) -> bytes:
        threads.append(threading.get_ident())
        return b"x"

    await sink(Poster(), Written(media="x", of=of))[0].deliver([record(0)])
    assert threading.get_ident() not in threads
    assert len(threads) == 1
