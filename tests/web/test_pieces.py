"""What a client has not read is kept in pieces, and no more of it than it has not read."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

from gateway.web.pieces import Pieces

BODY = bytes(range(256)) * 4096


class Below:
    """A transport that takes so many bytes before it says that it is enough."""

    def __init__(self, room: int) -> None:
        self.taken = b""
        self.room = room
        self.closed = self.aborted = False
        self.enough: Callable[[], object] = lambda: None

    def write(self, data: bytes) -> None:
        self.taken += data
        if len(self.taken) >= self.room:
            self.enough()

    def get_write_buffer_size(self) -> int:
        return 10

    def get_extra_info(self, name: str) -> str:
        return f"{name} of the one below"

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.aborted = True


def pieces(room: int, kept: Callable[[], object] = lambda: None) -> tuple[Pieces, Any]:
    below = Below(room)
    found = Pieces(cast("asyncio.Transport", below), kept)
    below.enough = found.pause
    return found, below


def test_no_more_is_handed_on_than_is_taken_and_the_rest_is_told():
    told: list[int] = []
    found, below = pieces(200_000, lambda: told.append(found.get_write_buffer_size()))
    found.write(BODY)
    assert 200_000 <= len(below.taken) < 300_000
    left = len(BODY) - len(below.taken)
    assert told == [left + 10]
    found.write(b"and more")
    assert told == [left + 10, left + 18]


def test_what_is_kept_is_copied_out_of_what_was_written():
    found, _ = pieces(1)
    found.write(BODY)
    assert max(map(len, found._left)) <= 64 * 1024
    found.drop()
    assert found.get_write_buffer_size() == 10


def test_all_arrives_in_order_however_often_it_is_enough():
    found, below = pieces(1)
    for part in (b"head", BODY, b"", b"tail"):
        found.write(part)
    rounds = 0
    while not found.resume():
        rounds += 1
    assert (below.taken, rounds > 3) == (b"head" + BODY + b"tail", True)


def test_it_is_closed_once_everything_was_taken():
    found, below = pieces(1)
    found.write(BODY)
    found.close()
    assert (found.is_closing(), below.closed) == (True, False)
    below.room = 10**9
    assert found.resume()
    assert (below.taken, below.closed) == (BODY, True)


def test_nothing_is_left_of_a_connection_that_is_broken_off():
    found, below = pieces(1)
    found.write(BODY)
    found.abort()
    assert (found.get_write_buffer_size(), below.aborted) == (10, True)


def test_all_else_is_the_transport_below():
    found, _ = pieces(1)
    assert found.get_extra_info("peername") == "peername of the one below"
    assert not found.is_closing()
    found.close()
    assert found.is_closing()
