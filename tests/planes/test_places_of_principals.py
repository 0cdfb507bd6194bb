"""Of the places that a plane has, whoever calls by it has a part, and no more."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gateway.domain.shares import Shares
from gateway.planes import http_calls
from gateway.planes.doorman import Doorman, Place
from gateway.planes.stubs import ext_mcp_pb2
from gateway.turns import in_turn
from tests.pipeline.house import House
from tests.planes.asking import (
    CLAIMED,
    PLANE,
    Envoy,
    answered,
    call,
    given,
    nobody_counts,
    on_record,
    opened_house,
    refusal,
    sent,
)
from tests.planes.test_grpc_listener import AGENT, AUTH, asked, method, request, response

house = pytest.fixture(opened_house)
OTHER = {**CLAIMED, "sub": "bob"}


async def test_who_has_all_their_places_leaves_those_of_others(house: House) -> None:
    of_each = Shares(octets=9, share=1)
    first, second, other = (Envoy(house, of_each=of_each) for _ in range(3))
    sent(await first.asked(call()))
    assert refusal(await second.asked(call())) == "rate_limited"
    assert on_record(house)[-1].fields["code"] == "rate_limited"
    sent(await other.asked(call(), claims=OTHER))
    given(await first.back(answered()))
    first.place.leave()
    sent(await Envoy(house, of_each=of_each).asked(call()))


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
