"""What counts as a failure of an upstream, and what goes through to one that is left alone."""

import asyncio
import json
import math
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from aiohttp import web

from gateway.domain.calls import Form, Permit, RawAnswer
from gateway.domain.tools import Profile, UpstreamId
from gateway.errors import (
    GatewayError,
    LimitExceeded,
    UpstreamBroke,
    UpstreamFailed,
    UpstreamResting,
    is_nothing_done,
)
from gateway.ports import Upstream
from gateway.upstream import replies
from gateway.upstream.breaker import Breaker, Patience
from gateway.upstream.faults import Challenged
from gateway.upstream.guarded import GuardedUpstream
from gateway.upstream.http import HttpUpstream
from gateway.upstream.replies import discard
from gateway.upstream.settings import Limits, Timeouts, UpstreamSettings
from gateway.wire.jsontext import WireLimits
from gateway.wire.server_message import ServerMessage, read_server_message
from tests.servers.process import nobodys_port
from tests.servers.raw import (
    RawUpstream,
    Script,
    answers,
    answers_result,
    hangs,
    raw_upstream,
    resets,
    streams,
)
from tests.upstream.opened import opened
from tests.upstream.permits import permit_for

QUICK = Timeouts(connect_s=0.3, idle_s=0.3, hard_s=0.6)
NOTE = b'data: {"jsonrpc":"2.0","method":"notifications/message","params":{"data":"x"}}\n\n'
DONE = b'data: {"jsonrpc":"2.0","id":7,"result":{}}\n\n'
WELL = answers_result({"content": []})
REFUSED = json.dumps({"jsonrpc": "2.0", "id": 7, "error": {"code": -32603, "message": "no"}})


class Guarded:
    """An upstream that is left alone after one failure, for ever, and its breaker."""

    def __init__(self, upstream: Upstream, server: RawUpstream, failures: int) -> None:
        patience = Patience(failures=failures, rest_s=60)
        self.now = 0.0
        self.breaker = Breaker(
            UpstreamId("raw"), patience, clock=lambda: self.now, jitter=lambda: 0.0
        )
        self.upstream = GuardedUpstream(upstream, self.breaker, WireLimits())
        self.server = server

    async def asked(self, permit: Permit | None = None) -> RawAnswer:
        """Ask, read all that comes, and close it."""
        answer = await self.upstream.forward(permit or permit_for())
        if not isinstance(answer.body, bytes):
            try:
                async for _ in answer.body:
                    pass
            finally:
                await discard(answer)
        return answer

    async def trouble(self, permit: Permit | None = None) -> type[GatewayError] | None:
        try:
            await self.asked(permit)
        except GatewayError as error:
            return type(error)
        return None


@asynccontextmanager
async def guarded(script: Script, *, failures: int = 1, most: int = 1000) -> AsyncIterator[Guarded]:
    limits = Limits(result_bytes=most)
    async with opened(script, timeouts=QUICK, limits=limits) as (upstream, server):
        yield Guarded(upstream, server, failures)


FAILURES: dict[str, Script] = {
    "resets": resets,
    "hangs": hangs,
    "a page of an error": answers("<html>", status=502, media="text/html"),
    "status 500 with an error in it": answers(REFUSED, status=500),
    "a page": answers("<html>", media="text/html"),
    "nothing": answers("", media=None),
    "a stream that resets": streams(NOTE, then=resets),
    "a stream that hangs": streams(NOTE, then=hangs),
}
ANSWERS: dict[str, Script] = {
    "a result": WELL,
    "an error": answers(REFUSED),
    "a session is over": answers("", status=404, media=None),
    "a stream": streams(NOTE, DONE),
    "a response and a stream that breaks after it": streams(DONE),
}
NEITHER: dict[str, Script] = {
    "wants a credential": answers("", status=401, media=None),
    "too large": answers(b"x" * 2000),
    "a stream that ends before the response": streams(NOTE),
}


@pytest.mark.parametrize("script", FAILURES.values(), ids=FAILURES)
async def test_a_failure_counts_and_the_next_call_is_refused_unsent(script: Script) -> None:
    async with guarded(script) as at:
        await at.trouble()
        assert at.breaker.count() == 1
        seen = len(at.server.seen)
        assert await at.trouble() is UpstreamResting
        assert len(at.server.seen) == seen


async def test_no_connection_is_a_failure() -> None:
    settings = UpstreamSettings(
        server=UpstreamId("raw"), url=f"http://127.0.0.1:{nobodys_port()}/mcp", timeouts=QUICK
    )
    upstream = HttpUpstream(settings)
    async with raw_upstream(WELL) as server:
        at = Guarded(upstream, server, failures=1)
        assert await at.trouble() is UpstreamFailed
        assert await at.trouble() is UpstreamResting
    await upstream.aclose()


