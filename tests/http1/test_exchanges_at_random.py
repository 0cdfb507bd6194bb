"""Whatever servers and callers do, nobody gets another's answer, and every place comes back."""

import asyncio
import random
from contextlib import suppress

import pytest
import uvloop

from gateway.http1 import HttpFault, Pool
from tests.http1.peer import Visit, ok, peer, pool, sent

_PLACES, _CALLERS, _ROUNDS = 5, 20, 12
EVIL = ok(b"evil")


class Server:
    """Answers with what it was sent, or badly."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice

    async def __call__(self, visit: Visit) -> None:
        while True:
            body = (await visit.asked()).partition(b"\r\n\r\n")[2]
            if not await self._answered(visit, body):
                return

    async def _answered(self, visit: Visit, body: bytes) -> bool:
        """Answer; false at the end of the connection."""
        dice, whole = self._dice, ok(body)
        chunk = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
        chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n%b0\r\n\r\n" % chunk
        match dice.randrange(8):
            case 0:
                visit.writer.transport.abort()
                return False
            case 1:
                await visit.say(whole[: dice.randrange(len(whole))])
                return False
            case 2:
                await visit.say(whole + EVIL)
            case 3:
                step = max(7, len(whole) // 20)
                for at in range(0, len(whole), step):
                    await visit.say(whole[at : at + step])
                    await asyncio.sleep(0)
            case 4:
                await visit.say(b"HTTP/1.1 100 Continue\r\n\r\n" + whole)
            case 5:
                await visit.say(chunked)
            case 6:
                await visit.say(whole)
                visit.writer.close()
                return False
            case _:
                await visit.say(whole)
        return True


async def _play(seed: int) -> None:
    dice = random.Random(seed)
    answered: list[tuple[bytes, bytes]] = []

    async def call(through: Pool, number: int) -> None:
        body = b"%d" % number + b"x" * dice.choice([0, 0, 300, 70_000])
        verb = dice.choice(["POST", "POST", "GET", "DELETE"])
        with suppress(HttpFault):
            answered.append((body, await sent(through, body, verb)))

    async with peer(Server(dice)) as server, pool(server.port, most=_PLACES) as through:
        for begun in range(0, _ROUNDS * _CALLERS, _CALLERS):
            calls = [asyncio.create_task(call(through, begun + n)) for n in range(_CALLERS)]
            for _ in range(dice.randrange(12)):
                await asyncio.sleep(0)
                dice.choice(calls).cancel()
            async with asyncio.timeout(60):
                await asyncio.gather(*calls, return_exceptions=True)
            assert (through._free, through._lent) == (_PLACES, {})
    assert len(answered) > _ROUNDS
    assert [pair for pair in answered if pair[0] != pair[1]] == []


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_nobody_gets_anothers_answer_and_every_place_comes_back(run):
    for seed in range(2):
        run(_play(seed))
