"""A record that a collector refuses is found among its batch, and passed over by a person only."""

import json
from collections.abc import Mapping

import pytest

from gateway.errors import AuditUnavailable
from gateway.export.collector import Collector, CollectorSink
from gateway.export.follower import Follower
from gateway.ports.following import NotDelivered, Refused
from tests.export.test_collector import JSONL, Answer, Poster, record, sink
from tests.export.test_follower import Cursors, Log, _Enough


class Picky(Poster):
    """Takes all batches but those with one of some records in them."""

    def __init__(self, *poison: int, status: int = 422, body: bytes = b"no such field") -> None:
        super().__init__()
        self.poison = set(poison)
        self.refusal = Answer(status, {"retry-after": "3"}, body)

    async def upload(self, url: str, body: bytes, *, headers: Mapping[str, str]) -> Answer:
        await super().upload(url, body, headers=headers)
        return self.refusal if self.poison & set(self.indexes[-1]) else Answer()

    @property
    def taken(self) -> list[int]:
        """What was taken, as often as it was."""
        return [one for batch in self.indexes if not self.poison & set(batch) for one in batch]


@pytest.mark.parametrize("status", [400, 413, 422])
async def test_it_is_found_by_halves_and_all_before_it_arrives(status: int) -> None:
    poster = Picky(5, status=status)
    one, _ = sink(poster)
    page = [record(index) for index in range(8)]
    with pytest.raises(NotDelivered) as told:
        await one.deliver(page)
    assert str(told.value) == f"record 5 is refused: it answers with status {status}"
    assert told.value.refused == Refused(leaf_index=5, answer=f"status {status}: no such field")
    assert told.value.retry_after_s == 3
    assert poster.indexes == [[*range(8)], [0, 1, 2, 3], [4, 5, 6, 7], [4, 5], [4], [5]]


async def test_it_is_sent_alone_until_it_is_taken() -> None:
    poster = Picky(5)
    one, _ = sink(poster)
    page = [record(index) for index in range(8)]
    for _ in range(3):
        with pytest.raises(NotDelivered):
            await one.deliver(page)
    poster.poison.clear()
    await one.deliver(page)
    assert poster.indexes[-4:] == [[5], [5], [5], [6, 7]]


@pytest.mark.parametrize("status", [401, 403, 404, 415, 429, 500])
async def test_an_answer_about_the_sender_halves_nothing(status: int) -> None:
    poster = Picky(1, status=status)
    with pytest.raises(NotDelivered) as told:
        await sink(poster)[0].deliver([record(index) for index in range(4)])
    assert (told.value.refused, len(poster.sent)) == (None, 1)


@pytest.mark.parametrize(
    ("body", "answer"),
    [
        (b"", "status 422"),
        (b" \r\n too\tlong \n", "status 422: too long"),
        (b"\x1b[31mred\x00", "status 422: \ufffd[31mred\ufffd"),
        (b"\xff", "status 422: \ufffd"),
        (b"x" * 5000, "status 422: " + "x" * 300),
    ],
)
async def test_what_the_collector_says_is_shown_harmless(body: bytes, answer: str) -> None:
    with pytest.raises(NotDelivered) as told:
        await sink(Picky(0, body=body))[0].deliver([record(0)])
    assert told.value.refused is not None
    assert told.value.refused.answer == answer
    assert "422:" not in str(told.value)  # which anybody may see who sees whether it is ready
    assert answer not in repr(told.value.refused)


async def test_what_says_who_we_are_is_taken_out_of_what_the_collector_says() -> None:
    echo = (
        b"no: " + b" " * 1180 + b"Authorization: Bearer s3cr3t-of-ours (s3cr3t-of-ours), Tenant: 7"
    )
    to = Collector(
        url="https://siem.example/in",
        headers={"Authorization": "Bearer s3cr3t-of-ours", "Tenant": "7"},
    )
    one = CollectorSink("siem", to, JSONL, poster=Picky(0, body=echo), rejected=lambda _: None)
    with pytest.raises(NotDelivered) as told:
        await one.deliver([record(0)])
    assert told.value.refused is not None
    assert told.value.refused.answer == "status 422: no: Authorization: *** (***), Tenant: 7"


class Rig:
    """A follower whose pauses end its work, for somebody to look."""

    def __init__(self, *poison: int) -> None:
        self.poster = Picky(*poison)
        self.cursors = Cursors()
        log = Log(0)
        log.records = [record(index) for index in range(6)]
        self.follower = Follower(
            "export siem",
            source=log,
            cursors=self.cursors,
            sink=sink(self.poster)[0],
            pause=self._pause,
        )
        self.acts = [self.work]

    async def _pause(self, seconds: float) -> None:
        if not self.acts:
            raise _Enough
        await self.acts.pop(0)()

    async def work(self) -> None:
        pass

    async def run(self) -> None:
        with pytest.raises(_Enough):
            await self.follower.run()


async def test_only_the_record_it_stands_at_is_passed_over() -> None:
    rig = Rig(2, 4)
    seen: list[object] = []

    async def skip_two() -> None:
        for other in (1, 3, 4):
            with pytest.raises(LookupError):
                await rig.follower.skip(other)
        assert rig.follower.refused is not None
        assert (rig.follower.refused.leaf_index, rig.cursors.kept) == (2, -1)
        await rig.follower.skip(2)
        seen.append((rig.cursors.kept, rig.follower.done, rig.follower.refused))
        with pytest.raises(LookupError):
            await rig.follower.skip(2)

    async def skip_four() -> None:
        await rig.follower.skip(4)

    rig.acts = [skip_two, skip_four]
    await rig.run()
    assert seen == [(2, 2, None)]
    assert rig.poster.taken == [0, 1, 3, 5]
    assert (rig.cursors.kept, rig.follower.done, rig.follower.refused) == (5, 5, None)


async def test_the_last_record_of_a_page_is_passed_over_too() -> None:
    rig = Rig(5)

    async def skip() -> None:
        await rig.follower.skip(5)

    rig.acts = [skip]
    await rig.run()
    assert (rig.poster.taken, rig.cursors.kept) == ([0, 1, 2, 3, 4], 5)


async def test_it_is_passed_over_only_once_that_is_durable() -> None:
    rig = Rig(2)

    async def skip() -> None:
        rig.cursors.refuses = 1
        with pytest.raises(AuditUnavailable):
            await rig.follower.skip(2)
        assert rig.follower.refused is not None
        assert rig.follower.done == -1

    rig.acts = [skip]
    await rig.run()
    assert rig.poster.taken == [0, 1]


async def test_once_it_is_taken_there_is_nothing_to_pass_over() -> None:
    rig = Rig(2)

    async def repair() -> None:
        rig.poster.poison.clear()

    rig.acts = [repair]
    await rig.run()
    with pytest.raises(LookupError):
        await rig.follower.skip(2)
    assert json.loads(rig.poster.sent[-1][1].splitlines()[0])["leaf_index"] == 3
