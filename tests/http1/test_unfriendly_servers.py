"""A server that wants to keep something of ours, or to leave something there, does neither."""

import asyncio
import socket
import tracemalloc

import pytest

from gateway.http1 import ConnectFailed, Origin, Pool, Response, dial, request
from tests.http1.peer import (
    COMMON,
    HOST,
    SMALL,
    Dialled,
    Visit,
    eventually,
    hears,
    ok,
    patience,
    peer,
    pool,
    sent,
    until_over,
)

LARGE = 32 * 1024 * 1024


@pytest.mark.parametrize("unread", [ok(b"evil"), b""], ids=["an answer", "the end"])
async def test_what_lies_there_unread_is_not_the_next_ones(unread: bytes):
    loop = asyncio.get_running_loop()

    async def answers(body: bytes) -> socket.socket:
        visit, _ = await loop.sock_accept(listening)
        await loop.sock_recv(visit, 65536)
        await loop.sock_sendall(visit, ok(body))
        return visit

    with socket.create_server((HOST, 0)) as listening:
        listening.setblocking(False)
        async with pool(listening.getsockname()[1]) as through, asyncio.TaskGroup() as group:
            first, second = [group.create_task(answers(body)) for body in (b"first", b"second")]
            assert await sent(through) == b"first"
            with await first as visit:
                visit.send(unread)
                visit.shutdown(socket.SHUT_WR)
                # Before the loop has looked.
                assert await sent(through) == b"second"
            (await second).close()


async def test_who_takes_nothing_more_holds_no_connection():
    stuck = asyncio.Event()

    async def early(visit: Visit) -> None:
        await visit.reader.readuntil(b"\r\n\r\n")
        visit.reads_no_more()
        await stuck.wait()
        await visit.say(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n")
        await asyncio.Event().wait()

    async with peer(early) as server:
        dialled = Dialled(server.port)
        connection = await dialled()
        response = connection.exchange(request("POST", COMMON, [], b"x" * LARGE), patience())
        await eventually(lambda: connection._is_full)
        stuck.set()
        await until_over(response)
        await dialled.until_closed()
        assert response.complete


async def test_a_request_of_which_some_is_unsent_leaves_no_usable_connection():
    loop = asyncio.get_running_loop()
    with socket.create_server((HOST, 0)) as listening:
        listening.setblocking(False)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL)
        connection = await Dialled(listening.getsockname()[1])()
        response = connection.exchange(request("POST", COMMON, [], b"x" * 60_000), patience())
        visit, _ = await loop.sock_accept(listening)
        with visit:
            await loop.sock_sendall(visit, ok(b"early"))
            await until_over(response)
            assert (response.complete, connection.usable, connection._is_full) == (
                True,
                False,
                False,
            )
        connection.end()


async def test_a_head_may_come_byte_by_byte():
    async with peer(hears) as server:
        connection = await Dialled(server.port)()
        response = connection.exchange(request("POST", COMMON, [], b""), patience())
        for byte in b"HTTP/1.1 100 Continue\r\n\r\n" + ok(b"body"):
            connection.data_received(bytes([byte]))
        assert await response.piece() == b"body"
        connection.end()


async def test_tiny_pieces_take_no_more_than_their_size():
    response = Response(patience(), hold=lambda _: None, end=lambda: None)
    tracemalloc.start()
    try:
        for n in range(50_000):
            response.add(b"%02d" % (n % 100))
        assert tracemalloc.get_traced_memory()[0] < 4 * 100_000
    finally:
        tracemalloc.stop()
    response.finish()
    assert len(await response.piece()) == 100_000


def waiting(through: Pool) -> int:
    return sum(len(one) for whose in through._line._servers.values() for one in whose.values())


async def test_who_gave_up_waiting_is_forgotten():
    async with peer(hears) as server, pool(server.port, most=1) as through:
        first = asyncio.create_task(sent(through))
        await eventually(lambda: len(server.visits) == 1)
        others = [asyncio.create_task(sent(through)) for _ in range(20)]
        await eventually(lambda: waiting(through) == 20)
        for one in others[::2]:
            one.cancel()
        await asyncio.wait(others[::2])
        assert waiting(through) == 10
        first.cancel()
        await eventually(lambda: len(server.visits) == 2 and waiting(through) == 9)


async def test_a_name_without_an_address_is_a_fault():
    with pytest.raises(ConnectFailed):
        await dial(Origin(host="peer.test", port=1, is_tls=False), [])
