"""Requests that come in pieces of any size, one behind the other, are the requests that were sent."""

import asyncio
import random
from typing import Any

from gateway.web.bounds import Bounds
from gateway.web.connections import Connection, Listener
from gateway.web.scopes import TARGET
from tests.http1.test_asked_as_others_do import damaged, made, ours

_TRIES = 300


class Below(asyncio.Transport):
    """Takes everything, and knows whether it is read on."""

    def __init__(self) -> None:
        super().__init__()
        self.said = b""
        self.is_closed = self.is_stopped = False

    def write(self, data: Any) -> None:
        self.said += data

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    abort = close

    def can_write_eof(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        self.is_stopped = True

    def resume_reading(self) -> None:
        self.is_stopped = False


class Site:
    def __init__(self) -> None:
        self.read: list[tuple[str, bytes, list[tuple[str, str]], bytes]] = []

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        body = b""
        while (message := await receive())["type"] == "http.request":
            body += message["body"]
            if not message["more_body"]:
                break
        else:
            return
        fields = [(name.decode(), text.decode("latin-1")) for name, text in scope["headers"]]
        self.read.append((scope["method"], scope["extensions"][TARGET]["sent"], fields, body))
        fields_back = [(b"content-length", b"0")]
        await send({"type": "http.response.start", "status": 200, "headers": fields_back})
        await send({"type": "http.response.body"})


async def served(data: bytes, dice: random.Random) -> tuple[Site, Below]:
    """Hand `data` over in pieces, each as the connection is ready for it."""
    site, below, tasks = Site(), Below(), set[asyncio.Task[None]]()
    connection = Connection(Listener(Bounds(connections=1)), site.app, beside=set(), tasks=tasks)
    connection.connection_made(below)
    while data and not below.is_closed:
        size = dice.choice([1, 3, 20, 1000])
        if not below.is_stopped:
            connection.data_received(data[:size])
            data = data[size:]
        if dice.randrange(2) or below.is_stopped:
            await asyncio.sleep(0)
    for _ in range(50):
        await asyncio.sleep(0)
    connection.connection_lost(None)
    await asyncio.gather(*tasks)
    return site, below


async def test_however_they_are_cut_requests_are_what_was_sent():
    dice = random.Random(4)
    for number in range(_TRIES):
        data = b"".join(made(dice) for _ in range(dice.randrange(1, 5)))
        if number % 3 == 0:
            data = damaged(dice, data)
        asked, is_refused = ours(data)
        keeps = next((n for n, one in enumerate(asked) if ends(one)), len(asked))
        asked = asked[: keeps + 1]
        site, below = await served(data, dice)
        sent = [(one.method, one.target, list(one.fields), one.content) for one in asked]
        assert site.read == sent, data
        assert below.is_closed is (is_refused or keeps < len(asked)), data
        assert below.said.count(b"HTTP/1.1 200") == len(asked), data


def ends(request: Any) -> bool:
    """Whether a request is its connection's last, as it says."""
    options = [text for name, text in request.fields if name == "connection"]
    return any("close" in text.lower() for text in options)
