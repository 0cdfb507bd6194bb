"""What a server shows to connected people alone is looked at in the name of whoever calls."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from aiohttp import web

from gateway.domain.identity import Principal
from gateway.domain.tools import Kind, Profile
from gateway.errors import CredentialRequired, UpstreamFailed
from gateway.upstream import personal
from gateway.upstream.breaker import Breaker, Patience
from gateway.upstream.crawler import Crawler, SentElsewhere
from gateway.upstream.personal import People
from tests.servers.raw import RawUpstream, Script
from tests.upstream.permits import WHERE, Connected, permit_for
from tests.upstream.sinks import Catalog
from tests.upstream.speaking import (
    MODERN_RESULT,
    RAW,
    crawling,
    lists_read,
    modern,
    rpc_error,
    tool,
)


def named(user_id: str) -> Principal:
    return replace(permit_for().principal, user_id=user_id, subject=user_id)


EMMA, OMAR, NOBODY = named("u_emma"), named("u_omar"), named("")


class Shown:
    """Shows each person what a test says, and a challenge to everybody else."""

    def __init__(self, **names: list[str]) -> None:
        self.names = names

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        message = json.loads(await request.read())
        names = self.names.get(request.headers.get("authorization", "").removeprefix("Bearer "))
        if names is None:
            return web.Response(status=401, headers={"WWW-Authenticate": "Bearer"})
        if message["method"] == "initialize":
            return rpc_error(message["id"], -32601, status=404)
        result = {**MODERN_RESULT, "tools": [tool(name) for name in names]}
        return web.json_response({"jsonrpc": "2.0", "id": message["id"], "result": result})


class Moved:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Moved:
    return Moved()


@asynccontextmanager
async def looking(
    script: Script, clock: Moved, **about: object
) -> AsyncIterator[tuple[Crawler, Catalog, RawUpstream]]:
    people = People(Connected())
    async with crawling(
        script, settings={"per_person": True}, monotonic=clock, people=people, **about
    ) as found:
        yield found


async def tools_of(crawler: Crawler, who: Principal) -> None:
    await crawler.refresh(RAW, Profile.MODERN, Kind.TOOL, who)


async def test_what_a_person_is_shown_is_compared_before_their_call(clock: Moved) -> None:
    script = Shown(u_emma=["a"])
    async with looking(script, clock, fresh_s=60) as (crawler, seen, server):
        await crawler.crawl(RAW)
        assert seen.times == 0
        await tools_of(crawler, EMMA)
        assert seen.digests(Profile.MODERN).keys() == {"a"}
        script.names["u_emma"] = ["a", "evil"]
        clock.now += 59.9
        await tools_of(crawler, EMMA)
        assert lists_read(server) == 1
        clock.now += 0.2
        await tools_of(crawler, EMMA)
        assert seen.digests(Profile.MODERN).keys() == {"a", "evil"}


async def test_what_everybody_is_shown_says_nothing_of_what_a_person_is(clock: Moved) -> None:
    script = Shown(u_emma=["evil"])
    script.names[""] = ["a"]
    async with looking(script, clock) as (crawler, seen, _):
        await crawler.crawl(RAW)
        assert seen.digests(Profile.MODERN).keys() == {"a"}
        await tools_of(crawler, EMMA)
        assert seen.digests(Profile.MODERN).keys() == {"evil"}


async def test_what_one_person_is_shown_that_is_not_in_force_is_told_of_them_alone(
    clock: Moved,
) -> None:
    async with looking(Shown(u_emma=["a"], u_omar=["evil"]), clock) as (crawler, seen, _):
        seen.apart = {"a"}
        assert set(await crawler.refresh(RAW, Profile.MODERN, Kind.TOOL, OMAR)) == {"a"}
        seen.apart = ()
        for who, apart in ((EMMA, set()), (OMAR, {"a"})):
            assert set(await crawler.refresh(RAW, Profile.MODERN, Kind.TOOL, who)) == apart


async def test_one_persons_list_says_nothing_of_anothers(clock: Moved) -> None:
    async with looking(Shown(u_emma=["a"], u_omar=["evil"]), clock) as (crawler, seen, _):
        await tools_of(crawler, EMMA)
        await tools_of(crawler, OMAR)
        assert seen.digests(Profile.MODERN).keys() == {"evil"}


async def test_whoever_is_not_connected_has_no_list_and_is_not_kept_waiting(clock: Moved) -> None:
    async with looking(Shown(), clock) as (crawler, seen, server):
        await tools_of(crawler, NOBODY)
        assert (seen.times, server.seen) == (0, [])


async def test_whoever_sends_elsewhere_may_have_what_nobody_here_has(clock: Moved) -> None:
    async with looking(Shown(u_emma=["a"]), clock) as (crawler, seen, _):
        elsewhere = SentElsewhere(crawler)
        await crawler.crawl(RAW)  # which sees nothing, and that is no look at a person's list
        with pytest.raises(CredentialRequired) as required:
            await elsewhere.refresh(RAW, Profile.MODERN, Kind.TOOL, NOBODY)
        assert required.value.url == WHERE
        await elsewhere.refresh(RAW, Profile.MODERN, Kind.TOOL, EMMA)
        assert seen.digests(Profile.MODERN).keys() == {"a"}


async def test_whose_credential_opens_no_list_has_to_connect_anew(clock: Moved) -> None:
    async with looking(Shown(), clock) as (crawler, seen, _):
        for _ in range(2):
            with pytest.raises(CredentialRequired) as required:
                await tools_of(crawler, EMMA)
            assert required.value.url == WHERE
        assert seen.times == 0


async def test_a_list_that_cannot_be_read_in_their_name_is_nothing_to_rely_on(clock: Moved) -> None:
    async with looking(modern({**MODERN_RESULT, "tools": "none"}), clock) as (crawler, _, _server):
        with pytest.raises(UpstreamFailed, match="list cannot be read"):
            await tools_of(crawler, EMMA)


async def test_a_credential_that_is_refused_harms_nobody_else(clock: Moved) -> None:
    patience = Patience(failures=1, rest_s=10)
    breaker = Breaker(RAW, patience, clock=clock, jitter=lambda: 0.0)
    script = Shown(u_omar=["a"])
    async with looking(script, clock, breakers={RAW: breaker}) as (crawler, seen, _):
        with pytest.raises(CredentialRequired):
            await tools_of(crawler, EMMA)
        assert breaker.count() == 0
        await tools_of(crawler, OMAR)
        assert seen.digests(Profile.MODERN).keys() == {"a"}


async def test_a_list_that_no_credential_of_theirs_opens_is_nothing_to_rely_on(
    clock: Moved, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def another(*_: str, **__: object) -> tuple[tuple[str, str]]:
        return (("authorization", "Bearer another"),)

    monkeypatch.setattr(Connected, "rejected", another)
    async with looking(Shown(), clock) as (crawler, _, _server):
        with pytest.raises(CredentialRequired):
            await tools_of(crawler, EMMA)


async def test_of_so_many_people_lists_are_known_and_no_more(
    clock: Moved, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(personal, "_MOST_PEOPLE", 1)
    script = Shown(u_emma=["a"], u_omar=["a"])
    async with looking(script, clock) as (crawler, _, server):
        for who in (EMMA, OMAR, OMAR, EMMA):
            await tools_of(crawler, who)
        assert lists_read(server) == 3


async def test_of_what_a_person_is_shown_nothing_is_kept_but_when(clock: Moved) -> None:
    people = People(Connected())
    async with crawling(
        Shown(u_emma=["a"]), settings={"per_person": True}, monotonic=clock, people=people
    ) as (crawler, _, _server):
        await tools_of(crawler, EMMA)
        known = await people.lists_of(EMMA, crawler.known[RAW])
        assert [read.pages for read in known.read.values()] == [()] * len(known.read)
        assert known.kept == {}
