"""An exchange ends as its own, and leaves nothing to the next that is not the next one's."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from gateway.http1 import (
    BadMessage,
    ConnectFailed,
    ConnectTimedOut,
    Disconnected,
    NoPlace,
    Overdue,
    Silent,
    Waits,
    beside,
    common_head,
    request,
)
from tests.http1.peer import COMMON, Visit, echoes, eventually, hears, ok, peer, pool, sent
from tests.servers.process import nobodys_port

LARGE = 8 * 1024 * 1024


async def test_a_connection_serves_one_exchange_after_the_other():
    async with peer(echoes) as server, pool(server.port) as through:
        assert [await sent(through, b"%d" % n) for n in range(5)] == [b"0", b"1", b"2", b"3", b"4"]
    assert len(server.visits) == 1


async def test_as_many_are_under_way_as_there_may_be_connections():
    async with (
        peer(echoes) as server,
        pool(server.port, most=3) as through,
        asyncio.TaskGroup() as group,
    ):
        asked = [group.create_task(sent(through, b"%d" % n)) for n in range(40)]
        await asyncio.wait(asked)
    assert [one.result() for one in asked] == [b"%d" % n for n in range(40)]
    assert len(server.visits) == 3


async def test_a_request_is_written_as_it_was_decided_on():
    seen: list[bytes] = []

    async def script(visit: Visit) -> None:
        while True:
            seen.append(await visit.asked())
            await visit.say(ok(b""))

    async with peer(script) as server, pool(server.port) as through:
        fields = [("mcp-name", "caf\xe9")]
        for verb, body in (("POST", b"{}"), ("POST", b""), ("DELETE", b""), ("GET", b"")):
            (await through.send(verb, request(verb, COMMON, fields, body))).close()
    first = (
        b"POST /mcp HTTP/1.1\r\nhost: peer.test\r\nmcp-name: caf\xe9\r\ncontent-length: 2\r\n\r\n{}"
    )
    assert seen[0] == first
    assert [b"content-length: 0" in one for one in seen] == [False, True, False, False]


@pytest.mark.parametrize(
    "text", ["a\r\nx: y", "a\nb", "a\rb", "a\0b", "a\x7fb", "a\x0bb", "\u0141"]
)
def test_a_field_that_would_be_another_line_is_not_written(text: str):
    for fields in ([("x", text)], [(text, "x")]):
        with pytest.raises(ValueError, match="no line"):
            request("POST", COMMON, fields, b"")


@pytest.mark.parametrize("name", ["", " x", "x ", "x\t", "x y", "x:y", "caf\xe9", "x: y"])
def test_a_name_that_somebody_reads_as_another_is_not_written(name: str):
    with pytest.raises(ValueError, match="no line"):
        request("POST", COMMON, [(name, "z")], b"")


@pytest.mark.parametrize("target", ["", "mcp", "/a b", "/a\r\nx: y", "/\xe9", "/a\0", "*"])
def test_what_is_no_path_is_not_asked_for(target: str):
    with pytest.raises(ValueError, match="no path"):
        common_head(target, "peer.test", [])


SURPLUS = {
    "behind a length": ok(b"first") + ok(b"evil"),
    "behind chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n0\r\n\r\n"
    + ok(b"evil"),
    "one line's end": ok(b"first") + b"\r\n",
}


@pytest.mark.parametrize("answer", SURPLUS.values(), ids=SURPLUS)
async def test_what_comes_behind_an_answer_is_not_the_next_ones(answer: bytes):
    async def script(visit: Visit) -> None:
        await visit.asked()
        await visit.say(answer)
        await echoes(visit)

    async with peer(script) as server, pool(server.port) as through:
        assert await sent(through) == b"first"
        await server.until_left(1)
        assert await sent(through) == b"first"
    assert len(server.visits) == 2


async def test_what_comes_unasked_ends_the_connection():
    read = asyncio.Event()

    async def script(visit: Visit) -> None:
        await visit.say(ok((await visit.asked())[-2:]))
        await read.wait()
        await visit.say(ok(b"evil"))
        await visit.reader.read()

    async with peer(script) as server, pool(server.port) as through:
        for n in range(3):
            read.clear()
            assert await sent(through, b"%02d" % n) == b"%02d" % n
            read.set()
            await server.until_left(n + 1)


ENDINGS = {
    "says so": ok(b"{}", b"Connection: Keep-Alive, Close"),
    "knows no more": b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}",
}


@pytest.mark.parametrize("answer", ENDINGS.values(), ids=ENDINGS)
async def test_a_connection_is_not_used_again_where_the_server_ends_it(answer: bytes):
    async def script(visit: Visit) -> None:
        while True:
            await visit.asked()
            await visit.say(answer)

    async with peer(script) as server, pool(server.port) as through:
        assert [await sent(through), await sent(through)] == [b"{}", b"{}"]
        await server.until_left(2)


async def test_a_body_may_end_with_the_connection():
    async def script(visit: Visit) -> None:
        await visit.asked()
        await visit.say(b"HTTP/1.1 200 OK\r\n\r\nhalf")
        await visit.say(b" and half")
        visit.writer.close()

    async with peer(script) as server, pool(server.port) as through:
        assert [await sent(through), await sent(through)] == [b"half and half"] * 2


BROKEN = {
    "nothing": b"",
    "half a head": b"HTTP/1.1 200 OK\r\nContent",
    "no body": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
    "half a body": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab",
    "half a chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
    "no last chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n",
    "no end of trailers": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
}


@pytest.mark.parametrize("said", BROKEN.values(), ids=BROKEN)
async def test_half_an_answer_is_none(said: bytes):
    async def script(visit: Visit) -> None:
        await visit.asked()
        await visit.say(said)
        visit.writer.close()

    async with peer(script) as server, pool(server.port) as through:
        with pytest.raises(Disconnected):
            await sent(through)
    assert len(server.visits) == 1


ODD = {
    "no HTTP": b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    "a bad chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
    "another protocol": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n",
    "no end of heads": b"HTTP/1.1 100 Continue\r\n\r\n" * 9,
    "no end of a head": b"HTTP/1.1 200 OK\r\n" + b"a: bcdefgh\r\n" * 6_000,
    "no end of a line": b"HTTP/1.1 200 OK\r\na: " + b"b" * 70_000,
}


@pytest.mark.parametrize("said", ODD.values(), ids=ODD)
async def test_what_is_no_answer_ends_the_connection(said: bytes):
    async def script(visit: Visit) -> None:
        await visit.asked()
        await visit.say(said)
        await visit.reader.read()

    async with peer(script) as server, pool(server.port) as through:
        with pytest.raises(BadMessage):
            await sent(through)
        await server.until_left(1)


async def test_what_comes_before_the_answer_is_none():
    async def script(visit: Visit) -> None:
        await visit.asked()
        await visit.say(b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n")
        await visit.say(ok(b"{}"))
        await visit.reader.read()

    async with peer(script) as server, pool(server.port) as through:
        assert await sent(through) == b"{}"


async def test_a_kept_connection_that_proves_dead_costs_a_retry_where_nothing_happens_twice():
    async def script(visit: Visit) -> None:
        await visit.asked()
        await visit.say(ok(b"{}"))
        await visit.asked()  # and it ends

    async with peer(script) as server, pool(server.port) as through:
        assert await sent(through) == b"{}"
        assert await sent(through, b"", "GET") == b"{}"
        with pytest.raises(Disconnected):
            await sent(through)
        assert await sent(through, b"", "DELETE") == b"{}"
    assert len(server.visits) == 3


async def test_nothing_is_sent_again_over_a_new_connection_or_once_it_was_answered():
    async def nothing(visit: Visit) -> None:
        await visit.asked()

    async def half(visit: Visit) -> None:
        await visit.say(ok((await visit.asked())[:0]))
        await visit.asked()
        await visit.say(b"HTTP")

    async with peer(nothing) as server, pool(server.port) as through:
        with pytest.raises(Disconnected):
            await sent(through, b"", "GET")
    assert len(server.visits) == 1
    async with peer(half) as server, pool(server.port) as through:
        await sent(through)
        with pytest.raises(Disconnected):
            await sent(through, b"", "GET")
    assert len(server.visits) == 1


async def test_a_connection_that_the_server_has_left_is_not_used():
    async def script(visit: Visit) -> None:
        await visit.say(ok((await visit.asked())[-2:]))

    async with peer(script) as server, pool(server.port) as through:
        for n in range(5):
            assert await sent(through, b"%02d" % n) == b"%02d" % n
            await server.until_left(n + 1)
            await asyncio.sleep(0.02)


async def test_a_connection_that_nobody_uses_is_ended():
    async with peer(echoes) as server, pool(server.port, keep_s=0.1) as through:
        await sent(through)
        await server.until_left(1)
        assert await sent(through, b"again") == b"again"


async def test_who_waits_longest_for_a_connection_is_next():
    async with peer(echoes) as server, pool(server.port, most=1) as through:
        done: list[int] = []

        async def one(n: int) -> None:
            await sent(through)
            done.append(n)

        async with asyncio.TaskGroup() as group:
            for n in range(6):
                group.create_task(one(n))
    assert done == sorted(done)
    assert len(server.visits) == 1


async def test_those_who_wait_for_a_connection_take_turns():
    async with peer(echoes) as server, pool(server.port, most=1) as through:
        done: list[str] = []

        async def one(who: str) -> None:
            await sent(through, who=who)
            done.append(who)

        async with asyncio.TaskGroup() as group:
            for who in "aaaabc":
                group.create_task(one(who))
    assert "".join(done) == "aabcaa"


def answers_after(go_on: asyncio.Event) -> Callable[[Visit], Awaitable[None]]:
    async def script(visit: Visit) -> None:
        while True:
            await visit.asked()
            await go_on.wait()
            await visit.say(ok(b"{}"))

    return script


async def test_whoever_has_half_of_the_places_lets_others_pass():
    go_on = asyncio.Event()
    async with peer(answers_after(go_on)) as server, pool(server.port, most=4) as through:
        asked = [asyncio.create_task(sent(through, who=who)) for who in "aaadec"]
        await eventually(lambda: len(server.visits) == 4)
        assert through._taken_by == {"a": 2, "d": 1, "e": 1}
        asked[3].cancel()
        # `a` has waited for longer, and may have no more.
        await eventually(lambda: through._taken_by == {"a": 2, "e": 1, "c": 1})
        go_on.set()
        await asyncio.wait(asked)
        assert (through._free, through._taken_by, through._full) == (4, {}, set())


async def test_what_is_beside_requests_has_places_of_its_own():
    go_on = asyncio.Event()
    async with peer(answers_after(go_on)) as server, pool(server.port, most=4) as through:
        answering = beside("a")
        whose = ["a", "a", "a", answering, answering, "d"]
        asked = [asyncio.create_task(sent(through, who=who)) for who in whose]
        await eventually(lambda: len(server.visits) == 4)
        assert through._taken_by == {"a": 2, answering: 1, "d": 1}
        go_on.set()
        await asyncio.wait(asked)
        assert (through._free, through._taken_by, through._full) == (4, {}, set())


def test_the_gateway_itself_has_every_place_for_whatever_it_says():
    assert beside("") == ""


async def test_whoever_waits_is_told_at_once_that_it_is_closed():
    async with peer(hears) as server, pool(server.port, most=1) as through:
        asked = [asyncio.create_task(sent(through, who=who)) for who in "aab"]
        await eventually(lambda: len(server.visits) == 1)
        await through.aclose()
        ends = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(one) for one in ends] == [Disconnected, ConnectFailed, ConnectFailed]
        assert (through._free, through._taken_by) == (1, {})
        with pytest.raises(ConnectFailed):
            await sent(through)


async def test_a_place_is_given_back_whatever_becomes_of_it():
    waits = Waits(connect_s=0.2, idle_s=60.0, hard_s=60.0)
    heard = asyncio.Event()

    async def script(visit: Visit) -> None:
        await visit.asked()
        heard.set()
        await visit.reader.read()

    async with peer(script) as server, pool(server.port, most=1, waits=waits) as through:

        async def holds_the_place() -> asyncio.Task[bytes]:
            task = asyncio.create_task(sent(through))
            await eventually(lambda: heard.is_set() or task.done())
            if not heard.is_set():  # on a busy machine 0.2 s can be too few to connect
                with pytest.raises(ConnectTimedOut):
                    await task
                return await holds_the_place()
            heard.clear()
            return task

        for _ in range(3):
            first = await holds_the_place()
            second = asyncio.create_task(sent(through))
            with pytest.raises(NoPlace):
                await second
            third = asyncio.create_task(sent(through))
            await asyncio.sleep(0)
            third.cancel()
            first.cancel()
            await asyncio.wait([first, third])
            await eventually(lambda: server.left == len(server.visits))
            server.visits.clear()
            server.left = 0
    nobody = nobodys_port()
    async with pool(nobody, most=1, waits=waits) as through:
        for _ in range(3):
            with pytest.raises(ConnectFailed):
                await sent(through)


async def test_who_is_silent_or_takes_too_long_is_given_up():
    async def drips(visit: Visit) -> None:
        await visit.asked()
        await visit.say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            await visit.say(b"1\r\nx\r\n")
            await asyncio.sleep(0.02)

    async def begins(visit: Visit) -> None:
        await visit.asked()
        await visit.say(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab")
        await visit.reader.read()

    silent = Waits(connect_s=5.0, idle_s=0.2, hard_s=30.0)
    overdue = Waits(connect_s=5.0, idle_s=5.0, hard_s=2.0)
    cases = ((hears, silent, Silent), (begins, silent, Silent), (drips, overdue, Overdue))
    for script, waits, fault in cases:
        async with peer(script) as server, pool(server.port, waits=waits) as through:
            with pytest.raises(fault):
                await sent(through)
            await server.until_left(1)


async def test_who_listens_waits_as_long_as_nothing_comes():
    heard = asyncio.Event()

    async def script(visit: Visit) -> None:
        await visit.asked()
        await heard.wait()
        await visit.say(ok(b"{}"))

    waits = Waits(connect_s=5.0, idle_s=None, hard_s=30.0)
    async with peer(script) as server, pool(server.port, waits=waits) as through:
        waiting = asyncio.create_task(sent(through))
        await asyncio.wait([waiting], timeout=0.3)
        assert not waiting.done()
        heard.set()
        assert await waiting == b"{}"


async def test_who_is_cancelled_ends_the_connection():
    async with peer(hears) as server, pool(server.port) as through:
        waiting = asyncio.create_task(sent(through))
        await eventually(lambda: len(server.visits) == 1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await server.until_left(1)


async def test_a_large_request_is_written_as_the_server_reads():
    sizes: list[int] = []

    async def slow(visit: Visit) -> None:
        while True:
            sizes.append(len(await visit.asked()))
            await visit.say(ok(b"{}"))

    async with peer(slow) as server, pool(server.port) as through:
        for _ in range(2):
            assert await sent(through, b"x" * LARGE) == b"{}"
    assert [size > LARGE for size in sizes] == [True, True]
    assert len(server.visits) == 1


async def test_an_answer_before_a_large_request_is_read_ends_the_connection():
    async def early(visit: Visit) -> None:
        await visit.reader.readuntil(b"\r\n\r\n")
        await visit.say(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nbig")
        await asyncio.Event().wait()

    async with peer(early) as server, pool(server.port) as through:
        assert await sent(through, b"x" * 4 * LARGE) == b"big"
        assert await sent(through, b"x" * 4 * LARGE) == b"big"
    assert len(server.visits) == 2


async def test_what_has_not_come_whole_is_not_taken_for_whole():
    may_go_on = asyncio.Event()

    async def script(visit: Visit) -> None:
        await visit.asked()
        await visit.say(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nab")
        await may_go_on.wait()
        await visit.say(b"cd")
        await visit.asked()

    async with peer(script) as server, pool(server.port) as through:
        answer = await through.send("POST", request("POST", COMMON, [], b""))
        assert answer.whole(4) is None
        may_go_on.set()
        await eventually(lambda: answer.complete)
        assert answer.whole(3) is None
        assert answer.whole(4) == b"abcd"
        assert await answer.piece() == b""


async def test_a_slow_reader_has_the_server_wait():
    written = 0

    async def floods(visit: Visit) -> None:
        nonlocal written
        await visit.asked()
        await visit.say(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (8 * LARGE))
        for _ in range(8 * LARGE // 65536):
            await visit.say(b"x" * 65536)
            written += 65536
        await visit.reader.read()

    waits = Waits(connect_s=5.0, idle_s=1.5, hard_s=60.0)
    async with peer(floods) as server, pool(server.port, waits=waits) as through:
        response = await through.send("POST", request("POST", COMMON, [], b""))
        await asyncio.sleep(2.0)  # nothing is silence that we have asked for
        assert written < 4 * LARGE
        size = 0
        while piece := await response.piece():
            size += len(piece)
        assert size == 8 * LARGE


async def test_tiny_chunks_keep_nobody_waiting():
    async def tiny(visit: Visit) -> None:
        await visit.asked()
        await visit.say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        await visit.say(b"5\r\nabcde\r\n" * 100_000 + b"0\r\n\r\n")
        await echoes(visit)

    async with peer(tiny) as server, pool(server.port) as through:
        assert await sent(through) == b"abcde" * 100_000
        assert await sent(through, b"next") == b"next"
    assert len(server.visits) == 1


async def test_closing_ends_what_is_under_way_and_who_waits():
    async with peer(hears) as server, pool(server.port, most=1) as through:
        first = asyncio.create_task(sent(through))
        await eventually(lambda: len(server.visits) == 1)
        second = asyncio.create_task(sent(through))
        await asyncio.sleep(0)
        await through.aclose()
        for one, fault in ((first, Disconnected), (second, ConnectFailed)):
            with pytest.raises(fault):
                await one
        with pytest.raises(ConnectFailed):
            await sent(through)
        await server.until_left(1)