@pytest.mark.parametrize(("size", "leaves"), [(1, False), (5_000, True)])
async def test_whether_it_has_answered_is_read_beside_the_loop(
    monkeypatch: pytest.MonkeyPatch, size: int, leaves: bool
) -> None:
    ran = set[int]()

    def noting(data: bytes, limits: WireLimits) -> ServerMessage:
        ran.add(threading.get_ident())
        return read_server_message(data, limits)

    monkeypatch.setattr(replies, "read_server_message", noting)
    many = b",".join([b"0"] * size)
    done = b'data: {"jsonrpc":"2.0","id":7,"result":{"a":[%b]}}\n\n' % many
    async with guarded(resets, failures=2, most=20_000) as at:
        await at.trouble()
        at.server.script = streams(done)
        assert await at.trouble() is None
        assert at.breaker.count() == 0
    assert ran
    assert (threading.get_ident() not in ran) is leaves


@pytest.mark.parametrize("script", ANSWERS.values(), ids=ANSWERS)
async def test_whatever_it_answers_is_a_success(script: Script) -> None:
    async with guarded(resets, failures=2) as at:
        await at.trouble()
        at.server.script = script
        assert await at.trouble() is None
        assert at.breaker.count() == 0


@pytest.mark.parametrize("script", [WELL, streams(DONE)], ids=["whole", "streamed"])
@pytest.mark.parametrize("method", ["initialize", "ping", "tools/list", "resources/list"])
async def test_a_server_whose_calls_all_hang_may_well_answer_these(
    script: Script, method: str
) -> None:
    async with guarded(resets, failures=2) as at:
        await at.trouble()
        at.server.script = script
        assert await at.trouble(permit_for(method)) is None
        assert at.breaker.count() == 1
        at.server.script = resets
        await at.trouble()
        assert await at.trouble(permit_for(method)) is UpstreamResting
        at.now = 60
        at.server.script = script
        assert await at.trouble(permit_for(method)) is None
        assert at.breaker.is_open
        assert await at.trouble() is None
        assert not at.breaker.is_open


@pytest.mark.parametrize("script", NEITHER.values(), ids=NEITHER)
async def test_what_says_nothing_of_its_health_does_not_count(script: Script) -> None:
    async with guarded(resets, failures=2) as at:
        await at.trouble()
        at.server.script = script
        assert await at.trouble() in {None, LimitExceeded, Challenged}
        assert at.breaker.count() == 1


async def test_a_response_is_a_success_though_the_stream_does_not_end_behind_it() -> None:
    async with guarded(resets, failures=2) as at:
        await at.trouble()
        at.server.script = streams(NOTE, DONE, then=hangs)
        answer = await at.upstream.forward(permit_for())
        assert not isinstance(answer.body, bytes)
        assert [await anext(answer.body), await anext(answer.body)]
        await discard(answer)
        assert at.breaker.count() == 0


@pytest.mark.parametrize("script", [hangs, streams(NOTE, then=hangs)], ids=["whole", "streamed"])
async def test_a_caller_who_goes_away_says_nothing_of_it(script: Script) -> None:
    async with guarded(resets) as at:
        await at.trouble()
        at.now = math.inf
        at.server.script = script
        calling = asyncio.create_task(at.trouble())
        await at.server.until_seen(2)
        await asyncio.sleep(0.05)
        calling.cancel()
        await asyncio.wait([calling])
        assert at.breaker.count() == 1
        at.server.script = WELL  # and the next call finds out
        assert await at.trouble() is None


async def test_a_trial_that_goes_on_for_long_lets_others_try_once_it_has_said_something() -> None:
    async with guarded(resets) as at:
        await at.trouble()
        at.now = 60
        at.server.script = streams(NOTE, then=hangs)
        answer = await at.upstream.forward(permit_for())
        assert await at.trouble() is UpstreamResting
        assert not isinstance(answer.body, bytes)
        await anext(answer.body)
        at.server.script = WELL
        assert await at.trouble() is None
        assert at.breaker.count() == 0
        await discard(answer)


FORMS = {
    "what listens in a session": permit_for("GET", form=Form.STREAM, profile=Profile.LEGACY),
    "what listens": permit_for("subscriptions/listen"),
    "a notification": permit_for("notifications/cancelled", form=Form.NOTIFICATION),
    "an answer to a question": permit_for("", form=Form.RESPONSE, profile=Profile.LEGACY),
    "the end of a session": permit_for("DELETE", form=Form.END, profile=Profile.LEGACY),
}


@pytest.mark.parametrize("permit", FORMS.values(), ids=FORMS)
async def test_what_is_no_call_is_neither_counted_nor_kept_off(permit: Permit) -> None:
    async with guarded(resets, failures=2) as at:
        for _ in range(2):
            assert await at.trouble(permit) is UpstreamFailed
        assert at.breaker.count() == 0
        for _ in range(2):
            await at.trouble()
        assert await at.trouble() is UpstreamResting
        seen = len(at.server.seen)
        at.server.script = answers("", status=202, media=None)
        assert await at.trouble(permit) is None
        assert len(at.server.seen) == seen + 1
        assert at.breaker.count() == 2


