"""What planes are allowed is kept whole until it is reported: so many bytes, and of each plane its share."""

import asyncio
import json
import sys
from dataclasses import replace
from typing import Any

import pytest

from gateway.domain.calls import octets_of_call
from gateway.domain.planes import Reports
from gateway.domain.shares import Shares
from gateway.errors import AuditUnavailable
from gateway.pipeline.debts import Debts
from gateway.pipeline.plane_records import Asking
from gateway.wire.authzen import Entity
from gateway.wire.jsonrpc import read_message
from gateway.wire.jsontext import WireLimits
from tests.pipeline.house import House, text
from tests.pipeline.test_questions_of_planes import (
    EDGE,
    allowed,
    ask,
    codes,
    opened_house,
    question,
    report,
)

house = pytest.fixture(opened_house)


def with_room(house: House, room: Shares, of_each: int = 1 << 20) -> Debts:
    """Have `house` keep what is owed in `room`, and so many bytes of each principal of a plane."""
    house.debts = Debts(
        house.owed,
        runs=house.runs,
        audit=house.audit,
        clock=house.clock,
        room=room,
        of_each=of_each,
    )
    house.pipeline = house._wired()
    return house.debts


async def test_only_so_many_bytes_are_owed_at_a_time_and_a_report_makes_room(house: House) -> None:
    debts = with_room(house, Shares(octets=1 << 20, share=30_000))
    first = await allowed(house)
    ((calls, octets),) = debts.held.values()
    assert calls == 1
    assert octets <= 30_000 < 2 * octets
    assert "rate_limited" in codes(await ask(house))
    assert list(house.owed.kept) == [first]
    assert (await report(house, first, text("fine"))).decision
    assert debts.held == {}
    await allowed(house)


async def test_a_full_share_is_told_before_policy_is_asked(house: House) -> None:
    with_room(house, Shares(octets=1 << 20, share=0))
    assert "rate_limited" in codes(await ask(house))
    assert house.rule.asked == []


async def test_of_a_plane_that_reports_nothing_nothing_is_kept(house: House) -> None:
    debts = with_room(house, Shares(octets=0, share=0))
    await allowed(house, plane=replace(EDGE, reports=Reports.NONE))
    assert debts.held == {}


async def test_what_cannot_be_written_down_takes_no_room(house: House) -> None:
    debts = with_room(house, Shares(octets=1 << 20, share=30_000))
    house.audit.failure = "disk full"
    with pytest.raises(AuditUnavailable):
        await ask(house)
    assert debts.held == {}


async def test_a_plane_that_fills_its_share_leaves_room_for_others(house: House) -> None:
    with_room(house, Shares(octets=80_000, share=30_000))
    await allowed(house)
    assert "rate_limited" in codes(await ask(house))
    await allowed(house, plane=replace(EDGE, name="other"))


async def test_who_fills_their_share_leaves_room_for_others_of_the_plane(house: House) -> None:
    debts = with_room(house, Shares(octets=1 << 20, share=1 << 20), of_each=30_000)
    first = await allowed(house)
    assert "rate_limited" in codes(await ask(house))
    asking = Asking(plane=EDGE, source_ip="192.0.2.1", request_id="q")
    bobs = replace(question(), subject=Entity(type="identity", id="bob", properties={}))
    assert (await house.decisions.answer(asking, bobs)).decision
    assert debts.held["edge"][0] == 2
    assert (await report(house, first, text("fine"))).decision
    await allowed(house)


async def test_a_principal_that_was_refused_has_taken_no_room_of_the_plane(house: House) -> None:
    debts = with_room(house, Shares(octets=1 << 20, share=1 << 20), of_each=0)
    assert "rate_limited" in codes(await ask(house))
    assert debts.held == {}
    assert house.owed.kept == {}


async def test_two_at_once_do_not_share_the_last_of_the_room(house: House) -> None:
    debts = with_room(house, Shares(octets=80_000, share=30_000))
    both = asyncio.Barrier(2)

    async def meet() -> None:
        await both.wait()

    house.catalogs.first = meet  # each has been told by then that there is room
    async with asyncio.timeout(60):
        answers = await asyncio.gather(ask(house), ask(house))
    assert sorted(answer.decision for answer in answers) == [False, True]
    assert len(house.owed.kept) == 1
    assert debts.held["edge"][0] == 1


def size_of(content: Any, seen: set[int]) -> int:
    """Return how many bytes `content` takes with all that is in it."""
    if id(content) in seen:
        return 0
    seen.add(id(content))
    found = sys.getsizeof(content)
    if isinstance(content, dict):
        found += sum(size_of(k, seen) + size_of(v, seen) for k, v in content.items())
    elif isinstance(content, list):
        found += sum(size_of(one, seen) for one in content)
    return found


@pytest.mark.parametrize(
    "argument",
    [
        "x",
        "x" * 100_000,
        "x" * 100_000 + "\U0001f600",
        "\x00" * 50_000,
        [[] for _ in range(20_000)],
        [{} for _ in range(20_000)],
        [{"a": [1.5]} for _ in range(10_000)],
        [1000 + n for n in range(40_000)],
        {f"k{n}": n + 1000 for n in range(20_000)},
        [f"ab{n}" for n in range(40_000)],
        "x" * (1 << 20) + "\U0001f600",
    ],
)  # fmt: skip
def test_no_shape_takes_more_than_it_is_counted_for(argument: Any) -> None:
    params = {"name": "search", "arguments": {"q": argument}}
    content = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    body = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()
    message = read_message(body, WireLimits())
    takes = size_of(message.params, set()) + sys.getsizeof(message.body)
    call = replace(House().call("search"), message=message)
    assert takes <= octets_of_call(call)
