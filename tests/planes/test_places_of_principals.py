"""Of the places that a plane has, whoever calls by it has a part, and no more."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from gateway.domain.room import FREE, UNDER_WAY
from gateway.domain.shares import Shares
from gateway.pipeline.plane_records import said_by
from gateway.pipeline.plane_traffic import Turned
from gateway.planes import doorman, http_calls
from gateway.planes.doorman import Doorman, Place, Rooms
from gateway.planes.exchange import Exchange
from gateway.planes.stubs import envoy_pb2 as pb
from gateway.planes.stubs import ext_mcp_pb2
from gateway.turns import in_turn
from tests.pipeline.house import House, text
from tests.planes.asking import (
    CLAIMED,
    META,
    PLANE,
    Envoy,
    answered,
    call,
    given,
    message,
    mirrored,
    nobody_counts,
    on_record,
    opened_house,
    refusal,
    sent,
)
from tests.planes.test_grpc_listener import AGENT, AUTH, asked, method, request, response
from tests.planes.test_strangers_by_grpc import head
from tests.planes.test_what_comes_late import Gate

house = pytest.fixture(opened_house)
OTHER = {**CLAIMED, "sub": "bob"}
LISTED = 2
"""References to what stands in one list alone, by `sys.getrefcount`."""


async def test_who_has_all_their_places_leaves_those_of_others(house: House) -> None:
    of_each = Shares(octets=9, share=1)
    first, second, other = (Envoy(house, of_each=of_each) for _ in range(3))
    sent(await first.asked(call()))
    assert refusal(await second.begin()) == "rate_limited"
    assert on_record(house)[-1].fields["code"] == "rate_limited"
    sent(await other.asked(call(), claims=OTHER))
    given(await first.back(answered()))
    first.place.leave()
    sent(await Envoy(house, of_each=of_each).asked(call()))


async def test_a_body_that_is_still_to_come_has_a_place_of_its_callers(house: House) -> None:
    """By heads alone nobody takes the places of others."""
    of_each = Shares(octets=9, share=1)
    slow, second, other = (Envoy(house, of_each=of_each) for _ in range(3))
    assert (await slow.begin(*mirrored(call()))).HasField("request_headers")
    assert refusal(await second.begin()) == "rate_limited"
    assert on_record(house)[-1].fields["code"] == "rate_limited"
    assert (await other.begin(claims=OTHER)).HasField("request_headers")
    sent(await slow.body(call()))
    slow.place.leave()
    assert list(of_each.held.values()) == [1]


def large(octets: int) -> bytes:
    """Return a call of so many bytes at least, which is one text and soon read."""
    return message("tools/call", {"name": "search", "arguments": {"q": "x" * octets}})


async def test_large_calls_that_are_judged_share_a_room(house: House) -> None:
    """Half of it is for one principal; who asks for little needs none."""
    rooms, gate = Rooms(), Gate(house)
    half, little = large(UNDER_WAY // 4 + 1), large(FREE // 2)
    one, two, three, four = (Envoy(house, rooms=rooms) for _ in range(4))
    first = asyncio.ensure_future(one.asked(half))
    async with asyncio.timeout(60):
        await gate.came.wait()
    house.catalogs.first = None
    assert refusal(await two.asked(half)) == "rate_limited"
    assert on_record(house)[-1].fields["code"] == "rate_limited"
    sent(await three.asked(little))
    sent(await four.asked(half, claims=OTHER))
    gate.free.set()
    sent(await first)
    assert rooms.requests.taken == 0
    sent(await Envoy(house, rooms=rooms).asked(half))


async def test_large_answers_that_are_judged_share_a_room(house: House) -> None:
    rooms = Rooms()
    envoy = Envoy(house, rooms=rooms)
    sent(await envoy.asked(call()))
    rooms.answers.take(half := 4 * UNDER_WAY, envoy.place.whose)
    assert refusal(await envoy.back(answered(text("x" * FREE)))) == "rate_limited"
    rooms.answers.give(half, envoy.place.whose)
    again = Envoy(house, rooms=rooms)
    sent(await again.asked(call()))
    given(await again.back(answered(text("x" * FREE))))
    assert rooms.answers.taken == 0


async def test_large_calls_and_results_of_agentgateways_share_a_room(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rooms = Rooms()
    monkeypatch.setattr(doorman, "Rooms", lambda _: rooms)
    params = {"name": "search", "arguments": {"q": "x" * FREE}, "_meta": META}
    async with asked(house, AGENT, tmp_path) as channel:
        asks, tells = method(channel, "CheckRequest"), method(channel, "CheckResponse")
        token = (await asks(request(params=params), metadata=AUTH)).metadata["decision"]
        for room in (rooms.requests, rooms.answers):
            assert room.taken == 0
            room.take(4 * UNDER_WAY, said_by(AGENT, CLAIMED["iss"], CLAIMED["sub"]))
        full = ext_mcp_pb2.AuthorizationError.RESOURCE_EXHAUSTED
        assert (await asks(request(params=params), metadata=AUTH)).error.code == full
        told = await tells(response(token, text("x" * FREE)), metadata=AUTH)
        assert told.error.code == full


async def test_what_is_judged_is_not_kept_while_a_server_takes_its_time(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    answers = Exchange.answered

    async def noted(exchange: Exchange, force: Any, request: Any) -> Any:
        seen.append(request)
        return await answers(exchange, force, request)

    monkeypatch.setattr(Exchange, "answered", noted)
    async with asked(house, PLANE, tmp_path) as channel:
        stream = method(channel, "Process")(metadata=AUTH)
        body = pb.ProcessingRequest(request_body=pb.HttpBody(body=call(), end_of_stream=True))
        for part in (head(), body):
            await stream.write(part)
            await stream.read()
        async with asyncio.timeout(60):
            while sys.getrefcount(seen[-1]) > LISTED:
                await asyncio.sleep(0.001)
        stream.cancel()


async def test_a_no_keeps_nothing_of_what_it_is_about(house: House) -> None:
    envoy = Envoy(house)
    await envoy.asked(b"no JSON")
    decided = envoy.exchange._decided
    assert decided is not None
    assert isinstance(decided.outcome, Turned)
    error = decided.outcome.error
    assert (error.__traceback__, error.__context__, error.__cause__) == (None, None, None)


async def test_a_place_that_nobody_has_any_more_is_nobodys() -> None:
    """What goes on where nobody waits takes none for ever."""
    of_each = Shares(octets=9, share=9)
    place = Place(PLANE, of_each, nobody_counts)
    place.leave()
    place.take_for("plane:edge|alice")
    assert of_each.held == {}


async def test_agentgateways_callers_have_a_part_each(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.planes.server.MOST_AT_ONCE", 4)  # one each, of three of a plane's
    at_work, free = asyncio.Event(), asyncio.Event()

    async def waits() -> None:
        at_work.set()
        async with asyncio.timeout(60):
            await free.wait()

    house.catalogs.first = waits
    async with asked(house, AGENT, tmp_path) as channel:
        asks = method(channel, "CheckRequest")
        first = asks(request(), metadata=AUTH)
        waiting = asyncio.ensure_future(first.code())
        async with asyncio.timeout(60):
            await at_work.wait()
        second = await asks(request(), metadata=AUTH)
        assert second.error.code == ext_mcp_pb2.AuthorizationError.RESOURCE_EXHAUSTED
        house.catalogs.first = None
        assert (await asks(request(claims=OTHER), metadata=AUTH)).mutated
        free.set()
        await waiting
        assert (await asks(request(), metadata=AUTH)).mutated


async def test_agentgateways_results_have_the_places_of_whoever_called(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.planes.server.MOST_AT_ONCE", 4)  # one each, of three of a plane's
    at_work, free = asyncio.Event(), asyncio.Event()

    async def waits() -> None:
        at_work.set()
        async with asyncio.timeout(60):
            await free.wait()

    async with asked(house, AGENT, tmp_path) as channel:
        asks, tells = method(channel, "CheckRequest"), method(channel, "CheckResponse")
        tokens = [
            (await asks(request(claims=who), metadata=AUTH)).metadata["decision"]
            for who in (CLAIMED, OTHER)
        ]
        house.catalogs.first = waits
        first = asks(request(), metadata=AUTH)
        waiting = asyncio.ensure_future(first.code())
        async with asyncio.timeout(60):
            await at_work.wait()
        house.catalogs.first = None
        refused, given_out = [await tells(response(one), metadata=AUTH) for one in tokens]
        assert refused.error.code == ext_mcp_pb2.AuthorizationError.RESOURCE_EXHAUSTED
        assert on_record(house)[-2].fields["code"] == "rate_limited"
        assert given_out.mutated
        assert len(house.owed.kept) == 0
        free.set()
        await waiting


async def test_what_one_sends_waits_for_no_turn_of_anothers(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[str] = []

    async def noted(who: str, *work: Any) -> Any:
        taken.append(who)
        return await in_turn(who, *work)

    monkeypatch.setattr(http_calls, "in_turn", noted)
    for claims in (CLAIMED, OTHER):
        await Envoy(house).asked(call(), claims=claims)
    assert len(set(taken)) == 2
    assert all(who.startswith("plane:edge|") for who in taken)


async def test_one_of_few_places_is_left_to_each() -> None:
    assert Doorman(1)._of_each.fits("plane:edge|", 1)