@pytest.mark.parametrize(("piece", "count"), [(NOTE, 1), (DONE, 0)])
async def test_a_response_on_a_stream_that_is_taken_up_again_is_a_success(
    piece: bytes, count: int
) -> None:
    async with guarded(resets, failures=2) as at:
        await at.trouble()
        at.server.script = streams(piece, then=resets)
        headers = (("accept", "text/event-stream"), ("last-event-id", "1"))
        get = permit_for("GET", form=Form.STREAM, profile=Profile.LEGACY, headers=headers)
        answer = await at.upstream.forward(get)
        assert not isinstance(answer.body, bytes)
        await anext(answer.body)
        await discard(answer)
        assert at.breaker.count() == count
        assert await at.trouble(get) in {None, UpstreamFailed, UpstreamBroke}
        assert at.breaker.count() == count


async def test_a_no_in_a_clients_place_goes_through() -> None:
    async with guarded(resets) as at:
        await at.trouble()
        at.server.script = answers("", status=202, media=None)
        await at.upstream.reject(permit_for(profile=Profile.LEGACY, session="s"), b"{}")
        assert at.server.seen[-1].body == b"{}"


def of(person: str, permit: Permit, *, client: str = "c") -> Permit:
    who = replace(permit.principal, subject=person, client_id=client)
    return replace(permit, principal=who)


def slow_for(what: str) -> tuple[Script, asyncio.Event]:
    """Answer what names `what` only once it is said, and all others at once."""
    go_on = asyncio.Event()

    async def script(request: web.Request) -> web.StreamResponse:
        if what in await request.text():
            await go_on.wait()
        return await WELL(request)

    return script, go_on


async def test_nobody_takes_all_the_places_at_a_server() -> None:
    script, go_on = slow_for("slow")
    slow = permit_for(params={"name": "slow"})
    async with opened(script, limits=Limits(connections=4)) as (upstream, server):
        asked = [
            asyncio.create_task(upstream.forward(of("mallory", slow, client=f"c{number}")))
            for number in range(8)
        ]
        await server.until_seen(2)
        async with asyncio.timeout(60):
            assert (await upstream.forward(of("alice", permit_for()))).status == 200
        assert len([one for one in server.seen if b"slow" in one.body]) == 2
        go_on.set()
        await asyncio.gather(*asked)


async def test_what_belongs_to_calls_under_way_waits_for_none_of_them() -> None:
    script, go_on = slow_for("slow")
    slow = permit_for(params={"name": "slow"}, profile=Profile.LEGACY)
    async with opened(script, limits=Limits(connections=4)) as (upstream, server):
        asked = [asyncio.create_task(upstream.forward(of("alice", slow))) for _ in range(4)]
        await server.until_seen(2)
        async with asyncio.timeout(4):
            for form in (Form.RESPONSE, Form.NOTIFICATION, Form.END):
                await upstream.forward(of("alice", permit_for(form=form, session="s")))
            await upstream.reject(of("alice", permit_for(session="s")), b"{}")
        assert len([one for one in server.seen if b"slow" in one.body]) == 2
        assert len(server.seen) == 6
        go_on.set()
        await asyncio.gather(*asked)


async def test_a_wait_for_a_place_is_no_failure_of_the_server() -> None:
    script, go_on = slow_for("slow")
    slow, limits = permit_for(params={"name": "slow"}), Limits(connections=2)
    timeouts = Timeouts(connect_s=2.0)
    async with opened(script, timeouts=timeouts, limits=limits) as (upstream, server):
        at = Guarded(upstream, server, failures=1)
        first = [asyncio.create_task(at.asked(of(who, slow))) for who in ("mallory", "trudy")]
        await server.until_seen(2)
        with pytest.raises(UpstreamFailed) as raised:
            await at.asked(of("alice", permit_for()))
        assert (at.breaker.count(), len(server.seen)) == (0, 2)
        assert is_nothing_done(raised.value)
        go_on.set()
        await asyncio.gather(*first)


async def test_a_broken_server_harms_no_other() -> None:
    async with guarded(resets) as broken, guarded(WELL) as well:
        await broken.trouble()
        assert await broken.trouble() is UpstreamResting
        assert await well.trouble() is None


async def test_a_request_of_the_stateless_revision_is_guarded_as_well() -> None:
    async with guarded(resets) as at:
        await at.trouble(permit_for(profile=Profile.LEGACY, session="s"))
        assert await at.trouble(permit_for(profile=Profile.MODERN)) is UpstreamResting


async def test_an_event_that_is_no_message_is_no_answer() -> None:
    async with guarded(resets, failures=2) as at:
        await at.trouble()
        at.server.script = streams(b"data: <html>\n\n")
        assert await at.trouble() is None
        assert at.breaker.count() == 1
