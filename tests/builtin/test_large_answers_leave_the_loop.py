"""What takes long for a large answer in front of all servers is done beside the event loop."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from functools import wraps
from inspect import isgeneratorfunction
from typing import Any

import pytest

from gateway import turns
from gateway.builtin import aggregate, call_streams, homeward
from gateway.domain.calls import Form, Permit, RawAnswer, ServerEvent
from gateway.domain.tools import Profile
from gateway.turns import Turns
from gateway.upstream import own_client, own_events, replies
from gateway.upstream.own_asking import Asking
from gateway.wire.jsontext import WireLimits
from gateway.wire.server_message import ServerMessage, read_server_message
from tests.builtin.front import NOTES, Site, sent, speaks
from tests.pipeline.house import ALICE, MAIL, Events, Seen, event, noting_whose, result, text

pytestmark = pytest.mark.usefixtures("patient")

CALL = {"name": "mail__search", "arguments": {"q": "x"}}
OLD: dict[str, Any] = {"profile": Profile.LEGACY, "session": "esr.1"}
READS: list[tuple[Any, str]] = [
    (homeward, "read_server_message"),
    (homeward, "result_for"),
    (homeward, "events_of"),
    (homeward, "data_event"),
    (aggregate, "read_server_message"),
    (aggregate, "events_of"),
    (aggregate, "_listed"),
    (call_streams, "events_of"),
    (own_client, "read_server_message"),
    (own_client, "_under"),
    (own_events, "data_event"),
    (replies, "read_server_message"),
    (Asking, "named"),
]


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> dict[str, set[int]]:
    """Note in which threads each of what reads or writes an answer ran."""
    noted: dict[str, set[int]] = {}

    def noting(name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def note() -> None:
            noted.setdefault(name, set()).add(threading.get_ident())

        @wraps(work)
        def done(*args: Any, **kwargs: Any) -> Any:
            note()
            return work(*args, **kwargs)

        @wraps(work)
        def yielded(*args: Any, **kwargs: Any) -> Iterator[Any]:
            for one in work(*args, **kwargs):
                note()
                yield one

        return yielded if isgeneratorfunction(work) else done

    for holder, name in READS:
        of = holder.__name__.rpartition(".")[2]
        monkeypatch.setattr(holder, name, noting(f"{of}.{name}", getattr(holder, name)))
    return noted


def links(many: int) -> dict[str, Any]:
    one = {"type": "resource_link", "name": "n", "uri": "file:///1"}
    return {"content": [one] * many, "structuredContent": {"a": [0] * many}}


def answering(size: int, *, streamed: bool) -> Callable[[Permit], RawAnswer]:
    def answer(permit: Permit) -> RawAnswer:
        if not streamed:
            return result(permit, links(size))
        final = {"jsonrpc": "2.0", "id": permit.call.message.id, "result": links(size)}
        return Events([event(final)]).answer()

    return answer


def last(seen: Seen) -> Any:
    """Return the answer, whole or at the end of a stream."""
    return (seen.messages or [json.loads(seen.bytes)])[-1]


async def site_of(profile: Profile) -> Site:
    return await Site(spoken=frozenset({profile})).furnish()


TOLD = {"homeward.read_server_message", "homeward.result_for", "Asking.named"}
WHOLE = TOLD | {"own_client.read_server_message"}
STREAMED = TOLD | {"replies.read_server_message", "own_events.data_event"}
STREAMED |= {"homeward.events_of", "homeward.data_event"}


@pytest.mark.parametrize(("size", "leaves"), [(1, False), (2_000, True)])
@pytest.mark.parametrize(
    "how",
    [
        (False, Profile.MODERN, WHOLE),
        (True, Profile.MODERN, STREAMED),
        (True, Profile.LEGACY, STREAMED | {"call_streams.events_of"}),
    ],
)
async def test_an_answer_is_read_and_told_beside_the_loop(
    threads: dict[str, set[int]], how: tuple[bool, Profile, set[str]], size: int, leaves: bool
) -> None:
    streamed, client, does = how
    site = await site_of(Profile.LEGACY)
    site.servers[MAIL].answer = speaks()
    of: dict[str, Any] = OLD if client is Profile.LEGACY else {}
    await site.ask("tools/call", CALL, **of)  # with the handshake
    threads.clear()
    site.servers[MAIL].answer = speaks(answering(size, streamed=streamed))
    told = last(await site.ask("tools/call", CALL, **of))
    assert len(told["result"]["content"]) == size
    assert threads.keys() == does
    assert {name for name, ran in threads.items() if threading.get_ident() not in ran} == (
        does if leaves else set()
    )
    await site.aclose()


@pytest.mark.parametrize(("size", "leaves"), [(1, False), (5_000, True)])
async def test_a_call_is_worded_for_its_server_beside_the_loop(
    monkeypatch: pytest.MonkeyPatch, size: int, leaves: bool
) -> None:
    ran: set[tuple[str, bool]] = set()

    def noting(name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def done(*args: Any) -> Any:
            ran.add((name, threading.get_ident() != loop))
            return work(*args)

        return done

    loop = threading.get_ident()
    works = "called_through", "with_params", "request_for"
    for name in works:
        monkeypatch.setattr(aggregate, name, noting(name, getattr(aggregate, name)))
    site = await site_of(Profile.LEGACY)
    site.servers[MAIL].answer = speaks()
    inner = {"name": "mail__search", "arguments": {"q": "x"}}
    through = {"name": "call_tool", "arguments": inner, "_meta": {"a": [0] * size}}
    assert (await site.ask("tools/call", through)).code is None
    assert ran == {(name, leaves) for name in works}
    await site.ask("resources/list", {"_meta": {"a": [0] * size}})
    assert ran == {(name, leaves) for name in works}
    await site.aclose()


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(("size", "leaves"), [(1, False), (5_000, True)])
async def test_lists_of_resources_are_read_and_put_together_beside_the_loop(
    threads: dict[str, set[int]], size: int, leaves: bool, streamed: bool
) -> None:
    site = await site_of(Profile.MODERN)
    listed = {"resources": [{"uri": f"mail://{number}", "name": "n"} for number in range(size)]}

    def answer(permit: Permit) -> RawAnswer:
        if not streamed:
            return result(permit, listed)
        final = {"jsonrpc": "2.0", "id": permit.call.message.id, "result": listed}
        return Events([event(final)]).answer()

    for server in (MAIL, NOTES):
        site.servers[server].answer = answer
    told = (await site.ask("resources/list")).json["result"]["resources"]
    assert len(told) == 2 * size
    does = {"homeward.read_server_message", "homeward.result_for"}
    does |= {"aggregate.read_server_message", "aggregate._listed"}
    if streamed:
        does |= {"aggregate.events_of", "homeward.events_of"}
    assert does <= threads.keys()
    assert all((threading.get_ident() not in threads[name]) is leaves for name in does)
    await site.aclose()


@pytest.mark.parametrize(("size", "leaves"), [(1, False), (5_000, True)])
async def test_questions_and_their_answers_are_given_on_beside_the_loop(
    threads: dict[str, set[int]], size: int, leaves: bool
) -> None:
    site = await site_of(Profile.LEGACY)
    asks = {"jsonrpc": "2.0", "id": "q", "method": "roots/list", "params": {"a": [0] * size}}

    def answer(permit: Permit) -> RawAnswer:
        final = {"jsonrpc": "2.0", "id": permit.call.message.id, "result": text("done")}
        return Events([event(asks), event(final)]).answer()

    site.servers[MAIL].answer = speaks(answer)
    reply = await site.aggregate.handle(site.call("tools/call", CALL, **OLD))
    asked = next(one for one in (await Seen.of(reply)).messages if one.get("method"))
    assert (threading.get_ident() not in threads["own_client._under"]) is leaves
    threads.clear()
    roots = {"roots": [{"uri": "file:///a", "n": number} for number in range(size)]}
    call = site.call("", roots, id_=asked["id"], form=Form.RESPONSE, **OLD)
    body = json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": roots}).encode()
    await site.aggregate.handle(replace(call, message=replace(call.message, body=body)))
    assert sent(site.servers[MAIL].saw[-1])["id"] == "q"
    assert (threading.get_ident() not in threads["own_client._under"]) is leaves
    await site.aclose()


async def test_whom_it_can_be_for_is_told_when_it_comes_and_not_once_it_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """While something large is read, the other client that it could be for may have gone."""
    site = await Site(spoken=frozenset({Profile.LEGACY}), apart=False).furnish()
    asks = {"jsonrpc": "2.0", "id": 0, "method": "roots/list", "params": {"a": [0] * 20_000}}
    log = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": [0] * 20_000}}
    reached, reading, leaving, gone = *(asyncio.Event() for _ in range(3)), threading.Event()

    async def events(permit: Permit) -> AsyncIterator[ServerEvent]:
        final = {"jsonrpc": "2.0", "id": permit.call.message.id, "result": text("done")}
        if reached.is_set():
            yield event(log)
            yield event(asks)
        else:
            reached.set()
            await leaving.wait()
        yield event(final)

    def answer(permit: Permit) -> RawAnswer:
        return replace(Events([]).answer(), body=events(permit))

    site.servers[MAIL].answer = speaks(answer)
    other = asyncio.create_task(site.ask("tools/call", CALL, **OLD, id_=1))
    await reached.wait()
    loop = asyncio.get_running_loop()

    def slow(data: bytes, limits: WireLimits) -> ServerMessage:
        if len(data) > 20_000:
            loop.call_soon_threadsafe(reading.set)
            gone.wait(60)
        return read_server_message(data, limits)

    monkeypatch.setattr(replies, "read_server_message", slow)
    call = site.ask("tools/call", CALL, **{**OLD, "session": "esr.2"}, id_=2)
    asking = asyncio.create_task(call)
    await reading.wait()
    leaving.set()
    await other
    gone.set()
    # The question comes later, when there is nobody else.
    assert [one.get("method") for one in (await asking).messages] == ["roots/list", None]
    await site.aclose()


whose = pytest.fixture(noting_whose)


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_large_answer_takes_no_turn_of_the_callers_address(
    whose: set[str], streamed: bool
) -> None:
    site = await site_of(Profile.LEGACY)
    site.servers[MAIL].answer = speaks(answering(2_000, streamed=streamed))
    await site.ask("tools/call", CALL)
    await site.ask("resources/list")
    assert ALICE.person in whose
    assert "127.0.0.1" not in whose
    await site.aclose()


@pytest.mark.parametrize("streamed", [False, True])
async def test_what_a_server_has_answered_is_told_however_much_waits(
    monkeypatch: pytest.MonkeyPatch, streamed: bool
) -> None:
    site = await site_of(Profile.LEGACY)
    answer = answering(2_000, streamed=streamed)

    def answered(permit: Permit) -> RawAnswer:
        monkeypatch.setattr(turns, "_TURNS", Turns(most_waiting=0))
        return answer(permit)

    site.servers[MAIL].answer = speaks(answered)
    told = last(await site.ask("tools/call", CALL))
    assert len(told["result"]["content"]) == 2_000
    await site.aclose()
